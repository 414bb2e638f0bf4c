//! The replicas that one replica knows of, as a state machine: who is alive, and which cached responses may not be served any more.
//!
//! It does no input and output, and has no clock, as [`member`](crate::member).
//!
//! # Who is alive
//!
//! Each replica says every [`period`](Roster::period) that it runs, and hears itself as it hears the others. One that has been silent for half of the
//! lease is *missing*, and forgotten after [`MISSING_TIME`]. The number of replicas, by which rates are divided, is corrected each period
//! while this replica hears itself, and stays as it is while it does not: without the engine a replica keeps its share. One that says that it
//! leaves is not counted after two periods of silence. Who is heard again has not left: anybody can say that another one leaves.
//!
//! [`Roster::view`] is the only source of what is shown of the cluster, and all of it is of one moment. A replica that does not hear itself
//! knows of no other one that is alive.
//!
//! # Cached responses
//!
//! A replica whose poll has found a change says so to all ([`Notice::Stale`]), with a number, which it repeats each period. The others
//! drop what they have cached of the plugin, at once. All cached responses are dropped
//!
//! - when a number is missing: a notice was lost;
//! - when a replica appears, or is heard again: what it has said before was not heard;
//! - when a replica becomes missing, and then each half of the lease until it is heard or forgotten: it may run, and find changes;
//! - each period while this replica has not heard itself for half of the lease.
//!
//! Between two times at which all are dropped is a sixth of the lease at least, however many reasons there are: who can publish can make
//! as many as it likes. A reason within that time counts when it is over.
//!
//! # Sessions
//!
//! A replica that has written the record of a session that replicas share says so to all ([`Notice::Session`]), with a number of the same
//! sequence. So whenever all cached responses are dropped, what is known of the records of sessions may be old, too.
//!
//! # How long
//!
//! So a response whose invalidation cannot be heard is served for the lease at most, and for a period if only single messages are lost. A
//! replica that neither runs on nor says that it leaves is believed to be gone after [`MISSING_TIME`].

mod notice;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::member::{Time, part};
use crate::record::MAX_REPLICAS;
use crate::replica::ReplicaId;
use crate::session::SessionKey;

pub use self::notice::{About, MAX_NAMED_LEASES, MAX_NOTICE_BYTES, Notice, NoticeError};

/// The time after which a replica is forgotten that is not heard of.
pub const MISSING_TIME: Duration = Duration::from_mins(10);
/// The longest time between two signs of life.
const MAX_PERIOD: Duration = Duration::from_secs(1);

/// What is known and must not be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Nothing.
    Nothing,
    /// The cached responses of the plugin with that shard.
    Plugin(String),
    /// What is known of that session's record.
    Session(SessionKey),
    /// All cached responses, and what is known of the records of sessions.
    All,
}

/// What is to be done each period.
#[derive(Debug, PartialEq, Eq)]
pub struct Tick {
    /// What to say to all.
    pub alive: Notice,
    /// What is not to be served any more.
    pub dropped: Dropped,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RosterStats {
    /// Notices that responses are stale, of this replica.
    pub stale_sent: u64,
    /// The same of others.
    pub stale_heard: u64,
    /// How often all cached responses were dropped.
    pub dropped_all: u64,
}

/// A replica as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    /// Which.
    pub replica: ReplicaId,
    /// Whether it is the one that is asked.
    pub is_me: bool,
    /// The time since it was heard last.
    pub silent: Duration,
    /// Whether it counts as alive: it was heard within half of the lease, and so was the replica that is asked.
    pub is_alive: bool,
    /// Whether it has another config than the replica that is asked.
    pub has_other_config: bool,
    /// Whether cursors of one of the two are not valid at the other.
    pub has_other_cursor_key: bool,
    /// What it says about itself.
    pub about: About,
}

