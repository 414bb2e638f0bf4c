//! The state machine of one replica for one shard of a plugin: it decides which replica polls, and tracks which changes
//! were published.
//!
//! Sans I/O: the state machine performs no input or output and has no clock. The caller passes events with the time,
//! and executes the [`Output`]s. So a simulation can run the same code (`crate::simulation`).
//!
//! # Roles
//!
//! | role | polls | source of changes of this replica's paths |
//! |---|---|---|
//! | alone | its own paths, with its own tokens | its own polls |
//! | following | nothing | the *chain* of the holder's rounds |
//! | holding | the paths of all replicas, with the tokens of the [`Record`] | its own polls |
//!
//! A replica starts alone. It polls for itself until the holder reports that a round of polls covered all paths that
//! the replica now wants. Then it polls for itself once more (its *last own poll*), so that its own polls and the
//! holder's rounds overlap, and follows.
//!
//! # A round
//!
//! The holder polls, publishes the changes ([`Message::Changes`]), *then* moves the token by a compare-and-swap of the
//! record, and then publishes [`Message::Counted`]. A holder that dies in between leaves the old token, so the next
//! holder finds the same changes again. Delivery is at least once: a change may be published twice, and is not lost.
//!
//! # The chain
//!
//! A follower's chain is unbroken while the follower has received every round by its number, with all parts, and each
//! round covered its paths. After a gap, or after a whole lease without a message, the follower polls for itself, and
//! notifies everything once. Messages of a holder before its first round do not count, because it may never make one.
//! Messages may be lost, repeated and late: the cost is additional polls and repeated notifications.
//!
//! # Paths that are not polled
//!
//! A provider may fail for some paths and answer for the others. A round is made without the failing paths, and its
//! list of covered replicas determines which replicas must poll for themselves: a replica that wants a path which the
//! tokens no longer cover is not covered, and a replica that wants a path which was never polled is covered up to the
//! version before it. While the holder itself wants such a path, it polls its own paths, too. So a path for which a
//! provider fails only costs polls, and only of the replicas that want it.
//!
//! Own polls may also omit failed paths in back-off. No other replica knows the changes of these paths since their last
//! poll. So the last own poll ends only when each path was polled since it began, if necessary in several polls.
//!
//! # The lease
//!
//! A holder writes its record at least every sixth of the lease. It relies on the lease for half of its duration, from
//! the start of the last successful write. Another replica takes the lease by a compare-and-swap once it has seen an
//! unchanged record for 11/20 of the lease. That leaves time to take the lease before the followers have been without a
//! message for a whole lease. So no clock of another machine matters, and if a paused machine relies on a lost lease,
//! its compare-and-swap fails.
//!
//! # Invalid records
//!
//! A value in the bucket that is not a valid [`Record`], or whose numbers no replica reaches, has no holder and no
//! history. A replica that has seen such a value unchanged for the time after which it would take the lease replaces
//! the value by a new record with another history, so the followers detect a gap. If the value changes, replicas of
//! another version write it: this replica does not overwrite it, and polls for itself.
//!
//! # Shards
//!
//! A division (`crate::division`) determines which paths a replica watches in this shard. The holder of the first shard
//! decides how many shards there are, because it knows the paths of all replicas. Nothing here depends on which paths
//! belong to a shard.
//!
//! # Bounds
//!
//! A replica that wants more than [`MAX_PATHS`](crate::division::MAX_PATHS) paths of a shard shares none of them and
//! polls them for itself. The holder polls at most as many different paths; replicas whose paths do not fit are not
//! covered, and poll for themselves. All members of a host have [`MAX_WANTS_BYTES`](crate::memory::MAX_WANTS_BYTES) for
//! the wants of other replicas. A replica publishes all of its wants in response to messages at most 20 times per
//! lease.

mod announce;
mod events;
mod hold;
mod listen;
mod round_paths;
mod rounds;
#[cfg(test)]
mod tests;
mod wants;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::division::{max_paths, shard_count};
use crate::memory::WantsMemory;
use crate::message::Message;
use crate::record::Record;
use crate::replica::ReplicaId;
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

