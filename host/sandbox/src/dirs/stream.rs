//! Input and output streams of a file's content.
//!
//! Both hold the file's permits for as long as they exist, run their operations on threads that may block, and have one
//! operation at a time in flight, of at most [`MAX_CHUNK`] bytes. A read is attempted without blocking first
//! ([`nonblocking`]). A [`Writer`] charges its writes to the quota.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::disk::DiskPool;
use super::files::StreamPermits;
use super::nonblocking;
use super::quota::QuotaHandle;
use super::write::{self, WriteAt};
use crate::host_calls;

/// The maximum size of one operation, equal to wasmtime-wasi's.
pub(super) const MAX_CHUNK: usize = 64 << 10;

/// An input stream of a file.
pub(super) struct Reader {
    file: Arc<File>,
    /// Whether a read can be attempted without blocking.
    is_local: bool,
    disk: DiskPool,
    position: u64,
    state: ReadState,
    _permits: StreamPermits,
}

enum ReadState {
    Idle,
    Pending(AbortOnDropHandle<Self>),
    Read(Bytes),
    Failed(io::Error),
    Closed,
}

/// The number of bytes that are read ahead when a guest waits for the stream to be ready.
const READ_AHEAD: usize = 4096;

impl Reader {
    /// Creates a stream that reads from `position`.
    pub(super) fn new(file: Arc<File>, is_local: bool, disk: DiskPool, position: u64, permits: StreamPermits) -> Self {
        Self { file, is_local, disk, position, state: ReadState::Idle, _permits: permits }
    }

    /// Attempts to read a chunk without blocking.
    fn try_read_chunk(&self, size: usize) -> Option<ReadState> {
        if !self.is_local {
            return None;
        }
        let bytes = nonblocking::read_at(&self.file, size.min(MAX_CHUNK), self.position)?;
        Some(if bytes.is_empty() { ReadState::Closed } else { ReadState::Read(bytes.into()) })
    }

    /// Reads a chunk. Once started, the read runs to completion, even if the caller stops waiting.
    fn read_chunk(&self, size: usize) -> impl Future<Output = ReadState> + Send + use<> {
        let (file, disk, position) = (self.file.clone(), self.disk.clone(), self.position);
        async move { disk.run(move || Ok(read_blocking(&file, position, size))).await.unwrap_or_else(ReadState::Failed) }
    }

    fn start_read(&mut self, size: usize) {
        self.state = self
            .try_read_chunk(size)
            .unwrap_or_else(|| ReadState::Pending(AbortOnDropHandle::new(tokio::spawn(self.read_chunk(size)))));
    }

    async fn finish_read(&mut self) {
        if let ReadState::Pending(reading) = &mut self.state {
            self.state = reading.await.unwrap_or_else(|error| ReadState::Failed(io::Error::other(error)));
        }
    }
}

fn read_blocking(file: &File, position: u64, size: usize) -> ReadState {
    let mut bytes = vec![0; size.min(MAX_CHUNK)];
    loop {
        match file.read_at(&mut bytes, position) {
            Ok(0) => return ReadState::Closed,
            Ok(read) => {
                bytes.truncate(read);
                return ReadState::Read(bytes.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return ReadState::Failed(error),
        }
    }
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        match &mut self.state {
            ReadState::Idle if size == 0 => Ok(Bytes::new()),
            ReadState::Idle => {
                self.start_read(size);
                match self.state {
                    ReadState::Pending(_) => Ok(Bytes::new()),
                    _ => self.read(size),
                }
            }
            ReadState::Pending(_) => Ok(Bytes::new()),
            ReadState::Read(bytes) => {
                let given = bytes.split_to(size.min(bytes.len()));
                host_calls::transferred(given.len());
                self.position = self.position.saturating_add(given.len() as u64);
                if bytes.is_empty() {
                    self.state = ReadState::Idle;
                }
                Ok(given)
            }
            ReadState::Failed(_) | ReadState::Closed => match mem::replace(&mut self.state, ReadState::Closed) {
                ReadState::Failed(error) => Err(StreamError::LastOperationFailed(error.into())),
                _ => Err(StreamError::Closed),
            },
        }
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.finish_read().await;
        if matches!(self.state, ReadState::Idle) && size > 0 {
            self.state = match self.try_read_chunk(size) {
                Some(read) => read,
                None => self.read_chunk(size).await,
            };
        }
        self.read(size)
    }

    async fn cancel(&mut self) {
        // A read cannot be cancelled. If the guest did not wait here, it could accumulate any number of reads.
        self.finish_read().await;
        self.state = ReadState::Closed;
    }
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        if matches!(self.state, ReadState::Idle) {
            self.start_read(READ_AHEAD);
        }
        self.finish_read().await;
    }
}

