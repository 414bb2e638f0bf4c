//! The encoded documents of a snapshot: a sequence of frames, compressed (zlib).
//!
//! A frame is the length of its header, the header in JSON, and what the header announces: the text of a document, and
//! the digest and the vector of each embedded passage. The last frame has the report of the replica that has published
//! the snapshot.
//!
//! The reader is fed in parts of [`FEED`] bytes, so that what they expand to is bounded before it is parsed. Each
//! length is compared with its bound before the frame is received.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::{ZlibDecoder, ZlibEncoder};
use mcp_host_base::shared_snapshots::MAX_CHUNK;
use serde::{Deserialize, Serialize};

use super::VectorForm;
use super::seal::OVERHEAD;
use crate::document::{Document, DocumentEntry};
use crate::embeddings::vector_store::{self, DIGEST_LEN, StoredVector};
use crate::status::Report;

/// The size of the compressed bytes in a chunk.
pub(super) const PLAIN_CHUNK: usize = MAX_CHUNK.saturating_sub(OVERHEAD);
/// The number of compressed bytes that the reader takes at a time. They expand to about a mebibyte at most.
pub(super) const FEED: usize = 1024;
/// The maximum size of a header in bytes. Without the text, a document has the metadata of a listed resource.
const MAX_HEADER: usize = 1024 * 1024;
/// The size of the length of a header in bytes.
const LENGTH: usize = size_of::<u32>();

/// A document, with what an index knows of it.
#[derive(Clone, Debug)]
pub(super) struct SnapshotDocument {
    pub(super) document: Document,
    /// When the content was last read, in milliseconds since 1970.
    pub(super) checked: i64,
    /// None if it is not embedded.
    pub(super) vectors: Option<Vec<StoredVector>>,
}

impl SnapshotDocument {
    /// The size of its text and of its vectors in bytes.
    pub(super) fn size(&self) -> usize {
        let vectors = self.vectors.iter().flatten();
        vectors.fold(self.document.text.len(), |size, StoredVector { passage: _, digest, vector }| {
            size.saturating_add(digest.len()).saturating_add(vector.len())
        })
    }
}

/// The end of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotEnd {
    /// The number of documents.
    pub(super) documents: u64,
    /// The number of documents that the snapshot lacks, because their metadata are too large.
    pub(super) left_out: u64,
    /// The state of the index from which it was made.
    pub(super) report: Report,
}

/// A part of a snapshot.
#[derive(Debug)]
pub(super) enum Frame {
    Document(Box<SnapshotDocument>),
    End(SnapshotEnd),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Header {
    Document(Box<DocumentHeader>),
    End(SnapshotEnd),
}

#[derive(Serialize, Deserialize)]
struct DocumentHeader {
    path: String,
    entry: DocumentEntry,
    entry_hash: i64,
    checked: i64,
    is_cut: bool,
    /// The length of the text in bytes.
    text: usize,
    /// The numbers of the embedded passages. None if the document is not embedded.
    passages: Option<Vec<i64>>,
}

/// The bytes are not a snapshot.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    /// They cannot be expanded, or something follows the end.
    #[error("its compression is damaged: {0}")]
    Compression(#[from] io::Error),
    /// A header is not the expected JSON.
    #[error("a header is invalid: {0}")]
    Header(#[from] serde_json::Error),
    /// Something is larger than its bound.
    #[error("{0} of {1}; at most {2} are allowed")]
    TooLarge(&'static str, usize, usize),
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// Something else than announced.
    #[error("{0}")]
    Inconsistent(&'static str),
}

/// Encodes a snapshot.
pub(super) struct FrameWriter {
    encoder: ZlibEncoder<Vec<u8>>,
    documents: u64,
    left_out: u64,
}

impl FrameWriter {
    pub(super) fn new() -> Self {
        Self { encoder: ZlibEncoder::new(Vec::new(), Compression::fast()), documents: 0, left_out: 0 }
    }

    /// Adds a document.
    pub(super) fn put(&mut self, document: &SnapshotDocument) -> Result<(), FrameError> {
        let SnapshotDocument { document, checked, vectors } = document;
        let header = serde_json::to_vec(&Header::Document(Box::new(DocumentHeader {
            path: document.path.clone(),
            entry: document.entry.clone(),
            entry_hash: document.entry_hash,
            checked: *checked,
            is_cut: document.is_cut,
            text: document.text.len(),
            passages: vectors.as_ref().map(|vectors| vectors.iter().map(|vector| vector.passage).collect()),
        })))?;
        if header.len() > MAX_HEADER {
            self.left_out = self.left_out.saturating_add(1);
            return Ok(());
        }
        self.documents = self.documents.saturating_add(1);
        self.put_header(&header)?;
        self.encoder.write_all(document.text.as_bytes())?;
        for vector in vectors.iter().flatten() {
            self.encoder.write_all(&vector.digest)?;
            self.encoder.write_all(&vector.vector)?;
        }
        Ok(())
    }

    fn put_header(&mut self, header: &[u8]) -> Result<(), FrameError> {
        let length = u32::try_from(header.len()).map_err(|_| too_large("a header", header.len(), MAX_HEADER))?;
        self.encoder.write_all(&length.to_be_bytes())?;
        Ok(self.encoder.write_all(header)?)
    }

    /// Takes the bytes of a chunk, if there are enough.
    pub(super) fn take_chunk(&mut self) -> Option<Vec<u8>> {
        let written = self.encoder.get_mut();
        (written.len() >= PLAIN_CHUNK).then(|| written.drain(..PLAIN_CHUNK).collect())
    }

    /// Ends the snapshot, and returns the rest of its bytes.
    pub(super) fn finish(mut self, report: Report) -> Result<Vec<u8>, FrameError> {
        let end = SnapshotEnd { documents: self.documents, left_out: self.left_out, report };
        let header = serde_json::to_vec(&Header::End(end))?;
        self.put_header(&header)?;
        Ok(self.encoder.finish()?)
    }
}

/// The bounds of what a reader accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLimits {
    /// The maximum size of a text in bytes.
    pub(super) text: usize,
    /// The maximum number of documents.
    pub(super) documents: usize,
    /// None if no vectors are accepted.
    pub(super) vectors: Option<VectorForm>,
}

/// Decodes a snapshot.
pub(super) struct FrameReader {
    decoder: ZlibDecoder<Vec<u8>>,
    limits: FrameLimits,
    /// The number of expanded bytes that were taken.
    taken: usize,
    /// The header of the document whose text has not been received.
    header: Option<Box<DocumentHeader>>,
    documents: usize,
    is_at_end: bool,
}

impl FrameReader {
    pub(super) fn new(limits: FrameLimits) -> Self {
        let decoder = ZlibDecoder::new(Vec::new());
        Self { decoder, limits, taken: 0, header: None, documents: 0, is_at_end: false }
    }

    /// Adds compressed bytes, at most [`FEED`]. The frames that they complete must be taken before the next ones are
    /// added.
    pub(super) fn feed(&mut self, compressed: &[u8]) -> Result<(), FrameError> {
        let expanded = self.decoder.get_mut();
        let taken = std::mem::take(&mut self.taken).min(expanded.len());
        expanded.drain(..taken);
        self.decoder.write_all(compressed)?;
        Ok(self.decoder.flush()?)
    }

    /// Takes the next frame. None until more bytes are added.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.is_at_end {
            return if self.rest().is_empty() {
                Ok(None)
            } else {
                Err(FrameError::Inconsistent("it goes on after its end"))
            };
        }
        let header = match self.header.take() {
            Some(header) => header,
            None => match self.next_header()? {
                None => return Ok(None),
                Some(Header::Document(header)) => header,
                Some(Header::End(end)) => {
                    if u64::try_from(self.documents) != Ok(end.documents) {
                        return Err(FrameError::Inconsistent("it lacks documents"));
                    }
                    self.is_at_end = true;
                    return Ok(Some(Frame::End(end)));
                }
            },
        };
        match self.document(&header)? {
            Some(document) => Ok(Some(Frame::Document(Box::new(document)))),
            None => {
                self.header = Some(header);
                Ok(None)
            }
        }
    }

    fn rest(&self) -> &[u8] {
        self.decoder.get_ref().get(self.taken..).unwrap_or_default()
    }

    /// Takes bytes, if there are enough.
    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let bytes = self.rest().get(..length)?.to_vec();
        self.taken = self.taken.saturating_add(length);
        Some(bytes)
    }

