//! The task of a plugin whose index is shared: it follows the replica that builds the index, or builds it, or indexes
//! for itself.
//!
//! A replica that builds publishes when its index has changed, and is complete or has failed. It publishes an
//! incomplete index only if there is no snapshot of a complete one, so that the others have the first documents soon
//! and never lose any. A replica that begins to build fetches the published snapshot first, so that it reads only what
//! has changed.
//!
//! A snapshot is published again before the store drops it ([`RENEWAL`]), although the index has not changed. So the
//! store keeps what is used, and drops what was published by replicas of earlier versions, or for plugins that were
//! removed.
//!
//! If an index is too large, the store refuses it, or three uploads fail, the replica publishes a snapshot without
//! documents whose report has the error. So the others index for themselves, and do not rely on an earlier snapshot
//! that no replica replaces.

use std::convert::Infallible;
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use mcp_host_base::shared_snapshots::{Published, SNAPSHOT_LIFETIME, Snapshot, SnapshotError};
use tokio::time::{Instant, sleep};

use super::importer::{Fetched, ImportTarget};
use super::role::IndexRole;
use super::turn::{Turn, TurnState};
use super::{SharedIndex, TransferError};
use crate::error::IndexError;
use crate::indexer::{Indexer, Progress};
use crate::status::{Gaps, Report, SourceId};
use crate::updater::later;

/// The pause after an upload, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 9;
/// The time after which a snapshot is published again: a third of its lifetime, so that an attempt may fail.
const RENEWAL: Duration = Duration::from_secs(SNAPSHOT_LIFETIME.as_secs() / 3);
/// The number of consecutive failed uploads after which the others are told that there is no snapshot.
const MAX_FAILED_UPLOADS: u32 = 3;

/// What a snapshot would have.
#[derive(Clone, PartialEq, Eq)]
struct Version {
    changes: u64,
    embedded: u64,
    report: Report,
}

/// What this replica has published.
#[derive(Default)]
struct Publication {
    version: Option<Version>,
    /// When the upload of that began.
    began: Option<Instant>,
    /// The revision by which it has published that there is no snapshot.
    failure: Option<u64>,
    /// The number of consecutive failed uploads.
    failed_uploads: u32,
    next: Option<Instant>,
    backoff: Backoff,
}

impl Indexer {
    /// Keeps the index consistent with the plugin, alone or with the other replicas, until the index fails.
    pub(crate) async fn keep_shared(
        &self,
        shared: &SharedIndex,
        id: SourceId,
        progress: &mut Progress,
    ) -> Result<Infallible, IndexError> {
        let mut state = TurnState::new();
        self.updater.state.set_role(IndexRole::Following, "");
        loop {
            self.follow(shared, &mut state, id, progress).await?;
            self.updater.state.set_incomplete(Gaps::default());
            progress.restart(&self.updater.reader.plugin);
            tokio::select! {
                ended = self.keep_indexed(id, progress) => return ended,
                followed = self.publish_until_followed(shared, &mut state, id) => followed?,
            }
        }
    }

    /// Fetches each new snapshot until this replica has to index.
    async fn follow(
        &self,
        shared: &SharedIndex,
        state: &mut TurnState,
        id: SourceId,
        progress: &mut Progress,
    ) -> Result<(), IndexError> {
        loop {
            match state.look(shared).await {
                Turn::Build => {
                    if state.has.is_none() {
                        self.fetch_before_building(shared, state, id, progress).await?;
                    }
                    state.has = None;
                    self.updater.state.set_role(IndexRole::Building, "");
                    return Ok(());
                }
                Turn::Alone(reason) => {
                    // What this replica indexes may be newer than the snapshot.
                    state.has = None;
                    self.updater.state.set_role(IndexRole::Alone, &reason);
                    return Ok(());
                }
                Turn::Fetch(revision, snapshot) => {
                    if self.fetch(shared, state, id, revision, &snapshot, progress).await? {
                        self.updater.state.set_role(IndexRole::Following, "");
                    }
                }
                Turn::Current => self.updater.state.set_role(IndexRole::Following, ""),
                Turn::Wait => {}
            }
            self.updater.state.count_snapshots(|counts| counts.failed = state.failed);
            sleep(shared.interval()).await;
        }
    }

    /// Fetches the published snapshot, if there is one, and meanwhile renews the lease: otherwise another replica would
    /// take it.
    async fn fetch_before_building(
        &self,
        shared: &SharedIndex,
        state: &mut TurnState,
        id: SourceId,
        progress: &mut Progress,
    ) -> Result<(), IndexError> {
        let Ok(Published::Snapshot { revision, snapshot }) = shared.ask(shared.place.published()).await else {
            return Ok(());
        };
        let fetching = self.fetch(shared, state, id, revision, &snapshot, progress);
        tokio::pin!(fetching);
        loop {
            tokio::select! {
                fetched = &mut fetching => return fetched.map(|_| ()),
                () = sleep(shared.interval()) => {}
            }
            // The next turn finds out whether this replica still has the lease.
            let _ = shared.ask(shared.place.hold()).await;
        }
    }

