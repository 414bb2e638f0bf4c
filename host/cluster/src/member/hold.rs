//! The lease: how it is taken, confirmed, and lost. The holder's polls are [`rounds`](super::rounds).

use std::time::Duration;

use super::wants::Wants;
use super::{
    Content, Member, Output, OwnTokens, Purpose, Request, Revision, Role, Seen, Stored, Time, WriteFailure, part,
};
use crate::division::shard_count;
use crate::message::Message;
use crate::record::{Covers, Record, Round};
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// The maximum time for which a new holder collects the other replicas' wants.
const MAX_COLLECTING: Duration = Duration::from_millis(500);

/// The state of the holder.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) record: Box<Record>,
    revision: Revision,
    /// When the last successful write was begun.
    confirmed: Time,
    /// Until when it collects the other replicas' wants.
    pub(super) collects_until: Option<Time>,
    /// Whether this replica polls its own paths, until a round has covered them.
    pub(super) polls_own: bool,
    /// Whether this replica's own paths must be polled before the next round.
    pub(super) own_is_due: bool,
    /// Whether subscribers here rely on the record's tokens, and no round has covered all of their paths
    /// since then.
    pub(super) owes: bool,
    /// The record's tokens, until a poll has begun with them.
    pub(super) tokens: Option<Vec<Option<String>>>,
    /// The replicas that the poll under way covers.
    pub(super) polling: Option<Covers>,
    /// The version of this replica's paths in the last poll.
    pub(super) polled_version: u64,
    /// A round that was published, and must be written.
    pub(super) moved: Option<Moved>,
    /// A write whose outcome is unknown.
    unknown: Option<(Box<Record>, Time)>,
    /// Whether a replica waits for a poll.
    pub(super) is_wanted: bool,
    pub(super) failures: u32,
    /// When it last changed the number of shards, or took the lease.
    pub(super) divided: Time,
    pub(super) wants: Wants,
}

/// A published round.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) parts: u32,
    pub(super) covers: Covers,
    pub(super) tokens: Vec<Option<String>>,
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
}
