//! The entries of files and directories.
//!
//! The size in an entry is the size of the content that a read returns. It is absent if it is not known without reading
//! the whole file (text of more than [`probe::LEN`] bytes may not be UTF-8), and if a read returns only the beginning;
//! in that case, `files/total-bytes` is the size of the stored file.

use crate::probe::{self, Document, Probe};
use crate::settings::Settings;
use folder::encoding::TextEncoding;
use folder::listing::PageCost;
use folder::{Folder, Found, Item, ItemKind};
use mcp_provider::{Entry, Failure, Result, log, path};

/// The metadata key of the size of the stored file.
pub(crate) const TOTAL_BYTES: &str = "files/total-bytes";

/// The number of bytes read whose cost for a page equals one parsed byte.
const READ_BYTES_PER_COST: usize = 32;

/// Returns the entry of an item.
pub(crate) fn entry(folder: &Folder, settings: &Settings, item: &Item) -> Result<Entry> {
    match item.kind {
        ItemKind::Folder => Ok(directory(item)),
        ItemKind::File => Ok(file_entry(folder, settings, item)?.0),
    }
}

/// Returns the entry of an item for a listing. An unreadable item is omitted, so the listing does not fail.
pub(crate) fn entry_for_listing(
    folder: &Folder,
    settings: &Settings,
    found: &Found,
    cost: &mut PageCost,
) -> Option<Entry> {
    let item = folder.item_for_listing(found)?;
    if item.kind == ItemKind::Folder {
        return Some(directory(&item));
    }
    match file_entry(folder, settings, &item) {
        Ok((entry, read)) => {
            cost.add_parsed(read.checked_div(READ_BYTES_PER_COST).unwrap_or_default());
            Some(entry)
        }
        Err(failure) => {
            let names = &found.names;
            match failure {
                Failure::NotFound => log::debug!("{names:?} omitted: it has just been deleted"),
                failure => log::warn!("{names:?} omitted: {failure}"),
            }
            None
        }
    }
}

/// Returns the entry of a directory.
pub(crate) fn directory(item: &Item) -> Entry {
    let name = if item.names().is_empty() { "files" } else { item.name() };
    let entry = Entry::directory(path::encode(item.names()), name).subscribable();
    match item.modified {
        Some(modified) => entry.last_modified(modified),
        None => entry,
    }
}

/// Returns the entry of a file at a path, without its size.
pub(crate) fn plain_entry(path: String, item: &Item, mime_type: &str) -> Entry {
    let entry = Entry::new(path, item.name()).mime_type(mime_type).subscribable();
    match item.modified {
        Some(modified) => entry.last_modified(modified),
        None => entry,
    }
}

/// Returns the entry of a file, and the number of bytes read for it.
fn file_entry(folder: &Folder, settings: &Settings, item: &Item) -> Result<(Entry, usize)> {
    let path = path::encode(item.names());
    let is_whole_read = usize::try_from(item.size).is_ok_and(|size| size <= settings.max_read);
    if let Some(probe) = Probe::by_name(item.name()) {
        let entry = plain_entry(path, item, probe.mime_type);
        return Ok((with_size(entry, item, is_whole_read.then_some(item.size)), 0));
    }
    let head = folder.open_file(&item.found)?.read_at(0, probe::LEN.saturating_add(1))?;
    let is_whole = head.len() <= probe::LEN;
    let probe = Probe::new(item.name(), head.get(..probe::LEN).unwrap_or(&head), is_whole, settings.encoding);
    let read = head.len();
    let size = match probe {
        Probe { encoding: None, .. } => is_whole_read.then_some(item.size),
        probe if probe.document() == Some(Document::Notebook) => None,
        Probe { encoding: Some(encoding), .. } if is_whole && is_whole_read => Some(text_size(encoding, head)),
        Probe { .. } => None,
    };
    Ok((with_size(plain_entry(path, item, probe.mime_type), item, size), read))
}

fn with_size(entry: Entry, item: &Item, size: Option<u64>) -> Entry {
    match size {
        Some(size) if size == item.size => entry.size(size),
        Some(size) => entry.size(size).meta(TOTAL_BYTES, item.size),
        None => entry.meta(TOTAL_BYTES, item.size),
    }
}

/// Returns the size of a text in UTF-8.
fn text_size(encoding: TextEncoding, bytes: Vec<u8>) -> u64 {
    u64::try_from(encoding.decode(bytes).0.len()).unwrap_or(u64::MAX)
}
