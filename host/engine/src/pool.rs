//! The pool of idle instances of one plugin, for plugins that opt into reuse (`instances`).
//!
//! An instance serves one call at a time, so it is either with a call or in the pool. Its life ends as follows:
//!
//! | bound | the instance ends when |
//! |---|---|
//! | `instances.max-calls` | it has served this number of calls |
//! | `instances.idle-timeout` | it has been idle for this time |
//! | `instances.max-idle` | this number of instances is idle already |
//! | memory | it holds more than its share, `limits.memory` ÷ `instances.max-idle` |
//! | a call without an answer | immediately, for any reason: it never returns to the pool |
//! | eviction, least recently used first (LRU) | a call of the plugin needs memory, or a call of any plugin an [instance permit](super::instance_permits) |
//!
//! The most recently used instance is used next (LIFO), so that a plugin keeps only as many instances as its
//! concurrent calls need, and the others time out. While an instance is idle, one task sleeps until the next
//! timeout. Without idle instances there is no task. The epoch does not advance for idle instances.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mcp_host_config::Plugin;
use mcp_host_sandbox::memory::Reclaim;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::AbortOnDropHandle;

use super::Engine;
use super::instance::Instance;

/// The pool of one plugin.
pub(crate) struct Pool {
    engine: Arc<Engine>,
    /// The maximum number of calls that one instance serves.
    max_calls: usize,
    /// The maximum memory of an idle instance, in bytes.
    max_idle_memory: usize,
    idle_set: Mutex<IdleSet>,
}

struct IdleSet {
    idle: IdleQueue<Instance>,
    /// The task that ends expired instances, while any are idle.
    sweeper: Option<AbortOnDropHandle<()>>,
}

impl Pool {
    /// Creates the pool of this plugin, if it opted into reuse. Each call that is debugged has its own instance.
    pub(crate) fn from_config(plugin: &Plugin, engine: &Arc<Engine>) -> Option<Arc<Self>> {
        let instances = plugin.instances.as_ref().filter(|_| engine.debugger().is_none())?;
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

    /// Takes an idle instance for a call, if there is one.
    pub(crate) fn acquire(&self) -> Option<Instance> {
        self.lock().idle.pop(Instant::now())
    }

    /// Keeps an instance that has answered for the next call, or ends it.
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
        // A call may have begun to wait for a permit before this instance was idle.
        if self.engine.instance_permits.has_waiters() {
            self.evict_oldest();
        }
    }

    /// The number of idle instances.
    pub(crate) fn idle_count(&self) -> usize {
        self.lock().idle.items.len()
    }

    /// Ends expired instances until no idle instance is left.
    async fn sweep(pool: Weak<Self>) {
        while let Some(next) = pool.upgrade().and_then(|pool| pool.expire(Instant::now())) {
            tokio::time::sleep_until(next.into()).await;
        }
    }

    /// Ends expired instances. Returns the time of the next expiry.
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut idle_set = self.lock();
        let expired = idle_set.idle.drain_expired(now);
        let next = idle_set.idle.next_expiry();
        let sweeper = if next.is_none() { idle_set.sweeper.take() } else { None };
        drop(idle_set);
        drop(expired);
        // The caller is the sweeper itself, which ends on its own.
        sweeper.map(AbortOnDropHandle::detach);
        next
    }

    fn lock(&self) -> MutexGuard<'_, IdleSet> {
        self.idle_set.lock()
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

/// Idle items, in the order in which they became idle. The caller drops removed items outside of its lock.
struct IdleQueue<T> {
    items: VecDeque<(Instant, T)>,
    capacity: usize,
    idle_timeout: Duration,
}

impl<T> IdleQueue<T> {
    /// Creates a queue of `capacity` items, which expire after `idle_timeout`.
    fn new(capacity: usize, idle_timeout: Duration) -> Self {
        Self { items: VecDeque::new(), capacity, idle_timeout }
    }

    /// Adds an item. Returns the item if the queue is full.
    fn push(&mut self, item: T, now: Instant) -> Option<T> {
        if self.items.len() >= self.capacity {
            return Some(item);
        }
        self.items.push_back((now, item));
        None
    }

    /// Takes the most recently idle item, unless it has expired.
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

    /// Takes all expired items.
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
