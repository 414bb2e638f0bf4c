//! Groups of the paths that all replicas watch, if one replica polls for all.
//!
//! Any replica may make the next poll, so a hash determines the group of a path. The key of the hash is known to all
//! replicas. The record has one token for each group; the number of groups is a power of two, up to [`MAX_GROUPS`]. If
//! the tokens are another replica's, this replica does not know which paths they cover, and a change of any path
//! counts.
//!
//! **Paths that fail.** Because the group of a path is given, a path that makes its group fail cannot get its own group
//! and token. It is *left out*: the group is polled without it, and the replicas that want it poll it for themselves.
//! Calls for parts of the group determine the failing paths; the answers have no other effect. Paths that are left out
//! are divided like [other failing paths](super::groups), by the replicas that want them, and answered parts return to
//! their groups. A path that has failed alone is left out for [`MEMORY`] at least. A new path is left out until such a
//! call for it is answered, so a subscription to a failing path does not fail the group of other paths.
//!
//! A path that is left out is *lost* once the token of its group advances without it, because its changes would not be
//! reported any more. A covered path in back-off is also lost, because no replica would poll it until the back-off
//! ends. Until a path is lost, it may return to its group without consequences.
//!
//! If a group fails again although all of its paths were answered in parts, it has too many paths: the next poll has
//! twice as many groups. If there are [`MAX_GROUPS`] already, half of its paths are left out like a path that has
//! failed alone.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::uri::{Path, Uri};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::groups::{GroupId, MAX_GROUPS, MEMORY, PathGroups, Polled, max_group_paths};
use crate::replica::ReplicaId;
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// All paths of one plugin that replicas watch.
pub(super) struct SharedGroups<F> {
    key: u64,
    max_paths: usize,
    /// A power of two.
    groups: Vec<SharedGroup>,
    /// The paths that are in groups, or were in groups at the last poll: whether the token of the group covers each
    /// path.
    covered: HashMap<Path, bool>,
    left_out: PathGroups<ReplicaId, F>,
    /// Paths that the tokens no longer cover. They are not yet reported by a complete poll.
    lost: BTreeSet<Path>,
    /// Whether there are too few groups.
    doubles: bool,
    /// The data of each wanted path.
    wanted: HashMap<Path, Wanted>,
    last_token: Option<String>,
}

/// A path that replicas want.
#[derive(Clone, Copy)]
struct Wanted {
    /// One of the replicas that want the path.
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
    /// The number of failures since most of the group's paths were answered, and the maximum number of paths of a
    /// failed call.
    failures: u32,
    failed_with: usize,
}

impl SharedGroup {
    /// Prepares the group for a new poll, without paths.
    fn clear(&mut self) {
        self.watched.clear();
        self.left_out.clear();
    }
}

impl<F: Clone> SharedGroups<F> {
    /// Creates the groups of a plugin with this `limits.response-items`, with the tokens of the last poll, which
    /// another replica made.
    pub(super) fn new(max_items: usize, key: u64, tokens: Vec<Option<String>>) -> Self {
        let max_paths = max_group_paths(max_items);
        #[cfg(test)]
        let key = if is_planted(Bug::KeyNotShared) { fastrand::u64(..) } else { key };
        #[cfg(not(test))]
        let covers_others = true;
        #[cfg(test)]
        let covers_others = !is_planted(Bug::OthersTokenAsOwn);
        let with_token = |token| SharedGroup { token, covers_others, ..SharedGroup::default() };
        let groups = match tokens.len() {
            count if count.is_power_of_two() && count <= MAX_GROUPS => tokens.into_iter().map(with_token).collect(),
            _ => vec![SharedGroup::default()],
        };
        let left_out = PathGroups::with_backoff(max_items, MEMORY, MEMORY);
        let (covered, wanted, lost) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        Self { key, max_paths, groups, covered, left_out, lost, doubles: false, wanted, last_token: None }
    }

