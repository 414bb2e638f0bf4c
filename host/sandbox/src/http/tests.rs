//! Exchanges on a fake network: names resolve to public addresses, and connections to these go to a
//! server on loopback.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use mcp_host_config::grants::{CaBundle, HttpGrant};
use mcp_host_model::net::HostName;
use mcp_host_model::principal::Principal;
use mcp_host_model::requester::Requester;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::cpu::HostTimes;

const PUBLIC: &str = "93.184.215.14";

/// A network with one server.
#[derive(Default)]
struct FakeNetwork {
    /// The answers for a name, in order; the last one is repeated.
    answers: Mutex<Vec<Vec<IpAddr>>>,
    /// The server's real address. Without it, every connection is refused.
    server: Option<SocketAddr>,
    /// Addresses that do not respond.
    unreachable: Vec<IpAddr>,
    resolved: Mutex<Vec<String>>,
    connected: Mutex<Vec<SocketAddr>>,
}

impl FakeNetwork {
    fn new(answers: &[&[&str]]) -> Self {
        let addresses = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Self { answers: Mutex::new(answers.iter().map(addresses).collect()), ..Self::default() }
    }

    fn with_server(self, server: SocketAddr) -> Self {
        Self { server: Some(server), ..self }
    }

    fn resolved(&self) -> Vec<String> {
        self.resolved.lock().unwrap().clone()
    }

    fn connected(&self) -> Vec<String> {
        self.connected.lock().unwrap().iter().map(ToString::to_string).collect()
    }
}

impl super::Network for FakeNetwork {
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.resolved.lock().unwrap().push(name.to_string());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(async move { Ok(answer) })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        self.connected.lock().unwrap().push(address);
        match self.server {
            Some(server) if !self.unreachable.contains(&address.ip()) => Box::pin(TcpStream::connect(server)),
            _ => Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) }),
        }
    }
}

/// Starts a server that answers each connection with one line.
async fn start_server(tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            match &tls {
                None => respond(stream).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        respond(stream).await;
                    }
                }
            }
        }
    });
    address
}

/// Receives a request without a body.
async fn receive_request(stream: &mut (impl AsyncRead + Unpin)) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
}

async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    receive_request(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.unwrap();
    stream.shutdown().await.unwrap();
}

fn http(network: Arc<dyn super::Network>, grants: impl IntoIterator<Item = HttpGrant>) -> Arc<OutboundHttp> {
    let mut granted = HttpGrants::default();
    for grant in grants {
        granted.add(grant).unwrap();
    }
    let log = GuestLog::new("test".into(), 1024);
    Arc::new(OutboundHttp::with_network(network, &granted, &HttpLimits::default(), Arc::default(), log))
}

fn grant(origin: &str) -> HttpGrant {
    HttpGrant::new(origin.parse().unwrap())
}

fn request(url: &str) -> hyper::Request<WasiBody> {
    let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    hyper::Request::builder().uri(url).body(body).unwrap()
}

