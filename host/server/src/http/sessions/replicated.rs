//! Sessions that any replica continues (`cluster.sessions = "shared"`).
//!
//! The state of a session is a [record](mcp_resource_host::host::SessionRecord) in NATS. A replica that gets a request
//! of an unknown session reads the record, and makes a [copy](super::shared) of the session, with its own subscriber.
//!
//! # Authorization
//!
//! A record neither authenticates nor permits anything. A request has its own credentials, and its principal must be
//! the principal in the record; for any other principal the session does not exist. Subscriptions of a record are made
//! as if the principal of the request had just subscribed at this replica, under its rules, and the rules are checked
//! again at delivery.
//!
//! # Events
//!
//! | event | here | elsewhere |
//! |---|---|---|
//! | `initialize` | the record is written before the answer | – |
//! | a request of a session that is not known here | the record is read; a copy is made within `http.limits.sessions` | – |
//! | there is no record | the [replica that opened it](without_record) may not have been able to write it: 404 once it has reported that all records are written, otherwise 503 | – |
//! | a change: a subscription, a log level, `notifications/initialized` | the record is written before the answer | a copy with an event stream, and the replica that opened the session, read the record; the former subscribes. Others read it at their next request |
//! | an event stream begins | the record is read, and each resource is notified once if the previous stream was elsewhere | the stream there ends |
//! | `DELETE` | a tombstone replaces the record | each copy ends |
//! | a copy is idle, or makes room for another session | it is dropped, and the record stays | – |
//! | a session that was opened here makes room for another one | a tombstone replaces the record | each copy ends |
//! | no request uses the session for `http.limits.session-idle-timeout` | NATS drops the record a third of that time later | – |
//!
//! # If NATS is slow, partitioned or down
//!
//! Known sessions continue with their cached record. Changes wait and are written later, except changes of a session
//! whose stream is at another replica, which fail. While the cluster is unreachable, reads and writes are not tried, so
//! that no request waits for them. A request for an unknown session is answered with 503, never with 404: also if only
//! the replica that opened it cannot reach NATS.
//!
//! # Bounds
//!
//! - Requests to NATS: a request for an unknown session costs two reads at most, and waits for a heartbeat. 256
//!   requests are in flight, and clients share them ([`SessionStore`]). A notice of another replica costs one read if
//!   this replica has the session's event stream or has opened it: at most one a second for each session, and one sweep
//!   of all with a stream each 10 s ([`background`](super::background)).
//! - Records: a client has as many as its share of `http.limits.sessions`, and twice as many that wait for their
//!   deletion; beyond that, it opens no further session. The tombstone of a deletion stays for some seconds.
//! - The size of records, and of the changes that wait: at most 1024 subscriptions of 256 KiB, one for all spellings of
//!   a resource ([`subscriptions`](super::subscriptions)). A request beyond that fails, also while NATS is gone.
//!   Subscriptions made at other replicas are charged to the client at the replica that opened the session, like the
//!   subscriptions made there. If they leave too little of the client's share of `http.limits.subscription-memory`, or
//!   the record is too large after a partition, the session ends.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::share_limiter::LimitReached;
use mcp_host_base::task;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::{SessionKey, SessionRecord, SessionStore, Stored};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::deletions::Deletions;
use super::missing::{is_id, without_record};
use super::shared::{Change, ShareError, SharedCopy};
use super::stored::{SessionGuard, StoredSession};
use super::{Missing, Sessions};
use crate::client_id::ClientId;
use crate::client_log::LogLevel;
use crate::http::request_source::RequestSource;
use crate::revision::Revision;
use crate::server_metrics::ServerMetrics;
use crate::session::Agreement;

/// The interval in which a request looks whether a heartbeat has arrived.
const HEARTBEAT_PAUSE: Duration = Duration::from_millis(50);

