//! The functions of `wasi:filesystem`.
//!
//! Most delegate to wasmtime-wasi on a thread that may block. Functions that open a file or make a directory grow are
//! the host's own. Opening, reading and metadata are attempted without blocking first ([`nonblocking`]).

use std::sync::Arc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use wasmtime::component::Resource;
use wasmtime_wasi::OpenMode;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode, Filesize,
    Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::ALLOW_BLOCKING;
use super::disk;
use super::entries::{DirectoryListing, READ_DIR_BUFFER};
use super::files::{FilesView, check_path, error_code, oom_to_fs_error, to_fs_error};
use super::measure::ENTRY_COST;
use super::nonblocking;
use super::open::{OpenRequest, Opened};
use super::quota::GrowthGuard;
use super::stream::{MAX_CHUNK, Reader, Writer};
use super::write::{self, WriteAt};
use crate::host_calls;

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let granted: Vec<_> = self
            .files
            .preopens
            .iter()
            .map(|preopen| (preopen.dir.clone(), preopen.root.clone(), preopen.is_local))
            .collect();
        let mut directories = Vec::with_capacity(granted.len());
        for (dir, root, is_local) in granted {
            let name = root.guest_path.to_string();
            let descriptor = self.wasi.table.push(Descriptor::Dir(dir))?;
            self.files.track(&descriptor, root, None, is_local);
            directories.push((descriptor, name));
        }
        Ok(directories)
    }
}

impl Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.wasi.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        Ok(self.wasi.table.get(&error)?.downcast_ref().map(error_code))
    }
}

impl FilesView<'_> {
    /// Rejects a link or move from one grant into another, because grants are separate file systems. If one of them is
    /// read-only, wasmtime-wasi rejects the operation.
    fn check_same_grant(&self, from: &Resource<Descriptor>, to: &Resource<Descriptor>) -> FsResult<()> {
        let (from, to) = (self.files.root(from)?, self.files.root(to)?);
        let both_writable = from.quota.is_some() && to.quota.is_some();
        if both_writable && !Arc::ptr_eq(&from, &to) { Err(ErrorCode::CrossDevice.into()) } else { Ok(()) }
    }
}

/// Refunds the charge for an entry that was not created.
fn refund_on_error(guard: Option<GrowthGuard>, result: &FsResult<()>) {
    if let (Some(guard), Err(_)) = (guard, result) {
        guard.refund(ENTRY_COST);
    }
}

