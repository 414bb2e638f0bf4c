//! The HTTP/1.1 connections to one server, in a pool.
//!
//! The task that waits for a response also drives the connection: it polls the connection while it waits for the head,
//! and while it reads the body. With a task for each connection, as in hyper-util's client, a request would wake that
//! task, and each part of the response would wake it and then the task that waits. Waking threads is most of the time
//! of a short read.
//!
//! Nothing polls an idle connection. So what the server did meanwhile is found when the connection is taken from the
//! pool: a connection that was closed, or on which something was received, is dropped. A connection is dropped after
//! [`IDLE_TIMEOUT`], too.
//!
//! HTTP/1.1 has no ids: if a server sends one response too many, each later response on this connection answers the
//! request before it (response desynchronization). So a connection is used again only if its response is the answer to
//! its request by the ids of JSON-RPC ([`Reuse`]), and no two identities share a pool.

use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::sleep;
use tower::ServiceExt as _;

/// The time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of the head of a response, in bytes.
const MAX_HEAD: usize = 64 << 10;

type Driver = http1::Connection<MaybeHttpsStream<TokioIo<TcpStream>>, Full<Bytes>>;

/// The connections to one server with the credentials of one identity.
#[derive(Clone)]
pub(crate) struct Connections {
    connector: HttpsConnector<HttpConnector>,
    idle: Arc<Idle>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The server cannot be connected to.
    #[error("cannot connect")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    /// The connection failed.
    #[error("the connection failed")]
    Connection(#[from] hyper::Error),
    /// The URI is not one of a server.
    #[error(transparent)]
    Request(#[from] hyper::http::Error),
}

impl Connections {
    pub(crate) fn new(connector: HttpsConnector<HttpConnector>) -> Self {
        Self { connector, idle: Arc::default() }
    }

    /// Returns an empty pool of connections to the same server, for another identity.
    pub(crate) fn separate(&self) -> Self {
        Self::new(self.connector.clone())
    }

    /// Sends a request whose URI is absolute and that may be repeated, and returns the response once its head was
    /// received. The connection serves another request after the body has been read to the end and [`Reuse`] was
    /// permitted. It is closed if the future or the body is dropped before.
    ///
    /// # Errors
    ///
    /// There is no response. If the connection was idle before, the server may have closed it at the same time, so the
    /// request is sent once more, on a new connection.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<ReceivedBody>, SendError> {
        let uri = request.uri().clone();
        let request = in_origin_form(request)?;
        if let Some(idle) = self.idle.take()
            && let Ok(response) = self.send_on(idle, request.clone()).await
        {
            return Ok(response);
        }
        let connection = self.connect(uri).await?;
        Ok(self.send_on(connection, request).await?)
    }

    async fn send_on(
        &self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<ReceivedBody>> {
        let response = connection.sender.send_request(request);
        let response = connection.drive(response).await?;
        let used = Some((connection, self.idle.clone()));
        Ok(response.map(|body| ReceivedBody { body, has_ended: false, reuse: Reuse::default(), used }))
    }

    async fn connect(&self, uri: Uri) -> Result<Connection, SendError> {
        let stream = self.connector.clone().oneshot(uri).await.map_err(SendError::Connect)?;
        let (sender, driver) = http1::Builder::new().max_buf_size(MAX_HEAD).handshake(stream).await?;
        Ok(Connection { sender, driver: Some(Box::pin(driver)) })
    }
}

/// Returns the request with the path as its URI, and the header `Host` (RFC 9112, sections 3.2.1 and 3.2).
fn in_origin_form(mut request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let uri = request.uri();
    let host = match (uri.host(), uri.port()) {
        (Some(host), Some(port)) => HeaderValue::try_from(format!("{host}:{port}"))?,
        (host, _) => HeaderValue::try_from(host.unwrap_or_default())?,
    };
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    request.headers_mut().insert(HOST, host);
    *request.uri_mut() = Uri::from(path);
    Ok(request)
}

/// One connection.
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// None after the connection has ended.
    driver: Option<Pin<Box<Driver>>>,
}

impl Connection {
    /// Polls the connection. That it failed is known to the future or the body that waits for it.
    fn poll(&mut self, context: &mut Context<'_>) {
        if self.driver.as_mut().is_some_and(|driver| driver.poll_unpin(context).is_ready()) {
            self.driver = None;
        }
    }

