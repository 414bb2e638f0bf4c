//! What replicas need of an engine: a bucket of values with compare-and-swap, and messages to all.
//!
//! There are two: [`model`], which is for tests and simulations, and NATS. The tests of both are the same
//! (`conformance`).

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
    /// Its revision: each write in the bucket has a greater one.
    pub revision: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// A request to an engine has failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The value has another revision than expected.
    #[error("the value was written by another replica")]
    Conflict,
    /// It is not known whether the request was carried out.
    #[error("no answer of the engine: {0}")]
    NoAnswer(String),
    /// The engine has refused the request.
    #[error("the engine refuses: {0}")]
    Refused(String),
}

/// An engine that replicas share.
pub trait Engine: Clone + Send + Sync + 'static {
    /// Returns the value of a key; none if there is none.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Entry>, EngineError>> + Send;

    /// Writes the value of a key if it has that revision, or if there is none. Returns the new revision.
    fn write(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
    ) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Writes the value of a key as [`write`](Self::write) does. It is dropped after that time, unless it is written again.
    fn write_expiring(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Duration,
    ) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Writes the value of a key, whatever its revision. It is dropped after that time, unless it is written again.
    fn overwrite(
        &self,
        key: &str,
        value: Vec<u8>,
        lifetime: Duration,
    ) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Sends a message to all who have subscribed to the subject, this process included. It may be lost. Messages of one process to
    /// one subject arrive in order, and before what it writes later is seen.
    fn publish(&self, subject: &str, message: Vec<u8>) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Subscribes to a subject. The subscription ends when the receiver is dropped, and outlives reconnections; what is sent
    /// meanwhile is lost.
    fn subscribe(&self, subject: &str) -> impl Future<Output = Result<mpsc::Receiver<Vec<u8>>, EngineError>> + Send;
}
