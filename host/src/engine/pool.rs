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
//! | others' need | a call of the plugin wants memory, or a call of any plugin a [seat](super::instance_permits) |
//!
//! The one that was used last is used next, so that a plugin keeps no more of them than its calls need at once, and the others
//! run out of time. While something is idle one task sleeps until that time; otherwise there is none. No epoch moves for
//! instances that are idle.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio_util::task::AbortOnDropHandle;

use super::Engine;
use super::instance::Instance;
use crate::config::Plugin;
use crate::sandbox::memory::Reclaim;

/// The idle instances of one plugin.
pub(crate) struct Pool {
    engine: Arc<Engine>,
    /// Calls that one instance may serve.
    max_calls: usize,
    /// Bytes of memory that an idle instance may hold.
    max_idle_memory: usize,
    idle_set: Mutex<IdleSet>,
}

struct IdleSet {
    idle: IdleQueue<Instance>,
    /// Ends what is idle for too long, while anything is.
    sweeper: Option<AbortOnDropHandle<()>>,
}

impl Pool {
    /// The pool of that plugin, if it wants one.
    pub(crate) fn from_config(plugin: &Plugin, engine: &Arc<Engine>) -> Option<Arc<Self>> {
        let instances = plugin.instances.as_ref()?;
        let max_idle = instances.max_idle.get();
        let memory = usize::try_from(plugin.limits.memory.bytes()).unwrap_or(usize::MAX);
        let pool = Arc::new(Self {
            engine: engine.clone(),
            max_calls: instances.max_calls.get(),
            max_idle_memory: memory.checked_div(max_idle).unwrap_or(memory),
            idle_set: Mutex::new(IdleSet {
                idle: IdleQueue::new(max_idle, instances.idle_timeout.duration()),
                sweeper: None,
            }),
        });
        let reclaim: Weak<dyn Reclaim> = Arc::<Self>::downgrade(&pool);
        engine.instance_permits.register_pool(reclaim);
        Some(pool)
    }

    /// An instance for a call, if one is idle.
    pub(crate) fn acquire(&self) -> Option<Instance> {
        self.lock().idle.pop(Instant::now())
    }

    /// Keeps an instance that gave an answer for the next call, or ends it.
    pub(crate) fn release(self: &Arc<Self>, instance: Instance) {
        if instance.calls() >= self.max_calls
            || instance.memory_bytes() > self.max_idle_memory
            || self.engine.instance_permits.has_waiters()
        {
            return;
        }
        let mut idle_set = self.lock();
        let refused = idle_set.idle.push(instance, Instant::now());
        if idle_set.sweeper.is_none() {
            let sweep = Self::sweep(Arc::downgrade(self));
            idle_set.sweeper = Some(self.engine.executor.spawn(sweep));
        }
        drop(idle_set);
        drop(refused);
        // Somebody may have begun to wait for a seat before there was anything to give way.
        if self.engine.instance_permits.has_waiters() {
            self.evict_oldest();
        }
    }

    /// Ends what is idle for too long, until nothing is idle.
    async fn sweep(pool: Weak<Self>) {
        while let Some(next) = pool.upgrade().and_then(|pool| pool.expire(Instant::now())) {
            tokio::time::sleep_until(next.into()).await;
        }
    }

    /// Ends what is idle for too long, and says when something will be next.
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut idle_set = self.lock();
        let expired = idle_set.idle.drain_expired(now);
        let next = idle_set.idle.next_expiry();
        let sweeper = if next.is_none() { idle_set.sweeper.take() } else { None };
        drop(idle_set);
        drop(expired);
        // It is the sweeper that asks: it ends by itself.
        sweeper.map(AbortOnDropHandle::detach);
        next
    }

    fn lock(&self) -> MutexGuard<'_, IdleSet> {
        self.idle_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for Pool {
    fn idle_since(&self) -> Option<Instant> {
        self.lock().idle.oldest_since()
    }

    fn evict_oldest(&self) -> bool {
        let oldest = self.lock().idle.pop_oldest();
        oldest.is_some()
    }
}

/// Things that are idle, in the order in which they became so. What leaves it is dropped by the caller, behind its lock.
struct IdleQueue<T> {
    items: VecDeque<(Instant, T)>,
    capacity: usize,
    idle_timeout: Duration,
}

impl<T> IdleQueue<T> {
    /// Room for so many, each for so long.
    fn new(capacity: usize, idle_timeout: Duration) -> Self {
        Self { items: VecDeque::new(), capacity, idle_timeout }
    }

    /// Puts one in, or gives it back if there is no room.
    fn push(&mut self, item: T, now: Instant) -> Option<T> {
        if self.items.len() >= self.capacity {
            return Some(item);
        }
        self.items.push_back((now, item));
        None
    }

    /// The one that became idle last, unless its time is over.
    fn pop(&mut self, now: Instant) -> Option<T> {
        let (since, _) = self.items.back()?;
        if self.is_expired(*since, now) {
            return None;
        }
        self.items.pop_back().map(|(_, item)| item)
    }

    fn pop_oldest(&mut self) -> Option<T> {
        self.items.pop_front().map(|(_, item)| item)
    }

    /// All whose time is over.
    fn drain_expired(&mut self, now: Instant) -> Vec<T> {
        let over = self.items.partition_point(|(since, _)| self.is_expired(*since, now));
        self.items.drain(..over).map(|(_, item)| item).collect()
    }

    fn oldest_since(&self) -> Option<Instant> {
        self.items.front().map(|(since, _)| *since)
    }

    fn next_expiry(&self) -> Option<Instant> {
        self.oldest_since().and_then(|since| since.checked_add(self.idle_timeout))
    }

    fn is_expired(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= self.idle_timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

    #[test]
    fn the_one_that_was_used_last_is_used_next() {
        let now = Instant::now();
        let mut idle = IdleQueue::new(2, IDLE_TIMEOUT);
        assert_eq!(idle.push("a", now), None);
        assert_eq!(idle.push("b", now), None);
        assert_eq!(idle.push("c", now), Some("c"), "there is room for two");
        assert_eq!((idle.pop(now), idle.pop(now), idle.pop(now)), (Some("b"), Some("a"), None));
    }

    #[test]
    fn what_is_idle_for_too_long_is_not_used_and_goes() {
        let start = Instant::now();
        let mut idle = IdleQueue::new(2, IDLE_TIMEOUT);
        idle.push("a", start);
        idle.push("b", start + IDLE_TIMEOUT / 2);
        assert_eq!(idle.next_expiry(), Some(start + IDLE_TIMEOUT));
        assert_eq!(idle.drain_expired(start + IDLE_TIMEOUT), ["a"]);
        assert_eq!(idle.next_expiry(), Some(start + IDLE_TIMEOUT / 2 + IDLE_TIMEOUT));
        assert_eq!(idle.pop(start + IDLE_TIMEOUT * 2), None);
        assert_eq!(idle.drain_expired(start + IDLE_TIMEOUT * 2), ["b"]);
        assert_eq!(idle.next_expiry(), None);
    }

    #[test]
    fn the_one_that_is_idle_for_longest_gives_way() {
        let start = Instant::now();
        let mut idle = IdleQueue::new(2, IDLE_TIMEOUT);
        idle.push("a", start);
        idle.push("b", start + IDLE_TIMEOUT / 2);
        assert_eq!(idle.oldest_since(), Some(start));
        assert_eq!((idle.pop_oldest(), idle.pop_oldest(), idle.pop_oldest()), (Some("a"), Some("b"), None));
    }
}
