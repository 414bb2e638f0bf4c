//! The pause between two polls, or two walks of a listing, that events cause one after the other.
//!
//! It is in proportion to the work, so that cheap work is repeated soon: [`FACTOR`] times its duration at first, doubled each
//! time up to [`MAX_FACTOR`] times. Beyond [`MAX_PAUSE`] only the first factor counts, so that work of up to a quarter of
//! that is repeated once per [`MAX_PAUSE`] at least. So a stream of events causes work for a fifth of the time at most, and
//! for a 65th where it takes up to 15 ms.

use std::time::Duration;

/// The first pause, in durations of the work.
const FACTOR: u32 = 4;
/// The longest pause, in durations of the work.
const MAX_FACTOR: u32 = 64;
/// The longest pause after work that takes less than a quarter of it.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Returns the pause after work that took `took` and was repeated `repeated` times before.
pub(super) fn burst_pause(took: Duration, repeated: u32) -> Duration {
    let factor = 1_u32.checked_shl(repeated).map_or(MAX_FACTOR, |times| times.saturating_mul(FACTOR).min(MAX_FACTOR));
    let shortest = took.saturating_mul(FACTOR);
    took.saturating_mul(factor).min(MAX_PAUSE.max(shortest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(took: Duration, repeated: u32) -> f64 {
        took.as_secs_f64() / (took + burst_pause(took, repeated)).as_secs_f64()
    }

    #[test]
    fn work_takes_a_fifth_of_the_time_at_most_and_less_the_longer_a_burst_lasts() {
        for took in [1, 15, 150, 3000].map(Duration::from_millis) {
            let shares: Vec<_> = (0..40).map(|repeated| share(took, repeated)).collect();
            assert!(shares.iter().all(|share| *share <= 0.2 + f64::EPSILON), "{took:?}: {shares:?}");
            assert!(shares.is_sorted_by(|earlier, later| earlier >= later), "{took:?}: {shares:?}");
        }
        assert!(share(Duration::from_millis(15), 40) < 0.016);
    }

    #[test]
    fn the_pause_grows_to_a_second_and_is_longer_only_where_four_times_the_work_is() {
        let pauses = |took, repeated: &[u32]| {
            let pause = |repeated: &u32| burst_pause(Duration::from_millis(took), *repeated).as_millis();
            repeated.iter().map(pause).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1, &[0, 1, 2, 3, 4, 5, u32::MAX]), [4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(pauses(100, &[0, 1, 2, 3]), [400, 800, 1000, 1000]);
        assert_eq!(pauses(1000, &[0, 9]), [4000, 4000]);
        assert_eq!(burst_pause(Duration::MAX, 1), Duration::MAX);
    }
}
