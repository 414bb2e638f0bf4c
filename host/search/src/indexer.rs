//! Indexes one plugin: a task that keeps the index consistent with the plugin's listing.
//!
//! A *walk* compares the default listing with the index (reconciliation). A resource is read if the index lacks it, or
//! if its entry has changed. A resource is also read if its entry does not show changes (there is no time of the last
//! change, and the provider does not report changes) and the last read is older than `search.refresh`. Resources that
//! are no longer listed are removed at the end of the comparison. A comparison that fails removes nothing and is
//! retried with back-off.
//!
//! A provider that reports changes is polled at `watch-interval`: between walks, between the pages of a long
//! comparison, and while a walk waits for its budget of reads. Changed resources are read, and deleted ones removed. A
//! changed listing is walked again, after a pause of [`PAUSE_FACTOR`] times the duration of the last comparison. So a
//! provider that reports changes with each poll uses a fifth of the time of one task.
//!
//! A change that cannot be written, for example on a full disk, is written when the index can be opened again. Until
//! then, searches that include the plugin are partial.
//!
//! | bound | mechanism |
//! |---|---|
//! | reads | one at a time, in the queue of clients' calls and within the plugin's limits; `search.reads` |
//! | memory | a page of the listing, a batch and one read; eight bytes for each listed resource; 16,000 watched paths, twice during a walk, and their entries if all of them change |
//! | the index | `search.max-bytes` of the plugin, `max-size` of all |

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use mcp_host_base::time::now_millis;
use mcp_host_engine::plugin::Plugin;
use tokio::time::{Instant, sleep, sleep_until};

use super::change_poller::ChangePoller;
use super::error::IndexError;
use super::snapshot::SharedIndex;
use super::status::SourceId;
use super::status::{Gaps, Report};
use super::store;
use super::updater::{PAUSE_FACTOR, Updater, later};
use super::walk::{Pass, Until, WalkError};

/// The maximum pause after a comparison.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The task that indexes one plugin.
pub(super) struct Indexer {
    pub(super) updater: Updater,
    /// None if the index of the plugin is not shared with other replicas.
    pub(super) shared: Option<SharedIndex>,
}

/// The progress of the task, which survives a failure of the index.
pub(super) struct Progress {
    poller: ChangePoller,
    /// Whether the index has not been consistent with the plugin yet.
    is_first: bool,
    /// The pauses after failures, which begin again when the index is consistent with the plugin or a snapshot.
    pub(super) backoff: Backoff,
}

impl Progress {
    /// The progress of a task that has not compared anything.
    pub(super) fn new(plugin: &Plugin) -> Self {
        Self { poller: ChangePoller::new(plugin), is_first: true, backoff: Backoff::default() }
    }

    /// Forgets what was compared. The pauses after failures stay.
    pub(super) fn restart(&mut self, plugin: &Plugin) {
        *self = Self { backoff: std::mem::take(&mut self.backoff), ..Self::new(plugin) };
    }
}

impl Indexer {
    /// Keeps the index consistent with the plugin until the future is dropped.
    pub(super) async fn run(self) {
        let mut progress = Progress::new(&self.updater.reader.plugin);
        loop {
            let mut rebuilds = self.updater.index.rebuilds();
            let rebuild = *rebuilds.borrow_and_update();
            let session = async {
                let id = self.open(rebuild).await?;
                match &self.shared {
                    Some(shared) => self.keep_shared(shared, id, &mut progress).await,
                    None => self.keep_indexed(id, &mut progress).await,
                }
            };
            let ended = tokio::select! {
                // A session ends only with an error.
                Err(error) = session => error,
                _ = rebuilds.changed() => continue,
            };
            match ended {
                IndexError::Closed => return,
                // The index was created again, which has been logged.
                IndexError::Damaged(_) => {}
                error => {
                    self.updater.state.set_error(&error.to_string());
                    self.save(self.updater.state.report()).await;
                }
            }
            sleep(progress.backoff.next_delay()).await;
        }
    }

    async fn open(&self, rebuild: u64) -> Result<SourceId, IndexError> {
        let key = self.updater.index.source_key(&self.updater.reader.source).await?;
        let opened = self.updater.index.write(move |connection| {
            let id = store::open_source(connection, &key, now_millis())?;
            Ok((id, store::source_size(connection, id)?))
        });
        let (id, size) = opened.await?;
        self.updater.state.set_open(id, size, rebuild);
        Ok(id)
    }

