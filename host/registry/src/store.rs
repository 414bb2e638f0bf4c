//! The store: verified contents, each in a file that is named by its SHA-256, and the locks that refer to them.
//!
//! A file is written under a temporary name, synced, and renamed. So it is complete when it has its final name, even if
//! a process is killed, and concurrent writers of the same content do not conflict. A reader gets the descriptor of the
//! hashed file, not its path (no TOCTOU race). Only this user can access files and directories ([`PrivateDir`]).
//!
//! | below the directory | holds |
//! |---|---|
//! | `blobs/sha256/DIGITS` | components, manifests and signature bundles |
//! | `locks/DIGITS` | the path of a lock that uses the store, so that `store gc` knows the needed contents |
//! | `.lock` | nothing; `flock` on this file prevents a collection while a command adds contents |

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::manifest::{MAX_MANIFEST_SIZE, Manifest};
use mcp_host_base::private_dir::PrivateDir;
use mcp_host_base::private_file::PrivateError;
use mcp_host_config::registry::{Lock, LockError, store_file};
use mcp_host_model::digest::Digest;
use ring::digest::{Context, SHA256};
use tempfile::NamedTempFile;

/// The maximum length of the path of a lock in bytes.
const MAX_PATH_LEN: usize = 8192;
/// The age after which a temporary file is abandoned.
const MAX_TEMPORARY_AGE: Duration = Duration::from_hours(24);

/// The store.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    blobs: PrivateDir,
    locks: PrivateDir,
    /// Locked shared during use, and exclusively by a collection.
    guard: File,
}

/// The reason why the store cannot be used. Failed operations leave no files behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The config has no directory for the store.
    #[error("there is no directory for the store of components: set `store` of `[registry]`, or `HOME`")]
    NoDirectory,
    /// A directory cannot be used.
    #[error("the store {} cannot be used: {source}", dir.display())]
    Directory {
        /// The store.
        dir: PathBuf,
        /// The reason.
        source: PrivateError,
    },
    /// A file cannot be written or read.
    #[error("the store {} cannot be {doing}: {source}", dir.display())]
    Io {
        /// The store.
        dir: PathBuf,
        /// The attempted operation.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content of a file does not have the digest in its name.
    #[error(
        "{} has been changed: its content has the digest {found}; `mcp-host store fetch` replaces it", file.display()
    )]
    Changed {
        /// The file.
        file: PathBuf,
        /// The digest of its content.
        found: Digest,
    },
    /// A content exceeds its bound, or is not the expected one.
    #[error("{0}")]
    Content(String),
    /// A lock that uses the store cannot be read, so nothing is removed.
    #[error("nothing was removed: {0}")]
    Lock(#[from] LockError),
    /// Another command is using the store.
    #[error("another command uses the store {}; run this again when it has ended", .0.display())]
    Busy(PathBuf),
}

/// The result of a collection (`store gc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The number of removed files.
    pub files: usize,
    /// The size of the removed files in bytes.
    pub bytes: u64,
    /// The number of needed files.
    pub kept: usize,
}

