//! Requests to a token endpoint: a form (RFC 6749, appendix B), optionally with the credentials of the
//! client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::{Serializer, byte_serialize};
use hyper::header::HeaderValue;
use mcp_host_config::Secret;
use mcp_host_config::grants::{AuthorizationGrant, ClientAuthentication, OAuth, OAuthClient};
use mcp_host_config::issuer::Scope;
use zeroize::Zeroizing;

use super::{TokenError, assertion};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The grant type of token exchange (RFC 8693, sections 2.1 and 3).
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// A request to a token endpoint.
pub(super) struct TokenRequest {
    pub(super) form: Zeroizing<String>,
    /// The credentials of the client, as HTTP Basic.
    pub(super) authorization: Option<HeaderValue>,
}

/// Builds the request for a token, with `refresh_token` in place of the config's.
pub(super) fn build(config: &OAuth, refresh_token: Option<&Secret<String>>) -> Result<TokenRequest, TokenError> {
    let mut form = Serializer::new(String::new());
    let client = match &config.grant {
        AuthorizationGrant::ServiceAccount { key, subject } => {
            let assertion = assertion::sign(key, subject.as_deref(), &config.scopes, &config.token_uri)?;
            form.append_pair("grant_type", JWT_BEARER).append_pair("assertion", &assertion);
            None
        }
        AuthorizationGrant::RefreshToken { token, client } => {
            let token = refresh_token.unwrap_or(token).expose();
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token);
            Some(client)
        }
        AuthorizationGrant::TokenExchange { subject, client, resource } => {
            form.append_pair("grant_type", TOKEN_EXCHANGE)
                .append_pair("subject_token", subject.expose())
                .append_pair("subject_token_type", ACCESS_TOKEN)
                .append_pair("requested_token_type", ACCESS_TOKEN)
                .append_pair("resource", resource.as_written());
            Some(client)
        }
        AuthorizationGrant::ClientCredentials(client) => {
            form.append_pair("grant_type", "client_credentials");
            Some(client)
        }
    };
    // A service account has its scopes as a claim of the assertion.
    if client.is_some() && !config.scopes.is_empty() {
        let scopes: Vec<_> = config.scopes.iter().map(Scope::as_str).collect();
        form.append_pair("scope", &scopes.join(" "));
    }
    let authorization = match client.map(|client| (client, client.secret.as_ref(), client.authentication)) {
        None => None,
        Some((client, Some(secret), ClientAuthentication::Basic)) => Some(basic(client, secret)?),
        Some((client, secret, _)) => {
            form.append_pair("client_id", &client.id);
            if let Some(secret) = secret {
                form.append_pair("client_secret", secret.expose());
            }
            None
        }
    };
    Ok(TokenRequest { form: Zeroizing::new(form.finish()), authorization })
}

/// HTTP Basic with the credentials, which are form-encoded first (RFC 6749, section 2.3.1).
fn basic(client: &OAuthClient, secret: &Secret<String>) -> Result<HeaderValue, TokenError> {
    let encode = |text: &str| Zeroizing::new(byte_serialize(text.as_bytes()).collect::<String>());
    let credentials = Zeroizing::new(format!("{}:{}", *encode(&client.id), *encode(secret.expose())));
    let header = Zeroizing::new(format!("Basic {}", STANDARD.encode(credentials.as_bytes())));
    let mut header =
        HeaderValue::from_str(&header).map_err(|_| TokenError::Request("the client's credentials are too long"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(grant: AuthorizationGrant) -> OAuth {
        let mut config = OAuth::new(grant, "https://login.example.com/token".parse().unwrap());
        config.scopes = vec!["a".parse().unwrap(), "https://b".parse().unwrap()];
        config
    }

    fn form(request: &TokenRequest) -> Vec<(String, String)> {
        form_urlencoded::parse(request.form.as_bytes()).into_owned().collect()
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    fn client(authentication: ClientAuthentication) -> OAuthClient {
        let mut client = OAuthClient::new("me:1", Some(Secret::new("p&ss".to_owned())));
        client.authentication = authentication;
        client
    }

    #[test]
    fn a_token_of_a_user_is_exchanged_for_one_of_a_server() {
        let grant = AuthorizationGrant::TokenExchange {
            subject: Secret::new("of-ada".to_owned()),
            client: client(ClientAuthentication::Post),
            resource: "https://mcp.example.com/mcp".parse().unwrap(),
        };
        let expected = pairs([
            ("grant_type", TOKEN_EXCHANGE),
            ("subject_token", "of-ada"),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
            ("resource", "https://mcp.example.com/mcp"),
            ("scope", "a https://b"),
            ("client_id", "me:1"),
            ("client_secret", "p&ss"),
        ]);
        assert_eq!(form(&build(&config(grant), None).unwrap()), expected);
    }

    #[test]
    fn a_client_authenticates_by_basic_or_in_the_body() {
        let grant = |authentication| AuthorizationGrant::ClientCredentials(client(authentication));
        let request = build(&config(grant(ClientAuthentication::Basic)), None).unwrap();
        assert_eq!(form(&request), pairs([("grant_type", "client_credentials"), ("scope", "a https://b")]));
        let expected = format!("Basic {}", STANDARD.encode("me%3A1:p%26ss"));
        assert_eq!(request.authorization.as_ref().unwrap(), expected.as_str());
        assert!(!format!("{:?}", request.authorization).contains("Basic"));
        let request = build(&config(grant(ClientAuthentication::Post)), None).unwrap();
        let own = [
            ("grant_type", "client_credentials"),
            ("scope", "a https://b"),
            ("client_id", "me:1"),
            ("client_secret", "p&ss"),
        ];
        assert_eq!((form(&request), request.authorization), (pairs(own), None));
    }

    #[test]
    fn a_rotated_refresh_token_replaces_that_of_the_config() {
        let token = Secret::new("first".to_owned());
        let grant = AuthorizationGrant::RefreshToken { token, client: OAuthClient::new("public", None) };
        let fields = |token| {
            [
                ("grant_type", "refresh_token"),
                ("refresh_token", token),
                ("scope", "a https://b"),
                ("client_id", "public"),
            ]
        };
        let request = build(&config(grant.clone()), None).unwrap();
        assert_eq!((form(&request), request.authorization), (pairs(fields("first")), None));
        let request = build(&config(grant), Some(&Secret::new("second".to_owned()))).unwrap();
        assert_eq!(form(&request), pairs(fields("second")));
    }

    #[test]
    fn a_service_account_presents_an_assertion_and_nothing_else() {
        let key = include_str!("../../../../config/tests/ui/valid/secrets/service-account.json");
        let key = mcp_host_config::grants::ServiceAccountKey::from_json(key).unwrap();
        let request = build(&config(AuthorizationGrant::ServiceAccount { key, subject: None }), None).unwrap();
        let form = form(&request);
        let names: Vec<_> = form.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, form[0].1.as_str()), (vec!["grant_type", "assertion"], JWT_BEARER));
        assert!(request.authorization.is_none());
    }
}
