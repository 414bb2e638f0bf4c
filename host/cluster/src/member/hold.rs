//! The lease: how it is taken, confirmed, used and lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::message::{Message, Want, parts};
use crate::record::{Covers, Record, Round};
use crate::replica::ReplicaId;

use super::wants::{Heard, Wants};
use super::{
    Content, Found, Member, Output, OwnTokens, Polling, Purpose, Request, Revision, Role, Seen, SharedPoll, Stored,
    Time, WriteFailure, part,
};
use crate::division::{comfortable, max_paths, shard_count};
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// The maximum time for which a new holder collects the other replicas' wants.
const MAX_COLLECTING: Duration = Duration::from_millis(500);
/// The number of leases after which a holder may halve the number of shards.
const SETTLED: u32 = if cfg!(test) { 3 } else { 30 };
/// The number of consecutive failed polls after which another replica may try.
const MAX_FAILURES: u32 = 3;

/// The state of the holder.
#[derive(Debug)]
pub(super) struct Holding {
    record: Box<Record>,
    revision: Revision,
    /// When the last successful write was begun.
    confirmed: Time,
    /// Until when it collects the other replicas' wants.
    collects_until: Option<Time>,
    /// Whether this replica polls its own paths, until a round has covered them.
    polls_own: bool,
    /// Whether this replica's own paths must be polled before the next round.
    own_is_due: bool,
    /// Whether subscribers here rely on the record's tokens, and no round has covered all of their paths
    /// since then.
    owes: bool,
    /// The record's tokens, until a poll has begun with them.
    tokens: Option<Vec<Option<String>>>,
    /// The replicas that the poll under way covers.
    polling: Option<Covers>,
    /// The version of this replica's paths in the last poll.
    polled_version: u64,
    /// A round that was published, and must be written.
    moved: Option<Moved>,
    /// A write whose outcome is unknown.
    unknown: Option<(Box<Record>, Time)>,
    /// Whether a replica waits for a poll.
    is_wanted: bool,
    failures: u32,
    /// When it last changed the number of shards, or took the lease.
    divided: Time,
    wants: Wants,
}

/// A published round.
#[derive(Debug)]
struct Moved {
    parts: u32,
    covers: Covers,
    tokens: Vec<Option<String>>,
}

impl Holding {
    pub(super) fn epoch(&self) -> u64 {
        self.record.epoch
    }

    /// Returns whether this replica polls its own paths, too.
    pub(super) fn polls_own(&self) -> bool {
        self.polls_own
    }

    /// Returns whether subscribers here rely on the record's tokens.
    pub(super) fn relies(&self) -> bool {
        !self.polls_own || self.owes
    }

    /// Records that the last own poll was made.
    pub(super) fn end_own_polls(&mut self) {
        self.polls_own = false;
    }

    /// Returns the next record to write: with the published round, or only as a confirmation.
    fn next_record(&self, shards: u32) -> (Box<Record>, Purpose) {
        let mut record = self.record.clone();
        record.shards = shards;
        match &self.moved {
            Some(Moved { parts, covers, tokens }) => {
                let seq = record.round.seq.saturating_add(1);
                record.round = Round { epoch: record.epoch, seq, parts: *parts };
                (record.covers, record.tokens) = (covers.clone(), tokens.clone());
                (record, Purpose::Move)
            }
            None => {
                record.renewals = record.renewals.saturating_add(1);
                (record, Purpose::Renew)
            }
        }
    }
}

impl Member {
    /// Returns the time for which the holder relies on its lease.
    fn confidence(&self) -> Duration {
        part(self.lease, 2)
    }

    /// Returns the time for which a record must be unchanged before another replica takes the lease.
    fn patience_with_holder(&self) -> Duration {
        part(self.lease, 20).saturating_mul(11)
    }

    /// Returns the time without a message of the holder after which its record is read, to begin early to
    /// check whether it is unchanged.
    pub(super) fn suspicion(&self) -> Duration {
        part(self.lease, 4)
    }

