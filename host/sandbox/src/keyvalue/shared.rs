//! Operations on a shared bucket, by requests to a store that the replicas of a cluster share.
//!
//! The operations have the same results as on disk ([`store`](super::store)), with these differences:
//!
//! - An increment reads the number, adds, and writes the sum if the key still has the revision that was read
//!   (compare-and-swap). After a conflict it tries again, with exponential back-off, at most [`MAX_ATTEMPTS`] times and
//!   within the time of the operation.
//! - The keys of a batch are written, read and deleted one by one, several at once. A batch that fails may have been
//!   applied to some of them, which `wasi:keyvalue` permits. Sizes and keys are checked before the first request.
//! - A listing has the keys in the order of their last writes, and its cursor is a revision. A key that is written
//!   meanwhile may appear twice; a key that exists throughout is never missing. The last writes may not be in it yet.
//! - The store enforces the quotas. Its count of bytes has an overhead for each key, so a quota of bytes is
//!   approximate.
//! - A request whose answer does not arrive may have been carried out, and is not repeated: an increment could be
//!   counted twice.
//!
//! # Bounds
//!
//! An operation takes at most half of the call's `limits.deadline` and at most [`MAX_TIME`], so the guest gets the
//! error and can still answer. The operations of one plugin's shared buckets have [`MAX_OPERATIONS`] permits; one has
//! at most [`MAX_WRITES`] writes or [`MAX_READS`] reads in flight. The answers of these reads, of one and a half times
//! the largest value each, and the parsing of one of them are in memory before they are charged to `limits.memory`: at
//! most 24 MiB for a plugin. An answer is processed in the call, on its threads and within its `limits.cpu`, not on a
//! thread of the transport.
//!
//! The store is untrusted, like a guest: its client bounds a value before it returns it, and a listing omits keys that
//! no guest can have written.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{FuturesOrdered, FuturesUnordered};
use mcp_host_base::backoff::Backoff;
use mcp_host_base::shared_buckets::{Answer, BucketContents, BucketEntry, BucketError, Expected, SharedBucket};
use mcp_host_config::limits::Limits;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::error::StoreError;
use super::{
    Bucket, Cas, KeyVersion, MAX_KEYS, MAX_VALUE, OptionalEntry, Page, PageStart, Quota, add, check_count, check_key,
    entry_size, keys_size,
};
use crate::memory::Reservation;

/// The maximum time of an operation.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The maximum number of operations of one plugin at once.
const MAX_OPERATIONS: usize = 4;
/// The maximum number of writes or deletions of one operation at once.
const MAX_WRITES: usize = 8;
/// The maximum number of reads of one operation at once, whose answers are in memory before they are charged.
const MAX_READS: usize = 2;
/// The maximum number of attempts of an increment.
const MAX_ATTEMPTS: usize = 64;
/// The first pause after a conflict, and the maximum.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(32));
/// The age at which the contents of a bucket are read again for the metrics.
pub(super) const MAX_AGE: Duration = Duration::from_secs(10);
/// The maximum time of a reading of the contents.
const CONTENTS_TIME: Duration = Duration::from_secs(2);

/// The bounds of the operations on one plugin's shared buckets. Clones share the permits.
#[derive(Clone, Debug)]
pub(super) struct SharedRequests {
    permits: Arc<Semaphore>,
    /// The maximum time of an operation.
    time: Duration,
}

impl SharedRequests {
    pub(super) fn new(limits: &Limits) -> Self {
        let half = limits.deadline.duration().checked_div(2).unwrap_or(MAX_TIME);
        Self { permits: Arc::new(Semaphore::new(MAX_OPERATIONS)), time: half.min(MAX_TIME) }
    }
}

/// The store of a shared bucket.
#[derive(Clone, Debug)]
pub(super) struct SharedStore(Arc<State>);

#[derive(Debug)]
struct State {
    bucket: Arc<dyn SharedBucket>,
    requests: SharedRequests,
    /// The contents that were read last, and when.
    contents: parking_lot::Mutex<Option<(Instant, BucketContents)>>,
    /// Whether the contents are being read.
    is_reading: AtomicBool,
}

