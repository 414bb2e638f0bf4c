//! Background loading of plugins, so that loaded plugins are served without waiting for the others.
//!
//! Each plugin that is not loaded has a task that loads it and fills its slot. Transient failures (a provider that
//! does not describe itself, a disk that does not respond) are retried with exponential back-off (`backoff`). After
//! any other failure, the plugin is loaded again when its component or the config changes. A reload without such a
//! change keeps the plugin's state and its back-off, so that each failure is counted once.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_config as config;
use mcp_host_engine::plugin::{LoadError, PluginRuntime};
use mcp_host_model::digest::Digest;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::AbortOnDropHandle;

use super::generation_store::GenerationStore;
use crate::catalog::NotLoaded;
use crate::response_cache::CachedPlugin;
use crate::watch::ListingSnapshot;

/// The tasks, by plugin name. Dropping this cancels them.
pub(super) struct BackgroundLoader {
    generation_store: Arc<GenerationStore>,
    plugin_runtime: Arc<PluginRuntime>,
    tasks: Mutex<HashMap<String, RunningTask>>,
}

/// A plugin that is being loaded, or that a finished task has loaded.
struct RunningTask {
    plugin: config::Plugin,
    /// The digest of the component that could not be loaded; none if loading has not failed.
    failed: Arc<Mutex<Option<Option<Digest>>>>,
    _abort: AbortOnDropHandle<()>,
}

impl BackgroundLoader {
    pub(super) fn new(generation_store: Arc<GenerationStore>, plugin_runtime: Arc<PluginRuntime>) -> Self {
        Self { generation_store, plugin_runtime, tasks: Mutex::default() }
    }

    /// Starts to load a plugin. Cancels an earlier attempt.
    pub(super) fn start(&self, plugin: &config::Plugin) {
        let task = self.load_task(plugin.clone());
        let failed = task.failed.clone();
        let _abort = AbortOnDropHandle::new(task::spawn(task.run()));
        self.tasks().insert(plugin.name.as_str().to_owned(), RunningTask { plugin: plugin.clone(), failed, _abort });
    }

    /// Returns whether loading a plugin has failed with this config and with the component of this digest.
    pub(super) fn has_failed(&self, plugin: &config::Plugin, digest: Option<Digest>) -> bool {
        let tasks = self.tasks();
        let task = tasks.get(plugin.name.as_str()).filter(|task| task.plugin == *plugin);
        task.is_some_and(|task| *task.failed.lock() == Some(digest))
    }

    /// Forgets failures, so that the next reload loads the plugins again.
    pub(super) fn clear_failures(&self) {
        self.tasks().values().for_each(|task| *task.failed.lock() = None);
    }

    /// Cancels the tasks of all plugins except these.
    pub(super) fn retain(&self, names: &HashSet<&str>) {
        self.tasks().retain(|name, _| names.contains(name.as_str()));
    }

    /// Cancels the task of a plugin.
    pub(super) fn cancel(&self, name: &str) {
        self.tasks().remove(name);
    }

    /// Stops all loading. Plugins that are being loaded count as failed.
    pub(super) fn stop(&self) {
        let stopped = std::mem::take(&mut *self.tasks());
        for RunningTask { plugin, _abort, .. } in stopped.into_values() {
            if self.is_loading(&plugin) {
                let error = Arc::new(LoadError::Cancelled);
                self.load_task(plugin).update_slot(Err(NotLoaded::Failed { error, retry_at: None }));
            }
        }
    }

    fn is_loading(&self, plugin: &config::Plugin) -> bool {
        self.generation_store.generation.load().loading().any(|name| name == plugin.name.as_str())
    }

