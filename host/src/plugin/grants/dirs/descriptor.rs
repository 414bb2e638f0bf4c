//! The functions of `wasi:filesystem`.
//!
//! Most are wasmtime-wasi's, called as they are. Those that open something, or make something grow, are this host's.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode, Filesize,
    Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::entries::{Entries, READER};
use super::files::{FilesView, check_path, error_code, no_memory, refusal};
use super::ledger::{ENTRY, Turn, blocking};
use super::open::{How, Opened};
use super::stream::{Reader, Writer};
use super::write::{self, At};

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let granted: Vec<_> =
            self.files.preopens.iter().map(|preopen| (preopen.dir.clone(), preopen.root.clone())).collect();
        let mut given = Vec::with_capacity(granted.len());
        for (dir, root) in granted {
            let name = root.guest.to_string();
            let descriptor = self.wasi.table.push(Descriptor::Dir(dir))?;
            self.files.keep(&descriptor, root, None);
            given.push((descriptor, name));
        }
        Ok(given)
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
    /// Refuses what would lead from one grant into another: they are two file systems. What concerns a read-only one is
    /// left to wasmtime-wasi to refuse.
    fn same_grant(&self, from: &Resource<Descriptor>, to: &Resource<Descriptor>) -> FsResult<()> {
        let (from, to) = (self.files.root(from)?, self.files.root(to)?);
        let both_written = from.account.is_some() && to.account.is_some();
        if both_written && !Arc::ptr_eq(&from, &to) { Err(ErrorCode::CrossDevice.into()) } else { Ok(()) }
    }
}

/// Gives back what was charged for an entry that did not come about.
fn settle(turn: Option<Turn>, made: &FsResult<()>) {
    if let (Some(turn), Err(_)) = (turn, made) {
        turn.give_back(ENTRY);
    }
}

