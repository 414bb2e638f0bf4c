//! The open files of one instance: permits, descriptors, and the mapping of errors.

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
use crate::cpu::HostCpuBudget;
use crate::guest_log::ThrottledWarnings;
use crate::memory::{MemoryMeter, OutOfMemory, Reservation};

/// The maximum number of streams per open file: one for reading and one for writing.
const STREAMS_PER_FILE: usize = 2;
/// The memory of a stream: one chunk to read or write, and the stream itself.
const STREAM_COST: usize = (64 << 10) + (1 << 10);
/// The maximum length of a path, and of a symbolic link's target, in bytes: Linux's `PATH_MAX`. A longer one would be
/// rejected only after waiting for the disk.
pub(super) const MAX_PATH: usize = 4096;
/// The limit of open files that every system grants a process, assumed if the actual one is unknown.
const FALLBACK_NOFILE: u64 = 1024;

/// A granted directory that one instance has open.
#[derive(Debug)]
pub(super) struct GrantRoot {
    /// The path under which the guest sees the directory.
    pub(super) guest_path: Arc<str>,
    /// The quota that growth is charged to; `None` for a read-only grant.
    pub(super) quota: Option<QuotaHandle>,
}

impl GrantRoot {
    /// Acquires a guard that excludes measurements of the directory. Returns `None` for a read-only grant, where
    /// wasmtime-wasi rejects the operation that follows.
    pub(super) async fn begin_growth(&self) -> FsResult<Option<GrowthGuard>> {
        match &self.quota {
            Some(quota) => quota.begin_growth().await.map(Some).map_err(to_fs_error),
            None => Ok(None),
        }
    }

    /// Acquires a guard and charges a new entry. Returns `None` for a read-only grant.
    pub(super) async fn charge_entry(&self) -> FsResult<Option<GrowthGuard>> {
        match &self.quota {
            Some(quota) => quota.charge_entry().await.map(Some).map_err(to_fs_error),
            None => Ok(None),
        }
    }
}

/// A granted directory before the guest has requested it.
pub(super) struct Preopen {
    pub(super) dir: Dir,
    pub(super) root: Arc<GrantRoot>,
    /// Whether operations on the directory can be attempted without blocking.
    pub(super) is_local: bool,
}

/// The limit of files that all guests together have open: a quarter of the process's limit. A listing takes two
/// descriptors of the process, and the host itself needs some, too.
#[derive(Clone, Debug)]
pub struct OpenFileLimit(Arc<Semaphore>);

impl OpenFileLimit {
    /// Derives the limit from the process's `RLIMIT_NOFILE`.
    pub fn from_rlimit() -> Self {
        let soft_limit = rlimit::Resource::NOFILE.get_soft().unwrap_or(FALLBACK_NOFILE);
        let quarter = usize::try_from(soft_limit).unwrap_or(usize::MAX).checked_div(4).unwrap_or_default();
        Self(Arc::new(Semaphore::new(quarter.min(Semaphore::MAX_PERMITS))))
    }
}

/// The permits of one open file, directory or listing: one from the instance and one from the process.
pub(super) type FilePermit = Arc<[OwnedSemaphorePermit; 2]>;

/// The permits that a file's stream holds: its own permit, and the permit of the file, which stays open as long as the
/// stream.
pub(super) struct StreamPermits {
    _file: Option<FilePermit>,
    _stream: OwnedSemaphorePermit,
    _memory: Reservation,
}

/// A descriptor of the guest.
struct OpenHandle {
    /// The grant to which the descriptor belongs.
    root: Arc<GrantRoot>,
    /// `None` for a granted directory itself, which is always open.
    permit: Option<FilePermit>,
    /// Whether operations on the descriptor can be attempted without blocking.
    is_local: bool,
}

/// The open files of one instance, and their limits.
pub struct Files {
    pub(super) preopens: Vec<Preopen>,
    /// The handles by the descriptor's index in the resource table.
    handles: HashMap<u32, OpenHandle>,
    limit: usize,
    file_permits: Arc<Semaphore>,
    process_file_limit: OpenFileLimit,
    stream_permits: Arc<Semaphore>,
    pub(super) warnings: Arc<ThrottledWarnings>,
    pub(super) disk: DiskPool,
}

