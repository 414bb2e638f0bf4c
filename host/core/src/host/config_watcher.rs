//! Reload on change: [`Host::watch_config`].
//!
//! A host is reloaded when its config file, or a file that the config names, changes, when a [`ReloadTrigger`] requests
//! it, and again after a reload that failed for a transient reason.
//!
//! If [`ConfigWatcher::validate`] refuses a config, the current plugins are kept, and so are the issuers and the audit
//! log if they are refused on their own: they would not work. The config's rules and other settings apply.
//!
//! An invalid config is logged as `mcp-host check` reports it, and the host keeps serving the current one; the next
//! event retries. If a config is valid except for a missing file that a plugin needs, its rules and settings apply
//! nevertheless, and the rest is retried with back-off, even without an event. The newest config wins: it cancels a
//! reload that is still loading plugins.
//!
//! The config and all files that it names are read on a separate thread, one at a time, and a read is abandoned after
//! [`DEADLINE`]: no async task waits for a disk.

mod kept_settings;
mod reloading;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcp_host_base::fs_watch::FileWatcher;
use mcp_host_base::log_target;
use mcp_host_base::regular_file::FileThreads;
use mcp_host_base::task;
use mcp_host_config::{Config, ConfigError};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::task::AbortOnDropHandle;

use self::kept_settings::KeptSettings;
use self::reloading::{Event, Reloading};
use super::{Host, ReloadReport};

/// The maximum time to read the config with all files that it names, except components.
const DEADLINE: Duration = Duration::from_secs(10);

/// Reloads a host when its config file, or a file that the config names, changes. Made by [`Host::watch_config`]; works
/// while [`run`](Self::run) is polled.
pub struct ConfigWatcher {
    host: Arc<Host>,
    file: PathBuf,
    map: Arc<dyn Fn(Config) -> Config + Send + Sync>,
    apply: Arc<dyn Fn(&Config) + Send + Sync>,
    validate: Arc<Validate>,
    trigger: ReloadTrigger,
}

/// A check of a config; the error is the reason for refusing it.
type Validate = dyn Fn(&Config) -> Result<(), String> + Send + Sync;

/// Requests a reload from a [`ConfigWatcher`], as `SIGHUP` does for the command `mcp-host serve`.
#[derive(Clone, Debug, Default)]
pub struct ReloadTrigger(Arc<Requests>);

/// Requests for a reload that has not begun.
#[derive(Debug, Default)]
struct Requests {
    notify: Notify,
    waiting: Mutex<Vec<oneshot::Sender<ReloadOutcome>>>,
    /// The senders to requests for a comparison.
    comparing: Mutex<Vec<oneshot::Sender<ReloadOutcome>>>,
    compare: Notify,
}

/// The outcome of a requested reload: its changes, or why the new config, or a part of it, is not served. The log has
/// the same reason.
pub type ReloadOutcome = Result<ReloadReport, String>;

impl ReloadTrigger {
    /// Requests that the config is read and everything in it is retried, even if no file has changed, and even
    /// components that failed to compile. Requests before the reload begins are coalesced.
    pub fn reload(&self) {
        self.0.notify.notify_one();
    }

    /// Requests a reload as [`reload`](Self::reload) does, and waits for the outcome. If a newer event restarts the
    /// reload, this is the outcome of the new one. None if the watcher no longer runs.
    pub async fn reload_and_wait(&self) -> Option<ReloadOutcome> {
        let (sender, outcome) = oneshot::channel();
        self.0.waiting.lock().push(sender);
        self.reload();
        outcome.await.ok()
    }

    /// Reads the config, and returns the changes that a reload would make, without applying them. Components are not
    /// compiled. None if the watcher no longer runs.
    pub async fn compare(&self) -> Option<ReloadOutcome> {
        let (sender, outcome) = oneshot::channel();
        self.0.comparing.lock().push(sender);
        self.0.compare.notify_one();
        outcome.await.ok()
    }
}

impl Host {
    /// Returns a watcher that reloads the host from this config file. The watcher reads the file once when it starts,
    /// so that it misses no change since the host was started.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use mcp_resource_host::Host;
    /// use mcp_resource_host::config::Config;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let host = Arc::new(Host::start(Config::load("mcp-host.toml")?).await?);
    /// let watcher = host.watch_config("mcp-host.toml");
    /// let trigger = watcher.trigger();
    /// tokio::spawn(watcher.run());
    /// // Files that change are noticed by themselves. To reload on demand as well:
    /// trigger.reload();
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch_config(self: &Arc<Self>, file: impl Into<PathBuf>) -> ConfigWatcher {
        ConfigWatcher {
            host: self.clone(),
            file: file.into(),
            map: Arc::new(|config| config),
            apply: Arc::new(|_| ()),
            validate: Arc::new(|_| Ok(())),
            trigger: ReloadTrigger::default(),
        }
    }
}

impl fmt::Debug for ConfigWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigWatcher").field("file", &self.file).finish_non_exhaustive()
    }
}

