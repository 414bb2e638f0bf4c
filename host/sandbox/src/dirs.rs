//! Directory grants: the host's implementation of a guest's `wasi:filesystem`.
//!
//! wasmtime-wasi does the work and confines it to the directory: each path is resolved relative to a directory handle,
//! by the kernel where possible (`openat2`), so no `..`, symbolic link or absolute path escapes (path traversal).
//! This module wraps it and adds the checks that it lacks:
//!
//! | guarantee | mechanism |
//! |---|---|
//! | a plugin that may write above a granted directory cannot redirect its path | [`nested`]: no link is followed there |
//! | only regular files and directories are opened, and opening never blocks | [`open`]: `stat`, non-blocking open, second `stat` |
//! | a directory does not grow beyond its quota | [`quota`]: growth is charged in advance; the directory is measured again when it seems full |
//! | two grants are two file systems | linking or moving between them is rejected, as between two disks |
//! | open files per instance and in total | [`files`]: semaphore permits, shared by a file's streams |
//! | host memory: stream buffers, names of a listing, bytes to be written | reserved from `limits.memory` |
//! | threads blocked by a slow or unreachable disk | [`disk`]: a semaphore per plugin |
//! | no path is longer than operating systems accept | [`files::MAX_PATH`] |
//! | a directory of any size can be listed | [`entries`]: read in batches; names that are not Unicode are skipped |
//!
//! All other functions are wasmtime-wasi's own, called on threads that may block ([`disk`]). The frequent ones are
//! attempted on the guest's own thread first, in a form that cannot block ([`nonblocking`]).
//!
//! Not promised: that a special file that reports itself as a regular one never blocks (below `/proc`, or on an
//! unreachable network file system), that a hard link placed in the directory by a third party does not refer to a file
//! elsewhere, or that a directory that is granted twice observes the smaller quota.

mod descriptor;
mod disk;
mod entries;
mod files;
mod measure;
mod nonblocking;
mod open;
mod quota;
mod stream;
mod write;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_primitives::ambient_authority;
use cap_primitives::fs::open_ambient_dir;
use mcp_host_config::grants::{DirQuota, Grants, Mode, NestedPath};
use mcp_host_config::limits::Limits;
use parking_lot::Mutex;
use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::{FsPerms, OpenMode};

use self::disk::DiskPool;
use self::files::{GrantRoot, Preopen};
use self::quota::{QuotaHandle, QuotaUsage};
use super::guest_log::ThrottledWarnings;
use crate::guest_log::GuestLog;
use crate::nested;

pub use self::files::{Files, FilesView, OpenFileLimit};

/// The directory grants of one plugin.
pub(crate) struct DirGrants {
    granted: Arc<[GrantedDir]>,
    /// The maximum number of files and directories that one instance has open.
    max_open_files: usize,
    process_file_limit: OpenFileLimit,
    log: Arc<GuestLog>,
    warnings: Arc<ThrottledWarnings>,
    disk: DiskPool,
}

/// A granted directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the granted directory {}: {source}", dir.display())]
pub struct GrantError {
    dir: PathBuf,
    source: io::Error,
}

impl DirGrants {
    /// Creates the directory grants of one plugin. `process_file_limit` is shared by all plugins.
    pub(crate) fn new(
        grants: &Grants,
        limits: &Limits,
        process_file_limit: OpenFileLimit,
        log: &Arc<GuestLog>,
    ) -> Self {
        let granted = grants.dirs.iter().map(|(guest, grant)| GrantedDir {
            guest_path: guest.as_str().into(),
            host_path: grant.host.clone(),
            nested: grants.nested.get(&grant.host).cloned(),
            local_device: OnceLock::new(),
            access: match grant.mode {
                Mode::ReadOnly => DirAccess::ReadOnly,
                Mode::ReadWrite { quota } => DirAccess::ReadWrite { quota, usage: Mutex::default() },
            },
        });
        Self {
            granted: granted.collect(),
            max_open_files: limits.files.get(),
            process_file_limit,
            log: log.clone(),
            warnings: Arc::new(ThrottledWarnings::new(log.clone())),
            disk: DiskPool::default(),
        }
    }