/// Marks the contents as no longer being read when it is dropped.
struct Reading(SharedStore);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.0.is_reading.store(false, Ordering::Relaxed);
    }
}

impl SharedStore {
    pub(super) fn new(bucket: Arc<dyn SharedBucket>, requests: SharedRequests) -> Self {
        Self(Arc::new(State {
            bucket,
            requests,
            contents: parking_lot::Mutex::default(),
            is_reading: AtomicBool::new(false),
        }))
    }

    /// Returns the contents that were read last. If they are [old](MAX_AGE), they are read again in the background, on
    /// the current runtime.
    pub(super) fn known_contents(&self) -> Option<BucketContents> {
        let known = *self.0.contents.lock();
        let is_fresh = known.is_some_and(|(read, _)| read.elapsed() < MAX_AGE);
        if !is_fresh
            && let Ok(runtime) = Handle::try_current()
            && !self.0.is_reading.swap(true, Ordering::Relaxed)
        {
            let reading = Reading(self.clone());
            runtime.spawn(async move { reading.0.read_contents().await });
        }
        known.map(|(_, contents)| contents)
    }

    /// Reads the contents. If that fails, the last known ones stay.
    pub(super) async fn read_contents(&self) {
        let _ = self.read_contents_now().await;
    }

    /// Reads and returns the contents.
    pub(super) async fn read_contents_now(&self) -> Result<BucketContents, StoreError> {
        let no_answer = |_| Err(BucketError::NoAnswer("the time is over".to_owned()));
        let read = timeout(CONTENTS_TIME, self.0.bucket.contents()).await.unwrap_or_else(no_answer);
        let contents = read.map_err(StoreError::of_contents)?;
        *self.0.contents.lock() = Some((Instant::now(), contents));
        Ok(contents)
    }
}

impl StoreError {
    /// The error of a request that depends on no quota and no value.
    fn of_contents(error: BucketError) -> Self {
        match error {
            BucketError::NoAnswer(reason) => Self::Unreachable(reason),
            BucketError::Foreign(reason) => Self::Foreign(reason),
            other => Self::Refused(other.to_string()),
        }
    }

    fn of_shared(error: BucketError, bucket: &Bucket) -> Self {
        let Quota { bytes, keys } = bucket.quota;
        let name = bucket.name.to_string();
        match error {
            BucketError::Conflict => Self::Busy,
            BucketError::FullOfBytes => Self::SharedByteQuotaExceeded { name, quota: bytes },
            BucketError::FullOfKeys => Self::KeyQuotaExceeded { name, quota: keys },
            BucketError::TooLarge { length, max } => Self::SharedValueTooLarge { length, max },
            other => Self::of_contents(other),
        }
    }
}

/// One operation on a shared bucket.
pub(super) struct SharedCall {
    bucket: Bucket,
    store: SharedStore,
    /// The memory of the guest's arguments and of the results.
    memory: Reservation,
    deadline: Instant,
    _permit: OwnedSemaphorePermit,
}

impl SharedCall {
    /// Begins an operation, with the memory of its arguments. Waits for other operations of the plugin.
    pub(super) async fn begin(bucket: &Bucket, store: &SharedStore, memory: Reservation) -> Result<Self, StoreError> {
        let SharedRequests { permits, time } = &store.0.requests;
        let now = Instant::now();
        let deadline = now.checked_add(*time).unwrap_or(now);
        // The semaphore is never closed.
        let permit = timeout_at(deadline, permits.clone().acquire_owned()).await.ok().and_then(Result::ok);
        let permit = permit.ok_or(StoreError::Busy)?;
        Ok(Self { bucket: bucket.clone(), store: store.clone(), memory, deadline, _permit: permit })
    }

    /// The size of the arguments and the results.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Charges a part of a result.
    fn keep(&mut self, bytes: usize) -> Result<(), StoreError> {
        let bytes = self.memory.bytes().saturating_add(bytes);
        self.memory.try_resize(bytes).map_err(|_| StoreError::OutOfMemory)
    }

    fn requests(&self) -> &dyn SharedBucket {
        &*self.store.0.bucket
    }

