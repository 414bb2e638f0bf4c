//! What one instance has open.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{Resource, ResourceTableError};
use wasmtime_wasi::filesystem::{Descriptor, Dir, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};

use super::disk::Disk;
use super::ledger::{Account, Turn};
use crate::plugin::grants::notice::Notice;
use crate::plugin::guest_log::GuestLog;
use crate::plugin::limits::{MemoryMeter, OutOfMemory, Reservation};

/// Streams for each file that may be open: one to read it and one to write it.
const STREAMS_PER_FILE: usize = 2;
/// What a stream keeps of its file: a piece that was read, or is to be written, and itself.
const STREAM: usize = (64 << 10) + (1 << 10);
/// Bytes of a path, and of what a link leads to: what Linux takes. Longer ones would only wait for the disk to be refused.
pub(super) const MAX_PATH: usize = 4096;
/// What every system allows a process.
const LEAST_OPEN_FILES: u64 = 1024;

/// A granted directory, as one instance has it open.
#[derive(Debug)]
pub(super) struct Root {
    /// Where the guest sees it.
    pub(super) guest: Arc<str>,
    /// What pays for growth, if it may be written.
    pub(super) account: Option<Account>,
}

impl Root {
    /// Keeps it from being measured, until the turn ends. None if it is only read: wasmtime-wasi refuses whatever follows.
    pub(super) async fn turn(&self) -> FsResult<Option<Turn>> {
        match &self.account {
            Some(account) => account.turn().await.map(Some).map_err(refusal),
            None => Ok(None),
        }
    }

    /// A turn in which a new entry has been charged.
    pub(super) async fn entry(&self) -> FsResult<Option<Turn>> {
        match &self.account {
            Some(account) => account.entry().await.map(Some).map_err(refusal),
            None => Ok(None),
        }
    }
}

/// A granted directory before the guest has asked for it.
pub(super) struct Preopen {
    pub(super) dir: Dir,
    pub(super) root: Arc<Root>,
}

/// Files that all guests together may have open: a quarter of what the process may. A listing takes two of the process's, and
/// the host itself needs some as well.
#[derive(Clone, Debug)]
pub(in crate::plugin) struct OpenFiles(Arc<Semaphore>);

impl OpenFiles {
    /// What the system allows this process.
    pub(in crate::plugin) fn of_the_process() -> Self {
        let most = rlimit::Resource::NOFILE.get_soft().unwrap_or(LEAST_OPEN_FILES);
        let quarter = usize::try_from(most).unwrap_or(usize::MAX).checked_div(4).unwrap_or_default();
        Self(Arc::new(Semaphore::new(quarter.min(Semaphore::MAX_PERMITS))))
    }
}

/// Lets one file, directory or listing be open: in the instance, and in the process.
pub(super) type FilePermit = Arc<[OwnedSemaphorePermit; 2]>;

/// What a stream of a file keeps: the file, which is open for as long as the stream is, and the stream itself.
pub(super) struct StreamPermits {
    _file: Option<FilePermit>,
    _stream: OwnedSemaphorePermit,
    _memory: Reservation,
}

/// A descriptor that the guest has.
struct Held {
    /// The grant that it comes from.
    root: Arc<Root>,
    /// None for a granted directory itself, which is open in any case.
    permit: Option<FilePermit>,
}

/// The warnings about what an instance has open.
pub(super) struct Notices {
    open: Notice,
    open_in_all: Notice,
    streams: Notice,
    pub(super) names: Notice,
}

impl Notices {
    /// Warnings in that log.
    pub(super) fn new(log: &Arc<GuestLog>) -> Self {
        let notice = || Notice::new(log.clone());
        Self { open: notice(), open_in_all: notice(), streams: notice(), names: notice() }
    }
}

/// What one instance has open, and may.
pub(in crate::plugin) struct Files {
    pub(super) preopens: Vec<Preopen>,
    /// By the number that the descriptor has in the resource table.
    held: HashMap<u32, Held>,
    limit: usize,
    open: Arc<Semaphore>,
    open_in_all: OpenFiles,
    streams: Arc<Semaphore>,
    pub(super) notices: Arc<Notices>,
    pub(super) disk: Disk,
}

impl Files {
    /// Nothing is open yet but the granted directories; `limit` files and directories may be.
    pub(super) fn new(
        preopens: Vec<Preopen>,
        limit: usize,
        open_in_all: OpenFiles,
        notices: Arc<Notices>,
        disk: Disk,
    ) -> Self {
        let open = Arc::new(Semaphore::new(limit));
        let streams = Arc::new(Semaphore::new(limit.saturating_mul(STREAMS_PER_FILE)));
        Self { preopens, held: HashMap::new(), limit, open, open_in_all, streams, notices, disk }
    }

