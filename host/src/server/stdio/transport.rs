//! The transport that rmcp reads from and writes to: it answers [requests for
//! resources](crate::server::resource_requests) itself, bounds the requests in flight, and drains them at the end.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetExtensions, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::codec::FramedRead;
use tokio_util::sync::CancellationToken;

use super::batches::{BatchId, Batches, ChargedReply, Outgoing, Pending};
use super::codec::{self, Line, LineDecoder};
use super::output::Output;
use crate::access::Principal;
use crate::access::rate::{RateClient, RateExceeded};
use crate::audit::RequestContext;
use crate::host::Host;
use crate::log_target;
use crate::server::DRAIN_TIMEOUT;
use crate::server::budget::{Account, Budget, Limits};
use crate::server::client::ClientCell;
use crate::server::client_id::ClientId;
use crate::server::dispatch::{self, Dispatch, Lifecycle};
use crate::server::error;
use crate::server::in_flight::InFlight;
use crate::server::jsonrpc::{self, DeclaredRevision, Incoming, Kind, Message, Rejection};
use crate::server::methods;
use crate::server::params::InvalidParams;
use crate::server::reencode;
use crate::server::resource_requests::{self, Reply, ResourceRequest};
use crate::server::revision::Revision;

/// The maximum number of requests in flight.
const MAX_IN_FLIGHT: usize = 64;

/// The stream that requests are read from.
pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The transport of one client.
pub(super) struct IoTransport {
    host: Arc<Host>,
    principal: Principal,
    account: Arc<Account>,
    input: FramedRead<Reader, LineDecoder>,
    output: Output,
    shutdown: CancellationToken,
    /// Fires when reading ends: the requests in flight are drained.
    draining: CancellationToken,
    permits: Arc<Semaphore>,
    in_flight: InFlight<Pending>,
    batches: Batches,
    /// Messages of the last line that have not been dispatched.
    queue: VecDeque<QueuedMessage>,
    lifecycle: Lifecycle,
    client: ClientCell,
}

/// A message and the batch that it is part of.
struct QueuedMessage {
    message: Result<Message, Rejection>,
    batch: Option<BatchId>,
}

impl Lifecycle {
    /// The revision in which a line is parsed.
    fn revision(self) -> Option<Revision> {
        match self {
            Self::Uninitialized | Self::Initializing => None,
            Self::Session(revision) => Some(revision),
            Self::Stateless => Some(Revision::LATEST),
        }
    }
}

impl Outgoing {
    /// Writes the line, then releases the permits and charges.
    async fn write_to(self, output: &Output) -> io::Result<()> {
        let Self { line, permits, charges } = self;
        let written = match line {
            Some(line) => output.write(line).await,
            None => Ok(()),
        };
        drop((permits, charges));
        written
    }

    /// Writes the line and logs an error, for a task that nobody awaits.
    async fn write(self, output: &Output) {
        if let Err(error) = self.write_to(output).await {
            tracing::debug!(target: log_target::SERVER, %error, "a response cannot be written");
        }
    }
}

impl IoTransport {
    pub(super) fn new(
        host: Arc<Host>,
        principal: Principal,
        reader: Reader,
        output: Output,
        shutdown: CancellationToken,
        draining: CancellationToken,
    ) -> Self {
        let account = budget(host.clone()).account(ClientId::Local);
        Self {
            host,
            principal,
            account,
            input: FramedRead::new(reader, LineDecoder::default()),
            output,
            shutdown,
            draining,
            permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            in_flight: InFlight::default(),
            batches: Batches::default(),
            queue: VecDeque::new(),
            lifecycle: Lifecycle::Uninitialized,
            client: ClientCell::default(),
        }
    }