    /// Waits for an answer until the end of the operation.
    async fn wait<F: Future>(&self, answer: F) -> Result<F::Output, StoreError> {
        let ended = |_| StoreError::Unreachable("the time of the operation is over".to_owned());
        timeout_at(self.deadline, answer).await.map_err(ended)
    }

    /// Waits for the answer to a request that is no compare-and-swap.
    async fn answer<T>(&self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        self.wait(answer).await?.map_err(|error| StoreError::of_shared(error, &self.bucket))
    }

    async fn entry(&self, key: &str) -> Result<Option<BucketEntry>, StoreError> {
        check_key(key)?;
        self.answer(self.requests().get(key)).await
    }

    /// Writes a key in the expected state. Returns whether it was in that state.
    async fn write(&self, key: &str, value: Vec<u8>, expected: Expected) -> Result<bool, StoreError> {
        check_key(key)?;
        match self.wait(self.requests().put(key, value, expected)).await? {
            Ok(_) => Ok(true),
            Err(BucketError::Conflict) => Ok(false),
            Err(error) => Err(StoreError::of_shared(error, &self.bucket)),
        }
    }

    fn check_value(&self, value: &[u8]) -> Result<(), StoreError> {
        let (length, max) = (value.len(), self.requests().max_value());
        if length > max { Err(StoreError::SharedValueTooLarge { length, max }) } else { Ok(()) }
    }

