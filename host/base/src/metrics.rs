//! Metric families for Prometheus, written when they are scraped.
//!
//! Code counts its own events with the types of this module and of the standard library: relaxed atomic
//! operations, without locks, maps and labels. A collector reads the counters and the host's state, and
//! writes them with the labels of a [`Family`].
//!
//! Label values come from closed lists, or are names of plugins. No label value comes from a client, so
//! clients cannot create series.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

/// A metric family: one `HELP` and one `TYPE` of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, with the unit, and with `_total` if it is a counter.
    pub name: &'static str,
    /// The kind of its measurement.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The help text.
    pub help: &'static str,
}

/// The kind of a family's measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only increases, from 0 at the start of the process.
    Counter,
    /// A current value.
    Gauge,
    /// Durations, counted in buckets.
    Histogram,
}

impl Family {
    /// A counter.
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    /// A gauge.
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    /// A histogram.
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, labels, help }
    }

    /// Writes the family with the samples that `write` adds.
    pub fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        write: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let (name, kind) = match self.kind {
            // OpenMetrics puts this suffix on the samples of a counter, not on the counter.
            Kind::Counter => (self.name.strip_suffix("_total").unwrap_or(self.name), MetricType::Counter),
            Kind::Gauge => (self.name, MetricType::Gauge),
            Kind::Histogram => (self.name, MetricType::Histogram),
        };
        let encoder = encoder.encode_descriptor(name, self.help, None, kind)?;
        write(&mut Samples { encoder, family: self })
    }

    /// Writes the family with one sample, without labels.
    pub fn encode_one(&self, encoder: &mut DescriptorEncoder<'_>, value: u64) -> fmt::Result {
        self.encode(encoder, |samples| samples.integer(&[], value))
    }
}

/// The samples of a family that is being written. Label values are in the order of the label names.
#[derive(Debug)]
pub struct Samples<'a> {
    encoder: MetricEncoder<'a>,
    family: &'a Family,
}

impl Samples<'_> {
    /// Adds a sample.
    pub fn integer(&mut self, labels: &[&str], value: u64) -> fmt::Result {
        let labels = Labels { names: self.family.labels, values: labels };
        let mut encoder = self.encoder.encode_family(&labels)?;
        match self.family.kind {
            Kind::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            Kind::Gauge | Kind::Histogram => encoder.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX)),
        }
    }

    /// Adds a sample: a time in seconds.
    pub fn seconds(&mut self, labels: &[&str], value: Duration) -> fmt::Result {
        let labels = Labels { names: self.family.labels, values: labels };
        let mut encoder = self.encoder.encode_family(&labels)?;
        match self.family.kind {
            Kind::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value.as_secs_f64(), None),
            Kind::Gauge | Kind::Histogram => encoder.encode_gauge(&value.as_secs_f64()),
        }
    }

    /// Adds a sample for each value of the last label: 1 for the current value, 0 for all others.
    pub fn one_of(&mut self, plugin: &str, values: &[&str], current: &str) -> fmt::Result {
        values.iter().try_for_each(|value| self.integer(&[plugin, value], u64::from(*value == current)))
    }

    /// Adds a histogram.
    pub fn histogram<const N: usize>(&mut self, labels: &[&str], histogram: &Histogram<N>) -> fmt::Result {
        let labels = Labels { names: self.family.labels, values: labels };
        let counts = histogram.counts();
        let bounds = counts.bounds.iter().map(Duration::as_secs_f64);
        let mut buckets: Vec<_> = bounds.zip(counts.buckets).collect();
        buckets.push((f64::INFINITY, counts.beyond));
        let mut encoder = self.encoder.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(histogram.sum().as_secs_f64(), counts.total(), &buckets, None)
    }
}

/// The labels of a sample.
struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [&'a str],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        self.names.iter().zip(self.values).try_for_each(|(name, value)| (*name, *value).encode(encoder.encode_label()))
    }
}

/// A histogram of durations, with `N` buckets and one for all longer durations.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// The upper bounds, which are inclusive.
    bounds: &'static [Duration; N],
    buckets: [AtomicU64; N],
    beyond: AtomicU64,
    nanoseconds: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    /// Creates an empty histogram with these upper bounds, in ascending order.
    pub fn new(bounds: &'static [Duration; N]) -> Self {
        Self {
            bounds,
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            beyond: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }

    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let bucket = self.bounds.partition_point(|bound| *bound < duration);
        self.buckets.get(bucket).unwrap_or(&self.beyond).fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(saturating_nanos(duration), Ordering::Relaxed);
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().chain([&self.beyond]).all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// Returns the sum of all durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> BucketCounts<N> {
        BucketCounts {
            bounds: self.bounds,
            buckets: self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed)),
            beyond: self.beyond.load(Ordering::Relaxed),
        }
    }
}

/// The counts of a [`Histogram`] at one moment, or the difference of such counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketCounts<const N: usize> {
    bounds: &'static [Duration; N],
    buckets: [u64; N],
    beyond: u64,
}

