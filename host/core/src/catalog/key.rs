//! The key that seals cursors.
//!
//! Unless the config sets one, a host creates a key at its first start and stores it in its state directory, so that
//! cursors remain valid across restarts. Hosts that share listings (replicas) are configured with the same key
//! (`server.cursor-key`).

use std::fmt;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use mcp_host_base::private_dir::{PrivateDir, SECRET_LEN, derive, random_secret};
use mcp_host_base::private_file::PrivateError;
use sha2::Sha256;

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

/// A cursor key of 32 bytes, and earlier keys whose cursors are still valid. Never displayed.
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

    /// Adds a key whose cursors are valid, too: during a key rotation, replicas may have either key. At most seven are
    /// kept.
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

    /// Loads the key of a state directory, or creates one. Blocks.
    pub fn load_or_create(state: &Path) -> Result<Self, KeyError> {
        let secret = PrivateDir::open(state).and_then(|state| state.load_or_create_secret(KEY_FILE));
        secret.map(Self::new).map_err(|source| KeyError { file: state.join(KEY_FILE), source })
    }

    /// Checks that the key of a state directory, if present, can be used. Does not create a key. Blocks.
    pub(crate) fn check(state: &Path) -> Result<(), KeyError> {
        let checked = PrivateDir::open(state).and_then(|state| state.check_secret(KEY_FILE));
        checked.map_err(|source| KeyError { file: state.join(KEY_FILE), source })
    }

    /// Returns the digests by which the cluster's replicas detect whether they have the same keys, the current one
    /// first: a MAC of the cluster's name under each key (HMAC-SHA-256, 128 bits). A digest reveals a key only to a
    /// search of all keys, and a key is 32 random bytes.
    pub(crate) fn digests(&self, cluster: &str) -> Vec<String> {
        let digest = |key: &[u8; SECRET_LEN]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
            mac.update(b"mcp-host cursor key of the cluster ");
            mac.update(cluster.as_bytes());
            Some(mac.finalize().into_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
        };
        [&self.current].into_iter().chain(&self.earlier).filter_map(digest).collect()
    }

    /// Returns a secret for another purpose, which replicas with the same current key have in common.
    pub(crate) fn derive(&self, purpose: &str) -> [u8; SECRET_LEN] {
        derive(&self.current, &[purpose.as_bytes()])
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
    fn keys_are_compared_by_digests_that_say_nothing_else() {
        let key = CursorKey::new([1; SECRET_LEN]).or_earlier([2; SECRET_LEN]);
        let digests = key.digests("prod");
        assert_eq!(digests.len(), 2);
        assert_eq!(
            CursorKey::new([2; SECRET_LEN]).or_earlier([1; SECRET_LEN]).digests("prod"),
            [&*digests[1], &*digests[0]]
        );
        assert_eq!(key.digests("prod"), digests);
        assert!(
            digests.iter().all(|digest| digest.len() == 32 && !digest.contains("0101") && !digest.contains("0202"))
        );
        // The digests do not reveal that two clusters have the same key.
        assert!(key.digests("test").iter().all(|digest| !digests.contains(digest)));
    }

    #[test]
    fn a_secret_for_another_purpose_is_that_of_the_current_key() {
        let key = CursorKey::new([1; SECRET_LEN]);
        assert_eq!(key.derive("search"), key.clone().or_earlier([2; SECRET_LEN]).derive("search"));
        assert_ne!(key.derive("search"), CursorKey::new([2; SECRET_LEN]).derive("search"));
        assert!(key.derive("search") != key.derive("other") && key.derive("search") != *key.bytes());
    }

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
