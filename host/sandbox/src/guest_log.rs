//! Guests' log messages in the host's log: `wasi:logging`, standard output and standard error.
//!
//! Each line is one event under the target `mcp_host::guest`, with the plugin's name, escaped by
//! [`mcp_host_base::escape`]; the lines of a traceback are one event ([`records`]). The amount of messages is up to the
//! guest, so the cost of each is bounded before any work is done for it:
//!
//! | resource | bound |
//! |---|---|
//! | lines below the log level | the level filter comes first: such lines cost one check, and nothing of the allowance |
//! | bytes per minute, of all instances of the plugin | `limits.log`; a line costs its length, and at least [`MIN_COST`], empty ones too |
//! | one line, and its context | truncated to [`MAX_LINE`] and [`MAX_CONTEXT`] |
//! | one message | its first [`MAX_MESSAGE`] bytes and [`MAX_LINES`] lines are read |
//! | dropped lines | the rest of a message is dropped in one step, with the first line that exceeds the allowance |
//!
//! The last lines are kept for administrators ([`GuestLog::recent`]).
//!
//! One line per [`LOG_INTERVAL`] reports the dropped bytes. Repeated warnings are throttled ([`repeats`]), except for
//! the author of a provider, who wants to see each.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use mcp_host_base::escape;
use mcp_host_base::log_target;
use mcp_host_base::metrics::Counter;
use mcp_host_base::text::prefix;
use mcp_host_base::throttle::{Throttle, ThrottlePerReason};

use super::bindings::logging::Level;
use super::host_calls;

mod kept_lines;
mod records;
mod repeats;
mod stream;

pub use self::kept_lines::RecentLine;
use self::kept_lines::{LastErrors, RecentLines};
use self::records::Record;
pub(crate) use self::records::Records;
use self::repeats::Repeats;
pub(crate) use self::stream::{GuestStream, GuestStreams};

/// The maximum number of retained bytes of one line.
const MAX_LINE: usize = 1024;
/// The separator between the lines of one record.
const CONTINUATION: &str = "\n  | ";
/// The maximum number of retained bytes of a line's context.
const MAX_CONTEXT: usize = 128;
/// The cost of the shortest line: about the overhead of a line in the log.
const MIN_COST: usize = 32;
/// The maximum number of bytes of one message that are read.
const MAX_MESSAGE: usize = 64 << 10;
/// The maximum number of lines of one message that are read.
const MAX_LINES: usize = 256;
/// The throttle interval of the warning about dropped lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The log of one plugin.
#[derive(Debug)]
pub struct GuestLog {
    plugin: Arc<str>,
    /// The maximum cost that the allowance can ever pay.
    bytes_per_minute: NonZeroU32,
    limiter: DefaultDirectRateLimiter,
    dropped: Throttle,
    /// The dropped bytes that no warning has reported yet.
    dropped_bytes: AtomicU64,
    all_dropped_bytes: Counter,
    /// The last lines of standard error, if they are kept.
    last_errors: Option<LastErrors>,
    repeats: Repeats,
    recent: RecentLines,
}

impl GuestLog {
    /// Creates the log of a plugin with an allowance of bytes per minute.
    pub fn new(plugin: Arc<str>, bytes_per_minute: u64) -> Arc<Self> {
        Arc::new(Self::without_last_errors(plugin, bytes_per_minute))
    }

    /// Creates a log that also keeps the last lines of standard error, for the author of the provider.
    pub fn keeping_last_errors(plugin: Arc<str>, bytes_per_minute: u64) -> Arc<Self> {
        let log = Self::without_last_errors(plugin, bytes_per_minute);
        Arc::new(Self { last_errors: Some(LastErrors::default()), ..log })
    }

    fn without_last_errors(plugin: Arc<str>, bytes_per_minute: u64) -> Self {
        let bytes_per_minute = u32::try_from(bytes_per_minute).unwrap_or(u32::MAX);
        let bytes_per_minute = NonZeroU32::new(bytes_per_minute).unwrap_or(NonZeroU32::MIN);
        let allowance = RateLimiter::direct(Quota::per_minute(bytes_per_minute));
        let (dropped, dropped_bytes) = (Throttle::new(LOG_INTERVAL), AtomicU64::new(0));
        Self {
            plugin,
            bytes_per_minute,
            limiter: allowance,
            dropped,
            dropped_bytes,
            all_dropped_bytes: Counter::default(),
            last_errors: None,
            repeats: Repeats::default(),
            recent: RecentLines::default(),
        }
    }

    /// Takes the last lines of standard error since the previous call, escaped and bounded. Empty if they are not kept.
    pub(crate) fn take_last_errors(&self) -> Vec<String> {
        self.last_errors.as_ref().map(LastErrors::take).unwrap_or_default()
    }

