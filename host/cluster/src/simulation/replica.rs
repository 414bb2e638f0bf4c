//! The records of a world: replicas, what each watches of each shard, and streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::calls::{Call, RunningPoll, SimulatedPolls};
use super::network::Requests;
use super::provider::Answer;
use crate::member::{Member, Time};

/// An event stream of a client, which is subscribed to one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Its replica; none while it is not connected.
    pub(super) replica: Option<u32>,
    pub(super) shard: u32,
    pub(super) path: u32,
    pub(super) principal: u8,
    /// The number of the poll that it waits for.
    pub(super) requested: u64,
    /// Since when its subscription is active, in microseconds.
    pub(super) active_since: Option<u64>,
    /// The first edit that has not been notified yet, in microseconds.
    pub(super) untold: Option<u64>,
}

/// One process.
pub(super) struct Replica {
    /// The number of the process. It changes with each restart.
    pub(super) life: u64,
    pub(super) is_up: bool,
    /// What it watches of each shard.
    pub(super) watches: Vec<Watch>,
    pub(super) stopped_until: Time,
    /// The last time at which it was stopped.
    pub(super) hindered: Time,
    /// Its clock: what it shows at time 0, and how fast it is, in thousandths.
    pub(super) clock: (Time, u32),
    /// The version of the rules that it has loaded.
    pub(super) rules: usize,
    pub(super) load: Load,
}

/// The counted work of one replica.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Messages to NATS, messages from NATS, and requests to the bucket.
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) requests: u64,
    /// Polls, and their calls of the provider.
    pub(super) polls: u64,
    pub(super) calls: u64,
}

impl Load {
    pub(super) fn operations(&self) -> u64 {
        self.sent + self.received + self.requests
    }

    pub(super) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.requests += other.requests;
        self.polls += other.polls;
        self.calls += other.calls;
    }
}

/// What one replica watches of one shard.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) member: Option<Box<Member>>,
    pub(super) polls: Option<SimulatedPolls>,
    pub(super) running: Option<Running>,
    /// The streams that are subscribed to each path.
    pub(super) paths: BTreeMap<u32, Vec<u32>>,
    /// The streams whose subscription waits for a poll.
    pub(super) pending: Vec<u32>,
    pub(super) requested: u64,
    /// Whether the paths or requests have changed since the member got them.
    pub(super) is_changed: bool,
    /// Whether the member watches.
    pub(super) is_watching: bool,
    /// Whether the member plans a poll.
    pub(super) is_planning: bool,
    pub(super) is_failing: bool,
    pub(super) polls_again: bool,
    /// The number of times that a poll was planned.
    pub(super) begun: u64,
    pub(super) requests: Requests,
    /// The time of the next event that wakes the member.
    pub(super) wake_at: Option<Time>,
    /// Since when a change of the listing must be notified, and the first one that was not.
    pub(super) listing_since: Option<Time>,
    pub(super) listing_untold: Option<Time>,
}

/// A poll under way.
pub(super) struct Running {
    pub(super) poll: RunningPoll,
    pub(super) is_shared: bool,
    pub(super) began: Time,
    pub(super) requested: u64,
    /// The call under way, and the answer of the provider.
    pub(super) call: Option<Call>,
    pub(super) answer: Option<Option<Answer>>,
}

impl Replica {
    pub(super) fn new(shards: usize, clock: (Time, u32)) -> Self {
        Self {
            life: 0,
            is_up: false,
            watches: (0..shards).map(|_| Watch::default()).collect(),
            stopped_until: Time::ZERO,
            hindered: Time::ZERO,
            clock,
            rules: 0,
            load: Load::default(),
        }
    }
}

/// The principals that may see each path of a shard, as bits.
pub(super) type Rules = Arc<Vec<Vec<u8>>>;
