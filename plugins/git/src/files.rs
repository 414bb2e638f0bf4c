//! Files of the repository, opened with care.
//!
//! A repository is somebody else's data: a file may be a directory, a pipe that never answers, or a gigabyte where a
//! line is due. Only regular files are opened, and what is read whole has a bound.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Opens a regular file and tells its size; none where there is no such file, or a directory.
///
/// The kind is asked before the file is opened, because opening a pipe waits for its other end.
pub(crate) fn open(path: &Path) -> Result<Option<(File, u64)>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(metadata) if metadata.is_dir() => return Ok(None),
        Ok(_) => {
            return Err(Error::corrupt(path.display(), "it is a pipe, a socket or a device, expected a regular file"));
        }
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(Error::io(path, error)),
    }
    // Another one may have taken its place since: the size is that of the one that is open.
    match File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata.len()))) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

/// Reads a file of at most `max_size` bytes; none where there is no such file.
pub(crate) fn read(path: &Path, max_size: u64) -> Result<Option<Vec<u8>>> {
    let Some((file, size)) = open(path)? else { return Ok(None) };
    if size > max_size {
        return Err(Error::corrupt(path.display(), format!("it has {size} bytes, expected at most {max_size}")));
    }
    // One read of all it has. Git replaces such files as a whole and never writes into one, so it has no more by now.
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    (&file).read_exact(&mut bytes).map_err(|error| Error::io(path, error))?;
    Ok(Some(bytes))
}

/// Whether there is a directory at this path, or a link to one.
pub(crate) fn is_directory(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Something in a directory.
pub(crate) struct DirEntry {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is a directory itself, and no link to one.
    pub(crate) is_directory: bool,
}

/// What is in a directory and has a name that is text, in no order; nothing where there is no such directory.
pub(crate) fn list(path: &Path) -> Result<Vec<DirEntry>> {
    let mut listed = Vec::new();
    for_each(path, |file| listed.push(file))?;
    Ok(listed)
}

/// Shows what is in a directory, as [`list`] has it.
pub(crate) fn for_each(path: &Path, show: impl FnMut(DirEntry)) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(Error::io(path, error)),
    };
    // What cannot be told, or whose name is no text, is not of git's making.
    let listed = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_directory = entry.file_type().ok()?.is_dir();
        Some(DirEntry { name: entry.file_name().into_string().ok()?, is_directory })
    });
    listed.for_each(show);
    Ok(())
}

/// The path that something in a directory names. Steps back from a grant lead nowhere in a sandbox, even where they would
/// lead to another grant: then the path is taken without them.
pub(crate) fn resolve(directory: &Path, path: &Path) -> PathBuf {
    let joined = directory.join(path);
    if fs::metadata(&joined).is_ok() { joined } else { normalize_lexically(&joined) }
}

/// The path without steps back and forth.
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

/// Whether an error only says that there is nothing.
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
