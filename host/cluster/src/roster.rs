//! One replica's knowledge of the others, as a state machine: which replicas are alive, and which cached responses must
//! not be served any more.
//!
//! It does no input and output, and has no clock, like [`member`](crate::member).
//!
//! # Liveness
//!
//! Heartbeat: each replica publishes every [`period`](Roster::period) that it is alive, and also receives its own
//! messages. A replica that has been silent for half of the lease is *missing*, and is removed after [`MISSING_TIME`].
//! The number of replicas, by which rates are divided, is updated each period while this replica receives its own
//! messages, and otherwise kept: without the engine, a replica keeps its share. A replica that announces that it leaves
//! is not counted after two periods of silence. If it is heard again, it has not left, because anyone can publish that
//! another replica leaves.
//!
//! [`Roster::view`] is the only source for displays of the cluster, and all of it is from one moment. A replica that
//! does not receive its own messages considers no other replica alive.
//!
//! # Cached responses
//!
//! A replica whose poll has found a change publishes it ([`Notice::Stale`]) with a number, which it repeats each
//! period. The others immediately drop their cached responses of the plugin. All cached responses are dropped
//!
//! - when a number is missing: a notice was lost;
//! - when a replica appears, or is heard again: its earlier notices were not received;
//! - when a replica becomes missing, and then each half of the lease until it is heard or removed: it may be running,
//!   and find changes;
//! - each period while this replica has not received its own messages for half of the lease.
//!
//! Rate limit: at least a sixth of the lease passes between two drops of all responses, however many reasons there are,
//! because anyone who can publish can cause any number of them. A reason within that time takes effect when the time is
//! over.
//!
//! # Sessions
//!
//! A replica that has written the record of a shared session publishes it ([`Notice::Session`]), with a number in the
//! same sequence. So whenever all cached responses are dropped, known session records may be outdated, too.
//!
//! # Bounds in time
//!
//! So a response whose invalidation cannot be received is served for at most the lease, and for at most a period if
//! only single messages are lost. A replica that neither continues nor announces that it leaves is considered gone
//! after [`MISSING_TIME`].

mod notice;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::member::{Time, part};
use crate::record::MAX_REPLICAS;
use crate::replica::ReplicaId;
use crate::session::SessionKey;

pub use self::notice::{About, MAX_NAMED_LEASES, MAX_NOTICE_BYTES, Notice, NoticeError};

/// The time of silence after which a replica is removed.
pub const MISSING_TIME: Duration = Duration::from_mins(10);
/// The maximum time between two heartbeats.
const MAX_PERIOD: Duration = Duration::from_secs(1);

/// Known data that must not be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Nothing.
    Nothing,
    /// The cached responses of the plugin with this shard.
    Plugin(String),
    /// The known record of this session.
    Session(SessionKey),
    /// All cached responses, and all known session records.
    All,
}

/// The work of a period.
#[derive(Debug, PartialEq, Eq)]
pub struct Tick {
    /// The notice to publish.
    pub alive: Notice,
    /// The data that must not be served any more.
    pub dropped: Dropped,
}

/// The counters of a roster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RosterStats {
    /// Notices of this replica that responses are stale.
    pub stale_sent: u64,
    /// Notices of other replicas that responses are stale.
    pub stale_heard: u64,
    /// How often all cached responses were dropped.
    pub dropped_all: u64,
}

/// A replica, as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    /// The replica.
    pub replica: ReplicaId,
    /// Whether it is this replica.
    pub is_me: bool,
    /// The time since its last message.
    pub silent: Duration,
    /// Whether it counts as alive: within half of the lease, this replica has received a message of it, and one of its
    /// own.
    pub is_alive: bool,
    /// Whether its config differs from this replica's.
    pub has_other_config: bool,
    /// Whether cursors of one of the two replicas are invalid at the other.
    pub has_other_cursor_key: bool,
    /// Its description of itself.
    pub about: About,
}

/// The state of the replica that has opened a shared session, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    /// The opener is this replica.
    Me,
    /// The replica has left, was silent for [`MISSING_TIME`], or was never heard.
    Gone,
    /// The replica may be running.
    Known {
        /// The time since its last heartbeat.
        silent: Duration,
        /// Whether the replica had, at that time, a session whose record it could not write.
        has_unwritten: bool,
    },
}

