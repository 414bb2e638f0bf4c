//! File system events of granted directories, where the operating system supports them.
//!
//! Where it does not, changes are only found at the interval, and a warning is logged: too many directories for
//! inotify, a network file system, a directory that does not exist. After an event overflow, or when a granted
//! directory has been replaced, all directories are watched again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::ModifyKind;
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use crate::log_target;
use crate::plugin::Plugin;

/// A file system watcher for the granted directories of one plugin.
pub(super) struct DirectoryWatcher {
    events: Arc<FsEvents>,
    /// Stops watching when dropped.
    _watcher: Option<RecommendedWatcher>,
}

/// The events of the operating system.
struct FsEvents {
    plugin: String,
    /// The granted directories.
    roots: Vec<PathBuf>,
    changed: Notify,
    needs_rewatch: AtomicBool,
    has_warned: AtomicBool,
}

impl DirectoryWatcher {
    /// Watches the plugin's granted directories as far as possible, in place of `before`. Takes a while for a tree of
    /// many directories.
    pub(super) async fn watch(plugin: &Plugin, before: Option<Self>) -> Self {
        let roots = plugin.granted_directories().map(Path::to_owned).collect();
        let has_warned = before.is_some_and(|before| before.events.has_warned.load(Ordering::Relaxed));
        let events = Arc::new(FsEvents::new(plugin.name(), roots, has_warned));
        let watched = events.clone();
        let watching = tokio::task::spawn_blocking(move || watched.watch()).await;
        Self { events, _watcher: watching.ok().flatten() }
    }

    /// Waits until something has changed.
    pub(super) async fn changed(&self) {
        self.events.changed.notified().await;
    }

    /// Returns whether the directories must be watched again.
    pub(super) fn needs_rewatch(&self) -> bool {
        self.events.needs_rewatch.load(Ordering::Relaxed)
    }
}

impl FsEvents {
    fn new(plugin: &str, roots: Vec<PathBuf>, has_warned: bool) -> Self {
        Self {
            plugin: plugin.to_owned(),
            roots,
            changed: Notify::new(),
            needs_rewatch: AtomicBool::new(false),
            has_warned: AtomicBool::new(has_warned),
        }
    }

    fn watch(self: &Arc<Self>) -> Option<RecommendedWatcher> {
        if self.roots.is_empty() {
            return None;
        }
        let events = self.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| events.on_event(event));
        let mut watcher = watcher.inspect_err(|error| self.warn_once(error)).ok()?;
        for root in &self.roots {
            if let Err(error) = watcher.watch(root, RecursiveMode::Recursive) {
                // A directory that does not exist may exist at the next attempt.
                if !matches!(error.kind, ErrorKind::MaxFilesWatch) {
                    self.needs_rewatch.store(true, Ordering::Relaxed);
                }
                self.warn_once(&error);
            }
        }
        Some(watcher)
    }

    fn on_event(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.kind.is_access() => return,
            Ok(event) if event.need_rescan() => {
                tracing::warn!(
                    target: log_target::WATCH, plugin = self.plugin,
                    "event overflow: a granted directory changed faster than its events were read; all directories are watched again"
                );
                self.needs_rewatch.store(true, Ordering::Relaxed);
            }
            Ok(event) if self.affects_root(&event) => self.needs_rewatch.store(true, Ordering::Relaxed),
            Ok(_) => {}
            // Something below could not be watched: it has changed, and is no longer watched.
            Err(error) => self.warn_once(&error),
        }
        self.changed.notify_one();
    }

    /// Returns whether a granted directory itself was removed or renamed, so that it must be watched again.
    fn affects_root(&self, event: &Event) -> bool {
        let is_going = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        is_going && event.paths.iter().any(|path| self.roots.contains(path))
    }

    /// Logs once that some changes cause no event.
    fn warn_once(&self, error: &notify::Error) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: log_target::WATCH, plugin = self.plugin, %error,
                "some changes of a granted directory are noticed at the interval only (`watch-interval`)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use notify::event::{AccessKind, CreateKind, Flag, RemoveKind};

    use super::*;

    fn fs_events() -> FsEvents {
        FsEvents::new("p", vec!["/data".into()], false)
    }

    fn is_changed(events: &FsEvents) -> bool {
        events.changed.notified().now_or_never().is_some()
    }

    #[test]
    fn reading_a_file_is_no_change() {
        let events = fs_events();
        events.on_event(Ok(Event::new(EventKind::Access(AccessKind::Any))));
        assert!(!is_changed(&events));
    }

    #[test]
    fn a_change_is_a_change_and_leaves_the_watching_as_it_is() {
        let events = fs_events();
        events.on_event(Ok(Event::new(EventKind::Create(CreateKind::File)).add_path("/data/a".into())));
        assert!(is_changed(&events) && !events.needs_rewatch.load(Ordering::Relaxed));
    }

    #[test]
    fn after_an_overflow_everything_changed_and_is_watched_anew() {
        let events = fs_events();
        events.on_event(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(is_changed(&events) && events.needs_rewatch.load(Ordering::Relaxed));
    }

    #[test]
    fn a_granted_directory_that_goes_away_is_watched_anew() {
        let events = fs_events();
        events.on_event(Ok(Event::new(EventKind::Remove(RemoveKind::Folder)).add_path("/data".into())));
        assert!(is_changed(&events) && events.needs_rewatch.load(Ordering::Relaxed));
    }

    #[test]
    fn at_the_limit_of_inotify_what_was_noticed_counts_and_the_interval_does_the_rest() {
        let events = fs_events();
        events.on_event(Err(notify::Error::new(ErrorKind::MaxFilesWatch)));
        assert!(is_changed(&events) && events.has_warned.load(Ordering::Relaxed));
    }
}
