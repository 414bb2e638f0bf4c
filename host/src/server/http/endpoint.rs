//! The endpoint: requests for MCP, and what all of them share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::authentication::{Authenticated, AuthenticationError, Authenticator};
use super::caller::Caller;
use super::guarded_body::GuardedBody;
use super::layers::accept;
use super::post::{self, PostHandler};
use super::rate_limiter::RateLimiter;
use super::rmcp_service::RmcpService;
use super::sessions::{self, Sessions};
use super::stream_limiter::StreamLimiter;
use super::{HttpOptions, unavailable};
use crate::access::Principal;
use crate::config::Operation;
use crate::host::Host;
use crate::log_target;
use crate::server::SESSION_ID_HEADER;
use crate::server::budget::{Account, Budget, Limits};
use crate::server::client_id::ClientId;

/// An id that no session has: rmcp's are UUIDs.
const UNKNOWN_SESSION: HeaderValue = HeaderValue::from_static("unknown");

/// The endpoint, shared by all of its requests.
pub(super) struct Endpoint {
    host: Arc<Host>,
    options: HttpOptions,
    authenticator: Arc<Authenticator>,
    post_handler: PostHandler,
    rmcp: Arc<RmcpService>,
    sessions: Arc<Sessions>,
    /// The event streams that are open.
    stream_limiter: Arc<StreamLimiter>,
    rate_limiter: RateLimiter,
    /// The budget for answers that wait to be sent.
    budget: Arc<Budget>,
    /// The requests in flight, without the event streams of sessions.
    requests: TaskTracker,
    /// Whether new requests are rejected.
    is_closed: AtomicBool,
    /// Fires at the beginning of graceful shutdown, and ends the streams of `subscriptions/listen`.
    shutdown: CancellationToken,
    /// Fires after the drain, and ends sessions with their event streams.
    streams: CancellationToken,
    /// The task that requests the keys of issuers; none if the service is made outside of a runtime.
    _key_requests: Option<AbortOnDropHandle<()>>,
}

impl Endpoint {
    pub(super) fn new(host: Arc<Host>, options: HttpOptions, shutdown: CancellationToken) -> Self {
        let (streams, shutdown) = (CancellationToken::new(), shutdown.child_token());
        let sessions = Arc::new(Sessions::new(host.clone()));
        let rmcp = Arc::new(RmcpService::new(host.clone(), sessions.clone(), streams.clone(), shutdown.clone()));
        let stream_limiter = Arc::new(StreamLimiter::new(host.clone()));
        let post_handler =
            PostHandler::new(host.clone(), rmcp.clone(), sessions.clone(), stream_limiter.clone(), shutdown.clone());
        let authenticator = Arc::new(Authenticator::new(host.clone()));
        let key_requests = Handle::try_current().map(|runtime| runtime.spawn(authenticator.request_keys()));
        Self {
            budget: budget(host.clone()),
            authenticator,
            _key_requests: key_requests.ok().map(AbortOnDropHandle::new),
            rate_limiter: RateLimiter::new(host.clone()),
            host,
            options,
            post_handler,
            rmcp,
            sessions,
            stream_limiter,
            requests: TaskTracker::new(),
            is_closed: AtomicBool::new(false),
            shutdown,
            streams,
        }
    }

    pub(super) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    pub(super) fn options(&self) -> &HttpOptions {
        &self.options
    }

    /// The budget for answers that wait to be sent.
    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns the principal of a request without credentials: the one in its extensions, or else the default. None if there is
    /// no default.
    pub(super) fn default_principal(&self, request: &Request) -> Option<Principal> {
        request.extensions().get::<Principal>().or(self.options.default_principal.as_ref()).cloned()
    }

