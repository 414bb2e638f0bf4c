//! The sessions of revisions with sessions, from `initialize` to their end.
//!
//! A session begins before `initialize` is answered, so it counts towards the limits even if the answer is lost. It
//! ends when its client deletes it, when it has been idle for [too
//! long](mcp_host_config::http::HttpServerLimits::session_idle_timeout), when there are [too
//! many](mcp_host_config::http::HttpServerLimits::sessions), or with the server. Its subscriptions end with it.
//!
//! A session id is 128 random bits. A session is bound to the principal that opened it: for other principals it does
//! not exist. If a request of the same principal has other groups, as with a renewed access token, the subscriptions
//! get these groups, and the event stream ends: a stream delivers only what its own token may see.
//!
//! In a cluster the session id ends with a part of the replica's id. By default a session stays at its replica, and the
//! load balancer sends its requests there (sticky sessions). If another replica gets such a request, because of a wrong
//! or failing balancer, it answers 503 with `Retry-After` while the session's replica is alive or NATS is unreachable:
//! with 404 the client would give the session up ([`missing`]). With `cluster.sessions = "shared"` any replica
//! continues a session: [`replicated`].
//!
//! An open [event stream](super::session_stream) counts as a request in flight, so a client that only waits for
//! notifications is never idle. Nothing of a request is retained after it is answered or cancelled.

mod background;
mod deletions;
mod eviction;
mod missing;
mod replicated;
mod shared;
mod stored;
mod subscriptions;

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::response::Response;
use mcp_host_base::log_target;
use mcp_host_base::share_limiter::{LimitReached, ShareLimiter, SharePermit};
use mcp_host_base::task;
use mcp_resource_host::audit::SessionHash;
use mcp_resource_host::host::Host;
use parking_lot::{Mutex, MutexGuard};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::eviction::{Among, ById, Candidates};
use self::replicated::Replication;
use self::shared::SharedCopy;
use self::stored::{StoredSession, Usage};
use super::authentication::Authenticated;
use super::request_source::RequestSource;
use super::response::unavailable;
use crate::client_id::ClientId;
use crate::in_flight::InFlight;
use crate::server_metrics::{ServerMetrics, Transport};
use crate::session::{Agreement, Session};

pub(super) use self::missing::{Missing, session_id};
pub(super) use self::shared::{Change, ShareError};
pub(super) use self::stored::SessionGuard;

/// The maximum interval between two sweeps for idle sessions, because a reload may have changed the timeout.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// The minimum pause between two sweeps, which visit all sessions while the store is locked: thousands of sessions may
/// expire one after another.
const MIN_SWEEP_PAUSE: Duration = Duration::from_millis(100);
/// The number of bytes in a session id, before hexadecimal encoding.
const SESSION_ID_BYTES: usize = 16;

/// The maximum number of sessions that are tried for an eviction, because too many deletions of their clients' records
/// wait.
const MAX_TRIED: usize = 64;

/// The number of hexadecimal digits of a replica's id in the ids of its sessions.
const REPLICA_DIGITS: usize = 16;

/// All sessions of a server.
pub(super) struct Sessions {
    host: Arc<Host>,
    by_id: Mutex<ById>,
    /// The next sessions to evict. Locked while the sessions are.
    candidates: Mutex<Candidates>,
    /// The number of sessions of each client.
    limiter: ShareLimiter<ClientId>,
    /// The source of session ids.
    random: SystemRandom,
    /// The task that ends idle sessions, started with the first session.
    reaper: OnceLock<AbortOnDropHandle<()>>,
    /// Ends the event streams of all sessions.
    streams: CancellationToken,
    /// The replication of sessions. None if sessions stay at their replica.
    replication: Option<Replication>,
}

/// A session that has made room for another one.
struct Evicted {
    session: Arc<StoredSession>,
    /// The permit to delete its record. None if there is none.
    deletion: Option<SharePermit<ClientId>>,
}

impl Sessions {
    /// Creates an empty store. `streams` ends the event streams of all sessions.
    pub(super) fn new(host: Arc<Host>, streams: CancellationToken) -> Self {
        let replication = host.shared_sessions().map(Replication::new);
        Self {
            replication,
            host,
            by_id: Mutex::default(),
            candidates: Mutex::default(),
            limiter: ShareLimiter::default(),
            random: SystemRandom::new(),
            reaper: OnceLock::new(),
            streams,
        }
    }

