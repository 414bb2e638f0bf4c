//! The sessions of the revisions that have them: from `initialize` to their end.
//!
//! A session begins before `initialize` is answered: whatever becomes of the answer, the session counts for the limits.
//! It ends when its client deletes it, when it has been idle for [too
//! long](mcp_host_config::http::HttpServerLimits::session_idle_timeout), when there are [too
//! many](mcp_host_config::http::HttpServerLimits::sessions), or with the server. Its subscriptions end with it.
//!
//! A session id is 128 random bits. A session is bound to the principal that opened it: for other principals it does
//! not exist. If the same principal comes back with other groups, as with a renewed access token, its subscriptions get
//! these, and its event stream ends: what a stream delivers is what the token may see that opened it.
//!
//! In a cluster the id ends with a part of that of the replica. A session stays at its replica, and a balancer sends its requests there.
//! Another replica that gets one, because the balancer does not know better or finds the right one down for a moment, answers 503 with
//! `Retry-After` as long as that replica is alive, or NATS is not heard: with 404 the client would give the session up.
//!
//! An open [event stream](super::session_stream) counts as a request in flight, so a client that only waits for
//! notifications is never idle. Of requests nothing is retained once they are answered or cancelled.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use mcp_host_base::log_target;
use mcp_host_base::share_limiter::{LimitReached, ShareLimiter, SharePermit};
use mcp_host_config::Operation;
use mcp_resource_host::audit::SessionHash;
use mcp_resource_host::host::{ClusterView, Host};
use parking_lot::{Mutex, MutexGuard};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::authentication::Authenticated;
use super::endpoint::Caller;
use super::response::unavailable;
use crate::SESSION_ID_HEADER;
use crate::client_id::ClientId;
use crate::in_flight::InFlight;
use crate::jsonrpc::{Rejection, RejectionStatus, RequestId};
use crate::server_metrics::{ServerMetrics, Transport};
use crate::session::{Agreement, Session};

/// The maximum interval between two sweeps for idle sessions: a reload may have changed the timeout.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// The bytes of a session id, before it is written in hexadecimal digits.
const SESSION_ID_BYTES: usize = 16;

/// The part of a replica's id that is in the ids of its sessions, in hexadecimal digits.
const REPLICA_DIGITS: usize = 16;

/// All sessions of a server.
pub(super) struct Sessions {
    host: Arc<Host>,
    by_id: Mutex<HashMap<Arc<str>, Arc<StoredSession>>>,
    /// The number of sessions of each client.
    limiter: ShareLimiter<ClientId>,
    /// The source of session ids.
    random: SystemRandom,
    /// The task that ends idle sessions, started with the first session.
    reaper: OnceLock<AbortOnDropHandle<()>>,
    /// Ends the event streams of all sessions.
    streams: CancellationToken,
}

/// One session, and what HTTP adds to it.
struct StoredSession {
    id: Arc<str>,
    /// The hash of its id, for the audit log.
    hash: SessionHash,
    session: Arc<Session>,
    /// Who opened it.
    client: ClientId,
    /// It counts for the limit until it ends, whatever still refers to it.
    permit: Mutex<Option<SharePermit<ClientId>>>,
    in_flight: InFlight,
    usage: Mutex<Usage>,
    /// The newest event stream. It is locked while an update is taken for that stream.
    stream: Mutex<NewestStream>,
    /// Fires when the session ends.
    ended: CancellationToken,
}

/// The newest event stream of a session.
#[derive(Debug, Default)]
struct NewestStream {
    /// Fires when it ends.
    ended: CancellationToken,
    /// Whether it delivers updates: the token that opened it has the scopes that a subscription requires.
    has_updates: bool,
}

#[derive(Debug)]
struct Usage {
    /// The number of requests and event streams in flight.
    active: usize,
    /// The time of the last change of `active`.
    idle_since: Instant,
}

/// A request or an event stream of a session, until it is dropped.
pub(super) struct SessionGuard(Arc<StoredSession>);

