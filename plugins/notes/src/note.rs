//! The entry and the contents of a file.
//!
//! Text is served as UTF-8. Its encoding is detected from its first bytes. The entry of a text in another encoding has
//! the size as served only if the whole text was read for it.

use crate::Notes;
use crate::front_matter::{FIRST_READ_BYTES, FrontMatter, MAX_BYTES};
use crate::markup::{self, Markup};
use crate::route::Route;
use folder::encoding::{TextEncoding, detect};
use folder::{Found, Item};
use mcp_provider::{Contents, Entry, Failure, Notice, Result};

/// The number of searched bytes, before the end of front matter, whose cost equals one parsed byte.
const SEARCHED_BYTES_PER_COST: usize = 32;

/// The metadata key of the name of an encoding other than UTF-8.
const ENCODING: &str = "notes/encoding";

/// The metadata key of whether malformed sequences were replaced by U+FFFD.
const MALFORMED: &str = "notes/malformed";

/// The properties of a text that its beginning determines.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The metadata; empty for an attachment.
    pub(crate) front_matter: FrontMatter,
    /// The encoding, if it is not UTF-8.
    encoding: Option<TextEncoding>,
    /// The size in UTF-8, if the text is in another encoding and the beginning is the whole text.
    size: Option<u64>,
}

impl Head {
    /// Parses the beginning of a file; `None` if more is needed, unless `is_last`. `is_all` states that the beginning
    /// is the whole file.
    fn parse(notes: &Notes, names: &str, beginning: &[u8], is_all: bool, is_last: bool) -> Option<Self> {
        let encoding = detect(beginning, is_all, notes.settings.encoding).filter(|encoding| encoding.name().is_some());
        let decoded = encoding.map(|encoding| {
            let end = if is_all { beginning.len() } else { encoding.whole_characters(beginning) };
            encoding.decode(beginning.get(..end).unwrap_or(beginning).to_vec()).0
        });
        let text = decoded.as_ref().map_or(beginning, String::as_bytes);
        let front_matter = match Markup::of(names) {
            Some(markup) => FrontMatter::parse_beginning(markup, text, is_last)?,
            None => FrontMatter::default(),
        };
        let size = decoded.filter(|_| is_all).and_then(|text| u64::try_from(text.len()).ok());
        Some(Self { front_matter, encoding, size })
    }

    fn describe(&self, entry: Entry) -> Entry {
        let mut entry = self.front_matter.describe(entry);
        if let Some(encoding) = self.encoding {
            entry.size = self.size;
            entry = with_encoding(entry, encoding);
        }
        entry
    }
}

fn with_encoding(entry: Entry, encoding: TextEncoding) -> Entry {
    match encoding.name() {
        Some(name) => entry.meta(ENCODING, name),
        None => entry,
    }
}

/// Reads the beginning of a text. The file is read no further than needed, in as few reads as possible, because each
/// read is a call to the host.
pub(crate) fn head(notes: &Notes, found: &Found) -> Result<Head> {
    let file = notes.folder.open_file(found)?;
    let mut beginning = file.read_at(0, FIRST_READ_BYTES)?;
    let is_all = beginning.len() < FIRST_READ_BYTES;
    let mut head = match Head::parse(notes, &found.names, &beginning, is_all, is_all) {
        Some(head) => head,
        None => {
            let offset = u64::try_from(beginning.len()).unwrap_or(u64::MAX);
            beginning.extend(file.read_at(offset, MAX_BYTES.saturating_sub(beginning.len()))?);
            let is_all = beginning.len() < MAX_BYTES;
            Head::parse(notes, &found.names, &beginning, is_all, true).unwrap_or_default()
        }
    };
    let searched = beginning.len().checked_div(SEARCHED_BYTES_PER_COST).unwrap_or_default();
    head.front_matter.cost = head.front_matter.cost.saturating_add(searched);
    Ok(head)
}

/// Returns the entry of a file.
pub(crate) fn entry(notes: &Notes, file: &Item) -> Result<Entry> {
    if markup::is_text(file.names()) {
        Ok(entry_with_head(notes, file, &head(notes, &file.found)?))
    } else {
        Ok(plain_entry(notes, file))
    }
}

