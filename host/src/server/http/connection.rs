//! Connections: taken, spoken on, closed.
//!
//! HTTP/1.1 and HTTP/2 are told apart by how a connection begins, with TLS by what was agreed on in its handshake too.
//!
//! Bounded, by [`limits`](crate::config::http::HttpServerLimits) of the config: how many there are at once, of all clients and of
//! one, how long the handshake and the first request may take, how long one may be open with nothing in flight, how long an answer
//! may make no progress, how large the head of a request is. It has at most [`MAX_HEADER_FIELDS`] fields, and what
//! nobody looks at is not kept ([`head`](super::head)).
//!
//! Of an answer that is not read, a connection holds what the answer is charged for (see [`budget`](crate::server::budget)), and of
//! its own at most [`MAX_SEND_BUFFER`] bytes a stream over HTTP/2. A client that resets streams faster than they are answered
//! ([`MAX_RESETS`]), or has the server reset too many, is disconnected (CVE-2023-44487).

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::activity::Activity;
use super::client_limiter::{ClientLimiter, ClientLimits, ClientPermit};
use super::delivery::{Delivery, TrackedBody};
use super::executor::{StreamExecutor, stream_abort};
use super::head::{self, MAX_HEADER_FIELDS};
use super::request_body::BodyLimiter;
use crate::config::http::Http;
use crate::host::Host;
use crate::log_target;
use crate::server::budget::{Account, Budget, Charge};
use crate::server::client_id::ClientId;
use crate::throttle::Throttle;

/// Requests of one connection at once, with HTTP/2.
const MAX_STREAMS: u32 = 32;
/// The bytes of one stream of HTTP/2 that have been handed over and not been sent, beside the piece that is next.
const MAX_SEND_BUFFER: usize = 64 << 10;
/// Streams of one connection that the client has reset before they were looked at.
const MAX_RESETS: usize = 20;
/// Streams of one connection that the server has reset because of what the client did wrong.
const MAX_ERROR_RESETS: usize = 256;
/// The bytes that the system keeps of a connection before they are sent, beyond what it has sent and waits to be acknowledged.
/// What is more it would only take from a client that does not read, and progress could not be seen.
const NOTSENT_LOWAT: u32 = 256 << 10;
/// How long the other side of HTTP/2 may take to say that it is alive.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection is given to close that was told to.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// One warning that a client has its share in so long.
const WARN_INTERVAL: Duration = Duration::from_secs(10);
/// How long is waited when the system has no more connections to give.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// All connections of a server.
pub(super) struct Connections {
    shared: Arc<ServerContext>,
    tracker: TaskTracker,
}

/// What each needs.
struct ServerContext {
    host: Arc<Host>,
    app: Router,
    tls: Option<TlsAcceptor>,
    /// For the answers that wait to be sent.
    budget: Arc<Budget>,
    /// How many each client has.
    limiter: ClientLimiter,
    /// Asks all to end after what is in flight.
    shutdown: CancellationToken,
    /// Ends all.
    abort: CancellationToken,
    /// One was closed.
    closed: Notify,
    /// Which of the warnings are logged that a client has its share.
    rejection_log: Throttle,
}

/// A connection that is open, until it is dropped.
struct ConnectionGuard {
    token: Option<TaskTrackerToken>,
    shared: Arc<ServerContext>,
    permit: Option<ClientPermit>,
}

/// A charge that travels with a response until it is sent.
#[derive(Clone)]
pub(super) struct ResponseCharge(Arc<Mutex<Option<Charge>>>);

impl ResponseCharge {
    /// What a response is charged for.
    pub(super) fn new(charge: Charge) -> Self {
        Self(Arc::new(Mutex::new(Some(charge))))
    }

