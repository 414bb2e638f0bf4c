//! Recorded changes of an upstream, until the host requests them.
//!
//! Each change has a number, and a token is the number up to which the host knows the changes. Only changes of watched
//! paths are recorded, so unsolicited notifications use no memory. After a gap, in which updates may have been lost,
//! everything that is watched counts as changed once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_host_model::provider::ChangeSet;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The recorded changes.
#[derive(Debug)]
pub(crate) struct Updates {
    /// Distinguishes the tokens of this provider from another one's.
    epoch: u64,
    state: Mutex<State>,
    /// The number of times that another session replaced the previous one on the same connection.
    sessions: AtomicU64,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// The number of the last gap.
    gap: u64,
    /// The number of the last change of the listing.
    listing: u64,
    /// The watched paths, each with the number of its last change.
    watched: HashMap<Box<str>, u64>,
}

/// What is known of the listing: another one means that it may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListingState {
    changes: u64,
    gaps: u64,
    sessions: u64,
}

impl State {
    fn next(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }
}

impl Updates {
    pub(crate) fn new() -> Self {
        Self { epoch: fastrand::u64(..), state: Mutex::default(), sessions: AtomicU64::new(0), wake: Notify::new() }
    }

    /// Records changes of these paths from now on.
    pub(crate) fn watch<'a>(&self, paths: impl Iterator<Item = &'a str>) {
        let mut state = self.state.lock();
        for path in paths {
            if !state.watched.contains_key(path) {
                state.watched.insert(path.into(), 0);
            }
        }
    }

    /// Stops recording changes of this path.
    pub(crate) fn unwatch(&self, path: &str) {
        self.state.lock().watched.remove(path);
    }

    /// Records a change of a path, if the path is watched. Returns whether it is watched.
    pub(crate) fn changed(&self, path: &str) -> bool {
        let mut state = self.state.lock();
        let number = state.next();
        let Some(last) = state.watched.get_mut(path) else { return false };
        *last = number;
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Records a change of the listing or of the templates.
    pub(crate) fn listing_changed(&self) {
        let mut state = self.state.lock();
        state.listing = state.next();
        drop(state);
        self.wake.notify_one();
    }

    /// Records that updates may have been lost.
    pub(crate) fn gap(&self) {
        let mut state = self.state.lock();
        state.gap = state.next();
        drop(state);
        self.wake.notify_one();
    }

    /// Records that the upstream has begun another session, which has no subscriptions.
    pub(crate) fn session_changed(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of the session.
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// What is known of the listing now.
    pub(crate) fn listing_state(&self) -> ListingState {
        let State { gap, listing, .. } = *self.state.lock();
        ListingState { changes: listing, gaps: gap, sessions: self.sessions() }
    }

    /// Makes the host request the changes.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Completes when something was recorded since the last call, or after [`wake`](Self::wake).
    pub(crate) async fn recorded(&self) {
        self.wake.notified().await;
    }

    /// Returns the changes since a token; without a token, none.
    pub(crate) fn since(&self, watched: &[String], token: Option<&str>) -> ChangeSet {
        let state = self.state.lock();
        let next = format!("{:x}.{:x}", self.epoch, state.last);
        let Some(token) = token else { return ChangeSet::none(next) };
        let known = token.split_once('.').and_then(|(epoch, number)| {
            let epoch = u64::from_str_radix(epoch, 16).ok()?;
            (epoch == self.epoch).then(|| u64::from_str_radix(number, 16).ok()).flatten()
        });
        let Some(known) = known.filter(|known| state.gap <= *known) else { return ChangeSet::all(next, watched) };
        let is_new = |path: &&String| state.watched.get(path.as_str()).is_some_and(|last| *last > known);
        let changes = watched.iter().filter(is_new).fold(ChangeSet::none(next), |changes, path| changes.changed(path));
        if state.listing > known { changes.listing_changed() } else { changes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn changes_are_those_since_the_token_of_what_is_watched() {
        let (updates, watched) = (Updates::new(), paths(&["a", "b"]));
        updates.watch(watched.iter().map(String::as_str));
        let start = updates.since(&watched, None).token;
        assert!(updates.changed("b") && !updates.changed("c"));
        let changes = updates.since(&watched, Some(&start));
        assert_eq!((changes.changed, changes.listing_changed), (paths(&["b"]), false));
        assert!(updates.since(&watched, Some(&changes.token)).changed.is_empty());
        updates.listing_changed();
        assert!(updates.since(&watched, Some(&changes.token)).listing_changed);
        updates.unwatch("a");
        assert!(!updates.changed("a"));
    }

    #[test]
    fn after_a_gap_and_for_a_token_of_another_provider_everything_has_changed() {
        let (updates, watched) = (Updates::new(), paths(&["a", "b"]));
        let start = updates.since(&watched, None).token;
        updates.gap();
        let changes = updates.since(&watched, Some(&start));
        assert_eq!((&changes.changed, changes.listing_changed), (&watched, true));
        assert!(updates.since(&watched, Some(&changes.token)).changed.is_empty());
        for token in ["", "0.0", "x", &Updates::new().since(&[], None).token] {
            assert_eq!(updates.since(&watched, Some(token)).changed, watched, "{token}");
        }
    }

    #[tokio::test]
    async fn what_was_recorded_before_one_waits_is_not_lost() {
        let updates = Updates::new();
        updates.watch(["a"].into_iter());
        updates.changed("a");
        updates.recorded().await;
    }
}
