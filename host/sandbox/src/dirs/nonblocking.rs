//! File operations that cannot block: attempts that the kernel completes from its caches, or refuses.
//!
//! An operation on a thread that may block ([`super::disk`]) costs two thread switches, tens of microseconds. The
//! operation itself costs one or two microseconds if its data is cached. So frequent operations are attempted on the
//! guest's own thread first, as io_uring does before it uses a worker thread:
//!
//! - a path is resolved with `RESOLVE_CACHED`, which fails with `EAGAIN` instead of reading a directory from the disk,
//!   and with `RESOLVE_BENEATH` and `RESOLVE_NO_MAGICLINKS`, as wasmtime-wasi resolves it;
//! - a file is read with `RWF_NOWAIT`, which fails with `EAGAIN` instead of waiting for the disk or a lock;
//! - both only on file systems whose other operations (`open`, `fstat`) are answered by the kernel from memory
//!   ([`is_local`]), and without crossing into a file system that is mounted below (`RESOLVE_NO_XDEV`): the server of a
//!   network file system, or the process behind a FUSE mount, may never answer.
//!
//! An attempt returns the operation's result, or `None`: then the caller repeats the operation on a thread that may
//! block. So a kernel without these flags (before Linux 5.12), or a sandbox that forbids them, only costs time. On
//! systems other than Linux, attempts always return `None`.

use std::fs::File;
use std::io;
use std::path::Path;

use mcp_host_config::grants::NestedPath;

/// Whether the kernel answers `open`, `fstat` and the like for this file from memory. This check queries the file
/// system, so it may block.
#[cfg(target_os = "linux")]
pub(super) fn is_local(file: &File) -> bool {
    /// Magic numbers of statfs(2), and of the kernel's `include/uapi/linux/magic.h`. An overlay of remote layers counts
    /// as local: its paths are not resolved from the cache, so the first attempt is refused.
    const LOCAL: [u32; 10] = [
        0x0000_EF53, // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683E, // Btrfs
        0xF2F5_2010, // F2FS
        0x2FC1_2FC1, // ZFS
        0x0102_1994, // tmpfs
        0x8584_58F6, // ramfs
        0x794C_7630, // overlayfs
        0x7371_7368, // SquashFS
        0xE0F5_E1E2, // EROFS
    ];
    // The type of `f_type` depends on the architecture; a magic number has 32 bits.
    rustix::fs::fstatfs(file).is_ok_and(|found| LOCAL.contains(&(found.f_type as u32)))
}

/// Opens the directory at `path`, or at its two parts, as wasmtime-wasi opens a granted one (`O_PATH`), if it is on
/// `device`.
#[cfg(target_os = "linux")]
pub(super) fn open_dir(path: &Path, nested: Option<&NestedPath>, device: u64) -> Option<File> {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat2, statx};

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path: &Path| openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok();
    let dir = File::from(match nested {
        None => open(path)?,
        Some(NestedPath { writable, rest }) => {
            let resolve = crate::nested::linux::RESOLVE | ResolveFlags::CACHED;
            openat2(open(writable)?, rest, flags, Mode::empty(), resolve).ok()?
        }
    });
    // Another file system may be mounted there now, and a plain `fstat` could block on its server.
    let cached = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(&dir, "", cached, StatxFlags::empty()).ok()?;
    (makedev(found.stx_dev_major, found.stx_dev_minor) == device).then_some(dir)
}

/// Opens the file at `path` below a directory on a local file system, for `fstat` only (`O_PATH`). This has no side
/// effects on a FIFO or a device.
#[cfg(target_os = "linux")]
pub(super) fn open_path(dir: &File, path: &str, follow: bool) -> Option<io::Result<File>> {
    linux::open_below(dir, path, follow, rustix::fs::OFlags::PATH)
}

/// Opens an existing file or directory below a directory on a local file system, for reading.
#[cfg(target_os = "linux")]
pub(super) fn open_for_reading(dir: &File, path: &str, follow: bool) -> Option<io::Result<File>> {
    linux::open_below(dir, path, follow, rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK)
}

