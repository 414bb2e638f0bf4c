//! The disk usage of a directory, as a quota counts it.

use std::collections::HashSet;
use std::fs::File;
use std::io;

use cap_primitives::fs::{DirEntry, MetadataExt, ReadDir, read_base_dir};

/// The cost of a directory entry, in addition to a file's size.
pub(super) const ENTRY_COST: u64 = 4096;
/// The maximum nesting depth of a walk. A deeper directory counts as larger than any quota, because each level takes a
/// few open files of the host.
const MAX_DEPTH: usize = 128;

/// Returns the bytes below `dir`, as a quota counts them. Links are counted, not followed. The walk ends as soon as the
/// sum exceeds `stop_above`, so it visits at most `stop_above / ENTRY_COST` entries.
///
/// Entries that disappear during the walk do not count, and neither do directories that the host may not read: no
/// plugin can write there.
pub(super) fn disk_usage(dir: &File, stop_above: u64) -> io::Result<u64> {
    let mut sum = 0_u64;
    let mut seen_hard_links = HashSet::new();
    let mut stack = vec![read_base_dir(dir)?];
    while let Some(dir) = stack.last_mut() {
        let Some(entry) = dir.next() else {
            stack.pop();
            continue;
        };
        let entry = entry?;
        let Some(found) = ignore_vanished(entry.metadata())? else { continue };
        sum = sum.saturating_add(ENTRY_COST);
        if found.is_file() && (found.nlink() < 2 || seen_hard_links.insert((found.dev(), found.ino()))) {
            sum = sum.saturating_add(found.len());
        }
        if found.is_dir() {
            let Some(inner) = ignore_vanished(open_subdir(&entry))? else { continue };
            if stack.len() >= MAX_DEPTH {
                return Ok(u64::MAX);
            }
            stack.push(inner);
        }
        if sum > stop_above {
            break;
        }
    }
    Ok(sum)
}

fn open_subdir(entry: &DirEntry) -> io::Result<ReadDir> {
    read_base_dir(&entry.open_dir()?)
}

/// Returns `None` if the entry has disappeared or may not be accessed.
fn ignore_vanished<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(None),
        // The directory has been replaced by a link.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn measure(dir: &tempfile::TempDir) -> u64 {
        disk_usage(&File::open(dir.path()).unwrap(), u64::MAX - 1).unwrap()
    }

    #[test]
    fn entries_and_sizes_count_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(measure(&dir), 0);
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        assert_eq!(measure(&dir), 2 * ENTRY_COST);
        fs::write(dir.path().join("a/b/file"), [0; 100]).unwrap();
        assert_eq!(measure(&dir), 3 * ENTRY_COST + 100);
        symlink("..", dir.path().join("a/up")).unwrap();
        symlink("a/b/file", dir.path().join("link")).unwrap();
        assert_eq!(measure(&dir), 5 * ENTRY_COST + 100);
    }

    #[test]
    fn a_file_with_holes_counts_with_its_size() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("holes")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(measure(&dir), ENTRY_COST + (1 << 40));
    }

    #[test]
    fn a_file_with_two_names_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("one"), [0; 100]).unwrap();
        fs::hard_link(dir.path().join("one"), dir.path().join("two")).unwrap();
        assert_eq!(measure(&dir), 2 * ENTRY_COST + 100);
    }

    #[test]
    fn the_walk_ends_as_soon_as_it_has_found_enough() {
        let dir = tempfile::tempdir().unwrap();
        (0..100).for_each(|n| fs::write(dir.path().join(n.to_string()), "").unwrap());
        assert_eq!(disk_usage(&File::open(dir.path()).unwrap(), 10 * ENTRY_COST).unwrap(), 11 * ENTRY_COST);
    }

    #[test]
    fn what_is_nested_too_deep_is_more_than_any_quota() {
        let dir = tempfile::tempdir().unwrap();
        let nested = |levels: usize| dir.path().join("d/".repeat(levels));
        fs::create_dir_all(nested(MAX_DEPTH - 1)).unwrap();
        assert_eq!(measure(&dir), (MAX_DEPTH as u64 - 1) * ENTRY_COST);
        fs::create_dir(nested(MAX_DEPTH)).unwrap();
        assert_eq!(measure(&dir), u64::MAX);
    }
}
