//! MCP over standard input and output, for one client that started this process.
//!
//! Each line is one message, or in revision 2025-03-26 one batch of them. What is none is refused here (see
//! [`message`](super::message)). [Requests for resources](super::requests) are answered here as well, each by a task of its own; the
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
//! takes them: one that has taken nothing for [`MAX_STUCK`] keeps the process no longer.

mod input;
mod lines;
mod output;
mod taken;

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

use self::lines::{Line, Lines};
use self::output::Output;
use self::taken::{BatchId, Charged, Due, Taken};
use super::about::About;
use super::budget::{Account, Budget, Limits};
use super::client::Opening;
use super::client_id::ClientId;
use super::handler::{Face, Handler};
use super::message::{self, Kind, Message, Refusal, Said, Sent};
use super::methods;
use super::params::Malformed;
use super::requests::{self, Answer, Asked};
use super::revision::Revision;
use super::rewritten;
use super::{MAX_DRAIN, ServeError};
use crate::access::Principal;
use crate::host::Host;

/// Requests that are worked on at once.
const MAX_IN_FLIGHT: usize = 64;

/// How long the client may take nothing of what is left for it when the server ends.
const MAX_STUCK: Duration = Duration::from_secs(5);
/// How often it is looked whether the server is to end while the client takes nothing.
const LOOK: Duration = Duration::from_secs(1);

/// Serves one client over stdio until it closes its end, or until `shutdown` fires; requests in flight are answered first.
///
/// # Errors
///
/// The client did not begin as it should, or did not read the answers that were left.
pub async fn serve_stdio(host: Arc<Host>, shutdown: CancellationToken) -> Result<(), ServeError> {
    let ending = CancellationToken::new();
    let orderly = Orderly::new(host.clone(), shutdown.clone(), ending.clone());
    let output = orderly.output.clone();
    let unread = async {
        loop {
            output.stuck(MAX_STUCK).await;
            // While too much is in flight nothing is read, and the end of the input is not met.
            if ending.is_cancelled() || shutdown.is_cancelled() || input::is_closed() {
                return;
            }
            sleep(LOOK).await;
        }
    };
    let too_slow = async {
        ending.cancelled().await;
        sleep(MAX_DRAIN.saturating_add(MAX_STUCK)).await;
    };
    tokio::select! {
        served = serve(host, orderly, ending.clone()) => served,
        () = unread => Err(ServeError::Unread),
        () = too_slow => Err(ServeError::Unread),
    }
}

async fn serve(host: Arc<Host>, orderly: Orderly, ending: CancellationToken) -> Result<(), ServeError> {
    let handler = Handler::new(host, Arc::new(About::default()), Face::Stdio, ending);
    let service = match handler.serve(orderly).await {
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
struct Orderly {
    host: Arc<Host>,
    account: Arc<Account>,
    input: FramedRead<StdioReader, Lines>,
    output: Output,
    shutdown: CancellationToken,
    /// Fires when nothing more is read: what is in flight is to come to its end.
    ending: CancellationToken,
    in_flight: Arc<Semaphore>,
    taken: Taken,
    /// Messages of the last line that have not been looked at.
    next: VecDeque<Next>,
    opened: Opened,
    opening: Opening,
}

/// A message and the batch that it came in.
struct Next {
    message: Result<Message, Refusal>,
    batch: Option<BatchId>,
}

/// What becomes of a message that makes sense.
enum Checked {
    /// It is answered here.
    Here(Answering),
    /// rmcp is to see it.
    Onward(Box<ClientJsonRpcMessage>),
    /// Nothing.
    Dropped,
}

/// A request for resources that is in order.
struct Answering {
    id: RequestId,
    asked: Result<Asked, Malformed>,
    revision: Revision,
}

/// How the client began with rmcp, which says how it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    /// It has not: rmcp takes nothing but requests.
    Not,
    /// By `initialize`, which has not been answered.
    Asking,
    /// By `initialize`, in that revision.
    Session(Revision),
    /// By a request that says for itself what it is of.
    Stateless,
}

impl Due {
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
            tracing::debug!(%error, "a response cannot be written");
        }
    }
}

impl Opened {
    fn revision(self) -> Option<Revision> {
        match self {
            Self::Not | Self::Asking => None,
            Self::Session(revision) => Some(revision),
            Self::Stateless => Some(Revision::NEWEST),
        }
    }
}

