//! The administration listener, separate from the listener of clients: probes for liveness and readiness, metrics, the
//! administration API and the console.
//!
//! | path | answer |
//! |---|---|
//! | `/livez` | 200 while the process serves |
//! | `/readyz` | 200 if every plugin with `required = true` is loaded, and can reach its data, and no shutdown has begun; otherwise 503, to administrators with the reasons, one a line |
//! | `/api/v1/…` | JSON about the server, and actions: for administrators only ([`api`]) |
//! | `/metrics` | the host's metrics, for Prometheus (module `metrics`); at an address beyond loopback for administrators only |
//!
//! `/` is a page for browsers ([`console`]), in a build with the feature `console`. Every answer has its policy
//! ([`policy`]).
//!
//! An administrator sends the bearer token of `[admin]`, or connects over the Unix socket, which only its owner and
//! root can do, or has logged in to the console ([`authority`]). The probes need no authentication, because a kubelet
//! has no token. For the same reason a listener with TLS answers the probes without TLS, too, but no other request.
//!
//! `Origin` is validated as on `/mcp`. `Host` is a name of the server or any address: a page of another site can make a
//! browser send only the name of that site (DNS rebinding), and a probe sends the address of the machine, which a
//! wildcard address does not have.
//!
//! The listener has its own limits (bulkhead), so it answers when every other limit is exhausted: a maximum number of
//! connections, each with one request and a deadline ([`connections`]); a head of at most [`MAX_HEAD`] bytes; only
//! bodies of administrators are read.

pub(crate) mod api;
mod authority;
pub(crate) mod client;
mod connections;
pub(crate) mod console;
mod json;
mod listener;
mod log_filter;
mod metrics;
mod traffic;
mod users;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Version};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_host_base::share_limiter::ShareLimiter;
use mcp_host_base::task;
use mcp_host_base::{escape, log_target};
use mcp_host_config::Config;
use mcp_host_config::admin::AdminAddress;
use mcp_host_model::net::UrlHost;
use mcp_host_model::provider::Outage;
use mcp_resource_host::audit::{AuditFailure, AuditState};
use mcp_resource_host::engine::recording::MakePassthrough;
use mcp_resource_host::host::{Host, PluginState, PluginStatus, ReloadTrigger};
use prometheus_client::collector::Collector;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::api::UserStreams;
pub use self::api::observe::{PluginProfile, Profiler};
use self::authority::Authority;
use self::connections::{ConnectionSlot, Connections};
use self::console::{Console, LoginCodes, policy};
pub use self::listener::AdminListener;
use self::listener::Stream;
pub use self::log_filter::LogFilter;
use self::log_filter::TemporaryFilter;
use self::metrics::Metrics;
use self::traffic::Traffic;
use self::users::Users;
use super::layers::origin_check;
use super::listener::{IoStream, tls};
use crate::ServeError;

/// The name of the administrator who holds the token of `admin.token`.
const TOKEN_HOLDER: &str = "admin/token";

/// The maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// The controls of a program that administrators use, besides the host.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AdminControls {
    /// Reloads the config. None if the program cannot reload.
    pub reload: Option<ReloadTrigger>,
    /// Compares the config file with the served config. None if there is no file.
    pub compare: Option<ReloadTrigger>,
    /// The filter of the program's log. None if it has another log.
    pub log: Option<Arc<dyn LogFilter>>,
    /// Further metrics of the program, for `/metrics`.
    pub metrics: Vec<Arc<dyn Collector>>,
    /// The codes that are exchanged for a session of the console.
    pub login_codes: LoginCodes,
    /// Makes the passthroughs of components that record calls. None if the program does not record.
    pub passthrough: Option<MakePassthrough>,
    /// Makes profiles of calls. None if the program does not profile.
    pub profiler: Option<Arc<dyn Profiler>>,
}

impl AdminControls {
    /// No controls.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets administrators reload the config.
    #[must_use]
    pub fn reload(self, trigger: ReloadTrigger) -> Self {
        Self { reload: Some(trigger.clone()), ..self }.compare(trigger)
    }

