//! A pass over all visible items of a folder, in no particular order.
//!
//! A [walk](crate::Walk) buffers names of files; a survey does not, so its memory does not grow with their number. A
//! survey holds the names of the folders that it has yet to enter, and has the same limits of depth and length as a
//! walk.

use crate::disk::FileKind;
use crate::rules::Rules;
use crate::tree::{Folder, Place, join};
use crate::walk::{MAX_DEPTH, MAX_PATH};
use mcp_provider::{Result, log};
use std::rc::Rc;

/// Calls `show` with the names of each item, from the root. A deep survey shows only files, at any depth; any other
/// shows the direct children. Links are shown without being followed.
pub(crate) fn survey(folder: &Folder, place: Place, is_deep: bool, mut show: impl FnMut(&str, FileKind)) -> Result<()> {
    let mut pending: Vec<(String, Rc<dyn Rules>, usize)> = Vec::new();
    let mut current = Some((place.found.real, place.rules, 0_usize));
    let mut is_first = true;
    while let Some((names, rules, depth)) = current {
        let mut folders = Vec::new();
        let read = folder.root().for_each(&names, |entry| {
            let Ok((name, kind)) = entry else { return };
            let child = join(&names, &name);
            if child.len() > MAX_PATH || !rules.shows(&child, kind == FileKind::Folder) {
                return;
            }
            match kind {
                FileKind::Folder if is_deep => folders.push(child),
                FileKind::Other => {}
                kind => show(&child, kind),
            }
        });
        match read {
            Err(failure) if is_first => return Err(failure),
            Err(failure) => log::warn!("folder {names:?} skipped: {failure}"),
            Ok(()) if depth < MAX_DEPTH => {
                pending.extend(folders.into_iter().map(|child| (child, rules.clone(), depth.saturating_add(1))));
            }
            Ok(()) => {}
        }
        is_first = false;
        current = None;
        while let Some((names, parent, depth)) = pending.pop() {
            match parent.enter(folder, &names) {
                Ok(rules) => {
                    current = Some((names, rules, depth));
                    break;
                }
                Err(failure) => log::warn!("folder {names:?} skipped: {failure}"),
            }
        }
    }
    Ok(())
}
