//! The key that cursors are sealed with.
//!
//! Without one in the configuration, a host makes one at its first start and keeps it in its state directory, so that
//! cursors live through a restart. Hosts that are to go on with each other's listings are given the same one
//! (`server.cursor-key`).

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use chacha20poly1305::Key;
use chacha20poly1305::aead::Generate;

/// The name of the file in the state directory.
const FILE: &str = "cursor.key";

/// The key cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the key for cursors in {}: {source}; name another directory in `server.state`", file.display())]
pub struct KeyError {
    file: PathBuf,
    source: io::Error,
}

/// A key for cursors: 32 bytes. Never shown.
#[derive(Clone)]
pub struct CursorKey([u8; 32]);

impl CursorKey {
    /// The key of those bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new key, from the operating system's random numbers.
    pub fn random() -> Self {
        Self(Key::generate().into())
    }

    /// The key that is kept in that state directory; made now, if there is none.
    pub fn kept_in(state: &Path) -> Result<Self, KeyError> {
        let file = state.join(FILE);
        Self::read_or_make(state, &file).map_err(|source| KeyError { file, source })
    }

    fn read_or_make(state: &Path, file: &Path) -> io::Result<Self> {
        match Self::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(state)?;
                let key = Self::random();
                let mut new = tempfile::NamedTempFile::new_in(state)?;
                new.write_all(&key.0)?;
                new.as_file().sync_all()?;
                match new.persist_noclobber(file) {
                    Ok(_) => Ok(key),
                    // Another host was faster: its key is the one.
                    Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Self::read(file),
                    Err(error) => Err(error.error),
                }
            }
            read => read,
        }
    }

    fn read(file: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(file)?;
        let key = bytes
            .try_into()
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not 32 bytes long"))?;
        Ok(Self(key))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = CursorKey::kept_in(&state).unwrap();
        let second = CursorKey::kept_in(&state).unwrap();
        assert_eq!(first.bytes(), second.bytes());
        let mode = std::fs::metadata(state.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_key_is_an_error_and_is_not_replaced() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join(FILE), b"short").unwrap();
        let error = CursorKey::kept_in(state.path()).err().unwrap().to_string();
        assert!(error.contains("cursor.key") && error.contains("`server.state`"), "{error}");
        assert_eq!(std::fs::read(state.path().join(FILE)).unwrap(), b"short");
    }
}