/// Delegates functions of a descriptor unchanged to wasmtime-wasi: on a thread that may block (`on_disk`), after a
/// check of their path (`on_disk_at`), or on this thread if the file system is local (`on_open_file`).
macro_rules! delegate {
    ($($call:ident: fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        $(async fn $name(&mut self, descriptor: Resource<Descriptor>, $($argument: $type),*) -> FsResult<$output> {
            delegate!(@$call self, descriptor, $name, $($argument),*)
        })*
    };
    (@on_disk_at $self:ident, $descriptor:ident, $name:ident, $path:ident) => {{
        check_path(&$path)?;
        delegate!(@on_disk $self, $descriptor, $name, $path)
    }};
    (@$call:ident $self:ident, $descriptor:ident, $name:ident, $($argument:ident),*) => {
        $self.$call(&$descriptor, move |wasi, own| wasi.$name(own, $($argument),*).boxed_local()).await
    };
}

impl HostDescriptor for FilesView<'_> {
    fn read_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let file = match self.wasi.table.get(&descriptor)? {
            Descriptor::File(file) => file.file.clone(),
            Descriptor::Dir(_) => return Err(ErrorCode::IsDirectory.into()),
        };
        let permits = self.acquire_stream(&descriptor)?;
        let is_local = self.files.is_local(&descriptor);
        let reader: DynInputStream = Box::new(Reader::new(file, is_local, self.files.disk.clone(), offset, permits));
        Ok(self.wasi.table.push(reader)?)
    }

    fn write_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&descriptor, WriteAt::Offset(offset))
    }

    fn append_via_stream(&mut self, descriptor: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&descriptor, WriteAt::Append)
    }

    async fn write(
        &mut self,
        descriptor: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        let (file, quota) = self.writable(&descriptor)?;
        host_calls::transferred(bytes.len());
        let memory = self.memory.reserve(bytes.len()).map_err(oom_to_fs_error)?;
        let write = move |guard: &GrowthGuard| {
            let _keep_alive = &memory;
            write::write_partial(&file.file, guard, &bytes, offset)
        };
        Ok(quota.grow(write).await.map_err(to_fs_error)? as Filesize)
    }

    async fn set_size(&mut self, descriptor: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        let (file, quota) = self.writable(&descriptor)?;
        quota.grow(move |guard| write::set_size(&file.file, guard, size)).await.map_err(to_fs_error)
    }

    async fn open_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        check_path(&path)?;
        let dir = self.dir(&descriptor)?;
        let request = OpenRequest::new(path_flags, open_flags, flags, dir.perms)?;
        let root = self.files.root(&descriptor)?;
        let permit = self.files.acquire_file()?;
        let parent = dir.dir.clone();
        let opened = match &root.quota {
            Some(quota) if request.creates() => {
                quota.grow(move |guard| request.open_or_create(&parent, &path, guard)).await
            }
            _ => {
                let attempt = || request.try_open_existing(&parent, &path);
                match self.files.is_local(&descriptor).then(attempt).flatten() {
                    Some(opened) => opened,
                    None => self.files.disk.run(move || request.open_existing(&parent, &path)).await,
                }
            }
        };
        let Opened { file: opened, is_dir, is_local } = opened.map_err(to_fs_error)?;
        let opened = if is_dir {
            Descriptor::Dir(Dir::new(opened, dir.perms, request.mode(), ALLOW_BLOCKING))
        } else {
            let file = File::new(opened, dir.perms, request.mode(), ALLOW_BLOCKING);
            if let Some(quota) = &root.quota {
                quota.track_open_file(&file.file);
            }
            Descriptor::File(file)
        };
        let opened = self.wasi.table.push(opened)?;
        self.files.track(&opened, root, Some(permit), is_local);
        Ok(opened)
    }

    async fn read_directory(&mut self, descriptor: Resource<Descriptor>) -> FsResult<Resource<DirectoryEntryStream>> {
        let dir = self.dir(&descriptor)?;
        let (root, permit) = (self.files.root(&descriptor)?, self.files.acquire_file()?);
        let memory = self.memory.reserve(READ_DIR_BUFFER).map_err(oom_to_fs_error)?;
        let warnings = self.files.warnings.clone();
        let entries = DirectoryListing::open(dir.dir, root, warnings, permit, memory, self.files.disk.clone())
            .await
            .map_err(to_fs_error)?;
        let entries = self.wasi.table.push(entries)?;
        // The linker knows the resource by wasmtime-wasi's type, which has no public constructor.
        Ok(Resource::new_own(entries.rep()))
    }

    async fn create_directory_at(&mut self, descriptor: Resource<Descriptor>, path: String) -> FsResult<()> {
        check_path(&path)?;
        let guard = self.files.root(&descriptor)?.charge_entry().await?;
        let result =
            self.on_disk(&descriptor, move |wasi, own| wasi.create_directory_at(own, path).boxed_local()).await;
        refund_on_error(guard, &result);
        result
    }

    async fn symlink_at(&mut self, descriptor: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        check_path(&target)?;
        check_path(&path)?;
        let guard = self.files.root(&descriptor)?.charge_entry().await?;
        let result = self.on_disk(&descriptor, move |wasi, own| wasi.symlink_at(own, target, path).boxed_local()).await;
        refund_on_error(guard, &result);
        result
    }

    async fn link_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        new_descriptor: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        check_path(&path)?;
        check_path(&new_path)?;
        self.check_same_grant(&descriptor, &new_descriptor)?;
        let guard = self.files.root(&new_descriptor)?.charge_entry().await?;
        let result = self
            .on_disk_pair(&descriptor, &new_descriptor, move |wasi, [from, to]| {
                wasi.link_at(from, flags, path, to, new_path).boxed_local()
            })
            .await;
        refund_on_error(guard, &result);
        result
    }

    async fn rename_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
        new_descriptor: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        check_path(&path)?;
        check_path(&new_path)?;
        self.check_same_grant(&descriptor, &new_descriptor)?;
        // A measurement could miss an entry that is moved during the measurement.
        let _guard = self.files.root(&descriptor)?.begin_growth().await?;
        self.on_disk_pair(&descriptor, &new_descriptor, move |wasi, [from, to]| {
            wasi.rename_at(from, path, to, new_path).boxed_local()
        })
        .await
    }

    async fn set_times_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        check_path(&path)?;
        let dir = self.dir(&descriptor)?;
        if dir.perms.write_not_permitted() || !flags.contains(PathFlags::SYMLINK_FOLLOW) {
            return self
                .on_disk(&descriptor, move |wasi, own| {
                    wasi.set_times_at(own, flags, path, accessed, modified).boxed_local()
                })
                .await;
        }
        // wasmtime-wasi would open a path of any file type.
        let opened = self.open_at(descriptor, flags, path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        let set = self.on_disk(&opened, move |wasi, own| wasi.set_times(own, accessed, modified).boxed_local()).await;
        HostDescriptor::drop(self, opened).map_err(FsError::trap)?;
        set
    }

    fn drop(&mut self, descriptor: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.files.untrack(&descriptor);
        HostDescriptor::drop(&mut self.wasi, descriptor)
    }

    delegate! {
        on_disk: fn advise(offset: Filesize, length: Filesize, advice: Advice) -> ();
        on_disk: fn sync_data() -> ();
        on_disk: fn sync() -> ();
        on_disk: fn set_times(accessed: NewTimestamp, modified: NewTimestamp) -> ();
        on_disk_at: fn readlink_at(path: String) -> String;
        on_disk_at: fn remove_directory_at(path: String) -> ();
        on_disk_at: fn unlink_file_at(path: String) -> ();
        on_open_file: fn get_flags() -> DescriptorFlags;
        on_open_file: fn get_type() -> DescriptorType;
        on_open_file: fn stat() -> DescriptorStat;
        on_open_file: fn metadata_hash() -> MetadataHashValue;
    }

    async fn read(
        &mut self,
        descriptor: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let read = match self.try_read(&descriptor, length, offset) {
            Some(read) => read,
            None => self.on_disk(&descriptor, move |wasi, own| wasi.read(own, length, offset).boxed_local()).await?,
        };
        host_calls::transferred(read.0.len());
        Ok(read)
    }

    async fn stat_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        check_path(&path)?;
        if let Some(found) = self.try_open_path(&descriptor, flags, &path) {
            return disk::call_here([found?], |wasi, [own]| wasi.stat(own).boxed_local());
        }
        self.on_disk(&descriptor, move |wasi, own| wasi.stat_at(own, flags, path).boxed_local()).await
    }

    async fn is_same_object(
        &mut self,
        descriptor: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        let same = self.on_disk_pair(&descriptor, &other, |wasi, [one, other]| {
            wasi.is_same_object(one, other).map(|same| same.map_err(FsError::trap)).boxed_local()
        });
        same.await.map_err(|error| wasmtime::Error::msg(error.to_string()))
    }

    async fn metadata_hash_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        check_path(&path)?;
        if let Some(found) = self.try_open_path(&descriptor, flags, &path) {
            return disk::call_here([found?], |wasi, [own]| wasi.metadata_hash(own).boxed_local());
        }
        self.on_disk(&descriptor, move |wasi, own| wasi.metadata_hash_at(own, flags, path).boxed_local()).await
    }
}