    /// Answers a request, which has an [`Account`] in its extensions.
    ///
    /// A `POST` request is in flight from the moment at which its body is complete: a client that never completes it does
    /// not delay a shutdown.
    ///
    /// The branches that are rare are boxed: the future of each request has room for its largest one.
    pub(super) async fn handle(&self, mut request: Request) -> Response {
        if self.is_closed() {
            return shutting_down();
        }
        let Some(connection) = request.extensions().get::<Arc<Account>>().cloned() else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let authenticated = match self.authenticate(&mut request, connection.client()).await {
            Ok(authenticated) => authenticated,
            Err(rejection) => return rejection,
        };
        let account = connection.of_client(connection.client().of_principal(&authenticated.principal));
        if let Err(exceeded) = self.rate_limiter.take(account.client(), NonZeroU32::MIN) {
            return exceeded.into_response();
        }
        let caller = Caller { authenticated, account };
        accept::normalize(&request.method().clone(), request.headers_mut());
        self.hide_foreign_session(&mut request, caller.principal());
        request.extensions_mut().insert(caller.principal().clone());
        let mut operations = Vec::new();
        let response = match *request.method() {
            Method::POST if post::is_json(request.headers()) => {
                let received = match self.post_handler.receive(request, &caller).await {
                    Ok(received) => received,
                    Err(rejected) => return rejected,
                };
                if let Some(further) = received.further_messages()
                    && let Err(exceeded) = self.rate_limiter.take(caller.account.client(), further)
                {
                    return exceeded.into_response();
                }
                // The body may have taken long.
                if caller.authenticated.is_outdated()
                    && let Err(error) = Box::pin(self.authenticator.verify_again(&caller.authenticated)).await
                {
                    return self.reject(&error, caller.account.client());
                }
                operations = received.operations();
                if let Err(error) = caller.authenticated.require_scopes(&operations) {
                    return self.reject(&error, caller.account.client());
                }
                let Some(in_flight) = self.begin_request() else { return shutting_down() };
                let response = self.post_handler.handle(received, &caller).await;
                // Until the answer has been sent.
                response.map(|body| GuardedBody::wrap(body, in_flight))
            }
            Method::GET => {
                // What it delivers requires the scopes of a subscription, if its token has them.
                let subscribe = [Operation::Subscribe];
                if caller.authenticated.require_scopes(&subscribe).is_ok() {
                    operations.extend(subscribe);
                }
                Box::pin(self.forward_event_stream(request, &caller)).await
            }
            _ => Box::pin(self.rmcp.forward(request, None, &caller)).await,
        };
        if caller.authenticated.has_credentials() && is_event_stream(&response) {
            let revoked = self.authenticator.until_revoked(caller.authenticated, operations);
            return response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(revoked))));
        }
        response
    }

    /// Determines the principal of a request of that client, and removes its credentials.
    async fn authenticate(&self, request: &mut Request, client: &ClientId) -> Result<Authenticated, Response> {
        if let Some(principal) = request.extensions().get::<Principal>().cloned() {
            request.headers_mut().remove(AUTHORIZATION);
            return Ok(Authenticated::by_application(principal));
        }
        let default = self.options.default_principal.as_ref();
        let authenticated = self.authenticator.authenticate(request, client, default).await;
        authenticated
            .map_err(|error| self.reject_unauthenticated(&error, client))?
            .ok_or_else(|| (StatusCode::UNAUTHORIZED, "the request has no principal\n").into_response())
    }

    /// Returns the response to a request of that client without a principal, within its rates.
    fn reject_unauthenticated(&self, error: &AuthenticationError, client: &ClientId) -> Response {
        let taken = match error {
            AuthenticationError::TooManyFailures(_) => Ok(()),
            // Anybody can send a token of an unknown key.
            AuthenticationError::InvalidToken(_) | AuthenticationError::KeyPending(_) => {
                self.rate_limiter.take_failed_authentication(client)
            }
            _ => self.rate_limiter.take(client, NonZeroU32::MIN),
        };
        taken.map_or_else(IntoResponse::into_response, |()| self.reject(error, client))
    }

    /// Returns the response to a request of that client whose credentials do not suffice, and logs why.
    fn reject(&self, error: &AuthenticationError, client: &ClientId) -> Response {
        match error {
            AuthenticationError::TooManyFailures(exceeded) => {
                self.rate_limiter.reject(client, *exceeded).into_response()
            }
            error => self.authenticator.reject(error, client),
        }
    }

    /// Counts a request in flight, unless new ones are rejected.
    fn begin_request(&self) -> Option<TaskTrackerToken> {
        // The token first: a request that is not rejected is waited for.
        let token = self.requests.token();
        (!self.is_closed()).then_some(token)
    }

    /// Replaces the id of a session that belongs to another principal, or that does not exist, by one that no session
    /// has. So both are rejected in the same way, and even a session that is just being closed is not found by another
    /// principal.
    fn hide_foreign_session(&self, request: &mut Request, principal: &Principal) {
        let headers = request.headers_mut();
        if sessions::session_id(headers).is_some_and(|id| !self.sessions.belongs_to(id, principal)) {
            headers.insert(SESSION_ID_HEADER, UNKNOWN_SESSION);
        }
    }

    /// Opens the event stream of a session, within the limit of streams.
    async fn forward_event_stream(&self, request: Request, caller: &Caller) -> Response {
        match self.stream_limiter.acquire(caller.account.client()) {
            Ok(permit) => self.rmcp.forward(request, None, caller).await.map(|body| GuardedBody::wrap(body, permit)),
            Err(rejected) => rejected.into_response(),
        }
    }

    /// Returns whether new requests are rejected.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Rejects new requests, and ends the streams of `subscriptions/listen`.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.shutdown.cancel();
    }

    /// Waits until the requests in flight have been answered, at most `timeout`; then rejects new ones, and ends the
    /// event streams of sessions, on which no more notifications will be sent.
    pub(super) async fn drain(&self, timeout: Duration) {
        self.requests.close();
        if tokio::time::timeout(timeout, self.requests.wait()).await.is_err() {
            tracing::warn!(target: log_target::SERVER, "shutdown: drain timed out with requests in flight");
        }
        self.is_closed.store(true, Ordering::Release);
        self.streams.cancel();
    }
}

impl Drop for Endpoint {
    /// Ends the sessions and the event streams. The tasks of sessions share the host, and end by nothing else.
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.streams.cancel();
    }
}

fn shutting_down() -> Response {
    unavailable("the server is shutting down\n")
}

/// Whether the response is a stream of server-sent events.
pub(super) fn is_event_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// The budget for answers that wait to be sent, by the limits of the current config.
fn budget(host: Arc<Host>) -> Arc<Budget> {
    Budget::new(move || {
        let limits = &host.config().http.limits;
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let overall = bytes(limits.response_memory.bytes());
        Limits {
            connection: bytes(limits.response_memory_per_connection.bytes()),
            client: limits.client_share.apply(overall),
            principal: limits.principal_share.apply(overall),
            overall,
            wait: limits.write_timeout.duration(),
        }
    })
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Each request allocates it, and a future has room for an argument twice: as it was given, and while it is awaited. A few
    /// functions that take a future and await it once made 34 KiB of this one.
    #[tokio::test]
    async fn the_future_of_a_request_is_small() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::builder(Config::new()).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let host = Arc::new(host.start().await.unwrap());
        let endpoint = Endpoint::new(host, HttpOptions::new(), CancellationToken::new());
        let size = size_of_val(&endpoint.handle(Request::new(Body::empty())));
        assert!(size <= 10 << 10, "{size}");
    }
}
