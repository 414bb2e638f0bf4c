//! Groups of watched paths, each small enough for one call of `changes`.
//!
//! Clients determine how many paths are watched, but one call must stay bounded: a provider receives all paths as its
//! argument, may inspect each, and returns one token of at most 64 KiB and at most `limits.response-items` changes. So
//! paths are partitioned into groups of at most [`MAX_GROUP_PATHS`] paths, or half of `limits.response-items`, up to
//! [`MAX_GROUPS`] groups, and each group has its own token. A path stays in its group while it is watched, because
//! tokens cannot be merged.
//!
//! **A group that fails** is [`split`], so that the paths that make a provider fail are isolated. A failed group has
//! its own back-off and gets no new paths. Its paths stay in it for [`MEMORY`] after they are no longer watched, at
//! most [`MAX_REMEMBERED`] of them, so that subscribing again does not move them into a working group.
//!
//! If one replica polls for all, it has [other groups](super::shared_groups). Paths that those leave out are divided
//! here, by the replicas that want them instead of by clients.

mod split;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_model::uri::{Path, Uri};
use tokio::time::Instant;

/// The maximum number of paths in a group.
pub(super) const MAX_GROUP_PATHS: usize = 1000;
/// The number of groups, and thus tokens, of one plugin up to which new paths begin a new group.
pub(super) const MAX_GROUPS: usize = 64;
/// The time after its last failure for which a group keeps paths that are no longer watched.
pub(super) const MEMORY: Duration = Duration::from_mins(5);
/// The maximum number of such paths.
const MAX_REMEMBERED: usize = 4096;
/// The back-off of a group after failures.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// Identifies a group. Ids are not reused.
pub type GroupId = u64;

/// All watched paths of one plugin, each requested by some clients `C`.
pub struct PathGroups<C, F> {
    groups: BTreeMap<GroupId, PathGroup<C, F>>,
    members: HashMap<Path, Member>,
    next_id: GroupId,
    max_paths: usize,
    /// The minimum and maximum back-off of a group.
    backoff: (Duration, Duration),
    /// The token of the last answer, which the listing is compared with.
    last_token: Option<String>,
}

/// The place of a path.
struct Member {
    group: GroupId,
    /// Whether the group's token covers the path. A reported change of an uncovered path only means that the path is
    /// new.
    is_covered: bool,
    is_watched: bool,
    /// Whether to notify the path once its group has an answer, because changes until then are unknown.
    is_owed: bool,
}

/// The paths of one call of `changes`.
pub(super) struct PathGroup<C, F> {
    /// The state up to which changes are known; `None` before the first poll.
    pub(super) token: Option<String>,
    /// Whether the token is another replica's, which may cover any path.
    pub(super) covers_others: bool,
    /// The paths of the next poll.
    pub(super) watched: Vec<(Uri, Path)>,
    /// The duration of the last call.
    pub(super) took: Duration,
    /// The last call.
    polled_at: Option<Instant>,
    /// Its failures, if it is the result of a split or failed the last time.
    pub(super) failure: Option<GroupFailure<F>>,
    /// The client that all its paths belong to, if there is only one. Known after a split.
    client: Option<C>,
}

impl<C, F> Default for PathGroup<C, F> {
    fn default() -> Self {
        Self {
            token: None,
            covers_others: false,
            watched: Vec::new(),
            took: Duration::ZERO,
            polled_at: None,
            failure: None,
            client: None,
        }
    }
}

/// The failures of a group.
pub struct GroupFailure<F> {
    backoff: Backoff,
    /// The end of the back-off. The group is not polled earlier.
    pub until: Instant,
    /// The last fault of the group, or of the group that it was split from.
    pub fault: F,
}

impl<C: Clone + Eq + Hash, F: Clone> PathGroups<C, F> {
    /// Creates no groups yet, for a plugin with this `limits.response-items`.
    pub(super) fn new(max_items: usize) -> Self {
        Self::with_backoff(max_items, MIN_BACKOFF, MAX_BACKOFF)
    }

