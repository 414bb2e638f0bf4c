//! One copy of a session that replicas share: its cached record, and changes that are not written yet.
//!
//! A change is made here first, and then in the record by compare-and-swap: if another replica has written the record,
//! it is read again, and the change is applied to the new record. So concurrent changes at two replicas are both kept.
//! While the record cannot be written, changes wait, and the session continues with its cached record. The bounds of a
//! record apply to the cached record with the changes that wait ([`super::subscriptions`]), so a change beyond them is
//! refused whether or not the record can be written.
//!
//! | found in place of the record | meaning |
//! |---|---|
//! | a tombstone | the session has ended, here or at another replica |
//! | nothing, in a bucket that was created again | the store has lost the record: it is written again |
//! | nothing otherwise | the session was deleted, or was used at no replica: it has ended. The replica that opened it writes its record again if it could not renew it in time |
//! | no record, or one of another principal | a foreign writer has replaced it: it is written again |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_resource_host::access::Principal;
use mcp_resource_host::host::{
    RecordPlace, SessionKey, SessionRecord, SessionStore, StoreError, Stored, StreamPlace, Unwritten,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::subscriptions::{NormalForms, Subscriptions};
use crate::client_log::LogLevel;
use crate::request::Request;
use crate::session::Agreement;

/// The maximum number of attempts to write a record that other replicas write concurrently.
const MAX_ATTEMPTS: usize = 8;

/// A change of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum Change {
    /// The client has sent `notifications/initialized`.
    Initialized,
    /// The client sets this log level.
    LogLevel(LogLevel),
    /// The client subscribes to a resource.
    Subscribe(String),
    /// The client cancels a subscription.
    Unsubscribe(String),
    /// The newest event stream of the session is at this copy.
    Stream,
}

impl Change {
    /// The change that a request makes if it succeeds.
    pub(in crate::http) fn of(request: &Request) -> Option<Self> {
        match request {
            Request::SetLevel(level) => Some(Self::LogLevel(*level)),
            Request::Subscribe(uri) => Some(Self::Subscribe(uri.clone())),
            Request::Unsubscribe(uri) => Some(Self::Unsubscribe(uri.clone())),
            _ => None,
        }
    }
}

/// The reason why the record of a session is not read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum ShareError {
    /// The session has ended at another replica.
    Ended,
    /// The store is unreachable now.
    Unavailable,
    /// The record would be too large.
    TooLarge,
}

/// A replica's copy of a shared session.
pub(super) struct SharedCopy {
    store: SessionStore,
    /// The client that the requests about the record are made for.
    client: Arc<str>,
    key: SessionKey,
    /// Whether the session was opened here. Then eviction ends it at all replicas.
    pub(super) is_home: bool,
    /// Distinguishes the copies of a session: in the ids of events, and in the place of the newest stream.
    tag: u64,
    /// Locked while the record is read or written.
    known: tokio::sync::Mutex<Known>,
    status: Mutex<Status>,
}

/// The most recently read or written state of the record, without its subscriptions, which [`Status`] has.
struct Known {
    record: SessionRecord,
    /// The place at which the record was seen; none if there is no record.
    place: Option<RecordPlace>,
}

struct Status {
    subscriptions: Subscriptions,
    pending: Pending,
    /// The time of the last write here. None if the record has to be written.
    written: Option<Instant>,
    /// When the record written by this replica expires; none if it has written none.
    expires: Option<Instant>,
    /// Whether a write was tried, so that a record may exist.
    may_be_stored: bool,
    /// Counts the session while there is no record because it could not be written.
    unwritten: Option<Unwritten>,
    /// Whether another replica may have written the record.
    is_doubtful: bool,
    /// Whether a task is reading or writing the record.
    is_busy: bool,
    /// The last known place of the newest stream.
    stream: Option<StreamPlace>,
}