/// Returns the body of the response.
async fn get(http: &Arc<OutboundHttp>, url: &str) -> Result<String, Error> {
    let (response, driver) = http.clone().exchange(request(url), RequestOptions::default(), None).await?;
    let driver = tokio::spawn(Box::into_pin(driver));
    let body = response.into_body().collect().await?.to_bytes();
    driver.await.unwrap()?;
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_name_is_resolved_once_and_what_was_checked_is_connected_to() {
    let answers: [&[&str]; 2] = [&["10.0.0.1", PUBLIC, "127.0.0.1"], &["127.0.0.1"]];
    let network = Arc::new(FakeNetwork::new(&answers).with_server(start_server(None).await));
    let http = http(network.clone(), [grant("http://rebind.example.com:81")]);
    assert_eq!(get(&http, "http://rebind.example.com:81/").await.unwrap(), "hello");
    assert_eq!(network.resolved(), ["rebind.example.com"]);
    assert_eq!(network.connected(), [format!("{PUBLIC}:81")]);
    // The next exchange resolves again, and the new address is rejected.
    let error = get(&http, "http://rebind.example.com:81/").await.unwrap_err();
    assert!(matches!(error, Error::DestinationIpProhibited), "{error}");
    assert_eq!((network.resolved().len(), network.connected().len()), (2, 1));
}

#[tokio::test]
async fn exchanges_are_counted_once_they_have_ended() {
    let network = Arc::new(FakeNetwork::new(&[&[PUBLIC], &["10.0.0.1"]]).with_server(start_server(None).await));
    let http = http(network, [grant("http://docs.rs")]);
    let counted = || http.outcomes().by_outcome().collect::<Vec<_>>();
    let (response, driver) =
        http.clone().exchange(request("http://docs.rs/"), RequestOptions::default(), None).await.unwrap();
    assert_eq!(counted(), [], "the body is left to be read");
    drop((response, driver));
    assert_eq!(counted(), [("ok", 1)]);
    for url in ["http://docs.rs/", "http://docs.rs:81/", "http://me@docs.rs/"] {
        assert!(get(&http, url).await.is_err(), "{url}");
    }
    // The exchange is dropped while it waits.
    let exchange = http.clone().exchange(request("http://docs.rs/"), RequestOptions::default(), None);
    assert!(exchange.now_or_never().is_none());
    let refused = [("refused-origin", 1), ("refused-request", 1), ("refused-address", 1)];
    assert_eq!(counted(), [&[("ok", 1)][..], &refused, &[("cancelled", 1)]].concat());
}

#[tokio::test]
async fn what_is_below_a_wildcard_is_reached() {
    let network = Arc::new(FakeNetwork::new(&[&[PUBLIC]]).with_server(start_server(None).await));
    let http = http(network.clone(), [grant("http://*.example.com")]);
    assert_eq!(get(&http, "http://a.b.EXAMPLE.com/").await.unwrap(), "hello");
    assert!(matches!(get(&http, "http://example.com/").await.unwrap_err(), Error::HttpRequestDenied));
    assert_eq!(network.resolved(), ["a.b.example.com"]);
}

#[tokio::test]
async fn a_name_that_leads_inside_is_connected_to_nowhere() {
    for address in ["127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "::ffff:10.0.0.1", "0.0.0.0"] {
        let network = Arc::new(FakeNetwork::new(&[&[address]]).with_server(start_server(None).await));
        let error =
            get(&http(network.clone(), [grant("http://a.example.com")]), "http://a.example.com/").await.unwrap_err();
        assert!(matches!(error, Error::DestinationIpProhibited), "{address}: {error}");
        assert!(network.connected().is_empty(), "{address}");
    }
}

#[tokio::test]
async fn an_address_that_is_granted_is_connected_to_without_being_resolved() {
    let network = Arc::new(FakeNetwork::new(&[]).with_server(start_server(None).await));
    let http = http(network.clone(), [grant("http://127.0.0.1:8080"), grant("http://[fd00::1]")]);
    assert_eq!(get(&http, "http://127.0.0.1:8080/").await.unwrap(), "hello");
    assert_eq!(get(&http, "http://[fd00::1]/").await.unwrap(), "hello");
    assert_eq!(network.resolved(), [""; 0]);
    assert_eq!(network.connected(), ["127.0.0.1:8080", "[fd00::1]:80"]);
}

#[tokio::test]
async fn what_is_not_granted_is_not_even_resolved() {
    let network = Arc::new(FakeNetwork::new(&[&[PUBLIC]]));
    let http = http(network.clone(), [grant("http://docs.rs")]);
    for url in ["http://docs.rs:81/", "https://docs.rs/", "http://rust-lang.org/", "http://93.184.215.14/"] {
        assert!(matches!(get(&http, url).await.unwrap_err(), Error::HttpRequestDenied), "{url}");
    }
    for url in ["http://me@docs.rs/", "http://127.1/", "/", "ftp://docs.rs/"] {
        assert!(matches!(get(&http, url).await.unwrap_err(), Error::HttpRequestUriInvalid), "{url}");
    }
    assert_eq!(network.resolved(), [""; 0]);
}

#[tokio::test]
async fn an_address_where_nobody_is_leaves_the_next_one_to_try() {
    let mut network = FakeNetwork::new(&[&["1.1.1.1", PUBLIC]]).with_server(start_server(None).await);
    network.unreachable = vec!["1.1.1.1".parse().unwrap()];
    let network = Arc::new(network);
    assert_eq!(get(&http(network.clone(), [grant("http://docs.rs")]), "http://docs.rs/").await.unwrap(), "hello");
    assert_eq!(network.connected(), ["1.1.1.1:80".to_owned(), format!("{PUBLIC}:80")]);
}

#[tokio::test]
async fn so_many_addresses_are_tried_and_no_more() {
    let addresses = vec![PUBLIC; 100];
    let network = Arc::new(FakeNetwork::new(&[&addresses]));
    let error = get(&http(network.clone(), [grant("http://docs.rs")]), "http://docs.rs/").await.unwrap_err();
    assert!(matches!(error, Error::ConnectionRefused), "{error}");
    assert_eq!(network.connected().len(), connect::MAX_ADDRESSES);
}

#[tokio::test]
async fn a_name_without_addresses_is_unknown() {
    let network = Arc::new(FakeNetwork::new(&[&[]]));
    let error = get(&http(network, [grant("http://docs.rs")]), "http://docs.rs/").await.unwrap_err();
    assert!(matches!(error, Error::DnsError { .. }), "{error}");
}

/// Creates a certificate authority, and a TLS acceptor with its certificate for this name.
fn issue_certificate(name: &str) -> (CaBundle, TlsAcceptor) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let roots = CaBundle::from_pem(authority.self_signed(&authority_key).unwrap().pem().as_bytes()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    (roots, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn over_tls_the_name_counts_and_not_the_address() {
    let (roots, tls) = issue_certificate("docs.rs");
    let address = start_server(Some(tls)).await;
    let network = || Arc::new(FakeNetwork::new(&[&[PUBLIC]]).with_server(address));
    let trusting = |origin: &str| {
        let mut grant = grant(origin);
        grant.ca = Some(roots.clone());
        grant
    };
    assert_eq!(get(&http(network(), [trusting("https://docs.rs")]), "https://docs.rs/").await.unwrap(), "hello");
    for (grants, url) in [
        (vec![trusting("https://rust-lang.org")], "https://rust-lang.org/"),
        (vec![trusting(&format!("https://{PUBLIC}"))], "https://93.184.215.14/"),
        // The authority of one grant does not apply to another.
        (vec![grant("https://docs.rs"), trusting("https://rust-lang.org")], "https://docs.rs/"),
    ] {
        let error = get(&http(network(), grants), url).await.unwrap_err();
        assert!(matches!(error, Error::TlsCertificateError), "{url}: {error}");
    }
}

/// A resolver whose answer the test releases.
struct SlowResolver(Mutex<Option<oneshot::Receiver<()>>>);

impl super::Network for SlowResolver {
    fn resolve(&self, _: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let released = self.0.lock().unwrap().take();
        Box::pin(async move {
            released.unwrap().await.unwrap();
            Ok(Vec::new())
        })
    }

    fn connect(&self, _: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        unreachable!("nothing was resolved")
    }
}

#[tokio::test]
async fn a_place_is_taken_until_the_resolver_has_answered() {
    let (release, released) = oneshot::channel();
    let http = http(Arc::new(SlowResolver(Mutex::new(Some(released)))), [grant("http://docs.rs")]);
    let all = http.limits.concurrency.get();
    let mut exchange = Box::pin(get(&http, "http://docs.rs/"));
    assert!((&mut exchange).now_or_never().is_none());
    drop(exchange);
    tokio::task::yield_now().await;
    let free = || std::iter::from_fn(|| http.permits.try_acquire(None)).collect::<Vec<_>>().len();
    assert_eq!(free(), all - 1);
    release.send(()).unwrap();
    while free() < all {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn informational_responses_without_end_fail_within_the_limit_on_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let network = FakeNetwork::new(&[&[PUBLIC]]).with_server(listener.local_addr().unwrap());
    let sent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100);
        let mut sent = 0;
        while stream.write_all(&hints).await.is_ok() {
            sent += hints.len();
        }
        sent
    });
    let http = http(Arc::new(network), [grant("http://example.com")]);
    let error = get(&http, "http://example.com/").await.unwrap_err();
    assert!(matches!(error, Error::HttpResponseHeaderSectionSize(_)), "{error}");
    let most = 16 << 20;
    assert!(sent.await.unwrap() < most, "what the kernel buffers is sent, too");
}

#[tokio::test]
async fn informational_responses_before_the_final_one_are_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let network = FakeNetwork::new(&[&[PUBLIC]]).with_server(listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(20)).await.unwrap();
        respond(stream).await;
    });
    let http = http(Arc::new(network), [grant("http://example.com")]);
    assert_eq!(get(&http, "http://example.com/").await.unwrap(), "hello");
}

