//! Alternates: other object directories that a repository borrows from (`objects/info/alternates`, see
//! `gitrepository-layout`).
//!
//! An alternate outside of the plugin's grants cannot be opened. It is skipped with a warning, because the served
//! resources may be complete without it.

use crate::error::Result;
use crate::files;
use std::path::{Path, PathBuf};

/// The maximum size of a list of alternates, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// The maximum number of object directories: far more than any real repository has.
const MAX_ALTERNATES: usize = 64;

/// Returns the transitive alternates of an object directory, without duplicates.
pub(crate) fn alternates(objects: &Path) -> Result<Vec<PathBuf>> {
    let mut known = vec![files::normalize_lexically(objects)];
    let mut all = Vec::new();
    let mut next = 0usize;
    let mut directory = objects.to_owned();
    loop {
        let list = files::read(&directory.join("info/alternates"), MAX_BYTES)?.unwrap_or_default();
        for line in list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
            let Some(alternate) = resolve_alternate(&directory, line) else { continue };
            let plain = files::normalize_lexically(&alternate);
            if all.len() < MAX_ALTERNATES && !known.contains(&plain) {
                known.push(plain);
                all.push(alternate);
            }
        }
        match all.get(next) {
            Some(path) => directory.clone_from(path),
            None => return Ok(all),
        }
        next = next.saturating_add(1);
    }
}

fn resolve_alternate(directory: &Path, line: &[u8]) -> Option<PathBuf> {
    let shown = line.escape_ascii();
    // A path with special characters is quoted, as a C string.
    let line = match line.strip_prefix(b"\"") {
        Some(_) => gix_quote::ansi_c::undo(line.into()).ok()?.0.into_owned(),
        None => line.into(),
    };
    let path = std::str::from_utf8(&line).ok().map(|path| files::resolve(directory, Path::new(path)));
    match path.filter(|path| files::is_directory(path)) {
        Some(path) => Some(path),
        None => {
            log::warn!("alternate object directory {shown} skipped: it is not granted, or does not exist");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn objects(root: &Path, name: &str, alternates: &str) -> PathBuf {
        let objects = root.join(name);
        fs::create_dir_all(objects.join("info")).unwrap();
        fs::write(objects.join("info/alternates"), alternates).unwrap();
        objects
    }

    #[test]
    fn alternates_are_followed_from_one_to_the_next_and_each_is_taken_once() {
        let root = tempfile::tempdir().unwrap();
        let first = objects(root.path(), "first", "# borrowed\n../second\n\"../thi\\162d\"\n");
        objects(root.path(), "second", &format!("{}\n", root.path().join("third").display()));
        objects(root.path(), "third", "../third\n../first\n");
        let all = alternates(&first).unwrap();
        let names: Vec<_> = all.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["second", "third"]);
    }

    #[test]
    fn an_alternate_that_is_not_to_be_had_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let first = objects(root.path(), "first", "/nowhere/objects\n");
        assert!(alternates(&first).unwrap().is_empty());
    }
}