    /// Returns the value of a key.
    pub(super) async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.entry(key).await?.map(|entry| entry.value);
        self.keep(value.as_ref().map_or(0, Vec::len))?;
        Ok(value)
    }

    /// Returns whether a key exists.
    pub(super) async fn exists(&mut self, key: &str) -> Result<bool, StoreError> {
        Ok(self.entry(key).await?.is_some())
    }

    /// Returns the state of a key.
    pub(super) async fn version(&mut self, key: &str) -> Result<KeyVersion, StoreError> {
        version(self.entry(key).await?.as_ref())
    }

    /// Returns the values of the keys, in their order.
    pub(super) async fn get_many(&mut self, keys: Vec<String>) -> Result<Vec<OptionalEntry>, StoreError> {
        check_count(keys.len())?;
        keys.iter().try_for_each(|key| check_key(key))?;
        let (mut found, mut remaining) = (Vec::with_capacity(keys.len()), MAX_VALUE);
        let store = self.store.clone();
        let (mut answers, mut unasked) = (FuturesOrdered::new(), keys.iter());
        answers.extend(unasked.by_ref().take(MAX_READS).map(|key| store.0.bucket.get(key)));
        for key in &keys {
            let Some(entry) = self.wait(answers.next()).await? else { break };
            let value = entry.map_err(|error| StoreError::of_shared(error, &self.bucket))?.map(|entry| entry.value);
            remaining = remaining.checked_sub(value.as_ref().map_or(0, Vec::len)).ok_or(StoreError::ValuesTooLarge)?;
            let entry = value.map(|value| (key.clone(), value));
            self.keep(entry.as_ref().map_or(0, entry_size))?;
            found.push(entry);
            answers.extend(unasked.next().map(|key| store.0.bucket.get(key)));
        }
        Ok(found)
    }

    /// Writes entries. Of several entries of one key, the last is written.
    pub(super) async fn set_many(&self, entries: Vec<(String, Vec<u8>)>) -> Result<(), StoreError> {
        check_count(entries.len())?;
        let values = entries.iter().try_fold(0_usize, |sum, (_, value)| sum.checked_add(value.len()));
        values.filter(|values| *values <= MAX_VALUE).ok_or(StoreError::ValuesTooLarge)?;
        for (key, value) in &entries {
            check_key(key)?;
            self.check_value(value)?;
        }
        let entries: BTreeMap<String, Vec<u8>> = entries.into_iter().collect();
        let keys: Vec<String> = entries.keys().cloned().collect();
        let bucket = self.requests();
        let mut requests: Vec<Answer<'_, ()>> = Vec::with_capacity(keys.len());
        for (key, value) in keys.iter().zip(entries.into_values()) {
            requests.push(Box::pin(async move { bucket.put(key, value, Expected::Any).await.map(drop) }));
        }
        self.all(requests).await
    }

    /// Deletes keys.
    pub(super) async fn delete_many(&self, keys: &[String]) -> Result<(), StoreError> {
        check_count(keys.len())?;
        keys.iter().try_for_each(|key| check_key(key))?;
        self.all(keys.iter().map(|key| self.requests().delete(key)).collect()).await
    }

    /// Waits for all answers, of [`MAX_WRITES`] at once. The requests after a failed one are not sent.
    async fn all(&self, requests: Vec<Answer<'_, ()>>) -> Result<(), StoreError> {
        let (mut answers, mut requests) = (FuturesUnordered::new(), requests.into_iter());
        answers.extend(requests.by_ref().take(MAX_WRITES));
        while let Some(answer) = self.wait(answers.next()).await? {
            answer.map_err(|error| StoreError::of_shared(error, &self.bucket))?;
            answers.extend(requests.next());
        }
        Ok(())
    }

    /// Adds `delta` to the value of a key, a number in decimal digits. Fails if the sum is outside of `range`.
    pub(super) async fn increment(
        &mut self,
        key: &str,
        delta: i128,
        range: &std::ops::RangeInclusive<i128>,
    ) -> Result<i128, StoreError> {
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        for _ in 0..MAX_ATTEMPTS {
            let entry = self.entry(key).await?;
            let sum = add(entry.as_ref().map(|entry| entry.value.as_slice()), delta, range)?;
            if self.write(key, sum.to_string().into_bytes(), Expected::as_read(entry.as_ref())).await? {
                return Ok(sum);
            }
            // Nothing was written, so the time that is over is not an unknown outcome.
            timeout_at(self.deadline, sleep(pauses.next_delay())).await.map_err(|_| StoreError::Busy)?;
        }
        Err(StoreError::Busy)
    }

    /// Returns the value of the key of `cas`, and whether its state is unchanged since `cas` was created.
    pub(super) async fn current(&mut self, cas: &Cas) -> Result<(Option<Vec<u8>>, bool), StoreError> {
        let entry = self.entry(&cas.key).await?;
        let is_same = version(entry.as_ref())? == cas.version;
        self.keep(entry.as_ref().map_or(0, |entry| entry.value.len()))?;
        Ok((entry.map(|entry| entry.value), is_same))
    }

    /// Writes the key of `cas` if its state is unchanged, else returns its current state.
    pub(super) async fn swap(&mut self, cas: Cas, value: Vec<u8>) -> Result<Result<(), Cas>, StoreError> {
        self.check_value(&value)?;
        let expected = match cas.version.map(u64::try_from) {
            None => Some(Expected::Absent),
            Some(Ok(revision)) => Some(Expected::Revision(revision)),
            // A version that no entry ever has.
            Some(Err(_)) => None,
        };
        if let Some(expected) = expected
            && self.write(&cas.key, value, expected).await?
        {
            return Ok(Ok(()));
        }
        let version = version(self.entry(&cas.key).await?.as_ref())?;
        Ok(Err(Cas { version, ..cas }))
    }

    /// Returns one page of the keys.
    pub(super) async fn keys(&mut self, start: &PageStart) -> Result<Page, StoreError> {
        let revision = match start {
            PageStart::After(None) => 0,
            PageStart::After(Some(cursor)) => cursor.parse().map_err(|_| StoreError::InvalidCursor)?,
            PageStart::Offset(revision) => *revision,
        };
        // A store has no greater revisions.
        i64::try_from(revision).map_err(|_| StoreError::InvalidCursor)?;
        let page = self.answer(self.requests().keys_after(revision, MAX_KEYS)).await?;
        let mut keys = page.keys;
        keys.retain(|key| check_key(key).is_ok());
        keys.truncate(MAX_KEYS);
        self.keep(keys_size(&keys))?;
        Ok(Page { keys, has_more: page.next.is_some(), revision: page.next })
    }
}

/// The revision of an entry as the version of its key.
fn version(entry: Option<&BucketEntry>) -> Result<KeyVersion, StoreError> {
    let version = |entry: &BucketEntry| {
        i64::try_from(entry.revision).map_err(|_| StoreError::Foreign(format!("the revision {}", entry.revision)))
    };
    entry.map(version).transpose()
}
