//! One session with its HTTP state: its requests in flight, its newest event stream, and the time of its last use.

use std::sync::Arc;

use mcp_host_base::share_limiter::SharePermit;
use mcp_host_config::Operation;
use mcp_host_model::requester::Requester;
use mcp_resource_host::access::CredentialScopes;
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

/// A session with its HTTP state.
pub(super) struct StoredSession {
    pub(super) id: Arc<str>,
    /// The hash of the session's id, for the audit log.
    pub(super) hash: SessionHash,
    pub(super) session: Arc<Session>,
    /// The client that opened the session.
    pub(super) client: ClientId,
    /// The permit of the session, which is released when the session ends, even while references to it remain.
    pub(super) permit: Mutex<Option<SharePermit<ClientId>>>,
    pub(super) in_flight: InFlight,
    pub(super) usage: Mutex<Usage>,
    /// The newest event stream. Locked while an update is taken for this stream.
    pub(super) stream: Mutex<NewestStream>,
    /// Fires when the session ends.
    pub(super) ended: CancellationToken,
    /// The copy of the shared record. None if the session stays at this replica.
    pub(super) shared: Option<SharedCopy>,
    /// The charge for the subscriptions of the record that were made at other replicas, if the session was opened here.
    pub(super) elsewhere: Mutex<Option<SharePermit<Requester>>>,
    /// The task that adopts subscriptions which were made at another replica.
    pub(super) subscribing: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The newest event stream of a session.
#[derive(Debug, Default)]
pub(super) struct NewestStream {
    /// Fires when the stream ends.
    ended: CancellationToken,
    /// Whether the stream delivers updates: the token that opened it has the scopes of a subscription.
    has_updates: bool,
    /// Whether the session has had a stream.
    has_begun: bool,
    /// The scopes with which a stream withheld an update. None if all updates were delivered since.
    withheld: Option<CredentialScopes>,
}

#[derive(Debug)]
pub(super) struct Usage {
    /// The number of requests and event streams in flight.
    pub(super) active: usize,
    /// The time of the last change of `active`.
    pub(super) idle_since: Instant,
}

/// A request or an event stream of a session. It ends when this is dropped.
pub(in crate::http) struct SessionGuard(pub(super) Arc<StoredSession>);

impl StoredSession {
    /// Returns the time since when the session has had no request and no event stream. None if it has one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        (usage.active == 0).then_some(usage.idle_since)
    }

    /// Returns the time of the session's last use.
    pub(super) fn used(&self) -> Instant {
        let usage = self.usage.lock();
        if usage.active == 0 { usage.idle_since } else { Instant::now() }
    }

    /// Returns whether the session has an open event stream, and whether this stream delivers updates.
    pub(super) fn has_stream(&self) -> (bool, bool) {
        let stream = self.stream.lock();
        let has_stream = stream.has_begun && !stream.ended.is_cancelled();
        (has_stream, has_stream && stream.has_updates)
    }

    /// Ends the event stream, if there is one.
    pub(super) fn end_stream(&self) {
        self.stream.lock().ended.cancel();
    }

    /// Whether the session is a copy of another replica's session: making the copy again costs a request to NATS.
    pub(super) fn is_copy(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.is_home)
    }

    /// Sets the groups of the principal. If they differ, the event stream ends. Without the scopes of `list`, the
    /// listing is no longer watched.
    pub(super) fn set_principal(&self, authenticated: &Authenticated) {
        let principal = &authenticated.principal;
        // Locked until both are done, so that the stream of the old groups delivers no update that only the new groups
        // may see.
        let stream = self.stream.lock();
        if self.session.subscriber().principal() != *principal {
            stream.ended.cancel();
        }
        self.session.subscriber().set_principal(principal, authenticated.expires());
        self.session.subscriber().set_access_token(authenticated.issued_token());
        self.session.set_may_list(authenticated.require_scopes(&[Operation::List]).is_ok());
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
        *self.subscribing.lock() = None;
        self.session.subscriber().close();
        self.release_permit();
    }

    /// Stops counting the session towards the limit of sessions.
    pub(super) fn release_permit(&self) {
        *self.permit.lock() = None;
        *self.elsewhere.lock() = None;
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

    /// The hash of the session's id, for the audit log.
    pub(in crate::http) fn hash(&self) -> SessionHash {
        self.0.hash
    }

    /// The session itself.
    pub(in crate::http) fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// Handles `notifications/initialized`. A copy of another replica's session watches the listing when its event
    /// stream begins here.
    pub(in crate::http) fn initialized(&self) {
        if !self.0.is_copy() {
            self.0.session.watch_listing();
        }
    }

    /// The session's requests in flight.
    pub(in crate::http) fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }

    /// Ends the event stream of the session, if it has one.
    pub(in crate::http) fn end_stream(&self) {
        self.0.end_stream();
    }

    /// Ends the event stream if it delivers no updates. A client that has now subscribed with a token that has the
    /// scopes opens the next stream with that token.
    pub(in crate::http) fn end_stream_without_updates(&self) {
        let stream = self.0.stream.lock();
        if !stream.has_updates {
            stream.ended.cancel();
        }
    }

    /// Begins an event stream of a token with these scopes, and ends the previous one. Updates after the event
    /// `received`, or all updates if it is unknown, become pending again, because they may not have been delivered.
    /// Every resource is notified if the token has scopes that a stream lacked which withheld an update. Returns the
    /// token that fires when the new stream ends, and the number of the last event before the stream.
    pub(in crate::http) fn begin_stream(
        &self,
        received: Option<u64>,
        scopes: CredentialScopes,
    ) -> (CancellationToken, u64) {
        let mut stream = self.0.stream.lock();
        stream.ended.cancel();
        let (has_updates, withheld) = (scopes.include(Operation::Subscribe), stream.withheld);
        *stream = NewestStream { ended: self.0.ended.child_token(), has_updates, has_begun: true, withheld };
        if has_updates {
            self.0.session.subscriber().redeliver(received);
            if withheld.is_some_and(|lacking| !lacking.cover(scopes)) {
                stream.withheld = None;
                self.0.session.subscriber().notify_all();
            }
        }
        (stream.ended.clone(), self.0.session.subscriber().last_number())
    }

    /// Notes that a stream of a token with these scopes has taken an update, and withheld it.
    pub(in crate::http) fn withhold(&self, scopes: CredentialScopes) {
        self.0.stream.lock().withheld = Some(scopes);
    }

    /// The id of the event with this number.
    pub(in crate::http) fn event_id(&self, number: u64) -> String {
        self.0.shared.as_ref().map_or_else(|| number.to_string(), |shared| shared.event_id(number))
    }

    /// The number of the event with this id. None if it is not an event of the session at this replica.
    pub(in crate::http) fn event_number(&self, id: &str) -> Option<u64> {
        self.0.shared.as_ref().map_or_else(|| id.parse().ok(), |shared| shared.event_number(id))
    }

    /// Calls `take` unless this stream has ended. The stream cannot end during the call.
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
    /// Returns a guard for another request of the session.
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
