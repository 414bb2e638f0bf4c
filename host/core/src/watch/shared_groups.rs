//! Groups of the paths that all replicas watch, where one polls for all.
//!
//! Any replica may be the next to poll, so the group of a path follows from its hash, keyed by what all replicas know, and the record has one
//! token for each group: a power of two of them, up to [`MAX_GROUPS`]. The tokens may be those of another replica: which paths these cover is not
//! known here, and a change of any path counts then.
//!
//! **Paths that fail.** As the group of a path is given, a path that makes its group fail cannot get a group, and a token, of its own. It is
//! *left out*: the group is polled without it, and the replicas that want it poll it for themselves. Which ones these are is found by calls
//! about parts of the group, whose answers count for nothing else: what was left out is divided as [other paths that fail](super::groups), by
//! the replicas that want it, and what is answered returns to its group. A path that has failed alone is left out for [`MEMORY`] at least. So
//! is a new path until such a call about it was answered: then whoever subscribes to a path that fails does not fail a group of others.
//!
//! What is left out is *lost* once the token of its group moves without it: changes of it would not be reported any more. So is what is in
//! back-off, as no replica would poll it until that is over. Until then it may return as if nothing had happened.
//!
//! A group that fails again, though all of its paths are answered in parts, has too many of them: there are twice as many groups in the next
//! poll.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_cluster::ReplicaId;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::uri::{Path, Uri};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::groups::{GroupId, MAX_GROUPS, MEMORY, PathGroups, Polled, max_group_paths};

/// All paths that replicas watch of one plugin.
pub(super) struct SharedGroups {
    key: u64,
    max_paths: usize,
    /// A power of two.
    groups: Vec<SharedGroup>,
    /// The paths that are in groups, or were when these were last polled: whether the token of the group covers them.
    covered: HashMap<Path, bool>,
    left_out: PathGroups<ReplicaId>,
    /// Paths that the tokens do not cover any more, though the last poll that has told everything said so.
    lost: BTreeSet<Path>,
    /// Whether there are too few groups.
    doubles: bool,
    /// What is known of each wanted path.
    wanted: HashMap<Path, Wanted>,
    last_token: Option<String>,
}

/// A path that replicas want.
#[derive(Clone, Copy)]
struct Wanted {
    /// One of these replicas.
    owner: ReplicaId,
    /// The [hash] of the path.
    hash: usize,
}

/// The paths of one call of `changes`.
#[derive(Clone, Default)]
struct SharedGroup {
    token: Option<String>,
    /// Whether the token is another replica's, which may cover any path.
    covers_others: bool,
    watched: Vec<(Uri, Path)>,
    /// The paths that were left out in this poll. Some may be back in `watched`.
    left_out: Vec<Path>,
    /// How often it has failed since it was answered about most of its paths, and the greatest number of paths with which it has.
    failures: u32,
    failed_with: usize,
}

impl SharedGroup {
    /// Begins a poll, without paths.
    fn clear(&mut self) {
        self.watched.clear();
        self.left_out.clear();
    }
}

impl SharedGroups {
    /// The groups of a plugin with `max_items` as its `limits.response-items`, with the tokens of the last poll, by another replica.
    pub(super) fn new(max_items: usize, key: u64, tokens: Vec<Option<String>>) -> Self {
        let max_paths = max_group_paths(max_items);
        let with_token = |token| SharedGroup { token, covers_others: true, ..SharedGroup::default() };
        let groups = match tokens.len() {
            count if count.is_power_of_two() && count <= MAX_GROUPS => tokens.into_iter().map(with_token).collect(),
            _ => vec![SharedGroup::default()],
        };
        let left_out = PathGroups::with_backoff(max_items, MEMORY, MEMORY);
        let (covered, wanted, lost) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        Self { key, max_paths, groups, covered, left_out, lost, doubles: false, wanted, last_token: None }
    }