/// Changes that are not in the record yet, except changes of subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pending {
    log_level: Option<LogLevel>,
    is_initialized: bool,
    stream: Option<StreamPlace>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn apply(&self, record: &mut SessionRecord) {
        record.is_initialized |= self.is_initialized;
        if let Some(level) = self.log_level {
            record.log_level = Some(level.name().to_owned());
        }
        record.stream = self.stream.or(record.stream);
    }

    /// Removes the changes that were written.
    fn remove(&mut self, written: &Self) {
        self.log_level.take_if(|level| written.log_level == Some(*level));
        self.is_initialized &= !written.is_initialized;
        self.stream.take_if(|stream| written.stream == Some(*stream));
    }
}

impl Status {
    fn has_changes(&self) -> bool {
        !self.pending.is_empty() || self.subscriptions.has_changes()
    }

    /// Returns this record with the session's subscriptions and the unwritten changes.
    fn applied_to(&self, record: &SessionRecord) -> SessionRecord {
        let mut record = SessionRecord { subscriptions: self.subscriptions.uris(), ..record.clone() };
        self.pending.apply(&mut record);
        record
    }
}

impl SharedCopy {
    /// Creates the copy of a session that was opened here. Its record is not written yet.
    pub(super) fn opened(
        store: SessionStore,
        forms: Arc<dyn NormalForms>,
        client: Arc<str>,
        id: &str,
        principal: &Principal,
        agreed: Agreement,
    ) -> Self {
        let record = SessionRecord {
            principal: principal.name().to_owned(),
            is_built_in: principal.is_built_in(),
            revision: agreed.revision.name().to_owned(),
            may_subscribe: agreed.may_subscribe,
            is_initialized: false,
            log_level: None,
            stream: None,
            subscriptions: [].into(),
        };
        Self::new(store, forms, client, id, record, None)
    }

    /// Creates the copy of a session of another replica.
    pub(super) fn restored(
        store: SessionStore,
        forms: Arc<dyn NormalForms>,
        client: Arc<str>,
        id: &str,
        record: SessionRecord,
        place: RecordPlace,
    ) -> Self {
        Self::new(store, forms, client, id, record, Some(place))
    }

    fn new(
        store: SessionStore,
        forms: Arc<dyn NormalForms>,
        client: Arc<str>,
        id: &str,
        mut record: SessionRecord,
        place: Option<RecordPlace>,
    ) -> Self {
        let status = Status {
            subscriptions: Subscriptions::new(forms, std::mem::take(&mut record.subscriptions)),
            pending: Pending::default(),
            written: place.map(|_| Instant::now()),
            expires: None,
            may_be_stored: place.is_some(),
            unwritten: None,
            is_doubtful: false,
            is_busy: false,
            stream: record.stream,
        };
        Self {
            store,
            client,
            key: SessionKey::of(id),
            is_home: place.is_none(),
            tag: fastrand::u64(..),
            known: tokio::sync::Mutex::new(Known { record, place }),
            status: Mutex::new(status),
        }
    }

    pub(super) fn key(&self) -> &SessionKey {
        &self.key
    }

    /// The id of the event with this number.
    pub(super) fn event_id(&self, number: u64) -> String {
        format!("{:016x}-{number}", self.tag)
    }

    /// The number of the event with this id. None if it is not an event of this copy.
    pub(super) fn event_number(&self, id: &str) -> Option<u64> {
        let (tag, number) = id.split_once('-')?;
        let is_mine = tag.len() == 16 && u64::from_str_radix(tag, 16) == Ok(self.tag);
        number.parse().ok().filter(|_| is_mine)
    }

    fn place(&self) -> StreamPlace {
        StreamPlace { replica: self.store.me(), number: self.tag }
    }

    /// Whether the last known place of the newest stream is another copy.
    pub(super) fn is_stream_elsewhere(&self) -> bool {
        self.status.lock().stream.is_some_and(|place| place != self.place())
    }