    /// Like [`new`](Self::new), with bounds of the back-off of a failed group.
    pub(super) fn with_backoff(max_items: usize, min: Duration, max: Duration) -> Self {
        let max_paths = max_group_paths(max_items);
        let (groups, members) = (BTreeMap::new(), HashMap::new());
        Self { groups, members, next_id: 0, max_paths, backoff: (min, max), last_token: None }
    }

    /// Adds a group with a token that may or may not cover these paths, and perhaps others. The `owed` paths are
    /// notified in any case once the group has an answer.
    pub(super) fn add_with_token(
        &mut self,
        token: Option<String>,
        covers_others: bool,
        paths: Vec<(Path, bool)>,
        owed: Vec<Path>,
    ) {
        let group = self.add(PathGroup { token, covers_others, ..PathGroup::default() });
        let member = |is_covered, is_owed| Member { group, is_covered, is_watched: true, is_owed };
        self.members.extend(paths.into_iter().map(|(path, is_covered)| (path, member(is_covered, false))));
        self.members.extend(owed.into_iter().map(|path| (path, member(false, true))));
    }

    /// Removes all tokens: changes are reported from the next poll on. Failed paths stay known.
    pub(super) fn forget_tokens(&mut self) {
        self.groups.retain(|_, group| group.failure.is_some());
        let groups = &self.groups;
        self.members.retain(|_, member| groups.contains_key(&member.group));
        self.groups.values_mut().for_each(|group| (group.token, group.covers_others) = (None, false));
        self.members.values_mut().for_each(|member| member.is_covered = false);
        self.last_token = None;
    }

    /// Removes all paths. The token for the listing is kept, so the next poll, whenever it runs, reports changes of the
    /// listing.
    pub(super) fn forget_paths(&mut self) {
        self.groups.clear();
        self.members.clear();
    }

    /// Returns the token of the last answer.
    pub(super) fn last_token(&self) -> Option<&str> {
        self.last_token.as_deref()
    }

    /// Stores the token of an answer for the listing only.
    pub(super) fn set_last_token(&mut self, token: String) {
        self.last_token = Some(token);
    }

    /// Sets the paths of the next poll.
    pub(super) fn set_watched(&mut self, watched: Vec<(Uri, Path)>, now: Instant) {
        self.begin_watched();
        let new = self.watch_known(watched);
        self.watch_new(new);
        self.forget_unwatched(now);
    }

    /// Begins to set the paths of the next poll in batches: first all paths that are [known](Self::watch_known), then
    /// the [new](Self::watch_new) ones. [`forget_unwatched`](Self::forget_unwatched) ends it.
    pub(super) fn begin_watched(&mut self) {
        for group in self.groups.values_mut() {
            group.watched.clear();
        }
        self.members.values_mut().for_each(|member| member.is_watched = false);
    }

    /// Adds watched paths to their groups. Returns those that have none.
    pub(super) fn watch_known(&mut self, watched: impl IntoIterator<Item = (Uri, Path)>) -> Vec<(Uri, Path)> {
        let mut new = Vec::new();
        for (uri, path) in watched {
            match self.members.get_mut(&path) {
                Some(member) => {
                    member.is_watched = true;
                    if let Some(group) = self.groups.get_mut(&member.group) {
                        group.watched.push((uri, path));
                    }
                }
                None => new.push((uri, path)),
            }
        }
        new
    }

    /// Adds watched paths that have no group.
    pub(super) fn watch_new(&mut self, new: impl IntoIterator<Item = (Uri, Path)>) {
        let mut open = None;
        for (uri, path) in new {
            let has_room = |group: &PathGroup<C, F>, max: usize| group.failure.is_none() && group.watched.len() < max;
            open = open.filter(|id| self.groups.get(id).is_some_and(|group| has_room(group, self.max_paths)));
            let id = match open.or_else(|| self.with_room()) {
                Some(id) => id,
                // With the last token, so that a change of the listing since then is reported, also after a time
                // without subscribers.
                None => self.add(PathGroup { token: self.last_token.clone(), ..PathGroup::default() }),
            };
            open = Some(id);
            if let Some(group) = self.groups.get_mut(&id) {
                group.watched.push((uri, path.clone()));
                let member = Member { group: id, is_covered: false, is_watched: true, is_owed: false };
                self.members.insert(path, member);
            }
        }
    }

