//! The content that a read of a file returns.

use crate::entries;
use crate::format::{CSV, Format, WORKBOOK};
use crate::id::Id;
use crate::route::Bytes;
use crate::session::{Served, Session};
use crate::sheets::{self, Sheet};
use crate::text::{Header, Source, export_first};
use mcp_provider::{Contents, Entry, Failure, Notice, Page, Result, mime};

/// A file with its format.
pub(crate) struct Document<'s> {
    session: &'s Session<'s>,
    served: Served,
    format: Format,
}

impl<'s> Document<'s> {
    /// Opens a served file.
    pub(crate) fn open(session: &'s Session<'s>, id: &Id) -> Result<Self> {
        let served = session.served(id)?;
        let format = if served.target.is_google_type() {
            Format::of(&served.target, session.export_formats()?)
        } else {
            Some(Format::Stored)
        };
        let format = format.ok_or_else(|| {
            let kind = &served.target.mime_type;
            Failure::denied(format!("Drive exports files of type `{kind}` to no format that can be served"))
        })?;
        Ok(Self { session, served, format })
    }

    /// Returns the entry of the file.
    pub(crate) fn entry(&self) -> Result<Entry> {
        entries::file(self.session, &self.served, &self.format)
    }

    /// Reads the file, or a part of it.
    pub(crate) fn read(&self, path: &str, bytes: Option<Bytes>) -> Result<Vec<Contents>> {
        let mut entry = self.entry()?;
        path.clone_into(&mut entry.path);
        let contents = match &self.format {
            Format::Stored => self.read_stored(entry, bytes)?,
            Format::Text(_) => {
                let text = self.source().text()?;
                let entry = text_meta(entry, &text.header);
                self.part_of(entry, text.text.into_bytes(), bytes)?
            }
            Format::Other(format) => {
                let exported = self.session.client.export(&self.served.target.id, format)?;
                self.part_of(entry, exported, bytes)?
            }
            Format::Sheets(_) if bytes.is_some() => {
                return Err(Failure::invalid("expected no range of bytes; a spreadsheet is read by its sheets"));
            }
            Format::Sheets(_) => return self.read_sheets(),
        };
        Ok(vec![contents])
    }

    /// Reads a chunk.
    pub(crate) fn read_chunk(&self, number: usize) -> Result<Contents> {
        let index = number.saturating_sub(1);
        let chunk = self.chunked()?.chunk(index)?.ok_or(Failure::NotFound)?;
        let entry = entries::chunk(self.session, &self.served, &chunk.header, index).ok_or(Failure::NotFound)?;
        Ok(Contents::text(entry, chunk.text))
    }

    /// Reads a sheet.
    pub(crate) fn read_sheet(&self, number: usize) -> Result<Contents> {
        let contents = self.read_sheets()?.into_iter().nth(number.saturating_sub(1));
        contents.ok_or(Failure::NotFound)
    }

    /// Lists the chunks or sheets.
    pub(crate) fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Page> {
        match &self.format {
            Format::Sheets(_) => {
                let sheets = self.read_sheets()?;
                numbered_page(sheets.len(), cursor, limit, |index| Some(sheets.get(index)?.entry.clone()))
            }
            _ => {
                let header = self.chunked()?.header()?;
                let entry = |index| entries::chunk(self.session, &self.served, &header, index);
                numbered_page(header.chunks.len(), cursor, limit, entry)
            }
        }
    }

    /// Returns the number of chunks.
    pub(crate) fn chunk_count(&self) -> Result<usize> {
        Ok(self.chunked()?.header()?.chunks.len())
    }

    /// Returns the number of sheets.
    pub(crate) fn sheet_count(&self) -> Result<usize> {
        Ok(self.read_sheets()?.len())
    }