    /// Returns the most recently logged lines, oldest first: at most 64 lines of 16 KiB in total.
    pub fn recent(&self) -> Vec<RecentLine> {
        self.recent.lines()
    }

    /// Adds a line that is logged elsewhere to the [`recent`](Self::recent) ones.
    pub fn keep_recent(&self, level: &'static str, line: String) {
        self.recent.push(level, line, 1);
    }

    /// The number of dropped bytes.
    pub fn dropped(&self) -> u64 {
        self.all_dropped_bytes.get()
    }

    /// Keeps lines of standard error for the author of the provider.
    fn keep_error_lines(&self, lines: &str) {
        if let Some(last) = &self.last_errors {
            last.push(lines);
        }
        host_calls::wrote_errors(lines);
    }

    /// Logs a message of `wasi:logging`. A repeated warning is throttled, and logged with the number of occurrences.
    pub(crate) fn guest_message(&self, level: Level, context: &str, message: &str) {
        if level != Level::Warn || self.last_errors.is_some() || !is_enabled(level) {
            return self.message(level, context, message);
        }
        if let Some(times) = self.repeats.record(context, prefix(message, MAX_MESSAGE)) {
            self.repeated_message(level, context, message, times);
        }
    }

    /// Logs a record of a guest: a line, or a traceback.
    pub(crate) fn record(&self, Record { level, context, lines }: Record) {
        if let [line] = lines.as_slice() {
            return self.guest_message(level, &context, line);
        }
        self.lines(level, &context, &lines);
    }

    /// Logs a record of standard error, without throttling of repetitions.
    fn error_record(&self, Record { level, context, lines }: Record) {
        self.lines(level, &context, &lines);
    }

    /// Logs lines that belong together as one event, as far as the allowance permits.
    fn lines(&self, level: Level, context: &str, lines: &[String]) {
        if !is_enabled(level) {
            return;
        }
        let mut admitted = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            if !self.admit(context, line) {
                let dropped = lines.iter().skip(index).map(String::len).fold(0, usize::saturating_add);
                self.record_dropped(dropped);
                break;
            }
            admitted.push(line.trim_end_matches('\r'));
        }
        self.emit(level, context, &admitted, 1);
    }

    /// Logs the lines of a message, as far as the allowance permits.
    fn message(&self, level: Level, context: &str, message: &str) {
        self.repeated_message(level, context, message, 1);
    }

    /// Logs the lines of a message that occurred this number of times, as far as the allowance permits.
    fn repeated_message(&self, level: Level, context: &str, message: &str, times: u64) {
        if !is_enabled(level) {
            return;
        }
        let mut rest = message;
        let (mut bytes, mut lines) = (MAX_MESSAGE, MAX_LINES);
        while !rest.is_empty() {
            // A line that continues beyond the part that is read is the last one.
            let seen = prefix(rest, bytes);
            let length = seen.find('\n').map_or(seen.len(), |end| end.saturating_add(1));
            if lines == 0 || length == 0 || !self.admit(context, prefix(seen, length)) {
                return self.record_dropped(rest.len());
            }
            let (line, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
            self.emit(level, context, &[line.trim_end_matches(['\r', '\n'])], times);
            rest = behind;
            bytes = bytes.saturating_sub(length);
            lines = lines.saturating_sub(1);
        }
    }

    /// Logs a line that a program wrote on standard error, if the allowance suffices. Administrators see it at any log
    /// level.
    pub fn program_line(&self, line: &str) {
        match self.admit("", line) {
            true => self.emit(Level::Info, "", &[line], 1),
            false => self.record_dropped(line.len()),
        }
    }

    /// Logs one line that occurred this number of times, if the allowance suffices.
    fn repeated_line(&self, level: Level, context: &str, line: &str, times: u64) {
        if !is_enabled(level) {
            return;
        }
        match self.admit(context, line) {
            true => self.emit(level, context, &[line], times),
            false => self.record_dropped(line.len()),
        }
    }

    /// Takes the cost of a line that is logged under another target from the allowance. Returns the truncated and
    /// escaped line, or none if it is dropped.
    pub fn admit_line(&self, line: &str) -> Option<String> {
        if self.admit("", line) {
            self.report_dropped();
            Some(sanitize(line, MAX_LINE))
        } else {
            self.record_dropped(line.len());
            None
        }
    }

    /// Takes the cost of a line from the allowance.
    fn admit(&self, context: &str, line: &str) -> bool {
        let cost = line.len().min(MAX_LINE).saturating_add(context.len().min(MAX_CONTEXT)).max(MIN_COST);
        let cost = u32::try_from(cost).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        matches!(self.limiter.check_n(cost.min(self.bytes_per_minute)), Ok(Ok(())))
    }

    /// Counts dropped bytes.
    fn record_dropped(&self, bytes: usize) {
        self.dropped_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.all_dropped_bytes.add(bytes as u64);
        if let Some(suppressed) = self.dropped.record() {
            self.warn_of_dropped(suppressed.saturating_add(1));
        }
    }

    fn warn_of_dropped(&self, lines: u64) {
        let bytes = self.dropped_bytes.swap(0, Ordering::Relaxed);
        tracing::warn!(
            target: log_target::GUEST, plugin = &*self.plugin, lines, bytes,
            "this plugin logs more than `limits.log` allows: lines are being dropped"
        );
    }

    /// Logs the number of dropped bytes, if a report is due.
    fn report_dropped(&self) {
        if let Some(suppressed) = self.dropped.overdue() {
            self.warn_of_dropped(suppressed);
        }
    }

    /// Logs lines as one event, with the number of their occurrences. All lines but the first are marked, so that none
    /// poses as a separate event.
    fn emit(&self, level: Level, context: &str, lines: &[&str], times: u64) {
        self.report_dropped();
        if lines.iter().all(|line| line.is_empty()) {
            return;
        }
        let plugin = &*self.plugin;
        let context = sanitize(context, MAX_CONTEXT);
        let lines: Vec<_> = lines.iter().map(|line| sanitize(line, MAX_LINE)).collect();
        let mut line = lines.join(CONTINUATION);
        if times > 1 {
            line = format!("{line} ({times} times)");
        }
        // The level of a tracing event is part of its call site.
        macro_rules! event {
            ($level:ident) => {
                if context.is_empty() {
                    tracing::$level!(target: log_target::GUEST, plugin, "{line}")
                } else {
                    tracing::$level!(target: log_target::GUEST, plugin, context, "{line}")
                }
            };
        }
        let name = match level {
            Level::Trace => {
                event!(trace);
                "trace"
            }
            Level::Debug => {
                event!(debug);
                "debug"
            }
            Level::Info => {
                event!(info);
                "info"
            }
            Level::Warn => {
                event!(warn);
                "warn"
            }
            Level::Error | Level::Critical => {
                event!(error);
                "error"
            }
        };
        for line in lines {
            let line = if context.is_empty() { line } else { format!("{context}: {line}") };
            self.recent.push(name, line, times);
        }
    }
}