    fn renewal_interval(&self) -> Duration {
        part(self.lease, 6)
    }

    /// Returns the time at which the holder has something to do.
    pub(super) fn hold_deadline(&self) -> Option<Time> {
        let Role::Holding(holding) = &self.role else { return None };
        let renews = holding.confirmed.saturating_add(self.renewal_interval());
        let renews = Some(renews).filter(|_| self.request.is_none() && holding.unknown.is_none());
        let loses = Some(holding.confirmed.saturating_add(self.confidence()));
        #[cfg(test)]
        let loses = loses.filter(|_| !is_planted(Bug::LeaseNotChecked));
        [renews, loses, holding.collects_until].into_iter().flatten().min()
    }

    /// Performs the holder's due work.
    pub(super) fn hold(&mut self, now: Time) {
        let (confidence, renewal_interval) = (self.confidence(), self.renewal_interval());
        let Role::Holding(holding) = &mut self.role else { return };
        let is_lost = holding.confirmed.saturating_add(confidence) <= now;
        #[cfg(test)]
        let is_lost = is_lost && !is_planted(Bug::LeaseNotChecked);
        if is_lost {
            self.lose_lease(now);
            return;
        }
        if holding.collects_until.take_if(|until| *until <= now).is_some() {
            self.outputs.push_back(Output::Wake);
        }
        if self.request.is_some() || holding.unknown.is_some() {
            return;
        }
        if holding.moved.is_some() || holding.confirmed.saturating_add(renewal_interval) <= now {
            let ((record, purpose), expected) = (holding.next_record(self.shards), Some(holding.revision));
            self.write(now, expected, record, purpose);
        }
    }

    fn write(&mut self, now: Time, expected: Option<Revision>, record: Box<Record>, purpose: Purpose) {
        self.request = Some(Request::Write { record: record.clone(), at: now, purpose });
        self.outputs.push_back(Output::Write { expected, record });
    }

    /// Handles the result of reading the record.
    pub fn read(&mut self, now: Time, result: Result<Stored, ()>) {
        if self.request.take_if(|request| matches!(request, Request::Read)).is_none() || !self.is_active {
            return;
        }
        let Ok(found) = result else {
            self.read_at = Some(now.saturating_add(part(self.lease, 10)).saturating_add(self.jitter(10)));
            return;
        };
        match found {
            Stored::Invalid(revision) => {
                self.saw(now, revision, Content::Invalid);
                // The holder wrote a record, so another program has overwritten it.
                self.lose_lease(now);
                self.consider(now);
            }
            Stored::Record(revision, record) => {
                self.saw(now, revision, Content::Record(record.clone()));
                if matches!(self.role, Role::Holding(_)) {
                    self.resolve(now, revision, &record);
                } else {
                    self.consider(now);
                }
            }
            Stored::Nothing => {
                self.seen = None;
                if matches!(self.role, Role::Holding(_)) {
                    // The bucket was lost.
                    self.lose_lease(now);
                } else if self.may_take(now) {
                    let record = self.first_record();
                    self.write(now, None, record, Purpose::Take);
                }
            }
        }
    }

    /// Records that a value of the bucket was read.
    fn saw(&mut self, now: Time, revision: Revision, content: Content) {
        match &mut self.seen {
            Some(seen) if seen.revision == revision => seen.content = content,
            _ => self.seen = Some(Seen { revision, content, since: now }),
        }
    }

    /// Returns a record with a new history, held by this replica.
    fn first_record(&mut self) -> Box<Record> {
        Box::new(Record {
            history: self.random.u64(..),
            epoch: 1,
            holder: Some(self.me),
            renewals: 0,
            round: Round::default(),
            covers: Covers::new(),
            tokens: Vec::new(),
            shards: self.shards,
        })
    }