impl Store {
    /// Opens the store, or creates it.
    ///
    /// # Errors
    ///
    /// Other users may write to the store, or the disk fails.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Directory { dir: dir.to_owned(), source };
        let io_failed = |source| StoreError::Io { dir: dir.to_owned(), doing: "opened", source };
        let root = PrivateDir::open(dir).and_then(|root| root.check_parents().map(|()| root)).map_err(failed)?;
        let blobs = root.subdirectory("blobs").and_then(|blobs| blobs.subdirectory("sha256")).map_err(failed)?;
        let locks = root.subdirectory("locks").map_err(failed)?;
        let guard = File::options().create(true).append(true).open(dir.join(".lock")).map_err(io_failed)?;
        guard.lock_shared().map_err(io_failed)?;
        Ok(Self { root: dir.to_owned(), blobs, locks, guard })
    }

    /// Returns the file for a content, which may not exist.
    pub fn file(&self, digest: &Digest) -> PathBuf {
        store_file(&self.root, digest)
    }

    /// Starts to write a content of at most `max` bytes.
    pub(crate) fn begin(&self, max: u64) -> Result<Incoming<'_>, StoreError> {
        let file = self.blobs.new_file().map_err(|source| self.failed("written", source))?;
        Ok(Incoming { store: self, file, hash: Context::new(&SHA256), size: 0, max })
    }

    /// Writes a content, and returns its digest.
    ///
    /// # Errors
    ///
    /// The disk fails. No file is left then.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::compute(bytes);
        let mut incoming = self.begin(bytes.len() as u64)?;
        incoming.write(bytes)?;
        incoming.finish(&digest)?;
        Ok(digest)
    }

    /// Opens a content: the descriptor of the verified file, at its beginning. `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its content has another digest.
    pub fn open_verified(&self, digest: &Digest) -> Result<Option<File>, StoreError> {
        let file = self.file(digest);
        let mut opened = match mcp_host_base::regular_file::open(&file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed("read", source)),
        };
        let (found, _) = Digest::compute_reader(&opened).map_err(|source| self.failed("read", source))?;
        if found != *digest {
            return Err(StoreError::Changed { file, found });
        }
        opened.rewind().map_err(|source| self.failed("read", source))?;
        Ok(Some(opened))
    }

    /// Reads a content of at most `max` bytes. `None` if the file does not exist. Fails like
    /// [`open_verified`](Self::open_verified).
    pub fn read(&self, digest: &Digest, max: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.open_verified(digest)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(max as u64).read_to_end(&mut bytes).map_err(|source| self.failed("read", source))?;
        // The content may have changed since the verification, and may be larger.
        let found = Digest::compute(&bytes);
        if found == *digest { Ok(Some(bytes)) } else { Err(StoreError::Changed { file: self.file(digest), found }) }
    }

    /// Registers a lock as a user of the store.
    pub fn register(&self, lock: &Path) -> Result<(), StoreError> {
        let lock = std::path::absolute(lock).map_err(|source| self.failed("written", source))?;
        let bytes = lock.as_os_str().as_encoded_bytes();
        let name = Digest::compute(bytes).digits();
        if self.locks.has_file(&name).is_ok_and(|is_there| is_there) {
            return Ok(());
        }
        let write = || {
            let mut file = self.locks.new_file()?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(self.locks.path().join(name)).map(drop).map_err(|error| error.error)
        };
        write().map_err(|source| self.failed("written", source))
    }

    /// Removes contents that no registered lock needs, and abandoned temporary files.
    ///
    /// # Errors
    ///
    /// Another command is using the store, or a lock cannot be read: then nothing is removed.
    pub fn collect(self) -> Result<Collected, StoreError> {
        let failed = |source| self.failed("cleaned", source);
        // A descriptor cannot hold a shared and an exclusive lock: one replaces the other.
        self.guard.unlock().map_err(failed)?;
        match self.guard.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy(self.root)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let needed = self.needed()?;
        let mut collected = Collected::default();
        for entry in std::fs::read_dir(self.blobs.path()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let digest = name.to_str().and_then(|name| format!("sha256:{name}").parse::<Digest>().ok());
            let metadata = entry.metadata().map_err(failed)?;
            let is_needed = match digest {
                Some(digest) => needed.contains(&digest),
                None => !is_abandoned(&metadata),
            };
            if is_needed || !metadata.is_file() {
                collected.kept = collected.kept.saturating_add(1);
            } else {
                std::fs::remove_file(entry.path()).map_err(failed)?;
                collected.files = collected.files.saturating_add(1);
                collected.bytes = collected.bytes.saturating_add(metadata.len());
            }
        }
        Ok(collected)
    }

    /// Returns the contents that the registered locks need. A deleted lock needs nothing.
    fn needed(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let failed = |source| self.failed("read", source);
        let mut needed = BTreeSet::new();
        for entry in std::fs::read_dir(self.locks.path()).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let bytes = mcp_host_base::regular_file::read(&path, MAX_PATH_LEN).map_err(failed)?;
            let Ok(lock) = String::from_utf8(bytes) else { continue };
            for component in Lock::load(Path::new(&lock))?.components() {
                needed.extend([component.manifest, component.component]);
                needed.extend(component.bundles.iter().copied());
                needed.extend(component.sboms.iter().map(|sbom| sbom.digest));
                // A missing or changed manifest refers to nothing.
                let manifest = self.read(&component.manifest, MAX_MANIFEST_SIZE).ok().flatten();
                let manifest = manifest.and_then(|bytes| Manifest::parse(&bytes).ok());
                needed.extend(manifest.and_then(|manifest| manifest.config.parse_digest().ok()));
            }
        }
        Ok(needed)
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { dir: self.root.clone(), doing, source }
    }
}

/// Returns whether a temporary file belongs to a process that ended long ago.
fn is_abandoned(metadata: &std::fs::Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age > MAX_TEMPORARY_AGE)
}

/// A content during writing. Dropping it removes the file.
pub(crate) struct Incoming<'s> {
    store: &'s Store,
    file: NamedTempFile,
    hash: Context,
    size: u64,
    max: u64,
}

