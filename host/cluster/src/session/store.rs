//! The session records in the bucket of an engine, with a timeout, and with a bound on concurrent requests that clients
//! share.
//!
//! # Deletions
//!
//! A deletion leaves a tombstone for [`TOMBSTONE_LIFETIME`] only, because no client is charged for it. A replica that
//! finds no value later compares the [history](History) of the bucket with the history in which it has seen the record.
//! If they are equal, the record was deleted or has expired; otherwise the engine has lost the bucket.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use mcp_host_base::fair_semaphore::FairSemaphore;
use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

use super::{SessionChange, SessionKey, SessionRecord, SessionRecordError};
use crate::engine::{Engine, EngineError, Entry};
use crate::member::Revision;
use crate::replica::ReplicaId;

/// The maximum number of concurrent requests to the engine. One client gets half of them, two a third each.
const MAX_REQUESTS: usize = 256;
/// The maximum number of requests that wait for another one to end, with the same shares. Load shedding: further
/// requests fail immediately, as if there were no engine, so the load that a client can cause is bounded.
const MAX_WAITING: usize = 4096;
/// The maximum number of changes that wait for a follower. Beyond it, any record may have changed.
const MAX_CHANGES: usize = 1024;
/// The time for which a deletion leaves a tombstone.
pub const TOMBSTONE_LIFETIME: Duration = Duration::from_secs(10);
/// The key of the bucket's history. No key of a session equals it.
const HISTORY: &str = "history";
/// The time to live of the history, longer than the time to live of any record.
const HISTORY_LIFETIME: Duration = Duration::from_secs(40 * 24 * 60 * 60);
/// The time for which a replica relies on the history that it has read.
const HISTORY_CHECK: Duration = Duration::from_mins(1);
/// The time after which a replica writes the history again.
const HISTORY_RENEWAL: Duration = Duration::from_hours(24);
/// The maximum number of attempts to write the history while other replicas write it.
const MAX_ATTEMPTS: usize = 4;
/// The minimum time between two warnings that the engine refuses requests.
const LOG_INTERVAL: Duration = Duration::from_mins(1);
/// The maximum length of the engine's text in the log, in characters.
const MAX_REASON: usize = 200;

/// The session records.
#[derive(Clone)]
pub struct SessionStore {
    shared: Arc<Shared>,
}

struct Shared {
    me: ReplicaId,
    engine: Box<dyn Bucket>,
    limit: Duration,
    requests: FairSemaphore<Arc<str>>,
    changes: broadcast::Sender<SessionChange>,
    /// The history that was read last.
    history: Mutex<Option<KnownHistory>>,
    /// The number of sessions whose records could not be written.
    unwritten: AtomicUsize,
    refusals: Throttle,
    failed: AtomicU64,
    invalid: AtomicU64,
}

/// The identity of a bucket: a random number in it. A bucket that was lost and made again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct History(u64);

impl History {
    fn encode(self) -> Vec<u8> {
        format!("{:016x}", self.0).into_bytes()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok().filter(|text| text.len() == 16)?;
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

#[derive(Clone, Copy)]
struct KnownHistory {
    history: History,
    /// When the history was read.
    read: Instant,
    /// When this replica wrote the history.
    written: Instant,
}

/// The place of a record: its revision, in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    revision: Revision,
    history: History,
}

/// A session whose record could not be written, while this value exists.
pub struct Unwritten(Arc<Shared>);

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.0.unwritten.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unwritten")
    }
}

/// The stored state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// No value: there is no such session, its record has expired or was deleted, or the engine has lost it.
    Nothing,
    /// The record was deleted less than [`TOMBSTONE_LIFETIME`] ago.
    Deleted,
    /// A value that is not a record.
    Invalid(RecordPlace),
    /// The record.
    Record(RecordPlace, Box<SessionRecord>),
}

/// A record was not written, read or deleted.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The record has another revision.
    #[error("the record was written by another replica")]
    Conflict,
    /// The engine does not respond in time, or rejects the request.
    #[error("the records of sessions cannot be reached: {0}")]
    Unavailable(String),
    /// The record cannot be written.
    #[error(transparent)]
    Impossible(#[from] SessionRecordError),
}

impl std::fmt::Debug for SessionStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionStore").field("me", &self.shared.me).finish_non_exhaustive()
    }
}