/// What a replica knows of its cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterView {
    /// Whether this replica hears what is said to all.
    pub hears: bool,
    /// The number of replicas that are alive, this one included: 1 while nothing is heard.
    pub live: NonZeroU32,
    /// The number of live replicas that have another config.
    pub differing: usize,
    /// The number of live replicas with whom cursors are not shared.
    pub differing_cursor_keys: usize,
    /// All replicas that are known, in order.
    pub replicas: Vec<ReplicaView>,
}

/// The replicas that one replica knows of.
#[derive(Debug)]
pub struct Roster {
    me: ReplicaId,
    lease: Duration,
    about: About,
    others: BTreeMap<ReplicaId, Other>,
    /// When it heard itself last; at first, when it began.
    heard_self: Time,
    /// When all cached responses were dropped last.
    dropped: Option<Time>,
    /// Whether all have to be dropped as soon as that may be again.
    owes_drop: bool,
    /// The number by which rates are divided.
    divisor: NonZeroU32,
    /// The number of notices of changes that it has sent.
    sent: u64,
    stats: RosterStats,
}

#[derive(Debug)]
struct Other {
    heard: Time,
    sent: u64,
    is_missing: bool,
    /// Whether it was said last that it leaves.
    has_left: bool,
    about: About,
}

impl Roster {
    /// The roster of a replica that begins.
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

    /// The number by which rates are divided: the live replicas, or those that there were when this one heard itself last.
    pub fn divisor(&self) -> NonZeroU32 {
        self.divisor
    }

    /// Whether this replica hears what is said to all.
    pub fn hears(&self, now: Time) -> bool {
        !self.is_silent(now, self.heard_self)
    }

    /// What is counted.
    pub fn stats(&self) -> RosterStats {
        self.stats
    }

    /// What is known of the cluster now.
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

    /// Says that cached responses of a plugin are stale. Returns what to say to all.
    pub fn invalidate(&mut self, plugin: String) -> Notice {
        self.stats.stale_sent = self.stats.stale_sent.saturating_add(1);
        Notice::Stale { replica: self.me, number: self.next_number(), plugin }
    }

    /// Says that the record of a session is another one. Returns what to say to all.
    pub fn change_session(&mut self, session: SessionKey) -> Notice {
        Notice::Session { replica: self.me, number: self.next_number(), session }
    }

    fn next_number(&mut self) -> u64 {
        self.sent = self.sent.saturating_add(1);
        self.sent
    }

    /// The last thing to say to all.
    pub fn leave(&self) -> Notice {
        Notice::Left { replica: self.me, sent: self.sent }
    }

    /// A notice was heard.
    pub fn receive(&mut self, now: Time, notice: Notice) -> Dropped {
        let mut one = Dropped::Nothing;
        // Whether something that was said may not have been heard.
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
        // What is named is dropped at once, even if all others have to wait.
        match self.drop_all(now, is_gap) {
            Dropped::Nothing => one,
            dropped => dropped,
        }
    }

    fn hear_alive(&mut self, now: Time, replica: ReplicaId, sent: u64, about: About) -> bool {
        let is_known = self.others.contains_key(&replica);
        if !is_known && self.others.len() >= MAX_REPLICAS {
            // More than there can be: nothing that it says can be kept.
            return true;
        }
        let before = self.others.insert(replica, Other { heard: now, sent, is_missing: false, has_left: false, about });
        before.is_none_or(|before| before.sent != sent || before.is_missing)
    }

    fn hear_change(&mut self, now: Time, replica: ReplicaId, number: u64) -> bool {
        let Some(other) = self.others.get_mut(&replica) else { return true };
        let is_gap = number > other.sent.saturating_add(1) || other.is_missing;
        other.sent = other.sent.max(number);
        (other.heard, other.is_missing, other.has_left) = (now, false, false);
        is_gap
    }

    /// A [`period`](Self::period) is over. `about` is what this replica says about itself now.
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
        // Whoever does not hear itself does not know who is alive.
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

    /// Drops all cached responses if there is a reason, now or since they were dropped last, and that is long enough ago.
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