impl FilesView<'_> {
    /// Attempts to read from a file without blocking.
    fn try_read(
        &self,
        descriptor: &Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> Option<(Vec<u8>, bool)> {
        let Descriptor::File(file) = self.wasi.table.get(descriptor).ok()? else { return None };
        if !self.files.is_local(descriptor) {
            return None;
        }
        let bytes =
            nonblocking::read_at(&file.file, usize::try_from(length).unwrap_or(usize::MAX).min(MAX_CHUNK), offset)?;
        let is_end = bytes.is_empty();
        Some((bytes, is_end))
    }

    /// Attempts to open a path for its metadata, without blocking.
    fn try_open_path(
        &self,
        directory: &Resource<Descriptor>,
        flags: PathFlags,
        path: &str,
    ) -> Option<FsResult<Descriptor>> {
        let dir = self.dir(directory).ok().filter(|_| self.files.is_local(directory))?;
        let found = nonblocking::open_path(&dir.dir, path, flags.contains(PathFlags::SYMLINK_FOLLOW))?;
        let descriptor = |found| Descriptor::File(File::new(found, dir.perms, OpenMode::READ, ALLOW_BLOCKING));
        Some(found.map(descriptor).map_err(to_fs_error))
    }

    /// Calls a function of wasmtime-wasi that reads the metadata of an open file: on this thread if the file is on a
    /// local file system, where this never blocks, else on a thread that may block.
    async fn on_open_file<T: Send + 'static>(
        &mut self,
        descriptor: &Resource<Descriptor>,
        function: impl for<'a> FnOnce(
            &'a mut WasiFilesystemCtxView<'_>,
            Resource<Descriptor>,
        ) -> LocalBoxFuture<'a, FsResult<T>>
        + Send
        + 'static,
    ) -> FsResult<T> {
        if self.files.is_local(descriptor) {
            let descriptor = self.wasi.table.get(descriptor)?.clone();
            return disk::call_here([descriptor], move |wasi, [own]| function(wasi, own));
        }
        self.on_disk(descriptor, function).await
    }

    /// Calls a function of wasmtime-wasi for one descriptor, on a thread that may block.
    async fn on_disk<T: Send + 'static>(
        &mut self,
        descriptor: &Resource<Descriptor>,
        function: impl for<'a> FnOnce(
            &'a mut WasiFilesystemCtxView<'_>,
            Resource<Descriptor>,
        ) -> LocalBoxFuture<'a, FsResult<T>>
        + Send
        + 'static,
    ) -> FsResult<T> {
        let descriptor = self.wasi.table.get(descriptor)?.clone();
        self.files.disk.call([descriptor], move |wasi, [own]| function(wasi, own)).await
    }

    /// Calls a function of wasmtime-wasi for two descriptors, on a thread that may block.
    async fn on_disk_pair<T: Send + 'static>(
        &mut self,
        one: &Resource<Descriptor>,
        other: &Resource<Descriptor>,
        function: impl for<'a> FnOnce(
            &'a mut WasiFilesystemCtxView<'_>,
            [Resource<Descriptor>; 2],
        ) -> LocalBoxFuture<'a, FsResult<T>>
        + Send
        + 'static,
    ) -> FsResult<T> {
        let both = [self.wasi.table.get(one)?.clone(), self.wasi.table.get(other)?.clone()];
        self.files.disk.call(both, function).await
    }

    fn writer(&mut self, descriptor: &Resource<Descriptor>, at: WriteAt) -> FsResult<Resource<DynOutputStream>> {
        let (file, quota) = self.writable(descriptor)?;
        let permits = self.acquire_stream(descriptor)?;
        let writer: DynOutputStream = Box::new(Writer::new(file.file, quota, at, permits));
        Ok(self.wasi.table.push(writer)?)
    }
}

impl HostDirectoryEntryStream for FilesView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let entries: Resource<DirectoryListing> = Resource::new_borrow(stream.rep());
        self.wasi.table.get_mut(&entries)?.next().await.map_err(to_fs_error)
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let entries: Resource<DirectoryListing> = Resource::new_own(stream.rep());
        self.wasi.table.delete(entries)?;
        Ok(())
    }
}
