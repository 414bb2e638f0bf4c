//! The administration listener: probes for liveness and readiness, apart from the listener of clients.
//!
//! | path | answer |
//! |---|---|
//! | `/livez` | 200 while the process serves |
//! | `/readyz` | 200 if every plugin with `required = true` is loaded and no shutdown has begun; otherwise 503, to administrators with the reasons, one a line |
//! | `/api/v1/…` | JSON about the server, and actions: for administrators only ([`api`]) |
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
//! within [`CONNECTION_TIMEOUT`], and [`ACTION_TIMEOUT`] of an administrator; a head of at most [`MAX_HEAD`] bytes; bodies are read of
//! administrators only.

pub(crate) mod api;
pub(crate) mod client;
mod listener;
mod log_filter;
mod metrics;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_host_base::log_target;
use mcp_host_config::Config;
use mcp_host_config::admin::AdminAddress;
use mcp_host_model::net::UrlHost;
use mcp_resource_host::host::{Host, PluginState, ReloadTrigger};
use prometheus_client::collector::Collector;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use self::listener::AdminListener;
use self::listener::Stream;
pub use self::log_filter::LogFilter;
use self::log_filter::TemporaryFilter;
use self::metrics::Metrics;
use super::layers::origin_check;
use super::listener::tls;
use crate::ServeError;

/// The maximum number of connections. Others wait.
const MAX_CONNECTIONS: usize = 64;
/// The time for a connection: its handshake, its request and its response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for a connection with a request of an administrator, beside [`CONNECTION_TIMEOUT`].
const ACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// What administrators may change and see beside the host.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AdminControls {
    /// Reloads the config. None if the program does not.
    pub reload: Option<ReloadTrigger>,
    /// The filter of the program's log. None if it has another log.
    pub log: Option<Arc<dyn LogFilter>>,
    /// What else the program counts, for `/metrics`.
    pub metrics: Vec<Arc<dyn Collector>>,
}

impl AdminControls {
    /// Controls of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets administrators reload the config.
    #[must_use]
    pub fn reload(self, trigger: ReloadTrigger) -> Self {
        Self { reload: Some(trigger), ..self }
    }

    /// Lets administrators change the filter of the log for a time.
    #[must_use]
    pub fn log(self, filter: Arc<dyn LogFilter>) -> Self {
        Self { log: Some(filter), ..self }
    }

    /// Adds metrics.
    #[must_use]
    pub fn metrics(mut self, collector: impl Collector) -> Self {
        self.metrics.push(Arc::new(collector));
        self
    }
}

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
    controls: AdminControls,
) -> Result<Infallible, ServeError> {
    let tls = tls::admin_acceptor(&host).map_err(|error| ServeError::Tls(error.into()))?;
    let AdminControls { reload, log, metrics } = controls;
    let (metrics, log) = (Metrics::new(&host, metrics), log.map(TemporaryFilter::new));
    let is_loopback = matches!(listener.address(), AdminAddress::Tcp(address) if address.is_loopback());
    let server = AdminServer { host, draining, tls, started: SystemTime::now(), reload, log, metrics, is_loopback };
    let server = Arc::new(server);
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let permit = connections.clone().acquire_owned().await.ok();
        let stream = listener.accept().await;
        let server = server.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let is_administrator = Arc::new(AtomicBool::new(false));
            let expired = async {
                sleep(CONNECTION_TIMEOUT).await;
                if is_administrator.load(Ordering::Relaxed) {
                    sleep(ACTION_TIMEOUT).await;
                }
            };
            let is_served = tokio::select! {
                () = server.clone().serve(stream, is_administrator.clone()) => true,
                () = expired => false,
            };
            if !is_served {
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
    started: SystemTime,
    reload: Option<ReloadTrigger>,
    log: Option<TemporaryFilter>,
    metrics: Metrics,
    /// Whether it listens at a loopback address, where everyone may read the metrics.
    is_loopback: bool,
}

/// How far a connection is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// That of the owner of the Unix socket, or root, with the id of the user.
    Owner(u32),
    /// One over TCP, with TLS if the listener has a certificate, from that address.
    Tcp(Option<IpAddr>),
    /// One without TLS, although the listener has a certificate: its token would be readable, and is not looked at.
    Unencrypted,
}

impl AdminServer {
    async fn serve(self: Arc<Self>, stream: Stream, is_administrator: Arc<AtomicBool>) {
        match stream {
            Stream::Unix(stream, user) => self.serve_http(stream, Connection::Owner(user), is_administrator).await,
            Stream::Tcp(stream) => {
                let client = Connection::Tcp(stream.peer_addr().ok().map(|address| address.ip()));
                match &self.tls {
                    None => self.serve_http(stream, client, is_administrator).await,
                    Some(tls) if listener::begins_tls(&stream).await => match tls.accept(stream).await {
                        Ok(stream) => self.serve_http(stream, client, is_administrator).await,
                        Err(error) => {
                            tracing::debug!(target: log_target::SERVER, %error, "a TLS handshake with the administration listener failed");
                        }
                    },
                    Some(_) => self.serve_http(stream, Connection::Unencrypted, is_administrator).await,
                }
            }
        }
    }