    /// Fetches a snapshot. Returns whether the index has it.
    async fn fetch(
        &self,
        shared: &SharedIndex,
        state: &mut TurnState,
        id: SourceId,
        revision: u64,
        snapshot: &Snapshot,
        progress: &mut Progress,
    ) -> Result<bool, IndexError> {
        let source = &self.updater.state;
        match shared.fetch(snapshot, &self.target(id)).await {
            Ok(Fetched { end, gaps, size, changed }) => {
                progress.backoff = Backoff::default();
                source.set_size(size);
                if changed > 0 {
                    source.mark_changed();
                }
                state.fetched(revision, end.report.error());
                source.count_snapshots(|counts| counts.fetched = counts.fetched.saturating_add(1));
                match end.report.is_complete() && end.report.error().is_none() {
                    true => source.set_complete(gaps),
                    false => source.set_incomplete(gaps),
                }
                self.find_lines().await;
                self.save(source.report()).await;
                Ok(true)
            }
            Err(TransferError::Index(error)) => Err(error),
            Err(error) => {
                let published = shared.ask(shared.place.published()).await;
                let is_replaced = published.is_ok_and(|published| published.revision() != Some(revision));
                let is_rejected = state.not_fetched(revision, &error, is_replaced);
                let (plugin, error) = (self.updater.reader.plugin.name(), error.to_string());
                tracing::debug!(target: log_target::SEARCH, plugin, error, "a snapshot of the index cannot be fetched");
                if is_rejected {
                    source.count_snapshots(|counts| counts.rejected = counts.rejected.saturating_add(1));
                } else {
                    state.failed = state.failed.saturating_add(1);
                }
                Ok(false)
            }
        }
    }

    fn target(&self, source: SourceId) -> ImportTarget {
        let reader = &self.updater.reader;
        let settings = reader.source.settings();
        ImportTarget {
            index: self.updater.index.clone(),
            source,
            mount: reader.plugin.mount().clone(),
            max_document: usize::try_from(settings.max_document.bytes()).unwrap_or(usize::MAX),
            max_bytes: settings.max_bytes.bytes(),
            max_documents: reader.plugin.max_listing_items(),
        }
    }

    /// Publishes the index while this replica holds the lease. Returns when there is a snapshot of another replica to
    /// rely on.
    async fn publish_until_followed(
        &self,
        shared: &SharedIndex,
        state: &mut TurnState,
        id: SourceId,
    ) -> Result<(), IndexError> {
        let mut publication = Publication::default();
        loop {
            sleep(shared.interval()).await;
            match state.look(shared).await {
                Turn::Build => {
                    self.updater.state.set_role(IndexRole::Building, "");
                    self.publish(shared, state, id, &mut publication).await?;
                }
                Turn::Alone(reason) => self.updater.state.set_role(IndexRole::Alone, &reason),
                Turn::Fetch(..) | Turn::Current => return Ok(()),
                Turn::Wait => {}
            }
            self.updater.state.count_snapshots(|counts| counts.failed = state.failed);
        }
    }

    /// Publishes the index, if that is due.
    async fn publish(
        &self,
        shared: &SharedIndex,
        state: &mut TurnState,
        id: SourceId,
        publication: &mut Publication,
    ) -> Result<(), IndexError> {
        if publication.next.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        let Ok(published) = shared.ask(shared.place.published()).await else {
            state.failed = state.failed.saturating_add(1);
            return Ok(());
        };
        let source = &self.updater.state;
        let changes = source.changes();
        let embedded = source.status.borrow().embedded;
        let version = Version { changes, embedded, report: source.report() };
        if !publication.is_due(&published, state.has, &version) {
            return Ok(());
        }
        let (began, reader) = (Instant::now(), &self.updater.reader);
        let is_included = |path: &str| reader.source.uri(reader.plugin.mount(), path).is_some();
        let mut pause = shared.lease;
        match shared.publish(&self.updater.index, id, version.report.clone(), &is_included).await {
            Ok(revision) => {
                (state.has, publication.version, publication.backoff) =
                    (Some(revision), Some(version), Backoff::default());
                (publication.began, publication.failed_uploads) = (Some(began), 0);
                source.count_snapshots(|counts| counts.published = counts.published.saturating_add(1));
            }
            Err(TransferError::Index(error)) => return Err(error),
            Err(error) => {
                state.failed = state.failed.saturating_add(1);
                pause = pause.max(publication.backoff.next_delay());
                let is_lasting = publication.failed(&error);
                let (plugin, error) = (reader.plugin.name(), error.to_string());
                tracing::warn!(
                    target: log_target::SEARCH, plugin, error,
                    "the search index of a plugin cannot be published to the other replicas; that is retried with back-off"
                );
                let is_told = publication.failure.is_some() && publication.failure == published.revision();
                if is_lasting && !is_told {
                    // Otherwise the others would rely on an earlier snapshot for as long as this lasts.
                    publication.failure = shared.publish_failure(error).await.ok();
                }
            }
        }
        publication.next = Some(later(Instant::now(), pause.max(began.elapsed().saturating_mul(PAUSE_FACTOR))));
        Ok(())
    }
}

