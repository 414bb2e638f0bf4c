//! One attempt to connect to an upstream: starts the program or connects to the URL, and negotiates the revision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use mcp_host_base::task;
use mcp_host_base::text::truncate;
use mcp_host_config::{Plugin, UpstreamSource};
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, ResourceUpdatedNotificationParam,
    ServerCapabilities, ServerPeerInfo,
};
use rmcp::service::{ClientCacheConfig, ClientInitializeError, NotificationContext, RunningService};
use rmcp::transport::Transport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::error::{ConnectError, MAX_REASON, OpenError, is_of_transport, reason};
use crate::guard::{Allowance, Buckets, Cancellations, Excess, Guarded};
use crate::health::Health;
use crate::http::{HttpClient, MAX_RETRY};
use crate::mapping::Mapping;
use crate::message::{Decoder, max_message};
use crate::pipes::Pipes;
use crate::process::{LastLines, Launched, Launcher, Ledger, ProgramLog, ProgramState, log_lines};
use crate::slots;
use crate::updates::Updates;

/// The timeout of opening a connection. It includes the start of the program, a second start if the program ends at the
/// first request, and the negotiation of the revision.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time to wait for the end of a program, which is killed after two to two and a half seconds, and for its
/// last lines.
const END_TIME: Duration = Duration::from_secs(3);

/// An open connection.
pub(crate) struct Link {
    /// The number of the connection. Numbers are not reused.
    pub(crate) id: u64,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) info: Arc<ServerPeerInfo>,
    /// Whether the transport has ended.
    has_ended: Arc<AtomicBool>,
    pub(super) allowance: Arc<Allowance>,
    /// Ends the connection when it is dropped.
    _service: RunningService<RoleClient, Handler>,
    /// Ends the program when it is dropped.
    _program: Option<Box<dyn Send + Sync>>,
}

impl Link {
    /// Returns whether the connection has the revision without sessions.
    pub(crate) fn is_stateless(&self) -> bool {
        !self.info.protocol_version.has_initialize()
    }

    /// Returns whether neither the transport nor the host has ended the connection.
    pub(super) fn is_open(&self) -> bool {
        !self.has_ended.load(Ordering::Acquire) && self.excess().is_none() && !self.peer.is_transport_closed()
    }

    /// Returns why the host ended the connection, if the server sent too much.
    pub(super) fn excess(&self) -> Option<Excess> {
        self.allowance.excess()
    }

    fn capabilities(&self) -> &ServerCapabilities {
        &self.info.capabilities
    }

    /// Returns whether the server supports subscriptions to resources.
    pub(crate) fn can_subscribe(&self) -> bool {
        self.capabilities().resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true))
    }

    /// Returns whether the server notifies of changes of the listing.
    pub(crate) fn notifies_of_listing(&self) -> bool {
        self.capabilities().resources.as_ref().is_some_and(|resources| resources.list_changed == Some(true))
    }

    /// Returns whether the server has resources.
    pub(crate) fn has_resources(&self) -> bool {
        self.capabilities().resources.is_some()
    }

    /// Returns whether the server supports completion.
    pub(crate) fn completes(&self) -> bool {
        self.capabilities().completions.is_some()
    }
}

/// A started program, which may have ended.
pub(super) struct Program {
    pub(super) state: Arc<ProgramState>,
    last_errors: Arc<LastLines>,
    /// Cancelled when all of the program's standard error was read.
    is_read: CancellationToken,
    _log: AbortOnDropHandle<()>,
}

impl Program {
    /// Returns why there is no connection to the program.
    pub(super) async fn error(&self) -> ConnectError {
        let how = tokio::time::timeout(END_TIME, self.state.ended()).await;
        let reason = match how {
            Ok(how) => {
                // A process that the program started may still hold the pipe.
                let _ = tokio::time::timeout(END_TIME, self.is_read.cancelled()).await;
                format!("the program has ended: {}", how.text)
            }
            Err(_) => "the program has closed its standard output".to_owned(),
        };
        ConnectError { reason, last_errors: self.last_errors.get() }
    }
}

/// The dependencies of connections.
#[derive(Clone)]
pub(crate) struct Means {
    /// Starts programs.
    pub(crate) launcher: Arc<dyn Launcher>,
    /// Receives the standard error of programs.
    pub(crate) log: Arc<dyn ProgramLog>,
    /// Counts the starts and ends of programs.
    pub(crate) ledger: Arc<Ledger>,
    /// The token buckets of all identities together.
    pub(crate) buckets: Arc<Buckets>,
    /// A permit for each program that has not ended.
    pub(crate) programs: Arc<Semaphore>,
}

/// Opens the connections of one upstream.
pub(super) struct Opener {
    plugin: Plugin,
    name: Arc<str>,
    means: Means,
    health: Arc<Health>,
    /// The last started program.
    program: Mutex<Option<Arc<Program>>>,
    /// The HTTP client, if the upstream is a URL.
    http: Option<HttpClient>,
    decoder: Decoder,
    mapping: Arc<Mapping>,
    updates: Arc<Updates>,
    /// The token buckets of all connections, one after another.
    buckets: Arc<Buckets>,
    next_id: AtomicU64,
}

