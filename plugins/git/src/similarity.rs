//! The similarity of two files, as git estimates it to detect renames (`diffcore-delta.c`).
//!
//! A file is a multiset of its lines; lines of more than 64 bytes are split into pieces. The similarity is the number
//! of bytes in common pieces, relative to the size of the larger file. Pieces are compared by a hash.

use std::collections::HashMap;

/// The score of equal files.
const MAX_SCORE: u64 = 60_000;

/// The minimum similarity of a rename: 50%, git's default.
pub(crate) const MIN_SCORE: u64 = MAX_SCORE / 2;

/// The number of leading bytes without NUL that make a file count as text.
const BINARY_CHECK_BYTES: usize = 8000;

/// The maximum size of a piece in bytes.
const MAX_PIECE: u32 = 64;

/// The number of hash values.
const HASHES: u32 = 107_927;

/// The pieces of a file.
pub(crate) struct Pieces {
    /// The number of bytes by hash.
    bytes: HashMap<u32, u64>,
    size: u64,
}

impl Pieces {
    /// Splits a file.
    pub(crate) fn new(data: &[u8]) -> Self {
        let is_text = !is_binary(data);
        let mut bytes: HashMap<u32, u64> = HashMap::new();
        let (mut one, mut two, mut length) = (0u32, 0u32, 0u32);
        let mut next = data.iter().copied().peekable();
        while let Some(byte) = next.next() {
            // CRLF and LF are equal in text.
            if is_text && byte == b'\r' && next.peek() == Some(&b'\n') {
                continue;
            }
            let before = one;
            one = one.wrapping_shl(7) ^ two.wrapping_shr(25);
            two = two.wrapping_shl(7) ^ before.wrapping_shr(25);
            one = one.wrapping_add(byte.into());
            length = length.saturating_add(1);
            if length < MAX_PIECE && byte != b'\n' && next.peek().is_some() {
                continue;
            }
            let hash = one.wrapping_add(two.wrapping_mul(0x61)).checked_rem(HASHES).unwrap_or_default();
            let count = bytes.entry(hash).or_default();
            *count = count.saturating_add(length.into());
            (one, two, length) = (0, 0, 0);
        }
        Self { bytes, size: data.len() as u64 }
    }

    /// Returns the similarity to another file, from zero to [`MAX_SCORE`].
    pub(crate) fn similarity(&self, other: &Pieces) -> u64 {
        let common = |(hash, count): (&u32, &u64)| other.bytes.get(hash).map_or(0, |there| *there.min(count));
        let common = self.bytes.iter().map(common).fold(0u64, u64::saturating_add);
        common.saturating_mul(MAX_SCORE).checked_div(self.size.max(other.size)).unwrap_or_default()
    }
}

/// Returns whether a file is not text.
pub(crate) fn is_binary(data: &[u8]) -> bool {
    data.get(..BINARY_CHECK_BYTES).unwrap_or(data).contains(&0)
}

/// Returns whether two files of these sizes can reach [`MIN_SCORE`].
pub(crate) fn may_be_similar(one: u64, other: u64) -> bool {
    let (smaller, larger) = (one.min(other), one.max(other));
    smaller > 0
        && larger.saturating_mul(MAX_SCORE.saturating_sub(MIN_SCORE))
            >= larger.saturating_sub(smaller).saturating_mul(MAX_SCORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_similarity_is_the_share_of_common_lines() {
        let of = |one: &str, other: &str| Pieces::new(one.as_bytes()).similarity(&Pieces::new(other.as_bytes()));
        assert_eq!(of("a\nb\nc\nd\n", "d\nc\nb\na\n"), MAX_SCORE);
        assert_eq!(of("a\nb\nc\nd\n", "a\nb\ne\nf\n"), MIN_SCORE);
        assert_eq!(of("a\n", "b\n"), 0);
        assert_eq!(of("", ""), 0);
        assert_eq!(of("a\r\nb\r\n", "a\nb\n"), 4 * MAX_SCORE / 6);
    }

    #[test]
    fn a_size_of_half_is_the_least() {
        assert!(may_be_similar(50, 100) && may_be_similar(100, 50) && !may_be_similar(49, 100));
        assert!(!may_be_similar(0, 0));
    }
}