    async fn serve_http(
        self: &Arc<Self>,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        from: Connection,
        is_administrator: Arc<AtomicBool>,
    ) {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let (server, is_administrator) = (self.clone(), is_administrator.clone());
            async move { Ok::<_, Infallible>(server.answer(request.map(Body::new), from, &is_administrator).await) }
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

    async fn answer(&self, request: Request, from: Connection, is_administrator_here: &AtomicBool) -> Response {
        let config = self.host.config();
        let is_own_host = |host: &UrlHost| matches!(host, UrlHost::Address(_)) || config.is_own_host(host);
        if let Err(rejected) = origin_check::validate_with(&config, &request, is_own_host) {
            return rejected.into_response();
        }
        let is_administrator = is_administrator(&config, request.headers(), from);
        if request.uri().path().starts_with(api::PREFIX) {
            is_administrator_here.store(is_administrator, Ordering::Relaxed);
            return self.answer_api(request, &config, from).boxed().await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(&config, is_administrator),
            _ if from == Connection::Unencrypted => text(StatusCode::FORBIDDEN, "use https\n"),
            "/metrics" if self.is_loopback || is_administrator => self.metrics.respond(request.headers()),
            "/metrics" => unauthorized(),
            _ => text(
                StatusCode::NOT_FOUND,
                "there is nothing at this path; there are /livez, /readyz, /metrics and /api/v1/status\n",
            ),
        }
    }

    fn readiness(&self, config: &Config, with_reasons: bool) -> Response {
        match self.reasons(config) {
            reasons if reasons.is_empty() => text(StatusCode::OK, "ready\n"),
            reasons if with_reasons => text(StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
            _ => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        }
    }

    /// Returns why the server is not ready, one reason a line.
    fn reasons(&self, config: &Config) -> Vec<String> {
        let plugins = self.host.plugins();
        let reason = |name: &str| {
            let state = plugins.iter().find(|status| status.name == name).map(|status| &status.state);
            match state {
                Some(PluginState::Ready | PluginState::Suspended(_)) => None,
                Some(PluginState::LoadFailed(error)) => {
                    let error = error.to_string();
                    let lines = error.lines().collect::<Vec<_>>().join(" ");
                    Some(format!("plugin `{name}` could not be loaded: {lines}"))
                }
                Some(PluginState::Disabled(disabled)) => {
                    Some(format!("plugin `{name}` is disabled by {}", disabled.by))
                }
                _ => Some(format!("plugin `{name}` is being loaded")),
            }
        };
        let draining = self.draining.is_cancelled().then(|| "the server shuts down".to_owned());
        let required = config.plugins.iter().filter(|plugin| plugin.required);
        draining.into_iter().chain(required.filter_map(|plugin| reason(plugin.name.as_str()))).collect()
    }
}

/// Returns whether the request is that of an administrator. Digests are compared in constant time.
fn is_administrator(config: &Config, headers: &HeaderMap, from: Connection) -> bool {
    let has_token = || {
        let expected = config.admin.as_ref()?.token.as_ref()?;
        let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        Some(scheme.eq_ignore_ascii_case("bearer") && expected.matches(token.trim()))
    };
    match from {
        Connection::Owner(_) => true,
        Connection::Tcp(_) => has_token().unwrap_or(false),
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
    use mcp_host_config::admin::{Admin, AdminToken};

    use super::*;

    fn headers(authorization: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(authorization))])
    }

    #[test]
    fn an_administrator_has_the_token_or_owns_the_socket() {
        let mut admin = Admin::new(AdminAddress::Tcp("127.0.0.1:0".parse().unwrap()));
        let without = Config { admin: Some(admin.clone()), ..Config::default() };
        admin.token = Some(AdminToken::new("right"));
        let config = Config { admin: Some(admin), ..Config::default() };
        assert!(is_administrator(&config, &headers("Bearer right"), Connection::Tcp(None)));
        assert!(is_administrator(&without, &HeaderMap::new(), Connection::Owner(0)));
        for wrong in ["Bearer wrong", "Bearer ", "Basic right", "right", ""] {
            assert!(!is_administrator(&config, &headers(wrong), Connection::Tcp(None)), "{wrong}");
        }
        assert!(!is_administrator(&config, &HeaderMap::new(), Connection::Tcp(None)));
        assert!(!is_administrator(&config, &headers("Bearer right"), Connection::Unencrypted));
        assert!(!is_administrator(&without, &headers("Bearer right"), Connection::Tcp(None)));
        assert!(!is_administrator(&Config::default(), &headers("Bearer right"), Connection::Tcp(None)));
    }
}
