//! The log: its filter and its format. Lines go to the queue of standard error.

use std::fmt;
use std::io::{self, Write};

use clap::ValueEnum;
use jiff::Zoned;
use mcp_host_base::{log_target, trace};
use mcp_host_config::log::{Log, LogFilter, LogFilterError, LogFormat};
use mcp_resource_host::telemetry::Telemetry;
use parking_lot::Mutex;
use tracing::Metadata;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use super::diagnostics::host_calls;
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
    /// Entries of the journal of systemd
    #[value(skip)]
    Journal,
}

/// The time of a line for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTimes {
    /// The date and the time with microseconds (UTC), for files.
    Full,
    /// The local time of day, for a terminal.
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

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

/// Parses a filter from the command line or from an administrator.
pub(super) fn filter(text: &str) -> Result<LogFilter, String> {
    text.parse().map_err(|error: LogFilterError| format!("{error}; {}", error.help()))
}

/// The prefixes of this program's targets.
const OWN_TARGETS: [&str; 2] = ["mcp_host", "mcp_resource_host"];

/// Returns the targets that a filter enables.
///
/// A bare level applies to the targets of this program. Libraries are logged only if the filter names them: clients,
/// guests and origins cause their lines, at any rate and without truncation (`h2` each unexpected PING, `rustls` each
/// invalid name, the engine each fault, `rmcp` each notification of an upstream, `notify` each event of the log file
/// itself).
fn targets(filter: &LogFilter) -> Targets {
    let mut targets = Targets::new();
    for (target, level) in filter.directives() {
        // A parsed filter has valid levels only.
        let level: LevelFilter = level.parse().unwrap_or(LevelFilter::OFF);
        targets = match target {
            Some(target) => targets.with_target(target, level),
            None => OWN_TARGETS.iter().fold(targets, |targets, own| targets.with_target(*own, level)),
        };
    }
    // Exported spans are not logged. The span with the trace id is always enabled.
    targets.with_target(trace::TARGET, LevelFilter::OFF).with_target(log_target::REQUEST, LevelFilter::ERROR)
}

/// The initial settings of the log.
pub(super) struct LogSettings {
    pub(super) filter: LogFilter,
    pub(super) format: Format,
    pub(super) times: LogTimes,
    /// The filter if the config has none.
    default: LogFilter,
    /// Whether reloads of the config leave the filter unchanged.
    pub(super) is_filter_chosen: bool,
}

impl LogSettings {
    /// Combines the settings of the command line and the environment with the config's. `dev` has its own default.
    /// Without a format, the log goes to the journal if there is one.
    pub(super) fn new(
        (filter, format): (&LogFilter, Option<Format>),
        is_filter_chosen: bool,
        config: Option<&Log>,
        has_journal: bool,
    ) -> Self {
        let configured = config.and_then(|log| log.filter.clone()).filter(|_| !is_filter_chosen);
        let format = format.or_else(|| Some(config?.format?.into()));
        Self {
            filter: configured.unwrap_or_else(|| filter.clone()),
            format: format.unwrap_or(if has_journal { Format::Journal } else { Format::Text }),
            times: LogTimes::Full,
            default: filter.clone(),
            is_filter_chosen,
        }
    }
}

/// The default filter of commands that print a result: the output of programs and guests belongs in a server's log.
const COMMAND_LOG: &str = "info,mcp_host::guest=warn";

impl LogSettings {
    /// Logs output of guests and programs only from level `warn`, unless a filter is chosen.
    pub(super) fn quiet_guests(&mut self) {
        if let Some(filter) = COMMAND_LOG.parse().ok().filter(|_| !self.is_filter_chosen) {
            self.filter = filter;
        }
    }
}

/// The filter of the log. A reload of the config changes it, and administrators of a server change it for a time.
#[derive(Debug)]
pub(super) struct ReloadableFilter {
    state: Mutex<FilterState>,
    is_chosen: bool,
    default: LogFilter,
    handle: Handle<Targets, Registry>,
}

#[derive(Debug)]
struct FilterState {
    configured: LogFilter,
    /// Whether an administrator has set another filter.
    is_overridden: bool,
}

impl ReloadableFilter {
    /// Uses the filter of a reloaded config, unless the command line or the environment has one. If an administrator
    /// has set another filter, the change takes effect after that one.
    pub(super) fn configure(&self, log: &Log) {
        if self.is_chosen {
            return;
        }
        let mut state = self.state.lock();
        state.configured = log.filter.as_ref().unwrap_or(&self.default).clone();
        if !state.is_overridden {
            // The call fails if another logger of this process is in use: then there is nothing to change.
            let _ = self.handle.reload(targets(&state.configured));
        }
    }
}