/// Whether guests' messages of this level are logged.
fn is_enabled(level: Level) -> bool {
    // The level must be known at compile time, as for an event.
    match level {
        Level::Trace => tracing::enabled!(target: log_target::GUEST, tracing::Level::TRACE),
        Level::Debug => tracing::enabled!(target: log_target::GUEST, tracing::Level::DEBUG),
        Level::Info => tracing::enabled!(target: log_target::GUEST, tracing::Level::INFO),
        Level::Warn => tracing::enabled!(target: log_target::GUEST, tracing::Level::WARN),
        Level::Error | Level::Critical => tracing::enabled!(target: log_target::GUEST, tracing::Level::ERROR),
    }
}

/// A text for the log: at most `bytes` bytes of it, escaped except for tabs.
fn sanitize(text: &str, bytes: usize) -> String {
    let kept = prefix(text, bytes);
    let mut shown = escape::escape(kept, |c| escape::is_unsafe(c) && c != '\t').into_owned();
    if kept.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;

/// The minimum interval between two lines of one warning.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The warnings about one part of a plugin, each logged at most once per [`WARNING_INTERVAL`] with the number of
/// occurrences since its previous line.
#[derive(Debug)]
pub(crate) struct ThrottledWarnings {
    log: Arc<GuestLog>,
    throttle: ThrottlePerReason,
}

impl ThrottledWarnings {
    /// Creates warnings that are written to `log`.
    pub(crate) fn new(log: Arc<GuestLog>) -> Self {
        Self { log, throttle: ThrottlePerReason::new(WARNING_INTERVAL) }
    }

    /// Returns the name of the plugin.
    pub(crate) fn plugin(&self) -> &str {
        &self.log.plugin
    }

    /// Records one occurrence of this reason, and logs `message` unless the warning is throttled.
    pub(crate) fn warn(&self, reason: &'static str, message: impl Display) {
        if let Some(times) = self.record(reason) {
            self.log.repeated_line(Level::Warn, "", &message.to_string(), times);
        }
    }

    /// Records one occurrence of a reason that is logged elsewhere. If a line is due, returns the number of occurrences
    /// that it stands for.
    pub(crate) fn record(&self, reason: &'static str) -> Option<u64> {
        self.throttle.record(reason).map(|suppressed| suppressed.saturating_add(1))
    }
}
