//! What a file is: its MIME type and, if it is text, its encoding.
//!
//! The name decides first, then the content: a name of a type that is not text is believed without opening the file.
//! Otherwise the first [`LEN`] bytes are read. A file named like text that is none has the type of its content.

use encoding_rs::Encoding;
use folder::encoding::{TextEncoding, detect};
use mcp_provider::mime;

/// The number of bytes at the beginning of a file that decide.
pub(crate) const LEN: usize = 32 * 1024;

/// The type of files of which nothing is known.
const BYTES: &str = "application/octet-stream";
/// The type of text of which nothing else is known.
const PLAIN: &str = "text/plain";

/// What a file is.
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
    /// Returns what a file is if its name tells.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let mime_type = mime::from_name(name).filter(|mime_type| !mime::is_text(mime_type))?;
        Some(Self { mime_type, encoding: None })
    }

    /// Returns what a file is by its name and its beginning, which may be the whole.
    pub(crate) fn new(name: &str, head: &[u8], is_whole: bool, fallback: Option<&'static Encoding>) -> Self {
        if let Some(probe) = Self::by_name(name) {
            return probe;
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

    /// Returns the type of document, if it can be converted to text.
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

/// Returns whether content that could be text is of a sniffed type after all: two letters at its beginning are no proof.
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
        ] {
            let probe = Probe::new(name, content, true, None);
            assert_eq!((probe.mime_type, probe.encoding.is_some()), (mime_type, is_text), "{name}");
        }
    }
}
