//! A server that speaks streamable HTTP on loopback.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use rmcp::transport::StreamableHttpClientTransport;
use rustix::net::getpeername;
use rustix::net::sockopt::tcp_nodelay;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

use crate::log::Log;
use crate::process::{Exit, Process};
use crate::terminal::open_terminal;
use crate::wire::{self, RpcResponse};
use crate::{Client, Revision, TIMEOUT, WrittenConfig, host_command};

/// An ephemeral port on loopback.
const LOOPBACK: &str = "127.0.0.1:0";

/// A server on an ephemeral port.
#[derive(Debug)]
pub struct HttpServer {
    process: Process,
    stdout: Log,
    url: String,
    /// Our end of the terminal that is its standard input, which hangs up when this is closed.
    _terminal: Option<OwnedFd>,
}

impl HttpServer {
    /// Starts a server, and waits until it listens and every plugin is loaded or has failed to load.
    pub async fn start(config: &WrittenConfig) -> Self {
        let server = Self::start_before_plugins_load(config).await;
        server.process.wait_plugins_loaded().await;
        server
    }

    /// Starts a server at that address, and waits until it listens and every plugin is loaded or has failed to load.
    pub async fn start_at(config: &WrittenConfig, address: &str) -> Self {
        let mut server = Self::start_process(&config.path(), address, &[]).await;
        server.process.keep(config);
        server.process.wait_plugins_loaded().await;
        server
    }

    /// Starts a server with further arguments, and waits until it listens and every plugin is loaded or has failed to
    /// load.
    pub async fn start_with(config: &WrittenConfig, arguments: &[&str]) -> Self {
        let mut server = Self::start_process(&config.path(), LOOPBACK, arguments).await;
        server.process.keep(config);
        server.process.wait_plugins_loaded().await;
        server
    }

    /// Starts a server, and waits until it listens, but not for its plugins.
    pub async fn start_before_plugins_load(config: &WrittenConfig) -> Self {
        let mut server = Self::start_process(&config.path(), LOOPBACK, &[]).await;
        server.process.keep(config);
        server
    }

    /// Starts a server with a config that is not of a test, and waits until it listens and every plugin is loaded or
    /// has failed to load.
    pub async fn start_file(config: &Path) -> Self {
        let server = Self::start_process(config, LOOPBACK, &[]).await;
        server.process.wait_plugins_loaded().await;
        server
    }

    /// Starts a server with further environment variables, as a service manager does, and waits until it listens.
    pub async fn start_service(config: &WrittenConfig, variables: &[(&str, String)]) -> Self {
        let mut command = host_command();
        command.args(["serve", "--http", LOOPBACK, "--config"]).arg(config.path());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut server = Self::start_command(command).await;
        server.process.keep(config);
        server
    }

    async fn start_process(config: &Path, address: &str, arguments: &[&str]) -> Self {
        let mut command = host_command();
        command.args(["serve", "--http", address]).args(arguments).arg("--config").arg(config);
        Self::start_command(command).await
    }

    /// Starts a server by a command that makes it listen over HTTP, and waits until it does.
    pub async fn start_command(command: Command) -> Self {
        let (process, _, stdout) = Process::start(command);
        Self::of(process, stdout, None).await
    }

    /// The same with a terminal as standard input.
    pub async fn start_on_terminal(command: Command) -> Self {
        let (ours, theirs) = open_terminal(100);
        let (process, stdout) = Process::start_on_terminal(command, theirs);
        Self::of(process, stdout, Some(ours)).await
    }

