//! `WWW-Authenticate`: the credentials that a client needs (RFC 6750, section 3; RFC 9728, section 5.1; MCP 2025-11-25
//! and 2026-07-28, "Authorization").
//!
//! | response | parameters |
//! |---|---|
//! | 401 without credentials | `resource_metadata` and `scope`, if the config has issuers |
//! | 401 with a token that is not accepted | these, and `error="invalid_token"` with a description |
//! | 403 | these, with the scopes that the operation requires, and `error="insufficient_scope"` |
//! | 400 | `error="invalid_request"` |
//! | 503, which is no challenge | `Retry-After` |

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use mcp_host_config::Config;
use mcp_host_config::issuer::Scope;

use super::AuthenticationError;
use super::resource_metadata;
use crate::http::rate_limiter::TooManyRequests;

/// `Retry-After` of a response to a client whose issuer could not be reached.
const RETRY_TIME: HeaderValue = HeaderValue::from_static("5");

/// The parameters of a challenge that depend on the config.
#[derive(Debug, Default)]
pub(super) struct Challenge {
    /// The URL of this server's metadata. None if the server accepts no access tokens.
    resource_metadata: Option<String>,
    /// The scopes that every request requires, if they are the same for all issuers.
    scope: String,
}

impl Challenge {
    pub(super) fn new(config: &Config) -> Self {
        let Some(first) = config.issuers.first() else { return Self::default() };
        let is_common = config.issuers.iter().all(|issuer| issuer.scopes == first.scopes);
        Self {
            resource_metadata: resource_metadata::url(config),
            scope: if is_common { join(&first.scopes) } else { String::new() },
        }
    }

    /// Returns the response to an unauthenticated request.
    pub(super) fn response(&self, error: &AuthenticationError) -> Response {
        let (status, code) = match error {
            AuthenticationError::Missing => (StatusCode::UNAUTHORIZED, None),
            AuthenticationError::Malformed => (StatusCode::BAD_REQUEST, Some("invalid_request")),
            AuthenticationError::InvalidToken(_) => (StatusCode::UNAUTHORIZED, Some("invalid_token")),
            AuthenticationError::InsufficientScope(_) => (StatusCode::FORBIDDEN, Some("insufficient_scope")),
            AuthenticationError::TooManyFailures(exceeded) => return TooManyRequests(*exceeded).into_response(),
            AuthenticationError::Unavailable => return unavailable(error, RETRY_TIME),
            // Whole seconds, rounded up.
            AuthenticationError::KeyPending(wait) => {
                return unavailable(error, wait.as_secs().saturating_add(1).into());
            }
        };
        let required = match error {
            AuthenticationError::InsufficientScope(required) => join(required),
            _ => self.scope.clone(),
        };
        let parameters = [
            ("error", code.map(str::to_owned)),
            ("error_description", code.map(|_| error.to_string().replace(['"', '\\'], "'"))),
            ("scope", Some(required).filter(|scope| !scope.is_empty())),
            ("resource_metadata", self.resource_metadata.clone()),
        ];
        let parameters: Vec<_> =
            parameters.iter().filter_map(|(name, value)| Some(format!("{name}=\"{}\"", value.as_ref()?))).collect();
        let challenge = format!("Bearer {}", parameters.join(", "));
        let challenge = HeaderValue::from_str(challenge.trim_end()).unwrap_or(HeaderValue::from_static("Bearer"));
        (status, [(WWW_AUTHENTICATE, challenge)], format!("{error}\n")).into_response()
    }
}

fn unavailable(error: &AuthenticationError, retry_after: HeaderValue) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, retry_after)], format!("{error}\n")).into_response()
}

fn join(scopes: &[Scope]) -> String {
    scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
}
