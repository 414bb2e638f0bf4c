//! A semaphore with a queue that its users share fairly: the calls of a plugin by its clients, the instance slots by
//! all plugins.
//!
//! **Dynamic threshold.** A [`Sharer`] may take another permit only while more permits are free than it holds, and
//! another place in the queue only while more places are free than it holds. Of `N` permits one sharer gets `N/2`, two
//! get `N/3` each, and `p` get `N/(p+1)` each, with as many free. So however many sharers take all they can, one that
//! has nothing gets its first permit immediately (up to `N − 1` sharers), or at least a place in the queue. A sharer
//! that [has no others](Sharer::has_no_others) beside it may take everything.
//!
//! | sharers that take all they can get | of 8 permits each | of 256 |
//! |---|---|---|
//! | 1 | 4 | 128 |
//! | 2 | 3 or 2 | 85 or 86 |
//! | 8 | 1 or none | 28 or 29 |
//!
//! **Max-min fairness.** A released permit goes to the waiting call whose sharer holds the fewest permits. Among
//! equals, it goes to the sharer whose last waiting call was admitted first, or whose call has waited longest. A sharer
//! with many waiting calls delays one with a single call only by the running calls.
//!
//! A [`ShareLimiter`](crate::share_limiter) has neither a queue nor thresholds that depend on free permits: it refuses
//! immediately, by limits of the config.
//!
//! A call that is cancelled while it waits, or as it is admitted, releases everything. Bounded: there is one entry for
//! each sharer that holds a permit or waits, so at most one per call; a release scans all entries once.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A user that shares permits with others.
pub trait Sharer: Clone + Eq + Hash {
    /// Returns whether it is the only user of the permits, and may have all of them.
    fn has_no_others(&self) -> bool {
        false
    }
}

/// None means the host itself, working for all.
impl<T: Sharer> Sharer for Option<T> {
    fn has_no_others(&self) -> bool {
        self.as_ref().is_none_or(T::has_no_others)
    }
}

impl Sharer for String {}

impl Sharer for Arc<str> {}

/// The permits and the queue. Clones share them.
pub struct FairSemaphore<K: Sharer>(Arc<Mutex<State<K>>>);

struct State<K: Sharer> {
    permits: usize,
    places: usize,
    in_use: usize,
    waiting: usize,
    clients: HashMap<K, Usage<K>>,
    /// The number of the next waiting call.
    next: u64,
    /// The number of waiting calls that were admitted.
    admissions: u64,
}

impl<K: Sharer> Clone for FairSemaphore<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The usage of one sharer.
struct Usage<K: Sharer> {
    in_use: usize,
    /// A growing number for the admission of its last waiting call; 0 if it had none since it had no usage.
    admitted: u64,
    /// The waiting calls, in order of arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Permit<K>>>,
}

impl<K: Sharer> Default for Usage<K> {
    fn default() -> Self {
        Self { in_use: 0, admitted: 0, waiting: BTreeMap::new() }
    }
}

/// A permit, released when it is dropped.
pub struct Permit<K: Sharer> {
    semaphore: FairSemaphore<K>,
    client: K,
}

impl<K: Sharer + fmt::Debug> fmt::Debug for Permit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Why a call may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The queue is full.
    Full,
    /// The client has this number of waiting calls, and may have no more.
    Share(usize),
}