    /// Returns the group for a new path: one with room, or the smallest if there are too many groups. None means a new
    /// group.
    fn with_room(&self) -> Option<GroupId> {
        let works = self.groups.iter().filter(|(_, group)| group.failure.is_none());
        let (count, smallest) = works.fold((0_usize, None::<(usize, GroupId)>), |(count, smallest), (id, group)| {
            let this = (group.watched.len(), *id);
            (count.saturating_add(1), Some(smallest.map_or(this, |smallest| smallest.min(this))))
        });
        smallest.filter(|(len, _)| *len < self.max_paths || count >= MAX_GROUPS).map(|(_, id)| id)
    }

    /// Removes unwatched paths, except in failed groups, and groups without a path.
    pub(super) fn forget_unwatched(&mut self, now: Instant) {
        let groups = &self.groups;
        let is_remembered = |member: &Member| {
            let failure = groups.get(&member.group).and_then(|group| group.failure.as_ref());
            failure.is_some_and(|failure| failure.until.checked_add(MEMORY).is_none_or(|end| now < end))
        };
        let mut remembered = 0_usize;
        self.members.retain(|_, member| {
            if member.is_watched {
                return true;
            }
            // An answer to a call without the path advances the token.
            (member.is_covered, member.is_owed) = (false, false);
            remembered = remembered.saturating_add(1);
            remembered <= MAX_REMEMBERED && is_remembered(member)
        });
        let used: HashSet<_> = self.members.values().map(|member| member.group).collect();
        self.groups.retain(|id, _| used.contains(id));
    }

    fn add(&mut self, group: PathGroup<C, F>) -> GroupId {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        self.groups.insert(id, group);
        id
    }

