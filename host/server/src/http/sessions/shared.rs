//! One copy of a session that replicas share: its cached record, and changes that are not written yet.
//!
//! A change is made here first, and then in the record by compare-and-swap: if another replica has written the record, it is read again,
//! and the change is applied to the new record. So concurrent changes at two replicas are both kept. While the record cannot be written,
//! changes wait, and the session continues with its cached record.
//!
//! | found in place of the record | meaning |
//! |---|---|
//! | a tombstone | the session has ended, at whichever replica |
//! | nothing | the store has lost the record: it is written again |
//! | no record, or one of another principal | a foreign writer has replaced it: it is written again |

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_resource_host::access::Principal;
use mcp_resource_host::host::{SessionKey, SessionRecord, SessionStore, StoreError, Stored, StreamPlace};
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
    /// Its revision. None if there is no record.
    revision: Option<u64>,
}

struct Status {
    pending: Pending,
    /// The time of the last write here. None if the record has to be written.
    written: Option<Instant>,
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
    pub(super) fn opened(store: SessionStore, id: &str, principal: &Principal, agreed: Agreement) -> Self {
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
        Self::new(store, id, true, record, None)
    }

    /// Creates the copy of a session of another replica.
    pub(super) fn restored(store: SessionStore, id: &str, record: SessionRecord, revision: u64) -> Self {
        Self::new(store, id, false, record, Some(revision))
    }

    fn new(store: SessionStore, id: &str, is_home: bool, record: SessionRecord, revision: Option<u64>) -> Self {
        let status = Status {
            pending: Pending::default(),
            written: revision.map(|_| Instant::now()),
            is_doubtful: false,
            is_busy: false,
            stream: record.stream,
        };
        Self {
            store,
            key: SessionKey::of(id),
            is_home,
            tag: fastrand::u64(..),
            known: tokio::sync::Mutex::new(Known { record, revision }),
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
        match self.store.read(&self.key).await {
            Ok(Stored::Record(revision, record)) if record.is_of_same_principal(&known.record) => {
                let mut status = self.status.lock();
                status.stream = status.pending.stream.or(record.stream);
                *known = Known { record: *record, revision: Some(revision) };
                Ok(())
            }
            Ok(Stored::Record(revision, _) | Stored::Invalid(revision)) => {
                known.revision = Some(revision);
                self.status.lock().written = None;
                Ok(())
            }
            Ok(Stored::Nothing) => {
                known.revision = None;
                self.status.lock().written = None;
                Ok(())
            }
            Ok(Stored::Deleted) => Err(ShareError::Ended),
            Err(_) => Err(ShareError::Unavailable),
        }
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
        if known.revision.is_some() && self.status.lock().pending.is_empty() {
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
            match self.store.write(&self.key, &record, known.revision, lifetime).await {
                Ok(revision) => {
                    *known = Known { record, revision: Some(revision) };
                    let mut status = self.status.lock();
                    status.pending.remove(&pending);
                    status.written = Some(Instant::now());
                    return Ok(());
                }
                Err(StoreError::Conflict) => self.read(known).await?,
                Err(StoreError::Unavailable(_)) => return Err(ShareError::Unavailable),
                Err(StoreError::Impossible(_)) => return Err(ShareError::TooLarge),
            }
        }
        Err(ShareError::Unavailable)
    }

    /// Writes a tombstone in place of the record, so that the session ends at all replicas.
    pub(super) async fn delete(&self, lifetime: Duration) -> Result<(), ShareError> {
        self.store.delete(&self.key, lifetime).await.map_err(|_| ShareError::Unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
