//! Issuers of OAuth 2.1 access tokens: `[[issuer]]`.
//!
//! This server is a resource server (RFC 6749, section 1.1): it verifies access tokens, and issues none. A token is
//! verified with the keys of its issuer (`jwks`, RFC 7517), or through token introspection at the issuer
//! (`introspection`, RFC 7662).
//!
//! | claim | becomes |
//! |---|---|
//! | `principal-claim`, `sub` unless set | the principal `NAME/VALUE`, where `NAME` is the name of the issuer in the config |
//! | each of `group-claims`, `groups` unless set | the groups `NAME/VALUE` |
//! | `scope`, or `scp` | the groups `NAME/scope:VALUE`, and the scopes that `scopes` and `operation-scopes` require |

mod key_set;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::declare::{checked_text, list_type, named_enum, non_empty, table};
use super::diagnostic::{Diagnostic, quote};
use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::endpoint_url::{EndpointUrl, IdentifierUrl};
use super::grants::CaBundle;
use super::principal::{PrincipalName, declared_names, unique_names};
use super::reader::{FromNode, FromTable, Node, Schema, Table};
use super::rule::Operation;
use super::secret::{Secret, SecretText};
use super::suggest::{did_you_mean, join_quoted};

pub use self::key_set::{Jwks, KeySet, KeySetError, VerificationKey};

/// The tolerated difference between the clocks of this machine and of an issuer. 10 s unless set; 0 s to 5 min.
pub type ClockSkew = BoundedDuration<0, { 10 * SECOND }, { 5 * MINUTE }>;

table! {
    /// An issuer of access tokens: `[[issuer]]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Issuer {
        /// The name of the issuer in rules: its principals and groups are `NAME/…`. Unique among issuers and
        /// `client-ca`.
        #[required]
        pub name: PrincipalName,
        /// The issuer identifier: a URL, exactly as the claim `iss` of the issuer's tokens. Clients find it in the
        /// metadata of this server.
        #[required]
        #[read(IdentifierUrl)]
        pub issuer: EndpointUrl,
        /// The public keys of the issuer, a JSON Web Key Set: a URL, or a `file`. Either `jwks` or `introspection` is
        /// required.
        pub jwks: Option<Jwks>,
        /// The introspection endpoint of the issuer, for tokens that are not signed, or that the issuer can revoke.
        /// Either `jwks` or `introspection` is required.
        pub introspection: Option<Introspection>,
        /// The audiences of tokens that are accepted in addition to `http.public-url`. None unless set.
        #[read_each(Audience)]
        pub audiences: Vec<String>,
        /// The signature algorithms that are accepted. All asymmetric ones unless set.
        #[read(Algorithms)]
        #[default(SignatureAlgorithm::ALL.into())]
        pub algorithms: BTreeSet<SignatureAlgorithm>,
        /// The claim with the name of the principal. `sub` unless set. A claim with a leading slash is a JSON Pointer.
        #[default(ClaimName::new("sub"))]
        pub principal_claim: ClaimName,
        /// The claims with groups, each a text or a list of texts. `["groups"]` unless set. A claim with a leading
        /// slash is a JSON Pointer.
        #[default(vec![ClaimName::new("groups")])]
        pub group_claims: Vec<ClaimName>,
        /// The scopes that every request requires. None unless set.
        pub scopes: Vec<Scope>,
        /// The scopes that an operation requires in addition: `{ subscribe = ["mcp:subscribe"] }`. None unless set.
        #[read(OperationScopes)]
        pub operation_scopes: BTreeMap<Operation, Vec<Scope>>,
        /// Scopes that include others: `{ "mcp:all" = ["mcp:read", "mcp:subscribe"] }`. None unless set.
        #[read(ScopeIncludes)]
        pub scope_includes: BTreeMap<Scope, Vec<Scope>>,
        /// The tolerated difference between the clocks of this machine and of the issuer. 10 s unless set; 0 s to
        /// 5 min.
        pub clock_skew: ClockSkew,
        /// A PEM file of certificate authorities that are trusted for the URLs of the issuer, in addition to the
        /// machine's own.
        pub ca: Option<CaBundle>,
    }
}