impl Publication {
    /// Records a failed upload. Returns whether the failure lasts. It does not if another replica publishes.
    fn failed(&mut self, error: &TransferError) -> bool {
        if matches!(error, TransferError::LeaseLost | TransferError::Store(SnapshotError::Conflict)) {
            return false;
        }
        self.failed_uploads = self.failed_uploads.saturating_add(1);
        error.is_lasting() || self.failed_uploads >= MAX_FAILED_UPLOADS
    }

    /// Whether this version is published. `own` is the revision of the snapshot that this replica has published last.
    fn is_due(&self, published: &Published, own: Option<u64>, version: &Version) -> bool {
        let is_valid = matches!(published, Published::Snapshot { .. });
        let last = self.version.as_ref().filter(|_| is_valid && own.is_some() && published.revision() == own);
        let is_useful = version.report.is_complete() || version.report.error().is_some();
        let is_old = self.began.is_some_and(|began| began.elapsed() >= RENEWAL);
        match last {
            Some(last) => (is_old || last != version) && (is_useful || !last.report.is_complete()),
            None => is_useful || !is_valid,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_base::shared_snapshots::Slot;

    use super::*;

    fn version(changes: u64, is_complete: bool) -> Version {
        let report = if is_complete { Report::complete(Gaps::default()) } else { Report::default() };
        Version { changes, embedded: 0, report }
    }

    fn snapshot(revision: u64) -> Published {
        let snapshot = Snapshot { slot: Slot::A, chunks: 0, bytes: 0, digest: [0; 32], seal: Vec::new() };
        Published::Snapshot { revision, snapshot }
    }

    #[test]
    fn an_incomplete_index_replaces_no_snapshot_of_a_complete_one() {
        let mut publication = Publication::default();
        assert!(publication.is_due(&Published::Nothing, None, &version(0, false)), "the others have something soon");
        assert!(!publication.is_due(&snapshot(1), None, &version(0, false)), "another replica's may be complete");
        assert!(publication.is_due(&snapshot(1), None, &version(0, true)));
        publication.version = Some(version(1, false));
        assert!(publication.is_due(&snapshot(2), Some(2), &version(2, false)), "the last one was incomplete, too");
        publication.version = Some(version(2, true));
        assert!(!publication.is_due(&snapshot(3), Some(3), &version(2, true)), "nothing has changed");
        assert!(publication.is_due(&snapshot(3), Some(3), &version(3, true)));
        assert!(!publication.is_due(&snapshot(3), Some(3), &version(3, false)));
        assert!(publication.is_due(&snapshot(4), Some(3), &version(2, true)), "another replica has published");
        assert!(publication.is_due(&Published::Nothing, Some(3), &version(2, true)), "the store has lost it");
    }

    #[test]
    fn while_another_replica_publishes_no_failure_is_published() {
        let mut publication = Publication::default();
        for _ in 0..MAX_FAILED_UPLOADS {
            assert!(!publication.failed(&TransferError::LeaseLost));
            assert!(!publication.failed(&TransferError::Store(SnapshotError::Conflict)));
        }
        let failed = TransferError::Store(SnapshotError::NoAnswer("not connected".to_owned()));
        for _ in 1..MAX_FAILED_UPLOADS {
            assert!(!publication.failed(&failed));
        }
        assert!(publication.failed(&failed));
        assert!(Publication::default().failed(&TransferError::TooLarge(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_is_published_again_before_the_store_drops_it() {
        let (version, began) = (version(1, true), Some(Instant::now()));
        let publication = Publication { version: Some(version.clone()), began, ..Publication::default() };
        let last_moment = RENEWAL.checked_sub(Duration::from_secs(1)).unwrap();
        tokio::time::advance(last_moment).await;
        assert!(!publication.is_due(&snapshot(1), Some(1), &version));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(publication.is_due(&snapshot(1), Some(1), &version));
    }
}
