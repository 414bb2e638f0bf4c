//! A bound on what a server sends before its response.
//!
//! A server may send informational responses (1xx) before the final one, as many as it likes (RFC 9110, section 15.2), and the
//! client library reads and drops them. So the bytes that are received before the final response are counted: a connection
//! on which there are too many fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::counted_stream::StreamCounter;

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