impl Incoming<'_> {
    /// Writes a piece.
    pub(crate) fn write(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        self.size = self.size.saturating_add(piece.len() as u64);
        if self.size > self.max {
            return Err(StoreError::Content(format!(
                "it has more than the {} bytes that it is said to have",
                self.max
            )));
        }
        self.hash.update(piece);
        self.file.write_all(piece).map_err(|source| self.store.failed("written", source))
    }

    /// Moves the content to its place, if it has this digest.
    pub(crate) fn finish(self, expected: &Digest) -> Result<(), StoreError> {
        let hash = self.hash.finish();
        if hash.as_ref() != expected.bytes() {
            let found: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(StoreError::Content(format!(
                "its content has the digest sha256:{found}, and {expected} was requested"
            )));
        }
        let place = || {
            self.file.as_file().sync_all()?;
            self.file.persist(self.store.file(expected)).map_err(|error| error.error)?;
            File::open(self.store.blobs.path())?.sync_all()
        };
        place().map_err(|source| self.store.failed("written", source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dir: &tempfile::TempDir) -> Store {
        Store::open(&dir.path().join("store")).unwrap()
    }

    fn files(store: &Store) -> usize {
        std::fs::read_dir(store.blobs.path()).unwrap().count()
    }

    #[test]
    fn a_content_is_found_by_its_digest_by_the_next_process_too() {
        let dir = tempfile::tempdir().unwrap();
        let digest = store(&dir).put(b"component").unwrap();
        assert_eq!(digest, Digest::compute(b"component"));
        let again = store(&dir);
        assert_eq!(again.read(&digest, 100).unwrap().as_deref(), Some(&b"component"[..]));
        assert_eq!(again.put(b"component").unwrap(), digest, "the same content once more");
        assert_eq!(again.read(&Digest::compute(b"other"), 100).unwrap(), None);
        assert_eq!(files(&again), 1);
    }

    #[test]
    fn a_file_that_was_changed_is_refused_and_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        let digest = store.put(b"component").unwrap();
        std::fs::write(store.file(&digest), "c0mponent").unwrap();
        assert!(matches!(store.open_verified(&digest), Err(StoreError::Changed { .. })));
        store.put(b"component").unwrap();
        let mut text = String::new();
        store.open_verified(&digest).unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "component");
    }

    #[test]
    fn what_is_opened_is_what_was_hashed_whatever_the_path_is_by_then() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        let digest = store.put(b"component").unwrap();
        let mut opened = store.open_verified(&digest).unwrap().unwrap();
        let other = dir.path().join("other");
        std::fs::write(&other, "attack").unwrap();
        std::fs::rename(&other, store.file(&digest)).unwrap();
        let mut text = String::new();
        opened.read_to_string(&mut text).unwrap();
        assert_eq!(text, "component");
    }

    #[test]
    fn what_is_too_large_or_another_content_or_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir);
        let mut incoming = store.begin(4).unwrap();
        incoming.write(b"1234").unwrap();
        assert!(incoming.write(b"5").unwrap_err().to_string().contains("more than the 4 bytes"));
        drop(incoming);
        let mut incoming = store.begin(4).unwrap();
        incoming.write(b"1234").unwrap();
        let error = incoming.finish(&Digest::compute(b"12345")).unwrap_err().to_string();
        assert!(error.contains(&Digest::compute(b"1234").to_string()) && error.contains("was requested"), "{error}");
        drop(store.begin(4).unwrap());
        assert_eq!(files(&store), 0);
    }

    #[test]
    fn a_collection_keeps_what_any_lock_names() {
        let dir = tempfile::tempdir().unwrap();
        let needed = store(&dir);
        let kept = needed.put(b"kept").unwrap();
        needed.put(b"removed").unwrap();
        let lock = dir.path().join("mcp-host.lock");
        let text = format!(
            "version = 1\n[[component]]\nsource = \"oci://a.example/b@{kept}\"\nmanifest = \"{kept}\"\ncomponent = \"{kept}\"\n\
             size = 4\nprovider = \"\"\nprovider-version = \"\"\ncontract = \"\"\nimports = []\nneeds = []\nagreed = []\nsigners = []\n\
             bundles = []\n"
        );
        std::fs::write(&lock, &text).unwrap();
        needed.register(&lock).unwrap();
        needed.register(&lock).unwrap();

        let other = store(&dir);
        assert!(matches!(needed.collect(), Err(StoreError::Busy(_))), "another command is running");
        std::fs::write(&lock, "broken").unwrap();
        assert!(matches!(other.collect(), Err(StoreError::Lock(_))));
        assert_eq!(files(&store(&dir)), 2);

        std::fs::write(&lock, text).unwrap();
        assert_eq!(store(&dir).collect().unwrap(), Collected { files: 1, bytes: 7, kept: 1 });
        std::fs::remove_file(&lock).unwrap();
        assert_eq!(store(&dir).collect().unwrap().files, 1);
    }
}
