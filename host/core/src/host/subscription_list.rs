//! The attempts to subscribe to the resources of one list, in the background.
//!
//! Attempts are made in turn: round-robin over the plugins, and over the resources of each plugin. At most
//! [`MAX_ATTEMPTS_PER_PLUGIN`] attempts per plugin run at the same time, so a plugin that hangs does not delay other plugins'
//! resources. An attempt that fails for a reason of its own is repeated when its retry delay is over.
//!
//! A limit on subscriptions ([`LimitScope`]), and an audit log without space, apply to many resources alike. They are detected at the
//! first poll of an attempt, so attempts start one by one, and one that is rejected holds the others back: no further attempt is made
//! until the back-off of [`MIN_LIMIT_BACKOFF`], doubled up to [`MAX_LIMIT_BACKOFF`], is over. Then the next resource in turn is tried,
//! not the same one, because another may fit. So while a limit is reached, a list costs one attempt per back-off, however long it is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use mcp_host_base::backoff::Backoff;
use tokio::time::{Instant, sleep_until};

use crate::watch::LimitScope;

/// The maximum number of concurrent attempts per list and plugin.
const MAX_ATTEMPTS_PER_PLUGIN: usize = 8;
/// The first and the maximum back-off while a limit is reached.
const MIN_LIMIT_BACKOFF: Duration = Duration::from_secs(5);
const MAX_LIMIT_BACKOFF: Duration = Duration::from_secs(60);
/// The retry delay while the audit log has no space for a record.
const AUDIT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The subscription is active, or fails until a reload.
    Ended,
    /// It may succeed after this time.
    Retry(Duration),
    /// A limit is reached, so attempts for other resources would fail, too.
    Limited(LimitScope),
    /// The audit log has no space for the record of an attempt.
    Unrecorded,
}

/// The resources of a list that are not active.
pub(super) struct AttemptQueue<R> {
    plugins: Vec<PluginQueue<R>>,
    /// The indices of the plugins, in the order in which they are served next.
    turns: VecDeque<usize>,
    /// The resources with a retry delay, with the indices of their plugins, by the time of their next attempt.
    retries: BTreeMap<Instant, Vec<(usize, R)>>,
    hold: Hold,
}

/// The resources of one plugin that are ready for an attempt.
struct PluginQueue<R> {
    ready: VecDeque<R>,
    /// The number of attempts in flight.
    in_flight: usize,
    hold: Hold,
}

/// Until when attempts are held back.
struct Hold {
    until: Option<Instant>,
    backoff: Backoff,
}

impl Hold {
    fn new() -> Self {
        Self { until: None, backoff: Self::new_backoff() }
    }

    fn new_backoff() -> Backoff {
        Backoff::new(MIN_LIMIT_BACKOFF, MAX_LIMIT_BACKOFF)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Holds attempts back for this time, unless they are held back already: a limit that rejects concurrent attempts
    /// counts once.
    fn begin(&mut self, now: Instant, delay: impl FnOnce(&mut Backoff) -> Duration) {
        if self.is_over(now) {
            self.until = now.checked_add(delay(&mut self.backoff));
        }
    }

    /// Resets the back-off: an attempt was not rejected.
    fn reset(&mut self, now: Instant) {
        if self.is_over(now) {
            self.backoff = Self::new_backoff();
        }
    }
}

impl<R: Copy> AttemptQueue<R> {
    /// Creates the queue of these resources, by plugin.
    pub(super) fn new(plugins: impl IntoIterator<Item = VecDeque<R>>) -> Self {
        let plugins = plugins.into_iter().map(|ready| PluginQueue { ready, in_flight: 0, hold: Hold::new() });
        let plugins: Vec<_> = plugins.collect();
        Self { turns: (0..plugins.len()).collect(), plugins, retries: BTreeMap::new(), hold: Hold::new() }
    }

