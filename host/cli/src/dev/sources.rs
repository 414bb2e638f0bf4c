//! Watching the sources of a project.
//!
//! Events of the operating system tell only that it is worth looking: then a new snapshot is compared with the last one. Where
//! there are no events, such as at the limit of inotify, snapshots are taken every [`POLL_INTERVAL`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::fs_watch::{Depth, EventSource};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::snapshot::{Difference, DirectoryId, Snapshot, SourceSet};

/// Sources must be unchanged for this long: an editor writes a file in several steps.
const DEBOUNCE: Duration = Duration::from_millis(40);
/// The longest wait for that.
const MAX_SETTLE: Duration = Duration::from_secs(2);
/// The interval of snapshots where events are not available.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a snapshot is taken again because directories are new.
const MAX_RETAKES: usize = 8;

/// A watcher of sources, with their last snapshot.
pub(super) struct SourceWatcher {
    set: Arc<SourceSet>,
    last: Arc<Snapshot>,
    events: Events,
}

/// The events of the directories.
struct Events {
    source: Option<EventSource>,
    watched: BTreeMap<PathBuf, DirectoryId>,
    wakeup: Arc<Notify>,
}

/// A change of the sources.
#[derive(Debug)]
pub(super) struct Change {
    /// The files.
    pub(super) difference: Difference,
    /// When it was noticed.
    pub(super) at: Instant,
}

/// How the sources are watched, as far as it is worth a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// There are more files than are watched.
    pub(super) is_truncated: bool,
    /// Changes are found by polling.
    pub(super) is_polling: bool,
}

impl SourceWatcher {
    /// Watches those sources. Changes since then are noticed.
    pub(super) async fn new(set: SourceSet) -> Self {
        let wakeup = Arc::new(Notify::new());
        let notify = wakeup.clone();
        // An error stands for lost events.
        let source = EventSource::new(move |_| notify.notify_one()).ok();
        let events = Events { source, watched: BTreeMap::new(), wakeup };
        let mut watcher = Self { set: Arc::new(set), last: Arc::default(), events };
        watcher.last = watcher.snapshot().await;
        watcher
    }

    /// How they are watched.
    pub(super) fn limits(&self) -> Limits {
        Limits { is_truncated: self.last.is_truncated, is_polling: self.events.source.is_none() }
    }

    /// Waits for a change, until the sources have settled.
    pub(super) async fn changed(&mut self) -> Change {
        loop {
            let wait = if self.events.source.is_none() { POLL_INTERVAL } else { Duration::MAX };
            // An event or the timeout: both lead to a new snapshot.
            let _ = tokio::time::timeout(wait, self.events.wakeup.notified()).await;
            let at = Instant::now();
            let mut now = self.snapshot().await;
            if now.difference(&self.last).is_empty() {
                // Of files that were read again, it knows that they need not be.
                self.last = now;
                // Something else in these directories: one that is written all the time must not keep a processor busy.
                sleep(DEBOUNCE).await;
                continue;
            }
            while at.elapsed() < MAX_SETTLE {
                sleep(DEBOUNCE).await;
                let next = self.snapshot().await;
                let has_settled = next.difference(&now).is_empty();
                now = next;
                if has_settled {
                    break;
                }
            }
            let difference = now.difference(&self.last);
            self.last = now;
            if !difference.is_empty() {
                return Change { difference, at };
            }
        }
    }

    /// Takes a snapshot, and watches the directories that it found. Files that appear in a new directory before it is watched
    /// are found by another snapshot.
    async fn snapshot(&mut self) -> Arc<Snapshot> {
        let mut snapshot = self.take().await;
        for _ in 0..MAX_RETAKES {
            if !self.events.watch(&snapshot.directories) {
                break;
            }
            snapshot = self.take().await;
        }
        snapshot
    }

    async fn take(&self) -> Arc<Snapshot> {
        let (set, last) = (self.set.clone(), self.last.clone());
        match tokio::task::spawn_blocking(move || set.snapshot(&last)).await {
            Ok(snapshot) => Arc::new(snapshot),
            // The runtime is shutting down.
            Err(_) => self.last.clone(),
        }
    }
}

impl Events {
    /// Watches those directories and no others. Returns whether some are new, or have changed.
    fn watch(&mut self, wanted: &BTreeMap<PathBuf, DirectoryId>) -> bool {
        let Some(source) = &mut self.source else { return false };
        for gone in self.watched.keys().filter(|dir| !wanted.contains_key(*dir)) {
            source.unwatch(gone);
        }
        let (mut are_new, mut has_failed) = (false, false);
        for (dir, id) in wanted.iter().filter(|(dir, id)| self.watched.get(*dir) != Some(id)) {
            are_new = true;
            // One that was replaced by another of that name is no longer watched. One that is gone again is none of the next
            // snapshot.
            has_failed |= source.watch(dir, Depth::Entries).is_err() && DirectoryId::of(dir) == Some(*id);
        }
        self.watched.clone_from(wanted);
        if has_failed {
            self.source = None;
        }
        are_new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    async fn watch(dir: &Path) -> SourceWatcher {
        let set = SourceSet {
            dir: dir.to_owned(),
            patterns: Vec::new(),
            excluded: BTreeSet::new(),
            config_file: dir.join("mcp-host.toml"),
        };
        SourceWatcher::new(set).await
    }

    async fn change(watcher: &mut SourceWatcher) -> Difference {
        tokio::time::timeout(TIMEOUT, watcher.changed()).await.unwrap().difference
    }

    #[tokio::test]
    async fn a_saved_file_is_noticed_also_in_a_directory_that_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().canonicalize().unwrap();
        fs::write(dir.join("a"), "one").unwrap();
        let mut watcher = watch(&dir).await;
        fs::write(dir.join("a"), "two").unwrap();
        assert_eq!(change(&mut watcher).await, Difference { changed: vec![dir.join("a")], created: Vec::new() });
        fs::create_dir_all(dir.join("x/y")).unwrap();
        fs::write(dir.join("x/y/b"), "one").unwrap();
        assert_eq!(change(&mut watcher).await, Difference { changed: Vec::new(), created: vec![dir.join("x/y/b")] });
        fs::write(dir.join("x/y/b"), "two").unwrap();
        assert_eq!(change(&mut watcher).await, Difference { changed: vec![dir.join("x/y/b")], created: Vec::new() });
    }
}
