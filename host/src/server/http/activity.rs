//! Whether anything is in flight on a connection, and for how long nothing has been.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// What goes on on one connection. To take note of a request wakes nobody up: whoever waits looks from time to time.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<Now>>);

#[derive(Clone, Copy, Debug)]
struct Now {
    /// The requests that have not been answered to their end.
    in_flight: usize,
    /// Whether there has been any.
    has_begun: bool,
    /// Since when that is as it is.
    since: Instant,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy(Activity);

/// The least that is waited before somebody looks again.
const LEAST: Duration = Duration::from_millis(1);

impl Activity {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Now { in_flight: 0, has_begun: false, since: Instant::now() })))
    }

    /// Counts a request as in flight.
    pub(super) fn begin(&self) -> Busy {
        let mut now = self.now();
        now.in_flight = now.in_flight.saturating_add(1);
        now.has_begun = true;
        drop(now);
        Busy(self.clone())
    }

    /// Waits until nothing has been in flight for so long: before the first request of all, and after each.
    pub(super) async fn quiet(&self, before: Duration, after: Duration) {
        let start = Instant::now();
        loop {
            let Now { in_flight, has_begun, since } = *self.now();
            let patience = if has_begun { after } else { before };
            let left = patience.saturating_sub(since.max(start).elapsed());
            if in_flight == 0 && left.is_zero() {
                return;
            }
            // Whatever happens from now on, it is not quiet before that.
            let next = if in_flight == 0 { left.min(after) } else { after };
            sleep(next.max(LEAST)).await;
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut now = self.0.now();
        now.in_flight = now.in_flight.saturating_sub(1);
        now.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(1);

    /// Lets the task that waits run until it can go no further.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_is_quiet_only_while_nothing_is_in_flight() {
        let activity = Activity::new();
        let request = activity.begin();
        let waiting = tokio::spawn({
            let activity = activity.clone();
            async move { activity.quiet(SHORT, SHORT).await }
        });
        settle().await;
        assert!(!waiting.is_finished());
        drop(request);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_however_short_changes_for_how_long_is_waited() {
        let activity = Activity::new();
        let waiting = tokio::spawn({
            let activity = activity.clone();
            async move { activity.quiet(LONG, SHORT).await }
        });
        settle().await;
        drop(activity.begin());
        waiting.await.unwrap();
    }
}