impl Orderly {
    fn new(host: Arc<Host>, shutdown: CancellationToken, ending: CancellationToken) -> Self {
        let (read, write) = stdio_pipes();
        let account = budget(host.clone()).account(ClientId::Local);
        Self {
            host,
            account,
            input: FramedRead::new(read, Lines::default()),
            output: Output::new(write),
            shutdown,
            ending,
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            taken: Taken::default(),
            next: VecDeque::new(),
            opened: Opened::Not,
            opening: Opening::default(),
        }
    }

    /// Takes a line apart, for its messages to be looked at one by one.
    fn take_line(&mut self, line: Line) {
        let sent = match line {
            Line::Text(text) => message::read(&text, self.opened.revision(), &self.host.config().server.extensions),
            Line::TooLong => Err(Refusal::invalid(None, "the line is too long")),
        };
        match sent {
            Ok(Sent::One(message)) => self.next.push_back(Next { message: Ok(message), batch: None }),
            Ok(Sent::Batch(messages)) => {
                let wants_answer = |message: &&Result<Message, Refusal>| {
                    message.as_ref().map_or(true, |message| matches!(message.kind, Kind::Request { .. }))
                };
                let batch = self.taken.begin_batch(messages.iter().filter(wants_answer).count());
                self.next.extend(messages.into_iter().map(|message| Next { message, batch }));
            }
            Err(refusal) => self.next.push_back(Next { message: Err(refusal), batch: None }),
        }
    }

    /// Looks at a message: gives it to rmcp, or deals with it here.
    fn look_at(&mut self, next: Next, permit: OwnedSemaphorePermit) -> Option<ClientJsonRpcMessage> {
        if let Some(id) = next.message.as_ref().ok().and_then(Message::cancels) {
            self.write_in_time(self.taken.cancelled(&id));
        }
        match next.message.and_then(|message| self.check(message)) {
            Ok(Checked::Here(answering)) => {
                self.answer_in_time(answering, permit, next.batch);
                None
            }
            Ok(Checked::Onward(message)) => {
                if let JsonRpcMessage::Request(request) = &*message {
                    self.taken.take(request.id.clone(), permit, next.batch);
                }
                Some(*message)
            }
            Ok(Checked::Dropped) => None,
            Err(refusal) => {
                let answer = message::to_json(&refusal.into_message());
                self.write_in_time(self.taken.refused(next.batch, answer, permit));
                None
            }
        }
    }

    /// What becomes of a message.
    fn check(&mut self, message: Message) -> Result<Checked, Refusal> {
        let Kind::Request { id, method, params } = &message.kind else {
            // rmcp ends when anything but a request comes first.
            let typed = (self.opened != Opened::Not).then(|| typed(&message)).flatten();
            return Ok(typed.map_or(Checked::Dropped, |message| Checked::Onward(Box::new(message))));
        };
        if self.taken.has(id) {
            let reason = format!("the id {id} is that of a request that has not been answered");
            return Err(Refusal::invalid(Some(id.clone()), reason));
        }
        if let Some(revision) = self.revision(&message)
            && let Some(asked) = Asked::of(&self.host, revision, &message)
        {
            return Ok(Checked::Here(Answering { id: id.clone(), asked, revision }));
        }
        if message.is_stateless() {
            // rmcp answers both as long as it does not know how the client will begin.
            if ["initialize", "ping"].contains(&method.as_str()) {
                return Err(self.unknown(id, Revision::NEWEST, method));
            }
        } else if let ("server/discover", Opened::Session(revision)) = (method.as_str(), self.opened) {
            return Err(self.unknown(id, revision, method));
        }
        if method == "initialize" {
            if self.opened != Opened::Not {
                return Err(Refusal::invalid(Some(id.clone()), message::SECOND_INITIALIZE));
            }
            params.as_ref().map_err(|malformed| Refusal::malformed(id.clone(), malformed))?;
        }
        let Some(JsonRpcMessage::Request(mut request)) = typed(&message) else {
            return Err(message.unreadable());
        };
        let beside = request.request.extensions_mut();
        beside.insert(self.opening.clone());
        if let Err(malformed) = params {
            beside.insert(malformed.clone());
        }
        if self.opened == Opened::Not {
            self.opened = opening(&request.request, &message);
        }
        Ok(Checked::Onward(Box::new(JsonRpcMessage::Request(request))))
    }