/// The replication of sessions.
pub(super) struct Replication {
    store: SessionStore,
    by_key: Mutex<HashMap<SessionKey, Weak<StoredSession>>>,
    /// The records of sessions that have ended at this replica.
    pub(super) deletions: Deletions,
    /// The task that follows the changes of other replicas.
    pub(super) follower: OnceLock<AbortOnDropHandle<()>>,
}

impl Replication {
    pub(super) fn new(store: SessionStore) -> Self {
        Self { store, by_key: Mutex::default(), deletions: Deletions::default(), follower: OnceLock::new() }
    }

    pub(super) fn store(&self) -> &SessionStore {
        &self.store
    }

    /// Adds a session, so that it can be found by its key.
    pub(super) fn add(&self, session: &Arc<StoredSession>) {
        let Some(shared) = &session.shared else { return };
        let mut by_key = self.by_key.lock();
        // Ended sessions are removed when the map is full, so it has at most twice as many entries as there are
        // sessions.
        if by_key.len() >= by_key.capacity() {
            by_key.retain(|_, session| session.strong_count() > 0);
        }
        by_key.insert(shared.key().clone(), Arc::downgrade(session));
    }

    pub(super) fn get(&self, key: &SessionKey) -> Option<Arc<StoredSession>> {
        self.by_key.lock().get(key)?.upgrade()
    }
}

/// The shared copy of a session. None if the session stays at its replica.
pub(super) fn shared(session: &StoredSession) -> Option<&SharedCopy> {
    session.shared.as_ref()
}

/// The name of a client among those that share the requests to the store.
pub(super) fn sharer(client: &ClientId) -> Arc<str> {
    match client {
        ClientId::Principal(principal) => format!("{}:{}", u8::from(principal.is_built_in()), principal.name()).into(),
        address => address.to_string().into(),
    }
}

/// The agreement in a record, if the record belongs to this principal.
fn agreement(record: &SessionRecord, principal: &Principal) -> Option<Agreement> {
    let is_of_principal = (&*record.principal, record.is_built_in) == (principal.name(), principal.is_built_in());
    let revision =
        Revision::from_name(&record.revision).filter(|revision| is_of_principal && revision.has_sessions())?;
    Some(Agreement { revision, may_subscribe: record.may_subscribe })
}

impl Sessions {
    /// The time to live of a record. Copies in use renew the record every third of the idle timeout, so the record
    /// exists as long as the session is not idle.
    pub(super) fn lifetime(&self) -> Duration {
        let idle = self.idle_timeout();
        idle.saturating_add(self.interval())
    }

    pub(super) fn interval(&self) -> Duration {
        let idle = self.idle_timeout();
        idle.checked_div(3).unwrap_or(idle)
    }

    fn idle_timeout(&self) -> Duration {
        self.host.config().http.limits.session_idle_timeout.duration()
    }

    /// Writes the record of a new session. If the write fails, it is retried later.
    pub(in crate::http) async fn opened(&self, session: &SessionGuard) {
        let Some(shared) = shared(&session.0) else { return };
        // If it fails, the session is counted as unwritten, so that other replicas ask the client to retry.
        if self.host.hears_cluster() {
            let _ = shared.write(self.lifetime()).await;
        } else {
            shared.defer();
        }
    }

    /// Checks a known session, if another replica may have changed or ended it.
    pub(super) async fn verify(self: &Arc<Self>, session: SessionGuard) -> Result<SessionGuard, Missing> {
        match self.refresh(&session.0).await {
            Err(ShareError::Ended) => Err(Missing::Unknown),
            // The session continues with its cached record.
            _ => Ok(session),
        }
    }

