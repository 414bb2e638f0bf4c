//! One connection: reads lines, dispatches their messages, and answers each request in a separate task. It limits the
//! requests in flight, and drains them at the end.

use std::num::NonZeroU32;
use std::sync::Arc;

use futures::StreamExt;
use mcp_host_base::log_target;
use mcp_host_base::trace::ClientContext;
use mcp_host_config::Config;
use mcp_resource_host::access::rate::RateClient;
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::audit;
use mcp_resource_host::host::Host;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::codec::FramedRead;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::batches::{BatchId, Batches, ChargedReply, Outgoing, Pending};
use super::codec::{self, Line, LineDecoder};
use super::output::Output;
use crate::DRAIN_TIMEOUT;
use crate::budget::{Account, Budget, Limits};
use crate::client_id::ClientId;
use crate::dispatch::{Call, Dispatch, dispatch};
use crate::error::{Outcome, rate_exceeded};
use crate::in_flight::{Claim, InFlight};
use crate::json::Encoder;
use crate::jsonrpc::{self, Incoming, Kind, Message, Rejection, RequestId, Response};
use crate::listen::{self, Listener};
use crate::method::Method;
use crate::notification::update_notification;
use crate::params::{InitializeParams, ListenParams};
use crate::request::Request;
use crate::request_context::RequestContext;
use crate::respond::{Reply, respond};
use crate::revision::Revision;
use crate::server_info;
use crate::server_metrics::{ServerMetrics, Transport};
use crate::session::Session;
use crate::trace::{Arrival, Rejected, RequestTrace, TracedRequest};

/// The maximum number of requests in flight.
const MAX_IN_FLIGHT: usize = 64;

/// The stream that requests are read from.
pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The connection of one client.
pub(super) struct Connection {
    host: Arc<Host>,
    metrics: Arc<ServerMetrics>,
    principal: Principal,
    account: Arc<Account>,
    input: FramedRead<Reader, LineDecoder>,
    answers: Answers,
    shutdown: CancellationToken,
    /// Fires when reading ends: the requests in flight are drained.
    draining: CancellationToken,
    permits: Arc<Semaphore>,
    in_flight: InFlight,
    /// The session, once `initialize` has opened it.
    session: Option<Arc<Session>>,
    /// The tasks that answer requests, and the task that delivers the notifications of the session. All end with the
    /// connection.
    tasks: JoinSet<()>,
}

/// The destination of answers. Clones share it.
#[derive(Clone)]
struct Answers {
    output: Output,
    batches: Batches,
}

impl Answers {
    /// Completes a request, with its answer or without one.
    async fn finish(&self, request: Pending, answer: Option<ChargedReply>) {
        self.write(self.batches.finish(request, answer)).await;
    }

    /// Completes a request with an answer that is not charged.
    async fn finish_with(&self, request: Pending, response: &Response) {
        self.finish(request, Some(ChargedReply::uncharged(response.to_json()))).await;
    }

    /// Writes a line, then releases its permits and charges. A client that stops reading gets no more answers.
    async fn write(&self, outgoing: Outgoing) {
        let Outgoing { line, permits, charges } = outgoing;
        if let Some(line) = line
            && let Err(error) = self.output.write(line).await
        {
            tracing::debug!(target: log_target::SERVER, %error, "a response cannot be written");
        }
        drop((permits, charges));
    }

    /// Writes a notification.
    async fn notify(&self, notification: &Value) -> std::io::Result<()> {
        self.output.write(Encoder::from_json(notification.to_string().into_bytes())).await
    }
}

impl Connection {
    /// Creates the connection of a client. `draining` fires when reading ends.
    pub(super) fn new(
        host: Arc<Host>,
        principal: Principal,
        reader: Reader,
        output: Output,
        shutdown: CancellationToken,
        draining: CancellationToken,
    ) -> Self {
        Self {
            account: budget(host.clone()).account(ClientId::Local),
            metrics: ServerMetrics::of(&host),
            host,
            principal,
            input: FramedRead::new(reader, LineDecoder::default()),
            answers: Answers { output, batches: Batches::default() },
            shutdown,
            draining,
            permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            in_flight: InFlight::default(),
            session: None,
            tasks: JoinSet::new(),
        }
    }

    /// Serves the client until its input ends or shutdown, and answers the requests in flight.
    pub(super) async fn serve(mut self) {
        self.read().await;
        self.draining.cancel();
        let all = u32::try_from(MAX_IN_FLIGHT).unwrap_or(u32::MAX);
        if tokio::time::timeout(DRAIN_TIMEOUT, self.permits.acquire_many(all)).await.is_err() {
            tracing::warn!(target: log_target::SERVER, "graceful shutdown: drain timed out with requests in flight");
        }
        self.answers.output.close().await;
    }

    /// Reads lines until the input ends or shutdown. Each line waits for a permit first.
    async fn read(&mut self) {
        loop {
            let next = async {
                let permit = self.permits.clone().acquire_owned().await.ok()?;
                Some((permit, self.input.next().await?))
            };
            let Some(Some((permit, line))) = self.shutdown.run_until_cancelled(next).await else { return };
            match line {
                Ok(line) => self.receive(line, permit).await,
                Err(error) => {
                    tracing::error!(target: log_target::SERVER, %error, "the input cannot be read");
                    return;
                }
            }
        }
    }

