//! The calls of the last minute, for the administration API: a difference of existing counters.
//!
//! A task copies the counts of all plugins every [`INTERVAL`], and keeps the copies of [`WINDOW`]. A plugin takes about
//! 3 KiB.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use mcp_host_base::time::saturating_millis;
use mcp_resource_host::host::Host;
use mcp_resource_host::metrics::CallCounts;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::api::types::RecentCalls;

/// The interval at which the counters are copied.
const INTERVAL: Duration = Duration::from_secs(5);
/// The minimum time that the shown calls cover, once the server has run for longer.
const WINDOW: Duration = Duration::from_secs(60);

/// The counters at one moment, by plugin.
struct Sample {
    at: Instant,
    calls: HashMap<String, CallCounts>,
}

/// The calls of the last minute.
pub(super) struct Traffic(Mutex<VecDeque<Sample>>);

impl Traffic {
    /// Starts with a copy of the counters.
    pub(super) fn new(host: &Host) -> Self {
        Self(Mutex::new(VecDeque::from([Sample::of(host)])))
    }

    /// Copies the counters periodically until the future is dropped.
    pub(super) async fn keep_sampling(&self, host: &Host) -> Infallible {
        loop {
            sleep(INTERVAL).await;
            self.add(Sample::of(host));
        }
    }

    fn add(&self, sample: Sample) {
        let mut samples = self.0.lock();
        // The first sample stays as old as the window, or older.
        while samples.get(1).is_some_and(|second| sample.at.duration_since(second.at) >= WINDOW) {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns the calls of each loaded plugin since the first copy.
    pub(super) fn recent(&self, host: &Host) -> HashMap<String, RecentCalls> {
        self.since_first(Sample::of(host))
    }

    fn since_first(&self, now: Sample) -> HashMap<String, RecentCalls> {
        let samples = self.0.lock();
        let Some(first) = samples.front() else { return HashMap::new() };
        let window_ms = saturating_millis(now.at.duration_since(first.at));
        let recent = now.calls.into_iter().map(|(plugin, counts)| {
            // A plugin that was loaded later has counted from 0.
            let counts = first.calls.get(&plugin).map_or(counts, |before| counts.since(before));
            let quantile = |part| counts.quantile(part).map(microseconds);
            let calls = counts.total();
            (plugin, RecentCalls { window_ms, calls, p50_us: quantile(0.5), p99_us: quantile(0.99) })
        });
        recent.collect()
    }
}

impl Sample {
    fn of(host: &Host) -> Self {
        Self { at: Instant::now(), calls: host.call_counts().into_iter().collect() }
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use mcp_host_base::metrics::Histogram;

    use super::*;

    const BOUNDS: [Duration; 18] = [Duration::from_millis(10); 18];

    #[test]
    fn calls_of_the_last_minute_are_those_since_the_copy_of_then() {
        let (start, calls) = (Instant::now(), Histogram::new(&BOUNDS));
        let sample = |seconds, plugins: &[&str]| Sample {
            at: start + Duration::from_secs(seconds),
            calls: plugins.iter().map(|name| ((*name).to_owned(), calls.counts())).collect(),
        };
        let traffic = Traffic(Mutex::new(VecDeque::from([sample(0, &["a"])])));
        for seconds in (5..=200).step_by(5) {
            calls.observe(Duration::from_millis(1));
            traffic.add(sample(seconds, &["a"]));
        }
        let recent = traffic.since_first(sample(202, &["a", "b"]));
        let expected = |calls| RecentCalls { window_ms: 62_000, calls, p50_us: Some(5000), p99_us: Some(9900) };
        // One call every five seconds. `b` is new and has 40 calls.
        assert_eq!(recent, HashMap::from([("a".to_owned(), expected(12)), ("b".to_owned(), expected(40))]));
    }
}
