//! The proxy of a program: the only way out of its network namespace.
//!
//! It accepts connections at a socket that was created in the program's network, and connects from the host's. So the
//! program needs no relay and no route, and cannot reach anything else.
//!
//! | request | required grant | action |
//! |---|---|---|
//! | `CONNECT HOST:PORT` | an origin with that host and port, `https` or `http` | a tunnel: its bytes are opaque to the proxy |
//! | `GET http://HOST:PORT/…`, and other methods | an origin `http` with that host and port | one request, forwarded on a separate connection |
//! | others | | status 400 |
//!
//! Requests without a grant get 403, before any name is resolved. The proxy resolves names itself, once per connection,
//! and only to public addresses ([`is_public`](mcp_host_model::net::is_public)), as for `grants.http` of a plugin. An
//! origin that names an address is exempt from this check.
//!
//! Bounds: at most [`MAX_CONNECTIONS`] concurrent connections. Each has [`HEAD_TIME`] for its request and
//! [`CONNECT_TIME`] to connect to the server, and ends after [`IDLE_TIME`] without a byte, or after [`MAX_TIME`].
//! Buffers have hyper's sizes. All connections end with the program.

mod connect;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use hyper::http::uri::{Authority, Scheme as UriScheme};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, client, server};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_host_base::task;
use mcp_host_base::text::truncate;
use mcp_host_model::net::{Origin, OriginPattern, Scheme};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use self::connect::ConnectError;

/// The maximum number of concurrent connections of a program. Further ones wait until one ends.
pub(crate) const MAX_CONNECTIONS: usize = 32;
/// The maximum time for a request to arrive.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The maximum time to resolve a name and connect.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The maximum time without a byte on a connection.
const IDLE_TIME: Duration = Duration::from_secs(300);
/// The maximum duration of a connection.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// The maximum number of refused connections that are reported in [`REFUSED_TIME`].
const MAX_REFUSED: usize = 16;
/// The time in which equal refused connections are reported once.
const REFUSED_TIME: Duration = Duration::from_secs(60);
/// The maximum length of the text about a refused connection, in bytes.
const MAX_REFUSED_LENGTH: usize = 512;
/// The maximum size of the head of a request or response, and of the buffer for a body.
const MAX_BUFFER: usize = 64 << 10;
/// The size of the buffer for each direction of a tunnel, in bytes.
const TUNNEL_BUFFER: usize = 16 << 10;
/// Headers that concern one connection only (RFC 9110, section 7.6.1), or the proxy.
const HOP_BY_HOP: [&str; 6] =
    ["keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "te", "trailer"];

/// A permit of [`MAX_CONNECTIONS`]. Held until the connection has ended and its name is resolved.
type Permit = Arc<OwnedSemaphorePermit>;

type Body = BoxBody<Bytes, hyper::Error>;

/// The proxy of a program. When it is dropped, it ends with all of its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    task: JoinHandle<()>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    origins: Vec<OriginPattern>,
    refused: Mutex<Refused>,
}

/// Refused connections.
#[derive(Debug, Default)]
struct Refused {
    /// Those since `since`, which begins anew after [`REFUSED_TIME`].
    known: Vec<String>,
    since: Option<Instant>,
    /// Those that were not reported yet.
    pending: Vec<String>,
}

impl Refused {
    fn add(&mut self, refused: String, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= REFUSED_TIME) {
            (self.since, self.known) = (Some(now), Vec::new());
        }
        let refused = truncate(refused, MAX_REFUSED_LENGTH);
        // The first ones are kept, because they show which grants the program needs.
        let has_room = self.known.len() < MAX_REFUSED && self.pending.len() < MAX_REFUSED;
        if has_room && !self.known.contains(&refused) {
            self.known.push(refused.clone());
            self.pending.push(refused);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Serves a listening socket.
    pub(crate) fn start(listener: OwnedFd, origins: &[OriginPattern]) -> io::Result<Self> {
        let listener = StdTcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let state = Arc::new(State { origins: origins.to_vec(), refused: Mutex::default() });
        let task = task::spawn(serve(listener, state.clone()));
        Ok(Self { task, state })
    }

    /// Returns the connections that were refused since the last call, each with the reason.
    pub(crate) fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.state.refused.lock().unwrap_or_else(PoisonError::into_inner).pending)
    }
}