/// Reads at most `size` bytes from a regular file on a local file system. The result is empty at the end of the file,
/// and shorter if only a part is cached.
#[cfg(target_os = "linux")]
pub(super) fn read_at(file: &File, size: usize, position: u64) -> Option<Vec<u8>> {
    use rustix::io::{ReadWriteFlags, preadv2};

    let mut bytes = vec![0; size];
    let read = preadv2(file, &mut [io::IoSliceMut::new(&mut bytes)], position, ReadWriteFlags::NOWAIT).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    use super::{File, io};

    pub(super) fn open_below(dir: &File, path: &str, follow: bool, flags: OFlags) -> Option<io::Result<File>> {
        // wasmtime-wasi applies the rules for a trailing slash and for an empty path.
        if path.is_empty() || path.ends_with('/') {
            return None;
        }
        let mut flags = flags | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, !follow);
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV | ResolveFlags::CACHED;
        match openat2(dir, path, flags, Mode::empty(), resolve) {
            Ok(opened) => Some(Ok(opened.into())),
            // The kernel has cached that there is no such file. For other errors, the operation is repeated on a thread
            // that may block.
            Err(Errno::NOENT) => Some(Err(Errno::NOENT.into())),
            Err(_) => None,
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use self::other_systems::*;

#[cfg(not(target_os = "linux"))]
mod other_systems {
    use super::{File, NestedPath, Path, io};

    pub(in super::super) fn is_local(_: &File) -> bool {
        false
    }

    pub(in super::super) fn open_dir(_: &Path, _: Option<&NestedPath>, _: u64) -> Option<File> {
        None
    }

    pub(in super::super) fn open_path(_: &File, _: &str, _: bool) -> Option<io::Result<File>> {
        None
    }

    pub(in super::super) fn open_for_reading(_: &File, _: &str, _: bool) -> Option<io::Result<File>> {
        None
    }

    pub(in super::super) fn read_at(_: &File, _: usize, _: u64) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// An open directory on a local disk. `None` if the kernel or a sandbox refuses such attempts.
    fn directory() -> Option<(tempfile::TempDir, File)> {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "content").unwrap();
        let open = File::open(dir.path()).unwrap();
        let is_supported = openat2(CWD, dir.path(), OFlags::PATH, Mode::empty(), ResolveFlags::CACHED).is_ok();
        is_supported.then_some((dir, open))
    }

    #[test]
    fn what_is_cached_is_opened_and_read_and_what_is_missing_is_known_to_be() {
        let Some((dir, open)) = directory() else { return };
        fs::create_dir(dir.path().join("sub")).unwrap();
        symlink("file", dir.path().join("link")).unwrap();

        let file = open_for_reading(&open, "file", true).unwrap().unwrap();
        if let Some(bytes) = read_at(&file, 100, 3) {
            assert_eq!(bytes, b"tent");
            assert_eq!(read_at(&file, 100, 7).unwrap(), b"");
        }
        assert!(open_path(&open, "sub", true).unwrap().unwrap().metadata().unwrap().is_dir());
        assert!(open_path(&open, "link", true).unwrap().unwrap().metadata().unwrap().is_file());
        assert!(open_path(&open, "link", false).unwrap().unwrap().metadata().unwrap().is_symlink());
        // The failed look-up makes the kernel cache that the file is missing.
        File::open(dir.path().join("missing")).unwrap_err();
        if let Some(missing) = open_path(&open, "missing", true) {
            assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn what_leaves_the_directory_or_its_file_system_is_not_opened_here() {
        let Some((dir, open)) = directory() else { return };
        symlink("/etc", dir.path().join("absolute")).unwrap();
        symlink("../..", dir.path().join("upwards")).unwrap();
        for path in ["..", "../x", "/etc", "absolute/passwd", "upwards", "file/", "", "sub/../../.."] {
            assert!(open_path(&open, path, true).is_none_or(|opened| opened.is_err()), "{path:?}");
            assert!(open_for_reading(&open, path, true).is_none_or(|opened| opened.is_err()), "{path:?}");
        }
        let root = File::open("/").unwrap();
        assert!(open_path(&root, "proc/version", true).is_none(), "it is on another file system");
        assert!(!is_local(&File::open("/proc/version").unwrap()));
    }

    #[test]
    fn a_directory_is_opened_again_while_it_is_on_the_same_device() {
        let Some((dir, open)) = directory() else { return };
        let device = open.metadata().unwrap().dev();
        if let Some(again) = open_dir(dir.path(), None, device) {
            assert_eq!(again.metadata().unwrap().ino(), open.metadata().unwrap().ino());
        }
        assert!(open_dir(dir.path(), None, device.wrapping_add(1)).is_none());
        assert!(open_dir(&dir.path().join("file"), None, device).is_none());
    }

    #[test]
    fn a_growing_file_is_read_to_its_present_end() {
        let Some((dir, open)) = directory() else { return };
        let file = open_for_reading(&open, "file", true).unwrap().unwrap();
        fs::OpenOptions::new().append(true).open(dir.path().join("file")).unwrap().write_all(b" and more").unwrap();
        if let Some(bytes) = read_at(&file, 100, 0) {
            assert_eq!(bytes, b"content and more");
        }
    }
}
