//! Directories and files that only this user may write to: the state directory, the cache of compiled components.
//!
//! Another user who can write to them could forge cursors, change the stored data of plugins, or make the host execute
//! arbitrary machine code. So a directory is opened once, without following a symbolic link, and its owner and mode
//! are checked on the descriptor (`fstat`): it belongs to this user, and others may not write to it (`go-w`). Files are
//! opened relative to that descriptor (`openat`) with `O_NOFOLLOW` and `O_NONBLOCK`, and are checked on their own
//! descriptors ([`private_file`]). A FIFO, a device or a link is rejected without blocking. There is no TOCTOU race: an
//! entry cannot be replaced between check and use, because only this user may rename entries of the directory.
//!
//! Every function of this module blocks: call it on a thread that may block.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chacha20poly1305::Key;
use chacha20poly1305::aead::Generate;
use hmac::{Hmac, KeyInit, Mac as _};
use rustix::fs::{AtFlags, Mode, OFlags};
use sha2::Sha256;
use tempfile::NamedTempFile;

use crate::private_file::{self, Others, PrivateError};
use crate::regular_file::kind_of;

/// The length of a secret in bytes.
pub const SECRET_LEN: usize = 32;

/// The prefix of the names of temporary files.
const TEMPORARY: &str = ".tmp";

/// The maximum number of attempts to lock a file that other processes rename or remove at the same time.
const LOCK_ATTEMPTS: usize = 16;

/// The mode bit that lets others write.
const OTHER_WRITE: u32 = 0o002;
/// The mode bit that lets only the owner of an entry rename it.
const STICKY: u32 = 0o1000;

/// A directory that only this user may write to.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    dir: File,
}

impl PrivateDir {
    /// Opens the directory, and creates it with mode 0700 if it does not exist.
    pub fn open(path: &Path) -> Result<Self, PrivateError> {
        // A trailing slash would follow a symbolic link.
        let path: PathBuf = path.components().collect();
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|error| no_directory(&path, error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(dir) => File::from(dir),
            Err(error) => return Err(no_directory(&path, error.into())),
        };
        let metadata = dir.metadata()?;
        match private_file::is_private(&metadata, Others::Read) {
            true => Ok(Self { path, dir }),
            false => Err(PrivateError::Directory { path, found: private_file::describe(&metadata) }),
        }
    }

    /// Fails if any user may rename the directory or one above it: if one of them is writable for all users, without
    /// the sticky bit. Use this where the directory determines which code runs. Group members are not checked, because
    /// many systems have a group for each user.
    pub fn check_parents(&self) -> Result<(), PrivateError> {
        let path = self.path.canonicalize()?;
        for parent in path.ancestors().skip(1) {
            let metadata = parent.metadata()?;
            if metadata.mode() & OTHER_WRITE != 0 && metadata.mode() & STICKY == 0 {
                let found = private_file::describe(&metadata);
                return Err(PrivateError::Parent { path: self.path.clone(), parent: parent.to_owned(), found });
            }
        }
        Ok(())
    }

    /// Opens a subdirectory, and creates it if it does not exist.
    pub fn subdirectory(&self, name: &str) -> Result<Self, PrivateError> {
        Self::open(&self.path.join(name))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading. Fails with `ErrorKind::NotFound` if it does not exist.
    pub fn open_file(&self, name: &str) -> Result<File, PrivateError> {
        private_file::open_in(&self.dir, name, OFlags::RDONLY, Others::Read)
    }

    /// Creates a temporary file, accessible to this user only. The caller persists it under its final name.
    pub fn new_file(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.path)
    }

