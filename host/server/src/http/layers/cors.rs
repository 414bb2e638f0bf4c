//! CORS: pages of other origins get access only if the config names them.
//!
//! A page that [`cors`](mcp_host_config::http::Http::cors) names may send the headers of the transport, and read those of the
//! responses. There are no cookies, so no credentials are allowed. Other origins get no CORS headers at all.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, Method};
use mcp_host_config::Config;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::origin_check::is_allowed;

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

/// Returns the layer for a request with those headers: it answers preflight requests, and adds the CORS headers to other responses.
/// None if they are not of a page that the config names.
pub(super) fn layer(config: Arc<Config>, headers: &HeaderMap) -> Option<CorsLayer> {
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
