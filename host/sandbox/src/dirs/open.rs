//! Opening files and directories below a granted directory.
//!
//! Only regular files and directories are opened. A FIFO, a device or a socket is rejected without opening it, because
//! opening can block indefinitely or have side effects. So each path is checked with `stat` first. The path could be
//! replaced between the two steps (TOCTOU), so it is opened with `O_NONBLOCK`, which has no effect on a regular file,
//! and checked again. Opening never blocks, however the race ends.

use std::fs::File;
use std::io;
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_primitives::fs::{Metadata, OpenOptions, open, stat};
use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::measure::ENTRY_COST;
use super::nonblocking;
use super::quota::GrowthGuard;

/// The maximum number of attempts when a path is created or removed concurrently.
const MAX_ATTEMPTS: usize = 4;

/// The validated parameters of an `open-at` call.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRequest {
    follow: FollowSymlinks,
    oflags: OpenFlags,
    read: bool,
    write: bool,
}

/// An opened file or directory.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) is_dir: bool,
    /// Whether operations on the file can be attempted without blocking: see [`nonblocking::is_local`].
    pub(super) is_local: bool,
}

impl OpenRequest {
    /// Validates a guest's request. Fails if its flags are unsupported or contradictory, or if `perms` do not allow it.
    pub(super) fn new(
        path: PathFlags,
        oflags: OpenFlags,
        flags: DescriptorFlags,
        perms: FsPerms,
    ) -> Result<Self, ErrorCode> {
        let durable = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(durable) {
            return Err(ErrorCode::Unsupported);
        }
        let changes = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        if oflags.contains(OpenFlags::DIRECTORY) && oflags.intersects(changes | OpenFlags::EXCLUSIVE) {
            return Err(ErrorCode::Invalid);
        }
        let write = oflags.intersects(changes) || flags.contains(DescriptorFlags::WRITE);
        if write && perms.write_not_permitted() {
            return Err(ErrorCode::NotPermitted);
        }
        let follow = match path.contains(PathFlags::SYMLINK_FOLLOW) {
            true => FollowSymlinks::Yes,
            false => FollowSymlinks::No,
        };
        // The operating system requires an access mode: without write access, the file is opened for reading.
        let read = flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE);
        Ok(Self { follow, oflags, read, write })
    }

    /// Returns whether the request may create a file.
    pub(super) fn creates(self) -> bool {
        self.oflags.contains(OpenFlags::CREATE)
    }

    /// Returns the operations that the new descriptor permits.
    pub(super) fn mode(self) -> OpenMode {
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, self.read);
        mode.set(OpenMode::WRITE, self.write);
        mode
    }

    /// Attempts to open an existing file or directory below a directory on a local file system, without blocking.
    pub(super) fn try_open_existing(self, dir: &File, path: &str) -> Option<io::Result<Opened>> {
        if self.write || self.oflags.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE) {
            return None;
        }
        let follow = self.follow == FollowSymlinks::Yes;
        let found = match nonblocking::open_path(dir, path, follow)? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        self.check_file_type(&Metadata::from_file(&found).ok()?).ok()?;
        let opened = nonblocking::open_for_reading(dir, path, follow)?.ok()?;
        Some(self.check_opened(opened, true))
    }

    /// Opens an existing file or directory.
    pub(super) fn open_existing(self, dir: &File, path: &str) -> io::Result<Opened> {
        self.check_file_type(&stat(dir, Path::new(path), self.follow)?)?;
        self.open(dir, path, false)
    }

    /// Opens an existing file or directory, or creates a file, whose entry is charged to the quota.
    pub(super) fn open_or_create(self, dir: &File, path: &str, guard: &GrowthGuard) -> io::Result<Opened> {
        for _ in 0..MAX_ATTEMPTS {
            match stat(dir, Path::new(path), self.follow) {
                Ok(_) if self.oflags.contains(OpenFlags::EXCLUSIVE) => return Err(Errno::EXIST.into()),
                Ok(found) => {
                    self.check_file_type(&found)?;
                    match self.open(dir, path, false) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        opened => return opened,
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    guard.charge(ENTRY_COST)?;
                    return self.open(dir, path, true).inspect_err(|_| guard.refund(ENTRY_COST));
                }
                Err(error) => return Err(error),
            }
        }
        Err(Errno::BUSY.into())
    }

    fn open(self, dir: &File, path: &str, create: bool) -> io::Result<Opened> {
        let exclusive = create && self.oflags.contains(OpenFlags::EXCLUSIVE);
        let mut options = OpenOptions::new();
        options
            .read(self.read)
            .write(self.write)
            .truncate(self.oflags.contains(OpenFlags::TRUNCATE))
            .create(create && !exclusive)
            .create_new(exclusive)
            .follow(self.follow)
            .nonblock(true);
        let opened = open(dir, Path::new(path), &options)?;
        let is_local = nonblocking::is_local(&opened);
        self.check_opened(opened, is_local)
    }

    /// Checks the type of the opened file, which may have replaced the found one.
    fn check_opened(self, file: File, is_local: bool) -> io::Result<Opened> {
        let found = Metadata::from_file(&file)?;
        self.check_file_type(&found)?;
        Ok(Opened { is_dir: found.is_dir(), is_local, file })
    }

    /// Rejects anything that is neither a regular file nor a directory, and a file where a directory was requested.
    fn check_file_type(self, found: &Metadata) -> io::Result<()> {
        if found.is_symlink() {
            return Err(Errno::LOOP.into());
        }
        if !found.is_dir() && !found.is_file() {
            return Err(Errno::PERM.into());
        }
        if !found.is_dir() && self.oflags.contains(OpenFlags::DIRECTORY) {
            return Err(Errno::NOTDIR.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