impl<const N: usize> BucketCounts<N> {
    /// Returns the difference from the counts of an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.buckets.iter_mut().zip(earlier.buckets).for_each(|(count, before)| *count = count.saturating_sub(before));
        since.beyond = self.beyond.saturating_sub(earlier.beyond);
        since
    }

    /// Returns the number of durations.
    pub fn total(&self) -> u64 {
        self.buckets.iter().fold(self.beyond, |sum, count| sum.saturating_add(*count))
    }

    /// Estimates the quantile `part`, from 0 to 1, by linear interpolation within a bucket, as
    /// `histogram_quantile` of Prometheus does. A duration beyond the last bound counts as that bound. None
    /// without durations.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let rank = precise(self.total()) * part;
        let (mut below, mut lower) = (0.0, Duration::ZERO);
        for (bound, count) in self.bounds.iter().zip(self.buckets) {
            let count = precise(count);
            if count > 0.0 && below + count >= rank {
                let share = ((rank - below) / count).clamp(0.0, 1.0);
                return Some(lower.saturating_add(bound.saturating_sub(lower).mul_f64(share)));
            }
            (below, lower) = (below + count, *bound);
        }
        (self.total() > 0).then(|| self.bounds.last().copied().unwrap_or_default())
    }
}

/// Converts a count to floating point, exactly up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "quantiles are estimates")]
fn precise(count: u64) -> f64 {
    count as f64
}

/// A number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds 1.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Adds a time, in nanoseconds.
    pub fn add_time(&self, time: Duration) {
        self.add(saturating_nanos(time));
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the sum of times.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.get())
    }
}

/// The number of open things.
#[derive(Clone, Debug, Default)]
pub struct OpenCount(Arc<AtomicU64>);

/// Counts one open thing until this is dropped.
#[derive(Debug)]
pub struct Open(OpenCount);

impl OpenCount {
    /// Counts one more thing until the result is dropped.
    pub fn open(&self) -> Open {
        self.0.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The time of the last event.
#[derive(Debug, Default)]
pub struct LastTime(AtomicU64);

impl LastTime {
    /// Sets it to now.
    pub fn set_now(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.store(saturating_nanos(now), Ordering::Relaxed);
    }

    /// Returns the time as Unix time; none if it was never set.
    pub fn get(&self) -> Option<Duration> {
        let nanoseconds = self.0.load(Ordering::Relaxed);
        (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
    }
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    const COUNTER: Family = Family::counter("a_total", &["plugin", "kind"], "A.");
    const GAUGE: Family = Family::gauge("b_seconds", &[], "B.");
    const HISTOGRAM: Family = Family::histogram("c_seconds", &["plugin"], "C.");
    const BOUNDS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

    #[derive(Debug)]
    struct Example(Histogram<2>);

    impl Collector for Example {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            COUNTER.encode(&mut encoder, |samples| samples.integer(&["x", "y\""], 3))?;
            GAUGE.encode(&mut encoder, |samples| samples.seconds(&[], Duration::from_millis(1500)))?;
            HISTOGRAM.encode(&mut encoder, |samples| samples.histogram(&["x"], &self.0))
        }
    }

    #[test]
    fn families_are_written_with_their_labels_and_a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::new(&BOUNDS);
        assert!(histogram.is_empty());
        for milliseconds in [1, 500, 501, 2001] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Example(histogram)));
        let mut written = String::new();
        text::encode(&mut written, &registry).unwrap();
        let expected = "# HELP a A.\n# TYPE a counter\na_total{plugin=\"x\",kind=\"y\\\"\"} 3\n\
                        # HELP b_seconds B.\n# TYPE b_seconds gauge\nb_seconds{} 1.5\n\
                        # HELP c_seconds C.\n# TYPE c_seconds histogram\n\
                        c_seconds_sum{plugin=\"x\"} 3.003\nc_seconds_count{plugin=\"x\"} 4\n\
                        c_seconds_bucket{le=\"0.5\",plugin=\"x\"} 2\nc_seconds_bucket{le=\"2.0\",plugin=\"x\"} 3\n\
                        c_seconds_bucket{le=\"+Inf\",plugin=\"x\"} 4\n# EOF\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn quantiles_are_interpolated_within_buckets() {
        let histogram = Histogram::new(&BOUNDS);
        assert_eq!(histogram.counts().quantile(0.5), None);
        (0..4).for_each(|_| histogram.observe(Duration::from_millis(100)));
        let before = histogram.counts();
        assert_eq!(before.quantile(0.5), Some(Duration::from_millis(250)));
        (0..4).for_each(|_| histogram.observe(Duration::from_secs(1)));
        let both = histogram.counts();
        assert_eq!([0.5, 0.75, 1.0].map(|part| both.quantile(part).unwrap().as_millis()), [500, 1250, 2000]);
        histogram.observe(Duration::from_hours(1));
        let since = histogram.counts().since(&before);
        assert_eq!((since.total(), since.quantile(0.99)), (5, Some(Duration::from_secs(2))));
    }

    #[test]
    fn a_moment_is_none_until_it_was_set() {
        let last = LastTime::default();
        assert_eq!(last.get(), None);
        last.set_now();
        assert!(last.get().is_some_and(|time| time > Duration::from_secs(1_700_000_000)));
    }
}