impl SessionStore {
    /// Creates the records in the bucket of this engine. A request takes at most `limit`.
    pub fn new(engine: impl Engine, me: ReplicaId, limit: Duration) -> Self {
        let shared = Shared {
            me,
            engine: Box::new(engine),
            limit,
            requests: FairSemaphore::new(MAX_REQUESTS, MAX_WAITING),
            changes: broadcast::Sender::new(MAX_CHANGES),
            history: Mutex::new(None),
            unwritten: AtomicUsize::new(0),
            refusals: Throttle::new(LOG_INTERVAL),
            failed: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the id of this replica.
    pub fn me(&self) -> ReplicaId {
        self.shared.me
    }

    /// Returns a receiver of later changes that other replicas report. A receiver that lags must assume that any record
    /// has changed.
    pub fn changes(&self) -> broadcast::Receiver<SessionChange> {
        self.shared.changes.subscribe()
    }

    /// Handles a change that another replica reports.
    pub fn heard(&self, change: SessionChange) {
        // There may be no receiver.
        let _ = self.shared.changes.send(change);
    }

    /// Counts a session whose record could not be written, so that other replicas do not take it for a session that
    /// does not exist.
    pub fn count_unwritten(&self) -> Unwritten {
        self.shared.unwritten.fetch_add(1, Ordering::Relaxed);
        Unwritten(self.shared.clone())
    }

    /// Returns whether the record of a session could not be written yet.
    pub fn has_unwritten(&self) -> bool {
        self.shared.unwritten.load(Ordering::Relaxed) > 0
    }

    /// Reads the record of a session, for this client.
    ///
    /// # Errors
    ///
    /// The stored state is unknown.
    pub async fn read(&self, client: &Arc<str>, key: &SessionKey) -> Result<Stored, StoreError> {
        let reading = async {
            // Known before the record is read, so that a bucket that is lost in between counts as lost.
            let history = self.history().await?;
            Ok::<_, EngineError>((history, self.shared.engine.get(key.as_str()).await?))
        };
        let (history, entry) = self.request(client, reading).await?;
        let Some(Entry { revision, value }) = entry else { return Ok(Stored::Nothing) };
        if value.is_empty() {
            return Ok(Stored::Deleted);
        }
        let place = RecordPlace { revision, history };
        match SessionRecord::decode(&value) {
            Ok(record) => Ok(Stored::Record(place, Box::new(record))),
            Err(error) => {
                self.shared.invalid.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(target: log_target::CLUSTER, ?key, "the record of a session is ignored: {error}");
                Ok(Stored::Invalid(place))
            }
        }
    }

    /// Returns whether the engine has lost the bucket in which a record was seen, for this client.
    ///
    /// # Errors
    ///
    /// It is unknown.
    pub async fn has_lost(&self, client: &Arc<str>, place: RecordPlace) -> Result<bool, StoreError> {
        let history = self.request(client, self.read_history()).await?;
        Ok(history != place.history)
    }

    /// Writes the record of a session, for this client, if it is as it was seen, or does not exist. The record expires
    /// after `lifetime`, unless it is written again.
    ///
    /// # Errors
    ///
    /// The record has another revision, or is too long, or it is unknown whether it was written.
    pub async fn write(
        &self,
        client: &Arc<str>,
        key: &SessionKey,
        record: &SessionRecord,
        expected: Option<RecordPlace>,
        lifetime: Duration,
    ) -> Result<RecordPlace, StoreError> {
        let value = record.encode()?;
        let expected = expected.map(|place| place.revision);
        let writing = async {
            let history = self.history().await?;
            let revision = self.shared.engine.write(key.as_str(), value, expected, lifetime).await?;
            Ok::<_, EngineError>(RecordPlace { revision, history })
        };
        self.request(client, writing).await
    }

    /// Deletes the record of a session, for this client. For [`TOMBSTONE_LIFETIME`] it leaves an empty value.
    ///
    /// # Errors
    ///
    /// It is unknown whether the record was deleted.
    pub async fn delete(&self, client: &Arc<str>, key: &SessionKey) -> Result<(), StoreError> {
        let deleting = self.shared.engine.overwrite(key.as_str(), Vec::new(), TOMBSTONE_LIFETIME);
        self.request(client, deleting).await.map(drop)
    }

    /// Returns the numbers of failed requests, and of values that were not records.
    pub fn failures(&self) -> (u64, u64) {
        let [failed, invalid] = [&self.shared.failed, &self.shared.invalid].map(|count| count.load(Ordering::Relaxed));
        (failed, invalid)
    }

    fn known_history(&self) -> MutexGuard<'_, Option<KnownHistory>> {
        self.shared.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the history of the bucket, as it was at most [`HISTORY_CHECK`] ago.
    async fn history(&self) -> Result<History, EngineError> {
        let known = *self.known_history();
        match known.filter(|known| known.read.elapsed() < HISTORY_CHECK) {
            Some(known) => Ok(known.history),
            None => self.read_history().await,
        }
    }

    /// Reads the history of the bucket. Writes it if there is none, or if this replica has not written it for
    /// [`HISTORY_RENEWAL`].
    async fn read_history(&self) -> Result<History, EngineError> {
        let engine = &self.shared.engine;
        for _ in 0..MAX_ATTEMPTS {
            let entry = engine.get(HISTORY).await?;
            let found = entry.as_ref().and_then(|entry| History::decode(&entry.value));
            let read = Instant::now();
            let known = self.known_history().filter(|known| found == Some(known.history));
            if let Some(known) = known.filter(|known| known.written.elapsed() < HISTORY_RENEWAL) {
                *self.known_history() = Some(KnownHistory { read, ..known });
                return Ok(known.history);
            }
            let current = found.unwrap_or_else(|| History(fastrand::u64(..)));
            let expected = entry.map(|entry| entry.revision);
            match engine.write(HISTORY, current.encode(), expected, HISTORY_LIFETIME).await {
                Ok(_) => {
                    *self.known_history() = Some(KnownHistory { history: current, read, written: read });
                    return Ok(current);
                }
                Err(EngineError::Conflict) => {}
                Err(error) => return found.ok_or(error),
            }
        }
        Err(EngineError::NoAnswer("other replicas write the history of the bucket".to_owned()))
    }

    async fn request<T>(
        &self,
        client: &Arc<str>,
        request: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, StoreError> {
        let Shared { requests, limit, .. } = &*self.shared;
        let requesting = async {
            let too_many = |_| EngineError::NoAnswer("too many requests wait for an answer".to_owned());
            let _permit = requests.acquire(client.clone()).await.map_err(too_many)?;
            request.await
        };
        let no_answer = |_| Err(EngineError::NoAnswer("the time is over".to_owned()));
        let answer = timeout(*limit, requesting).await.unwrap_or_else(no_answer);
        answer.map_err(|error| match error {
            EngineError::Conflict => StoreError::Conflict,
            error => {
                self.shared.failed.fetch_add(1, Ordering::Relaxed);
                self.log(&error);
                StoreError::Unavailable(error.to_string())
            }
        })
    }

    /// Logs a failed request. If the engine refuses requests, an operator can remove the reason, such as a full bucket.
    fn log(&self, error: &EngineError) {
        let reason = match error {
            EngineError::Refused(reason) if self.shared.refusals.record().is_some() => reason,
            error => {
                tracing::debug!(target: log_target::CLUSTER, "a request about the record of a session has failed: {error}");
                return;
            }
        };
        let reason: String = reason.chars().take(MAX_REASON).flat_map(char::escape_debug).collect();
        tracing::warn!(
            target: log_target::CLUSTER,
            "NATS refuses records of shared sessions ({reason}): sessions whose records cannot be written stay at this replica, and \
             other replicas answer their requests with 503. If the bucket of sessions is full, look for clients that open too many"
        );
    }
}

/// An engine of any type.
trait Bucket: Send + Sync {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, EngineError>>;

    fn write<'a>(
        &'a self,
        key: &'a str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<u64, EngineError>>;

    fn overwrite<'a>(
        &'a self,
        key: &'a str,
        value: Vec<u8>,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<u64, EngineError>>;
}

impl<E: Engine> Bucket for E {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, EngineError>> {
        Box::pin(Engine::get(self, key))
    }

    fn write<'a>(
        &'a self,
        key: &'a str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(self.write_expiring(key, value, expected, lifetime))
    }

    fn overwrite<'a>(
        &'a self,
        key: &'a str,
        value: Vec<u8>,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<u64, EngineError>> {
        Box::pin(Engine::overwrite(self, key, value, lifetime))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::FutureExt as _;
    use mcp_host_base::testing::CapturedLog;
    use tokio::sync::mpsc;
    use tracing::level_filters::LevelFilter;

    use super::super::tests::record;
    use super::*;
    use crate::engine::model::Model;

    const LIFETIME: Duration = Duration::from_mins(1);

    fn client(name: &str) -> Arc<str> {
        name.into()
    }

    fn store(engine: impl Engine, number: u128) -> SessionStore {
        SessionStore::new(engine, ReplicaId::new(number), Duration::from_secs(10))
    }

    fn stores() -> [SessionStore; 2] {
        let engine = Model::default();
        [1, 2].map(|number| store(engine.clone(), number))
    }

    #[tokio::test]
    async fn a_session_that_was_deleted_is_not_written_again_by_who_knew_it() {
        let ([one, other], ada, key) = (stores(), client("ada"), SessionKey::of("id"));
        assert_eq!(one.read(&ada, &key).await.unwrap(), Stored::Nothing);
        let place = one.write(&ada, &key, &record(), None, LIFETIME).await.unwrap();
        assert_eq!(other.read(&ada, &key).await.unwrap(), Stored::Record(place, Box::new(record())));
        other.delete(&ada, &key).await.unwrap();
        let again = one.write(&ada, &key, &record(), Some(place), LIFETIME).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
        assert_eq!(one.read(&ada, &key).await.unwrap(), Stored::Deleted);
        assert!(matches!(one.write(&ada, &key, &record(), None, LIFETIME).await, Err(StoreError::Conflict)));
        assert_eq!(one.failures(), (0, 0));
    }

    #[tokio::test]
    async fn a_record_that_was_deleted_long_ago_is_told_from_one_that_the_engine_has_lost() {
        let (engine, ada, key) = (Model::default(), client("ada"), SessionKey::of("id"));
        let [one, other] = [1, 2].map(|number| store(engine.clone(), number));
        let place = one.write(&ada, &key, &record(), None, LIFETIME).await.unwrap();
        engine.forget(key.as_str());
        assert_eq!(one.read(&ada, &key).await.unwrap(), Stored::Nothing);
        assert!(!one.has_lost(&ada, place).await.unwrap());
        let again = one.write(&ada, &key, &record(), Some(place), LIFETIME).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
        engine.forget_all();
        assert!(other.has_lost(&ada, place).await.unwrap());
        assert!(one.has_lost(&ada, place).await.unwrap(), "whichever replica has found it out");
        let place = one.write(&ada, &key, &record(), None, LIFETIME).await.unwrap();
        assert!(!other.has_lost(&ada, place).await.unwrap());
    }

    #[tokio::test]
    async fn a_value_that_is_no_history_is_replaced() {
        let (engine, ada) = (Model::default(), client("ada"));
        for value in [&b""[..], b"x", b"0123456789abcdef0", &[0xff; 16]] {
            Engine::overwrite(&engine, HISTORY, value.to_vec(), LIFETIME).await.unwrap();
            let [one, other] = [1, 2].map(|number| store(engine.clone(), number));
            let place = one.write(&ada, &SessionKey::of("id"), &record(), None, LIFETIME).await.unwrap();
            assert!(!other.has_lost(&ada, place).await.unwrap());
            engine.forget(SessionKey::of("id").as_str());
        }
    }

    #[tokio::test]
    async fn what_is_no_record_is_counted_and_can_be_replaced_by_who_knows_its_revision() {
        let engine = Model::default();
        let (store, ada, key) = (store(engine.clone(), 1), client("ada"), SessionKey::of("id"));
        Engine::write(&engine, key.as_str(), b"{}".to_vec(), None).await.unwrap();
        let Stored::Invalid(place) = store.read(&ada, &key).await.unwrap() else { panic!("it is no record") };
        assert_eq!(store.failures(), (0, 1));
        let place = store.write(&ada, &key, &record(), Some(place), LIFETIME).await.unwrap();
        assert_eq!(store.read(&ada, &key).await.unwrap(), Stored::Record(place, Box::new(record())));
    }

    #[tokio::test]
    async fn who_lags_behind_the_changes_is_told_so() {
        let [store, _] = stores();
        let mut changes = store.changes();
        store.heard(SessionChange::One(SessionKey::of("a")));
        assert_eq!(changes.recv().await.unwrap(), SessionChange::One(SessionKey::of("a")));
        for number in 0..=MAX_CHANGES {
            store.heard(SessionChange::One(SessionKey::of(&number.to_string())));
        }
        assert!(matches!(changes.recv().await, Err(broadcast::error::RecvError::Lagged(_))));
    }

    #[tokio::test]
    async fn sessions_whose_records_are_not_written_are_counted_while_there_are_any() {
        let [store, _] = stores();
        let counted = [store.count_unwritten(), store.count_unwritten()];
        assert!(store.has_unwritten());
        let [one, other] = counted;
        drop(one);
        assert!(store.has_unwritten());
        drop(other);
        assert!(!store.has_unwritten());
    }

    /// An engine that never answers about one key, and refuses to write another one.
    #[derive(Clone)]
    struct Faulty {
        model: Model,
        silent: String,
        refused: String,
    }

    impl Engine for Faulty {
        async fn get(&self, key: &str) -> Result<Option<Entry>, EngineError> {
            if key == self.silent {
                std::future::pending::<()>().await;
            }
            Engine::get(&self.model, key).await
        }

        async fn write(&self, key: &str, value: Vec<u8>, expected: Option<u64>) -> Result<u64, EngineError> {
            Engine::write(&self.model, key, value, expected).await
        }

        async fn write_expiring(
            &self,
            key: &str,
            value: Vec<u8>,
            expected: Option<u64>,
            lifetime: Duration,
        ) -> Result<u64, EngineError> {
            if key == self.refused {
                return Err(EngineError::Refused("maximum messages\nexceeded".to_owned()));
            }
            self.model.write_expiring(key, value, expected, lifetime).await
        }

        async fn overwrite(&self, key: &str, value: Vec<u8>, lifetime: Duration) -> Result<u64, EngineError> {
            Engine::overwrite(&self.model, key, value, lifetime).await
        }

        async fn publish(&self, subject: &str, message: Vec<u8>) -> Result<(), EngineError> {
            self.model.publish(subject, message).await
        }

        async fn subscribe(&self, subject: &str) -> Result<mpsc::Receiver<Vec<u8>>, EngineError> {
            self.model.subscribe(subject).await
        }
    }

    fn faulty(silent: &SessionKey, refused: &SessionKey) -> Faulty {
        let [silent, refused] = [silent, refused].map(|key| key.as_str().to_owned());
        Faulty { model: Model::default(), silent, refused }
    }

    type Reading<'a> = Pin<Box<dyn Future<Output = Result<Stored, StoreError>> + 'a>>;

    #[tokio::test]
    async fn a_client_with_very_many_requests_leaves_some_to_others() {
        let [silent, key] = ["silent", "id"].map(SessionKey::of);
        let store = store(faulty(&silent, &silent), 1);
        let (ada, bob) = (client("ada"), client("bob"));
        assert_eq!(store.read(&bob, &key).await.unwrap(), Stored::Nothing);
        let mut readings: Vec<Reading<'_>> = Vec::new();
        let mut failed = 0;
        for _ in 0..MAX_REQUESTS + MAX_WAITING {
            let mut reading: Reading<'_> = Box::pin(store.read(&ada, &silent));
            match (&mut reading).now_or_never() {
                None => readings.push(reading),
                Some(read) => {
                    assert!(matches!(read, Err(StoreError::Unavailable(_))));
                    failed += 1;
                }
            }
        }
        assert_eq!((readings.len(), failed), ((MAX_REQUESTS + MAX_WAITING) / 2, (MAX_REQUESTS + MAX_WAITING) / 2));
        let read = store.read(&bob, &key).now_or_never();
        assert!(matches!(read, Some(Ok(Stored::Nothing))), "{read:?}");
        drop(readings);
        assert_eq!(store.shared.requests.usage(), (0, 0));
    }

    #[tokio::test]
    async fn that_the_engine_refuses_records_is_in_the_log_once_in_a_while() {
        let (ada, key, log) = (client("ada"), SessionKey::of("id"), CapturedLog::default());
        let store = store(faulty(&SessionKey::of("silent"), &key), 1);
        let _capturing = log.capture(LevelFilter::WARN);
        for _ in 0..3 {
            let written = store.write(&ada, &key, &record(), None, LIFETIME).await;
            assert!(matches!(written, Err(StoreError::Unavailable(_))));
        }
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("maximum messages\\nexceeded"), "{lines:?}");
    }
}
