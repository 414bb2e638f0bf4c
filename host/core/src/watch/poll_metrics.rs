//! Counters of polls: their number, how long changes waited for them, and how long bursts of events were
//! collected.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcp_host_base::metrics::{Counter, Histogram};

/// The upper bounds of lags and debounce times.
const BOUNDS: [Duration; 12] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];

/// Durations of polls.
pub(crate) type PollDurations = Histogram<{ BOUNDS.len() }>;

/// Why a plugin is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollCause {
    /// The interval, or the back-off, is over.
    Interval,
    /// A subscription was added.
    Subscription,
    /// A granted directory changed.
    Event,
    /// A granted database notified.
    Notification,
    /// Another replica requested it, or may have missed a message.
    Replica,
}

impl PollCause {
    /// All causes, in the order of their numbers.
    const ALL: [Self; 5] = [Self::Interval, Self::Subscription, Self::Event, Self::Notification, Self::Replica];

    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Subscription => "subscription",
            Self::Event => "event",
            Self::Notification => "notification",
            Self::Replica => "replica",
        }
    }

    /// Returns whether polls with this cause are debounced.
    pub(crate) fn is_event(self) -> bool {
        matches!(self, Self::Event | Self::Notification)
    }
}

/// The counters of the polls with one cause.
#[derive(Debug)]
pub(crate) struct CauseMetrics {
    pub(crate) succeeded: Counter,
    pub(crate) failed: Counter,
    /// The times from the cause to the end of the poll.
    pub(crate) lags: PollDurations,
    /// The times from the first event of a burst to the start of the poll.
    pub(crate) debounces: PollDurations,
}

/// The counters of the polls of all plugins.
#[derive(Debug)]
pub(crate) struct PollMetrics([CauseMetrics; PollCause::ALL.len()]);

impl Default for PollMetrics {
    fn default() -> Self {
        let of_cause = || CauseMetrics {
            succeeded: Counter::default(),
            failed: Counter::default(),
            lags: Histogram::new(&BOUNDS),
            debounces: Histogram::new(&BOUNDS),
        };
        Self(std::array::from_fn(|_| of_cause()))
    }
}

impl PollMetrics {
    /// Returns the counters by cause.
    pub(crate) fn by_cause(&self) -> impl Iterator<Item = (PollCause, &CauseMetrics)> {
        PollCause::ALL.into_iter().zip(&self.0)
    }

    fn of(&self, cause: PollCause) -> Option<&CauseMetrics> {
        self.0.get(cause as usize)
    }
}

/// The cause of a poll, and the time at which it occurred.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollTrigger {
    pub(super) cause: PollCause,
    at: Instant,
}

impl PollTrigger {
    /// A cause that occurs now.
    pub(super) fn now(cause: PollCause) -> Self {
        Self { cause, at: Instant::now() }
    }

    /// Records the start of the poll.
    pub(super) fn begin(self, metrics: &PollMetrics) {
        if let Some(of_cause) = metrics.of(self.cause).filter(|_| self.cause.is_event()) {
            of_cause.debounces.observe(self.at.elapsed());
        }
    }

    /// Records the end of the poll, and returns its lag.
    pub(super) fn end(self, metrics: &PollMetrics, is_ok: bool) -> Duration {
        let lag = self.at.elapsed();
        if let Some(of_cause) = metrics.of(self.cause) {
            if is_ok { &of_cause.succeeded } else { &of_cause.failed }.increment();
            of_cause.lags.observe(lag);
        }
        lag
    }
}

/// The lag of the last poll of a plugin.
#[derive(Debug, Default)]
pub(super) struct LastLag(AtomicU64);

impl LastLag {
    pub(super) fn set(&self, lag: Duration) {
        // 0 means no value.
        let nanoseconds = u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.0.store(nanoseconds, Ordering::Relaxed);
    }

    /// Returns the lag; none before the first poll.
    pub(super) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_counted_by_cause_and_only_those_after_events_are_debounced() {
        let (metrics, last) = (PollMetrics::default(), LastLag::default());
        assert_eq!(last.get(), None);
        for (cause, is_ok) in [(PollCause::Interval, true), (PollCause::Event, true), (PollCause::Event, false)] {
            let trigger = PollTrigger::now(cause);
            trigger.begin(&metrics);
            last.set(trigger.end(&metrics, is_ok));
        }
        assert!(last.get().is_some());
        let counted = metrics.by_cause().map(|(cause, counted)| {
            let [lags, debounces] = [&counted.lags, &counted.debounces].map(|durations| durations.counts().total());
            (cause.name(), counted.succeeded.get(), counted.failed.get(), lags, debounces)
        });
        let expected = [
            ("interval", 1, 0, 1, 0),
            ("subscription", 0, 0, 0, 0),
            ("event", 1, 1, 2, 2),
            ("notification", 0, 0, 0, 0),
            ("replica", 0, 0, 0, 0),
        ];
        assert_eq!(counted.collect::<Vec<_>>(), expected);
    }
}
