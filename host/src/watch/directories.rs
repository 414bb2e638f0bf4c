//! Noticing at once that something below a granted directory changed, as far as the operating system tells.
//!
//! Where it does not (too many directories for inotify, a file system of the network), the interval alone says when to ask,
//! and the log says so.

use std::sync::Arc;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use crate::plugin::Plugin;

/// The granted directories of one plugin, watched.
pub(super) struct Directories {
    changed: Arc<Notify>,
    /// Ends the watching when dropped.
    _watcher: Option<RecommendedWatcher>,
}

impl Directories {
    /// Watches what can be watched of what the plugin was granted. A tree of many directories takes its time.
    pub(super) async fn watch(plugin: Arc<Plugin>) -> Self {
        let watching = tokio::task::spawn_blocking(move || Self::watch_now(&plugin)).await;
        watching.unwrap_or_else(|_| Self { changed: Arc::default(), _watcher: None })
    }

    fn watch_now(plugin: &Plugin) -> Self {
        let changed = Arc::new(Notify::new());
        let notify = changed.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error is an overflow: something was missed, so something changed.
            if event.map_or(true, |event| !event.kind.is_access()) {
                notify.notify_one();
            }
        });
        let mut watcher = watcher.inspect_err(|error| told(plugin, error)).ok();
        for dir in plugin.directories() {
            if let Some(watching) = &mut watcher
                && let Err(error) = watching.watch(dir, RecursiveMode::Recursive)
            {
                told(plugin, &error);
            }
        }
        Self { changed, _watcher: watcher }
    }

    /// Waits until something changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

fn told(plugin: &Plugin, error: &notify::Error) {
    tracing::warn!(
        plugin = plugin.name(), %error,
        "changes of a granted directory are noticed at the interval only"
    );
}