    fn next_header(&mut self) -> Result<Option<Header>, FrameError> {
        let Some((length, rest)) = self.rest().split_first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER {
            return Err(too_large("a header", length, MAX_HEADER));
        }
        let Some(header) = rest.get(..length) else { return Ok(None) };
        let header: Header = serde_json::from_slice(header)?;
        self.taken = self.taken.saturating_add(LENGTH).saturating_add(length);
        if let Header::Document(header) = &header {
            self.check(header)?;
        }
        Ok(Some(header))
    }

    fn check(&mut self, header: &DocumentHeader) -> Result<(), FrameError> {
        self.documents = self.documents.saturating_add(1);
        let passages = header.passages.as_ref().map_or(0, Vec::len);
        let max_passages = self.limits.vectors.map_or(0, |form| form.max_passages);
        for (what, found, max) in [
            ("a number of documents", self.documents, self.limits.documents),
            ("a text", header.text, self.limits.text),
            ("a number of passages", passages, max_passages),
        ] {
            if found > max {
                return Err(too_large(what, found, max));
            }
        }
        Ok(())
    }

    /// Takes what follows the header of a document. None if it has not been received.
    fn document(&mut self, header: &DocumentHeader) -> Result<Option<SnapshotDocument>, FrameError> {
        let vector_len = self.limits.vectors.map_or(0, |form| vector_store::vector_len(form.dimensions));
        let passages = header.passages.as_deref().unwrap_or_default();
        let of_vectors = vector_len.saturating_add(DIGEST_LEN).saturating_mul(passages.len());
        if self.rest().len() < header.text.saturating_add(of_vectors) {
            return Ok(None);
        }
        let text = self.take(header.text).ok_or(FrameError::Text)?;
        let text = String::from_utf8(text).map_err(|_| FrameError::Text)?;
        let mut vectors = Vec::with_capacity(passages.len());
        for passage in passages {
            let (Some(digest), Some(vector)) = (self.take(DIGEST_LEN), self.take(vector_len)) else { return Ok(None) };
            vectors.push(StoredVector { passage: *passage, digest, vector });
        }
        let DocumentHeader { path, entry, entry_hash, checked, is_cut, .. } = header;
        let (path, entry) = (path.clone(), entry.clone());
        let document = Document { path, entry, entry_hash: *entry_hash, text, is_cut: *is_cut };
        Ok(Some(SnapshotDocument {
            document,
            checked: *checked,
            vectors: header.passages.is_some().then_some(vectors),
        }))
    }
}

fn too_large(what: &'static str, found: usize, max: usize) -> FrameError {
    FrameError::TooLarge(what, found, max)
}
