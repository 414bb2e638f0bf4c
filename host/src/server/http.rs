//! MCP over streamable HTTP, at `/mcp`; and `/healthz`, which answers 200 while the server takes requests.
//!
//! Only pages and programs of this machine get in: a request whose `Host` or `Origin` is not a loopback one is refused
//! (DNS rebinding; MCP 2025-11-25, "Transports", "Security Warning").

mod diverted;
mod guarded;
mod in_flight;
mod posted;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::guarded::Guarded;
use self::posted::Posts;
use super::about::About;
use super::handler::{Face, Handler};
use super::{MAX_DRAIN, ServeError};
use crate::access::Principal;
use crate::host::Host;

/// Where clients find the server.
const ENDPOINT: &str = "/mcp";
/// Pages that may ask: those that this machine serves.
const ORIGINS: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];
/// How long a session lives with nothing asked. A client that only waits for notifications is quiet for long.
const SESSION_IDLE: Duration = Duration::from_hours(24);

/// How long connections are given to close once nothing is in flight: one whose request never comes whole would never do.
const MAX_CLOSE: Duration = Duration::from_secs(1);

/// Serves HTTP clients on that listener until `shutdown` fires; requests in flight are answered first.
pub async fn serve_http(host: Arc<Host>, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
    let streams = CancellationToken::new();
    let requests = TaskTracker::new();
    let posts = Posts::to(host.clone());
    let service = mcp_service(host, streams.clone(), shutdown.clone());
    let app = Router::new()
        .route_service(ENDPOINT, service)
        .layer(middleware::from_fn_with_state(posts, posted::check))
        .layer(middleware::from_fn_with_state(requests.clone(), track))
        .layer(middleware::from_fn(identify))
        .route("/healthz", get(async || "ok\n"));
    let listener = listener.tap_io(|tcp| {
        // Answers are small and written whole: waiting to fill a packet only delays them.
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set");
        }
    });
    let ending = shutdown.clone();
    let drain = async move {
        ending.cancelled().await;
        requests.close();
        if tokio::time::timeout(MAX_DRAIN, requests.wait()).await.is_err() {
            tracing::warn!("ending with requests unanswered");
        }
        // What is open now waits for notifications, which do not come any more.
        streams.cancel();
        tokio::time::sleep(MAX_CLOSE).await;
        tracing::debug!("ending with connections open that have not asked anything");
    };
    let serving = axum::serve(listener, app).with_graceful_shutdown(shutdown.cancelled_owned()).into_future();
    tokio::select! {
        served = serving => served.map_err(ServeError::Transport),
        () = drain => Ok(()),
    }
}

fn mcp_service(
    host: Arc<Host>,
    streams: CancellationToken,
    ending: CancellationToken,
) -> StreamableHttpService<Handler, LocalSessionManager> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    let config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .with_allowed_origins(ORIGINS)
        .with_cancellation_token(streams);
    let about = Arc::new(About::default());
    let handler = move || Ok::<_, io::Error>(Handler::new(host.clone(), about.clone(), Face::Http, ending.clone()));
    StreamableHttpService::new(handler, Arc::new(sessions), config)
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
