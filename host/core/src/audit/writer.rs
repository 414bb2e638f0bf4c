//! The thread that writes lines.
//!
//! The thread takes all queued lines, writes them, and then collects more for [`BATCH_INTERVAL`]. Under load, a
//! write has many lines and requests rarely wake the thread: one write costs more than encoding many lines.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_config::audit::Audit;

use super::file::Sink;
use super::queue::{Losses, Queue};
use super::torn_line::whole_lines;

/// The time for which lines are collected after a write.
pub(super) const BATCH_INTERVAL: Duration = Duration::from_millis(50);
/// The interval of retries after a failed write.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum size of one write. Rotation happens between writes.
const MAX_WRITE: usize = 64 << 10;
/// The maximum capacity that the buffer keeps.
const KEPT_CAPACITY: usize = 64 << 10;

/// Starts the thread. The thread ends after the queue is closed.
pub(super) fn start(queue: Arc<Queue>, sink: Option<Sink>, config: Option<Audit>) -> io::Result<()> {
    let writer = Writer { queue, sink, config, pending: Vec::new(), write_error: None, open_error: None };
    thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run()).map(drop)
}

struct Writer {
    queue: Arc<Queue>,
    /// The open destination. A new destination in the config replaces it once it can be opened.
    sink: Option<Sink>,
    config: Option<Audit>,
    /// Lines that have not been written.
    pending: Vec<u8>,
    /// Why the last write failed, if it did.
    write_error: Option<String>,
    /// Why the destination of the config cannot be opened, if it cannot.
    open_error: Option<String>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let retry_after = (self.write_error.is_some() || self.open_error.is_some()).then_some(RETRY_INTERVAL);
            let work = self.queue.next(&mut self.pending, retry_after);
            if let Some(config) = work.config {
                self.config = config;
                self.open_error = None;
            }
            self.open();
            let has_recovered = self.write();
            if self.config.is_none() {
                self.turn_off();
            }
            self.queue.written(self.write_error.as_deref(), self.pending.len());
            // Logged after requests succeed again, so that a reader of the log can rely on the event.
            if has_recovered {
                tracing::info!(target: log_target::SERVER, "the audit log is written again");
            }
            if work.is_last {
                self.count_pending();
                log_losses(self.queue.end());
                return;
            }
            if self.write_error.is_none() {
                self.queue.collect(BATCH_INTERVAL);
            }
        }
    }

    /// Opens the destination of the config, unless it is open already.
    fn open(&mut self) {
        let Some(config) = &self.config else { return };
        if self.sink.as_mut().is_some_and(|sink| sink.reconfigure(&config.destination)) {
            self.open_error = None;
            return;
        }
        match Sink::open(&config.destination) {
            Ok(sink) => {
                self.sink = Some(sink);
                if self.open_error.take().is_some() {
                    tracing::info!(target: log_target::SERVER, "the audit log is open");
                }
            }
            Err(error) => {
                if self.open_error.replace(error.to_string()).is_none() {
                    let then = match self.sink {
                        Some(_) => "lines go to the previous destination until then",
                        None => "no line is written until then",
                    };
                    tracing::error!(target: log_target::SERVER, %error, "the audit log is tried again; {then}");
                }
            }
        }
    }

    /// Writes the pending lines, then the report of losses. Returns whether this is the first success after a
    /// failure.
    fn write(&mut self) -> bool {
        if self.sink.is_none() && self.config.is_none() {
            return false;
        }
        let result = self.write_pending().and_then(|()| self.report_losses());
        match result {
            Ok(()) => return self.write_error.take().is_some(),
            Err(error) => {
                // If the destination cannot be opened, that error is the better reason.
                let reason = self.open_error.clone().unwrap_or_else(|| error.to_string());
                if self.write_error.replace(reason).is_none() {
                    let on_full = self.config.as_ref().map(|config| config.on_full.name());
                    tracing::error!(
                        target: log_target::SERVER, %error, on_full,
                        "the audit log cannot be written, which is tried again; free space on its disk"
                    );
                }
            }
        }
        false
    }

    fn write_pending(&mut self) -> io::Result<()> {
        let mut done = 0;
        let result = loop {
            let rest = self.pending.get(done..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(());
            }
            // A single line is shorter than this.
            let len = if rest.len() <= MAX_WRITE { rest.len() } else { whole_lines(rest, MAX_WRITE) };
            let lines = rest.get(..len).unwrap_or(rest);
            let Some(sink) = &mut self.sink else { break Err(io::ErrorKind::NotFound.into()) };
            let (written, result) = sink.append(lines);
            done = done.saturating_add(written);
            if let Err(error) = result {
                break Err(error);
            }
        };
        self.pending.drain(..done.min(self.pending.len()));
        if self.pending.is_empty() {
            self.pending.shrink_to(KEPT_CAPACITY);
        }
        if result.is_ok() && self.sink.is_none() && self.config.is_some() {
            return Err(io::ErrorKind::NotFound.into());
        }
        result
    }

    fn report_losses(&mut self) -> io::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let Some((line, losses)) = self.queue.take_losses() else { return Ok(()) };
        let (_, result) = sink.append(&line);
        if result.is_err() {
            self.queue.return_losses(losses);
        }
        result
    }

    /// Closes the destination. Pending lines are lost.
    fn turn_off(&mut self) {
        self.count_pending();
        self.sink = None;
        self.write_error = None;
        self.open_error = None;
    }

    /// Counts pending lines as dropped.
    fn count_pending(&mut self) {
        let lines = self.pending.iter().filter(|byte| **byte == b'\n').count();
        self.queue.add_dropped_lines(u64::try_from(lines).unwrap_or(u64::MAX));
        self.pending = Vec::new();
    }
}

fn log_losses(losses: Losses) {
    let Losses { dropped_lines, refused_requests } = losses;
    if !losses.is_none() {
        tracing::warn!(
            target: log_target::SERVER, dropped_lines, refused_requests,
            "the audit log could not be written to the end"
        );
    }
}