    fn unknown(&self, id: &RequestId, revision: Revision, method: &str) -> Refusal {
        Refusal { id: Some(id.clone()), error: methods::unknown(&self.host, revision, method) }
    }

    /// The revision that a request is of; none if it is not in order, by the rules of rmcp.
    fn revision(&self, message: &Message) -> Option<Revision> {
        match (message.said(), self.opened) {
            (Said::Nothing, Opened::Session(revision)) => Some(revision),
            (Said::Whole(said), _) => Revision::named(said),
            (Said::Partly(said), Opened::Session(_)) => Revision::named(said).filter(|said| said.has_sessions()),
            _ => None,
        }
    }

    /// Answers a request while others are read, unless it is cancelled.
    fn answer_in_time(&self, answering: Answering, permit: OwnedSemaphorePermit, batch: Option<BatchId>) {
        let (host, account, opening) = (self.host.clone(), self.account.clone(), self.opening.clone());
        let (taken, output) = (self.taken.clone(), self.output.clone());
        let cancelled = self.taken.take(answering.id.clone(), permit, batch);
        tokio::spawn(async move {
            let Answering { id, asked, revision } = answering;
            let answer = requests::answer(&host, &Principal::LOCAL, &account, id.clone(), asked, revision);
            let Some(Answer { json, missing, charge }) = cancelled.run_until_cancelled(answer).await else { return };
            if let Some(client) = opening.client() {
                client.report(&missing).await;
            }
            taken.answered(&id, Charged { json, charge }).write(&output).await;
        });
    }

    /// Writes what is due while other requests are read; its permits bound how much of that there can be.
    fn write_in_time(&self, due: Due) {
        if due.line.is_some() {
            let output = self.output.clone();
            tokio::spawn(async move { due.write(&output).await });
        }
    }

    /// Waits until everything that was taken has been answered, within bounds.
    async fn all_answered(&self) {
        let all = u32::try_from(MAX_IN_FLIGHT).unwrap_or(u32::MAX);
        if tokio::time::timeout(MAX_DRAIN, self.in_flight.acquire_many(all)).await.is_err() {
            tracing::warn!("shutdown: drain timed out with requests in flight");
        }
    }

    /// The next message for rmcp; none when nothing more is read. Cancel safe: a permit that is not kept is given back, and
    /// the input keeps a line that it has begun.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // What has been read of a batch is taken, whatever happens.
            let permit = tokio::select! {
                permit = self.in_flight.clone().acquire_owned() => permit.ok()?,
                () = self.shutdown.cancelled(), if self.next.is_empty() => return None,
            };
            if let Some(next) = self.next.pop_front() {
                match self.look_at(next, permit) {
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
                    self.take_line(line);
                    lines::shrink(self.input.read_buffer_mut());
                }
                Err(error) => {
                    tracing::error!(%error, "standard input cannot be read");
                    return None;
                }
            }
        }
    }
}

/// A message as rmcp takes it.
fn typed(message: &Message) -> Option<ClientJsonRpcMessage> {
    serde_json::from_slice(&rewritten::to_json(message)?).ok()
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
fn opening(request: &ClientRequest, message: &Message) -> Opened {
    match (request, message.said()) {
        (ClientRequest::InitializeRequest(_), _) => Opened::Asking,
        (ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_), _) => Opened::Not,
        (_, Said::Whole(said)) if Revision::named(said).is_some() => Opened::Stateless,
        _ => Opened::Not,
    }
}

/// The request that a message answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

impl Transport<RoleServer> for Orderly {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(result) = &response.result
        {
            self.opened = Opened::Session(Revision::agreed(Some(&result.protocol_version)));
        }
        let line = serde_json::to_vec(&message);
        let due = line.map(|line| match answered(&message) {
            Some(id) => self.taken.answered(id, Charged::nothing(line)),
            None => Due::line(line),
        });
        let output = self.output.clone();
        async move { due?.write_to(&output).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.next_message().await;
        if message.is_none() {
            self.ending.cancel();
            self.all_answered().await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close().await;
        Ok(())
    }
}