    /// Marks the record as doubtful, because another replica may have written it.
    pub(super) fn doubt(&self) {
        self.status.lock().is_doubtful = true;
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.status.lock().is_doubtful
    }

    /// Begins a task that reads or writes the record, unless one is running. [`end_task`](Self::end_task) ends it.
    pub(super) fn begin_task(&self) -> bool {
        !std::mem::replace(&mut self.status.lock().is_busy, true)
    }

    pub(super) fn end_task(&self) {
        self.status.lock().is_busy = false;
    }

    /// The client that the requests about the record are made for.
    pub(super) fn client(&self) -> &Arc<str> {
        &self.client
    }

    /// Returns whether a record may exist.
    pub(super) fn may_be_stored(&self) -> bool {
        self.status.lock().may_be_stored
    }

    /// Counts the session as one whose record could not be written, unless there is a record.
    pub(super) fn defer(&self) {
        let mut status = self.status.lock();
        if status.written.is_none() {
            status.unwritten.get_or_insert_with(|| self.store.count_unwritten());
        }
    }

    /// Whether there are unwritten changes.
    pub(super) fn has_changes(&self) -> bool {
        self.status.lock().has_changes()
    }

    /// Whether a write is due: because of a change, or to renew the record if its last write is at least `interval` old
    /// and the session was used since, last at `used`.
    pub(super) fn is_due(&self, used: Instant, interval: Duration) -> bool {
        let status = self.status.lock();
        let is_old = |written: Instant| used > written && written.elapsed() >= interval;
        status.has_changes() || status.written.is_none_or(is_old)
    }

    /// Returns the cached record with the unwritten changes applied.
    pub(super) async fn record(&self) -> SessionRecord {
        let known = self.known.lock().await;
        self.status.lock().applied_to(&known.record)
    }

    /// Returns the URIs of the session's subscriptions, with the unwritten changes, by normal form.
    pub(super) fn subscriptions(&self) -> BTreeMap<String, String> {
        self.status.lock().subscriptions.by_form()
    }

    /// Returns whether the session has a subscription to a resource with this normal form.
    pub(super) fn has_subscription(&self, form: &str) -> bool {
        self.status.lock().subscriptions.contains(form)
    }

    /// Returns the normal form of a URI.
    pub(super) fn normal_form(&self, uri: &str) -> String {
        self.status.lock().subscriptions.normal_form(uri)
    }

    /// Calls `cancel` unless the session has a subscription to a resource with this normal form. None is added during
    /// the call.
    pub(super) fn unless_subscribed(&self, form: &str, cancel: impl FnOnce()) {
        let mut status = self.status.lock();
        if !status.subscriptions.contains(form) {
            cancel();
        }
    }

    /// Reads the record.
    pub(super) async fn refresh(&self) -> Result<(), ShareError> {
        let mut known = self.known.lock().await;
        // Cleared before the read, because the read may miss later writes.
        self.status.lock().is_doubtful = false;
        let read = self.read(&mut known).await;
        if read == Err(ShareError::Unavailable) {
            self.doubt();
        }
        read
    }

    async fn read(&self, known: &mut Known) -> Result<(), ShareError> {
        match self.store.read(&self.client, &self.key).await {
            Ok(Stored::Record(place, mut record)) if record.is_of_same_principal(&known.record) => {
                let mut status = self.status.lock();
                status.subscriptions.set_recorded(std::mem::take(&mut record.subscriptions));
                status.stream = status.pending.stream.or(record.stream);
                status.unwritten = None;
                *known = Known { record: *record, place: Some(place) };
                Ok(())
            }
            Ok(Stored::Record(place, _) | Stored::Invalid(place)) => {
                known.place = Some(place);
                self.status.lock().written = None;
                Ok(())
            }
            Ok(Stored::Nothing) => {
                if let Some(place) = known.place
                    && !self.may_have_expired()
                    && !self.store.has_lost(&self.client, place).await.map_err(|_| ShareError::Unavailable)?
                {
                    return Err(ShareError::Ended);
                }
                known.place = None;
                self.status.lock().written = None;
                self.defer();
                Ok(())
            }
            Ok(Stored::Deleted) => Err(ShareError::Ended),
            Err(_) => Err(ShareError::Unavailable),
        }
    }

