//! The connections of the administration listener, limited in number and in time.
//!
//! At most [`MAX_CONNECTIONS`] are open. A further connection replaces an unauthenticated one, so slow clients
//! (slowloris) cannot block probes: the oldest one of the address that has the most, so a client that opens connections
//! without end replaces its own. If all clients are authenticated, the next connection waits.
//!
//! A connection has [`CONNECTION_TIMEOUT`] for its handshake, its request and its response. Some requests extend this
//! time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::client_id::ClientId;

/// The maximum number of connections.
const MAX_CONNECTIONS: usize = 64;
/// The time for a connection: its handshake, its request and its response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct Connections {
    permits: Arc<Semaphore>,
    unauthenticated: Arc<Mutex<Unauthenticated>>,
    next: u64,
}

/// The unauthenticated connections by number, the oldest first.
type Unauthenticated = BTreeMap<u64, (ClientId, CancellationToken)>;

/// The slot of a connection, which is freed when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    number: u64,
    unauthenticated: Arc<Mutex<Unauthenticated>>,
    replaced: CancellationToken,
    /// The time in addition to [`CONNECTION_TIMEOUT`], in seconds.
    extension: AtomicU64,
    /// Always `Some`, because nothing closes the semaphore.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)), unauthenticated: Arc::default(), next: 0 }
    }
}

impl Connections {
    /// Adds a connection of a client as soon as there is a free slot.
    pub(super) async fn add(&mut self, client: ClientId) -> ConnectionSlot {
        if self.permits.available_permits() == 0 {
            replace_one(&mut self.unauthenticated.lock());
        }
        let permit = self.permits.clone().acquire_owned().await.ok();
        let (number, replaced) = (self.next, CancellationToken::new());
        self.next = number.wrapping_add(1);
        self.unauthenticated.lock().insert(number, (client, replaced.clone()));
        let unauthenticated = self.unauthenticated.clone();
        ConnectionSlot { number, unauthenticated, replaced, extension: AtomicU64::new(0), _permit: permit }
    }
}

/// Closes the oldest connection of the client with the most connections, if there is one.
fn replace_one(unauthenticated: &mut Unauthenticated) {
    let mut counts: HashMap<&ClientId, usize> = HashMap::new();
    for (client, _) in unauthenticated.values() {
        let count = counts.entry(client).or_default();
        *count = count.saturating_add(1);
    }
    let most = counts.values().copied().max();
    let oldest = unauthenticated.iter().find(|(_, (client, _))| counts.get(client).copied() == most);
    let oldest = oldest.map(|(number, _)| *number);
    if let Some((_, replaced)) = oldest.and_then(|number| unauthenticated.remove(&number)) {
        replaced.cancel();
    }
}

impl ConnectionSlot {
    /// Records that the client is an administrator or a user, so no other connection replaces this one.
    pub(super) fn set_authenticated(&self) {
        self.unauthenticated.lock().remove(&self.number);
    }

    /// Gives the connection more time.
    pub(super) fn extend(&self, by: Duration) {
        self.extension.store(by.as_secs(), Ordering::Relaxed);
    }

    /// Completes when the connection has to be closed, with the reason.
    pub(super) async fn ended(&self) -> &'static str {
        let timed_out = async {
            sleep(CONNECTION_TIMEOUT).await;
            sleep(Duration::from_secs(self.extension.load(Ordering::Relaxed))).await;
        };
        tokio::select! {
            () = timed_out => "it timed out",
            () = self.replaced.cancelled() => "another one took its place, as its client was not authenticated",
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.set_authenticated();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn client(number: u8) -> ClientId {
        ClientId::from_address([127, 0, 0, number].into())
    }

    #[tokio::test]
    async fn a_client_that_opens_connections_without_end_replaces_its_own() {
        let mut connections = Connections::default();
        let probe = connections.add(client(2)).await;
        let mut slots = Vec::new();
        for _ in 1..MAX_CONNECTIONS {
            slots.push(connections.add(client(1)).await);
        }
        for _ in 0..MAX_CONNECTIONS * 3 {
            // A task that never waits is not notified of more than it may be at a time.
            tokio::task::yield_now().await;
            assert!(connections.add(client(1)).now_or_never().is_none(), "its place is not free yet");
            let oldest = slots.iter().position(|slot| slot.ended().now_or_never().is_some()).unwrap();
            assert_eq!(oldest, 0);
            drop(slots.remove(oldest));
            slots.push(connections.add(client(1)).now_or_never().unwrap());
        }
        assert!(probe.ended().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_further_connection_takes_the_place_of_the_oldest_of_an_unauthenticated_client() {
        let mut connections = Connections::default();
        let mut slots = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            slots.push(connections.add(client(1)).await);
        }
        slots[0].set_authenticated();
        assert!(connections.add(client(1)).now_or_never().is_none(), "the place is not free yet");
        assert!(slots[0].ended().now_or_never().is_none());
        assert!(slots[1].ended().now_or_never().is_some_and(|reason| reason.contains("another one")));
        drop(slots.remove(1));
        slots.push(connections.add(client(1)).now_or_never().unwrap());
        slots.iter().for_each(ConnectionSlot::set_authenticated);
        assert!(connections.add(client(1)).now_or_never().is_none(), "each is of an authenticated client");
        drop(slots.pop());
        assert!(connections.add(client(1)).now_or_never().is_some());
    }
}