    fn may_take(&mut self, now: Time) -> bool {
        let may = now >= self.abstains_until;
        if !may {
            self.read_at = Some(self.abstains_until.saturating_add(self.jitter(10)));
        }
        may
    }

    /// Takes the lease if its holder has not confirmed it for long enough, or has given it back.
    fn consider(&mut self, now: Time) {
        let Some(Seen { revision, content, since }) = &self.seen else { return };
        let until = since.saturating_add(self.patience_with_holder());
        let (is_free, record) = match content {
            Content::Unknown => return,
            Content::Invalid => (false, None),
            Content::Record(record) => (record.holder.is_none_or(|holder| holder == self.me), Some(record.clone())),
        };
        if !is_free && now < until {
            self.read_at = Some(until.saturating_add(self.jitter(20)).saturating_add(self.burden));
            return;
        }
        let revision = *revision;
        if self.may_take(now) {
            let record = match record {
                Some(record) => {
                    Box::new(Record { epoch: record.epoch.saturating_add(1), holder: Some(self.me), ..*record })
                }
                None => self.first_record(),
            };
            self.write(now, Some(revision), record, Purpose::Take);
        }
    }

    /// Determines whether a write with an unknown outcome has taken place.
    fn resolve(&mut self, now: Time, revision: Revision, found: &Record) {
        let Role::Holding(holding) = &mut self.role else { return };
        match holding.unknown.take() {
            Some((record, at)) if *record == *found => {
                let purpose = if record.round == holding.record.round { Purpose::Renew } else { Purpose::Move };
                self.confirmed(now, revision, record, at, purpose);
            }
            _ if *found == *holding.record => {
                holding.revision = revision;
                self.hold(now);
            }
            _ => self.lose_lease(now),
        }
    }

    /// Handles the result of writing the record.
    pub fn written(&mut self, now: Time, result: Result<Revision, WriteFailure>) {
        let is_write = |request: &mut Request| matches!(request, Request::Write { .. });
        let Some(Request::Write { record, at, purpose }) = self.request.take_if(is_write) else { return };
        #[cfg(test)]
        let result = self.planted_result(result);
        let is_holding = matches!(&self.role, Role::Holding(holding) if holding.epoch() == record.epoch);
        match (purpose, result) {
            (Purpose::Resign, Ok(_)) => {
                self.outputs.push_back(Output::Publish(Message::Resigned { epoch: record.epoch }));
            }
            (Purpose::Take, Ok(revision)) if self.is_active => self.take(now, revision, record, at),
            (Purpose::Renew | Purpose::Move, Ok(revision)) if is_holding => {
                self.confirmed(now, revision, record, at, purpose);
            }
            // This replica no longer wants the lease that it has acquired.
            (_, Ok(revision)) => {
                let record = Box::new(Record { holder: None, ..*record });
                self.write(now, Some(revision), record, Purpose::Resign);
            }
            (Purpose::Renew | Purpose::Move, Err(WriteFailure::Unknown)) if is_holding => {
                if let Role::Holding(holding) = &mut self.role {
                    holding.unknown = Some((record, at));
                    self.read_at = Some(now.saturating_add(part(self.lease, 50)));
                }
            }
            (Purpose::Renew | Purpose::Move, Err(WriteFailure::Conflict)) if is_holding => self.lose_lease(now),
            (_, Err(WriteFailure::Impossible)) => {
                self.abstains_until = now.saturating_add(self.lease.saturating_mul(30));
                self.lose_lease(now);
            }
            _ if self.is_active && !matches!(self.role, Role::Holding(_)) => {
                self.read_at = Some(now.saturating_add(self.jitter(5)));
            }
            _ => {}
        }
    }

    #[cfg(test)]
    fn planted_result(&self, result: Result<Revision, WriteFailure>) -> Result<Revision, WriteFailure> {
        match &self.role {
            Role::Holding(holding) if is_planted(Bug::LeaseNotChecked) => Ok(result.unwrap_or(holding.revision)),
            _ => result,
        }
    }

