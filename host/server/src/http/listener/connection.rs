//! Connections: accept, serve, close.
//!
//! HTTP/1.1 and HTTP/2 are detected by the first bytes of a connection ([`version`](super::version)).
//!
//! [`limits`](mcp_host_config::http::HttpServerLimits) of the config bounds the number of connections, overall and per
//! client, the time of the handshake and of the first request (slowloris), the idle timeout, the write timeout, and the
//! size of the head of a request. A head has at most [`MAX_HEADER_FIELDS`](super::super::head::MAX_HEADER_FIELDS)
//! fields, and unused fields are dropped ([`head`](super::super::head)).
//!
//! For a response that the client does not read, a connection holds the charged bytes (see [`budget`](crate::budget)),
//! and over HTTP/2 at most [`MAX_SEND_BUFFER`] further bytes for each stream. A client that resets streams faster than
//! they are answered ([`MAX_RESETS`]), or makes the server reset too many, is disconnected (CVE-2023-44487, rapid
//! reset). A client that sends too many frames outside of requests is disconnected, too
//! ([`control_frames`](super::control_frames)).
//!
//! When a client disconnects, its requests in progress end. A client that has only half-closed the connection is still
//! answered, within a bounded time ([`half_close`](super::half_close)).

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_host_base::log_target;
use mcp_host_base::metrics::Open;
use mcp_host_base::share_limiter::{ShareLimiter, ShareLimits, SharePermit};
use mcp_host_base::task;
use mcp_host_base::throttle::Throttle;
use mcp_host_config::http::{ENDPOINT_PATH, Http};
use mcp_resource_host::host::Host;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::ServiceExt as _;

use super::super::McpService;
use super::super::authentication::ClientCertificate;
use super::super::endpoint::is_event_stream;
use super::super::request_body::BodyLimiter;
use super::super::request_source::Peer;
use super::super::response::ResponseCharge;
use super::super::service::serve;
use super::IoStream;
use super::activity::Activity;
use super::control_frames::ControlFrames;
use super::delivery::{Delivery, StreamExecutor, stream_abort};
use super::half_close::HalfClose;
use super::handshake_log::HandshakeLog;
use super::tracked_body::TrackedBody;
use super::version::{self, Protocol};
use crate::budget::{Account, Budget};
use crate::client_id::ClientId;
use crate::server_metrics::ServerMetrics;

/// The maximum number of concurrent requests of one HTTP/2 connection.
const MAX_STREAMS: u32 = 32;
/// The maximum number of bytes of one HTTP/2 stream that hyper buffers, besides the next chunk.
const MAX_SEND_BUFFER: usize = 64 << 10;
/// The maximum number of streams of one connection that the client has reset before they were accepted.
const MAX_RESETS: usize = 20;
/// The maximum number of streams of one connection that the server has reset because of client errors.
const MAX_ERROR_RESETS: usize = 256;
/// The maximum number of unsent bytes in the kernel's send buffer, in addition to bytes that wait for an
/// acknowledgment. With a larger buffer the kernel would accept data for a client that does not read, and no stall
/// would be detected.
const NOTSENT_LOWAT: u32 = 256 << 10;
/// The timeout of an HTTP/2 ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The time for a connection to close after its shutdown has begun.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The same time for a connection that its client floods.
const FLOODED_CLOSE_TIMEOUT: Duration = Duration::from_millis(100);
/// The time for the first request of a connection at shutdown, because the request may be on its way. A listener that
/// outlives this process (socket activation) accepts connections until then, and clients should not see such
/// connections closed.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(250);
/// The throttle interval of the warning that a client has reached its share.
const WARN_INTERVAL: Duration = Duration::from_secs(10);
/// The back-off after a failed accept, as when file descriptors are exhausted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// All connections of a server.
pub(in crate::http) struct Connections {
    shared: Arc<ServerContext>,
    tracker: TaskTracker,
}

/// The state shared by all connections.
struct ServerContext {
    host: Arc<Host>,
    app: Arc<App>,
    tls: Option<TlsAcceptor>,
    /// The budget for answers that wait to be sent.
    budget: Arc<Budget>,
    metrics: Arc<ServerMetrics>,
    /// The number of connections of each client.
    limiter: ShareLimiter<ClientId>,
    /// Fires at graceful shutdown: connections end after their requests in flight.
    shutdown: CancellationToken,
    /// Aborts all connections.
    abort: CancellationToken,
    /// Notified when a connection is closed.
    closed: Notify,
    /// The throttle of the warning that a client has reached its share.
    rejection_log: Throttle,
    handshake_log: HandshakeLog,
}

