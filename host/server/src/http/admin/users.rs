//! Clients of `/mcp` as users of the administration API: with `users = true` in `[admin]`, a client with a bearer token
//! that `/mcp` accepts may browse ([`browse`](super::api)) and log in to the console. A user has only the view of its
//! own principal.
//!
//! The token is verified for each request against the current config, and needs the scopes of the request. The rates of
//! `/mcp` limit the requests of each principal and the rejected tokens of each address; they are counted apart from
//! requests to `/mcp` (bulkhead). At most [`MAX_REQUESTS`] are in flight until their answers are sent, with a share for
//! each principal.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use mcp_host_base::share_limiter::{ShareLimiter, ShareLimits, SharePermit};
use mcp_host_base::task;
use mcp_host_config::Config;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use tokio_util::task::AbortOnDropHandle;

use super::super::authentication::{Authenticated, AuthenticationError, Authenticator};
use super::super::rate_limiter::RateLimiter;
use super::Connection;
use super::json::Refusal;
use crate::client_id::ClientId;

/// The maximum number of user requests in flight, for one principal and for all: fewer than there are connections, so
/// probes and administrators are answered, too.
const MAX_REQUESTS: ShareLimits = ShareLimits { client: 8, overall: 32 };

/// Authenticates users.
pub(super) struct Users {
    authenticator: Arc<Authenticator>,
    rate_limiter: RateLimiter,
    /// The permits of requests, by the name of the principal.
    requests: ShareLimiter<String>,
    _key_requests: AbortOnDropHandle<()>,
}

impl Users {
    pub(super) fn new(host: &Arc<Host>) -> Self {
        let authenticator = Arc::new(Authenticator::new(host.clone()));
        let key_requests = AbortOnDropHandle::new(task::spawn(authenticator.request_keys()));
        let rate_limiter = RateLimiter::new(host.clone());
        Self { authenticator, rate_limiter, requests: ShareLimiter::default(), _key_requests: key_requests }
    }

    /// Begins a request, which ends when the permit is dropped.
    pub(super) fn begin_request(&self, principal: &Principal) -> Result<SharePermit<String>, Refusal> {
        self.requests.acquire(&principal.name().to_owned(), MAX_REQUESTS).map_err(|_| too_many())
    }

    /// Waits until a user's token is no longer accepted, or has fewer scopes.
    pub(super) fn until_revoked(&self, user: Authenticated) -> impl Future<Output = ()> + Send + use<> {
        self.authenticator.until_revoked(user)
    }

    /// Returns whether users are enabled.
    pub(super) fn may_log_in(&self, config: &Config) -> bool {
        config.admin.as_ref().is_some_and(|admin| admin.users)
    }

    /// Returns the user with a bearer token.
    pub(super) async fn authenticate(
        &self,
        config: &Config,
        token: &str,
        from: Connection,
    ) -> Result<Authenticated, Refusal> {
        let Connection::Tcp(Some(address)) = from else { return Err(unauthorized()) };
        let (client, limits) = (ClientId::from_address(address), &config.http.limits);
        let header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| unauthorized())?;
        let mut request = Request::new(Body::empty());
        request.headers_mut().insert(AUTHORIZATION, header);
        let authenticated = match self.authenticator.authenticate(&mut request, &client, None, None).await {
            Ok(Some(authenticated)) => authenticated,
            Ok(None) => return Err(unauthorized()),
            Err(error) => {
                let counts = matches!(error, AuthenticationError::InvalidToken(_) | AuthenticationError::KeyPending(_));
                if counts && self.rate_limiter.take_failed_authentication(&client, limits).is_err() {
                    return Err(too_many());
                }
                return Err(refusal(&error));
            }
        };
        let client = client.of_principal(&authenticated.principal);
        self.rate_limiter.take(&client, NonZeroU32::MIN, limits).map_err(|_| too_many())?;
        Ok(authenticated)
    }
}

/// The token of the header `Authorization: Bearer`.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The refusal of credentials that are not accepted, or that lack a required scope.
pub(super) fn refusal(error: &AuthenticationError) -> Refusal {
    let status = match error {
        AuthenticationError::InsufficientScope(_) => StatusCode::FORBIDDEN,
        AuthenticationError::Unavailable | AuthenticationError::KeyPending(_) => StatusCode::SERVICE_UNAVAILABLE,
        AuthenticationError::TooManyFailures(_) => StatusCode::TOO_MANY_REQUESTS,
        AuthenticationError::Missing | AuthenticationError::Malformed | AuthenticationError::InvalidToken(_) => {
            StatusCode::UNAUTHORIZED
        }
    };
    Refusal::new(status, error.to_string(), None)
}

fn unauthorized() -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "the token is not accepted", None)
}

fn too_many() -> Refusal {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "there are too many requests; try again later", None)
}
