//! The connection to an upstream: opened lazily, and again with back-off after a failure. Attempts are a single flight.
//!
//! The connection runs on the runtime on which [`Connector::new`] was called, whatever the caller: the engine's threads
//! only send to it. A failure of the transport ends the connection. The next call opens another one, but not before the
//! back-off since the last opening ends. If a request has failed, a URL is opened again immediately. After a failed
//! attempt, and after a connection that the host ended because the server sent too much ([`guard`](crate::guard)),
//! calls fail until the back-off ends. A connection that lasted for [`LASTING`] resets it.
//!
//! A connection that is [watched](Connector::watch) is opened again without a call. Health check: a connection that has
//! been silent for [`CHECK_INTERVAL`], or on which the HTTP exchange of one request failed, gets a request without side
//! effects: `ping`, or without sessions `server/discover`. So [`health`](crate::health) knows whether the server is
//! reachable, and a request on which the server fails does not end the connection of all. An administrator's
//! [reset](Connector::reset) ends the back-off.

mod error;
mod opener;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcp_host_base::backoff::Backoff;
use mcp_host_base::text::{truncate, with_causes};
use mcp_host_config::grants::CredentialValue;
use mcp_host_config::{Plugin, Secret, UpstreamSource};
use mcp_host_model::net::Scheme;
use mcp_host_model::provider::{Failure, Program as ProgramStatus};
use parking_lot::Mutex;
use rmcp::model::{ClientRequest, DiscoverRequest, DiscoverRequestParams, PingRequest};
use rmcp::service::{PeerRequestOptions, ServiceError};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::AbortOnDropHandle;

pub use self::error::ConnectError;
pub(crate) use self::opener::{Link, Means};

use self::error::MAX_REASON;
use self::opener::{Opener, Program};
use crate::guard::Allowance;
use crate::health::Health;
use crate::http::{self, Credentials, HttpClient};
use crate::mapping::Mapping;
use crate::process::Ledger;
use crate::updates::Updates;

/// The time after which a connection without answers is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The timeout of this check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time for sending the cancellation of a check without an answer.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// The minimum time between two attempts of the watch.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// The back-off after the first failed attempt, and its maximum.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// The lifetime of a program or connection from which on its end resets the back-off.
const LASTING: Duration = Duration::from_secs(60);

/// Returns the HTTP client of an upstream that is a URL.
pub(crate) async fn http_client(plugin: &Plugin) -> Result<Option<HttpClient>, ConnectError> {
    match plugin.upstream.as_ref().map(|upstream| &upstream.source) {
        Some(UpstreamSource::Url(url)) => {
            let is_tls = url.origin().scheme() == Scheme::Https;
            HttpClient::new(is_tls).await.map(Some).map_err(ConnectError::from)
        }
        _ => Ok(None),
    }
}

/// Converts a value of the config into credentials.
pub(crate) fn fixed(value: &Secret<CredentialValue>) -> Result<Credentials, ConnectError> {
    value.expose().header().map(Credentials::Fixed).map_err(|error| error.to_string().into())
}

/// Opens the connections of one upstream, and keeps the current one.
pub(crate) struct Connector {
    inner: Arc<Inner>,
    pub(crate) runtime: Handle,
}

struct Inner {
    opener: Opener,
    /// The number of restarts of the program.
    restarts: AtomicU64,
    current: Mutex<Option<Arc<Link>>>,
    attempts: tokio::sync::Mutex<Attempts>,
    /// Notified when the back-off was reset.
    reset: Notify,
    /// Permits one check of a connection on which the exchange of a request failed.
    doubts: Arc<Semaphore>,
}

/// The state of the attempts to connect.
struct Attempts {
    backoff: Backoff,
    /// The last error, and the time before which no other attempt is made.
    failed: Option<(Instant, ConnectError)>,
    opened: Option<Opened>,
}

/// The last opened connection, also after a request has failed on it.
struct Opened {
    at: Instant,
    allowance: Arc<Allowance>,
}

impl Connector {
    /// Prepares connections to an upstream with this client and these credentials, on the current runtime. `holder` is
    /// the holder of the credentials, if other holders have their own credentials.
    pub(crate) fn new(
        plugin: &Plugin,
        http: Option<&HttpClient>,
        credentials: Credentials,
        holder: Option<String>,
        means: Means,
    ) -> Result<Self, ConnectError> {
        Self::on(Handle::current(), plugin, http, credentials, holder, means)
    }

    /// Like [`new`](Self::new), on another runtime.
    pub(crate) fn on(
        runtime: Handle,
        plugin: &Plugin,
        http: Option<&HttpClient>,
        credentials: Credentials,
        holder: Option<String>,
        means: Means,
    ) -> Result<Self, ConnectError> {
        let http = |updates, decoder| http.map(|client| client.with_credentials(credentials, updates, decoder));
        let inner = Inner {
            opener: Opener::new(plugin, http, holder, means)?,
            restarts: AtomicU64::new(0),
            current: Mutex::default(),
            attempts: tokio::sync::Mutex::new(Attempts { backoff: new_backoff(), failed: None, opened: None }),
            reset: Notify::new(),
            doubts: Arc::new(Semaphore::new(1)),
        };
        Ok(Self { inner: Arc::new(inner), runtime })
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        self.inner.opener.mapping()
    }

