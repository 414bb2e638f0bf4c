//! The holder's knowledge of the paths that other replicas want polled.
//!
//! # Bounds
//!
//! One replica has at most [`MAX_PATHS`] paths and [`MAX_REPLICA_BYTES`], and all replicas together [`MAX_TOTAL`] paths
//! and [`MAX_TOTAL_BYTES`]; parts of an incomplete version count, too. The wants in all shards of all plugins have at
//! most [`MAX_WANTS_BYTES`](crate::memory::MAX_WANTS_BYTES). A replica beyond a bound is *refused* for [`REFUSAL`]
//! leases: none of its wants are kept, it is not covered, and polls for itself. If a version is not complete within a
//! lease, its parts are dropped. A replica without a known version after a lease is removed.
//!
//! The [paths of a round](RoundPaths) are kept up to date. A message costs as much as it has paths, and a list of all
//! of a replica's paths also as much as its last list. A round costs as much as it has paths, which are at most
//! [`MAX_PATHS`], and looks up about as many paths of replicas that it does not cover yet: the next round continues
//! with the next replica.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::division::MAX_PATHS;
use crate::memory::{MemoryShare, WantsMemory};
use crate::message::Want;
use crate::record::{Covers, MAX_REPLICAS};
use crate::replica::ReplicaId;

use super::round_paths::{RoundPaths, WantedPaths};
use super::{Time, part};

/// The maximum number of paths of all replicas together. Equal paths count each time.
const MAX_TOTAL: usize = 32 * MAX_PATHS;
/// The maximum size of one replica's wants in bytes.
const MAX_REPLICA_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of all replicas' wants in bytes.
const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;
/// The overhead of a path besides its text, in bytes: its place in a set, the counts of its references, and the replica
/// at the path of a round.
const PATH_OVERHEAD: usize = 96;
/// The number of leases for which a replica with too many wants is refused.
const REFUSAL: u32 = 10;

/// The wants of all replicas.
#[derive(Debug, Default)]
pub(super) struct Wants {
    by_replica: BTreeMap<ReplicaId, Wanted>,
    round: RoundPaths,
    /// Whether `round` has this replica's own paths.
    has_own: bool,
    /// The replicas to cover next, if their paths fit.
    untried: VecDeque<ReplicaId>,
    /// Its part of the memory for the wants of all shards.
    memory: MemoryShare,
}

#[derive(Debug)]
struct Wanted {
    /// None while no version is complete.
    version: Option<u64>,
    /// The number of shards that its paths of the plugin need.
    shards: u32,
    paths: BTreeSet<Arc<str>>,
    /// The size of `paths`.
    bytes: usize,
    heard: Time,
    /// When it was first heard.
    since: Time,
    /// A version whose last part has not arrived.
    partial: Option<Partial>,
    /// When its wants were last requested.
    asked: Option<Time>,
    /// Until when it is refused.
    refused_until: Option<Time>,
}

/// Parts of a version.
#[derive(Debug)]
struct Partial {
    want: Want,
    bytes: usize,
    /// When the first part arrived.
    since: Time,
}

/// The result of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing is new, or more parts are needed.
    Nothing,
    /// There is a new version.
    New,
    /// The version that it builds on is unknown: the replica's wants must be requested.
    Unknown,
}

impl Wants {
    /// Creates the knowledge of a new holder, with a part of this memory.
    pub(super) fn new(memory: WantsMemory) -> Self {
        Self { memory: MemoryShare::of(memory.0), ..Self::default() }
    }

