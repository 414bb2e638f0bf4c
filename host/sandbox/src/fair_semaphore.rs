//! Permits of one plugin, and the queue for them, shared fairly by its clients: for its calls (`limits.concurrency`), for their
//! HTTP exchanges (`limits.http.concurrency`), and for the connections to a database.
//!
//! **Dynamic threshold.** The calls of one client ([`Requester`]) may take a further permit only while more permits are
//! free than they hold, and a further place in the queue only while more places are free than they hold. Of 8 permits one
//! client gets 4, two clients get 3 each, and of 64 places one gets 32. So a client that has nothing gets a
//! permit, or at least a place in the queue, however many calls another makes. The client over stdio, the command line and the host's
//! own indexers have no other client beside them and may take everything.
//!
//! **Max-min fairness.** A permit that is released goes to the waiting call whose client holds the fewest, among equals
//! to the one that has waited for longest. A client with many waiting calls does not delay one with a single call by
//! more than the calls that are running.
//!
//! A [`ShareLimiter`](mcp_host_base::share_limiter) has neither a queue nor thresholds that depend on what is free: it refuses at once,
//! by limits of the config.
//!
//! A call that is cancelled while it waits, or as it is admitted, releases everything. Bounded: an entry for each client
//! that holds a permit or waits, of which there are at most as many as calls of the plugin; a release looks at each of them once.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use mcp_host_model::requester::Requester;

/// The client that a call is made for; none for an indexer.
pub(crate) type Client = Option<Requester>;

/// The permits and the queue. Clones share them.
#[derive(Clone)]
pub struct FairSemaphore(Arc<Mutex<State>>);

struct State {
    permits: usize,
    places: usize,
    in_use: usize,
    waiting: usize,
    clients: HashMap<Client, Usage>,
    /// The number of the next waiting call.
    next: u64,
}

/// The usage of one client.
#[derive(Default)]
struct Usage {
    in_use: usize,
    /// The waiting calls, in order of arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Permit>>,
}

/// A permit, released when it is dropped.
pub struct Permit {
    semaphore: FairSemaphore,
    client: Client,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Why a call may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The queue is full.
    Full,
    /// That many calls of the client wait, and no further one may.
    Share(usize),
}

