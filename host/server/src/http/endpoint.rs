//! The endpoint: MCP requests, and their shared state.
//!
//! [`Endpoint::handle`] contains the steps of a request in their order. Its credentials become a [`RequestSource`],
//! with a snapshot of the config that is valid until the answer. Then the request is dispatched by its method: `POST`
//! is in [`post`](super::post).

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
use mcp_host_base::log_target;
use mcp_host_base::metrics::Open;
use mcp_host_base::share_limiter::{ShareLimiter, SharePermit};
use mcp_host_config::{Config, Operation};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::HttpOptions;
use super::authentication::{Authenticated, AuthenticationError, Authenticator};
use super::layers::accept;
use super::preflight::{self, Headers};
use super::rate_limiter::RateLimiter;
use super::request_body::BodyLimiter;
use super::request_source::{Peer, RequestSource};
use super::response::{GuardedBody, rejection_response, unavailable};
use super::session_stream;
use super::sessions::{self, Missing, SessionGuard, Sessions};
use crate::budget::{Budget, Limits};
use crate::client_id::ClientId;
use crate::jsonrpc::Rejection;
use crate::server_metrics::ServerMetrics;

/// The allowed methods of the endpoint, and the methods of revisions without sessions.
const ALL_METHODS: &str = "GET, POST, DELETE";
const STATELESS_METHODS: &str = "POST";

/// The endpoint, shared by all requests.
pub(super) struct Endpoint {
    pub(super) host: Arc<Host>,
    options: HttpOptions,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) body_limiter: BodyLimiter,
    /// The event streams that are open: `GET`, and `subscriptions/listen`. A response to any other request does not
    /// count, even if it consists of events, because it ends with the answer.
    stream_limiter: ShareLimiter<ClientId>,
    pub(super) rate_limiter: RateLimiter,
    pub(super) metrics: Arc<ServerMetrics>,
    /// The budget for answers that wait to be sent.
    budget: Arc<Budget>,
    /// The requests in flight, without the event streams of sessions.
    requests: TaskTracker,
    /// Whether new requests are rejected.
    is_closed: AtomicBool,
    /// Fires at the beginning of graceful shutdown, and ends the streams of `subscriptions/listen`.
    pub(super) shutdown: CancellationToken,
    /// Fires after the drain, and ends sessions with their event streams.
    streams: CancellationToken,
    /// The task that requests the keys of issuers. None if the service is created outside of a runtime.
    _key_requests: Option<AbortOnDropHandle<()>>,
}

/// The permit of an event stream, with its gauge.
pub(super) type StreamPermit = (SharePermit<ClientId>, Open);

