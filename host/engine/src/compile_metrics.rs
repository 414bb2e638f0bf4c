//! Counters of compilations.

use std::time::{Duration, Instant};

use mcp_host_base::metrics::{Counter, Histogram, Open, OpenCount};

/// The upper bounds of the durations of compilations.
const DURATION_BOUNDS: [Duration; 9] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Counters of compilations.
#[derive(Debug)]
pub struct CompileMetrics {
    /// The components that wait for a compiler, or for another process to compile them.
    pub waiting: OpenCount,
    /// The running compilers.
    pub running: OpenCount,
    /// The compilations that ended with code.
    pub succeeded: Counter,
    /// The compilations that ended with an error.
    pub failed: Counter,
    /// The compilations that were cancelled because their component was no longer wanted, or because another one
    /// waited.
    pub cancelled: Counter,
    /// The durations of all compilations, without the wait.
    pub durations: Histogram<{ DURATION_BOUNDS.len() }>,
}

impl Default for CompileMetrics {
    fn default() -> Self {
        Self {
            waiting: OpenCount::default(),
            running: OpenCount::default(),
            succeeded: Counter::default(),
            failed: Counter::default(),
            cancelled: Counter::default(),
            durations: Histogram::new(&DURATION_BOUNDS),
        }
    }
}

/// A compilation in progress. When this is dropped, the compilation is counted: as cancelled, unless it has
/// ended.
pub(crate) struct CompileTimer<'a> {
    metrics: &'a CompileMetrics,
    began: Instant,
    is_ok: Option<bool>,
    _running: Open,
}

impl<'a> CompileTimer<'a> {
    /// Begins a compilation.
    pub(crate) fn begin(metrics: &'a CompileMetrics) -> Self {
        Self { metrics, began: Instant::now(), is_ok: None, _running: metrics.running.open() }
    }

    /// Ends the compilation.
    pub(crate) fn end(mut self, is_ok: bool) {
        self.is_ok = Some(is_ok);
    }
}

impl Drop for CompileTimer<'_> {
    fn drop(&mut self) {
        let CompileMetrics { succeeded, failed, cancelled, durations, .. } = self.metrics;
        durations.observe(self.began.elapsed());
        match self.is_ok {
            Some(true) => succeeded,
            Some(false) => failed,
            None => cancelled,
        }
        .increment();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilation_is_counted_by_its_end_and_runs_until_then() {
        let metrics = CompileMetrics::default();
        let first = CompileTimer::begin(&metrics);
        let second = CompileTimer::begin(&metrics);
        assert_eq!(metrics.running.get(), 2);
        first.end(true);
        drop(second);
        CompileTimer::begin(&metrics).end(false);
        let ended = [&metrics.succeeded, &metrics.failed, &metrics.cancelled].map(Counter::get);
        assert_eq!((metrics.running.get(), ended, metrics.durations.counts().total()), (0, [1, 1, 1], 3));
    }
}
