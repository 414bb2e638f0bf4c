//! The number of searches and selections of context by outcome, for metrics.

use mcp_host_base::metrics::Counter;

/// The counts since the start of the host.
#[derive(Debug, Default)]
pub(super) struct SearchCounts {
    complete: Counter,
    partial: Counter,
    failed: Counter,
}

impl SearchCounts {
    /// Counts a request. `is_partial` says whether its result is partial.
    pub(super) fn record<T, E>(&self, result: &Result<T, E>, is_partial: impl FnOnce(&T) -> bool) {
        let counter = match result {
            Ok(result) if is_partial(result) => &self.partial,
            Ok(_) => &self.complete,
            Err(_) => &self.failed,
        };
        counter.increment();
    }

    /// The counts, with the names of the outcomes.
    pub(super) fn all(&self) -> [(&'static str, u64); 3] {
        [("ok", self.complete.get()), ("partial", self.partial.get()), ("failed", self.failed.get())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_partial_counts_as_such() {
        let counts = SearchCounts::default();
        for result in [Ok(true), Ok(false), Ok(true), Err(())] {
            counts.record(&result, |is_partial| *is_partial);
        }
        assert_eq!(counts.all(), [("ok", 1), ("partial", 2), ("failed", 1)]);
    }
}
