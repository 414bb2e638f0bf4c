//! Issuers of OAuth 2.1 access tokens: `[[issuer]]`.
//!
//! This server is a resource server (RFC 6749, section 1.1): it verifies access tokens, and issues none. A token is verified
//! with the keys of its issuer (`jwks`, RFC 7517), or by asking the issuer (`introspection`, RFC 7662).
//!
//! | claim | becomes |
//! |---|---|
//! | `principal-claim`, `sub` unless set | the principal `NAME/VALUE`, where `NAME` is that of the issuer in the config |
//! | each of `group-claims`, `groups` unless set | the groups `NAME/VALUE` |
//! | `scope`, or `scp` | the groups `NAME/scope:VALUE`, and the scopes that `scopes` and `operation-scopes` require |

mod introspection;
mod key_set;
mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::endpoint_url::{EndpointUrl, IdentifierUrl};
use super::error::{Diagnostic, quote};
use super::grants::CaBundle;
use super::principal::PrincipalName;
use super::reader::{FromNode, FromTable, Node, Schema, Table, documented};
use super::rule::Operation;

pub use self::introspection::Introspection;
pub use self::key_set::{Jwks, KeySet, KeySetError, VerificationKey};
pub use self::scope::{Scope, ScopeError};

/// The difference between the clocks of this machine and of an issuer that is tolerated. 10 s unless set; 0 s to 5 min.
pub type ClockSkew = BoundedDuration<0, { 10 * SECOND }, { 5 * MINUTE }>;

documented! {
    /// An issuer of access tokens: `[[issuer]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Issuer {
        /// Its name in rules: its principals are `NAME/…`, and so are its groups. Unique.
        pub name: PrincipalName,
        /// Its issuer identifier, a URL that is exactly the claim `iss` of its tokens. Clients find it in the metadata of this server.
        pub issuer: EndpointUrl,
        /// Its public keys, a JSON Web Key Set: a URL, or a `file`. Either this or `introspection`.
        pub jwks: Option<Jwks>,
        /// Its introspection endpoint, for tokens that are not signed, or that it can revoke. Either this or `jwks`.
        pub introspection: Option<Introspection>,
        /// Audiences of tokens that are accepted in addition to `http.public-url`. None unless set.
        pub audiences: Vec<String>,
        /// The signature algorithms that are accepted. All asymmetric ones unless set.
        pub algorithms: BTreeSet<SignatureAlgorithm>,
        /// The claim with the name of the principal. `sub` unless set. With a leading slash it is a JSON Pointer.
        pub principal_claim: ClaimName,
        /// The claims with groups: a text or a list of texts each. `["groups"]` unless set. With a leading slash one is a JSON
        /// Pointer.
        pub group_claims: Vec<ClaimName>,
        /// The scopes that every request requires. None unless set.
        pub scopes: Vec<Scope>,
        /// The scopes that an operation requires in addition: `{ subscribe = ["mcp:subscribe"] }`. None unless set.
        pub operation_scopes: BTreeMap<Operation, Vec<Scope>>,
        /// Scopes that include others: `{ "mcp:all" = ["mcp:read", "mcp:subscribe"] }`. None unless set.
        pub scope_includes: BTreeMap<Scope, Vec<Scope>>,
        /// The difference between the clocks of this machine and of the issuer that is tolerated. 10 s unless set; 0 s to 5 min.
        pub clock_skew: ClockSkew,
        /// A PEM file of certificate authorities that are trusted for its URLs, in addition to those of this machine.
        pub ca: Option<CaBundle>,
    }
}

/// An asymmetric signature algorithm of JSON Web Tokens (RFC 7518, section 3.1; RFC 8037).
///
/// There are no symmetric ones: the key of one would be known to everybody who knows the public key of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SignatureAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl SignatureAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// Returns its name in a token and in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl FromNode for SignatureAlgorithm {
    const TYPE_NAME: &'static str = "a signature algorithm";

    fn example() -> String {
        "\"RS256\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(Self::ALL.map(Self::name))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if let Some(written @ ("HS256" | "HS384" | "HS512")) = node.value.as_str() {
            node.report_error(
                format!("{} is symmetric, and only asymmetric algorithms are accepted", quote(written)),
                "let the issuer sign its tokens with a key pair, such as `\"RS256\"` or `\"ES256\"`: whoever can verify a \
                 symmetric signature can make one",
            );
            return None;
        }
        node.one_of(&Self::ALL.map(|algorithm| (algorithm.name(), algorithm)))
    }
}

/// The name of a claim, or a JSON Pointer (RFC 6901) to it: `groups`, `/realm_access/roles`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName(String);