    async fn of(process: Process, stdout: ChildStdout, terminal: Option<OwnedFd>) -> Self {
        let stdout = Log::new(stdout);
        let line = process.stderr().wait_for_line("listening on http").await;
        let url = line.split_whitespace().find(|word| word.contains("://")).expect("the line has the URL");
        Self { process, stdout, url: url.trim_end_matches(['.', ',']).to_owned(), _terminal: terminal }
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of another path.
    pub fn url_for(&self, path: &str) -> String {
        format!("{}{path}", self.url.trim_end_matches("/mcp"))
    }

    /// The address and port that it listens on.
    pub fn address(&self) -> &str {
        self.url.split("://").last().expect("it has a last part").trim_end_matches("/mcp")
    }

    /// Connects an official client in that revision.
    pub async fn client(&self, revision: Revision) -> Client {
        Client::connect(StreamableHttpClientTransport::from_uri(self.url.as_str()), revision).await
    }

    /// Returns a client for hand-written requests in that revision, without the handshake.
    pub fn uninitialized(&self, revision: Revision) -> RawHttp {
        RawHttp::uninitialized(&self.url, revision)
    }

    /// Returns a client for hand-written requests in that revision, after the handshake.
    pub async fn raw_client(&self, revision: Revision) -> RawHttp {
        RawHttp::start(&self.url, revision).await
    }

    /// Waits for the first line of the log that contains that text.
    pub async fn log_line(&self, wanted: &str) -> String {
        self.process.stderr().wait_for_line(wanted).await
    }

    /// The peak resident memory so far, in bytes.
    pub fn peak_rss(&self) -> u64 {
        self.process.peak_rss()
    }

    /// The resident memory, in bytes.
    pub fn rss(&self) -> u64 {
        self.process.rss()
    }

    /// Waits until `number` lines of the log contain that text.
    pub async fn log_lines(&self, wanted: &str, number: usize) {
        self.process.stderr().wait_for_lines(wanted, number).await;
    }

    /// Whether its connection to the client at that address has `TCP_NODELAY` set.
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

    /// Stops it with SIGTERM, as service managers do, and asserts a clean exit.
    pub async fn end(self) -> Exit {
        self.signal(Signal::TERM);
        self.wait_clean_exit().await
    }

    /// Waits for its end after it was killed.
    pub async fn wait_killed(self) {
        self.process.wait_exit().await;
    }

    /// Waits for a clean exit. Everything that it writes is in its log: standard output must be empty.
    pub async fn wait_clean_exit(self) -> Exit {
        let ended = self.process.wait_exit().await.assert_clean_exit();
        assert_eq!(self.stdout.read_to_end().await, "", "standard output is for protocol only");
        ended
    }
}

/// A client for hand-written HTTP requests.
#[derive(Debug)]
pub struct RawHttp {
    client: reqwest::Client,
    url: String,
    revision: Revision,
    session: Option<String>,
    last_id: u64,
}

impl RawHttp {
    /// Creates a client of the server at that URL, in that revision, without the handshake.
    fn uninitialized(url: &str, revision: Revision) -> Self {
        Self { client: unpooled_client(), url: url.to_owned(), revision, session: None, last_id: 0 }
    }

    /// The same, from another loopback address.
    #[must_use]
    pub fn from_address(mut self, address: IpAddr) -> Self {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().local_address(address).build();
        self.client = client.expect("a client");
        self
    }

    /// Creates a client of the server at that URL, after the handshake if the revision has one.
    pub async fn start(url: &str, revision: Revision) -> Self {
        Self::uninitialized(url, revision).handshake().await
    }

    /// The same, with a token that every request carries.
    pub async fn start_with_token(url: &str, revision: Revision, token: &str) -> Self {
        let mut wire = Self::uninitialized(url, revision);
        let token = format!("Bearer {token}").parse().expect("a header value");
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy();
        wire.client = client.default_headers([(AUTHORIZATION, token)].into_iter().collect()).build().expect("a client");
        wire.handshake().await
    }

    /// The same session at another URL of the server.
    #[must_use]
    pub fn at(&self, url: &str) -> Self {
        let (client, session) = (self.client.clone(), self.session.clone());
        Self { client, url: url.to_owned(), revision: self.revision.clone(), session, last_id: self.last_id + 1000 }
    }

    /// The session of another client, whose id this client has learned.
    pub fn use_session(&mut self, id: &str) {
        self.session = Some(id.to_owned());
    }

