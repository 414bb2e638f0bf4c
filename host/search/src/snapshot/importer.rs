//! Fetching of a snapshot: its chunks are checked, decrypted and decoded one after another, and its documents put into
//! the index in batches.
//!
//! Documents that the snapshot lacks are removed at its end, if it is the snapshot of a complete index.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::shared_snapshots::Snapshot;
use mcp_host_base::time::now_millis;
use mcp_host_model::uri::Mount;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::frames::{FEED, Frame, FrameError, FrameLimits, FrameReader, SnapshotDocument, SnapshotEnd};
use super::{SharedIndex, TransferError, stored};
use crate::error::IndexError;
use crate::index::Index;
use crate::status::{Gaps, SourceId, SourceSize};
use crate::store::{self, Bounds};

/// The maximum time in which a snapshot is fetched.
const MAX_TIME: Duration = Duration::from_mins(10);
/// The maximum number of documents of a batch.
const MAX_BATCH: usize = 64;
/// The maximum number of chunks that are skipped, because they do not belong to the snapshot. The request of an earlier
/// holder of the lease may have been executed late.
const MAX_FOREIGN: u32 = 4;

/// Where the documents of a snapshot are put.
pub(super) struct ImportTarget {
    pub(super) index: Arc<Index>,
    pub(super) source: SourceId,
    pub(super) mount: Mount,
    /// The maximum size of a text, of all texts, and the maximum number of documents.
    pub(super) max_document: usize,
    pub(super) max_bytes: u64,
    pub(super) max_documents: usize,
}

/// The result of fetching a snapshot.
#[derive(Debug)]
pub(super) struct Fetched {
    /// The report of the replica that has published it.
    pub(super) end: SnapshotEnd,
    /// The documents that the own index lacks.
    pub(super) gaps: Gaps,
    pub(super) size: SourceSize,
    /// The number of changes: of documents, and of documents with new vectors.
    pub(super) changed: usize,
}

/// A snapshot that is being fetched.
struct Import<'a> {
    shared: &'a SharedIndex,
    target: &'a ImportTarget,
    batch: Vec<SnapshotDocument>,
    batch_bytes: usize,
    /// The ids of the stored documents.
    seen: Vec<i64>,
    omitted: u64,
    changed: usize,
}

impl From<FrameError> for TransferError {
    fn from(error: FrameError) -> Self {
        Self::Rejected(error.to_string())
    }
}

fn rejected(reason: &str) -> TransferError {
    TransferError::Rejected(reason.to_owned())
}

impl SharedIndex {
    /// Fetches a snapshot into the index.
    pub(super) async fn fetch(&self, snapshot: &Snapshot, target: &ImportTarget) -> Result<Fetched, TransferError> {
        let cipher = self.key.open(snapshot).ok_or_else(|| rejected("no replica with this cursor key has made it"))?;
        let limits = FrameLimits { text: target.max_document, documents: target.max_documents, vectors: self.vectors };
        let (mut frames, mut digest, began) = (FrameReader::new(limits), Sha256::new(), Instant::now());
        let mut import = Import {
            shared: self,
            target,
            batch: Vec::new(),
            batch_bytes: 0,
            seen: Vec::new(),
            omitted: 0,
            changed: 0,
        };
        let (mut position, mut number, mut foreign, mut end) = (0, 0_u32, 0_u32, None);
        while number < snapshot.chunks {
            if began.elapsed() > MAX_TIME {
                return Err(rejected("fetching it takes too long"));
            }
            let chunk = self.ask(self.place.chunk_after(snapshot.slot, position)).await?;
            let chunk = chunk.ok_or_else(|| rejected("a chunk is missing"))?;
            position = chunk.position;
            let Some(plain) = cipher.open_chunk(number, &chunk.bytes) else {
                foreign = foreign.saturating_add(1);
                if foreign > MAX_FOREIGN {
                    return Err(rejected("its chunks are not authentic"));
                }
                continue;
            };
            number = number.saturating_add(1);
            digest.update(&chunk.bytes);
            for part in plain.chunks(FEED) {
                frames.feed(part)?;
                while let Some(frame) = frames.next_frame()? {
                    match frame {
                        Frame::Document(document) => import.add(*document).await?,
                        Frame::End(last) => end = Some(last),
                    }
                }
            }
        }
        let end = end.ok_or_else(|| rejected("it has no end"))?;
        if <[u8; 32]>::from(digest.finalize()) != snapshot.digest {
            return Err(rejected("its digest differs"));
        }
        import.finish(end).await
    }
}

impl Import<'_> {
    async fn add(&mut self, document: SnapshotDocument) -> Result<(), TransferError> {
        let path = &document.document.path;
        // The rules of access decide on a URI in its normal form.
        let is_normal = self.target.mount.compose(path).is_ok_and(|resource| resource.path.as_str() == path);
        if !is_normal {
            return Err(rejected("a path is not in normal form"));
        }
        self.batch_bytes = self.batch_bytes.saturating_add(document.size());
        self.batch.push(document);
        if self.batch.len() >= MAX_BATCH || self.batch_bytes >= self.target.index.space().batch_size() {
            self.write().await?;
        }
        Ok(())
    }

    /// Writes the batch.
    async fn write(&mut self) -> Result<(), IndexError> {
        self.batch_bytes = 0;
        let (documents, form, source) = (std::mem::take(&mut self.batch), self.shared.vectors, self.target.source);
        let bounds = Bounds { index: self.target.index.space(), source: self.target.max_bytes };
        // A change is counted here and not at the end, because what was written stays if fetching the rest fails.
        let writing = self.target.index.change(move |connection| {
            let applied = stored::import(connection, source, documents, bounds, form, now_millis())?;
            let is_changed = applied.changed > 0;
            Ok((applied, is_changed))
        });
        let applied = writing.await?;
        self.seen.extend(applied.ids);
        self.omitted = self.omitted.saturating_add(u64::try_from(applied.omitted).unwrap_or(u64::MAX));
        self.changed = self.changed.saturating_add(applied.changed);
        Ok(())
    }

    async fn finish(mut self, end: SnapshotEnd) -> Result<Fetched, TransferError> {
        self.write().await?;
        self.seen.sort_unstable();
        let (source, kept, is_complete) = (self.target.source, self.seen, end.report.is_complete());
        let removing = self.target.index.change(move |connection| {
            let removed = if is_complete { store::remove_except(connection, source, &kept)? } else { 0 };
            Ok(((removed, store::source_size(connection, source)?), removed > 0))
        });
        let (removed, size) = removing.await?;
        let gaps = end.report.gaps();
        let gaps = Gaps {
            omitted: gaps.omitted.saturating_add(self.omitted),
            failed: gaps.failed.saturating_add(end.left_out),
            ..gaps
        };
        Ok(Fetched { end, gaps, size, changed: self.changed.saturating_add(removed) })
    }
}
