//! When a server reloads: on SIGHUP, when the config or a file that it names is another, and once more after a reload that
//! failed for a reason that may pass.
//!
//! What is wrong is told in the log, as `check` tells it, and the server goes on with what it has. The next event tries again.
//! Where it is only that something which a plugin needs is not on the disk, rules and settings count all the same, and it is
//! tried again without an event, too.
//! The newest config wins: a reload that is still loading plugins is given up for it.
//!
//! Nothing here waits for a file: the config is read, with all that it names, on a thread of its own, one at a time, and given up
//! after [`DEADLINE`].

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::file_watcher::FileWatcher;
use crate::cli::signals::Hangup;
use crate::config::{Config, ConfigError};
use crate::host::{Host, ReloadError, ReloadReport};
use crate::log_target;
use crate::plugin::Backoff;
use crate::regular_file::FileThreads;

/// How long reading the config may take, with all files that it names but components.
const DEADLINE: Duration = Duration::from_secs(10);

/// What the log says of plugins that are not replaced.
const KEEPING_PLUGINS: &str = "keeping the current plugins";
/// What it says of the rest of their config.
const SETTINGS_APPLY: &str = "rules and settings of the new config apply";

/// Reloads a host when there is a reason to.
pub(super) struct Reloader<F> {
    /// The config file.
    pub(super) file: PathBuf,
    /// What the command line has to say about a config.
    pub(super) apply_overrides: F,
    pub(super) hangup: Hangup,
}

/// The reload that is under way, and the next one.
#[derive(Default)]
struct Reloading {
    in_progress: Option<AbortOnDropHandle<Result<ReloadReport, ReloadError>>>,
    /// Whether somebody asked for it who wants to know that nothing changed.
    is_requested: bool,
    /// When to try again what may work then.
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// Whether the config is read again though nothing happened.
    is_retry: bool,
    /// What was said of a config whose plugins lack something on the disk.
    last_missing: Option<String>,
}

/// Why a config cannot be used, ready for the log: drawing it takes a while, which is not for the threads that serve.
struct RejectedConfig {
    message: String,
    files: BTreeSet<PathBuf>,
    /// What can be used of it all the same.
    usable: Option<Config>,
}

impl From<ConfigError> for RejectedConfig {
    fn from(error: ConfigError) -> Self {
        Self { message: error.to_string(), files: error.files().clone(), usable: error.partial_config().cloned() }
    }
}

/// Why nothing is waited for any more.
enum Event {
    /// The reload has ended; without an outcome, by a panic.
    Finished(Option<Result<ReloadReport, ReloadError>>),
    /// It is time for another try.
    Retry,
}

impl<F: Fn(Config) -> Config> Reloader<F> {
    /// Goes on until it is dropped.
    pub(super) async fn run(mut self, host: Arc<Host>) {
        let threads = FileThreads::new(1, DEADLINE);
        let mut watcher = FileWatcher::new();
        watcher.watch(self.watched_files(&host.config().files)).await;
        // Something may have changed since the config was read.
        watcher.settle().await;
        let mut reloading = Reloading::default();
        loop {
            self.read_and_reload(&host, &threads, &mut watcher, &mut reloading).await;
            loop {
                tokio::select! {
                    event = reloading.event() => if let Event::Finished(outcome) = event {
                        reloading.finish(outcome);
                        continue;
                    },
                    () = watcher.changed() => reloading.restart(false),
                    () = self.hangup.next() => {
                        tracing::info!(target: log_target::CONFIG, "SIGHUP: reloading");
                        // Whoever asks by hand wants everything tried again.
                        host.clear_failures();
                        reloading.restart(true);
                        watcher.settle().await;
                    }
                }
                break;
            }
        }
    }

