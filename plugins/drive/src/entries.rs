//! Entries of files, folders, chunks and sheets.

use crate::api::File;
use crate::format::{Format, fits};
use crate::id::Id;
use crate::route::Route;
use crate::session::{Served, Session};
use crate::text::Header;
use crate::tree::Folder;
use mcp_provider::{Entry, Result};

/// The maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 500;

/// Returns the entry of a folder of the tree.
pub(crate) fn folder(session: &Session<'_>, id: &Id, folder: &Folder) -> Entry {
    Entry::directory(Route::folder(id), name(&folder.name, id))
        .title(name(&folder.name, id))
        .subscribable()
        .ttl(session.settings.refresh)
}

/// Returns the entry of a file in a format.
pub(crate) fn file(session: &Session<'_>, served: &Served, format: &Format) -> Result<Entry> {
    let Served { file, target } = served;
    let max_read = session.settings.max_read;
    let mut entry = common(Entry::new(Route::file(&file.id), name(&file.name, &file.id)), session, served)
        .title(name(&file.name, &file.id))
        .mime_type(format.mime_type(target));
    if let Some(description) = target.description.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        entry = entry.description(description.chars().take(MAX_DESCRIPTION).collect::<String>());
    }
    // The size of a shortcut's target is not known in a listing.
    if !file.is_shortcut() && (matches!(format, Format::Sheets(_)) || format.is_text(target, max_read)) {
        entry = entry.listable();
    }
    if let (Format::Stored, Some(size), false) = (format, target.size(), file.is_shortcut()) {
        entry = if fits(size, max_read) { entry.size(size) } else { entry.meta("drive/total-bytes", size) };
    }
    if *format != Format::Stored {
        entry = entry.meta("drive/type", target.mime_type.as_str());
    }
    if let Some(link) = target.web_view_link.as_deref().filter(|link| link.starts_with("https://")) {
        entry = entry.meta("drive/link", link);
    }
    let tree = session.tree()?;
    if let Some(parent) = tree.parent_of(file) {
        entry = entry.meta("drive/folder", tree.path(parent));
    }
    Ok(entry)
}

/// Returns the entry of the chunk with this index.
pub(crate) fn chunk(session: &Session<'_>, served: &Served, text: &Header, index: usize) -> Option<Entry> {
    let (file, number, chunk) = (&served.file, index.saturating_add(1), text.chunks.get(index)?);
    let headings = text.chunks.headings(chunk);
    let title = std::iter::once(name(&file.name, &file.id)).chain(headings.iter().copied());
    let title = title.collect::<Vec<_>>().join(" › ");
    let entry = Entry::new(Route::chunk(&file.id, number), format!("{} #{number}", name(&file.name, &file.id)));
    let entry = common(entry, session, served)
        .title(title)
        .mime_type(text.format.as_str())
        .meta("drive/chunk", number)
        .meta("drive/chunks", text.chunks.len())
        .meta("drive/chunk-id", chunk.id.as_str())
        .meta("drive/overlap", chunk.overlap())
        .meta("drive/headings", headings);
    Some(entry)
}

/// Returns the entry of the sheet with this number.
pub(crate) fn sheet(session: &Session<'_>, served: &Served, sheet: &str, number: usize) -> Entry {
    let file = &served.file;
    let entry = Entry::new(Route::sheet(&file.id, number), sheet);
    common(entry, session, served)
        .title(format!("{} › {sheet}", name(&file.name, &file.id)))
        .mime_type(crate::format::CSV)
        .meta("drive/sheet", number)
}

/// Adds the metadata that a file, its chunks and its sheets share. A change of a shortcut's target is not a change of
/// the shortcut, so a shortcut cannot be watched.
fn common(mut entry: Entry, session: &Session<'_>, served: &Served) -> Entry {
    entry = entry.ttl(session.settings.refresh);
    if let Some(time) = &served.target.modified_time {
        entry = entry.last_modified(time.as_str());
    }
    if served.file.is_shortcut() { entry.meta("drive/target", served.target.id.as_str()) } else { entry.subscribable() }
}

/// Returns a name, or the id if the name is empty.
fn name<'n>(name: &'n str, id: &'n Id) -> &'n str {
    if name.trim().is_empty() { id.as_str() } else { name }
}

/// Returns the target of a shortcut, as far as the shortcut describes it, for a listing.
pub(crate) fn listed(file: File) -> Option<Served> {
    let mut target = file.clone();
    if let Some(shortcut) = &file.shortcut_details {
        target.id = shortcut.target_id.clone();
        target.mime_type.clone_from(&shortcut.target_mime_type);
    }
    (!target.is_folder() && !target.is_shortcut()).then_some(Served { file, target })
}