    /// Records that this replica has the lease.
    fn take(&mut self, now: Time, revision: Revision, record: Box<Record>, at: Time) {
        if matches!(self.role, Role::Holding(_)) {
            return;
        }
        // The number of shards continues, too, whatever this replica has heard.
        self.shards = shard_count(record.shards);
        // If the record's tokens do not continue this replica's chain, something was missed.
        let is_in_step = self.chain.as_ref().is_some_and(|chain| chain.is_in_step(&record, self.me));
        if !is_in_step {
            self.break_chain(now);
        }
        let owes = std::mem::take(&mut self.relies_on_chain);
        let polls_own = !matches!(self.role, Role::Following);
        (self.chain, self.handover, self.wake_at, self.read_at) = (None, None, None, None);
        self.stats.leases_taken = self.stats.leases_taken.saturating_add(1);
        let collecting = MAX_COLLECTING.min(part(self.lease, 10));
        let holding = Holding {
            revision,
            confirmed: at,
            collects_until: Some(now.saturating_add(collecting)),
            polls_own,
            own_is_due: false,
            owes,
            tokens: Some(record.tokens.clone()),
            polling: None,
            polled_version: 0,
            moved: None,
            unknown: None,
            is_wanted: true,
            failures: 0,
            divided: now,
            wants: Wants::new(self.memory.clone()),
            record,
        };
        let epoch = holding.epoch();
        self.role = Role::Holding(Box::new(holding));
        // Informs the followers that the lease is held.
        self.publish_counted();
        self.ask(epoch, None);
        self.outputs.push_back(Output::Wake);
    }

    /// Handles a lease that was lost, or may have been: this replica polls for itself.
    pub(super) fn lose_lease(&mut self, now: Time) {
        let Role::Holding(holding) = std::mem::replace(&mut self.role, Role::Alone) else { return };
        self.tell_all |= holding.owes;
        if !holding.polls_own {
            self.tokens = if holding.owes { OwnTokens::None } else { OwnTokens::Shared };
        }
        self.stats.leases_lost = self.stats.leases_lost.saturating_add(1);
        self.handover = None;
        self.read_at = Some(now.saturating_add(self.jitter(10)));
        self.outputs.push_back(Output::Wake);
        self.announce_all(now);
    }

    /// Gives the lease back.
    pub(super) fn resign(&mut self, now: Time) {
        let Role::Holding(holding) = &self.role else { return };
        // If the record cannot be written now, the lease expires.
        if self.request.is_none() && holding.unknown.is_none() {
            let record = Box::new(Record { holder: None, ..*holding.record.clone() });
            let expected = Some(holding.revision);
            self.write(now, expected, record, Purpose::Resign);
        }
    }

    /// Begins a poll for all replicas, if this replica may.
    pub(super) fn begin_shared(&mut self, now: Time) -> Option<SharedPoll> {
        let (me, version, since) = (self.me, self.version, now.saturating_sub(self.lease.saturating_mul(2)));
        let has_handover = self.handover.is_some();
        let Role::Holding(holding) = &mut self.role else { return None };
        let is_ready = holding.collects_until.is_none() && holding.moved.is_none() && holding.polling.is_none();
        if !is_ready || has_handover {
            return None;
        }
        holding.wants.forget_silent(since);
        holding.wants.drop_late_parts(now, self.lease);
        let (paths, covers) = holding.wants.union(me, version, &self.wanted);
        let (load, need) = (paths.len().saturating_add(holding.wants.uncovered()), holding.wants.need().max(self.need));
        let age = now.saturating_sub(holding.divided);
        let shards =
            fitting_shards(self.shards, load, need, age >= self.lease, age >= self.lease.saturating_mul(SETTLED));
        if shards != self.shards {
            // The others hear of it with the next message that the record was written.
            (self.shards, holding.divided) = (shards, now);
            self.outputs.push_back(Output::Wake);
        }
        holding.is_wanted = false;
        let mut tokens = holding.tokens.clone();
        if let Some(tokens) = &mut tokens {
            // Without a replica that relies on the tokens, they may be old, and changes in between are no
            // news for anyone.
            let known = holding.record.covers.keys().any(|replica| covers.contains_key(replica) && *replica != me);
            if !known && !holding.owes {
                tokens.clear();
            }
        }
        (holding.polling, holding.polled_version) = (Some(covers), version);
        self.stats.shared_polls = self.stats.shared_polls.saturating_add(1);
        Some(SharedPoll { paths, tokens, key: holding.record.history })
    }

