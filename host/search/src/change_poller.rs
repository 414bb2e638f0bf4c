//! Polls a provider for changes of the indexed resources.
//!
//! Resources are watched in groups, in the order of the listing. Each group has its own token, so the number of paths
//! of a call is bounded. The first poll of a group precedes the reads of its resources, so that a later change is
//! reported. A walk of an unchanged listing keeps the groups and their tokens, and makes no calls except polls.
//!
//! A walk collects the paths of each group again. A poll during the walk returns a new token. Until the walk ends, each
//! call therefore also includes the paths that the previous token covers; otherwise the new token would skip their
//! changes.
//!
//! A provider may scan all its resources in one call, so a call may take long. Groups are therefore polled in turn, for
//! [`POLL_TIME`] at a time: a few groups at each interval, many groups over several intervals.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use mcp_host_engine::plugin::Plugin;
use mcp_host_model::resource::WatchedChanges;
use mcp_host_model::uri::Path;

/// The maximum number of paths of a group, unless half of `limits.response-items` is less.
const MAX_GROUP: usize = 1000;
/// The maximum number of paths of a group during a walk, including paths of the previous walk.
const MAX_GROUP_IN_WALK: usize = 2 * MAX_GROUP;
/// The maximum number of resources that are watched individually. Changes of other resources are detected in the
/// listing.
const MAX_WATCHED: usize = 16_000;
/// The time after which a poll leaves the remaining groups to the next poll.
const POLL_TIME: Duration = Duration::from_millis(250);
/// The bounds of a provider's hint for the next poll, extended to the configured interval if that lies outside of them.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
const MAX_INTERVAL: Duration = Duration::from_mins(5);

/// Paths that one call watches.
#[derive(Default)]
struct WatchedGroup {
    paths: Vec<Path>,
    /// The state up to which changes are known. None before the first call.
    token: Option<String>,
    /// The paths that the token covers. For another path, a change only means that it is newly watched.
    token_paths: HashSet<Path>,
    /// Whether `token_paths` equals `paths`, as from the first poll after a walk on.
    covers_paths: bool,
}

impl WatchedGroup {
    /// The paths of a call. During a walk they include the paths that the token covers, unless there are too many: the
    /// paths of failed walks with different listings would accumulate.
    fn polled_paths(&self, is_walking: bool) -> Cow<'_, [Path]> {
        if !is_walking {
            return Cow::Borrowed(&self.paths);
        }
        let met: HashSet<&Path> = self.paths.iter().collect();
        let mut others: Vec<_> = self.token_paths.iter().filter(|path| !met.contains(path)).collect();
        if others.len().saturating_add(self.paths.len()) > MAX_GROUP_IN_WALK {
            others.clear();
        }
        others.sort_unstable();
        self.paths.iter().chain(others).cloned().collect()
    }
}

/// The watched resources with their tokens, and their changes.
pub(super) struct ChangePoller {
    /// The groups, at least one.
    groups: Vec<WatchedGroup>,
    /// The group that the walk has reached, and the number of its paths so far.
    current: usize,
    watched: usize,
    is_walking: bool,
    /// The first group of the next poll.
    next: usize,
    max_group: usize,
    hint: Option<Duration>,
    /// The resources that have changed.
    pub(super) changed: BTreeSet<Path>,
    /// Whether the listing has changed since the walk began.
    pub(super) listing_changed: bool,
    /// Whether the last poll got the changes of all groups.
    is_complete: bool,
}

impl ChangePoller {
    /// Creates a poller for a plugin, without watched resources.
    pub(super) fn new(plugin: &Plugin) -> Self {
        Self {
            groups: vec![WatchedGroup::default()],
            current: 0,
            watched: 0,
            is_walking: false,
            next: 0,
            max_group: (plugin.max_items() / 2).clamp(1, MAX_GROUP),
            hint: None,
            changed: BTreeSet::new(),
            listing_changed: false,
            is_complete: false,
        }
    }

