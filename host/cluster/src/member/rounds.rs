//! The holder's rounds: polls for all replicas, what they have covered, and how many shards the plugin has.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::hold::Moved;
use super::wants::Heard;
use super::{Found, Member, Output, OwnTokens, Polling, Role, SharedPoll, Time};
use crate::division::{comfortable, max_paths, shard_count};
use crate::message::{Message, Want, parts};
use crate::record::{Covers, Record};
use crate::replica::ReplicaId;
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// The number of leases after which a holder may halve the number of shards.
const SETTLED: u32 = if cfg!(test) { 3 } else { 30 };
/// The number of consecutive failed polls after which another replica may try.
const MAX_FAILURES: u32 = 3;

impl Member {
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

/// Returns the number of shards of a plugin, of which the first has this number of wanted paths, and of whose replicas
/// one needs `need` shards for itself.
fn fitting_shards(shards: u32, load: usize, need: u32, may_grow: bool, may_shrink: bool) -> u32 {
    let max = max_paths();
    let fitting = match load {
        _ if may_grow && load > comfortable(max) => shards.saturating_mul(2),
        _ if may_shrink && load <= max / 8 => shards / 2,
        _ => shards,
    };
    shard_count(fitting.max(need))
}

/// Returns whether two sets have an element in common. Looks up each element of the smaller set in the other one: a
/// replica may want few paths while many are left, and others can invent replicas.
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