    /// Returns whether the record may have expired although this replica opened the session and uses it: writes have
    /// failed for longer than the lifetime of the record.
    fn may_have_expired(&self) -> bool {
        self.is_home && self.status.lock().expires.is_none_or(|expires| expires <= Instant::now())
    }

    /// Makes a change and writes it. If the write fails, the change waits, unless the session's stream is at another
    /// replica. Without `is_reachable` the write is not tried. Fails if the record with the unwritten changes would be
    /// too large. Returns whether the record was written.
    pub(super) async fn change(
        &self,
        change: Change,
        lifetime: Duration,
        is_reachable: bool,
    ) -> Result<bool, ShareError> {
        self.add(&change)?;
        let written = if is_reachable { self.write(lifetime).await } else { Err(ShareError::Unavailable) };
        match written {
            Ok(is_written) => Ok(is_written),
            Err(ShareError::Unavailable) if !self.is_stream_elsewhere() || change == Change::Stream => Ok(false),
            Err(error) => {
                self.withdraw(&change);
                Err(error)
            }
        }
    }

    /// Adds a pending change. It is written even if the cached record already has it, because the cache may be
    /// outdated.
    fn add(&self, change: &Change) -> Result<(), ShareError> {
        let mut status = self.status.lock();
        match change {
            Change::Initialized => status.pending.is_initialized = true,
            Change::LogLevel(level) => status.pending.log_level = Some(*level),
            Change::Subscribe(uri) if !status.subscriptions.subscribe(uri) => return Err(ShareError::TooLarge),
            Change::Subscribe(_) => {}
            Change::Unsubscribe(uri) => status.subscriptions.cancel(uri),
            Change::Stream => {
                let place = Some(self.place());
                (status.stream, status.pending.stream) = (place, place);
            }
        }
        Ok(())
    }

    fn withdraw(&self, change: &Change) {
        let status = &mut *self.status.lock();
        match change {
            Change::Initialized => status.pending.is_initialized = false,
            Change::LogLevel(_) => status.pending.log_level = None,
            Change::Subscribe(uri) | Change::Unsubscribe(uri) => status.subscriptions.withdraw(uri),
            Change::Stream => status.pending.stream = None,
        }
    }

    /// Writes the pending changes. Returns whether there were any.
    pub(super) async fn write(&self, lifetime: Duration) -> Result<bool, ShareError> {
        let mut known = self.known.lock().await;
        if known.place.is_some() && !self.has_changes() {
            return Ok(false);
        }
        self.write_known(&mut known, lifetime).await.map(|()| true)
    }

    /// Writes the record with the pending changes, which renews its time to live.
    pub(super) async fn keep(&self, lifetime: Duration) -> Result<(), ShareError> {
        self.write_known(&mut *self.known.lock().await, lifetime).await
    }

    async fn write_known(&self, known: &mut Known, lifetime: Duration) -> Result<(), ShareError> {
        for _ in 0..MAX_ATTEMPTS {
            let (mut record, pending, subscriptions) = {
                let mut status = self.status.lock();
                status.may_be_stored = true;
                (status.applied_to(&known.record), status.pending.clone(), status.subscriptions.pending())
            };
            let began = Instant::now();
            match self.store.write(&self.client, &self.key, &record, known.place, lifetime).await {
                Ok(place) => {
                    record.subscriptions.clear();
                    *known = Known { record, place: Some(place) };
                    let mut status = self.status.lock();
                    status.pending.remove(&pending);
                    status.subscriptions.set_written(subscriptions);
                    status.written = Some(Instant::now());
                    status.expires = began.checked_add(lifetime);
                    status.unwritten = None;
                    return Ok(());
                }
                Err(StoreError::Conflict) => self.read(known).await?,
                Err(StoreError::Unavailable(_)) => {
                    self.defer();
                    return Err(ShareError::Unavailable);
                }
                Err(StoreError::Impossible(_)) => {
                    // The record will never be written, so no replica has to wait for it.
                    self.status.lock().unwritten = None;
                    return Err(ShareError::TooLarge);
                }
            }
        }
        Err(ShareError::Unavailable)
    }

