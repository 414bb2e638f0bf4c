//! Bounded access to the repository's files.
//!
//! A repository is untrusted data: a file may be a directory, a FIFO that blocks forever, or a gigabyte instead of one
//! line. Only regular files are opened, and reads of whole files are bounded.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Opens a regular file and returns it with its size; `None` if it does not exist or is a directory.
///
/// In the sandbox, the host opens nothing but regular files and directories, and never blocks. Elsewhere, the file type
/// is checked first, because opening a FIFO blocks until its other end is opened.
pub(crate) fn open(path: &Path) -> Result<Option<(File, u64)>> {
    #[cfg(not(target_family = "wasm"))]
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(not_regular(path));
    }
    match File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata))) {
        Ok((file, metadata)) if metadata.is_file() => Ok(Some((file, metadata.len()))),
        Ok((_, metadata)) if metadata.is_dir() => Ok(None),
        Ok(_) => Err(not_regular(path)),
        Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::IsADirectory => Ok(None),
        Err(_) if fs::metadata(path).is_ok_and(|found| !found.is_file()) => Err(not_regular(path)),
        Err(error) => Err(Error::io(path, error)),
    }
}

fn not_regular(path: &Path) -> Error {
    Error::corrupt(path.display(), "expected a regular file, found a pipe, a socket or a device")
}

/// Reads a file of at most `max_size` bytes; `None` if it does not exist.
pub(crate) fn read(path: &Path, max_size: u64) -> Result<Option<Vec<u8>>> {
    let Some((file, size)) = open(path)? else { return Ok(None) };
    if size > max_size {
        return Err(Error::corrupt(path.display(), format!("it has {size} bytes, expected at most {max_size}")));
    }
    // A single read of `size` bytes. Git replaces such files and never modifies them in place, so the size is final.
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    (&file).read_exact(&mut bytes).map_err(|error| Error::io(path, error))?;
    Ok(Some(bytes))
}

/// Returns whether the path is a directory, or a link to one.
pub(crate) fn is_directory(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// A directory entry.
pub(crate) struct DirEntry {
    /// The file name.
    pub(crate) name: String,
    /// Whether it is a directory; `false` for a link to one.
    pub(crate) is_directory: bool,
}

/// Returns the entries of a directory whose names are UTF-8, unordered; empty if the directory does not exist.
pub(crate) fn list(path: &Path) -> Result<Vec<DirEntry>> {
    let mut listed = Vec::new();
    for_each(path, |file| listed.push(file))?;
    Ok(listed)
}

/// Calls `show` for each entry of a directory, with the semantics of [`list`].
pub(crate) fn for_each(path: &Path, show: impl FnMut(DirEntry)) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(Error::io(path, error)),
    };
    // Entries that cannot be read, or whose names are not UTF-8, were not created by git.
    let listed = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_directory = entry.file_type().ok()?.is_dir();
        Some(DirEntry { name: entry.file_name().into_string().ok()?, is_directory })
    });
    listed.for_each(show);
    Ok(())
}

/// Resolves a path relative to a directory. In the sandbox, `..` cannot leave a grant, even if it leads into another
/// grant, so a path that does not exist as written is normalized lexically.
pub(crate) fn resolve(directory: &Path, path: &Path) -> PathBuf {
    let joined = directory.join(path);
    if fs::metadata(&joined).is_ok() { joined } else { normalize_lexically(&joined) }
}

/// Returns the path without `.` and `..` components, resolved lexically.
pub(crate) fn normalize_lexically(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            Component::CurDir => {}
            component => plain.push(component),
        }
    }
    plain
}

/// Returns whether an error means that the file does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename | ErrorKind::InvalidInput
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_no_file_and_nothing_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open(dir.path()).unwrap().is_none());
        assert!(open(&dir.path().join("none")).unwrap().is_none());
        assert!(list(&dir.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn a_path_through_a_file_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        assert!(open(&dir.path().join("a/b")).unwrap().is_none());
        assert!(list(&dir.path().join("a")).unwrap().is_empty());
    }

    #[test]
    fn a_file_beyond_its_bound_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("HEAD");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap().unwrap(), b"12345");
        assert!(matches!(read(&path, 4), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_path_without_steps_back_and_forth_is_the_same_place() {
        for (path, expected) in [("/repo/../main/.git", "/main/.git"), ("a/./b/../../c", "c"), ("../../a", "../../a")] {
            assert_eq!(normalize_lexically(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_step_back_that_leads_nowhere_is_taken_on_paper() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("far/away")).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("far/away", root.path().join("grant")).unwrap();
        assert_eq!(resolve(&root.path().join("grant"), Path::new("../file")), root.path().join("file"));
        let really = root.path().join("grant/../away");
        assert_eq!(resolve(&root.path().join("grant"), Path::new("../away")), really);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(open(&path).err().unwrap().to_string().contains("expected a regular file"));
    }
}
