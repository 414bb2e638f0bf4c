//! Change detection for single files: the config, the components, secrets in files.
//!
//! A file has changed if its metadata (device, inode, size, times) differs from the last snapshot, however it was
//! replaced: overwritten, renamed to, or by retargeting a link, as in config maps of Kubernetes. The directories of the
//! files, and of all links on the way, are watched; any event there triggers a new snapshot. If a directory cannot be
//! watched, snapshots are taken every [`POLL_INTERVAL`] instead, and the log reports it.
//!
//! Before files are used, and a snapshot becomes the last one, the files must settle: none has changed for
//! [`DEBOUNCE`], which is longer than a tick of the kernel's clock, and none has just been changed on a file system
//! with a coarser clock. So a later change has other metadata, even if it is made in place and keeps the size. A file
//! that does not settle within [`MAX_SETTLE`] counts as changed again. Such a change is missed only on a file system
//! whose clock is coarse and differs from this machine's.
//!
//! A snapshot may hang, for example on a disconnected network disk. It is taken on a separate thread, one at a time,
//! and abandoned after [`DEADLINE`], which is logged, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::file_state::{FileId, FileState};
use super::links::{Resolved, directory_of};
use super::{Depth, EventSource};
use crate::log_target;
use crate::regular_file::FileThreads;

/// The time for which files must be unchanged before they are used.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The maximum time to wait until files are unchanged.
const MAX_SETTLE: Duration = Duration::from_secs(10);
/// The interval of snapshots without events.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum time for one snapshot of all files.
const DEADLINE: Duration = Duration::from_secs(10);

/// A watcher of files, with the last snapshot of their metadata.
pub struct FileWatcher {
    /// Locked on `threads` only.
    watched: Arc<Mutex<WatchState>>,
    threads: FileThreads,
    wakeup: Arc<Notify>,
    is_stalled: bool,
}

/// The states of files; none for a file that does not exist.
type Snapshot = BTreeMap<PathBuf, Option<FileState>>;

/// The files and their last snapshot.
struct WatchState {
    files: BTreeSet<PathBuf>,
    last_snapshot: Snapshot,
    /// The watched directories, with their identity.
    directories: BTreeMap<PathBuf, Option<FileId>>,
    source: Option<EventSource>,
    is_polling: bool,
}

impl Default for FileWatcher {
    /// Watches nothing yet.
    fn default() -> Self {
        let wakeup = Arc::new(Notify::new());
        let notify = wakeup.clone();
        // An error means that events were lost.
        let source = EventSource::new(move |_| notify.notify_one());
        let mut watched = WatchState {
            files: BTreeSet::new(),
            last_snapshot: BTreeMap::new(),
            directories: BTreeMap::new(),
            source: None,
            is_polling: false,
        };
        match source {
            Ok(source) => watched.source = Some(source),
            Err(error) => watched.fall_back_to_polling(&error),
        }
        let watched = Arc::new(Mutex::new(watched));
        Self { watched, threads: FileThreads::new(1, DEADLINE), wakeup, is_stalled: false }
    }
}

impl FileWatcher {
    /// Watches these files from now on, and takes a snapshot of them.
    pub async fn watch(&mut self, files: BTreeSet<PathBuf>) {
        self.with_state(|watched| watched.watch(files)).await;
    }

    /// Watches these files from now on, which were read after `began`. Files that were watched before keep their
    /// snapshot. A new file that was modified after `began` counts as changed, because an earlier version may have been
    /// read.
    pub async fn update(&mut self, files: BTreeSet<PathBuf>, began: SystemTime) {
        self.with_state(move |watched| watched.update(files, began)).await;
        // Checks for changes since the last snapshot.
        self.wakeup.notify_one();
    }

    /// Waits until a file has changed and all have settled. Dropping the future loses no change.
    pub async fn changed(&mut self) {
        let _recheck = RecheckOnDrop(self.wakeup.clone());
        loop {
            let is_polling = self.with_state(|watched| watched.is_polling).await.unwrap_or(true);
            let wait = if is_polling { POLL_INTERVAL } else { Duration::MAX };
            // Both an event and the timeout lead to a new snapshot.
            let _ = tokio::time::timeout(wait, self.wakeup.notified()).await;
            let has_changed = self.with_state(|watched| {
                // A link may have been retargeted, or a directory created.
                watched.watch_directories();
                watched.snapshot() != watched.last_snapshot
            });
            match has_changed.await {
                Some(true) => break,
                // Another file in one of the directories. A file that is written all the time must not keep the threads
                // busy.
                Some(false) => sleep(DEBOUNCE).await,
                None => self.wakeup.notify_one(),
            }
        }
        self.settle().await;
    }

