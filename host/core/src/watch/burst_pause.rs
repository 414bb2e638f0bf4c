//! Pauses after a poll, or a walk of a listing, before events or changes may cause the next one.
//!
//! The pause is proportional to the work, so that cheap work is repeated soon: [`FACTOR`] times its duration, up to
//! [`MAX_PAUSE`]. A longer pause is [`MIN_FACTOR`] times the duration. So work of up to a quarter of [`MAX_PAUSE`] is
//! repeated at least once per [`MAX_PAUSE`]. A stream of events causes work for at most a fifth of the time, and for a
//! seventeenth if one piece of work takes up to 62 ms.
//!
//! The pause does not grow during a burst: a principal that may see a part of a plugin would learn of hidden activity
//! by the number of its own notifications.
//!
//! Only polls that events or notifications caused postpone the next poll ([`EventPause`]). Other polls have their own
//! rate limits, and a provider may do long work in polls of the interval: `files` surveys the names of a large
//! directory. After such a poll, an event causes the next poll without a pause.

use std::time::Duration;

use tokio::time::Instant;

use super::poll_metrics::PollCause;

/// The pause as a multiple of the work's duration.
const FACTOR: u32 = 16;
/// The multiple for pauses longer than [`MAX_PAUSE`].
const MIN_FACTOR: u32 = 4;
/// The maximum pause after work that takes less than a quarter of it.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The initial and the maximum back-off after a failed walk.
pub(super) const FAILED_WALK_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The minimum and the maximum pause between two walks.
pub(super) const MIN_WALK_PAUSE: Duration = Duration::from_millis(100);
pub(super) const MAX_WALK_PAUSE: Duration = Duration::from_secs(30);

/// Returns the pause after work that took `took`.
pub(super) fn burst_pause(took: Duration) -> Duration {
    let shortest = took.saturating_mul(MIN_FACTOR);
    took.saturating_mul(FACTOR).min(MAX_PAUSE.max(shortest))
}

/// The pause of a poller, after which events and notifications may cause the next poll.
#[derive(Debug)]
pub(super) struct EventPause {
    /// The end of the pause.
    until: Instant,
}

impl EventPause {
    /// Starts without a pause.
    pub(super) fn new() -> Self {
        Self { until: Instant::now() }
    }

    /// Starts the pause after a poll with this cause that took `took` and ends now. A poll with another cause than an
    /// event or a notification leaves the pause as it is. Returns the remaining pause.
    pub(super) fn polled(&mut self, cause: PollCause, took: Duration) -> Duration {
        let now = Instant::now();
        if cause.is_event() {
            self.until = now.checked_add(burst_pause(took)).unwrap_or(now);
        }
        self.until.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_event_waits_after_polls_that_events_caused_and_not_after_those_of_the_interval() {
        let (mut pause, took) = (EventPause::new(), Duration::from_millis(100));
        assert_eq!(pause.polled(PollCause::Interval, took), Duration::ZERO);
        assert_eq!(pause.polled(PollCause::Subscription, took), Duration::ZERO);
        assert_eq!(pause.polled(PollCause::Event, took), MAX_PAUSE);
        tokio::time::advance(took).await;
        // A poll of the interval neither ends the pause nor extends it.
        assert_eq!(pause.polled(PollCause::Interval, took), MAX_PAUSE.saturating_sub(took));
        tokio::time::advance(MAX_PAUSE).await;
        assert_eq!(pause.polled(PollCause::Interval, took), Duration::ZERO);
        assert_eq!(pause.polled(PollCause::Notification, took), MAX_PAUSE);
    }

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