impl Sessions {
    /// Creates an empty store. `streams` ends the event streams of all sessions.
    pub(super) fn new(host: Arc<Host>, streams: CancellationToken) -> Self {
        Self {
            host,
            by_id: Mutex::default(),
            limiter: ShareLimiter::default(),
            random: SystemRandom::new(),
            reaper: OnceLock::new(),
            streams,
        }
    }

    /// Opens a session of that caller. If the limit is reached, the session that has been idle for longest ends: one of
    /// the same client, if the client has reached its share. While there is none, it returns the response.
    pub(super) fn open(self: &Arc<Self>, caller: &Caller, agreed: Agreement) -> Result<SessionGuard, Box<Response>> {
        let id = self.new_id().ok_or_else(|| Box::new(unavailable("there is no randomness for a session id\n")))?;
        let mut all = self.lock();
        let (permit, evicted) = self
            .permit(&mut all, caller)
            .inspect_err(|_| ServerMetrics::of(&self.host).record_rejection("http.limits.sessions"))
            .map_err(|_| Box::new(unavailable("all sessions that there may be are in use\n")))?;
        let principal = &caller.authenticated.principal;
        let hash = SessionHash::new(&id);
        let session = Session::new(&self.host, principal, agreed, Transport::Http, Some(hash));
        session.subscriber().set_principal(principal, caller.authenticated.expires());
        let session = Arc::new(StoredSession {
            hash,
            id: id.clone(),
            session: Arc::new(session),
            client: caller.account.client().clone(),
            permit: Mutex::new(Some(permit)),
            in_flight: InFlight::default(),
            usage: Mutex::new(Usage { active: 0, idle_since: Instant::now() }),
            stream: Mutex::default(),
            ended: self.streams.child_token(),
        });
        let guard = SessionGuard::new(session.clone());
        all.insert(id, session);
        drop(all);
        let sessions = Arc::downgrade(self);
        self.reaper.get_or_init(|| AbortOnDropHandle::new(tokio::spawn(Self::end_idle(sessions))));
        if let Some(evicted) = evicted {
            tracing::info!(
                target: log_target::SERVER, session = &*evicted.id,
                "session ended: there are as many as `http.limits.sessions` allows"
            );
        }
        Ok(guard)
    }

    /// Acquires the permit of a new session, and ends the session that has to end for it.
    fn permit(
        &self,
        all: &mut HashMap<Arc<str>, Arc<StoredSession>>,
        caller: &Caller,
    ) -> Result<(SharePermit<ClientId>, Option<Arc<StoredSession>>), LimitReached> {
        let limits = &caller.config.http.limits;
        let client = caller.account.client();
        let max = client.share_limits(limits.sessions.get(), limits);
        let reached = match self.limiter.acquire(client, max) {
            Ok(permit) => return Ok((permit, None)),
            Err(reached) => reached,
        };
        let is_candidate = |session: &StoredSession| reached == LimitReached::Overall || session.client == *client;
        let idle = all.values().filter(|session| is_candidate(session));
        let idle = idle.filter_map(|session| Some((session.idle_since()?, session)));
        let (_, longest) = idle.min_by_key(|(since, _)| *since).ok_or(reached)?;
        let evicted = longest.clone();
        all.remove(&evicted.id);
        evicted.end();
        Ok((self.limiter.acquire(client, max)?, Some(evicted)))
    }

    /// Rejects a message with that id of a session that its headers name, and that does not exist here for its principal.
    pub(super) fn unknown(&self, headers: &HeaderMap, id: Option<RequestId>) -> Rejection {
        let session = session_id(headers).unwrap_or_default();
        match self.host.cluster() {
            Some(cluster) if is_elsewhere(session, &cluster) => elsewhere(id),
            _ => not_found(id),
        }
    }

    /// Returns 128 random bits in hexadecimal digits, in a cluster with a part of the replica's id; none if the system supplies no
    /// randomness.
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

