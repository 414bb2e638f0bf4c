//! Watching the file system for changes, by the operating system's events (crate `notify`).
//!
//! | type | watches | used for |
//! |---|---|---|
//! | [`FileWatcher`] | single files, wherever their paths lead through links | the config, components, secrets in files |
//! | [`DirectoryWatcher`] | whole trees | granted directories |
//!
//! Both use [`EventSource`], which only receives events of changes. If it received opens and reads, every build or
//! search in a watched tree would fill the event queue, and so would guests that read the tree after each event.
//! Neither promises an event for each change: an event is a hint that something may have changed.
//!
//! Links inside a tree are not followed: a link could lead to the whole file system, and all writes there would wake
//! the host. A watched directory that is itself a link is followed.

mod directories;
mod file_state;
mod files;
mod links;

use std::path::Path;

use notify::{Config, Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};

pub use self::directories::DirectoryWatcher;
pub use self::file_state::FileState;
pub use self::files::FileWatcher;

/// A source of events, which ends when it is dropped.
pub struct EventSource(RecommendedWatcher);

/// The depth to which a directory is watched.
#[derive(Clone, Copy, Debug)]
pub enum Depth {
    /// Its direct entries.
    Entries,
    /// The whole tree.
    Tree,
}

impl EventSource {
    /// Calls `handler` for each event of a change: creation, removal, rename, data or metadata. An error means that
    /// events were lost.
    pub fn new(handler: impl Fn(notify::Result<Event>) + Send + 'static) -> notify::Result<Self> {
        let config = Config::default().with_event_kinds(EventKindMask::CORE).with_follow_symlinks(false);
        RecommendedWatcher::new(handler, config).map(Self)
    }

    /// Watches a directory. This takes a while for a large tree.
    pub fn watch(&mut self, directory: &Path, depth: Depth) -> notify::Result<()> {
        let mode = match depth {
            Depth::Entries => RecursiveMode::NonRecursive,
            Depth::Tree => RecursiveMode::Recursive,
        };
        self.0.watch(directory, mode)
    }

    /// Stops watching a directory. A removed directory is not watched any more anyway.
    pub fn unwatch(&mut self, directory: &Path) {
        let _ = self.0.unwatch(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::sync::mpsc;
    use std::time::Duration;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn reading_a_file_is_no_change() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "one").unwrap();
        let (sender, events) = mpsc::channel();
        let mut source = EventSource::new(move |event| {
            let _ = sender.send(event);
        })
        .unwrap();
        source.watch(dir.path(), Depth::Tree).unwrap();
        fs::read(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("b"), "two").unwrap();
        let event = events.recv_timeout(TIMEOUT).unwrap().unwrap();
        assert!(event.paths.iter().all(|path| path.ends_with("b")), "{event:?}");
    }

    #[test]
    #[cfg(unix)]
    fn links_inside_a_tree_are_not_followed_and_a_tree_that_is_a_link_is() {
        let dir = tempfile::tempdir().unwrap();
        let [tree, outside, link] = ["tree", "outside", "link"].map(|name| dir.path().join(name));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("out")).unwrap();
        std::os::unix::fs::symlink(&tree, &link).unwrap();
        let (sender, events) = mpsc::channel();
        let mut source = EventSource::new(move |event| {
            let _ = sender.send(event);
        })
        .unwrap();
        source.watch(&link, Depth::Tree).unwrap();
        fs::write(outside.join("a"), "one").unwrap();
        fs::write(tree.join("b"), "two").unwrap();
        let event = events.recv_timeout(TIMEOUT).unwrap().unwrap();
        assert!(event.paths.iter().all(|path| path.ends_with("b")), "{event:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn however_many_files_others_open_and_read_the_event_queue_does_not_overflow() {
        let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let queue: usize = queue.trim().parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let read = ["a", "b"].map(|name| dir.path().join(name));
        for file in &read {
            fs::write(file, "one").unwrap();
        }
        // The handler is stuck in the first event, so the kernel queues all later ones.
        let (is_called, called) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let mut source = EventSource::new(move |event| {
            let _ = is_called.send(event);
            let _ = released.recv_timeout(TIMEOUT);
        })
        .unwrap();
        source.watch(dir.path(), Depth::Tree).unwrap();
        fs::write(dir.path().join("first"), "").unwrap();
        called.recv_timeout(TIMEOUT).unwrap().unwrap();
        // Alternates between files, because the kernel merges equal events.
        for file in read.iter().cycle().take(queue) {
            File::open(file).unwrap();
        }
        fs::remove_file(dir.path().join("first")).unwrap();
        drop(release);
        loop {
            let event = called.recv_timeout(TIMEOUT).unwrap().unwrap();
            assert!(!event.need_rescan(), "events were lost");
            if event.kind.is_remove() {
                break;
            }
        }
    }
}
