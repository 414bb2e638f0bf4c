//! MCP over streamable HTTP: as a service that an application mounts in its own server ([`http_service`], [`router`]),
//! or with a listener of its own ([`serve_http`]), at `/mcp`, with a health check at `/healthz`.
//!
//! Two functions contain the steps of a request to `/mcp` in their order: [`service::serve`] for HTTP, and
//! [`Endpoint::handle`](endpoint::Endpoint::handle) for MCP. From the outside in:
//!
//! | module | does |
//! |---|---|
//! | [`listener`] | accepts connections, over HTTP/1.1 or HTTP/2, with or without TLS, within limits, and tracks the delivery of answers |
//! | [`service`] | supplies the properties of a connection when the service is mounted in another server |
//! | [`head`] | drops the header fields that are not used |
//! | [`unread_body`] | discards the body of a request that is rejected before it was read |
//! | [`layers`] | validates `Host` and `Origin`, handles CORS, compresses answers, normalizes `Accept` |
//! | [`endpoint`], [`authentication`], [`request_source`] | determine the principal |
//! | [`rate_limiter`] | limits the rate of requests |
//! | [`request_body`] | receives the body, within limits |
//! | [`post`], [`preflight`] | dispatch the message, whose headers have to agree with it, and answer it |
//! | [`sessions`] | opens and finds sessions, and ends those that are idle |
//! | [`session_stream`] | delivers the notifications of a session |
//! | [`response`] | builds responses |
//!
//! [`admin`] is a separate listener for operators.
//!
//! Each client, an authenticated principal or an address, has a [share](mcp_host_base::share_limiter) of the limits of
//! connections, sessions, event streams and bytes of bodies.
//!
//! The config is looked up once for each connection and once for each request, so a reload takes effect immediately,
//! and a request sees one config.

pub(crate) mod admin;
mod authentication;
mod endpoint;
mod head;
mod layers;
mod listener;
mod options;
mod post;
mod preflight;
mod rate_limiter;
mod request_body;
mod request_source;
mod response;
mod service;
mod session_stream;
mod sessions;
mod unread_body;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::listener::connection::Connections;
use self::listener::tls;
pub use self::options::HttpOptions;
pub use self::service::{McpService, http_service, router};
use mcp_host_config::http::ENDPOINT_PATH;
use mcp_resource_host::host::Host;

use super::{DRAIN_TIMEOUT, ServeError};

/// Serves HTTP clients on this listener until `shutdown` fires, over TLS if the config has a certificate. A client is
/// the principal of its bearer token, and [`Principal::ANONYMOUS`](mcp_resource_host::access::Principal::ANONYMOUS)
/// without one.
///
/// On shutdown the listener is closed, requests in flight are answered, event streams are ended, and connections are
/// closed, each within a bounded time.
///
/// # Errors
///
/// [`ServeError::Tls`] if TLS cannot be set up, [`ServeError::Exposure`] if other machines can reach the listener, and
/// the config has no authentication or no TLS, and not [`insecure`](mcp_host_config::http::Http::insecure).
pub async fn serve_http(host: Arc<Host>, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
    // A listener without an address accepts nothing.
    listener.local_addr().map_or(Ok(()), |address| host.config().check_exposure_at(address.into()))?;
    let tls = tls::acceptor(&host).map_err(|error| ServeError::Tls(error.into()))?;
    let service = McpService::new(host.clone(), HttpOptions::new(), shutdown.clone());
    let connections = Connections::new(host, service.clone(), tls, shutdown);
    connections.accept(listener).await;
    service.drain(DRAIN_TIMEOUT).await;
    connections.close().await;
    Ok(())
}