/// An unusable config, with the rendered reason. Rendering takes a while, so serving threads do not do it.
struct RejectedConfig {
    message: String,
    files: BTreeSet<PathBuf>,
    /// The usable part of the config, without everything that needs a missing file.
    usable: Option<(Config, KeptSettings)>,
}

impl RejectedConfig {
    fn new(error: ConfigError, validate: &Validate) -> Self {
        let (mut message, files) = (error.clone().without_private_lines().to_string(), error.files().clone());
        let known = Config { files, ..Config::default() };
        if let Err(reason) = validate(&known) {
            message = format!("{message}\n{reason}");
        }
        let usable = match (error.partial_config(), error.config_of_access()) {
            (Some(config), _) => Some((config.clone(), KeptSettings::new(config, validate))),
            (None, Some(config)) => Some((config.clone(), KeptSettings::all_but_access(config, validate))),
            (None, None) => None,
        };
        Self { message, files: known.files, usable }
    }
}

impl ConfigWatcher {
    /// Applies a function to each config before it is served: for settings that do not come from the file.
    #[must_use]
    pub fn map(mut self, map: impl Fn(Config) -> Config + Send + Sync + 'static) -> Self {
        self.map = Arc::new(map);
        self
    }

    /// Calls a function with each config before it is served, but not before it is compared: for components of the
    /// program beside the host that have settings. The function is called on a thread that may block.
    #[must_use]
    pub fn apply(mut self, apply: impl Fn(&Config) + Send + Sync + 'static) -> Self {
        self.apply = Arc::new(apply);
        self
    }

    /// Sets a check of each valid config. If the check refuses a config, its rules and settings apply, its plugins do
    /// not, and the error is logged. Then the issuers and the audit log are checked, each in a config with nothing
    /// else; if refused, they are not replaced either. For an invalid config, the check gets only the files, and its
    /// error is logged in addition.
    ///
    /// The check is for conditions outside of the config, such as which files the process may open. It is called on a
    /// thread that may block.
    #[must_use]
    pub fn validate(mut self, check: impl Fn(&Config) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.validate = Arc::new(check);
        self
    }

    /// Uses an existing trigger.
    #[must_use]
    pub fn with_trigger(mut self, trigger: ReloadTrigger) -> Self {
        self.trigger = trigger;
        self
    }

    /// Returns a handle that requests reloads.
    pub fn trigger(&self) -> ReloadTrigger {
        self.trigger.clone()
    }

    /// Watches and reloads until the future is dropped. Results are logged under the target `mcp_host::config`.
    pub async fn run(self) {
        let threads = FileThreads::new(1, DEADLINE);
        let mut watcher = FileWatcher::default();
        watcher.watch(self.watched_files(&self.host.config().files)).await;
        // A file may have changed after the config was read.
        watcher.settle().await;
        let mut reloading = Reloading::new(self.host.clone());
        loop {
            self.read_and_reload(&threads, &mut watcher, &mut reloading).await;
            loop {
                tokio::select! {
                    event = reloading.event() => if let Event::Finished(outcome) = event {
                        reloading.finish(outcome);
                        continue;
                    },
                    () = self.trigger.0.compare.notified() => {
                        self.answer_comparisons(&threads).await;
                        continue;
                    }
                    () = watcher.changed() => reloading.restart(false),
                    () = self.trigger.0.notify.notified() => {
                        // An explicit request retries everything.
                        self.host.clear_failures();
                        reloading.restart(true);
                        reloading.waiting.append(&mut self.trigger.0.waiting.lock());
                        watcher.settle().await;
                    }
                }
                break;
            }
        }
    }

    /// Answers requests for a [comparison](ReloadTrigger::compare) until the future is dropped, and never reloads: for
    /// a program that keeps serving the config of its start.
    pub async fn run_without_reloads(self) {
        let threads = FileThreads::new(1, DEADLINE);
        loop {
            self.trigger.0.compare.notified().await;
            self.answer_comparisons(&threads).await;
        }
    }

    async fn answer_comparisons(&self, threads: &FileThreads) {
        // Later requests get a config that is read later.
        let askers = std::mem::take(&mut *self.trigger.0.comparing.lock());
        let outcome = self.compare(threads).await;
        for asker in askers {
            // The receiver is gone if the request was dropped.
            let _ = asker.send(outcome.clone());
        }
    }

