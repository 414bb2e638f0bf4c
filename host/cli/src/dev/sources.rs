//! Watching the sources of a project.
//!
//! An event of the operating system only triggers a new snapshot, which is compared with the last one. Where events are
//! unavailable, such as at the limit of inotify, a snapshot is taken every [`POLL_INTERVAL`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::fs_watch::{Depth, EventSource};
use mcp_host_base::task;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::snapshot::{Difference, DirectoryId, Snapshot, SourceSet};

/// Debounce: the sources must be unchanged for this time, because an editor writes a file in several steps.
const DEBOUNCE: Duration = Duration::from_millis(40);
/// The maximum duration of the debounce.
const MAX_SETTLE: Duration = Duration::from_secs(2);
/// The interval of snapshots without events.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of further snapshots for new directories.
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
    /// The time at which the change was noticed.
    pub(super) at: Instant,
}

/// The limits of the watcher that deserve a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// There are more files than the watcher can watch.
    pub(super) is_truncated: bool,
    /// The watcher polls for changes.
    pub(super) is_polling: bool,
}

impl SourceWatcher {
    /// Starts to watch these sources.
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

    /// The limits of this watcher.
    pub(super) fn limits(&self) -> Limits {
        Limits { is_truncated: self.last.is_truncated, is_polling: self.events.source.is_none() }
    }

    /// Waits for a change, and until the sources have settled.
    pub(super) async fn changed(&mut self) -> Change {
        loop {
            let wait = if self.events.source.is_none() { POLL_INTERVAL } else { Duration::MAX };
            // An event and the timeout both lead to a new snapshot.
            let _ = tokio::time::timeout(wait, self.events.wakeup.notified()).await;
            let at = Instant::now();
            let mut now = self.snapshot().await;
            if now.difference(&self.last).is_empty() {
                // The new snapshot records files that were read again and need no further read.
                self.last = now;
                // Another file in these directories changed. The pause keeps a file that is written all the time from
                // using a whole processor.
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

    /// Takes a snapshot, and watches the directories in it. A further snapshot finds files that appeared in a new
    /// directory before the watch began.
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
        match task::spawn_blocking(move || set.snapshot(&last)).await {
            Ok(snapshot) => Arc::new(snapshot),
            // The runtime is shutting down.
            Err(_) => self.last.clone(),
        }
    }
}

impl Events {
    /// Watches exactly these directories. Returns whether some are new, or have changed.
    fn watch(&mut self, wanted: &BTreeMap<PathBuf, DirectoryId>) -> bool {
        let Some(source) = &mut self.source else { return false };
        for gone in self.watched.keys().filter(|dir| !wanted.contains_key(*dir)) {
            source.unwatch(gone);
        }
        let (mut are_new, mut has_failed) = (false, false);
        for (dir, id) in wanted.iter().filter(|(dir, id)| self.watched.get(*dir) != Some(id)) {
            are_new = true;
            // A directory that was replaced under its name is no longer watched. A directory that has disappeared is
            // missing in the next snapshot.
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
