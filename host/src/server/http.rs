//! MCP over streamable HTTP, at `/mcp`; and `/healthz`, which answers 200 while the server takes requests.
//!
//! What a request to `/mcp` goes through, from the outside to rmcp:
//!
//! | module | does |
//! |---|---|
//! | [`connection`], [`tls`], [`activity`] | takes it, over HTTP/1.1 or HTTP/2, with or without TLS, within limits |
//! | [`sites`] | keeps out what pages of other sites ask |
//! | [`cors`] | lets pages that the config names see the answer |
//! | [`accept`] | reads `Accept` as RFC 9110 has it |
//! | [`compress`] | compresses the answer for those who ask for it |
//! | [`posted`], [`in_flight`] | checks the message |
//! | [`diverted`] | has rmcp pass on what an extension answers |
//! | [`sessions`] | follows the session, and ends it when it is idle |
//!
//! How HTTP is spoken stands in `[http]` of the config, and is looked up there for each connection and request: a reload
//! counts at once.

mod accept;
mod activity;
mod compress;
mod connection;
mod cors;
mod diverted;
mod guarded;
mod in_flight;
mod posted;
mod sessions;
mod sites;
mod tls;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::connection::Connections;
use self::guarded::Guarded;
use self::posted::Posts;
use self::sessions::Sessions;
use super::about::About;
use super::handler::{Face, Handler};
use super::{MAX_DRAIN, ServeError};
use crate::access::Principal;
use crate::host::Host;

/// Where clients find the server.
const ENDPOINT: &str = "/mcp";
/// The header that says which session the client means.
const SESSION: &str = "mcp-session-id";

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
    let (streams, requests) = (CancellationToken::new(), TaskTracker::new());
    let sessions = Arc::new(Sessions::new(host.clone()));
    let idling = sessions.clone();
    let idling = AbortOnDropHandle::new(tokio::spawn(async move { idling.end_idle().await }));
    let service = mcp_service(host.clone(), &sessions, streams.clone(), shutdown.clone());
    let app = Router::new()
        .route_service(ENDPOINT, service)
        .layer(from_fn_with_state(sessions, sessions::follow))
        .layer(from_fn_with_state(Posts::to(host.clone()), posted::check))
        .layer(compress::layer())
        .layer(from_fn_with_state(requests.clone(), track))
        .layer(from_fn(identify))
        .layer(from_fn(accept::normalise))
        .layer(from_fn_with_state(host.clone(), cors::share))
        .layer(from_fn_with_state(host.clone(), sites::check))
        .route("/healthz", get(async || "ok\n"));
    let connections = Connections::new(host, app, tls, shutdown);
    connections.accept(listener).await;
    requests.close();
    if tokio::time::timeout(MAX_DRAIN, requests.wait()).await.is_err() {
        tracing::warn!("ending with requests unanswered");
    }
    drop(idling);
    // What is open now waits for notifications, which do not come any more.
    streams.cancel();
    connections.close().await;
    Ok(())
}

fn mcp_service(
    host: Arc<Host>,
    sessions: &Sessions,
    streams: CancellationToken,
    ending: CancellationToken,
) -> StreamableHttpService<Handler, LocalSessionManager> {
    // Who may ask, and how long a body is, has been checked when rmcp sees a request.
    let config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(usize::MAX)
        .with_sse_keep_alive(Some(host.config().http.keep_alive.duration()))
        .with_cancellation_token(streams);
    let about = Arc::new(About::default());
    let handler = move || Ok::<_, io::Error>(Handler::new(host.clone(), about.clone(), Face::Http, ending.clone()));
    StreamableHttpService::new(handler, sessions.manager(), config)
}

/// Says who asks. Nothing is known of anyone yet but that they are on this machine.
async fn identify(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Principal::ANONYMOUS);
    next.run(request).await
}

/// Counts a request as in flight until its answer has been sent. Streams that a client opens to wait on do not count.
async fn track(State(requests): State<TaskTracker>, request: Request, next: Next) -> Response {
    if request.method() != axum::http::Method::POST {
        return next.run(request).await;
    }
    let in_flight = requests.token();
    next.run(request).await.map(|body| Guarded::body(body, in_flight))
}
