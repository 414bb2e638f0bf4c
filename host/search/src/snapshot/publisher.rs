//! Publishing of a snapshot: the documents of a source are encoded, encrypted and uploaded as they are read from the
//! index.
//!
//! The chunks are written into the slot that the published snapshot does not use, and the description last. A replica
//! that fails in between leaves the published snapshot as it was. Documents may change meanwhile: each of them is
//! complete, and the next snapshot has the change.

use mcp_host_base::shared_snapshots::{MAX_CHUNKS, MAX_SNAPSHOT, Published, Slot, Snapshot};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::frames::{FrameWriter, PLAIN_CHUNK};
use super::seal::SnapshotCipher;
use super::{SharedIndex, TransferError, stored};
use crate::index::Index;
use crate::status::{Report, SourceId};

/// A snapshot that is being uploaded.
struct Upload<'a> {
    shared: &'a SharedIndex,
    cipher: SnapshotCipher,
    slot: Slot,
    chunks: u32,
    bytes: u64,
    digest: Sha256,
    /// When the lease was last renewed.
    renewed: Instant,
}

impl SharedIndex {
    /// Publishes what the index has of a source. Returns the revision of the snapshot.
    ///
    /// `is_included` decides on a path: the index may have documents that the config no longer includes.
    pub(super) async fn publish(
        &self,
        index: &Index,
        source: SourceId,
        report: Report,
        is_included: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<u64, TransferError> {
        let (mut upload, expected) = self.begin_upload().await?;
        let (mut frames, mut after) = (FrameWriter::new(), i64::MIN);
        let space = self.vectors.map(|form| form.space);
        loop {
            let reading = index.write(move |connection| stored::page_after(connection, source, after, space));
            let page = reading.await?;
            let Some(next) = page.next else { break };
            after = next;
            for document in &page.documents {
                if !is_included(&document.document.path) {
                    continue;
                }
                frames.put(document)?;
                while let Some(plain) = frames.take_chunk() {
                    upload.add(&plain).await?;
                }
            }
            upload.renew().await?;
        }
        upload.add_rest(&frames.finish(report)?).await?;
        upload.finish(expected).await
    }

    /// Publishes that there is no snapshot, for this reason, so that the others do not rely on an earlier one. Returns
    /// the revision.
    pub(super) async fn publish_failure(&self, reason: String) -> Result<u64, TransferError> {
        let (mut upload, expected) = self.begin_upload().await?;
        upload.add_rest(&FrameWriter::new().finish(Report::failed(reason))?).await?;
        upload.finish(expected).await
    }

    /// Begins an upload into the slot that the published snapshot does not use. Returns the revision that it replaces,
    /// too.
    async fn begin_upload(&self) -> Result<(Upload<'_>, Option<u64>), TransferError> {
        let published = self.ask(self.place.published()).await?;
        let slot = match &published {
            Published::Snapshot { snapshot, .. } => snapshot.slot.other(),
            Published::Nothing | Published::Invalid { .. } => Slot::A,
        };
        self.ask(self.place.clear(slot)).await?;
        let (cipher, digest, renewed) = (self.key.new_cipher(), Sha256::new(), Instant::now());
        let upload = Upload { shared: self, cipher, slot, chunks: 0, bytes: 0, digest, renewed };
        Ok((upload, published.revision()))
    }
}

impl Upload<'_> {
    async fn add(&mut self, plain: &[u8]) -> Result<(), TransferError> {
        self.renew().await?;
        let too_large = || TransferError::TooLarge(MAX_SNAPSHOT);
        let chunk = self.cipher.seal_chunk(self.chunks, plain).ok_or_else(too_large)?;
        self.chunks = self.chunks.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if self.chunks > MAX_CHUNKS || self.bytes > MAX_SNAPSHOT {
            return Err(too_large());
        }
        self.digest.update(&chunk);
        Ok(self.shared.ask(self.shared.place.append(self.slot, chunk)).await?)
    }

    /// Adds the bytes after the last whole chunk.
    async fn add_rest(&mut self, rest: &[u8]) -> Result<(), TransferError> {
        for plain in rest.chunks(PLAIN_CHUNK) {
            self.add(plain).await?;
        }
        Ok(())
    }

    /// Renews the lease, if that is due.
    async fn renew(&mut self) -> Result<(), TransferError> {
        if self.renewed.elapsed() < self.shared.interval() {
            return Ok(());
        }
        self.renewed = Instant::now();
        match self.shared.ask(self.shared.place.hold()).await? {
            true => Ok(()),
            false => Err(TransferError::LeaseLost),
        }
    }

    async fn finish(self, expected: Option<u64>) -> Result<u64, TransferError> {
        let Self { shared, cipher, slot, chunks, bytes, digest, .. } = self;
        let snapshot = Snapshot { slot, chunks, bytes, digest: digest.finalize().into(), seal: Vec::new() };
        let seal = cipher.seal(&snapshot).unwrap_or_default();
        Ok(shared.ask(shared.place.publish(Snapshot { seal, ..snapshot }, expected)).await?)
    }
}
