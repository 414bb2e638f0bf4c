//! The endpoint: requests for MCP, and what all of them share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use rmcp::model::ServerJsonRpcMessage;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::authentication::{Authenticated, AuthenticationError, Authenticator};
use super::caller::Caller;
use super::guarded_body::GuardedBody;
use super::json_response::message_response;
use super::layers::accept;
use super::post::{self, PostHandler};
use super::preflight::{self, Refusal};
use super::rate_limiter::RateLimiter;
use super::session_stream;
use super::sessions::{self, SessionGuard, Sessions};
use super::stream_limiter::StreamLimiter;
use super::{HttpOptions, unavailable};
use crate::access::Principal;
use crate::config::Operation;
use crate::host::Host;
use crate::log_target;
use crate::server::budget::{Account, Budget, Limits};
use crate::server::client_id::ClientId;

/// The methods of the endpoint, and those of revisions without sessions.
const ALL_METHODS: &str = "GET, POST, DELETE";
const STATELESS_METHODS: &str = "POST";

/// The endpoint, shared by all of its requests.
pub(super) struct Endpoint {
    host: Arc<Host>,
    options: HttpOptions,
    authenticator: Arc<Authenticator>,
    post_handler: PostHandler,
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
        let sessions = Arc::new(Sessions::new(host.clone(), streams.clone()));
        let stream_limiter = Arc::new(StreamLimiter::new(host.clone()));
        let post_handler = PostHandler::new(host.clone(), sessions.clone(), stream_limiter.clone(), shutdown.clone());
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
        let mut operations = Vec::new();
        let response = match *request.method() {
            Method::POST if !accept::accepts_json_and_sse(request.headers()) => {
                let text = "Not Acceptable: Client must accept both application/json and text/event-stream";
                return (StatusCode::NOT_ACCEPTABLE, Body::from(text)).into_response();
            }
            Method::POST if !post::is_json(request.headers()) => {
                let text = "Unsupported Media Type: Content-Type must be application/json";
                return (StatusCode::UNSUPPORTED_MEDIA_TYPE, Body::from(text)).into_response();
            }
            Method::POST => {
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
                operations = received.operations(&self.host);
                if let Err(error) = caller.authenticated.require_scopes(&operations) {
                    return self.reject(&error, caller.account.client());
                }
                let Some(in_flight) = self.begin_request() else { return shutting_down() };
                let response = self.post_handler.handle(received, &caller).await;
                // Until the answer has been sent.
                response.map(|body| GuardedBody::wrap(body, in_flight))
            }
            Method::GET => {
                // Updates require the scopes of a subscription. A token without them gets a stream without updates.
                let subscribe = [Operation::Subscribe];
                let may_subscribe = caller.authenticated.require_scopes(&subscribe).is_ok();
                if may_subscribe {
                    operations.extend(subscribe);
                }
                let may_list = caller.authenticated.require_scopes(&[Operation::List]).is_ok();
                if may_list {
                    operations.push(Operation::List);
                }
                let opened = self.event_stream(request.headers(), &caller, may_subscribe, may_list);
                opened.unwrap_or_else(|refused| *refused)
            }
            Method::DELETE => self.delete_session(request.headers(), &caller).unwrap_or_else(|refused| *refused),
            _ => method_not_allowed(ALL_METHODS),
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

    /// Returns the session that the headers of a request without a message name.
    fn session(&self, headers: &HeaderMap, caller: &Caller) -> Result<SessionGuard, Box<Response>> {
        let refuse =
            |Refusal { status, error }| Box::new(message_response(status, &ServerJsonRpcMessage::error(error, None)));
        if preflight::named_revision(headers).map_err(refuse)?.is_some_and(|revision| !revision.has_sessions()) {
            return Err(Box::new(method_not_allowed(STATELESS_METHODS)));
        }
        let id = sessions::session_id(headers).ok_or_else(|| refuse(Refusal::no_session()))?;
        self.sessions.acquire(id, &caller.authenticated).ok_or_else(|| Box::new(sessions::not_found(None)))
    }

    /// Opens the event stream of a session, within the limit of streams. At the limit the one that the session has ends
    /// nevertheless: its connection may be dead, and the next attempt finds room.
    fn event_stream(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        may_subscribe: bool,
        may_list: bool,
    ) -> Result<Response, Box<Response>> {
        if !accept::accepts_json_and_sse(headers) {
            let text = "Not Acceptable: Client must accept text/event-stream";
            return Err(Box::new((StatusCode::NOT_ACCEPTABLE, Body::from(text)).into_response()));
        }
        let session = self.session(headers, caller)?;
        let permit = self.stream_limiter.acquire(caller.account.client()).map_err(|rejected| {
            session.end_stream();
            Box::new(rejected.into_response())
        })?;
        let keep_alive = self.host.config().http.keep_alive.duration();
        let response =
            session_stream::respond(self.host.clone(), session, headers, may_subscribe, may_list, keep_alive);
        Ok(response.map(|body| GuardedBody::wrap(body, permit)))
    }

    /// Ends a session.
    fn delete_session(&self, headers: &HeaderMap, caller: &Caller) -> Result<Response, Box<Response>> {
        let session = self.session(headers, caller)?;
        self.sessions.end(&session);
        Ok(StatusCode::NO_CONTENT.into_response())
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
    /// Ends the event streams.
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.streams.cancel();
    }
}

fn shutting_down() -> Response {
    unavailable("the server is shutting down\n")
}

fn method_not_allowed(allowed: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, allowed)], Body::from("Method Not Allowed")).into_response()
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

    /// The subscriber of a session exists exactly as long as the session: none may exist that is not in the store,
    /// which is limited.
    #[tokio::test]
    async fn a_session_counts_for_the_limit_whenever_its_client_hangs_up() {
        const LIMIT: usize = 4;
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new();
        config.http.limits.sessions = LIMIT.try_into().unwrap();
        config.http.limits.client_share = "1/1".parse().unwrap();
        let host = Host::builder(config).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let host = Arc::new(host.start().await.unwrap());
        let options = HttpOptions::new().default_principal(Principal::ANONYMOUS);
        let endpoint = Endpoint::new(host.clone(), options, CancellationToken::new());
        let text = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}"#;
        let mut answered = 0;
        for polls in (0..8).cycle().take(64) {
            let client = ClientId::from_address(std::net::Ipv4Addr::LOCALHOST.into());
            let request = axum::http::Request::post("/mcp").header("content-type", "application/json");
            let request = request.extension(endpoint.budget().account(client)).body(Body::from(text)).unwrap();
            let mut handling = Box::pin(endpoint.handle(request));
            let mut response = None;
            for _ in 0..polls {
                if let std::task::Poll::Ready(ready) = futures::poll!(&mut handling) {
                    response = Some(ready);
                    break;
                }
                tokio::task::yield_now().await;
            }
            answered += usize::from(response.as_ref().is_some_and(|response| response.status() == StatusCode::OK));
            drop((handling, response));
            assert_eq!(host.watch_stats().subscribers, endpoint.sessions.count());
            assert!(endpoint.sessions.count() <= LIMIT);
        }
        assert!(answered > LIMIT, "{answered}");
        assert_eq!(endpoint.sessions.count(), LIMIT);
    }
}