impl FairSemaphore {
    /// Creates a semaphore with that many permits, and that many places in the queue.
    pub fn new(permits: usize, places: usize) -> Self {
        let state = State { permits, places, in_use: 0, waiting: 0, clients: HashMap::new(), next: 0 };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a permit.
    pub async fn acquire(&self, client: Client) -> Result<Permit, NoPlace> {
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
        // A sender is dropped with its semaphore only, which this call keeps.
        admitted.await.map_err(|_| NoPlace::Full)
    }

    /// The number of permits in use, and of waiting calls.
    pub fn usage(&self) -> (usize, usize) {
        let state = self.state();
        (state.in_use, state.waiting)
    }

    /// Returns a permit if the client may have one at once.
    pub(crate) fn try_acquire(&self, client: Client) -> Option<Permit> {
        self.state().try_admit(&client).then(|| Permit { semaphore: self.clone(), client })
    }

    /// Releases a permit, and admits the calls that may have one now.
    fn release(&self, client: &Client) {
        let mut state = self.state();
        state.in_use = state.in_use.saturating_sub(1);
        state.change(client, |usage| usage.in_use = usage.in_use.saturating_sub(1));
        let admitted: Vec<_> = std::iter::from_fn(|| state.admit_next()).collect();
        drop(state);
        for (client, sender) in admitted {
            // The permit of a call that was cancelled meanwhile is dropped, and goes to the next.
            drop(sender.send(Permit { semaphore: self.clone(), client }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    /// Gives the client a permit, if it may have one now.
    fn try_admit(&mut self, client: &Client) -> bool {
        let in_use = self.clients.get(client).map_or(0, |usage| usage.in_use);
        if !may_take(client, in_use, self.permits.saturating_sub(self.in_use)) {
            return false;
        }
        self.in_use = self.in_use.saturating_add(1);
        self.change(client, |usage| usage.in_use = usage.in_use.saturating_add(1));
        true
    }

    /// Adds a call to the queue. Returns its number.
    fn enqueue(&mut self, client: &Client, sender: oneshot::Sender<Permit>) -> Result<u64, NoPlace> {
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

    /// Admits the next waiting call that may have a permit, if there is one.
    fn admit_next(&mut self) -> Option<(Client, oneshot::Sender<Permit>)> {
        let free = self.permits.saturating_sub(self.in_use);
        if self.waiting == 0 || free == 0 {
            return None;
        }
        let first = self.clients.iter().filter_map(|(client, usage)| {
            let (number, _) = usage.waiting.first_key_value()?;
            may_take(client, usage.in_use, free).then_some(((usage.in_use, *number), client))
        });
        let client = first.min_by_key(|(order, _)| *order)?.1.clone();
        let usage = self.clients.get_mut(&client)?;
        let (_, sender) = usage.waiting.pop_first()?;
        usage.in_use = usage.in_use.saturating_add(1);
        self.waiting = self.waiting.saturating_sub(1);
        self.in_use = self.in_use.saturating_add(1);
        Some((client, sender))
    }

    /// Changes the usage of a client, and forgets a client without any.
    fn change<T>(&mut self, client: &Client, change: impl FnOnce(&mut Usage) -> T) -> T {
        let usage = self.clients.entry(client.clone()).or_default();
        let changed = change(usage);
        if usage.in_use == 0 && usage.waiting.is_empty() {
            self.clients.remove(client);
        }
        changed
    }
}

/// Returns whether a client that holds `held` permits may take one more of the `free` ones.
fn may_take(client: &Client, held: usize, free: usize) -> bool {
    match client.as_ref().is_none_or(Requester::is_local) {
        true => free > 0,
        false => held < free,
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.release(&self.client);
    }
}

/// A call that waits, or has just been admitted.
struct Waiting<'a> {
    semaphore: &'a FairSemaphore,
    client: Client,
    number: u64,
}

impl Drop for Waiting<'_> {
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

    use futures::{FutureExt, poll};

    use super::*;
    use mcp_host_model::principal::Principal;

    fn client(name: &str) -> Client {
        Some(Requester::Principal(Principal::new(name)))
    }

    fn acquire_all(semaphore: &FairSemaphore, client: &Client) -> Vec<Permit> {
        std::iter::from_fn(|| semaphore.try_acquire(client.clone())).collect()
    }

    async fn waiting<'a>(
        semaphore: &'a FairSemaphore,
        client: &Client,
    ) -> Pin<Box<dyn Future<Output = Result<Permit, NoPlace>> + 'a>> {
        let mut waiting = Box::pin(semaphore.acquire(client.clone()));
        assert!(poll!(&mut waiting).is_pending());
        waiting
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
        assert_eq!(semaphore.acquire(ada.clone()).await.err(), Some(NoPlace::Share(32)));
        assert_eq!(
            acquire_all(&semaphore, &bob).len(),
            2,
            "which are released at once, with none of ada's in their place"
        );
        drop((queue, of_ada));
        assert!(semaphore.state().clients.is_empty(), "who has nothing is forgotten");
        let local = Some(Requester::Principal(Principal::LOCAL));
        assert_eq!(acquire_all(&semaphore, &local).len(), 8);
    }

    #[tokio::test]
    async fn a_released_permit_goes_to_the_client_with_the_fewest() {
        let semaphore = FairSemaphore::new(1, 8);
        let (ada, bob) = (client("ada"), client("bob"));
        let first = semaphore.acquire(ada.clone()).await.unwrap();
        let mut of_ada = waiting(&semaphore, &ada).await;
        let mut cancelled = waiting(&semaphore, &bob).await;
        let mut of_bob = waiting(&semaphore, &bob).await;
        drop(first);
        // In order of arrival, as neither holds any.
        assert!(poll!(&mut cancelled).is_pending() && poll!(&mut of_bob).is_pending());
        let second = of_ada.as_mut().now_or_never().unwrap().unwrap();
        drop(cancelled);
        let mut again = waiting(&semaphore, &ada).await;
        drop(second);
        let third = of_bob.as_mut().now_or_never().unwrap().unwrap();
        assert!(poll!(&mut again).is_pending());
        drop(third);
        // Admitted, and dropped before it noticed.
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
}