pub use self::events::{
    Found, MemberStats, Output, OwnPolled, OwnTokens, Plan, Revision, RoleName, SharedPoll, Stored, Time, WriteFailure,
};

use self::hold::Holding;
use self::listen::Chain;

/// The time for which a replica waits for the holder to poll a new path.
const PATIENCE: Duration = Duration::from_secs(1);
/// The maximum number of held leases that make this replica take another one later.
const MAX_BURDEN: u32 = 2;
/// The maximum number of versions that are not covered yet.
const MAX_PENDING: usize = 1024;

#[derive(Debug)]
enum Role {
    Alone,
    Following,
    Holding(Box<Holding>),
}

/// A pending request to the bucket.
#[derive(Debug)]
enum Request {
    Read,
    Write { record: Box<Record>, at: Time, purpose: Purpose },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Take,
    Renew,
    Move,
    Resign,
}

/// The last seen record.
#[derive(Debug)]
struct Seen {
    revision: Revision,
    content: Content,
    /// When this revision was first seen.
    since: Time,
}

/// The known content of a record.
#[derive(Debug)]
enum Content {
    /// The record was announced, but not read.
    Unknown,
    /// The value is not a record.
    Invalid,
    /// The record was read.
    Record(Box<Record>),
}

/// A poll under way.
#[derive(Debug)]
enum Polling {
    /// A poll of this replica's own paths, with the number of the handover that it completes.
    Own { handover: Option<u64>, tells_all: bool },
    /// A poll of all paths.
    Shared,
}

/// One replica's part in the polling of one shard of a plugin.
#[derive(Debug)]
pub struct Member {
    me: ReplicaId,
    lease: Duration,
    random: fastrand::Rng,
    /// The number of shards of the plugin, as the holder last published it.
    shards: u32,
    /// The number of shards that this replica's paths of the plugin need.
    need: u32,
    /// How much later this replica takes a lease, because it holds others of the plugin.
    burden: Duration,
    /// Whether this replica watches anything, and shares it.
    is_active: bool,
    /// Whether it watches so many paths that it polls them for itself, and shares nothing.
    is_overfull: bool,
    wanted: BTreeSet<Arc<str>>,
    /// The version of `wanted`.
    version: u64,
    /// The number of requests for polls that `version` includes.
    requested: u64,
    /// Versions that are not covered yet, each with its number of requests.
    pending: VecDeque<(u64, u64)>,
    /// Since when the oldest pending version waits for a poll.
    waiting_since: Option<Time>,
    last_announced: Time,
    /// When all wants were last published in response to a message.
    answered: Option<Time>,
    /// When all wants must be published again, because another message has arrived since then.
    answer_at: Option<Time>,
    /// Whether this replica must withdraw its wants first, because the holder's knowledge of them is wrong.
    withdraws: bool,
    role: Role,
    /// Whether changes until now are only known by the chain.
    relies_on_chain: bool,
    chain: Option<Chain>,
    /// Set while one more own poll makes this replica a follower. Each handover has another number.
    handover: Option<u64>,
    handovers: u64,
    tokens: OwnTokens,
    tell_all: bool,
    polling: Option<Polling>,
    request: Option<Request>,
    seen: Option<Seen>,
    read_at: Option<Time>,
    /// Until when this replica does not take the lease.
    abstains_until: Time,
    wake_at: Option<Time>,
    outputs: VecDeque<Output>,
    stats: MemberStats,
    /// The memory for the wants of other replicas.
    memory: WantsMemory,
}

