//! MCP over streamable HTTP, at `/mcp`; and `/healthz`, which answers 200 while the server takes requests.
//!
//! What a request to `/mcp` goes through, from the outside in:
//!
//! | module | does |
//! |---|---|
//! | [`connection`], [`tls`], [`activity`] | takes it, over HTTP/1.1 or HTTP/2, with or without TLS, within limits |
//! | [`head`] | keeps of the head what is looked at |
//! | [`delivery`], [`executor`] | follows the answer until it is sent, and ends it if it does not get on |
//! | [`client_limiter`] | keeps one client from taking all connections, sessions or streams of events |
//! | [`origin_check`] | keeps out what pages of other sites ask |
//! | [`cors`] | lets pages that the config names see the answer |
//! | [`compress`] | compresses the answer for those who ask for it |
//! | [`accept`] | reads `Accept` as RFC 9110 has it |
//! | [`request_body`] | takes the body in, within limits |
//! | [`post`], [`in_flight`] | checks the message |
//! | [`preflight`] | says whether it can be answered at once: a [request for resources](super::resource_requests) that is in order |
//! | [`stream_limiter`] | bounds the streams that clients open to be told something |
//! | [`rmcp_service`] | has rmcp answer the rest |
//! | [`sessions`] | follows the session, and ends it when it is idle |
//!
//! How HTTP is spoken stands in `[http]` of the config, and is looked up there for each connection and request: a reload
//! counts at once.

mod accept;
mod activity;
mod client_limiter;
mod compress;
mod connection;
mod cors;
mod delivery;
mod executor;
mod guarded_body;
mod head;
mod in_flight;
mod origin_check;
mod post;
mod preflight;
mod request_body;
mod rmcp_service;
mod sessions;
mod stream_limiter;
mod tls;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::connection::Connections;
use self::guarded_body::GuardedBody;
use self::post::PostHandler;
use self::rmcp_service::RmcpService;
use self::sessions::Sessions;
use self::stream_limiter::StreamLimiter;
use super::budget::{Account, Budget, Limits};
use super::{DRAIN_TIMEOUT, ServeError};
use crate::access::Principal;
use crate::host::Host;
use crate::log_target;

/// Where clients find the server.
const ENDPOINT_PATH: &str = "/mcp";
/// The header that says which session the client means.
const SESSION_ID_HEADER: &str = "mcp-session-id";

/// Serves HTTP clients on that listener until `shutdown` fires, over TLS if the config has a certificate.
///
/// Then nothing listens any more, requests in flight are answered, streams of events are ended, and connections closed; all
/// that within bounds.
///
/// # Errors
///
/// TLS cannot be set up.
pub async fn serve_http(host: Arc<Host>, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
    let tls = tls::acceptor(&host).map_err(|error| ServeError::Internal(error.to_string()))?;
    let (stream_shutdown, requests) = (CancellationToken::new(), TaskTracker::new());
    let sessions = Arc::new(Sessions::new(host.clone()));
    let reaped_sessions = sessions.clone();
    let session_reaper = AbortOnDropHandle::new(tokio::spawn(async move { reaped_sessions.close_idle().await }));
    let rmcp = Arc::new(RmcpService::new(host.clone(), sessions, stream_shutdown.clone(), shutdown.clone()));
    let stream_limiter = Arc::new(StreamLimiter::new(host.clone()));
    let post_handler = PostHandler::new(host.clone(), rmcp.clone(), stream_limiter.clone());
    let budget = budget(&host);
    let endpoint = Arc::new(Endpoint { post_handler, rmcp, requests: requests.clone(), stream_limiter });
    let app = Router::new()
        .route(
            ENDPOINT_PATH,
            any(async |State(endpoint): State<Arc<Endpoint>>, request| endpoint.handle(request).await),
        )
        .with_state(endpoint)
        .layer(compress::layer())
        .layer(from_fn_with_state(host.clone(), cors::apply))
        .layer(from_fn_with_state(host.clone(), origin_check::require_allowed_origin))
        .route("/healthz", get(async || "ok\n"));
    let connections = Connections::new(host, app, tls, budget, shutdown);
    connections.accept(listener).await;
    requests.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, requests.wait()).await.is_err() {
        tracing::warn!(target: log_target::SERVER, "shutdown: drain timed out with requests in flight");
    }
    drop(session_reaper);
    // What is open now waits for notifications, which do not come any more.
    stream_shutdown.cancel();
    connections.close().await;
    Ok(())
}

/// The budget for answers that wait to be sent.
fn budget(host: &Arc<Host>) -> Arc<Budget> {
    let host = host.clone();
    Budget::new(move || {
        let limits = &host.config().http.limits;
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let overall = bytes(limits.response_memory.bytes());
        Limits {
            connection: bytes(limits.response_memory_per_connection.bytes()),
            client: limits.client_share.apply(overall),
            overall,
            wait: limits.write_timeout.duration(),
        }
    })
}

/// Answers those who may ask.
struct Endpoint {
    post_handler: PostHandler,
    rmcp: Arc<RmcpService>,
    /// The streams of events that are open.
    stream_limiter: Arc<StreamLimiter>,
    /// The requests in flight. Streams that a client opens to wait on do not count.
    requests: TaskTracker,
}

impl Endpoint {
    async fn handle(&self, mut request: Request) -> Response {
        let in_flight = (request.method() == Method::POST).then(|| self.requests.token());
        // Nothing is known of anyone yet but that they are on this machine.
        let principal = Principal::ANONYMOUS;
        let method = request.method().clone();
        accept::normalize(&method, request.headers_mut());
        request.extensions_mut().insert(principal.clone());
        let Some(account) = request.extensions().get::<Arc<Account>>().cloned() else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let response = match post::is_json_post(&request) {
            true => self.post_handler.handle(request, &principal, &account).await,
            false if method == Method::GET => self.forward_event_stream(request, &account).await,
            false => self.rmcp.forward(request).await,
        };
        match in_flight {
            // Until the answer has been sent.
            Some(in_flight) => response.map(|body| GuardedBody::wrap(body, in_flight)),
            None => response,
        }
    }

    /// The stream of events of a session, if there is a place for it.
    async fn forward_event_stream(&self, request: Request, account: &Account) -> Response {
        match self.stream_limiter.acquire(account.client()) {
            Ok(place) => self.rmcp.forward(request).await.map(|body| GuardedBody::wrap(body, place)),
            Err(refused) => refused.into_response(),
        }
    }
}

/// Says that there is no room now, and when to try again.
fn unavailable(text: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
}
