//! The key that cursors are sealed with.
//!
//! Without one in the configuration, a host makes one at its first start and keeps it in its state directory, so that
//! cursors live through a restart. Hosts that are to go on with each other's listings are given the same one
//! (`server.cursor-key`).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::private_dir::{PrivateDir, PrivateError, SECRET_LEN, random_secret};

/// The name of the file in the state directory.
const KEY_FILE: &str = "cursor.key";

/// The key cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the key for cursors in {} (`server.state`): {source}", file.display())]
pub struct KeyError {
    file: PathBuf,
    source: PrivateError,
}

/// A key for cursors: 32 bytes. Never shown.
#[derive(Clone)]
pub struct CursorKey([u8; SECRET_LEN]);

impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(…)")
    }
}

impl CursorKey {
    /// The key of those bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new key, from the operating system's random numbers.
    pub fn random() -> Self {
        Self(random_secret())
    }

    /// The key that is kept in that state directory; made now, if there is none. It blocks.
    pub fn load_or_create(state: &Path) -> Result<Self, KeyError> {
        let secret = PrivateDir::open(state).and_then(|state| state.load_or_create_secret(KEY_FILE));
        secret.map(Self).map_err(|source| KeyError { file: state.join(KEY_FILE), source })
    }

    /// Whether the key that is kept in that state directory can be used, if there is one. Makes none. It blocks.
    pub(crate) fn check(state: &Path) -> Result<(), KeyError> {
        let checked = PrivateDir::open(state).and_then(|state| state.check_secret(KEY_FILE));
        checked.map_err(|source| KeyError { file: state.join(KEY_FILE), source })
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_and_a_bad_one_is_named_with_its_file() {
        let state = tempfile::tempdir().unwrap();
        let first = CursorKey::load_or_create(state.path()).unwrap();
        assert_eq!(CursorKey::load_or_create(state.path()).unwrap().bytes(), first.bytes());
        std::fs::write(state.path().join(KEY_FILE), b"short").unwrap();
        let error = CursorKey::load_or_create(state.path()).err().unwrap().to_string();
        assert!(error.contains("cursor.key") && error.contains("`server.state`"), "{error}");
    }
}
