//! `auth` of an upstream: how the host authenticates.
//!
//! | key | the host's identity at the server |
//! |---|---|
//! | `token` | one user, for all principals |
//! | `tokens` | the user of the first entry for the principal or one of its groups; other principals see nothing |
//! | `oauth` | one user, by access tokens from a token endpoint |
//! | `oauth`, `forward = "exchange"` | the user whose access token the client sent; the token endpoint exchanges it for another one (RFC 8693) |

use crate::declare::{list_type, named_enum, table, written_as};
use crate::diagnostic::Diagnostic;
use crate::grants::{AuthorizationGrant, CredentialValue, OAuth, OAuthClient};
use crate::reader::{FromNode, FromTable, Node, Schema, Table};
use crate::rule::{PrincipalSelector, is_external_name};
use crate::secret::{Secret, SecretSource};

/// The maximum number of tokens: each has its own connection.
const MAX_TOKENS: usize = 256;

table! {
    pub(crate) struct AuthenticationKeys {
        /// The bearer token that is sent for all principals.
        #[read(BearerToken)]
        token: Option<Secret<CredentialValue>>,
        /// Bearer tokens for principals and groups. The first entry that names the principal or one of its groups is
        /// used.
        #[read(IdentityTokens)]
        tokens: Vec<IdentityToken>,
        /// The source of access tokens, with the keys of `oauth` in `grants.http`.
        oauth: Option<OAuth>,
        /// `exchange`: the access token of the client is exchanged at the token endpoint of `oauth` for another one
        /// (RFC 8693).
        forward: Option<Forward>,
    }
}

named_enum! {
    /// The use of a client's access token, which is never sent to the upstream itself.
    enum Forward as "a way to forward", such as "\"exchange\"" {
        /// The token is exchanged (RFC 8693).
        Exchange = "exchange",
    }
}

/// How the host authenticates to an upstream: `auth` of an `[[upstream]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authentication {
    pub(crate) token: Option<Secret<CredentialValue>>,
    pub(crate) tokens: Vec<IdentityToken>,
    pub(crate) oauth: Option<OAuth>,
    pub(crate) exchange: Option<TokenExchange>,
}

/// The exchange of access tokens of clients (RFC 8693).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenExchange {
    /// The OAuth client that requests the exchange.
    pub client: OAuthClient,
    /// The token endpoint, the scopes and the authorities, with the credentials of the OAuth client itself.
    pub oauth: OAuth,
}

impl FromTable for Authentication {
    type Keys = AuthenticationKeys;

    const TYPE_NAME: &'static str = "a table";

    fn example() -> String {
        "{ token = { file = \"token.txt\" } }".to_owned()
    }

    fn constrain(schema: Schema) -> Schema {
        let requires = |key: &str| serde_json::json!({ "required": [key] });
        schema.with("oneOf", serde_json::json!([requires("token"), requires("tokens"), requires("oauth")]))
    }

    fn check(table: &Table<'_>) {
        let found: Vec<_> = ["token", "tokens", "oauth"].into_iter().filter(|key| table.has(key)).collect();
        if found.len() != 1 && !table.has_problems() {
            let found = match found.as_slice() {
                [] => "none of `token`, `tokens` and `oauth`".to_owned(),
                [one, other, ..] => format!("both `{one}` and `{other}`"),
                [one] => format!("`{one}`"),
            };
            let help = "write a token for whoever asks, `token = { file = \"token.txt\" }`, or one for each principal or group, `tokens = [{ \
                        principal = \"ci\", token = { file = \"ci.token\" } }]`";
            table.report_error(format!("`{}` has {found}", table.path()), help);
        }
    }

    fn from_keys(keys: AuthenticationKeys, table: &Table<'_>) -> Option<Self> {
        let AuthenticationKeys { token, tokens, oauth, forward } = keys;
        match (forward, oauth) {
            (None, oauth) => Some(Self { token, tokens, oauth, exchange: None }),
            (Some(Forward::Exchange), Some(oauth)) => {
                let AuthorizationGrant::ClientCredentials(client) = oauth.grant.clone() else {
                    let help = "write the `client-id`, the `client-secret` and the `token-uri` of a client that may exchange tokens";
                    table.report(
                        Diagnostic::new("`forward` requires the credentials of a client", help)
                            .at(table.entry_span("oauth")),
                    );
                    return None;
                };
                Some(Self { token, tokens, oauth: None, exchange: Some(TokenExchange { client, oauth }) })
            }
            (Some(Forward::Exchange), None) => {
                if !table.has("oauth") {
                    let help = "add the client that exchanges tokens: `oauth = { client-id = \"mcp-host\", client-secret = { file = \"secret\" }, \
                                token-uri = \"https://login.example.com/token\" }`";
                    table.report(Diagnostic::new("`forward` requires `oauth`", help).at(table.entry_span("forward")));
                }
                None
            }
        }
    }
}

