//! The reload in flight: it is replaced by a newer one, retried with back-off, and its outcome is logged and reported.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::ReloadOutcome;
use super::kept_settings::{KEEPING_PLUGINS, KeptSettings, SETTINGS_APPLY};
use crate::host::{Host, ReloadError, ReloadReport};

/// A reload in flight, which is cancelled when it is dropped.
pub(super) type ReloadTask = AbortOnDropHandle<Result<ReloadReport, ReloadError>>;

/// The reload in flight, and the next one.
pub(super) struct Reloading {
    host: Arc<Host>,
    in_progress: Option<ReloadTask>,
    /// Whether the reload was requested explicitly: then "nothing changed" is logged, too.
    is_requested: bool,
    /// The time of the next retry.
    retry_at: Option<Instant>,
    backoff: Backoff,
    /// Whether this is a retry without an event.
    is_retry: bool,
    /// The last message about missing files.
    last_missing: Option<String>,
    /// Whether the last config, or a part of it, could not be used.
    has_failed: bool,
    /// The senders to requests that wait for the outcome.
    pub(super) waiting: Vec<oneshot::Sender<ReloadOutcome>>,
}

/// The event that ended a wait.
pub(super) enum Event {
    /// The reload has ended; without an outcome if it panicked.
    Finished(Option<Result<ReloadReport, ReloadError>>),
    /// The next retry is due.
    Retry,
}

impl Reloading {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self {
            host,
            in_progress: None,
            is_requested: false,
            retry_at: None,
            backoff: Backoff::default(),
            is_retry: false,
            last_missing: None,
            has_failed: false,
            waiting: Vec::new(),
        }
    }

    /// Replaces the reload in flight by `next`, or by none, and cancels it. If it has ended meanwhile, its config was
    /// served, and its report is logged.
    pub(super) async fn replace(&mut self, next: Option<ReloadTask>) {
        let former = std::mem::replace(&mut self.in_progress, next);
        if let Some(ended) = former.filter(ReloadTask::is_finished)
            && let Ok(Ok(reloaded)) = ended.await
        {
            log_report(&reloaded, self.is_requested);
        }
    }

    /// Records the outcome, and sends it to the requests that wait for it.
    pub(super) fn report(&mut self, outcome: &ReloadOutcome) {
        self.host.counters().record_reload_outcome(outcome);
        let had_failed = std::mem::replace(&mut self.has_failed, outcome.is_err());
        if let Ok(reloaded) = outcome
            && had_failed
        {
            tracing::info!(
                target: log_target::CONFIG, generation = reloaded.generation,
                "the config is valid again, and all of it is served"
            );
        }
        for waiting in self.waiting.drain(..) {
            // The receiver is gone if the request was dropped.
            let _ = waiting.send(outcome.clone());
        }
    }

    /// Resets the state for a new event.
    pub(super) fn restart(&mut self, is_requested: bool) {
        self.is_requested = is_requested;
        self.is_retry = false;
        self.backoff = Backoff::default();
        self.retry_at = None;
    }

    /// Logs which files are missing, once per message, and schedules a retry.
    pub(super) fn log_missing(&mut self, message: String, kept: KeptSettings) {
        if !self.is_retry || self.last_missing.as_ref() != Some(&message) {
            let (keeping, applies) = kept.texts();
            tracing::error!(target: log_target::CONFIG, "reload failed; {keeping}, and the new ones are tried again; {applies}\n{message}");
        }
        self.last_missing = Some(message);
        self.retry_later();
    }

    /// Waits for the end of the reload in flight, or for the next retry.
    pub(super) async fn event(&mut self) -> Event {
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

    pub(super) fn retry_later(&mut self) {
        self.retry_at = Instant::now().checked_add(self.backoff.next_delay());
    }

    pub(super) fn finish(&mut self, outcome: Option<Result<ReloadReport, ReloadError>>) {
        match outcome {
            Some(Ok(reloaded)) => {
                let is_found = self.last_missing.take().is_some();
                log_report(&reloaded, self.is_requested || is_found);
                self.report(&Ok(reloaded));
            }
            Some(Err(error)) => {
                let is_transient = error.is_transient();
                if is_transient {
                    self.retry_later();
                }
                let then = if is_transient { ", and the new ones are tried again" } else { "" };
                let settings =
                    if error.applies_settings() { SETTINGS_APPLY } else { "nothing of the new config applies" };
                tracing::error!(target: log_target::CONFIG, %error, "reload failed; {KEEPING_PLUGINS}{then}; {settings}");
                self.report(&Err(format!("{KEEPING_PLUGINS}{then}; {settings}: {error}")));
            }
            None => {
                tracing::error!(target: log_target::CONFIG, "reload failed: internal error; keeping the current plugins");
                self.report(&Err("internal error; keeping the current plugins".to_owned()));
            }
        }
    }
}

fn log_report(reloaded: &ReloadReport, is_requested: bool) {
    for key in &reloaded.requires_restart {
        tracing::warn!(target: log_target::CONFIG, "`{key}` changed, which takes effect after a restart only");
    }
    let ReloadReport { generation, rules, principals, server, http, admin, audit, .. } = *reloaded;
    let [added, changed, removed] =
        [&reloaded.added, &reloaded.changed, &reloaded.removed].map(|names| names.join(","));
    let milliseconds = u64::try_from(reloaded.elapsed.as_millis()).unwrap_or(u64::MAX);
    let took = humantime::format_duration(Duration::from_millis(milliseconds));
    if !reloaded.is_unchanged() {
        tracing::info!(target: log_target::CONFIG, generation, added, changed, removed, rules, principals, server, http, admin, audit, %took, "reloaded");
    } else if is_requested {
        tracing::info!(target: log_target::CONFIG, generation, %took, "reloaded: nothing changed");
    }
}