    /// Handles a replica's wants.
    pub(super) fn hear(&mut self, now: Time, lease: Duration, want: Want) -> Heard {
        self.drop_late_parts(now, lease);
        let replica = want.replica;
        if self.by_replica.len() >= MAX_REPLICAS && !self.by_replica.contains_key(&replica) {
            return Heard::Nothing;
        }
        let wanted = self.by_replica.entry(replica).or_insert_with(|| Wanted::new(now));
        wanted.heard = now;
        if wanted.refused_until.is_some_and(|until| now < until) {
            return Heard::Nothing;
        }
        (wanted.refused_until, wanted.shards) = (None, want.shards);
        if wanted.version.is_some_and(|version| version >= want.version) {
            // Repeated or late. A replica that repeats everything does not know whether its message arrived.
            return if want.base.is_none() && want.is_last { Heard::New } else { Heard::Nothing };
        }
        if want.base.is_some() && want.base != wanted.version {
            wanted.partial = None;
            return wanted.ask(now, lease);
        }
        let Some(want) = wanted.add_part(now, want) else { return self.bound(now, lease, replica, Heard::Nothing) };
        let Some(want) = want else { return wanted.ask(now, lease) };
        self.complete(replica, want);
        self.bound(now, lease, replica, Heard::New)
    }

    /// Refuses the replica if its wants now exceed a bound.
    fn bound(&mut self, now: Time, lease: Duration, replica: ReplicaId, heard: Heard) -> Heard {
        let (paths, bytes) = (self.sum(Wanted::paths), self.sum(Wanted::bytes));
        let has_memory = self.memory.resize(bytes);
        let Some(wanted) = self.by_replica.get_mut(&replica) else { return Heard::Nothing };
        let is_too_much = wanted.paths() > MAX_PATHS || wanted.bytes() > MAX_REPLICA_BYTES;
        if !is_too_much && paths <= MAX_TOTAL && bytes <= MAX_TOTAL_BYTES && has_memory {
            return heard;
        }
        self.round.uncover(replica, &wanted.paths);
        *wanted = Wanted { since: wanted.since, ..Wanted::new(now) };
        wanted.refused_until = Some(now.saturating_add(lease.saturating_mul(REFUSAL)));
        self.memory.resize(self.sum(Wanted::bytes));
        Heard::Nothing
    }

    /// Returns a sum over all replicas.
    fn sum(&self, of: fn(&Wanted) -> usize) -> usize {
        self.by_replica.values().fold(0, |sum: usize, one| sum.saturating_add(of(one)))
    }

    /// Applies a version whose parts have all arrived.
    fn complete(&mut self, replica: ReplicaId, want: Want) {
        let Some(wanted) = self.by_replica.get_mut(&replica) else { return };
        let has_all = want.base.is_none();
        if has_all {
            self.round.uncover(replica, &wanted.paths);
            wanted.paths.clear();
            wanted.bytes = 0;
        }
        let is_covered = self.round.covers(replica);
        for path in want.remove {
            if wanted.paths.remove(&path) {
                wanted.bytes = wanted.bytes.saturating_sub(path_size(&path));
            }
            if is_covered {
                self.round.remove(&path, replica);
            }
        }
        for path in want.add {
            if is_covered {
                self.round.add(path.clone(), replica);
            }
            let added = path_size(&path);
            if wanted.paths.insert(path) {
                wanted.bytes = wanted.bytes.saturating_add(added);
            }
        }
        (wanted.version, wanted.asked) = (Some(want.version), None);
        if has_all {
            self.round.cover(replica, &wanted.paths);
        } else if !is_covered {
            self.round.has_new_room = true;
        } else if self.round.is_overfull() {
            self.round.uncover(replica, &wanted.paths);
        }
    }

    /// Removes a replica, which wants nothing any more.
    pub(super) fn forget(&mut self, replica: ReplicaId) {
        if let Some(wanted) = self.by_replica.remove(&replica) {
            self.round.uncover(replica, &wanted.paths);
        }
    }

    /// Removes replicas without a message since a time.
    pub(super) fn forget_silent(&mut self, since: Time) {
        let round = &mut self.round;
        self.by_replica.retain(|replica, wanted| {
            let is_heard = wanted.heard >= since;
            if !is_heard {
                round.uncover(*replica, &wanted.paths);
            }
            is_heard
        });
    }

