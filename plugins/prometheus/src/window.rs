//! The times of a query: the range, its end and its step.
//!
//! Times are milliseconds since 1970, as in Prometheus. Without an explicit step, the smallest of [`STEPS`] is chosen
//! that gives at most a given number of points. Without an explicit end, a window ends at the last multiple of its
//! step, so queries repeated within a step have the same result.

use crate::duration;
use mcp_provider::{Failure, Result};
use std::time::{Duration, SystemTime};

/// The maximum number of points of a series, the same as in Prometheus.
const MAX_POINTS: u64 = 11_000;

/// The available steps in seconds. Longer steps are multiples of the last one.
const STEPS: [u64; 33] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700,
    3600, 5400, 7200, 14_400, 28_800, 43_200, 86_400,
];

/// The latest time, in the year 9999.
const MAX_MILLIS: i64 = 253_370_764_800_000;

/// The end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Now.
    Now,
    /// A duration before now.
    Ago(Duration),
    /// A time.
    At(i64),
}

impl End {
    /// Parses `now`, `-1h`, `now-1h`, seconds since 1970 or an RFC 3339 timestamp.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "now" {
            return Some(Self::Now);
        }
        if let Some(ago) = text.strip_prefix("now-").or_else(|| text.strip_prefix('-')) {
            return duration::parse(ago).map(Self::Ago);
        }
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let millis = if is_number {
            seconds_to_millis(text.parse().ok()?)?
        } else {
            text.parse::<jiff::Timestamp>().ok()?.as_millisecond()
        };
        (0..=MAX_MILLIS).contains(&millis).then_some(Self::At(millis))
    }

    /// Returns the time in milliseconds.
    pub(crate) fn millis(self, now: SystemTime) -> i64 {
        match self {
            Self::Now => self::millis(now),
            Self::Ago(ago) => self::millis(now).saturating_sub(duration_millis(ago)).max(0),
            Self::At(millis) => millis,
        }
    }
}

/// The times at which a range query is evaluated: from `start` to `end`, both included, at intervals of `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
}

impl Window {
    /// Creates a window. Without an explicit step, it has at most `points` points, as far as the available steps allow.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidRequest`] if the step is longer than the range, or too short for it.
    pub(crate) fn new(range: Duration, step: Option<Duration>, end: End, points: u64, now: SystemTime) -> Result<Self> {
        let is_chosen = step.is_none();
        let step = step.unwrap_or_else(|| choose_step(range, points));
        if step > range && !is_chosen {
            let (step, range) = (duration::format(step), duration::format(range));
            return Err(Failure::invalid(format!("expected a `step` of at most the `range`, {range}, found {step}")));
        }
        let (range_millis, step_millis) = (duration_millis(range), duration_millis(step).max(1));
        let steps = range_millis.checked_div(step_millis).unwrap_or_default();
        if u64::try_from(steps).is_ok_and(|steps| steps >= MAX_POINTS) {
            return Err(Failure::invalid(format!(
                "a series would have {} points, and Prometheus returns at most {MAX_POINTS}; `step={}` would do for \
                 this range",
                steps.saturating_add(1),
                duration::format(choose_step(range, MAX_POINTS))
            )));
        }
        let end = match end {
            End::Now => align(now, step),
            End::Ago(_) | End::At(_) => end.millis(now),
        };
        // The last point is at the end, so the first may be slightly after the start of the range.
        let start = end.saturating_sub(steps.saturating_mul(step_millis));
        Ok(Self { start, end, step: step_millis })
    }

    /// Returns the number of the point at a time; `None` if no point is there.
    pub(crate) fn index(self, time: i64) -> Option<usize> {
        let since = time.checked_sub(self.start).filter(|_| (self.start..=self.end).contains(&time))?;
        (since.checked_rem(self.step)? == 0).then(|| usize::try_from(since.checked_div(self.step)?).ok())?
    }

    /// Returns the step.
    pub(crate) fn step(self) -> Duration {
        Duration::from_millis(u64::try_from(self.step).unwrap_or_default())
    }
}

/// Returns the latest multiple of a step, so all requests within a step are equal.
pub(crate) fn align(now: SystemTime, step: Duration) -> i64 {
    let now = millis(now);
    now.saturating_sub(now.checked_rem(duration_millis(step)).unwrap_or_default())
}

/// Returns the smallest step that gives at most `points` points, not counting the first.
pub(crate) fn choose_step(range: Duration, points: u64) -> Duration {
    let needed = duration_millis(range).unsigned_abs().div_ceil(points.max(1)).div_ceil(1000);
    let step = STEPS.iter().copied().find(|step| *step >= needed);
    let longest = STEPS.last().copied().unwrap_or(1);
    Duration::from_secs(step.unwrap_or_else(|| needed.div_ceil(longest).saturating_mul(longest)))
}

