//! The interface of replicas to an engine: a bucket of values with compare-and-swap, and broadcast messages.
//!
//! There are two engines: [`model`], for tests and simulations, and NATS. Both pass the same tests (`conformance`).

#[cfg(test)]
mod conformance;
pub mod model;
#[cfg(feature = "nats")]
pub mod nats;

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;

/// A value of the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The revision of the value. Each write in the bucket has a greater one.
    pub revision: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// A request to an engine has failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The revision of the value differs from the expected one.
    #[error("the value was written by another replica")]
    Conflict,
    /// It is unknown whether the request was carried out.
    #[error("no answer of the engine: {0}")]
    NoAnswer(String),
    /// The engine has rejected the request.
    #[error("the engine refuses: {0}")]
    Refused(String),
}

/// An engine that replicas share.
pub trait Engine: Clone + Send + Sync + 'static {
    /// Returns the value of a key; none if the key does not exist.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Entry>, EngineError>> + Send;

    /// Writes the value of a key if the key has this revision, or if it does not exist. Returns the new revision.
    fn write(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
    ) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Writes the value of a key as [`write`](Self::write) does. The value expires after `lifetime`, unless it is
    /// written again.
    fn write_expiring(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Duration,
    ) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Writes the value of a key, whatever its revision. The value expires after `lifetime`, unless it is written
    /// again.
    fn overwrite(
        &self,
        key: &str,
        value: Vec<u8>,
        lifetime: Duration,
    ) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Sends a message to all subscribers of the subject, including this process. It may be lost. Messages of one
    /// process to one subject arrive in order, and before its later writes are visible.
    fn publish(&self, subject: &str, message: Vec<u8>) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Subscribes to a subject. The subscription ends when the receiver is dropped. It survives reconnections; messages
    /// during the interruption are lost.
    fn subscribe(&self, subject: &str) -> impl Future<Output = Result<mpsc::Receiver<Vec<u8>>, EngineError>> + Send;
}
