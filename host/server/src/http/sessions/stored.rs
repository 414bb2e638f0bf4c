//! One session, and what HTTP adds to it: its requests in flight, its newest event stream, and when it was used last.

use std::sync::Arc;

use mcp_host_base::share_limiter::SharePermit;
use mcp_host_config::Operation;
use mcp_resource_host::audit::SessionHash;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::shared::SharedCopy;
use crate::client_id::ClientId;
use crate::http::authentication::Authenticated;
use crate::in_flight::InFlight;
use crate::session::Session;

/// One session, and what HTTP adds to it.
pub(super) struct StoredSession {
    pub(super) id: Arc<str>,
    /// The hash of its id, for the audit log.
    pub(super) hash: SessionHash,
    pub(super) session: Arc<Session>,
    /// Who opened it.
    pub(super) client: ClientId,
    /// It counts for the limit until it ends, whatever still refers to it.
    pub(super) permit: Mutex<Option<SharePermit<ClientId>>>,
    pub(super) in_flight: InFlight,
    pub(super) usage: Mutex<Usage>,
    /// The newest event stream. It is locked while an update is taken for that stream.
    pub(super) stream: Mutex<NewestStream>,
    /// Fires when the session ends.
    pub(super) ended: CancellationToken,
    /// What replicas share of it; none if it stays here.
    pub(super) shared: Option<SharedCopy>,
    /// The task that makes the subscriptions which were made at another replica.
    pub(super) subscribing: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The newest event stream of a session.
#[derive(Debug, Default)]
pub(super) struct NewestStream {
    /// Fires when it ends.
    ended: CancellationToken,
    /// Whether it delivers updates: the token that opened it has the scopes that a subscription requires.
    has_updates: bool,
    /// Whether there was one.
    has_begun: bool,
}

#[derive(Debug)]
pub(super) struct Usage {
    /// The number of requests and event streams in flight.
    pub(super) active: usize,
    /// The time of the last change of `active`.
    pub(super) idle_since: Instant,
}

/// A request or an event stream of a session, until it is dropped.
pub(in crate::http) struct SessionGuard(pub(super) Arc<StoredSession>);

impl StoredSession {
    /// Returns since when it has no request and no event stream; none if it has one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        (usage.active == 0).then_some(usage.idle_since)
    }

    /// The last time at which it was used.
    pub(super) fn used(&self) -> Instant {
        let usage = self.usage.lock();
        if usage.active == 0 { usage.idle_since } else { Instant::now() }
    }

    /// Whether it has an event stream that has not ended; the second, whether that delivers updates.
    pub(super) fn has_stream(&self) -> (bool, bool) {
        let stream = self.stream.lock();
        let has_stream = stream.has_begun && !stream.ended.is_cancelled();
        (has_stream, has_stream && stream.has_updates)
    }

    /// Ends the event stream, if there is one.
    pub(super) fn end_stream(&self) {
        self.stream.lock().ended.cancel();
    }

    /// Whether it is a copy of a session that another replica has opened: it costs a request to NATS to make it again.
    pub(super) fn is_copy(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.is_home)
    }

    /// Sets the groups of the principal. If they are others, the event stream ends. Without the scopes of `list`, the listing is not
    /// watched any more.
    pub(super) fn set_principal(&self, authenticated: &Authenticated) {
        let principal = &authenticated.principal;
        // Locked until both are done: the stream of the old groups delivers nothing that the new ones may see.
        let stream = self.stream.lock();
        if self.session.subscriber().principal() != *principal {
            stream.ended.cancel();
        }
        self.session.subscriber().set_principal(principal, authenticated.expires());
        self.session.set_may_list(authenticated.require_scopes(&[Operation::List]).is_ok());
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
        *self.subscribing.lock() = None;
        self.session.subscriber().close();
        *self.permit.lock() = None;
    }
}

impl SessionGuard {
    pub(super) fn new(session: Arc<StoredSession>) -> Self {
        {
            let mut usage = session.usage.lock();
            usage.active = usage.active.saturating_add(1);
        }
        Self(session)
    }

    /// The id of the session.
    pub(in crate::http) fn id(&self) -> &str {
        &self.0.id
    }

    /// The hash of its id, for the audit log.
    pub(in crate::http) fn hash(&self) -> SessionHash {
        self.0.hash
    }

    /// The session itself.
    pub(in crate::http) fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// The client has said that it is initialized. A copy of a session of another replica watches the listing when its event stream begins
    /// here.
    pub(in crate::http) fn initialized(&self) {
        if !self.0.is_copy() {
            self.0.session.watch_listing();
        }
    }

    /// The requests of the session in flight.
    pub(in crate::http) fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    /// Ends the event stream of the session, if it has one.
    pub(in crate::http) fn end_stream(&self) {
        self.0.end_stream();
    }

    /// Ends the event stream if it delivers no updates. A client whose token did not have the scopes of a subscription,
    /// and has subscribed with another now, opens the next one with that.
    pub(in crate::http) fn end_stream_without_updates(&self) {
        let stream = self.0.stream.lock();
        if !stream.has_updates {
            stream.ended.cancel();
        }
    }

    /// Begins an event stream, and ends the one before. What that may not have delivered beyond the event `received` is
    /// pending again, or everything where the event is not known. Returns the token that fires when the new stream
    /// ends, and the number of the last event before it.
    pub(in crate::http) fn begin_stream(&self, received: Option<u64>, has_updates: bool) -> (CancellationToken, u64) {
        let mut stream = self.0.stream.lock();
        stream.ended.cancel();
        *stream = NewestStream { ended: self.0.ended.child_token(), has_updates, has_begun: true };
        if has_updates {
            self.0.session.subscriber().redeliver(received);
        }
        (stream.ended.clone(), self.0.session.subscriber().last_number())
    }

    /// The id of an event with that number.
    pub(in crate::http) fn event_id(&self, number: u64) -> String {
        self.0.shared.as_ref().map_or_else(|| number.to_string(), |shared| shared.event_id(number))
    }

    /// The number of the event with that id; none if it is not one of this session here.
    pub(in crate::http) fn event_number(&self, id: &str) -> Option<u64> {
        self.0.shared.as_ref().map_or_else(|| id.parse().ok(), |shared| shared.event_number(id))
    }

    /// Calls `take` unless that stream has ended, which does not happen meanwhile.
    pub(in crate::http) fn unless_ended<T>(
        &self,
        stream: &CancellationToken,
        take: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
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
