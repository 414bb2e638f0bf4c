//! Documents as text.
//!
//! The output of each conversion is bounded by [`MAX_TEXT`], and its end states whether the bound was reached. A file
//! that is not a document of its type has no text; the reason is shown to the client.

mod docx;
mod notebook;
mod pdf;

use crate::probe::Document;

/// The maximum size of a document's text, in bytes. The last paragraph or page may exceed it.
const MAX_TEXT: usize = 8 * 1024 * 1024;

/// Converts a document to text, or returns the reason why it has none.
pub(crate) fn to_text(document: Document, bytes: Vec<u8>) -> Result<String, String> {
    match document {
        Document::Notebook => notebook::to_markdown(&bytes),
        Document::Docx => docx::to_markdown(bytes),
        Document::Pdf => pdf::to_text(bytes),
    }
}
