//! One file, as an entry and as content.

use crate::folder::{Folder, Item};
use crate::front_matter::{FIRST_BYTES, FrontMatter, MOST_BYTES};
use crate::place::Place;
use mcp_provider::{Contents, Entry, Failure, Result, mime};

/// The MIME type of what has front matter.
const MARKDOWN: &str = "text/markdown";

/// Whether a file is a note, going by its name; anything else is an attachment.
pub(crate) fn is_note(names: &str) -> bool {
    mime::from_name(names) == Some(MARKDOWN)
}

/// What a note says of itself. Of the file, only as much is read as front matter may take.
pub(crate) fn front_matter(folder: &Folder, names: &str) -> Result<FrontMatter> {
    let first = folder.head(names, FIRST_BYTES)?;
    let is_all = u64::try_from(first.len()).is_ok_and(|bytes| bytes < FIRST_BYTES);
    match FrontMatter::parse_beginning(&first, is_all) {
        Some(front_matter) => Ok(front_matter),
        None => Ok(FrontMatter::parse_beginning(&folder.head(names, MOST_BYTES)?, true).unwrap_or_default()),
    }
}

/// A file as an entry.
pub(crate) fn entry(folder: &Folder, file: &Item) -> Result<Entry> {
    let entry = plain_entry(file);
    if is_note(&file.names) { Ok(front_matter(folder, &file.names)?.describe(entry)) } else { Ok(entry) }
}

/// A file with its content, whole and unchanged.
pub(crate) fn read(folder: &Folder, file: &Item, most: u64) -> Result<Contents> {
    // One byte more tells whether there are more than were allowed, although the file may grow meanwhile.
    let bytes = folder.head(&file.names, most.saturating_add(1))?;
    if u64::try_from(bytes.len()).map_or(true, |bytes| bytes > most) {
        return Err(Failure::denied(format!(
            "the file has {} bytes, and this folder serves files of at most {most}",
            file.size.max(most.saturating_add(1))
        )));
    }
    let mut entry = plain_entry(file);
    if is_note(&file.names) {
        let beginning = bytes.get(..usize::try_from(MOST_BYTES).unwrap_or(usize::MAX)).unwrap_or(&bytes);
        entry = FrontMatter::parse_beginning(beginning, true).unwrap_or_default().describe(entry);
    }
    let mut contents = Contents::bytes(entry, bytes);
    if contents.entry.mime_type.is_none() {
        let mime = if contents.as_text().is_some() { "text/plain" } else { "application/octet-stream" };
        contents.entry.mime_type = Some(mime.to_owned());
    }
    Ok(contents)
}

fn plain_entry(file: &Item) -> Entry {
    let mut entry = Entry::new(Place::Item(file.names.clone()).path(), file.name()).size(file.size).subscribable();
    if let Some(mime) = mime::from_name(file.name()) {
        entry = entry.mime_type(mime);
    }
    if let Some(modified) = file.modified {
        entry = entry.last_modified(modified);
    }
    entry
}