    /// Parses a line, and dispatches its messages. The rest of a batch is dispatched even after shutdown.
    async fn receive(&mut self, line: Line, permit: OwnedSemaphorePermit) {
        let config = self.host.config();
        let revision = self.session.as_deref().map(Session::revision);
        let received = match line {
            Line::Text(text) => jsonrpc::parse(&text, revision, &config.server.extensions),
            Line::TooLong => Err(Rejection::invalid_request(None, "the line is too long")),
        };
        codec::shrink(self.input.read_buffer_mut());
        match received {
            Ok(Incoming::Single(message)) => self.dispatch(Ok(message), Pending { permit, batch: None }, &config).await,
            Ok(Incoming::Batch(messages)) => self.dispatch_batch(messages, permit, &config).await,
            Err(rejection) => self.dispatch(Err(rejection), Pending { permit, batch: None }, &config).await,
        }
    }

    async fn dispatch_batch(
        &mut self,
        messages: Vec<Result<Message, Rejection>>,
        permit: OwnedSemaphorePermit,
        config: &Arc<Config>,
    ) {
        let wants_answer = |message: &&Result<Message, Rejection>| {
            message.as_ref().map_or(true, |message| matches!(message.kind, Kind::Request { .. }))
        };
        let batch: Option<BatchId> = self.answers.batches.begin(messages.iter().filter(wants_answer).count());
        let mut permit = Some(permit);
        for message in messages {
            let permit = match permit.take() {
                Some(permit) => permit,
                None => match self.permits.clone().acquire_owned().await {
                    Ok(permit) => permit,
                    Err(_closed) => return,
                },
            };
            self.dispatch(message, Pending { permit, batch }, config).await;
        }
    }

