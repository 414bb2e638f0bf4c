//! Operations that make a file larger. Each charges the growth first.
//!
//! The growth is computed from the size of the file just before the operation. Two concurrent writes to the same end of
//! a file are both charged: a charge can be too high, never too low, and the next measurement corrects it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::quota::GrowthGuard;

/// The position of a write in a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriteAt {
    /// At this offset.
    Offset(u64),
    /// At the end of the file.
    Append,
}

/// Writes as much as the operating system accepts in one call.
pub(super) fn write_partial(file: &File, guard: &GrowthGuard, bytes: &[u8], offset: u64) -> io::Result<usize> {
    charge_extension(file, guard, end_offset(bytes, offset)?)?;
    file.write_at(bytes, offset)
}

/// Writes all bytes.
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

/// Truncates or extends the file to `size` bytes.
pub(super) fn set_size(file: &File, guard: &GrowthGuard, size: u64) -> io::Result<()> {
    charge_extension(file, guard, size)?;
    file.set_len(size)
}

/// Charges the growth of a file that is extended to `size` bytes.
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

/// Appends by reading the size first, because the platform has no atomic call: concurrent appends may overwrite each
/// other.
#[cfg(not(target_os = "linux"))]
fn append(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, file.metadata()?.len())
}