    /// Opens a file for reading and writing, creating it if it does not exist, and locks it (`flock`). Returns none if
    /// another process holds the lock.
    ///
    /// The lock belongs to the open file: it lasts until all its descriptors are closed, including those in child
    /// processes, and the kernel releases it when they end. A file that is renamed or removed by the owner of its lock
    /// is never returned under the earlier name.
    pub fn lock_file(&self, name: &str) -> Result<Option<File>, PrivateError> {
        for _ in 0..LOCK_ATTEMPTS {
            let file = private_file::open_in(&self.dir, name, OFlags::RDWR | OFlags::CREATE, Others::Read)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            // The file may have been renamed or removed between opening and locking it.
            if self.is_named(&file, name)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Removes unlocked files with this name ending, and unlocked temporary files, that were last modified before
    /// `since`. Skips files that other users own or can write. Returns the number of removed files.
    ///
    /// A process that opened such a file before its removal gets the lock afterwards, and detects that the file has
    /// lost its name ([`lock_file`](Self::lock_file)).
    pub fn remove_abandoned_files(&self, ending: &str, since: SystemTime) -> io::Result<usize> {
        let mut removed = 0_usize;
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let is_sought = |name: &&str| name.ends_with(ending) || name.starts_with(TEMPORARY);
            let Some(name) = name.to_str().filter(is_sought) else { continue };
            // Another process may remove it at the same time.
            if self.remove_abandoned_file(name, since).unwrap_or(false) {
                removed = removed.saturating_add(1);
            }
        }
        Ok(removed)
    }

    fn remove_abandoned_file(&self, name: &str, since: SystemTime) -> Result<bool, PrivateError> {
        let file = private_file::open_in(&self.dir, name, OFlags::RDWR, Others::Read)?;
        let is_old = || file.metadata()?.modified().map(|modified| modified < since);
        // A file in use must not be locked even briefly.
        if !is_old()? {
            return Ok(false);
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // The previous owner of the lock may have renamed the file, or written to it.
        if !is_old()? || !self.is_named(&file, name)? {
            return Ok(false);
        }
        rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()).map_err(io::Error::from)?;
        Ok(true)
    }

    /// Returns whether this name refers to the open file.
    fn is_named(&self, file: &File, name: &str) -> Result<bool, PrivateError> {
        let opened = file.metadata()?;
        match std::fs::symlink_metadata(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            named => named.map(|named| (named.dev(), named.ino()) == (opened.dev(), opened.ino())).map_err(Into::into),
        }
    }

    /// Returns whether the file exists. Fails if it does not belong to this user only.
    ///
    /// The file is not opened: closing it would release the locks that SQLite has on it in this process (`fcntl`), and
    /// another process would consider the database closed.
    pub fn has_file(&self, name: &str) -> Result<bool, PrivateError> {
        let metadata = match std::fs::symlink_metadata(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        private_file::check(&metadata, Others::Read)?;
        Ok(true)
    }

    /// Loads a secret, or creates it from the operating system's random numbers if it does not exist.
    pub fn load_or_create_secret(&self, name: &str) -> Result<[u8; SECRET_LEN], PrivateError> {
        match self.load_secret(name) {
            Err(PrivateError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let secret = random_secret();
        let mut file = self.new_file()?;
        file.write_all(&secret)?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(self.path.join(name)) {
            Ok(_) => Ok(secret),
            // Another process has created the secret first. Use that secret.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => self.load_secret(name),
            Err(error) => Err(error.error.into()),
        }
    }

    /// Checks that the secret, if it exists, can be loaded.
    pub fn check_secret(&self, name: &str) -> Result<(), PrivateError> {
        match self.load_secret(name) {
            Err(PrivateError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            loaded => loaded.map(drop),
        }
    }

    fn load_secret(&self, name: &str) -> Result<[u8; SECRET_LEN], PrivateError> {
        let file = private_file::open_in(&self.dir, name, OFlags::RDONLY, Others::Nothing)?;
        let mut bytes = Vec::with_capacity(SECRET_LEN);
        file.take((SECRET_LEN as u64).saturating_add(1)).read_to_end(&mut bytes)?;
        let wrong = |bytes: Vec<u8>| PrivateError::Length { expected: SECRET_LEN, found: bytes.len() };
        bytes.try_into().map_err(wrong)
    }
}

/// Returns the error of a directory that cannot be opened or created. If its path has another kind of file, the error
/// names the kind.
fn no_directory(path: &Path, error: io::Error) -> PrivateError {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => {
            PrivateError::NoDirectory { path: path.to_owned(), found: kind_of(found.file_type()) }
        }
        _ => error.into(),
    }
}

/// Returns a message authentication code, HMAC-SHA256, keyed with a secret.
pub fn mac(secret: &[u8; SECRET_LEN]) -> Hmac<Sha256> {
    // A shorter key is padded with zeros to a block of the hash function (RFC 2104, section 2).
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block.iter_mut().zip(secret).for_each(|(byte, key)| *byte = *key);
    Hmac::new(&block)
}

/// Returns a value that depends on a secret and on each part, and reveals nothing about the secret (HMAC-SHA256).
/// Different lists of parts have different values.
pub fn derive(secret: &[u8; SECRET_LEN], parts: &[&[u8]]) -> [u8; SECRET_LEN] {
    let mut mac = mac(secret);
    for part in parts {
        mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Generates a secret from the operating system's random numbers.
pub fn random_secret() -> [u8; SECRET_LEN] {
    Key::generate().into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_derived_value_depends_on_the_secret_and_on_where_each_part_ends() {
        let value = derive(&[1; SECRET_LEN], &[b"ab", b"c"]);
        assert_eq!(derive(&[1; SECRET_LEN], &[b"ab", b"c"]), value);
        for other in [
            derive(&[2; SECRET_LEN], &[b"ab", b"c"]),
            derive(&[1; SECRET_LEN], &[b"a", b"bc"]),
            derive(&[1; SECRET_LEN], &[b"abc"]),
        ] {
            assert_ne!(other, value);
        }
    }

    fn open() -> (tempfile::TempDir, PrivateDir) {
        let parent = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(&parent.path().join("a/b/")).unwrap();
        (parent, dir)
    }

    #[test]
    fn a_directory_is_made_for_its_owner_alone() {
        let (_parent, dir) = open();
        assert_eq!(std::fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused_with_its_mode() {
        let parent = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o770, 0o1777] {
            chmod(parent.path(), mode);
            let error = PrivateDir::open(parent.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {mode:04o}")) && error.contains("chmod go-w"), "{error}");
        }
        chmod(parent.path(), 0o755);
        PrivateDir::open(parent.path()).unwrap();
    }

    #[test]
    fn a_directory_that_everybody_may_rename_is_refused_where_that_matters() {
        let parent = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(&parent.path().join("a/b")).unwrap();
        dir.check_parents().unwrap();
        chmod(parent.path(), 0o777);
        let error = dir.check_parents().unwrap_err().to_string();
        assert!(error.contains("mode 0777") && error.contains("chmod +t"), "{error}");
        for mode in [0o1777, 0o775] {
            chmod(parent.path(), mode);
            dir.check_parents().unwrap();
        }
    }

    #[test]
    fn a_link_to_a_directory_is_refused_however_it_is_spelled() {
        let (parent, dir) = open();
        let link = parent.path().join("link");
        symlink(dir.path(), &link).unwrap();
        for spelling in [link.clone(), link.join(""), link.join(".")] {
            let error = PrivateDir::open(&spelling).unwrap_err().to_string();
            assert!(error.contains("to be a directory, found a symbolic link; move it away"), "{error}");
        }
        std::fs::write(dir.path().join("file"), "").unwrap();
        symlink(parent.path().join("nothing"), dir.path().join("dangling")).unwrap();
        for (name, found) in [("file", "a regular file"), ("dangling", "a symbolic link")] {
            let error = dir.subdirectory(name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name} to be a directory, found {found};")), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_none_is_refused_and_not_waited_for() {
        let (parent, dir) = open();
        let made = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, made("fifo"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        symlink("/dev/zero", made("device")).unwrap();
        std::fs::create_dir(made("directory")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(made("socket")).unwrap();
        symlink(parent.path().join("nothing"), made("link")).unwrap();
        for name in ["fifo", "device", "directory", "socket", "link"] {
            assert!(matches!(dir.open_file(name), Err(PrivateError::NoFile(_))), "{name}");
            assert!(matches!(dir.has_file(name), Err(PrivateError::NoFile(_))), "{name}");
            let error = dir.load_or_create_secret(name).unwrap_err().to_string();
            assert!(error.contains("move it away") && !error.contains("chmod"), "{name}: {error}");
        }
    }

    #[test]
    fn a_locked_file_is_not_locked_again_until_all_its_descriptors_are_closed() {
        let (_parent, dir) = open();
        let locked = dir.lock_file("a").unwrap().unwrap();
        let copy = locked.try_clone().unwrap();
        assert!(dir.lock_file("a").unwrap().is_none());
        drop(locked);
        assert!(dir.lock_file("a").unwrap().is_none(), "the copy has the lock");
        drop(copy);
        assert!(dir.lock_file("a").unwrap().is_some());
    }

    #[test]
    fn a_file_that_was_renamed_is_not_locked_under_its_earlier_name() {
        let (_parent, dir) = open();
        let locked = dir.lock_file("a").unwrap().unwrap();
        std::fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert!(!dir.is_named(&locked, "a").unwrap());
        assert!(dir.lock_file("a").unwrap().is_some(), "it is another file");
        assert!(dir.is_named(&locked, "b").unwrap() && !dir.is_named(&locked, "a").unwrap());
    }

    #[test]
    fn abandoned_files_are_removed_and_neither_links_nor_files_that_are_new_or_locked() {
        let (parent, dir) = open();
        let (hour, now) = (Duration::from_secs(3600), SystemTime::now());
        let file = |name: &str, age: Duration| {
            let file = dir.lock_file(name).unwrap().unwrap();
            file.set_modified(now - age).unwrap();
            file
        };
        for name in ["old.pending", "old.other"] {
            drop(file(name, 2 * hour));
        }
        drop(file("new.pending", Duration::ZERO));
        let _locked = file("locked.pending", 2 * hour);
        drop(file("writable.pending", 2 * hour));
        chmod(&dir.path().join("writable.pending"), 0o666);
        let target = parent.path().join("target.pending");
        std::fs::write(&target, "").unwrap();
        File::open(&target).unwrap().set_modified(now - 2 * hour).unwrap();
        symlink(&target, dir.path().join("link.pending")).unwrap();
        std::fs::create_dir(dir.path().join("directory.pending")).unwrap();
        assert_eq!(dir.remove_abandoned_files(".pending", now - hour).unwrap(), 1);
        let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        let kept =
            ["directory.pending", "link.pending", "locked.pending", "new.pending", "old.other", "writable.pending"];
        assert_eq!(left, kept);
        assert!(target.exists());
    }

    #[test]
    fn a_secret_is_made_once_and_for_its_owner_alone() {
        let (_parent, dir) = open();
        let secret = dir.load_or_create_secret("a.key").unwrap();
        assert_eq!(dir.load_or_create_secret("a.key").unwrap(), secret);
        assert_ne!(dir.load_or_create_secret("b.key").unwrap(), secret);
        assert_eq!(dir.open_file("a.key").unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_secret_that_others_may_have_seen_or_changed_is_refused() {
        let (_parent, dir) = open();
        dir.load_or_create_secret("a.key").unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o666] {
            chmod(&dir.path().join("a.key"), mode);
            assert!(matches!(dir.load_or_create_secret("a.key"), Err(PrivateError::Secret(_))), "{mode:o}");
        }
    }

    #[test]
    fn a_damaged_secret_is_an_error_and_is_not_replaced() {
        let (_parent, dir) = open();
        for damaged in [&b""[..], b"short", &[0; 33], &[0; 4096]] {
            std::fs::write(dir.path().join("a.key"), damaged).unwrap();
            chmod(&dir.path().join("a.key"), 0o600);
            assert!(matches!(dir.load_or_create_secret("a.key"), Err(PrivateError::Length { .. })));
            assert_eq!(std::fs::read(dir.path().join("a.key")).unwrap(), damaged);
        }
    }
}