    /// The groups of this replica alone, with the same tokens.
    pub(super) fn into_own(self, max_items: usize) -> PathGroups {
        let mut own = PathGroups::new(max_items);
        let mask = self.mask();
        let mut paths: Vec<(Vec<_>, Vec<_>)> = vec![Default::default(); self.groups.len()];
        // What is left out and covered stays with its token, which has not moved.
        for (path, is_covered) in self.covered {
            if let Some((known, _)) = paths.get_mut(hash(self.key, &path) & mask) {
                known.push((path, is_covered));
            }
        }
        for path in self.lost {
            if let Some((_, owed)) = paths.get_mut(hash(self.key, &path) & mask) {
                owed.push(path);
            }
        }
        for (group, (paths, owed)) in self.groups.into_iter().zip(paths) {
            own.add_with_token(group.token, group.covers_others, paths, owed);
        }
        if let Some(token) = self.last_token {
            own.set_last_token(token);
        }
        own
    }

    /// Returns the token of each group, in the order of their hashes.
    pub(super) fn tokens(&self) -> Vec<Option<String>> {
        self.groups.iter().map(|group| group.token.clone()).collect()
    }

    /// The token of the last answer.
    pub(super) fn last_token(&self) -> Option<&str> {
        self.last_token.as_deref()
    }

    /// Stores the token of an answer that was about the listing only.
    pub(super) fn set_last_token(&mut self, token: String) {
        self.last_token = Some(token);
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Sets the paths of the next poll, each with a replica that wants it.
    pub(super) fn set_watched(&mut self, watched: Vec<(Uri, Path, ReplicaId)>, now: Instant) {
        if std::mem::take(&mut self.doubles) {
            self.double();
        }
        while watched.len() > self.groups.len().saturating_mul(self.max_paths) && self.double() {}
        self.groups.iter_mut().for_each(SharedGroup::clear);
        let (mask, mut left_out) = (self.mask(), Vec::new());
        let known = std::mem::take(&mut self.wanted);
        self.wanted.reserve(watched.len());
        let mut covered = HashMap::with_capacity(watched.len());
        for (uri, path, owner) in watched {
            let hash = known.get(&path).map_or_else(|| hash(self.key, &path), |wanted| wanted.hash);
            self.wanted.insert(path.clone(), Wanted { owner, hash });
            let before = self.covered.get(&path).copied();
            let Some(group) = self.groups.get_mut(hash & mask) else { continue };
            // Nothing is known of paths that another replica has polled, and no change of others is told late by the first poll.
            let may_join = before.is_some() || group.token.is_none() || group.covers_others;
            if may_join {
                covered.insert(path.clone(), before.unwrap_or(false));
            }
            match may_join && !self.left_out.has(&path) {
                true => group.watched.push((uri, path)),
                false => {
                    group.left_out.push(path.clone());
                    left_out.push((uri, path));
                }
            }
        }
        self.covered = covered;
        self.left_out.set_watched(left_out, now);
    }

    /// Splits each group in two. Returns whether there may be as many.
    fn double(&mut self) -> bool {
        if self.groups.len() >= MAX_GROUPS {
            return false;
        }
        // The halves of a group are half of the number of groups apart.
        self.groups.iter_mut().for_each(SharedGroup::clear);
        self.groups.extend(self.groups.clone());
        true
    }

    fn mask(&self) -> usize {
        self.groups.len().saturating_sub(1)
    }

    /// The paths and the token of a call about a group; none if there is nothing to ask: the first one is asked about the listing.
    pub(super) fn call(&self, index: usize) -> Option<(Vec<Path>, Option<String>)> {
        let group = self.groups.get(index).filter(|group| index == 0 || !group.watched.is_empty())?;
        Some((group.watched.iter().map(|(_, path)| path.clone()).collect(), group.token.clone()))
    }

    /// What an answer about a group is about.
    pub(super) fn polled(&self, index: usize) -> Polled<'_> {
        let Some(SharedGroup { watched, covers_others, .. }) = self.groups.get(index) else { return Polled::default() };
        let is_new = |(_, path): &&(Uri, Path)| !self.is_covered(path);
        let new = watched.iter().filter(is_new).cloned().collect();
        let is_first = self.last_token.is_none();
        Polled { watched, new, owed: Vec::new(), covers_others: *covers_others, is_first }
    }

