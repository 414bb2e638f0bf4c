//! Standard output and standard error of one instance, split into lines.
//!
//! All handles of a guest to the same stream share one buffer, so a guest may open any number of them, and a line may
//! be written in several pieces. A write is complete when it returns, without a wait or a task, and one write takes at
//! most [`MAX_WRITE`] bytes.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::{GuestLog, MAX_LINE, Records};
use crate::bindings::logging::Level;

/// The maximum size of one write in bytes.
const MAX_WRITE: usize = 8 << 10;

/// The standard streams of one instance.
pub(crate) struct GuestStreams {
    /// Logged at level `debug`.
    pub(crate) stdout: GuestStream,
    /// Logged at level `warn`: panic messages go there.
    pub(crate) stderr: GuestStream,
}

impl GuestStreams {
    /// Creates streams into this log.
    pub(crate) fn new(log: &Arc<GuestLog>) -> Self {
        let stream = |is_stderr| {
            GuestStream(Arc::new(Mutex::new(LineBuffer {
                log: log.clone(),
                is_stderr,
                partial: Vec::new(),
                records: Records::default(),
            })))
        };
        Self { stdout: stream(false), stderr: stream(true) }
    }
}

/// A standard stream of a guest.
#[derive(Clone)]
pub(crate) struct GuestStream(Arc<Mutex<LineBuffer>>);

impl GuestStream {
    fn push(&self, bytes: &[u8]) {
        self.0.lock().push(bytes);
    }

    /// Logs the held part of a record at the end of the call.
    pub(crate) fn end_record(&self) {
        self.0.lock().end_record();
    }
}

impl IsTerminal for GuestStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestStream {
    /// Only WASI 0.3 uses this function, and it is not linked.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for GuestStream {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for GuestStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > MAX_WRITE {
            return Err(StreamError::trap("wrote more than `check-write` allowed"));
        }
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE)
    }
}

/// Splits a stream of bytes into lines. The last one needs no line feed.
struct LineBuffer {
    log: Arc<GuestLog>,
    is_stderr: bool,
    /// The beginning of a line. It has at most one byte more than [`MAX_LINE`], which shows that the line is longer.
    partial: Vec<u8>,
    /// Assembles tracebacks on standard error.
    records: Records,
}

impl LineBuffer {
    fn end_record(&mut self) {
        if let Some(record) = self.records.finish() {
            self.log.error_record(record);
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return self.append(bytes) };
        let (lines, rest) = bytes.split_at_checked(end).unwrap_or((bytes, b""));
        let (first, others) = match lines.iter().position(|byte| *byte == b'\n') {
            Some(end) => lines.split_at_checked(end).unwrap_or((lines, b"")),
            None => (lines, b"".as_slice()),
        };
        self.append(first);
        self.flush_line();
        let others = others.strip_prefix(b"\n").unwrap_or(others);
        self.log(others);
        self.append(rest.strip_prefix(b"\n").unwrap_or(rest));
    }

    fn append(&mut self, bytes: &[u8]) {
        let capacity = MAX_LINE.saturating_add(1).saturating_sub(self.partial.len());
        self.partial.extend(bytes.iter().take(capacity));
    }

    fn flush_line(&mut self) {
        let mut line = std::mem::take(&mut self.partial);
        // The line feed makes an empty line cost as much of the allowance as in a message.
        line.push(b'\n');
        self.log(&line);
    }

    fn log(&mut self, lines: &[u8]) {
        let lines = String::from_utf8_lossy(lines);
        if !self.is_stderr {
            return self.log.message(Level::Debug, "", &lines);
        }
        self.log.keep_error_lines(&lines);
        let mut lines = &*lines;
        if self.records.are_plain(lines) {
            let whole = lines.strip_suffix('\n').unwrap_or(lines);
            let end = whole.rfind('\n').map_or(0, |end| end.saturating_add(1));
            let (others, last) = lines.split_at_checked(end).unwrap_or((lines, ""));
            // Logged as one message, whose lines beyond the allowance cost nothing.
            if !others.is_empty() {
                self.end_record();
                self.log.message(Level::Warn, "", others);
            }
            lines = last;
        }
        for record in lines.lines().flat_map(|line| self.records.push(Level::Warn, "", line)) {
            self.log.error_record(record);
        }
    }
}

impl Drop for LineBuffer {
    fn drop(&mut self) {
        if !self.partial.is_empty() {
            self.flush_line();
        }
        self.end_record();
    }
}