impl Member {
    /// Creates the state of a replica that watches nothing yet. `seed` determines the jitter of its actions, so that
    /// replicas do not all act at the same time.
    pub fn new(me: ReplicaId, lease: Duration, seed: u64) -> Self {
        Self {
            me,
            lease,
            random: fastrand::Rng::with_seed(seed),
            shards: 1,
            need: 1,
            burden: Duration::ZERO,
            is_active: false,
            is_overfull: false,
            wanted: BTreeSet::new(),
            version: 0,
            requested: 0,
            pending: VecDeque::new(),
            waiting_since: None,
            last_announced: Time::ZERO,
            answered: None,
            answer_at: None,
            withdraws: false,
            role: Role::Alone,
            relies_on_chain: false,
            chain: None,
            handover: None,
            handovers: 0,
            tokens: OwnTokens::None,
            tell_all: false,
            polling: None,
            request: None,
            seen: None,
            read_at: None,
            abstains_until: Time::ZERO,
            wake_at: None,
            outputs: VecDeque::new(),
            stats: MemberStats::default(),
            memory: WantsMemory::default(),
        }
    }

    /// Uses this memory, which other members also use, for the wants of other replicas.
    #[must_use]
    pub fn with_memory(mut self, memory: WantsMemory) -> Self {
        self.memory = memory;
        self
    }

    /// Returns the next action. After each call of another method, must be called until it returns `None`.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the counters.
    pub fn stats(&self) -> MemberStats {
        self.stats
    }

    /// Returns the role of this replica.
    pub fn role(&self) -> RoleName {
        match &self.role {
            _ if self.is_overfull => RoleName::Alone,
            _ if !self.is_active => RoleName::Idle,
            Role::Alone => RoleName::Alone,
            Role::Following => RoleName::Following,
            Role::Holding(_) => RoleName::Holding,
        }
    }

    /// Returns whether changes of this replica's paths until now are known only by the rounds of polls for all
    /// replicas. Then a poll of its own paths may not compare them with the last state that was known; otherwise a
    /// round may not.
    pub fn relies_on_rounds(&self) -> bool {
        match &self.role {
            Role::Alone => self.relies_on_chain,
            Role::Following => true,
            Role::Holding(holding) => holding.relies(),
        }
    }

    /// Returns the number of shards of the plugin, as the holder last published it. It means something in the first
    /// shard only.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// Sets the number of shards that this replica's paths of the plugin need, for the holder of the first shard; and
    /// of how many shards of the plugin this replica has the lease: others that have fewer take the next one earlier.
    pub fn set_division(&mut self, need: u32, held: usize) {
        let held = u32::try_from(held).unwrap_or(u32::MAX).min(MAX_BURDEN);
        (self.need, self.burden) = (shard_count(need), part(self.lease, 20).saturating_mul(held));
    }

    /// Sets the paths that this replica watches, and the number of requests for polls so far.
    pub fn watch(&mut self, now: Time, paths: BTreeSet<Arc<str>>, requested: u64) {
        if paths.len() > max_paths() {
            self.stop_sharing(now);
            return;
        }
        let was_overfull = std::mem::take(&mut self.is_overfull);
        let is_new = !std::mem::replace(&mut self.is_active, true);
        let add: Vec<_> = paths.difference(&self.wanted).cloned().collect();
        let remove: Vec<_> = self.wanted.difference(&paths).cloned().collect();
        let waits = requested > self.requested || !add.is_empty();
        if is_new {
            self.read_at = Some(now.saturating_add(self.burden));
            if !was_overfull {
                self.tokens = OwnTokens::None;
            }
        }
        if !is_new && !waits && remove.is_empty() {
            return;
        }
        let base = self.version;
        self.version = self.version.saturating_add(1);
        (self.wanted, self.requested) = (paths, requested.max(self.requested));
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((self.version, self.requested));
        if waits {
            self.waiting_since.get_or_insert(now);
        }
        self.own_changed();
        if matches!(self.role, Role::Holding(_)) {
            if waits {
                self.outputs.push_back(Output::Wake);
            }
        } else if is_new || add.len().saturating_add(remove.len()) > self.wanted.len() {
            self.announce_all(now);
        } else {
            self.announce(now, Some(base), waits, add, remove);
        }
    }

