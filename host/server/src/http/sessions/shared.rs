//! One copy of a session that replicas share: its cached record, and changes that are not written yet.
//!
//! A change is made here first, and then in the record by compare-and-swap: if another replica has written the record, it is read again,
//! and the change is applied to the new record. So concurrent changes at two replicas are both kept. While the record cannot be written,
//! changes wait, and the session continues with its cached record.
//!
//! | found in place of the record | meaning |
//! |---|---|
//! | a tombstone | the session has ended, at whichever replica |
//! | nothing, in a bucket that was made anew | the store has lost the record: it is written again |
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

use crate::client_log::LogLevel;
use crate::request::Request;
use crate::session::Agreement;

/// The maximum number of attempts to write a record that other replicas write concurrently.
const MAX_ATTEMPTS: usize = 8;

/// The maximum number of pending cancellations of subscriptions that are not known to be in the record.
const MAX_UNKNOWN_CANCELLED: usize = 64;

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

/// The most recently read or written state of the record.
struct Known {
    record: SessionRecord,
    /// The place at which the record was seen; none if there is no record.
    place: Option<RecordPlace>,
}

struct Status {
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

/// Changes that are not in the record yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pending {
    /// For each URI with a change, whether there is a subscription.
    subscriptions: BTreeMap<String, bool>,
    log_level: Option<LogLevel>,
    is_initialized: bool,
    stream: Option<StreamPlace>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn apply(&self, record: &mut SessionRecord) {
        for (uri, is_wanted) in &self.subscriptions {
            if *is_wanted {
                record.subscriptions.insert(uri.clone());
            } else {
                record.subscriptions.remove(uri);
            }
        }
        record.is_initialized |= self.is_initialized;
        if let Some(level) = self.log_level {
            record.log_level = Some(level.name().to_owned());
        }
        record.stream = self.stream.or(record.stream);
    }

    /// Removes the changes that were written.
    fn remove(&mut self, written: &Self) {
        self.subscriptions.retain(|uri, is_wanted| written.subscriptions.get(uri) != Some(is_wanted));
        self.log_level.take_if(|level| written.log_level == Some(*level));
        self.is_initialized &= !written.is_initialized;
        self.stream.take_if(|stream| written.stream == Some(*stream));
    }
}

impl SharedCopy {
    /// Creates the copy of a session that was opened here. Its record is not written yet.
    pub(super) fn opened(
        store: SessionStore,
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
        Self::new(store, client, id, true, record, None)
    }

    /// Creates the copy of a session of another replica.
    pub(super) fn restored(
        store: SessionStore,
        client: Arc<str>,
        id: &str,
        record: SessionRecord,
        place: RecordPlace,
    ) -> Self {
        Self::new(store, client, id, false, record, Some(place))
    }