    /// Converts the groups into groups of this replica alone, with the same tokens.
    pub(super) fn into_own<C: Clone + Eq + Hash>(self, max_items: usize) -> PathGroups<C, F> {
        let mut own = PathGroups::new(max_items);
        let mask = self.mask();
        let mut paths: Vec<(Vec<_>, Vec<_>)> = vec![Default::default(); self.groups.len()];
        // A covered path that was left out stays with its group's token, which has not advanced.
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
        #[cfg(test)]
        if is_planted(Bug::TokensShifted) {
            paths.rotate_left(1);
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

    /// Returns the token of the last answer.
    pub(super) fn last_token(&self) -> Option<&str> {
        self.last_token.as_deref()
    }

    /// Stores the token of an answer for the listing only.
    pub(super) fn set_last_token(&mut self, token: String) {
        self.last_token = Some(token);
    }

    /// Returns the number of groups.
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
            // New paths may join a group if another replica's token may cover them, or if there is no token: then a
            // failure delays no changes.
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

    /// Splits each group in two. Returns whether there may be twice as many groups.
    fn double(&mut self) -> bool {
        if self.groups.len() >= MAX_GROUPS {
            return false;
        }
        // The distance between the halves of a group is half of the number of groups.
        self.groups.iter_mut().for_each(SharedGroup::clear);
        self.groups.extend(self.groups.clone());
        #[cfg(test)]
        if is_planted(Bug::MovedWithoutToken) {
            let half = self.groups.len() / 2;
            self.groups.iter_mut().skip(half).for_each(|group| group.token = None);
        }
        true
    }

    fn mask(&self) -> usize {
        self.groups.len().saturating_sub(1)
    }

    /// Returns the paths and the token of the call for a group; none if the group needs no call. The first group is
    /// always called, for the listing.
    pub(super) fn call(&self, index: usize) -> Option<(Vec<Path>, Option<String>)> {
        let group = self.groups.get(index).filter(|group| index == 0 || !group.watched.is_empty())?;
        Some((group.watched.iter().map(|(_, path)| path.clone()).collect(), group.token.clone()))
    }

    /// Returns the paths that an answer about a group concerns.
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

    /// Stores the answer to the call for a group. The token advances without the paths that are left out.
    pub(super) fn record_answer(&mut self, index: usize, token: String) {
        #[cfg(test)]
        if is_planted(Bug::TokenOfOtherGroup) {
            let other = index ^ self.mask().min(1);
            let before = self.groups[index].token.clone();
            self.groups[other].token = Some(token.clone());
            if other != index {
                self.groups[index].token = before;
                self.covered.extend(self.groups[index].watched.iter().map(|(_, path)| (path.clone(), true)));
                self.groups[index].covers_others = false;
                self.last_token = Some(token);
                return;
            }
        }
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
                #[cfg(test)]
                _ if is_planted(Bug::LeftOutNotLost) => {}
                Some(is_covered) if is_covered || (had_token && covers_others) => drop(self.lost.insert(path.clone())),
                _ => {}
            }
        }
        self.last_token = Some(token);
    }

    /// Records that the call for a group has failed although the provider answers. All of its paths are left out now.
    /// Returns whether the group must be called again, with the paths that are answered in [parts](Self::next_part).
    pub(super) fn record_failure(&mut self, index: usize, fault: F, took: Duration, now: Instant) -> bool {
        let is_room = self.groups.len() < MAX_GROUPS;
        let Some(group) = self.groups.get_mut(index) else { return false };
        group.failures = group.failures.saturating_add(1);
        group.failed_with = group.failed_with.max(group.watched.len());
        if group.failures > 1 && group.watched.len() > 1 {
            // The next poll calls the halves, with the token of the group.
            if is_room {
                (group.failures, group.failed_with) = (0, 0);
                self.doubles = true;
                return false;
            }
            let rest = group.watched.split_off(group.watched.len() / 2);
            group.left_out.extend(rest.iter().map(|(_, path)| path.clone()));
            self.left_out.add_failed(rest, fault, took, now);
            return true;
        }
        let watched = std::mem::take(&mut group.watched);
        group.left_out.extend(watched.iter().map(|(_, path)| path.clone()));
        let left_out = self.left_out.add_failed(watched, fault, took, now);
        self.split(left_out, now);
        true
    }

