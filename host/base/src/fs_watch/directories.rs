//! Change events of a plugin's granted directory trees, as far as the operating system reports them.
//!
//! If it does not report them (too many directories for inotify, a network file system, a missing directory), changes
//! are only found by polling at the plugin's interval, and the log reports it.
//!
//! All trees are watched again
//!
//! - when a granted directory was replaced, or a symbolic link on its path was retargeted. The parent directories of
//!   such links have a separate source of events, in which only events of the links count;
//! - when events were lost because the kernel's queue was full: a new directory may be among them. This costs a pass
//!   over all directories, so it waits for a [`Backoff`]; until then, the remaining events and the interval find the
//!   changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::ModifyKind;
use notify::{ErrorKind, Event, EventKind};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::links::{Resolved, directory_of};
use super::{Depth, EventSource};
use crate::backoff::Backoff;
use crate::log_target;
use crate::task;
use crate::throttle::Throttle;

/// The maximum delay between an overflow and watching again.
const MAX_OVERFLOW_DELAY: Duration = Duration::from_mins(1);
/// The time without an overflow after which the back-off starts over.
const OVERFLOW_MEMORY: Duration = Duration::from_mins(2);
/// The minimum time between two log lines about overflows.
const OVERFLOW_LOG_INTERVAL: Duration = Duration::from_mins(1);

/// A watcher of the granted directories of one plugin.
pub struct DirectoryWatcher {
    events: Arc<FsEvents>,
    _sources: Vec<EventSource>,
}

/// The events of these directories.
struct FsEvents {
    plugin: String,
    /// The granted directories.
    roots: Vec<PathBuf>,
    changed: Notify,
    /// When all trees must be watched again.
    rewatch_at: Mutex<Option<Instant>>,
    history: Arc<History>,
}

/// The state that is kept when the directories are watched again.
struct History {
    has_warned: AtomicBool,
    /// The time of the last overflow, and the back-off of consecutive overflows.
    last_overflow: Mutex<Option<(Instant, Backoff)>>,
    overflow_log: Throttle,
}

impl DirectoryWatcher {
    /// Watches the granted directories of a plugin, as far as possible, in place of the watcher `before`. This takes a
    /// while for a large tree.
    pub async fn watch(plugin: &str, roots: impl Iterator<Item = &Path>, before: Option<Self>) -> Self {
        let roots = roots.map(Path::to_owned).collect();
        let history = before.map_or_else(Arc::default, |before| before.events.history.clone());
        let events = Arc::new(FsEvents::new(plugin, roots, history));
        let watched = events.clone();
        let watching = task::spawn_blocking(move || watched.watch()).await;
        Self { events, _sources: watching.unwrap_or_default() }
    }

    /// Waits until something changed, or until the directories should be watched again.
    pub async fn changed(&self) {
        let changed = self.events.changed.notified();
        let rewatch_at = *self.events.rewatch_at.lock();
        match rewatch_at {
            // Both outcomes lead to a poll.
            Some(at) => {
                let _ = timeout_at(at, changed).await;
            }
            None => changed.await,
        }
    }

    /// Forgets the changes so far, because what begins now sees them: [`changed`](Self::changed) waits for later ones.
    /// Without this, the rest of a burst would count as another change.
    pub fn forget_changes(&self) {
        // This takes the stored notification, if there is one.
        let _ = pin!(self.events.changed.notified()).enable();
    }

    /// Returns whether the directories should be watched again.
    pub fn needs_rewatch(&self) -> bool {
        self.events.rewatch_at.lock().is_some_and(|at| at <= Instant::now())
    }
}

impl FsEvents {
    fn new(plugin: &str, roots: Vec<PathBuf>, history: Arc<History>) -> Self {
        Self { plugin: plugin.to_owned(), roots, changed: Notify::new(), rewatch_at: Mutex::new(None), history }
    }

    fn watch(self: &Arc<Self>) -> Vec<EventSource> {
        if self.roots.is_empty() {
            return Vec::new();
        }
        let links = self.links();
        let sources = [self.watch_links(&links), self.watch_trees()];
        if self.links() != links {
            // A link was retargeted before it was watched.
            self.rewatch_at_next_poll();
        }
        sources.into_iter().flatten().collect()
    }