/// Converts the seconds of an API to milliseconds.
pub(crate) fn seconds_to_millis(seconds: f64) -> Option<i64> {
    let millis = (seconds * 1000.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    (millis.abs() <= 253_370_764_800_000.0).then_some(millis as i64)
}

/// Formats a time as seconds for the API.
pub(crate) fn api_seconds(millis: i64) -> String {
    format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
}

/// Formats a time for people: RFC 3339 in UTC.
pub(crate) fn rfc3339(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).unwrap_or_default().to_string()
}

/// Returns milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> i64 {
    duration_millis(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()).min(MAX_MILLIS)
}

fn duration_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(window: Window) -> Vec<i64> {
        (window.start..=window.end).step_by(usize::try_from(window.step).unwrap()).collect()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn a_step_is_chosen_for_about_two_hundred_points() {
        for (range, step) in [
            ("5m", "2s"),
            ("15m", "5s"),
            ("1h", "20s"),
            ("6h", "2m"),
            ("1d", "8m"),
            ("7d", "1h"),
            ("30d", "4h"),
            ("1y", "2d"),
        ] {
            let chosen = choose_step(duration::parse(range).unwrap(), 200);
            assert_eq!(duration::format(chosen), step, "{range}");
        }
    }

    #[test]
    fn a_window_without_an_end_is_the_same_throughout_a_step() {
        let window = |now| Window::new(Duration::from_secs(3600), None, End::Now, 200, at(now)).unwrap();
        assert_eq!(window(1_700_000_000), window(1_700_000_019));
        assert_eq!(window(1_700_000_020).end, 1_700_000_020_000);
    }

    #[test]
    fn an_end_is_a_time_or_relative_to_now() {
        for (text, end) in [
            ("now", Some(End::Now)),
            ("-1h", Some(End::Ago(Duration::from_secs(3600)))),
            ("now-1h", Some(End::Ago(Duration::from_secs(3600)))),
            ("1700000000", Some(End::At(1_700_000_000_000))),
            ("1700000000.5", Some(End::At(1_700_000_000_500))),
            ("2023-11-14T22:13:20Z", Some(End::At(1_700_000_000_000))),
            ("2023-11-15T07:13:20+09:00", Some(End::At(1_700_000_000_000))),
            ("", None),
            ("-", None),
            ("yesterday", None),
            ("1e300", None),
            ("999999999999999999999999", None),
        ] {
            assert_eq!(End::parse(text), end, "{text}");
        }
    }

    #[test]
    fn a_step_that_gives_too_many_points_or_none_is_refused_with_one_that_does() {
        let new = |range, step| {
            Window::new(Duration::from_secs(range), Some(Duration::from_secs(step)), End::Now, 200, at(1_700_000_000))
        };
        let Err(Failure::InvalidRequest(said)) = new(86_400, 1) else { panic!("expected a refusal") };
        assert!(said.contains("86401 points") && said.contains("`step=8s` would do"), "{said}");
        assert!(new(10, 20).is_err());
        assert!(new(86_400, 8).is_ok());
    }

    proptest! {
        #[test]
        fn a_window_has_its_points_in_the_range_and_ends_at_its_end(
            range in 1_u64..200_000_000, step in proptest::option::of(1_u64..100_000), now in 0_u64..10_000_000_000,
            end in prop_oneof![Just(End::Now), (0_i64..MAX_MILLIS).prop_map(End::At), (1_u64..100_000).prop_map(|s| End::Ago(Duration::from_secs(s)))],
        ) {
            let range = Duration::from_secs(range);
            if let Ok(window) = Window::new(range, step.map(Duration::from_secs), end, 200, at(now)) {
                let times = times(window);
                prop_assert!(times.len() <= 11_000);
                prop_assert_eq!(times.last(), Some(&window.end));
                prop_assert!(window.end.saturating_sub(window.start) <= duration_millis(range));
                for (n, time) in times.iter().enumerate() {
                    prop_assert_eq!(window.index(*time), Some(n));
                    prop_assert_eq!(window.index(time.saturating_add(1)), None);
                }
            }
        }

        #[test]
        fn a_chosen_step_gives_a_hundred_to_two_hundred_points(range in 200_u64..3_000_000_000) {
            let range = Duration::from_secs(range);
            let window = Window::new(range, None, End::Now, 200, at(9_000_000_000)).unwrap();
            let points = times(window).len();
            prop_assert!((100..=201).contains(&points), "{}", points);
        }
    }
}