    /// Drops late parts of versions, and replicas without any other state.
    pub(super) fn drop_late_parts(&mut self, now: Time, lease: Duration) {
        let is_late = |since: Time| since.saturating_add(lease) <= now;
        for wanted in self.by_replica.values_mut() {
            wanted.partial.take_if(|partial| is_late(partial.since));
        }
        // None of these replicas is covered. Refused replicas are kept, because their next message would be
        // accepted otherwise.
        self.by_replica.retain(|_, wanted| {
            let is_refused = wanted.refused_until.is_some_and(|until| now < until);
            wanted.version.is_some() || wanted.partial.is_some() || is_refused || !is_late(wanted.since)
        });
        // What was forgotten since the last message is free, too.
        self.memory.resize(self.sum(Wanted::bytes));
    }

    /// Handles a change of this replica's own wants.
    pub(super) fn own_changed(&mut self) {
        self.has_own = false;
    }

    /// Returns whether the wants of all these replicas are known.
    pub(super) fn knows_all(&self, replicas: impl IntoIterator<Item = ReplicaId>) -> bool {
        replicas.into_iter().all(|replica| self.knows(replica))
    }

    /// Returns whether the wants of the replica are known.
    pub(super) fn knows(&self, replica: ReplicaId) -> bool {
        self.by_replica.get(&replica).is_some_and(|wanted| wanted.version.is_some())
    }

    /// Returns the number of paths of known replicas that the last round did not cover. Equal paths count each time.
    pub(super) fn uncovered(&self) -> usize {
        let is_uncovered =
            |(replica, wanted): &(&ReplicaId, &Wanted)| wanted.version.is_some() && !self.round.covers(**replica);
        let uncovered = self.by_replica.iter().filter(is_uncovered);
        uncovered.fold(0, |sum: usize, (_, wanted)| sum.saturating_add(wanted.paths.len()))
    }

    /// Returns the greatest number of shards that a replica needs for its paths.
    pub(super) fn need(&self) -> u32 {
        self.by_replica.values().map(|wanted| wanted.shards).max().unwrap_or(1)
    }

    /// Returns the wanted paths of a replica, if a version is known.
    pub(super) fn paths(&self, replica: ReplicaId) -> Option<&BTreeSet<Arc<str>>> {
        self.by_replica.get(&replica).filter(|wanted| wanted.version.is_some()).map(|wanted| &wanted.paths)
    }

    /// Returns the paths of a round, each with a replica that wants it, and the replicas that the round covers: this
    /// replica, and others whose paths fit.
    pub(super) fn union(&mut self, me: ReplicaId, version: u64, own: &BTreeSet<Arc<str>>) -> (WantedPaths, Covers) {
        if !std::mem::replace(&mut self.has_own, true) {
            self.round.set_own(me, own);
            self.make_room();
        }
        self.cover_others();
        let known = |replica: &ReplicaId| Some((*replica, self.by_replica.get(replica)?.version?));
        let mut covers: Covers = self.round.covered().iter().filter_map(known).collect();
        covers.insert(me, version);
        (self.round.of_round(me), covers)
    }

    /// Removes covered replicas while there are too many paths. Each of them was covered at a cost that is no less.
    fn make_room(&mut self) {
        while self.round.is_overfull() {
            let Some(last) = self.round.covered().last().copied() else { return };
            let Some(wanted) = self.by_replica.get(&last) else { return };
            self.round.uncover(last, &wanted.paths);
        }
    }

    /// Covers replicas whose paths fit now: each is tried once after there is new room, in several rounds if they have
    /// many paths. Looks up at most [`MAX_PATHS`] paths, and the paths of one further replica. Returns their number.
    fn cover_others(&mut self) -> usize {
        if self.untried.is_empty() && std::mem::take(&mut self.round.has_new_room) {
            let is_untried =
                |(replica, wanted): &(&ReplicaId, &Wanted)| wanted.version.is_some() && !self.round.covers(**replica);
            self.untried = self.by_replica.iter().filter(is_untried).map(|(replica, _)| *replica).collect();
        }
        let mut looked_up = 0_usize;
        while looked_up < self.round.max
            && let Some(replica) = self.untried.pop_front()
        {
            let wanted = self.by_replica.get(&replica).filter(|wanted| wanted.version.is_some());
            if let Some(wanted) = wanted.filter(|_| !self.round.covers(replica)) {
                looked_up = looked_up.saturating_add(self.round.cover(replica, &wanted.paths));
            }
        }
        looked_up
    }
}