    /// Makes a copy of a session of another replica.
    pub(super) async fn restore(
        self: &Arc<Self>,
        replication: &Replication,
        id: &str,
        source: &RequestSource,
    ) -> Result<SessionGuard, Missing> {
        let key = SessionKey::of(id);
        if !is_id(id) || replication.deletions.contains(&key) {
            return Err(Missing::Unknown);
        }
        let client = sharer(source.account.client());
        let mut stored = replication.store.read(&client, &key).await.map_err(|_| Missing::Unreadable)?;
        if stored == Stored::Nothing {
            self.wait_for_opener(id).await?;
            stored = replication.store.read(&client, &key).await.map_err(|_| Missing::Unreadable)?;
        }
        let Stored::Record(place, record) = stored else { return Err(Missing::Unknown) };
        let principal = &source.authenticated.principal;
        let agreed = agreement(&record, principal).ok_or(Missing::Unknown)?;
        let log_level = record.log_level.as_deref().and_then(LogLevel::from_name);
        let copy = SharedCopy::restored(replication.store.clone(), self.host.clone(), client, id, *record, place);
        let (session, evicted) = {
            let mut all = self.lock();
            // Another request may have made the copy meanwhile, or the session belongs to another principal.
            if all.contains_key(id) {
                drop(all);
                return self.acquire(id, &source.authenticated).ok_or(Missing::Unknown);
            }
            let (permit, evicted) = self.permit(&mut all, source, true).map_err(|_| {
                ServerMetrics::of(&self.host).record_rejection("http.limits.sessions");
                Missing::Full
            })?;
            (self.insert(&mut all, id.into(), source, agreed, permit, Some(copy)), evicted)
        };
        if let Some(evicted) = evicted {
            self.evicted(evicted);
        }
        session.0.set_principal(&source.authenticated);
        session.session().listing_may_have_changed();
        if let Some(level) = log_level {
            session.session().log().set_level(level);
        }
        self.start_tasks();
        Ok(session)
    }

    /// Waits for a heartbeat, sent after the request, in which the replica that opened a session reports that it has
    /// written all records. Fails if this replica has gone, or may be cut off.
    async fn wait_for_opener(&self, id: &str) -> Result<(), Missing> {
        let asked = Instant::now();
        let digits = id.split_once('-').and_then(|(_, digits)| u64::from_str_radix(digits, 16).ok());
        let digits = digits.ok_or(Missing::Unknown)?;
        loop {
            let opener = self.host.session_opener(digits);
            if let Some(answer) = without_record(opener, self.host.hears_cluster(), asked.elapsed()) {
                return answer;
            }
            sleep(HEARTBEAT_PAUSE).await;
        }
    }

    /// Makes a change of a session at all replicas. Fails if the session's event stream is at another replica and the
    /// record cannot be written now.
    pub(in crate::http) async fn share(
        self: &Arc<Self>,
        session: &SessionGuard,
        change: Change,
    ) -> Result<(), ShareError> {
        let Some(shared) = shared(&session.0) else { return Ok(()) };
        let subscribed = match &change {
            Change::Subscribe(uri) => Some(shared.normal_form(uri)),
            _ => None,
        };
        let changed = shared.change(change, self.lifetime(), self.host.hears_cluster()).await;
        let is_written = changed.inspect_err(|error| self.forget_ended(&session.0, *error))?;
        if is_written {
            self.host.session_changed(shared.key().clone());
        }
        if let Some(form) = subscribed {
            self.keep_subscription(&session.0, shared, &form).await;
        }
        Ok(())
    }

    /// Ends a session at this replica if it has ended at another one.
    fn forget_ended(&self, session: &Arc<StoredSession>, error: ShareError) {
        if error == ShareError::Ended {
            self.forget(session);
        }
    }

    /// Subscribes again if a task that read the record before it had this subscription has cancelled the subscription.
    async fn keep_subscription(self: &Arc<Self>, session: &Arc<StoredSession>, shared: &SharedCopy, form: &str) {
        if shared.has_subscription(form) && !session.session.subscriber().is_subscribed(form) {
            self.adopt(session).await;
        }
    }

    /// Cancels a subscription that could not be shared.
    pub(in crate::http) fn withdraw(&self, session: &SessionGuard, change: &Change) {
        if let Change::Subscribe(uri) = change {
            // The answer already reports another error.
            let _ = self.host.unsubscribe(session.session().subscriber(), uri);
        }
    }