    pub(crate) fn updates(&self) -> &Arc<Updates> {
        self.inner.opener.updates()
    }

    /// Returns the current connection. Opens one if there is none.
    pub(crate) async fn link(&self) -> Result<Arc<Link>, ConnectError> {
        if let Some(link) = self.inner.open_link() {
            return Ok(link);
        }
        let inner = self.inner.clone();
        // The attempt is for all callers, so it continues if this caller gives up.
        match self.runtime.spawn(async move { inner.connect().await }).await {
            Ok(link) => link,
            Err(_) => Err(ConnectError::from("the host is shutting down".to_owned())),
        }
    }

    /// Keeps the connection open, and checks it, until the handle is dropped. Opens the first connection, too.
    pub(crate) fn watch(&self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.runtime.spawn(self.inner.clone().watch()))
    }

    /// Ends the back-off. If the connection is [watched](Self::watch), it is opened, or checked, immediately; an
    /// attempt in progress ends first.
    pub(crate) fn reset(&self) {
        let inner = self.inner.clone();
        self.runtime.spawn(async move {
            let mut attempts = inner.attempts.lock().await;
            (attempts.backoff, attempts.failed) = (new_backoff(), None);
            drop(attempts);
            inner.reset.notify_one();
        });
    }

    pub(crate) fn health(&self) -> &Arc<Health> {
        self.inner.opener.health()
    }

    /// Returns the memory of the program in bytes, if the upstream is a program.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.inner.opener.program().map(|program| program.state.memory())
    }

    /// Returns the status of the program, if the upstream is a program that was started.
    pub(crate) fn program(&self) -> Option<ProgramStatus> {
        let program = self.inner.opener.program()?;
        let state = &program.state;
        let mut status = ProgramStatus::started_at(state.started());
        status.is_running = !state.has_ended();
        status.process = state.process().filter(|_| status.is_running);
        status.restarts = self.inner.restarts.load(Ordering::Relaxed);
        status.usage = state.usage();
        status.limits = state.limits();
        Some(status)
    }

    /// Returns the counters of this upstream's programs.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        self.inner.opener.ledger()
    }

    /// Like [`link`](Self::link), with the error as a failure of a provider.
    pub(crate) async fn link_for_call(&self) -> Result<Arc<Link>, Failure> {
        // The reason contains names of hosts and files, which clients must not see.
        self.link().await.map_err(|_| Failure::unavailable("the upstream cannot be connected to at the moment"))
    }

    /// Returns the connection, if one is open.
    pub(crate) fn open_link(&self) -> Option<Arc<Link>> {
        self.inner.open_link()
    }

    /// Drops a failed connection, unless it was already replaced.
    pub(crate) fn fail(&self, link: &Link) {
        self.inner.fail(link);
    }

    /// Checks a connection on which the exchange of a request failed, unless one is being checked. It is dropped if the
    /// check fails, too.
    pub(crate) fn doubt(&self, link: &Link) {
        if !link.is_open() {
            return self.inner.fail(link);
        }
        let Ok(permit) = self.inner.doubts.clone().try_acquire_owned() else { return };
        let inner = self.inner.clone();
        self.runtime.spawn(async move {
            let _permit = permit;
            if let Some(link) = inner.open_link() {
                inner.check(&link).await;
            }
        });
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(BACKOFF.0, BACKOFF.1)
}

impl Inner {
    fn open_link(&self) -> Option<Arc<Link>> {
        self.current.lock().clone().filter(|link| link.is_open())
    }

    /// Returns whether the host ended the connection, because the server sent too much.
    fn has_excess(&self) -> bool {
        self.current.lock().as_ref().is_some_and(|link| link.excess().is_some())
    }

    async fn connect(&self) -> Result<Arc<Link>, ConnectError> {
        let mut attempts = self.attempts.lock().await;
        if let Some(link) = self.open_link() {
            return Ok(link);
        }
        let ended = self.current.lock().take();
        let program = self.opener.program();
        let had_program = program.is_some();
        if let Some(opened) = attempts.opened.take() {
            self.lost(&mut attempts, &opened, ended, program).await;
        }
        if let Some((until, error)) = attempts.failed.as_ref().filter(|(until, _)| *until > Instant::now()) {
            let left = until.saturating_duration_since(Instant::now());
            let reason = format!("{}; the next attempt is in {left:.1?}", error.reason);
            return Err(ConnectError { reason, ..error.clone() });
        }
        match self.opener.open().await {
            Ok(link) => {
                let link = Arc::new(link);
                attempts.failed = None;
                attempts.opened = Some(Opened { at: Instant::now(), allowance: link.allowance.clone() });
                if had_program {
                    self.restarts.fetch_add(1, Ordering::Relaxed);
                }
                *self.current.lock() = Some(link.clone());
                self.opener.health().answered();
                Ok(link)
            }
            Err(error) => {
                let pause = attempts.backoff.next_delay();
                self.opener.health().failed(&error.reason);
                attempts.failed = Instant::now().checked_add(pause).map(|until| (until, error.clone()));
                Err(error)
            }
        }
    }

