//! The state that the poller of a provider and the task of its shard share: the member, and the events since the last
//! check.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_host_base::throttle::Throttle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::division::MAX_PATHS;
use crate::member::{Member, Time};

/// The maximum size of paths that wait for notification, in bytes.
pub const MAX_NEWS_BYTES: usize = 4 * 1024 * 1024;
/// The minimum time between two warnings that the record is invalid.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The events since the last check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Paths that have changed, wanted by this replica or by others.
    pub changed: BTreeSet<Arc<str>>,
    /// The size of these paths.
    bytes: usize,
    /// Whether everything counts as changed.
    pub all_changed: bool,
    /// Whether the listing may have changed.
    pub listing: bool,
    /// The number up to which all requests were served.
    pub completed: Option<u64>,
    /// The number up to which they were served by rounds that this replica [relies](Member::relies_on_rounds) on.
    pub relied: Option<u64>,
    /// Whether there may be something to poll.
    pub wake: bool,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, changed: Vec<Arc<str>>, listing: bool) {
        self.listing |= listing;
        for path in changed {
            let length = path.len();
            if self.changed.insert(path) {
                self.bytes = self.bytes.saturating_add(length);
            }
        }
        if self.changed.len() > MAX_PATHS || self.bytes > MAX_NEWS_BYTES {
            self.changed.clear();
            (self.all_changed, self.bytes) = (true, 0);
        }
    }
}

/// The state of one shard.
#[derive(Debug)]
pub(super) struct State {
    pub(super) start: Instant,
    member: Mutex<Member>,
    news: Mutex<News>,
    /// Notified when there are news, of this shard or of another one of the plugin.
    pub(super) has_news: Arc<Notify>,
    /// Notified when the member has something to do.
    pub(super) has_outputs: Notify,
    pub(super) closing: Notify,
    /// The number of invalid messages and records.
    pub(super) invalid: AtomicU64,
    /// The number of failed requests to the engine.
    pub(super) failed: AtomicU64,
    /// Limits warnings about invalid records.
    pub(super) invalid_log: Throttle,
}

impl State {
    pub(super) fn new(member: Member, has_news: Arc<Notify>) -> Self {
        Self {
            start: Instant::now(),
            member: Mutex::new(member),
            news: Mutex::default(),
            has_news,
            has_outputs: Notify::new(),
            closing: Notify::new(),
            invalid: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            invalid_log: Throttle::new(LOG_INTERVAL),
        }
    }

    pub(super) fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Time {
        self.start.elapsed()
    }

    /// Calls the member, and makes the task perform its outputs.
    pub(super) fn with_member<T>(&self, call: impl FnOnce(&mut Member, Time) -> T) -> T {
        let result = call(&mut self.member(), self.now());
        self.has_outputs.notify_one();
        result
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut News)) {
        let mut news = self.news();
        change(&mut news);
        if !news.is_empty() {
            self.has_news.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_changes_than_paths_are_watched_are_a_change_of_all() {
        let mut news = News::default();
        news.add((0..=MAX_PATHS).map(|number| number.to_string().into()).collect(), false);
        assert!(news.all_changed && news.changed.is_empty());
        news.add(vec!["a".into()], true);
        assert_eq!((news.changed.len(), news.listing), (1, true));
        let long = |number: usize| format!("{number:0>8000}").into();
        let mut news = News::default();
        news.add((0..=MAX_NEWS_BYTES / 8000).map(long).collect(), false);
        assert!(news.all_changed && news.changed.is_empty());
    }
}
