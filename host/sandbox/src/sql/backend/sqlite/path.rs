//! The path of a database file, also below a directory that a plugin may write to.
//!
//! SQLite opens a database and its auxiliary files by path, and resolves links itself. Below such a directory (see
//! [`crate::nested`]), it gets a path through the descriptor of the file's directory, `/proc/self/fd/7/shop.db`, which
//! no plugin can redirect. It follows no link in the place of a file (`O_NOFOLLOW`). In a child process it takes this
//! path as it is ([`keep_descriptor_paths`]). In the process of an application it converts the path to one without
//! links first, and a plugin that replaces a directory in the moment between the conversion and the opening still
//! redirects it.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use mcp_host_config::grants::NestedPath;

/// The path of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabasePath {
    /// The path in the config.
    pub(super) file: PathBuf,
    /// The same path in two parts, if a plugin may write to a directory above.
    pub(super) nested: Option<NestedPath>,
}

/// A path that SQLite can open.
pub(super) struct LocatedFile {
    pub(super) path: PathBuf,
    /// The directory in `path`, which must stay open.
    _dir: Option<File>,
}

impl DatabasePath {
    /// Finds the file now.
    pub(super) fn locate(&self) -> io::Result<LocatedFile> {
        #[cfg(target_os = "linux")]
        if let Some(nested) = &self.nested {
            return linux::locate(nested);
        }
        Ok(LocatedFile { path: self.file.clone(), _dir: None })
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, FileType, statat};
    use rustix::io::Errno;

    use super::{LocatedFile, NestedPath, PathBuf, io};
    use crate::nested::linux::{explain, open_part};

    /// Opens the directory of the file. Fails if the file is a symbolic link.
    pub(super) fn locate(nested: &NestedPath) -> io::Result<LocatedFile> {
        let (Some(dir), Some(name)) = (nested.rest.parent(), nested.rest.file_name()) else {
            return Err(explain(nested, Errno::INVAL));
        };
        let dir = open_part(nested, dir)?;
        let found = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
            return Err(explain(nested, Errno::LOOP));
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        Ok(LocatedFile { path, _dir: Some(dir) })
    }
}

/// Lets SQLite in this process open a path through a descriptor as it is: SQLite then calls `stat` to find out whether
/// an entry is a symbolic link, and not `lstat`, so it finds no link to resolve. Returns whether this worked.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the library has no function for this; see the comment below")]
pub(super) fn keep_descriptor_paths() -> bool {
    use rusqlite::ffi;

    // SAFETY: SQLite returns null or its default file system, which lives as long as the process, and has these
    // functions from version 3 on. Both system calls have the same signature, and this process has no connection yet.
    unsafe {
        let system = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(found) = system.as_ref() else { return false };
        let (3.., Some(get), Some(set)) = (found.iVersion, found.xGetSystemCall, found.xSetSystemCall) else {
            return false;
        };
        let stat = get(system, c"stat".as_ptr());
        stat.is_some() && set(system, c"lstat".as_ptr(), stat) == ffi::SQLITE_OK
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn keep_descriptor_paths() -> bool {
    true
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rusqlite::Connection;

    use super::super::connection;
    use super::*;

    /// Creates a database with one value.
    fn create(file: &Path, value: &str) {
        let connection = Connection::open(file).unwrap();
        connection.execute_batch(&format!("CREATE TABLE t (v); INSERT INTO t VALUES ('{value}')")).unwrap();
    }

    #[test]
    fn a_database_is_opened_in_its_directory_and_not_where_a_plugin_links_to() {
        let temp = tempfile::tempdir().unwrap();
        let (out, outside) = (temp.path().join("out"), temp.path().join("outside"));
        for dir in [&out.join("sub"), &outside] {
            fs::create_dir_all(dir).unwrap();
        }
        create(&out.join("sub/one.db"), "inside");
        create(&outside.join("one.db"), "outside");
        let nested = |rest: &str| DatabasePath {
            file: out.join(rest),
            nested: Some(NestedPath { writable: out.clone(), rest: rest.into() }),
        };
        let located = nested("sub/one.db").locate().unwrap();
        fs::rename(out.join("sub"), out.join("moved")).unwrap();
        symlink("../outside", out.join("sub")).unwrap();
        assert!(keep_descriptor_paths());
        let connection = connection::open(&located.path, 1 << 20).unwrap();
        let found = connection.query_row("SELECT v FROM t", [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(found, "inside");
        symlink("../outside/one.db", out.join("two.db")).unwrap();
        for rest in ["sub/one.db", "two.db"] {
            let error = nested(rest).locate().err().unwrap().to_string();
            assert!(error.contains("follows no link there"), "{error}");
        }
        assert!(nested("moved/one.db").locate().is_ok());
    }
}