    /// Returns whether the next poll is for this replica's own paths, although it polls for all. Clears this
    /// state.
    pub(super) fn takes_own_turn(&mut self) -> bool {
        match &mut self.role {
            Role::Holding(holding) => std::mem::take(&mut holding.own_is_due),
            Role::Alone | Role::Following => false,
        }
    }

    /// Returns the replicas that a round without some paths covers. A replica is not covered if it wants lost
    /// paths, which the tokens do not cover any more. It is covered as before if it wants left paths, which
    /// were not polled yet.
    fn covered_without(&self, covers: Covers, lost: &BTreeSet<Arc<str>>, left: &BTreeSet<Arc<str>>) -> Covers {
        let Role::Holding(holding) = &self.role else { return covers };
        let relies = holding.relies();
        let covered = |(replica, version)| {
            let is_me = replica == self.me;
            let paths = if is_me { Some(&self.wanted) } else { holding.wants.paths(replica) }?;
            let wants = |some: &BTreeSet<Arc<str>>| intersects(some, paths);
            let before = holding.record.covers.get(&replica).filter(|_| !is_me || relies).copied();
            #[cfg(test)]
            if is_planted(Bug::LostIgnored) && wants(lost) || is_planted(Bug::LeftIgnored) && wants(left) {
                return Some((replica, version));
            }
            let version = if wants(lost) {
                None
            } else if wants(left) {
                before
            } else {
                Some(version)
            };
            Some((replica, version?))
        };
        covers.into_iter().filter_map(covered).collect()
    }

    /// Records the version of this replica's own paths that a round has covered; none if it has not covered
    /// them.
    fn polled_own_in_round(&mut self, covered: Option<u64>) {
        let Role::Holding(holding) = &mut self.role else { return };
        match covered {
            Some(version) if version >= holding.polled_version => holding.owes = false,
            covered => self.poll_own_beside(covered.is_some()),
        }
    }

    /// Requests polls of this replica's own paths in addition to the rounds, because a round omitted some of
    /// them. If the rounds no longer cover paths that were notified by rounds, everything is notified once.
    fn poll_own_beside(&mut self, is_covered: bool) {
        let Role::Holding(holding) = &mut self.role else { return };
        let has_relied = holding.relies();
        if !std::mem::replace(&mut holding.polls_own, true) {
            self.tokens = OwnTokens::None;
        }
        (holding.own_is_due, holding.owes) = (true, has_relied && is_covered);
        if has_relied && !is_covered {
            self.tell_all = true;
            self.stats.gaps = self.stats.gaps.saturating_add(1);
        }
        self.outputs.push_back(Output::Wake);
    }