impl ClaimName {
    /// The claim with that name; with a leading slash, the one that a JSON Pointer leads to.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the value of the claim.
    pub fn find<'c>(&self, claims: &'c serde_json::Map<String, serde_json::Value>) -> Option<&'c serde_json::Value> {
        let Some(pointer) = self.0.strip_prefix('/') else { return claims.get(&self.0) };
        let (first, rest) = pointer.split_once('/').unwrap_or((pointer, ""));
        let value = claims.get(&first.replace("~1", "/").replace("~0", "~"))?;
        if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromNode for ClaimName {
    const TYPE_NAME: &'static str = "the name of a claim";

    fn example() -> String {
        "\"groups\"".into()
    }

    fn schema() -> Schema {
        Schema::string().with("minLength", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let name = node.string::<Self>()?;
        if name.is_empty() {
            node.report_error("the name of a claim is empty", "write one such as `sub`, or `/realm_access/roles`");
            return None;
        }
        Some(Self(name.to_owned()))
    }
}

impl Issuer {
    /// An issuer whose tokens are verified with those keys.
    pub fn new(name: PrincipalName, issuer: EndpointUrl, jwks: Jwks) -> Self {
        Self {
            name,
            issuer,
            jwks: Some(jwks),
            introspection: None,
            audiences: Vec::new(),
            algorithms: SignatureAlgorithm::ALL.into(),
            principal_claim: ClaimName::new("sub"),
            group_claims: vec![ClaimName::new("groups")],
            scopes: Vec::new(),
            operation_scopes: BTreeMap::new(),
            scope_includes: BTreeMap::new(),
            clock_skew: ClockSkew::default(),
            ca: None,
        }
    }

    /// Returns the scopes that a token needs for those operations: those of every request, and those of each operation. Sorted.
    pub fn required_scopes(&self, operations: &[Operation]) -> Vec<&Scope> {
        let of_operations = operations.iter().filter_map(|operation| self.operation_scopes.get(operation));
        let mut required: Vec<&Scope> = self.scopes.iter().chain(of_operations.flatten()).collect();
        required.sort();
        required.dedup();
        required
    }

    /// Returns the URLs that are requested to verify its tokens.
    pub fn urls(&self) -> impl Iterator<Item = &EndpointUrl> {
        let jwks = self.jwks.as_ref().and_then(Jwks::url);
        jwks.into_iter().chain(self.introspection.as_ref().map(|introspection| &introspection.url))
    }
}

impl FromTable for Issuer {
    const TYPE_NAME: &'static str = "an issuer of access tokens";

    fn example() -> String {
        "{ name = \"corp\", issuer = \"https://login.example.com\", jwks = \"https://login.example.com/jwks\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required::<PrincipalName>("name");
        let issuer = table.required::<IdentifierUrl>("issuer");
        let (has_keys, has_introspection) = (table.has("jwks"), table.has("introspection"));
        let jwks = table.optional("jwks");
        let introspection = table.optional("introspection");
        let audiences = table.optional::<Vec<Audience>>("audiences").unwrap_or_default();
        let Algorithms(algorithms) = table.or_default("algorithms");
        let principal_claim = table.optional("principal-claim").unwrap_or_else(|| ClaimName::new("sub"));
        let group_claims = table.optional("group-claims").unwrap_or_else(|| vec![ClaimName::new("groups")]);
        let scopes = table.or_default("scopes");
        let operation_scopes = table.optional("operation-scopes").map(|OperationScopes(all)| all).unwrap_or_default();
        let scope_includes = table.optional("scope-includes").map(|ScopeIncludes(all)| all).unwrap_or_default();
        let clock_skew = table.or_default("clock-skew");
        let ca = table.optional("ca");
        if has_keys == has_introspection && !table.has_misspelling_of("jwks") {
            let found = if has_keys { "both `jwks` and `introspection`" } else { "neither `jwks` nor `introspection`" };
            let help = "write `jwks = \"https://…\"` for signed tokens, whose keys it publishes there (`jwks_uri` in its metadata), \
                        or `introspection = { url, client-id, client-secret }` to ask it about each token";
            table.report_error(format!("`{}` has {found}", table.path()), help);
        }
        Some(Self {
            name: name?,
            issuer: issuer?.0,
            jwks,
            introspection,
            audiences: audiences.into_iter().map(|Audience(audience)| audience).collect(),
            algorithms,
            principal_claim,
            group_claims,
            scopes,
            operation_scopes,
            scope_includes,
            clock_skew,
            ca,
        })
    }
}

/// An audience: any text that is not empty.
struct Audience(String);

impl FromNode for Audience {
    const TYPE_NAME: &'static str = "an audience";

    fn example() -> String {
        "\"https://mcp.example.com/mcp\"".into()
    }

    fn schema() -> Schema {
        Schema::string().with("minLength", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let audience = node.string::<Self>()?;
        if audience.is_empty() {
            node.report_error("an audience is empty", "write the claim `aud` of the tokens");
            return None;
        }
        Some(Self(audience.to_owned()))
    }
}

struct Algorithms(BTreeSet<SignatureAlgorithm>);

impl Default for Algorithms {
    fn default() -> Self {
        Self(SignatureAlgorithm::ALL.into())
    }
}

impl FromNode for Algorithms {
    const TYPE_NAME: &'static str = "a list of signature algorithms";

    fn example() -> String {
        Vec::<SignatureAlgorithm>::example()
    }

    fn schema() -> Schema {
        Schema::list(SignatureAlgorithm::schema()).with("minItems", 1)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let all = Vec::from_node(node)?;
        if node.value.as_array().is_some_and(|items| items.is_empty()) {
            node.report_error(
                "no signature algorithm is accepted",
                format!("write {}", node.assignment_hint(&Self::example())),
            );
        }
        Some(Self(all.into_iter().collect()))
    }
}

/// The scopes of operations: a table of lists.
struct OperationScopes(BTreeMap<Operation, Vec<Scope>>);

impl FromNode for OperationScopes {
    const TYPE_NAME: &'static str = "a table of operations with their scopes";

    fn example() -> String {
        "{ subscribe = [\"mcp:subscribe\"] }".into()
    }

    fn schema() -> Schema {
        Schema::map(Schema::one_of_names(Operation::ALL.map(Operation::name)), Vec::<Scope>::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let read = |entry: &Node<'_>| {
            let operation = Operation::ALL.into_iter().find(|operation| operation.name() == entry.key);
            if operation.is_none() {
                let names = Operation::ALL.map(Operation::name);
                let help = format!("the operations are {}", super::suggest::join_quoted(names));
                let problem = Diagnostic::new(format!("{} is not an operation", quote(entry.key)), help);
                entry.context.report(super::suggest::did_you_mean(
                    problem.at(entry.key_span.clone()),
                    entry.key,
                    names,
                ));
            }
            Some((operation?, Vec::from_node(entry)?))
        };
        Some(Self(node.entries::<Self>()?.iter().filter_map(read).collect()))
    }
}

/// Scopes that include others: a table of lists.
struct ScopeIncludes(BTreeMap<Scope, Vec<Scope>>);

impl FromNode for ScopeIncludes {
    const TYPE_NAME: &'static str = "a table of scopes with those that they include";

    fn example() -> String {
        "{ \"mcp:all\" = [\"mcp:read\", \"mcp:subscribe\"] }".into()
    }

    fn schema() -> Schema {
        Schema::map(Scope::schema(), Vec::<Scope>::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let read = |entry: &Node<'_>| {
            let scope = entry.key.parse::<Scope>();
            if let Err(error) = &scope {
                use super::error::Suggest as _;
                let problem = Diagnostic::new(error.to_string(), error.suggestion(entry.key));
                entry.context.report(problem.at(entry.key_span.clone()));
            }
            Some((scope.ok()?, Vec::from_node(entry)?))
        };
        Some(Self(node.entries::<Self>()?.iter().filter_map(read).collect()))
    }
}

/// The issuers of a config: unique names and identifiers, and at most one that is asked about tokens that name no issuer.
#[derive(Default)]
pub(super) struct Issuers(pub(super) Vec<Issuer>);

impl FromNode for Issuers {
    const TYPE_NAME: &'static str = "a list of issuers";

    fn example() -> String {
        format!("[{}]", <Issuer as FromNode>::example())
    }

    fn schema() -> Schema {
        Schema::list(Issuer::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let items = node.items::<Issuer>()?;
        super::principal::report_repeated_names(&items, "two issuers have the name");
        node.context.declared.borrow_mut().issuers.extend(super::principal::declared_names(&items));
        let issuers: Vec<_> = items.iter().map(|item| (item, Issuer::from_node(item))).collect();
        let valid: Vec<_> = issuers.iter().filter_map(|(item, issuer)| Some((*item, issuer.as_ref()?))).collect();
        for (index, (item, issuer)) in valid.iter().enumerate() {
            let earlier = valid.get(..index).unwrap_or_default();
            if let Some((other, _)) = earlier.iter().find(|(_, other)| other.issuer == issuer.issuer) {
                let message = format!("two issuers are {}", quote(issuer.issuer.as_str()));
                let problem = Diagnostic::new(message, "declare an issuer once").at(item.entry_span("issuer"));
                item.context.report(problem.secondary(other.entry_span("issuer"), "the other one"));
            }
            let has_introspection = |(_, other): &&(&Node<'_>, &Issuer)| other.introspection.is_some();
            if let Some((other, _)) = earlier.iter().find(has_introspection).filter(|_| issuer.introspection.is_some())
            {
                let help = "use `jwks` for all but one: a token that is not signed does not say who issued it, and is shown to \
                            nobody but its issuer";
                let problem =
                    Diagnostic::new("two issuers have `introspection`", help).at(item.entry_span("introspection"));
                item.context.report(problem.secondary(other.entry_span("introspection"), "the other one"));
            }
        }
        Some(Self(issuers.into_iter().filter_map(|(_, issuer)| issuer).collect()))
    }
}