    fn new(
        store: SessionStore,
        client: Arc<str>,
        id: &str,
        is_home: bool,
        record: SessionRecord,
        place: Option<RecordPlace>,
    ) -> Self {
        let status = Status {
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
            is_home,
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
        !self.status.lock().pending.is_empty()
    }

    /// Whether a write is due: because of a change, or to renew the record if its last write is at least `interval` old and the session was
    /// used since, last at `used`.
    pub(super) fn is_due(&self, used: Instant, interval: Duration) -> bool {
        let status = self.status.lock();
        let is_old = |written: Instant| used > written && written.elapsed() >= interval;
        !status.pending.is_empty() || status.written.is_none_or(is_old)
    }

    /// Returns the cached record with the unwritten changes applied.
    pub(super) async fn record(&self) -> SessionRecord {
        let known = self.known.lock().await;
        let mut record = known.record.clone();
        self.status.lock().pending.apply(&mut record);
        record
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
            Ok(Stored::Record(place, record)) if record.is_of_same_principal(&known.record) => {
                let mut status = self.status.lock();
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

    /// Makes a change and writes it. If the write fails, the change waits, unless the session's stream is at another replica. Without
    /// `is_reachable` the write is not tried. Returns whether the record was written.
    pub(super) async fn change(
        &self,
        change: Change,
        lifetime: Duration,
        is_reachable: bool,
    ) -> Result<bool, ShareError> {
        self.add(change.clone()).await;
        let written = if is_reachable { self.write(lifetime).await } else { Err(ShareError::Unavailable) };
        match written {
            Ok(is_written) => Ok(is_written),
            Err(ShareError::Unavailable) if !self.is_stream_elsewhere() || change == Change::Stream => Ok(false),
            Err(error) => {
                self.withdraw(change);
                Err(error)
            }
        }
    }

    /// Adds cancellations of subscriptions that are in the record. They are written with the next change.
    pub(super) async fn cancel(&self, uris: Vec<String>) {
        for uri in uris {
            self.add(Change::Unsubscribe(uri)).await;
        }
    }

    /// Adds a pending change. It is written even if the cached record already has it, because the cache may be outdated.
    async fn add(&self, change: Change) {
        let known = self.known.lock().await;
        let mut status = self.status.lock();
        match change {
            Change::Initialized => status.pending.is_initialized = true,
            Change::LogLevel(level) => status.pending.log_level = Some(level),
            Change::Subscribe(uri) => {
                status.pending.subscriptions.insert(uri, true);
            }
            Change::Unsubscribe(uri) => {
                let pending = &mut status.pending.subscriptions;
                let cancelled = pending.values().filter(|is_wanted| !**is_wanted).count();
                if known.record.subscriptions.contains(&uri) || cancelled < MAX_UNKNOWN_CANCELLED {
                    pending.insert(uri, false);
                } else {
                    pending.remove(&uri);
                }
            }
            Change::Stream => {
                let place = Some(self.place());
                (status.stream, status.pending.stream) = (place, place);
            }
        }
    }

    fn withdraw(&self, change: Change) {
        let pending = &mut self.status.lock().pending;
        match change {
            Change::Initialized => pending.is_initialized = false,
            Change::LogLevel(_) => pending.log_level = None,
            Change::Subscribe(uri) | Change::Unsubscribe(uri) => {
                pending.subscriptions.remove(&uri);
            }
            Change::Stream => pending.stream = None,
        }
    }

    /// Writes the pending changes. Returns whether there were any.
    pub(super) async fn write(&self, lifetime: Duration) -> Result<bool, ShareError> {
        let mut known = self.known.lock().await;
        if known.place.is_some() && self.status.lock().pending.is_empty() {
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
            let pending = self.status.lock().pending.clone();
            let mut record = known.record.clone();
            pending.apply(&mut record);
            self.status.lock().may_be_stored = true;
            let began = Instant::now();
            match self.store.write(&self.client, &self.key, &record, known.place, lifetime).await {
                Ok(place) => {
                    *known = Known { record, place: Some(place) };
                    let mut status = self.status.lock();
                    status.pending.remove(&pending);
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
    use crate::revision::Revision;

    const LIFETIME: Duration = Duration::from_mins(1);
    const ID: &str = "0123456789abcdef0123456789abcdef-0123456789abcdef";

    fn store(engine: &ModelEngine, number: u128) -> SessionStore {
        SessionStore::new(engine.clone(), ReplicaId::new(number), Duration::from_secs(10))
    }

    /// A session of ada's that was opened at a replica.
    fn opened(store: &SessionStore) -> SharedCopy {
        let agreed = Agreement { revision: Revision::from_name("2025-11-25").unwrap(), may_subscribe: true };
        SharedCopy::opened(store.clone(), "ada".into(), ID, &Principal::new("corp/ada"), agreed)
    }

    /// A copy of it at another replica.
    async fn restored(store: &SessionStore) -> SharedCopy {
        let client: Arc<str> = "ada".into();
        let stored = store.read(&client, &SessionKey::of(ID)).await.unwrap();
        let Stored::Record(place, record) = stored else { panic!("there is no record") };
        SharedCopy::restored(store.clone(), client, ID, *record, place)
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
        let long = SharedCopy::opened(store.clone(), "x".into(), ID, &long, agreed);
        long.defer();
        assert_eq!(long.write(LIFETIME).await, Err(ShareError::TooLarge));
        assert!(!store.has_unwritten());
    }

    #[test]
    fn what_was_written_does_not_wait_any_more_and_what_was_changed_meanwhile_does() {
        let place = |number| StreamPlace { replica: "0".repeat(32).parse().unwrap(), number };
        let written = Pending {
            subscriptions: BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), false)]),
            log_level: Some(LogLevel::Error),
            is_initialized: true,
            stream: Some(place(1)),
        };
        let mut pending = written.clone();
        pending.remove(&written);
        assert!(pending.is_empty());
        let mut pending = written.clone();
        pending.subscriptions.insert("a".to_owned(), false);
        pending.subscriptions.insert("c".to_owned(), true);
        (pending.log_level, pending.stream) = (Some(LogLevel::Debug), Some(place(2)));
        pending.remove(&written);
        let expected = Pending {
            subscriptions: BTreeMap::from([("a".to_owned(), false), ("c".to_owned(), true)]),
            log_level: Some(LogLevel::Debug),
            is_initialized: false,
            stream: Some(place(2)),
        };
        assert_eq!(pending, expected);
    }
}