    /// Returns the groups for a regular poll: those without failures, quick ones first, and among equals the least
    /// recently polled first. Failed groups follow when they are [due](Self::next_due).
    pub(super) fn working(&self, is_slow: impl Fn(Duration) -> bool) -> Vec<GroupId> {
        let works = self.groups.iter().filter(|(_, group)| group.failure.is_none());
        let mut order: Vec<_> = works.map(|(id, group)| ((is_slow(group.took), group.polled_at), *id)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the due group whose back-off ended first; among equals, the one with the fewest paths. Without
    /// `may_retry`, considers only groups that a split has just made of a group that worked before.
    pub(super) fn next_due(&self, now: Instant, may_retry: bool) -> Option<GroupId> {
        let has_worked = |group: &PathGroup<C, F>| group.watched.iter().any(|(_, path)| self.is_covered(path));
        let due = self.groups.iter().filter_map(|(id, group)| {
            let failure = group.failure.as_ref().filter(|failure| failure.until <= now)?;
            let is_due = may_retry || (group.polled_at.is_none() && has_worked(group));
            (is_due && !group.watched.is_empty()).then_some((failure.until, group.watched.len(), *id))
        });
        due.min().map(|(.., id)| id)
    }

    /// Returns when the first back-off of a group with watched paths ends.
    pub fn next_retry(&self) -> Option<Instant> {
        let failing = self.groups.values().filter(|group| !group.watched.is_empty());
        failing.filter_map(|group| Some(group.failure.as_ref()?.until)).min()
    }

    /// Returns whether each group with watched paths was answered since a time.
    pub(super) fn is_polled_since(&self, since: Instant) -> bool {
        self.unanswered_since(since).next().is_none()
    }

    /// Returns the watched paths of groups that were not answered since a time.
    pub(super) fn unanswered_since(&self, since: Instant) -> impl Iterator<Item = &Path> {
        let is_unanswered =
            move |group: &&PathGroup<C, F>| group.failure.is_some() || group.polled_at.is_none_or(|at| at < since);
        let unanswered = self.groups.values().filter(is_unanswered);
        unanswered.flat_map(|group| group.watched.iter().map(|(_, path)| path))
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&PathGroup<C, F>> {
        self.groups.get(&id)
    }

    /// Returns whether the token of its group covers a path.
    pub(super) fn is_covered(&self, path: &Path) -> bool {
        self.members.get(path).is_some_and(|member| member.is_covered)
    }

    /// Returns whether there is such a path, watched or remembered.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.members.contains_key(path)
    }

    /// Returns the watched paths of groups in back-off.
    pub(super) fn pausing(&self, now: Instant) -> impl Iterator<Item = &Path> {
        let is_pausing =
            move |group: &&PathGroup<C, F>| group.failure.as_ref().is_some_and(|failure| failure.until > now);
        self.groups.values().filter(is_pausing).flat_map(|group| group.watched.iter().map(|(_, path)| path))
    }

    /// The watched paths.
    pub(super) fn watched(&self) -> impl Iterator<Item = &Path> {
        self.groups.values().flat_map(|group| group.watched.iter().map(|(_, path)| path))
    }

    /// Marks each watched path that its group's token does not cover, so that it is notified once its group has an
    /// answer.
    pub(super) fn owe_uncovered(&mut self) {
        self.members.values_mut().for_each(|member| member.is_owed |= member.is_watched && !member.is_covered);
    }

    /// Removes a group, and returns its watched paths.
    pub(super) fn remove(&mut self, id: GroupId) -> Vec<(Uri, Path)> {
        self.members.retain(|_, member| member.group != id);
        self.groups.remove(&id).map(|group| group.watched).unwrap_or_default()
    }

    /// Adds a group of paths that have failed together, so that it will be split.
    pub(super) fn add_failed(&mut self, watched: Vec<(Uri, Path)>, fault: F, took: Duration, now: Instant) -> GroupId {
        let paths: Vec<_> = watched.iter().map(|(_, path)| path.clone()).collect();
        let group = self.add(PathGroup { watched, ..PathGroup::default() });
        let member = Member { group, is_covered: false, is_watched: true, is_owed: false };
        self.members.extend(paths.into_iter().map(|path| (path, Member { ..member })));
        self.record_failure(group, fault, took, now);
        group
    }

    /// Returns the paths that an answer about a group concerns.
    pub(super) fn polled(&self, id: GroupId) -> Polled<'_> {
        let Some(group) = self.groups.get(&id) else { return Polled::default() };
        let new = self.uncovered(id);
        let is_owed = |path: &Path| self.members.get(path).is_some_and(|member| member.is_owed);
        let owed = new.iter().map(|(_, path)| path).filter(|path| is_owed(path)).cloned().collect();
        Polled {
            watched: &group.watched,
            new,
            owed,
            covers_others: group.covers_others,
            is_first: self.last_token.is_none(),
        }
    }

    /// Returns the watched paths of a group that its token does not cover.
    pub(super) fn uncovered(&self, id: GroupId) -> Vec<(Uri, Path)> {
        let watched = self.groups.get(&id).map(|group| group.watched.as_slice()).unwrap_or_default();
        watched.iter().filter(|(_, path)| !self.is_covered(path)).cloned().collect()
    }

    /// Stores the answer to a call for all watched paths of a group.
    pub(super) fn record_answer(&mut self, id: GroupId, token: String, took: Duration, now: Instant) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.token = Some(token.clone());
        (group.covers_others, group.failure) = (false, None);
        (group.took, group.polled_at) = (took, Some(now));
        for (_, path) in &group.watched {
            if let Some(member) = self.members.get_mut(path) {
                (member.is_covered, member.is_owed) = (true, false);
            }
        }
        self.last_token = Some(token);
    }

