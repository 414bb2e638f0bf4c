//! The idle instances of one plugin, for those that opt into reuse (`instances`).
//!
//! An instance serves one call at a time, so it is either with a call or here. What ends its life:
//!
//! | | |
//! |---|---|
//! | `instances.max-calls` | it has served so many calls |
//! | `instances.idle-timeout` | no call has needed it for so long |
//! | `instances.max-idle` | so many are idle already |
//! | memory | it holds more than its share, `limits.memory` ÷ `instances.max-idle` |
//! | a call that gave no answer | whatever the reason: it is never put back |
//! | others' need | a call of the plugin wants memory, or a call of any plugin a [seat](super::seats) |
//!
//! The one that was used last is used next, so that a plugin keeps no more of them than its calls need at once, and the others
//! run out of time. While something is idle one task sleeps until that time; otherwise there is none. No epoch moves for
//! instances that are idle.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;

use super::engine::Engine;
use super::instance::Instance;
use crate::config::Plugin;

/// The idle instances of one plugin.
pub(super) struct Pool {
    engine: Arc<Engine>,
    /// Calls that one instance may serve.
    reuse: usize,
    /// Bytes of memory that an idle instance may hold.
    share: usize,
    resting: Mutex<Resting>,
}

struct Resting {
    idle: Idle<Instance>,
    /// Ends what is idle for too long, while anything is.
    sweeper: Option<AbortOnDropHandle<()>>,
}

impl Pool {
    /// The pool of that plugin, if it wants one.
    pub(super) fn of(plugin: &Plugin, engine: &Arc<Engine>) -> Option<Arc<Self>> {
        let instances = plugin.instances.as_ref()?;
        let keep = instances.max_idle.get();
        let memory = usize::try_from(plugin.limits.memory.bytes()).unwrap_or(usize::MAX);
        let pool = Arc::new(Self {
            engine: engine.clone(),
            reuse: instances.max_calls.get(),
            share: memory.checked_div(keep).unwrap_or(memory),
            resting: Mutex::new(Resting { idle: Idle::new(keep, instances.idle_timeout.duration()), sweeper: None }),
        });
        engine.seats.watch(&pool);
        Some(pool)
    }

    /// An instance for a call, if one is idle.
    pub(super) fn take(&self) -> Option<Instance> {
        self.resting().idle.take(Instant::now())
    }

    /// Keeps an instance that gave an answer for the next call, or ends it.
    pub(super) fn keep(self: &Arc<Self>, instance: Instance) {
        if instance.calls() >= self.reuse || instance.memory() > self.share || self.engine.seats.are_wanted() {
            return;
        }
        let mut resting = self.resting();
        let refused = resting.idle.put(instance, Instant::now());
        if resting.sweeper.is_none() {
            let sweep = Self::sweep(Arc::downgrade(self));
            resting.sweeper = Some(self.engine.threads.spawn(sweep));
        }
        drop(resting);
        drop(refused);
        // Somebody may have begun to wait for a seat before there was anything to give way.
        if self.engine.seats.are_wanted() {
            self.give_way();
        }
    }

    /// Since when the instance that has been idle for longest is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.resting().idle.since()
    }

    /// Ends the instance that has been idle for longest, if there is any.
    pub(super) fn give_way(&self) -> bool {
        let oldest = self.resting().idle.take_oldest();
        oldest.is_some()
    }

    /// Ends what is idle for too long, until nothing is idle.
    async fn sweep(pool: Weak<Self>) {
        while let Some(next) = pool.upgrade().and_then(|pool| pool.expire(Instant::now())) {
            tokio::time::sleep_until(next.into()).await;
        }
    }

    /// Ends what is idle for too long, and says when something will be next.
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut resting = self.resting();
        let expired = resting.idle.expired(now);
        let next = resting.idle.next_expiry();
        let sweeper = if next.is_none() { resting.sweeper.take() } else { None };
        drop(resting);
        drop(expired);
        // It is the sweeper that asks: it ends by itself.
        sweeper.map(AbortOnDropHandle::detach);
        next
    }

    fn resting(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Things that are idle, in the order in which they became so. What leaves it is dropped by the caller, behind its lock.
struct Idle<T> {
    things: VecDeque<(Instant, T)>,
    most: usize,
    longest: Duration,
}

impl<T> Idle<T> {
    /// Room for so many, each for so long.
    fn new(most: usize, longest: Duration) -> Self {
        Self { things: VecDeque::new(), most, longest }
    }

    /// Puts one in, or gives it back if there is no room.
    fn put(&mut self, thing: T, now: Instant) -> Option<T> {
        if self.things.len() >= self.most {
            return Some(thing);
        }
        self.things.push_back((now, thing));
        None
    }

    /// The one that became idle last, unless its time is over.
    fn take(&mut self, now: Instant) -> Option<T> {
        let (since, _) = self.things.back()?;
        if self.is_over(*since, now) {
            return None;
        }
        self.things.pop_back().map(|(_, thing)| thing)
    }

    fn take_oldest(&mut self) -> Option<T> {
        self.things.pop_front().map(|(_, thing)| thing)
    }

    /// All whose time is over.
    fn expired(&mut self, now: Instant) -> Vec<T> {
        let over = self.things.partition_point(|(since, _)| self.is_over(*since, now));
        self.things.drain(..over).map(|(_, thing)| thing).collect()
    }

    fn since(&self) -> Option<Instant> {
        self.things.front().map(|(since, _)| *since)
    }

    fn next_expiry(&self) -> Option<Instant> {
        self.since().and_then(|since| since.checked_add(self.longest))
    }

    fn is_over(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    #[test]
    fn the_one_that_was_used_last_is_used_next() {
        let now = Instant::now();
        let mut idle = Idle::new(2, LONGEST);
        assert_eq!(idle.put("a", now), None);
        assert_eq!(idle.put("b", now), None);
        assert_eq!(idle.put("c", now), Some("c"), "there is room for two");
        assert_eq!((idle.take(now), idle.take(now), idle.take(now)), (Some("b"), Some("a"), None));
    }

    #[test]
    fn what_is_idle_for_too_long_is_not_used_and_goes() {
        let start = Instant::now();
        let mut idle = Idle::new(2, LONGEST);
        idle.put("a", start);
        idle.put("b", start + LONGEST / 2);
        assert_eq!(idle.next_expiry(), Some(start + LONGEST));
        assert_eq!(idle.expired(start + LONGEST), ["a"]);
        assert_eq!(idle.next_expiry(), Some(start + LONGEST / 2 + LONGEST));
        assert_eq!(idle.take(start + LONGEST * 2), None);
        assert_eq!(idle.expired(start + LONGEST * 2), ["b"]);
        assert_eq!(idle.next_expiry(), None);
    }

    #[test]
    fn the_one_that_is_idle_for_longest_gives_way() {
        let start = Instant::now();
        let mut idle = Idle::new(2, LONGEST);
        idle.put("a", start);
        idle.put("b", start + LONGEST / 2);
        assert_eq!(idle.since(), Some(start));
        assert_eq!((idle.take_oldest(), idle.take_oldest(), idle.take_oldest()), (Some("a"), Some("b"), None));
    }
}
