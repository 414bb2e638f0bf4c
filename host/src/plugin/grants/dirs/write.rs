//! What makes a file larger: each charges the growth first.
//!
//! How much a write adds is read from the file just before. Of two writes to the same end of a file both are charged: too much is
//! charged at times, never too little, and the next measurement tells.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::ledger::Turn;

/// Where in a file something is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    /// From there on.
    Offset(u64),
    /// Behind all that is there.
    End,
}

/// Writes as much as the system takes at once.
pub(super) fn some(file: &File, turn: &Turn, bytes: &[u8], offset: u64) -> io::Result<usize> {
    reach(file, turn, end(bytes, offset)?)?;
    file.write_at(bytes, offset)
}

/// Writes everything.
pub(super) fn all(file: &File, turn: &Turn, bytes: &[u8], at: At) -> io::Result<()> {
    match at {
        At::Offset(offset) => {
            reach(file, turn, end(bytes, offset)?)?;
            file.write_all_at(bytes, offset)
        }
        At::End => {
            turn.charge(bytes.len() as u64)?;
            append(file, bytes)
        }
    }
}

/// Makes the file that long, shorter or longer.
pub(super) fn set_size(file: &File, turn: &Turn, size: u64) -> io::Result<()> {
    reach(file, turn, size)?;
    file.set_len(size)
}

/// Charges what a file lacks to that size.
fn reach(file: &File, turn: &Turn, size: u64) -> io::Result<()> {
    turn.charge(size.saturating_sub(file.metadata()?.len()))
}

fn end(bytes: &[u8], offset: u64) -> io::Result<u64> {
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