    /// Acquires the session with this id, if this principal has it. The groups of the principal are from now on those
    /// of the session.
    pub(super) fn acquire(&self, id: &str, authenticated: &Authenticated) -> Option<SessionGuard> {
        let session = {
            let all = self.lock();
            let session = all.get(id)?;
            if !session.session.subscriber().principal().is_same_identity(&authenticated.principal) {
                return None;
            }
            // While the store is locked, so that the session is not ended as an idle one.
            SessionGuard::new(session.clone())
        };
        session.0.set_principal(authenticated);
        Some(session)
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &SessionGuard) {
        self.lock().remove(&session.0.id);
        session.0.end();
    }

    /// Ends sessions that have been idle for too long, as long as there is a server.
    async fn end_idle(all: Weak<Self>) {
        while let Some(sessions) = all.upgrade() {
            let limit = sessions.host.config().http.limits.session_idle_timeout.duration();
            let ended: Vec<_> = {
                let is_idle =
                    |session: &StoredSession| session.idle_since().is_some_and(|since| since.elapsed() >= limit);
                sessions.lock().extract_if(|_, session| is_idle(session)).map(|(_, session)| session).collect()
            };
            for session in ended {
                tracing::info!(target: log_target::SERVER, session = &*session.id, "session ended: it was idle");
                session.end();
            }
            let idle = sessions.lock().values().filter_map(|session| session.idle_since()).min();
            drop(sessions);
            let next = idle.map_or(limit, |since| limit.saturating_sub(since.elapsed()));
            sleep(next.min(SWEEP_INTERVAL)).await;
        }
    }

    /// Returns the number of sessions.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<StoredSession>>> {
        self.by_id.lock()
    }
}

impl StoredSession {
    /// Returns since when it has no request and no event stream; none if it has one.
    fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        (usage.active == 0).then_some(usage.idle_since)
    }

    /// Sets the groups of the principal. If they are others, the event stream ends. Without the scopes of `list`, the listing is not
    /// watched any more.
    fn set_principal(&self, authenticated: &Authenticated) {
        let principal = &authenticated.principal;
        // Locked until both are done: the stream of the old groups delivers nothing that the new ones may see.
        let stream = self.stream.lock();
        if self.session.subscriber().principal() != *principal {
            stream.ended.cancel();
        }
        self.session.subscriber().set_principal(principal, authenticated.expires());
        self.session.set_may_list(authenticated.require_scopes(&[Operation::List]).is_ok());
    }

    fn end(&self) {
        self.ended.cancel();
        self.session.subscriber().close();
        *self.permit.lock() = None;
    }
}

impl SessionGuard {
    fn new(session: Arc<StoredSession>) -> Self {
        {
            let mut usage = session.usage.lock();
            usage.active = usage.active.saturating_add(1);
        }
        Self(session)
    }

    /// The id of the session.
    pub(super) fn id(&self) -> &str {
        &self.0.id
    }

    /// The hash of its id, for the audit log.
    pub(super) fn hash(&self) -> SessionHash {
        self.0.hash
    }

    /// The session itself.
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// The requests of the session in flight.
    pub(super) fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    /// Ends the event stream of the session, if it has one.
    pub(super) fn end_stream(&self) {
        self.0.stream.lock().ended.cancel();
    }

    /// Ends the event stream if it delivers no updates. A client whose token did not have the scopes of a subscription,
    /// and has subscribed with another now, opens the next one with that.
    pub(super) fn end_stream_without_updates(&self) {
        let stream = self.0.stream.lock();
        if !stream.has_updates {
            stream.ended.cancel();
        }
    }

    /// Begins an event stream, and ends the one before. What that may not have delivered beyond the event `received` is
    /// pending again, or everything where the event is not known. Returns the token that fires when the new stream
    /// ends, and the number of the last event before it.
    pub(super) fn begin_stream(&self, received: Option<u64>, has_updates: bool) -> (CancellationToken, u64) {
        let mut stream = self.0.stream.lock();
        stream.ended.cancel();
        *stream = NewestStream { ended: self.0.ended.child_token(), has_updates };
        if has_updates {
            self.0.session.subscriber().redeliver(received);
        }
        (stream.ended.clone(), self.0.session.subscriber().last_number())
    }

