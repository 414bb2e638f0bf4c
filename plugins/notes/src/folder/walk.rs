//! What the folder shows: of one directory, and of all.

use super::directory::{self, Sort};
use super::{Confined, Kind, is_hidden, join};
use mcp_provider::{Result, log};
use std::fs;

/// What was found under a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    kind: Kind,
    is_link: bool,
}

/// Every file at any depth, in order of names. Folders behind links are not entered.
pub(super) fn files(root: &Confined) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = Vec::new();
    let mut take = |children: Vec<(String, Found)>, folders: &mut Vec<String>| {
        for (names, found) in children {
            match found {
                Found { kind: Kind::File, .. } => files.push(names),
                Found { kind: Kind::Folder, is_link: false } => folders.push(names),
                Found { kind: Kind::Folder, is_link: true } => {}
            }
        }
    };
    take(children(root, "")?, &mut folders);
    while let Some(folder) = folders.pop() {
        match children(root, &folder) {
            Ok(children) => take(children, &mut folders),
            Err(failure) => log::warn!("the folder {folder:?} is left out: {failure}"),
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// What is directly in a folder, in no particular order.
pub(super) fn children(root: &Confined, folder: &str) -> Result<Vec<(String, Found)>> {
    let mut children = Vec::new();
    for entry in directory::entries(&root.resolve(folder)?)? {
        match entry {
            Ok((name, _)) if is_hidden(&name) => {}
            Ok((name, sort)) => {
                let names = join(folder, &name);
                children.extend(find(root, &names, sort).map(|found| (names, found)));
            }
            Err(fault) => log::warn!("an entry of the folder {folder:?} is left out: {fault}"),
        }
    }
    Ok(children)
}

/// What the folder shows of an entry, or nothing.
fn find(root: &Confined, names: &str, sort: Sort) -> Option<Found> {
    let (kind, is_link) = match sort {
        Sort::File => (Some(Kind::File), false),
        Sort::Folder => (Some(Kind::Folder), false),
        Sort::Link => match root.resolve(names).and_then(|path| Ok(fs::metadata(path)?)) {
            Ok(metadata) => (Kind::of(&metadata), true),
            Err(failure) => {
                log::debug!("the link {names:?} is left out: {failure}");
                (None, true)
            }
        },
        Sort::Other => (None, false),
    };
    kind.map(|kind| Found { kind, is_link })
}