    /// Parses a line and queues its messages.
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
                let batch = self.batches.begin(messages.iter().filter(wants_answer).count());
                self.queue.extend(messages.into_iter().map(|message| QueuedMessage { message, batch }));
            }
            Err(rejection) => self.queue.push_back(QueuedMessage { message: Err(rejection), batch: None }),
        }
    }

    /// Dispatches a message. Returns it if rmcp is to get it.
    fn dispatch(&mut self, next: QueuedMessage, permit: OwnedSemaphorePermit) -> Option<ClientJsonRpcMessage> {
        let pending = Pending { permit, batch: next.batch };
        let rejected = match next.message {
            Ok(message) if matches!(message.kind, Kind::Request { .. }) => self.dispatch_request(&message, pending),
            Ok(message) => return self.dispatch_notification(&message),
            Err(rejection) => Err((rejection, pending)),
        };
        rejected.unwrap_or_else(|(rejection, pending)| {
            let answer = ChargedReply::uncharged(jsonrpc::to_json(&rejection.into_message()));
            self.spawn_write(self.batches.finish(pending, Some(answer)));
            None
        })
    }

    /// Dispatches a notification or an answer: rmcp gets it, unless nothing but requests has been expected so far, as
    /// rmcp ends when a client begins with anything else.
    fn dispatch_notification(&self, message: &Message) -> Option<ClientJsonRpcMessage> {
        if let Some(id) = message.cancelled_request() {
            self.in_flight.cancel(&id);
            if let Some(pending) = self.in_flight.remove(&id) {
                self.spawn_write(self.batches.finish(pending, None));
            }
        }
        (self.lifecycle != Lifecycle::Uninitialized).then(|| to_rmcp(message)).flatten()
    }

    /// Dispatches a request, and records it as in flight if it is not rejected.
    fn dispatch_request(
        &mut self,
        message: &Message,
        pending: Pending,
    ) -> Result<Option<ClientJsonRpcMessage>, (Rejection, Pending)> {
        let Kind::Request { id, method, params } = &message.kind else { return Ok(None) };
        if let Err(exceeded) = self.take_request() {
            let rejection = Rejection { id: Some(id.clone()), error: error::rate_exceeded(&exceeded) };
            return Err((rejection, pending));
        }
        let forwarded = match dispatch::dispatch(&self.host, message, self.lifecycle, |_| true) {
            Ok(Dispatch::Direct(request, revision)) => {
                return match self.in_flight.insert(id, pending) {
                    Ok(cancelled) => {
                        let context = RequestContext::new(None, id, message.meta.trace_id);
                        self.spawn_answer(id.clone(), request, revision, context, cancelled);
                        Ok(None)
                    }
                    Err(pending) => Err((Rejection::id_in_flight(id), pending)),
                };
            }
            // Before the client has opened a session, rmcp answers a ping of any revision, even of one without `ping`.
            Ok(Dispatch::Forward) if method == "ping" && message.is_stateless() => {
                let error = methods::method_not_found(&self.host, Revision::LATEST, method);
                Err(Rejection::method_not_found(id, error))
            }
            Ok(Dispatch::Forward | Dispatch::Listen(_)) => match to_rmcp(message) {
                Some(JsonRpcMessage::Request(request)) => Ok(request),
                _ => Err(message.rejection()),
            },
            Err(rejection) => Err(rejection),
        };
        let mut forwarded = match forwarded {
            Ok(forwarded) => forwarded,
            Err(rejection) => return Err((rejection, pending)),
        };
        if let Err(pending) = self.in_flight.insert(id, pending) {
            return Err((Rejection::id_in_flight(id), pending));
        }
        let extensions = forwarded.request.extensions_mut();
        extensions.insert(self.client.clone());
        if let Err(malformed) = params {
            extensions.insert(malformed.clone());
        }
        if let Some(trace_id) = message.meta.trace_id {
            extensions.insert(trace_id);
        }
        if self.lifecycle == Lifecycle::Uninitialized {
            self.lifecycle = initial_lifecycle(&forwarded.request, message);
        }
        Ok(Some(JsonRpcMessage::Request(forwarded)))
    }

    /// Takes a request of the rate of its principal. Whoever started the host shares it with nobody, and is bounded by the
    /// requests in flight.
    fn take_request(&self) -> Result<(), RateExceeded> {
        if self.principal == Principal::LOCAL {
            return Ok(());
        }
        let config = self.host.config();
        self.host.rates().take(&config.http.limits, RateClient::Principal(&self.principal), NonZeroU32::MIN)
    }

    /// Answers a request in a task of its own, unless it is cancelled.
    fn spawn_answer(
        &self,
        id: RequestId,
        request: Result<ResourceRequest, InvalidParams>,
        revision: Revision,
        context: RequestContext,
        cancelled: CancellationToken,
    ) {
        let (host, principal, account) = (self.host.clone(), self.principal.clone(), self.account.clone());
        let (in_flight, batches) = (self.in_flight.clone(), self.batches.clone());
        let (client, output) = (self.client.clone(), self.output.clone());
        tokio::spawn(async move {
            let reply =
                pin!(resource_requests::respond(&host, &principal, &account, id.clone(), request, revision, context));
            let Some(Reply { json, missing, charge }) = cancelled.run_until_cancelled(reply).await else { return };
            if let Some(client) = client.get() {
                client.warn_missing(&missing).await;
            }
            if let Some(pending) = in_flight.remove(&id) {
                batches.finish(pending, Some(ChargedReply { json, charge })).write(&output).await;
            }
        });
    }

    /// Writes a line in a task of its own. The permits that it holds bound how many there are.
    fn spawn_write(&self, outgoing: Outgoing) {
        if outgoing.line.is_some() {
            let output = self.output.clone();
            tokio::spawn(async move { outgoing.write(&output).await });
        }
    }

    /// Returns the next message for rmcp; none when reading has ended. Cancel safe: a permit that is not used is
    /// released, and the input retains a line that is incomplete.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // The messages of a batch that has been read are dispatched even after shutdown.
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
                    tracing::error!(target: log_target::SERVER, %error, "the input cannot be read");
                    return None;
                }
            }
        }
    }

    /// Completes the request that a message of rmcp answers, and returns what is to be written now.
    fn complete(&self, message: &ServerJsonRpcMessage, line: Vec<u8>) -> Outgoing {
        let Some(id) = response_id(message) else { return Outgoing::new(line) };
        let pending = self.in_flight.remove(id);
        pending
            .map_or_else(Outgoing::default, |pending| self.batches.finish(pending, Some(ChargedReply::uncharged(line))))
    }
}