    /// Reads the config and begins to reload, in the place of a reload that is under way; of a config that cannot be used, says
    /// why.
    async fn read_and_reload(
        &self,
        host: &Arc<Host>,
        threads: &FileThreads,
        watcher: &mut FileWatcher,
        reloading: &mut Reloading,
    ) {
        let began = SystemTime::now();
        let file = self.file.clone();
        let config_files =
            match threads.run(move || Config::load(&file).map_err(|error| Box::new(RejectedConfig::from(error)))).await
            {
                Ok(Ok(config)) => {
                    let config = (self.apply_overrides)(config);
                    let config_files = config.files.clone();
                    let host = host.clone();
                    let reload = async move { host.reload(config).await };
                    reloading.in_progress = Some(AbortOnDropHandle::new(tokio::spawn(reload)));
                    config_files
                }
                Ok(Err(rejected)) => {
                    let RejectedConfig { message, files, usable } = *rejected;
                    // What it had before counts as well: the old config is the one that serves.
                    let files = &files | &host.config().files;
                    match usable {
                        Some(usable) => {
                            reloading.in_progress = None;
                            reload_settings(host.clone(), (self.apply_overrides)(usable)).await;
                            reloading.log_missing(message);
                        }
                        None => log_rejected(&message),
                    }
                    files
                }
                Err(error) => {
                    self.stalled(&error);
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
            "reload failed; keeping the current generation, and the config is read again; if this does not pass, \
             put the config, and the files that it names, on a disk that answers"
        );
    }
}

impl Reloading {
    /// Something happened that has the config read again.
    fn restart(&mut self, is_requested: bool) {
        self.is_requested = is_requested;
        self.is_retry = false;
        self.backoff = Backoff::default();
        self.retry_at = None;
    }

    /// Says what plugins lack on the disk, which is tried again without saying so again.
    fn log_missing(&mut self, message: String) {
        if !self.is_retry || self.last_missing.as_ref() != Some(&message) {
            tracing::error!(target: log_target::CONFIG, "reload failed; {KEEPING_PLUGINS}, and the new ones are tried again; {SETTINGS_APPLY}\n{message}");
        }
        self.last_missing = Some(message);
        self.retry_later();
    }

    /// Waits for the end of the reload that is under way, or until it is time for another try.
    async fn event(&mut self) -> Event {
        let (in_progress, retry_at) = (&mut self.in_progress, self.retry_at);
        let ended = async {
            match in_progress {
                Some(in_progress) => in_progress.await,
                None => std::future::pending().await,
            }
        };
        let retry = async {
            match retry_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = ended => {
                self.in_progress = None;
                Event::Finished(ended.ok())
            }
            () = retry => {
                self.retry_at = None;
                self.is_retry = true;
                Event::Retry
            }
        }
    }

    fn retry_later(&mut self) {
        self.retry_at = Instant::now().checked_add(self.backoff.next_delay());
    }

    fn finish(&mut self, outcome: Option<Result<ReloadReport, ReloadError>>) {
        match outcome {
            Some(Ok(reloaded)) => {
                let is_found = self.last_missing.take().is_some();
                log_report(&reloaded, self.is_requested || is_found);
            }
            Some(Err(error)) => {
                let is_transient = error.is_transient();
                if is_transient {
                    self.retry_later();
                }
                let then = if is_transient { ", and the new ones are tried again" } else { "" };
                tracing::error!(target: log_target::CONFIG, %error, "reload failed; {KEEPING_PLUGINS}{then}; {SETTINGS_APPLY}");
            }
            None => {
                tracing::error!(target: log_target::CONFIG, "reload failed: internal error; keeping the current plugins")
            }
        }
    }
}

fn log_report(reloaded: &ReloadReport, is_requested: bool) {
    for key in &reloaded.requires_restart {
        tracing::warn!(target: log_target::CONFIG, "`{key}` changed, which takes effect after a restart only");
    }
    let ReloadReport { generation, rules, server, http, .. } = *reloaded;
    let [added, changed, removed] =
        [&reloaded.added, &reloaded.changed, &reloaded.removed].map(|names| names.join(","));
    let milliseconds = u64::try_from(reloaded.elapsed.as_millis()).unwrap_or(u64::MAX);
    let took = humantime::format_duration(Duration::from_millis(milliseconds));
    if !reloaded.is_unchanged() {
        tracing::info!(target: log_target::CONFIG, generation, added, changed, removed, rules, server, http, %took, "reloaded");
    } else if is_requested {
        tracing::info!(target: log_target::CONFIG, generation, %took, "reloaded: nothing changed");
    }
}

fn log_rejected(message: &str) {
    tracing::error!(target: log_target::CONFIG, "reload failed; keeping the current generation\n{message}");
}

/// Has rules and settings of a config count whose plugins cannot be used.
async fn reload_settings(host: Arc<Host>, config: Config) {
    let reloaded = tokio::task::spawn_blocking(move || host.reload_settings(config)).await;
    match reloaded {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::error!(target: log_target::CONFIG, %error, "rules and settings of the new config are not applied")
        }
        Err(error) => {
            tracing::error!(target: log_target::CONFIG, %error, "rules and settings of the new config may not be applied")
        }
    }
}
