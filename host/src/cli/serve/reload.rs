//! When a server reloads: on SIGHUP, when the config or a file that it names is another, and once more after a reload that
//! failed for a reason that may pass.
//!
//! What is wrong is told in the log, as `check` tells it, and the server goes on with what it has. The next event tries again.
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

use super::files::Files;
use crate::cli::signals::Hangup;
use crate::config::{Config, ConfigError};
use crate::host::{Host, ReloadError, Reloaded};
use crate::plugin::Backoff;
use crate::regular_file::FileThreads;

/// How long reading the config may take, with all files that it names but components.
const DEADLINE: Duration = Duration::from_secs(10);

/// Reloads a host when there is a reason to.
pub(super) struct Reloader<F> {
    /// The config file.
    pub(super) file: PathBuf,
    /// What the command line has to say about a config.
    pub(super) adapt: F,
    pub(super) hangup: Hangup,
}

/// The reload that is under way, and the next one.
#[derive(Default)]
struct Reloading {
    under_way: Option<AbortOnDropHandle<Result<Reloaded, ReloadError>>>,
    /// Whether somebody asked for it who wants to know that nothing changed.
    is_asked: bool,
    /// When to try again what may work then.
    retry_at: Option<Instant>,
    backoff: Backoff,
}

/// Why nothing is waited for any more.
enum Event {
    /// The reload has ended; without an outcome, by a panic.
    Ended(Option<Result<Reloaded, ReloadError>>),
    /// It is time for another try.
    Retry,
}

impl<F: Fn(Config) -> Config> Reloader<F> {
    /// Goes on until it is dropped.
    pub(super) async fn run(mut self, host: Arc<Host>) {
        let threads = FileThreads::new(1, DEADLINE);
        let mut files = Files::new();
        files.watch(self.named(&host.config().files)).await;
        // Something may have changed since the config was read.
        files.rest().await;
        let mut reloading = Reloading::default();
        loop {
            self.read_and_reload(&host, &threads, &mut files, &mut reloading).await;
            loop {
                tokio::select! {
                    event = reloading.event() => if let Event::Ended(outcome) = event {
                        reloading.conclude(outcome);
                        continue;
                    },
                    () = files.changed() => reloading.begin_anew(false),
                    () = self.hangup.next() => {
                        tracing::info!("SIGHUP: reloading");
                        // Whoever asks by hand wants everything tried again.
                        host.forget_failures();
                        reloading.begin_anew(true);
                        files.rest().await;
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
        files: &mut Files,
        reloading: &mut Reloading,
    ) {
        let began = SystemTime::now();
        let file = self.file.clone();
        let named = match threads.run(move || Config::load(&file)).await {
            Ok(Ok(config)) => {
                let config = (self.adapt)(config);
                let named = config.files.clone();
                let host = host.clone();
                let reload = async move { host.reload(config).await };
                reloading.under_way = Some(AbortOnDropHandle::new(tokio::spawn(reload)));
                named
            }
            Ok(Err(error)) => {
                refused(&error);
                // What it had before counts as well: the old config is the one that serves.
                error.files() | &host.config().files
            }
            Err(error) => {
                self.stalled(&error);
                reloading.retry_later();
                return;
            }
        };
        files.follow(self.named(&named), began).await;
    }

    fn named(&self, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        files.iter().cloned().chain([file]).collect()
    }

    fn stalled(&self, error: &io::Error) {
        tracing::error!(
            file = %self.file.display(), %error,
            "not reloaded: what was served before goes on being served, and the config is read again; if this does not pass, \
             put the config, and the files that it names, on a disk that answers"
        );
    }
}

impl Reloading {
    /// Something happened that has the config read again.
    fn begin_anew(&mut self, is_asked: bool) {
        self.is_asked = is_asked;
        self.backoff = Backoff::default();
        self.retry_at = None;
    }

    /// Waits for the end of the reload that is under way, or until it is time for another try.
    async fn event(&mut self) -> Event {
        let (under_way, retry_at) = (&mut self.under_way, self.retry_at);
        let ended = async {
            match under_way {
                Some(under_way) => under_way.await,
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
                self.under_way = None;
                Event::Ended(ended.ok())
            }
            () = retry => {
                self.retry_at = None;
                Event::Retry
            }
        }
    }

    fn retry_later(&mut self) {
        self.retry_at = Instant::now().checked_add(self.backoff.next());
    }

    fn conclude(&mut self, outcome: Option<Result<Reloaded, ReloadError>>) {
        match outcome {
            Some(Ok(reloaded)) => told(&reloaded, self.is_asked),
            Some(Err(error)) => {
                let is_transient = error.is_transient();
                if is_transient {
                    self.retry_later();
                }
                let then = if is_transient { ", and the new ones are tried again" } else { "" };
                tracing::error!(
                    %error,
                    "not reloaded: the plugins that were served before go on being served{then}; rules and settings of the \
                     new config count"
                );
            }
            None => tracing::error!("not reloaded: reloading failed within the host; the plugins of before are served"),
        }
    }
}

fn told(reloaded: &Reloaded, is_asked: bool) {
    for key in &reloaded.after_restart {
        tracing::warn!("`{key}` changed, which counts after a restart only");
    }
    let Reloaded { generation, rules, server, http, .. } = *reloaded;
    let [added, changed, removed] =
        [&reloaded.added, &reloaded.changed, &reloaded.removed].map(|names| names.join(","));
    let milliseconds = u64::try_from(reloaded.took.as_millis()).unwrap_or(u64::MAX);
    let took = humantime::format_duration(Duration::from_millis(milliseconds));
    if !reloaded.is_nothing() {
        tracing::info!(generation, added, changed, removed, rules, server, http, %took, "reloaded");
    } else if is_asked {
        tracing::info!(generation, %took, "reloaded: nothing changed");
    }
}

fn refused(error: &ConfigError) {
    tracing::error!("not reloaded: what was served before goes on being served\n{error}");
}
