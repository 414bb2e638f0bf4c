//! Metadata that identifies one state of a file.
//!
//! Two states with the same metadata have the same content, unless the file was written in place, with the same size,
//! before the clock of the file system had advanced: a file that was changed so recently is *racily clean*, in git's
//! term. That clock has a granularity of up to 10 ms on the local file systems of Linux (a tick of the kernel; since
//! Linux 6.13 some have finer times where it matters), of a second on some others, and of two seconds on FAT.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The granularity of the coarsest file system clock.
const COARSEST_GRANULARITY: Duration = Duration::from_secs(2);

/// Metadata that identifies one state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
    /// The time of the last change of content or metadata, in seconds and nanoseconds. Programs cannot set it.
    changed: (i64, i64),
}

/// The identity of a file or directory: device and inode.
pub(super) type FileId = (u64, u64);

impl FileState {
    /// Creates the state from the metadata of a file.
    pub fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: metadata.modified().ok(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Reads the state of a file; none if it does not exist.
    pub(super) fn read(file: &Path) -> Option<Self> {
        Some(Self::new(&file.metadata().ok()?))
    }

    pub(super) fn file_id(&self) -> FileId {
        (self.device, self.inode)
    }

    /// Returns whether the file was changed at this time or later, to the precision of the coarsest clock. If not, a
    /// change after this time has another state.
    pub fn is_newer_than(&self, time: SystemTime) -> bool {
        let time = time.checked_sub(COARSEST_GRANULARITY).and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        time.is_none_or(|time| u64::try_from(self.changed.0).is_ok_and(|changed| changed >= time.as_secs()))
    }

    /// Returns whether a change at this time, or shortly after, may leave the same state, judging by the state's own
    /// time: it has whole seconds, as on a file system with a coarse clock, and is recent. If the clock of the file
    /// system differs from ours by more than its granularity, as a server's may, the result is inconclusive.
    pub(super) fn has_coarse_time_near(&self, time: SystemTime) -> bool {
        let (seconds, nanos) = self.changed;
        let since_epoch = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let Some(changed) = UNIX_EPOCH.checked_add(since_epoch) else { return false };
        let distance = time.duration_since(changed).unwrap_or_else(|is_later| is_later.duration());
        nanos == 0 && distance < COARSEST_GRANULARITY
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::fs_watch) fn changed_at(seconds: i64, nanos: i64) -> FileState {
        FileState { device: 1, inode: 1, size: 1, modified: None, changed: (seconds, nanos) }
    }

    pub(in crate::fs_watch) fn at(seconds: f64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_file_that_was_changed_within_the_coarsest_granularity_is_newer() {
        for nanos in [0, 500_000_000] {
            let state = changed_at(1000, nanos);
            assert!(state.is_newer_than(at(1000.0)) && state.is_newer_than(at(1002.0)));
            assert!(!state.is_newer_than(at(1003.0)));
        }
        assert!(changed_at(5000, 0).is_newer_than(at(1000.0)), "its clock is fast");
    }

    #[test]
    fn a_recent_time_in_whole_seconds_may_be_that_of_a_coarse_clock() {
        let coarse = changed_at(1000, 0);
        assert!(coarse.has_coarse_time_near(at(1000.0)) && coarse.has_coarse_time_near(at(1001.9)));
        assert!(coarse.has_coarse_time_near(at(999.0)), "the clocks differ a little");
        assert!(!coarse.has_coarse_time_near(at(1002.0)) && !coarse.has_coarse_time_near(at(900.0)));
        assert!(!changed_at(1000, 4_000_000).has_coarse_time_near(at(1000.1)));
    }
}