    fn watch_trees(self: &Arc<Self>) -> Option<EventSource> {
        let events = self.clone();
        let mut source = self.new_source(move |event| events.on_event(event))?;
        for root in &self.roots {
            if let Err(error) = source.watch(root, Depth::Tree) {
                // A missing directory may exist the next time.
                if !matches!(error.kind, ErrorKind::MaxFilesWatch) {
                    self.rewatch_at_next_poll();
                }
                self.warn_once(&error);
            }
        }
        Some(source)
    }

    /// Watches the parent directories of the links; `None` if there are no links.
    fn watch_links(self: &Arc<Self>, links: &BTreeMap<PathBuf, PathBuf>) -> Option<EventSource> {
        let names: BTreeSet<_> = links.keys().filter_map(|link| Some(link.file_name()?.to_owned())).collect();
        if names.is_empty() {
            return None;
        }
        let events = self.clone();
        let mut source = self.new_source(move |event| events.on_link_event(event, &names))?;
        let directories: BTreeSet<_> = links.keys().map(|link| directory_of(link)).collect();
        for directory in directories {
            // If the directory is missing, so is the tree. If it is unreadable, it stays so.
            if let Err(error) = source.watch(directory, Depth::Entries) {
                self.warn_once(&error);
            }
        }
        Some(source)
    }

    /// Returns the links on the paths of the granted directories, with their targets.
    fn links(&self) -> BTreeMap<PathBuf, PathBuf> {
        self.roots.iter().flat_map(|root| Resolved::new(root).links).collect()
    }

    fn new_source(&self, handler: impl Fn(notify::Result<Event>) + Send + 'static) -> Option<EventSource> {
        EventSource::new(handler).inspect_err(|error| self.warn_once(error)).ok()
    }

    fn on_event(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.on_overflow(),
            Ok(event) if self.affects_root(&event) => self.rewatch_at_next_poll(),
            Ok(_) => {}
            // Something below has changed, and is no longer watched.
            Err(error) => self.warn_once(&error),
        }
        self.changed.notify_one();
    }

    /// Handles an event of a link's parent directory. Only events with the `names` of links count.
    fn on_link_event(&self, event: notify::Result<Event>, names: &BTreeSet<OsString>) {
        match event {
            Ok(event) if event.need_rescan() => self.on_overflow(),
            Ok(event) if event.paths.iter().filter_map(|path| path.file_name()).any(|name| names.contains(name)) => {
                self.rewatch_at_next_poll();
            }
            Ok(_) => return,
            Err(error) => self.warn_once(&error),
        }
        self.changed.notify_one();
    }

    /// Returns whether a granted directory itself was removed or renamed: a new one with its name is another directory.
    fn affects_root(&self, event: &Event) -> bool {
        let is_going = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        is_going && event.paths.iter().any(|path| self.roots.contains(path))
    }

    fn rewatch_at_next_poll(&self) {
        *self.rewatch_at.lock() = Some(Instant::now());
    }

    fn on_overflow(&self) {
        {
            let mut rewatch_at = self.rewatch_at.lock();
            if rewatch_at.is_none() {
                let now = Instant::now();
                *rewatch_at = now.checked_add(self.history.overflow_delay(now));
            }
        }
        if let Some(suppressed) = self.history.overflow_log.record() {
            tracing::warn!(
                target: log_target::WATCH, plugin = self.plugin, times = suppressed.saturating_add(1),
                "event queue overflow: events of a granted directory were lost, and all of it is watched anew. Files below it \
                 change faster than they are read: grant less of it (of a repository: its `.git`), or raise the sysctl \
                 `fs.inotify.max_queued_events`"
            );
        }
    }

    /// Warns once that some changes are only found by polling.
    fn warn_once(&self, error: &notify::Error) {
        if !self.history.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: log_target::WATCH, plugin = self.plugin, %error,
                "some changes of a granted directory are found only by polling (`watch-interval`)"
            );
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            has_warned: AtomicBool::new(false),
            last_overflow: Mutex::default(),
            overflow_log: Throttle::new(OVERFLOW_LOG_INTERVAL),
        }
    }
}

