//! MCP over streamable HTTP, at `/mcp`; and `/healthz`, which answers 200 while the server takes requests.
//!
//! What a request to `/mcp` goes through, from the outside in:
//!
//! | module | does |
//! |---|---|
//! | [`connection`], [`tls`], [`activity`] | takes it, over HTTP/1.1 or HTTP/2, with or without TLS, within limits |
//! | [`sites`] | keeps out what pages of other sites ask |
//! | [`cors`] | lets pages that the config names see the answer |
//! | [`compress`] | compresses the answer for those who ask for it |
//! | [`accept`] | reads `Accept` as RFC 9110 has it |
//! | [`received`] | takes the body in, within limits |
//! | [`posted`], [`in_flight`] | checks the message |
//! | [`standing`] | says whether it can be answered at once: a [request for resources](super::requests) that is in order |
//! | [`onward`] | has rmcp answer the rest |
//! | [`sessions`] | follows the session, and ends it when it is idle |
//!
//! How HTTP is spoken stands in `[http]` of the config, and is looked up there for each connection and request: a reload
//! counts at once.

mod accept;
mod activity;
mod compress;
mod connection;
mod cors;
mod guarded;
mod in_flight;
mod onward;
mod posted;
mod received;
mod sessions;
mod sites;
mod standing;
mod tls;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::connection::Connections;
use self::guarded::Guarded;
use self::onward::Onward;
use self::posted::Posts;
use self::sessions::Sessions;
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
    let onward = Arc::new(Onward::new(host.clone(), sessions, streams.clone(), shutdown.clone()));
    let posts = Posts::new(host.clone(), onward.clone());
    let endpoint = Arc::new(Endpoint { posts, onward, requests: requests.clone() });
    let app = Router::new()
        .route(ENDPOINT, any(async |State(endpoint): State<Arc<Endpoint>>, request| endpoint.answer(request).await))
        .with_state(endpoint)
        .layer(compress::layer())
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

/// Answers those who may ask.
struct Endpoint {
    posts: Posts,
    onward: Arc<Onward>,
    /// The requests in flight. Streams that a client opens to wait on do not count.
    requests: TaskTracker,
}

impl Endpoint {
    async fn answer(&self, mut request: Request) -> Response {
        let in_flight = (request.method() == Method::POST).then(|| self.requests.token());
        // Nothing is known of anyone yet but that they are on this machine.
        let who = Principal::ANONYMOUS;
        let method = request.method().clone();
        accept::normalise(&method, request.headers_mut());
        request.extensions_mut().insert(who.clone());
        let response = match posted::is_message(&request) {
            true => self.posts.answer(request, &who).await,
            false => self.onward.answer(request).await,
        };
        match in_flight {
            // Until the answer has been sent.
            Some(in_flight) => response.map(|body| Guarded::body(body, in_flight)),
            None => response,
        }
    }
}
