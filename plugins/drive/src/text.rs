//! The text of a document with its chunks, stored in the bucket.
//!
//! A stored text is served while the document's modification time, its preferred format and the sizes of chunks are
//! unchanged, so an unchanged document is exported once. Its [`Header`] is a JSON value. The text is stored in blocks
//! of [`BLOCK`] bytes, so a chunk of a large document is read without the rest, and no value contains a copy of the
//! whole text. The keys of blocks contain the digest of the text, and blocks are written before the header: a header's
//! blocks belong to its text or are missing, in which case the document is exported again.
//!
//! | key | value |
//! |---|---|
//! | `text/ID` | the header |
//! | `text/ID/DIGEST/N` | a block of the text, from 0 |

use crate::api::{Error, File};
use crate::chunk::{Chunk, Chunks, Sizes};
use crate::format::{Format, MARKDOWN};
use crate::session::Session;
use crate::store::digest;
use mcp_provider::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The size of a block, in bytes.
const BLOCK: usize = 256 * 1024;

/// A text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) header: Header,
    pub(crate) text: String,
}

/// The metadata of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The modification time of the document.
    modified: String,
    /// The format that is tried first.
    preferred: String,
    /// The format of the text.
    pub(crate) format: String,
    sizes: Sizes,
    pub(crate) chunks: Chunks,
    /// The number of omitted images.
    pub(crate) images: usize,
    /// The length of the text, in bytes.
    len: usize,
    digest: u64,
}

/// A document with a text: its location in the bucket, and its export.
pub(crate) struct Source<'a> {
    session: &'a Session<'a>,
    file: &'a File,
    format: &'a Format,
}

impl<'a> Source<'a> {
    /// Creates the source of a file's text in a format.
    pub(crate) fn new(session: &'a Session<'a>, file: &'a File, format: &'a Format) -> Self {
        Self { session, file, format }
    }

