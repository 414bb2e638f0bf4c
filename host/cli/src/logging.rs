//! The log: its filter and its format. Lines go to the queue of standard error.

use std::fmt;
use std::io::{self, Write};

use clap::ValueEnum;
use jiff::Zoned;
use tracing::Metadata;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use super::escape;
use super::log_rate::LogRateLimiter;
use super::messages::Messages;
use super::stderr::Stderr;

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines for people
    Text,
    /// A JSON object per line
    Json,
}

/// The time of a line for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTimes {
    /// The date and the time to a microsecond (UTC), for files.
    Full,
    /// The local time of day, for a terminal that is watched.
    Short,
}

impl FormatTime for LogTimes {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        match self {
            Self::Full => SystemTime.format_time(writer),
            Self::Short => write!(writer, "{}", Zoned::now().strftime("%H:%M:%S")),
        }
    }
}

/// Parses a filter: levels, each for everything or, as `TARGET=LEVEL`, for one target.
///
/// The engine, and `hnsw_rs`, the approximate index of vectors, are not logged unless the filter names
/// them. The library of file system events,
/// `notify`, logs each event at `trace`: a log file in a watched directory would grow by its own events, so without a name in
/// the filter it is logged up to `debug`.
pub(super) fn filter(text: &str) -> Result<Targets, String> {
    let mut targets = Targets::new();
    if !text.contains("wasmtime") {
        // What the engine warns of is what guests do, as often as they like: its faults are logged by the plugin's name.
        targets = targets.with_target("wasmtime", LevelFilter::OFF);
    }
    if !text.contains("hnsw_rs") {
        // It logs each graph that is made or dropped.
        targets = targets.with_target("hnsw_rs", LevelFilter::OFF);
    }
    let targets = text.split(',').try_fold(targets, |targets, part| {
        Ok::<_, String>(match part.split_once('=') {
            Some((target, name)) => targets.with_target(target.trim(), level(name)?),
            None => targets.with_default(level(part)?),
        })
    })?;
    let logs_events = targets.default_level() == Some(LevelFilter::TRACE) && !text.contains("notify");
    Ok(if logs_events { targets.with_target("notify", LevelFilter::DEBUG) } else { targets })
}

fn level(name: &str) -> Result<LevelFilter, String> {
    let name = name.trim();
    // The numbers that tracing takes as well are not documented.
    let parsed = name.parse().ok().filter(|_| name.starts_with(|c: char| c.is_ascii_alphabetic()));
    parsed.ok_or_else(|| {
        format!(
            "`{name}` is not a level; write off, error, warn, info, debug or trace, or TARGET=LEVEL for one part, \
             separated by commas: `info,mcp_host::guest=debug`"
        )
    })
}

/// The filter of the log, which administrators of a server can change.
#[derive(Debug)]
pub(super) struct LogFilter {
    configured: Targets,
    text: String,
    handle: Handle<Targets, Registry>,
}

impl mcp_host_server::LogFilter for LogFilter {
    fn configured(&self) -> &str {
        &self.text
    }

    fn set(&self, text: &str) -> Result<(), String> {
        let targets = if text == self.text { self.configured.clone() } else { filter(text)? };
        self.handle.reload(targets).map_err(|error| error.to_string())
    }
}

/// Starts logging, and returns the filter.
pub(super) fn start(filter: &Targets, format: Format, times: LogTimes, messages: &Messages) -> LogFilter {
    let stderr = messages.writer().clone();
    let writer = LogWriter { rate: LogRateLimiter::new(stderr.clone()), stderr, is_json: format == Format::Json };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer = match format {
        Format::Text => layer.with_timer(times).with_ansi(messages.is_colored()).boxed(),
        Format::Json => layer.with_ansi(false).json().flatten_event(true).boxed(),
    };
    let (reloadable, handle) = reload::Layer::new(filter.clone());
    // It fails where this process has a logger already, which is then the one.
    let _ = tracing_subscriber::registry().with(layer.with_filter(reloadable)).try_init();
    LogFilter { configured: filter.clone(), text: filter.to_string(), handle }
}

/// Puts lines of the log into the queue of standard error.
#[derive(Debug)]
struct LogWriter {
    stderr: Stderr,
    rate: LogRateLimiter,
    is_json: bool,
}

/// One line, or none if it is rate limited.
struct LineWriter<'w>(Option<&'w LogWriter>);

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = LineWriter<'w>;

    fn make_writer(&'w self) -> LineWriter<'w> {
        LineWriter(Some(self))
    }

    fn make_writer_for(&'w self, metadata: &Metadata<'_>) -> LineWriter<'w> {
        LineWriter(self.rate.admits(metadata).then_some(self))
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(log) = self.0 {
            let text = String::from_utf8_lossy(bytes);
            log.stderr.write(escape::log_line(&text, log.is_json).into_owned().into_bytes());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_is_for_everything_but_some_libraries() {
        let filter = filter("info").unwrap();
        assert!(filter.would_enable("mcp_host::plugin", &Level::INFO));
        assert!(filter.would_enable("mcp_host::guest", &Level::INFO));
        assert!(!filter.would_enable("mcp_host::plugin", &Level::DEBUG));
        assert!(!filter.would_enable("wasmtime::runtime", &Level::ERROR));
        assert!(!filter.would_enable("hnsw_rs::hnsw", &Level::INFO));
    }

    #[test]
    fn one_part_can_have_a_level_of_its_own() {
        let filter = filter("warn, mcp_host::guest=debug,wasmtime=trace").unwrap();
        assert!(filter.would_enable("mcp_host::guest", &Level::DEBUG));
        assert!(!filter.would_enable("mcp_host::plugin", &Level::INFO));
        assert!(filter.would_enable("wasmtime::runtime", &Level::TRACE));
    }

    #[test]
    fn events_of_files_are_logged_only_if_the_filter_names_their_library() {
        for (text, level, is_enabled) in [
            ("trace", Level::TRACE, false),
            ("trace", Level::DEBUG, true),
            ("mcp_host=debug,trace", Level::TRACE, false),
            ("trace,notify=trace", Level::TRACE, true),
            ("info", Level::DEBUG, false),
        ] {
            let filter = filter(text).unwrap();
            assert_eq!(filter.would_enable("notify::inotify", &level), is_enabled, "{text} {level}");
        }
        assert!(filter("trace").unwrap().would_enable("mcp_host::watch", &Level::TRACE));
    }

    #[test]
    fn the_log_can_be_off() {
        assert!(!filter("off").unwrap().would_enable("mcp_host", &Level::ERROR));
    }

    #[test]
    fn a_mistyped_level_is_an_error_that_says_what_to_write() {
        for text in ["inof", "", "5", "warn,wasmtime=5", "info,mcp_host::guest=loud", "mcp_host", "info,"] {
            let error = filter(text).unwrap_err();
            assert!(error.contains("TARGET=LEVEL"), "{text}: {error}");
        }
    }
}
