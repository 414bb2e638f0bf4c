//! Logging with the macros of the crate `log`, into the host's log.
//!
//! A provider logs with [`log::info!`](info) and the other macros, re-exported here so that it needs no dependency of
//! its own. In a component, records go to `wasi:logging`, with the module as context. On native targets no logger is
//! installed, so a test may install any.

pub use log::{debug, error, info, log, log_enabled, trace, warn};

/// Installs the logger that sends the records of the crate `log` to the host.
///
/// Records below `debug` are filtered here: each record costs a call to the host, and dependencies trace a lot.
#[cfg(target_family = "wasm")]
pub(crate) fn install() {
    if log::set_logger(&HostLog).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}

#[cfg(target_family = "wasm")]
struct HostLog;

#[cfg(target_family = "wasm")]
impl log::Log for HostLog {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        use crate::component::bindings::wasi::logging::logging::{Level, log};
        if self.enabled(record.metadata()) {
            let level = match record.level() {
                log::Level::Error => Level::Error,
                log::Level::Warn => Level::Warn,
                log::Level::Info => Level::Info,
                log::Level::Debug => Level::Debug,
                log::Level::Trace => Level::Trace,
            };
            log(level, record.target(), &record.args().to_string());
        }
    }

    fn flush(&self) {}
}
