//! Counters of loading plugins.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_host_base::metrics::{Counter, LastTime};
use parking_lot::Mutex;

use super::load_error::LoadError;

/// The loads of plugins by name.
#[derive(Debug, Default)]
pub struct LoadCounts(Mutex<BTreeMap<String, PluginLoads>>);

/// The loads of one plugin.
#[derive(Debug, Default)]
struct PluginLoads {
    succeeded: Counter,
    failures: BTreeMap<&'static str, FailureCount>,
}

/// How often a plugin failed to load for one reason, and when it last did.
#[derive(Debug, Default)]
pub struct FailureCount {
    /// The number of failures.
    pub count: Counter,
    /// The time of the last failure.
    pub last: LastTime,
}

impl LoadCounts {
    /// Counts a load, unless the host ended it.
    pub(super) fn record(&self, plugin: &str, error: Option<&LoadError>) {
        let reason = error.map(LoadError::reason);
        if reason == Some(None) {
            return;
        }
        let mut plugins = self.0.lock();
        let loads = plugins.entry(plugin.to_owned()).or_default();
        match reason.flatten() {
            None => loads.succeeded.increment(),
            Some(reason) => {
                let failure = loads.failures.entry(reason).or_default();
                failure.count.increment();
                failure.last.set_now();
            }
        }
    }

    /// Returns how often a plugin was loaded, and how often loading failed for each reason.
    pub fn of(&self, plugin: &str) -> (u64, BTreeMap<&'static str, u64>) {
        let plugins = self.0.lock();
        let Some(loads) = plugins.get(plugin) else { return (0, BTreeMap::new()) };
        let failures = loads.failures.iter().map(|(reason, failure)| (*reason, failure.count.get()));
        (loads.succeeded.get(), failures.collect())
    }

    /// Returns when a plugin last failed to load, as Unix time; none if it never did.
    pub fn last_failure(&self, plugin: &str) -> Option<Duration> {
        self.0.lock().get(plugin)?.failures.values().filter_map(|failure| failure.last.get()).max()
    }

    /// Drops the counts of all plugins that are not wanted, and calls `show` with the plugin, the reason and the count
    /// of each remaining failure.
    pub fn retain_failures<E>(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        mut show: impl FnMut(&str, &'static str, &FailureCount) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut plugins = self.0.lock();
        plugins.retain(|plugin, _| is_wanted(plugin));
        plugins.iter().try_for_each(|(plugin, loads)| {
            loads.failures.iter().try_for_each(|(reason, failure)| show(plugin, reason, failure))
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
        let loads = LoadCounts::default();
        let describe = || LoadError::Describe(Fault::NotFound);
        for (plugin, error) in [
            ("a", describe()),
            ("a", describe()),
            ("a", LoadError::Database(String::new())),
            ("a", LoadError::Cancelled),
            ("b", describe()),
        ] {
            loads.record(plugin, Some(&error));
        }
        loads.record("a", None);
        assert_eq!(loads.of("a"), (1, BTreeMap::from([("database", 1), ("describe", 2)])));
        assert_eq!(loads.of("c"), (0, BTreeMap::new()));
        assert!(loads.last_failure("a").is_some() && loads.last_failure("c").is_none());
        let left = |is_wanted: fn(&str) -> bool| {
            let mut left = Vec::new();
            let shown = loads.retain_failures(is_wanted, |plugin, reason, failure| {
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
