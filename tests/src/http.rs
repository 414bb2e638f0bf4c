//! A server that speaks streamable HTTP on loopback.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use rmcp::transport::StreamableHttpClientTransport;
use rustix::net::getpeername;
use rustix::net::sockopt::tcp_nodelay;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::log::Log;
use crate::process::{Exit, Process};
use crate::wire::{self, RpcResponse};
use crate::{Client, Revision, TIMEOUT, WrittenConfig, host_command};

/// A server on a port of its own choice.
#[derive(Debug)]
pub struct HttpServer {
    process: Process,
    stdout: Log,
    url: String,
}

impl HttpServer {
    /// Starts a server, and waits until it listens and all plugins are loaded, or could not be.
    pub async fn start(config: &WrittenConfig) -> Self {
        let server = Self::start_before_plugins_load(config).await;
        server.process.wait_plugins_loaded().await;
        server
    }

    /// Starts a server, and waits until it listens, whether its plugins are loaded or not.
    pub async fn start_before_plugins_load(config: &WrittenConfig) -> Self {
        let mut command = host_command();
        command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(config.path());
        let (process, _, stdout) = Process::start(command);
        let stdout = Log::new(stdout);
        let line = process.stderr().wait_for_line("listening on http").await;
        let url = line.split_whitespace().find(|word| word.contains("://")).expect("the line has the URL");
        Self { process, stdout, url: url.trim_end_matches(['.', ',']).to_owned() }
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of another path.
    pub fn url_for(&self, path: &str) -> String {
        format!("{}{path}", self.url.trim_end_matches("/mcp"))
    }

    /// Where it listens: address and port.
    pub fn address(&self) -> &str {
        self.url.split("://").last().expect("it has a last part").trim_end_matches("/mcp")
    }

    /// An official client that has met it in that revision.
    pub async fn client(&self, revision: Revision) -> Client {
        Client::connect(StreamableHttpClientTransport::from_uri(self.url.as_str()), revision).await
    }

    /// Requests written by hand, in that revision, of a client that has not said hello.
    pub fn uninitialized(&self, revision: Revision) -> RawHttp {
        RawHttp::uninitialized(&self.url, revision)
    }

    /// Requests written by hand, in that revision.
    pub async fn raw_client(&self, revision: Revision) -> RawHttp {
        RawHttp::start(&self.url, revision).await
    }

    /// The first line of its log that contains that text, as soon as there is one.
    pub async fn log_line(&self, wanted: &str) -> String {
        self.process.stderr().wait_for_line(wanted).await
    }

    /// The most memory that it has had at once so far, in bytes.
    pub fn peak_rss(&self) -> u64 {
        self.process.peak_rss()
    }

    /// How much memory it has at the moment, in bytes.
    pub fn rss(&self) -> u64 {
        self.process.rss()
    }

    /// Waits until so many lines of its log contain that text.
    pub async fn log_lines(&self, wanted: &str, number: usize) {
        self.process.stderr().wait_for_lines(wanted, number).await;
    }

    /// Whether what it writes to the client at that address is sent at once (`TCP_NODELAY`).
    pub fn has_nodelay(&self, client: SocketAddr) -> bool {
        let sockets = self.process.sockets();
        let is_to_client = |socket: &&OwnedFd| getpeername(socket).ok().flatten() == Some(client.into());
        let socket = sockets.iter().find(is_to_client).expect("it has a connection to that client");
        tcp_nodelay(socket).expect("TCP has that option")
    }

    /// Whether it has a connection to the client at that address.
    pub fn is_connected_to(&self, client: SocketAddr) -> bool {
        self.process.sockets().iter().any(|socket| getpeername(socket).ok().flatten() == Some(client.into()))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Ends it as service managers do, in order.
    pub async fn end(self) -> Exit {
        self.signal(Signal::TERM);
        self.wait_clean_exit().await
    }

    /// Waits for its end in order. All that it says, it says in its log.
    pub async fn wait_clean_exit(self) -> Exit {
        let ended = self.process.wait_exit().await.assert_clean_exit();
        assert_eq!(self.stdout.read_to_end().await, "", "standard output is for protocol only");
        ended
    }
}

/// HTTP requests written by hand.
#[derive(Debug)]
pub struct RawHttp {
    client: reqwest::Client,
    url: String,
    revision: Revision,
    session: Option<String>,
    last_id: u64,
}

impl RawHttp {
    /// To the server of that URL, in that revision, without having said hello.
    fn uninitialized(url: &str, revision: Revision) -> Self {
        Self { client: unpooled_client(), url: url.to_owned(), revision, session: None, last_id: 0 }
    }

    /// The same, from another address of this machine.
    #[must_use]
    pub fn from_address(mut self, address: IpAddr) -> Self {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().local_address(address).build();
        self.client = client.expect("a client");
        self
    }

    /// To the server of that URL, having said hello in that revision, if it begins so.
    pub async fn start(url: &str, revision: Revision) -> Self {
        let mut wire = Self::uninitialized(url, revision);
        if wire.revision.has_initialize() {
            let hello = wire::request(&wire.revision, 0, "initialize", wire::initialize_params(&wire.revision));
            let response = send(wire.post(&hello)).await;
            let session = response.headers().get("mcp-session-id").expect("a session has an id");
            wire.session = Some(session.to_str().expect("it is ASCII").to_owned());
            let answer = parse_response(response).await;
            assert_eq!(answer.result()["protocolVersion"], wire.revision.as_str());
            assert_eq!(send(wire.post(&wire::initialized_notification())).await.status(), 202);
        }
        wire
    }

    /// Ends its session, as clients do that go away in order.
    pub async fn delete_session(self) {
        let session = self.session.as_deref().expect("only sessions are ended");
        let request = self
            .client
            .delete(&self.url)
            .header("MCP-Protocol-Version", self.revision.as_str())
            .header("Mcp-Session-Id", session);
        let status = send(request).await.status();
        assert!(status.is_success(), "{status}");
    }

    /// Sends a request and reads its answer.
    pub async fn request(&mut self, method: &str, params: Value) -> RpcResponse {
        let request = self.request_builder(method, params);
        parse_response(send(request).await).await
    }

    /// A request with all that it must have, which may still be changed.
    pub fn request_builder(&mut self, method: &str, params: Value) -> RequestBuilder {
        self.last_id += 1;
        let message = wire::request(&self.revision, self.last_id, method, params);
        self.post(&message)
    }

    /// The stream on which a session is told what it did not ask for.
    pub async fn event_stream(&self) -> Response {
        let session = self.session.as_deref().expect("only sessions have one");
        let request = self
            .client
            .get(&self.url)
            .header(ACCEPT, "text/event-stream")
            .header("MCP-Protocol-Version", self.revision.as_str())
            .header("Mcp-Session-Id", session);
        let response = send(request).await;
        assert_eq!(response.status(), 200);
        response
    }

    /// Any message, with the headers that belong to it.
    pub fn post(&self, message: &Value) -> RequestBuilder {
        let mut request = self
            .client
            .post(&self.url)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(message.to_string());
        let method = message["method"].as_str().unwrap_or_default();
        if method != "initialize" {
            request = request.header("MCP-Protocol-Version", self.revision.as_str());
        }
        if let Some(session) = &self.session {
            request = request.header("Mcp-Session-Id", session);
        }
        if !self.revision.has_initialize() {
            request = request.header("Mcp-Method", method);
            let names = ["uri", "name", "taskId"].map(|member| message["params"][member].as_str());
            if let Some(name) = names.into_iter().flatten().next() {
                request = request.header("Mcp-Name", name);
            }
        }
        request
    }
}

/// Sends a request.
pub(crate) async fn send(request: RequestBuilder) -> Response {
    timeout(TIMEOUT, request.send()).await.expect("an answer in time").expect("the server answers")
}

/// The answer in a response, whether it is plain JSON or the last event of a stream.
async fn parse_response(response: Response) -> RpcResponse {
    let status = Some(response.status().as_u16());
    let text = timeout(TIMEOUT, response.text()).await.expect("a body in time").expect("a body");
    let mut events = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let json = events.rfind(|data| !data.is_empty()).unwrap_or(&text);
    RpcResponse { status, message: serde_json::from_str(json).unwrap_or_else(|_| json!({ "body": text })) }
}

/// A client that keeps no connection: a server that ends would wait for it.
fn unpooled_client() -> reqwest::Client {
    reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().expect("a client")
}
