//! Shares: the number of instance slots that the calls of one plugin may use at once.
//!
//! All plugins share the slots ([`instance_permits`](super::instance_permits)), and a call may hold one until its
//! deadline, asleep. So each call acquires a slot permit before it takes an instance, and two rules govern these.
//!
//! **Dynamic threshold.** The calls of a plugin may use a further slot only while more slots are free than they use
//! already. Of `N` slots one plugin gets `N/2`, two plugins under full load get `N/3` each, and `p` of them `N/(p+1)`
//! each, with as many free: however many plugins take all they can get, one that has nothing gets its first slot at
//! once (up to `N − 1` plugins), and a plugin beside idle ones may have half. Of the 256 slots:
//!
//! | plugins under full load | slots of each | free |
//! |---|---|---|
//! | 1 | 128 | 128 |
//! | 2 | 85 or 86 | 85 |
//! | 8 | 28 or 29 | 28 |
//! | 100 | 2 or 3 | 2 |
//!
//! The host's own calls (`changes`, `describe`, the probe of the circuit breaker) follow the same rule with a count of
//! their own: a plugin whose clients use up its share is still watched, and gets one or two more slots at most for
//! that.
//!
//! **Max-min fairness.** Waiting calls are admitted by the number of slots that their plugin uses, fewest first; among
//! equals in order of arrival. So a plugin with hundreds of waiting calls does not delay one with a single waiting
//! call.
//!
//! Idle instances hold a slot but no permit: they are evicted as soon as a call needs their slot. The caller bounds the
//! wait (admission control of the plugin); a call that is cancelled while it waits, or as it is admitted, releases
//! everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::CallOrigin;

/// The permits for all slots.
pub(crate) struct Shares(Mutex<SlotState>);

struct SlotState {
    slots: usize,
    in_use: usize,
    /// The usage of each plugin.
    plugins: BTreeMap<u64, Usage>,
    /// The number of waiting calls, of all plugins.
    waiting: usize,
    /// The identifier of the next plugin or waiting call.
    next_id: u64,
}

/// The usage of one plugin.
#[derive(Default)]
struct Usage {
    clients: Class,
    host: Class,
}

/// The calls of one plugin for its clients, or those for the host.
#[derive(Default)]
struct Class {
    in_use: usize,
    /// The waiting calls, in order of arrival.
    waiting: BTreeMap<u64, Waiter>,
}

struct Waiter {
    share: Arc<Share>,
    admitted: oneshot::Sender<SlotPermit>,
}

impl Shares {
    /// The permits for a number of slots.
    pub(crate) fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(SlotState { slots, in_use: 0, plugins: BTreeMap::new(), waiting: 0, next_id: 0 })))
    }

    /// Adds a plugin, until its share is dropped.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<Share> {
        let mut state = self.state();
        let plugin = state.next_id();
        state.plugins.insert(plugin, Usage::default());
        Arc::new(Share { shares: self.clone(), plugin })
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock()
    }

    /// Releases a permit, and admits the calls that may use the slot now.
    fn release(&self, plugin: u64, origin: CallOrigin) {
        let mut state = self.state();
        state.in_use = state.in_use.saturating_sub(1);
        if let Some(class) = state.class(plugin, origin) {
            class.in_use = class.in_use.saturating_sub(1);
        }
        let mut admitted = Vec::new();
        while let Some((origin, waiter)) = state.admit_next() {
            admitted.push((waiter.admitted, SlotPermit { share: waiter.share, origin }));
        }
        drop(state);
        for (sender, permit) in admitted {
            // The permit of a call that was cancelled meanwhile is dropped, and goes to the next.
            drop(sender.send(permit));
        }
    }
}

impl SlotState {
    fn next_id(&mut self) -> u64 {
        let number = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        number
    }

    fn class(&mut self, plugin: u64, origin: CallOrigin) -> Option<&mut Class> {
        let usage = self.plugins.get_mut(&plugin)?;
        Some(match origin {
            CallOrigin::Client | CallOrigin::Indexer => &mut usage.clients,
            CallOrigin::Host | CallOrigin::Probe => &mut usage.host,
        })
    }

