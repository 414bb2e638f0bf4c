//! Streams of a file's content.
//!
//! Both keep the file's permits for as long as they last. A [`Reader`] is wasmtime-wasi's own stream; a [`Writer`] charges
//! what it writes.

use std::fs::File;
use std::io;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::task::AbortOnDropHandle;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynInputStream, InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::files::StreamPermits;
use super::ledger::Account;
use super::write::{self, At};

/// The most that is taken at once: as much as wasmtime-wasi takes.
const PIECE: usize = 64 << 10;

/// What a stream reads from a file.
pub(super) struct Reader {
    inner: DynInputStream,
    _permits: StreamPermits,
}

impl Reader {
    /// That stream, with its permits.
    pub(super) fn new(inner: DynInputStream, permits: StreamPermits) -> Self {
        Self { inner, _permits: permits }
    }
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.inner.read(size)
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.inner.blocking_read(size).await
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        self.inner.ready().await;
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