named_enum! {
    /// An asymmetric signature algorithm of JSON Web Tokens (RFC 7518, section 3.1; RFC 8037).
    ///
    /// Symmetric algorithms are excluded: an attacker could use the public key of one algorithm as the secret of
    /// another (algorithm confusion).
    #[derive(PartialOrd, Ord, Hash)]
    pub enum SignatureAlgorithm as "a signature algorithm", such as "\"RS256\"", unless is_symmetric {
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        Rs256 = "RS256",
        /// RSASSA-PKCS1-v1_5 with SHA-384.
        Rs384 = "RS384",
        /// RSASSA-PKCS1-v1_5 with SHA-512.
        Rs512 = "RS512",
        /// RSASSA-PSS with SHA-256.
        Ps256 = "PS256",
        /// RSASSA-PSS with SHA-384.
        Ps384 = "PS384",
        /// RSASSA-PSS with SHA-512.
        Ps512 = "PS512",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// ECDSA on P-384 with SHA-384.
        Es384 = "ES384",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

/// Rejects the name of a symmetric algorithm.
fn is_symmetric(node: &Node<'_>) -> bool {
    let found = node.value.as_str().filter(|written| matches!(*written, "HS256" | "HS384" | "HS512"));
    if let Some(written) = found {
        node.report_error(
            format!("{} is symmetric, and only asymmetric algorithms are accepted", quote(written)),
            "let the issuer sign its tokens with a key pair, such as `\"RS256\"` or `\"ES256\"`: whoever can verify a \
             symmetric signature can make one",
        );
    }
    found.is_some()
}

non_empty! {
    /// The name of a claim, or a JSON Pointer (RFC 6901) to it: `groups`, `/realm_access/roles`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClaimName(String), "the name of a claim", "\"groups\"",
    "the name of a claim is empty", "write one such as `sub`, or `/realm_access/roles`"
}

impl ClaimName {
    /// The claim with this name; a leading slash makes it a JSON Pointer.
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

impl Issuer {
    /// An issuer whose tokens are verified with these keys.
    pub fn new(name: PrincipalName, issuer: EndpointUrl, jwks: Jwks) -> Self {
        Self { jwks: Some(jwks), ..Self::with_defaults(name, issuer) }
    }

    /// Returns the scopes that these operations require: the scopes for every request and for each operation. Sorted.
    pub fn required_scopes(&self, operations: &[Operation]) -> Vec<&Scope> {
        let of_operations = operations.iter().filter_map(|operation| self.operation_scopes.get(operation));
        let mut required: Vec<&Scope> = self.scopes.iter().chain(of_operations.flatten()).collect();
        required.sort();
        required.dedup();
        required
    }

    /// Returns the URLs for requests that verify its tokens.
    pub fn urls(&self) -> impl Iterator<Item = &EndpointUrl> {
        let jwks = self.jwks.as_ref().and_then(Jwks::url);
        jwks.into_iter().chain(self.introspection.as_ref().map(|introspection| &introspection.url))
    }
}

impl FromTable for Issuer {
    type Keys = Self;

    const TYPE_NAME: &'static str = "an issuer of access tokens";

    fn example() -> String {
        "{ name = \"corp\", issuer = \"https://login.example.com\", jwks = \"https://login.example.com/jwks\" }".into()
    }

    fn check(table: &Table<'_>) {
        let has_keys = table.has("jwks");
        if has_keys == table.has("introspection") && !table.has_misspelling_of("jwks") {
            let found = if has_keys { "both `jwks` and `introspection`" } else { "neither `jwks` nor `introspection`" };
            let help = "write `jwks = \"https://…\"` for signed tokens, whose keys it publishes there (`jwks_uri` in its metadata), \
                        or `introspection = { url, client-id, client-secret }` to ask it about each token";
            table.report_error(format!("`{}` has {found}", table.path()), help);
        }
    }

    fn from_keys(keys: Self, _: &Table<'_>) -> Option<Self> {
        Some(keys)
    }
}

non_empty! {
    /// An audience.
    struct Audience(String), "an audience", "\"https://mcp.example.com/mcp\"",
    "an audience is empty", "write the claim `aud` of the tokens"
}

struct Algorithms(BTreeSet<SignatureAlgorithm>);

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
                let help = format!("the operations are {}", join_quoted(names));
                let problem = Diagnostic::new(format!("{} is not an operation", quote(entry.key)), help);
                entry.context.report(did_you_mean(problem.at(entry.key_span.clone()), entry.key, names));
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
            let scope = entry.parse_key::<Scope>();
            Some((scope?, Vec::from_node(entry)?))
        };
        Some(Self(node.entries::<Self>()?.iter().filter_map(read).collect()))
    }
}

