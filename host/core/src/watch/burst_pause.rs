//! The pause after a poll or a walk of a listing, before events or changes may cause the next one.
//!
//! The pause is proportional to the work, so that cheap work is repeated soon: [`FACTOR`] times its duration, up to [`MAX_PAUSE`]. A
//! longer pause is [`MIN_FACTOR`] times the duration. So work of up to a quarter of [`MAX_PAUSE`] is repeated at least once per
//! [`MAX_PAUSE`]. A stream of events causes work for at most a fifth of the time, and for a seventeenth if one piece of work takes up
//! to 62 ms.
//!
//! The pause does not grow during a burst: a principal that may see a part of a plugin would learn of hidden activity by the number
//! of its own notifications.

use std::time::Duration;

/// The pause as a multiple of the work's duration.
const FACTOR: u32 = 16;
/// The multiple for pauses longer than [`MAX_PAUSE`].
const MIN_FACTOR: u32 = 4;
/// The maximum pause after work that takes less than a quarter of it.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Returns the pause after work that took `took`.
pub(super) fn burst_pause(took: Duration) -> Duration {
    let shortest = took.saturating_mul(MIN_FACTOR);
    took.saturating_mul(FACTOR).min(MAX_PAUSE.max(shortest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_a_fifth_of_the_time_at_most() {
        for (took, most) in [(1, 17), (62, 17), (150, 7), (3000, 5)] {
            let took = Duration::from_millis(took);
            let share = took.as_secs_f64() / (took + burst_pause(took)).as_secs_f64();
            assert!(share <= 1.0 / f64::from(most) + 0.001, "{took:?}: {share}");
        }
    }

    #[test]
    fn the_pause_is_a_second_at_most_and_longer_only_where_four_times_the_work_is() {
        let pauses = [1, 15, 100, 250, 1000].map(|took| burst_pause(Duration::from_millis(took)).as_millis());
        assert_eq!(pauses, [16, 240, 1000, 1000, 4000]);
        assert_eq!(burst_pause(Duration::MAX), Duration::MAX);
    }
}