    /// Returns the directories' paths on the host.
    pub(crate) fn host_paths(&self) -> impl Iterator<Item = &Path> {
        self.granted.iter().map(|granted| granted.host_path.as_path())
    }

    /// Opens the directories for one instance. If a directory has been replaced on the host, later instances get the
    /// new one.
    pub(crate) async fn open(&self) -> Result<Files, GrantError> {
        let preopens = if self.granted.is_empty() { Vec::new() } else { self.open_all().await? };
        Ok(Files::new(
            preopens,
            self.max_open_files,
            self.process_file_limit.clone(),
            self.warnings.clone(),
            self.disk.clone(),
        ))
    }
}

impl DirGrants {
    /// Opens the directories. Directories that were found on a local file system before are opened on this thread; the
    /// others on a thread that may block, because they may be on an unreachable network file system.
    async fn open_all(&self) -> Result<Vec<Preopen>, GrantError> {
        let at_once = self.granted.iter().map(|granted| granted.try_open(&self.log, &self.disk));
        if let Some(opened) = at_once.collect() {
            return Ok(opened);
        }
        let (granted, log, disk) = (self.granted.clone(), self.log.clone(), self.disk.clone());
        let opened = self.disk.run(move || {
            let open_grant = |granted: &GrantedDir| {
                granted.open(&log, &disk).map_err(|source| GrantError { dir: granted.host_path.clone(), source })
            };
            Ok(granted.iter().map(open_grant).collect())
        });
        opened.await.unwrap_or_else(|source| Err(GrantError { dir: PathBuf::new(), source }))
    }
}

/// Lets wasmtime-wasi block the calling thread: its functions that enter the operating system run on a [`DiskPool`]
/// thread.
const ALLOW_BLOCKING: bool = true;

/// One granted directory.
struct GrantedDir {
    /// The path under which the guest sees the directory.
    guest_path: Arc<str>,
    host_path: PathBuf,
    /// The same path in two parts, if a plugin may write to a directory above.
    nested: Option<NestedPath>,
    /// The device of the directory when it was first opened, if its file system is local.
    local_device: OnceLock<Option<u64>>,
    access: DirAccess,
}

enum DirAccess {
    ReadOnly,
    ReadWrite {
        quota: DirQuota,
        /// The usage of the directory that was most recently at the host path.
        usage: Mutex<Option<(FileId, Arc<QuotaUsage>)>>,
    },
}

/// Device and inode number: unchanged when a directory is renamed, different for a directory that replaces it.
type FileId = (u64, u64);

impl GrantedDir {
    fn open(&self, log: &Arc<GuestLog>, disk: &DiskPool) -> io::Result<Preopen> {
        let dir = match &self.nested {
            Some(nested) => nested::open_dir(nested)?,
            None => open_ambient_dir(&self.host_path, ambient_authority())?,
        };
        let device = dir.metadata()?.dev();
        let local_device = *self.local_device.get_or_init(|| nonblocking::is_local(&dir).then_some(device));
        self.preopen(dir, local_device == Some(device), log, disk)
    }

    /// Attempts to open the directory without blocking.
    fn try_open(&self, log: &Arc<GuestLog>, disk: &DiskPool) -> Option<Preopen> {
        let device = self.local_device.get().copied().flatten()?;
        let dir = nonblocking::open_dir(&self.host_path, self.nested.as_ref(), device)?;
        self.preopen(dir, true, log, disk).ok()
    }

