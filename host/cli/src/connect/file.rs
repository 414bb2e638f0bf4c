//! A client's file: read, and replaced atomically, with a backup of the old content.
//!
//! No content is lost: the new content goes to a temporary file, which is renamed over the old one only if the file
//! still has the content that was read. A symbolic link stays; its target is replaced. File and backup have mode 0600,
//! since clients keep tokens there.

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use mcp_host_base::{private_file, regular_file};
use tempfile::NamedTempFile;

use super::edit::Position;
use crate::error::CommandError;

/// The maximum size of a client's file, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// The suffix of a backup's name.
const BACKUP: &str = ".mcp-host.bak";

/// Why a client's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is a dangling symbolic link.
    #[error("{} is a symbolic link to a file that does not exist", file.display())]
    Dangling {
        /// The link.
        file: PathBuf,
    },
    /// The file is too large for a client's file.
    #[error("{} has more than {MAX_BYTES} bytes", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The file is not UTF-8.
    #[error("{} is not UTF-8: {position} has another byte", file.display())]
    NotUtf8 {
        /// The file.
        file: PathBuf,
        /// The place of the first invalid byte.
        position: Position,
    },
    /// A link in the project leads to a file outside the project.
    #[error("{} leads out of the project, to {}; nothing was written", file.display(), target.display())]
    OutsideProject {
        /// The file, as the project has it.
        file: PathBuf,
        /// The target of the link.
        target: PathBuf,
    },
    /// The file belongs to another user; a new file would belong to this user.
    #[error("{} belongs to another user", file.display())]
    Owner {
        /// The file.
        file: PathBuf,
    },
    /// Another program has changed the file.
    #[error("{} was changed by another program meanwhile; nothing was written", file.display())]
    Changed {
        /// The file.
        file: PathBuf,
    },
    /// The file, its backup or its directory cannot be written.
    #[error("{} cannot be written: {source}", file.display())]
    Write {
        /// The file or directory.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl CommandError for FileError {}

/// A client's file, or the place where it will be.
#[derive(Debug)]
pub(crate) struct ClientFile {
    /// The path with all links resolved.
    path: PathBuf,
    /// `None` if the file does not exist.
    text: Option<String>,
}

impl ClientFile {
    /// Reads the file, if it exists.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let read_error = |source| FileError::Read { file: path.to_owned(), source };
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), text: None });
            }
            Err(error) => return Err(read_error(error)),
            Ok(_) => {}
        }
        let resolved = path.canonicalize().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => FileError::Dangling { file: path.to_owned() },
            _ => read_error(source),
        })?;
        if !private_file::is_own(&resolved.metadata().map_err(read_error)?) {
            return Err(FileError::Owner { file: resolved });
        }
        let text = read(&resolved)?;
        Ok(Self { path: resolved, text: Some(text) })
    }

    /// Opens a file below a directory. Links in its path must not lead out of that directory.
    pub(crate) fn open_within(path: &Path, dir: &Path) -> Result<Self, FileError> {
        let file = Self::open(path)?;
        let read_error = |source| FileError::Read { file: path.to_owned(), source };
        let dir = dir.canonicalize().map_err(read_error)?;
        // For a file that does not exist yet: its closest existing directory.
        let target = file.path.ancestors().find_map(|above| above.canonicalize().ok()).unwrap_or_default();
        if target.starts_with(&dir) {
            Ok(file)
        } else {
            Err(FileError::OutsideProject { file: path.to_owned(), target })
        }
    }

    /// The content of the file; empty if there is no file.
    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// The path with all links resolved.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content. Returns the backup, if there was content to back up.
    pub(crate) fn replace(&self, text: &str) -> Result<Option<PathBuf>, FileError> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| FileError::Write { file: dir.to_owned(), source })?;
        let new = prepare(dir, text).map_err(|source| FileError::Write { file: self.path.clone(), source })?;
        let Some(before) = &self.text else {
            return match new.persist_noclobber(&self.path) {
                Ok(_) => Ok(None),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(FileError::Changed { file: self.path.clone() })
                }
                Err(error) => Err(FileError::Write { file: self.path.clone(), source: error.error }),
            };
        };
        let backup = back_up(&self.path, dir, before)?;
        if read(&self.path)? != *before {
            return Err(FileError::Changed { file: self.path.clone() });
        }
        match new.persist(&self.path) {
            Ok(_) => Ok(Some(backup)),
            Err(error) => Err(FileError::Write { file: self.path.clone(), source: error.error }),
        }
    }
}

/// A new file in this directory with the content on disk. Only its user can read it.
fn prepare(dir: &Path, text: &str) -> io::Result<NamedTempFile> {
    // `tempfile` creates files with mode 0600.
    let mut new = tempfile::Builder::new().prefix(".mcp-host-").tempfile_in(dir)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    Ok(new)
}

