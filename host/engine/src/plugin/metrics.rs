//! Counters of the calls of one plugin: atomics that are created once per plugin. A reload that replaces the
//! plugin keeps them, if the old and the new plugin overlap in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::metrics::{BucketCounts, Counter, Histogram, LastTime};

use crate::cpu::CpuClock;
use crate::fault::{Fault, FaultKind};
use crate::function::FunctionName;

/// The upper bounds of call durations: three per decade.
const DURATION_BOUNDS: [Duration; 18] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(200),
    Duration::from_micros(500),
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
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// The outcomes of calls that are not the kind of a fault.
const OTHER_OUTCOMES: [&str; 5] = ["ok", "not-found", "invalid-request", "denied", "cancelled"];
const OK: usize = 0;
const CANCELLED: usize = 4;
/// The number of outcomes.
const OUTCOMES: usize = OTHER_OUTCOMES.len().saturating_add(FaultKind::ALL.len());

/// The durations of calls.
pub type CallDurations = Histogram<{ DURATION_BOUNDS.len() }>;

/// The numbers of calls by duration.
pub type CallCounts = BucketCounts<{ DURATION_BOUNDS.len() }>;

/// The counters of one plugin's calls.
#[derive(Debug)]
pub struct CallMetrics {
    /// By function and outcome.
    calls: [[Counter; OUTCOMES]; FunctionName::ALL.len()],
    /// For all functions together: buckets for each function would be most of a scrape.
    durations: CallDurations,
    cpu: Counter,
    last_fault: LastTime,
    last_changes: LastTime,
    pub(super) instances_created: Counter,
    pub(super) instances_reused: Counter,
    pub(super) breaker_openings: Counter,
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            calls: std::array::from_fn(|_| std::array::from_fn(|_| Counter::default())),
            durations: Histogram::new(&DURATION_BOUNDS),
            cpu: Counter::default(),
            last_fault: LastTime::default(),
            last_changes: LastTime::default(),
            instances_created: Counter::default(),
            instances_reused: Counter::default(),
            breaker_openings: Counter::default(),
        }
    }
}

impl CallMetrics {
    /// The calls by function and outcome. Pairs with count 0 are left out.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let functions = FunctionName::ALL.into_iter().map(FunctionName::as_str).zip(&self.calls);
        functions.flat_map(|(function, counts)| {
            let outcomes = OTHER_OUTCOMES.into_iter().chain(FaultKind::ALL.map(FaultKind::name)).zip(counts);
            outcomes.map(move |(outcome, count)| (function, outcome, count.get())).filter(|(.., count)| *count > 0)
        })
    }

    /// The durations of calls of all functions, from the request to the validated answer.
    pub fn durations(&self) -> &CallDurations {
        &self.durations
    }

    /// The numbers of calls of all functions, by duration.
    pub fn counts(&self) -> CallCounts {
        self.durations.counts()
    }

    /// The processor time of the calls.
    pub fn cpu(&self) -> Duration {
        self.cpu.time()
    }

    /// The time of the last fault, as Unix time.
    pub fn last_fault(&self) -> Option<Duration> {
        self.last_fault.get()
    }

    /// The time of the last answer to `changes`, as Unix time.
    pub fn last_changes(&self) -> Option<Duration> {
        self.last_changes.get()
    }

    /// The number of instances that were created for calls.
    pub fn instances_created(&self) -> u64 {
        self.instances_created.get()
    }

    /// The number of calls that an idle instance served.
    pub fn instances_reused(&self) -> u64 {
        self.instances_reused.get()
    }

    /// How often the circuit breaker opened.
    pub fn breaker_openings(&self) -> u64 {
        self.breaker_openings.get()
    }
}

/// A call in progress. When this is dropped, the call is counted: as cancelled, unless its outcome is known.
pub(super) struct CallTimer<'a> {
    metrics: &'a CallMetrics,
    function: FunctionName,
    began: Instant,
    outcome: usize,
}

impl<'a> CallTimer<'a> {
    /// Begins the timing of a call.
    pub(super) fn begin(metrics: &'a CallMetrics, function: FunctionName) -> Self {
        Self { metrics, function, began: Instant::now(), outcome: CANCELLED }
    }

    /// Ends the call.
    pub(super) fn end<T>(mut self, answer: &Result<T, Fault>) {
        self.outcome = match answer {
            Ok(_) => OK,
            Err(Fault::NotFound) => 1,
            Err(Fault::InvalidRequest(_)) => 2,
            Err(Fault::Denied(_)) => 3,
            Err(fault) => {
                self.metrics.last_fault.set_now();
                fault.kind().map_or(CANCELLED, |kind| OTHER_OUTCOMES.len().saturating_add(kind as usize))
            }
        };
        if self.outcome == OK && self.function == FunctionName::Changes {
            self.metrics.last_changes.set_now();
        }
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        self.metrics.durations.observe(self.began.elapsed());
        let outcomes = self.metrics.calls.get(self.function as usize);
        if let Some(count) = outcomes.and_then(|outcomes| outcomes.get(self.outcome)) {
            count.increment();
        }
    }
}

/// Adds the processor time of a call when this is dropped, however the call ends.
pub(super) struct CpuRecord {
    pub(super) metrics: Arc<CallMetrics>,
    pub(super) clock: Arc<CpuClock>,
}

impl Drop for CpuRecord {
    fn drop(&mut self) {
        self.metrics.cpu.add_time(self.clock.cpu_time());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_function_and_outcome_also_when_they_are_cancelled() {
        let metrics = CallMetrics::default();
        let end = |function, answer| CallTimer::begin(&metrics, function).end::<()>(&answer);
        end(FunctionName::Read, Ok(()));
        end(FunctionName::Read, Err(Fault::NotFound));
        end(FunctionName::Read, Err(Fault::Host(String::new())));
        assert_eq!(metrics.last_changes(), None);
        end(FunctionName::Changes, Ok(()));
        drop(CallTimer::begin(&metrics, FunctionName::Read));
        let expected = [
            ("read", "ok", 1),
            ("read", "not-found", 1),
            ("read", "cancelled", 1),
            ("read", "host", 1),
            ("changes", "ok", 1),
        ];
        assert_eq!(metrics.calls().collect::<Vec<_>>(), expected);
        assert_eq!(metrics.counts().total(), 5);
        assert!(metrics.last_fault().is_some() && metrics.last_changes().is_some());
    }
}