    /// Records the failure of a call for a group, which is polled again after its back-off.
    pub(super) fn record_failure(&mut self, id: GroupId, fault: F, took: Duration, now: Instant) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let new = || GroupFailure::new(fault.clone(), now, self.backoff);
        let mut failure = group.failure.take().unwrap_or_else(new);
        failure.fault = fault;
        failure.until = now.checked_add(failure.backoff.next_delay()).unwrap_or(now);
        (group.took, group.polled_at, group.failure) = (took, Some(now), Some(failure));
    }

    /// Returns the failed groups with watched paths.
    pub(super) fn failing(&self) -> impl Iterator<Item = (GroupId, &GroupFailure<F>)> {
        let failing = self.groups.iter().filter(|(_, group)| !group.watched.is_empty());
        failing.filter_map(|(id, group)| Some((*id, group.failure.as_ref()?)))
    }
}

impl<F> GroupFailure<F> {
    fn new(fault: F, now: Instant, (min, max): (Duration, Duration)) -> Self {
        Self { backoff: Backoff::new(min, max), until: now, fault }
    }
}

/// The paths that an answer concerns.
#[derive(Default)]
pub struct Polled<'a> {
    /// The paths of the call.
    pub watched: &'a [(Uri, Path)],
    /// The paths that the token did not cover. A change of these only means that they are new.
    pub new: Vec<(Uri, Path)>,
    /// The new paths that are notified in any case.
    pub(super) owed: Vec<Path>,
    /// Whether the token was another replica's, which may cover any path.
    pub(super) covers_others: bool,
    /// Whether no state of the listing was known before.
    pub is_first: bool,
}

/// Returns the maximum number of paths in one call to a plugin with this `limits.response-items`.
pub(super) fn max_group_paths(max_items: usize) -> usize {
    (max_items / 2).clamp(1, MAX_GROUP_PATHS)
}

#[cfg(test)]
mod tests {
    use super::split::MAX_GROUPS_OF_CLIENT;
    use super::*;
    use mcp_host_model::uri::Mount;

    type Client = String;
    type Fault = String;

    fn watched(numbers: std::ops::Range<usize>) -> Vec<(Uri, Path)> {
        let mount: Mount = "a://x/".parse().unwrap();
        let located = numbers.map(|number| mount.compose(&number.to_string()).unwrap());
        located.map(|located| (located.uri, located.path)).collect()
    }

    fn groups() -> PathGroups<Client, Fault> {
        PathGroups::new(10_000)
    }

    fn client(name: &str) -> Client {
        name.to_owned()
    }

    fn sizes(groups: &PathGroups<Client, Fault>) -> Vec<usize> {
        groups.groups.values().map(|group| group.watched.len()).collect()
    }

    fn ids(groups: &PathGroups<Client, Fault>) -> Vec<GroupId> {
        groups.groups.keys().copied().collect()
    }

    #[test]
    fn few_paths_are_one_group_and_many_are_as_many_as_it_takes() {
        let (mut groups, now) = (groups(), Instant::now());
        for (count, expected) in [(0, 0), (1000, 1), (1001, 2), (5000, 5), (10, 1), (100_000, 64)] {
            groups.set_watched(watched(0..count), now);
            let sizes = sizes(&groups);
            assert_eq!(sizes.len(), expected, "{count}");
            assert_eq!(sizes.iter().sum::<usize>(), count);
            assert!(sizes.iter().all(|size| *size <= count.div_ceil(64).max(1000)), "{sizes:?}");
        }
    }

    #[test]
    fn a_path_stays_with_the_token_that_knows_of_it() {
        {
            let (mut groups, now) = (groups(), Instant::now());
            for (round, count) in [500, 3000, 20_000].into_iter().enumerate() {
                groups.set_watched(watched(0..count), now);
                for (_, path) in watched(0..500) {
                    assert_eq!(groups.is_covered(&path), round > 0, "{path}");
                    let group = groups.get(groups.members[&path].group).unwrap();
                    assert_eq!(group.token.is_some(), round > 0);
                }
                for id in ids(&groups) {
                    groups.record_answer(id, format!("{round} {id}"), Duration::ZERO, now);
                }
            }
        }
    }

