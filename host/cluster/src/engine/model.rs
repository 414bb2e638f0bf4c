//! A model of an engine: what NATS documents of key-value buckets and of messages, in one process.
//!
//! [`ModelServer`] is the bucket, for the simulation. [`Model`] is an engine of it, for tests without a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::{Engine, EngineError, Entry};

/// The number of messages that wait for a subscriber; further ones are lost.
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

    /// Writes the value of a key if it has that revision, or if there is none.
    ///
    /// # Errors
    ///
    /// It has another revision.
    pub fn write(&mut self, key: &str, value: &[u8], expected: Option<u64>) -> Result<u64, EngineError> {
        if self.entries.get(key).map(|entry| entry.revision) != expected {
            return Err(EngineError::Conflict);
        }
        self.revision = self.revision.saturating_add(1);
        self.entries.insert(key.to_owned(), Entry { revision: self.revision, value: value.to_vec() });
        Ok(self.revision)
    }
}

/// An engine within one process.
#[derive(Clone, Debug, Default)]
pub struct Model {
    server: Arc<Mutex<ModelServer>>,
    subscribers: Arc<Mutex<Subscribers>>,
}

type Subscribers = BTreeMap<String, Vec<mpsc::Sender<Vec<u8>>>>;

impl Engine for Model {
    async fn get(&self, key: &str) -> Result<Option<Entry>, EngineError> {
        Ok(self.server.lock().unwrap_or_else(PoisonError::into_inner).get(key))
    }

    async fn write(&self, key: &str, value: Vec<u8>, expected: Option<u64>) -> Result<u64, EngineError> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).write(key, &value, expected)
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
        super::super::conformance::check(model.clone(), model).await;
    }
}
