//! The key with which cursors are sealed.
//!
//! Unless the config sets one, a host creates a key at its first start and stores it in its state directory, so that
//! cursors remain valid across restarts. Hosts that share listings (replicas) are configured with the same key
//! (`server.cursor-key`).

use std::fmt;
use std::path::{Path, PathBuf};

use mcp_host_base::private_dir::{PrivateDir, PrivateError, SECRET_LEN, random_secret};

/// The name of the key file in the state directory.
const KEY_FILE: &str = "cursor.key";

/// The key cannot be read or created.
#[derive(Debug, thiserror::Error)]
#[error("cannot read or create the cursor key {} (`server.state`): {source}", file.display())]
pub struct KeyError {
    file: PathBuf,
    source: PrivateError,
}

/// The maximum number of earlier keys.
const MAX_EARLIER: usize = 7;

/// A cursor key of 32 bytes, and earlier ones whose cursors are still valid. Never displayed.
#[derive(Clone)]
pub struct CursorKey {
    current: [u8; SECRET_LEN],
    earlier: Vec<[u8; SECRET_LEN]>,
}

impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(…)")
    }
}

impl CursorKey {
    /// Creates a key from its bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self { current: bytes, earlier: Vec::new() }
    }

    /// Adds a key whose cursors are valid, too: while a key is replaced, replicas may have one or the other. At most seven count.
    #[must_use]
    pub fn or_earlier(mut self, bytes: [u8; 32]) -> Self {
        if self.earlier.len() < MAX_EARLIER {
            self.earlier.push(bytes);
        }
        self
    }

    /// Generates a key from the operating system's random numbers.
    pub fn random() -> Self {
        Self::new(random_secret())
    }

    /// Loads the key of a state directory, and creates it if there is none. Blocks.
    pub fn load_or_create(state: &Path) -> Result<Self, KeyError> {
        let secret = PrivateDir::open(state).and_then(|state| state.load_or_create_secret(KEY_FILE));
        secret.map(Self::new).map_err(|source| KeyError { file: state.join(KEY_FILE), source })
    }

    /// Checks that the key of a state directory, if there is one, can be used. Creates none. Blocks.
    pub(crate) fn check(state: &Path) -> Result<(), KeyError> {
        let checked = PrivateDir::open(state).and_then(|state| state.check_secret(KEY_FILE));
        checked.map_err(|source| KeyError { file: state.join(KEY_FILE), source })
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.current
    }

    pub(super) fn earlier(&self) -> &[[u8; SECRET_LEN]] {
        &self.earlier
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
