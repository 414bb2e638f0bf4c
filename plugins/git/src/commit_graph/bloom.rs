//! Changed-path Bloom filters: for each commit, the set of files and directories that it changed.
//!
//! A filter contains every changed path with all its leading directories, and may have false positives. The hash is
//! murmur3 with two seeds, combined by double hashing (`gitformat-commit-graph`, "Bloom Filter Data").

use bstr::{BStr, BString};
use std::collections::BTreeSet;

/// The size of the header before the filters, in bytes: version, number of hashes, bits per entry.
pub(super) const HEADER: u64 = 12;

/// The maximum size of a filter that is read, in bytes. By default, git writes no filters for commits of more than 512
/// changes.
pub(super) const MAX_SIZE: u32 = 1024 * 1024;

/// The seeds of the two hashes.
const SEEDS: [u32; 2] = [0x293a_e76f, 0x7e64_6e2c];

/// The maximum number of hashes per path. Git uses 7.
const MAX_HASHES: u32 = 64;

/// The number of bits per entry of a filter that this crate creates, as in git.
const BITS_PER_ENTRY: usize = 10;

/// The parameters of filters.
pub(crate) struct Settings {
    version: u32,
    hashes: u32,
}

impl Settings {
    /// The parameters of filters that this crate creates, as in git.
    pub(crate) const OWN: Self = Self { version: 2, hashes: 7 };

    /// Creates the parameters; `None` if they are not supported.
    pub(super) fn new(version: u32, hashes: u32) -> Option<Self> {
        (matches!(version, 1 | 2) && (1..=MAX_HASHES).contains(&hashes)).then_some(Self { version, hashes })
    }

    /// Returns the hashes of a key.
    fn hashes_of(&self, [one, two]: [u32; 2]) -> impl Iterator<Item = u32> + use<> {
        (0..self.hashes).map(move |n| one.wrapping_add(n.wrapping_mul(two)))
    }
}

/// The hashes of a path and of its leading directories.
pub(crate) struct PathKeys {
    keys: Vec<[u32; 2]>,
    is_ascii: bool,
}

impl PathKeys {
    /// Hashes a path, which must not be empty.
    pub(crate) fn new(path: &BStr) -> Self {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let prefixes = ends.chain([path.len()]).map(|end| path.get(..end).unwrap_or_default());
        let keys = prefixes.map(|prefix| SEEDS.map(|seed| murmur3(seed, prefix))).collect();
        Self { keys, is_ascii: path.is_ascii() }
    }

    /// Returns whether a filter may contain the path. An empty filter may contain every path.
    pub(crate) fn may_be_in(&self, filter: &[u8], settings: &Settings) -> bool {
        // Version 1 hashes bytes above 127 in a way that depends on the machine that wrote it.
        if filter.is_empty() || (settings.version == 1 && !self.is_ascii) {
            return true;
        }
        let bits = (filter.len() as u64).saturating_mul(8);
        let is_set = |hash: u32| {
            let (byte, mask) = place(hash, bits);
            filter.get(byte).is_some_and(|byte| byte & mask != 0)
        };
        self.keys.iter().all(|key| settings.hashes_of(*key).all(is_set))
    }
}

/// Creates a filter of paths and their leading directories.
pub(crate) fn filter(paths: &[BString]) -> Vec<u8> {
    let keys: BTreeSet<[u32; 2]> = paths.iter().flat_map(|path| PathKeys::new(path.as_ref()).keys).collect();
    let mut filter = vec![0_u8; keys.len().saturating_mul(BITS_PER_ENTRY).div_ceil(8).max(1)];
    let bits = (filter.len() as u64).saturating_mul(8);
    for hash in keys.into_iter().flat_map(|key| Settings::OWN.hashes_of(key)) {
        let (byte, mask) = place(hash, bits);
        if let Some(byte) = filter.get_mut(byte) {
            *byte |= mask;
        }
    }
    filter
}

/// Returns the position of a hash in a filter of `bits` bits: the byte, and the mask of the bit in it.
fn place(hash: u32, bits: u64) -> (usize, u8) {
    let bit = u64::from(hash).checked_rem(bits).unwrap_or_default();
    (usize::try_from(bit.wrapping_shr(3)).unwrap_or(usize::MAX), 1_u8.wrapping_shl((bit & 7) as u32))
}

/// The 32-bit murmur3 hash.
fn murmur3(seed: u32, data: &[u8]) -> u32 {
    let scramble = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, rest) = data.as_chunks::<4>();
    let mut hash = words.iter().fold(seed, |hash, word| {
        (hash ^ scramble(u32::from_le_bytes(*word))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let mut tail = [0; 4];
    tail.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    if !rest.is_empty() {
        hash ^= scramble(u32::from_le_bytes(tail));
    }
    hash ^= data.len() as u32;
    hash = (hash ^ hash.wrapping_shr(16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash.wrapping_shr(13)).wrapping_mul(0xc2b2_ae35);
    hash ^ hash.wrapping_shr(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_of_gits_own_tests() {
        // From git's t0095-bloom.sh.
        assert_eq!(murmur3(0, b""), 0);
        assert_eq!(murmur3(0, b"Hello world!"), 0x627b_0c2c);
        assert_eq!(murmur3(0, b"The quick brown fox jumps over the lazy dog"), 0x2e4f_f723);
    }

    #[test]
    fn a_path_is_hashed_with_its_directories() {
        assert_eq!(PathKeys::new("a/b/c".into()).keys.len(), 3);
        let keys = PathKeys::new("a".into());
        let settings = Settings::new(1, 7).unwrap();
        assert!(!keys.may_be_in(&[0], &settings));
        assert!(keys.may_be_in(&[0xff], &settings) && keys.may_be_in(&[], &settings));
        assert!(PathKeys::new("é".into()).may_be_in(&[0], &settings));
    }
}
