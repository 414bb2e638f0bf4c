//! What guests say, in the host's log: `wasi:logging`, standard output and standard error.
//!
//! Each line is one event under the target `mcp_host::guest`, with the plugin's name. Lines are cut at [`MAX_LINE`], control
//! characters are escaped, and each plugin has an allowance of bytes a minute (`limits.log`): what is over it is dropped,
//! and one line says how much.

use std::io;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};

use super::bindings::logging::Level;

/// Bytes of one line that are kept.
const MAX_LINE: usize = 1024;

/// One plugin's way into the log.
#[derive(Debug)]
pub(super) struct GuestLog {
    plugin: Arc<str>,
    allowance: DefaultDirectRateLimiter,
    dropped: AtomicU64,
}

impl GuestLog {
    /// A log for that plugin with an allowance of bytes a minute.
    pub(super) fn new(plugin: Arc<str>, bytes_per_minute: u64) -> Arc<Self> {
        let bytes_per_minute = u32::try_from(bytes_per_minute).unwrap_or(u32::MAX);
        let bytes_per_minute = NonZeroU32::new(bytes_per_minute).unwrap_or(NonZeroU32::MIN);
        let allowance = RateLimiter::direct(Quota::per_minute(bytes_per_minute));
        Arc::new(Self { plugin, allowance, dropped: AtomicU64::new(0) })
    }

    /// Writes one line, if there is allowance left for it.
    pub(super) fn line(&self, level: Level, context: &str, line: &str) {
        let shown = clip(line);
        let context = clip(context);
        let cost = u32::try_from(shown.len().saturating_add(context.len())).unwrap_or(u32::MAX);
        let cost = NonZeroU32::new(cost).unwrap_or(NonZeroU32::MIN);
        if !matches!(self.allowance.check_n(cost), Ok(Ok(()))) {
            if self.dropped.fetch_add(line.len() as u64, Ordering::Relaxed) == 0 {
                tracing::warn!(
                    target: "mcp_host::guest", plugin = %self.plugin,
                    "this plugin logs more than `limits.log` allows: lines are being dropped"
                );
            }
            return;
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(target: "mcp_host::guest", plugin = %self.plugin, dropped, "bytes of this plugin's log were dropped");
        }
        self.emit(level, &context, &shown);
    }

    fn emit(&self, level: Level, context: &str, line: &str) {
        let plugin = &*self.plugin;
        // The level of a tracing event is part of its call site.
        macro_rules! event {
            ($level:ident) => {
                if context.is_empty() {
                    tracing::$level!(target: "mcp_host::guest", plugin, "{line}")
                } else {
                    tracing::$level!(target: "mcp_host::guest", plugin, context, "{line}")
                }
            };
        }
        match level {
            Level::Trace => event!(trace),
            Level::Debug => event!(debug),
            Level::Info => event!(info),
            Level::Warn => event!(warn),
            Level::Error | Level::Critical => event!(error),
        }
    }
}

/// The line as it may stand in a log: short, and with nothing in it that moves a terminal's cursor.
fn clip(line: &str) -> String {
    let mut shown = String::new();
    for character in line.chars() {
        if shown.len() >= MAX_LINE {
            shown.push('…');
            break;
        }
        if character.is_control() && character != '\t' {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A standard stream of a guest.
#[derive(Clone)]
pub(super) struct GuestStream {
    log: Arc<GuestLog>,
    level: Level,
}

impl GuestStream {
    /// Standard output: what is said there is worth a `debug`.
    pub(super) fn stdout(log: Arc<GuestLog>) -> Self {
        Self { log, level: Level::Debug }
    }

    /// Standard error, where a panic's message goes: a `warn`.
    pub(super) fn stderr(log: Arc<GuestLog>) -> Self {
        Self { log, level: Level::Warn }
    }
}

impl IsTerminal for GuestStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(Lines { stream: self.clone(), partial: Vec::new() })
    }
}

/// Cuts a stream of bytes into lines. The last one needs no line feed.
struct Lines {
    stream: GuestStream,
    partial: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE.saturating_sub(self.partial.len());
            self.partial.extend(piece.iter().take(room).filter(|byte| **byte != b'\n'));
            if piece.last() == Some(&b'\n') {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.stream.log.line(self.stream.level, "", &String::from_utf8_lossy(&line));
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.end_line();
    }
}

impl AsyncWrite for Lines {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