impl<K: Sharer> FairSemaphore<K> {
    /// Creates a semaphore with this number of permits and of places in the queue.
    pub fn new(permits: usize, places: usize) -> Self {
        let state = State { permits, places, in_use: 0, waiting: 0, clients: HashMap::new(), next: 0, admissions: 0 };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a permit.
    pub async fn acquire(&self, client: K) -> Result<Permit<K>, NoPlace> {
        let (_waiting, admitted) = {
            let mut state = self.state();
            let is_first = state.clients.get(&client).is_none_or(|usage| usage.waiting.is_empty());
            if is_first && state.try_admit(&client) {
                return Ok(Permit { semaphore: self.clone(), client });
            }
            let (sender, admitted) = oneshot::channel();
            let number = state.enqueue(&client, sender)?;
            (Waiting { semaphore: self, client, number }, admitted)
        };
        // The sender is dropped only with its semaphore, which this call keeps.
        admitted.await.map_err(|_| NoPlace::Full)
    }

    /// Returns the numbers of permits in use, and of waiting calls.
    pub fn usage(&self) -> (usize, usize) {
        let state = self.state();
        (state.in_use, state.waiting)
    }

    /// Returns the numbers of one client's permits, and of its waiting calls.
    pub fn usage_of(&self, client: &K) -> (usize, usize) {
        self.state().clients.get(client).map_or((0, 0), |usage| (usage.in_use, usage.waiting.len()))
    }

    /// Returns a permit if the client may have one immediately.
    pub fn try_acquire(&self, client: K) -> Option<Permit<K>> {
        self.state().try_admit(&client).then(|| Permit { semaphore: self.clone(), client })
    }

    /// Releases a permit, and admits the calls that may have one now.
    fn release(&self, client: &K) {
        let mut state = self.state();
        state.in_use = state.in_use.saturating_sub(1);
        state.change(client, |usage| usage.in_use = usage.in_use.saturating_sub(1));
        let admitted: Vec<_> = std::iter::from_fn(|| state.admit_next()).collect();
        drop(state);
        for (client, sender) in admitted {
            // If the call was cancelled meanwhile, its permit is dropped and goes to the next call.
            drop(sender.send(Permit { semaphore: self.clone(), client }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock()
    }
}

impl<K: Sharer> State<K> {
    /// Takes a permit for the client, if it may have one now.
    fn try_admit(&mut self, client: &K) -> bool {
        let in_use = self.clients.get(client).map_or(0, |usage| usage.in_use);
        if !may_take(client, in_use, self.permits.saturating_sub(self.in_use)) {
            return false;
        }
        self.in_use = self.in_use.saturating_add(1);
        self.change(client, |usage| usage.in_use = usage.in_use.saturating_add(1));
        true
    }

    /// Adds a call to the queue. Returns its number.
    fn enqueue(&mut self, client: &K, sender: oneshot::Sender<Permit<K>>) -> Result<u64, NoPlace> {
        let free = self.places.saturating_sub(self.waiting);
        let of_client = self.clients.get(client).map_or(0, |usage| usage.waiting.len());
        if free == 0 {
            return Err(NoPlace::Full);
        }
        if !may_take(client, of_client, free) {
            return Err(NoPlace::Share(of_client));
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.waiting = self.waiting.saturating_add(1);
        self.clients.entry(client.clone()).or_default().waiting.insert(number, sender);
        Ok(number)
    }

    /// Admits the next waiting call that may have a permit, if any.
    fn admit_next(&mut self) -> Option<(K, oneshot::Sender<Permit<K>>)> {
        let free = self.permits.saturating_sub(self.in_use);
        if self.waiting == 0 || free == 0 {
            return None;
        }
        let first = self.clients.iter().filter_map(|(client, usage)| {
            let (number, _) = usage.waiting.first_key_value()?;
            may_take(client, usage.in_use, free).then_some(((usage.in_use, usage.admitted, *number), client))
        });
        let client = first.min_by_key(|(order, _)| *order)?.1.clone();
        let usage = self.clients.get_mut(&client)?;
        let (_, sender) = usage.waiting.pop_first()?;
        usage.in_use = usage.in_use.saturating_add(1);
        self.admissions = self.admissions.saturating_add(1);
        usage.admitted = self.admissions;
        self.waiting = self.waiting.saturating_sub(1);
        self.in_use = self.in_use.saturating_add(1);
        Some((client, sender))
    }

    /// Changes the usage of a client, and removes a client without usage.
    fn change<T>(&mut self, client: &K, change: impl FnOnce(&mut Usage<K>) -> T) -> T {
        let usage = self.clients.entry(client.clone()).or_default();
        let changed = change(usage);
        if usage.in_use == 0 && usage.waiting.is_empty() {
            self.clients.remove(client);
        }
        changed
    }
}

/// Returns whether a client that holds `held` permits may take one more of the `free` ones.
fn may_take(client: &impl Sharer, held: usize, free: usize) -> bool {
    match client.has_no_others() {
        true => free > 0,
        false => held < free,
    }
}

impl<K: Sharer> Drop for Permit<K> {
    fn drop(&mut self) {
        self.semaphore.release(&self.client);
    }
}

/// A call that is waiting, or has just been admitted.
struct Waiting<'a, K: Sharer> {
    semaphore: &'a FairSemaphore<K>,
    client: K,
    number: u64,
}

impl<K: Sharer> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        let mut state = self.semaphore.state();
        if state.change(&self.client, |usage| usage.waiting.remove(&self.number)).is_some() {
            state.waiting = state.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::FutureExt;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Client {
        Named(&'static str),
        Number(usize),
        Local,
    }

    impl Sharer for Client {
        fn has_no_others(&self) -> bool {
            *self == Self::Local
        }
    }

    type FairSemaphore = super::FairSemaphore<Client>;
    type Permit = super::Permit<Client>;

    fn client(name: &'static str) -> Client {
        Client::Named(name)
    }

    fn acquire_all(semaphore: &FairSemaphore, client: &Client) -> Vec<Permit> {
        std::iter::from_fn(|| semaphore.try_acquire(*client)).collect()
    }

    async fn waiting<'a>(
        semaphore: &'a FairSemaphore,
        client: &Client,
    ) -> Pin<Box<dyn Future<Output = Result<Permit, NoPlace>> + 'a>> {
        let mut waiting = Box::pin(semaphore.acquire(*client));
        assert!((&mut waiting).now_or_never().is_none());
        waiting
    }

    #[tokio::test]
    async fn clients_with_as_many_permits_are_served_in_turn_however_many_calls_of_one_wait() {
        let semaphore = FairSemaphore::new(1, usize::MAX);
        let (ada, bob) = (client("ada"), client("bob"));
        let held = semaphore.try_acquire(ada).unwrap();
        let mut of_ada = Vec::new();
        for _ in 0..3 {
            of_ada.push(waiting(&semaphore, &ada).await);
        }
        let mut of_bob = waiting(&semaphore, &bob).await;
        drop(held);
        // Ada has waited longer, and none of her waiting calls has been admitted yet.
        let held = of_ada.remove(0).await.unwrap();
        assert!((&mut of_bob).now_or_never().is_none());
        drop(held);
        assert!(of_bob.now_or_never().is_some());
    }

    #[tokio::test]
    async fn one_client_gets_half_of_the_permits_and_places_and_the_local_one_all() {
        let semaphore = FairSemaphore::new(8, 64);
        let (ada, bob) = (client("ada"), client("bob"));
        let of_ada = acquire_all(&semaphore, &ada);
        assert_eq!(of_ada.len(), 4);
        let mut queue = Vec::new();
        for _ in 0..32 {
            queue.push(waiting(&semaphore, &ada).await);
        }
        assert_eq!(semaphore.acquire(ada).await.err(), Some(NoPlace::Share(32)));
        assert_eq!(
            acquire_all(&semaphore, &bob).len(),
            2,
            "which are released at once, with none of ada's in their place"
        );
        drop((queue, of_ada));
        assert!(semaphore.state().clients.is_empty(), "who has nothing is forgotten");
        assert_eq!(acquire_all(&semaphore, &Client::Local).len(), 8);
        let of_host = super::FairSemaphore::<Option<Client>>::new(8, 0);
        let permits: Vec<_> = std::iter::from_fn(|| of_host.try_acquire(None)).collect();
        assert_eq!(permits.len(), 8);
    }

    #[tokio::test]
    async fn a_released_permit_goes_to_the_client_with_the_fewest() {
        let semaphore = FairSemaphore::new(1, 8);
        let (ada, bob) = (client("ada"), client("bob"));
        let first = semaphore.acquire(ada).await.unwrap();
        let mut of_ada = waiting(&semaphore, &ada).await;
        let mut cancelled = waiting(&semaphore, &bob).await;
        let mut of_bob = waiting(&semaphore, &bob).await;
        drop(first);
        // In order of arrival, because neither client holds a permit.
        assert!((&mut cancelled).now_or_never().is_none() && (&mut of_bob).now_or_never().is_none());
        let second = of_ada.as_mut().now_or_never().unwrap().unwrap();
        drop(cancelled);
        let mut again = waiting(&semaphore, &ada).await;
        drop(second);
        let third = of_bob.as_mut().now_or_never().unwrap().unwrap();
        assert!((&mut again).now_or_never().is_none());
        drop(third);
        // The call was admitted, and dropped before it noticed.
        drop(again);
        assert!(semaphore.acquire(bob).now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_full_queue_takes_nobody() {
        let semaphore = FairSemaphore::new(1, 1);
        let _held = semaphore.acquire(client("ada")).await.unwrap();
        let _waiting = waiting(&semaphore, &client("bob")).await;
        assert_eq!(semaphore.acquire(client("cyd")).await.err(), Some(NoPlace::Full));
    }

    /// Each of `clients` clients takes one more permit in turn, until none gets any.
    fn acquire_in_turn(semaphore: &FairSemaphore, clients: usize) -> Vec<Vec<Permit>> {
        let mut taken: Vec<_> = (0..clients).map(|_| Vec::new()).collect();
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for (number, permits) in taken.iter_mut().enumerate() {
                let more = semaphore.try_acquire(Client::Number(number));
                goes_on |= more.is_some();
                permits.extend(more);
            }
        }
        taken
    }

    #[test]
    fn a_client_gets_permits_while_more_are_left_than_it_has() {
        for (clients, least, most, left) in [(1, 128, 128, 128), (2, 85, 86, 85), (8, 28, 29, 28), (100, 2, 3, 2)] {
            let semaphore = FairSemaphore::new(256, 0);
            let taken = acquire_in_turn(&semaphore, clients);
            let counts = || taken.iter().map(Vec::len);
            assert_eq!((counts().min(), counts().max()), (Some(least), Some(most)), "{clients} clients");
            assert_eq!(256 - counts().sum::<usize>(), left, "{clients} clients");
            assert!(semaphore.try_acquire(client("one more")).is_some(), "it gets its first");
        }
    }

    #[test]
    fn up_to_as_many_clients_as_permits_but_one_have_one_each() {
        let taken = acquire_in_turn(&FairSemaphore::new(256, 0), 255);
        assert!(taken.iter().all(|permits| permits.len() == 1));
    }

    #[test]
    fn every_permit_comes_back_wherever_its_call_is_given_up() {
        let semaphore = FairSemaphore::new(2, 8);
        let ada = client("ada");
        let held = semaphore.try_acquire(ada).unwrap();
        let mut waits = Box::pin(semaphore.acquire(ada));
        let mut behind = Box::pin(semaphore.acquire(ada));
        let mut last = Box::pin(semaphore.acquire(ada));
        assert!((&mut waits).now_or_never().is_none());
        assert!((&mut behind).now_or_never().is_none());
        assert!((&mut last).now_or_never().is_none());
        assert_eq!(semaphore.usage_of(&ada), (1, 3));
        drop(waits);
        drop(held);
        assert_eq!(semaphore.usage(), (1, 1), "`behind` is admitted, and given up before it knows");
        drop(behind);
        assert!(matches!((&mut last).now_or_never(), Some(Ok(_))), "it goes to the next");
        drop(last);
        assert_eq!((semaphore.usage(), semaphore.usage_of(&ada)), ((0, 0), (0, 0)));
        assert!(semaphore.state().clients.is_empty());
    }

    #[tokio::test]
    async fn those_who_wait_are_admitted_by_how_little_their_client_uses() {
        let semaphore = FairSemaphore::new(8, 8);
        let (greedy, modest) = (client("greedy"), client("modest"));
        let (mut of_greedy, of_modest) = (acquire_all(&semaphore, &greedy), acquire_all(&semaphore, &modest));
        assert_eq!((of_greedy.len(), of_modest.len()), (4, 2));
        let mut first = waiting(&semaphore, &greedy).await;
        let mut second = waiting(&semaphore, &modest).await;
        of_greedy.pop();
        assert!((&mut first).now_or_never().is_none(), "it came first, but its client uses more");
        let second = (&mut second).now_or_never();
        assert!(second.is_some());
        drop((of_greedy, of_modest, second));
        assert!((&mut first).now_or_never().is_some());
    }
}