impl Wanted {
    fn new(now: Time) -> Self {
        Self {
            version: None,
            shards: 1,
            paths: BTreeSet::new(),
            bytes: 0,
            heard: now,
            since: now,
            partial: None,
            asked: None,
            refused_until: None,
        }
    }

    /// Returns the number of kept paths.
    fn paths(&self) -> usize {
        let partial = self.partial.as_ref().map_or(0, |partial| partial.want.add.len().max(partial.want.remove.len()));
        self.paths.len().saturating_add(partial)
    }

    /// Returns the size of the kept wants.
    fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.partial.as_ref().map_or(0, |partial| partial.bytes))
    }

    /// Requests its wants, unless they were requested a moment ago: each part of a version with a missing part
    /// would be a reason.
    fn ask(&mut self, now: Time, lease: Duration) -> Heard {
        if self.asked.is_some_and(|asked| now < asked.saturating_add(part(lease, 20))) {
            return Heard::Nothing;
        }
        self.asked = Some(now);
        Heard::Unknown
    }

    /// Adds a part of a version. Returns none if more parts are needed, and `Some(None)` if one is missing.
    fn add_part(&mut self, now: Time, want: Want) -> Option<Option<Want>> {
        let added = size(&want.add).saturating_add(size(&want.remove));
        let partial = match self.partial.take() {
            _ if want.part == 0 => Partial { want, bytes: added, since: now },
            Some(Partial { want: mut partial, bytes, since })
                if (partial.base, partial.version) == (want.base, want.version)
                    && partial.part.checked_add(1) == Some(want.part) =>
            {
                partial.add.extend(want.add);
                partial.remove.extend(want.remove);
                let want = Want { part: want.part, is_last: want.is_last, ..partial };
                Partial { want, bytes: bytes.saturating_add(added), since }
            }
            _ => return Some(None),
        };
        if partial.want.is_last {
            return Some(Some(partial.want));
        }
        self.partial = Some(partial);
        None
    }
}

/// Returns the cost of paths in bytes.
fn size<'a>(paths: impl IntoIterator<Item = &'a Arc<str>>) -> usize {
    paths.into_iter().fold(0, |sum: usize, path| sum.saturating_add(path_size(path)))
}