/// The token of a principal, or of the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityToken {
    /// The principals for whom the token is sent.
    pub holder: TokenHolder,
    /// The value of the header `Authorization`.
    pub token: Secret<CredentialValue>,
}

/// The principals for whom a token is sent, by their name in rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TokenHolder {
    /// A principal.
    Principal(String),
    /// The members of a group.
    Group(String),
}

table! {
    pub(crate) struct IdentityTokenKeys {
        /// The principal that the token is sent for.
        #[read(Name)]
        principal: Option<String>,
        /// The group whose members the token is sent for.
        #[read(Name)]
        group: Option<String>,
        /// The bearer token.
        #[required]
        #[read(BearerToken)]
        token: Option<Secret<CredentialValue>>,
    }
}

impl FromTable for IdentityToken {
    type Keys = IdentityTokenKeys;

    const TYPE_NAME: &'static str = "a token of a principal or a group";

    fn example() -> String {
        "{ principal = \"ci\", token = { file = \"ci.token\" } }".to_owned()
    }

    fn constrain(schema: Schema) -> Schema {
        schema.with("oneOf", serde_json::json!([{ "required": ["principal"] }, { "required": ["group"] }]))
    }

    fn check(table: &Table<'_>) {
        if table.has("principal") == table.has("group") && !table.has_problems() {
            let found =
                if table.has("group") { "both `principal` and `group`" } else { "neither `principal` nor `group`" };
            table.report_error(
                format!("`{}` has {found}", table.path()),
                "name one principal, `principal = \"ci\"`, or one group, `group = \"developers\"`",
            );
        }
    }

    fn from_keys(keys: IdentityTokenKeys, _: &Table<'_>) -> Option<Self> {
        let holder = match (keys.principal, keys.group) {
            (Some(name), None) => TokenHolder::Principal(name),
            (None, Some(name)) => TokenHolder::Group(name),
            _ => return None,
        };
        Some(Self { holder, token: keys.token? })
    }
}

list_type! {
    /// Tokens, each with a different holder.
    struct IdentityTokens(Vec<IdentityToken>) of IdentityToken as "a list of tokens", |node| {
        let items = node.items::<IdentityToken>()?;
        if items.is_empty() || items.len() > MAX_TOKENS {
            let help = format!("write {}", node.assignment_hint(&format!("[{}]", <IdentityToken as FromTable>::example())));
            node.report_error(format!("`tokens` has {} entries, and has 1 to {MAX_TOKENS}", items.len()), help);
            return None;
        }
        let mut tokens = Vec::<IdentityToken>::new();
        for item in &items {
            let Some(token) = IdentityToken::from_node(item) else { continue };
            if tokens.iter().any(|earlier| earlier.holder == token.holder) {
                item.report_error("an earlier token has the same holder", "remove one of them");
            }
            tokens.push(token);
        }
        Some(tokens)
    }
}

/// The name of a principal or a group. Its existence is checked after the whole config has been read.
struct Name(Option<String>);

impl FromNode for Name {
    const TYPE_NAME: &'static str = "a name";

    fn example() -> String {
        "\"ci\"".to_owned()
    }

    fn schema() -> Schema {
        PrincipalSelector::name_schema()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let name = node.string::<Self>()?;
        let is_plain = !name.is_empty() && !name.contains(|c: char| c == '/' || c == '*' || c.is_whitespace());
        if !is_plain && !is_external_name(name) {
            let help =
                "write a name of the config, or `ISSUER/NAME`; for every principal, write `auth = { token = … }`";
            node.report_error("this is no name of a principal or a group", help);
            return None;
        }
        Some(Self(Some(name.to_owned())))
    }
}

/// A bearer token: the value of the header `Authorization`.
struct BearerToken(Option<Secret<CredentialValue>>);

written_as! {
    BearerToken as SecretSource, such as "{ file = \"token.txt\" }", |node| {
        let token = SecretSource::from_node(node)?.0;
        // RFC 6750, section 2.1: a token has no spaces.
        let header = format!("Bearer {}", token.trim());
        match header.parse() {
            Ok(value) if !token.trim().contains(char::is_whitespace) => Some(Self(Some(Secret::new(value)))),
            Ok(_) => {
                node.report_machine_error("the token has a space", "write the token alone, without `Bearer`");
                None
            }
            Err(error) => {
                node.reject_source(&error);
                None
            }
        }
    }
}
