//! What is in flight on a connection: for how long nothing has been, and what does not get on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::delivery::Delivery;

use crate::log_target;

/// What goes on on one connection. To take note of a request wakes nobody up: whoever waits looks from time to time.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<ActivityState>>);

#[derive(Debug)]
struct ActivityState {
    /// The answers of requests that have not been answered to their end.
    in_flight: Vec<Weak<Delivery>>,
    /// Whether there has been any.
    has_begun: bool,
    /// Since when that is as it is.
    idle_since: Instant,
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard {
    activity: Activity,
    delivery: Weak<Delivery>,
}

/// The least that is waited before somebody looks again.
const MIN_POLL: Duration = Duration::from_millis(1);
/// How often it is looked, within the time without progress, whether there is any.
const POLLS_PER_LIMIT: u32 = 4;

impl Activity {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(ActivityState {
            in_flight: Vec::new(),
            has_begun: false,
            idle_since: Instant::now(),
        })))
    }

    /// Counts a request as in flight that will have that answer.
    pub(super) fn begin(&self, delivery: Arc<Delivery>) -> RequestGuard {
        let answer = Arc::downgrade(&delivery);
        let mut now = self.lock();
        now.in_flight.push(answer.clone());
        now.has_begun = true;
        drop(now);
        RequestGuard { activity: self.clone(), delivery: answer }
    }

    /// Ends answers of which nothing has been sent for so long although something is to be. Goes on until it is dropped.
    pub(super) async fn end_stalled(&self, limit: Duration) {
        loop {
            sleep(limit.checked_div(POLLS_PER_LIMIT).unwrap_or(limit).max(MIN_POLL)).await;
            let answers: Vec<_> = self.lock().in_flight.iter().filter_map(Weak::upgrade).collect();
            for answer in answers.iter().filter(|answer| answer.has_stalled(limit)) {
                tracing::debug!(target: log_target::SERVER, ?limit, "response aborted: its client reads nothing of it (`http.limits.write-timeout`)");
                answer.abort();
            }
        }
    }

    /// Waits until nothing has been in flight for so long: before the first request of all, and after each.
    pub(super) async fn wait_idle(&self, before: Duration, after: Duration) {
        let start = Instant::now();
        loop {
            let (in_flight, has_begun, since) = self.snapshot();
            let patience = if has_begun { after } else { before };
            let left = patience.saturating_sub(since.max(start).elapsed());
            if in_flight == 0 && left.is_zero() {
                return;
            }
            // Whatever happens from now on, it is not quiet before that.
            let next = if in_flight == 0 { left.min(after) } else { after };
            sleep(next.max(MIN_POLL)).await;
        }
    }

    fn snapshot(&self) -> (usize, bool, Instant) {
        let now = self.lock();
        (now.in_flight.len(), now.has_begun, now.idle_since)
    }

    fn lock(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut now = self.activity.lock();
        if let Some(place) = now.in_flight.iter().position(|answer| answer.ptr_eq(&self.delivery)) {
            now.in_flight.swap_remove(place);
        }
        now.idle_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(1);

    fn answer() -> Arc<Delivery> {
        Arc::new(Delivery::new())
    }

    /// Lets the task that waits run until it can go no further.
    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_is_quiet_only_while_nothing_is_in_flight() {
        let activity = Activity::new();
        let request = activity.begin(answer());
        let waiting = tokio::spawn({
            let activity = activity.clone();
            async move { activity.wait_idle(SHORT, SHORT).await }
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
            async move { activity.wait_idle(LONG, SHORT).await }
        });
        settle().await;
        drop(activity.begin(answer()));
        waiting.await.unwrap();
    }
}