    /// Writes a tombstone in place of the record, so that the session ends at all replicas.
    pub(super) async fn delete(&self) -> Result<(), ShareError> {
        self.store.delete(&self.client, &self.key).await.map_err(|_| ShareError::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use mcp_resource_host::host::{ModelEngine, ReplicaId};

    use super::*;
    use crate::http::sessions::subscriptions::tests::LowerCase;
    use crate::revision::Revision;

    const LIFETIME: Duration = Duration::from_mins(1);
    const ID: &str = "0123456789abcdef0123456789abcdef-0123456789abcdef";

    fn forms() -> Arc<dyn NormalForms> {
        Arc::new(LowerCase::default())
    }

    fn store(engine: &ModelEngine, number: u128) -> SessionStore {
        SessionStore::new(engine.clone(), ReplicaId::new(number), Duration::from_secs(10))
    }

    /// A session of ada's that was opened at a replica.
    fn opened(store: &SessionStore) -> SharedCopy {
        let agreed = Agreement { revision: Revision::from_name("2025-11-25").unwrap(), may_subscribe: true };
        SharedCopy::opened(store.clone(), forms(), "ada".into(), ID, &Principal::new("corp/ada"), agreed)
    }

    /// A copy of it at another replica.
    async fn restored(store: &SessionStore) -> SharedCopy {
        let client: Arc<str> = "ada".into();
        let stored = store.read(&client, &SessionKey::of(ID)).await.unwrap();
        let Stored::Record(place, record) = stored else { panic!("there is no record") };
        SharedCopy::restored(store.clone(), forms(), client, ID, *record, place)
    }

    #[tokio::test]
    async fn a_session_that_was_deleted_does_not_come_back_when_its_tombstone_is_gone() {
        let engine = ModelEngine::default();
        let [one, other, third] = [1, 2, 3].map(|number| store(&engine, number));
        let home = opened(&one);
        home.write(LIFETIME).await.unwrap();
        let (copy, deleting) = (restored(&other).await, restored(&third).await);
        deleting.delete().await.unwrap();
        engine.forget(home.key().as_str());
        for session in [&home, &copy] {
            session.doubt();
            assert_eq!(session.refresh().await, Err(ShareError::Ended));
            assert_eq!(session.keep(LIFETIME).await, Err(ShareError::Ended));
            let change = Change::Subscribe("a://x".to_owned());
            assert_eq!(session.change(change, LIFETIME, true).await, Err(ShareError::Ended));
        }
        assert_eq!(one.read(&"ada".into(), home.key()).await.unwrap(), Stored::Nothing);
    }

    #[tokio::test]
    async fn a_record_that_the_engine_has_lost_or_that_could_not_be_renewed_is_written_again() {
        let engine = ModelEngine::default();
        let [one, other] = [1, 2].map(|number| store(&engine, number));
        let home = opened(&one);
        home.write(LIFETIME).await.unwrap();
        let copy = restored(&other).await;
        engine.forget_all();
        copy.refresh().await.unwrap();
        assert!(other.has_unwritten(), "until it is written");
        copy.keep(LIFETIME).await.unwrap();
        assert!(!other.has_unwritten());
        home.refresh().await.unwrap();
        assert!(home.write(LIFETIME).await.is_ok());
        // The home replica could not write for longer than the lifetime of the record. To another replica, the session
        // is unused.
        home.keep(Duration::ZERO).await.unwrap();
        assert_eq!(copy.refresh().await, Err(ShareError::Ended));
        home.refresh().await.unwrap();
        assert_eq!(home.write(LIFETIME).await, Ok(true));
    }

    #[tokio::test]
    async fn a_session_is_counted_until_its_record_is_written_or_it_ends() {
        let store = store(&ModelEngine::default(), 1);
        let home = opened(&store);
        assert!(!home.may_be_stored() && !store.has_unwritten());
        home.defer();
        assert!(!home.may_be_stored() && store.has_unwritten());
        home.write(LIFETIME).await.unwrap();
        assert!(home.may_be_stored() && !store.has_unwritten());
        home.defer();
        assert!(!store.has_unwritten(), "there is a record");
        let other = opened(&store);
        other.defer();
        drop(other);
        assert!(!store.has_unwritten());
        // No replica waits for a record that can never be written.
        let agreed = Agreement { revision: Revision::from_name("2025-11-25").unwrap(), may_subscribe: true };
        let long = Principal::new("x".repeat(10_000));
        let long = SharedCopy::opened(store.clone(), forms(), "x".into(), ID, &long, agreed);
        long.defer();
        assert_eq!(long.write(LIFETIME).await, Err(ShareError::TooLarge));
        assert!(!store.has_unwritten());
    }

    #[test]
    fn what_was_written_does_not_wait_any_more_and_what_was_changed_meanwhile_does() {
        let place = |number| StreamPlace { replica: "0".repeat(32).parse().unwrap(), number };
        let written = Pending { log_level: Some(LogLevel::Error), is_initialized: true, stream: Some(place(1)) };
        let mut pending = written.clone();
        pending.remove(&written);
        assert!(pending.is_empty());
        let mut pending = written.clone();
        (pending.log_level, pending.stream) = (Some(LogLevel::Debug), Some(place(2)));
        pending.remove(&written);
        let expected = Pending { log_level: Some(LogLevel::Debug), is_initialized: false, stream: Some(place(2)) };
        assert_eq!(pending, expected);
    }

    #[tokio::test]
    async fn a_subscription_beyond_the_bounds_of_a_record_is_refused_with_or_without_the_store() {
        for is_reachable in [false, true] {
            let home = opened(&store(&ModelEngine::default(), 1));
            let subscribe = |uri: String| home.change(Change::Subscribe(uri), LIFETIME, is_reachable);
            for number in 0..1024 {
                assert_eq!(subscribe(format!("a://x/{number}")).await, Ok(is_reachable));
            }
            assert_eq!(subscribe("a://x/more".to_owned()).await, Err(ShareError::TooLarge));
            // Another spelling of an existing subscription.
            assert_eq!(subscribe("A://x/1".to_owned()).await, Ok(is_reachable));
            assert_eq!(home.record().await.subscriptions.len(), 1024);
            let cancel = Change::Unsubscribe("A://x/1".to_owned());
            assert_eq!(home.change(cancel, LIFETIME, is_reachable).await, Ok(is_reachable));
            assert_eq!(subscribe("a://x/more".to_owned()).await, Ok(is_reachable));
        }
    }

    #[tokio::test]
    async fn a_subscription_that_another_replica_has_made_in_another_spelling_is_cancelled() {
        let engine = ModelEngine::default();
        let [one, other] = [1, 2].map(|number| store(&engine, number));
        let home = opened(&one);
        home.change(Change::Subscribe("A://x".to_owned()), LIFETIME, true).await.unwrap();
        let copy = restored(&other).await;
        assert!(copy.has_subscription("a://x"));
        copy.change(Change::Unsubscribe("a://X".to_owned()), LIFETIME, true).await.unwrap();
        home.refresh().await.unwrap();
        assert!(home.record().await.subscriptions.is_empty() && home.subscriptions().is_empty());
    }
}