/// Accepts connections, which end with the future.
async fn serve(listener: TcpListener, state: Arc<State>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The process has no descriptors left, or the connection has ended meanwhile.
            Err(_) => {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let state = state.clone();
        connections.spawn(async move {
            let _ = timeout(MAX_TIME, serve_connection(stream, state, Arc::new(permit))).await;
        });
    }
}

/// Serves one connection. If it becomes a tunnel, serves it until the tunnel ends.
async fn serve_connection(stream: TcpStream, state: Arc<State>, permit: Permit) {
    let _ = stream.set_nodelay(true);
    let tunnels = Arc::new(Mutex::new(None));
    let service = {
        let (tunnels, permit) = (tunnels.clone(), permit.clone());
        service_fn(move |request| {
            let (state, tunnels, permit) = (state.clone(), tunnels.clone(), permit.clone());
            async move { Ok::<_, Infallible>(state.answer(request, &tunnels, permit).await) }
        })
    };
    let mut builder = server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_BUFFER).keep_alive(false);
    let _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    let pending = tunnels.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((upgrade, server)) = pending {
        let upgrade: hyper::upgrade::OnUpgrade = upgrade;
        if let Ok(client) = upgrade.await {
            tunnel(TokioIo::new(client), server, IDLE_TIME).await;
        }
    }
}

/// A tunnel that begins after the response to its request.
type PendingTunnel = Mutex<Option<(hyper::upgrade::OnUpgrade, TcpStream)>>;

impl State {
    async fn answer(&self, mut request: Request<Incoming>, tunnels: &PendingTunnel, permit: Permit) -> Response<Body> {
        if request.method() == Method::CONNECT {
            let Some(authority) = request.uri().authority().cloned() else {
                return refusal(StatusCode::BAD_REQUEST, "CONNECT needs HOST:PORT");
            };
            let origins = [Scheme::Https, Scheme::Http].map(|scheme| origin(scheme, &authority, authority.port_u16()));
            let granted = origins.into_iter().flatten().find(|origin| self.is_granted(origin));
            let Some(origin) = granted else { return self.refuse(authority.as_str()) };
            match self.connect(&origin, permit).await {
                Ok(server) => {
                    let upgrade = hyper::upgrade::on(&mut request);
                    *tunnels.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, server));
                    Response::new(body(""))
                }
                Err(response) => response,
            }
        } else {
            let Some(authority) = request.uri().authority().cloned() else {
                return refusal(StatusCode::BAD_REQUEST, "this is a proxy: name a URL, or use CONNECT");
            };
            if request.uri().scheme() != Some(&UriScheme::HTTP) {
                return refusal(StatusCode::BAD_REQUEST, "only `http` is forwarded; use CONNECT for others");
            }
            let port = authority.port_u16().unwrap_or(Scheme::Http.default_port());
            let granted = origin(Scheme::Http, &authority, Some(port)).filter(|origin| self.is_granted(origin));
            let Some(origin) = granted else { return self.refuse(&format!("http://{authority}")) };
            match self.connect(&origin, permit).await {
                Ok(server) => forward(request, &origin, server).await,
                Err(response) => response,
            }
        }
    }

    fn is_granted(&self, origin: &Origin) -> bool {
        self.origins.iter().any(|granted| granted.matches(origin))
    }

    async fn connect(&self, origin: &Origin, permit: Permit) -> Result<TcpStream, Response<Body>> {
        match timeout(CONNECT_TIME, connect::connect(origin, permit)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error @ ConnectError::PrivateAddress(_))) => {
                self.remember(format!("{origin}: {error}"));
                Err(refusal(StatusCode::FORBIDDEN, &error.to_string()))
            }
            Ok(Err(error)) => Err(refusal(StatusCode::BAD_GATEWAY, &error.to_string())),
            Err(_) => Err(refusal(StatusCode::GATEWAY_TIMEOUT, "the server does not respond")),
        }
    }

    fn refuse(&self, target: &str) -> Response<Body> {
        self.remember(format!("{target} is not granted"));
        refusal(StatusCode::FORBIDDEN, "this origin is not granted to the program")
    }

    fn remember(&self, refused: String) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).add(refused, Instant::now());
    }
}