    /// Room for one more file, directory or listing.
    pub(super) fn room(&self) -> FsResult<FilePermit> {
        let Ok(own) = self.open.clone().try_acquire_owned() else {
            let limit = self.limit;
            self.notices
                .open
                .give(format_args!("`limits.files` ({limit}) does not let it have more files open at once"));
            return Err(ErrorCode::InsufficientMemory.into());
        };
        let Ok(in_all) = self.open_in_all.0.clone().try_acquire_owned() else {
            self.notices.open_in_all.give(
                "all plugins together have as many files open as they may: a quarter of what the system allows the host \
                 (`ulimit -n`)",
            );
            return Err(ErrorCode::InsufficientMemory.into());
        };
        Ok(Arc::new([own, in_all]))
    }

    /// Room for one more stream of that file.
    fn stream_room(&self, file: &Resource<Descriptor>, memory: &mut MemoryMeter) -> FsResult<StreamPermits> {
        let held = self.held(file)?;
        match self.streams.clone().try_acquire_owned() {
            Ok(stream) => {
                let memory = memory.reserve(STREAM).map_err(no_memory)?;
                Ok(StreamPermits { _file: held.permit.clone(), _stream: stream, _memory: memory })
            }
            Err(_) => {
                let (limit, streams) = (self.limit, STREAMS_PER_FILE);
                self.notices.streams.give(format_args!(
                    "`limits.files` ({limit}) does not let it have more than {streams} times as many streams of files"
                ));
                Err(ErrorCode::InsufficientMemory.into())
            }
        }
    }

    /// Remembers a descriptor that the guest is given.
    pub(super) fn keep(&mut self, descriptor: &Resource<Descriptor>, root: Arc<Root>, permit: Option<FilePermit>) {
        self.held.insert(descriptor.rep(), Held { root, permit });
    }

    /// Forgets a descriptor that the guest gave back.
    pub(super) fn forget(&mut self, descriptor: &Resource<Descriptor>) {
        self.held.remove(&descriptor.rep());
    }

    /// The grant that a descriptor comes from.
    pub(super) fn root(&self, descriptor: &Resource<Descriptor>) -> FsResult<Arc<Root>> {
        self.held(descriptor).map(|held| held.root.clone())
    }

    fn held(&self, descriptor: &Resource<Descriptor>) -> FsResult<&Held> {
        self.held.get(&descriptor.rep()).ok_or_else(|| ResourceTableError::NotPresent.into())
    }
}

/// The files of an instance during a call of the host.
pub(in crate::plugin) struct FilesView<'a> {
    pub(in crate::plugin) files: &'a mut Files,
    pub(in crate::plugin) wasi: WasiFilesystemCtxView<'a>,
    pub(in crate::plugin) memory: &'a mut MemoryMeter,
}

impl FilesView<'_> {
    /// Room for one more stream of that file.
    pub(super) fn stream_room(&mut self, file: &Resource<Descriptor>) -> FsResult<StreamPermits> {
        self.files.stream_room(file, self.memory)
    }

    /// A directory that the guest has.
    pub(super) fn dir(&self, descriptor: &Resource<Descriptor>) -> FsResult<Dir> {
        match self.wasi.table.get(descriptor)? {
            Descriptor::Dir(dir) => Ok(dir.clone()),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// A file that the guest has and may write, with the account that pays for it. A directory is no file, and one
    /// that comes from a read-only grant is not written.
    pub(super) fn writable(
        &self,
        descriptor: &Resource<Descriptor>,
    ) -> FsResult<(wasmtime_wasi::filesystem::File, Account)> {
        let Descriptor::File(file) = self.wasi.table.get(descriptor)? else {
            return Err(ErrorCode::BadDescriptor.into());
        };
        match &self.files.root(descriptor)?.account {
            Some(account) => Ok((file.clone(), account.clone())),
            None => Err(ErrorCode::NotPermitted.into()),
        }
    }
}

/// Refuses a path that no system takes.
pub(super) fn check_path(path: &str) -> FsResult<()> {
    if path.len() <= MAX_PATH { Ok(()) } else { Err(ErrorCode::NameTooLong.into()) }
}

/// What a guest is told when `limits.memory` is used up.
pub(super) fn no_memory(_: OutOfMemory) -> FsError {
    ErrorCode::InsufficientMemory.into()
}

/// What a guest is told of an error.
pub(super) fn refusal(error: io::Error) -> FsError {
    error_code(&error).into()
}

/// The standard's word for an error.
pub(super) fn error_code(error: &io::Error) -> ErrorCode {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => ErrorCode::Quota,
        io::ErrorKind::CrossesDevices => ErrorCode::CrossDevice,
        io::ErrorKind::ReadOnlyFilesystem => ErrorCode::ReadOnly,
        io::ErrorKind::OutOfMemory => ErrorCode::InsufficientMemory,
        _ if matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)) => ErrorCode::InsufficientMemory,
        _ => ErrorCode::from(error),
    }
}