/// Answers requests.
struct App {
    service: McpService,
    /// The routes besides the endpoint.
    other_routes: Router,
}

/// An open connection, until this is dropped.
struct ConnectionGuard {
    token: Option<TaskTrackerToken>,
    shared: Arc<ServerContext>,
    permit: Option<SharePermit<ClientId>>,
    /// Counts the connection in metrics.
    _open: Open,
}

impl Connections {
    pub(in crate::http) fn new(
        host: Arc<Host>,
        service: McpService,
        tls: Option<TlsAcceptor>,
        shutdown: CancellationToken,
    ) -> Self {
        let (abort, closed, limiter) = (CancellationToken::new(), Notify::new(), ShareLimiter::default());
        let rejection_log = Throttle::new(WARN_INTERVAL);
        let handshake_log = HandshakeLog::default();
        let budget = service.budget().clone();
        let app = Arc::new(App { other_routes: service.server_routes(), service });
        let metrics = ServerMetrics::of(&host);
        let shared = ServerContext {
            metrics,
            host,
            app,
            tls,
            budget,
            limiter,
            shutdown,
            abort,
            closed,
            rejection_log,
            handshake_log,
        };
        Self { shared: Arc::new(shared), tracker: TaskTracker::new() }
    }

    /// Accepts connections until shutdown, then closes the listener.
    pub(in crate::http) async fn accept(&self, listener: TcpListener) {
        self.shared.shutdown.run_until_cancelled(self.accept_all(listener)).await;
    }

    async fn accept_all(&self, listener: TcpListener) {
        loop {
            self.wait_for_capacity().await;
            match listener.accept().await {
                Ok((tcp, address)) => self.spawn(tcp, ClientId::from_address(address.ip())),
                Err(error) => back_off_on_accept_error(&error).await,
            }
        }
    }

    /// Serves a connection, or closes it if its client has reached its share.
    fn spawn(&self, tcp: TcpStream, client: ClientId) {
        let limits = &self.shared.host.config().http.limits;
        // The overall limit has been checked before the accept.
        let max = ShareLimits { overall: usize::MAX, ..client.share_limits(limits.connections.get(), limits) };
        let Ok(of_client) = self.shared.limiter.acquire(&client, max) else {
            self.shared.metrics.record_rejection("http.limits.connections");
            return self.shared.warn_share_reached(&client);
        };
        let open = ConnectionGuard {
            token: Some(self.tracker.token()),
            shared: self.shared.clone(),
            permit: Some(of_client),
            _open: self.shared.metrics.open_connection(),
        };
        task::spawn(async move {
            // Pinned here, because a future has room for an argument twice: as it was passed, and while it is awaited.
            let serving = pin!(open.shared.serve(tcp, client));
            open.shared.abort.run_until_cancelled(serving).await
        });
    }

    /// Waits at most [`CLOSE_TIMEOUT`] for all connections to close, and then aborts them.
    pub(in crate::http) async fn close(&self) {
        self.tracker.close();
        if timeout(CLOSE_TIMEOUT, self.tracker.wait()).await.is_err() {
            tracing::debug!(target: log_target::SERVER, open = self.tracker.len(), "shutdown: close timed out with connections open");
            self.shared.abort.cancel();
            self.tracker.wait().await;
        }
    }

    /// Waits until the number of connections is below the limit.
    async fn wait_for_capacity(&self) {
        let mut has_warned = false;
        loop {
            let limit = self.shared.host.config().http.limits.connections.get();
            if self.tracker.len() < limit {
                return;
            }
            if !std::mem::replace(&mut has_warned, true) {
                tracing::warn!(target: log_target::SERVER, limit, "as many connections are open as `http.limits.connections` allows; others wait");
            }
            self.shared.closed.notified().await;
        }
    }
}

/// Backs off after an error of the whole system. Ignores an error of a single connection.
async fn back_off_on_accept_error(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(target: log_target::SERVER, %error, "accept failed");
        sleep(ACCEPT_BACKOFF).await;
    }
}