    /// Lets administrators compare the config file with the served config, whether or not they may reload it.
    #[must_use]
    pub fn compare(self, trigger: ReloadTrigger) -> Self {
        Self { compare: Some(trigger), ..self }
    }

    /// Lets administrators change the filter of the log temporarily.
    #[must_use]
    pub fn log(self, filter: Arc<dyn LogFilter>) -> Self {
        Self { log: Some(filter), ..self }
    }

    /// Accepts these login codes of the program for a session of the console.
    #[must_use]
    pub fn login_codes(self, login_codes: LoginCodes) -> Self {
        Self { login_codes, ..self }
    }

    /// Lets administrators record the calls of plugins.
    #[must_use]
    pub fn passthrough(self, passthrough: MakePassthrough) -> Self {
        Self { passthrough: Some(passthrough), ..self }
    }

    /// Lets administrators profile the calls of plugins.
    #[must_use]
    pub fn profiler(self, profiler: Arc<dyn Profiler>) -> Self {
        Self { profiler: Some(profiler), ..self }
    }

    /// Adds metrics.
    #[must_use]
    pub fn metrics(mut self, collector: impl Collector) -> Self {
        self.metrics.push(Arc::new(collector));
        self
    }
}

/// Serves administrators on this listener until the future is dropped, over TLS if `[admin]` has a certificate. When
/// `draining` fires, the server becomes not ready.
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
    let console_url = listener.console_url(&host.config());
    let tls = tls::admin_acceptor(&host).map_err(|error| ServeError::Tls(error.into()))?;
    let authority = Authority { console: Console::new(controls.login_codes.clone(), listener.port(), tls.is_some()) };
    let AdminControls { reload, compare, log, metrics, passthrough, profiler, .. } = controls;
    let (metrics, log) = (Metrics::new(&host, &draining, metrics), log.map(TemporaryFilter::new));
    let is_loopback = matches!(listener.address(), AdminAddress::Tcp(address) if address.is_loopback());
    let users = Users::new(&host);
    let (traffic, started) = (Traffic::new(&host), SystemTime::now());
    let streams = Arc::new(Semaphore::new(api::follow::MAX_STREAMS));
    let (views, user_streams) = (ShareLimiter::default(), UserStreams::default());
    let server = AdminServer {
        host,
        draining,
        tls,
        authority,
        console_url,
        users,
        started,
        reload,
        compare,
        log,
        metrics,
        traffic,
        streams,
        views,
        user_streams,
        is_loopback,
        passthrough,
        profiler,
    };
    let server = Arc::new(server);
    tokio::select! {
        never = server.traffic.keep_sampling(&server.host) => Ok(never),
        never = accept_connections(&server, &listener) => Ok(never),
    }
}

async fn accept_connections(server: &Arc<AdminServer>, listener: &AdminListener) -> Infallible {
    let mut connections = Connections::default();
    loop {
        let stream = listener.accept().await;
        let slot = Arc::new(connections.add(stream.client()).await);
        let server = server.clone();
        task::spawn(async move {
            tokio::select! {
                () = server.serve(stream, slot.clone()) => {}
                reason = slot.ended() => {
                    tracing::debug!(target: log_target::SERVER, "a connection to the administration listener was closed: {reason}");
                }
            }
        });
    }
}

/// State shared by all connections.
struct AdminServer {
    host: Arc<Host>,
    draining: CancellationToken,
    tls: Option<TlsAcceptor>,
    authority: Authority,
    /// The URL of the console. None for a Unix socket.
    console_url: Option<String>,
    users: Users,
    started: SystemTime,
    reload: Option<ReloadTrigger>,
    compare: Option<ReloadTrigger>,
    log: Option<TemporaryFilter>,
    metrics: Metrics,
    traffic: Traffic,
    /// The permits of audit log streams.
    streams: Arc<Semaphore>,
    /// The views that administrators follow, limited by the administrator's name.
    views: ShareLimiter<String>,
    /// The views that users follow, limited by the principal's name.
    user_streams: UserStreams,
    /// Whether the listener has a loopback address, where everyone may read the metrics.
    is_loopback: bool,
    passthrough: Option<MakePassthrough>,
    profiler: Option<Arc<dyn Profiler>>,
}