    fn is_covered(&self, path: &Path) -> bool {
        self.covered.get(path).copied().unwrap_or(false)
    }

    /// Stores the answer to a call about a group: its token moves without what is left out of it.
    pub(super) fn record_answer(&mut self, index: usize, token: String) {
        let Some(group) = self.groups.get_mut(index) else { return };
        let (had_token, covers_others) = (group.token.replace(token.clone()).is_some(), group.covers_others);
        group.covers_others = false;
        if group.watched.len() > group.failed_with / 2 {
            (group.failures, group.failed_with) = (0, 0);
        }
        for (_, path) in &group.watched {
            self.covered.insert(path.clone(), true);
        }
        for path in group.left_out.iter().filter(|path| self.left_out.has(path)) {
            match self.covered.remove(path) {
                Some(is_covered) if is_covered || (had_token && covers_others) => drop(self.lost.insert(path.clone())),
                _ => {}
            }
        }
        self.last_token = Some(token);
    }

    /// Stores that a call about a group has failed, though the provider answers. Returns whether it is to be asked again about what is
    /// answered in [parts](Self::next_part): all of its paths are left out now.
    pub(super) fn record_failure(&mut self, index: usize, fault: Fault, took: Duration, now: Instant) -> bool {
        let is_room = self.groups.len() < MAX_GROUPS;
        let Some(group) = self.groups.get_mut(index) else { return false };
        group.failures = group.failures.saturating_add(1);
        group.failed_with = group.failed_with.max(group.watched.len());
        if group.failures > 1 && group.watched.len() > 1 {
            (group.failures, group.failed_with) = (0, 0);
            // The next poll is about halves, with the token that they had.
            if is_room {
                self.doubles = true;
                return false;
            }
        }
        let watched = std::mem::take(&mut group.watched);
        group.left_out.extend(watched.iter().map(|(_, path)| path.clone()));
        let left_out = self.left_out.add_failed(watched, fault, took, now);
        self.split(left_out, now);
        true
    }

    /// Returns the next part of what is left out that may be asked about: what was not yet comes first.
    pub(super) fn next_part(&self, now: Instant) -> Option<(GroupId, Vec<Path>)> {
        let new = self.left_out.working(|_| false).into_iter();
        let mut parts =
            new.chain(self.left_out.next_due(now, true)).filter_map(|id| Some((id, self.left_out.get(id)?)));
        let (id, part) = parts.find(|(_, part)| !part.watched.is_empty())?;
        Some((id, part.watched.iter().map(|(_, path)| path.clone()).collect()))
    }

    /// Stores that a call about a part of what is left out was answered: it belongs to its groups.
    pub(super) fn admit(&mut self, part: GroupId) {
        let mask = self.mask();
        for (uri, path) in self.left_out.remove(part) {
            self.covered.entry(path.clone()).or_insert(false);
            let wanted = self.wanted.get(&path);
            if let Some(group) = wanted.and_then(|wanted| self.groups.get_mut(wanted.hash & mask)) {
                group.watched.push((uri, path));
            }
        }
    }

    /// Stores that a call about a part of what is left out has failed, though the provider answers.
    pub(super) fn record_failed_part(&mut self, part: GroupId, fault: Fault, took: Duration, now: Instant) {
        self.left_out.record_failure(part, fault, took, now);
        self.split(part, now);
    }

    fn split(&mut self, part: GroupId, now: Instant) {
        let watched = self.left_out.get(part).map(|part| part.watched.as_slice()).unwrap_or_default();
        let owner = |path| self.wanted.get(path).map_or(ReplicaId::new(0), |wanted| wanted.owner);
        let owners = watched.iter().map(|(_, path)| owner(path)).collect();
        self.left_out.split(part, owners, now);
    }

    /// Whether paths of a group that its token covers are left out.
    pub(super) fn leaves_out_covered(&self, index: usize) -> bool {
        let left_out = self.groups.get(index).map(|group| group.left_out.as_slice()).unwrap_or_default();
        left_out.iter().any(|path| self.left_out.has(path) && self.is_covered(path))
    }

