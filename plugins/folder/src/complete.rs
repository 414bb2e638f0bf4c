//! Completion of paths.

use crate::{Folder, Found, ItemKind, Walk, WalkBudget};
use mcp_provider::{Completion, Result};
use std::collections::BTreeSet;

/// Completes the names of an item as a shell does: first the files and folders in the typed folder that begin with the
/// rest, then files at any depth below it. `value` converts names to a value; names without a value are skipped.
///
/// # Errors
///
/// The failures of the file system. A folder that does not exist has no completions.
pub fn complete(folder: &Folder, typed: &str, value: impl Fn(&str) -> Option<String>) -> Result<Completion> {
    let parent = typed.rsplit_once('/').map_or("", |(parent, _)| parent);
    if folder.find(parent).map_or(true, |item| item.kind != ItemKind::Folder) {
        return Ok(Completion::default());
    }
    let rest = if parent.is_empty() { typed } else { typed.get(parent.len().saturating_add(1)..).unwrap_or_default() };
    let mut offer = Offer::default();
    let budget = WalkBudget::for_page(Completion::MAX_VALUES);
    // A walk starts after a name, so a completely typed name is added first.
    if !rest.is_empty()
        && let Ok(item) = folder.find(typed)
        && let Some(value) = value(item.names())
    {
        offer.push(value);
    }
    let is_folder = |found: &Found| folder.item(found).is_ok_and(|item| item.kind == ItemKind::Folder);
    let children = offer.add(folder.children(parent, rest, budget)?, typed, &value)?;
    // If the folder has no subfolders, a deep walk would return the same files.
    if !offer.has_more && (children.iter().any(is_folder) || !rest.is_empty()) {
        offer.add(folder.files(parent, rest, budget)?, typed, &value)?;
    }
    Ok(Completion { values: offer.values, total: None, has_more: offer.has_more })
}

/// Returns the value of `{+path}` that expands to the path of an item, if there is one. RFC 6570 (section 3.2.3) copies
/// some characters verbatim that have another meaning in a path.
pub fn template_value(names: &str) -> Option<String> {
    (!names.contains(['?', '#', '[', ']', '%'])).then(|| names.to_owned())
}

/// The distinct values so far.
#[derive(Default)]
struct Offer {
    values: Vec<String>,
    seen: BTreeSet<String>,
    has_more: bool,
}

impl Offer {
    fn push(&mut self, value: String) {
        self.seen.insert(value.clone());
        self.values.push(value);
    }

    /// Adds the items of a walk, and returns them.
    fn add(&mut self, mut walk: Walk<'_>, typed: &str, value: impl Fn(&str) -> Option<String>) -> Result<Vec<Found>> {
        let mut shown = Vec::new();
        while let Some(found) = walk.next_found()? {
            if !found.names.starts_with(typed) {
                return Ok(shown);
            }
            let Some(value) = value(&found.names).filter(|value| !self.seen.contains(value)) else { continue };
            if self.values.len() >= Completion::MAX_VALUES {
                self.has_more = true;
                return Ok(shown);
            }
            self.push(value);
            shown.push(found);
        }
        self.has_more = self.has_more || walk.is_paused();
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DotNames;
    use std::fs;
    use std::rc::Rc;

    #[test]
    fn a_path_is_completed_like_in_a_shell_and_then_with_files_further_down() {
        let dir = tempfile::tempdir().unwrap();
        for names in ["docs/a.md", "docs/deep/b.md", "dog.md", "docs.md", "x/y.md", ".hidden"] {
            fs::create_dir_all(dir.path().join(names).parent().unwrap()).unwrap();
            fs::write(dir.path().join(names), "").unwrap();
        }
        let folder = Folder::open(dir.path(), Rc::new(DotNames)).unwrap();
        let complete = |typed| super::complete(&folder, typed, |names| Some(names.to_owned())).unwrap().values;
        assert_eq!(complete(""), ["docs", "docs.md", "dog.md", "x", "docs/a.md", "docs/deep/b.md", "x/y.md"]);
        assert_eq!(complete("docs"), ["docs", "docs.md", "docs/a.md", "docs/deep/b.md"]);
        assert_eq!(complete("docs/"), ["docs/a.md", "docs/deep", "docs/deep/b.md"]);
        assert_eq!(complete("none/"), Vec::<String>::new());
        assert_eq!(complete("docs/deep/b.md"), ["docs/deep/b.md"]);
    }

    #[test]
    fn as_many_values_are_given_as_the_host_chooses_from() {
        let dir = tempfile::tempdir().unwrap();
        let complete = || {
            let folder = Folder::open(dir.path(), Rc::new(DotNames)).unwrap();
            let completion = super::complete(&folder, "", |names| Some(names.to_owned())).unwrap();
            (completion.values.len(), completion.has_more)
        };
        let write = |n: usize| fs::write(dir.path().join(format!("{n:04}")), "").unwrap();
        (0..1000).for_each(write);
        assert_eq!(complete(), (1000, false));
        write(1000);
        assert_eq!(complete(), (1000, true));
    }
}
