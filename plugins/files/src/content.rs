//! The content that a read of a file returns: the whole file, its beginning, a part, or its text.

use crate::convert;
use crate::entries::{TOTAL_BYTES, plain_entry};
use crate::probe::{self, Document, Probe};
use crate::range::{Slice, Source};
use crate::route::{Part, Route, Span};
use crate::settings::Settings;
use folder::encoding::{TextEncoding, detect};
use folder::{Folder, Item, OpenFile};
use mcp_provider::{Contents, Entry, Failure, Notice, Result, mime};

/// The metadata key of the name of an encoding other than UTF-8.
const ENCODING: &str = "files/encoding";
/// The metadata key of whether malformed sequences were replaced by U+FFFD.
const MALFORMED: &str = "files/malformed";
/// The metadata key of the returned part.
const RANGE: &str = "files/range";
/// The metadata key of the next part.
const NEXT_RANGE: &str = "files/next-range";
/// The metadata key of the total number of lines.
const TOTAL_LINES: &str = "files/total-lines";
/// The metadata key of the reason why a document has no text.
const TEXT_FAULT: &str = "files/text-fault";

/// The maximum number of attempts to read a file that changes in the meantime.
const MAX_ATTEMPTS: usize = 3;

/// An open file.
struct Opened<'a> {
    settings: &'a Settings,
    route: &'a Route,
    item: Item,
    file: OpenFile,
    probe: Probe,
}

/// Reads a file.
pub(crate) fn read(folder: &Folder, settings: &Settings, item: &Item, route: &Route) -> Result<Vec<Contents>> {
    let mut attempt: usize = 1;
    loop {
        let opened = Opened::new(folder, settings, item, route)?;
        let contents = opened.read()?;
        // If the file changed during the read, the result may mix two versions.
        if attempt >= MAX_ATTEMPTS || opened.file.is_unchanged(&opened.item)? {
            return Ok(contents);
        }
        attempt = attempt.saturating_add(1);
    }
}

/// Returns the metadata of a part or form of a file, without reading it.
pub(crate) fn stat(folder: &Folder, settings: &Settings, item: &Item, route: &Route) -> Result<Entry> {
    let opened = Opened::new(folder, settings, item, route)?;
    let mime_type = match opened.probe.document() {
        Some(document) if route.view.as_text => document.text_type(),
        None if route.view.as_text && opened.probe.encoding.is_none() => return Err(opened.no_text()),
        _ => opened.probe.mime_type,
    };
    Ok(opened.entry(mime_type).meta(TOTAL_BYTES, item.size))
}

impl<'a> Opened<'a> {
    fn new(folder: &Folder, settings: &'a Settings, item: &Item, route: &'a Route) -> Result<Self> {
        let (file, item) = folder.open_item(item)?;
        let head = file.read_at(0, probe::LEN.saturating_add(1))?;
        let is_whole = head.len() <= probe::LEN;
        let head = head.get(..probe::LEN).unwrap_or(&head);
        let probe = Probe::new(item.name(), head, is_whole, settings.encoding);
        Ok(Self { settings, route, item, file, probe })
    }

    fn entry(&self, mime_type: &str) -> Entry {
        plain_entry(self.route.path_of(self.item.names()), &self.item, mime_type)
    }

    fn read(&self) -> Result<Vec<Contents>> {
        let view = self.route.view;
        match (view.as_text, self.probe.document(), view.part) {
            (true, Some(document), part) => {
                let text = self.convert(document).map_err(Failure::Denied)?;
                Ok(vec![self.text_contents(document.text_type(), &text, part)?])
            }
            (true, None, _) if self.probe.encoding.is_none() => Err(self.no_text()),
            (_, _, Some(part)) => Ok(vec![self.part(part)?]),
            (_, Some(document), None) => self.document(document),
            (_, None, None) => Ok(vec![self.whole()?]),
        }
    }

    fn no_text(&self) -> Failure {
        Failure::invalid(format!(
            "expected text, a notebook, a docx or a PDF file for `as=text`, found {}",
            self.probe.mime_type
        ))
    }

