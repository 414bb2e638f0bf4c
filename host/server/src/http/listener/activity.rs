//! The activity of a connection: its requests in flight, the time for which it has been idle, and responses that stall.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use super::delivery::Delivery;

use mcp_host_base::log_target;

/// The activity of one connection. Recording a request wakes no task: waiting tasks poll.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<ActivityState>>);

#[derive(Debug)]
struct ActivityState {
    /// The responses that have not been sent completely.
    in_flight: Vec<Weak<Delivery>>,
    /// Whether the connection has had any request.
    has_begun: bool,
    /// The time of the last change.
    idle_since: Instant,
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard {
    activity: Activity,
    delivery: Weak<Delivery>,
}

/// The minimum poll interval.
const MIN_POLL: Duration = Duration::from_millis(1);
/// The number of polls for progress per write timeout.
const POLLS_PER_LIMIT: u32 = 4;

impl Activity {
    /// Creates the activity of a new connection.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(ActivityState {
            in_flight: Vec::new(),
            has_begun: false,
            idle_since: Instant::now(),
        })))
    }

    /// Records a request as in flight, with its delivery.
    pub(super) fn begin(&self, delivery: Arc<Delivery>) -> RequestGuard {
        let answer = Arc::downgrade(&delivery);
        let mut now = self.lock();
        now.in_flight.push(answer.clone());
        now.has_begun = true;
        drop(now);
        RequestGuard { activity: self.clone(), delivery: answer }
    }

    /// Aborts responses that have made no progress for `limit` although bytes are pending. Runs until the future is
    /// dropped.
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

    /// Waits until the connection has been idle: for `before` ahead of its first request, for `after` from then on.
    pub(super) async fn wait_idle(&self, before: Duration, after: Duration) {
        let start = Instant::now();
        loop {
            let (in_flight, has_begun, since) = self.snapshot();
            let patience = if has_begun { after } else { before };
            let left = patience.saturating_sub(since.max(start).elapsed());
            if in_flight == 0 && left.is_zero() {
                return;
            }
            // The connection cannot become idle earlier than that.
            let next = if in_flight == 0 { left.min(after) } else { after };
            sleep(next.max(MIN_POLL)).await;
        }
    }

    /// Returns whether the connection has had any request.
    pub(super) fn has_begun(&self) -> bool {
        self.lock().has_begun
    }

    /// Returns whether no response is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().in_flight.is_empty()
    }

    /// Returns whether bytes of a response are being sent.
    pub(super) fn is_sending(&self) -> bool {
        let state = self.lock();
        state.in_flight.iter().filter_map(Weak::upgrade).any(|delivery| delivery.is_being_sent())
    }

    /// Returns whether a response is in progress that a half-closed client may still wait for.
    pub(super) fn outlives_input(&self) -> bool {
        let state = self.lock();
        state.in_flight.iter().filter_map(Weak::upgrade).any(|delivery| delivery.outlives_input())
    }

    fn snapshot(&self) -> (usize, bool, Instant) {
        let now = self.lock();
        (now.in_flight.len(), now.has_begun, now.idle_since)
    }

    fn lock(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock()
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

    /// Lets the waiting task run until it blocks.
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
