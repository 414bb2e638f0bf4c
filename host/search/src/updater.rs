//! Updates of the index: reading resources of a plugin, and writing them in batches.
//!
//! Walks (`walk`) and polls for changes use them.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::time::now_millis;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::uri::Path;
use rusqlite::Connection;
use tokio::time::Instant;

use super::change_poller::ChangePoller;
use super::error::IndexError;
use super::index::Index;
use super::source_reader::{Listed, SourceReader};
use super::status::{Gaps, SourceId, SourceState};
use super::store::{self, Bounds, Change, KnownDocument};

/// The pause after a comparison or a poll, as a multiple of its duration.
pub(super) const PAUSE_FACTOR: u32 = 4;

/// The number of changes at which a batch is written.
const MAX_CHANGES: usize = 64;
/// The age at which a batch is written.
const MAX_AGE: Duration = Duration::from_millis(300);

/// Updates the documents of one plugin in the index.
pub(super) struct Updater {
    pub(super) reader: SourceReader,
    pub(super) index: Arc<Index>,
    pub(super) state: Arc<SourceState>,
}

impl Updater {
    /// Polls for changes and reads the changed resources. Returns the time of the next poll.
    pub(super) async fn poll(&self, id: SourceId, poller: &mut ChangePoller) -> Result<Instant, IndexError> {
        let pause = self.poll_changes(poller).await;
        self.read_changed(id, poller).await?;
        Ok(later(Instant::now(), pause))
    }

    /// Polls for changes. Returns the pause until the next poll.
    pub(super) async fn poll_changes(&self, poller: &mut ChangePoller) -> Duration {
        let began = Instant::now();
        poller.poll(&self.reader.plugin).await;
        let interval = poller.interval(self.reader.plugin.watch_interval());
        interval.max(began.elapsed().saturating_mul(PAUSE_FACTOR))
    }

    /// An empty batch.
    pub(super) fn new_batch(&self) -> Batch {
        Batch::new(self.index.space().batch_size())
    }

    /// Writes a batch and returns the ids of the stored documents. Counts the documents for which there is no space.
    pub(super) async fn apply(&self, id: SourceId, batch: &mut Batch, gaps: &mut Gaps) -> Result<Vec<i64>, IndexError> {
        let changes = batch.take();
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let bounds = Bounds { index: self.index.space(), source: self.reader.source.settings().max_bytes.bytes() };
        let changing = self.change(id, move |connection| {
            let applied = store::apply(connection, id, &changes, bounds, now_millis())?;
            let is_changed = applied.changed > 0;
            Ok((applied, is_changed))
        });
        let applied = changing.await?;
        gaps.omitted = gaps.omitted.saturating_add(u64::try_from(applied.omitted).unwrap_or(u64::MAX));
        Ok(applied.ids)
    }

