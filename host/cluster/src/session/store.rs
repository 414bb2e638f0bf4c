//! The session records in the bucket of an engine, with a timeout and a bound on concurrent requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::timeout;

use super::{SessionChange, SessionKey, SessionRecord, SessionRecordError};
use crate::engine::{Engine, EngineError, Entry};
use crate::member::Revision;
use crate::replica::ReplicaId;

/// The maximum number of concurrent requests to the engine. Load shedding: further requests fail immediately, as if
/// there were no engine, so the load that a client can cause is bounded.
const MAX_REQUESTS: usize = 256;
/// The maximum number of changes that wait for a follower. Beyond it, any record may have changed.
const MAX_CHANGES: usize = 1024;

/// The session records.
#[derive(Clone)]
pub struct SessionStore {
    shared: Arc<Shared>,
}

struct Shared {
    me: ReplicaId,
    engine: Box<dyn Bucket>,
    limit: Duration,
    requests: Semaphore,
    changes: broadcast::Sender<SessionChange>,
    failed: AtomicU64,
    invalid: AtomicU64,
}

/// The stored state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// No value: there is no such session, its record has expired, or the engine has lost it.
    Nothing,
    /// It was deleted.
    Deleted,
    /// A value that is not a record.
    Invalid(Revision),
    /// The record.
    Record(Revision, Box<SessionRecord>),
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
            requests: Semaphore::new(MAX_REQUESTS),
            changes: broadcast::Sender::new(MAX_CHANGES),
            failed: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// This replica.
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

    /// Reads the record of a session.
    ///
    /// # Errors
    ///
    /// The stored state is unknown.
    pub async fn read(&self, key: &SessionKey) -> Result<Stored, StoreError> {
        let entry = self.request(self.shared.engine.get(key.as_str())).await?;
        let Some(Entry { revision, value }) = entry else { return Ok(Stored::Nothing) };
        if value.is_empty() {
            return Ok(Stored::Deleted);
        }
        match SessionRecord::decode(&value) {
            Ok(record) => Ok(Stored::Record(revision, Box::new(record))),
            Err(error) => {
                self.shared.invalid.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(target: "mcp_host", ?key, "the record of a session is ignored: {error}");
                Ok(Stored::Invalid(revision))
            }
        }
    }

    /// Writes the record of a session if it has this revision, or does not exist. The record expires after `lifetime`,
    /// unless it is written again.
    ///
    /// # Errors
    ///
    /// The record has another revision, or is too long, or it is unknown whether it was written.
    pub async fn write(
        &self,
        key: &SessionKey,
        record: &SessionRecord,
        expected: Option<Revision>,
        lifetime: Duration,
    ) -> Result<Revision, StoreError> {
        let value = record.encode()?;
        self.request(self.shared.engine.write(key.as_str(), value, expected, lifetime)).await
    }

    /// Deletes the record of a session, and leaves an empty value for `lifetime`, so that a replica that knew the
    /// record cannot write it again.
    ///
    /// # Errors
    ///
    /// It is unknown whether the record was deleted.
    pub async fn delete(&self, key: &SessionKey, lifetime: Duration) -> Result<(), StoreError> {
        self.request(self.shared.engine.overwrite(key.as_str(), Vec::new(), lifetime)).await.map(drop)
    }

    /// Returns the numbers of failed requests, and of values that were not records.
    pub fn failures(&self) -> (u64, u64) {
        let [failed, invalid] = [&self.shared.failed, &self.shared.invalid].map(|count| count.load(Ordering::Relaxed));
        (failed, invalid)
    }

    async fn request<T>(&self, request: impl Future<Output = Result<T, EngineError>>) -> Result<T, StoreError> {
        let Shared { requests, limit, .. } = &*self.shared;
        let answer = match requests.try_acquire() {
            Ok(_permit) => timeout(*limit, request)
                .await
                .unwrap_or_else(|_| Err(EngineError::NoAnswer("the time is over".to_owned()))),
            Err(_) => Err(EngineError::NoAnswer("too many requests wait for an answer".to_owned())),
        };
        answer.map_err(|error| match error {
            EngineError::Conflict => StoreError::Conflict,
            error => {
                self.shared.failed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(target: "mcp_host", "a request about the record of a session has failed: {error}");
                StoreError::Unavailable(error.to_string())
            }
        })
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
    use super::super::tests::record;
    use super::*;
    use crate::engine::model::Model;

    const LIFETIME: Duration = Duration::from_mins(1);

    fn stores() -> [SessionStore; 2] {
        let engine = Model::default();
        [1, 2].map(|number| SessionStore::new(engine.clone(), ReplicaId::new(number), Duration::from_secs(10)))
    }

    #[tokio::test]
    async fn a_session_that_was_deleted_is_not_written_again_by_who_knew_it() {
        let ([one, other], key) = (stores(), SessionKey::of("id"));
        assert_eq!(one.read(&key).await.unwrap(), Stored::Nothing);
        let revision = one.write(&key, &record(), None, LIFETIME).await.unwrap();
        assert_eq!(other.read(&key).await.unwrap(), Stored::Record(revision, Box::new(record())));
        other.delete(&key, LIFETIME).await.unwrap();
        let again = one.write(&key, &record(), Some(revision), LIFETIME).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
        assert_eq!(one.read(&key).await.unwrap(), Stored::Deleted);
        assert!(matches!(one.write(&key, &record(), None, LIFETIME).await, Err(StoreError::Conflict)));
        assert_eq!(one.failures(), (0, 0));
    }

    #[tokio::test]
    async fn what_is_no_record_is_counted_and_can_be_replaced_by_who_knows_its_revision() {
        let engine = Model::default();
        let store = SessionStore::new(engine.clone(), ReplicaId::new(1), Duration::from_secs(10));
        let key = SessionKey::of("id");
        let revision = Engine::write(&engine, key.as_str(), b"{}".to_vec(), None).await.unwrap();
        assert_eq!(store.read(&key).await.unwrap(), Stored::Invalid(revision));
        assert_eq!(store.failures(), (0, 1));
        let revision = store.write(&key, &record(), Some(revision), LIFETIME).await.unwrap();
        assert_eq!(store.read(&key).await.unwrap(), Stored::Record(revision, Box::new(record())));
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
}