    /// Dispatches a message, and begins to answer it.
    async fn dispatch(&mut self, message: Result<Message, Rejection>, pending: Pending, config: &Arc<Config>) {
        while self.tasks.try_join_next().is_some() {}
        let traceparent = message.as_ref().ok().and_then(|message| message.meta.traceparent);
        let rejected = Rejected::of(message.as_ref().ok());
        let dispatched = message.and_then(|message| {
            self.take_request(&message, config)?;
            let dispatched = dispatch(&self.host, config, &self.principal, message, self.session.as_deref(), &())?;
            let claim = match &dispatched {
                Dispatch::Request(id, _) | Dispatch::Listen(id, _) => {
                    Some(self.in_flight.claim(id).ok_or_else(|| Rejection::id_in_flight(id))?)
                }
                _ => None,
            };
            Ok((dispatched, claim))
        });
        let trace = |id: &RequestId, method: Option<&'static Method>, request: Option<&Request>, revision: Revision| {
            let (session, transport, address) = (None, Transport::Stdio, None);
            let (id, revision) = (Some(id), Some(revision));
            let traced = TracedRequest { id, method, request, revision, session, transport, address };
            RequestTrace::begin(config, ClientContext { message: traceparent, http: None }, &traced)
        };
        match dispatched {
            Ok((Dispatch::Request(id, call), Some(claim))) => {
                let trace = trace(&id, call.method, call.request.as_ref().ok(), call.revision);
                self.spawn_call(id, call, claim, trace, pending, config);
            }
            Ok((Dispatch::Listen(id, params), Some(claim))) => {
                let trace = trace(&id, listen::method(), None, Revision::LATEST);
                self.spawn_listen(id, params, claim, trace, pending, config);
            }
            Ok((Dispatch::Initialize(id, params), _)) => self.initialize(id, &params, trace, pending, config).await,
            Ok((Dispatch::Cancel(id), _)) => self.in_flight.cancel(&id),
            Ok((Dispatch::Initialized, _)) => {
                if let Some(session) = &self.session {
                    session.watch_listing();
                }
            }
            Ok(_) => {}
            Err(rejection) => {
                let arrival = Arrival { config, transport: Transport::Stdio, http: None, address: None };
                rejected.record(&self.metrics, &arrival, &rejection);
                let answers = self.answers.clone();
                self.tasks.spawn(async move { answers.finish_with(pending, &rejection.into_response()).await });
            }
        }
    }

    /// Takes a request from the rate limit of its principal. The principal that started the host is exempt: it shares
    /// the host with no other, and the number of its requests in flight is limited.
    fn take_request(&self, message: &Message, config: &Config) -> Result<(), Rejection> {
        let Some(id) = message.request_id().filter(|_| self.principal != Principal::LOCAL) else { return Ok(()) };
        let client = RateClient::Principal(&self.principal);
        let taken = self.host.rates().take(&config.http.limits, client, NonZeroU32::MIN);
        taken.map_err(|exceeded| {
            self.metrics.record_rejection(exceeded.limit.key());
            Rejection::new(Some(id.clone()), rate_exceeded(&exceeded))
        })
    }

    /// Opens the session, and begins to deliver its notifications. The answer comes before all others of the session.
    async fn initialize(
        &mut self,
        id: RequestId,
        params: &InitializeParams,
        trace: impl Fn(&RequestId, Option<&'static Method>, Option<&Request>, Revision) -> RequestTrace,
        pending: Pending,
        config: &Config,
    ) {
        let (agreement, result) = server_info::initialize(&self.host, config, &self.principal, &params.version);
        let (method, revision) = (Method::named("initialize", &[]), Some(agreement.revision));
        let _trace = trace(&id, method, None, agreement.revision);
        self.metrics.count_request(Transport::Stdio, method, revision, Outcome::Ok);
        let session = Arc::new(Session::new(&self.host, &self.principal, agreement, Transport::Stdio, None));
        self.session = Some(session.clone());
        self.answers.finish_with(pending, &Response::new(id, Ok(result))).await;
        self.tasks.spawn(deliver(self.host.clone(), session, self.answers.clone()));
    }

    /// Answers a request in a separate task, unless it is cancelled.
    fn spawn_call(
        &mut self,
        id: RequestId,
        call: Call,
        claim: Claim,
        trace: RequestTrace,
        pending: Pending,
        config: &Arc<Config>,
    ) {
        let timer = self.metrics.begin_request(Transport::Stdio, call.method, call.revision);
        let context = RequestContext {
            host: self.host.clone(),
            config: config.clone(),
            principal: self.principal.clone(),
            account: self.account.clone(),
            revision: call.revision,
            session: self.session.clone(),
            audit: audit::RequestContext::new(None, &id, trace.id()),
            trace,
            scopes: CredentialScopes::default(),
            issued_token: None,
        };
        let answers = self.answers.clone();
        // Boxed: tokio moves a task's future several times, and this one has several KiB.
        self.tasks.spawn(Box::pin(async move {
            let reply = tokio::select! {
                reply = respond(&context, id, call, None) => Some(reply),
                () = claim.cancelled() => None,
            };
            let answer = reply.filter(|_| claim.release()).map(|answer| match answer {
                Ok(Reply { json, missing, charge, outcome }) => {
                    timer.end(outcome);
                    if let Some(session) = &context.session {
                        session.log().warn_missing(&missing);
                    }
                    ChargedReply { json, charge: Some(charge) }
                }
                Err(rejection) => {
                    timer.end(rejection.error.outcome());
                    ChargedReply::uncharged(rejection.into_response().to_json())
                }
            });
            answers.finish(pending, answer).await;
        }));
    }

    /// Answers `subscriptions/listen` in a separate task, until the request is cancelled or reading ends.
    fn spawn_listen(
        &mut self,
        id: RequestId,
        params: ListenParams,
        claim: Claim,
        trace: RequestTrace,
        pending: Pending,
        config: &Arc<Config>,
    ) {
        let (host, principal, config) = (self.host.clone(), self.principal.clone(), config.clone());
        let metrics = self.metrics.clone();
        let (answers, draining) = (self.answers.clone(), self.draining.clone());
        self.tasks.spawn(async move {
            let audit = audit::RequestContext::new(None, &id, trace.id());
            let begun = Listener::begin(&host, id.clone(), params, &principal, audit).instrument(trace.span()).await;
            listen::count(&metrics, Transport::Stdio, trace.record(&begun));
            // The trace does not include the stream.
            drop(trace);
            let end = match begun {
                Ok(listener) => {
                    let mut notifications = Box::pin(listener.notifications());
                    let notifying = async {
                        while let Some(notification) = notifications.next().await {
                            if answers.notify(&notification).await.is_err() {
                                // The client has stopped reading, and may still cancel the request.
                                std::future::pending::<()>().await;
                            }
                        }
                    };
                    tokio::select! {
                        () = notifying => {}
                        () = draining.cancelled() => {}
                        () = claim.cancelled() => {}
                    }
                    listen::end(&config, id)
                }
                Err(error) => Response::new(id, Err(error)),
            };
            let answer = claim.release().then(|| ChargedReply::uncharged(end.to_json()));
            answers.finish(pending, answer).await;
        });
    }
}

/// Delivers the notifications of a session sequentially, until the client stops reading.
async fn deliver(host: Arc<Host>, session: Arc<Session>, answers: Answers) {
    // Checked with the current rules.
    let may_know = |plugin: &str| host.may_know_of_plugin(&session.subscriber().principal(), plugin);
    loop {
        let sent = tokio::select! {
            // Taken when the output is free, so that no update follows the answer to the unsubscription of its
            // resource.
            () = session.subscriber().ready() => {
                let next = || session.subscriber().try_next().map(|update| update_notification(update, None));
                answers.output.write_next(next).await
            }
            warning = session.log().next(may_know) => answers.notify(&warning).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// The budget of one connection for answers that wait to be written.
fn budget(host: Arc<Host>) -> Arc<Budget> {
    Budget::new(move || {
        let limits = &host.config().http.limits;
        let most = usize::try_from(limits.response_memory_per_connection.bytes()).unwrap_or(usize::MAX);
        Limits { connection: most, client: most, principal: most, overall: most, wait: limits.write_timeout.duration() }
    })
}
