//! Streams of a file's content.
//!
//! Both keep the file's permits for as long as they last, work where they may block, and have one piece at a time under way,
//! of at most [`PIECE`] bytes. A [`Writer`] charges what it writes.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::disk::Disk;
use super::files::StreamPermits;
use super::ledger::Account;
use super::write::{self, At};

/// The most that is taken at once: as much as wasmtime-wasi takes.
const PIECE: usize = 64 << 10;

/// What a stream reads from a file.
pub(super) struct Reader {
    file: Arc<File>,
    disk: Disk,
    position: u64,
    state: Reading,
    _permits: StreamPermits,
}

enum Reading {
    Idle,
    Waiting(AbortOnDropHandle<Self>),
    Read(Bytes),
    Failed(io::Error),
    Closed,
}

/// What is read when a guest waits for something to be there.
const AHEAD: usize = 4096;

impl Reader {
    /// A stream that reads from there on.
    pub(super) fn new(file: Arc<File>, disk: Disk, position: u64, permits: StreamPermits) -> Self {
        Self { file, disk, position, state: Reading::Idle, _permits: permits }
    }

    /// Reads a piece. What was begun goes on to its end, even if nobody waits for it any more.
    fn get(&self, size: usize) -> impl Future<Output = Reading> + Send + use<> {
        let (file, disk, position) = (self.file.clone(), self.disk.clone(), self.position);
        async move { disk.run(move || Ok(piece(&file, position, size))).await.unwrap_or_else(Reading::Failed) }
    }

    fn begin(&mut self, size: usize) {
        self.state = Reading::Waiting(AbortOnDropHandle::new(tokio::spawn(self.get(size))));
    }

    async fn settle(&mut self) {
        if let Reading::Waiting(reading) = &mut self.state {
            self.state = reading.await.unwrap_or_else(|error| Reading::Failed(io::Error::other(error)));
        }
    }
}

fn piece(file: &File, position: u64, size: usize) -> Reading {
    let mut bytes = vec![0; size.min(PIECE)];
    loop {
        match file.read_at(&mut bytes, position) {
            Ok(0) => return Reading::Closed,
            Ok(read) => {
                bytes.truncate(read);
                return Reading::Read(bytes.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Reading::Failed(error),
        }
    }
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        match &mut self.state {
            Reading::Idle => {
                if size > 0 {
                    self.begin(size);
                }
                Ok(Bytes::new())
            }
            Reading::Waiting(_) => Ok(Bytes::new()),
            Reading::Read(bytes) => {
                let given = bytes.split_to(size.min(bytes.len()));
                self.position = self.position.saturating_add(given.len() as u64);
                if bytes.is_empty() {
                    self.state = Reading::Idle;
                }
                Ok(given)
            }
            Reading::Failed(_) | Reading::Closed => match mem::replace(&mut self.state, Reading::Closed) {
                Reading::Failed(error) => Err(StreamError::LastOperationFailed(error.into())),
                _ => Err(StreamError::Closed),
            },
        }
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.settle().await;
        if matches!(self.state, Reading::Idle) && size > 0 {
            self.state = self.get(size).await;
        }
        self.read(size)
    }

    async fn cancel(&mut self) {
        // It cannot be stopped. A guest that had to wait for nothing could pile up any number of these.
        self.settle().await;
        self.state = Reading::Closed;
    }
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        if matches!(self.state, Reading::Idle) {
            self.begin(AHEAD);
        }
        self.settle().await;
    }
}

/// What a stream writes to a file.
pub(super) struct Writer {
    file: Arc<File>,
    account: Account,
    at: At,
    state: State,
    _permits: StreamPermits,
}

enum State {
    Ready,
    Writing(AbortOnDropHandle<io::Result<()>>),
    Failed(io::Error),
    Closed,
}

impl Writer {
    /// A stream that writes there, and charges that account.
    pub(super) fn new(file: Arc<File>, account: Account, at: At, permits: StreamPermits) -> Self {
        Self { file, account, at, state: State::Ready, _permits: permits }
    }

    /// Writes a piece. What was begun goes on to its end, even if nobody waits for it any more.
    fn put(&mut self, bytes: Bytes) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let (file, account, at) = (self.file.clone(), self.account.clone(), self.at);
        if let At::Offset(offset) = &mut self.at {
            *offset = offset.saturating_add(bytes.len() as u64);
        }
        async move { account.grow(move |turn| write::all(&file, turn, &bytes, at)).await }
    }

    /// Says once what failed; after that it is closed.
    fn failure(&mut self) -> StreamError {
        match mem::replace(&mut self.state, State::Closed) {
            State::Failed(error) => StreamError::LastOperationFailed(error.into()),
            _ => StreamError::Closed,
        }
    }
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        match self.state {
            // What may be written at once is what was reserved.
            State::Ready if bytes.len() > PIECE => Err(StreamError::trap("wrote more than `check-write` allowed")),
            State::Ready => {
                let writing = tokio::spawn(self.put(bytes));
                self.state = State::Writing(AbortOnDropHandle::new(writing));
                Ok(())
            }
            State::Writing(_) => Err(StreamError::trap("written without asking `check-write` first")),
            State::Failed(_) | State::Closed => Err(self.failure()),
        }
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.ready().await;
        if !matches!(self.state, State::Ready) {
            return Err(self.failure());
        }
        self.put(bytes).await.map_err(|error| {
            self.state = State::Closed;
            StreamError::LastOperationFailed(error.into())
        })
    }

    fn flush(&mut self) -> StreamResult<()> {
        // Nothing is kept here that could be flushed: `check-write` tells when all is written.
        self.check_write().map(drop)
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        match self.state {
            State::Ready => Ok(PIECE),
            State::Writing(_) => Ok(0),
            State::Failed(_) | State::Closed => Err(self.failure()),
        }
    }

    async fn cancel(&mut self) {
        // It cannot be stopped. A guest that had to wait for nothing could pile up any number of these.
        if let State::Writing(writing) = mem::replace(&mut self.state, State::Closed) {
            let _ = writing.await;
        }
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {
        if let State::Writing(writing) = &mut self.state {
            self.state = match writing.await {
                Ok(Ok(())) => State::Ready,
                Ok(Err(error)) => State::Failed(error),
                Err(error) => State::Failed(io::Error::other(error)),
            };
        }
    }
}
