//! The operations of one call on buckets: on disk by [`store`], on a blocking thread; on a shared bucket by [`shared`].

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

#[cfg(not(feature = "keyvalue"))]
use super::absent::{self as database, self as store};
use super::error::StoreError;
use super::shared::SharedCall;
use super::{Bucket, Cas, Keyvalue, OptionalEntry, Page, PageStart, entry_size, keys_size};
#[cfg(feature = "keyvalue")]
use super::{database, store};
use crate::{CallAccounts, host_calls};

use self::database::Database;

/// The operations of one call on buckets.
pub(super) struct Operations<'a> {
    pub(super) keyvalue: &'a Keyvalue,
    pub(super) accounts: CallAccounts<'a>,
}

impl Operations<'_> {
    pub(super) async fn get(&self, bucket: Bucket, key: String) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(mut call) = self.shared(&bucket, key.len()).await? {
            let value = call.get(&key).await;
            return self.end_shared(call, value);
        }
        self.with_database(key.len(), value_size, move |database| store::get(database, &bucket, &key)).await
    }

    pub(super) async fn set(&self, bucket: Bucket, key: String, value: Vec<u8>) -> Result<(), StoreError> {
        self.set_many_of(bucket, key.len().saturating_add(value.len()), vec![(key, value)]).await
    }

    pub(super) async fn delete(&self, bucket: Bucket, key: String) -> Result<(), StoreError> {
        self.delete_many_of(bucket, key.len(), vec![key]).await
    }

    pub(super) async fn exists(&self, bucket: Bucket, key: String) -> Result<bool, StoreError> {
        if let Some(mut call) = self.shared(&bucket, key.len()).await? {
            let exists = call.exists(&key).await;
            return self.end_shared(call, exists);
        }
        self.with_database(key.len(), zero_size, move |database| store::exists(database, &bucket, &key)).await
    }

    pub(super) async fn keys(&self, bucket: Bucket, start: PageStart) -> Result<Page, StoreError> {
        if let Some(mut call) = self.shared(&bucket, 0).await? {
            let page = call.keys(&start).await;
            return self.end_shared(call, page);
        }
        self.with_database(
            0,
            |page: &Page| keys_size(&page.keys),
            move |database| store::keys(database, &bucket, &start),
        )
        .await
    }

    /// Adds `delta` to a number. Fails if the sum is outside of `range`, the numbers that the caller can represent.
    pub(super) async fn increment(
        &self,
        bucket: Bucket,
        key: String,
        delta: i128,
        range: RangeInclusive<i128>,
    ) -> Result<i128, StoreError> {
        if let Some(mut call) = self.shared(&bucket, key.len()).await? {
            let sum = call.increment(&key, delta, &range).await;
            return self.end_shared(call, sum);
        }
        self.with_database(key.len(), zero_size, move |database| {
            store::increment(database, &bucket, &key, delta, &range)
        })
        .await
    }

    pub(super) async fn begin_cas(&self, bucket: Bucket, key: String) -> Result<Cas, StoreError> {
        let version = if let Some(mut call) = self.shared(&bucket, key.len()).await? {
            let version = call.version(&key).await;
            self.end_shared(call, version)?
        } else {
            let (bucket, key) = (bucket.clone(), key.clone());
            self.with_database(key.len(), zero_size, move |database| store::version_of(database, &bucket, &key)).await?
        };
        Ok(Cas { bucket, key, version })
    }

    /// Returns the value of the key of `cas`, and whether its state is unchanged since `cas` was created.
    pub(super) async fn current(&self, cas: Cas) -> Result<(Option<Vec<u8>>, bool), StoreError> {
        if let Some(mut call) = self.shared(&cas.bucket, 0).await? {
            let current = call.current(&cas).await;
            return self.end_shared(call, current);
        }
        self.with_database(0, |(value, _)| value_size(value), move |database| store::current(database, &cas)).await
    }

    /// Writes the key of `cas` if its state is unchanged, else returns its current state.
    pub(super) async fn swap(&self, cas: Cas, value: Vec<u8>) -> Result<Result<(), Cas>, StoreError> {
        if let Some(mut call) = self.shared(&cas.bucket, value.len()).await? {
            let swapped = call.swap(cas, value).await;
            return self.end_shared(call, swapped);
        }
        self.with_database(value.len(), zero_size, move |database| store::swap(database, cas, value)).await
    }

    pub(super) async fn get_many(&self, bucket: Bucket, keys: Vec<String>) -> Result<Vec<OptionalEntry>, StoreError> {
        if let Some(mut call) = self.shared(&bucket, keys_size(&keys)).await? {
            let found = call.get_many(keys).await;
            return self.end_shared(call, found);
        }
        self.with_database(
            keys_size(&keys),
            |found: &Vec<OptionalEntry>| found_size(found),
            move |database| store::get_many(database, &bucket, keys),
        )
        .await
    }

    pub(super) async fn set_many(&self, bucket: Bucket, entries: Vec<(String, Vec<u8>)>) -> Result<(), StoreError> {
        self.set_many_of(bucket, entries_size(&entries), entries).await
    }

    pub(super) async fn delete_many(&self, bucket: Bucket, keys: Vec<String>) -> Result<(), StoreError> {
        self.delete_many_of(bucket, keys_size(&keys), keys).await
    }

    async fn set_many_of(
        &self,
        bucket: Bucket,
        request_bytes: usize,
        entries: Vec<(String, Vec<u8>)>,
    ) -> Result<(), StoreError> {
        if let Some(call) = self.shared(&bucket, request_bytes).await? {
            let written = call.set_many(entries).await;
            return self.end_shared(call, written);
        }
        self.with_database(request_bytes, zero_size, move |database| store::set_many(database, &bucket, &entries)).await
    }

    async fn delete_many_of(&self, bucket: Bucket, request_bytes: usize, keys: Vec<String>) -> Result<(), StoreError> {
        if let Some(call) = self.shared(&bucket, request_bytes).await? {
            let deleted = call.delete_many(&keys).await;
            return self.end_shared(call, deleted);
        }
        self.with_database(request_bytes, zero_size, move |database| store::delete_many(database, &bucket, &keys)).await
    }

    /// Begins an operation on a shared bucket, with the guest's arguments of this size; none if the bucket is on disk.
    async fn shared(&self, bucket: &Bucket, request_bytes: usize) -> Result<Option<SharedCall>, StoreError> {
        let begin = async {
            let Some(store) = bucket.shared()? else { return Ok(None) };
            let memory = self.accounts.memory.try_reserve(request_bytes).map_err(|_| StoreError::OutOfMemory)?;
            // Other calls of the plugin may use its shared buckets.
            self.accounts.cpu.contend(SharedCall::begin(bucket, store, memory)).await.map(Some)
        };
        self.keyvalue.log_refusal(begin.await)
    }

    /// Ends an operation on a shared bucket.
    fn end_shared<T>(&self, call: SharedCall, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if result.is_ok() {
            host_calls::transferred(call.memory_bytes());
        }
        self.keyvalue.log_refusal(result)
    }

    /// Runs `work` with the database, on a blocking thread. `request_bytes` is the size of the guest's arguments, and
    /// `size` returns the size of the result: both are reserved from `limits.memory` while the host holds them.
    async fn with_database<T: Send + 'static>(
        &self,
        request_bytes: usize,
        size: fn(&T) -> usize,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let stored = Arc::new(Mutex::new(None));
        let slot = stored.clone();
        let work = move |database: &mut Database| -> Result<usize, StoreError> {
            let result = work(database)?;
            let bytes = size(&result);
            *slot.lock() = Some(result);
            Ok(bytes)
        };
        self.with_database_erased(request_bytes, Box::new(work)).await?;
        let result = stored.lock().take();
        result.ok_or_else(|| StoreError::Failed("an operation ended without a result".to_owned()))
    }

    /// Runs work that stores its result and returns its size. Type-erased, so that this is compiled once, and not for
    /// each operation.
    async fn with_database_erased(&self, request_bytes: usize, work: Work) -> Result<(), StoreError> {
        let Self { keyvalue, accounts } = self;
        let reserved = accounts.memory.try_reserve(request_bytes).map_err(|_| StoreError::OutOfMemory);
        let mut memory = keyvalue.log_refusal(reserved)?;
        let Some(path) = keyvalue.database_path.clone() else {
            keyvalue.note_whether_usable::<()>(&Err(StoreError::NoStateDir));
            return keyvalue.log_refusal(Err(StoreError::NoStateDir));
        };
        // Another call of the plugin may hold the database.
        let mut database = accounts.cpu.contend(keyvalue.database.clone().lock_owned()).await;
        let cpu = accounts.cpu.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _charged = cpu.charge_thread();
            let open = match &mut *database {
                Some(open) => open,
                closed => closed.insert(Database::open(&path)?),
            };
            let result = work(open).and_then(|size| {
                // One call runs at a time, so at most one result is in memory before its size is checked.
                let bytes = memory.bytes().saturating_add(size);
                memory.try_resize(bytes).map_err(|_| StoreError::OutOfMemory)
            });
            if result.as_ref().is_err_and(StoreError::is_database_fault) {
                // The next operation reopens the database, so after a repair the host does not have to be restarted.
                *database = None;
            }
            result.map(|()| memory)
        });
        let done = done.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())));
        keyvalue.note_whether_usable(&done);
        if let Ok(memory) = &done {
            host_calls::transferred(memory.bytes());
        }
        keyvalue.log_refusal(done).map(drop)
    }
}

/// An operation that stores its result, and returns the size of it.
type Work = Box<dyn FnOnce(&mut Database) -> Result<usize, StoreError> + Send>;

/// The size of a result that does not depend on the stored data.
fn zero_size<T>(_: &T) -> usize {
    0
}

fn value_size(value: &Option<Vec<u8>>) -> usize {
    value.as_ref().map_or(0, Vec::len)
}

fn entries_size(entries: &[(String, Vec<u8>)]) -> usize {
    entries.iter().fold(0, |sum, entry| sum.saturating_add(entry_size(entry)))
}

fn found_size(found: &[OptionalEntry]) -> usize {
    found.iter().flatten().fold(0, |sum, entry| sum.saturating_add(entry_size(entry)))
}