    /// Drives the connection until the future that waits for it is ready.
    async fn drive<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        let mut waiting = pin!(waiting);
        poll_fn(|context| {
            self.poll(context);
            waiting.as_mut().poll(context)
        })
        .await
    }

    /// Returns whether it takes a request.
    fn is_ready(&mut self) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        self.poll(&mut context);
        self.driver.is_some() && matches!(self.sender.poll_ready(&mut context), Poll::Ready(Ok(())))
    }
}

/// The idle connections.
#[derive(Default)]
struct Idle {
    state: Mutex<IdleState>,
}

#[derive(Default)]
struct IdleState {
    /// The connections with the times since which they are idle, the newest at the end.
    connections: Vec<(Connection, Instant)>,
    /// Whether a task closes them after this time.
    is_swept: bool,
}

impl Idle {
    /// Takes the newest connection that is ready.
    fn take(&self) -> Option<Connection> {
        loop {
            let (mut connection, _) = self.state.lock().connections.pop()?;
            if connection.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection. Without a runtime, which happens while the host shuts down, it is closed.
    fn put(self: &Arc<Self>, connection: Connection) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut state = self.state.lock();
        state.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut state.is_swept, true) {
            drop(state);
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Removes the connections that were idle for too long, and returns them with the time until there is another one.
    fn expire(&self) -> (Vec<(Connection, Instant)>, Option<Duration>) {
        let left = |since: &Instant| IDLE_TIMEOUT.saturating_sub(since.elapsed());
        let mut state = self.state.lock();
        let count = state.connections.iter().take_while(|(_, since)| left(since).is_zero()).count();
        let expired = state.connections.drain(..count).collect();
        let next = state.connections.first().map(|(_, since)| left(since));
        state.is_swept = next.is_some();
        (expired, next)
    }
}

/// Closes idle connections until there are none.
async fn sweep(idle: Weak<Idle>) {
    let mut next = Some(IDLE_TIMEOUT);
    while let Some(left) = next {
        sleep(left).await;
        let Some(idle) = idle.upgrade() else { return };
        let expired;
        (expired, next) = idle.expire();
        drop(expired);
    }
}

/// The permission to use a connection again after its response. Without it, the connection is closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reuse(Arc<AtomicBool>);

impl Reuse {
    /// Permits it: the response is the answer to the request.
    pub(crate) fn permit(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The body of a response. Reading it drives its connection.
pub(crate) struct ReceivedBody {
    body: Incoming,
    has_ended: bool,
    reuse: Reuse,
    used: Option<(Connection, Arc<Idle>)>,
}

impl ReceivedBody {
    pub(crate) fn reuse(&self) -> Reuse {
        self.reuse.clone()
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let mut polled = Pin::new(&mut this.body).poll_frame(context);
        if polled.is_pending()
            && let Some((connection, _)) = &mut this.used
        {
            // The body has requested data from the connection.
            connection.poll(context);
            polled = Pin::new(&mut this.body).poll_frame(context);
        }
        this.has_ended |= matches!(polled, Poll::Ready(None));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ReceivedBody {
    fn drop(&mut self) {
        if self.is_end_stream()
            && self.reuse.0.load(Ordering::Relaxed)
            && let Some((connection, idle)) = self.used.take()
        {
            idle.put(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use http_body_util::BodyExt as _;
    use hyper_rustls::HttpsConnectorBuilder;
    use mcp_host_base::tls_client;
    use rustls::RootCertStore;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn connections() -> Connections {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let tls = tls_client::client_config(RootCertStore::empty()).unwrap();
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        Connections::new(builder.wrap_connector(tcp))
    }

    /// A server by hand, and its URI.
    async fn listen() -> (TcpListener, Uri) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/mcp?a", listener.local_addr().unwrap()).parse().unwrap();
        (listener, uri)
    }

    /// Reads the head of a request that has no body.
    async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        Ok(String::from_utf8(head).unwrap())
    }

    async fn get(connections: &Connections, uri: &Uri) -> Result<Response<ReceivedBody>, SendError> {
        let response = connections.send(Request::get(uri.clone()).body(Full::default()).unwrap()).await?;
        response.body().reuse().permit();
        Ok(response)
    }

    async fn text_of(response: Response<ReceivedBody>) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_connection_serves_one_request_after_another() {
        let (listener, uri) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            for body in [
                "content-length: 1\r\n\r\na",
                "content-length: 0\r\n\r\n",
                "transfer-encoding: chunked\r\n\r\n1\r\nb\r\n0\r\n\r\n",
            ] {
                let head = read_head(&mut stream).await.unwrap();
                assert!(head.starts_with("GET /mcp?a HTTP/1.1\r\n"), "{head}");
                assert!(head.contains(&format!("host: {}\r\n", uri.authority().unwrap())), "{head}");
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{body}").as_bytes()).await.unwrap();
            }
            stream
        };
        let connections = connections();
        let client = async {
            let mut texts = Vec::new();
            for is_read in [true, false, true] {
                let response = get(&connections, &uri).await.unwrap();
                // A body without bytes need not be read.
                texts.push(if is_read { text_of(response).await } else { String::new() });
            }
            texts
        };
        let (texts, _stream) = tokio::join!(client, server);
        assert_eq!(texts, ["a", "", "b"]);
    }

    #[tokio::test]
    async fn a_connection_that_the_server_has_closed_is_not_used_again() {
        let (listener, uri) = listen().await;
        let connections = connections();
        for text in ["a", "b"] {
            let server = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                read_head(&mut stream).await.unwrap();
                let response = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{text}");
                stream.write_all(response.as_bytes()).await.unwrap();
                // Closed when the client has the response, so that its connection was idle.
                stream
            };
            let client = async { text_of(get(&connections, &uri).await.unwrap()).await };
            let (received, stream) = tokio::join!(client, server);
            assert_eq!(received, text);
            drop(stream);
            // The runtime notices that the server has closed it.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_request_is_repeated_if_the_server_closes_its_idle_connection_at_the_same_time() {
        let (listener, uri) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na").await.unwrap();
            // The second request is here, and has no response.
            read_head(&mut stream).await.unwrap();
            drop(stream);
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb").await.unwrap();
        };
        let connections = connections();
        let client = async {
            let first = text_of(get(&connections, &uri).await.unwrap()).await;
            (first, text_of(get(&connections, &uri).await.unwrap()).await)
        };
        let (texts, ()) = tokio::join!(client, server);
        assert_eq!(texts, ("a".to_owned(), "b".to_owned()));
    }

    #[tokio::test]
    async fn a_connection_is_closed_without_permission_to_use_it_again() {
        let (listener, uri) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na").await.unwrap();
            stream.read_u8().await.unwrap_err().kind()
        };
        let connections = connections();
        let client = async {
            let request = Request::get(uri.clone()).body(Full::default()).unwrap();
            text_of(connections.send(request).await.unwrap()).await
        };
        let (text, closed) = tokio::join!(client, server);
        assert_eq!((text.as_str(), closed), ("a", io::ErrorKind::UnexpectedEof));
    }

    #[tokio::test]
    async fn a_connection_is_closed_if_its_body_is_dropped_before_the_end() {
        let (listener, uri) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na").await.unwrap();
            stream.read_u8().await.unwrap_err().kind()
        };
        let connections = connections();
        let client = async { drop(get(&connections, &uri).await.unwrap()) };
        let ((), closed) = tokio::join!(client, server);
        assert_eq!(closed, io::ErrorKind::UnexpectedEof);
        assert!(connections.idle.take().is_none());
    }

    #[tokio::test]
    async fn a_server_that_answers_no_request_fails_it() {
        let (listener, uri) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await.unwrap();
        };
        let connections = connections();
        let (response, ()) = tokio::join!(get(&connections, &uri), server);
        assert!(matches!(response.err(), Some(SendError::Connection(_))));
        drop(listener);
        assert!(matches!(get(&connections, &uri).await.err(), Some(SendError::Connect(_))));
    }
}
