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

use super::disk::DiskPool;
use super::quota::{GrowthGuard, QuotaHandle};
use crate::sandbox::guest_log::GuestLog;
use crate::sandbox::memory::{MemoryMeter, OutOfMemory, Reservation};
use crate::sandbox::throttled_warning::ThrottledWarning;

/// Streams for each file that may be open: one to read it and one to write it.
const STREAMS_PER_FILE: usize = 2;
/// What a stream keeps of its file: a piece that was read, or is to be written, and itself.
const STREAM_COST: usize = (64 << 10) + (1 << 10);
/// Bytes of a path, and of what a link leads to: what Linux takes. Longer ones would only wait for the disk to be refused.
pub(super) const MAX_PATH: usize = 4096;
/// What every system allows a process.
const FALLBACK_NOFILE: u64 = 1024;

/// A granted directory, as one instance has it open.
#[derive(Debug)]
pub(super) struct GrantRoot {
    /// Where the guest sees it.
    pub(super) guest_path: Arc<str>,
    /// What pays for growth, if it may be written.
    pub(super) quota: Option<QuotaHandle>,
}

impl GrantRoot {
    /// Keeps it from being measured, until the turn ends. None if it is only read: wasmtime-wasi refuses whatever follows.
    pub(super) async fn begin_growth(&self) -> FsResult<Option<GrowthGuard>> {
        match &self.quota {
            Some(quota) => quota.begin_growth().await.map(Some).map_err(to_fs_error),
            None => Ok(None),
        }
    }

    /// A turn in which a new entry has been charged.
    pub(super) async fn charge_entry(&self) -> FsResult<Option<GrowthGuard>> {
        match &self.quota {
            Some(quota) => quota.charge_entry().await.map(Some).map_err(to_fs_error),
            None => Ok(None),
        }
    }
}

/// A granted directory before the guest has asked for it.
pub(super) struct Preopen {
    pub(super) dir: Dir,
    pub(super) root: Arc<GrantRoot>,
}

/// Files that all guests together may have open: a quarter of what the process may. A listing takes two of the process's, and
/// the host itself needs some as well.
#[derive(Clone, Debug)]
pub(crate) struct OpenFileLimit(Arc<Semaphore>);