/// A replica's knowledge of its cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterView {
    /// Whether this replica receives broadcasts.
    pub hears: bool,
    /// The number of live replicas, including this one: 1 while nothing is received.
    pub live: NonZeroU32,
    /// The number of live replicas with another config.
    pub differing: usize,
    /// The number of live replicas that do not share cursors with this one.
    pub differing_cursor_keys: usize,
    /// All known replicas, in order.
    pub replicas: Vec<ReplicaView>,
}

/// One replica's knowledge of the others.
#[derive(Debug)]
pub struct Roster {
    me: ReplicaId,
    lease: Duration,
    about: About,
    others: BTreeMap<ReplicaId, Other>,
    /// When it last received its own message; initially its start.
    heard_self: Time,
    /// When all cached responses were last dropped.
    dropped: Option<Time>,
    /// Whether all must be dropped as soon as this is allowed again.
    owes_drop: bool,
    /// The number by which rates are divided.
    divisor: NonZeroU32,
    /// The number of change notices that it has sent.
    sent: u64,
    stats: RosterStats,
}

#[derive(Debug)]
struct Other {
    heard: Time,
    /// When the last heartbeat of the replica was received.
    alive: Time,
    sent: u64,
    is_missing: bool,
    /// Whether the last notice about it announced that it leaves.
    has_left: bool,
    about: About,
}

impl Roster {
    /// Creates the roster of a starting replica.
    pub fn new(now: Time, me: ReplicaId, lease: Duration, about: About) -> Self {
        Self {
            me,
            lease,
            about: about.bounded(),
            others: BTreeMap::new(),
            heard_self: now,
            dropped: None,
            owes_drop: false,
            divisor: NonZeroU32::MIN,
            sent: 0,
            stats: RosterStats::default(),
        }
    }

    /// The time between two [ticks](Self::tick).
    pub fn period(&self) -> Duration {
        part(self.lease, 6).min(MAX_PERIOD)
    }

    /// The number by which rates are divided: the live replicas, as of the last time at which this replica received its
    /// own message.
    pub fn divisor(&self) -> NonZeroU32 {
        self.divisor
    }

    /// Returns whether this replica receives broadcasts.
    pub fn hears(&self, now: Time) -> bool {
        !self.is_silent(now, self.heard_self)
    }

    /// Returns the counters.
    pub fn stats(&self) -> RosterStats {
        self.stats
    }

    /// Returns the current knowledge of the cluster.
    pub fn view(&self, now: Time) -> RosterView {
        let hears = self.hears(now);
        let view = |replica: ReplicaId, heard: Time, about: &About| {
            let is_me = replica == self.me;
            ReplicaView {
                replica,
                is_me,
                silent: now.saturating_sub(heard),
                is_alive: is_me || hears && !self.is_silent(now, heard),
                has_other_config: about.config != self.about.config,
                has_other_cursor_key: !about.shares_cursors(&self.about),
                about: about.clone(),
            }
        };
        let others = self.others.iter().map(|(replica, other)| view(*replica, other.heard, &other.about));
        let mut replicas: Vec<_> = others.chain([view(self.me, self.heard_self, &self.about)]).collect();
        replicas.sort_by_key(|view| view.replica);
        let count = |is_counted: fn(&ReplicaView) -> bool| {
            replicas.iter().filter(|view| view.is_alive && is_counted(view)).count()
        };
        RosterView {
            hears,
            live: u32::try_from(count(|_| true)).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
            differing: count(|view| view.has_other_config),
            differing_cursor_keys: count(|view| view.has_other_cursor_key),
            replicas,
        }
    }

    /// Returns the known state of the replica whose id has these first 16 digits.
    pub fn opener(&self, now: Time, digits: u64) -> Opener {
        let replicas = ReplicaId::with_first_digits(digits);
        if replicas.contains(&self.me) {
            return Opener::Me;
        }
        match self.others.range(replicas).next() {
            Some((_, other)) if !other.has_left => Opener::Known {
                silent: now.saturating_sub(other.alive),
                has_unwritten: other.about.has_unwritten_sessions,
            },
            _ => Opener::Gone,
        }
    }

    /// Returns the notice that cached responses of a plugin are stale.
    pub fn invalidate(&mut self, plugin: String) -> Notice {
        self.stats.stale_sent = self.stats.stale_sent.saturating_add(1);
        Notice::Stale { replica: self.me, number: self.next_number(), plugin }
    }

    /// Returns the notice that the record of a session has changed.
    pub fn change_session(&mut self, session: SessionKey) -> Notice {
        Notice::Session { replica: self.me, number: self.next_number(), session }
    }

    fn next_number(&mut self) -> u64 {
        self.sent = self.sent.saturating_add(1);
        self.sent
    }