    /// Handles the end of a poll for all replicas. `is_complete` is whether the provider answered: then all
    /// paths were polled except those that are [lost](Found::lost) or [left](Found::left). Changes that the
    /// provider returned before a failure count in any case.
    pub fn shared_polled(&mut self, now: Time, found: Found, is_complete: bool) {
        if self.polling.take_if(|polling| matches!(polling, Polling::Shared)).is_none() {
            return;
        }
        let Role::Holding(holding) = &mut self.role else { return };
        let Some(covers) = holding.polling.take() else { return };
        holding.failures = if is_complete { 0 } else { holding.failures.saturating_add(1) };
        let has_news = found.listing || !found.changed.is_empty();
        if is_complete || has_news {
            holding.tokens = None;
            let before = holding.record.covers.clone();
            let messages = ChangeParts { changed: found.changed, listing: found.listing }.messages(&holding.record);
            let parts = u32::try_from(messages.len()).unwrap_or(u32::MAX);
            let covers = if is_complete { covers } else { before.clone() };
            let covers = self.covered_without(covers, &found.lost, &found.left);
            let (covered, before) = (covers.get(&self.me).copied(), before.get(&self.me));
            if is_complete || covered.is_none() && before.is_some() {
                self.polled_own_in_round(covered);
            }
            #[cfg(test)]
            let early = self.outputs.len();
            self.outputs.extend(messages.into_iter().map(Output::Publish));
            if let Role::Holding(holding) = &mut self.role {
                holding.moved = Some(Moved { parts, covers, tokens: found.tokens });
            }
            self.hold(now);
            #[cfg(test)]
            if is_planted(Bug::TokenMovedFirst) {
                self.outputs.rotate_left(early);
                self.outputs.rotate_left(usize::try_from(parts).unwrap_or(0));
            }
        }
        let Role::Holding(holding) = &mut self.role else { return };
        if holding.failures >= MAX_FAILURES {
            // The provider may answer another replica.
            self.abstains_until = now.saturating_add(self.lease.saturating_mul(2));
            self.resign(now);
            self.lose_lease(now);
        }
    }

    /// Handles a successful write of this holder.
    fn confirmed(&mut self, now: Time, revision: Revision, record: Box<Record>, at: Time, purpose: Purpose) {
        let (me, version) = (self.me, self.version);
        let Role::Holding(holding) = &mut self.role else { return };
        (holding.revision, holding.confirmed, holding.record) = (revision, at.max(holding.confirmed), record);
        let covered = holding.record.covers.get(&me).copied().unwrap_or(0);
        let (polls_own, is_wanted) = (holding.polls_own, holding.is_wanted);
        let has_new_paths = version > holding.polled_version;
        if purpose == Purpose::Move {
            holding.moved = None;
        }
        self.read_at = None;
        self.publish_counted();
        if purpose == Purpose::Move {
            self.cover(covered);
            if polls_own && covered >= version && self.handover.is_none() {
                self.handovers = self.handovers.saturating_add(1);
                self.handover = Some(self.handovers);
                self.outputs.push_back(Output::Wake);
            }
            if is_wanted || has_new_paths {
                self.outputs.push_back(Output::Wake);
            }
        }
        self.hold(now);
    }

    fn publish_counted(&mut self) {
        let Role::Holding(holding) = &self.role else { return };
        let Record { history, epoch, round, covers, shards, .. } = &*holding.record;
        let (history, epoch, round, covers, shards) = (*history, *epoch, *round, covers.clone(), *shards);
        let revision = holding.revision;
        let message = Message::Counted { history, epoch, revision, round, covers, shards };
        self.outputs.push_back(Output::Publish(message));
    }

    /// Handles a replica's wants.
    pub(super) fn wanted_by(&mut self, now: Time, want: &Want) {
        if want.replica == self.me {
            return;
        }
        let Role::Holding(holding) = &mut self.role else { return };
        let (replica, epoch) = (want.replica, holding.epoch());
        let waits = want.waits || want.base.is_none();
        match holding.wants.hear(now, self.lease, want.clone()) {
            Heard::Nothing => {}
            Heard::Unknown => self.ask(epoch, Some(replica)),
            Heard::New => {
                let expected = holding.record.covers.keys().copied().filter(|expected| *expected != self.me);
                let is_complete = holding.wants.knows_all(expected) && !holding.record.covers.is_empty();
                if is_complete {
                    holding.collects_until = None;
                }
                holding.is_wanted |= waits;
                if waits && holding.collects_until.is_none() && holding.polling.is_none() {
                    self.outputs.push_back(Output::Wake);
                }
            }
        }
    }