/// The trust level of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// A connection of the Unix socket's owner, or of root, with the user id.
    Owner(u32),
    /// A TCP connection from this address, with TLS if the listener has a certificate.
    Tcp(Option<IpAddr>),
    /// A connection without TLS to a listener with a certificate. Its token is ignored, because it was readable on the
    /// network.
    Unencrypted,
}

impl AdminServer {
    async fn serve(self: Arc<Self>, stream: Stream, slot: Arc<ConnectionSlot>) {
        match stream {
            Stream::Unix(stream, user) => self.serve_http(Box::new(stream), Connection::Owner(user), slot).await,
            Stream::Tcp(stream) => {
                let client = Connection::Tcp(stream.peer_addr().ok().map(|address| address.ip()));
                match &self.tls {
                    None => self.serve_http(Box::new(stream), client, slot).await,
                    Some(tls) if listener::begins_tls(&stream).await => match tls.accept(stream).await {
                        Ok(stream) => self.serve_http(Box::new(stream), client, slot).await,
                        Err(error) => {
                            tracing::debug!(target: log_target::SERVER, %error, "a TLS handshake with the administration listener failed");
                        }
                    },
                    Some(_) => self.serve_http(Box::new(stream), Connection::Unencrypted, slot).await,
                }
            }
        }
    }