/// Waits until every request in flight has been answered, at most [`DRAIN_TIMEOUT`].
async fn drain(permits: Arc<Semaphore>) {
    let all = u32::try_from(MAX_IN_FLIGHT).unwrap_or(u32::MAX);
    if tokio::time::timeout(DRAIN_TIMEOUT, permits.acquire_many(all)).await.is_err() {
        tracing::warn!(target: log_target::SERVER, "graceful shutdown: drain timed out with requests in flight");
    }
}

/// Converts a message to rmcp's type; none if rmcp cannot parse it.
fn to_rmcp(message: &Message) -> Option<ClientJsonRpcMessage> {
    serde_json::from_slice(&reencode::to_json(message)?).ok()
}

/// The budget for answers that wait to be written: that of one connection.
fn budget(host: Arc<Host>) -> Arc<Budget> {
    Budget::new(move || {
        let limits = &host.config().http.limits;
        let most = usize::try_from(limits.response_memory_per_connection.bytes()).unwrap_or(usize::MAX);
        Limits { connection: most, client: most, principal: most, overall: most, wait: limits.write_timeout.duration() }
    })
}

/// The lifecycle after this request of a client that has sent nothing before, by the rules of rmcp.
fn initial_lifecycle(request: &ClientRequest, message: &Message) -> Lifecycle {
    match (request, message.declared_revision()) {
        (ClientRequest::InitializeRequest(_), _) => Lifecycle::Initializing,
        (ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_), _) => Lifecycle::Uninitialized,
        (_, DeclaredRevision::Complete(name)) if Revision::from_name(name).is_some() => Lifecycle::Stateless,
        _ => Lifecycle::Uninitialized,
    }
}

/// The id of the request that a message answers.
fn response_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

impl Transport<RoleServer> for IoTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(result) = &response.result
        {
            self.lifecycle = Lifecycle::Session(Revision::negotiated(Some(&result.protocol_version)));
        }
        let outgoing = serde_json::to_vec(&message).map(|line| self.complete(&message, line));
        let output = self.output.clone();
        async move { outgoing?.write_to(&output).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.next_message().await;
        if message.is_none() {
            self.draining.cancel();
            drain(self.permits.clone()).await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close().await;
        Ok(())
    }
}
