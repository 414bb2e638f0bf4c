//! The text of a document with its chunks, kept in the bucket.
//!
//! A kept text is served while the modification time of the document, its preferred format and the sizes of chunks are
//! the same; so an unchanged document is exported once. The value is a line of JSON, [`Header`], and the text behind it.

use crate::api::{Error, File};
use crate::chunk::{self, Chunk, Sizes};
use crate::format::{Format, MARKDOWN};
use crate::session::Session;
use mcp_provider::{Failure, Result};
use serde::{Deserialize, Serialize};

/// A text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) header: Header,
    pub(crate) text: String,
}

/// What is known of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The modification time of the document.
    modified: String,
    /// The format that was asked for first.
    preferred: String,
    /// The format of the text.
    pub(crate) format: String,
    sizes: Sizes,
    pub(crate) chunks: Vec<Chunk>,
    /// The number of images that were left out.
    pub(crate) images: usize,
}

impl Text {
    /// Returns the text of a file that has one.
    pub(crate) fn load(session: &Session<'_>, file: &File, format: &Format) -> Result<Self> {
        let sizes = Sizes { chunk: session.settings.chunk_size, overlap: session.settings.chunk_overlap };
        let key = format!("text/{}", file.id);
        let preferred = format.mime_type(file);
        let modified = file.modified_time.clone().unwrap_or_default();
        let kept = session.cache.get(&key).and_then(Self::parse).filter(|kept| {
            let header = &kept.header;
            header.modified == modified && header.preferred == preferred && header.sizes == sizes
        });
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let (format, bytes) = fetch(session, file, format)?;
        let (text, images) = clean(&bytes, &format);
        let is_markdown = format == MARKDOWN || file.name.ends_with(".md");
        let chunks = chunk::chunks(&text, is_markdown, sizes);
        let header = Header { modified, preferred: preferred.to_owned(), format, sizes, chunks, images };
        let loaded = Self { header, text };
        if file.modified_time.is_some()
            && let Ok(mut value) = serde_json::to_vec(&loaded.header)
        {
            value.push(b'\n');
            value.extend_from_slice(loaded.text.as_bytes());
            session.cache.set(&key, &value);
        }
        Ok(loaded)
    }

    fn parse(value: Vec<u8>) -> Option<Self> {
        let end = value.iter().position(|byte| *byte == b'\n')?;
        let header = serde_json::from_slice(value.get(..end)?).ok()?;
        let text = String::from_utf8(value.get(end.saturating_add(1)..)?.to_vec()).ok()?;
        Some(Self { header, text })
    }
}

/// Returns the content of a file that has a text, and its format.
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

/// Exports a document to the first of the formats in which it is not too large: without images, text is smaller.
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

/// Returns a text without byte order mark and carriage returns, and the number of images that were left out: in
/// Markdown, Drive has images as definitions of links with the data in Base64, each on a line of its own.
fn clean(bytes: &[u8], format: &str) -> (String, usize) {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).replace("\r\n", "\n");
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
        let (markdown, images) = clean(text.as_bytes(), MARKDOWN);
        assert_eq!((markdown.as_str(), images), ("# A\n\n![][image1]\n\n[b]: <http://h/>\n", 1));
        assert!(clean(text.as_bytes(), "text/plain").0.contains("base64"));
        assert_eq!(clean(b"a\xffb", "text/plain").0, "a\u{fffd}b");
    }
}