impl HostDescriptor for FilesView<'_> {
    fn read_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let permits = self.stream_room(&descriptor)?;
        let stream = self.wasi.read_via_stream(descriptor, offset)?;
        let stream = self.wasi.table.delete(stream)?;
        let reader: DynInputStream = Box::new(Reader::new(stream, permits));
        Ok(self.wasi.table.push(reader)?)
    }

    fn write_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&descriptor, At::Offset(offset))
    }

    fn append_via_stream(&mut self, descriptor: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&descriptor, At::End)
    }

    async fn write(
        &mut self,
        descriptor: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        let (file, account) = self.writable(&descriptor)?;
        let memory = self.memory.reserve(bytes.len()).map_err(no_memory)?;
        let write = move |turn: &Turn| {
            let _for_as_long_as_the_bytes = &memory;
            write::some(&file.file, turn, &bytes, offset)
        };
        Ok(account.grow(write).await.map_err(refusal)? as Filesize)
    }

    async fn set_size(&mut self, descriptor: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        let (file, account) = self.writable(&descriptor)?;
        account.grow(move |turn| write::set_size(&file.file, turn, size)).await.map_err(refusal)
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
        let how = How::new(path_flags, open_flags, flags, dir.perms)?;
        let root = self.files.root(&descriptor)?;
        let permit = self.files.room()?;
        let at = dir.dir.clone();
        let opened = match &root.account {
            Some(account) if how.creates() => account.grow(move |turn| how.existing_or_new(&at, &path, turn)).await,
            _ => blocking(move || how.existing(&at, &path)).await,
        };
        let opened = match opened.map_err(refusal)? {
            Opened::Dir(opened) => Descriptor::Dir(Dir::new(opened, dir.perms, how.mode(), false)),
            Opened::File(opened) => {
                let file = File::new(opened, dir.perms, how.mode(), false);
                if let Some(account) = &root.account {
                    account.opened(&file.file);
                }
                Descriptor::File(file)
            }
        };
        let opened = self.wasi.table.push(opened)?;
        self.files.keep(&opened, root, Some(permit));
        Ok(opened)
    }

    async fn read_directory(&mut self, descriptor: Resource<Descriptor>) -> FsResult<Resource<DirectoryEntryStream>> {
        let dir = self.dir(&descriptor)?;
        let (root, permit) = (self.files.root(&descriptor)?, self.files.room()?);
        let memory = self.memory.reserve(READER).map_err(no_memory)?;
        let notices = self.files.notices.clone();
        let entries = Entries::of(dir.dir, root, notices, permit, memory).await.map_err(refusal)?;
        let entries = self.wasi.table.push(entries)?;
        // The linker knows the resource by wasmtime-wasi's type, of which nobody else can make one.
        Ok(Resource::new_own(entries.rep()))
    }

    async fn create_directory_at(&mut self, descriptor: Resource<Descriptor>, path: String) -> FsResult<()> {
        check_path(&path)?;
        let turn = self.files.root(&descriptor)?.entry().await?;
        let made = self.wasi.create_directory_at(descriptor, path).await;
        settle(turn, &made);
        made
    }

    async fn symlink_at(&mut self, descriptor: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        check_path(&target)?;
        check_path(&path)?;
        let turn = self.files.root(&descriptor)?.entry().await?;
        let made = self.wasi.symlink_at(descriptor, target, path).await;
        settle(turn, &made);
        made
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
        self.same_grant(&descriptor, &new_descriptor)?;
        let turn = self.files.root(&new_descriptor)?.entry().await?;
        let made = self.wasi.link_at(descriptor, flags, path, new_descriptor, new_path).await;
        settle(turn, &made);
        made
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
        self.same_grant(&descriptor, &new_descriptor)?;
        // What is moved while the directory is measured could be missed.
        let _turn = self.files.root(&descriptor)?.turn().await?;
        self.wasi.rename_at(descriptor, path, new_descriptor, new_path).await
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
            return self.wasi.set_times_at(descriptor, flags, path, accessed, modified).await;
        }
        // wasmtime-wasi would open it, whatever it is.
        let opened = self.open_at(descriptor, flags, path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        let set = self.wasi.set_times(Resource::new_borrow(opened.rep()), accessed, modified).await;
        HostDescriptor::drop(self, opened).map_err(FsError::trap)?;
        set
    }

    fn drop(&mut self, descriptor: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.files.forget(&descriptor);
        HostDescriptor::drop(&mut self.wasi, descriptor)
    }

    // From here on as wasmtime-wasi has it.

    async fn advise(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        self.wasi.advise(descriptor, offset, length, advice).await
    }

    async fn sync_data(&mut self, descriptor: Resource<Descriptor>) -> FsResult<()> {
        self.wasi.sync_data(descriptor).await
    }

    async fn get_flags(&mut self, descriptor: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        self.wasi.get_flags(descriptor).await
    }

    async fn get_type(&mut self, descriptor: Resource<Descriptor>) -> FsResult<DescriptorType> {
        self.wasi.get_type(descriptor).await
    }

    async fn set_times(
        &mut self,
        descriptor: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.wasi.set_times(descriptor, accessed, modified).await
    }

    async fn read(
        &mut self,
        descriptor: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        self.wasi.read(descriptor, length, offset).await
    }

    async fn sync(&mut self, descriptor: Resource<Descriptor>) -> FsResult<()> {
        self.wasi.sync(descriptor).await
    }

    async fn stat(&mut self, descriptor: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        self.wasi.stat(descriptor).await
    }

    async fn stat_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        check_path(&path)?;
        self.wasi.stat_at(descriptor, flags, path).await
    }

    async fn readlink_at(&mut self, descriptor: Resource<Descriptor>, path: String) -> FsResult<String> {
        check_path(&path)?;
        self.wasi.readlink_at(descriptor, path).await
    }

    async fn remove_directory_at(&mut self, descriptor: Resource<Descriptor>, path: String) -> FsResult<()> {
        check_path(&path)?;
        self.wasi.remove_directory_at(descriptor, path).await
    }

    async fn unlink_file_at(&mut self, descriptor: Resource<Descriptor>, path: String) -> FsResult<()> {
        check_path(&path)?;
        self.wasi.unlink_file_at(descriptor, path).await
    }

    async fn is_same_object(
        &mut self,
        descriptor: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        self.wasi.is_same_object(descriptor, other).await
    }

    async fn metadata_hash(&mut self, descriptor: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        self.wasi.metadata_hash(descriptor).await
    }

    async fn metadata_hash_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        check_path(&path)?;
        self.wasi.metadata_hash_at(descriptor, flags, path).await
    }
}

impl FilesView<'_> {
    fn writer(&mut self, descriptor: &Resource<Descriptor>, at: At) -> FsResult<Resource<DynOutputStream>> {
        let (file, account) = self.writable(descriptor)?;
        let permits = self.stream_room(descriptor)?;
        let writer: DynOutputStream = Box::new(Writer::new(file.file, account, at, permits));
        Ok(self.wasi.table.push(writer)?)
    }
}

impl HostDirectoryEntryStream for FilesView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let entries: Resource<Entries> = Resource::new_borrow(stream.rep());
        self.wasi.table.get_mut(&entries)?.next().await.map_err(refusal)
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let entries: Resource<Entries> = Resource::new_own(stream.rep());
        self.wasi.table.delete(entries)?;
        Ok(())
    }
}
