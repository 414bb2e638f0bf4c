//! Encryption and authentication of snapshots (XChaCha20-Poly1305).
//!
//! Each snapshot has its own key, derived from the secret of the cluster, the name of the place and a random salt. The
//! nonce of a chunk is its number, so chunks cannot be exchanged, and a chunk of another snapshot or another place is
//! rejected. The seal of the description is the salt, and the authentication tag of all its members: the number of
//! chunks and their digest are those that the replica has published.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use mcp_host_base::private_dir::{SECRET_LEN, derive, random_secret};
use mcp_host_base::shared_snapshots::{Slot, Snapshot};

/// The bytes that encryption adds to a chunk.
pub(super) const OVERHEAD: usize = 16;
/// The nonce of the seal, which is the number of no chunk.
const SEAL: u64 = u64::MAX;
/// The length of a nonce in bytes.
const NONCE_LEN: usize = 24;

/// The secret of the cluster, for one place.
pub(super) struct SnapshotKey {
    secret: [u8; SECRET_LEN],
    name: String,
}

/// The cipher of one snapshot.
pub(super) struct SnapshotCipher {
    cipher: XChaCha20Poly1305,
    salt: [u8; SECRET_LEN],
}

impl SnapshotKey {
    pub(super) fn new(secret: [u8; SECRET_LEN], name: String) -> Self {
        Self { secret, name }
    }

    /// The name of the place.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The cipher of a new snapshot.
    pub(super) fn new_cipher(&self) -> SnapshotCipher {
        self.cipher(random_secret())
    }

    /// The cipher of a published snapshot. None if no replica with this secret has published this description.
    pub(super) fn open(&self, snapshot: &Snapshot) -> Option<SnapshotCipher> {
        let (salt, tag) = snapshot.seal.split_first_chunk::<SECRET_LEN>()?;
        let cipher = self.cipher(*salt);
        let opened = cipher.cipher.decrypt(&nonce(SEAL), Payload { msg: tag, aad: &members(snapshot) });
        opened.is_ok_and(|plain| plain.is_empty()).then_some(cipher)
    }

    fn cipher(&self, salt: [u8; SECRET_LEN]) -> SnapshotCipher {
        let key = derive(&self.secret, &[b"snapshot", self.name.as_bytes(), &salt]);
        SnapshotCipher { cipher: XChaCha20Poly1305::new(&Key::from(key)), salt }
    }
}

impl SnapshotCipher {
    /// Encrypts a chunk. None only if it is far too large.
    pub(super) fn seal_chunk(&self, number: u32, plain: &[u8]) -> Option<Vec<u8>> {
        self.cipher.encrypt(&nonce(u64::from(number)), plain).ok()
    }

    /// Decrypts a chunk. None if it is not the chunk with this number.
    pub(super) fn open_chunk(&self, number: u32, sealed: &[u8]) -> Option<Vec<u8>> {
        self.cipher.decrypt(&nonce(u64::from(number)), sealed).ok()
    }

    /// Returns the seal of a description, whose own seal is not used.
    pub(super) fn seal(&self, snapshot: &Snapshot) -> Option<Vec<u8>> {
        let members = members(snapshot);
        let tag = self.cipher.encrypt(&nonce(SEAL), Payload { msg: &[], aad: &members }).ok()?;
        Some([self.salt.as_slice(), &tag].concat())
    }
}

fn nonce(number: u64) -> XNonce {
    let mut bytes = [0; NONCE_LEN];
    bytes.iter_mut().zip(number.to_be_bytes()).for_each(|(byte, digit)| *byte = digit);
    XNonce::from(bytes)
}

/// The members of a description that its seal authenticates.
fn members(snapshot: &Snapshot) -> Vec<u8> {
    let Snapshot { slot, chunks, bytes, digest, seal: _ } = snapshot;
    let slot = match slot {
        Slot::A => 0,
        Slot::B => 1,
    };
    [[slot].as_slice(), &chunks.to_be_bytes(), &bytes.to_be_bytes(), digest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: u8, name: &str) -> SnapshotKey {
        SnapshotKey::new([secret; SECRET_LEN], name.to_owned())
    }

    fn sealed(cipher: &SnapshotCipher) -> Snapshot {
        let snapshot = Snapshot { slot: Slot::B, chunks: 2, bytes: 9, digest: [3; 32], seal: Vec::new() };
        Snapshot { seal: cipher.seal(&snapshot).unwrap(), ..snapshot }
    }

    #[test]
    fn a_description_is_opened_only_as_it_was_sealed_and_with_its_key() {
        let snapshot = sealed(&key(1, "a").new_cipher());
        assert!(key(1, "a").open(&snapshot).is_some());
        assert!(key(2, "a").open(&snapshot).is_none() && key(1, "b").open(&snapshot).is_none());
        for changed in [
            Snapshot { slot: Slot::A, ..snapshot.clone() },
            Snapshot { chunks: 1, ..snapshot.clone() },
            Snapshot { bytes: 8, ..snapshot.clone() },
            Snapshot { digest: [4; 32], ..snapshot.clone() },
            Snapshot { seal: Vec::new(), ..snapshot.clone() },
            Snapshot { seal: snapshot.seal.iter().rev().copied().collect(), ..snapshot.clone() },
        ] {
            assert!(key(1, "a").open(&changed).is_none(), "{changed:?}");
        }
    }

    #[test]
    fn a_chunk_is_opened_only_in_its_place_in_its_snapshot() {
        let cipher = key(1, "a").new_cipher();
        let chunk = cipher.seal_chunk(1, b"text").unwrap();
        assert_eq!(chunk.len(), b"text".len() + OVERHEAD);
        let opened = key(1, "a").open(&sealed(&cipher)).unwrap();
        assert_eq!(opened.open_chunk(1, &chunk).unwrap(), b"text");
        assert!(opened.open_chunk(0, &chunk).is_none());
        assert!(key(1, "a").new_cipher().open_chunk(1, &chunk).is_none(), "of another snapshot");
        for index in 0..chunk.len() {
            let mut damaged = chunk.clone();
            damaged[index] ^= 1;
            assert!(opened.open_chunk(1, &damaged).is_none());
        }
    }
}
