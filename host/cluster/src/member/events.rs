//! The inputs of a [`Member`](super::Member), and the actions that it requests from its caller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::message::Message;
use crate::record::Record;
use crate::replica::ReplicaId;

/// A point in time: the time since any fixed moment, by a monotonic clock.
pub type Time = Duration;
/// The revision of a record in the bucket.
pub type Revision = u64;

/// An action for the caller.
#[derive(Debug)]
pub enum Output {
    /// Publish a message to all replicas.
    Publish(Message),
    /// Read the record, and report the result by [`Member::read`](super::Member::read).
    Read,
    /// Write the record if it has the expected revision, or if none exists, and report the result by
    /// [`Member::written`](super::Member::written).
    Write {
        /// The revision to replace; none if no record exists.
        expected: Option<Revision>,
        /// The record.
        record: Box<Record>,
    },
    /// Notify the subscribers that watch these paths.
    Changed {
        /// The paths that have changed.
        changed: Vec<Arc<str>>,
        /// Whether the listing may have changed.
        listing: bool,
    },
    /// All requests up to this number were served by a round of polls for all replicas.
    Completed {
        /// The number.
        requested: u64,
        /// Whether the round has compared all paths with the last state that was known here:
        /// [`Member::relies_on_rounds`](super::Member::relies_on_rounds).
        relied: bool,
    },
    /// Begin a [poll](super::Member::begin_poll) now.
    Wake,
}

/// The value of the record's key in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// There is no value.
    Nothing,
    /// A value that is not a record.
    Invalid(Revision),
    /// The record.
    Record(Revision, Box<Record>),
}

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The bucket has another revision.
    Conflict,
    /// The outcome is unknown: the record may have been written.
    Unknown,
    /// The record cannot be written: it is too long.
    Impossible,
}

/// The paths to poll now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The paths of this replica.
    Own {
        /// The tokens to begin with.
        tokens: OwnTokens,
        /// Whether everything is notified once after the poll has succeeded.
        tell_all: bool,
        /// The number of the handover for which it is the last own poll; none if there is no handover. Polls with the
        /// same number are one: together they are [complete](OwnPolled::Complete) once they have polled all paths.
        handover: Option<u64>,
    },
    /// The paths of all replicas.
    Shared(SharedPoll),
    /// Nothing: another replica polls, or the wants of the others are not yet known.
    Nothing,
}

/// How a poll of this replica's own paths has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPolled {
    /// The provider has failed.
    Failed,
    /// Some paths were not polled: they are in back-off after a failure, or there was no time.
    Partial,
    /// All paths were polled, in this poll or in earlier ones of the same handover.
    Complete,
}

/// The tokens of a poll of this replica's own paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTokens {
    /// The tokens of its last own poll.
    Kept,
    /// No tokens: the previous ones are out of date.
    None,
    /// The tokens of the last shared poll, which this replica made.
    Shared,
}

/// A poll for all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPoll {
    /// The paths of all replicas, each with one replica that wants it.
    pub paths: Arc<BTreeMap<Arc<str>, ReplicaId>>,
    /// The tokens to begin with; none if this replica's last shared poll has the newest.
    pub tokens: Option<Vec<Option<String>>>,
    /// The key of the hash that divides paths into groups: equal on all replicas.
    pub key: u64,
}

/// The result of a poll for all replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The paths that have changed.
    pub changed: Vec<Arc<str>>,
    /// Whether the listing has changed.
    pub listing: bool,
    /// The new tokens.
    pub tokens: Vec<Option<String>>,
    /// Paths that were not polled, and that the tokens no longer cover: their changes are unknown.
    pub lost: BTreeSet<Arc<str>>,
    /// Other paths that were not polled. The tokens cover them as before: new paths among them are not covered.
    pub left: BTreeSet<Arc<str>>,
}

/// Counters for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberStats {
    /// The number of polls of this replica's own paths.
    pub own_polls: u64,
    /// The number of polls for all replicas.
    pub shared_polls: u64,
    /// The number of breaks of the chain after which everything was notified.
    pub gaps: u64,
    /// The number of times that the lease was taken.
    pub leases_taken: u64,
    /// The number of times that the lease was lost.
    pub leases_lost: u64,
}

impl MemberStats {
    /// Adds the counters of another shard.
    pub fn add(&mut self, other: Self) {
        let Self { own_polls, shared_polls, gaps, leases_taken, leases_lost } = other;
        self.own_polls = self.own_polls.saturating_add(own_polls);
        self.shared_polls = self.shared_polls.saturating_add(shared_polls);
        self.gaps = self.gaps.saturating_add(gaps);
        self.leases_taken = self.leases_taken.saturating_add(leases_taken);
        self.leases_lost = self.leases_lost.saturating_add(leases_lost);
    }
}

/// The role of a replica for a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleName {
    /// The replica watches nothing.
    #[default]
    Idle,
    /// The replica polls for itself.
    Alone,
    /// The replica relies on the holder.
    Following,
    /// The replica polls for all.
    Holding,
}

impl RoleName {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Alone, Self::Following, Self::Holding];

    /// Returns the name of the role in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Alone => "alone",
            Self::Following => "following",
            Self::Holding => "holding",
        }
    }
}
