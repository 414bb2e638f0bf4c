//! Whether anything is in flight on a connection, and for how long nothing has been.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// What goes on on one connection.
#[derive(Clone, Debug)]
pub(super) struct Activity(watch::Sender<Now>);

#[derive(Clone, Copy, Debug, Default)]
struct Now {
    /// The requests that have not been answered to their end.
    in_flight: usize,
    /// All requests so far: one that was short is noticed as well.
    begun: u64,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy(Activity);

impl Activity {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Now::default()))
    }

    /// Counts a request as in flight.
    pub(super) fn begin(&self) -> Busy {
        self.0.send_modify(|now| {
            now.in_flight = now.in_flight.saturating_add(1);
            now.begun = now.begun.wrapping_add(1);
        });
        Busy(self.clone())
    }

    /// Waits until nothing has been in flight for so long: before the first request that comes now, and after each.
    pub(super) async fn quiet(&self, before: Duration, after: Duration) {
        let mut now = self.0.subscribe();
        let mut patience = before;
        loop {
            // There is always a sender, so waiting does not fail.
            let Ok(begun) = now.wait_for(|now| now.in_flight == 0).await.map(|now| now.begun) else { return };
            if timeout(patience, now.wait_for(|now| now.begun != begun)).await.is_err() {
                return;
            }
            patience = after;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.send_modify(|now| now.in_flight = now.in_flight.saturating_sub(1));
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
