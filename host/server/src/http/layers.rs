//! The layers in front of the endpoint, from the outside in: origin check, CORS, compression. The endpoint itself
//! normalizes `Accept`.
//!
//! The layers are plain functions and one-shot services. Router middleware would box a future and clone a service for
//! each layer and each request.
//!
//! CORS: a page that [`cors`](mcp_host_config::http::Http::cors) names may send the headers of the transport, and read
//! the headers of its responses. The server uses no cookies, so CORS credentials are not allowed. Other origins get no
//! CORS headers at all.

pub(super) mod accept;
pub(super) mod compress;
pub(super) mod origin_check;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::response::{IntoResponse as _, Response};
use mcp_host_config::Config;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::cors::{AllowOrigin, CorsLayer};

use self::compress::AcceptedEncodings;
use self::origin_check::is_allowed;
use super::HttpOptions;

/// Answers a request with this handler behind the layers.
pub(super) async fn apply<F: Future<Output = Response>>(
    config: Arc<Config>,
    options: &HttpOptions,
    request: Request,
    mut handler: impl FnMut(Request) -> F,
) -> Response {
    if options.origin_check
        && let Err(rejected) = origin_check::validate(&config, &request)
    {
        return rejected.into_response();
    }
    let accepted = AcceptedEncodings::of(request.headers());
    let Some(cors) = cors_layer(config, request.headers()).filter(|_| options.cors) else {
        return accepted.compress(handler(request).await).await;
    };
    let compressed = service_fn(move |request| {
        let (accepted, answering) = (accepted.clone(), handler(request));
        async move { Ok::<_, Infallible>(accepted.compress(answering.await).await) }
    });
    match Box::pin(cors.layer(compressed).oneshot(request)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

const ALLOWED_METHODS: [Method; 3] = [Method::GET, Method::POST, Method::DELETE];
/// The request headers of clients, in all revisions.
const ALLOWED_HEADERS: [HeaderName; 8] = [
    ACCEPT,
    AUTHORIZATION,
    CONTENT_TYPE,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
];
/// The response headers that clients read.
const EXPOSED_HEADERS: [HeaderName; 3] =
    [WWW_AUTHENTICATE, HeaderName::from_static("mcp-protocol-version"), HeaderName::from_static("mcp-session-id")];

/// The time for which a browser caches a preflight response.
const MAX_AGE: Duration = Duration::from_mins(10);

/// Returns the CORS layer for a request with these headers: it answers preflight requests, and adds the CORS headers to
/// other responses. None if the origin is not a page that the config names.
fn cors_layer(config: Arc<Config>, headers: &HeaderMap) -> Option<CorsLayer> {
    if !headers.get(ORIGIN).is_some_and(|origin| is_allowed(origin, &config.http.cors)) {
        return None;
    }
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| is_allowed(origin, &config.http.cors)))
        .allow_methods(ALLOWED_METHODS)
        .allow_headers(ALLOWED_HEADERS)
        .expose_headers(EXPOSED_HEADERS)
        // Private network access: a public page may reach this private address.
        .allow_private_network(true)
        .max_age(MAX_AGE);
    Some(layer)
}
