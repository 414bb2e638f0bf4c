//! Connections: taken, spoken on, closed.
//!
//! HTTP/1.1 and HTTP/2 are told apart by how a connection begins, with TLS by what was agreed on in its handshake too.
//!
//! Bounded, by [`limits`](crate::config::HttpServerLimits) of the config: how many there are at once, how long the handshake
//! and the first request may take, how long one may be open with nothing in flight, how large the head of a request is. It
//! has at most [`MAX_FIELDS`] fields.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
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
use super::guarded::Guarded;
use super::received::Bodies;
use crate::config::Http;
use crate::host::Host;

/// The fields that the head of a request may have. HTTP/1.1 is held to it by hyper, whose default it is.
const MAX_FIELDS: usize = 100;
/// Requests of one connection at once, with HTTP/2.
const MAX_STREAMS: u32 = 100;
/// How long the other side of HTTP/2 may take to say that it is alive.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection is given to close that was told to.
pub(super) const MAX_CLOSE: Duration = Duration::from_secs(1);
/// How long is waited when the system has no more connections to give.
const BREATH: Duration = Duration::from_millis(100);

/// All connections of a server.
pub(super) struct Connections {
    shared: Arc<Shared>,
    open: TaskTracker,
}

/// What each needs.
struct Shared {
    host: Arc<Host>,
    app: Router,
    tls: Option<TlsAcceptor>,
    /// Asks all to end after what is in flight.
    shutdown: CancellationToken,
    /// Ends all.
    end: CancellationToken,
    /// One was closed.
    closed: Notify,
}

/// A connection that is open, until it is dropped.
struct Open {
    token: Option<TaskTrackerToken>,
    shared: Arc<Shared>,
}

impl Connections {
    pub(super) fn new(host: Arc<Host>, app: Router, tls: Option<TlsAcceptor>, shutdown: CancellationToken) -> Self {
        let (end, closed) = (CancellationToken::new(), Notify::new());
        Self { shared: Arc::new(Shared { host, app, tls, shutdown, end, closed }), open: TaskTracker::new() }
    }

    /// Takes connections until the server is asked to end. Nothing listens then any more.
    pub(super) async fn accept(&self, listener: TcpListener) {
        self.shared.shutdown.run_until_cancelled(self.accept_all(listener)).await;
    }

    async fn accept_all(&self, listener: TcpListener) {
        loop {
            self.room().await;
            match listener.accept().await {
                Ok((tcp, _)) => self.take(tcp),
                Err(error) => wait_out(&error).await,
            }
        }
    }

    fn take(&self, tcp: TcpStream) {
        let open = Open { token: Some(self.open.token()), shared: self.shared.clone() };
        tokio::spawn(async move { open.shared.end.run_until_cancelled(open.shared.serve(tcp)).await });
    }

    /// Waits for all to close, for a while; ends those that do not.
    pub(super) async fn close(&self) {
        self.open.close();
        if timeout(MAX_CLOSE, self.open.wait()).await.is_err() {
            tracing::debug!(open = self.open.len(), "ending with connections open");
            self.shared.end.cancel();
            self.open.wait().await;
        }
    }

    /// Waits until there are fewer than may be.
    async fn room(&self) {
        let mut is_told = false;
        loop {
            let most = self.shared.host.config().http.limits.connections.get();
            if self.open.len() < most {
                return;
            }
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(most, "as many connections are open as `http.limits.connections` allows; others wait");
            }
            self.shared.closed.notified().await;
        }
    }
}

/// What concerns one connection passes; what concerns the system takes time.
async fn wait_out(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "a connection cannot be taken");
        sleep(BREATH).await;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Who waits for room counts.
        self.token = None;
        self.shared.closed.notify_one();
    }
}

impl Shared {
    async fn serve(&self, tcp: TcpStream) {
        // Answers are small and written whole: waiting to fill a packet only delays them.
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY cannot be set");
        }
        let Some(tls) = &self.tls else { return self.speak(tcp).await };
        let most = self.host.config().http.limits.receive.duration();
        match self.shutdown.run_until_cancelled(timeout(most, tls.accept(tcp))).await {
            Some(Ok(Ok(stream))) => self.speak(stream).await,
            Some(Ok(Err(error))) => tracing::debug!(%error, "TLS is not agreed on"),
            Some(Err(_)) => tracing::debug!("the TLS handshake takes too long"),
            None => {}
        }
    }

    /// Speaks HTTP until the client goes, nothing has been in flight for too long, or the server ends.
    async fn speak(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let config = self.host.config();
        let activity = Activity::new();
        let app = TowerToHyperService::new(self.app.clone());
        let requests = activity.clone();
        let bodies = Bodies::default();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let busy = requests.begin();
            request.extensions_mut().insert(bodies.clone());
            let answering = (request.headers().len() <= MAX_FIELDS).then(|| app.call(request));
            async move {
                let response: Response<Body> = match answering {
                    Some(answering) => answering.await?,
                    None => too_many_fields(),
                };
                Ok::<_, Infallible>(response.map(|body| Guarded::body(body, busy)))
            }
        });
        let builder = builder(&config.http);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
        let limits = &config.http.limits;
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = activity.quiet(limits.receive.duration(), limits.idle.duration()) => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    served = connection => served,
                    // A request may have come at the last moment.
                    () = activity.quiet(MAX_CLOSE, MAX_CLOSE) => return,
                }
            }
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

fn builder(config: &Http) -> Builder<TokioExecutor> {
    let head = config.limits.headers.bytes();
    let mut builder = Builder::new(TokioExecutor::new());
    // What comes too slowly is ended by what watches whether anything is in flight.
    builder.http1().max_buf_size(usize::try_from(head).unwrap_or(usize::MAX)).header_read_timeout(None::<Duration>);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(config.keep_alive.duration())
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

fn too_many_fields() -> Response {
    let text = format!("the request has more than {MAX_FIELDS} header fields\n");
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text).into_response()
}
