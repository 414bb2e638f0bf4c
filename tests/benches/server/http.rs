//! A cheap client over HTTP/1.1: one persistent connection, no parsing of responses.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rmcp::model::ProtocolVersion;
use tokio::net::TcpStream;

use crate::bench_request::{self, BenchRequest};

/// The number of bytes of a response that are kept, to show them if it is an error.
const MAX_EXCERPT: usize = 1024;

/// A connection to a server, with a session where the revision has them.
pub(crate) struct HttpClient {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    revision: ProtocolVersion,
    session: Option<String>,
    /// The value of `Authorization`.
    authorization: Option<String>,
    last_id: u64,
}

impl HttpClient {
    /// Connects, and opens a session if the revision has one.
    pub(crate) async fn connect(address: SocketAddr, revision: ProtocolVersion) -> Self {
        Self::connect_with(address, revision, None).await
    }

    /// Connects with that bearer token.
    pub(crate) async fn connect_with(address: SocketAddr, revision: ProtocolVersion, token: Option<&str>) -> Self {
        let authorization = token.map(|token| format!("Bearer {token}"));
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("TCP_NODELAY can be set");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        let mut client = Self { sender, address, revision, session: None, authorization, last_id: 0 };
        if client.revision.has_initialize() {
            let response = client.post(bench_request::initialize(&client.revision), None).await;
            let session = response.headers().get("mcp-session-id").expect("a session has an id");
            client.session = Some(session.to_str().expect("it is ASCII").to_owned());
            client.drain(response).await;
            let response = client.post(bench_request::initialized(), None).await;
            client.drain(response).await;
        }
        client
    }

    /// Sends a request and reads the response to its end.
    pub(crate) async fn send(&mut self, question: &BenchRequest) {
        self.last_id += 1;
        let response = self.post(question.message(self.last_id, &self.revision), Some(question)).await;
        let (size, beginning) = self.drain(response).await;
        question.check(size, &beginning);
    }

    /// Sends a request and returns the response as text.
    pub(crate) async fn send_for_text(&mut self, question: &BenchRequest) -> String {
        self.last_id += 1;
        let response = self.post(question.message(self.last_id, &self.revision), Some(question)).await;
        let body = response.into_body().collect().await.expect("a whole body").to_bytes();
        String::from_utf8(body.into()).expect("JSON is UTF-8")
    }

    /// Sends a request and reads any response to its end.
    pub(crate) async fn send_unchecked(&mut self, question: &BenchRequest) {
        self.last_id += 1;
        let response = self.post(question.message(self.last_id, &self.revision), Some(question)).await;
        response.into_body().collect().await.expect("a whole body");
    }

    async fn post(&mut self, message: String, question: Option<&BenchRequest>) -> Response<Incoming> {
        let mut request = Request::post("/mcp")
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", self.revision.as_str());
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(question) = question.filter(|_| !self.revision.has_initialize()) {
            request = request.header("mcp-method", question.method);
            if let Some(uri) = question.uri() {
                request = request.header("mcp-name", uri);
            }
        }
        let request = request.body(Full::new(message.into())).expect("a request");
        self.sender.ready().await.expect("the connection is kept");
        self.sender.send_request(request).await.expect("an answer")
    }

    /// Reads a body, and returns its size and its beginning.
    async fn drain(&self, response: Response<Incoming>) -> (usize, Vec<u8>) {
        let status = response.status();
        let (mut size, mut beginning) = (0, Vec::new());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.expect("a whole body");
            let Some(data) = frame.data_ref() else { continue };
            size += data.len();
            beginning.extend(data.iter().take(MAX_EXCERPT.saturating_sub(beginning.len())));
        }
        assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&beginning));
        (size, beginning)
    }
}
