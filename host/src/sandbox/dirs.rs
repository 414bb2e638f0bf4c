//! Granted directories: what a guest's `wasi:filesystem` leads to.
//!
//! wasmtime-wasi does the work, and keeps to the directory: each path is resolved below the handle of a directory, by the
//! kernel where it can (`openat2`), so no `..`, link or absolute path leads out. This module stands in front of it and sees to
//! what it leaves open:
//!
//! | | by |
//! |---|---|
//! | nothing but files and directories is opened, and no opening waits | [`open`]: looked at first, opened without blocking, looked at again |
//! | a directory becomes no larger than its quota | [`quota`]: charged before anything grows, measured when it seems full |
//! | two grants are two file systems | nothing is linked or moved from one into the other, as between two disks |
//! | files open at once, of one instance and of all | [`files`]: permits, which the streams of a file share with it |
//! | what the host keeps in memory: buffers of streams, names of a listing, bytes to be written | reserved from `limits.memory` |
//! | threads that a disk blocks which is slow, or gone | [`disk`]: permits, of each plugin its own |
//! | no path is longer than a system takes | [`files::MAX_PATH`] |
//! | a directory of any size can be listed | [`entries`]: read piece by piece; names that are not Unicode are skipped |
//!
//! What is not in the table is wasmtime-wasi's own, called where it may block ([`disk`]).
//!
//! Not promised: that a file never blocks that only looks like one (below `/proc`, or on a network that is gone), that a hard
//! link which somebody else put into the directory is not to a file elsewhere, or that directories which are granted twice keep
//! to the smaller quota.

mod descriptor;
mod disk;
mod entries;
mod files;
mod measure;
mod open;
mod quota;
mod stream;
mod write;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cap_primitives::ambient_authority;
use cap_primitives::fs::open_ambient_dir;
use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::{FsPerms, OpenMode};

use self::disk::DiskPool;
use self::files::{FileWarnings, GrantRoot, Preopen};
use self::quota::{QuotaHandle, QuotaUsage};
use super::throttled_warning::ThrottledWarning;
use crate::config::{DirGrant, DirQuota, GuestPath, Limits, Mode};
use crate::sandbox::guest_log::GuestLog;

pub(crate) use self::files::{Files, FilesView, OpenFileLimit};

/// The directories of one plugin.
pub(crate) struct DirGrants {
    granted: Arc<[GrantedDir]>,
    /// Files and directories that an instance may have open at once.
    max_open_files: usize,
    process_file_limit: OpenFileLimit,
    log: Arc<GuestLog>,
    warnings: Arc<FileWarnings>,
    disk: DiskPool,
}

/// A granted directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the granted directory {}: {source}", dir.display())]
pub(crate) struct GrantError {
    dir: PathBuf,
    source: io::Error,
}

impl DirGrants {
    /// The directories that are granted to a plugin, which shares `open_in_all` with all others.
    pub(crate) fn new(
        granted: &BTreeMap<GuestPath, DirGrant>,
        limits: &Limits,
        process_file_limit: OpenFileLimit,
        log: &Arc<GuestLog>,
    ) -> Self {
        let granted = granted.iter().map(|(guest, grant)| GrantedDir {
            guest_path: guest.as_str().into(),
            host_path: grant.host.clone(),
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
            warnings: Arc::new(FileWarnings::new(log)),
            disk: DiskPool::default(),
        }
    }

    /// Where they are on the machine.
    pub(crate) fn host_paths(&self) -> impl Iterator<Item = &Path> {
        self.granted.iter().map(|granted| granted.host_path.as_path())
    }

    /// Opens them for one instance. A directory that was replaced is the new one from then on.
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
    /// Opens them on a thread that may block: a directory may be on a network that is gone.
    async fn open_all(&self) -> Result<Vec<Preopen>, GrantError> {
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

/// All functions of wasmtime-wasi's that ask the system for something are called on a thread that may block.
const ALLOW_BLOCKING: bool = true;

/// One granted directory.
struct GrantedDir {
    /// Where the guest sees it.
    guest_path: Arc<str>,
    host_path: PathBuf,
    access: DirAccess,
}

enum DirAccess {
    ReadOnly,
    ReadWrite {
        quota: DirQuota,
        /// The ledger of the directory that was at the place last.
        usage: Mutex<Option<(FileId, Arc<QuotaUsage>)>>,
    },
}

/// Device and number: what stays the same of a directory that is renamed, and differs from one that replaces it.
type FileId = (u64, u64);

impl GrantedDir {
    fn open(&self, log: &Arc<GuestLog>, disk: &DiskPool) -> io::Result<Preopen> {
        let dir = open_ambient_dir(&self.host_path, ambient_authority())?;
        let (perms, mode) = match self.access {
            DirAccess::ReadOnly => (FsPerms::ReadOnly, OpenMode::READ),
            DirAccess::ReadWrite { .. } => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
        };
        let dir = Dir::new(dir, perms, mode, ALLOW_BLOCKING);
        let quota_handle = match &self.access {
            DirAccess::ReadOnly => None,
            DirAccess::ReadWrite { quota, usage } => {
                let usage = self.quota_usage(usage, *quota, &dir.dir, log, disk)?;
                Some(QuotaHandle::new(usage, dir.dir.clone()))
            }
        };
        Ok(Preopen { dir, root: Arc::new(GrantRoot { guest_path: self.guest_path.clone(), quota: quota_handle }) })
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
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, usage)) if *known == file_id => Ok(usage.clone()),
            _ => {
                let warning = ThrottledWarning::new(log.clone());
                let usage = Arc::new(QuotaUsage::new(self.guest_path.clone(), quota, warning, disk.clone()));
                *last = Some((file_id, usage.clone()));
                Ok(usage)
            }
        }
    }
}

/// Stands for [`FilesView`] where wasmtime wants a type without lifetimes.
struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = FilesView<'a>;
}

/// Puts this module in front of what wasmtime-wasi has linked already.
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
