//! The connection to an upstream: opened when it is needed, again with back-off after a failure, one attempt at a time.
//!
//! It runs on the runtime that [`Connector::new`] was called on, whoever calls: the engine's threads only send to it. A failure of the
//! transport ends it, and the next call opens another one at once; after a failed attempt calls fail until the back-off is over.
//!
//! A connection that is [watched](Connector::watch) is opened again without a call, and one that has been silent for [`CHECK_INTERVAL`] is
//! checked by a request that says nothing: `ping`, without sessions `server/discover`. So [`health`](crate::health) says whether the server is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use mcp_host_base::backoff::Backoff;
use mcp_host_base::text::truncate;
use mcp_host_config::grants::CredentialValue;
use mcp_host_config::{Plugin, Secret, UpstreamSource};
use mcp_host_model::net::Scheme;
use mcp_host_model::provider::{Failure, Program as ProgramStatus};
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, DiscoverRequest, DiscoverRequestParams, Implementation,
    PingRequest, ProtocolVersion, ResourceUpdatedNotificationParam, ServerCapabilities, ServerPeerInfo,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, NotificationContext, PeerRequestOptions, RunningService, ServiceError,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::guard::Guarded;
use crate::health::Health;
use crate::http::{self, Credentials, HttpClient};
use crate::mapping::Mapping;
use crate::message::Decoder;
use crate::pipes::Pipes;
use crate::process::{LastLines, Launched, Launcher, Ledger, ProgramLog, ProgramState, log_lines};
use crate::slots;
use crate::updates::Updates;

/// The time in which a connection is opened: with the start of the program, a second one if it ends at the first question, and the
/// negotiation of the revision.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time after which a connection without answers is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The time in which the server answers to that.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest time between two attempts of the watch.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// The time in which it is known how a program has ended, and what it wrote last.
const END_TIME: Duration = Duration::from_secs(2);
/// The back-off after the first failed attempt, and the longest one.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// A program that ran so long ended for a reason of its own.
const LASTING: Duration = Duration::from_secs(60);
/// The bytes of a reason that are shown.
const MAX_REASON: usize = 1024;

/// Why an upstream cannot be connected to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct ConnectError {
    /// The reason, in one line.
    pub reason: String,
    /// What the program wrote last on standard error, if it is one: lines that are escaped.
    pub last_errors: Vec<String>,
}

impl From<String> for ConnectError {
    fn from(reason: String) -> Self {
        Self { reason, last_errors: Vec::new() }
    }
}

/// The HTTP client of an upstream that is a URL.
pub(crate) async fn http_client(plugin: &Plugin) -> Result<Option<HttpClient>, ConnectError> {
    match plugin.upstream.as_ref().map(|upstream| &upstream.source) {
        Some(UpstreamSource::Url(url)) => {
            let is_tls = url.origin().scheme() == Scheme::Https;
            HttpClient::new(is_tls).await.map(Some).map_err(ConnectError::from)
        }
        _ => Ok(None),
    }
}

/// A value of the config as credentials.
pub(crate) fn fixed(value: &Secret<CredentialValue>) -> Result<Credentials, ConnectError> {
    value.expose().header().map(Credentials::Fixed).map_err(|error| error.to_string().into())
}

impl ConnectError {
    pub(crate) fn no_token_client() -> Self {
        Self::from("this host was built without a client for token endpoints".to_owned())
    }

    pub(crate) fn no_upstream() -> Self {
        Self::from("the plugin is a component, and no upstream".to_owned())
    }
}

/// An open connection.
pub(crate) struct Link {
    /// Its number: another connection has another one.
    pub(crate) id: u64,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) info: Arc<ServerPeerInfo>,
    /// Whether the transport has ended.
    has_ended: Arc<AtomicBool>,
    /// Ends the connection when it is dropped.
    _service: RunningService<RoleClient, Handler>,
    /// Ends the program when it is dropped.
    _program: Option<Box<dyn Send + Sync>>,
}

/// A program that was started, and may have ended.
struct Program {
    state: Arc<ProgramState>,
    last_errors: Arc<LastLines>,
    /// Fires when all of its standard error was read.
    is_read: CancellationToken,
    _log: AbortOnDropHandle<()>,
}