table! {
    /// An introspection endpoint (RFC 7662). It returns whether a token is active.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Introspection as "a table with `url`, `client-id` and `client-secret`",
    such as "{ url = \"https://login.example.com/introspect\", client-id = \"mcp-host\", client-secret = { env = \"INTROSPECTION_SECRET\" } }" {
        /// The URL of the endpoint: `introspection_endpoint` in the metadata of the issuer.
        #[required]
        pub url: EndpointUrl,
        /// The id by which this server authenticates at the endpoint (HTTP Basic; RFC 6749, section 2.3.1).
        #[required]
        #[read(ClientId)]
        pub client_id: String,
        /// The secret by which this server authenticates: from a variable or a file.
        #[required]
        #[read(SecretText)]
        pub client_secret: Secret<String>,
    }
}

impl Introspection {
    /// The endpoint at this URL, with the credentials of this server.
    pub fn new(url: EndpointUrl, client_id: impl Into<String>, client_secret: Secret<String>) -> Self {
        Self { url, client_id: client_id.into(), client_secret }
    }
}

non_empty! {
    /// The id of an OAuth client (RFC 6749, section 2.2): the host's registration at an authorization server.
    pub(crate) struct ClientId(pub(crate) String), "a string", "\"mcp-host\"",
    "the id of the client is empty", "write the id under which this host is registered at the authorization server"
}

list_type! {
    /// The issuers of a config, with unique names and identifiers. At most one introspects tokens without an issuer.
    pub(super) struct Issuers(Vec<Issuer>) of Issuer as "a list of issuers", |node| {
        node.context.declared.borrow_mut().issuers.extend(declared_names(node));
        let items: Vec<(Node<'_>, Issuer)> = unique_names(node, "two issuers have the name")?;
        for (index, (item, issuer)) in items.iter().enumerate() {
            let report_both = |other: &Node<'_>, key: &str, message: String, help: &str| {
                let problem = Diagnostic::new(message, help).at(item.entry_span(key));
                item.context.report(problem.secondary(other.entry_span(key), "the other one"));
            };
            let mut earlier = items.iter().take(index);
            if let Some((other, _)) = earlier.clone().find(|(_, other)| other.issuer == issuer.issuer) {
                let message = format!("two issuers are {}", quote(issuer.issuer.as_str()));
                report_both(other, "issuer", message, "declare an issuer once");
            }
            let with_introspection = earlier.find(|(_, other)| other.introspection.is_some());
            if let Some((other, _)) = with_introspection.filter(|_| issuer.introspection.is_some()) {
                let help = "use `jwks` for all but one: a token that is not signed does not say who issued it, and is shown to \
                            nobody but its issuer";
                report_both(other, "introspection", "two issuers have `introspection`".to_owned(), help);
            }
        }
        Some(items.into_iter().map(|(_, issuer)| issuer).collect())
    }
}

/// The maximum length of a scope, in bytes.
const MAX_SCOPE_LEN: usize = 256;

checked_text! {
    /// A scope (RFC 6749, section 3.3): printable ASCII without spaces, `"` and `\`.
    pub struct Scope, ScopeError as "a scope", such as "\"mcp:read\"",
    schema Schema::pattern(r"^[\x21\x23-\x5B\x5D-\x7E]{1,256}$"),
    valid if |text| {
        let is_inner = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        (1..=MAX_SCOPE_LEN).contains(&text.len()) && text.bytes().all(is_inner)
    },
    otherwise "write one such as `\"mcp:read\"`: ASCII without spaces, `\"` and `\\`; several are several entries of the list"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_one_word_of_ascii() {
        for text in ["mcp:read", "https://example.com/a.b", "!"] {
            assert_eq!(text.parse::<Scope>().unwrap().as_str(), text);
        }
        for text in ["", "a b", "a\"", "a\\b", "é", "a\n", &"a".repeat(MAX_SCOPE_LEN + 1)] {
            assert!(text.parse::<Scope>().is_err(), "{text:?}");
        }
    }
}
