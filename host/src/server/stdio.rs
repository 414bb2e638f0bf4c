//! MCP over standard input and output, for one client that started this process.
//!
//! Each line is one message, or in revision 2025-03-26 one batch of them. What is none is refused here (see
//! [`jsonrpc`](super::jsonrpc)). [Requests for resources](super::resource_requests) are answered here as well, each by a task of its own; the
//! rest goes to rmcp, in the order in which it came. A line that is no JSON is answered
//! too: an answer is never one of those, so that two programs cannot throw errors at each other for ever.
//!
//! At most [`MAX_IN_FLIGHT`] requests are worked on at once; the next is read when one of them has been answered and the
//! answer has been written, so a client that does not read its answers stops the reading of its requests. What waits to be written
//! is bounded in bytes as it is for one connection over HTTP ([`budget`](super::budget)).
//! A line has at most 16 MiB and goes away as soon as it has been read: what is kept of each request until it is answered is
//! what [`params`](super::params) bounds.
//!
//! It ends when standard input does, or when it is told to. Then the answers that are left are written as long as the client
//! takes them: one that has taken nothing for [`STALL_TIMEOUT`] keeps the process no longer.

mod codec;
mod in_flight;
mod input;
mod output;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetExtensions, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::Transport;
use rmcp::transport::io::{StdioReader, stdio_pipes};
use rmcp::{RoleServer, ServiceExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::codec::FramedRead;
use tokio_util::sync::CancellationToken;

use self::codec::{Line, LineDecoder};
use self::in_flight::{BatchId, ChargedReply, InFlight, Outgoing};
use self::output::Output;
use super::budget::{Account, Budget, Limits};
use super::client::ClientCell;
use super::client_id::ClientId;
use super::handler::{Handler, TransportKind};
use super::jsonrpc::{self, DeclaredRevision, Incoming, Kind, Message, Rejection};
use super::methods;
use super::params::InvalidParams;
use super::reencode;
use super::resource_requests::{self, Reply, ResourceRequest};
use super::revision::Revision;
use super::server_info::ServerInfoCache;
use super::{DRAIN_TIMEOUT, ServeError};
use crate::access::Principal;
use crate::host::Host;
use crate::log_target;

/// Requests that are worked on at once.
const MAX_IN_FLIGHT: usize = 64;

/// How long the client may take nothing of what is left for it when the server ends.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether the server is to end while the client takes nothing.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Serves one client over stdio until it closes its end, or until `shutdown` fires; requests in flight are answered first.
///
/// # Errors
///
/// The client did not begin as it should, or did not read the answers that were left.
pub async fn serve_stdio(host: Arc<Host>, shutdown: CancellationToken) -> Result<(), ServeError> {
    let draining = CancellationToken::new();
    let transport = StdioTransport::new(host.clone(), shutdown.clone(), draining.clone());
    let output = transport.output.clone();
    let unread = async {
        loop {
            output.wait_stalled(STALL_TIMEOUT).await;
            // While too much is in flight nothing is read, and the end of the input is not met.
            if draining.is_cancelled() || shutdown.is_cancelled() || input::is_closed() {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    let too_slow = async {
        draining.cancelled().await;
        sleep(DRAIN_TIMEOUT.saturating_add(STALL_TIMEOUT)).await;
    };
    tokio::select! {
        served = serve(host, transport, draining.clone()) => served,
        () = unread => Err(ServeError::OutputStalled),
        () = too_slow => Err(ServeError::OutputStalled),
    }
}

async fn serve(host: Arc<Host>, transport: StdioTransport, draining: CancellationToken) -> Result<(), ServeError> {
    let handler = Handler::new(host, Arc::new(ServerInfoCache::default()), TransportKind::Stdio, draining);
    let service = match handler.serve(transport).await {
        Ok(service) => service,
        // A client that goes away, or a signal, before anything was asked.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(error.to_string())),
    };
    match service.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::Internal(error.to_string())),
        Ok(_) => Ok(()),
    }
}

/// Standard input and output with a check of what comes in, a bound on requests in flight, and an end that waits for them.
struct StdioTransport {
    host: Arc<Host>,
    account: Arc<Account>,
    input: FramedRead<StdioReader, LineDecoder>,
    output: Output,
    shutdown: CancellationToken,
    /// Fires when nothing more is read: what is in flight is to come to its end.
    draining: CancellationToken,
    permits: Arc<Semaphore>,
    in_flight: InFlight,
    /// Messages of the last line that have not been looked at.
    queue: VecDeque<QueuedMessage>,
    lifecycle: Lifecycle,
    client: ClientCell,
}

/// A message and the batch that it came in.
struct QueuedMessage {
    message: Result<Message, Rejection>,
    batch: Option<BatchId>,
}

/// What becomes of a message that makes sense.
enum Dispatch {
    /// It is answered here.
    Direct(DirectRequest),
    /// rmcp is to see it.
    Forward(Box<ClientJsonRpcMessage>),
    /// Nothing.
    Drop,
}

/// A request for resources that is in order.
struct DirectRequest {
    id: RequestId,
    request: Result<ResourceRequest, InvalidParams>,
    revision: Revision,
}

/// How the client began with rmcp, which says how it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifecycle {
    /// It has not: rmcp takes nothing but requests.
    Uninitialized,
    /// By `initialize`, which has not been answered.
    Initializing,
    /// By `initialize`, in that revision.
    Session(Revision),
    /// By a request that says for itself what it is of.
    Stateless,
}

impl Outgoing {
    /// Writes it, and gives back what can be given back then.
    async fn write_to(self, output: &Output) -> std::io::Result<()> {
        let Self { line, permits, charges } = self;
        let written = match line {
            Some(line) => output.write(line).await,
            None => Ok(()),
        };
        drop((permits, charges));
        written
    }

    /// The same, where nobody waits for it.
    async fn write(self, output: &Output) {
        if let Err(error) = self.write_to(output).await {
            tracing::debug!(target: log_target::SERVER, %error, "a response cannot be written");
        }
    }
}

impl Lifecycle {
    fn revision(self) -> Option<Revision> {
        match self {
            Self::Uninitialized | Self::Initializing => None,
            Self::Session(revision) => Some(revision),
            Self::Stateless => Some(Revision::LATEST),
        }
    }
}

impl StdioTransport {
    fn new(host: Arc<Host>, shutdown: CancellationToken, draining: CancellationToken) -> Self {
        let (read, write) = stdio_pipes();
        let account = budget(host.clone()).account(ClientId::Local);
        Self {
            host,
            account,
            input: FramedRead::new(read, LineDecoder::default()),
            output: Output::new(write),
            shutdown,
            draining,
            permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            in_flight: InFlight::default(),
            queue: VecDeque::new(),
            lifecycle: Lifecycle::Uninitialized,
            client: ClientCell::default(),
        }
    }

    /// Takes a line apart, for its messages to be looked at one by one.
    fn parse_line(&mut self, line: Line) {
        let sent = match line {
            Line::Text(text) => jsonrpc::parse(&text, self.lifecycle.revision(), &self.host.config().server.extensions),
            Line::TooLong => Err(Rejection::invalid_request(None, "the line is too long")),
        };
        match sent {
            Ok(Incoming::Single(message)) => self.queue.push_back(QueuedMessage { message: Ok(message), batch: None }),
            Ok(Incoming::Batch(messages)) => {
                let wants_answer = |message: &&Result<Message, Rejection>| {
                    message.as_ref().map_or(true, |message| matches!(message.kind, Kind::Request { .. }))
                };
                let batch = self.in_flight.begin_batch(messages.iter().filter(wants_answer).count());
                self.queue.extend(messages.into_iter().map(|message| QueuedMessage { message, batch }));
            }
            Err(refusal) => self.queue.push_back(QueuedMessage { message: Err(refusal), batch: None }),
        }
    }

    /// Looks at a message: gives it to rmcp, or deals with it here.
    fn dispatch(&mut self, next: QueuedMessage, permit: OwnedSemaphorePermit) -> Option<ClientJsonRpcMessage> {
        if let Some(id) = next.message.as_ref().ok().and_then(Message::cancelled_request) {
            self.spawn_write(self.in_flight.cancel(&id));
        }
        match next.message.and_then(|message| self.classify(message)) {
            Ok(Dispatch::Direct(answering)) => {
                self.spawn_answer(answering, permit, next.batch);
                None
            }
            Ok(Dispatch::Forward(message)) => {
                if let JsonRpcMessage::Request(request) = &*message {
                    self.in_flight.insert(request.id.clone(), permit, next.batch);
                }
                Some(*message)
            }
            Ok(Dispatch::Drop) => None,
            Err(refusal) => {
                let answer = jsonrpc::to_json(&refusal.into_message());
                self.spawn_write(self.in_flight.reject(next.batch, answer, permit));
                None
            }
        }
    }

    /// What becomes of a message.
    fn classify(&mut self, message: Message) -> Result<Dispatch, Rejection> {
        let Kind::Request { id, method, params } = &message.kind else {
            // rmcp ends when anything but a request comes first.
            let typed = (self.lifecycle != Lifecycle::Uninitialized).then(|| to_rmcp(&message)).flatten();
            return Ok(typed.map_or(Dispatch::Drop, |message| Dispatch::Forward(Box::new(message))));
        };
        if self.in_flight.contains(id) {
            let reason = format!("the id {id} is that of a request that has not been answered");
            return Err(Rejection::invalid_request(Some(id.clone()), reason));
        }
        if let Some(revision) = self.revision(&message)
            && let Some(request) = ResourceRequest::from_message(&self.host, revision, &message)
        {
            return Ok(Dispatch::Direct(DirectRequest { id: id.clone(), request, revision }));
        }
        if message.is_stateless() {
            // rmcp answers both as long as it does not know how the client will begin.
            if ["initialize", "ping"].contains(&method.as_str()) {
                return Err(self.method_not_found(id, Revision::LATEST, method));
            }
        } else if let ("server/discover", Lifecycle::Session(revision)) = (method.as_str(), self.lifecycle) {
            return Err(self.method_not_found(id, revision, method));
        }
        if method == "initialize" {
            if self.lifecycle != Lifecycle::Uninitialized {
                return Err(Rejection::invalid_request(Some(id.clone()), jsonrpc::ALREADY_INITIALIZED));
            }
            params.as_ref().map_err(|malformed| Rejection::invalid_params(id.clone(), malformed))?;
        }
        let Some(JsonRpcMessage::Request(mut request)) = to_rmcp(&message) else {
            return Err(message.rejection());
        };
        let beside = request.request.extensions_mut();
        beside.insert(self.client.clone());
        if let Err(malformed) = params {
            beside.insert(malformed.clone());
        }
        if self.lifecycle == Lifecycle::Uninitialized {
            self.lifecycle = initial_lifecycle(&request.request, &message);
        }
        Ok(Dispatch::Forward(Box::new(JsonRpcMessage::Request(request))))
    }

    fn method_not_found(&self, id: &RequestId, revision: Revision, method: &str) -> Rejection {
        Rejection { id: Some(id.clone()), error: methods::method_not_found(&self.host, revision, method) }
    }

    /// The revision that a request is of; none if it is not in order, by the rules of rmcp.
    fn revision(&self, message: &Message) -> Option<Revision> {
        match (message.declared_revision(), self.lifecycle) {
            (DeclaredRevision::None, Lifecycle::Session(revision)) => Some(revision),
            (DeclaredRevision::Complete(said), _) => Revision::from_name(said),
            (DeclaredRevision::VersionOnly(said), Lifecycle::Session(_)) => {
                Revision::from_name(said).filter(|said| said.has_sessions())
            }
            _ => None,
        }
    }

    /// Answers a request while others are read, unless it is cancelled.
    fn spawn_answer(&self, answering: DirectRequest, permit: OwnedSemaphorePermit, batch: Option<BatchId>) {
        let (host, account, client) = (self.host.clone(), self.account.clone(), self.client.clone());
        let (in_flight, output) = (self.in_flight.clone(), self.output.clone());
        let cancelled = self.in_flight.insert(answering.id.clone(), permit, batch);
        tokio::spawn(async move {
            let DirectRequest { id, request: asked, revision } = answering;
            let answer = resource_requests::respond(&host, &Principal::LOCAL, &account, id.clone(), asked, revision);
            let Some(Reply { json, missing, charge }) = cancelled.run_until_cancelled(answer).await else { return };
            if let Some(client) = client.get() {
                client.warn_missing(&missing).await;
            }
            in_flight.complete(&id, ChargedReply { json, charge }).write(&output).await;
        });
    }

    /// Writes what is due while other requests are read; its permits bound how much of that there can be.
    fn spawn_write(&self, due: Outgoing) {
        if due.line.is_some() {
            let output = self.output.clone();
            tokio::spawn(async move { due.write(&output).await });
        }
    }

    /// Waits until everything that was taken has been answered, within bounds.
    async fn drain(&self) {
        let all = u32::try_from(MAX_IN_FLIGHT).unwrap_or(u32::MAX);
        if tokio::time::timeout(DRAIN_TIMEOUT, self.permits.acquire_many(all)).await.is_err() {
            tracing::warn!(target: log_target::SERVER, "shutdown: drain timed out with requests in flight");
        }
    }

    /// The next message for rmcp; none when nothing more is read. Cancel safe: a permit that is not kept is given back, and
    /// the input keeps a line that it has begun.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // What has been read of a batch is taken, whatever happens.
            let permit = tokio::select! {
                permit = self.permits.clone().acquire_owned() => permit.ok()?,
                () = self.shutdown.cancelled(), if self.queue.is_empty() => return None,
            };
            if let Some(next) = self.queue.pop_front() {
                match self.dispatch(next, permit) {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            let line = tokio::select! {
                line = self.input.next() => line?,
                () = self.shutdown.cancelled() => return None,
            };
            match line {
                Ok(line) => {
                    self.parse_line(line);
                    codec::shrink(self.input.read_buffer_mut());
                }
                Err(error) => {
                    tracing::error!(target: log_target::SERVER, %error, "standard input cannot be read");
                    return None;
                }
            }
        }
    }
}

/// A message as rmcp takes it.
fn to_rmcp(message: &Message) -> Option<ClientJsonRpcMessage> {
    serde_json::from_slice(&reencode::to_json(message)?).ok()
}

/// The budget for answers that wait to be written: that of one connection.
fn budget(host: Arc<Host>) -> Arc<Budget> {
    Budget::new(move || {
        let limits = &host.config().http.limits;
        let most = usize::try_from(limits.response_memory_per_connection.bytes()).unwrap_or(usize::MAX);
        Limits { connection: most, client: most, overall: most, wait: limits.write_timeout.duration() }
    })
}

/// How a client begins that sends this request first, as rmcp sees it.
fn initial_lifecycle(request: &ClientRequest, message: &Message) -> Lifecycle {
    match (request, message.declared_revision()) {
        (ClientRequest::InitializeRequest(_), _) => Lifecycle::Initializing,
        (ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_), _) => Lifecycle::Uninitialized,
        (_, DeclaredRevision::Complete(said)) if Revision::from_name(said).is_some() => Lifecycle::Stateless,
        _ => Lifecycle::Uninitialized,
    }
}

/// The request that a message answers.
fn response_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(result) = &response.result
        {
            self.lifecycle = Lifecycle::Session(Revision::negotiated(Some(&result.protocol_version)));
        }
        let line = serde_json::to_vec(&message);
        let due = line.map(|line| match response_id(&message) {
            Some(id) => self.in_flight.complete(id, ChargedReply::uncharged(line)),
            None => Outgoing::new(line),
        });
        let output = self.output.clone();
        async move { due?.write_to(&output).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.next_message().await;
        if message.is_none() {
            self.draining.cancel();
            self.drain().await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close().await;
        Ok(())
    }
}
