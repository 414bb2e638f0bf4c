//! The connection to an upstream: opened when it is needed, again with back-off after a failure, one attempt at a time.
//!
//! It runs on the runtime that [`Connector::new`] was called on, whoever calls: the engine's threads only send to it. A failure of the
//! transport ends it, and the next call opens another one at once; after a failed attempt calls fail until the back-off is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use mcp_host_base::text::truncate;
use mcp_host_config::grants::CredentialValue;
use mcp_host_config::{Plugin, Secret, UpstreamSource};
use mcp_host_model::net::Scheme;
use mcp_host_model::provider::Failure;
use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, ResourceUpdatedNotificationParam,
    ServerCapabilities, ServerPeerInfo,
};
use rmcp::service::{ClientCacheConfig, ClientInitializeError, NotificationContext, RunningService};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::guard::Guarded;
use crate::http::{Credentials, HttpClient};
use crate::mapping::Mapping;
use crate::process::{Launcher, log_lines};
use crate::updates::Updates;

/// The time for one attempt, with the negotiation of the revision.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The back-off after the first failed attempt, and the longest one.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// A program that ran so long ended for a reason of its own.
const LASTING: Duration = Duration::from_secs(60);
/// The bytes of a reason that are shown.
const MAX_REASON: usize = 1024;

/// Why an upstream cannot be connected to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(String);

/// The HTTP client of an upstream that is a URL.
pub(crate) async fn http_client(plugin: &Plugin) -> Result<Option<HttpClient>, ConnectError> {
    match plugin.upstream.as_ref().map(|upstream| &upstream.source) {
        Some(UpstreamSource::Url(url)) => {
            let is_tls = url.origin().scheme() == Scheme::Https;
            HttpClient::new(is_tls).await.map(Some).map_err(ConnectError)
        }
        _ => Ok(None),
    }
}

/// A value of the config as credentials.
pub(crate) fn fixed(value: &Secret<CredentialValue>) -> Result<Credentials, ConnectError> {
    value.expose().header().map(Credentials::Fixed).map_err(|error| ConnectError(error.to_string()))
}

impl ConnectError {
    pub(crate) fn no_token_client() -> Self {
        Self("this host was built without a client for token endpoints".to_owned())
    }

    pub(crate) fn no_upstream() -> Self {
        Self("the plugin is a component, and no upstream".to_owned())
    }
}

/// An open connection.
pub(crate) struct Link {
    /// Its number: another connection has another one.
    pub(crate) id: u64,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) info: Arc<ServerPeerInfo>,
    /// Ends the connection when it is dropped.
    _service: RunningService<RoleClient, Handler>,
    /// Ends the program when it is dropped.
    _process: Option<(Box<dyn Send + Sync>, AbortOnDropHandle<()>)>,
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
    /// The client of a URL.
    http: Option<HttpClient>,
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
    /// Whether there has been a connection.
    was_open: bool,
}

impl Connector {
    /// Prepares connections to an upstream, over that client with those credentials, on the current runtime.
    pub(crate) fn new(
        plugin: &Plugin,
        http: Option<&HttpClient>,
        credentials: Credentials,
        launcher: Arc<dyn Launcher>,
    ) -> Result<Self, ConnectError> {
        Self::on(Handle::current(), plugin, http, credentials, launcher)
    }

    /// The same, on another runtime.
    pub(crate) fn on(
        runtime: Handle,
        plugin: &Plugin,
        http: Option<&HttpClient>,
        credentials: Credentials,
        launcher: Arc<dyn Launcher>,
    ) -> Result<Self, ConnectError> {
        let upstream = plugin.upstream.as_ref().ok_or_else(ConnectError::no_upstream)?;
        let updates = Arc::new(Updates::new());
        let http = http.map(|client| client.with_credentials(credentials, updates.clone()));
        let inner = Inner {
            name: plugin.name.as_str().into(),
            launcher,
            http,
            mapping: Arc::new(Mapping::new(plugin.mount.clone(), upstream.prefix.clone())),
            updates,
            next_id: AtomicU64::new(1),
            current: Mutex::default(),
            attempts: tokio::sync::Mutex::new(Attempts {
                backoff: new_backoff(),
                failed: None,
                opened_at: None,
                was_open: false,
            }),
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
            Err(_) => Err(ConnectError("the host is shutting down".to_owned())),
        }
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
        let mut current = self.inner.current.lock();
        if current.as_ref().is_some_and(|current| current.id == link.id) {
            *current = None;
            self.inner.updates.wake();
        }
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(BACKOFF.0, BACKOFF.1)
}

impl Inner {
    fn open_link(&self) -> Option<Arc<Link>> {
        self.current.lock().clone().filter(|link| !link.peer.is_transport_closed())
    }

