//! A model of an engine in one process: the documented behavior of NATS key-value buckets and messages.
//!
//! [`ModelServer`] is the bucket, for the simulation. [`Model`] is an engine with it, for tests without a
//! server. [`ModelBuckets`] are the shared buckets of plugins, [`ModelSnapshots`] the shared snapshots of indexes.

mod shared_buckets;
mod shared_snapshots;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Engine, EngineError, Entry};

pub use self::shared_buckets::{ModelBuckets, ModelFault};
pub use self::shared_snapshots::ModelSnapshots;

/// The maximum number of messages that wait for a subscriber. Further messages are lost.
const CAPACITY: usize = 1024;

/// A bucket.
#[derive(Debug, Default)]
pub struct ModelServer {
    revision: u64,
    entries: BTreeMap<String, Entry>,
}

impl ModelServer {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.entries.get(key).cloned()
    }

    /// Writes the value of a key if the key has this revision, or if it does not exist.
    ///
    /// # Errors
    ///
    /// The key has another revision.
    pub fn write(&mut self, key: &str, value: &[u8], expected: Option<u64>) -> Result<u64, EngineError> {
        if self.entries.get(key).map(|entry| entry.revision) != expected {
            return Err(EngineError::Conflict);
        }
        Ok(self.overwrite(key, value))
    }

    /// Writes the value of a key.
    fn overwrite(&mut self, key: &str, value: &[u8]) -> u64 {
        self.revision = self.revision.saturating_add(1);
        self.entries.insert(key.to_owned(), Entry { revision: self.revision, value: value.to_vec() });
        self.revision
    }

    /// Drops a key.
    fn delete(&mut self, key: &str) {
        self.entries.remove(key);
    }
}

/// An engine within one process.
#[derive(Clone, Debug, Default)]
pub struct Model {
    server: Arc<Mutex<ModelServer>>,
    /// When each key expires.
    expiries: Arc<Mutex<BTreeMap<String, Instant>>>,
    subscribers: Arc<Mutex<Subscribers>>,
}

impl Model {
    /// Returns the server, after removing the key if it has expired.
    fn server(&self, key: &str) -> MutexGuard<'_, ModelServer> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let mut expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        if expiries.get(key).is_some_and(|at| *at <= Instant::now()) {
            expiries.remove(key);
            server.delete(key);
        }
        server
    }

    /// Drops a key, as when its time to live is over.
    pub fn forget(&self, key: &str) {
        self.server(key).delete(key);
    }

    /// Drops all keys: the bucket is lost.
    pub fn forget_all(&self) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = ModelServer::default();
    }

    fn set_lifetime(&self, key: &str, lifetime: Option<Duration>) {
        let mut expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        match lifetime.and_then(|lifetime| Instant::now().checked_add(lifetime)) {
            Some(at) => expiries.insert(key.to_owned(), at),
            None => expiries.remove(key),
        };
    }
}

type Subscribers = BTreeMap<String, Vec<mpsc::Sender<Vec<u8>>>>;

impl Engine for Model {
    async fn get(&self, key: &str) -> Result<Option<Entry>, EngineError> {
        Ok(self.server(key).get(key))
    }

    async fn write(&self, key: &str, value: Vec<u8>, expected: Option<u64>) -> Result<u64, EngineError> {
        let revision = self.server(key).write(key, &value, expected)?;
        self.set_lifetime(key, None);
        Ok(revision)
    }

    async fn write_expiring(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Duration,
    ) -> Result<u64, EngineError> {
        let revision = self.server(key).write(key, &value, expected)?;
        self.set_lifetime(key, Some(lifetime));
        Ok(revision)
    }

    async fn overwrite(&self, key: &str, value: Vec<u8>, lifetime: Duration) -> Result<u64, EngineError> {
        let revision = self.server(key).overwrite(key, &value);
        self.set_lifetime(key, Some(lifetime));
        Ok(revision)
    }

    async fn publish(&self, subject: &str, message: Vec<u8>) -> Result<(), EngineError> {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(subscribers) = subscribers.get_mut(subject) {
            subscribers.retain(|subscriber| !subscriber.is_closed());
            for subscriber in subscribers {
                let _ = subscriber.try_send(message.clone());
            }
        }
        Ok(())
    }

    async fn subscribe(&self, subject: &str) -> Result<mpsc::Receiver<Vec<u8>>, EngineError> {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.entry(subject.to_owned()).or_default().push(sender);
        Ok(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_model_is_an_engine() {
        let model = Model::default();
        super::super::conformance::check(model.clone(), model.clone()).await;
        super::super::conformance::check_expiry(model.clone(), model).await;
    }
}