/// Returns the entry of a text, with the properties that its beginning determines.
pub(crate) fn entry_with_head(notes: &Notes, file: &Item, head: &Head) -> Entry {
    head.describe(plain_entry(notes, file))
}

/// Returns the entry of a text whose beginning cannot be read, with the fault.
pub(crate) fn entry_with_fault(notes: &Notes, file: &Item, fault: &Failure) -> Entry {
    plain_entry(notes, file).meta("notes/faults", vec![format!("its front matter cannot be read: {fault}")])
}

/// Reads a file with its content: text as UTF-8, other files unchanged.
pub(crate) fn read(notes: &Notes, file: &Item) -> Result<Contents> {
    let max_size = notes.settings.max_file_bytes;
    let too_large = |size: u64| {
        Failure::denied(format!("the file has {size} bytes, and this folder serves files of at most {max_size}"))
    };
    if file.size > max_size {
        return Err(too_large(file.size));
    }
    // One extra byte detects a file that grew beyond the limit in the meantime.
    let most = usize::try_from(max_size).unwrap_or(usize::MAX).saturating_add(1);
    let bytes = notes.folder.open_file(&file.found)?.read_at(0, most)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size > max_size) {
        return Err(too_large(max_size.saturating_add(1)));
    }
    let entry = plain_entry(notes, file);
    let encoding =
        Some(&bytes).filter(|_| markup::is_text(file.names())).and_then(|bytes| whole_encoding(notes, bytes));
    let mut contents = match encoding {
        Some(encoding) => {
            let (text, is_malformed) = encoding.decode(bytes);
            let entry = with_encoding(entry, encoding);
            Contents::text(if is_malformed { malformed(entry) } else { entry }, text)
        }
        None => Contents::bytes(entry, bytes),
    };
    if let Some(markup) = Markup::of(file.names()) {
        let beginning = contents.as_bytes();
        let beginning = beginning.get(..MAX_BYTES).unwrap_or(beginning);
        let front_matter = FrontMatter::parse_beginning(markup, beginning, true).unwrap_or_default();
        contents.entry = front_matter.describe(contents.entry);
    }
    if contents.entry.mime_type.is_none() {
        let mime = if contents.as_text().is_some() { "text/plain" } else { "application/octet-stream" };
        contents.entry.mime_type = Some(mime.to_owned());
    }
    Ok(contents)
}

/// Returns the encoding of a whole text, if it is not UTF-8: the detected encoding of its beginning, if the whole text
/// is valid in it.
fn whole_encoding(notes: &Notes, bytes: &[u8]) -> Option<TextEncoding> {
    let configured = notes.settings.encoding;
    let beginning = bytes.get(..FIRST_READ_BYTES).unwrap_or(bytes);
    let probed = detect(beginning, beginning.len() == bytes.len(), configured)?;
    let is_valid = probed.name().is_some() && probed.decode_part(bytes, true).is_some();
    let encoding = if is_valid { Some(probed) } else { detect(bytes, true, configured) };
    encoding.filter(|encoding| encoding.name().is_some())
}

/// Returns the entry of a file, without reading its content.
pub(crate) fn plain_entry(notes: &Notes, file: &Item) -> Entry {
    let mut entry = Entry::new(Route::Item(file.names().to_owned()).path(), file.name()).size(file.size).subscribable();
    if let Some(mime) = markup::mime_type(file.name()) {
        entry = entry.mime_type(mime);
    }
    if let Some(modified) = file.modified {
        entry = entry.last_modified(modified);
    }
    if let Some(priority) = notes.settings.priority(file.names()) {
        entry = entry.priority(priority);
    }
    entry.audience(notes.settings.audience(file.names()).iter().copied())
}

/// Marks a note with bytes that are malformed in its encoding.
fn malformed(entry: Entry) -> Entry {
    let notice = Notice::incomplete("bytes that are no text in its encoding are shown as U+FFFD");
    entry.meta(MALFORMED, true).notice(notice)
}