    async fn connect(&self) -> Result<Arc<Link>, ConnectError> {
        let mut attempts = self.attempts.lock().await;
        if let Some(link) = self.open_link() {
            return Ok(link);
        }
        if let Some((until, error)) = attempts.failed.as_ref().filter(|(until, _)| *until > Instant::now()) {
            let left = until.saturating_duration_since(Instant::now());
            return Err(ConnectError(format!("{error}; the next attempt is in {left:.1?}")));
        }
        *self.current.lock() = None;
        let lasted = attempts.opened_at.take().map(|at| at.elapsed());
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
                    .map(|until| (until, ConnectError("the program has just been started, and has ended".to_owned())));
                (attempts.opened_at, attempts.was_open) = (Some(Instant::now()), true);
                *self.current.lock() = Some(link.clone());
                Ok(link)
            }
            Err(error) => {
                let pause = attempts.backoff.next_delay();
                if attempts.was_open {
                    let retry = format!("{pause:.1?}");
                    tracing::warn!(target: log_target::PLUGIN, plugin = &*self.name, %error, retry, "the upstream cannot be connected to any more");
                }
                attempts.failed = Instant::now().checked_add(pause).map(|until| (until, error.clone()));
                Err(error)
            }
        }
    }

    async fn open(&self) -> Result<Link, ConnectError> {
        let preferred_versions = || vec![ProtocolVersion::V_2026_07_28];
        let automatic = ClientLifecycleMode::Auto {
            preferred_versions: preferred_versions(),
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        match self.attempt(automatic).await {
            // A program may end, or be silent, when it is asked what it does not know before `initialize`.
            Err(ClientInitializeError::ConnectionClosed(_)) if self.http.is_none() => {
                self.attempt(ClientLifecycleMode::Initialize).await
            }
            // It begins so slowly that its answer to the question comes after the time for that.
            Err(ClientInitializeError::ConflictInitResponseId(..)) => {
                self.attempt(ClientLifecycleMode::Discover { preferred_versions: preferred_versions() }).await
            }
            opened => opened,
        }
        .map_err(|error| ConnectError(truncate(reason(&error), MAX_REASON)))
    }

    /// One attempt, within [`CONNECT_TIMEOUT`].
    async fn attempt(&self, lifecycle: ClientLifecycleMode) -> Result<Link, ClientInitializeError> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.open_as(lifecycle)).await {
            Ok(opened) => opened,
            Err(_) => Err(ClientInitializeError::ConnectionClosed(format!("no answer within {CONNECT_TIMEOUT:?}"))),
        }
    }

    async fn open_as(&self, lifecycle: ClientLifecycleMode) -> Result<Link, ClientInitializeError> {
        let limits = &self.plugin.limits;
        let response = usize::try_from(limits.response_size.bytes()).unwrap_or(usize::MAX);
        let max_message = response.saturating_add(response.div_euclid(2)).saturating_add(64 * 1024);
        let source = self.plugin.upstream.as_ref().map(|upstream| &upstream.source);
        match (source, &self.http) {
            (Some(UpstreamSource::Url(url)), Some(client)) => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_concurrent_requests(limits.concurrency.get())
                    .max_sse_event_size(max_message);
                config.max_json_response_size = max_message;
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                self.serve(transport, lifecycle, None).await
            }
            (Some(UpstreamSource::Command(command)), _) => {
                let started = self.launcher.launch(&self.plugin, command).await;
                let launched = started.map_err(|error| {
                    ClientInitializeError::ConnectionClosed(format!(
                        "{} cannot be started: {error}",
                        command.program.display()
                    ))
                })?;
                let lines = log_lines(launched.stderr, self.name.clone(), limits.log.bytes_per_minute());
                let log = AbortOnDropHandle::new(tokio::spawn(lines));
                let transport =
                    AsyncRwTransport::new_client(launched.stdout, launched.stdin).with_max_line_length(max_message);
                self.serve(transport, lifecycle, Some((launched.running, log))).await
            }
            _ => Err(ClientInitializeError::ConnectionClosed("there is no URL and no command".to_owned())),
        }
    }

    async fn serve<T: Transport<RoleClient> + 'static>(
        &self,
        transport: T,
        lifecycle: ClientLifecycleMode,
        process: Option<(Box<dyn Send + Sync>, AbortOnDropHandle<()>)>,
    ) -> Result<Link, ClientInitializeError> {
        let transport = Guarded::new(transport, self.name.clone(), self.updates.clone());
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
        Ok(Link { id, peer, info, _service: service, _process: process })
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
