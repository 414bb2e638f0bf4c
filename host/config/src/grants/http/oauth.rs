//! Access tokens of an origin: `oauth` of an entry of `grants.http`.
//!
//! The host gets access tokens from a token endpoint (OAuth 2.0, RFC 6749), and sends them to the origin as
//! `Authorization: Bearer …`. The keys determine the grant type:
//!
//! | keys | grant |
//! |---|---|
//! | `service-account`, `scopes`, and optionally `subject` | a JWT signed with the key of a service account, as in Google Cloud (RFC 7523, section 2.1) |
//! | `refresh-token`, `client-id`, `token-uri`, and usually `client-secret` | a refresh token (RFC 6749, section 6) |
//! | `client-id`, `client-secret`, `token-uri` | client credentials (RFC 6749, section 4.4) |

mod service_account;

use crate::declare::{named_enum, non_empty, table, written_as};
use crate::diagnostic::Diagnostic;
use crate::endpoint_url::EndpointUrl;
use crate::grants::CaBundle;
use crate::issuer::{ClientId, Scope};
use crate::reader::{FromNode, FromTable, Table};
use crate::secret::{Secret, SecretSource};

pub use self::service_account::{ServiceAccountKey, ServiceAccountKeyError};

/// The keys of a client, which a service account does not have.
const CLIENT_KEYS: [&str; 4] = ["refresh-token", "client-id", "client-secret", "client-authentication"];

/// How the host gets access tokens for an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuth {
    /// The credentials for the token endpoint.
    pub grant: AuthorizationGrant,
    /// The token endpoint.
    pub token_uri: EndpointUrl,
    /// The requested scopes. Without any, the server decides.
    pub scopes: Vec<Scope>,
    /// Certificate authorities that are trusted for the token endpoint, in addition to the machine's own.
    pub ca: Option<CaBundle>,
}

/// The credentials for a token endpoint (RFC 6749, section 1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizationGrant {
    /// A JWT signed with the key of a service account (RFC 7523, section 2.1).
    ServiceAccount {
        /// The key.
        key: ServiceAccountKey,
        /// The user for whom the service account acts (domain-wide delegation); `None` for the account itself.
        subject: Option<String>,
    },
    /// A refresh token (RFC 6749, section 6).
    RefreshToken {
        /// The token.
        token: Secret<String>,
        /// The client to which the token was issued.
        client: OAuthClient,
    },
    /// The credentials of a client (RFC 6749, section 4.4).
    ClientCredentials(OAuthClient),
    /// The access token of a user, which a client exchanges for an access token for a server (RFC 8693). It has no
    /// config key: the host makes one per user.
    TokenExchange {
        /// The access token of the user.
        subject: Secret<String>,
        /// The client.
        client: OAuthClient,
        /// The URL of the server for which the new token is.
        resource: EndpointUrl,
    },
}

impl OAuth {
    /// Tokens for this grant from this token endpoint, without scopes.
    pub fn new(grant: AuthorizationGrant, token_uri: EndpointUrl) -> Self {
        Self { grant, token_uri, scopes: Vec::new(), ca: None }
    }
}

table! {
    pub(crate) struct OAuthKeys {
        /// The key of a service account, from a variable or a file: the JSON of Google Cloud's key file.
        service_account: Option<ServiceAccountKey>,
        /// Service account: the user on whose behalf it acts (domain-wide delegation). The account itself unless set.
        #[read(Subject)]
        subject: Option<String>,
        /// A refresh token (RFC 6749, section 6), from a variable or a file.
        #[read(NonEmptySecret)]
        refresh_token: Option<Secret<String>>,
        /// The id under which the host is registered at the authorization server.
        #[read(ClientId)]
        client_id: Option<String>,
        /// The secret of the client, from a variable or a file.
        #[read(NonEmptySecret)]
        client_secret: Option<Secret<String>>,
        /// How the secret of the client is sent: `basic`, in the header `Authorization`, or `post`, in the body.
        /// `basic` unless set.
        client_authentication: ClientAuthentication,
        /// The token endpoint: `https`, or `http` to loopback. Unless set, the token endpoint in the key of the service
        /// account.
        token_uri: Option<EndpointUrl>,
        /// The scopes that are requested. Required for a service account.
        scopes: Vec<Scope>,
        /// A PEM file of certificate authorities that are trusted for the token endpoint, in addition to the machine's
        /// own.
        ca: Option<CaBundle>,
    }
}

impl FromTable for OAuth {
    type Keys = OAuthKeys;

    const TYPE_NAME: &'static str = "a table with the credentials for a token endpoint";

    fn example() -> String {
        "{ service-account = { file = \"service-account.json\" }, scopes = \
         [\"https://www.googleapis.com/auth/drive.readonly\"] }"
            .into()
    }

