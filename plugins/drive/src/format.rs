//! The format in which a file is served: the stored one, or one of Drive's export formats.
//!
//! The server lists the available formats (`about.exportFormats`); this module chooses one.

use crate::api::{ExportFormats, File};
use mcp_provider::mime;

pub(crate) const MARKDOWN: &str = "text/markdown";
pub(crate) const CSV: &str = "text/csv";
pub(crate) const PLAIN: &str = "text/plain";
/// Workbooks, with all sheets.
pub(crate) const WORKBOOK: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

const SPREADSHEET: &str = "application/vnd.google-apps.spreadsheet";

/// The export formats of spreadsheets, the preferred first.
const OF_SPREADSHEETS: [&str; 2] = [WORKBOOK, CSV];
/// The text formats, the preferred first.
const TEXTS: [&str; 4] = [MARKDOWN, PLAIN, CSV, "application/vnd.google-apps.script+json"];
/// The formats of files without text, such as drawings.
const OTHERS: [&str; 4] = ["image/png", "image/svg+xml", "application/pdf", "application/zip"];

/// The format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Format {
    /// The stored content.
    Stored,
    /// An exported text. The formats are tried in order.
    Text(Vec<&'static str>),
    /// The sheets of a spreadsheet as CSV. The formats are tried in order.
    Sheets(Vec<&'static str>),
    /// Any other exported content.
    Other(&'static str),
}

impl Format {
    /// Returns the format of a file; `None` if Drive exports it to no served format.
    pub(crate) fn of(file: &File, exported: &ExportFormats) -> Option<Self> {
        if !file.is_google_type() {
            return Some(Self::Stored);
        }
        let offered = exported.0.get(&file.mime_type)?;
        let among = |preferred: &[&'static str]| -> Vec<&'static str> {
            preferred.iter().copied().filter(|format| offered.iter().any(|other| other == format)).collect()
        };
        if file.mime_type == SPREADSHEET {
            return Some(Self::Sheets(among(&OF_SPREADSHEETS))).filter(|format| *format != Self::Sheets(Vec::new()));
        }
        let texts = among(&TEXTS);
        if texts.is_empty() {
            among(&OTHERS).first().map(|format| Self::Other(format))
        } else {
            Some(Self::Text(texts))
        }
    }

    /// Returns the MIME type of the served file.
    pub(crate) fn mime_type<'f>(&self, file: &'f File) -> &'f str
    where
        'static: 'f,
    {
        match self {
            Self::Stored => &file.mime_type,
            Self::Text(formats) => formats.first().copied().unwrap_or(PLAIN),
            Self::Sheets(_) => CSV,
            Self::Other(format) => format,
        }
    }

    /// Returns whether a file has a text that can be divided into chunks.
    pub(crate) fn is_text(&self, file: &File, max_read: usize) -> bool {
        match self {
            Self::Stored => mime::is_text(&file.mime_type) && file.size().is_some_and(|size| fits(size, max_read)),
            Self::Text(_) => true,
            Self::Sheets(_) | Self::Other(_) => false,
        }
    }
}

/// Returns whether a size is within a limit.
pub(crate) fn fits(size: u64, limit: usize) -> bool {
    usize::try_from(size).is_ok_and(|size| size <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(mime_type: &str, offered: &[&str]) -> Option<Format> {
        let file = format!(r#"{{"id":"a","name":"A","mimeType":"{mime_type}"}}"#);
        let formats = offered.iter().map(|format| (*format).to_owned()).collect();
        Format::of(&serde_json::from_str(&file).unwrap(), &ExportFormats([(mime_type.to_owned(), formats)].into()))
    }

    #[test]
    fn the_servers_table_decides_what_can_be_had() {
        let document = "application/vnd.google-apps.document";
        assert_eq!(format(document, &["application/pdf", PLAIN, MARKDOWN]), Some(Format::Text(vec![MARKDOWN, PLAIN])));
        assert_eq!(format(document, &["application/pdf", PLAIN]), Some(Format::Text(vec![PLAIN])));
        assert_eq!(format(document, &["application/rtf"]), None);
        assert_eq!(format(SPREADSHEET, &[CSV, WORKBOOK]), Some(Format::Sheets(vec![WORKBOOK, CSV])));
        assert_eq!(format(SPREADSHEET, &["application/pdf"]), None);
        let drawing = "application/vnd.google-apps.drawing";
        assert_eq!(format(drawing, &["image/svg+xml", "image/png"]), Some(Format::Other("image/png")));
        assert_eq!(format("image/jpeg", &[]), Some(Format::Stored));
    }
}