    /// Waits until the files have settled, at most [`MAX_SETTLE`], and takes a new snapshot. A file that has not
    /// settled counts as changed.
    pub async fn settle(&mut self) {
        let began = Instant::now();
        let Some(mut before) = self.with_state(|watched| watched.snapshot()).await else { return };
        loop {
            sleep(DEBOUNCE).await;
            let taken = self.with_state(|watched| (SystemTime::now(), watched.snapshot())).await;
            let Some((taken_at, mut now)) = taken else { return };
            let unsettled = unsettled_files(&before, &now, taken_at);
            if unsettled.is_empty() || began.elapsed() >= MAX_SETTLE {
                now.extend(unsettled.into_iter().map(|file| (file, None)));
                self.with_state(|watched| watched.last_snapshot = now).await;
                return;
            }
            before = now;
        }
    }

    /// Runs `work` on the thread for blocking file access. None if it hangs.
    async fn with_state<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut WatchState) -> T + Send + 'static,
    ) -> Option<T> {
        let watched = self.watched.clone();
        let done = self.threads.run(move || work(&mut lock(&watched))).await;
        let was_stalled = std::mem::replace(&mut self.is_stalled, done.is_err());
        match &done {
            Ok(_) if was_stalled => {
                tracing::info!(target: log_target::CONFIG, "changes of the config and of components are detected again")
            }
            Err(error) if !was_stalled => tracing::error!(
                target: log_target::CONFIG, %error,
                "changes of the config and of components are not detected: a file that the config names cannot be read"
            ),
            _ => {}
        }
        done.ok()
    }
}

fn lock(watched: &Mutex<WatchState>) -> MutexGuard<'_, WatchState> {
    watched.lock()
}

/// Triggers one more snapshot when this is dropped: an extra one does no harm, and an interrupted one is repeated.
struct RecheckOnDrop(Arc<Notify>);

impl Drop for RecheckOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl WatchState {
    fn watch(&mut self, files: BTreeSet<PathBuf>) {
        self.files = files;
        self.watch_directories();
        self.last_snapshot = self.snapshot();
    }

