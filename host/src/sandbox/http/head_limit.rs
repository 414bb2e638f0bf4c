//! A bound on what a server sends before its response.
//!
//! A server may send informational responses (1xx) before the final one, as many as it likes (RFC 9110, section 15.2), and the
//! client library reads and drops them. So the bytes that are received before the final response are counted: a connection
//! on which there are too many fails.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connect::IoStream;

/// What is left of the bytes that may arrive before the final response.
#[derive(Debug)]
pub(super) struct HeadLimit {
    remaining: AtomicUsize,
    has_response: AtomicBool,
    is_exceeded: AtomicBool,
}

impl HeadLimit {
    /// A limit of that many bytes.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            remaining: AtomicUsize::new(bytes),
            has_response: AtomicBool::new(false),
            is_exceeded: AtomicBool::new(false),
        })
    }

    /// Ends the limit: the final response has arrived.
    pub(super) fn lift(&self) {
        self.has_response.store(true, Ordering::Relaxed);
    }

    /// Whether the connection failed for it.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        if self.has_response.load(Ordering::Relaxed) {
            return Ok(());
        }
        let counted =
            self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| remaining.checked_sub(bytes));
        counted.map(drop).map_err(|_| {
            self.is_exceeded.store(true, Ordering::Relaxed);
            io::Error::new(io::ErrorKind::InvalidData, "too much before the response")
        })
    }
}

/// A connection with that limit.
pub(super) struct LimitedHead {
    pub(super) stream: Box<dyn IoStream>,
    pub(super) limit: Arc<HeadLimit>,
}

impl AsyncRead for LimitedHead {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.limit.count(buffer.filled().len().saturating_sub(before)))
    }
}

impl AsyncWrite for LimitedHead {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
