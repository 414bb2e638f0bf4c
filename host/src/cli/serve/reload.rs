//! When a server reloads: on SIGHUP, and when the config or a file that it names is another.
//!
//! What is wrong is told in the log, as `check` tells it, and the server goes on with what it has. The next event tries again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::files::Files;
use crate::cli::signals::Hangup;
use crate::config::{Config, ConfigError};
use crate::host::{Host, Reloaded};

/// Reloads a host when there is a reason to.
pub(super) struct Reloader<F> {
    /// The config file.
    pub(super) file: PathBuf,
    /// What the command line has to say about a config.
    pub(super) adapt: F,
    pub(super) hangup: Hangup,
}

impl<F: Fn(Config) -> Config> Reloader<F> {
    /// Goes on until it is dropped.
    pub(super) async fn run(mut self, host: Arc<Host>) {
        let mut files = Files::new();
        files.watch(self.named(&host.config().files));
        // Something may have changed since the config was read.
        files.rest().await;
        let mut is_asked = false;
        loop {
            let began = SystemTime::now();
            let named = match Config::load(&self.file).map(&self.adapt) {
                Ok(config) => {
                    let named = config.files.clone();
                    reload(&host, config, is_asked).await;
                    named
                }
                Err(error) => {
                    refused(&error);
                    // What it had before counts as well: the old config is the one that serves.
                    error.files() | &host.config().files
                }
            };
            files.follow(self.named(&named), began);
            is_asked = tokio::select! {
                () = files.changed() => false,
                () = self.hangup.next() => {
                    tracing::info!("SIGHUP: reloading");
                    files.rest().await;
                    true
                }
            };
        }
    }

    fn named(&self, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        files.iter().cloned().chain([file]).collect()
    }
}

async fn reload(host: &Host, config: Config, is_asked: bool) {
    match host.reload(config).await {
        Ok(reloaded) => told(&reloaded, is_asked),
        Err(error) => tracing::error!(%error, "not reloaded: what was served before goes on being served"),
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