impl Opener {
    /// Prepares connections to the upstream `plugin`. `http` returns the HTTP client for a URL, which records its
    /// updates, and decodes its messages, with these arguments.
    pub(super) fn new(
        plugin: &Plugin,
        http: impl FnOnce(Arc<Updates>, Decoder) -> Option<HttpClient>,
        holder: Option<String>,
        means: Means,
    ) -> Result<Self, ConnectError> {
        let upstream = plugin.upstream.as_ref().ok_or_else(ConnectError::no_upstream)?;
        let updates = Arc::new(Updates::new());
        let decoder = Decoder::new(usize::try_from(plugin.limits.memory.bytes()).unwrap_or(usize::MAX));
        let name: Arc<str> = plugin.name.as_str().into();
        Ok(Self {
            health: Arc::new(Health::new(name.clone(), holder)),
            name,
            buckets: Buckets::of_identity(means.buckets.clone()),
            means,
            program: Mutex::default(),
            http: http(updates.clone(), decoder),
            decoder,
            mapping: Arc::new(Mapping::new(plugin.mount.clone(), upstream.prefix.clone())),
            updates,
            next_id: AtomicU64::new(1),
            plugin: plugin.clone(),
        })
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    pub(super) fn updates(&self) -> &Arc<Updates> {
        &self.updates
    }

    pub(super) fn health(&self) -> &Arc<Health> {
        &self.health
    }

    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        &self.means.ledger
    }

    /// Returns the last started program, running or not.
    pub(super) fn program(&self) -> Option<Arc<Program>> {
        self.program.lock().clone()
    }

