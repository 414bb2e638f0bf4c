//! Opening a granted directory or database below a directory that a plugin may write to.
//!
//! The plugin can replace a part of the path by a symbolic link to any place of the machine. So the path is opened from
//! a handle of the writable directory, and the kernel follows no link beneath it (`openat2`, Linux 5.6). On other
//! systems the path is opened as it is, and the config's warnings name it.

use std::fs::File;
use std::io;

use mcp_host_config::grants::NestedPath;

/// Opens the directory at a nested path, for the resolution of other paths (`O_PATH`).
#[cfg(target_os = "linux")]
pub(crate) fn open_dir(path: &NestedPath) -> io::Result<File> {
    linux::open_part(path, &path.rest)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_dir(path: &NestedPath) -> io::Result<File> {
    use cap_primitives::{ambient_authority, fs::open_ambient_dir};

    open_ambient_dir(&path.writable.join(&path.rest), ambient_authority())
}

#[cfg(target_os = "linux")]
pub(crate) mod linux {
    use std::path::Path;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    use rustix::io::Errno;

    use super::{File, NestedPath, io};

    /// The resolution of the rest of a nested path.
    pub(crate) const RESOLVE: ResolveFlags =
        ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

    const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

    /// Opens the directory at `rest`, the rest of this path or a directory above it.
    pub(crate) fn open_part(path: &NestedPath, rest: &Path) -> io::Result<File> {
        let writable = openat(CWD, path.writable.as_path(), DIRECTORY, Mode::empty())?;
        let opened = match rest.as_os_str().is_empty() {
            true => Ok(writable),
            false => openat2(&writable, rest, DIRECTORY, Mode::empty(), RESOLVE),
        };
        opened.map(File::from).map_err(|error| explain(path, error))
    }

    /// Returns the error for a nested path, with the reason and the remedy.
    pub(crate) fn explain(path: &NestedPath, error: Errno) -> io::Error {
        let NestedPath { writable, rest } = path;
        let (writable, rest) = (writable.display(), rest.display());
        let advice = format!(
            "move it out of {writable}, or remove `mode = \"rw\"` from the grants of {writable} (`grants.dirs`)"
        );
        let message = match error {
            Errno::LOOP | Errno::NOTDIR | Errno::XDEV => format!(
                "{rest} in {writable} leads through a symbolic link, a file or `..`. A plugin may write to {writable}, so the host \
                 follows no link there: write the path without links, or {advice}"
            ),
            Errno::NOSYS | Errno::PERM => format!(
                "a plugin may write to {writable}, and the system call `openat2`, which opens {rest} in it safely, failed ({error}; it \
                 needs Linux 5.6): {advice}"
            ),
            error => return error.into(),
        };
        io::Error::new(io::Error::from(error).kind(), message)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    use super::*;

    fn nested(writable: &Path, rest: &str) -> NestedPath {
        NestedPath { writable: writable.to_owned(), rest: rest.into() }
    }

    #[test]
    fn a_directory_is_opened_below_the_writable_one_which_may_be_named_by_a_link() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("out/sub/deep")).unwrap();
        symlink("out", temp.path().join("link")).unwrap();
        for name in ["out", "link"] {
            let opened = open_dir(&nested(&temp.path().join(name), "sub/deep")).unwrap();
            let expected = temp.path().join("out/sub/deep").metadata().unwrap();
            assert_eq!(opened.metadata().unwrap().ino(), expected.ino(), "{name}");
        }
        let missing = open_dir(&nested(&temp.path().join("out"), "absent")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_a_plugin_has_linked_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let out = temp.path().join("out");
        for name in ["out/sub", "outside/sub"] {
            fs::create_dir_all(temp.path().join(name)).unwrap();
        }
        fs::rename(out.join("sub"), out.join("moved")).unwrap();
        symlink("../outside", out.join("sub")).unwrap();
        symlink("moved", out.join("inner")).unwrap();
        for rest in ["sub", "sub/sub", "inner", "../outside", "moved/../../outside"] {
            let error = open_dir(&nested(&out, rest)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{rest} in {}", out.display())), "{error}");
        }
    }
}