    /// Handles that this replica watches nothing any more.
    pub fn leave(&mut self, now: Time) {
        if std::mem::take(&mut self.is_overfull) {
            self.forget();
        }
        if !std::mem::replace(&mut self.is_active, false) {
            return;
        }
        self.wanted.clear();
        self.version = self.version.saturating_add(1);
        self.pending.clear();
        self.outputs.push_back(Output::Publish(Message::Leave { replica: self.me }));
        self.resign(now);
        self.forget();
    }

    /// Handles that this replica watches too many paths: from now on it polls them for itself, and shares nothing. If
    /// it relied on another replica, everything is notified once.
    fn stop_sharing(&mut self, now: Time) {
        if self.is_overfull {
            return;
        }
        self.resign(now);
        self.lose_lease(now);
        if std::mem::take(&mut self.relies_on_chain) {
            (self.tell_all, self.tokens) = (true, OwnTokens::None);
            self.stats.gaps = self.stats.gaps.saturating_add(1);
        }
        let (tokens, tell_all) = (self.tokens, self.tell_all);
        self.leave(now);
        (self.tokens, self.tell_all, self.is_overfull) = (tokens, tell_all, true);
    }

    /// Drops the chain and the tokens, because no further notification depends on them.
    fn forget(&mut self) {
        (self.role, self.chain, self.handover, self.polling) = (Role::Alone, None, None, None);
        (self.relies_on_chain, self.tell_all, self.tokens) = (false, false, OwnTokens::None);
        (self.waiting_since, self.wake_at, self.read_at) = (None, None, None);
        (self.answer_at, self.withdraws) = (None, false);
    }

    /// Begins a poll, unless there is nothing to poll. Must be followed by [`own_polled`](Self::own_polled) or
    /// [`shared_polled`](Self::shared_polled).
    pub fn begin_poll(&mut self, now: Time) -> Plan {
        if !self.is_active && !self.is_overfull {
            return Plan::Nothing;
        }
        self.wake_at = None;
        if matches!(self.role, Role::Following) {
            return Plan::Nothing;
        }
        if !self.takes_own_turn()
            && let Some(poll) = self.begin_shared(now)
        {
            self.polling = Some(Polling::Shared);
            return Plan::Shared(poll);
        }
        if matches!(&self.role, Role::Holding(holding) if !holding.polls_own()) {
            return Plan::Nothing;
        }
        self.polling = Some(Polling::Own { handover: self.handover, tells_all: self.tell_all });
        let tokens = std::mem::replace(&mut self.tokens, OwnTokens::Kept);
        self.stats.own_polls = self.stats.own_polls.saturating_add(1);
        Plan::Own { tokens, tell_all: self.tell_all, handover: self.handover }
    }

    /// Handles the end of a poll of this replica's own paths.
    pub fn own_polled(&mut self, now: Time, polled: OwnPolled) {
        let Some(Polling::Own { handover, tells_all }) =
            self.polling.take_if(|polling| matches!(polling, Polling::Own { .. }))
        else {
            return;
        };
        if polled == OwnPolled::Failed {
            return;
        }
        if tells_all {
            self.tell_all = false;
        }
        let is_complete = polled == OwnPolled::Complete;
        #[cfg(test)]
        let is_complete = is_complete || is_planted(Bug::PartialCounted);
        if handover.is_none() || handover != self.handover || !is_complete {
            return;
        }
        self.handover = None;
        match &mut self.role {
            Role::Alone => {
                (self.role, self.relies_on_chain, self.tokens) = (Role::Following, true, OwnTokens::None);
                let covered = self.chain.as_ref().map_or(0, |chain| chain.covered);
                self.cover(covered);
                self.waiting_since = (covered < self.version).then_some(now);
            }
            Role::Holding(holding) => holding.end_own_polls(),
            Role::Following => {}
        }
    }

    /// Returns the time at which [`wake`](Self::wake) must be called.
    pub fn deadline(&self) -> Option<Time> {
        if !self.is_active {
            return None;
        }
        let announces = self.last_announced.saturating_add(part(self.lease, 3));
        let silence = self.chain.as_ref().map(|chain| chain.heard.saturating_add(self.lease));
        let patience = self.patience();
        let read = self.read_at.filter(|_| self.request.is_none());
        let times = [Some(announces), silence, patience, read, self.wake_at, self.answer_at, self.hold_deadline()];
        times.into_iter().flatten().min()
    }

