//! A bound on the bytes that a server sends before its final response.
//!
//! A server may send any number of informational responses (1xx) before the final one (RFC 9110, section 15.2), and the
//! client library reads and drops them. So the bytes before the final response are counted, and a connection with too
//! many fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::counted_stream::StreamCounter;

/// The remaining bytes that may arrive before the final response.
#[derive(Debug)]
pub(super) struct HeadLimit {
    remaining: AtomicUsize,
    has_response: AtomicBool,
    is_exceeded: AtomicBool,
}

impl HeadLimit {
    /// Creates a limit of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            remaining: AtomicUsize::new(bytes),
            has_response: AtomicBool::new(false),
            is_exceeded: AtomicBool::new(false),
        })
    }

    /// Lifts the limit after the final response has arrived.
    pub(super) fn lift(&self) {
        self.has_response.store(true, Ordering::Relaxed);
    }

    /// Whether the connection failed because of the limit.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }
}

impl StreamCounter for HeadLimit {
    fn record_received(&self, bytes: usize) -> io::Result<()> {
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