impl History {
    /// Returns the delay after an overflow at this time.
    fn overflow_delay(&self, now: Instant) -> Duration {
        let mut last = self.last_overflow.lock();
        let recent = last.take().filter(|(last, _)| now.saturating_duration_since(*last) < OVERFLOW_MEMORY);
        let mut backoff = recent.map_or_else(|| Backoff::up_to(MAX_OVERFLOW_DELAY), |(_, backoff)| backoff);
        let delay = backoff.next_delay();
        *last = Some((now, backoff));
        delay
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use notify::event::{CreateKind, Flag, RemoveKind, RenameMode};

    use super::*;

    fn fs_events() -> FsEvents {
        FsEvents::new("p", vec!["/data".into()], Arc::default())
    }

    fn is_changed(events: &FsEvents) -> bool {
        events.changed.notified().now_or_never().is_some()
    }

    fn overflow() -> notify::Result<Event> {
        Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan))
    }

    #[test]
    fn a_change_is_a_change_and_leaves_the_watching_as_it_is() {
        let events = fs_events();
        events.on_event(Ok(Event::new(EventKind::Create(CreateKind::File)).add_path("/data/a".into())));
        assert!(is_changed(&events) && events.rewatch_at.lock().is_none());
    }

    #[test]
    fn what_changed_before_is_forgotten_and_what_changes_later_is_not() {
        let events = Arc::new(fs_events());
        let watcher = DirectoryWatcher { events: events.clone(), _sources: Vec::new() };
        let change = || events.on_event(Ok(Event::new(EventKind::Create(CreateKind::File)).add_path("/data/a".into())));
        change();
        watcher.forget_changes();
        assert!(!is_changed(&events));
        watcher.forget_changes();
        change();
        assert!(is_changed(&events));
    }

    /// Returns the range around a delay with its jitter of a tenth.
    fn about(seconds: f64) -> std::ops::RangeInclusive<f64> {
        seconds * 0.89..=seconds * 1.11
    }

    #[test]
    fn after_an_overflow_everything_changed_and_is_watched_anew_a_second_later() {
        let events = fs_events();
        let before = Instant::now();
        events.on_event(overflow());
        assert!(is_changed(&events));
        let rewatch_at = *events.rewatch_at.lock();
        assert!(rewatch_at.is_some_and(|at| (at - before).as_secs_f64() >= *about(1.0).start()), "{rewatch_at:?}");
        // Another overflow before then changes nothing.
        events.on_event(overflow());
        assert_eq!(*events.rewatch_at.lock(), rewatch_at);
    }

    #[test]
    fn when_overflows_recur_everything_is_watched_anew_once_a_minute_at_most() {
        let history = History::default();
        let mut now = Instant::now();
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0] {
            let delay = history.overflow_delay(now);
            assert!(about(expected).contains(&delay.as_secs_f64()), "{delay:?}, expected {expected} s");
            now += delay;
        }
        let later = history.overflow_delay(now + OVERFLOW_MEMORY);
        assert!(about(1.0).contains(&later.as_secs_f64()), "{later:?}: a first one again");
    }

    #[test]
    fn a_granted_directory_that_goes_away_is_watched_anew() {
        let events = fs_events();
        events.on_event(Ok(Event::new(EventKind::Remove(RemoveKind::Folder)).add_path("/data".into())));
        assert!(is_changed(&events) && events.rewatch_at.lock().is_some());
    }

    #[test]
    fn beside_a_link_only_events_of_the_link_count() {
        let names = BTreeSet::from(["current".into()]);
        let events = fs_events();
        let renamed =
            |to: &str| Ok(Event::new(EventKind::Modify(ModifyKind::Name(RenameMode::To))).add_path(to.into()));
        events.on_link_event(renamed("/srv/other"), &names);
        assert!(!is_changed(&events) && events.rewatch_at.lock().is_none());
        events.on_link_event(renamed("/srv/current"), &names);
        assert!(is_changed(&events) && events.rewatch_at.lock().is_some());
    }

    #[test]
    fn at_the_limit_of_inotify_what_was_noticed_counts_and_the_interval_does_the_rest() {
        let events = fs_events();
        events.on_event(Err(notify::Error::new(ErrorKind::MaxFilesWatch)));
        assert!(is_changed(&events) && events.history.has_warned.load(Ordering::Relaxed));
    }
}
