//! Shares: how many of the engine's instance slots the calls of one plugin may use at once.
//!
//! All plugins share the slots ([`seats`](super::seats)), and a call may hold one for as long as its deadline allows, asleep.
//! So each call acquires a permit before it takes an instance, and the permits follow two rules.
//!
//! **Dynamic threshold.** A plugin's calls may use a further slot only while more slots are left than they use already. Of `N`
//! slots one plugin gets `N/2`, two that want all get `N/3` each, and `p` of them `N/(p+1)` each, and as many are left: however
//! many plugins take what they can get, one that has nothing gets its first slot at once (up to `N − 1` plugins), and a plugin
//! beside idle ones may still have half. Of the 256 slots:
//!
//! | plugins that take all they can get | slots of each | left |
//! |---|---|---|
//! | 1 | 128 | 128 |
//! | 2 | 85 or 86 | 85 |
//! | 8 | 28 or 29 | 28 |
//! | 100 | 2 or 3 | 2 |
//!
//! The host's own calls (`changes`, `describe`, the probe of the circuit breaker) follow the same rule with a count of their own: a
//! plugin whose clients use up its share is still watched, and has at most one or two slots more for it.
//!
//! **Max-min fairness.** Calls that wait are admitted in the order of how many slots their plugin uses, fewest first; among equals
//! in the order in which they came. So a plugin with hundreds of waiting calls delays one with a single one by nothing.
//!
//! Idle instances hold a slot but no permit: they are ended as soon as a call needs their slot. The wait is bounded by whoever waits
//! ([`admission`](super::admission)); a call that is given up while it waits, or as it is admitted, leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::admission::Turn;

/// The permits for all slots.
pub(super) struct Shares(Mutex<State>);

struct State {
    slots: usize,
    in_use: usize,
    /// What is used by each plugin.
    plugins: BTreeMap<u64, Usage>,
    /// Calls that wait, of all plugins.
    waiting: usize,
    /// The number of the next plugin, or waiting call.
    next: u64,
}

/// What one plugin uses.
#[derive(Default)]
struct Usage {
    clients: Class,
    host: Class,
}

/// The calls of one plugin for its clients, or those for the host.
#[derive(Default)]
struct Class {
    in_use: usize,
    /// Those that wait, in the order in which they came.
    waiting: BTreeMap<u64, Waiter>,
}

struct Waiter {
    share: Arc<Share>,
    admitted: oneshot::Sender<InUse>,
}