    /// Makes attempts. Returns when all have ended.
    pub(super) async fn run<F: Future<Output = Attempt>>(mut self, attempt: impl Fn(R) -> F) {
        let mut in_flight = FuturesUnordered::new();
        loop {
            self.release_due(Instant::now());
            // One time for both decisions: a hold that ends in between would neither permit an attempt nor be waited for.
            let mut now = Instant::now();
            while let Some((plugin, resource)) = self.pop(now) {
                let trying = attempt(resource);
                in_flight.push(async move { (plugin, resource, trying.await) });
                // The first poll: an attempt that a limit rejects ends here.
                while let Some(Some((plugin, resource, outcome))) = in_flight.next().now_or_never() {
                    self.end(plugin, resource, outcome, Instant::now());
                }
                now = Instant::now();
            }
            let next = self.next_attempt(now);
            tokio::select! {
                Some((plugin, resource, outcome)) = in_flight.next() => {
                    self.end(plugin, resource, outcome, Instant::now());
                }
                () = sleep_until_some(next), if next.is_some() => {}
                else => return,
            }
        }
    }

    /// Makes the resources ready whose retry delay is over.
    fn release_due(&mut self, now: Instant) {
        while let Some(due) = self.retries.first_entry().filter(|due| *due.key() <= now) {
            for (plugin, resource) in due.remove() {
                self.plugins.get_mut(plugin).into_iter().for_each(|plugin| plugin.ready.push_back(resource));
            }
        }
    }

    /// Takes the next resource in turn, if an attempt may be made.
    fn pop(&mut self, now: Instant) -> Option<(usize, R)> {
        if !self.hold.is_over(now) {
            return None;
        }
        for _ in 0..self.turns.len() {
            let index = self.turns.pop_front()?;
            self.turns.push_back(index);
            let plugin = self.plugins.get_mut(index)?;
            if plugin.in_flight >= MAX_ATTEMPTS_PER_PLUGIN || !plugin.hold.is_over(now) {
                continue;
            }
            if let Some(resource) = plugin.ready.pop_front() {
                plugin.in_flight = plugin.in_flight.saturating_add(1);
                return Some((index, resource));
            }
        }
        None
    }

    /// Records the outcome of an attempt.
    fn end(&mut self, index: usize, resource: R, outcome: Attempt, now: Instant) {
        let Some(plugin) = self.plugins.get_mut(index) else { return };
        plugin.in_flight = plugin.in_flight.saturating_sub(1);
        match outcome {
            Attempt::Ended | Attempt::Retry(_) => {
                self.hold.reset(now);
                plugin.hold.reset(now);
            }
            Attempt::Limited(LimitScope::Subscriber) => self.hold.begin(now, Backoff::next_delay),
            Attempt::Limited(LimitScope::Plugin) => {
                self.hold.reset(now);
                plugin.hold.begin(now, Backoff::next_delay);
            }
            Attempt::Unrecorded => self.hold.begin(now, |_| AUDIT_RETRY_DELAY),
        }
        match outcome {
            Attempt::Ended => {}
            Attempt::Retry(after) => {
                if let Some(when) = now.checked_add(after) {
                    self.retries.entry(when).or_default().push((index, resource));
                }
            }
            Attempt::Limited(_) | Attempt::Unrecorded => plugin.ready.push_back(resource),
        }
    }

