//! How much a plugin has used its grants, since it was loaded.

use std::time::Duration;

use mcp_host_base::metrics::Counter;

/// What a plugin did with a grant, by outcome.
#[derive(Debug, Default)]
pub struct OutcomeCounts {
    succeeded: Counter,
    failed: Counter,
}

impl OutcomeCounts {
    /// Counts one.
    pub(crate) fn record(&self, is_ok: bool) {
        if is_ok { &self.succeeded } else { &self.failed }.increment();
    }

    /// The number of those that succeeded.
    pub fn succeeded(&self) -> u64 {
        self.succeeded.get()
    }

    /// The number of those that failed, or that the host refused.
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }
}

/// How much a plugin has used its grants.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GrantUsage<'a> {
    /// The HTTP exchanges.
    pub http: &'a OutcomeCounts,
    /// The SQL statements.
    pub sql: &'a OutcomeCounts,
    /// Their time, with the wait for a connection.
    pub sql_time: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_apart() {
        let counts = OutcomeCounts::default();
        [true, false, true].into_iter().for_each(|is_ok| counts.record(is_ok));
        assert_eq!((counts.succeeded(), counts.failed()), (2, 1));
    }
}