impl Program {
    /// Why there is no connection to it.
    async fn error(&self) -> ConnectError {
        let how = tokio::time::timeout(END_TIME, self.state.ended()).await;
        let reason = match how {
            Ok(how) => {
                // What it started may have the pipe still.
                let _ = tokio::time::timeout(END_TIME, self.is_read.cancelled()).await;
                format!("the program has ended: {}", how.text)
            }
            Err(_) => "the program has closed its standard output".to_owned(),
        };
        ConnectError { reason, last_errors: self.last_errors.get() }
    }
}

impl Link {
    /// Whether it is of the revision without sessions.
    pub(crate) fn is_stateless(&self) -> bool {
        !self.info.protocol_version.has_initialize()
    }

    fn capabilities(&self) -> &ServerCapabilities {
        &self.info.capabilities
    }

    /// Whether resources can be subscribed to.
    pub(crate) fn can_subscribe(&self) -> bool {
        self.capabilities().resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true))
    }

    /// Whether changes of the listing are notified.
    pub(crate) fn notifies_of_listing(&self) -> bool {
        self.capabilities().resources.as_ref().is_some_and(|resources| resources.list_changed == Some(true))
    }

    /// Whether it has resources at all.
    pub(crate) fn has_resources(&self) -> bool {
        self.capabilities().resources.is_some()
    }

    /// Whether it completes.
    pub(crate) fn completes(&self) -> bool {
        self.capabilities().completions.is_some()
    }
}

/// Opens connections.
pub(crate) struct Connector {
    inner: Arc<Inner>,
    pub(crate) runtime: Handle,
}

struct Inner {
    plugin: Plugin,
    name: Arc<str>,
    launcher: Arc<dyn Launcher>,
    log: Arc<dyn ProgramLog>,
    ledger: Arc<Ledger>,
    health: Arc<Health>,
    /// The program that was started last.
    program: Mutex<Option<Arc<Program>>>,
    /// How often the program was started again after it had ended.
    restarts: AtomicU64,
    /// The client of a URL.
    http: Option<HttpClient>,
    decoder: Decoder,
    mapping: Arc<Mapping>,
    updates: Arc<Updates>,
    next_id: AtomicU64,
    current: Mutex<Option<Arc<Link>>>,
    attempts: tokio::sync::Mutex<Attempts>,
}

/// What is known of attempts.
struct Attempts {
    backoff: Backoff,
    /// The last one, if no other may follow before that time.
    failed: Option<(Instant, ConnectError)>,
    opened_at: Option<Instant>,
}

/// What connections are opened with.
#[derive(Clone)]
pub(crate) struct Means {
    /// What starts programs.
    pub(crate) launcher: Arc<dyn Launcher>,
    /// What their standard error goes to.
    pub(crate) log: Arc<dyn ProgramLog>,
    /// What counts them.
    pub(crate) ledger: Arc<Ledger>,
}

impl Connector {
    /// Prepares connections to an upstream, over that client with those credentials, on the current runtime. `holder` is whose
    /// credentials these are, if others have some of their own.
    pub(crate) fn new(
        plugin: &Plugin,
        http: Option<&HttpClient>,
        credentials: Credentials,
        holder: Option<String>,
        means: Means,
    ) -> Result<Self, ConnectError> {
        Self::on(Handle::current(), plugin, http, credentials, holder, means)
    }

    /// The same, on another runtime.
    pub(crate) fn on(
        runtime: Handle,
        plugin: &Plugin,
        http: Option<&HttpClient>,
        credentials: Credentials,
        holder: Option<String>,
        means: Means,
    ) -> Result<Self, ConnectError> {
        let upstream = plugin.upstream.as_ref().ok_or_else(ConnectError::no_upstream)?;
        let updates = Arc::new(Updates::new());
        let memory = usize::try_from(plugin.limits.memory.bytes()).unwrap_or(usize::MAX);
        let decoder = Decoder::new(memory);
        let http = http.map(|client| client.with_credentials(credentials, updates.clone(), decoder));
        let name: Arc<str> = plugin.name.as_str().into();
        let Means { launcher, log, ledger } = means;
        let inner = Inner {
            health: Arc::new(Health::new(name.clone(), holder)),
            name,
            launcher,
            log,
            ledger,
            program: Mutex::default(),
            restarts: AtomicU64::new(0),
            http,
            decoder,
            mapping: Arc::new(Mapping::new(plugin.mount.clone(), upstream.prefix.clone())),
            updates,
            next_id: AtomicU64::new(1),
            current: Mutex::default(),
            attempts: tokio::sync::Mutex::new(Attempts { backoff: new_backoff(), failed: None, opened_at: None }),
            plugin: plugin.clone(),
        };
        Ok(Self { inner: Arc::new(inner), runtime })
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.inner.mapping
    }