/// Writes a backup of this content, and returns its path. A backup with other content stays: the first backup has the
/// user's own text.
fn back_up(path: &Path, dir: &Path, text: &str) -> Result<PathBuf, FileError> {
    for number in 1_u32.. {
        let backup = backup_path(path, number);
        let write_error = |source| FileError::Write { file: backup.clone(), source };
        match prepare(dir, text).map_err(write_error)?.persist_noclobber(&backup) {
            Ok(_) => return Ok(backup),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                if read(&backup).is_ok_and(|before| before == text) {
                    return Ok(backup);
                }
            }
            Err(error) => return Err(write_error(error.error)),
        }
    }
    Err(FileError::Write { file: path.to_owned(), source: io::ErrorKind::AlreadyExists.into() })
}

/// `FILE.mcp-host.bak`, `FILE.mcp-host.bak.2` and so on.
fn backup_path(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(BACKUP);
    if number > 1 {
        name.push(format!(".{number}"));
    }
    path.with_file_name(name)
}

fn read(path: &Path) -> Result<String, FileError> {
    let bytes =
        regular_file::read(path, MAX_BYTES).map_err(|source| FileError::Read { file: path.to_owned(), source })?;
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLarge { file: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        FileError::NotUtf8 { file: path.to_owned(), position: Position::after(&String::from_utf8_lossy(before)) }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_and_its_directories_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Code/User/mcp.json");
        let file = ClientFile::open(&path).unwrap();
        assert_eq!(file.text(), "");
        assert_eq!(file.replace("{}").unwrap(), None);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("{}", 0o600));
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn what_the_file_was_is_in_a_private_backup_and_a_link_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("dotfiles.json"), dir.path().join("mcp.json"));
        fs::write(&real, "before").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
        symlink("dotfiles.json", &link).unwrap();
        let backup = ClientFile::open(&link).unwrap().replace("after").unwrap().unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!((fs::read_to_string(&link).unwrap().as_str(), mode(&real)), ("after", 0o600));
        assert_eq!((fs::read_to_string(&backup).unwrap().as_str(), mode(&backup)), ("before", 0o600));
        assert_eq!(backup, real.canonicalize().unwrap().with_file_name("dotfiles.json.mcp-host.bak"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no other file is left");
    }

    #[test]
    fn a_backup_of_another_content_stays_and_one_of_the_same_is_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp.json");
        fs::write(&path, "1").unwrap();
        let replace = |text: &str| ClientFile::open(&path).unwrap().replace(text).unwrap().unwrap();
        let backups: Vec<_> = ["2", "3", "1", "2", "4"].into_iter().map(replace).collect();
        let names: Vec<_> = backups.iter().map(|backup| backup.extension().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["bak", "2", "3", "bak", "2"]);
        let contents: Vec<_> = backups.iter().map(|backup| fs::read_to_string(backup).unwrap()).collect();
        assert_eq!(contents, ["1", "2", "3", "1", "2"]);
    }

    #[test]
    fn a_change_by_another_program_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp.json");
        let file = ClientFile::open(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(matches!(file.replace("ours"), Err(FileError::Changed { .. })));
        let file = ClientFile::open(&path).unwrap();
        fs::write(&path, "theirs, again").unwrap();
        assert!(matches!(file.replace("ours"), Err(FileError::Changed { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs, again");
    }

    #[test]
    fn a_link_in_a_project_must_not_lead_out_of_it() {
        let (project, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| project.path().join(path);
        let open = |path: &str| ClientFile::open_within(&at(path), project.path());
        fs::write(outside.path().join("settings.json"), "{}").unwrap();
        fs::create_dir_all(at("own")).unwrap();
        symlink(outside.path().join("settings.json"), at("mcp.json")).unwrap();
        symlink(outside.path(), at(".cursor")).unwrap();
        symlink("own", at(".vscode")).unwrap();
        for path in ["mcp.json", ".cursor/settings.json", ".cursor/mcp.json", ".cursor/new/mcp.json"] {
            assert!(matches!(open(path), Err(FileError::OutsideProject { .. })), "{path}");
        }
        for path in [".vscode/mcp.json", "new/mcp.json"] {
            open(path).unwrap();
        }
    }

    #[test]
    fn what_is_no_file_of_text_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("nowhere", at("dangling")).unwrap();
        fs::write(at("binary"), b"{\n  \"\xff").unwrap();
        fs::create_dir(at("directory")).unwrap();
        assert!(matches!(ClientFile::open(&at("dangling")), Err(FileError::Dangling { .. })));
        let binary = ClientFile::open(&at("binary")).unwrap_err().to_string();
        assert!(binary.contains("is not UTF-8: line 2 column 4"), "{binary}");
        assert!(matches!(ClientFile::open(&at("directory")), Err(FileError::Read { .. })));
        assert!(!at("nowhere").exists());
    }
}
