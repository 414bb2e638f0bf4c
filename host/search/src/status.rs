//! The state of a source: its indexed part, the gaps, and their reasons.
//!
//! Searches read the state while the plugin is indexed. The state is also stored in the index (`Report`), for
//! `mcp-host index status`, which runs in another process. On a full disk, storing it may fail, too; it is repeated
//! with each attempt to index the plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use rusqlite::Row;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use mcp_host_base::log_target;

use super::snapshot::role::{IndexRole, SnapshotCounts};

/// The id of a source in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SourceId(pub(super) i64);

/// The size of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceSize {
    pub(super) documents: u64,
    pub(super) bytes: u64,
    /// The number of documents without their text, because the source had no room for it.
    pub(super) without_text: u64,
}

impl SourceSize {
    /// Reads the columns `documents`, `bytes` and `without_text`.
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { documents: row.get(0)?, bytes: row.get(1)?, without_text: row.get(2)? })
    }

    /// Counts an added document.
    pub(super) fn add(&mut self, bytes: u64, is_without_text: bool) {
        self.documents = self.documents.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.without_text = self.without_text.saturating_add(u64::from(is_without_text));
    }

    /// Counts a removed document.
    pub(super) fn subtract(&mut self, bytes: u64, is_without_text: bool) {
        self.documents = self.documents.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.without_text = self.without_text.saturating_sub(u64::from(is_without_text));
    }
}

/// The state of a plugin in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchStatus {
    /// The plugin.
    pub plugin: String,
    /// The number of indexed resources.
    pub documents: u64,
    /// The size of their text in bytes.
    pub bytes: u64,
    /// The number of resources with embeddings, at the time of the last count.
    pub embedded: u64,
    /// Whether, since the start of the host, the whole listing was compared with the index and all differences were
    /// read.
    pub is_complete: bool,
    /// The number of resources whose text is not completely indexed: `search.max-bytes` left no room for it, or only
    /// its beginning is indexed because it is longer than `search.max-document`.
    pub without_text: u64,
    /// Whether the listing is longer than `limits.listing-items`, so its rest is not indexed.
    pub is_truncated: bool,
    /// The number of resources without room in the index.
    pub omitted: u64,
    /// The number of resources that could not be read.
    pub failed: u64,
    /// The reason why indexing failed. None if the last attempt succeeded.
    pub error: Option<String>,
    /// The last time when everything that the plugin had reported was indexed, except for the gaps. None before the
    /// first time.
    pub current_at: Option<SystemTime>,
    /// The part of this replica in a shared index.
    pub role: IndexRole,
    /// The snapshots of a shared index.
    pub snapshots: SnapshotCounts,
}

impl SearchStatus {
    /// Returns whether the index has all of the plugin's resources that can be found.
    pub fn has_everything(&self) -> bool {
        let has_gaps = self.is_truncated || self.without_text > 0 || self.omitted > 0 || self.failed > 0;
        self.is_complete && self.error.is_none() && !has_gaps
    }

    /// Describes the gaps of the index, for people. Empty if there are none.
    pub fn gaps(&self) -> Vec<String> {
        let progress = match &self.error {
            Some(error) => Some(format!("not completely indexed: {error}")),
            None if !self.is_complete => Some("not completely indexed yet".to_owned()),
            None => None,
        };
        let counted = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let counts = [
            counted(self.omitted, "left out: the index is full (`search.max-size`)"),
            counted(
                self.without_text,
                "without all of their text (`search.max-document`, `search.max-bytes` of the plugin)",
            ),
            counted(self.failed, "could not be read"),
            self.is_truncated
                .then(|| "the listing is longer than `limits.listing-items`; the rest is left out".to_owned()),
        ];
        progress.into_iter().chain(counts.into_iter().flatten()).collect()
    }

    /// The status of a plugin from its state in the index.
    pub(super) fn stored(plugin: String, size: SourceSize, report: Report) -> Self {
        let SourceSize { documents, bytes, without_text } = size;
        let Report { is_complete, omitted, failed, is_truncated, error } = report;
        let own = Self { plugin, documents, bytes, without_text, ..Self::default() };
        Self { is_complete, omitted, failed, is_truncated, error, ..own }
    }
}

/// The part of a status that only the host that indexes the plugin knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    is_complete: bool,
    omitted: u64,
    failed: u64,
    #[serde(default)]
    is_truncated: bool,
    error: Option<String>,
}