    pub(crate) fn updates(&self) -> &Arc<Updates> {
        &self.inner.updates
    }

    /// Returns the connection, which is opened if there is none.
    pub(crate) async fn link(&self) -> Result<Arc<Link>, ConnectError> {
        if let Some(link) = self.inner.open_link() {
            return Ok(link);
        }
        let inner = self.inner.clone();
        // A caller that gives up does not end the attempt, which is for all.
        match self.runtime.spawn(async move { inner.connect().await }).await {
            Ok(link) => link,
            Err(_) => Err(ConnectError::from("the host is shutting down".to_owned())),
        }
    }

    /// Keeps the connection open, and checks it, until the handle is dropped. It begins with the first connection.
    pub(crate) fn watch(&self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.runtime.spawn(self.inner.clone().watch()))
    }

    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.inner.health
    }

    /// The memory of the program, if it is one, in bytes.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.inner.program.lock().as_ref().map(|program| program.state.memory())
    }

    /// The program, if it is one and was started.
    pub(crate) fn program(&self) -> Option<ProgramStatus> {
        let program = self.inner.program.lock().clone()?;
        let state = &program.state;
        let mut status = ProgramStatus::started_at(state.started());
        status.is_running = !state.has_ended();
        status.process = state.process().filter(|_| status.is_running);
        status.restarts = self.inner.restarts.load(Ordering::Relaxed);
        status.usage = state.usage();
        status.limits = state.limits();
        Some(status)
    }

    /// What is counted of the programs of this upstream.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.inner.ledger
    }

    /// The same, as a failure of a provider.
    pub(crate) async fn link_for_call(&self) -> Result<Arc<Link>, Failure> {
        // The reason names hosts and files, which are no matter of clients.
        self.link().await.map_err(|_| Failure::unavailable("the upstream cannot be connected to at the moment"))
    }

    /// The connection, if one is open.
    pub(crate) fn open_link(&self) -> Option<Arc<Link>> {
        self.inner.open_link()
    }

    /// Drops a connection that failed, unless another one has taken its place.
    pub(crate) fn fail(&self, link: &Link) {
        self.inner.fail(link);
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(BACKOFF.0, BACKOFF.1)
}

impl Inner {
    fn open_link(&self) -> Option<Arc<Link>> {
        let is_open = |link: &Arc<Link>| !link.has_ended.load(Ordering::Acquire) && !link.peer.is_transport_closed();
        self.current.lock().clone().filter(is_open)
    }

    async fn connect(&self) -> Result<Arc<Link>, ConnectError> {
        let mut attempts = self.attempts.lock().await;
        if let Some(link) = self.open_link() {
            return Ok(link);
        }
        *self.current.lock() = None;
        let lasted = attempts.opened_at.take().map(|at| at.elapsed());
        let program = self.program.lock().clone();
        let had_program = program.is_some();
        if let Some(program) = program.filter(|_| lasted.is_some()) {
            let ended = program.error().await;
            self.health.failed(&ended.reason);
            if let Some((_, error)) = &mut attempts.failed {
                *error = ended;
            }
        }
        if let Some((until, error)) = attempts.failed.as_ref().filter(|(until, _)| *until > Instant::now()) {
            let left = until.saturating_duration_since(Instant::now());
            let reason = format!("{}; the next attempt is in {left:.1?}", error.reason);
            return Err(ConnectError { reason, ..error.clone() });
        }
        if lasted.is_some_and(|lasted| self.http.is_some() || lasted > LASTING) {
            attempts.backoff = new_backoff();
        }
        match self.open().await {
            Ok(link) => {
                let link = Arc::new(link);
                // A program that ends right after it has begun is not started again at once.
                let pause = attempts.backoff.next_delay();
                attempts.failed = Instant::now()
                    .checked_add(pause)
                    .filter(|_| self.http.is_none())
                    .map(|until| (until, "the program has just been started, and has ended".to_owned().into()));
                attempts.opened_at = Some(Instant::now());
                if had_program {
                    self.restarts.fetch_add(1, Ordering::Relaxed);
                }
                *self.current.lock() = Some(link.clone());
                self.health.answered();
                Ok(link)
            }
            Err(error) => {
                let pause = attempts.backoff.next_delay();
                self.health.failed(&error.reason);
                attempts.failed = Instant::now().checked_add(pause).map(|until| (until, error.clone()));
                Err(error)
            }
        }
    }