    /// Returns the time at which a further attempt may be made; none if that does not depend on the time.
    fn next_attempt(&self, now: Instant) -> Option<Instant> {
        let waiting = || self.plugins.iter().filter(|plugin| !plugin.ready.is_empty());
        let held = if self.hold.is_over(now) {
            waiting().filter_map(|plugin| plugin.hold.until.filter(|until| *until > now)).min()
        } else {
            waiting().next().and(self.hold.until)
        };
        let retry = self.retries.first_key_value().map(|(when, _)| *when);
        [held, retry].into_iter().flatten().min()
    }
}

async fn sleep_until_some(when: Option<Instant>) {
    if let Some(when) = when {
        sleep_until(when).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;
    use std::future::{pending, ready};

    use tokio::time::timeout;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// A list of `count` resources of each plugin: the plugin and a number.
    fn queue(plugins: usize, count: usize) -> AttemptQueue<(usize, usize)> {
        AttemptQueue::new((0..plugins).map(|plugin| (0..count).map(|number| (plugin, number)).collect()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_memory_costs_one_attempt_a_minute_for_each_resource_in_turn() {
        let tried = RefCell::new(Vec::new());
        let trying = queue(3, 1024).run(|resource| {
            tried.borrow_mut().push(resource);
            ready(Attempt::Limited(LimitScope::Subscriber))
        });
        assert!(timeout(HOUR, trying).await.is_err(), "it goes on");
        let tried = tried.into_inner();
        // 5, 10, 20 and 40 s, then each minute, give or take a tenth.
        assert!((55..=72).contains(&tried.len()), "{} attempts", tried.len());
        let distinct: BTreeSet<_> = tried.iter().copied().collect();
        assert_eq!(distinct.len(), tried.len(), "each time another resource");
        let plugins: Vec<_> = tried.iter().take(6).map(|(plugin, _)| *plugin).collect();
        assert_eq!(plugins, [0, 1, 2, 0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn resources_are_subscribed_to_as_there_is_memory() {
        let (room, active, attempts) = (Cell::new(3_usize), Cell::new(0), Cell::new(0));
        let began = Instant::now();
        let trying = queue(2, 10).run(|_| {
            attempts.set(attempts.get() + 1);
            ready(match room.get().checked_sub(1) {
                Some(rest) => {
                    room.set(rest);
                    active.set(active.get() + 1);
                    Attempt::Ended
                }
                None => Attempt::Limited(LimitScope::Subscriber),
            })
        });
        let mut trying = std::pin::pin!(trying);
        assert!(timeout(Duration::from_secs(1), &mut trying).await.is_err());
        assert_eq!((active.get(), attempts.get()), (3, 4));
        room.set(5);
        // The first back-off is the shortest.
        assert!(timeout(Duration::from_secs(6), &mut trying).await.is_err());
        assert_eq!((active.get(), attempts.get()), (8, 10));
        assert!(timeout(HOUR, &mut trying).await.is_err());
        room.set(100);
        trying.await;
        assert_eq!(active.get(), 20);
        assert!(began.elapsed() < HOUR + Duration::from_secs(80), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_one_plugin_holds_back_no_other() {
        let attempts = [Cell::new(0), Cell::new(0)];
        let trying = queue(2, 100).run(|(plugin, _)| {
            attempts[plugin].set(attempts[plugin].get() + 1);
            ready(if plugin == 0 { Attempt::Limited(LimitScope::Plugin) } else { Attempt::Ended })
        });
        assert!(timeout(Duration::from_secs(4), trying).await.is_err());
        assert_eq!(attempts.map(Cell::into_inner), [1, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_delays_no_other_and_has_some_attempts() {
        let attempts = [Cell::new(0), Cell::new(0)];
        let trying = queue(2, 100).run(|(plugin, _)| {
            attempts[plugin].set(attempts[plugin].get() + 1);
            async move { if plugin == 0 { pending().await } else { Attempt::Ended } }
        });
        assert!(timeout(HOUR, trying).await.is_err());
        assert_eq!(attempts.map(Cell::into_inner), [MAX_ATTEMPTS_PER_PLUGIN, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_that_fails_is_tried_again_after_its_own_delay_and_without_an_audit_log_one_each_second() {
        let (began, attempts) = (Instant::now(), Cell::new(0));
        let trying = queue(1, 1).run(|_| {
            attempts.set(attempts.get() + 1);
            ready(if attempts.get() < 4 { Attempt::Retry(Duration::from_secs(2)) } else { Attempt::Ended })
        });
        trying.await;
        assert_eq!((attempts.get(), began.elapsed().as_secs()), (4, 6));
        attempts.set(0);
        let trying = queue(5, 100).run(|_| {
            attempts.set(attempts.get() + 1);
            ready(Attempt::Unrecorded)
        });
        assert!(timeout(Duration::from_millis(10_500), trying).await.is_err());
        assert_eq!(attempts.get(), 11);
    }
}