    /// Opens a connection, within [`CONNECT_TIMEOUT`].
    pub(super) async fn open(&self) -> Result<Link, ConnectError> {
        let waits_for_permit = AtomicBool::new(false);
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.negotiate(&waits_for_permit)).await;
        match opened {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(OpenError::Start(reason))) => Err(truncate(reason, MAX_REASON).into()),
            Ok(Err(OpenError::Excess(excess))) => Err(excess.to_string().into()),
            Ok(Err(OpenError::Handshake(error))) => match self.program() {
                Some(program) if is_of_transport(&error) => Err(program.error().await),
                program => {
                    let last_errors = program.map(|program| program.last_errors.get()).unwrap_or_default();
                    Err(ConnectError { reason: truncate(reason(&error, &self.plugin), MAX_REASON), last_errors })
                }
            },
            Err(_) if waits_for_permit.load(Ordering::Relaxed) => {
                let reason = format!(
                    "the program was not started: other programs of the upstream have not ended within {CONNECT_TIMEOUT:?}"
                );
                Err(reason.into())
            }
            Err(_) => {
                let what = match self.http {
                    Some(_) => "the server does not answer",
                    None => "the program does not answer over its standard output",
                };
                let reason = format!(
                    "{what} to `server/discover` or `initialize` within {CONNECT_TIMEOUT:?}; is it an MCP server that is meant for that?"
                );
                let last_errors = self.program().map(|program| program.last_errors.get()).unwrap_or_default();
                Err(ConnectError { reason, last_errors })
            }
        }
    }

    /// Opens a connection with the newest revision that both sides support. `waits_for_permit` is set while its program
    /// waits for the end of others.
    async fn negotiate(&self, waits_for_permit: &AtomicBool) -> Result<Link, OpenError> {
        let preferred_versions = || vec![ProtocolVersion::V_2026_07_28];
        let automatic = ClientLifecycleMode::Auto {
            preferred_versions: preferred_versions(),
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let error = match self.open_as(automatic, waits_for_permit).await {
            Err(OpenError::Handshake(error)) => *error,
            opened => return opened,
        };
        match error {
            // A program may end at an unknown request before `initialize`.
            ClientInitializeError::ConnectionClosed(_) if self.http.is_none() => {
                self.open_as(ClientLifecycleMode::Initialize, waits_for_permit).await
            }
            // The program starts so slowly that its answer arrives after the timeout of the first request.
            ClientInitializeError::ConflictInitResponseId(..) => {
                let discover = ClientLifecycleMode::Discover { preferred_versions: preferred_versions() };
                self.open_as(discover, waits_for_permit).await
            }
            error => Err(error.into()),
        }
    }

    /// Makes one attempt to negotiate a revision, with a new program.
    async fn open_as(&self, lifecycle: ClientLifecycleMode, waits_for_permit: &AtomicBool) -> Result<Link, OpenError> {
        let limits = &self.plugin.limits;
        let max_message = max_message(limits);
        let source = self.plugin.upstream.as_ref().map(|upstream| &upstream.source);
        let allowance = Arc::new(Allowance::new(self.buckets.clone()));
        let cancellations = Arc::<Cancellations>::default();
        match (source, &self.http) {
            (Some(UpstreamSource::Url(url)), Some(client)) => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_concurrent_requests(limits.concurrency.get().saturating_add(slots::TOTAL))
                    .max_sse_event_size(max_message);
                config.max_json_response_size = max_message;
                let mut retry = ExponentialBackoff::default();
                retry.max_delay = Some(MAX_RETRY);
                config.retry_config = Arc::new(retry);
                client.begin_connection(allowance.clone(), cancellations.clone());
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                self.serve(transport, allowance, cancellations, lifecycle, None).await
            }
            (Some(UpstreamSource::Command(command)), _) => {
                // Waits for the end of other programs, within the time of the attempt.
                waits_for_permit.store(true, Ordering::Relaxed);
                let permit = self.means.programs.clone().acquire_owned().await;
                waits_for_permit.store(false, Ordering::Relaxed);
                let started = self.means.launcher.launch(&self.plugin, command).await;
                let Launched { stdin, stdout, stderr, running, state } = started.map_err(|error| {
                    OpenError::Start(format!("{} cannot be started: {error}", command.program.display()))
                })?;
                let (last_errors, is_read) = (Arc::<LastLines>::default(), CancellationToken::new());
                let lines = log_lines(stderr, self.means.log.clone(), last_errors.clone());
                let has_read = is_read.clone().drop_guard();
                let _log = AbortOnDropHandle::new(task::spawn(async move {
                    lines.await;
                    drop(has_read);
                }));
                self.means.ledger.started(state.clone());
                let running_state = state.clone();
                task::spawn(async move {
                    running_state.ended().await;
                    drop(permit);
                });
                *self.program.lock() = Some(Arc::new(Program { state, last_errors, is_read, _log }));
                let (name, decoder) = (self.name.clone(), self.decoder);
                let transport = Pipes::new(name, stdout, stdin, max_message, decoder, allowance.clone());
                self.serve(transport, allowance, cancellations, lifecycle, Some(running)).await
            }
            _ => Err(OpenError::Start("there is no URL and no command".to_owned())),
        }
    }

    /// Negotiates the revision over a transport.
    async fn serve<T: Transport<RoleClient> + 'static>(
        &self,
        transport: T,
        allowance: Arc<Allowance>,
        cancellations: Arc<Cancellations>,
        lifecycle: ClientLifecycleMode,
        program: Option<Box<dyn Send + Sync>>,
    ) -> Result<Link, OpenError> {
        let has_ended = Arc::<AtomicBool>::default();
        let (updates, health) = (self.updates.clone(), self.health.clone());
        let transport = Guarded::new(transport, allowance.clone(), cancellations, updates, health, has_ended.clone());
        let handler = Handler { mapping: self.mapping.clone(), updates: self.updates.clone() };
        // Boxed: the compiler cannot tell that the future of a generic transport may be sent.
        let serving: BoxFuture<'static, Result<RunningService<RoleClient, Handler>, ClientInitializeError>> =
            Box::pin(handler.serve_with_lifecycle(transport, lifecycle));
        let service = serving.await.map_err(|error| match allowance.excess() {
            Some(excess) => OpenError::Excess(excess),
            None => error.into(),
        })?;
        let peer = service.peer().clone();
        // The host has its own cache.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let info = peer.peer_info().ok_or(ClientInitializeError::Cancelled)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        Ok(Link { id, peer, info, has_ended, allowance, _service: service, _program: program })
    }
}

/// Handles the notifications of a session.
struct Handler {
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use mcp_host_config::{Config, Environment, UpstreamCommand};
    use mcp_host_model::provider::async_trait;

    use super::*;

    /// Starts no program.
    #[derive(Debug)]
    struct NoProgram;

    #[async_trait]
    impl Launcher for NoProgram {
        async fn launch(&self, _: &Plugin, _: &UpstreamCommand) -> io::Result<Launched> {
            Err(io::Error::other("none is started here"))
        }
    }

    /// Returns why there is no connection if this many programs may start.
    async fn reason_with(programs: usize) -> String {
        let text = "[[upstream]]\nname = 'up'\ncommand = ['/bin/sh']\nsandbox = 'none'\nmount = 'up+'";
        let config = Config::parse_in(text, Path::new("/etc/mcp-host.toml"), &Environment::empty()).unwrap();
        let means = Means {
            launcher: Arc::new(NoProgram),
            log: Arc::new(()),
            ledger: Arc::default(),
            buckets: Arc::default(),
            programs: Arc::new(Semaphore::new(programs)),
        };
        let opener = Opener::new(&config.plugins[0], |_, _| None, None, means).unwrap();
        let Err(error) = opener.open().await else { panic!("there is no program") };
        error.reason
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_waits_for_the_end_of_others_is_not_said_to_be_silent() {
        let reason = reason_with(0).await;
        assert!(reason.contains("other programs of the upstream have not ended within 30s"), "{reason}");
        let reason = reason_with(1).await;
        assert!(reason.contains("cannot be started: none is started here"), "{reason}");
    }
}
