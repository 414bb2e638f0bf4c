//! A connection to a server, for what client libraries hide: the negotiated protocol, the certificate, and whether the
//! connection is still open.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::RequestBuilder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{CertificateAuthority, CertifiedKey, TIMEOUT};

/// A connection for requests: one at a time, or concurrently with HTTP/2.
#[derive(Debug)]
pub struct Connection {
    sender: Sender,
    driver: JoinHandle<()>,
    alpn_protocol: Option<String>,
    certificate: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Connects without TLS. For HTTP/2 the client has prior knowledge.
    pub async fn plain(address: &str, version: Version) -> Self {
        Self::handshake(tcp(address).await, version).await
    }

    /// Connects with HTTP/2 and a flow-control window of `window` bytes per response, which is never enlarged unless
    /// the body is read.
    pub async fn with_window(address: &str, window: u32) -> Self {
        let io = TokioIo::new(tcp(address).await);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (sender, driving) = builder.initial_stream_window_size(window).handshake(io).await.expect("HTTP/2 begins");
        let driver = tokio::spawn(async move { drop(driving.await) });
        Self { sender: Sender::Http2(sender), driver, alpn_protocol: None, certificate: None }
    }

    /// Starts a request with HTTP/2 while others are in flight.
    pub fn start_request(&self, request: RequestBuilder) -> impl Future<Output = Response<Incoming>> + Send + use<> {
        let Sender::Http2(sender) = &self.sender else { panic!("only HTTP/2 has several requests at once") };
        let mut sender = sender.clone();
        async move {
            sender.ready().await.expect("the connection is open");
            sender.send_request(to_hyper_request(request, Version::HTTP_2)).await.expect("the server answers")
        }
    }

    /// Connects over TLS to a server that must be `localhost`, trusting that authority only. The server chooses among
    /// these protocols (ALPN).
    pub async fn tls(address: &str, authority: &CertificateAuthority, protocols: &[&str]) -> Self {
        Self::tls_as(address, authority, protocols, None).await
    }

    /// Connects over TLS like [`tls`](Self::tls), with a client certificate. The server may refuse it only when it is
    /// used.
    pub async fn tls_as(
        address: &str,
        authority: &CertificateAuthority,
        protocols: &[&str],
        client: Option<&CertifiedKey>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate()).expect("it is an authority's");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the usual versions are there")
            .with_root_certificates(roots);
        let mut config = match client {
            Some(client) => {
                let (chain, key) = client.to_rustls();
                config.with_client_auth_cert(chain, key).expect("key and certificate fit")
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("it is a name");
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, tcp(address).await);
        let stream = timeout(TIMEOUT, connecting).await.expect("a handshake in time").expect("TLS is agreed on");
        let (_, session) = stream.get_ref();
        let protocol = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        let certificate = session.peer_certificates().and_then(|chain| chain.first()).map(|one| one.to_vec());
        let version = if protocol.as_deref() == Some("h2") { Version::HTTP_2 } else { Version::HTTP_11 };
        Self { alpn_protocol: protocol, certificate, ..Self::handshake(stream, version).await }
    }

    async fn handshake(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, version: Version) -> Self {
        let io = TokioIo::new(stream);
        let (sender, driver) = if version == Version::HTTP_2 {
            let (sender, driving) = http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2 begins");
            (Sender::Http2(sender), tokio::spawn(async move { drop(driving.await) }))
        } else {
            let (sender, driving) = http1::handshake(io).await.expect("HTTP/1.1 begins");
            (Sender::Http1(sender), tokio::spawn(async move { drop(driving.await) }))
        };
        Self { sender, driver, alpn_protocol: None, certificate: None }
    }

    /// The protocol that ALPN selected.
    pub fn alpn_protocol(&self) -> Option<&str> {
        self.alpn_protocol.as_deref()
    }

    /// The server's certificate, as DER.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.certificate.as_deref()
    }

    /// Sends a request. Returns whether there is a response: a server that refuses the client certificate closes the
    /// connection.
    pub async fn is_answered(&mut self, request: RequestBuilder) -> bool {
        let Sender::Http1(sender) = &mut self.sender else { panic!("only HTTP/1.1 is expected here") };
        if sender.ready().await.is_err() {
            return false;
        }
        let answer = timeout(TIMEOUT, sender.send_request(to_hyper_request(request, Version::HTTP_11))).await;
        answer.expect("an answer or an end in time").is_ok()
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, request: RequestBuilder) -> Response<Bytes> {
        let (parts, body) = self.send_streaming(request).await.into_parts();
        let body = timeout(TIMEOUT, body.collect()).await.expect("a body in time").expect("a whole body").to_bytes();
        Response::from_parts(parts, body)
    }

    /// Sends a request whose response body is read as a stream.
    pub async fn send_streaming(&mut self, request: RequestBuilder) -> Response<Incoming> {
        let answer = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.expect("the connection is open");
                timeout(TIMEOUT, sender.send_request(to_hyper_request(request, Version::HTTP_11))).await
            }
            Sender::Http2(sender) => {
                sender.ready().await.expect("the connection is open");
                timeout(TIMEOUT, sender.send_request(to_hyper_request(request, Version::HTTP_2))).await
            }
        };
        answer.expect("an answer in time").expect("the server answers")
    }

    /// Waits until the connection is closed, by either side.
    pub async fn wait_closed(self) {
        timeout(TIMEOUT, self.driver).await.expect("it is closed in time").expect("it ends in order");
    }
}

async fn tcp(address: &str) -> TcpStream {
    let address: SocketAddr = address.parse().expect("it is an address");
    timeout(TIMEOUT, TcpStream::connect(address)).await.expect("a connection in time").expect("somebody listens")
}

/// Converts a request to the form of that HTTP version.
fn to_hyper_request(request: RequestBuilder, version: Version) -> Request<Full<Bytes>> {
    let request = request.build().expect("it is a request");
    let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default().to_vec();
    let url = request.url();
    let uri = if version == Version::HTTP_2 { url.as_str() } else { url.path() };
    let mut spoken = Request::builder().method(request.method()).uri(uri);
    for (name, value) in request.headers() {
        spoken = spoken.header(name, value);
    }
    if version == Version::HTTP_11 && !request.headers().contains_key("host") {
        spoken = spoken.header("host", url.authority());
    }
    spoken.body(Full::new(body.into())).expect("it is a request")
}