    /// The paths that the last poll has not polled: those that the tokens do not cover any more, or that nobody would poll until their back-off
    /// is over, and those of which the tokens say what they said before. `is_complete` is whether the poll has asked about everything else.
    pub(super) fn unserved(&mut self, is_complete: bool, unanswered: &BTreeSet<usize>, now: Instant) -> Unserved {
        let text = |path: &Path| Arc::from(path.as_str());
        if is_complete {
            let pausing: Vec<_> = self.left_out.pausing(now).cloned().collect();
            for path in pausing {
                if self.covered.remove(&path) == Some(true) {
                    self.lost.insert(path);
                }
            }
        }
        let lost: BTreeSet<_> = self.lost.iter().map(text).collect();
        if is_complete {
            self.lost.clear();
        }
        let of_groups = unanswered.iter().filter_map(|index| self.groups.get(*index));
        let of_groups = of_groups.flat_map(|group| group.watched.iter().map(|(_, path)| path));
        // What returned to its group after this was polled.
        let unpolled = self.groups.iter().flat_map(|group| group.watched.iter().map(|(_, path)| path));
        let unpolled = unpolled.filter(|path| !self.is_covered(path));
        let left = self.left_out.watched().chain(of_groups).chain(unpolled).map(text);
        let left = left.filter(|path| !lost.contains(path)).collect();
        Unserved { lost, left }
    }
}

/// What a poll for all replicas has not polled.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unserved {
    pub(super) lost: BTreeSet<Arc<str>>,
    pub(super) left: BTreeSet<Arc<str>>,
}