    /// Lets a call use a slot, if the rule allows it now.
    fn try_admit(&mut self, plugin: u64, origin: CallOrigin) -> bool {
        let left = self.slots.saturating_sub(self.in_use);
        let Some(class) = self.class(plugin, origin).filter(|class| class.in_use < left) else { return false };
        class.in_use = class.in_use.saturating_add(1);
        self.in_use = self.in_use.saturating_add(1);
        true
    }

    /// Lets the first waiting call use a slot, if the rule allows it now; if it does not, it allows it to no other
    /// call.
    fn admit_next(&mut self) -> Option<(CallOrigin, Waiter)> {
        if self.waiting == 0 {
            return None;
        }
        let classes = self.plugins.iter().flat_map(|(plugin, usage)| {
            [(CallOrigin::Host, &usage.host), (CallOrigin::Client, &usage.clients)]
                .map(|(origin, class)| (*plugin, origin, class))
        });
        let first = classes.filter_map(|(plugin, origin, class)| {
            let (number, _) = class.waiting.first_key_value()?;
            Some((class.in_use, *number, plugin, origin))
        });
        let (_, _, plugin, origin) = first.min_by_key(|(in_use, number, ..)| (*in_use, *number))?;
        if !self.try_admit(plugin, origin) {
            return None;
        }
        let (_, waiter) = self.class(plugin, origin)?.waiting.pop_first()?;
        self.waiting = self.waiting.saturating_sub(1);
        Some((origin, waiter))
    }
}

/// The share of one plugin.
pub(crate) struct Share {
    shares: Arc<Shares>,
    plugin: u64,
}

impl Share {
    /// Waits until a call of the plugin may use a slot. Returns none if it never may.
    pub(crate) async fn acquire(self: &Arc<Self>, origin: CallOrigin) -> Option<SlotPermit> {
        let (_waiting, admitted) = {
            let mut state = self.shares.state();
            let is_first = state.class(self.plugin, origin).is_some_and(|class| class.waiting.is_empty());
            if is_first && state.try_admit(self.plugin, origin) {
                return Some(SlotPermit { share: self.clone(), origin });
            }
            let (sender, admitted) = oneshot::channel();
            let number = state.next_id();
            let waiter = Waiter { share: self.clone(), admitted: sender };
            state.class(self.plugin, origin)?.waiting.insert(number, waiter);
            state.waiting = state.waiting.saturating_add(1);
            (WaiterGuard { share: self, origin, number }, admitted)
        };
        admitted.await.ok()
    }
}

impl Share {
    /// The number of calls of the plugin that wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.shares.state();
        let usage = state.plugins.get(&self.plugin);
        usage.map_or(0, |usage| usage.clients.waiting.len().saturating_add(usage.host.waiting.len()))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.state().plugins.remove(&self.plugin);
    }
}

/// Permission to use a slot, released when it is dropped.
pub(crate) struct SlotPermit {
    share: Arc<Share>,
    origin: CallOrigin,
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        self.share.shares.release(self.share.plugin, self.origin);
    }
}

