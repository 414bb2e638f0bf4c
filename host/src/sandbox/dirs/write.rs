//! What makes a file larger: each charges the growth first.
//!
//! How much a write adds is read from the file just before. Of two writes to the same end of a file both are charged: too much is
//! charged at times, never too little, and the next measurement tells.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::quota::GrowthGuard;

/// Where in a file something is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriteAt {
    /// From there on.
    Offset(u64),
    /// Behind all that is there.
    Append,
}

/// Writes as much as the system takes at once.
pub(super) fn write_partial(file: &File, guard: &GrowthGuard, bytes: &[u8], offset: u64) -> io::Result<usize> {
    charge_extension(file, guard, end_offset(bytes, offset)?)?;
    file.write_at(bytes, offset)
}

/// Writes everything.
pub(super) fn write_all(file: &File, guard: &GrowthGuard, bytes: &[u8], at: WriteAt) -> io::Result<()> {
    match at {
        WriteAt::Offset(offset) => {
            charge_extension(file, guard, end_offset(bytes, offset)?)?;
            file.write_all_at(bytes, offset)
        }
        WriteAt::Append => {
            guard.charge(bytes.len() as u64)?;
            append(file, bytes)
        }
    }
}

/// Makes the file that long, shorter or longer.
pub(super) fn set_size(file: &File, guard: &GrowthGuard, size: u64) -> io::Result<()> {
    charge_extension(file, guard, size)?;
    file.set_len(size)
}

/// Charges what a file lacks to that size.
fn charge_extension(file: &File, guard: &GrowthGuard, size: u64) -> io::Result<()> {
    guard.charge(size.saturating_sub(file.metadata()?.len()))
}

fn end_offset(bytes: &[u8], offset: u64) -> io::Result<u64> {
    offset.checked_add(bytes.len() as u64).ok_or_else(|| Errno::FBIG.into())
}

#[cfg(target_os = "linux")]
fn append(file: &File, mut bytes: &[u8]) -> io::Result<()> {
    use std::io::IoSlice;

    use rustix::io::{ReadWriteFlags, pwritev2};

    while !bytes.is_empty() {
        let written = pwritev2(file, &[IoSlice::new(bytes)], 0, ReadWriteFlags::APPEND)?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Without a call for it, two that append at once may write over each other.
#[cfg(not(target_os = "linux"))]
fn append(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, file.metadata()?.len())
}