    /// Begins a walk. Changes of the listing from now on are detected.
    pub(super) async fn begin_walk(&mut self, plugin: &Plugin) {
        (self.current, self.watched, self.is_walking, self.listing_changed) = (0, 0, true, false);
        for group in &mut self.groups {
            group.paths.clear();
            group.covers_paths = false;
        }
        if self.groups.first().is_some_and(|first| first.token.is_none()) {
            self.poll_group(plugin, 0).await;
        }
    }

    /// Watches the next resources of a walk. Changes from now on are detected. Returns whether any of them was not
    /// watched before.
    pub(super) async fn watch(&mut self, plugin: &Plugin, paths: Vec<Path>) -> bool {
        let len = self.groups.get(self.current).map_or(0, |group| group.paths.len());
        self.watched = self.watched.saturating_add(paths.len());
        if paths.is_empty() || self.watched > MAX_WATCHED || !plugin.info().watches {
            return false;
        }
        if len > 0 && len.saturating_add(paths.len()) > self.max_group {
            self.current = self.current.saturating_add(1);
        }
        if self.current >= self.groups.len() {
            self.groups.push(WatchedGroup::default());
        }
        let Some(group) = self.groups.get_mut(self.current) else { return false };
        let has_new = paths.iter().any(|path| !group.token_paths.contains(path));
        group.paths.extend(paths);
        group.covers_paths = false;
        if has_new {
            self.poll_group(plugin, self.current).await;
        }
        has_new
    }

    /// Ends a walk: resources that it has not visited are no longer watched.
    pub(super) fn end_walk(&mut self) {
        self.is_walking = false;
        self.groups.truncate(self.current.saturating_add(1));
    }

    /// Polls the next groups. This may happen during a walk.
    pub(super) async fn poll(&mut self, plugin: &Plugin) {
        let began = Instant::now();
        (self.hint, self.is_complete) = (None, false);
        let mut is_complete = true;
        for polled in 1..=self.groups.len() {
            let index = self.next.checked_rem(self.groups.len()).unwrap_or_default();
            self.next = index.saturating_add(1);
            is_complete &= self.poll_group(plugin, index).await;
            if began.elapsed() >= POLL_TIME && polled < self.groups.len() {
                return;
            }
        }
        self.is_complete = is_complete;
    }

    /// Whether the last poll got the changes of all groups, and nothing of them is left to read or to compare.
    pub(super) fn is_current(&self) -> bool {
        self.is_complete && !self.listing_changed && self.changed.is_empty()
    }

    /// Polls one group, and returns whether that succeeded. Changes that a failed call does not report are reported by
    /// a later call.
    async fn poll_group(&mut self, plugin: &Plugin, index: usize) -> bool {
        let Some(group) = self.groups.get_mut(index).filter(|_| plugin.info().watches) else { return false };
        let asked = group.polled_paths(self.is_walking);
        let Ok(changes) = plugin.changes(&asked, group.token.as_deref()).await else { return false };
        let WatchedChanges { token, changed, listing_changed, poll_after } = changes;
        self.changed.extend(changed.into_iter().filter(|path| group.token_paths.contains(path)));
        self.listing_changed |= listing_changed && group.token.is_some();
        self.hint = self.hint.into_iter().chain(poll_after).min();
        let covered = (!group.covers_paths).then(|| asked.into_owned().into_iter().collect());
        group.token = Some(token);
        group.token_paths = covered.unwrap_or_else(|| std::mem::take(&mut group.token_paths));
        group.covers_paths = !self.is_walking;
        true
    }

    /// The pause before the next poll: the provider's hint, within bounds, or the configured interval.
    pub(super) fn interval(&self, configured: Duration) -> Duration {
        self.hint.map_or(configured, |hint| hint.clamp(MIN_INTERVAL.min(configured), MAX_INTERVAL.max(configured)))
    }
}