    fn update(&mut self, files: BTreeSet<PathBuf>, began: SystemTime) {
        if files == self.files {
            return;
        }
        let before = std::mem::take(&mut self.last_snapshot);
        self.watch(files);
        for (file, seen) in &mut self.last_snapshot {
            match before.get(file) {
                Some(stamp) => seen.clone_from(stamp),
                None if seen.as_ref().is_some_and(|stamp| stamp.is_newer_than(began)) => *seen = None,
                None => {}
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.files.iter().map(|file| (file.clone(), FileState::read(file))).collect()
    }

    fn watch_directories(&mut self) {
        let wanted: BTreeSet<_> = self.files.iter().flat_map(|file| directories_to_watch(file)).collect();
        let Some(mut source) = self.source.take() else { return };
        for gone in self.directories.keys().filter(|directory| !wanted.contains(*directory)) {
            source.unwatch(gone);
        }
        let mut watched = BTreeMap::new();
        for directory in wanted {
            let now = FileState::read(&directory).map(|state| state.file_id());
            if self.directories.get(&directory).is_none_or(|before| *before != now)
                && let Err(error) = source.watch(&directory, Depth::Entries)
            {
                self.fall_back_to_polling(&error);
            }
            watched.insert(directory, now);
        }
        self.directories = watched;
        self.source = Some(source);
    }

    fn fall_back_to_polling(&mut self, error: &notify::Error) {
        if !std::mem::replace(&mut self.is_polling, true) {
            tracing::warn!(target: log_target::CONFIG, %error, "changes of the config and of components are detected by polling, every 2 s");
        }
    }
}

/// Returns the files that differ from the snapshot before, or that may change after `taken_at` without another state.
fn unsettled_files(before: &Snapshot, now: &Snapshot, taken_at: SystemTime) -> Vec<PathBuf> {
    let is_unsettled = |file: &PathBuf, state: &Option<FileState>| {
        before.get(file) != Some(state) || state.as_ref().is_some_and(|state| state.has_coarse_time_near(taken_at))
    };
    now.iter().filter(|&(file, state)| is_unsettled(file, state)).map(|(file, _)| file.clone()).collect()
}

/// Returns the directories that have an event when a path leads to another file: its parent, and the parents of all
/// links on the way. The nearest existing ancestor replaces a directory that does not exist.
fn directories_to_watch(file: &Path) -> BTreeSet<PathBuf> {
    let Resolved { links, path } = Resolved::new(file);
    let nearest = path.ancestors().skip(1).find(|directory| directory.is_dir());
    links.keys().map(|link| directory_of(link)).chain(nearest).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fs_watch::file_state::tests::{at, changed_at};

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    fn is_unchanged(files: &FileWatcher) -> bool {
        let watched = lock(&files.watched);
        watched.snapshot() == watched.last_snapshot
    }

    #[test]
    fn the_directories_of_all_links_on_the_way_are_watched() {
        let (_kept, folder) = folder();
        // As in a config map: the file is a link, and the directory on its way is replaced.
        fs::create_dir(folder.join("..2025")).unwrap();
        fs::write(folder.join("..2025/a.toml"), "").unwrap();
        symlink("..2025", folder.join("..data")).unwrap();
        fs::create_dir(folder.join("etc")).unwrap();
        symlink("../..data/a.toml", folder.join("etc/a.toml")).unwrap();
        let found = directories_to_watch(&folder.join("etc/a.toml"));
        assert_eq!(found, [folder.join("etc"), folder.join("etc/.."), folder.join("etc/../..2025")].into());
    }

    #[test]
    fn of_a_directory_that_is_not_there_the_nearest_is_watched() {
        let (_kept, folder) = folder();
        assert_eq!(directories_to_watch(&folder.join("a/b/c.wasm")), [folder].into());
    }

    #[tokio::test]
    async fn however_a_file_is_replaced_it_is_noticed() {
        let (_kept, folder) = folder();
        let file = folder.join("a");
        fs::write(&file, "one").unwrap();
        fs::create_dir(folder.join("new")).unwrap();
        fs::write(folder.join("new/a"), "two").unwrap();
        let mut files = FileWatcher::default();
        files.watch([file.clone()].into()).await;
        let ways: [&dyn Fn(); 4] = [
            &|| fs::write(&file, "another").unwrap(),
            &|| fs::rename(folder.join("new/a"), &file).unwrap(),
            &|| fs::remove_file(&file).unwrap(),
            &|| symlink(folder.join("new"), &file).unwrap(),
        ];
        for way in ways {
            way();
            tokio::time::timeout(Duration::from_secs(60), files.changed()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_file_that_came_before_it_was_watched_and_after_it_was_missed_is_noticed() {
        let (_kept, folder) = folder();
        let [a, b] = ["a", "b"].map(|name| folder.join(name));
        fs::write(&a, "one").unwrap();
        let mut files = FileWatcher::default();
        files.watch([a.clone()].into()).await;
        let began = SystemTime::now();
        fs::write(&b, "it came").unwrap();
        files.update([a.clone(), b.clone()].into(), began).await;
        tokio::time::timeout(Duration::from_secs(60), files.changed()).await.unwrap();
        // A file that existed all the time is not a new one.
        files.watch([a.clone()].into()).await;
        files.update([a, b].into(), began + Duration::from_secs(60)).await;
        assert!(is_unchanged(&files));
    }

    #[test]
    fn a_file_has_settled_when_a_later_change_has_another_time() {
        let file = PathBuf::from("a");
        let snapshot = |seconds, nanos| Snapshot::from([(file.clone(), Some(changed_at(seconds, nanos)))]);
        let unsettled =
            |before: &Snapshot, now: &Snapshot, taken_at| !unsettled_files(before, now, at(taken_at)).is_empty();
        let (fine, coarse) = (snapshot(1000, 4_000_000), snapshot(1000, 0));
        assert!(unsettled(&coarse, &fine, 1000.1), "it changes");
        assert!(!unsettled(&fine, &fine, 1000.1));
        assert!(unsettled(&coarse, &coarse, 1000.1), "a write may have the same time");
        assert!(!unsettled(&coarse, &coarse, 1002.0));
        let missing = Snapshot::from([(file.clone(), None)]);
        assert!(!unsettled(&missing, &missing, 1000.1));
    }

    #[tokio::test]
    async fn what_happens_beside_a_file_is_no_change_of_it() {
        let (_kept, folder) = folder();
        fs::write(folder.join("a"), "one").unwrap();
        let mut files = FileWatcher::default();
        files.watch([folder.join("a")].into()).await;
        fs::write(folder.join("b"), "beside").unwrap();
        files.wakeup.notified().await;
        assert!(is_unchanged(&files));
    }
}