    /// Prepares an event stream of a session, for a client that has received the event with the id `received`. Returns
    /// whether every resource has to be notified once, because the previous stream was at another replica.
    pub(in crate::http) async fn before_stream(
        self: &Arc<Self>,
        session: &SessionGuard,
        received: Option<u64>,
    ) -> Result<bool, Missing> {
        let Some(shared) = shared(&session.0) else { return Ok(false) };
        shared.doubt();
        match self.refresh(&session.0).await {
            Err(ShareError::Ended) => Err(Missing::Unknown),
            _ => Ok(received.is_none() && shared.is_stream_elsewhere()),
        }
    }

    /// Called after an event stream has begun here: ends streams at other replicas, and subscribes here to the record's
    /// subscriptions.
    pub(in crate::http) async fn after_stream(self: &Arc<Self>, session: &SessionGuard, tells_all: bool) {
        let Some(shared) = shared(&session.0) else { return };
        if tells_all {
            // First remove subscriptions that were cancelled at another replica.
            self.cancel_others(&session.0, shared);
            session.session().subscriber().notify_all();
        }
        let (sessions, session) = (self.clone(), Arc::downgrade(&session.0));
        task::spawn(async move {
            let Some(session) = session.upgrade() else { return };
            // A failure leaves the change pending, and the stream continues.
            let _ = sessions.share(&SessionGuard::new(session.clone()), Change::Stream).await;
            sessions.adopt(&session).await;
        });
    }

    /// Cancels the subscriptions here that the session does not have. Returns the session's subscriptions that are
    /// missing here.
    fn cancel_others(&self, session: &StoredSession, shared: &SharedCopy) -> Vec<String> {
        let subscriber = session.session.subscriber();
        let mut new = shared.subscriptions();
        for (form, uri) in subscriber.requested_uris() {
            // After a reload, the URI may have another normal form than its subscription.
            if new.remove(&form).is_none() && new.remove(&shared.normal_form(&uri)).is_none() {
                shared.unless_subscribed(&form, || {
                    // No client waits for this error.
                    let _ = self.host.unsubscribe(subscriber, &uri);
                });
            }
        }
        new.into_values().collect()
    }

    /// Reads the record of a session if another replica may have written it, and applies it.
    pub(super) async fn refresh(self: &Arc<Self>, session: &Arc<StoredSession>) -> Result<(), ShareError> {
        let Some(shared) = shared(session).filter(|shared| shared.is_doubtful()) else { return Ok(()) };
        if !self.host.hears_cluster() {
            return Err(ShareError::Unavailable);
        }
        shared.refresh().await.inspect_err(|error| self.forget_ended(session, *error))?;
        self.adopt(session).await;
        Ok(())
    }

    /// Applies the record of a session: its log level, and, if the event stream is here, its subscriptions.
    async fn adopt(self: &Arc<Self>, session: &Arc<StoredSession>) {
        let Some(shared) = shared(session) else { return };
        let record = shared.record().await;
        if let Some(level) = record.log_level.as_deref().and_then(LogLevel::from_name) {
            session.session.log().set_level(level);
        }
        if !self.charge(session, shared) {
            tracing::warn!(
                target: log_target::SERVER, session = &*session.id,
                "session ended: its subscriptions at other replicas exceed the share of its client in `http.limits.subscription-memory` here"
            );
            self.end_over_limit(session);
            return;
        }
        let (has_stream, has_updates) = session.has_stream();
        if has_stream && shared.is_stream_elsewhere() {
            // The newest stream is at another replica, so this one ends.
            session.end_stream();
        } else if has_updates {
            self.subscribe(session, shared, record.is_initialized);
        }
    }