    async fn handshake(mut self) -> Self {
        if self.revision.has_initialize() {
            let hello = wire::request(&self.revision, 0, "initialize", wire::initialize_params(&self.revision));
            let response = send(self.post(&hello)).await;
            let session = response.headers().get("mcp-session-id").expect("a session has an id");
            self.session = Some(session.to_str().expect("it is ASCII").to_owned());
            let answer = parse_response(response).await;
            assert_eq!(answer.result()["protocolVersion"], self.revision.as_str());
            assert_eq!(send(self.post(&wire::initialized_notification())).await.status(), 202);
        }
        self
    }

    /// Opens a session; none if the server does not answer correctly.
    pub async fn try_start(url: &str, revision: Revision) -> Option<Self> {
        let mut wire = Self::uninitialized(url, revision);
        let hello = wire::request(&wire.revision, 0, "initialize", wire::initialize_params(&wire.revision));
        let response = wire.post(&hello).send().await.ok()?;
        wire.session = Some(response.headers().get("mcp-session-id")?.to_str().ok()?.to_owned());
        response.bytes().await.ok()?;
        let initialized = wire.post(&wire::initialized_notification()).send().await.ok()?;
        (initialized.status() == 202).then_some(wire)
    }

    /// The id of its session.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Ends its session with DELETE.
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

    /// Sends a request and reads its response.
    pub async fn request(&mut self, method: &str, params: Value) -> RpcResponse {
        let request = self.request_builder(method, params);
        parse_response(send(request).await).await
    }

    /// Sends a request and reads its response; none if the server does not answer it.
    pub async fn try_request(&mut self, method: &str, params: Value) -> Option<RpcResponse> {
        let response = self.request_builder(method, params).send().await.ok()?;
        let status = Some(response.status().as_u16());
        Some(parse_text(status, &response.text().await.ok()?))
    }

    /// Builds a valid request, which may still be changed.
    pub fn request_builder(&mut self, method: &str, params: Value) -> RequestBuilder {
        self.last_id += 1;
        let message = wire::request(&self.revision, self.last_id, method, params);
        self.post(&message)
    }

    /// Opens the stream for the session's notifications (GET).
    pub async fn event_stream(&self) -> Response {
        self.resumed_event_stream(None).await
    }

    /// Opens the stream for the session's notifications (GET), behind the event with that id.
    pub async fn resumed_event_stream(&self, last_event_id: Option<&str>) -> Response {
        let response = send(self.event_stream_request(last_event_id)).await;
        assert_eq!(response.status(), 200);
        response
    }

    /// The same; none if the server does not answer, or if the session does not exist.
    pub async fn try_event_stream(&self, last_event_id: Option<&str>) -> Option<Response> {
        let response = self.event_stream_request(last_event_id).send().await.ok()?;
        (response.status() == 200).then_some(response)
    }

    fn event_stream_request(&self, last_event_id: Option<&str>) -> RequestBuilder {
        let session = self.session.as_deref().expect("only sessions have one");
        let request = self
            .client
            .get(&self.url)
            .header(ACCEPT, "text/event-stream")
            .header("MCP-Protocol-Version", self.revision.as_str())
            .header("Mcp-Session-Id", session);
        last_event_id.into_iter().fold(request, |request, id| request.header("Last-Event-ID", id))
    }

    /// Builds a request for any message, with the headers that belong to it.
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

/// Returns the response message: the plain JSON body, or the last event of the stream.
async fn parse_response(response: Response) -> RpcResponse {
    let status = Some(response.status().as_u16());
    parse_text(status, &timeout(TIMEOUT, response.text()).await.expect("a body in time").expect("a body"))
}

fn parse_text(status: Option<u16>, text: &str) -> RpcResponse {
    let mut events = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let json = events.rfind(|data| !data.is_empty()).unwrap_or(text);
    RpcResponse { status, message: serde_json::from_str(json).unwrap_or_else(|_| json!({ "body": text })) }
}

/// A client without connection pool: a server that shuts down would wait for pooled connections.
fn unpooled_client() -> reqwest::Client {
    reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().expect("a client")
}