impl Endpoint {
    pub(super) fn new(host: Arc<Host>, options: HttpOptions, shutdown: CancellationToken) -> Self {
        let (streams, shutdown) = (CancellationToken::new(), shutdown.child_token());
        let sessions = Arc::new(Sessions::new(host.clone(), streams.clone()));
        let authenticator = Arc::new(Authenticator::new(host.clone()));
        let key_requests = Handle::try_current().map(|runtime| runtime.spawn(authenticator.request_keys()));
        Self {
            budget: budget(host.clone()),
            authenticator,
            _key_requests: key_requests.ok().map(AbortOnDropHandle::new),
            rate_limiter: RateLimiter::new(host.clone()),
            metrics: ServerMetrics::of(&host),
            host,
            options,
            sessions,
            body_limiter: BodyLimiter::default(),
            stream_limiter: ShareLimiter::default(),
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

    /// Returns the principal of a request without credentials: the one in its extensions, or else the default. None if
    /// there is no default.
    pub(super) fn default_principal(&self, request: &Request) -> Option<Principal> {
        request.extensions().get::<Principal>().or(self.options.default_principal.as_ref()).cloned()
    }

    /// Answers a request of this peer under this config.
    ///
    /// Rare branches are boxed, because the future of each request has the size of its largest branch.
    pub(super) async fn handle(&self, mut request: Request, peer: Arc<Peer>, config: Arc<Config>) -> Response {
        if self.is_closed() {
            return shutting_down();
        }
        let mut source = match self.identify(&mut request, peer, config).await {
            Ok(source) => source,
            Err(rejected) => return rejected,
        };
        accept::normalize(&request.method().clone(), request.headers_mut());
        let response = match *request.method() {
            Method::POST => self.post(request, &mut source).await.unwrap_or_else(|rejected| rejected),
            Method::GET => {
                let streaming = Box::pin(self.event_stream(request.headers(), &source));
                streaming.await.unwrap_or_else(|rejected| *rejected)
            }
            Method::DELETE => {
                let deleting = Box::pin(self.delete_session(request.headers(), &source));
                deleting.await.unwrap_or_else(|rejected| *rejected)
            }
            _ => method_not_allowed(ALL_METHODS),
        };
        if source.authenticated.has_credentials() && is_event_stream(&response) {
            let revoked = self.authenticator.until_revoked(source.authenticated);
            return response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(revoked))));
        }
        response
    }

    /// Determines the principal of a request, within the rate limits, and removes the credentials from the request.
    async fn identify(
        &self,
        request: &mut Request,
        peer: Arc<Peer>,
        config: Arc<Config>,
    ) -> Result<RequestSource, Response> {
        let (client, limits) = (peer.account.client(), &config.http.limits);
        let authenticated = if let Some(principal) = request.extensions().get::<Principal>().cloned() {
            request.headers_mut().remove(AUTHORIZATION);
            Authenticated::by_application(principal)
        } else {
            let default = self.options.default_principal.as_ref();
            match self.authenticator.authenticate(request, client, peer.certificate.as_ref(), default).await {
                Ok(Some(authenticated)) => authenticated,
                Ok(None) => return Err((StatusCode::UNAUTHORIZED, "the request has no principal\n").into_response()),
                Err(error) => {
                    let taken = match error {
                        AuthenticationError::TooManyFailures(_) => Ok(()),
                        // Any client can send a token with an unknown key.
                        AuthenticationError::InvalidToken(_) | AuthenticationError::KeyPending(_) => {
                            self.rate_limiter.take_failed_authentication(client, limits)
                        }
                        _ => self.rate_limiter.take(client, NonZeroU32::MIN, limits),
                    };
                    return Err(taken.map_or_else(IntoResponse::into_response, |()| self.reject(&error, client)));
                }
            }
        };
        let account = peer.account.of_client(client.of_principal(&authenticated.principal));
        let taken = self.rate_limiter.take(account.client(), NonZeroU32::MIN, limits);
        taken.map_err(IntoResponse::into_response)?;
        Ok(RequestSource { peer, config, authenticated, account })
    }

    /// Returns the response to a request with insufficient credentials, and logs the reason.
    pub(super) fn reject(&self, error: &AuthenticationError, client: &ClientId) -> Response {
        match error {
            AuthenticationError::TooManyFailures(exceeded) => {
                self.rate_limiter.reject(client, *exceeded).into_response()
            }
            error => self.authenticator.reject(error, client),
        }
    }

    /// Counts a request in flight, unless new ones are rejected.
    pub(super) fn begin_request(&self) -> Result<TaskTrackerToken, Box<Response>> {
        // The token comes first, so that drain waits for every request that is not rejected.
        let token = self.requests.token();
        if self.is_closed() { Err(Box::new(shutting_down())) } else { Ok(token) }
    }

    /// Returns the session that the headers of a request without a body name.
    async fn session(&self, headers: &HeaderMap, source: &RequestSource) -> Result<SessionGuard, Box<Response>> {
        let reject = |error| Box::new(rejection_response(Rejection::new(None, error)));
        let named = Headers(headers);
        if named.check_repetition().and_then(|()| named.is_stateless()).map_err(reject)? {
            return Err(Box::new(method_not_allowed(STATELESS_METHODS)));
        }
        let id = sessions::session_id(headers).ok_or_else(|| reject(preflight::no_session()))?;
        self.sessions.find(id, source, true).await.map_err(missing_response)
    }

    /// Opens the event stream of a session, within the limit of streams. At the limit, the existing stream of the
    /// session is ended nevertheless: its connection may be dead, and the next attempt then finds room.
    ///
    /// Updates require the scopes of a subscription: a token without them gets a stream without updates.
    async fn event_stream(&self, headers: &HeaderMap, source: &RequestSource) -> Result<Response, Box<Response>> {
        let scopes = source.authenticated.scopes();
        if !accept::accepts_json_and_sse(headers) {
            let text = "Not Acceptable: Client must accept text/event-stream";
            return Err(Box::new((StatusCode::NOT_ACCEPTABLE, Body::from(text)).into_response()));
        }
        let session = self.session(headers, source).await?;
        let received = session_stream::last_event_id(headers).and_then(|id| session.event_number(id));
        let tells_all = self.sessions.before_stream(&session, received).await.map_err(missing_response)?;
        let http = &source.config.http;
        let permit = self.acquire_stream(source).inspect_err(|_| session.end_stream())?;
        let (host, keep_alive) = (self.host.clone(), http.keep_alive.duration());
        let guard = session.clone();
        let response = session_stream::respond(host, session, received, scopes, keep_alive);
        self.sessions.after_stream(&guard, tells_all && scopes.include(Operation::Subscribe)).await;
        Ok(response.map(|body| GuardedBody::wrap(body, permit)))
    }

    /// Acquires the permit of an event stream, which is held until the stream ends. The error is the response at the
    /// limit.
    pub(super) fn acquire_stream(&self, source: &RequestSource) -> Result<StreamPermit, Box<Response>> {
        let (client, limits) = (source.account.client(), &source.config.http.limits);
        let acquired = self.stream_limiter.acquire(client, client.share_limits(limits.streams.get(), limits));
        acquired.map(|permit| (permit, self.metrics.open_stream())).map_err(|exhausted| {
            self.metrics.record_rejection("http.limits.streams");
            tracing::debug!(target: log_target::SERVER, %client, ?exhausted, "event stream rejected (`http.limits.streams`)");
            Box::new(unavailable("as many streams of events are open as there may be\n"))
        })
    }

    /// Ends a session.
    async fn delete_session(&self, headers: &HeaderMap, source: &RequestSource) -> Result<Response, Box<Response>> {
        let session = self.session(headers, source).await?;
        self.sessions.end(&session).await.map_err(missing_response)?;
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

fn missing_response(missing: Missing) -> Box<Response> {
    Box::new(rejection_response(missing.rejection(None)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Config;

    fn peer(endpoint: &Endpoint) -> Arc<Peer> {
        let client = ClientId::from_address(std::net::Ipv4Addr::LOCALHOST.into());
        Arc::new(Peer { account: endpoint.budget().account(client), certificate: None, bodies: None })
    }

    /// Each request allocates its future, and a future has room for an argument twice: as it was passed, and while it
    /// is awaited. A few functions that took a future and awaited it once enlarged this one by 34 KiB.
    #[tokio::test]
    async fn the_future_of_a_request_is_small() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::builder(Config::new()).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let host = Arc::new(host.start().await.unwrap());
        let endpoint = Endpoint::new(host, HttpOptions::new(), CancellationToken::new());
        let (peer, config) = (peer(&endpoint), endpoint.host.config());
        let size = size_of_val(&endpoint.handle(Request::new(Body::empty()), peer, config));
        assert!(size <= 12 << 10, "{size}");
    }

    /// The subscriber of a session exists exactly as long as the session: a subscriber outside of the store, which is
    /// limited, must not exist.
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
            let request = axum::http::Request::post("/mcp").header("content-type", "application/json");
            let request = request.body(Body::from(text)).unwrap();
            let mut handling = Box::pin(endpoint.handle(request, peer(&endpoint), host.config()));
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