impl App {
    async fn answer(&self, request: Request<Body>, peer: Arc<Peer>) -> Response {
        if request.uri().path() == ENDPOINT_PATH {
            return self.service.answer(request, peer).await;
        }
        match Box::pin(self.other_routes.clone().oneshot(request)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        // Released before the notification: `wait_for_capacity` reads the count.
        self.token = None;
        self.permit = None;
        self.shared.closed.notify_one();
    }
}

impl ServerContext {
    /// Logs that a connection is closed because its client has reached its share; throttled.
    fn warn_share_reached(&self, client: &ClientId) {
        const TEXT: &str = "a connection is closed: its client has its share (`http.limits.client-share`) of `http.limits.connections`";
        match self.rejection_log.record() {
            Some(0) => tracing::warn!(target: log_target::SERVER, %client, "{TEXT}"),
            Some(suppressed) => tracing::warn!(target: log_target::SERVER, %client, suppressed, "{TEXT}"),
            None => tracing::debug!(target: log_target::SERVER, %client, "{TEXT}"),
        }
    }

    async fn serve(&self, tcp: TcpStream, client: ClientId) {
        // Responses are small and written completely, so Nagle's algorithm would only delay them.
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(target: log_target::SERVER, %error, "TCP_NODELAY cannot be set");
        }
        set_notsent_lowat(&tcp);
        let account = self.budget.account(client);
        let Some(tls) = &self.tls else { return Box::pin(self.serve_http(Box::new(tcp), account, None)).await };
        let most = self.host.config().http.limits.read_timeout.duration();
        let handshake = timeout(most, Box::pin(tls.accept(tcp)));
        let activity = Activity::new();
        let handshake = tokio::select! {
            handshake = handshake => handshake,
            () = self.connection_shutdown(&activity) => return,
        };
        match handshake {
            Ok(Ok(stream)) => {
                let certificate = ClientCertificate::of_connection(stream.get_ref().1);
                Box::pin(self.serve_http(Box::new(stream), account, certificate)).await;
            }
            Ok(Err(error)) => self.handshake_log.record(&self.host, account.client(), &error),
            Err(_) => {
                tracing::debug!(target: log_target::SERVER, client = %account.client(), "TLS handshake timed out");
            }
        }
    }

