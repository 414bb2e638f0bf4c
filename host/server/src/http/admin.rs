//! The administration listener: probes for liveness and readiness, apart from the listener of clients.
//!
//! | path | answer |
//! |---|---|
//! | `/livez` | 200 while the process serves |
//! | `/readyz` | 200 if every plugin with `required = true` is loaded and no shutdown has begun; otherwise 503, to administrators with the reasons, one a line |
//! | `/metrics` | what the host counts, for Prometheus (module `metrics`); at an address beyond loopback to administrators only |
//!
//! An administrator sends the bearer token of `[admin]`, or connects over the Unix socket, which only its owner and root can do. The
//! probes need neither: a kubelet has no token. For the same reason a listener with TLS answers them without TLS, too; it answers
//! nothing else so.
//!
//! `Origin` is validated as on `/mcp`. `Host` is a name of the server or any address: a page of another site can make a browser send
//! only the name of that site (DNS rebinding), and a probe sends the address of the machine, which a wildcard address does not have.
//!
//! Bounded by limits of its own, so that it answers while every other limit is used up: [`MAX_CONNECTIONS`], each with one request,
//! within [`CONNECTION_TIMEOUT`]; a head of at most [`MAX_HEAD`] bytes; bodies are not read.

mod listener;
mod metrics;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_host_base::log_target;
use mcp_host_config::admin::AdminAddress;
use mcp_host_config::{Config, TokenDigest};
use mcp_host_model::net::UrlHost;
use mcp_resource_host::host::{Host, PluginState};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use self::listener::AdminListener;
use self::listener::Stream;
use self::metrics::Metrics;
use super::layers::origin_check;
use super::listener::tls;
use crate::ServeError;

/// The maximum number of connections. Others wait.
const MAX_CONNECTIONS: usize = 64;
/// The time for a connection: its handshake, its request and its response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Serves administrators on that listener until it is dropped, over TLS if `[admin]` has a certificate. From the moment when
/// `draining` fires, the server is not ready.
///
/// # Errors
///
/// [`ServeError::Tls`] if TLS cannot be set up.
pub async fn serve_admin(
    host: Arc<Host>,
    listener: AdminListener,
    draining: CancellationToken,
) -> Result<Infallible, ServeError> {
    let tls = tls::admin_acceptor(&host).map_err(|error| ServeError::Tls(error.into()))?;
    let metrics = Metrics::new(&host);
    let is_loopback = matches!(listener.address(), AdminAddress::Tcp(address) if address.is_loopback());
    let server = Arc::new(AdminServer { host, draining, tls, metrics, is_loopback });
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let permit = connections.clone().acquire_owned().await.ok();
        let stream = listener.accept().await;
        let server = server.clone();
        tokio::spawn(async move {
            let _permit = permit;
            if timeout(CONNECTION_TIMEOUT, server.serve(stream)).await.is_err() {
                tracing::debug!(target: log_target::SERVER, "a connection to the administration listener timed out");
            }
        });
    }
}

/// What all connections share.
struct AdminServer {
    host: Arc<Host>,
    draining: CancellationToken,
    tls: Option<TlsAcceptor>,
    metrics: Metrics,
    /// Whether it listens at a loopback address, where everyone may read the metrics.
    is_loopback: bool,
}

/// How far a connection is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// That of the owner of the Unix socket, or root.
    Owner,
    /// One over TCP, with TLS if the listener has a certificate.
    Tcp,
    /// One without TLS, although the listener has a certificate: its token would be readable, and is not looked at.
    Unencrypted,
}

impl AdminServer {
    async fn serve(&self, stream: Stream) {
        match stream {
            Stream::Unix(stream) => self.serve_http(stream, Connection::Owner).await,
            Stream::Tcp(stream) => match &self.tls {
                None => self.serve_http(stream, Connection::Tcp).await,
                Some(tls) if listener::begins_tls(&stream).await => match tls.accept(stream).await {
                    Ok(stream) => self.serve_http(stream, Connection::Tcp).await,
                    Err(error) => {
                        tracing::debug!(target: log_target::SERVER, %error, "a TLS handshake with the administration listener failed");
                    }
                },
                Some(_) => self.serve_http(stream, Connection::Unencrypted).await,
            },
        }
    }

