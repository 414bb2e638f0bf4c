//! Heads of requests whose bodies never come whole: what nobody looks at is not kept.

use std::convert::Infallible;

use futures::stream::{self, Pending};
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_host_tests::{ConfigFile, Http, PATIENCE, Plugin, Revision};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The connections that are opened.
const CONNECTIONS: usize = 60;
/// The requests on each, of as many as a connection may have at once.
const REQUESTS: usize = 31;
/// The fields of a head that nobody looks at, and how long they are: 28 KiB together.
const FIELDS: usize = 80;
const LENGTH: usize = 320;
/// What may differ from one server to the next: buffers of connections, memory that the allocator has not given back.
const BESIDE: u64 = 8 << 20;

type Never = StreamBody<Pending<Result<Frame<Bytes>, Infallible>>>;

async fn connection(server: &Http) -> SendRequest<Never> {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let (sender, driving) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driving);
    sender
}

/// A request with so many fields of which the head comes and the body does not. No two have the same values.
fn endless(server: &Http, number: usize, fields: usize) -> Request<Never> {
    let mut request =
        Request::post(format!("http://{}/mcp", server.address())).header("content-type", "application/json");
    for field in 0..fields {
        request = request.header(format!("x-{field}"), format!("{number:0>LENGTH$}"));
    }
    request.body(StreamBody::new(stream::pending())).unwrap()
}

/// The memory that requests with so many fields take of a server while their bodies do not come.
async fn taken(fields: usize) -> u64 {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).open().write();
    let server = Http::start(&config).await;
    let mut wire = server.wire(Revision::V_2026_07_28).await;
    wire.request("resources/list", json!({})).await.result();
    let before = server.memory();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut sender = connection(&server).await;
        for _ in 0..REQUESTS {
            timeout(PATIENCE, sender.ready()).await.unwrap().unwrap();
            open.push(tokio::spawn(sender.send_request(endless(&server, open.len(), fields))));
        }
        let health = Request::get(format!("http://{}/healthz", server.address()));
        timeout(PATIENCE, sender.ready()).await.unwrap().unwrap();
        // Its body does not come either, but nobody reads it. When it is answered, all before it have been taken.
        let answering = sender.send_request(health.body(StreamBody::new(stream::pending())).unwrap());
        assert_eq!(timeout(PATIENCE, answering).await.unwrap().unwrap().status(), 200);
    }
    let taken = server.memory().saturating_sub(before);
    wire.request("resources/list", json!({})).await.result();
    open.iter().for_each(tokio::task::JoinHandle::abort);
    drop(open);
    server.end().await;
    taken
}

#[tokio::test]
async fn heads_whose_bodies_never_come_are_not_kept() {
    let heads = u64::try_from(CONNECTIONS * REQUESTS * FIELDS * LENGTH).unwrap();
    let (without, with) = (taken(0).await, taken(FIELDS).await);
    assert!(with < without + BESIDE + heads / 10, "{with} bytes for {heads} bytes of heads, {without} without them");
}
