//! Event streams of `subscriptions/listen`, cheap at the client: nothing is kept of what a stream has received, except
//! a few bytes.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rmcp::model::ProtocolVersion;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::coop::unconstrained;

use crate::bench_request::BenchRequest;

/// What the first event of a stream has.
const ACKNOWLEDGED: &[u8] = b"notifications/subscriptions/acknowledged";
/// What an update of a resource has in its event.
const UPDATED: &[u8] = b"notifications/resources/updated";
/// The number of concurrent requests that the host accepts on one connection of HTTP/2.
const STREAMS_OF_CONNECTION: usize = 32;
/// The maximum number of bytes of one read.
const READ_SIZE: usize = 4096;
/// The number of connections from one address. An address has about 28,000 ports for connections to one server, and a
/// port is not used again for a minute.
const CONNECTIONS_OF_ADDRESS: usize = 10_000;

/// How streams are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// One stream on each connection.
    Http1,
    /// Many streams on each connection, without TLS (prior knowledge).
    Http2,
}

/// The streams of one connection.
pub(crate) struct Connection {
    streams: Vec<EventStream>,
    /// Keeps the connection open.
    _sender: Option<SendRequest<Full<Bytes>>>,
}

/// One stream.
struct EventStream {
    source: Source,
    /// The last bytes that it has received, in which an event may have begun.
    tail: Vec<u8>,
}

enum Source {
    Http1(TcpStream),
    Http2(Incoming),
}

impl Version {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }

    /// Returns the numbers of streams of the connections that have this number of streams together.
    pub(crate) fn connections(self, streams: usize) -> Vec<usize> {
        let of_connection = match self {
            Self::Http1 => 1,
            Self::Http2 => STREAMS_OF_CONNECTION,
        };
        let first = (0..streams).step_by(of_connection);
        first.map(|first| of_connection.min(streams - first)).collect()
    }

    /// Connects, and opens this number of streams that listen for changes of a resource, each when the last one is
    /// acknowledged.
    pub(crate) async fn open(self, address: SocketAddr, uri: &str, streams: usize) -> Connection {
        let tcp = connect(address).await;
        match self {
            Self::Http1 => Connection { streams: vec![open_http1(tcp, address, uri).await], _sender: None },
            Self::Http2 => {
                let (mut sender, connection) =
                    handshake(TokioExecutor::new(), TokioIo::new(tcp)).await.expect("a connection");
                tokio::spawn(connection);
                let mut opened = Vec::with_capacity(streams);
                for number in 1..=streams {
                    opened.push(open_http2(&mut sender, address, uri, number).await);
                }
                Connection { streams: opened, _sender: Some(sender) }
            }
        }
    }
}

impl Connection {
    /// Waits until each stream has had an update.
    pub(crate) async fn updated(&mut self) {
        for stream in &mut self.streams {
            stream.wait_for(UPDATED).await;
        }
    }

    /// Skips the updates that have arrived: a subscription that has just begun is notified once more.
    pub(crate) fn skip_updates(&mut self) {
        for stream in &mut self.streams {
            // Otherwise sockets seem to have nothing after some that have something.
            while unconstrained(stream.wait_for(UPDATED)).now_or_never().is_some() {}
        }
    }
}

/// Connects from an address of loopback that has ports left.
async fn connect(address: SocketAddr) -> TcpStream {
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed) / CONNECTIONS_OF_ADDRESS;
    let host = u8::try_from(number + 1).expect("loopback has enough addresses");
    let socket =
        TcpSocket::new_v4().expect("there are descriptors: `ulimit -Hn` is more than the number of connections");
    socket.bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("the address has ports");
    let stream = socket.connect(address).await.expect("the server listens");
    stream.set_nodelay(true).expect("TCP_NODELAY can be set");
    stream
}

/// The headers of the request, except the server's name and the length.
fn headers(revision: &ProtocolVersion) -> [(&'static str, &str); 4] {
    [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", revision.as_str()),
        ("mcp-method", "subscriptions/listen"),
    ]
}

async fn open_http1(mut tcp: TcpStream, address: SocketAddr, uri: &str) -> EventStream {
    let revision = ProtocolVersion::V_2026_07_28;
    let message = BenchRequest::listen(uri).message(1, &revision);
    let mut request = format!("POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n", message.len());
    for (name, value) in headers(&revision) {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.extend(["\r\n", message.as_str()]);
    tcp.write_all(request.as_bytes()).await.expect("the connection is kept");
    let beginning = read(&tcp).await;
    assert!(beginning.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&beginning));
    EventStream::acknowledged(Source::Http1(tcp), &beginning).await
}

async fn open_http2(
    sender: &mut SendRequest<Full<Bytes>>,
    address: SocketAddr,
    uri: &str,
    number: usize,
) -> EventStream {
    let revision = ProtocolVersion::V_2026_07_28;
    let message = BenchRequest::listen(uri).message(number as u64, &revision);
    let mut request = Request::post(format!("http://{address}/mcp"));
    for (name, value) in headers(&revision) {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(message.into())).expect("a request");
    sender.ready().await.expect("the connection is kept");
    let response = sender.send_request(request).await.expect("an answer");
    assert!(response.status().is_success(), "{}", response.status());
    EventStream::acknowledged(Source::Http2(response.into_body()), &[]).await
}

/// Reads what has arrived. Memory is taken when something has.
async fn read(tcp: &TcpStream) -> Vec<u8> {
    loop {
        tcp.readable().await.expect("a socket");
        let mut data = vec![0; READ_SIZE];
        match tcp.try_read(&mut data) {
            Ok(0) => panic!("the server has ended the stream"),
            Ok(length) => {
                data.truncate(length);
                return data;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "the stream has failed: {error}"),
        }
    }
}

impl EventStream {
    /// Returns the stream that has received these bytes, once its subscription is acknowledged.
    async fn acknowledged(source: Source, received: &[u8]) -> Self {
        let mut stream = Self { source, tail: Vec::new() };
        if !stream.receive(received, ACKNOWLEDGED) {
            stream.wait_for(ACKNOWLEDGED).await;
        }
        stream
    }

    /// Waits until the stream has received a text.
    async fn wait_for(&mut self, text: &[u8]) {
        loop {
            let data = match &mut self.source {
                Source::Http1(tcp) => Bytes::from(read(tcp).await),
                Source::Http2(body) => {
                    let frame = body.frame().await.expect("the stream lasts").expect("an event");
                    frame.into_data().unwrap_or_default()
                }
            };
            if self.receive(&data, text) {
                return;
            }
        }
    }

    /// Receives bytes. Returns whether they complete a text. Keeps what the next text may have begun with.
    fn receive(&mut self, data: &[u8], text: &[u8]) -> bool {
        let received = [self.tail.as_slice(), data].concat();
        let found = received.windows(text.len()).position(|window| window == text);
        let rest = received.get(found.map_or(0, |at| at + text.len())..).unwrap_or_default();
        let kept = rest.len().min(ACKNOWLEDGED.len().max(UPDATED.len()));
        self.tail = rest.get(rest.len() - kept..).unwrap_or_default().to_vec();
        found.is_some()
    }
}