    /// Returns until when this replica waits for the holder to cover a new path.
    fn patience(&self) -> Option<Time> {
        let is_following = matches!(self.role, Role::Following);
        self.waiting_since.filter(|_| is_following).map(|since| since.saturating_add(PATIENCE.min(self.lease)))
    }

    /// Performs the due work.
    pub fn wake(&mut self, now: Time) {
        if !self.is_active {
            return;
        }
        if self.wake_at.take_if(|at| *at <= now).is_some() {
            self.outputs.push_back(Output::Wake);
        }
        if self.chain.as_ref().is_some_and(|chain| chain.heard.saturating_add(self.lease) <= now) {
            self.break_chain(now);
        }
        if self.patience().is_some_and(|until| until <= now) {
            // The chain continues, and this replica still relies on it for the covered paths.
            (self.role, self.tokens) = (Role::Alone, OwnTokens::None);
            self.announce_all(now);
            self.outputs.push_back(Output::Wake);
        }
        if self.answer_at.take_if(|at| *at <= now).is_some() && !matches!(self.role, Role::Holding(_)) {
            self.answer_now(now);
        }
        if self.last_announced.saturating_add(part(self.lease, 3)) <= now {
            // The holder does not announce its own wants. The timer continues, because the holder may lose the lease.
            if matches!(self.role, Role::Holding(_)) {
                self.last_announced = now;
            } else {
                self.announce(now, Some(self.version), false, Vec::new(), Vec::new());
            }
        }
        self.hold(now);
        if self.request.is_none() && self.read_at.take_if(|at| *at <= now).is_some() {
            self.request = Some(Request::Read);
            self.outputs.push_back(Output::Read);
        }
    }

    /// Handles a message of any replica, including this one.
    pub fn receive(&mut self, now: Time, message: &Message) {
        if !self.is_active {
            return;
        }
        match message {
            Message::Want(want) => self.wanted_by(now, want),
            Message::Leave { replica } => self.left(*replica),
            Message::Ask { replica, .. } => {
                if replica.is_none_or(|replica| replica == self.me) && !matches!(self.role, Role::Holding(_)) {
                    self.answer(now);
                }
            }
            Message::Changes { history, epoch, seq, part, changed, listing } => {
                let position = Position { history: *history, epoch: *epoch, seq: *seq };
                self.hear_changes(position, *part, changed, *listing);
            }
            Message::Counted { history, epoch, revision, round, covers, shards } => {
                let position = Position { history: *history, epoch: *epoch, seq: round.seq };
                self.hear_counted(now, position, *revision, *round, covers, *shards);
            }
            Message::Resigned { .. } => {
                if !matches!(self.role, Role::Holding(_)) {
                    self.read_at = Some(now.saturating_add(self.jitter(20)).saturating_add(self.burden));
                }
            }
        }
    }

    /// Returns a random part of the lease, at most `1 / parts` of it.
    fn jitter(&mut self, parts: u32) -> Duration {
        part(self.lease, parts).mul_f64(self.random.f64())
    }

    /// Records that a poll covered all versions up to this one.
    fn cover(&mut self, version: u64) {
        let mut completed = None;
        while let Some((_, requested)) = self.pending.pop_front_if(|(pending, _)| *pending <= version) {
            completed = Some(requested);
        }
        if let Some(requested) = completed {
            let relied = self.relies_on_rounds();
            self.outputs.push_back(Output::Completed { requested, relied });
        }
        if version >= self.version {
            self.waiting_since = None;
        }
    }
}

/// Returns a time divided by `number`.
pub(crate) fn part(time: Duration, number: u32) -> Duration {
    time.checked_div(number).unwrap_or_default()
}

/// The place of a message: its history, epoch and round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    history: u64,
    epoch: u64,
    seq: u64,
}