impl mcp_host_server::LogFilter for ReloadableFilter {
    fn configured(&self) -> String {
        self.state.lock().configured.to_string()
    }

    fn set(&self, text: Option<&str>) -> Result<(), String> {
        let set = text.map(filter).transpose()?;
        let mut state = self.state.lock();
        state.is_overridden = set.is_some();
        let targets = targets(set.as_ref().unwrap_or(&state.configured));
        self.handle.reload(targets).map_err(|error| error.to_string())
    }
}

/// Starts the log and, if there is a collector, the spans of requests. Returns the filter of the log. With
/// `observes_calls`, host calls of providers are recorded.
pub(super) fn start(
    settings: LogSettings,
    messages: &Messages,
    telemetry: Option<&Telemetry>,
    observes_calls: bool,
) -> ReloadableFilter {
    let LogSettings { filter, format, times, default, is_filter_chosen } = settings;
    let stderr = messages.writer().clone();
    let writer = LogWriter { rate: LogRateLimiter::new(stderr.clone()), stderr, format };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer = match format {
        Format::Text => layer.with_timer(times).with_ansi(messages.is_colored()).boxed(),
        Format::Json | Format::Journal => layer.with_ansi(false).json().flatten_event(true).boxed(),
    };
    let (reloadable, handle) = reload::Layer::new(targets(&filter));
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(reloadable));
    // The call fails if this process already has a logger, which then stays. An absent layer is left out and not added
    // as `None`: that would be a layer without a filter beside filtered ones.
    let _ = match telemetry {
        Some(telemetry) => subscriber.with(telemetry.layer()).try_init(),
        None if observes_calls => subscriber.with(host_calls::layer()).try_init(),
        None => subscriber.try_init(),
    };
    let state = Mutex::new(FilterState { configured: filter, is_overridden: false });
    ReloadableFilter { state, is_chosen: is_filter_chosen, default, handle }
}

/// Puts log lines into the queue of standard error.
#[derive(Debug)]
struct LogWriter {
    stderr: Stderr,
    rate: LogRateLimiter,
    format: Format,
}

/// One line; `None` if the rate limit drops it.
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
            let line = escape::log_line(&text, log.format != Format::Text).into_owned().into_bytes();
            match log.format {
                Format::Journal => log.stderr.record(line),
                Format::Text | Format::Json => log.stderr.write(line),
            }
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
    fn a_level_is_for_the_program_and_not_for_its_libraries() {
        for text in ["info", "debug", "trace"] {
            let filter = targets(&filter(text).unwrap());
            for own in ["mcp_host::plugin", "mcp_host::guest", "mcp_host_server::http", "mcp_resource_host::host"] {
                assert!(filter.would_enable(own, &Level::INFO), "{text} {own}");
            }
            assert_eq!(filter.would_enable("mcp_host::plugin", &Level::DEBUG), text != "info");
            for library in
                ["wasmtime::runtime", "hnsw_rs::hnsw", "h2::proto::ping_pong", "rustls::msgs", "notify::inotify"]
            {
                assert!(!filter.would_enable(library, &Level::ERROR), "{text} {library}");
            }
        }
    }

    #[test]
    fn one_part_can_have_a_level_of_its_own() {
        let filter = targets(&filter("warn, mcp_host::guest=debug,wasmtime=trace,notify=info").unwrap());
        assert!(filter.would_enable("mcp_host::guest", &Level::DEBUG));
        assert!(!filter.would_enable("mcp_host::plugin", &Level::INFO));
        assert!(filter.would_enable("wasmtime::runtime", &Level::TRACE));
        assert!(filter.would_enable("notify::inotify", &Level::INFO));
        assert!(!filter.would_enable("notify::inotify", &Level::DEBUG));
    }

    #[test]
    fn lines_of_every_filter_have_the_trace_id_and_exported_spans_are_not_logged() {
        for text in ["error", "trace", "mcp_host::guest=debug", "mcp_host=trace"] {
            let filter = targets(&filter(text).unwrap());
            assert!(filter.would_enable(log_target::REQUEST, &Level::ERROR), "{text}");
            assert!(!filter.would_enable(trace::TARGET, &Level::ERROR), "{text}");
        }
    }

    #[test]
    fn the_log_can_be_off() {
        assert!(!targets(&filter("off").unwrap()).would_enable("mcp_host", &Level::ERROR));
    }

    #[test]
    fn a_mistyped_level_is_an_error_that_says_what_to_write() {
        for text in ["inof", "", "5", "warn,wasmtime=5", "info,mcp_host::guest=loud", "mcp_host", "info,"] {
            let error = filter(text).unwrap_err();
            assert!(error.contains("TARGET=LEVEL"), "{text}: {error}");
        }
    }
}
