//! Change events of the directory trees that a plugin is granted, as far as the operating system reports them.
//!
//! Where it does not (too many directories for inotify, a network file system, a missing directory), changes are only found by
//! polling at the plugin's interval, and the log says so. After events were lost, or when a granted directory was replaced,
//! all trees are watched anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::ModifyKind;
use notify::{ErrorKind, Event, EventKind};
use tokio::sync::Notify;

use super::event_source::{Depth, EventSource};
use crate::log_target;

/// A watcher of the granted directories of one plugin.
pub(crate) struct DirectoryWatcher {
    events: Arc<FsEvents>,
    _source: Option<EventSource>,
}

/// The events of these directories.
struct FsEvents {
    plugin: String,
    /// The granted directories.
    roots: Vec<PathBuf>,
    changed: Notify,
    needs_rewatch: AtomicBool,
    has_warned: AtomicBool,
}

impl DirectoryWatcher {
    /// Watches the granted directories of a plugin, as far as possible, in place of the watcher `before`. A large tree takes
    /// its time.
    pub(crate) async fn watch(plugin: &str, roots: impl Iterator<Item = &Path>, before: Option<Self>) -> Self {
        let roots = roots.map(Path::to_owned).collect();
        let has_warned = before.is_some_and(|before| before.events.has_warned.load(Ordering::Relaxed));
        let events = Arc::new(FsEvents::new(plugin, roots, has_warned));
        let watched = events.clone();
        let watching = tokio::task::spawn_blocking(move || watched.watch()).await;
        Self { events, _source: watching.ok().flatten() }
    }

    /// Waits until something changed.
    pub(crate) async fn changed(&self) {
        self.events.changed.notified().await;
    }

    /// Returns whether they should be watched anew.
    pub(crate) fn needs_rewatch(&self) -> bool {
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

    fn watch(self: &Arc<Self>) -> Option<EventSource> {
        if self.roots.is_empty() {
            return None;
        }
        let events = self.clone();
        let source = EventSource::new(move |event| events.on_event(event));
        let mut source = source.inspect_err(|error| self.warn_once(error)).ok()?;
        for root in &self.roots {
            if let Err(error) = source.watch(root, Depth::Tree) {
                // A missing directory may exist the next time.
                if !matches!(error.kind, ErrorKind::MaxFilesWatch) {
                    self.needs_rewatch.store(true, Ordering::Relaxed);
                }
                self.warn_once(&error);
            }
        }
        Some(source)
    }

    fn on_event(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => {
                tracing::warn!(
                    target: log_target::WATCH, plugin = self.plugin,
                    "event queue overflow: events of a granted directory were lost; all of it is rescanned"
                );
                self.needs_rewatch.store(true, Ordering::Relaxed);
            }
            Ok(event) if self.affects_root(&event) => self.needs_rewatch.store(true, Ordering::Relaxed),
            Ok(_) => {}
            // Something below changed and is no longer watched.
            Err(error) => self.warn_once(&error),
        }
        self.changed.notify_one();
    }

    /// Returns whether a granted directory itself was removed or renamed: the next one of that name is another directory.
    fn affects_root(&self, event: &Event) -> bool {
        let is_going = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        is_going && event.paths.iter().any(|path| self.roots.contains(path))
    }

    /// Warns once that some changes are only found by polling.
    fn warn_once(&self, error: &notify::Error) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: log_target::WATCH, plugin = self.plugin, %error,
                "some changes of a granted directory are found only by polling (`watch-interval`)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use notify::event::{CreateKind, Flag, RemoveKind};

    use super::*;

    fn fs_events() -> FsEvents {
        FsEvents::new("p", vec!["/data".into()], false)
    }

    fn is_changed(events: &FsEvents) -> bool {
        events.changed.notified().now_or_never().is_some()
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
