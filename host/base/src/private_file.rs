//! Private files: files of this user that other users may not write to, or may neither read nor write.
//!
//! | file | symbolic links | other kinds of files | owner | mode |
//! |---|---|---|---|---|
//! | of a [`PrivateDir`](crate::private_dir::PrivateDir) | refused | refused, without blocking | this user | not writable by others (`go-w`) |
//! | a secret of a [`PrivateDir`](crate::private_dir::PrivateDir) | refused | refused, without blocking | this user | neither readable nor writable by others (`go-rw`) |
//! | an output at a path that the user names ([`create`]) | followed | opened as they are | this user | set to 0600 |
//!
//! Owner and mode are checked on the descriptor of the opened file (`fstat`), so a file cannot be replaced between
//! check and use. Every function of this module blocks: call it on a thread that may block.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::regular_file::kind_of;

/// Mode bits that must not be set, for group and others.
const GROUP_OTHER_WRITE: u32 = 0o022;
const GROUP_OTHER_READ_WRITE: u32 = 0o066;
/// The mode of a new file.
const OWN: u32 = 0o600;

/// The reason why a directory or file is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateError {
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path of the directory has another kind of file.
    #[error("expected {} to be a directory, found {found}; move it away, or configure another directory", path.display())]
    NoDirectory {
        /// The directory, which may be an ancestor of the requested directory.
        path: PathBuf,
        /// The kind of the file.
        found: &'static str,
    },
    /// The path of the file has another kind of file.
    #[error("expected a regular file, found {0}; move it away, so that a new file is created")]
    NoFile(&'static str),
    /// The directory does not belong to this user only.
    #[error(
        "expected {} to be a directory that only this user may write to, found {found}; find out who wrote to it, \
         then `chmod go-w` it, or configure another one", path.display()
    )]
    Directory {
        /// The directory, which may be an ancestor of the requested directory.
        path: PathBuf,
        /// The kind, the owner and the mode.
        found: String,
    },
    /// The file does not belong to this user only.
    #[error(
        "expected a regular file that only this user may write to, found {0}; find out who wrote to it, then \
         `chmod go-w` it, or move it away"
    )]
    File(String),
    /// Any user may rename the directory, or one above it.
    #[error(
        "expected directories above {} that not every user may write to, found {} with {found}: any \
         user could replace the directory; `chmod o-w` it or `chmod +t` it, or configure another directory",
        path.display(), parent.display()
    )]
    Parent {
        /// The directory that must be private.
        path: PathBuf,
        /// The directory above it.
        parent: PathBuf,
        /// Its mode.
        found: String,
    },
    /// The secret does not belong to this user only.
    #[error(
        "expected a regular file that only this user may read or write, found {0}; delete it if others may have \
         read it, so that a new one is created, else `chmod 600` it"
    )]
    Secret(String),
    /// The secret has the wrong length. At most one byte more than expected is read.
    #[error(
        "expected a file of {expected} bytes, found {}; delete it, so that a new one is created",
        describe_length(*expected, *found)
    )]
    Length {
        /// The length of a secret.
        expected: usize,
        /// The number of bytes that were read.
        found: usize,
    },
    /// The output at a path of the user is a file of another user.
    #[error("it is a file of the user {0}, who could read what is written to it; remove it, or name another file")]
    OtherUser(u32),
}

/// What other users may do with a private file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Others {
    /// They may read it.
    Read,
    /// They may neither read nor write it: it is a secret.
    Nothing,
}

impl Others {
    /// The mode bits that must not be set.
    fn denied(self) -> u32 {
        match self {
            Self::Read => GROUP_OTHER_WRITE,
            Self::Nothing => GROUP_OTHER_READ_WRITE,
        }
    }

    /// The error of a file that others may use otherwise.
    fn refusal(self, found: String) -> PrivateError {
        match self {
            Self::Read => PrivateError::File(found),
            Self::Nothing => PrivateError::Secret(found),
        }
    }
}

/// Opens a file of a directory with this access, and checks it. A file that this creates is accessible to this user
/// only.
pub(crate) fn open_in(dir: &File, name: &str, access: OFlags, others: Others) -> Result<File, PrivateError> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(PrivateError::NoFile("a symbolic link")),
        Err(Errno::NXIO) => return Err(PrivateError::NoFile("a socket")),
        // The entry is a directory, opened for writing.
        Err(Errno::ISDIR) => return Err(PrivateError::NoFile("a directory")),
        Err(error) => return Err(io::Error::from(error).into()),
    };
    check(&file.metadata()?, others)?;
    Ok(file)
}

/// Opens a file to write what only this user may read: creates it with mode 0600, or empties it and sets this mode.
/// Follows symbolic links. A file of another kind, such as a terminal or a pipe, is opened as it is, which may block.
///
/// # Errors
///
/// The file belongs to another user, who could read it, whatever its mode; or it cannot be opened.
pub fn create(path: &Path) -> Result<File, PrivateError> {
    create_as(path, rustix::process::geteuid().as_raw())
}

/// Opens the file as the user with this id.
fn create_as(path: &Path, user: u32) -> Result<File, PrivateError> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(OWN).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        if metadata.uid() != user {
            return Err(PrivateError::OtherUser(metadata.uid()));
        }
        // An existing file may have another mode.
        file.set_permissions(PermissionsExt::from_mode(OWN))?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// Checks that it is a regular file of this user, which others may use only in this way.
pub(crate) fn check(metadata: &Metadata, others: Others) -> Result<(), PrivateError> {
    match (metadata.is_file(), is_private(metadata, others)) {
        (false, _) => Err(PrivateError::NoFile(kind_of(metadata.file_type()))),
        (true, false) => Err(others.refusal(describe(metadata))),
        (true, true) => Ok(()),
    }
}

/// Returns whether a file or directory belongs to this user, and others may use it only in this way.
pub(crate) fn is_private(metadata: &Metadata, others: Others) -> bool {
    is_own(metadata) && metadata.mode() & others.denied() == 0
}

/// Returns whether a file or directory belongs to this user.
pub fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Describes the type, owner and mode of a file or directory.
pub(crate) fn describe(metadata: &Metadata) -> String {
    let kind = kind_of(metadata.file_type());
    format!("{kind} of user {} with mode {:04o}", metadata.uid(), metadata.mode() & 0o7777)
}

fn describe_length(expected: usize, found: usize) -> String {
    if found > expected { "more".to_owned() } else { found.to_string() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_output_that_is_a_file_of_another_user_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("output");
        fs::write(&file, "what was there").unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let owner = fs::metadata(&file).unwrap().uid();
        let refused = create_as(&file, owner.wrapping_add(1)).unwrap_err().to_string();
        assert!(refused.contains(&format!("user {owner}")) && refused.contains("name another file"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "what was there");
        create_as(&file, owner).unwrap();
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!((metadata.len(), metadata.mode() & 0o777), (0, 0o600), "only its owner can read what is written");
    }
}