    fn take(&self) -> Option<Charge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Connections {
    pub(super) fn new(
        host: Arc<Host>,
        app: Router,
        tls: Option<TlsAcceptor>,
        budget: Arc<Budget>,
        shutdown: CancellationToken,
    ) -> Self {
        let (abort, closed, limiter) = (CancellationToken::new(), Notify::new(), ClientLimiter::default());
        let rejection_log = Throttle::new(WARN_INTERVAL);
        let shared = ServerContext { host, app, tls, budget, limiter, shutdown, abort, closed, rejection_log };
        Self { shared: Arc::new(shared), tracker: TaskTracker::new() }
    }

    /// Takes connections until the server is asked to end. Nothing listens then any more.
    pub(super) async fn accept(&self, listener: TcpListener) {
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

    /// Serves a connection, or closes it if its client has as many as it may.
    fn spawn(&self, tcp: TcpStream, client: ClientId) {
        let limits = &self.shared.host.config().http.limits;
        // That all are taken has been waited for.
        let max =
            ClientLimits { overall: usize::MAX, ..ClientLimits::new(limits.connections.get(), limits.client_share) };
        let Ok(of_client) = self.shared.limiter.acquire(client, max) else {
            return self.shared.warn_share_reached(client);
        };
        let open =
            ConnectionGuard { token: Some(self.tracker.token()), shared: self.shared.clone(), permit: Some(of_client) };
        tokio::spawn(async move { open.shared.abort.run_until_cancelled(open.shared.serve(tcp, client)).await });
    }

    /// Waits for all to close, for a while; ends those that do not.
    pub(super) async fn close(&self) {
        self.tracker.close();
        if timeout(CLOSE_TIMEOUT, self.tracker.wait()).await.is_err() {
            tracing::debug!(target: log_target::SERVER, open = self.tracker.len(), "shutdown: close timed out with connections open");
            self.shared.abort.cancel();
            self.tracker.wait().await;
        }
    }

    /// Waits until there are fewer than may be.
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

/// What concerns one connection passes; what concerns the system takes time.
async fn back_off_on_accept_error(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(target: log_target::SERVER, %error, "accept failed");
        sleep(ACCEPT_BACKOFF).await;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        // Who waits for room counts.
        self.token = None;
        self.permit = None;
        self.shared.closed.notify_one();
    }
}

impl ServerContext {
    /// Says that a connection is closed, not too often.
    fn warn_share_reached(&self, client: ClientId) {
        const TEXT: &str = "a connection is closed: its client has its share (`http.limits.client-share`) of `http.limits.connections`";
        match self.rejection_log.record() {
            Some(0) => tracing::warn!(target: log_target::SERVER, %client, "{TEXT}"),
            Some(suppressed) => tracing::warn!(target: log_target::SERVER, %client, suppressed, "{TEXT}"),
            None => tracing::debug!(target: log_target::SERVER, %client, "{TEXT}"),
        }
    }

    async fn serve(&self, tcp: TcpStream, client: ClientId) {
        // Answers are small and written whole: waiting to fill a packet only delays them.
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(target: log_target::SERVER, %error, "TCP_NODELAY cannot be set");
        }
        set_notsent_lowat(&tcp);
        let account = self.budget.account(client);
        let Some(tls) = &self.tls else { return self.serve_http(tcp, account).await };
        let most = self.host.config().http.limits.read_timeout.duration();
        match self.shutdown.run_until_cancelled(timeout(most, tls.accept(tcp))).await {
            Some(Ok(Ok(stream))) => self.serve_http(stream, account).await,
            Some(Ok(Err(error))) => tracing::debug!(target: log_target::SERVER, %error, "TLS handshake failed"),
            Some(Err(_)) => tracing::debug!(target: log_target::SERVER, "TLS handshake timed out"),
            None => {}
        }
    }

    /// Speaks HTTP until the client goes, nothing has been in flight for too long, nothing gets on that is, or the server ends.
    async fn serve_http(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, account: Arc<Account>) {
        let config = self.host.config();
        let activity = Activity::new();
        let app = TowerToHyperService::new(self.app.clone());
        let (requests, end) = (activity.clone(), CancellationToken::new());
        let ended = end.clone();
        let bodies = BodyLimiter::default();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (delivery, end) = (Arc::new(Delivery::new()), end.clone());
            let busy = requests.begin(delivery.clone());
            let reduced = head::strip_unused(&mut request);
            request.extensions_mut().insert(account.clone());
            request.extensions_mut().insert(bodies.clone());
            let answering = reduced.ok().map(|()| app.call(request));
            async move {
                // A stream of HTTP/2 is ended alone. Over HTTP/1.1 there is one answer at a time, which ends with its connection.
                delivery.set_abort(stream_abort().unwrap_or(end));
                let mut response: Response<Body> = match answering {
                    Some(answering) => answering.await?,
                    None => too_many_header_fields(),
                };
                let charge = response.extensions_mut().remove().and_then(|charged: ResponseCharge| charged.take());
                Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, delivery, busy, charge)))
            }
        });
        let builder = builder(&config.http);
        let limits = &config.http.limits;
        let serving = async {
            let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
            tokio::select! {
                served = connection.as_mut() => served,
                () = activity.wait_idle(limits.read_timeout.duration(), limits.idle_timeout.duration()) => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        served = connection => served,
                        // A request may have come at the last moment.
                        () = activity.wait_idle(CLOSE_TIMEOUT, CLOSE_TIMEOUT) => Ok(()),
                    }
                }
                () = self.shutdown.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
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
}

/// Bounds what the system keeps of what is not sent, where it can be told to.
fn set_notsent_lowat(tcp: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(NOTSENT_LOWAT) {
        tracing::debug!(target: log_target::SERVER, %error, "TCP_NOTSENT_LOWAT cannot be set");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (tcp, NOTSENT_LOWAT);
}

fn builder(config: &Http) -> Builder<StreamExecutor> {
    let head = config.limits.headers.bytes();
    let mut builder = Builder::new(StreamExecutor);
    // What comes too slowly is ended by what watches whether anything is in flight.
    builder.http1().max_buf_size(usize::try_from(head).unwrap_or(usize::MAX)).header_read_timeout(None::<Duration>);
    builder
        .http2()
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

fn too_many_header_fields() -> Response {
    let text = format!("the request has more than {MAX_HEADER_FIELDS} header fields, or some of them far too often\n");
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text).into_response()
}