    /// Returns the next part of the left out paths that may be polled. New parts come first.
    pub(super) fn next_part(&self, now: Instant) -> Option<(GroupId, Vec<Path>)> {
        let new = self.left_out.working(|_| false).into_iter();
        let mut parts =
            new.chain(self.left_out.next_due(now, true)).filter_map(|id| Some((id, self.left_out.get(id)?)));
        let (id, part) = parts.find(|(_, part)| !part.watched.is_empty())?;
        Some((id, part.watched.iter().map(|(_, path)| path.clone()).collect()))
    }

    /// Records that a call for a part of the left out paths was answered: the paths return to their groups.
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

    /// Records that a call for a part of the left out paths has failed although the provider answers.
    pub(super) fn record_failed_part(&mut self, part: GroupId, fault: F, took: Duration, now: Instant) {
        self.left_out.record_failure(part, fault, took, now);
        self.split(part, now);
    }

    fn split(&mut self, part: GroupId, now: Instant) {
        let watched = self.left_out.get(part).map(|part| part.watched.as_slice()).unwrap_or_default();
        let owner = |path| self.wanted.get(path).map_or(ReplicaId::new(0), |wanted| wanted.owner);
        let owners = watched.iter().map(|(_, path)| owner(path)).collect();
        self.left_out.split(part, owners, now);
    }

    /// Returns whether left out paths of a group are covered by its token.
    pub(super) fn leaves_out_covered(&self, index: usize) -> bool {
        let left_out = self.groups.get(index).map(|group| group.left_out.as_slice()).unwrap_or_default();
        left_out.iter().any(|path| self.left_out.has(path) && self.is_covered(path))
    }

    /// Returns the paths that the last poll did not poll. Lost: the tokens no longer cover the path, or it is in
    /// back-off, in which no replica would poll it. Left: the tokens cover the path as before. `is_complete` is whether
    /// the poll has called the provider for everything else.
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
        // Paths that returned to their group after it was polled.
        let unpolled = self.groups.iter().flat_map(|group| group.watched.iter().map(|(_, path)| path));
        let unpolled = unpolled.filter(|path| !self.is_covered(path));
        let left = self.left_out.watched().chain(of_groups).chain(unpolled).map(text);
        let left = left.filter(|path| !lost.contains(path)).collect();
        Unserved { lost, left }
    }
}