    /// Fails and splits the groups that contain a bad path, until nothing changes. Returns the number of failed calls.
    fn isolate(groups: &mut PathGroups<Client, Fault>, bad: &[Path], client: impl Fn(&Path) -> Client) -> usize {
        let (mut failed, now) = (0, Instant::now());
        let fault = "bad".to_owned();
        loop {
            let is_bad = |group: &PathGroup<Client, Fault>| group.watched.iter().any(|(_, path)| bad.contains(path));
            let failing = ids(groups).into_iter().filter(|id| is_bad(groups.get(*id).unwrap()));
            let mut has_split = false;
            for id in failing.collect::<Vec<_>>() {
                let clients = groups.get(id).unwrap().watched.iter().map(|(_, path)| client(path)).collect();
                groups.record_failure(id, fault.clone(), Duration::ZERO, now);
                failed += 1;
                has_split |= groups.split(id, clients, now).is_some();
            }
            for id in ids(groups).into_iter().filter(|id| !is_bad(groups.get(*id).unwrap())).collect::<Vec<_>>() {
                groups.record_answer(id, "t".to_owned(), Duration::ZERO, now);
            }
            if !has_split {
                return failed;
            }
        }
    }

    #[test]
    fn a_path_that_fails_is_isolated_and_the_others_are_polled() {
        let mut groups = groups();
        let all = watched(0..1000);
        groups.set_watched(all.clone(), Instant::now());
        let bad = vec![all[437].1.clone()];
        let failed = isolate(&mut groups, &bad, |_| client("ada"));
        assert!(failed <= 11, "{failed} calls have failed");
        assert!(groups.groups.len() <= MAX_GROUPS_OF_CLIENT + 1, "{}", groups.groups.len());
        let failing: Vec<_> = groups.groups.values().filter(|group| group.failure.is_some()).collect();
        assert_eq!(failing.len(), 1);
        assert_eq!(failing[0].watched, [all[437].clone()]);
        assert_eq!(all.iter().filter(|(_, path)| !groups.is_covered(path)).count(), 1);
    }

    #[test]
    fn many_paths_of_one_client_that_fail_leave_the_others_theirs() {
        let mut groups = groups();
        let all = watched(0..1000);
        groups.set_watched(all.clone(), Instant::now());
        let number = |path: &Path| path.as_str().parse::<usize>().unwrap();
        // Twenty clients have one path each.
        let client = |path: &Path| match number(path) {
            one if one % 50 == 0 => client(&format!("client {one}")),
            _ => client("mallory"),
        };
        let bad: Vec<_> = all.iter().map(|(_, path)| path.clone()).filter(|path| number(path) % 50 != 0).collect();
        isolate(&mut groups, &bad, client);
        for (_, path) in all.iter().filter(|(_, path)| !bad.contains(path)) {
            assert!(groups.is_covered(path), "{path}");
        }
        assert!(groups.groups.len() <= MAX_GROUPS_OF_CLIENT + 2, "{}", groups.groups.len());
    }

    #[test]
    fn new_paths_that_fail_are_separated_from_those_that_were_polled_and_do_not_come_back() {
        let (mut groups, now) = (groups(), Instant::now());
        groups.set_watched(watched(0..100), now);
        groups.record_answer(0, "t".to_owned(), Duration::ZERO, now);
        groups.set_watched(watched(0..101), now);
        assert_eq!(sizes(&groups), [101]);
        let bad = vec![watched(100..101)[0].1.clone()];
        assert_eq!(isolate(&mut groups, &bad, |_| client("ada")), 2, "with the others, and alone");
        assert_eq!(sizes(&groups), [100, 1]);
        // The failing path is subscribed to in a loop.
        for _ in 0..3 {
            groups.set_watched(watched(0..100), now);
            groups.set_watched(watched(0..102), now);
            assert_eq!(sizes(&groups), [101, 1]);
        }
        let later = now + MAX_BACKOFF * 2 + MEMORY;
        groups.set_watched(watched(0..100), later);
        assert_eq!(sizes(&groups), [100]);
    }