    /// Returns the header of the text.
    pub(crate) fn header(&self) -> Result<Header> {
        match self.kept() {
            Some(header) => Ok(header),
            None => Ok(self.fetch()?.header),
        }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> Result<Text> {
        if let Some(header) = self.kept()
            && let Some(text) = self.kept_part(&header, 0..header.len)
        {
            return Ok(Text { header, text });
        }
        self.fetch()
    }

    /// Returns the text of a chunk, by its index; `None` if there is no such chunk.
    pub(crate) fn chunk(&self, index: usize) -> Result<Option<Text>> {
        if let Some(header) = self.kept() {
            let Some(range) = header.chunks.get(index).map(Chunk::range) else { return Ok(None) };
            if let Some(text) = self.kept_part(&header, range) {
                return Ok(Some(Text { header, text }));
            }
        }
        let Text { header, text } = self.fetch()?;
        let part = header.chunks.get(index).and_then(|chunk| text.get(chunk.range())).map(str::to_owned);
        Ok(part.map(|text| Text { header, text }))
    }

    /// Returns the stored header, if it matches the current document.
    fn kept(&self) -> Option<Header> {
        self.kept_before().filter(|header| {
            header.modified == self.modified() && header.preferred == self.preferred() && header.sizes == self.sizes()
        })
    }

    /// Returns the stored header, even if it is outdated.
    fn kept_before(&self) -> Option<Header> {
        serde_json::from_slice(&self.session.cache.get(&self.key())?).ok()
    }

    /// Returns a part of the stored text.
    fn kept_part(&self, header: &Header, range: Range<usize>) -> Option<String> {
        let first = range.start.checked_div(BLOCK)?;
        let mut bytes = Vec::with_capacity(range.len().min(header.len).saturating_add(BLOCK));
        for number in first..range.end.div_ceil(BLOCK) {
            bytes.extend(self.session.cache.get(&self.block_key(header.digest, number))?);
        }
        let start = range.start.checked_sub(first.checked_mul(BLOCK)?)?;
        bytes.truncate(start.checked_add(range.len())?);
        if bytes.len() < start.checked_add(range.len())? {
            return None;
        }
        bytes.drain(..start);
        String::from_utf8(bytes).ok()
    }

    /// Exports or downloads the text, and stores it.
    fn fetch(&self) -> Result<Text> {
        let (format, bytes) = fetch(self.session, self.file, self.format)?;
        let (text, images) = clean(bytes, &format);
        let is_markdown = format == MARKDOWN || self.file.name.ends_with(".md");
        let (modified, preferred, sizes) = (self.modified().to_owned(), self.preferred().to_owned(), self.sizes());
        let chunks = Chunks::of(&text, is_markdown, sizes);
        let (len, digest) = (text.len(), digest(&text));
        let header = Header { modified, preferred, format, sizes, chunks, images, len, digest };
        let fetched = Text { header, text };
        if self.file.modified_time.is_some() {
            self.keep(&fetched);
        }
        Ok(fetched)
    }

    /// Stores a text, and replaces the former one.
    fn keep(&self, Text { header, text }: &Text) {
        let cache = self.session.cache;
        let before = self.kept_before().filter(|before| before.digest != header.digest);
        let mut blocks = text.as_bytes().chunks(BLOCK).enumerate();
        if !blocks.all(|(number, block)| cache.set(&self.block_key(header.digest, number), block)) {
            return;
        }
        if let Ok(value) = serde_json::to_vec(header)
            && cache.set(&self.key(), &value)
            && let Some(before) = before
        {
            let old: Vec<_> = (0..before.len.div_ceil(BLOCK)).map(|n| self.block_key(before.digest, n)).collect();
            cache.delete(&old);
        }
    }

    fn key(&self) -> String {
        format!("text/{}", self.file.id)
    }

    fn block_key(&self, digest: u64, number: usize) -> String {
        format!("text/{}/{digest:016x}/{number}", self.file.id)
    }

    fn modified(&self) -> &str {
        self.file.modified_time.as_deref().unwrap_or_default()
    }

    fn preferred(&self) -> &str {
        self.format.mime_type(self.file)
    }

    fn sizes(&self) -> Sizes {
        Sizes { chunk: self.session.settings.chunk_size, overlap: self.session.settings.chunk_overlap }
    }
}

/// Returns the format and the content of a file with a text.
fn fetch(session: &Session<'_>, file: &File, format: &Format) -> Result<(String, Vec<u8>)> {
    match format {
        Format::Text(formats) => {
            let (format, bytes) = export_first(session, file, formats)?;
            Ok((format.to_owned(), bytes))
        }
        _ => {
            let size = file.size().unwrap_or_default();
            let part = session.client.media(&file.id, size, 0, session.settings.max_read)?;
            Ok((file.mime_type.clone(), part.bytes))
        }
    }
}

/// Exports a document to the first format whose export is not too large: text without images is smaller.
pub(crate) fn export_first<'f>(session: &Session<'_>, file: &File, formats: &[&'f str]) -> Result<(&'f str, Vec<u8>)> {
    for format in formats {
        match session.client.export(&file.id, format) {
            Ok(bytes) => return Ok((format, bytes)),
            Err(Error::ExportTooLarge) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::from(Error::ExportTooLarge))
}

/// Returns a text without byte order mark and carriage returns, and the number of omitted images. In Markdown, Drive
/// embeds images as link definitions with data in Base64, each on a separate line. The text is modified in place,
/// unless images are omitted.
fn clean(mut bytes: Vec<u8>, format: &str) -> (String, usize) {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    bytes.dedup_by(|next, before| {
        let is_line_end = *before == b'\r' && *next == b'\n';
        if is_line_end {
            *before = b'\n';
        }
        is_line_end
    });
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if format != MARKDOWN || !text.contains("]: <data:") {
        return (text, 0);
    }
    let is_image = |line: &&str| line.starts_with("[image") && line.contains("]: <data:");
    let images = text.lines().filter(is_image).count();
    (text.split_inclusive('\n').filter(|line| !is_image(line)).collect(), images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_in_base64_are_left_out_of_markdown_alone() {
        let text =
            "\u{feff}# A\r\n\r\n![][image1]\r\n\r\n[image1]: <data:image/png;base64,AAAA>\r\n[b]: <http://h/>\r\n";
        let (markdown, images) = clean(text.into(), MARKDOWN);
        assert_eq!((markdown.as_str(), images), ("# A\n\n![][image1]\n\n[b]: <http://h/>\n", 1));
        assert!(clean(text.into(), "text/plain").0.contains("base64"));
        assert_eq!(clean(b"a\xffb\r\r\n\n".to_vec(), "text/plain").0, "a\u{fffd}b\r\n\n");
    }
}
