//! A model of plugins' shared buckets in one process, for tests: the documented behavior of NATS, and its failures.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_host_base::shared_buckets::{
    Answer, BucketContents, BucketEntry, BucketError, BucketLimits, BucketPage, Expected, SharedBucket, SharedBuckets,
};

use super::ModelServer;
use crate::buckets::{MAX_VALUE, bucket_name};
use crate::engine::EngineError;

/// The bytes that a stream stores for a message, besides the subject and the value: lengths, the time, a checksum, the
/// expected sequence.
const OVERHEAD: usize = 100;

/// The failure of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFault {
    /// There is no connection.
    Gone,
    /// Requests get no answer.
    Silent,
}

/// Buckets within one process. Clones are connections to the same store.
#[derive(Clone, Default)]
pub struct ModelBuckets(Arc<Mutex<Store>>);

#[derive(Default)]
struct Store {
    buckets: BTreeMap<String, ModelServer>,
    fault: Option<ModelFault>,
    /// The number of writes that are answered with a conflict although there is none.
    conflicts: usize,
}

impl fmt::Debug for ModelBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelBuckets")
    }
}

impl ModelBuckets {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the failure of all requests from now on.
    pub fn set_fault(&self, fault: Option<ModelFault>) {
        self.store().fault = fault;
    }

    /// Answers this number of writes with a conflict, as if another host had written each time.
    pub fn conflict(&self, writes: usize) {
        self.store().conflicts = writes;
    }

    /// Writes an entry as another client, without any check.
    pub fn write_foreign(&self, plugin: &str, bucket: &str, key: &str, value: &[u8]) {
        self.store().buckets.entry(bucket_name("model", plugin, bucket)).or_default().overwrite(key, value);
    }
}

impl SharedBuckets for ModelBuckets {
    fn bucket(&self, plugin: &str, name: &str, limits: BucketLimits) -> Arc<dyn SharedBucket> {
        Arc::new(ModelBucket { buckets: self.clone(), name: bucket_name("model", plugin, name), limits })
    }
}

#[derive(Debug)]
struct ModelBucket {
    buckets: ModelBuckets,
    name: String,
    limits: BucketLimits,
}

fn size(key: &str, value: &[u8]) -> usize {
    key.len().saturating_add(value.len()).saturating_add(OVERHEAD)
}

impl ModelBucket {
    /// Performs a request, unless the store has failed.
    fn request<'a, T: Send + 'a>(
        &'a self,
        request: impl FnOnce(&mut ModelServer, &mut usize) -> Result<T, BucketError> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let fault = self.buckets.store().fault;
            match fault {
                Some(ModelFault::Gone) => return Err(BucketError::NoAnswer("not connected".to_owned())),
                Some(ModelFault::Silent) => std::future::pending::<()>().await,
                None => {}
            }
            // Another task runs before the answer, as with a server.
            tokio::task::yield_now().await;
            let mut store = self.buckets.store();
            let Store { buckets, conflicts, .. } = &mut *store;
            request(buckets.entry(self.name.clone()).or_default(), conflicts)
        })
    }

    fn check_limits(&self, server: &ModelServer, key: &str, value: &[u8]) -> Result<(), BucketError> {
        let before = server.get(key).map_or(0, |entry| size(key, &entry.value));
        let contents = contents(server);
        let (keys, bytes) = (u64::from(before == 0), u64::try_from(size(key, value)).unwrap_or(u64::MAX));
        if contents.keys.saturating_add(keys) > self.limits.keys && keys > 0 {
            return Err(BucketError::FullOfKeys);
        }
        let more = bytes.saturating_sub(u64::try_from(before).unwrap_or(u64::MAX));
        if more > 0 && contents.bytes.saturating_add(more) > self.limits.bytes {
            return Err(BucketError::FullOfBytes);
        }
        Ok(())
    }
}

fn contents(server: &ModelServer) -> BucketContents {
    let bytes = server.entries.iter().fold(0, |sum: usize, (key, entry)| sum.saturating_add(size(key, &entry.value)));
    let [keys, bytes] = [server.entries.len(), bytes].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
    BucketContents { keys, bytes }
}

impl SharedBucket for ModelBucket {
    fn max_value(&self) -> usize {
        MAX_VALUE
    }

    fn get<'a>(&'a self, key: &'a str) -> Answer<'a, Option<BucketEntry>> {
        self.request(|server, _| match server.get(key) {
            Some(entry) if entry.value.len() > MAX_VALUE => Err(BucketError::Foreign("too large".to_owned())),
            entry => Ok(entry.map(|entry| BucketEntry { revision: entry.revision, value: entry.value })),
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, expected: Expected) -> Answer<'a, u64> {
        self.request(move |server, conflicts| {
            if value.len() > MAX_VALUE {
                return Err(BucketError::TooLarge { length: value.len(), max: MAX_VALUE });
            }
            let current = server.get(key).map(|entry| entry.revision);
            let expected = match expected {
                Expected::Any => current,
                Expected::Absent => None,
                Expected::Revision(revision) => Some(revision),
            };
            if let Some(left) = conflicts.checked_sub(1) {
                *conflicts = left;
                return Err(BucketError::Conflict);
            }
            if current != expected {
                return Err(BucketError::Conflict);
            }
            self.check_limits(server, key, &value)?;
            server.write(key, &value, expected).map_err(|error| match error {
                EngineError::Conflict => BucketError::Conflict,
                error => BucketError::Refused(error.to_string()),
            })
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.request(|server, _| {
            server.delete(key);
            Ok(())
        })
    }

    fn keys_after(&self, revision: u64, max: usize) -> Answer<'_, BucketPage> {
        self.request(move |server, _| {
            let later = server.entries.iter().filter(|(_, entry)| entry.revision > revision);
            let mut later: Vec<_> = later.map(|(key, entry)| (entry.revision, key.clone())).collect();
            later.sort();
            let next = later.len().checked_sub(max).filter(|more| *more > 0);
            later.truncate(max);
            let next = next.and_then(|_| later.last().map(|(revision, _)| *revision));
            Ok(BucketPage { keys: later.into_iter().map(|(_, key)| key).collect(), next })
        })
    }

    fn contents(&self) -> Answer<'_, BucketContents> {
        self.request(|server, _| Ok(contents(server)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_model_is_a_store_of_buckets() {
        let buckets = ModelBuckets::default();
        crate::engine::conformance::buckets::check(&buckets, &buckets.clone()).await;
    }
}
