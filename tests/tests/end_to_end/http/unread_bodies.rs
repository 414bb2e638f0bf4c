//! Requests that are rejected before their body is read: the client gets the answer, and the connection stays usable.

use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use http_body_util::{BodyExt, StreamBody};
use hyper::Request;
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_host_tests::{ConfigFile, HttpServer, Plugin, TIMEOUT, WrittenConfig};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

/// The maximum size of a body here, and the size of a larger body.
const MAX_BODY: &str = "1KiB";
const LARGE_BODY: usize = 8 << 10;

async fn start() -> (WrittenConfig, HttpServer) {
    let config = ConfigFile::new().plugin(Plugin::sample("a")).allow_all().http_limit("body", MAX_BODY).write();
    let server = HttpServer::start(&config).await;
    (config, server)
}

/// Rejected requests: method, path, host, content type, size of the body, and expected status.
fn rejected(server: &HttpServer) -> Vec<(&'static str, &'static str, String, &'static str, usize, u16)> {
    let (own, json) = (server.address().to_owned(), "application/json");
    vec![
        ("POST", "/mcp", "other.example".to_owned(), json, 60, 403),
        ("POST", "/nothing", own.clone(), json, 60, 404),
        ("PUT", "/mcp", own.clone(), json, 60, 405),
        ("POST", "/mcp", own.clone(), json, LARGE_BODY, 413),
        ("POST", "/mcp", own, "text/plain", 60, 415),
    ]
}

#[tokio::test]
async fn an_answer_over_http2_waits_for_the_body_and_the_connection_goes_on() {
    let (_config, server) = start().await;
    let io = TokioIo::new(TcpStream::connect(server.address()).await.unwrap());
    let (mut sender, driving) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(driving);
    for (method, path, host, content_type, size, status) in rejected(&server) {
        let (body, frames) = mpsc::unbounded::<Result<Frame<Bytes>, Infallible>>();
        let request = Request::builder().method(method).uri(format!("http://{host}{path}"));
        let request = request.header("content-type", content_type).header("accept", "*/*");
        sender.ready().await.unwrap();
        let mut answering = Box::pin(sender.send_request(request.body(StreamBody::new(frames.boxed())).unwrap()));
        assert!(timeout(Duration::from_millis(100), &mut answering).await.is_err(), "{status} is early");
        body.unbounded_send(Ok(Frame::data(vec![b' '; size].into()))).unwrap();
        drop(body);
        let answer = timeout(TIMEOUT, answering).await.expect("an answer in time").expect("an answer");
        assert_eq!(answer.status(), status);
        timeout(TIMEOUT, answer.into_body().collect()).await.expect("a body in time").expect("a whole body");
    }
    server.end().await;
}

#[tokio::test]
async fn curl_gets_every_answer_over_http2() {
    let (_config, server) = start().await;
    for (method, path, host, content_type, size, status) in rejected(&server) {
        for _ in 0..20 {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--http2-prior-knowledge", "--noproxy", "*", "--output", "/dev/null"]);
            curl.args(["--write-out", "%{http_code}", "--request", method, "--data", &" ".repeat(size)]);
            curl.args(["--header", &format!("Content-Type: {content_type}"), "--header", &format!("Host: {host}")]);
            let Ok(output) = curl.arg(server.url_for(path)).output().await else {
                eprintln!("not tested: there is no `curl` here");
                server.end().await;
                return;
            };
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!((output.status.code(), &*text), (Some(0), &*status.to_string()), "{method} {path} {host}");
        }
    }
    server.end().await;
}
