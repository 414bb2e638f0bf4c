//! Rate limit for log lines that clients can cause.
//!
//! Some actions of clients are logged (a session ended, a connection had to wait), and clients decide their frequency.
//! So each call site in the server logs at most [`BURST`] lines per [`PERIOD`]. Further lines are dropped, counted, and
//! reported together with the lines that standard error dropped. Guests have a separate limit (`limits.log`), and so do
//! faults of plugins. The level `debug` is not limited.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

use super::stderr::Stderr;

use mcp_host_base::log_target;

/// The maximum number of lines per call site and period.
const BURST: u32 = 10;
/// The length of a period.
const PERIOD: Duration = Duration::from_secs(10);
/// Limits the log lines of each call site.
#[derive(Debug)]
pub(super) struct LogRateLimiter {
    windows: Mutex<HashMap<Identifier, Window>>,
    stderr: Stderr,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u32,
}

impl LogRateLimiter {
    /// Counts dropped lines on this queue.
    pub(super) fn new(stderr: Stderr) -> Self {
        Self { windows: Mutex::default(), stderr }
    }

    /// Returns whether a line of this call site is written. Counts a dropped line.
    pub(super) fn admits(&self, metadata: &Metadata<'_>) -> bool {
        let admits = self.admits_at(metadata, Instant::now());
        if !admits {
            self.stderr.count_dropped();
        }
        admits
    }

    fn admits_at(&self, metadata: &Metadata<'_>, now: Instant) -> bool {
        // Only events of the server can be caused by clients.
        if *metadata.level() > Level::INFO || !metadata.target().starts_with(log_target::SERVER) {
            return true;
        }
        let mut windows = self.windows.lock();
        let window = windows.entry(metadata.callsite()).or_insert(Window { began: now, lines: 0 });
        if now.saturating_duration_since(window.began) >= PERIOD {
            *window = Window { began: now, lines: 0 };
        }
        window.lines = window.lines.saturating_add(1);
        window.lines <= BURST
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::Event;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    use super::*;

    struct Count(LogRateLimiter, Arc<AtomicUsize>);

    impl<S: tracing::Subscriber> Layer<S> for Count {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.1.fetch_add(usize::from(self.0.admits(event.metadata())), Ordering::Relaxed);
        }
    }

    /// Counts the lines that are not dropped.
    fn passed(log: impl FnOnce()) -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        let layer = Count(LogRateLimiter::new(Stderr::start()), count.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn what_clients_cause_has_so_many_lines_for_each_place_in_the_code() {
        let passed = passed(|| {
            for _ in 0..1000 {
                tracing::warn!(target: log_target::SERVER, "a");
                tracing::error!(target: log_target::SERVER, "b");
            }
        });
        assert_eq!(passed, 20);
    }

    #[test]
    fn what_others_log_and_what_was_asked_for_passes() {
        let passed = passed(|| {
            for _ in 0..100 {
                tracing::error!(target: log_target::CONFIG, "a");
                tracing::warn!(target: log_target::GUEST, "b");
                tracing::debug!(target: log_target::SERVER, "c");
            }
        });
        assert_eq!(passed, 300);
    }
}
