//! The interface of plugins' key-value buckets to a store that several hosts share (`shared = true` in
//! `grants.keyvalue`).
//!
//! The sandbox implements the operations of `wasi:keyvalue` by these requests, and the cluster implements them, so
//! neither crate depends on the other.
//!
//! Each write of a key has a revision, which is greater than all earlier revisions in its bucket. So a compare-and-swap
//! cannot be deceived by a value that was written again (ABA problem), and a listing in the order of revisions, from
//! the revision at which the last page ended, never misses a key that exists throughout. A key that is written during
//! the listing may appear twice.
//!
//! Everything that a store returns is untrusted input: the store bounds it, and the caller charges it to the plugin. A
//! request whose future is dropped may have been executed.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// The future result of a request.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, BucketError>> + Send + 'a>>;

/// The quotas of a bucket, which the store enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketLimits {
    /// The maximum bytes of the bucket, as the store counts them.
    pub bytes: u64,
    /// The maximum number of keys.
    pub keys: u64,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketEntry {
    /// The revision of the write.
    pub revision: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// The state of a key that a write requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any state.
    Any,
    /// The key does not exist.
    Absent,
    /// The key has this revision.
    Revision(u64),
}

impl Expected {
    /// The state in which a key was read.
    pub fn as_read(entry: Option<&BucketEntry>) -> Self {
        entry.map_or(Self::Absent, |entry| Self::Revision(entry.revision))
    }
}

/// One page of the keys of a bucket, in the order of their revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketPage {
    /// The keys. A page may be empty although another one follows: the bucket may have entries of other clients.
    pub keys: Vec<String>,
    /// The revision after which the next page begins; none on the last page.
    pub next: Option<u64>,
}

/// The contents of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketContents {
    /// The number of keys.
    pub keys: u64,
    /// The bytes, as the store counts them.
    pub bytes: u64,
}

/// The reason why a request has failed. Texts are for the log of the host, not for guests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// The key is not in the expected state. Nothing was written.
    #[error("the key was written meanwhile")]
    Conflict,
    /// The bucket would exceed its bytes. Nothing was written.
    #[error("the bucket has no room for more bytes")]
    FullOfBytes,
    /// The bucket would exceed its number of keys. Nothing was written.
    #[error("the bucket has no room for more keys")]
    FullOfKeys,
    /// The value is too large for the store. Nothing was written.
    #[error("a value of {length} bytes is too large for the store, which takes at most {max}")]
    TooLarge {
        /// The size of the value.
        length: usize,
        /// The maximum.
        max: usize,
    },
    /// The store did not answer in time. It is unknown whether the request was executed.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The store rejects the request. Nothing was written.
    #[error("refused: {0}")]
    Refused(String),
    /// The stored value is not one that a host writes.
    #[error("the stored value is not one of this host: {0}")]
    Foreign(String),
}

/// A store of buckets that hosts share.
pub trait SharedBuckets: fmt::Debug + Send + Sync {
    /// Returns a plugin's bucket. Sends no request: the bucket is made, and gets its limits, at the first one.
    /// Different pairs of names are different buckets.
    fn bucket(&self, plugin: &str, name: &str, limits: BucketLimits) -> Arc<dyn SharedBucket>;
}

/// A bucket that hosts share. Keys have at most 1024 bytes.
pub trait SharedBucket: fmt::Debug + Send + Sync {
    /// The maximum size of a value in bytes, as far as it is known.
    fn max_value(&self) -> usize;

    /// Returns the value of a key; none if the key does not exist. Sees all writes that were acknowledged before.
    fn get<'a>(&'a self, key: &'a str) -> Answer<'a, Option<BucketEntry>>;

    /// Writes the value of a key in the expected state. Returns the new revision.
    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, expected: Expected) -> Answer<'a, u64>;

    /// Deletes a key, whatever its state.
    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()>;

    /// Returns at most `max` keys whose revision is greater than `revision`. May not see the last writes yet.
    fn keys_after(&self, revision: u64, max: usize) -> Answer<'_, BucketPage>;

    /// Returns the contents of the bucket.
    fn contents(&self) -> Answer<'_, BucketContents>;
}