    /// Opens a session for this source. At the limit, the least recently used idle session is evicted (LRU): one of the
    /// same client, if the client has reached its share. If none is idle, the error is the response.
    pub(super) fn open(
        self: &Arc<Self>,
        source: &RequestSource,
        agreed: Agreement,
    ) -> Result<SessionGuard, Box<Response>> {
        let id = self.new_id().ok_or_else(|| Box::new(unavailable("there is no randomness for a session id\n")))?;
        let principal = &source.authenticated.principal;
        let shared = self.replication.as_ref().map(|replication| {
            let client = replicated::sharer(source.account.client());
            SharedCopy::opened(replication.store().clone(), self.host.clone(), client, &id, principal, agreed)
        });
        let mut all = self.lock();
        let (permit, evicted) = self
            .permit(&mut all, source, false)
            .inspect_err(|_| ServerMetrics::of(&self.host).record_rejection("http.limits.sessions"))
            .map_err(|_| Box::new(unavailable("all sessions that there may be are in use\n")))?;
        let guard = self.insert(&mut all, id, source, agreed, permit, shared);
        drop(all);
        self.start_tasks();
        if let Some(evicted) = evicted {
            self.evicted(evicted);
        }
        Ok(guard)
    }

    /// Adds a session.
    fn insert(
        &self,
        all: &mut ById,
        id: Arc<str>,
        source: &RequestSource,
        agreed: Agreement,
        permit: SharePermit<ClientId>,
        shared: Option<SharedCopy>,
    ) -> SessionGuard {
        let principal = &source.authenticated.principal;
        let hash = SessionHash::new(&id);
        let session = Session::new(&self.host, principal, agreed, Transport::Http, Some(hash));
        session.subscriber().set_principal(principal, source.authenticated.expires());
        session.subscriber().set_access_token(source.authenticated.issued_token());
        let session = Arc::new(StoredSession {
            hash,
            id: id.clone(),
            session: Arc::new(session),
            client: source.account.client().clone(),
            permit: Mutex::new(Some(permit)),
            in_flight: InFlight::default(),
            usage: Mutex::new(Usage { active: 0, idle_since: Instant::now() }),
            stream: Mutex::default(),
            ended: self.streams.child_token(),
            shared,
            elsewhere: Mutex::default(),
            subscribing: Mutex::default(),
        });
        if let Some(replication) = &self.replication {
            replication.add(&session);
        }
        all.insert(id, session.clone());
        SessionGuard::new(session)
    }

    /// Starts the tasks that end idle sessions and follow the changes of other replicas.
    fn start_tasks(self: &Arc<Self>) {
        let sessions = Arc::downgrade(self);
        self.reaper.get_or_init(|| AbortOnDropHandle::new(task::spawn(Self::end_idle(sessions))));
        self.follow();
    }

    /// Ends an evicted session, at all replicas if it was opened here. A copy ends at this replica only: its session
    /// continues.
    fn evicted(self: &Arc<Self>, evicted: Evicted) {
        let Evicted { session, deletion } = evicted;
        session.end();
        if session.is_copy() {
            return;
        }
        tracing::info!(
            target: log_target::SERVER, session = &*session.id,
            "session ended: there are as many as `http.limits.sessions` allows"
        );
        self.delete_in_background(&session, deletion);
    }

    /// Acquires the permit of a new session. At the limit, it evicts the session that has been idle for longest, copies
    /// of other replicas' sessions first. For a new copy, only copies are evicted. A session whose record cannot be
    /// deleted, because too many deletions wait, is not evicted. The caller [ends](Self::evicted) the evicted session
    /// once the store is unlocked.
    fn permit(
        &self,
        all: &mut ById,
        source: &RequestSource,
        is_copy: bool,
    ) -> Result<(SharePermit<ClientId>, Option<Evicted>), LimitReached> {
        let limits = &source.config.http.limits;
        let client = source.account.client();
        let max = client.share_limits(limits.sessions.get(), limits);
        let reached = match self.limiter.acquire(client, max) {
            Ok(permit) => return Ok((permit, None)),
            Err(reached) => reached,
        };
        let mut candidates = self.candidates.lock();
        let mut longest_idle = |copies| {
            let client = (reached == LimitReached::ClientShare).then(|| client.clone());
            candidates.longest_idle(all, Among { client, copies })
        };
        let copy = self.replication.as_ref().and_then(|_| longest_idle(true));
        let homes = std::iter::from_fn(|| if is_copy { None } else { longest_idle(false) });
        let candidates = copy.into_iter().chain(homes).take(MAX_TRIED);
        let permitted = candidates.map(|session| (self.permit_deletion(&session), session));
        let mut evictable = permitted.filter_map(|(deletion, session)| Some((deletion.ok()?, session)));
        let (deletion, session) = evictable.next().ok_or(reached)?;
        all.remove(&session.id);
        session.release_permit();
        match self.limiter.acquire(client, max) {
            Ok(permit) => Ok((permit, Some(Evicted { session, deletion }))),
            Err(reached) => {
                session.end();
                Err(reached)
            }
        }
    }