/// A call that waits, or has just been admitted.
struct WaiterGuard<'a> {
    share: &'a Share,
    origin: CallOrigin,
    number: u64,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.share.shares.state();
        let gone = state.class(self.share.plugin, self.origin).and_then(|class| class.waiting.remove(&self.number));
        if gone.is_some() {
            state.waiting = state.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, poll};

    use super::*;

    fn try_acquire(share: &Arc<Share>, origin: CallOrigin) -> Option<SlotPermit> {
        share.acquire(origin).now_or_never().flatten()
    }

    /// All permits that a plugin can get at the moment.
    fn acquire_all(share: &Arc<Share>) -> Vec<SlotPermit> {
        std::iter::from_fn(|| try_acquire(share, CallOrigin::Client)).collect()
    }

    /// The number of permits in use, and of waiting calls.
    fn counts(shares: &Shares) -> (usize, usize) {
        let state = shares.state();
        (state.in_use, state.waiting)
    }

    /// So many plugins, each of which takes one more slot in turn, until none gets any.
    fn acquire_round_robin(shares: &Arc<Shares>, plugins: usize) -> Vec<(Arc<Share>, Vec<SlotPermit>)> {
        let mut taken: Vec<_> = (0..plugins).map(|_| (shares.share(), Vec::new())).collect();
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for (share, permits) in &mut taken {
                let more = try_acquire(share, CallOrigin::Client);
                goes_on |= more.is_some();
                permits.extend(more);
            }
        }
        taken
    }

    #[test]
    fn a_plugin_gets_slots_while_more_are_left_than_it_has() {
        for (plugins, least, most, left) in [(1, 128, 128, 128), (2, 85, 86, 85), (8, 28, 29, 28), (100, 2, 3, 2)] {
            let shares = Shares::new(256);
            let taken = acquire_round_robin(&shares, plugins);
            let counts = || taken.iter().map(|(_, permits)| permits.len());
            assert_eq!((counts().min(), counts().max()), (Some(least), Some(most)), "{plugins} plugins");
            assert_eq!(256 - counts().sum::<usize>(), left, "{plugins} plugins");
            assert!(try_acquire(&shares.share(), CallOrigin::Client).is_some(), "one more gets its first");
        }
    }

    #[test]
    fn up_to_as_many_plugins_as_slots_but_one_have_one_each() {
        let shares = Shares::new(256);
        let taken = acquire_round_robin(&shares, 255);
        assert!(taken.iter().all(|(_, permits)| permits.len() == 1));
    }

    #[test]
    fn the_hosts_own_calls_have_a_count_of_their_own() {
        let shares = Shares::new(8);
        let share = shares.share();
        let clients = acquire_all(&share);
        assert_eq!(clients.len(), 4);
        let host = try_acquire(&share, CallOrigin::Host);
        assert!(host.is_some() && try_acquire(&share, CallOrigin::Client).is_none());
    }

    #[test]
    fn every_permit_comes_back_wherever_its_call_is_given_up() {
        let shares = Shares::new(2);
        let (one, other) = (shares.share(), shares.share());
        let held = try_acquire(&one, CallOrigin::Client).unwrap();
        let mut waits = Box::pin(one.acquire(CallOrigin::Client));
        let mut behind = Box::pin(one.acquire(CallOrigin::Client));
        let mut last = Box::pin(one.acquire(CallOrigin::Client));
        assert!((&mut waits).now_or_never().is_none());
        assert!((&mut behind).now_or_never().is_none());
        assert!((&mut last).now_or_never().is_none());
        drop(waits);
        drop(held);
        assert_eq!(counts(&shares), (1, 1), "`behind` is admitted, and given up before it knows");
        drop(behind);
        assert!(matches!((&mut last).now_or_never(), Some(Some(_))), "it goes to the next");
        assert_eq!(counts(&shares), (0, 0));
        drop(last);
        drop((one, other));
        assert!(shares.state().plugins.is_empty());
    }

    #[tokio::test]
    async fn those_who_wait_are_admitted_by_how_little_their_plugin_uses() {
        let shares = Shares::new(8);
        let (greedy, modest) = (shares.share(), shares.share());
        let (mut of_greedy, of_modest) = (acquire_all(&greedy), acquire_all(&modest));
        assert_eq!((of_greedy.len(), of_modest.len()), (4, 2));
        let mut first = Box::pin(greedy.acquire(CallOrigin::Client));
        let mut second = Box::pin(modest.acquire(CallOrigin::Client));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        of_greedy.pop();
        assert!(poll!(&mut first).is_pending(), "it came first, but its plugin uses more");
        let second = poll!(&mut second);
        assert!(second.is_ready());
        drop((of_greedy, of_modest, second));
        assert!(poll!(&mut first).is_ready());
    }
}