    fn preopen(&self, dir: File, is_local: bool, log: &Arc<GuestLog>, disk: &DiskPool) -> io::Result<Preopen> {
        let (perms, mode) = match self.access {
            DirAccess::ReadOnly => (FsPerms::ReadOnly, OpenMode::READ),
            DirAccess::ReadWrite { .. } => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
        };
        let dir = Dir::new(dir, perms, mode, ALLOW_BLOCKING);
        let quota = match &self.access {
            DirAccess::ReadOnly => None,
            DirAccess::ReadWrite { quota, usage } => {
                let usage = self.quota_usage(usage, *quota, &dir.dir, log, disk)?;
                Some(QuotaHandle::new(usage, dir.dir.clone()))
            }
        };
        let root = Arc::new(GrantRoot { guest_path: self.guest_path.clone(), quota });
        Ok(Preopen { dir, root, is_local })
    }

    fn quota_usage(
        &self,
        last: &Mutex<Option<(FileId, Arc<QuotaUsage>)>>,
        quota: DirQuota,
        dir: &File,
        log: &Arc<GuestLog>,
        disk: &DiskPool,
    ) -> io::Result<Arc<QuotaUsage>> {
        let found = dir.metadata()?;
        let file_id = (found.dev(), found.ino());
        let mut last = last.lock();
        match &*last {
            Some((known, usage)) if *known == file_id => Ok(usage.clone()),
            _ => {
                let warning = ThrottledWarnings::new(log.clone());
                let usage = Arc::new(QuotaUsage::new(self.guest_path.clone(), quota, warning, disk.clone()));
                *last = Some((file_id, usage.clone()));
                Ok(usage)
            }
        }
    }
}

/// Names [`FilesView`] where wasmtime requires a type without lifetimes.
struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = FilesView<'a>;
}

/// Replaces the `wasi:filesystem` functions that wasmtime-wasi has already linked by this module's.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    files: fn(&mut T) -> FilesView<'_>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<T, HasFiles>(linker, files)?;
    preopens::add_to_linker::<T, HasFiles>(linker, files)?;
    linker.allow_shadowing(false);
    Ok(())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use futures::FutureExt;
    use mcp_host_config::grants::DirGrant;

    use super::*;

    fn dir_grants(grants: &Grants) -> DirGrants {
        let log = GuestLog::new("test".into(), 1024);
        DirGrants::new(grants, &Limits::default(), OpenFileLimit::from_rlimit(), &log)
    }

    #[tokio::test]
    async fn a_local_directory_is_opened_again_without_a_thread_that_may_block() {
        let dir = tempfile::tempdir().unwrap();
        let grant = DirGrant { host: dir.path().to_owned(), mode: Mode::ReadOnly };
        let mut granted = Grants::default();
        granted.dirs.insert("/data".parse().unwrap(), grant);
        let grants = dir_grants(&granted);
        let opened = grants.open().await.unwrap();
        let device = dir.path().metadata().unwrap().dev();
        let is_supported = nonblocking::open_dir(dir.path(), None, device).is_some();
        assert_eq!(opened.preopens[0].is_local, nonblocking::is_local(&opened.preopens[0].dir.dir));
        let again = grants.open().now_or_never();
        assert_eq!(again.is_some(), opened.preopens[0].is_local && is_supported);
    }

    #[tokio::test]
    async fn a_directory_that_a_plugin_has_replaced_by_a_link_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        for name in ["out/sub", "outside"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let host = out.join("sub");
        let mut granted = Grants::default();
        granted.dirs.insert("/data".parse().unwrap(), DirGrant { host: host.clone(), mode: Mode::ReadOnly });
        granted.nested.insert(host.clone(), NestedPath { writable: out.clone(), rest: "sub".into() });
        let grants = dir_grants(&granted);
        // The second time without a thread that may block, where possible.
        for _ in 0..2 {
            let opened = grants.open().await.unwrap();
            let found = opened.preopens[0].dir.dir.metadata().unwrap();
            assert_eq!(found.ino(), host.metadata().unwrap().ino());
        }
        fs::rename(&host, out.join("moved")).unwrap();
        symlink("../outside", &host).unwrap();
        let error = grants.open().await.err().unwrap().to_string();
        assert!(error.contains("sub: sub in ") && error.contains("follows no link there"), "{error}");
    }
}