    /// Returns 128 random bits in hexadecimal digits, in a cluster with a part of the replica's id. None if the system
    /// supplies no randomness.
    fn new_id(&self) -> Option<Arc<str>> {
        let mut bytes = [0; SESSION_ID_BYTES];
        self.random.fill(&mut bytes).ok()?;
        let mut id = String::with_capacity(SESSION_ID_BYTES.saturating_mul(2));
        for byte in bytes {
            let _ = write!(id, "{byte:02x}");
        }
        if let Some(cluster) = self.host.cluster()
            && let Some(me) = cluster.replicas.iter().find(|replica| replica.is_me)
        {
            let _ = write!(id, "-{:.REPLICA_DIGITS$}", me.replica.to_string());
        }
        Some(id.into())
    }

    /// Finds the session with this id, if this principal owns it: at this replica or, if sessions are shared and
    /// `may_restore` is set, in the shared store. The session takes over the principal's current groups.
    pub(super) async fn find(
        self: &Arc<Self>,
        id: &str,
        source: &RequestSource,
        may_restore: bool,
    ) -> Result<SessionGuard, Missing> {
        match (self.acquire(id, &source.authenticated), &self.replication) {
            (Some(session), Some(_)) if may_restore => self.verify(session).await,
            (Some(session), _) => Ok(session),
            (None, Some(replication)) if may_restore => Box::pin(self.restore(replication, id, source)).await,
            (None, Some(_)) => Err(Missing::Unknown),
            (None, None) => Err(missing::of_sticky(id, self.host.cluster().as_ref())),
        }
    }

    /// Acquires the session with this id, if it is at this replica and this principal owns it.
    fn acquire(&self, id: &str, authenticated: &Authenticated) -> Option<SessionGuard> {
        let session = {
            let all = self.lock();
            let session = all.get(id)?;
            if !session.session.subscriber().principal().is_same_identity(&authenticated.principal) {
                return None;
            }
            // Acquired while the store is locked, so that the session is not ended as idle.
            SessionGuard::new(session.clone())
        };
        session.0.set_principal(authenticated);
        Some(session)
    }

    /// Ends a session at all replicas. Fails for a copy of another replica's session if the shared store is
    /// unreachable.
    pub(super) async fn end(self: &Arc<Self>, session: &SessionGuard) -> Result<(), Missing> {
        self.delete(&session.0).await?;
        self.forget(&session.0);
        Ok(())
    }

    /// Ends a session at this replica.
    fn forget(&self, session: &Arc<StoredSession>) {
        {
            let mut all = self.lock();
            if all.get(&session.id).is_some_and(|stored| Arc::ptr_eq(stored, session)) {
                all.remove(&session.id);
            }
        }
        session.end();
    }

    /// Ends sessions that have been idle for too long. Runs as long as the server exists.
    async fn end_idle(all: Weak<Self>) {
        while let Some(sessions) = all.upgrade() {
            let limit = sessions.host.config().http.limits.session_idle_timeout.duration();
            let ended: Vec<_> = {
                let is_idle =
                    |session: &StoredSession| session.idle_since().is_some_and(|since| since.elapsed() >= limit);
                sessions.lock().extract_if(|_, session| is_idle(session)).map(|(_, session)| session).collect()
            };
            for session in ended {
                // The shared record remains while the session is in use at another replica.
                if session.shared.is_none() {
                    tracing::info!(target: log_target::SERVER, session = &*session.id, "session ended: it was idle");
                }
                session.end();
            }
            sessions.write_due();
            let idle = sessions.lock().values().filter_map(|session| session.idle_since()).min();
            let is_replicated = sessions.replication.is_some();
            drop(sessions);
            sleep(sweep_pause(idle.map(|since| since.elapsed()), limit, is_replicated)).await;
        }
    }

    /// Returns the number of sessions.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, ById> {
        self.by_id.lock()
    }
}

/// Returns the pause before the next sweep for idle sessions: until the session that has been `idle` for longest has
/// been idle for `limit`.
fn sweep_pause(idle: Option<Duration>, limit: Duration, is_replicated: bool) -> Duration {
    let next = limit.saturating_sub(idle.unwrap_or_default());
    // Records that are not renewed in time expire.
    let writes = if is_replicated { limit.checked_div(6).unwrap_or(limit) } else { limit };
    next.max(MIN_SWEEP_PAUSE).min(SWEEP_INTERVAL).min(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_expire_one_after_another_are_swept_together() {
        let pause = |idle, limit, is_replicated| {
            sweep_pause(Some(Duration::from_millis(idle)), Duration::from_millis(limit), is_replicated).as_millis()
        };
        assert_eq!([59_000, 59_950, 60_000, 61_000].map(|idle| pause(idle, 60_000, false)), [1000, 100, 100, 100]);
        assert_eq!(pause(0, 60_000, false), SWEEP_INTERVAL.as_millis());
        assert_eq!((pause(0, 600, false), pause(0, 600, true)), (600, 100), "a record is renewed in time");
        assert_eq!(pause(200, 150, false), 100);
        assert_eq!(sweep_pause(None, Duration::from_secs(3), false), Duration::from_secs(3));
    }
}