    /// Each path is watched briefly, and fails.
    #[test]
    fn new_paths_that_fail_again_and_again_never_take_those_that_work_with_them() {
        let (mut groups, now) = (groups(), Instant::now());
        let (all, fault) = (watched(0..700), "bad".to_owned());
        for bad in 100..700 {
            let mut now_watched = all[..100].to_vec();
            now_watched.push(all[bad].clone());
            groups.set_watched(now_watched, now);
            for id in groups.working(|_| false) {
                let group = groups.get(id).unwrap();
                if !group.watched.iter().any(|(_, path)| *path == all[bad].1) {
                    groups.record_answer(id, "t".to_owned(), Duration::ZERO, now);
                    continue;
                }
                let of = |path: &Path| if *path == all[bad].1 { "mallory" } else { "ada" };
                let clients = group.watched.iter().map(|(_, path)| client(of(path))).collect();
                groups.record_failure(id, fault.clone(), Duration::ZERO, now);
                let works = groups.split(id, clients, now);
                if bad > 100 {
                    let works = works.flatten().expect("the others are in a group that works");
                    groups.record_answer(works, "t".to_owned(), Duration::ZERO, now);
                } else {
                    let first = groups.groups.iter().find(|(_, group)| group.watched.len() > 1).map(|(id, _)| *id);
                    groups.record_answer(first.unwrap(), "t".to_owned(), Duration::ZERO, now);
                }
            }
            assert!(all[..100].iter().all(|(_, path)| groups.is_covered(path)), "{bad}");
            assert!(groups.groups.len() <= MAX_GROUPS_OF_CLIENT + 1, "{bad}: {}", groups.groups.len());
        }
    }

    #[test]
    fn a_path_that_is_watched_again_after_a_failure_is_new() {
        let (mut groups, now) = (groups(), Instant::now());
        groups.set_watched(watched(0..2), now);
        groups.record_answer(0, "t".to_owned(), Duration::ZERO, now);
        groups.record_failure(0, String::new(), Duration::ZERO, now);
        groups.set_watched(watched(0..1), now);
        groups.record_answer(0, "without it".to_owned(), Duration::ZERO, now);
        groups.set_watched(watched(0..2), now);
        let paths = watched(0..2);
        assert_eq!([0, 1].map(|index: usize| groups.is_covered(&paths[index].1)), [true, false]);
    }

    #[test]
    fn after_a_time_without_paths_the_listing_is_compared_with_the_last_answer() {
        let (mut groups, now) = (groups(), Instant::now());
        groups.set_watched(watched(0..1), now);
        assert_eq!(groups.get(0).unwrap().token, None);
        groups.record_answer(0, "t".to_owned(), Duration::ZERO, now);
        groups.forget_paths();
        groups.set_watched(watched(0..1), now);
        assert_eq!(groups.get(1).unwrap().token.as_deref(), Some("t"));
        assert!(!groups.is_covered(&watched(0..1)[0].1));
    }

    #[test]
    fn what_has_failed_waits_and_is_polled_again() {
        let (mut groups, now) = (groups(), Instant::now());
        groups.set_watched(watched(0..1), now);
        assert_eq!(groups.working(|_| false), [0]);
        groups.record_failure(0, String::new(), Duration::ZERO, now);
        assert_eq!((groups.working(|_| false), groups.next_due(now, true)), (vec![], None));
        let retry = groups.next_retry().unwrap();
        assert!(retry > now && groups.next_due(retry, true) == Some(0));
        assert_eq!(groups.next_due(retry, false), None, "it was polled");
        groups.record_answer(0, "t".to_owned(), Duration::ZERO, retry);
        assert_eq!((groups.working(|_| false), groups.next_retry()), (vec![0], None));
    }

    #[test]
    fn quick_groups_come_first_and_slow_ones_in_turn() {
        let (mut groups, now) = (groups(), Instant::now());
        groups.set_watched(watched(0..3000), now);
        let second = Duration::from_secs(1);
        groups.record_answer(0, "t".to_owned(), second, now + second);
        groups.record_answer(1, "t".to_owned(), second, now);
        groups.record_answer(2, "t".to_owned(), Duration::ZERO, now + second * 2);
        assert_eq!(groups.working(|took| took >= second), [2, 1, 0]);
    }
}
