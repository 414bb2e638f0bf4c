//! Granted directories: what a guest's `wasi:filesystem` leads to.
//!
//! wasmtime-wasi does the work, and keeps to the directory: each path is resolved below the handle of a directory, by the
//! kernel where it can (`openat2`), so no `..`, link or absolute path leads out. This module stands in front of it and sees to
//! what it leaves open:
//!
//! | | by |
//! |---|---|
//! | nothing but files and directories is opened, and no opening waits | [`open`]: looked at first, opened without blocking, looked at again |
//! | a directory becomes no larger than its quota | [`ledger`]: charged before anything grows, measured when it seems full |
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
mod ledger;
mod measure;
mod open;
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

use self::disk::Disk;
use self::files::{Notices, Preopen, Root};
use self::ledger::{Account, Ledger};
use super::notice::Notice;
use crate::config::{DirGrant, DirQuota, GuestPath, Limits, Mode};
use crate::plugin::guest_log::GuestLog;

pub(in crate::plugin) use self::files::{Files, FilesView, OpenFiles};

/// The directories of one plugin.
pub(in crate::plugin) struct Dirs {
    granted: Arc<[Granted]>,
    /// Files and directories that an instance may have open at once.
    files: usize,
    open_in_all: OpenFiles,
    log: Arc<GuestLog>,
    notices: Arc<Notices>,
    disk: Disk,
}

/// A granted directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the granted directory {}: {source}", dir.display())]
pub(in crate::plugin) struct GrantError {
    dir: PathBuf,
    source: io::Error,
}

impl Dirs {
    /// The directories that are granted to a plugin, which shares `open_in_all` with all others.
    pub(in crate::plugin) fn new(
        granted: &BTreeMap<GuestPath, DirGrant>,
        limits: &Limits,
        open_in_all: OpenFiles,
        log: &Arc<GuestLog>,
    ) -> Self {
        let granted = granted.iter().map(|(guest, grant)| Granted {
            guest: guest.as_str().into(),
            host: grant.host.clone(),
            access: match grant.mode {
                Mode::ReadOnly => Access::Read,
                Mode::ReadWrite { quota } => Access::Write { quota, ledger: Mutex::default() },
            },
        });
        Self {
            granted: granted.collect(),
            files: limits.files.get(),
            open_in_all,
            log: log.clone(),
            notices: Arc::new(Notices::new(log)),
            disk: Disk::default(),
        }
    }

    /// Where they are on the machine.
    pub(in crate::plugin) fn hosts(&self) -> impl Iterator<Item = &Path> {
        self.granted.iter().map(|granted| granted.host.as_path())
    }

    /// Opens them for one instance. A directory that was replaced is the new one from then on.
    pub(in crate::plugin) async fn open(&self) -> Result<Files, GrantError> {
        let preopens = if self.granted.is_empty() { Vec::new() } else { self.open_all().await? };
        Ok(Files::new(preopens, self.files, self.open_in_all.clone(), self.notices.clone(), self.disk.clone()))
    }
}

impl Dirs {
    /// Opens them on a thread that may block: a directory may be on a network that is gone.
    async fn open_all(&self) -> Result<Vec<Preopen>, GrantError> {
        let (granted, log, disk) = (self.granted.clone(), self.log.clone(), self.disk.clone());
        let opened = self.disk.run(move || {
            let open = |granted: &Granted| {
                granted.open(&log, &disk).map_err(|source| GrantError { dir: granted.host.clone(), source })
            };
            Ok(granted.iter().map(open).collect())
        });
        opened.await.unwrap_or_else(|source| Err(GrantError { dir: PathBuf::new(), source }))
    }
}

/// All functions of wasmtime-wasi's that ask the system for something are called on a thread that may block.
const BLOCKING: bool = true;

/// One granted directory.
struct Granted {
    /// Where the guest sees it.
    guest: Arc<str>,
    host: PathBuf,
    access: Access,
}

enum Access {
    Read,
    Write {
        quota: DirQuota,
        /// The ledger of the directory that was at the place last.
        ledger: Mutex<Option<(Identity, Arc<Ledger>)>>,
    },
}

/// Device and number: what stays the same of a directory that is renamed, and differs from one that replaces it.
type Identity = (u64, u64);

impl Granted {
    fn open(&self, log: &Arc<GuestLog>, disk: &Disk) -> io::Result<Preopen> {
        let dir = open_ambient_dir(&self.host, ambient_authority())?;
        let (perms, mode) = match self.access {
            Access::Read => (FsPerms::ReadOnly, OpenMode::READ),
            Access::Write { .. } => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
        };
        let dir = Dir::new(dir, perms, mode, BLOCKING);
        let account = match &self.access {
            Access::Read => None,
            Access::Write { quota, ledger } => {
                let ledger = self.ledger(ledger, *quota, &dir.dir, log, disk)?;
                Some(Account::new(ledger, dir.dir.clone()))
            }
        };
        Ok(Preopen { dir, root: Arc::new(Root { guest: self.guest.clone(), account }) })
    }

    fn ledger(
        &self,
        last: &Mutex<Option<(Identity, Arc<Ledger>)>>,
        quota: DirQuota,
        dir: &File,
        log: &Arc<GuestLog>,
        disk: &Disk,
    ) -> io::Result<Arc<Ledger>> {
        let found = dir.metadata()?;
        let identity = (found.dev(), found.ino());
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, ledger)) if *known == identity => Ok(ledger.clone()),
            _ => {
                let notice = Notice::new(log.clone());
                let ledger = Arc::new(Ledger::new(self.guest.clone(), quota, notice, disk.clone()));
                *last = Some((identity, ledger.clone()));
                Ok(ledger)
            }
        }
    }
}

/// Stands for [`FilesView`] where wasmtime wants a type without lifetimes.
struct Linked;

impl HasData for Linked {
    type Data<'a> = FilesView<'a>;
}

/// Puts this module in front of what wasmtime-wasi has linked already.
pub(in crate::plugin) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    files: fn(&mut T) -> FilesView<'_>,
) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    types::add_to_linker::<T, Linked>(linker, files)?;
    preopens::add_to_linker::<T, Linked>(linker, files)?;
    linker.allow_shadowing(false);
    Ok(())
}