    fn source(&self) -> Source<'_, OpenFile> {
        Source { bytes: &self.file, size: self.item.size, encoding: self.probe.encoding, max: self.settings.max_read }
    }

    /// Reads the whole file, or its beginning if it is too large.
    fn whole(&self) -> Result<Contents> {
        let bytes = self.file.read_at(0, self.settings.max_read.saturating_add(1))?;
        if bytes.len() > self.settings.max_read {
            return Ok(self.slice_contents(self.source().head()?, true));
        }
        let entry = self.entry(self.probe.mime_type);
        Ok(match self.probe.whole_encoding(&bytes, self.settings.encoding) {
            Some(encoding) => self.decoded(entry, encoding, bytes),
            None => Contents::blob(entry, bytes),
        })
    }

    /// Reads a document as text, together with the original.
    fn document(&self, document: Document) -> Result<Vec<Contents>> {
        let text = match self.convert(document) {
            Ok(text) => self.text_contents(document.text_type(), &text, None)?,
            Err(reason) => {
                let mut original = self.whole()?;
                original.entry = original.entry.notice(Notice::incomplete(reason.as_str())).meta(TEXT_FAULT, reason);
                return Ok(vec![original]);
            }
        };
        let is_small = usize::try_from(self.item.size).is_ok_and(|size| size <= self.settings.max_read);
        // The original of a notebook is the same text with unbounded outputs.
        if document == Document::Notebook || !is_small { Ok(vec![text]) } else { Ok(vec![text, self.whole()?]) }
    }

    /// Converts the file to text, or returns the reason why it has none.
    fn convert(&self, document: Document) -> std::result::Result<String, String> {
        let max = self.settings.max_document;
        if usize::try_from(self.item.size).map_or(true, |size| size > max) {
            let size = self.item.size;
            return Err(format!("the document has {size} bytes, and documents of at most {max} are converted to text"));
        }
        let bytes = self.file.read_at(0, max).map_err(|failure| failure.to_string())?;
        convert::to_text(document, bytes)
    }

    /// Returns the text of a document, or a part of it.
    fn text_contents(&self, mime_type: &str, text: &str, part: Option<Part>) -> Result<Contents> {
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let bytes = text.as_bytes();
        let source = Source { bytes, size, encoding: Some(TextEncoding::UTF_8), max: self.settings.max_read };
        let slice = source.read(part.unwrap_or(Part::Lines(Span::From(1, None))))?;
        let is_whole = slice.bytes.len() == text.len();
        let entry = self.entry(mime_type);
        let text = String::from_utf8_lossy(&slice.bytes).into_owned();
        if is_whole && part.is_none() {
            return Ok(Contents::text(entry, text));
        }
        // The part of a line that exceeds the limit is not continued, because a range of bytes refers to the stored
        // file.
        let next = slice.next.as_ref().filter(|next| next.starts_with("lines=")).map(|next| format!("as=text&{next}"));
        let range = format!("as=text&{}", slice.range);
        let slice = Slice { range, next, ..slice };
        Ok(Contents::text(with_range(entry, &slice, size), text))
    }

    /// Reads a part of the stored file.
    fn part(&self, part: Part) -> Result<Contents> {
        let is_lines = matches!(part, Part::Lines(_));
        match self.probe.encoding {
            None if is_lines => Err(Failure::invalid(format!(
                "expected text for `lines`, found {}; ask for `bytes`, or for `as=text` of a document",
                self.probe.mime_type
            ))),
            Some(encoding) if is_lines && !encoding.has_line_feeds() => self.lines_in_memory(encoding, part),
            _ => Ok(self.slice_contents(self.source().read(part)?, is_lines)),
        }
    }

    /// Reads lines of text in an encoding, such as UTF-16, where a line feed is not a single byte.
    fn lines_in_memory(&self, encoding: TextEncoding, part: Part) -> Result<Contents> {
        let max = self.settings.max_document;
        if usize::try_from(self.item.size).map_or(true, |size| size > max) {
            let name = encoding.0.name();
            return Err(Failure::invalid(format!(
                "the file has {} bytes in {name}, where lines can be found in at most {max}; ask for `bytes`",
                self.item.size
            )));
        }
        let text = encoding.decode(self.file.read_at(0, max)?).0;
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let bytes: &[u8] = text.as_bytes();
        let source = Source { bytes, size, encoding: Some(TextEncoding::UTF_8), max: self.settings.max_read };
        let slice = source.read(part)?;
        let text = String::from_utf8_lossy(&slice.bytes).into_owned();
        let entry = with_range(self.entry(self.probe.mime_type), &slice, self.item.size);
        Ok(Contents::text(with_encoding(entry, encoding), text))
    }

    /// Returns a part of the stored file, as text if the part is text. `is_text` allows another encoding to be
    /// detected.
    fn slice_contents(&self, mut slice: Slice, is_text: bool) -> Contents {
        let bytes = std::mem::take(&mut slice.bytes);
        let entry = with_range(self.entry(self.probe.mime_type), &slice, self.item.size);
        let Some(encoding) = self.probe.encoding else { return Contents::blob(entry, bytes) };
        if let Some(text) = encoding.decode_part(&bytes, slice.start == 0) {
            return Contents::text(with_encoding(entry, encoding), text);
        }
        // The beginning of the file may be ASCII, and this part in another encoding.
        match detect(&bytes, true, self.settings.encoding) {
            Some(encoding) if is_text && mime::is_text(self.probe.mime_type) => self.decoded(entry, encoding, bytes),
            _ => Contents::blob(entry, bytes),
        }
    }

    fn decoded(&self, entry: Entry, encoding: TextEncoding, bytes: Vec<u8>) -> Contents {
        let (text, is_malformed) = encoding.decode(bytes);
        let entry = with_encoding(entry, encoding);
        let replaced = "bytes that are no text in its encoding are shown as U+FFFD";
        let marked = |entry: Entry| entry.meta(MALFORMED, true).notice(Notice::incomplete(replaced));
        Contents::text(if is_malformed { marked(entry) } else { entry }, text)
    }
}

fn with_encoding(entry: Entry, encoding: TextEncoding) -> Entry {
    match encoding.name() {
        Some(name) => entry.meta(ENCODING, name),
        None => entry,
    }
}

fn with_range(entry: Entry, slice: &Slice, total_bytes: u64) -> Entry {
    let mut entry = entry.meta(RANGE, slice.range.as_str()).meta(TOTAL_BYTES, total_bytes);
    if let Some(next) = &slice.next {
        let part = format!("{} of {total_bytes} bytes", slice.range.replace('=', " "));
        entry = entry.meta(NEXT_RANGE, next.as_str()).notice(Notice::cut(part).next(format!("?{next}")));
    }
    match slice.total_lines {
        Some(lines) => entry.meta(TOTAL_LINES, lines),
        None => entry,
    }
}