    /// Charges the subscriptions of the record that were made elsewhere, if the session was opened here. Returns false
    /// if they exceed the share of the client. Subscriptions that do not fit because of other clients are not charged.
    pub(super) fn charge(&self, session: &StoredSession, shared: &SharedCopy) -> bool {
        let mut elsewhere = session.elsewhere.lock();
        if !shared.is_home || session.ended.is_cancelled() {
            return true;
        }
        let subscriber = session.session.subscriber();
        let client = session.client.requester(&subscriber.principal());
        let uris = shared.subscriptions();
        let charged = self.host.charge_subscriptions_elsewhere(subscriber, client, &uris, &mut elsewhere);
        charged != Err(LimitReached::ClientShare)
    }

    /// Ends a session whose record is beyond a limit, at all replicas.
    pub(super) fn end_over_limit(self: &Arc<Self>, session: &Arc<StoredSession>) {
        let deletion = self.permit_deletion(session).ok().flatten();
        // First, so that no request makes a copy of it meanwhile.
        self.delete_in_background(session, deletion);
        self.forget(session);
    }

    /// Replaces the subscriptions of the session here by the record's. A new subscription is notified once when it is
    /// made.
    fn subscribe(&self, session: &StoredSession, shared: &SharedCopy, is_initialized: bool) {
        if is_initialized {
            session.session.watch_listing();
        }
        let new = self.cancel_others(session, shared);
        let subscriber = session.session.subscriber();
        let mut subscribing = session.subscribing.lock();
        *subscribing = None;
        if new.is_empty() || session.ended.is_cancelled() {
            return;
        }
        let (host, subscriber) = (self.host.clone(), subscriber.clone());
        let requester = session.client.requester(&subscriber.principal());
        let task =
            task::spawn(requester.scope(async move { match host.maintain_subscriptions(&subscriber, &new).await {} }));
        *subscribing = Some(AbortOnDropHandle::new(task));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn record() -> SessionRecord {
        SessionRecord {
            principal: "corp/ada".to_owned(),
            is_built_in: false,
            revision: "2025-11-25".to_owned(),
            may_subscribe: true,
            is_initialized: true,
            log_level: None,
            stream: None,
            subscriptions: [].into(),
        }
    }

    #[test]
    fn a_record_is_for_its_principal_alone_whatever_its_name_is() {
        let (ada, bob) = (Principal::new("corp/ada"), Principal::new("corp/bob"));
        assert!(agreement(&record(), &ada).is_some());
        assert!(agreement(&record(), &ada.clone().with_groups(["corp/x"])).is_some());
        assert_eq!(agreement(&record(), &bob), None);
        let named = SessionRecord { principal: "anonymous".to_owned(), ..record() };
        assert!(agreement(&named, &Principal::new("anonymous")).is_some());
        assert_eq!(agreement(&named, &Principal::ANONYMOUS), None);
        let built_in = SessionRecord { is_built_in: true, ..named };
        assert_eq!(agreement(&built_in, &Principal::new("anonymous")), None);
        assert!(agreement(&built_in, &Principal::ANONYMOUS).is_some());
        for revision in ["2026-07-28", "x", ""] {
            assert_eq!(
                agreement(&SessionRecord { revision: revision.to_owned(), ..record() }, &ada),
                None,
                "{revision}"
            );
        }
    }

    #[test]
    fn clients_of_the_store_are_told_apart() {
        let clients = [
            ClientId::Principal(Principal::new("local")),
            ClientId::Principal(Principal::LOCAL),
            ClientId::Principal(Principal::new("192.0.2.1")),
            ClientId::from_address("192.0.2.1".parse().unwrap()),
        ];
        let names: BTreeSet<_> = clients.iter().map(sharer).collect();
        assert_eq!(names.len(), clients.len());
        let member = Principal::new("corp/ada").with_groups(["corp/x"]);
        assert_eq!(sharer(&ClientId::Principal(member)), sharer(&ClientId::Principal(Principal::new("corp/ada"))));
    }
}