impl Report {
    /// The report of a complete walk.
    pub(super) fn complete(gaps: Gaps) -> Self {
        let Gaps { omitted, failed, is_truncated } = gaps;
        Self { is_complete: true, omitted, failed, is_truncated, error: None }
    }

    /// The report of an index that cannot be shared, for this reason.
    pub(super) fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The reason why indexing failed.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(super) fn gaps(&self) -> Gaps {
        Gaps { omitted: self.omitted, failed: self.failed, is_truncated: self.is_truncated }
    }
}

/// The gaps of the index after a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    /// The number of resources without room in the index.
    pub(super) omitted: u64,
    /// The number of resources that could not be read.
    pub(super) failed: u64,
    /// Whether the listing is longer than `limits.listing-items`.
    pub(super) is_truncated: bool,
}

/// The state of a source, shared with searches.
pub(super) struct SourceState {
    pub(super) id: Mutex<Option<SourceId>>,
    /// The number of rebuilds of the index when the source was opened.
    pub(super) rebuild: AtomicU64,
    /// Whether the provider serves parts of each text by `?lines=`.
    pub(super) has_lines: AtomicBool,
    pub(super) status: watch::Sender<SearchStatus>,
    /// The number of writes that made a change.
    changes: AtomicU64,
}

impl SourceState {
    pub(super) fn new(plugin: &str) -> Arc<Self> {
        let status = SearchStatus { plugin: plugin.to_owned(), ..SearchStatus::default() };
        let (rebuild, has_lines) = (AtomicU64::new(0), AtomicBool::new(false));
        let (status, changes) = (watch::Sender::new(status), AtomicU64::new(0));
        Arc::new(Self { id: Mutex::default(), rebuild, has_lines, status, changes })
    }

    /// Counts a write that made a change.
    pub(super) fn mark_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of writes that made a change.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether another replica builds the index. It then computes embeddings, too.
    pub(super) fn is_following(&self) -> bool {
        self.status.borrow().role == IndexRole::Following
    }

    /// Sets the part of this replica in the shared index. A change is logged.
    pub(super) fn set_role(&self, role: IndexRole, reason: &str) {
        let is_new = self.status.send_if_modified(|status| std::mem::replace(&mut status.role, role) != role);
        if !is_new {
            return;
        }
        let plugin = self.plugin();
        match role {
            IndexRole::Unshared => {}
            IndexRole::Building => {
                tracing::info!(target: log_target::SEARCH, plugin, "this replica builds the search index of a plugin for all replicas");
            }
            IndexRole::Following => {
                tracing::info!(
                    target: log_target::SEARCH, plugin,
                    "this replica fetches the search index of a plugin from the replica that builds it"
                );
            }
            IndexRole::Alone => {
                tracing::warn!(
                    target: log_target::SEARCH, plugin, reason,
                    "this replica indexes a plugin for itself, until it can fetch the index from another replica"
                );
            }
        }
    }

    /// Changes the counts of snapshots.
    pub(super) fn count_snapshots(&self, change: impl FnOnce(&mut SnapshotCounts)) {
        self.status.send_if_modified(|status| {
            let before = status.snapshots;
            change(&mut status.snapshots);
            status.snapshots != before
        });
    }

    /// Records that the source was found or created in the index. `rebuild` is the number of rebuilds of this index.
    pub(super) fn set_open(&self, id: SourceId, size: SourceSize, rebuild: u64) {
        *self.id.lock() = Some(id);
        // An error of the previous index, such as a newer format, does not apply to this one.
        let is_new = self.rebuild.swap(rebuild, Ordering::SeqCst) != rebuild;
        self.status.send_modify(|status| {
            status.is_complete = false;
            if is_new {
                status.error = None;
            }
        });
        self.set_size(size);
    }

    pub(super) fn set_size(&self, size: SourceSize) {
        let SourceSize { documents, bytes, without_text } = size;
        let before = self.status.borrow().without_text;
        if before == 0 && without_text > 0 {
            tracing::warn!(
                target: log_target::SEARCH, plugin = self.plugin(),
                "resources are indexed without all of their text: it is longer than `search.max-document`, or there is more than `search.max-bytes`"
            );
        }
        self.status.send_modify(|status| {
            (status.documents, status.bytes, status.without_text) = (documents, bytes, without_text);
        });
    }