    /// Calls `take` unless that stream has ended, which does not happen meanwhile.
    pub(super) fn unless_ended<T>(&self, stream: &CancellationToken, take: impl FnOnce() -> Option<T>) -> Option<T> {
        let _newest = self.0.stream.lock();
        if stream.is_cancelled() { None } else { take() }
    }
}

impl Clone for SessionGuard {
    /// Returns a guard of another request of the session.
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let mut usage = self.0.usage.lock();
        usage.active = usage.active.saturating_sub(1);
        usage.idle_since = Instant::now();
    }
}

/// The session that the headers of a request name.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID_HEADER).and_then(|id| id.to_str().ok())
}

/// Whether a session may exist at another replica: at one that is alive, or at any other one while it is not known who is.
fn is_elsewhere(session: &str, cluster: &ClusterView) -> bool {
    let Some((_, replica)) = session.split_once('-') else { return false };
    let is_named = |id: String| replica.len() == REPLICA_DIGITS && id.starts_with(replica);
    let named = cluster.replicas.iter().find(|known| is_named(known.replica.to_string()));
    match named {
        Some(known) if known.is_me => false,
        Some(known) => !known.is_missing || !cluster.hears,
        None => !cluster.hears && replica.len() == REPLICA_DIGITS,
    }
}

fn elsewhere(id: Option<RequestId>) -> Rejection {
    let reason = "the session is one of another replica: send the request again; the balancer has to send requests of a session \
                  where it began, by `Mcp-Session-Id`";
    Rejection::invalid_request(id, reason).with_status(RejectionStatus::Unavailable)
}

/// Rejects a message with that id of a session that does not exist for its principal.
fn not_found(id: Option<RequestId>) -> Rejection {
    let reason = "there is no such session, or it has ended: open a new one with `initialize`, without `Mcp-Session-Id`, and \
                  subscribe again";
    Rejection::invalid_request(id, reason).with_status(RejectionStatus::NotFound)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration as Silence;

    use mcp_resource_host::host::{About, ReplicaView, RosterStats};

    use super::*;

    /// A cluster of this replica, 0, of 1, which is alive, and of 2, which is missing.
    fn cluster(hears: bool) -> ClusterView {
        let replica = |number: u8, is_missing| ReplicaView {
            replica: format!("{number:0>32}").parse().unwrap(),
            is_me: number == 0,
            silent: Silence::ZERO,
            is_missing,
            about: About::default(),
        };
        // The part of an id is its beginning.
        let with_part = |number: u8, is_missing| ReplicaView {
            replica: format!("{}{}", part(number), "0".repeat(16)).parse().unwrap(),
            ..replica(number, is_missing)
        };
        ClusterView {
            name: "test".to_owned(),
            hears,
            live: NonZeroU32::MIN,
            differing: 0,
            replicas: vec![with_part(0, false), with_part(1, false), with_part(2, true)],
            stats: RosterStats::default(),
            invalid: 0,
            failed: 0,
        }
    }

    fn part(number: u8) -> String {
        format!("{number:0>16}")
    }

    #[test]
    fn a_session_of_a_replica_that_may_live_is_elsewhere_and_any_other_is_none() {
        let of = |replica: &str| format!("{}-{replica}", "a".repeat(32));
        for (replica, heard, unheard) in [
            (part(0), false, false),
            (part(1), true, true),
            (part(2), false, true),
            (part(3), false, true),
            (String::new(), false, false),
            ("1".to_owned(), false, false),
            (format!("{}0", part(1)), false, false),
        ] {
            assert_eq!(is_elsewhere(&of(&replica), &cluster(true)), heard, "{replica}");
            assert_eq!(is_elsewhere(&of(&replica), &cluster(false)), unheard, "{replica}");
        }
        assert!(!is_elsewhere("", &cluster(false)) && !is_elsewhere(&"a".repeat(32), &cluster(false)));
        let response = super::super::response::rejection_response(elsewhere(None));
        assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    }
}
