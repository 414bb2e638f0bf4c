//! Reading directories.

use super::{Confined, Kind, is_hidden, join};
use mcp_provider::{Failure, Result, log};
use std::fs::{self, DirEntry};

/// How many entries of one directory may fail to be read before the rest of it is given up.
const MOST_FAULTS: usize = 100;

/// Every file at any depth, in order of names.
pub(super) fn files(root: &Confined) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = Vec::new();
    let mut sort = |entries: Vec<(String, Found)>, folders: &mut Vec<String>| {
        for (names, found) in entries {
            match found {
                Found { kind: Kind::File, .. } => files.push(names),
                Found { kind: Kind::Folder, is_link: false } => folders.push(names),
                Found { kind: Kind::Folder, is_link: true } => {}
            }
        }
    };
    sort(entries(root, "")?, &mut folders);
    while let Some(folder) = folders.pop() {
        match entries(root, &folder) {
            Ok(entries) => sort(entries, &mut folders),
            Err(failure) => log::warn!("the folder {folder:?} is left out: {failure}"),
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// What was found under a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    kind: Kind,
    is_link: bool,
}

/// What is directly in a folder, in no particular order.
pub(super) fn entries(root: &Confined, names: &str) -> Result<Vec<(String, Found)>> {
    let mut found = Vec::new();
    let mut faults: usize = 0;
    for entry in fs::read_dir(root.resolve(names)?)? {
        match entry {
            Ok(entry) => found.extend(visible(root, names, &entry)),
            Err(error) => {
                log::warn!("an entry of the folder {names:?} is left out: {error}");
                faults = faults.saturating_add(1);
                if faults >= MOST_FAULTS {
                    return Err(Failure::internal(format!("the folder {names:?} cannot be read: {error}")));
                }
            }
        }
    }
    Ok(found)
}

/// What the folder shows of a directory entry.
fn visible(root: &Confined, parent: &str, entry: &DirEntry) -> Option<(String, Found)> {
    let name = entry.file_name();
    let Some(name) = name.to_str() else {
        log::warn!("{name:?} in the folder {parent:?} is left out: its name is no UTF-8");
        return None;
    };
    if is_hidden(name) {
        return None;
    }
    let names = join(parent, name);
    let own = entry.file_type().ok()?;
    let is_link = own.is_symlink();
    let kind = if is_link {
        match root.resolve(&names).and_then(|path| Ok(fs::metadata(path)?)) {
            Ok(metadata) => metadata.file_type(),
            Err(failure) => {
                log::warn!("the link {names:?} is left out: {failure}");
                return None;
            }
        }
    } else {
        own
    };
    let kind = match kind {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Folder,
        _ => return None,
    };
    Some((names, Found { kind, is_link }))
}
