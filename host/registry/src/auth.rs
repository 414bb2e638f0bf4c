//! Credentials for registries, and the tokens that registries issue for them.
//!
//! Credentials come from `docker login`: from `~/.docker/config.json`, or from the credential helper in it. A helper is
//! another program; its timeout is [`HELPER_TIMEOUT`]. Without credentials, or if a helper fails, requests are
//! anonymous; a later error mentions both causes. A token is requested at the `realm` of the registry's challenge (RFC
//! 6750, Docker's token authentication), which must be `https`; it is kept for this command only.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use docker_credential::{CredentialRetrievalError, DockerCredential};
use hyper::header::{AUTHORIZATION, HeaderValue};
use mcp_host_base::task;
use mcp_host_base::text::quote;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::time::timeout;

use crate::http::{Call, HttpClient, HttpError};

/// The timeout of a credential helper.
const HELPER_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a token server's answer in bytes.
const MAX_TOKEN_ANSWER: usize = 64 * 1024;

/// The names of Docker Hub as a registry.
pub(crate) const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// A user and a password, encoded for the header.
pub(crate) struct Login(HeaderValue);

/// The authentication that a registry requires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A user and a password.
    Basic,
    /// A token from another server.
    Bearer { realm: String, service: Option<String> },
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Returns the stored credentials for a registry; `None` if there are none. The error is the reason why they are
/// unavailable.
pub(crate) async fn login(registry: &str) -> Result<Option<Login>, String> {
    let names = stored_names(registry);
    let looked = task::spawn_blocking(move || first_credential(names));
    let found = match timeout(HELPER_TIMEOUT, looked).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => {
            return Err(format!(
                "the credential helper did not end within {}",
                humantime::format_duration(HELPER_TIMEOUT)
            ));
        }
    };
    match found {
        Ok(DockerCredential::UsernamePassword(user, password)) => basic(&user, &password).map(Some),
        Ok(DockerCredential::IdentityToken(_)) => {
            Err("an identity token is stored, which is not supported: log in with a user and a password".to_owned())
        }
        Err(
            CredentialRetrievalError::NoCredentialConfigured
            | CredentialRetrievalError::ConfigNotFound
            | CredentialRetrievalError::ConfigReadError,
        ) => Ok(None),
        Err(error) => Err(format!("the stored credentials cannot be had: {}", quote(&error.to_string()))),
    }
}

/// Returns the names under which credentials of a registry can be stored: `docker login` and `podman login` have
/// different ones for Docker Hub.
fn stored_names(registry: &str) -> Vec<String> {
    if DOCKER_HUB.contains(&registry) {
        vec!["https://index.docker.io/v1/".to_owned(), "docker.io".to_owned()]
    } else {
        vec![registry.to_owned()]
    }
}

/// Returns the first stored credential, or the error of the first name that has none.
fn first_credential(names: Vec<String>) -> Result<DockerCredential, CredentialRetrievalError> {
    let mut problem = None;
    for name in names {
        match docker_credential::get_credential(&name) {
            Ok(credential) => return Ok(credential),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.unwrap_or(CredentialRetrievalError::NoCredentialConfigured))
}

fn basic(user: &str, password: &str) -> Result<Login, String> {
    let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
    sensitive(&format!("Basic {encoded}")).map(Login)
}

/// Returns a header value that `Debug` does not show.
fn sensitive(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "the credential cannot be sent in a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl Login {
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl Challenge {
    /// Parses the parts of the header `WWW-Authenticate` (RFC 9110, section 11.6.1) that registries use.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameter = |name: &str| {
            let mut rest = parameters;
            while let Some((key, behind)) = rest.split_once('=') {
                let (value, next) = match behind.trim_start().strip_prefix('"') {
                    Some(quoted) => quoted.split_once('"')?,
                    None => behind.split_once(',').unwrap_or((behind, "")),
                };
                if key.trim().trim_start_matches(',').trim().eq_ignore_ascii_case(name) {
                    return Some(value.to_owned());
                }
                rest = next.trim_start_matches([',', ' ']);
            }
            None
        };
        Some(Self::Bearer { realm: parameter("realm")?, service: parameter("service") })
    }
}

/// Requests a token for this scope.
pub(crate) async fn token(
    http: &HttpClient,
    registry: &str,
    (realm, service): (&str, Option<&str>),
    scope: &str,
    login: Option<&Login>,
) -> Result<HeaderValue, HttpError> {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let separator = if realm.contains('?') { '&' } else { '?' };
    let mut url = format!("{realm}{separator}scope={}", encode(scope));
    if let Some(service) = service {
        url.push_str(&format!("&service={}", encode(service)));
    }
    let mut call = Call::get(url);
    if let Some(login) = login {
        call.headers.insert(AUTHORIZATION, login.header());
    }
    let answer = http.send(&call, registry).await?;
    if !answer.response.status().is_success() {
        return Err(answer.into_error().await);
    }
    let host = answer.host.clone();
    let broken = |reason: &str| HttpError::Broken { host: host.clone(), reason: reason.to_owned() };
    let token: Token =
        serde_json::from_slice(&answer.body(MAX_TOKEN_ANSWER).await?).map_err(|_| broken("it is not a token"))?;
    let token = token.token.or(token.access_token).ok_or_else(|| broken("it has no token"))?;
    sensitive(&format!("Bearer {token}")).map_err(|_| broken("its token cannot be sent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        for (header, expected) in [
            ("Basic realm=\"Registry\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://auth.example/token?a=b\",service=\"registry.example\",scope=\"repository:a:pull,push\"",
                bearer("https://auth.example/token?a=b", Some("registry.example")),
            ),
            ("Bearer service=x, realm=https://auth.example", bearer("https://auth.example", Some("x"))),
            ("Bearer realm=\"https://auth.example", None),
            ("Bearer", None),
            ("Negotiate", None),
        ] {
            assert_eq!(Challenge::parse(header), expected, "{header}");
        }
    }

    #[test]
    fn credentials_of_docker_hub_are_looked_up_as_docker_and_podman_store_them() {
        assert_eq!(stored_names("docker.io"), ["https://index.docker.io/v1/", "docker.io"]);
        assert_eq!(stored_names("registry.example.com:5000"), ["registry.example.com:5000"]);
    }

    #[test]
    fn a_credential_is_not_shown() {
        let login = basic("ada", "secret").unwrap();
        assert!(!format!("{:?}", login.header()).contains(&BASE64_STANDARD.encode("ada:secret")));
        assert!(basic("a\nb", "c").is_ok(), "it is encoded");
    }
}