/// Returns the cost of a path in bytes.
fn path_size(path: &str) -> usize {
    path.len().saturating_add(PATH_OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;

    const ME: ReplicaId = ReplicaId::new(9);
    const LEASE: Duration = Duration::from_secs(10);

    fn want(replica: u128, base: Option<u64>, version: u64, add: &[&str], remove: &[&str]) -> Want {
        let paths = |texts: &[&str]| texts.iter().map(|text| Arc::from(*text)).collect();
        Want {
            replica: ReplicaId::new(replica),
            base,
            version,
            waits: true,
            part: 0,
            is_last: true,
            add: paths(add),
            remove: paths(remove),
            shards: 1,
        }
    }

    fn union(wants: &mut Wants) -> (Vec<String>, Vec<u64>) {
        let (paths, covers) = wants.union(ME, 1, &BTreeSet::from(["own".into()]));
        (paths.keys().map(|path| path.to_string()).collect(), covers.into_values().collect())
    }

    #[test]
    fn differences_apply_to_the_version_that_they_build_on_only() {
        let (mut wants, now) = (Wants::default(), Time::ZERO);
        assert_eq!(wants.hear(now, LEASE, want(1, Some(1), 2, &["b"], &[])), Heard::Unknown);
        assert!(!wants.knows(ReplicaId::new(1)));
        assert_eq!(wants.hear(now, LEASE, want(1, None, 2, &["a", "b"], &[])), Heard::New);
        assert_eq!(wants.hear(now, LEASE, want(1, Some(2), 3, &["c"], &["a"])), Heard::New);
        assert_eq!(wants.hear(now, LEASE, want(1, Some(2), 3, &["c"], &["a"])), Heard::Nothing);
        assert_eq!(wants.hear(now, LEASE, want(1, Some(7), 8, &["x"], &[])), Heard::Unknown);
        assert_eq!(union(&mut wants), (vec!["b".into(), "c".into(), "own".into()], vec![3, 1]));
        wants.forget(ReplicaId::new(1));
        assert_eq!(union(&mut wants), (vec!["own".into()], vec![1]));
    }

    #[test]
    fn a_version_counts_when_its_last_part_has_come_and_none_was_missed() {
        let (mut wants, now) = (Wants::default(), Time::ZERO);
        let part = |number, is_last, add| Want { part: number, is_last, ..want(1, None, 5, &[add], &[]) };
        assert_eq!(wants.hear(now, LEASE, part(0, false, "a")), Heard::Nothing);
        assert!(!wants.knows(ReplicaId::new(1)));
        assert_eq!(wants.hear(now, LEASE, part(2, true, "c")), Heard::Unknown);
        assert_eq!(wants.hear(now, LEASE, part(0, false, "a")), Heard::Nothing);
        assert_eq!(wants.hear(now, LEASE, part(1, true, "b")), Heard::New);
        assert_eq!(union(&mut wants).0, ["a", "b", "own"]);
    }

    #[test]
    fn replicas_whose_paths_do_not_fit_are_not_covered() {
        let (mut wants, now) = (Wants::default(), Time::ZERO);
        let many = |prefix: &str, count: usize| {
            let add = (0..count).map(|number| format!("{prefix}{number}").into()).collect();
            Want { add, ..want(u128::from(prefix.as_bytes()[0]), None, 1, &[], &[]) }
        };
        assert_eq!(wants.hear(now, LEASE, many("a", MAX_PATHS - 1)), Heard::New);
        assert_eq!(wants.hear(now, LEASE, many("b", 1)), Heard::New);
        assert_eq!(wants.hear(now, LEASE, many("c", MAX_PATHS + 1)), Heard::Nothing);
        let (paths, covers) = wants.union(ME, 1, &BTreeSet::from(["own".into()]));
        assert_eq!((paths.len(), covers.len()), (MAX_PATHS, 2));
        assert!(!covers.contains_key(&ReplicaId::new(u128::from(b'b'))));
        wants.forget_silent(Duration::from_secs(1));
        assert_eq!(wants.union(ME, 1, &BTreeSet::new()).1.len(), 1);
    }

    #[test]
    fn a_round_has_the_paths_of_the_replicas_that_it_covers_after_any_changes() {
        let mut random = fastrand::Rng::with_seed(28);
        let (mut wants, now, mut own, mut version) = (Wants::default(), Time::ZERO, BTreeSet::new(), 0);
        wants.round.max = 12;
        for _ in 0..5000 {
            let mut paths = |max: usize| -> Vec<Arc<str>> {
                let count = random.usize(..max);
                (0..count).map(|_| Arc::from(random.u8(..16).to_string())).collect()
            };
            let (add, remove, new_own) = (paths(8), paths(8), paths(10));
            let replica = ReplicaId::new(random.u128(1..5));
            version += 1;
            let known = wants.by_replica.get(&replica).and_then(|wanted| wanted.version);
            match random.u8(..8) {
                0 => wants.forget(replica),
                1 => {
                    own = BTreeSet::from_iter(new_own);
                    wants.own_changed();
                }
                action => {
                    let base = known.filter(|_| action > 2);
                    let heard = Want { replica, base, add, remove, ..want(0, None, version, &[], &[]) };
                    assert_eq!(wants.hear(now, LEASE, heard), Heard::New);
                }
            }
            let (paths, covers) = wants.union(ME, version, &own);
            let covered = covers.keys().filter(|replica| **replica != ME);
            let of_covered = covered.flat_map(|replica| wants.paths(*replica).unwrap());
            let expected: BTreeSet<_> = own.iter().chain(of_covered).collect();
            assert!(paths.keys().eq(expected) && paths.len() <= 12, "{paths:?}, {covers:?}");
            for (path, replica) in &*paths {
                let wanted = if *replica == ME { &own } else { wants.paths(*replica).unwrap() };
                assert!(wanted.contains(path), "{path}, {replica}");
            }
            assert!(wants.by_replica.values().all(|wanted| wanted.bytes == size(&wanted.paths)));
        }
    }

    #[test]
    fn replicas_are_covered_as_soon_as_their_paths_fit_and_those_that_do_not_fit_cost_each_round_little() {
        let (mut wants, path) = (Wants::default(), |number: u32| Arc::<str>::from(format!("{number:03}")));
        wants.round.max = 100;
        let mut own: BTreeSet<_> = (0..100).map(path).collect();
        for replica in 1..=10 {
            // Its last path is the only one that is not this replica's own.
            let add = (1..100).chain([100 + replica]).map(path).collect();
            wants.hear(Time::ZERO, LEASE, Want { add, ..want(replica.into(), None, 1, &[], &[]) });
        }
        // One replica is tried in each round: here in this one, and then in nine others.
        assert_eq!(wants.union(ME, 1, &own).1.len(), 1);
        let looked_up: Vec<_> = (0..12).map(|_| wants.cover_others()).collect();
        assert_eq!(looked_up, [[100; 9].as_slice(), &[0; 3]].concat());
        own.retain(|path| path.as_ref() >= "003");
        wants.own_changed();
        // Replicas that want "001" and "002" and one path more: with the first of them there are 100 paths.
        assert_eq!((0..20).map(|_| wants.union(ME, 2, &own).1.len()).max(), Some(2));
        wants.forget(ReplicaId::new(1));
        assert_eq!((0..20).map(|_| wants.union(ME, 2, &own).1.len()).max(), Some(2));
    }

    /// A part of a version that never ends, with paths of almost the maximum length.
    fn endless(replica: u128, part: u32) -> Want {
        let add = (0..60).map(|number| format!("{part}.{number:0>8000}").into()).collect();
        Want { part, is_last: false, add, ..want(replica, None, 1, &[], &[]) }
    }

    fn bytes(wants: &Wants) -> usize {
        wants.by_replica.values().map(Wanted::bytes).sum()
    }

    #[test]
    fn parts_that_never_end_are_bounded_in_bytes_for_each_replica_and_for_all() {
        let mut wants = Wants::default();
        // All within the time in which a version must be complete.
        let now = Time::ZERO;
        for part in 0..100 {
            wants.hear(now, LEASE, endless(1, part));
            assert!(bytes(&wants) <= MAX_REPLICA_BYTES, "{}", bytes(&wants));
        }
        assert_eq!(bytes(&wants), 0, "it is refused, and nothing is kept of it");
        for part in 0..30 {
            for replica in 2..12 {
                wants.hear(now, LEASE, endless(replica, part));
                assert!(bytes(&wants) <= MAX_TOTAL_BYTES, "{}", bytes(&wants));
            }
        }
        // Another replica still fits, and the refused one is accepted again later.
        assert_eq!(wants.hear(now, LEASE, want(20, None, 1, &["a"], &[])), Heard::New);
        assert_eq!(wants.hear(now, LEASE, want(1, None, 2, &["b"], &[])), Heard::Nothing);
        let later = LEASE * REFUSAL;
        assert_eq!(wants.hear(later, LEASE, want(1, None, 2, &["b"], &[])), Heard::New);
    }

    #[test]
    fn the_wants_of_all_shards_share_their_memory_and_what_is_forgotten_is_free() {
        let (now, add) = (Time::ZERO, ["a"; 1]);
        let memory = WantsMemory(Arc::new(MemoryPool::new(3 * path_size("a"))));
        let [mut one, mut other] = [(); 2].map(|()| Wants::new(memory.clone()));
        for replica in 1..=2 {
            assert_eq!(one.hear(now, LEASE, want(replica, None, 1, &add, &[])), Heard::New);
        }
        assert_eq!(other.hear(now, LEASE, want(1, None, 1, &add, &[])), Heard::New);
        assert_eq!(other.hear(now, LEASE, want(2, None, 1, &add, &[])), Heard::Nothing, "it is refused");
        assert!(other.knows(ReplicaId::new(1)) && !other.knows(ReplicaId::new(2)));
        // Its next wants are heard when the other shard has forgotten a replica.
        let later = LEASE * REFUSAL;
        assert_eq!(other.hear(later, LEASE, want(2, None, 2, &add, &[])), Heard::Nothing);
        one.forget(ReplicaId::new(1));
        one.drop_late_parts(later, LEASE);
        assert_eq!(other.hear(later * 2, LEASE, want(2, None, 3, &add, &[])), Heard::New);
        // A holder that loses the lease forgets all.
        drop(other);
        for replica in 3..=4 {
            assert_eq!(one.hear(later, LEASE, want(replica, None, 1, &add, &[])), Heard::New);
        }
        assert_eq!(one.hear(later, LEASE, want(5, None, 1, &add, &[])), Heard::Nothing);
    }

    #[test]
    fn paths_that_are_removed_count_and_so_do_parts_beside_a_version() {
        let mut wants = Wants::default();
        let removed = |part| {
            let remove = std::mem::take(&mut endless(1, part).add);
            Want { remove, ..Want { part, is_last: false, ..want(1, Some(1), 2, &[], &[]) } }
        };
        assert_eq!(wants.hear(Time::ZERO, LEASE, want(1, None, 1, &["a"], &[])), Heard::New);
        for part in 0..100 {
            wants.hear(Time::ZERO, LEASE, removed(part));
            assert!(bytes(&wants) <= MAX_REPLICA_BYTES, "{}", bytes(&wants));
        }
        assert!(!wants.knows(ReplicaId::new(1)));
    }

    #[test]
    fn parts_and_replicas_that_are_not_complete_in_time_are_dropped() {
        let mut wants = Wants::default();
        assert_eq!(wants.hear(Time::ZERO, LEASE, want(1, None, 1, &["a"], &[])), Heard::New);
        let part = |replica, part, version| Want { part, is_last: false, ..want(replica, None, version, &["b"], &[]) };
        for replica in 1..=3 {
            assert_eq!(wants.hear(Time::ZERO, LEASE, part(replica, 0, 2)), Heard::Nothing);
        }
        // Each further part prevents the replica from counting as silent, but does not extend its time.
        assert_eq!(wants.hear(LEASE / 2, LEASE, part(2, 1, 2)), Heard::Nothing);
        wants.drop_late_parts(LEASE, LEASE);
        assert_eq!(wants.by_replica.keys().copied().collect::<Vec<_>>(), [ReplicaId::new(1)]);
        assert!(wants.by_replica.values().all(|wanted| wanted.partial.is_none()));
        assert_eq!(union(&mut wants).0, ["a", "own"]);
    }

    #[test]
    fn a_missed_part_is_asked_for_once_and_not_for_each_part_that_follows() {
        let mut wants = Wants::default();
        let part = |part| Want { part, is_last: part == 9, ..want(1, None, 1, &["a"], &[]) };
        assert_eq!(wants.hear(Time::ZERO, LEASE, part(0)), Heard::Nothing);
        let heard: Vec<_> = (2..10).map(|number| wants.hear(Time::ZERO, LEASE, part(number))).collect();
        assert_eq!(heard.iter().filter(|heard| **heard == Heard::Unknown).count(), 1);
        assert_eq!(wants.hear(LEASE / 3, LEASE, part(3)), Heard::Unknown, "the question may be lost");
    }
}