impl Shares {
    /// The permits for so many slots.
    pub(super) fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { slots, in_use: 0, plugins: BTreeMap::new(), waiting: 0, next: 0 })))
    }

    /// The share of one more plugin, until it is dropped.
    pub(super) fn share(self: &Arc<Self>) -> Arc<Share> {
        let mut state = self.state();
        let plugin = state.number();
        state.plugins.insert(plugin, Usage::default());
        Arc::new(Share { shares: self.clone(), plugin })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back a permit, and admits whoever may use the slot now.
    fn release(&self, plugin: u64, turn: Turn) {
        let mut state = self.state();
        state.in_use = state.in_use.saturating_sub(1);
        if let Some(class) = state.class(plugin, turn) {
            class.in_use = class.in_use.saturating_sub(1);
        }
        let mut admitted = Vec::new();
        while let Some((turn, waiter)) = state.admit_next() {
            admitted.push((waiter.admitted, InUse { share: waiter.share, turn }));
        }
        drop(state);
        for (sender, permit) in admitted {
            // That of a call which was given up meanwhile is dropped, and goes to the next.
            drop(sender.send(permit));
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    fn class(&mut self, plugin: u64, turn: Turn) -> Option<&mut Class> {
        let usage = self.plugins.get_mut(&plugin)?;
        Some(match turn {
            Turn::Client => &mut usage.clients,
            Turn::Host => &mut usage.host,
        })
    }

    /// Lets a call use a slot, if the rule allows it now.
    fn try_use(&mut self, plugin: u64, turn: Turn) -> bool {
        let left = self.slots.saturating_sub(self.in_use);
        let Some(class) = self.class(plugin, turn).filter(|class| class.in_use < left) else { return false };
        class.in_use = class.in_use.saturating_add(1);
        self.in_use = self.in_use.saturating_add(1);
        true
    }

    /// Lets the first of those who wait use a slot, if the rule allows it now; where it does not, it allows it to nobody.
    fn admit_next(&mut self) -> Option<(Turn, Waiter)> {
        if self.waiting == 0 {
            return None;
        }
        let classes = self.plugins.iter().flat_map(|(plugin, usage)| {
            [(Turn::Host, &usage.host), (Turn::Client, &usage.clients)].map(|(turn, class)| (*plugin, turn, class))
        });
        let first = classes.filter_map(|(plugin, turn, class)| {
            let (number, _) = class.waiting.first_key_value()?;
            Some((class.in_use, *number, plugin, turn))
        });
        let (_, _, plugin, turn) = first.min_by_key(|(in_use, number, ..)| (*in_use, *number))?;
        if !self.try_use(plugin, turn) {
            return None;
        }
        let (_, waiter) = self.class(plugin, turn)?.waiting.pop_first()?;
        self.waiting = self.waiting.saturating_sub(1);
        Some((turn, waiter))
    }
}

/// The share of one plugin.
pub(super) struct Share {
    shares: Arc<Shares>,
    plugin: u64,
}

impl Share {
    /// Waits until a call of the plugin may use a slot. None if there never will be one.
    pub(super) async fn acquire(self: &Arc<Self>, turn: Turn) -> Option<InUse> {
        let (_waiting, admitted) = {
            let mut state = self.shares.state();
            let is_first = state.class(self.plugin, turn).is_some_and(|class| class.waiting.is_empty());
            if is_first && state.try_use(self.plugin, turn) {
                return Some(InUse { share: self.clone(), turn });
            }
            let (sender, admitted) = oneshot::channel();
            let number = state.number();
            let waiter = Waiter { share: self.clone(), admitted: sender };
            state.class(self.plugin, turn)?.waiting.insert(number, waiter);
            state.waiting = state.waiting.saturating_add(1);
            (Waiting { share: self, turn, number }, admitted)
        };
        admitted.await.ok()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.state().plugins.remove(&self.plugin);
    }
}

/// Permission to use a slot, until it is dropped.
pub(super) struct InUse {
    share: Arc<Share>,
    turn: Turn,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.share.shares.release(self.share.plugin, self.turn);
    }
}

/// A call that waits, or has just been admitted.
struct Waiting<'a> {
    share: &'a Share,
    turn: Turn,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.share.shares.state();
        let gone = state.class(self.share.plugin, self.turn).and_then(|class| class.waiting.remove(&self.number));
        if gone.is_some() {
            state.waiting = state.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, poll};

    use super::*;

    fn try_acquire(share: &Arc<Share>, turn: Turn) -> Option<InUse> {
        share.acquire(turn).now_or_never().flatten()
    }

    /// All that a plugin can get at the moment.
    fn take_all(share: &Arc<Share>) -> Vec<InUse> {
        std::iter::from_fn(|| try_acquire(share, Turn::Client)).collect()
    }

    /// How many permits are in use, and how many calls wait.
    fn counts(shares: &Shares) -> (usize, usize) {
        let state = shares.state();
        (state.in_use, state.waiting)
    }

    /// As many plugins, each of which takes one slot more in turn, until none gets any.
    fn take_in_turns(shares: &Arc<Shares>, plugins: usize) -> Vec<(Arc<Share>, Vec<InUse>)> {
        let mut taken: Vec<_> = (0..plugins).map(|_| (shares.share(), Vec::new())).collect();
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for (share, permits) in &mut taken {
                let more = try_acquire(share, Turn::Client);
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
            let taken = take_in_turns(&shares, plugins);
            let counts = || taken.iter().map(|(_, permits)| permits.len());
            assert_eq!((counts().min(), counts().max()), (Some(least), Some(most)), "{plugins} plugins");
            assert_eq!(256 - counts().sum::<usize>(), left, "{plugins} plugins");
            assert!(try_acquire(&shares.share(), Turn::Client).is_some(), "one more gets its first");
        }
    }

    #[test]
    fn up_to_as_many_plugins_as_slots_but_one_have_one_each() {
        let shares = Shares::new(256);
        let taken = take_in_turns(&shares, 255);
        assert!(taken.iter().all(|(_, permits)| permits.len() == 1));
    }

    #[test]
    fn the_hosts_own_calls_have_a_count_of_their_own() {
        let shares = Shares::new(8);
        let share = shares.share();
        let clients = take_all(&share);
        assert_eq!(clients.len(), 4);
        let host = try_acquire(&share, Turn::Host);
        assert!(host.is_some() && try_acquire(&share, Turn::Client).is_none());
    }

    #[test]
    fn every_permit_comes_back_wherever_its_call_is_given_up() {
        let shares = Shares::new(2);
        let (one, other) = (shares.share(), shares.share());
        let held = try_acquire(&one, Turn::Client).unwrap();
        let mut waits = Box::pin(one.acquire(Turn::Client));
        let mut behind = Box::pin(one.acquire(Turn::Client));
        let mut last = Box::pin(one.acquire(Turn::Client));
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
        let (mut of_greedy, of_modest) = (take_all(&greedy), take_all(&modest));
        assert_eq!((of_greedy.len(), of_modest.len()), (4, 2));
        let mut first = Box::pin(greedy.acquire(Turn::Client));
        let mut second = Box::pin(modest.acquire(Turn::Client));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        of_greedy.pop();
        assert!(poll!(&mut first).is_pending(), "it came first, but its plugin uses more");
        let second = poll!(&mut second);
        assert!(second.is_ready());
        drop((of_greedy, of_modest, second));
        assert!(poll!(&mut first).is_ready());
    }
}
