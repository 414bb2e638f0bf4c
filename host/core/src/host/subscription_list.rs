//! The attempts to subscribe to the resources of one list, in the background.
//!
//! Attempts are made in turn: round-robin over the plugins, and over the resources of each plugin. At most
//! [`MAX_ATTEMPTS_PER_PLUGIN`] attempts per plugin run at the same time, so a plugin that hangs does not delay other
//! plugins' resources. An attempt that fails for a reason of its own is repeated when its retry delay is over.
//!
//! A limit on subscriptions ([`LimitScope`]), and an audit log without space, apply to many resources alike. They are
//! detected at the first poll of an attempt, so attempts start one by one, and one that is rejected holds the others
//! back: no further attempt is made until the back-off of [`MIN_LIMIT_BACKOFF`], doubled up to [`MAX_LIMIT_BACKOFF`],
//! is over. Then the next resource in turn is tried, not the same one, because another may fit. So while a limit is
//! reached, a list costs one attempt per back-off, however long it is.
//!
//! A list that lacks memory does not wait for the end of the back-off if memory is released ([`Releases`]): by its own
//! client if the share of the client is used up, and by any client if the memory of all is. A release costs at most one
//! attempt of one list of the client and of one list of all, however many wait (no thundering herd). A list that was
//! woken and is not rejected again wakes the next one. So the back-off is for releases that were too small for the list
//! that they woke.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use mcp_host_base::backoff::Backoff;
use mcp_host_base::share_limiter::{LimitReached, Releases};
use mcp_host_model::requester::Requester;
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
    /// The limit on memory that `hold` is for; none if it is for the audit log.
    lacking: Option<LimitReached>,
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

    /// Permits attempts again before the back-off is over, which stays as it is.
    fn end(&mut self) {
        self.until = None;
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
        let turns = (0..plugins.len()).collect();
        Self { turns, plugins, retries: BTreeMap::new(), hold: Hold::new(), lacking: None }
    }

    /// Makes attempts. Returns when all have ended. `releases` notifies of released memory for subscriptions.
    pub(super) async fn run<F: Future<Output = Attempt>>(
        mut self,
        releases: &Releases<Requester>,
        attempt: impl Fn(R) -> F,
    ) {
        let mut in_flight = FuturesUnordered::new();
        // The limit below which a release may have made room, until the next attempt.
        let mut woken = None;
        loop {
            self.release_due(Instant::now());
            // One time for both decisions: a hold that ends in between would neither permit an attempt nor be waited
            // for.
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
            if let Some(reached) = woken.take()
                && self.hold.is_over(now)
            {
                releases.pass_on(reached);
            }
            let (next, lacking) = (self.next_attempt(now), self.lacking_memory(now));
            tokio::select! {
                Some((plugin, resource, outcome)) = in_flight.next() => {
                    self.end(plugin, resource, outcome, Instant::now());
                }
                () = sleep_until_some(next), if next.is_some() => {}
                () = next_release(releases, lacking), if lacking.is_some() => {
                    self.hold.end();
                    woken = lacking;
                }
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
            Attempt::Limited(LimitScope::Subscriber(reached)) => {
                self.hold.begin(now, Backoff::next_delay);
                self.lacking = Some(reached);
            }
            Attempt::Limited(LimitScope::Plugin) => {
                self.hold.reset(now);
                plugin.hold.begin(now, Backoff::next_delay);
            }
            Attempt::Unrecorded => {
                self.hold.begin(now, |_| AUDIT_RETRY_DELAY);
                self.lacking = None;
            }
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

    /// Returns the limit on memory that holds attempts back now; none if there are none, or if something else does.
    fn lacking_memory(&self, now: Instant) -> Option<LimitReached> {
        let is_waiting = self.plugins.iter().any(|plugin| !plugin.ready.is_empty());
        self.lacking.filter(|_| is_waiting && !self.hold.is_over(now))
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

async fn next_release(releases: &Releases<Requester>, lacking: Option<LimitReached>) {
    if let Some(reached) = lacking {
        releases.next(reached).await;
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
    use std::pin::{Pin, pin};

    use futures::future::join_all;
    use mcp_host_base::share_limiter::{ShareLimiter, ShareLimits};
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;
    use crate::access::Principal;

    const HOUR: Duration = Duration::from_secs(3600);
    const LIMITED: Attempt = Attempt::Limited(LimitScope::Subscriber(LimitReached::ClientShare));

    fn client() -> Requester {
        Requester::Principal(Principal::LOCAL)
    }

    /// The releases of a memory of which nothing is released.
    fn no_releases() -> Releases<Requester> {
        ShareLimiter::default().releases(client())
    }

    /// Polls lists until nothing happens any more at this time.
    async fn settle(mut lists: Pin<&mut impl Future<Output = Vec<()>>>) -> bool {
        for _ in 0..1000 {
            if lists.as_mut().now_or_never().is_some() {
                return true;
            }
            yield_now().await;
        }
        false
    }

    /// A list of `count` resources of each plugin: the plugin and a number.
    fn queue(plugins: usize, count: usize) -> AttemptQueue<(usize, usize)> {
        AttemptQueue::new((0..plugins).map(|plugin| (0..count).map(|number| (plugin, number)).collect()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_without_memory_costs_one_attempt_a_minute_for_each_resource_in_turn() {
        let (releases, tried) = (no_releases(), RefCell::new(Vec::new()));
        let trying = queue(3, 1024).run(&releases, |resource| {
            tried.borrow_mut().push(resource);
            ready(LIMITED)
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
        let (began, releases) = (Instant::now(), no_releases());
        let trying = queue(2, 10).run(&releases, |_| {
            attempts.set(attempts.get() + 1);
            ready(match room.get().checked_sub(1) {
                Some(rest) => {
                    room.set(rest);
                    active.set(active.get() + 1);
                    Attempt::Ended
                }
                None => LIMITED,
            })
        });
        let mut trying = pin!(trying);
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
    async fn a_list_without_memory_goes_on_as_soon_as_its_client_releases_some() {
        let (memory, other) = (ShareLimiter::default(), Requester::Host);
        let max = ShareLimits { client: 10, overall: 100 };
        let releases = memory.releases(client());
        let mut held = memory.acquire_amount(&client(), 10, max).unwrap();
        let of_other = memory.acquire_amount(&other, 10, max).unwrap();
        let (taken, attempts) = (RefCell::new(Vec::new()), Cell::new(0));
        let trying = queue(2, 10).run(&releases, |_| {
            attempts.set(attempts.get() + 1);
            ready(match memory.acquire(&client(), max) {
                Ok(permit) => {
                    taken.borrow_mut().push(permit);
                    Attempt::Ended
                }
                Err(reached) => Attempt::Limited(LimitScope::Subscriber(reached)),
            })
        });
        let mut trying = pin!(trying);
        assert!(timeout(HOUR, &mut trying).await.is_err());
        attempts.set(0);
        held.resize(5, max).unwrap();
        // The first back-off after an attempt that succeeded is 5 s.
        assert!(timeout(Duration::from_secs(1), &mut trying).await.is_err());
        assert_eq!((taken.borrow().len(), attempts.get()), (5, 6), "at once, though the back-off was a minute");
        drop(of_other);
        assert!(timeout(Duration::from_secs(1), &mut trying).await.is_err());
        assert_eq!(attempts.get(), 6, "what another client releases makes no room in the share of this one");
        drop(held);
        assert!(timeout(Duration::from_secs(1), &mut trying).await.is_err());
        assert_eq!((taken.borrow().len(), attempts.get()), (10, 12));
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_costs_one_attempt_however_many_lists_wait_and_all_go_on_that_have_room() {
        const LISTS: usize = 100;
        let memory = ShareLimiter::default();
        let max = ShareLimits { client: 1000, overall: 1000 };
        let releases = memory.releases(client());
        let mut held = memory.acquire_amount(&Requester::Host, 1000, max).unwrap();
        let (taken, attempts) = (RefCell::new(Vec::new()), Cell::new(0));
        let attempt = |_: (usize, usize)| {
            attempts.set(attempts.get() + 1);
            ready(match memory.acquire_amount(&client(), 2, max) {
                Ok(permit) => {
                    taken.borrow_mut().push(permit);
                    Attempt::Ended
                }
                Err(reached) => Attempt::Limited(LimitScope::Subscriber(reached)),
            })
        };
        let mut lists = pin!(join_all((0..LISTS).map(|_| queue(1, 1).run(&releases, &attempt))));
        assert!(timeout(HOUR, &mut lists).await.is_err());
        for (left, expected_attempts, active) in [(999, 1, 0), (997, 2, 1)] {
            attempts.set(0);
            held.resize(left, max).unwrap();
            assert!(!settle(lists.as_mut()).await);
            assert_eq!((attempts.get(), taken.borrow().len()), (expected_attempts, active), "{left}");
        }
        attempts.set(0);
        drop(held);
        assert!(settle(lists.as_mut()).await, "each list wakes the next one");
        assert_eq!((attempts.get(), taken.borrow().len()), (LISTS - 1, LISTS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_one_plugin_holds_back_no_other() {
        let (releases, attempts) = (no_releases(), [Cell::new(0), Cell::new(0)]);
        let trying = queue(2, 100).run(&releases, |(plugin, _)| {
            attempts[plugin].set(attempts[plugin].get() + 1);
            ready(if plugin == 0 { Attempt::Limited(LimitScope::Plugin) } else { Attempt::Ended })
        });
        assert!(timeout(Duration::from_secs(4), trying).await.is_err());
        assert_eq!(attempts.map(Cell::into_inner), [1, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_delays_no_other_and_has_some_attempts() {
        let (releases, attempts) = (no_releases(), [Cell::new(0), Cell::new(0)]);
        let trying = queue(2, 100).run(&releases, |(plugin, _)| {
            attempts[plugin].set(attempts[plugin].get() + 1);
            async move { if plugin == 0 { pending().await } else { Attempt::Ended } }
        });
        assert!(timeout(HOUR, trying).await.is_err());
        assert_eq!(attempts.map(Cell::into_inner), [MAX_ATTEMPTS_PER_PLUGIN, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_that_fails_is_tried_again_after_its_own_delay_and_without_an_audit_log_one_each_second() {
        let (began, releases, attempts) = (Instant::now(), no_releases(), Cell::new(0));
        let trying = queue(1, 1).run(&releases, |_| {
            attempts.set(attempts.get() + 1);
            ready(if attempts.get() < 4 { Attempt::Retry(Duration::from_secs(2)) } else { Attempt::Ended })
        });
        trying.await;
        assert_eq!((attempts.get(), began.elapsed().as_secs()), (4, 6));
        attempts.set(0);
        let trying = queue(5, 100).run(&releases, |_| {
            attempts.set(attempts.get() + 1);
            ready(Attempt::Unrecorded)
        });
        assert!(timeout(Duration::from_millis(10_500), trying).await.is_err());
        assert_eq!(attempts.get(), 11);
    }
}