fn hash(key: u64, path: &Path) -> usize {
    let digest = Sha256::new().chain_update(key.to_be_bytes()).chain_update(path.as_str()).finalize();
    digest.iter().take(size_of::<u32>()).fold(0, |hash: usize, byte| hash << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::uri::Mount;

    const ONE: ReplicaId = ReplicaId::new(1);
    const OTHER: ReplicaId = ReplicaId::new(2);

    fn watched(numbers: std::ops::Range<usize>) -> Vec<(Uri, Path, ReplicaId)> {
        let mount: Mount = "a://x/".parse().unwrap();
        let located = numbers.map(|number| mount.compose(&number.to_string()).unwrap());
        located.map(|located| (located.uri, located.path, ONE)).collect()
    }

    fn paths(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<Arc<str>> {
        numbers.into_iter().map(|number| number.to_string().into()).collect()
    }

    /// Polls a provider that fails with some paths, until there is nothing left to ask. Returns the number of calls that have failed, and what
    /// was not polled.
    fn poll(groups: &mut SharedGroups, bad: &[usize], now: Instant) -> (usize, Unserved) {
        let (mut failed, mut unanswered) = (0, BTreeSet::new());
        let is_bad = |paths: &[Path]| paths.iter().any(|path| bad.contains(&path.as_str().parse().unwrap()));
        let fault = || Fault::Trap("bad".to_owned());
        let ask = |groups: &mut SharedGroups, failed: &mut usize| {
            while let Some((part, paths)) = groups.next_part(now) {
                match is_bad(&paths) {
                    false => groups.admit(part),
                    true => {
                        *failed += 1;
                        groups.record_failed_part(part, fault(), Duration::ZERO, now);
                    }
                }
            }
        };
        ask(groups, &mut failed);
        for index in 0..groups.len() {
            while let Some((paths, _)) = groups.call(index) {
                if !is_bad(&paths) {
                    groups.record_answer(index, format!("{index}"));
                    break;
                }
                failed += 1;
                if !groups.record_failure(index, fault(), Duration::ZERO, now) {
                    unanswered.insert(index);
                    break;
                }
                ask(groups, &mut failed);
            }
        }
        (failed, groups.unserved(true, &unanswered, now))
    }

    fn unserved(lost: impl IntoIterator<Item = usize>, left: impl IntoIterator<Item = usize>) -> Unserved {
        Unserved { lost: paths(lost), left: paths(left) }
    }

    #[test]
    fn replicas_divide_paths_alike_and_go_on_with_each_others_tokens() {
        let tokens = || (0..8).map(|number| Some(number.to_string())).collect::<Vec<_>>();
        let groups = || {
            let mut groups = SharedGroups::new(10_000, 7, tokens());
            groups.set_watched(watched(0..3000), Instant::now());
            groups
        };
        let (one, other) = (groups(), groups());
        assert_eq!(one.tokens(), tokens());
        for index in 0..8 {
            assert_eq!(one.call(index), other.call(index));
            let polled = one.polled(index);
            assert!(polled.covers_others && !polled.watched.is_empty());
        }
        assert_eq!(SharedGroups::new(10_000, 7, vec![None; 3]).tokens(), [None], "no host writes three");
    }

    #[test]
    fn a_path_stays_with_the_token_that_knows_of_it() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, vec![None]), Instant::now());
        for (round, count) in [500, 3000, 20_000].into_iter().enumerate() {
            groups.set_watched(watched(0..count), now);
            while let Some((part, _)) = groups.next_part(now) {
                groups.admit(part);
            }
            for index in 0..groups.len() {
                let polled = groups.polled(index);
                let new: BTreeSet<_> =
                    polled.new.iter().map(|(_, path)| path.as_str().parse::<usize>().unwrap()).collect();
                assert!(round == 0 || new.iter().all(|number| *number >= 500), "{new:?}");
                assert_eq!(groups.tokens()[index].is_some(), round > 0);
            }
            (0..groups.len()).for_each(|index| groups.record_answer(index, format!("{round} {index}")));
            assert_eq!(groups.unserved(true, &BTreeSet::new(), now), Unserved::default());
        }
        assert!(groups.len() <= MAX_GROUPS);
    }

    #[test]
    fn a_new_path_that_fails_fails_no_group_and_is_not_asked_about_again_soon() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, Vec::new()), Instant::now());
        groups.set_watched(watched(0..100), now);
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
        for _ in 0..3 {
            groups.set_watched(watched(0..101), now);
            let group = |groups: &SharedGroups| groups.call(0).unwrap().0.len();
            assert_eq!(group(&groups), 100, "it is not part of the group before it was tried");
            let (failed, what) = poll(&mut groups, &[100], now);
            assert!(failed <= 1, "{failed}");
            assert_eq!(what, unserved([], [100]));
            groups.set_watched(watched(0..100), now);
            assert_eq!(poll(&mut groups, &[100], now), (0, Unserved::default()));
        }
        let later = now + MEMORY * 2;
        groups.set_watched(watched(0..101), later);
        assert_eq!(poll(&mut groups, &[], later), (0, Unserved::default()), "it is tried again, and is good");
    }

    #[test]
    fn a_path_that_fails_later_is_found_and_is_the_only_one_that_is_lost() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, Vec::new()), Instant::now());
        groups.set_watched(watched(0..1000), now);
        poll(&mut groups, &[], now);
        groups.set_watched(watched(0..1000), now);
        let (failed, what) = poll(&mut groups, &[437], now);
        assert!(failed <= 12, "{failed} calls have failed");
        assert_eq!(what, unserved([437], []));
        groups.set_watched(watched(0..1000), now);
        assert_eq!(poll(&mut groups, &[437], now), (0, unserved([], [437])), "it was lost before");
        assert_eq!(groups.len(), 1);
    }

    #[test]
    fn what_the_next_holder_cannot_poll_is_lost_as_it_may_have_been_covered() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, vec![Some("t".to_owned())]), Instant::now());
        groups.set_watched(watched(0..10), now);
        assert_eq!(poll(&mut groups, &[3], now).1, unserved([3], []));
        // Nobody relies on what has no token.
        let mut groups = SharedGroups::new(10_000, 7, vec![None]);
        groups.set_watched(watched(0..10), now);
        assert_eq!(poll(&mut groups, &[3], now).1, unserved([], [3]));
    }

    #[test]
    fn many_paths_of_one_replica_that_fail_leave_the_others_theirs() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, vec![Some("t".to_owned())]), Instant::now());
        let mut all = watched(0..1000);
        all.iter_mut().skip(100).for_each(|(.., replica)| *replica = OTHER);
        groups.set_watched(all, now);
        let bad: Vec<_> = (100..1000).filter(|number| number % 2 == 0).collect();
        let (failed, Unserved { lost, left }) = poll(&mut groups, &bad, now);
        assert!(failed < 64, "{failed} calls have failed");
        assert!(left.is_empty() && lost.is_superset(&paths(bad)) && lost.is_disjoint(&paths(0..100)), "{lost:?}");
    }

    #[test]
    fn a_group_of_too_many_paths_is_halved_and_keeps_its_token_until_then() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, Vec::new()), Instant::now());
        groups.set_watched(watched(0..900), now);
        (0..groups.len()).for_each(|index| groups.record_answer(index, "t".to_owned()));
        let fault = || Fault::Trap("too many".to_owned());
        groups.set_watched(watched(0..900), now);
        assert!(groups.record_failure(0, fault(), Duration::ZERO, now));
        while let Some((part, _)) = groups.next_part(now) {
            groups.admit(part);
        }
        assert!(!groups.record_failure(0, fault(), Duration::ZERO, now));
        assert_eq!(groups.unserved(true, &BTreeSet::from([0]), now), unserved([], 0..900), "nothing is lost");
        groups.set_watched(watched(0..900), now);
        assert_eq!(groups.tokens(), vec![Some("t".to_owned()); 2]);
        assert!((0..2).all(|index| groups.polled(index).new.is_empty()));
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
    }

    #[test]
    fn what_returns_to_a_group_that_was_polled_before_is_not_covered() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, vec![Some("t".to_owned()); 2]), Instant::now());
        groups.set_watched(watched(0..10), now);
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
        groups.set_watched(watched(0..30), now);
        (0..2).for_each(|index| groups.record_answer(index, "u".to_owned()));
        let (part, new) = groups.next_part(now).unwrap();
        groups.admit(part);
        let what = groups.unserved(true, &BTreeSet::new(), now);
        assert!(what.lost.is_empty() && new.iter().all(|path| what.left.contains(path.as_str())), "{what:?}");
    }

    #[test]
    fn what_nobody_would_poll_is_lost_though_its_token_has_not_moved() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, vec![Some("t".to_owned()); 32]), Instant::now());
        groups.set_watched(watched(0..5), now);
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
        let alone = (1..32).find(|index| groups.call(*index).is_some_and(|(paths, _)| paths.len() == 1)).unwrap();
        let number: usize = groups.call(alone).unwrap().0[0].as_str().parse().unwrap();
        groups.set_watched(watched(0..5), now);
        assert_eq!(poll(&mut groups, &[number], now).1, unserved([number], []));
    }

    #[test]
    fn a_lease_that_is_lost_loses_nothing_of_what_was_left_out() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, vec![None]), Instant::now());
        groups.set_watched(watched(0..10), now);
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
        groups.set_watched(watched(0..10), now);
        assert!(groups.record_failure(0, Fault::Trap("down".to_owned()), Duration::ZERO, now));
        assert!(groups.leaves_out_covered(0));
        let mut own = groups.into_own(10_000);
        own.set_watched(watched(0..10).into_iter().map(|(uri, path, _)| (uri, path)).collect(), now);
        assert!(watched(0..10).iter().all(|(_, path, _)| own.is_covered(path)), "its token has not moved");
    }

    #[test]
    fn this_replica_alone_goes_on_with_the_same_tokens() {
        let (mut groups, now) = (SharedGroups::new(10_000, 7, vec![Some("t".to_owned()); 2]), Instant::now());
        groups.set_watched(watched(0..10), now);
        poll(&mut groups, &[3], now);
        groups.set_watched(watched(0..10), now);
        let mut own = groups.into_own(10_000);
        own.set_watched(watched(0..10).into_iter().map(|(uri, path, _)| (uri, path)).collect(), now);
        for (_, path, _) in watched(0..10) {
            assert_eq!(own.is_covered(&path), path.as_str() != "3", "{path}");
        }
        assert!(own.last_token().is_some());
    }
}