impl OpenFileLimit {
    /// What the system allows this process.
    pub(crate) fn from_rlimit() -> Self {
        let soft_limit = rlimit::Resource::NOFILE.get_soft().unwrap_or(FALLBACK_NOFILE);
        let quarter = usize::try_from(soft_limit).unwrap_or(usize::MAX).checked_div(4).unwrap_or_default();
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
struct OpenHandle {
    /// The grant that it comes from.
    root: Arc<GrantRoot>,
    /// None for a granted directory itself, which is open in any case.
    permit: Option<FilePermit>,
}

/// The warnings about what an instance has open.
pub(super) struct FileWarnings {
    instance_limit: ThrottledWarning,
    process_limit: ThrottledWarning,
    stream_limit: ThrottledWarning,
    pub(super) non_unicode_names: ThrottledWarning,
}

impl FileWarnings {
    /// Warnings in that log.
    pub(super) fn new(log: &Arc<GuestLog>) -> Self {
        let warning = || ThrottledWarning::new(log.clone());
        Self {
            instance_limit: warning(),
            process_limit: warning(),
            stream_limit: warning(),
            non_unicode_names: warning(),
        }
    }
}

/// What one instance has open, and may.
pub(crate) struct Files {
    pub(super) preopens: Vec<Preopen>,
    /// By the number that the descriptor has in the resource table.
    handles: HashMap<u32, OpenHandle>,
    limit: usize,
    file_permits: Arc<Semaphore>,
    process_file_limit: OpenFileLimit,
    stream_permits: Arc<Semaphore>,
    pub(super) warnings: Arc<FileWarnings>,
    pub(super) disk: DiskPool,
}

impl Files {
    /// Nothing is open yet but the granted directories; `limit` files and directories may be.
    pub(super) fn new(
        preopens: Vec<Preopen>,
        limit: usize,
        process_file_limit: OpenFileLimit,
        warnings: Arc<FileWarnings>,
        disk: DiskPool,
    ) -> Self {
        let file_permits = Arc::new(Semaphore::new(limit));
        let stream_permits = Arc::new(Semaphore::new(limit.saturating_mul(STREAMS_PER_FILE)));
        Self {
            preopens,
            handles: HashMap::new(),
            limit,
            file_permits,
            process_file_limit,
            stream_permits,
            warnings,
            disk,
        }
    }

    /// Room for one more file, directory or listing.
    pub(super) fn acquire_file(&self) -> FsResult<FilePermit> {
        let Ok(instance_permit) = self.file_permits.clone().try_acquire_owned() else {
            let limit = self.limit;
            self.warnings
                .instance_limit
                .warn(format_args!("`limits.files` ({limit}) does not let it have more files open at once"));
            return Err(ErrorCode::InsufficientMemory.into());
        };
        let Ok(process_permit) = self.process_file_limit.0.clone().try_acquire_owned() else {
            self.warnings.process_limit.warn(
                "all plugins together have as many files open as they may: a quarter of what the system allows the host \
                 (`ulimit -n`)",
            );
            return Err(ErrorCode::InsufficientMemory.into());
        };
        Ok(Arc::new([instance_permit, process_permit]))
    }

    /// Room for one more stream of that file.
    fn acquire_stream(&self, file: &Resource<Descriptor>, memory: &mut MemoryMeter) -> FsResult<StreamPermits> {
        let handle = self.handle(file)?;
        match self.stream_permits.clone().try_acquire_owned() {
            Ok(stream) => {
                let memory = memory.reserve(STREAM_COST).map_err(oom_to_fs_error)?;
                Ok(StreamPermits { _file: handle.permit.clone(), _stream: stream, _memory: memory })
            }
            Err(_) => {
                let (limit, streams) = (self.limit, STREAMS_PER_FILE);
                self.warnings.stream_limit.warn(format_args!(
                    "`limits.files` ({limit}) does not let it have more than {streams} times as many streams of files"
                ));
                Err(ErrorCode::InsufficientMemory.into())
            }
        }
    }

    /// Remembers a descriptor that the guest is given.
    pub(super) fn track(
        &mut self,
        descriptor: &Resource<Descriptor>,
        root: Arc<GrantRoot>,
        permit: Option<FilePermit>,
    ) {
        self.handles.insert(descriptor.rep(), OpenHandle { root, permit });
    }

    /// Forgets a descriptor that the guest gave back.
    pub(super) fn untrack(&mut self, descriptor: &Resource<Descriptor>) {
        self.handles.remove(&descriptor.rep());
    }

    /// The grant that a descriptor comes from.
    pub(super) fn root(&self, descriptor: &Resource<Descriptor>) -> FsResult<Arc<GrantRoot>> {
        self.handle(descriptor).map(|held| held.root.clone())
    }

    fn handle(&self, descriptor: &Resource<Descriptor>) -> FsResult<&OpenHandle> {
        self.handles.get(&descriptor.rep()).ok_or_else(|| ResourceTableError::NotPresent.into())
    }
}

/// The files of an instance during a call of the host.
pub(crate) struct FilesView<'a> {
    pub(crate) files: &'a mut Files,
    pub(crate) wasi: WasiFilesystemCtxView<'a>,
    pub(crate) memory: &'a mut MemoryMeter,
}

impl FilesView<'_> {
    /// Room for one more stream of that file.
    pub(super) fn acquire_stream(&mut self, file: &Resource<Descriptor>) -> FsResult<StreamPermits> {
        self.files.acquire_stream(file, self.memory)
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
    ) -> FsResult<(wasmtime_wasi::filesystem::File, QuotaHandle)> {
        let Descriptor::File(file) = self.wasi.table.get(descriptor)? else {
            return Err(ErrorCode::BadDescriptor.into());
        };
        match &self.files.root(descriptor)?.quota {
            Some(quota) => Ok((file.clone(), quota.clone())),
            None => Err(ErrorCode::NotPermitted.into()),
        }
    }
}

/// Refuses a path that no system takes.
pub(super) fn check_path(path: &str) -> FsResult<()> {
    if path.len() <= MAX_PATH { Ok(()) } else { Err(ErrorCode::NameTooLong.into()) }
}

/// What a guest is told when `limits.memory` is used up.
pub(super) fn oom_to_fs_error(_: OutOfMemory) -> FsError {
    ErrorCode::InsufficientMemory.into()
}

/// What a guest is told of an error.
pub(super) fn to_fs_error(error: io::Error) -> FsError {
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
