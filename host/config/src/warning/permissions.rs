//! File permissions: secrets that other users may read, and world-writable files.

use std::path::Path;

/// The permissions of a file with a secret that other users may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Readable {
    /// The permission bits.
    pub(super) mode: u32,
    /// The argument of `chmod` that removes the permission, and keeps this process's access.
    pub(super) chmod: &'static str,
}

/// Returns the permissions of a file, if users other than its owner may read it. For a file of this user, group and
/// others are checked; for a file of root, only others, as its group may be what gives this process access. Files of
/// other users are not checked.
#[cfg(unix)]
pub(super) fn readable_by_others(file: &Path) -> Option<Readable> {
    use std::os::unix::fs::MetadataExt;

    const GROUP_AND_OTHERS: u32 = 0o044;
    const OTHERS: u32 = 0o004;
    const ROOT: u32 = 0;
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
    let (denied, chmod) = match metadata.uid() {
        owner if owner == rustix::process::geteuid().as_raw() => (GROUP_AND_OTHERS, "600"),
        ROOT => (OTHERS, "o="),
        _ => return None,
    };
    let mode = metadata.mode() & 0o7777;
    (mode & denied != 0).then_some(Readable { mode, chmod })
}

/// Other systems do not have these permissions.
#[cfg(not(unix))]
pub(super) fn readable_by_others(_: &Path) -> Option<Readable> {
    None
}

/// Returns the permission bits of a world-writable file or directory. A directory with the sticky bit does not count:
/// users cannot replace files of others there.
#[cfg(unix)]
pub(super) fn writable_by_all(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    const OTHERS: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let metadata = path.metadata().ok()?;
    let mode = metadata.mode() & 0o7777;
    let is_sticky = metadata.is_dir() && mode & STICKY != 0;
    (mode & OTHERS != 0 && !is_sticky && (metadata.is_file() || metadata.is_dir())).then_some(mode)
}

/// Other systems do not have these permissions.
#[cfg(not(unix))]
pub(super) fn writable_by_all(_: &Path) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_readable_by_others_by_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key.pem");
        fs::write(&file, "key").unwrap();
        for (mode, is_readable) in [(0o600, false), (0o400, false), (0o620, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let found = readable_by_others(&file);
            assert_eq!(found, is_readable.then_some(Readable { mode, chmod: "600" }), "{mode:o}");
        }
        assert_eq!(readable_by_others(dir.path()), None, "a directory");
        assert_eq!(readable_by_others(&dir.path().join("missing")), None);
    }
}