    /// Opens a connection whenever there is none, and checks one that is silent. One that is lost soon after it was opened is opened again
    /// with back-off, also if each of them can be opened.
    async fn watch(self: Arc<Self>) {
        let (mut backoff, mut seen) = (new_backoff(), None::<(u64, Instant)>);
        loop {
            if let Some(link) = self.open_link() {
                if seen.is_none_or(|(id, _)| id != link.id) {
                    seen = Some((link.id, Instant::now()));
                }
                tokio::select! {
                    () = self.health.lost() => {}
                    () = tokio::time::sleep(CHECK_INTERVAL) => {
                        if self.health.is_doubtful(CHECK_INTERVAL) {
                            self.check(&link).await;
                        }
                    }
                }
                continue;
            }
            if let Some((_, at)) = seen.take() {
                if at.elapsed() > LASTING {
                    backoff = new_backoff();
                }
                tokio::time::sleep(backoff.next_delay()).await;
            }
            if self.connect().await.is_err() {
                let until = self.attempts.lock().await.failed.as_ref().map(|(until, _)| *until);
                let left = until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default();
                tokio::time::sleep(left.max(MIN_PAUSE)).await;
            }
        }
    }

    /// Asks for something that says nothing.
    async fn check(&self, link: &Link) {
        let request = match link.is_stateless() {
            true => ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams::default())),
            false => {
                ClientRequest::PingRequest(PingRequest { method: Default::default(), extensions: Default::default() })
            }
        };
        let asking = async {
            let handle = link.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
            handle.await_response().await
        };
        match tokio::time::timeout(CHECK_TIMEOUT, asking).await {
            Err(_) => self.health.failed(&format!("the server does not answer within {CHECK_TIMEOUT:?}")),
            Ok(Err(error)) if http::is_outage(&error) => match error.auth_challenge() {
                Some(_) => self.health.failed("the server refuses the credentials of the host"),
                None => self.health.failed(&truncate(with_causes(&error), MAX_REASON)),
            },
            Ok(Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) => self.health.answered(),
            Ok(Err(error)) if http::is_answered(&error) => self.health.answered(),
            // Whether the server is gone is known when another connection was tried.
            Ok(Err(_)) => self.fail(link),
        }
    }

    /// Drops a connection that failed, unless another one has taken its place.
    fn fail(&self, link: &Link) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| current.id == link.id) {
            *current = None;
            self.updates.wake();
            self.health.connection_lost();
        }
    }

    /// Opens a connection, within [`CONNECT_TIMEOUT`].
    async fn open(&self) -> Result<Link, ConnectError> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.negotiate()).await;
        let program = || self.program.lock().clone();
        match opened {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(OpenError::Start(reason))) => Err(truncate(reason, MAX_REASON).into()),
            Ok(Err(OpenError::Handshake(error))) => match program() {
                Some(program) if is_of_transport(&error) => Err(program.error().await),
                program => {
                    let last_errors = program.map(|program| program.last_errors.get()).unwrap_or_default();
                    Err(ConnectError { reason: truncate(reason(&error), MAX_REASON), last_errors })
                }
            },
            Err(_) => {
                let what = match self.http {
                    Some(_) => "the server does not answer",
                    None => "the program does not answer over its standard output",
                };
                let reason = format!(
                    "{what} to `server/discover` or `initialize` within {CONNECT_TIMEOUT:?}; is it an MCP server that is meant for that?"
                );
                let last_errors = program().map(|program| program.last_errors.get()).unwrap_or_default();
                Err(ConnectError { reason, last_errors })
            }
        }
    }

    async fn negotiate(&self) -> Result<Link, OpenError> {
        let preferred_versions = || vec![ProtocolVersion::V_2026_07_28];
        let automatic = ClientLifecycleMode::Auto {
            preferred_versions: preferred_versions(),
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let error = match self.open_as(automatic).await {
            Err(OpenError::Handshake(error)) => *error,
            opened => return opened,
        };
        match error {
            // A program may end when it is asked what it does not know before `initialize`.
            ClientInitializeError::ConnectionClosed(_) if self.http.is_none() => {
                self.open_as(ClientLifecycleMode::Initialize).await
            }
            // It begins so slowly that its answer to the question comes after the time for that.
            ClientInitializeError::ConflictInitResponseId(..) => {
                self.open_as(ClientLifecycleMode::Discover { preferred_versions: preferred_versions() }).await
            }
            error => Err(error.into()),
        }
    }

    async fn open_as(&self, lifecycle: ClientLifecycleMode) -> Result<Link, OpenError> {
        let limits = &self.plugin.limits;
        let response = usize::try_from(limits.response_size.bytes()).unwrap_or(usize::MAX);
        let max_message = response.saturating_add(response.div_euclid(2)).saturating_add(64 * 1024);
        let source = self.plugin.upstream.as_ref().map(|upstream| &upstream.source);
        match (source, &self.http) {
            (Some(UpstreamSource::Url(url)), Some(client)) => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_concurrent_requests(limits.concurrency.get().saturating_add(slots::TOTAL))
                    .max_sse_event_size(max_message);
                config.max_json_response_size = max_message;
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                self.serve(transport, lifecycle, None).await
            }
            (Some(UpstreamSource::Command(command)), _) => {
                let started = self.launcher.launch(&self.plugin, command).await;
                let Launched { stdin, stdout, stderr, running, state } = started.map_err(|error| {
                    OpenError::Start(format!("{} cannot be started: {error}", command.program.display()))
                })?;
                let (last_errors, is_read) = (Arc::<LastLines>::default(), CancellationToken::new());
                let lines = log_lines(stderr, self.log.clone(), last_errors.clone());
                let has_read = is_read.clone().drop_guard();
                let _log = AbortOnDropHandle::new(tokio::spawn(async move {
                    lines.await;
                    drop(has_read);
                }));
                self.ledger.started(state.clone());
                *self.program.lock() = Some(Arc::new(Program { state, last_errors, is_read, _log }));
                let transport = Pipes::new(self.name.clone(), stdout, stdin, max_message, self.decoder);
                self.serve(transport, lifecycle, Some(running)).await
            }
            _ => Err(OpenError::Start("there is no URL and no command".to_owned())),
        }
    }

    async fn serve<T: Transport<RoleClient> + 'static>(
        &self,
        transport: T,
        lifecycle: ClientLifecycleMode,
        program: Option<Box<dyn Send + Sync>>,
    ) -> Result<Link, OpenError> {
        let has_ended = Arc::<AtomicBool>::default();
        let transport =
            Guarded::new(transport, self.name.clone(), self.updates.clone(), self.health.clone(), has_ended.clone());
        let handler = Handler { mapping: self.mapping.clone(), updates: self.updates.clone() };
        // Boxed: the compiler cannot tell that the future of a generic transport may be sent.
        let serving: BoxFuture<'static, Result<RunningService<RoleClient, Handler>, ClientInitializeError>> =
            Box::pin(handler.serve_with_lifecycle(transport, lifecycle));
        let service = serving.await?;
        let peer = service.peer().clone();
        // The host has a cache of its own.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let info = peer.peer_info().ok_or(ClientInitializeError::Cancelled)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        Ok(Link { id, peer, info, has_ended, _service: service, _program: program })
    }
}

