//! The interface of search to a store of index snapshots that the replicas of a cluster share
//! (`[search] shared = true`).
//!
//! One replica holds the lease of a snapshot's *place*, builds the index and publishes it; the others fetch it. A
//! snapshot is a sequence of chunks in one of two [slots](Slot), and a description that names the slot. The next
//! snapshot is written into the other slot, so a snapshot that was not completed leaves the published one as it is, and
//! a place never has more than two.
//!
//! A store drops everything that was written a [lifetime](SNAPSHOT_LIFETIME) ago, so a place that is no longer used,
//! because a plugin was removed or a version replaced, is empty after that time. A publisher must publish its snapshot
//! again in time.
//!
//! Search defines the content of chunks, encrypts it and authenticates it: a store only keeps bytes. Everything that a
//! store returns is untrusted input, and the store bounds it. A request whose future is dropped may have been executed.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::private_dir::SECRET_LEN;

/// The maximum size of a chunk in bytes.
pub const MAX_CHUNK: usize = 256 * 1024;
/// The maximum number of chunks of a snapshot.
pub const MAX_CHUNKS: u32 = 512;
/// The maximum size of a snapshot in bytes.
pub const MAX_SNAPSHOT: u64 = 128 * 1024 * 1024;
/// The maximum size in bytes of the data that authenticates a description.
pub const MAX_SEAL: usize = 128;

/// The time after which a store drops a chunk or a description.
pub const SNAPSHOT_LIFETIME: Duration = Duration::from_hours(24);

/// The future result of a request.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, SnapshotError>> + Send + 'a>>;

/// A part of a place that holds the chunks of one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// The first slot.
    A,
    /// The second slot.
    B,
}

impl Slot {
    /// Returns the slot of the next snapshot.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Where its chunks are.
    pub slot: Slot,
    /// The number of its chunks, at most [`MAX_CHUNKS`].
    pub chunks: u32,
    /// The size of its chunks in bytes, at most [`MAX_SNAPSHOT`].
    pub bytes: u64,
    /// The SHA-256 digest of its chunks, in order.
    pub digest: [u8; 32],
    /// The data that authenticates this description, at most [`MAX_SEAL`] bytes.
    pub seal: Vec<u8>,
}

/// What a place has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// Nothing was published, or it has expired.
    Nothing,
    /// The stored description is not one that a host writes, or it was deleted.
    Invalid {
        /// The revision of the description.
        revision: u64,
        /// The reason, for the log.
        reason: String,
    },
    /// A snapshot.
    Snapshot {
        /// The revision of the description.
        revision: u64,
        /// The description.
        snapshot: Snapshot,
    },
}

impl Published {
    /// Returns the revision of the description; none if there is no description.
    pub fn revision(&self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Invalid { revision, .. } | Self::Snapshot { revision, .. } => Some(*revision),
        }
    }
}

/// A chunk of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its position, greater than the positions of all earlier chunks of the slot.
    pub position: u64,
    /// Its bytes, at most [`MAX_CHUNK`].
    pub bytes: Vec<u8>,
}

/// The reason why a request has failed. Texts are for the log of the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The description does not have the expected revision. Nothing was written.
    #[error("another replica has published a snapshot meanwhile")]
    Conflict,
    /// The store did not answer in time. It is unknown whether the request was executed.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The store rejects the request.
    #[error("refused: {0}")]
    Refused(String),
    /// The stored value is not one that a host writes.
    #[error("the stored value is not one of this host: {0}")]
    Foreign(String),
}

/// A store of snapshots that hosts share.
pub trait SnapshotStore: fmt::Debug + Send + Sync {
    /// Returns the place with this name, of at most 64 of `0-9` and `a-f`. Sends no request.
    fn place(&self, name: &str) -> Arc<dyn SnapshotPlace>;

    /// Returns the time of a lease: after half of it without an answer, its holder no longer relies on it, and another
    /// replica may take it a little later.
    fn lease(&self) -> Duration;
}

/// The place of the snapshots of one index.
pub trait SnapshotPlace: fmt::Debug + Send + Sync {
    /// Renews or takes the lease, if that is possible. Returns whether this replica holds it. Must be called several
    /// times per lease.
    fn hold(&self) -> Answer<'_, bool>;

    /// Returns what is published. Sees all descriptions that were acknowledged before.
    fn published(&self) -> Answer<'_, Published>;

    /// Removes the chunks of a slot.
    fn clear(&self, slot: Slot) -> Answer<'_, ()>;

    /// Adds a chunk to a slot.
    fn append(&self, slot: Slot, chunk: Vec<u8>) -> Answer<'_, ()>;

    /// Returns the first chunk of a slot after this position; none if there is no further one.
    fn chunk_after(&self, slot: Slot, position: u64) -> Answer<'_, Option<Chunk>>;

    /// Publishes a snapshot, if the description has this revision, or if there is none. Returns the new revision.
    fn publish(&self, snapshot: Snapshot, expected: Option<u64>) -> Answer<'_, u64>;
}

/// The snapshots of the host's cluster.
#[derive(Clone)]
pub struct SharedSnapshots {
    /// The store.
    pub store: Arc<dyn SnapshotStore>,
    /// The secret that all replicas have, by which they encrypt and authenticate snapshots.
    pub secret: [u8; SECRET_LEN],
}

impl fmt::Debug for SharedSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSnapshots").field("store", &self.store).finish_non_exhaustive()
    }
}