    fn from_keys(keys: OAuthKeys, table: &Table<'_>) -> Option<Self> {
        let OAuthKeys { service_account: key, subject, refresh_token, scopes, ca, .. } = keys;
        let grant_type = GrantType::of(table)?;
        grant_type.check_keys(table, key.as_ref(), &scopes);
        let (secret, authentication) = (keys.client_secret, keys.client_authentication);
        let client = keys.client_id.map(|id| OAuthClient { id, secret, authentication });
        let own_uri = key.as_ref().and_then(|key| key.token_uri().cloned());
        let grant = match grant_type {
            GrantType::ServiceAccount => AuthorizationGrant::ServiceAccount { key: key?, subject },
            GrantType::RefreshToken => AuthorizationGrant::RefreshToken { token: refresh_token?, client: client? },
            GrantType::ClientCredentials => AuthorizationGrant::ClientCredentials(client?),
        };
        Some(Self { grant, token_uri: keys.token_uri.or(own_uri)?, scopes, ca })
    }
}

/// The grant types, determined by their keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GrantType {
    ServiceAccount,
    RefreshToken,
    ClientCredentials,
}

impl GrantType {
    /// Returns the grant type for the keys of a table. A table without a grant type is reported.
    fn of(table: &Table<'_>) -> Option<Self> {
        if table.has("service-account") {
            return Some(Self::ServiceAccount);
        }
        if table.has("refresh-token") {
            return Some(Self::RefreshToken);
        }
        if table.has("client-id") || table.has("client-secret") {
            return Some(Self::ClientCredentials);
        }
        if !["service-account", "refresh-token", "client-id"].iter().any(|key| table.has_misspelling_of(key)) {
            let help = "write `service-account = { file = \"…\" }` with `scopes`; or `client-id`, `client-secret` and `token-uri`, \
                        with a `refresh-token` if you have one";
            table.report_error(format!("`{}` has no credentials", table.path()), help);
        }
        None
    }

    /// Reports missing keys of the grant type, and keys of other grant types.
    fn check_keys(self, table: &Table<'_>, key: Option<&ServiceAccountKey>, scopes: &[Scope]) {
        let token_uri = ("token-uri", "\"https://login.example.com/token\"".to_owned());
        let client_id = ("client-id", ClientId::example());
        let required = match self {
            // An invalid key may have a token URI, so a missing `token-uri` is not reported.
            Self::ServiceAccount if key.is_some_and(|key| key.token_uri().is_none()) => vec![token_uri],
            Self::ServiceAccount => Vec::new(),
            Self::RefreshToken => vec![client_id, token_uri],
            Self::ClientCredentials => vec![client_id, ("client-secret", NonEmptySecret::example()), token_uri],
        };
        let missing = required.into_iter().filter(|(key, _)| !table.has(key) && !table.has_misspelling_of(key));
        for (key, example) in missing {
            table.report_error(format!("`{}` has no `{key}`", table.path()), format!("add `{key} = {example}`"));
        }
        let (foreign, owner): (&[&str], _) = match self {
            Self::ServiceAccount => (&CLIENT_KEYS, "a client, and there is a `service-account`"),
            Self::RefreshToken | Self::ClientCredentials => (&["subject"], "a `service-account`, and there is none"),
        };
        for key in foreign.iter().filter(|key| table.has(key)) {
            let message = format!("`{key}` is for {owner}");
            table.report(Diagnostic::new(message, format!("remove `{key}`")).at(table.entry_span(key)));
        }
        let lacks_scopes = if table.has("scopes") {
            scopes.is_empty() && !table.has_problems()
        } else {
            !table.has_misspelling_of("scopes")
        };
        if self == Self::ServiceAccount && lacks_scopes {
            let help =
                "add the scopes that its tokens need: `scopes = [\"https://www.googleapis.com/auth/drive.readonly\"]`";
            table.report_error(format!("`{}` has no `scopes`", table.path()), help);
        }
    }
}

non_empty! {
    /// The user for whom a service account acts.
    struct Subject(String), "a string", "\"user@example.com\"", "`subject` is empty",
    "write the address of a user, such as `user@example.com`; remove `subject` if the account acts for itself"
}

/// The registration of the host at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthClient {
    /// The id of the client.
    pub id: String,
    /// The secret of the client. A public client has none.
    pub secret: Option<Secret<String>>,
    /// How the secret is sent. Ignored without a secret.
    pub authentication: ClientAuthentication,
}

impl OAuthClient {
    /// A client with this id and secret, which authenticates with HTTP Basic.
    pub fn new(id: impl Into<String>, secret: Option<Secret<String>>) -> Self {
        Self { id: id.into(), secret, authentication: ClientAuthentication::default() }
    }
}

named_enum! {
    /// How the secret of a client is sent (RFC 6749, section 2.3.1).
    #[derive(Default)]
    pub enum ClientAuthentication as "a method of client authentication", such as "\"basic\"" {
        /// In the header `Authorization`, as HTTP Basic: `client_secret_basic`.
        #[default]
        Basic = "basic",
        /// In the body of the request: `client_secret_post`.
        Post = "post",
    }
}

/// A secret that is not empty.
struct NonEmptySecret(Secret<String>);

written_as! {
    NonEmptySecret as SecretSource, |node| {
        let text = SecretSource::from_node(node)?.0;
        if text.is_empty() {
            let help = "correct the variable or the file that it comes from";
            node.report_machine_error(format!("the value of `{}` is empty", node.key), help);
            return None;
        }
        Some(Self(Secret::new(text.to_string())))
    }
}
