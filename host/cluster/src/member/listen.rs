//! How a replica follows the holder's rounds, and detects that it has missed one.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::message::Message;
use crate::record::{Covers, Record, Round};
use crate::replica::ReplicaId;

use super::{Content, Member, Output, OwnTokens, Position, Revision, Role, Seen, Time};
use crate::division::shard_count;
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// The rounds that were received without a gap.
#[derive(Debug)]
pub(super) struct Chain {
    history: u64,
    /// The epoch of the last message.
    epoch: u64,
    /// The last round.
    pub(super) seq: u64,
    /// When the last message of the holder was received.
    pub(super) heard: Time,
    /// The version of this replica's paths that the last round covered.
    pub(super) covered: u64,
    /// The received parts of the next round: its epoch, and their number.
    parts: (u64, u32),
}

/// The relation of a written round to the received rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is the last received round.
    Same,
    /// It is the next round, and all of its parts were received.
    Next,
    /// It is an earlier round.
    Old,
    /// Something was missed.
    Missed,
}

impl Chain {
    /// Returns the relation of a round in this history to this chain.
    pub(super) fn step(&self, history: u64, round: Round) -> Step {
        let is_next = self.seq.checked_add(1) == Some(round.seq);
        let has_parts = round.parts == 0 || self.parts == (round.epoch, round.parts);
        match round.seq.cmp(&self.seq) {
            _ if history != self.history => Step::Missed,
            Ordering::Equal => Step::Same,
            Ordering::Less => Step::Old,
            Ordering::Greater if is_next && has_parts => Step::Next,
            Ordering::Greater => Step::Missed,
        }
    }

    /// Returns whether the record continues the received rounds without a gap.
    pub(super) fn is_in_step(&self, record: &Record, me: ReplicaId) -> bool {
        let covered = record.covers.get(&me).copied().unwrap_or(0);
        matches!(self.step(record.history, record.round), Step::Same | Step::Next) && covered >= self.covered
    }
}

impl Member {
    /// Handles one part of a round's changes.
    pub(super) fn hear_changes(&mut self, at: Position, part: u32, changed: &[Arc<str>], listing: bool) {
        // A replica that polls for itself detects its paths' changes itself.
        let Some(chain) = &mut self.chain else { return };
        let is_next = at.history == chain.history && chain.seq.checked_add(1) == Some(at.seq);
        if !is_next || at.epoch < chain.epoch || at.epoch < chain.parts.0 {
            return;
        }
        if at.epoch > chain.parts.0 {
            chain.parts = (at.epoch, 0);
        }
        if part == chain.parts.1 {
            chain.parts.1 = part.saturating_add(1);
        }
        self.outputs.push_back(Output::Changed { changed: changed.to_vec(), listing });
    }

    /// Handles the message that the record was written.
    pub(super) fn hear_counted(
        &mut self,
        now: Time,
        at: Position,
        revision: Revision,
        round: Round,
        covers: &Covers,
        shards: u32,
    ) {
        if let Role::Holding(holding) = &self.role {
            if at.epoch <= holding.epoch() {
                return;
            }
            self.lose_lease(now);
        }
        if self.chain.as_ref().is_some_and(|chain| chain.history == at.history && at.epoch < chain.epoch) {
            return;
        }
        // Received now, so written earlier: the time of `seen` is never earlier than the write.
        if self.seen.as_ref().is_none_or(|seen| seen.revision < revision) {
            self.seen = Some(Seen { revision, content: Content::Unknown, since: now });
        }
        self.read_at = Some(now.saturating_add(self.suspicion()));
        // A holder that has made no round yet may never make one, so its messages do not postpone the time at which
        // this replica polls for itself.
        let mut heard = now;
        if let Some(chain) = &self.chain {
            let step = chain.step(at.history, round);
            #[cfg(test)]
            let step = planted_step(chain, step, at);
            match step {
                Step::Old => return,
                Step::Missed => self.break_chain(now),
                Step::Same | Step::Next if round.epoch != at.epoch => heard = chain.heard,
                Step::Same | Step::Next => {}
            }
        }
        let mine = self.covered_by(now, covers);
        let covered = self.chain.as_ref().map_or(0, |chain| chain.covered);
        let is_covered = mine >= covered;
        #[cfg(test)]
        let is_covered = is_covered || is_planted(Bug::CoverIgnored);
        if !is_covered {
            self.break_chain(now);
        }
        let parts = match &self.chain {
            Some(chain) if chain.seq == at.seq => chain.parts,
            _ => (0, 0),
        };
        let shards = shard_count(shards);
        if shards != self.shards {
            // The watch of the plugin divides its paths again.
            self.shards = shards;
            self.outputs.push_back(Output::Wake);
        }
        let Position { history, epoch, seq } = at;
        self.chain = Some(Chain { history, epoch, seq, heard, covered: mine, parts });
        match self.role {
            Role::Following => self.cover(mine),
            Role::Alone if mine >= self.version && self.handover.is_none() => {
                self.handovers = self.handovers.saturating_add(1);
                self.handover = Some(self.handovers);
                #[cfg(test)]
                if is_planted(Bug::NoLastOwnPoll) {
                    (self.role, self.relies_on_chain, self.handover) = (Role::Following, true, None);
                    self.tokens = OwnTokens::None;
                    self.cover(mine);
                    return;
                }
                self.outputs.push_back(Output::Wake);
            }
            Role::Alone | Role::Holding(_) => {}
        }
    }

    /// Returns the version of this replica's paths that a round has covered. An unknown version means that the holder
    /// is wrong about this replica, and must start over with it.
    fn covered_by(&mut self, now: Time, covers: &Covers) -> u64 {
        let mine = covers.get(&self.me).copied().unwrap_or(0);
        if mine <= self.version {
            return mine;
        }
        self.withdraws = true;
        self.answer(now);
        0
    }

    /// Handles a possible gap: this replica polls for itself, and notifies everything once if it relied on the chain.
    pub(super) fn break_chain(&mut self, now: Time) {
        (self.chain, self.handover) = (None, None);
        if std::mem::take(&mut self.relies_on_chain) {
            self.tell_all = true;
            self.stats.gaps = self.stats.gaps.saturating_add(1);
        }
        if matches!(self.role, Role::Following) {
            (self.role, self.tokens) = (Role::Alone, OwnTokens::None);
        }
        if self.tell_all {
            // Jitter, so that not all replicas poll at the same time.
            let pause = self.jitter(10);
            self.wake_at = Some(now.saturating_add(pause));
        }
        if self.read_at.is_none() {
            self.read_at = Some(now.saturating_add(self.jitter(20)));
        }
    }

    /// Requests the wants of one replica, or of all.
    pub(super) fn ask(&mut self, epoch: u64, replica: Option<ReplicaId>) {
        self.outputs.push_back(Output::Publish(Message::Ask { epoch, replica }));
    }
}

#[cfg(test)]
fn planted_step(chain: &Chain, step: Step, at: Position) -> Step {
    match step {
        Step::Missed if is_planted(Bug::GapIgnored) && at.seq > chain.seq.saturating_add(1) => Step::Next,
        Step::Missed if is_planted(Bug::PartsNotCounted) && at.seq == chain.seq.saturating_add(1) => Step::Next,
        step => step,
    }
}
