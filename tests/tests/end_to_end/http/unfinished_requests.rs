//! Requests whose bodies never arrive completely: unused header fields are not retained.

use std::convert::Infallible;

use futures::stream::{self, Pending};
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_host_tests::{ConfigFile, HttpServer, Plugin, Revision, TIMEOUT};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The number of connections.
const CONNECTIONS: usize = 60;
/// The number of requests per connection: the maximum of concurrent streams.
const REQUESTS_PER_CONNECTION: usize = 31;
/// The number and size of unused header fields: 28 KiB in total.
const FIELDS_PER_HEAD: usize = 80;
const FIELD_LENGTH: usize = 320;
/// The tolerance between two servers: connection buffers, and memory that the allocator has not returned.
const OVERHEAD: u64 = 12 << 20;

type PendingBody = StreamBody<Pending<Result<Frame<Bytes>, Infallible>>>;

async fn connection(server: &HttpServer) -> SendRequest<PendingBody> {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let (sender, driving) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driving);
    sender
}

/// Sends the head of a request with `fields` header fields, without its body. All values are distinct.
fn unfinished_request(server: &HttpServer, number: usize, fields: usize) -> Request<PendingBody> {
    let mut request =
        Request::post(format!("http://{}/mcp", server.address())).header("content-type", "application/json");
    for field in 0..fields {
        request = request.header(format!("x-{field}"), format!("{number:0>FIELD_LENGTH$}"));
    }
    request.body(StreamBody::new(stream::pending())).unwrap()
}

/// Returns the memory that a server uses for requests with `fields` header fields while their bodies are outstanding.
async fn memory_taken(fields: usize) -> u64 {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    wire.request("resources/list", json!({})).await.result();
    let before = server.rss();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut sender = connection(&server).await;
        for _ in 0..REQUESTS_PER_CONNECTION {
            timeout(TIMEOUT, sender.ready()).await.unwrap().unwrap();
            open.push(tokio::spawn(sender.send_request(unfinished_request(&server, open.len(), fields))));
        }
        let health = Request::get(format!("http://{}/healthz", server.address()));
        timeout(TIMEOUT, sender.ready()).await.unwrap().unwrap();
        // The body of this request does not arrive either, but is not needed. Once it is answered, all earlier requests
        // have been accepted.
        let answering = sender.send_request(health.body(StreamBody::new(stream::pending())).unwrap());
        assert_eq!(timeout(TIMEOUT, answering).await.unwrap().unwrap().status(), 200);
    }
    let taken = server.rss().saturating_sub(before);
    wire.request("resources/list", json!({})).await.result();
    open.iter().for_each(tokio::task::JoinHandle::abort);
    drop(open);
    server.end().await;
    taken
}

#[tokio::test]
async fn heads_whose_bodies_never_come_are_not_kept() {
    let heads = u64::try_from(CONNECTIONS * REQUESTS_PER_CONNECTION * FIELDS_PER_HEAD * FIELD_LENGTH).unwrap();
    let (without, with) = (memory_taken(0).await, memory_taken(FIELDS_PER_HEAD).await);
    assert!(with < without + OVERHEAD + heads / 10, "{with} bytes for {heads} bytes of heads, {without} without them");
}