/// Returns the origin of a request. `None` if the text is not an origin.
fn origin(scheme: Scheme, authority: &Authority, port: Option<u16>) -> Option<Origin> {
    // Without this check, the user name and the password would count as part of the host.
    if authority.as_str().contains('@') {
        return None;
    }
    format!("{}://{}:{}", scheme.as_str(), authority.host(), port?).parse().ok()
}

/// Forwards a request to its server, on a connection that ends with the response.
async fn forward(mut request: Request<Incoming>, origin: &Origin, server: TcpStream) -> Response<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let (Ok(path), Ok(host)) = (path.parse::<Uri>(), HeaderValue::from_str(&origin.authority())) else {
        return refusal(StatusCode::BAD_REQUEST, "the URL is invalid");
    };
    *request.uri_mut() = path;
    remove_hop_by_hop(request.headers_mut());
    request.headers_mut().insert(HOST, host);
    let exchange = async {
        let mut builder = client::conn::http1::Builder::new();
        builder.max_buf_size(MAX_BUFFER);
        let (mut sender, connection) = builder.handshake(TokioIo::new(server)).await?;
        // Ends with its streams: the program's connection holds the body of the response.
        task::spawn(async move { timeout(MAX_TIME, connection).await });
        sender.send_request(request).await
    };
    match timeout(IDLE_TIME, exchange).await {
        Ok(Ok(mut response)) => {
            remove_hop_by_hop(response.headers_mut());
            response.map(BodyExt::boxed)
        }
        Ok(Err(error)) => refusal(StatusCode::BAD_GATEWAY, &error.to_string()),
        Err(_) => refusal(StatusCode::GATEWAY_TIMEOUT, "the server does not respond"),
    }
}

/// Removes the headers of a single connection, and the headers that `Connection` names.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    for name in named.iter().chain([&CONNECTION, &UPGRADE]) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn refusal(status: StatusCode, reason: &str) -> Response<Body> {
    let mut response = Response::new(body(reason));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn body(text: &str) -> Body {
    Full::new(Bytes::from(text.to_owned())).map_err(|never| match never {}).boxed()
}

/// Transports bytes between two streams, until both directions have ended or no byte has moved for some time.
async fn tunnel(
    one: impl AsyncRead + AsyncWrite + Unpin,
    other: impl AsyncRead + AsyncWrite + Unpin,
    idle_time: Duration,
) {
    let ((one_read, one_write), (other_read, other_write)) = (split(one), split(other));
    // One direction may be silent for long while the other is not, as in a download. So a byte in either direction
    // counts.
    let moved = AtomicU64::new(0);
    let moved = &moved;
    let both = async {
        let _ = tokio::join!(transport(one_read, other_write, moved), transport(other_read, one_write, moved));
    };
    let idle = async {
        let read = || moved.load(Ordering::Relaxed);
        let mut before = read();
        loop {
            sleep(idle_time).await;
            let now = read();
            if now == before {
                return;
            }
            before = now;
        }
    };
    tokio::select! {
        () = both => {}
        () = idle => {}
    }
}

/// Transports one direction, including its end.
async fn transport(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; TUNNEL_BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        moved.fetch_add(1, Ordering::Relaxed);
        match buffer.get(..count) {
            Some(bytes @ [_, ..]) => to.write_all(bytes).await?,
            _ => return to.shutdown().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_does_not_flood_the_log_with_refused_connections() {
        let (mut refused, began) = (Refused::default(), Instant::now());
        for at in 0..1000 {
            refused.add(format!("{}.example.com{}", at / 2, "x".repeat(60_000)), began);
        }
        let reported = std::mem::take(&mut refused.pending);
        assert!(
            reported.iter().all(|text| text.len() < 600) && reported[0].starts_with("0.example.com"),
            "{reported:?}"
        );
        assert_eq!(reported.len(), MAX_REFUSED);
        refused.add("other".to_owned(), began);
        assert!(refused.pending.is_empty(), "it was reported already, or is one too many");
        refused.add("other".to_owned(), began + REFUSED_TIME);
        assert_eq!(refused.pending, ["other"]);
        for minute in 2..100 {
            refused.add(minute.to_string(), began + REFUSED_TIME * minute);
        }
        assert_eq!(refused.pending.len(), MAX_REFUSED, "the application takes none");
    }
}