    async fn serve_http(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, from: Connection) {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let response = self.answer(&request.map(|_| Body::empty()), from);
            async move { Ok::<_, Infallible>(response) }
        });
        let served = http1::Builder::new()
            .keep_alive(false)
            .max_buf_size(MAX_HEAD)
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(io), service)
            .await;
        if let Err(error) = served {
            tracing::debug!(target: log_target::SERVER, %error, "a connection to the administration listener ended");
        }
    }

    fn answer(&self, request: &Request, from: Connection) -> Response {
        let config = self.host.config();
        let is_own_host = |host: &UrlHost| matches!(host, UrlHost::Address(_)) || config.is_own_host(host);
        if let Err(rejected) = origin_check::validate_with(&config, request, is_own_host) {
            return rejected.into_response();
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(&config, is_administrator(&config, request.headers(), from)),
            _ if from == Connection::Unencrypted => text(StatusCode::FORBIDDEN, "use https\n"),
            "/metrics" if self.is_loopback || is_administrator(&config, request.headers(), from) => {
                self.metrics.respond(request.headers())
            }
            "/metrics" => unauthorized(),
            _ => text(StatusCode::NOT_FOUND, "there is nothing at this path; there are /livez, /readyz and /metrics\n"),
        }
    }

    fn readiness(&self, config: &Config, with_reasons: bool) -> Response {
        let mut reasons = String::new();
        if self.draining.is_cancelled() {
            reasons.push_str("the server shuts down\n");
        }
        let plugins = self.host.plugins();
        for plugin in config.plugins.iter().filter(|plugin| plugin.required) {
            let state = plugins.iter().find(|status| status.name == plugin.name.as_str()).map(|status| &status.state);
            // Writing to a string does not fail.
            let _ = match state {
                Some(PluginState::Ready | PluginState::Suspended(_)) => Ok(()),
                Some(PluginState::LoadFailed(error)) => {
                    let error = error.to_string();
                    let lines = error.lines().collect::<Vec<_>>().join(" ");
                    writeln!(reasons, "plugin `{}` could not be loaded: {lines}", plugin.name)
                }
                _ => writeln!(reasons, "plugin `{}` is being loaded", plugin.name),
            };
        }
        match reasons.as_str() {
            "" => text(StatusCode::OK, "ready\n"),
            reasons if with_reasons => text(StatusCode::SERVICE_UNAVAILABLE, reasons.to_owned()),
            _ => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        }
    }
}

/// Returns whether the request is that of an administrator. Digests are compared in constant time.
fn is_administrator(config: &Config, headers: &HeaderMap, from: Connection) -> bool {
    let has_token = || {
        let expected = config.admin.as_ref()?.token.as_ref()?;
        let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        Some(scheme.eq_ignore_ascii_case("bearer") && TokenDigest::of(token.trim()).matches(expected))
    };
    match from {
        Connection::Owner => true,
        Connection::Tcp => has_token().unwrap_or(false),
        Connection::Unencrypted => false,
    }
}

/// The response to a request without the token.
fn unauthorized() -> Response {
    let mut response = text(StatusCode::UNAUTHORIZED, "send the token of `[admin]` as `Authorization: Bearer`\n");
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// A response of plain text, which nothing on the way stores.
fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl AdminListener {
    /// The URL scheme of a listener with that config.
    fn scheme(config: &Config) -> &'static str {
        if config.admin.as_ref().is_some_and(|admin| admin.tls.is_some()) { "https" } else { "http" }
    }

    /// Returns where it listens, as people write it: a URL, or `unix:` and a path.
    pub fn url(&self, config: &Config) -> String {
        match self.address() {
            AdminAddress::Tcp(address) => format!("{}://{address}", Self::scheme(config)),
            unix => unix.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_config::admin::Admin;

    use super::*;

    fn headers(authorization: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(authorization))])
    }

    #[test]
    fn an_administrator_has_the_token_or_owns_the_socket() {
        let mut admin = Admin::new(AdminAddress::Tcp("127.0.0.1:0".parse().unwrap()));
        let without = Config { admin: Some(admin.clone()), ..Config::default() };
        admin.token = Some(TokenDigest::of("right"));
        let config = Config { admin: Some(admin), ..Config::default() };
        assert!(is_administrator(&config, &headers("Bearer right"), Connection::Tcp));
        assert!(is_administrator(&without, &HeaderMap::new(), Connection::Owner));
        for wrong in ["Bearer wrong", "Bearer ", "Basic right", "right", ""] {
            assert!(!is_administrator(&config, &headers(wrong), Connection::Tcp), "{wrong}");
        }
        assert!(!is_administrator(&config, &HeaderMap::new(), Connection::Tcp));
        assert!(!is_administrator(&config, &headers("Bearer right"), Connection::Unencrypted));
        assert!(!is_administrator(&without, &headers("Bearer right"), Connection::Tcp));
        assert!(!is_administrator(&Config::default(), &headers("Bearer right"), Connection::Tcp));
    }
}