#[tokio::test]
async fn one_client_leaves_exchanges_for_others() {
    let (_release, released) = oneshot::channel();
    let http = http(Arc::new(SlowResolver(Mutex::new(Some(released)))), [grant("http://docs.rs")]);
    let client = |name: &str| Some(Requester::Principal(Principal::new(name)));
    let begin = |name: &str| {
        let exchange = http.clone().exchange(request("http://docs.rs/"), RequestOptions::default(), client(name));
        let mut exchange = Box::pin(exchange);
        (&mut exchange).now_or_never().is_none().then_some(exchange)
    };
    // The resolver answers one exchange. The others hold separate permits.
    let _first = begin("ada").unwrap();
    let _others = [(); 3].map(|()| http.permits.try_acquire(client("ada")).unwrap());
    assert!(begin("ada").is_none(), "one client gets 4 of 8");
    assert!(http.permits.try_acquire(client("bob")).is_some());
}

#[tokio::test]
async fn the_processor_time_of_a_connection_is_charged_to_its_call_and_ends_the_exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let network = FakeNetwork::new(&[&[PUBLIC]]).with_server(listener.local_addr().unwrap());
    // A body in chunks of one byte, which takes much more time than the same bytes in one chunk.
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        receive_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
        let chunks = b"1\r\nx\r\n".repeat(1000);
        while stream.write_all(&chunks).await.is_ok() {}
    });
    let http = http(Arc::new(network), [grant("http://example.com")]);
    let (times, limit) = (HostTimes::default(), Duration::from_millis(20));
    let (request, budget) = (request("http://example.com/"), HostCpuBudget::new(times.clone(), limit));
    let exchange = http.counted_exchange(request, RequestOptions::default(), None, budget);
    let (response, driver) = Box::into_pin(exchange).await.unwrap();
    let driver = tokio::spawn(Box::into_pin(driver));
    response.into_body().collect().await.unwrap_err();
    let error = driver.await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::InternalError(Some(reason)) if reason.contains("`limits.cpu`")), "{error}");
    assert!(times.cpu() >= limit, "{times:?}");
}