    /// Runs an operation on the source in the index, which also returns whether it made a change. The change and the
    /// new size of the source are recorded although the future is dropped, because that does not stop the operation.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        id: SourceId,
        operation: impl FnOnce(&mut Connection) -> Result<(T, bool), IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let state = self.state.clone();
        let changing = self.index.change(move |connection| {
            let (result, is_changed) = operation(connection)?;
            if is_changed {
                state.mark_changed();
            }
            state.set_size(store::source_size(connection, id)?);
            Ok((result, is_changed))
        });
        changing.await
    }

    /// Removes the changed resources that no longer exist, then reads the others. A resource that cannot be stored
    /// stays marked as changed.
    pub(super) async fn read_changed(&self, id: SourceId, poller: &mut ChangePoller) -> Result<(), IndexError> {
        let changed = std::mem::take(&mut poller.changed);
        let result = self.store_changed(id, changed.iter()).await;
        if result.is_err() {
            poller.changed.extend(changed);
        }
        result
    }

    /// Reads changed resources until a deadline, while the budget allows it. The remaining resources, and resources
    /// that cannot be stored, stay marked as changed. Returns the ids of the stored documents.
    pub(super) async fn read_changed_until(
        &self,
        until: Instant,
        id: SourceId,
        poller: &mut ChangePoller,
        gaps: &mut Gaps,
    ) -> Result<Vec<i64>, IndexError> {
        let (mut batch, mut taken, mut put) = (self.new_batch(), Vec::new(), Vec::new());
        while let Some(path) = poller.changed.pop_first() {
            let change = match self.reader.stat(&path).await {
                Ok(Some(listed)) if self.reader.take_read(&listed.entry).is_err() => {
                    poller.changed.insert(path);
                    break;
                }
                Ok(Some(listed)) => {
                    self.reader.read(listed).await.map(|document| Some(Change::Put(Box::new(document))))
                }
                Ok(None) => Ok(None),
                Err(fault) => Err(fault),
            };
            match change {
                Ok(change) => change.into_iter().for_each(|change| batch.push(change)),
                Err(fault) => batch.push(self.change_of(&path, &fault, gaps)),
            }
            taken.push(path);
            let is_over = Instant::now() >= until;
            if is_over || batch.is_due() {
                put.extend(self.apply_changed(id, &mut batch, &mut taken, poller, gaps).await?);
            }
            if is_over {
                break;
            }
        }
        put.extend(self.apply_changed(id, &mut batch, &mut taken, poller, gaps).await?);
        Ok(put)
    }

    /// Writes a batch of changed resources. If that fails, they stay marked as changed.
    async fn apply_changed(
        &self,
        id: SourceId,
        batch: &mut Batch,
        taken: &mut Vec<Path>,
        poller: &mut ChangePoller,
        gaps: &mut Gaps,
    ) -> Result<Vec<i64>, IndexError> {
        let applied = self.apply(id, batch, gaps).await;
        let taken = std::mem::take(taken);
        if applied.is_err() {
            poller.changed.extend(taken);
        }
        applied
    }

    async fn store_changed(&self, id: SourceId, changed: impl Iterator<Item = &Path>) -> Result<(), IndexError> {
        let (mut batch, mut gaps, mut listed) = (self.new_batch(), Gaps::default(), Vec::new());
        for path in changed {
            match self.reader.stat(path).await {
                Ok(found) => listed.extend(found),
                Err(fault) => batch.push(self.change_of(path, &fault, &mut gaps)),
            }
            if batch.is_due() {
                self.apply(id, &mut batch, &mut gaps).await?;
            }
        }
        for listed in listed {
            if self.reader.take_read(&listed.entry).is_err() {
                self.apply(id, &mut batch, &mut gaps).await?;
                self.reader.wait_for_read(&listed.entry).await;
            }
            let path = listed.path.clone();
            match self.reader.read(listed).await {
                Ok(document) => batch.push(Change::Put(Box::new(document))),
                Err(fault) => batch.push(self.change_of(&path, &fault, &mut gaps)),
            }
            if batch.is_due() {
                self.apply(id, &mut batch, &mut gaps).await?;
            }
        }
        self.apply(id, &mut batch, &mut gaps).await?;
        self.state.add_gaps(gaps);
        Ok(())
    }

    /// The index change for a changed resource that cannot be read.
    fn change_of(&self, path: &Path, fault: &Fault, gaps: &mut Gaps) -> Change {
        if fault.is_transient() {
            self.record_failure(path, fault, gaps);
            Change::Expire(path.as_str().to_owned())
        } else {
            Change::Remove(path.as_str().to_owned())
        }
    }

    /// Reads a listed resource. The caller has taken the read from the budget.
    pub(super) async fn read_into(
        &self,
        batch: &mut Batch,
        listed: Listed,
        known: Option<KnownDocument>,
        gaps: &mut Gaps,
    ) {
        let path = listed.path.clone();
        match self.reader.read(listed).await {
            Ok(document) => batch.push(Change::Put(Box::new(document))),
            Err(fault) => {
                // A resource that was removed after it was listed is not missing.
                if !matches!(fault, Fault::NotFound) {
                    self.record_failure(&path, &fault, gaps);
                }
                // In other cases it is found by its old content until it can be read.
                if known.is_some() && !fault.is_transient() {
                    batch.push(Change::Remove(path.as_str().to_owned()));
                }
            }
        }
    }

    fn record_failure(&self, path: &Path, fault: &Fault, gaps: &mut Gaps) {
        gaps.failed = gaps.failed.saturating_add(1);
        let (plugin, path) = (self.reader.plugin.name(), path.as_str());
        tracing::debug!(target: log_target::SEARCH, plugin, path, error = fault.to_string(), "a resource cannot be indexed");
    }
}

/// Returns the time after a pause.
pub(super) fn later(time: Instant, pause: Duration) -> Instant {
    time.checked_add(pause).unwrap_or(time)
}

/// Changes that are written together, limited in number, size and age.
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    bytes: usize,
    max_bytes: usize,
    began: Option<Instant>,
}

impl Batch {
    /// Creates a batch that is written when its text exceeds `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { changes: Vec::new(), bytes: 0, max_bytes, began: None }
    }

    pub(super) fn push(&mut self, change: Change) {
        if let Change::Put(document) = &change {
            self.bytes = self.bytes.saturating_add(document.text.len());
        }
        self.began.get_or_insert_with(Instant::now);
        self.changes.push(change);
    }

    /// Whether the batch has to be written.
    pub(super) fn is_due(&self) -> bool {
        self.changes.len() >= MAX_CHANGES
            || self.bytes >= self.max_bytes
            || self.began.is_some_and(|began| began.elapsed() >= MAX_AGE)
    }

    /// Takes the changes, and empties the batch.
    pub(super) fn take(&mut self) -> Vec<Change> {
        (self.bytes, self.began) = (0, None);
        std::mem::take(&mut self.changes)
    }
}