/// An output stream of a file.
pub(super) struct Writer {
    file: Arc<File>,
    quota: QuotaHandle,
    at: WriteAt,
    state: WriteState,
    _permits: StreamPermits,
}

enum WriteState {
    Ready,
    Writing(AbortOnDropHandle<io::Result<()>>),
    Failed(io::Error),
    Closed,
}

impl Writer {
    /// Creates a stream that writes at `at` and charges `quota`.
    pub(super) fn new(file: Arc<File>, quota: QuotaHandle, at: WriteAt, permits: StreamPermits) -> Self {
        Self { file, quota, at, state: WriteState::Ready, _permits: permits }
    }

    /// Writes a chunk. Once started, the write runs to completion, even if the caller stops waiting.
    fn write_chunk(&mut self, bytes: Bytes) -> impl Future<Output = io::Result<()>> + Send + use<> {
        host_calls::transferred(bytes.len());
        let (file, quota, at) = (self.file.clone(), self.quota.clone(), self.at);
        if let WriteAt::Offset(offset) = &mut self.at {
            *offset = offset.saturating_add(bytes.len() as u64);
        }
        async move { quota.grow(move |guard| write::write_all(&file, guard, &bytes, at)).await }
    }

    /// Returns the error of the last write once; the stream is closed from then on.
    fn take_error(&mut self) -> StreamError {
        match mem::replace(&mut self.state, WriteState::Closed) {
            WriteState::Failed(error) => StreamError::LastOperationFailed(error.into()),
            _ => StreamError::Closed,
        }
    }
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        match self.state {
            // One chunk's memory is reserved, so a larger write is a trap.
            WriteState::Ready if bytes.len() > MAX_CHUNK => {
                Err(StreamError::trap("wrote more than `check-write` allowed"))
            }
            WriteState::Ready => {
                let writing = tokio::spawn(self.write_chunk(bytes));
                self.state = WriteState::Writing(AbortOnDropHandle::new(writing));
                Ok(())
            }
            WriteState::Writing(_) => Err(StreamError::trap("wrote without a permit of `check-write`")),
            WriteState::Failed(_) | WriteState::Closed => Err(self.take_error()),
        }
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.ready().await;
        if !matches!(self.state, WriteState::Ready) {
            return Err(self.take_error());
        }
        self.write_chunk(bytes).await.map_err(|error| {
            self.state = WriteState::Closed;
            StreamError::LastOperationFailed(error.into())
        })
    }

    fn flush(&mut self) -> StreamResult<()> {
        // There is no buffer to flush: `check-write` succeeds when everything has been written.
        self.check_write().map(drop)
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        match self.state {
            WriteState::Ready => Ok(MAX_CHUNK),
            WriteState::Writing(_) => Ok(0),
            WriteState::Failed(_) | WriteState::Closed => Err(self.take_error()),
        }
    }

    async fn cancel(&mut self) {
        // A write cannot be cancelled. If the guest did not wait here, it could accumulate any number of writes.
        if let WriteState::Writing(writing) = mem::replace(&mut self.state, WriteState::Closed) {
            let _ = writing.await;
        }
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {
        if let WriteState::Writing(writing) = &mut self.state {
            self.state = match writing.await {
                Ok(Ok(())) => WriteState::Ready,
                Ok(Err(error)) => WriteState::Failed(error),
                Err(error) => WriteState::Failed(io::Error::other(error)),
            };
        }
    }
}
