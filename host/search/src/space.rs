//! The space of the index on disk: the division of `search.max-size` between the database and its write-ahead log.
//!
//! A quarter is reserved for the log, at most 32 MiB. The log is written back and restarted at a quarter of this size,
//! and a batch is small enough for its pages to fit, too. A file of [`BALLAST`] bytes is deleted when the disk is full,
//! so that this state can be recorded. The rest is for the database. The size of a text in the database is estimated
//! before it is written, and its actual size counts from the next batch on.

/// The size of the file that is deleted when the disk is full.
pub(super) const BALLAST: u64 = 128 << 10;
/// The maximum size of the log's index in shared memory, with a log of [`MAX_LOG`].
const SHARED_MEMORY: u64 = 96 << 10;
/// The maximum size that is reserved for the log.
const MAX_LOG: u64 = 32 << 20;
/// The maximum size of the texts in a batch.
const MAX_BATCH: u64 = 2 << 20;
/// The maximum size of a document's pages for each byte of its text, and the constant overhead: the text, its tokens
/// and their positions.
const GROWTH: u64 = 6;
const OVERHEAD: u64 = 2048;

/// The space limit of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    max: u64,
}

impl Space {
    pub(super) const fn new(max: u64) -> Self {
        Self { max }
    }

    /// The maximum size in bytes.
    pub(super) fn max(self) -> u64 {
        self.max
    }

    /// The bytes that are reserved for the log.
    fn log(self) -> u64 {
        (self.max / 4).min(MAX_LOG)
    }

    /// The size of the log, in bytes, at which it is written back.
    pub(super) fn checkpoint_size(self) -> u64 {
        self.log() / 4
    }

    /// The size in bytes to which the log is truncated.
    pub(super) fn log_limit(self) -> u64 {
        self.log() / 2
    }

    /// The maximum size of the texts in a batch, in bytes, unless one document is larger.
    pub(super) fn batch_size(self) -> usize {
        usize::try_from((self.log() / 16).min(MAX_BATCH)).unwrap_or(usize::MAX)
    }

    /// Whether there is any room besides the used bytes.
    pub(super) fn has_room(self, used: u64) -> bool {
        self.fits(used, OVERHEAD)
    }

    /// Whether `growth` bytes, written in one transaction, fit in addition to the used bytes.
    pub(super) fn fits(self, used: u64, growth: u64) -> bool {
        let reserved = growth.max(self.log()).saturating_add(BALLAST).saturating_add(SHARED_MEMORY);
        used.saturating_add(growth).saturating_add(reserved) <= self.max
    }
}

/// The estimated size of a document with a text of this size, in bytes.
pub(super) fn growth(text: u64) -> u64 {
    text.saturating_mul(GROWTH).saturating_add(OVERHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_fits_the_log_beside_what_is_written_back_later() {
        for max in [1 << 20, 4 << 20, 1 << 30, 1 << 40] {
            let space = Space::new(max);
            let batch = u64::try_from(space.batch_size()).unwrap();
            assert!(space.checkpoint_size() + batch * GROWTH <= space.log(), "{max}");
            assert!(space.fits(0, growth(batch)) && !space.fits(max, 1));
        }
    }
}
