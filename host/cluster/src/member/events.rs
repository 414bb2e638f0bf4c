//! What a [`Member`](super::Member) is told, and what it has its caller do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::message::Message;
use crate::record::Record;
use crate::replica::ReplicaId;

/// A point in time: the time since any fixed moment, by a clock that never goes back.
pub type Time = Duration;
/// The revision of a record in the bucket.
pub type Revision = u64;

/// What the caller has to do.
#[derive(Debug)]
pub enum Output {
    /// Publish a message to all replicas.
    Publish(Message),
    /// Read the record, and report it by [`Member::read`](super::Member::read).
    Read,
    /// Write the record if it has that revision, or if there is none, and report it by [`Member::written`](super::Member::written).
    Write {
        /// The revision that is replaced; none: there is no record.
        expected: Option<Revision>,
        /// The record.
        record: Box<Record>,
    },
    /// Tell subscribers of the paths among these that they watch.
    Changed {
        /// The paths that have changed.
        changed: Vec<Arc<str>>,
        /// Whether the listing may have changed.
        listing: bool,
    },
    /// All requests up to that number were served by a poll.
    Completed(u64),
    /// Ask for the [plan](super::Member::begin_poll) now.
    Wake,
}

/// What the bucket has for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing.
    Nothing,
    /// A value that is no record.
    Invalid(Revision),
    /// The record.
    Record(Revision, Box<Record>),
}

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// It has another revision.
    Conflict,
    /// That is not known: it may have been written.
    Unknown,
    /// It cannot be written: it is too long.
    Impossible,
}

/// What is to be polled now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The paths of this replica.
    Own {
        /// With which tokens.
        tokens: OwnTokens,
        /// Whether everything is told once the poll has succeeded.
        tell_all: bool,
    },
    /// The paths of all replicas.
    Shared(SharedPoll),
    /// Nothing: another replica polls, or it is not yet known what others want.
    Nothing,
}

/// The tokens of a poll of this replica's own paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTokens {
    /// Those of its last own poll.
    Kept,
    /// None: what there were are out of date.
    None,
    /// Those of the last shared poll, which were this replica's.
    Shared,
}

/// A poll for all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPoll {
    /// The paths of all replicas, each with one that wants it.
    pub paths: Arc<BTreeMap<Arc<str>, ReplicaId>>,
    /// The tokens to begin with, if those of the last shared poll here are not the newest.
    pub tokens: Option<Vec<Option<String>>>,
    /// The key by which paths are divided into groups: the same for all replicas.
    pub key: u64,
}

/// What a poll for all replicas has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The paths that have changed.
    pub changed: Vec<Arc<str>>,
    /// Whether the listing has changed.
    pub listing: bool,
    /// The new tokens.
    pub tokens: Vec<Option<String>>,
    /// Paths that were not polled, and that the tokens do not cover any more: changes of them are not known.
    pub lost: BTreeSet<Arc<str>>,
    /// Other paths that were not polled. The tokens say of them what they said before, which is nothing of those that are new.
    pub left: BTreeSet<Arc<str>>,
}

/// What is counted, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberStats {
    /// The polls of this replica's own paths.
    pub own_polls: u64,
    /// The polls for all replicas.
    pub shared_polls: u64,
    /// How often the chain broke, so that everything was told.
    pub gaps: u64,
    /// How often the lease was taken.
    pub leases_taken: u64,
    /// How often the lease was lost.
    pub leases_lost: u64,
}

/// The role of a replica for a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleName {
    /// It watches nothing.
    #[default]
    Idle,
    /// It polls for itself.
    Alone,
    /// It relies on the holder.
    Following,
    /// It polls for all.
    Holding,
}

impl RoleName {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Alone => "alone",
            Self::Following => "following",
            Self::Holding => "holding",
        }
    }
}
