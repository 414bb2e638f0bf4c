//! What is counted of the failures to load plugins.

use std::collections::BTreeMap;

use mcp_host_base::metrics::{Counter, LastTime};
use parking_lot::Mutex;

use super::LoadError;
use crate::ComponentError;

/// The failures to load plugins, by the plugin's name and the reason.
#[derive(Debug, Default)]
pub struct LoadFailures(Mutex<BTreeMap<String, BTreeMap<&'static str, FailureCount>>>);

/// How often a plugin could not be loaded for a reason, and when that was last.
#[derive(Debug, Default)]
pub struct FailureCount {
    /// How often.
    pub count: Counter,
    /// When the last time was.
    pub last: LastTime,
}

impl LoadFailures {
    /// Counts a failure, unless it is the host that ended the load.
    pub(super) fn record(&self, plugin: &str, error: &LoadError) {
        let Some(reason) = error.reason() else { return };
        let mut plugins = self.0.lock();
        let failure = plugins.entry(plugin.to_owned()).or_default().entry(reason).or_default();
        failure.count.increment();
        failure.last.set_now();
    }

    /// Drops the failures of all plugins but those, and calls `show` with the plugin, the reason and the count of each failure that is left.
    pub fn retain<E>(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        mut show: impl FnMut(&str, &'static str, &FailureCount) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut plugins = self.0.lock();
        plugins.retain(|plugin, _| is_wanted(plugin));
        plugins.iter().try_for_each(|(plugin, reasons)| {
            reasons.iter().try_for_each(|(reason, failure)| show(plugin, reason, failure))
        })
    }
}

impl LoadError {
    /// Its reason in a word of a closed list, by which it is counted; none if the host ended the load.
    fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Component(error) => match error {
                ComponentError::Read { .. } => "read",
                ComponentError::NotAComponent { .. } => "not-a-component",
                ComponentError::TooLarge { .. } => "too-large",
                ComponentError::Memory { .. } => "memory",
                ComponentError::DigestMismatch { .. } => "digest",
                ComponentError::Compile { .. } => "compile",
                ComponentError::Import { .. } => "import",
                ComponentError::NotAProvider { .. } => "not-a-provider",
                ComponentError::Cache { .. } | ComponentError::CacheKey { .. } => "cache",
            },
            Self::Describe(_) => "describe",
            Self::Database(_) => "database",
            Self::Upstream(_) => "upstream",
            Self::Cancelled => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::plugin::Fault;

    #[test]
    fn failures_are_counted_by_plugin_and_reason_while_the_plugin_is_wanted() {
        let failures = LoadFailures::default();
        let describe = || LoadError::Describe(Fault::NotFound);
        for (plugin, error) in [
            ("a", describe()),
            ("a", describe()),
            ("a", LoadError::Database(String::new())),
            ("a", LoadError::Cancelled),
            ("b", describe()),
        ] {
            failures.record(plugin, &error);
        }
        let left = |is_wanted: fn(&str) -> bool| {
            let mut left = Vec::new();
            let shown = failures.retain(is_wanted, |plugin, reason, failure| {
                assert!(failure.last.get().is_some());
                left.push((plugin.to_owned(), reason, failure.count.get()));
                Ok::<_, Infallible>(())
            });
            shown.unwrap();
            left
        };
        let of_a = [("a".to_owned(), "database", 1), ("a".to_owned(), "describe", 2)];
        assert_eq!(left(|plugin| plugin == "a"), of_a);
        assert_eq!(left(|_| true), of_a);
    }
}