    /// Reads the config, and compares it with the current config.
    async fn compare(&self, threads: &FileThreads) -> ReloadOutcome {
        let (file, map, validate) = (self.file.clone(), self.map.clone(), self.validate.clone());
        let read = move || match Config::load(&file) {
            Ok(config) => {
                let mut config = map(config);
                // On this thread, because it reads directories.
                config.find_nested_grants();
                let Err(message) = validate(&config) else { return Ok(config) };
                let usable = Some((config.clone(), KeptSettings::new(&config, &*validate)));
                Err(Box::new(RejectedConfig { message, files: BTreeSet::new(), usable }))
            }
            Err(error) => {
                let RejectedConfig { message, files, usable } = RejectedConfig::new(error, &*validate);
                let usable = usable.map(|(config, kept)| (map(config), kept));
                Err(Box::new(RejectedConfig { message, files, usable }))
            }
        };
        match threads.run(read).await.map_err(|error| format!("the config cannot be read: {error}"))? {
            Ok(config) => self.host.compare(config).await.map_err(|error| error.to_string()),
            Err(rejected) => Err(self.compare_rejected(*rejected)),
        }
    }

    /// Returns what a reload would do with a config that cannot be used, and why it cannot.
    fn compare_rejected(&self, RejectedConfig { message, usable, .. }: RejectedConfig) -> String {
        let Some((config, kept)) = usable else { return format!("keeping the current generation\n{message}") };
        let config = kept.keep(config, &self.host.config());
        match self.host.compare_settings(config) {
            Ok(report) => {
                let (keeping, applies) = kept.texts();
                let changed: Vec<_> = report.changed_settings().collect();
                let changed = if changed.is_empty() { "none changed".to_owned() } else { changed.join(", ") };
                format!("{keeping}; {applies} ({changed})\n{message}")
            }
            Err(error) => format!("keeping the current generation: {error}\n{message}"),
        }
    }

    /// Reads the config and begins a reload, which cancels a reload in flight. Logs why a config cannot be used.
    async fn read_and_reload(&self, threads: &FileThreads, watcher: &mut FileWatcher, reloading: &mut Reloading) {
        let began = SystemTime::now();
        let (file, map, validate) = (self.file.clone(), self.map.clone(), self.validate.clone());
        let apply = self.apply.clone();
        let read = move || match Config::load(&file) {
            Ok(config) => {
                let config = map(config);
                apply(&config);
                let is_usable = validate(&config).map_err(|reason| (reason, KeptSettings::new(&config, &*validate)));
                Ok((config, is_usable))
            }
            Err(error) => Err(Box::new(RejectedConfig::new(error, &*validate))),
        };
        let config_files = match threads.run(read).await {
            Ok(Ok((config, is_usable))) => {
                let config_files = config.files.clone();
                match is_usable {
                    Ok(()) => {
                        let host = self.host.clone();
                        let reload = async move { host.reload(config).await };
                        reloading.replace(Some(AbortOnDropHandle::new(task::spawn(reload)))).await;
                    }
                    Err((reason, kept)) => {
                        self.host.counters().record_reload(false);
                        reloading.replace(None).await;
                        reload_settings(&self.host, config, kept).await;
                        let (keeping, applies) = kept.texts();
                        tracing::error!(target: log_target::CONFIG, "reload failed; {keeping}; {applies}: {reason}");
                        reloading.report(&Err(format!("{keeping}; {applies}: {reason}")));
                    }
                }
                config_files
            }
            Ok(Err(rejected)) => {
                self.host.counters().record_reload(false);
                let RejectedConfig { message, files, usable } = *rejected;
                // The files of the current config count as well, because it may stay in use.
                let files = &files | &self.host.config().files;
                match usable {
                    Some((usable, kept)) => {
                        reloading.replace(None).await;
                        let usable = (self.map)(usable);
                        (self.apply)(&usable);
                        reload_settings(&self.host, usable, kept).await;
                        let (keeping, applies) = kept.texts();
                        reloading
                            .report(&Err(format!("{keeping}, and the new ones are tried again; {applies}\n{message}")));
                        reloading.log_missing(message, kept);
                    }
                    None => {
                        log_rejected(&message);
                        reloading.report(&Err(format!("keeping the current generation\n{message}")));
                    }
                }
                files
            }
            Err(error) => {
                self.host.counters().record_reload(false);
                self.stalled(&error);
                reloading.report(&Err(format!("the config cannot be read: {error}")));
                reloading.retry_later();
                return;
            }
        };
        watcher.update(self.watched_files(&config_files), began).await;
    }

    fn watched_files(&self, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        files.iter().cloned().chain([file]).collect()
    }

    fn stalled(&self, error: &io::Error) {
        tracing::error!(
            target: log_target::CONFIG, file = %self.file.display(), %error,
            "reload failed; keeping the current generation; the config is read again; if this persists, \
             move the config, and the files that it names, to a disk that responds"
        );
    }
}

fn log_rejected(message: &str) {
    tracing::error!(target: log_target::CONFIG, "reload failed; keeping the current generation\n{message}");
}

/// Applies the rules and settings of a config whose plugins cannot be used, except for the kept settings.
async fn reload_settings(host: &Host, config: Config, kept: KeptSettings) {
    let config = kept.keep(config, &host.config());
    match host.reload_settings(config).await {
        Ok(_) => {}
        Err(error) => {
            tracing::error!(target: log_target::CONFIG, %error, "rules and settings of the new config are not applied")
        }
    }
}