    async fn serve_http(self: &Arc<Self>, io: Box<dyn IoStream>, from: Connection, slot: Arc<ConnectionSlot>) {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let (server, slot) = (self.clone(), slot.clone());
            async move {
                let answer = server.answer(request.map(Body::new), from, &slot).await;
                Ok::<_, Infallible>(policy::apply(answer))
            }
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

    async fn answer(&self, request: Request, from: Connection, slot: &ConnectionSlot) -> Response {
        let config = self.host.config();
        let is_own_host = |host: &UrlHost| matches!(host, UrlHost::Address(_)) || config.is_own_host(host);
        if !is_probe_without_host(&request)
            && let Err(rejected) = origin_check::validate_with(&config, &request, is_own_host, |origin| {
                self.authority.console.is_own_origin(origin, request.headers())
            })
        {
            return rejected.into_response();
        }
        let administrator = self.authority.administrator(&config, request.method(), request.headers(), from);
        let is_administrator = administrator.is_some();
        if is_administrator {
            slot.set_authenticated();
        }
        let may_be_user = self.users.may_log_in(&config) && api::is_for_users(request.uri().path());
        if !is_administrator && !may_be_user && request.headers().contains_key(AUTHORIZATION) {
            self.record_failed_login(from);
        }
        if api::has_path(request.uri().path()) {
            return self.answer_api(request, administrator, &config, from, slot).boxed().await;
        }
        if console::has_path(request.uri().path()) {
            return self.answer_console(request, &config, from).boxed().await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return method_not_allowed();
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(is_administrator),
            _ if from == Connection::Unencrypted => text(StatusCode::FORBIDDEN, "use https\n"),
            "/metrics" if self.is_loopback || is_administrator => self.metrics.respond(request.headers()).await,
            "/metrics" => unauthorized(),
            _ => text(
                StatusCode::NOT_FOUND,
                "there is nothing at this path; there are /livez, /readyz, /metrics and /api/v1/status\n",
            ),
        }
    }

    /// Records credentials that are not an administrator's.
    fn record_failed_login(&self, from: Connection) {
        match from {
            Connection::Tcp(Some(client)) => self.host.record_failed_login(&client, "admin"),
            Connection::Tcp(None) => self.host.record_failed_login(&"unknown", "admin"),
            // The token is ignored.
            Connection::Owner(_) | Connection::Unencrypted => {}
        }
    }

    fn readiness(&self, with_reasons: bool) -> Response {
        match self.reasons() {
            reasons if reasons.is_empty() => {
                let failure = self.host.audit_state().filter(|_| with_reasons).as_ref().and_then(audit_failure);
                text(StatusCode::OK, "ready\n".to_owned() + &failure.map(|line| line + "\n").unwrap_or_default())
            }
            reasons if with_reasons => text(StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
            _ => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        }
    }

    /// Returns the reasons why the server is not ready, each in one line.
    fn reasons(&self) -> Vec<String> {
        let draining = self.draining.is_cancelled().then(|| "the server shuts down".to_owned());
        let missing = self.host.missing_plugins().into_iter().map(|PluginStatus { name, state, .. }| match state {
            PluginState::LoadFailed(error) => {
                let error = error.summary();
                let line = error.lines().collect::<Vec<_>>().join(" ");
                format!("plugin `{name}` could not be loaded: {}", escape::line(&line))
            }
            PluginState::Unreachable(Outage { since, reason }) => {
                let since = api::time(since);
                format!("plugin `{name}` has not been reachable since {since}: {}", escape::line(&reason))
            }
            PluginState::Disabled(disabled) => format!("plugin `{name}` is disabled by {}", disabled.by),
            _ => format!("plugin `{name}` is being loaded"),
        });
        // All requests are refused: another replica may serve them.
        let unrecorded = self.host.audit_state().filter(|audit| audit.refuses).and_then(|audit| {
            audit_failure(&audit).map(|failure| format!("{failure}; requests are refused until then (`audit.on-full`)"))
        });
        draining.into_iter().chain(missing).chain(unrecorded).collect()
    }
}

/// Describes in one line why the audit log cannot be written. None if it can.
fn audit_failure(audit: &AuditState) -> Option<String> {
    let AuditFailure { since, reason } = audit.failure.as_ref()?;
    let file = audit.file.as_ref().map(|file| format!(" {}", file.display())).unwrap_or_default();
    let line = format!("the audit log{file} has not been written since {}: {reason}", api::time(*since));
    Some(escape::line(&line).into_owned())
}

/// Whether the request is an HTTP/1.0 probe without `Host`, as some load balancers send. No browser sends HTTP/1.0.
fn is_probe_without_host(request: &Request) -> bool {
    request.version() == Version::HTTP_10
        && !request.headers().contains_key(HOST)
        && matches!(request.uri().path(), "/livez" | "/readyz")
}

/// The response to a request with a method other than `GET`.
fn method_not_allowed() -> Response {
    let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    refused
}

/// The response to a request without the token.
fn unauthorized() -> Response {
    let mut response = text(StatusCode::UNAUTHORIZED, "send the token of `[admin]` as `Authorization: Bearer`\n");
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// A plain-text response that no cache on the way stores.
fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl AdminListener {
    /// The URL scheme of a listener with this config.
    fn scheme(config: &Config) -> &'static str {
        if config.admin.as_ref().is_some_and(|admin| admin.tls.is_some()) { "https" } else { "http" }
    }

    /// The port; 0 for a Unix socket.
    fn port(&self) -> u16 {
        match self.address() {
            AdminAddress::Tcp(address) => address.socket_addr().port(),
            AdminAddress::Unix(_) => 0,
        }
    }

    /// Returns the URL of the console for a browser on this machine. None for a Unix socket.
    pub fn console_url(&self, config: &Config) -> Option<String> {
        match self.address() {
            AdminAddress::Tcp(address) => {
                let reachable = client::reachable(address.socket_addr());
                Some(format!("{}://{reachable}/", Self::scheme(config)))
            }
            AdminAddress::Unix(_) => None,
        }
    }

    /// Returns the address of the listener for display: a URL, or `unix:` and a path.
    pub fn url(&self, config: &Config) -> String {
        match self.address() {
            AdminAddress::Tcp(address) => format!("{}://{address}", Self::scheme(config)),
            unix => unix.to_string(),
        }
    }
}
