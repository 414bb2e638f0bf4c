//! Detection of a file's MIME type and, for text, of its encoding.
//!
//! A name with a binary type determines the type, so a listing does not open the file. For other names, the first
//! [`LEN`] bytes are read. A file that is named like text but is not text has the type of its content.
//!
//! The content decides whether a file is text, unless its name has a type with a magic number. If the name has another
//! binary type, only UTF-8 is text: a guessed encoding would damage binary content, and the size in the listing would
//! not match the text.

use encoding_rs::Encoding;
use folder::encoding::{TextEncoding, detect};
use mcp_provider::mime;

/// The number of bytes at the beginning of a file that are examined.
pub(crate) const LEN: usize = 32 * 1024;

/// The type of unknown files.
const BYTES: &str = "application/octet-stream";
/// The type of text without a more specific type.
const PLAIN: &str = "text/plain";

/// The detected type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// The MIME type.
    pub(crate) mime_type: &'static str,
    /// The encoding, if it is text.
    pub(crate) encoding: Option<TextEncoding>,
}

/// A type of document that can be converted to text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Document {
    /// A Jupyter notebook.
    Notebook,
    /// A Word document (Office Open XML).
    Docx,
    /// A PDF file.
    Pdf,
}

impl Probe {
    /// Detects the type by the name alone, if the name has a binary type. The content may still be text.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let mime_type = mime::from_name(name).filter(|mime_type| !mime::is_text(mime_type))?;
        Some(Self { mime_type, encoding: None })
    }

    /// Detects the type by the name and the beginning of the content, which may be the whole.
    pub(crate) fn new(name: &str, head: &[u8], is_whole: bool, fallback: Option<&'static Encoding>) -> Self {
        if let Some(probe) = Self::by_name(name) {
            let has_magic_number = || infer::get(head).is_some_and(|found| !mime::is_text(found.mime_type()));
            let is_known_binary = probe.mime_type != BYTES && infer::is_mime_supported(probe.mime_type);
            let may_be_text = !is_known_binary && !has_magic_number();
            return Self { encoding: utf_8(head, is_whole).filter(|_| may_be_text), ..probe };
        }
        let encoding = detect(head, is_whole, fallback);
        let sniffed = || infer::get(head).map(|found| found.mime_type());
        let mime_type = match (mime::from_name(name), encoding) {
            (Some(named), Some(_)) => named,
            (None, Some(_)) => sniffed().filter(|found| is_plausible(found)).unwrap_or(PLAIN),
            (_, None) => sniffed().unwrap_or(BYTES),
        };
        let encoding = encoding.filter(|_| mime::is_text(mime_type));
        Self { mime_type, encoding }
    }

    /// Returns the encoding of a whole text. Its beginning may be ASCII, and the rest in another encoding.
    pub(crate) fn whole_encoding(&self, bytes: &[u8], fallback: Option<&'static Encoding>) -> Option<TextEncoding> {
        let probed = self.encoding?;
        if !mime::is_text(self.mime_type) {
            return utf_8(bytes, true);
        }
        let is_valid = probed != TextEncoding::UTF_8 && probed.decode_part(bytes, true).is_some();
        if is_valid { Some(probed) } else { detect(bytes, true, fallback) }
    }

    /// Returns the type of document, if the file can be converted to text.
    pub(crate) fn document(&self) -> Option<Document> {
        match self.mime_type {
            "application/x-ipynb+json" => Some(Document::Notebook),
            "application/pdf" => Some(Document::Pdf),
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => Some(Document::Docx),
            _ => None,
        }
    }
}

impl Document {
    /// Returns the MIME type of the text.
    pub(crate) fn text_type(self) -> &'static str {
        match self {
            Self::Notebook | Self::Docx => "text/markdown",
            Self::Pdf => PLAIN,
        }
    }
}

/// Returns UTF-8 if content is valid UTF-8 without control characters and byte order mark: such text equals the bytes
/// of the file.
fn utf_8(bytes: &[u8], is_whole: bool) -> Option<TextEncoding> {
    let is_valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && !is_whole,
    };
    let found = detect(bytes, is_whole, None).filter(|found| *found == TextEncoding::UTF_8);
    found.filter(|_| is_valid && Encoding::for_bom(bytes).is_none())
}

/// Returns whether the sniffed type of content that could be text is trusted. Short magic numbers are not: two letters
/// at the beginning are no proof.
fn is_plausible(mime_type: &str) -> bool {
    mime::is_text(mime_type) || mime_type == "application/pdf"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_first_and_the_content_where_it_says_nothing_or_lies() {
        for (name, content, mime_type, is_text) in [
            ("a.md", &b"# A"[..], "text/markdown", true),
            ("a.png", b"text", "image/png", false),
            ("picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png", false),
            ("notes", "日本語".as_bytes(), "text/plain", true),
            ("BMW", b"BMW is a company", "text/plain", true),
            ("run", b"#!/bin/sh\necho", "text/x-shellscript", true),
            ("page", b"<!DOCTYPE html><p>", "text/html", true),
            ("data", b"\0\x01\x02\x03", "application/octet-stream", false),
            ("a.txt", b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip", false),
            ("a.txt", b"\0\x01", "application/octet-stream", false),
            ("empty", b"", "text/plain", true),
            ("a.ipynb", b"{}", "application/x-ipynb+json", true),
            ("go.mod", b"module a", "text/plain", true),
            ("a.nt", b"<a> <b> <c> .", "application/n-triples", true),
            ("a.m3u", "日本.mp3".as_bytes(), "audio/x-mpegurl", true),
            ("a.bin", b"#!/bin/sh\n", "application/octet-stream", true),
            ("a.bin", b"%PDF-1.7", "application/octet-stream", false),
            ("a.bin", b"caf\xe9 au lait, d\xe9j\xe0 vu", "application/octet-stream", false),
            ("a.bin", b"\xef\xbb\xbftext", "application/octet-stream", false),
            ("a.bin", b"a\x01", "application/octet-stream", false),
            ("a.pdf", b"text", "application/pdf", false),
        ] {
            if let Some(listed) = Probe::by_name(name) {
                assert_eq!(listed.mime_type, mime_type, "a listing says the type that a read says: {name}");
            }
            let probe = Probe::new(name, content, true, None);
            assert_eq!((probe.mime_type, probe.encoding.is_some()), (mime_type, is_text), "{name}");
        }
    }
}