    /// Removes the wants of a replica.
    pub(super) fn left(&mut self, replica: ReplicaId) {
        if let Role::Holding(holding) = &mut self.role {
            holding.wants.forget(replica);
        }
    }

    /// Handles a change of this replica's own paths.
    pub(super) fn own_changed(&mut self) {
        if let Role::Holding(holding) = &mut self.role {
            holding.wants.own_changed();
        }
    }
}

/// Returns the number of shards of a plugin, of which the first has this number of wanted paths, and of whose replicas one needs `need`
/// shards for itself.
fn fitting_shards(shards: u32, load: usize, need: u32, may_grow: bool, may_shrink: bool) -> u32 {
    let max = max_paths();
    let fitting = match load {
        _ if may_grow && load > comfortable(max) => shards.saturating_mul(2),
        _ if may_shrink && load <= max / 8 => shards / 2,
        _ => shards,
    };
    shard_count(fitting.max(need))
}

/// Returns whether two sets have an element in common. Looks up each element of the smaller set in the other one: a replica
/// may want few paths while many are left, and others can invent replicas.
fn intersects<T: Ord>(one: &BTreeSet<T>, other: &BTreeSet<T>) -> bool {
    let (few, many) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    few.iter().any(|element| many.contains(element))
}

/// The findings of a round.
struct ChangeParts {
    changed: Vec<Arc<str>>,
    listing: bool,
}

impl ChangeParts {
    /// Returns the messages that publish it, as the round after the record's.
    fn messages(self, record: &Record) -> Vec<Message> {
        let mut divided = parts(self.changed);
        if divided.is_empty() && self.listing {
            divided.push(Vec::new());
        }
        let (history, epoch, seq) = (record.history, record.epoch, record.round.seq.saturating_add(1));
        let numbered = (0_u32..).zip(divided);
        let message = |(part, changed)| {
            let listing = self.listing && part == 0;
            Message::Changes { history, epoch, seq, part, changed, listing }
        };
        numbered.map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    thread_local! {
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// A number that counts its comparisons.
    #[derive(PartialEq, Eq)]
    struct Counted(u32);

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    fn comparisons(one: &BTreeSet<Counted>, other: &BTreeSet<Counted>) -> usize {
        COMPARISONS.set(0);
        assert!(!intersects(one, other));
        COMPARISONS.get()
    }

    #[test]
    fn few_paths_are_looked_up_among_many_and_not_many_among_few() {
        let numbers =
            |count: u32, odd: u32| (0..count).map(|number| Counted(2 * number + odd)).collect::<BTreeSet<_>>();
        let (few, many) = (numbers(3, 1), numbers(20_000, 0));
        // A look-up in 20,000 elements takes less than 100 comparisons.
        assert!(comparisons(&few, &many) < 300);
        assert!(comparisons(&many, &few) < 300);
        assert!(intersects(&numbers(3, 0), &many) && intersects(&many, &numbers(3, 0)));
        assert!(!intersects(&numbers(0, 0), &many));
    }

    #[test]
    fn the_number_of_shards_doubles_with_the_paths_and_halves_when_few_are_left() {
        for (shards, load, need, may_grow, may_shrink, expected) in [
            (1, 15_000, 1, true, true, 1),
            (1, 15_001, 1, true, false, 2),
            (1, 15_001, 1, false, false, 1),
            (1, 100, 7, false, false, 8),
            (4, 2501, 1, true, true, 4),
            (4, 2500, 1, true, true, 2),
            (4, 2500, 1, true, false, 4),
            (4, 2500, 4, true, true, 4),
            (1, 0, 1, true, true, 1),
            (16, 100_000, u32::MAX, true, true, 16),
        ] {
            assert_eq!(fitting_shards(shards, load, need, may_grow, may_shrink), expected, "{shards} {load} {need}");
        }
    }
}