    /// Records a complete walk: the index has everything except these gaps.
    pub(super) fn set_complete(&self, gaps: Gaps) {
        self.warn_of(gaps);
        self.status.send_modify(|status| {
            (status.is_complete, status.error) = (true, None);
            (status.omitted, status.failed, status.is_truncated) = (gaps.omitted, gaps.failed, gaps.is_truncated);
            status.current_at = Some(SystemTime::now());
        });
    }

    /// Records that a poll for changes left nothing to read.
    pub(super) fn set_current(&self) {
        self.status.send_if_modified(|status| {
            status.current_at = Some(SystemTime::now());
            // Nothing waits for the time.
            false
        });
    }

    /// Records that some resources still have to be read.
    pub(super) fn set_incomplete(&self, gaps: Gaps) {
        self.warn_of(gaps);
        self.status.send_modify(|status| status.is_complete = false);
    }

    /// Records that changed resources could not be read or stored.
    pub(super) fn add_gaps(&self, gaps: Gaps) {
        if gaps == Gaps::default() {
            return;
        }
        self.warn_of(gaps);
        self.status.send_modify(|status| {
            status.omitted = status.omitted.saturating_add(gaps.omitted);
            status.failed = status.failed.saturating_add(gaps.failed);
        });
    }

    /// Logs that the index is full, once until there is room again.
    fn warn_of(&self, gaps: Gaps) {
        if gaps.omitted > 0 && self.status.borrow().omitted == 0 {
            tracing::warn!(
                target: log_target::SEARCH, plugin = self.plugin(),
                "the search index is full (`search.max-size`): resources are left out"
            );
        }
        if gaps.is_truncated && !self.status.borrow().is_truncated {
            tracing::warn!(
                target: log_target::SEARCH, plugin = self.plugin(),
                "the listing is longer than `limits.listing-items`: the rest is not indexed"
            );
        }
    }

    /// Records that indexing has failed. The error is logged once until it changes.
    pub(super) fn set_error(&self, error: &str) {
        let is_new = self.status.borrow().error.as_deref() != Some(error);
        if is_new {
            tracing::warn!(
                target: log_target::SEARCH, plugin = self.plugin(), error,
                "a plugin cannot be indexed; that is retried with back-off"
            );
        }
        // Set after the log line, because a process that waits for this may refer to the log and exit.
        self.status.send_modify(|status| status.error = Some(error.to_owned()));
    }

    /// The report to store in the index for other processes.
    pub(super) fn report(&self) -> Report {
        let SearchStatus { is_complete, omitted, failed, is_truncated, error, .. } = self.status.borrow().clone();
        Report { is_complete, omitted, failed, is_truncated, error }
    }

    fn plugin(&self) -> String {
        self.status.borrow().plugin.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_until_it_is_there() {
        let state = SourceState::new("files");
        let status = || state.status.borrow().clone();
        assert_eq!(status().gaps(), ["not completely indexed yet"]);
        state.set_error("the disk is full");
        assert_eq!(status().gaps(), ["not completely indexed: the disk is full"]);
        state.set_complete(Gaps { omitted: 2, failed: 1, is_truncated: false });
        assert_eq!(status().gaps(), ["2 left out: the index is full (`search.max-size`)", "1 could not be read"]);
        assert!(!status().has_everything());
        state.set_complete(Gaps { is_truncated: true, ..Gaps::default() });
        assert_eq!(status().gaps(), ["the listing is longer than `limits.listing-items`; the rest is left out"]);
        assert!(!status().has_everything());
        state.set_complete(Gaps::default());
        assert!(status().has_everything() && status().gaps().is_empty());
        state.set_error("the disk is full");
        assert!(!status().has_everything(), "what has changed since is not in the index");
    }

    #[test]
    fn an_error_of_an_index_is_over_when_it_was_created_anew() {
        let state = SourceState::new("files");
        let error = || state.status.borrow().error.clone();
        state.set_error("a newer version has written it");
        state.set_open(SourceId(1), SourceSize::default(), 1);
        assert_eq!(error(), None);
        state.set_error("the listing fails");
        state.set_open(SourceId(1), SourceSize::default(), 1);
        assert_eq!(error().as_deref(), Some("the listing fails"), "each attempt opens the index: it is logged once");
    }
}