    /// Returns the last notice.
    pub fn leave(&self) -> Notice {
        Notice::Left { replica: self.me, sent: self.sent }
    }

    /// Handles a received notice.
    pub fn receive(&mut self, now: Time, notice: Notice) -> Dropped {
        let mut one = Dropped::Nothing;
        // Whether a notice may have been missed.
        let is_gap = match notice {
            Notice::Alive { replica, .. } | Notice::Stale { replica, .. } | Notice::Session { replica, .. }
                if replica == self.me =>
            {
                self.heard_self = now;
                false
            }
            Notice::Left { replica, .. } if replica == self.me => false,
            Notice::Alive { replica, sent, about } => self.hear_alive(now, replica, sent, about),
            Notice::Stale { replica, number, plugin } => {
                self.stats.stale_heard = self.stats.stale_heard.saturating_add(1);
                one = Dropped::Plugin(plugin);
                self.hear_change(now, replica, number)
            }
            Notice::Session { replica, number, session } => {
                one = Dropped::Session(session);
                self.hear_change(now, replica, number)
            }
            Notice::Left { replica, sent } => self.others.get_mut(&replica).is_none_or(|other| {
                other.has_left = true;
                other.sent != sent || other.is_missing
            }),
        };
        // The named data is dropped immediately, even if the drop of all must wait.
        match self.drop_all(now, is_gap) {
            Dropped::Nothing => one,
            dropped => dropped,
        }
    }

    fn hear_alive(&mut self, now: Time, replica: ReplicaId, sent: u64, about: About) -> bool {
        let is_known = self.others.contains_key(&replica);
        if !is_known && self.others.len() >= MAX_REPLICAS {
            // There are more replicas than possible, so no state of this one can be kept.
            return true;
        }
        let before = self
            .others
            .insert(replica, Other { heard: now, alive: now, sent, is_missing: false, has_left: false, about });
        before.is_none_or(|before| before.sent != sent || before.is_missing)
    }

    fn hear_change(&mut self, now: Time, replica: ReplicaId, number: u64) -> bool {
        let Some(other) = self.others.get_mut(&replica) else { return true };
        let is_gap = number > other.sent.saturating_add(1) || other.is_missing;
        other.sent = other.sent.max(number);
        (other.heard, other.is_missing, other.has_left) = (now, false, false);
        is_gap
    }

    /// Ends a [`period`](Self::period). `about` is this replica's current description of itself.
    pub fn tick(&mut self, now: Time, about: About) -> Tick {
        self.about = about.bounded();
        let mut drops = !self.hears(now);
        let silence = part(self.lease, 2);
        let farewell = self.period().saturating_mul(2);
        self.others
            .retain(|_, other| now.saturating_sub(other.heard) < if other.has_left { farewell } else { MISSING_TIME });
        for other in self.others.values_mut() {
            let is_missing = now.saturating_sub(other.heard) > silence;
            drops |= is_missing && !other.is_missing;
            other.is_missing = is_missing;
        }
        let is_long_ago = self.dropped.is_none_or(|dropped| now.saturating_sub(dropped) >= silence);
        drops |= self.others.values().any(|other| other.is_missing) && is_long_ago;
        // A replica that does not receive its own messages does not know which replicas are alive.
        if now.saturating_sub(self.heard_self) <= self.period().saturating_mul(2) {
            let others = self.others.values().filter(|other| !other.is_missing).count();
            let divisor = u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1);
            self.divisor = NonZeroU32::new(divisor).unwrap_or(NonZeroU32::MIN);
        }
        let dropped = self.drop_all(now, drops);
        let alive = Notice::Alive { replica: self.me, sent: self.sent, about: self.about.clone() };
        Tick { alive, dropped }
    }

    fn is_silent(&self, now: Time, heard: Time) -> bool {
        now.saturating_sub(heard) > part(self.lease, 2)
    }

    /// Drops all cached responses if there is a reason, now or since the last drop, and the last drop is long enough
    /// ago.
    fn drop_all(&mut self, now: Time, is_due: bool) -> Dropped {
        self.owes_drop |= is_due;
        let pause = part(self.lease, 6);
        if !self.owes_drop || self.dropped.is_some_and(|dropped| now.saturating_sub(dropped) < pause) {
            return Dropped::Nothing;
        }
        (self.dropped, self.owes_drop) = (Some(now), false);
        self.stats.dropped_all = self.stats.dropped_all.saturating_add(1);
        Dropped::All
    }
}

#[cfg(test)]
mod tests;
