//! Events of the operating system about paths: one watcher of the crate `notify`.

use std::path::Path;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

/// A source of events, which ends when it is dropped.
pub(crate) struct EventSource(RecommendedWatcher);

/// How much below a directory is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Depth {
    /// Its direct entries.
    Entries,
    /// The whole tree.
    Tree,
}

impl EventSource {
    /// Calls `handler` for each event that is more than an access. An error means that events were lost.
    pub(crate) fn new(handler: impl Fn(notify::Result<Event>) + Send + 'static) -> notify::Result<Self> {
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if !event.as_ref().is_ok_and(|event| event.kind.is_access()) {
                handler(event);
            }
        });
        watcher.map(Self)
    }

    /// Watches a directory. A large tree takes its time.
    pub(crate) fn watch(&mut self, directory: &Path, depth: Depth) -> notify::Result<()> {
        let mode = match depth {
            Depth::Entries => RecursiveMode::NonRecursive,
            Depth::Tree => RecursiveMode::Recursive,
        };
        self.0.watch(directory, mode)
    }

    /// Stops watching a directory. One that was removed is no longer watched anyway.
    pub(crate) fn unwatch(&mut self, directory: &Path) {
        let _ = self.0.unwatch(directory);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn reading_a_file_is_no_change() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "one").unwrap();
        let (sender, events) = mpsc::channel();
        let mut source = EventSource::new(move |event| sender.send(event).unwrap()).unwrap();
        source.watch(dir.path(), Depth::Tree).unwrap();
        std::fs::read(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("b"), "two").unwrap();
        let event = events.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        assert!(event.paths.iter().all(|path| path.ends_with("b")), "{event:?}");
    }
}
