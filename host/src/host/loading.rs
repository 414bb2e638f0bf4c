//! Loading plugins in the background, so that those that are there need not wait for those that are not.
//!
//! Each plugin that is not served has a task that loads it and puts it in its place. What may pass by itself is tried again
//! with exponential back-off (`plugin::backoff`): a provider that does not describe itself, a disk that does not answer. For
//! everything else, the plugin waits until its component or the config changes.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;

use super::serving::Serving;
use crate::catalog::Absent;
use crate::config;
use crate::plugin::{Backoff, LoadError, Plugin, Plugins};
use crate::watch::Before;

/// The tasks, by the names of their plugins. They end when this is dropped.
pub(super) struct Loading {
    serving: Arc<Serving>,
    plugins: Arc<Plugins>,
    tasks: Mutex<HashMap<String, AbortOnDropHandle<()>>>,
}

impl Loading {
    pub(super) fn new(serving: Arc<Serving>, plugins: Arc<Plugins>) -> Self {
        Self { serving, plugins, tasks: Mutex::default() }
    }

    /// Loads that plugin, in the place of any earlier attempt.
    pub(super) fn start(&self, plugin: &config::Plugin) {
        let attempts =
            Attempts { serving: self.serving.clone(), plugins: self.plugins.clone(), plugin: plugin.clone() };
        let task = AbortOnDropHandle::new(tokio::spawn(attempts.run()));
        self.tasks().insert(plugin.name.as_str().to_owned(), task);
    }

    /// Goes on with those plugins only.
    pub(super) fn retain(&self, names: &HashSet<&str>) {
        self.tasks().retain(|name, _| names.contains(name.as_str()));
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, AbortOnDropHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What loads one plugin.
struct Attempts {
    serving: Arc<Serving>,
    plugins: Arc<Plugins>,
    plugin: config::Plugin,
}

impl Attempts {
    /// Tries until it is loaded, or nothing is to be hoped for.
    async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.plugins.load(&self.plugin).await {
                Ok(loaded) => return self.loaded(Arc::new(loaded)),
                Err(error) => error,
            };
            let pause = error.is_transient().then(|| backoff.next());
            self.failed(error, pause);
            let Some(pause) = pause else { return };
            tokio::time::sleep(pause).await;
        }
    }

    fn loaded(&self, loaded: Arc<Plugin>) {
        if self.put(Ok(loaded)).is_some() {
            tracing::info!(plugin = self.plugin.name.as_str(), "a plugin that could not be loaded is served now");
        }
    }

    fn failed(&self, error: LoadError, pause: Option<Duration>) {
        let message = error.to_string();
        let retry_at = pause.and_then(|pause| Instant::now().checked_add(pause));
        let before = self.put(Err(Absent::Failed { error: Arc::new(error), retry_at }));
        // The same is not told twice.
        if before.as_deref() == Some(message.as_str()) {
            return;
        }
        let (plugin, error) = (self.plugin.name.as_str(), message);
        match pause {
            None => tracing::error!(plugin, %error, "a plugin could not be loaded; the others are served without it"),
            Some(_) => tracing::error!(
                plugin, %error,
                "a plugin could not be loaded; the others are served without it, and it is tried again and again"
            ),
        }
    }

    /// Puts the plugin in its place, unless another config has taken this one's. Gives the error that was there before.
    fn put(&self, state: Result<Arc<Plugin>, Absent>) -> Option<String> {
        let replaced = self.serving.replace(Before::default(), |now| {
            let slot = now.slot(self.plugin.name.as_str());
            let before = match slot.map(|slot| &slot.plugin) {
                Some(Err(Absent::Failed { error, .. })) => Some(error.to_string()),
                _ => None,
            };
            Ok::<_, Infallible>((now.with(&self.plugin, state), before))
        });
        match replaced {
            Ok(before) => before,
            Err(never) => match never {},
        }
    }
}