    fn load_task(&self, plugin: config::Plugin) -> LoadTask {
        let (generation_store, plugin_runtime) = (self.generation_store.clone(), self.plugin_runtime.clone());
        LoadTask { generation_store, plugin_runtime, plugin, failed: Arc::default() }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, RunningTask>> {
        self.tasks.lock()
    }
}

/// The task that loads one plugin.
struct LoadTask {
    generation_store: Arc<GenerationStore>,
    plugin_runtime: Arc<PluginRuntime>,
    plugin: config::Plugin,
    failed: Arc<Mutex<Option<Option<Digest>>>>,
}

impl LoadTask {
    /// Retries until the plugin is loaded, or has failed permanently.
    async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            // If the file changes meanwhile, the digest differs from the loaded component's, and a reload loads the
            // plugin again.
            let digest = self.plugin_runtime.digest_of(&self.plugin.component).await;
            let error = match self.plugin_runtime.load(&self.plugin).await {
                Ok(loaded) => return self.on_loaded(Arc::new(CachedPlugin::new(loaded))),
                Err(error) => error,
            };
            *self.failed.lock() = Some(digest);
            let pause = error.is_transient().then(|| backoff.next_delay());
            self.on_failed(error, pause);
            let Some(pause) = pause else { return };
            tokio::time::sleep(pause).await;
        }
    }

    fn on_loaded(&self, loaded: Arc<CachedPlugin>) {
        let had_failed = self.last_error().is_some();
        self.update_slot(Ok(loaded));
        if had_failed {
            tracing::info!(target: log_target::PLUGIN, plugin = self.plugin.name.as_str(), "a plugin that could not be loaded is served now");
        }
    }

    fn on_failed(&self, error: LoadError, pause: Option<Duration>) {
        // Logged first: whoever is told of the failure finds the reason in the log.
        self.log(&error, pause);
        let retry_at = pause.and_then(|pause| Instant::now().checked_add(pause));
        self.update_slot(Err(NotLoaded::Failed { error: Arc::new(error), retry_at }));
    }

    /// Logs why the plugin could not be loaded. Repeated messages are logged once.
    fn log(&self, error: &LoadError, pause: Option<Duration>) {
        let (plugin, error) = (self.plugin.name.as_str(), error.summary());
        if self.last_error().as_deref() == Some(error.as_str()) {
            return;
        }
        match pause {
            None => {
                tracing::error!(target: log_target::PLUGIN, plugin, %error, "a plugin could not be loaded; the others are served without it")
            }
            Some(_) => tracing::error!(
                target: log_target::PLUGIN, plugin, %error,
                "a plugin could not be loaded; the others are served without it, and loading is retried with back-off"
            ),
        }
    }

    /// Returns why the plugin could not be loaded before.
    fn last_error(&self) -> Option<String> {
        let generation = self.generation_store.generation.load();
        match generation.slot(self.plugin.name.as_str()).map(|slot| &slot.plugin) {
            Some(Err(NotLoaded::Failed { error, .. })) => Some(error.summary()),
            _ => None,
        }
    }

    /// Fills the slot of the plugin, unless the config was replaced meanwhile.
    fn update_slot(&self, state: Result<Arc<CachedPlugin>, NotLoaded>) {
        let filled = self
            .generation_store
            .replace(ListingSnapshot::default(), |now| Ok::<_, Infallible>((now.with_plugin(&self.plugin, state), ())));
        match filled {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_host_config::{self as config, Config};
    use tokio::time::{sleep, timeout};

    use crate::host::Host;

    #[tokio::test]
    async fn a_reload_without_a_change_loads_and_counts_no_failed_plugin_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.wasm");
        // The header of a component, followed by an invalid byte.
        std::fs::write(&file, b"\0asm\x0d\0\x01\0\xff").unwrap();
        let plugin = config::Plugin::new("a".parse().unwrap(), &file, "a:///".parse().unwrap());
        let config = Config::new().plugin(plugin).unwrap();
        let builder = Host::builder(config.clone());
        let host =
            builder.cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state")).start().await.unwrap();
        let counted = async || {
            let waiting = async {
                while !host.background_loader.tasks().values().all(|task| task._abort.is_finished()) {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(60), waiting).await.unwrap();
            host.load_counts().of("a").1.values().sum::<u64>()
        };
        assert_eq!(counted().await, 1);
        for _ in 0..3 {
            host.reload(config.clone()).await.unwrap();
            assert_eq!(counted().await, 1);
        }
        std::fs::write(&file, b"\0asm\x0d\0\x01\0\xfe\xfe").unwrap();
        host.reload(config.clone()).await.unwrap();
        assert_eq!(counted().await, 2);
        // A requested reload does this as well.
        host.clear_failures();
        host.reload(config).await.unwrap();
        assert_eq!(counted().await, 3);
    }
}
