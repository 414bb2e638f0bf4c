//! A model of shared index snapshots in one process, for tests: the documented behavior of an object store of NATS, and
//! its failures.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_host_base::shared_snapshots::{
    Answer, Chunk, MAX_CHUNK, Published, Slot, Snapshot, SnapshotError, SnapshotPlace, SnapshotStore,
};

use super::{Model, ModelFault};
use crate::lease::Lease;
use crate::replica::ReplicaId;

/// Snapshots within one process. Clones are the same replica; [`replica`](Self::replica) is another one of the same
/// store.
#[derive(Clone)]
pub struct ModelSnapshots {
    store: Arc<Mutex<Store>>,
    records: Model,
    me: ReplicaId,
    lease: Duration,
}

#[derive(Default)]
struct Store {
    sequence: u64,
    chunks: BTreeMap<(String, Slot), Vec<Chunk>>,
    descriptions: BTreeMap<String, Published>,
    /// The failure of each replica's requests.
    faults: BTreeMap<ReplicaId, ModelFault>,
    /// The number of answered requests for chunks.
    fetched: u64,
}

impl Store {
    fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence
    }
}

impl fmt::Debug for ModelSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelSnapshots")
    }
}

impl ModelSnapshots {
    /// Creates an empty store with leases of this time, and its first replica.
    pub fn new(lease: Duration) -> Self {
        Self { store: Arc::default(), records: Model::default(), me: ReplicaId::random(), lease }
    }

    /// Returns another replica of the same store.
    #[must_use]
    pub fn replica(&self) -> Self {
        Self { me: ReplicaId::random(), ..self.clone() }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the failure of all requests of this replica from now on.
    pub fn set_fault(&self, fault: Option<ModelFault>) {
        match fault {
            Some(fault) => self.store().faults.insert(self.me, fault),
            None => self.store().faults.remove(&self.me),
        };
    }

    /// Changes each stored chunk, as another client can.
    pub fn change_chunks(&self, change: impl Fn(&mut Vec<u8>)) {
        self.store().chunks.values_mut().flatten().for_each(|chunk| change(&mut chunk.bytes));
    }

    /// Changes each description under a new revision, as another client can.
    pub fn change_descriptions(&self, change: impl Fn(&mut Snapshot)) {
        let mut store = self.store();
        let revision = store.next_sequence();
        for description in store.descriptions.values_mut() {
            if let Published::Snapshot { revision: old, snapshot } = description {
                *old = revision;
                change(snapshot);
            }
        }
    }

    /// Returns the descriptions.
    pub fn descriptions(&self) -> Vec<Published> {
        self.store().descriptions.values().cloned().collect()
    }

    /// Returns the number of chunks that replicas have fetched.
    pub fn fetched(&self) -> u64 {
        self.store().fetched
    }
}

impl SnapshotStore for ModelSnapshots {
    fn place(&self, name: &str) -> Arc<dyn SnapshotPlace> {
        let lease = Lease::new(self.records.clone(), name.to_owned(), self.me, self.lease);
        Arc::new(ModelPlace { snapshots: self.clone(), name: name.to_owned(), lease })
    }

    fn lease(&self) -> Duration {
        self.lease
    }
}

#[derive(Debug)]
struct ModelPlace {
    snapshots: ModelSnapshots,
    name: String,
    lease: Lease<Model>,
}

impl ModelPlace {
    /// Waits for the answer of a server, unless it has failed.
    async fn ask(&self) -> Result<(), SnapshotError> {
        let fault = self.snapshots.store().faults.get(&self.snapshots.me).copied();
        match fault {
            Some(ModelFault::Gone) => return Err(SnapshotError::NoAnswer("not connected".to_owned())),
            Some(ModelFault::Silent) => std::future::pending::<()>().await,
            None => {}
        }
        // Another task runs before the answer, as with a server.
        tokio::task::yield_now().await;
        Ok(())
    }
}

impl SnapshotPlace for ModelPlace {
    fn hold(&self) -> Answer<'_, bool> {
        Box::pin(async move {
            self.ask().await?;
            self.lease.hold().await.map_err(|error| SnapshotError::NoAnswer(error.to_string()))
        })
    }

    fn published(&self) -> Answer<'_, Published> {
        Box::pin(async move {
            self.ask().await?;
            Ok(self.snapshots.store().descriptions.get(&self.name).cloned().unwrap_or(Published::Nothing))
        })
    }

    fn clear(&self, slot: Slot) -> Answer<'_, ()> {
        Box::pin(async move {
            self.ask().await?;
            self.snapshots.store().chunks.remove(&(self.name.clone(), slot));
            Ok(())
        })
    }

    fn append(&self, slot: Slot, bytes: Vec<u8>) -> Answer<'_, ()> {
        Box::pin(async move {
            self.ask().await?;
            if bytes.len() > MAX_CHUNK {
                return Err(SnapshotError::Refused("the chunk is too large".to_owned()));
            }
            let mut store = self.snapshots.store();
            let position = store.next_sequence();
            store.chunks.entry((self.name.clone(), slot)).or_default().push(Chunk { position, bytes });
            Ok(())
        })
    }

    fn chunk_after(&self, slot: Slot, position: u64) -> Answer<'_, Option<Chunk>> {
        Box::pin(async move {
            self.ask().await?;
            let mut store = self.snapshots.store();
            store.fetched = store.fetched.saturating_add(1);
            let chunks = store.chunks.get(&(self.name.clone(), slot));
            Ok(chunks.and_then(|chunks| chunks.iter().find(|chunk| chunk.position > position).cloned()))
        })
    }

    fn publish(&self, snapshot: Snapshot, expected: Option<u64>) -> Answer<'_, u64> {
        Box::pin(async move {
            self.ask().await?;
            let mut store = self.snapshots.store();
            if store.descriptions.get(&self.name).and_then(Published::revision) != expected {
                return Err(SnapshotError::Conflict);
            }
            let revision = store.next_sequence();
            store.descriptions.insert(self.name.clone(), Published::Snapshot { revision, snapshot });
            Ok(revision)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_model_is_a_store_of_snapshots() {
        let store = ModelSnapshots::new(Duration::from_secs(10));
        crate::engine::conformance::snapshots::check(&store, &store.replica()).await;
    }
}