/// Why a connection was not opened.
#[derive(Debug)]
enum OpenError {
    /// The program cannot be started.
    Start(String),
    /// The server does not answer as it should.
    Handshake(Box<ClientInitializeError>),
}

impl From<ClientInitializeError> for OpenError {
    fn from(error: ClientInitializeError) -> Self {
        Self::Handshake(Box::new(error))
    }
}

/// Whether a handshake ended with its connection.
fn is_of_transport(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_of_transport(fallback),
        _ => false,
    }
}

/// Why no connection was opened, for an admin.
fn reason(error: &ClientInitializeError) -> String {
    if error.is_authorization_required() {
        return "the server refuses the credentials; set `auth` to a token that it accepts".to_owned();
    }
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => reason(fallback),
        ClientInitializeError::TransportError { error, context } => {
            format!("{}, {context}", with_causes(&*error.error))
        }
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "the server answers with something else than what it is asked".to_owned()
        }
        other => other.to_string(),
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text
}

/// What is done with notifications of a session.
pub(crate) struct Handler {
    mapping: Arc<Mapping>,
    updates: Arc<Updates>,
}

impl ClientHandler for Handler {
    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        if let Ok(path) = self.mapping.path(&params.uri) {
            self.updates.changed(&path);
        }
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.updates.listing_changed();
    }

    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("mcp-host", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
    }
}