    /// Serves HTTP until the client disconnects, the connection is idle for too long, a response stalls, or shutdown.
    async fn serve_http(
        &self,
        io: Box<dyn IoStream>,
        account: Arc<Account>,
        certificate: Option<Arc<ClientCertificate>>,
    ) {
        let config = self.host.config();
        let (activity, opened) = (Activity::new(), Instant::now());
        let app = self.app.clone();
        let (requests, end, max_head) =
            (activity.clone(), CancellationToken::new(), config.http.limits.headers.bytes());
        let ended = end.clone();
        let client = account.client().clone();
        let peer = Arc::new(Peer { account, certificate, bodies: Some(BodyLimiter::default()) });
        let metrics = self.metrics.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (delivery, end) = (Arc::new(Delivery::new()), end.clone());
            let busy = requests.begin(delivery.clone());
            let (app, peer, metrics) = (app.clone(), peer.clone(), metrics.clone());
            let began = Instant::now();
            // Boxed: otherwise the connection reserves room for the future of a request as long as it is open.
            Box::pin(async move {
                // An HTTP/2 stream is aborted alone. HTTP/1.1 has one response at a time, which is aborted with its
                // connection.
                delivery.set_abort(stream_abort().unwrap_or(end));
                let mut response = serve(request, max_head, |request| app.answer(request, peer)).await;
                if is_event_stream(&response) {
                    delivery.end_with_input();
                }
                let charge = ResponseCharge::take_from(&mut response);
                metrics.record_first_byte(began.elapsed());
                Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, delivery, busy, charge, metrics)))
            })
        });
        let limits = &config.http.limits;
        // Boxed, as are the handshake and (by the callers) this whole future: a future has room for all values that it
        // moves, so an idle connection would occupy several times its size.
        let serving = async {
            let detected = tokio::select! {
                detected = version::detect(io) => detected,
                () = activity.wait_idle(limits.read_timeout.duration(), limits.idle_timeout.duration()) => return Ok(()),
                () = self.connection_shutdown(&activity) => return Ok(()),
            };
            match detected {
                Ok((Protocol::Http1, stream)) => {
                    let io = TokioIo::new(HalfClose::new(stream, activity.clone()));
                    let connection = http1_builder(&config.http).serve_connection(io, service);
                    let connection = Box::pin(connection);
                    self.drive(connection, |connection| connection.graceful_shutdown(), &activity, opened, pending())
                        .await
                }
                Ok((Protocol::Http2, stream)) => {
                    let flooded = CancellationToken::new();
                    let io = TokioIo::new(ControlFrames::new(stream, flooded.clone()));
                    let connection = Box::pin(http2_builder(&config.http).serve_connection(io, service));
                    let flooded = async {
                        flooded.cancelled().await;
                        tracing::debug!(target: log_target::SERVER, %client, "a connection is closed: its client has sent too many frames of HTTP/2 that are no part of a request");
                    };
                    self.drive(connection, |connection| connection.graceful_shutdown(), &activity, opened, flooded)
                        .await
                }
                Err(error) => {
                    tracing::debug!(target: log_target::SERVER, %error, "a connection ended before its first request");
                    Ok(())
                }
            }
        };
        tokio::select! {
            served = serving => {
                if let Err(error) = served {
                    tracing::debug!(target: log_target::SERVER, %error, "a connection ended");
                }
            }
            () = activity.end_stalled(limits.write_timeout.duration()) => {}
            () = ended.cancelled() => {}
        }
    }

    /// Waits for the shutdown, and then for [`FIRST_REQUEST_GRACE`] if the connection has had no request.
    async fn connection_shutdown(&self, activity: &Activity) {
        self.shutdown.cancelled().await;
        if !activity.has_begun() {
            sleep(FIRST_REQUEST_GRACE).await;
        }
    }

    /// Drives a connection, which was opened at `opened`, until it ends. `shut_down` begins its graceful shutdown when
    /// the connection has been idle for too long, when `flooded` completes, or when the server shuts down.
    async fn drive<C: Future<Output = hyper::Result<()>>>(
        &self,
        mut connection: Pin<Box<C>>,
        shut_down: impl FnOnce(Pin<&mut C>),
        activity: &Activity,
        opened: Instant,
        flooded: impl Future<Output = ()>,
    ) -> hyper::Result<()> {
        let limits = &self.host.config().http.limits;
        let first_request = limits.read_timeout.duration().saturating_sub(opened.elapsed());
        let mut is_flooded = false;
        tokio::select! {
            served = connection.as_mut() => return served,
            () = flooded => is_flooded = true,
            () = activity.wait_idle(first_request, limits.idle_timeout.duration()) => {}
            () = self.connection_shutdown(activity) => {}
        }
        shut_down(connection.as_mut());
        tokio::select! {
            served = connection => served,
            // Requests in flight of a flooded connection are not waited for.
            () = sleep(FLOODED_CLOSE_TIMEOUT), if is_flooded => Ok(()),
            // A request may have arrived at the last moment. An incomplete request is not waited for.
            () = activity.wait_idle(CLOSE_TIMEOUT, CLOSE_TIMEOUT) => Ok(()),
        }
    }
}

/// Bounds the kernel's send buffer, on systems that support it.
fn set_notsent_lowat(tcp: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(NOTSENT_LOWAT) {
        tracing::debug!(target: log_target::SERVER, %error, "TCP_NOTSENT_LOWAT cannot be set");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (tcp, NOTSENT_LOWAT);
}

fn http1_builder(config: &Http) -> http1::Builder {
    let head = usize::try_from(config.limits.headers.bytes()).unwrap_or(usize::MAX);
    let mut builder = http1::Builder::new();
    // The idle timeout ends a connection with a slow head (slowloris), because no request is in flight.
    builder.max_buf_size(head).header_read_timeout(None::<Duration>);
    builder
}

fn http2_builder(config: &Http) -> http2::Builder<StreamExecutor> {
    // Up to this size `head` answers a large head with 431. Beyond it, h2 answers and then resets the stream, and some
    // clients report only the reset.
    let head = config.limits.headers.bytes().saturating_mul(2);
    let mut builder = http2::Builder::new(StreamExecutor);
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .keep_alive_interval(config.keep_alive.duration())
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}