impl Files {
    /// Creates the state of an instance that has only its granted directories open. At most `limit` files and
    /// directories may be open.
    pub(super) fn new(
        preopens: Vec<Preopen>,
        limit: usize,
        process_file_limit: OpenFileLimit,
        warnings: Arc<ThrottledWarnings>,
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

    /// Begins a call with this budget of processor time.
    pub(crate) fn begin_call(&mut self, cpu: HostCpuBudget) {
        self.disk = self.disk.for_call(cpu);
    }

    /// Ends a call.
    pub(crate) fn end_call(&self) {
        self.disk.end_call();
    }

    /// Acquires permits for one more file, directory or listing.
    pub(super) fn acquire_file(&self) -> FsResult<FilePermit> {
        let Ok(instance_permit) = self.file_permits.clone().try_acquire_owned() else {
            let limit = self.limit;
            self.warnings.warn(
                "files of an instance",
                format_args!("no more files can be opened: `limits.files` ({limit}) is reached"),
            );
            return Err(ErrorCode::InsufficientMemory.into());
        };
        let Ok(process_permit) = self.process_file_limit.0.clone().try_acquire_owned() else {
            self.warnings.warn(
                "files of the process",
                "no more files can be opened: all plugins together have reached a quarter of the host's limit of open \
                 files (`ulimit -n`)",
            );
            return Err(ErrorCode::InsufficientMemory.into());
        };
        Ok(Arc::new([instance_permit, process_permit]))
    }

    /// Acquires permits for one more stream of `file`.
    fn acquire_stream(&self, file: &Resource<Descriptor>, memory: &mut MemoryMeter) -> FsResult<StreamPermits> {
        let handle = self.handle(file)?;
        match self.stream_permits.clone().try_acquire_owned() {
            Ok(stream) => {
                let memory = memory.reserve(STREAM_COST).map_err(oom_to_fs_error)?;
                Ok(StreamPermits { _file: handle.permit.clone(), _stream: stream, _memory: memory })
            }
            Err(_) => {
                let (limit, streams) = (self.limit, STREAMS_PER_FILE);
                self.warnings.warn(
                    "streams",
                    format_args!(
                        "no more streams of files can be opened: {streams} times `limits.files` ({limit}) is reached"
                    ),
                );
                Err(ErrorCode::InsufficientMemory.into())
            }
        }
    }

    /// Tracks a descriptor that the guest received.
    pub(super) fn track(
        &mut self,
        descriptor: &Resource<Descriptor>,
        root: Arc<GrantRoot>,
        permit: Option<FilePermit>,
        is_local: bool,
    ) {
        self.handles.insert(descriptor.rep(), OpenHandle { root, permit, is_local });
    }

    /// Stops tracking a descriptor that the guest dropped.
    pub(super) fn untrack(&mut self, descriptor: &Resource<Descriptor>) {
        self.handles.remove(&descriptor.rep());
    }

    /// Returns the grant to which a descriptor belongs.
    pub(super) fn root(&self, descriptor: &Resource<Descriptor>) -> FsResult<Arc<GrantRoot>> {
        self.handle(descriptor).map(|held| held.root.clone())
    }

    /// Returns whether operations on a descriptor can be attempted without blocking.
    pub(super) fn is_local(&self, descriptor: &Resource<Descriptor>) -> bool {
        self.handle(descriptor).is_ok_and(|held| held.is_local)
    }

    fn handle(&self, descriptor: &Resource<Descriptor>) -> FsResult<&OpenHandle> {
        self.handles.get(&descriptor.rep()).ok_or_else(|| ResourceTableError::NotPresent.into())
    }
}

/// The files of an instance during a host call.
pub struct FilesView<'a> {
    pub(crate) files: &'a mut Files,
    pub(crate) wasi: WasiFilesystemCtxView<'a>,
    pub(crate) memory: &'a mut MemoryMeter,
}

impl FilesView<'_> {
    /// Acquires permits for one more stream of `file`.
    pub(super) fn acquire_stream(&mut self, file: &Resource<Descriptor>) -> FsResult<StreamPermits> {
        self.files.acquire_stream(file, self.memory)
    }

    /// Returns the directory of a descriptor. Fails if it is a file.
    pub(super) fn dir(&self, descriptor: &Resource<Descriptor>) -> FsResult<Dir> {
        match self.wasi.table.get(descriptor)? {
            Descriptor::Dir(dir) => Ok(dir.clone()),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Returns a file that the guest may write, and the quota that growth is charged to. Fails for a directory, and for
    /// a file of a read-only grant.
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

/// Rejects a path that is longer than operating systems accept.
pub(super) fn check_path(path: &str) -> FsResult<()> {
    if path.len() <= MAX_PATH { Ok(()) } else { Err(ErrorCode::NameTooLong.into()) }
}

/// Maps an exhausted `limits.memory` to the guest's error.
pub(super) fn oom_to_fs_error(_: OutOfMemory) -> FsError {
    ErrorCode::InsufficientMemory.into()
}

/// Maps an I/O error to the guest's error.
pub(super) fn to_fs_error(error: io::Error) -> FsError {
    error_code(&error).into()
}

/// Maps an I/O error to the error code of the standard.
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