    /// Returns the text if the file has one that can be divided into chunks.
    fn chunked(&self) -> Result<Source<'_>> {
        if !self.format.is_text(&self.served.target, self.session.settings.max_read) {
            return Err(Failure::invalid(
                "expected a file with a text of at most `max-read` bytes: others have no chunks",
            ));
        }
        Ok(self.source())
    }

    fn source(&self) -> Source<'_> {
        Source::new(self.session, &self.served.target, &self.format)
    }

    /// Reads a stored file, at most `max-read` bytes of it.
    fn read_stored(&self, entry: Entry, bytes: Option<Bytes>) -> Result<Contents> {
        let (client, target, max) = (&self.session.client, &self.served.target, self.session.settings.max_read);
        let size = target.size().ok_or_else(|| Failure::unavailable("Drive does not say how large the file is"))?;
        let (first, len) = wanted(bytes, size, max)?;
        let part = client.media(&target.id, size, first, len)?;
        // Several responses may belong to different versions.
        if part.requests > 1 && client.file(&target.id)?.modified_time != target.modified_time {
            return Err(Failure::unavailable("the file changed while it was read"));
        }
        Ok(contents(entry, part.bytes, first, size))
    }

    /// Returns a part of an exported document.
    fn part_of(&self, entry: Entry, mut exported: Vec<u8>, bytes: Option<Bytes>) -> Result<Contents> {
        let size = u64::try_from(exported.len()).unwrap_or(u64::MAX);
        let (first, len) = wanted(bytes, size, self.session.settings.max_read)?;
        let start = usize::try_from(first).unwrap_or(usize::MAX);
        exported.truncate(start.saturating_add(len));
        exported.drain(..start.min(exported.len()));
        Ok(contents(entry, exported, first, size))
    }

    /// Reads the sheets: one content per sheet, at most `max-read` bytes in total.
    fn read_sheets(&self) -> Result<Vec<Contents>> {
        let Format::Sheets(formats) = &self.format else {
            return Err(Failure::invalid("expected a spreadsheet: other files have no sheets"));
        };
        let max = self.session.settings.max_read;
        let (format, exported) = export_first(self.session, &self.served.target, formats)?;
        let sheets = if format == WORKBOOK {
            let fault = |fault| Failure::unavailable(format!("Drive's answer cannot be used: {fault}"));
            sheets::sheets(exported, max).map_err(fault)?
        } else {
            // For a workbook that is too large, Drive exports only one sheet, as CSV.
            let csv = String::from_utf8_lossy(&exported).replace("\r\n", "\n");
            vec![Sheet { name: self.served.file.name.clone(), csv, is_cut: false }]
        };
        if sheets.is_empty() {
            return Err(Failure::denied("the spreadsheet has no sheet with cells"));
        }
        let mut contents = Vec::new();
        for (sheet, number) in sheets.into_iter().zip(1..) {
            let mut entry = entries::sheet(self.session, &self.served, &sheet.name, number);
            if sheet.is_cut {
                entry = entry.meta("drive/cut", true).notice(Notice::cut("the sheet is too large: its first rows"));
            }
            if format == CSV {
                let notice = Notice::incomplete("the workbook is too large to be exported: its first sheet only");
                entry = entry.meta("drive/first-sheet-only", true).notice(notice);
            }
            contents.push(Contents::text(entry, sheet.csv));
        }
        Ok(contents)
    }
}

/// Returns the first byte and the number of bytes to read from a file of `size` bytes.
fn wanted(bytes: Option<Bytes>, size: u64, max: usize) -> Result<(u64, usize)> {
    let Bytes { first, last } = bytes.unwrap_or(Bytes { first: 0, last: None });
    if first >= size && first > 0 {
        return Err(Failure::invalid(format!("the file has {size} bytes, numbered from 0")));
    }
    let end = last.map_or(size, |last| last.saturating_add(1).min(size));
    let len = usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX);
    Ok((first, len.min(max)))
}

/// Returns a part as contents. Unless the part is the whole file, the metadata contains its range and the start of the
/// next part.
fn contents(mut entry: Entry, mut part: Vec<u8>, first: u64, size: u64) -> Contents {
    let end = |part: &[u8]| first.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
    let is_text = entry.mime_type.as_deref().is_some_and(mime::is_text);
    if is_text && end(&part) < size {
        // An incomplete character at the end would make the text a blob.
        let valid = std::str::from_utf8(&part).map_or_else(|error| error.valid_up_to(), str::len);
        if valid > 0 && part.len().saturating_sub(valid) < 4 {
            part.truncate(valid);
        }
    }
    let end = end(&part);
    if first > 0 || end < size {
        entry = entry
            .meta("drive/range", format!("bytes={first}-{}", end.saturating_sub(1)))
            .meta("drive/total-bytes", size);
    }
    if end < size {
        let notice = Notice::cut(format!("bytes {first} to {} of {size}", end.saturating_sub(1)));
        let next = format!("bytes={end}-");
        entry = entry.notice(notice.next(format!("?{next}"))).meta("drive/next-range", next);
    }
    Contents::bytes(entry, part)
}

/// Adds the properties of an exported text.
fn text_meta(mut entry: Entry, text: &Header) -> Entry {
    if entry.mime_type.as_deref() != Some(text.format.as_str()) {
        let preferred = entry.mime_type.take().unwrap_or_default();
        entry = entry.mime_type(text.format.as_str()).meta("drive/too-large-for", preferred.as_str());
        entry = entry.notice(Notice::incomplete(format!("the document is too large to be exported as {preferred}")));
    }
    if text.images > 0 {
        let notice = Notice::incomplete(format!("{} images were left out", text.images));
        entry = entry.meta("drive/images-omitted", text.images).notice(notice);
    }
    entry.meta("drive/chunks", text.chunks.len())
}

/// Returns a page of `count` entries. The cursor is the number of entries before the page.
fn numbered_page(
    count: usize,
    cursor: Option<&str>,
    limit: usize,
    entry: impl Fn(usize) -> Option<Entry>,
) -> Result<Page> {
    let given = match cursor {
        None => 0,
        Some(cursor) => {
            cursor.parse::<usize>().ok().filter(|given| *given > 0).ok_or_else(crate::listing::foreign_cursor)?
        }
    };
    let end = given.saturating_add(limit);
    let next_cursor = (end < count).then(|| end.to_string());
    Ok(Page { entries: (given..end.min(count)).filter_map(entry).collect(), next_cursor })
}