    /// Alternates walks and polls until the index fails.
    pub(super) async fn keep_indexed(&self, id: SourceId, progress: &mut Progress) -> Result<Infallible, IndexError> {
        let Progress { poller, is_first, backoff } = progress;
        loop {
            let began = Instant::now();
            self.find_lines().await;
            match self.walk(id, poller, *is_first, began).await {
                Ok(Some((gaps, pause))) => {
                    (*backoff, *is_first) = (Backoff::default(), false);
                    // A process that waits for the end of the walk may exit after it is reported.
                    self.save(Report::complete(gaps)).await;
                    self.updater.state.set_complete(gaps);
                    self.poll_until_listing_changes(id, poller, began, pause).await?;
                }
                // The listing is compared again, with the read resources in the index.
                Ok(None) => {}
                Err(WalkError::Index(error)) => return Err(error),
                Err(WalkError::Plugin(fault)) => {
                    self.updater.state.set_error(&fault.to_string());
                    self.save(self.updater.state.report()).await;
                    sleep(backoff.next_delay()).await;
                }
            }
        }
    }

    /// Finds out whether the provider serves parts of each text by `?lines=`.
    pub(super) async fn find_lines(&self) {
        if let Some(has_lines) = self.updater.reader.has_lines().await {
            self.updater.state.has_lines.store(has_lines, Ordering::Relaxed);
        }
    }

    /// Makes the index consistent with the listing. Returns the remaining gaps, and the pause until the next walk. None
    /// if the walk has to be repeated immediately.
    async fn walk(
        &self,
        id: SourceId,
        poller: &mut ChangePoller,
        is_first: bool,
        began: Instant,
    ) -> Result<Option<(Gaps, Duration)>, WalkError> {
        let Pass { mut gaps, has_more } = self.updater.compare(id, poller, is_first).await?;
        let pause = began.elapsed().saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE);
        if has_more {
            self.updater.state.set_incomplete(gaps);
            self.save(self.updater.state.report()).await;
        }
        self.updater.read_changed(id, poller).await?;
        if has_more {
            let until = Until { if_changed: later(Instant::now(), pause), at_most: self.next_refresh(began) };
            let rest = self.updater.read_deferred(id, poller, is_first, &until).await?;
            if rest.has_more {
                return Ok(None);
            }
            gaps = rest.gaps;
        }
        Ok(Some((gaps, pause)))
    }

    /// The time at which a walk that began at `began` is followed by another in any case.
    fn next_refresh(&self, began: Instant) -> Instant {
        later(began, self.updater.reader.source.settings().refresh.duration())
    }

    /// Reads changed resources until the next walk of the listing is due: when the listing has changed and `pause` is
    /// over, or after `search.refresh`.
    async fn poll_until_listing_changes(
        &self,
        id: SourceId,
        poller: &mut ChangePoller,
        walked: Instant,
        pause: Duration,
    ) -> Result<(), IndexError> {
        let refresh = self.next_refresh(walked).max(Instant::now());
        let earliest = later(Instant::now(), pause);
        let mut next_poll = later(Instant::now(), poller.interval(self.updater.reader.plugin.watch_interval()));
        while self.updater.reader.plugin.info().watches {
            sleep_until(next_poll.min(refresh)).await;
            next_poll = self.updater.poll(id, poller).await?;
            if poller.is_current() {
                self.updater.state.set_current();
            }
            if (poller.listing_changed && Instant::now() >= earliest) || Instant::now() >= refresh {
                return Ok(());
            }
        }
        sleep_until(refresh).await;
        Ok(())
    }

    /// Stores the report of the source for other processes, if the index can be written.
    pub(super) async fn save(&self, report: Report) {
        let saving = async {
            let key = self.updater.index.source_key(&self.updater.reader.source).await?;
            self.updater.index.write(move |connection| store::set_report(connection, &key, &report)).await
        };
        if let Err(error) = saving.await {
            let (plugin, error) = (self.updater.reader.plugin.name(), error.to_string());
            tracing::debug!(target: log_target::SEARCH, plugin, error, "the state of the plugin cannot be stored in the index");
        }
    }
}