    /// Determines the time before which a connection is not opened again. `ended` is the connection, unless it was
    /// dropped because a request failed: then a URL is opened again immediately, so that one request does not harm the
    /// following ones. After an excess there is a back-off in both cases.
    async fn lost(
        &self,
        attempts: &mut Attempts,
        opened: &Opened,
        ended: Option<Arc<Link>>,
        program: Option<Arc<Program>>,
    ) {
        if opened.at.elapsed() > LASTING {
            attempts.backoff = new_backoff();
        }
        let excess = opened.allowance.excess();
        let (has_ended, is_program) = (ended.is_some(), program.is_some());
        // Ends the program.
        drop(ended);
        let mut error = match program {
            Some(program) => program.error().await,
            None if has_ended || excess.is_some() => ConnectError::from("the connection has ended".to_owned()),
            None => return,
        };
        if let Some(excess) = excess {
            error.reason = excess.to_string();
        }
        if is_program || excess.is_some() {
            self.opener.health().failed(&error.reason);
        }
        // An excess is a failed attempt. Otherwise the back-off delays the next start of a program that ends right
        // after its start.
        let from = if excess.is_some() { Instant::now() } else { opened.at };
        attempts.failed = from.checked_add(attempts.backoff.next_delay()).map(|until| (until, error));
    }

    /// Opens a connection whenever there is none, and checks a silent one. If connections are lost soon after they were
    /// opened, they are opened again with back-off, even if every attempt succeeds.
    async fn watch(self: Arc<Self>) {
        let (mut backoff, mut seen) = (new_backoff(), None::<(u64, Instant)>);
        loop {
            if let Some(link) = self.open_link() {
                if seen.is_none_or(|(id, _)| id != link.id) {
                    seen = Some((link.id, Instant::now()));
                }
                tokio::select! {
                    () = self.opener.health().lost() => {}
                    () = self.reset.notified() => self.check(&link).await,
                    () = tokio::time::sleep(CHECK_INTERVAL) => {
                        if self.opener.health().is_doubtful(CHECK_INTERVAL) {
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
                let delay = backoff.next_delay();
                // After an excess, the back-off of attempts delays the next one.
                if !self.has_excess() && self.pause(delay).await {
                    backoff = new_backoff();
                }
            }
            if self.connect().await.is_err() {
                let until = self.attempts.lock().await.failed.as_ref().map(|(until, _)| *until);
                let left = until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default();
                if self.pause(left.max(MIN_PAUSE)).await {
                    backoff = new_backoff();
                }
            }
        }
    }

    /// Waits for this time, or until the back-off is reset. Returns whether it was reset.
    async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => false,
            () = self.reset.notified() => true,
        }
    }

    /// Sends a request without side effects, and updates the health.
    async fn check(&self, link: &Link) {
        let request = match link.is_stateless() {
            true => ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams::default())),
            false => {
                ClientRequest::PingRequest(PingRequest { method: Default::default(), extensions: Default::default() })
            }
        };
        // The timeout cancels the request. Otherwise a server that never answers would have ever more exchanges, until
        // there is no capacity for another.
        let options = PeerRequestOptions::with_timeout(CHECK_TIMEOUT);
        let asking = async { link.peer.send_cancellable_request(request, options).await?.await_response().await };
        match tokio::time::timeout(CHECK_TIMEOUT.saturating_add(CANCEL_TIMEOUT), asking).await {
            Err(_) | Ok(Err(ServiceError::Timeout { .. })) => {
                self.opener.health().failed(&format!("the server does not answer within {CHECK_TIMEOUT:?}"))
            }
            Ok(Err(error)) if http::is_outage(&error) => match error.auth_challenge() {
                Some(_) => self.opener.health().failed("the server refuses the credentials of the host"),
                None => self.opener.health().failed(&truncate(with_causes(&error), MAX_REASON)),
            },
            Ok(Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) => {
                self.opener.health().answered()
            }
            Ok(Err(error)) if http::is_answered(&error) => self.opener.health().answered(),
            // Only another attempt to connect determines whether the server is reachable.
            Ok(Err(_)) => self.fail(link),
        }
    }

    /// Drops a failed connection, unless it was already replaced. One that has ended is kept, because
    /// [`lost`](Self::lost) depends on why.
    fn fail(&self, link: &Link) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| current.id == link.id) {
            if link.is_open() {
                *current = None;
            }
            self.opener.updates().wake();
            self.opener.health().connection_lost();
        }
    }
}