/// The paths that a poll for all replicas did not poll.
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

    type Fault = String;

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

    /// Polls a provider that fails for some paths, until there is nothing left to call. Returns the number of failed
    /// calls, and the paths that were not polled.
    fn poll(groups: &mut SharedGroups<Fault>, bad: &[usize], now: Instant) -> (usize, Unserved) {
        let (mut failed, mut unanswered) = (0, BTreeSet::new());
        let is_bad = |paths: &[Path]| paths.iter().any(|path| bad.contains(&path.as_str().parse().unwrap()));
        let fault = || "bad".to_owned();
        let ask = |groups: &mut SharedGroups<Fault>, failed: &mut usize| {
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
            let mut groups = SharedGroups::<Fault>::new(10_000, 7, tokens());
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
        assert_eq!(SharedGroups::<Fault>::new(10_000, 7, vec![None; 3]).tokens(), [None], "no host writes three");
    }

    #[test]
    fn a_path_stays_with_the_token_that_knows_of_it() {
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![None]), Instant::now());
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
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, Vec::new()), Instant::now());
        groups.set_watched(watched(0..100), now);
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
        for _ in 0..3 {
            groups.set_watched(watched(0..101), now);
            let group = |groups: &SharedGroups<Fault>| groups.call(0).unwrap().0.len();
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
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, Vec::new()), Instant::now());
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
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![Some("t".to_owned())]), Instant::now());
        groups.set_watched(watched(0..10), now);
        assert_eq!(poll(&mut groups, &[3], now).1, unserved([3], []));
        // No replica relies on paths without a token.
        let mut groups = SharedGroups::<Fault>::new(10_000, 7, vec![None]);
        groups.set_watched(watched(0..10), now);
        assert_eq!(poll(&mut groups, &[3], now).1, unserved([], [3]));
    }

    #[test]
    fn many_paths_of_one_replica_that_fail_leave_the_others_theirs() {
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![Some("t".to_owned())]), Instant::now());
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
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, Vec::new()), Instant::now());
        groups.set_watched(watched(0..900), now);
        (0..groups.len()).for_each(|index| groups.record_answer(index, "t".to_owned()));
        let fault = || "too many".to_owned();
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
    fn a_group_of_too_many_paths_that_cannot_be_halved_leaves_some_out_and_is_not_called_again_and_again() {
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![None; MAX_GROUPS]), Instant::now());
        groups.set_watched(watched(0..640), now);
        let mut failed = 0;
        for index in 0..groups.len() {
            while let Some((paths, _)) = groups.call(index) {
                if paths.len() <= 8 {
                    groups.record_answer(index, "t".to_owned());
                    break;
                }
                failed += 1;
                assert!(groups.record_failure(index, "too many".to_owned(), Duration::ZERO, now));
                while let Some((part, paths)) = groups.next_part(now) {
                    match paths.len() <= 8 {
                        true => groups.admit(part),
                        false => groups.record_failed_part(part, "too many".to_owned(), Duration::ZERO, now),
                    }
                }
            }
        }
        assert!(failed <= 4 * groups.len(), "{failed} calls have failed");
        let Unserved { lost, left } = groups.unserved(true, &BTreeSet::new(), now);
        let polled: usize = (0..groups.len()).map(|index| groups.polled(index).watched.len()).sum();
        assert!(polled >= 4 * groups.len() && lost.is_empty() && polled + left.len() == 640, "{polled} {}", left.len());
    }

    #[test]
    fn what_returns_to_a_group_that_was_polled_before_is_not_covered() {
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![Some("t".to_owned()); 2]), Instant::now());
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
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![Some("t".to_owned()); 32]), Instant::now());
        groups.set_watched(watched(0..5), now);
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
        let alone = (1..32).find(|index| groups.call(*index).is_some_and(|(paths, _)| paths.len() == 1)).unwrap();
        let number: usize = groups.call(alone).unwrap().0[0].as_str().parse().unwrap();
        groups.set_watched(watched(0..5), now);
        assert_eq!(poll(&mut groups, &[number], now).1, unserved([number], []));
    }

    #[test]
    fn a_lease_that_is_lost_loses_nothing_of_what_was_left_out() {
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![None]), Instant::now());
        groups.set_watched(watched(0..10), now);
        assert_eq!(poll(&mut groups, &[], now), (0, Unserved::default()));
        groups.set_watched(watched(0..10), now);
        assert!(groups.record_failure(0, "down".to_owned(), Duration::ZERO, now));
        assert!(groups.leaves_out_covered(0));
        let mut own = groups.into_own::<ReplicaId>(10_000);
        own.set_watched(watched(0..10).into_iter().map(|(uri, path, _)| (uri, path)).collect(), now);
        assert!(watched(0..10).iter().all(|(_, path, _)| own.is_covered(path)), "its token has not moved");
    }

    #[test]
    fn this_replica_alone_goes_on_with_the_same_tokens() {
        let (mut groups, now) = (SharedGroups::<Fault>::new(10_000, 7, vec![Some("t".to_owned()); 2]), Instant::now());
        groups.set_watched(watched(0..10), now);
        poll(&mut groups, &[3], now);
        groups.set_watched(watched(0..10), now);
        let mut own = groups.into_own::<ReplicaId>(10_000);
        own.set_watched(watched(0..10).into_iter().map(|(uri, path, _)| (uri, path)).collect(), now);
        for (_, path, _) in watched(0..10) {
            assert_eq!(own.is_covered(&path), path.as_str() != "3", "{path}");
        }
        assert!(own.last_token().is_some());
    }
}
