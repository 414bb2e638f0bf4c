//! A file as an entry and as contents.

use crate::front_matter::{FIRST_READ_BYTES, FrontMatter, MAX_BYTES};
use crate::route::Route;
use folder::{Folder, Found, Item};
use mcp_provider::{Contents, Entry, Failure, Result, mime};

/// The number of bytes searched for the end of front matter that cost as much as one parsed byte.
const SEARCHED_BYTES_PER_COST: usize = 32;

/// The MIME type of files with front matter.
const MARKDOWN: &str = "text/markdown";

/// Returns whether a file is a note, by its name; other files are attachments.
pub(crate) fn is_note(names: &str) -> bool {
    mime::from_name(names) == Some(MARKDOWN)
}

/// Reads the front matter of a note. The file is read no further than needed, in as few reads as possible: each costs
/// a call to the host.
pub(crate) fn front_matter(folder: &Folder, found: &Found) -> Result<FrontMatter> {
    let file = folder.open_file(found)?;
    let mut beginning = file.read_at(0, FIRST_READ_BYTES)?;
    let is_all = beginning.len() < FIRST_READ_BYTES;
    let front_matter = match FrontMatter::parse_beginning(&beginning, is_all) {
        Some(front_matter) => front_matter,
        None => {
            let offset = u64::try_from(beginning.len()).unwrap_or(u64::MAX);
            beginning.extend(file.read_at(offset, MAX_BYTES.saturating_sub(beginning.len()))?);
            FrontMatter::parse_beginning(&beginning, true).unwrap_or_default()
        }
    };
    let searched = beginning.len().checked_div(SEARCHED_BYTES_PER_COST).unwrap_or_default();
    Ok(FrontMatter { cost: front_matter.cost.saturating_add(searched), ..front_matter })
}

/// Returns a file as an entry.
pub(crate) fn entry(folder: &Folder, file: &Item) -> Result<Entry> {
    if is_note(file.names()) {
        Ok(entry_with_front_matter(file, &front_matter(folder, &file.found)?))
    } else {
        Ok(plain_entry(file))
    }
}

/// Returns a note as an entry, with its front matter.
pub(crate) fn entry_with_front_matter(file: &Item, front_matter: &FrontMatter) -> Entry {
    front_matter.describe(plain_entry(file))
}

/// Returns a note as an entry without its front matter, with the fault.
pub(crate) fn entry_with_fault(file: &Item, fault: &Failure) -> Entry {
    plain_entry(file).meta("notes/faults", vec![format!("its front matter cannot be read: {fault}")])
}

/// Returns a file with its content, complete and unchanged.
pub(crate) fn read(folder: &Folder, file: &Item, max_size: u64) -> Result<Contents> {
    let too_large = |size: u64| {
        Failure::denied(format!("the file has {size} bytes, and this folder serves files of at most {max_size}"))
    };
    if file.size > max_size {
        return Err(too_large(file.size));
    }
    // One extra byte detects a file that grew beyond the limit in the meantime.
    let most = usize::try_from(max_size).unwrap_or(usize::MAX).saturating_add(1);
    let bytes = folder.open_file(&file.found)?.read_at(0, most)?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size > max_size) {
        return Err(too_large(max_size.saturating_add(1)));
    }
    let mut entry = plain_entry(file);
    if is_note(file.names()) {
        let beginning = bytes.get(..MAX_BYTES).unwrap_or(&bytes);
        entry = FrontMatter::parse_beginning(beginning, true).unwrap_or_default().describe(entry);
    }
    let mut contents = Contents::bytes(entry, bytes);
    if contents.entry.mime_type.is_none() {
        let mime = if contents.as_text().is_some() { "text/plain" } else { "application/octet-stream" };
        contents.entry.mime_type = Some(mime.to_owned());
    }
    Ok(contents)
}

/// Returns a file as an entry, without reading its content.
pub(crate) fn plain_entry(file: &Item) -> Entry {
    let mut entry = Entry::new(Route::Item(file.names().to_owned()).path(), file.name()).size(file.size).subscribable();
    if let Some(mime) = mime::from_name(file.name()) {
        entry = entry.mime_type(mime);
    }
    if let Some(modified) = file.modified {
        entry = entry.last_modified(modified);
    }
    entry
}
