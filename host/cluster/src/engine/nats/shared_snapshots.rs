//! Index snapshots that replicas share: one object store of JetStream (ADR-20) for each cluster, and a lease for each
//! snapshot's place.
//!
//! | operation | request |
//! |---|---|
//! | the lease | a value in the bucket of the records, with compare-and-swap ([`lease`](crate::lease)) |
//! | description | the last message of `M.NAME`, from the leader of the stream (`STREAM.MSG.GET`); written with the expected last sequence |
//! | chunk | the next message of `C.SLOT` after a sequence (`STREAM.MSG.GET`) |
//! | clearing of a slot | a purge of its subject |
//!
//! The store has a connection and a thread of its own, so that snapshots delay neither the leases of polls nor calls of
//! providers.
//!
//! A response is untrusted input. Its size is bounded before it is parsed, and its texts are for the log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::shared_snapshots::{
    Answer, Chunk, MAX_CHUNK, Published, Slot, Snapshot, SnapshotError, SnapshotPlace, SnapshotStore,
};

use super::bucket::{Bucket, Last};
use super::connection::{ApiError, Connection, ConnectionThread};
use super::connection_log::{Effects, quoted};
use super::{EngineError, Nats, NatsError, NatsOptions, connection};
use crate::lease::Lease;
use crate::replica::ReplicaId;
use crate::snapshots::{chunks_key, decode, description_key, encode, lease_key, store_name};

/// The snapshots of a cluster, on a connection of their own.
pub struct NatsSnapshots {
    connection: Arc<Connection>,
    cluster: String,
    /// The object store.
    objects: Arc<Bucket>,
    /// The bucket of the leases.
    records: Arc<Bucket>,
    me: ReplicaId,
    lease: Duration,
}

impl fmt::Debug for NatsSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSnapshots").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl NatsSnapshots {
    /// Creates the snapshots of a cluster, with leases of this time. Needs no runtime, and does not connect yet. The
    /// bucket of the options has the leases.
    ///
    /// # Errors
    ///
    /// The URL of a server, or a certificate authority, is invalid.
    pub fn new(options: NatsOptions, cluster: &str, lease: Duration) -> Result<Self, NatsError> {
        let records = Arc::new(Bucket::of_records(options.bucket.clone()));
        let connection = connection(options, Effects::OF_SNAPSHOTS, Some(ConnectionThread::default()))?;
        let objects = Arc::new(Bucket::of_objects(store_name(cluster)));
        let (connection, cluster) = (Arc::new(connection), cluster.to_owned());
        Ok(Self { connection, cluster, objects, records, me: ReplicaId::random(), lease })
    }
}

impl SnapshotStore for NatsSnapshots {
    fn place(&self, name: &str) -> Arc<dyn SnapshotPlace> {
        let records = Nats { connection: self.connection.clone(), bucket: self.records.clone() };
        let objects = Nats { connection: self.connection.clone(), bucket: self.objects.clone() };
        let lease = Lease::new(records, lease_key(&self.cluster, name), self.me, self.lease);
        Arc::new(NatsPlace { objects, store: store_name(&self.cluster), name: name.to_owned(), lease })
    }

    fn lease(&self) -> Duration {
        self.lease
    }
}

/// The place of the snapshots of one index.
#[derive(Debug)]
struct NatsPlace {
    objects: Nats,
    store: String,
    name: String,
    lease: Lease<Nats>,
}

impl From<EngineError> for SnapshotError {
    fn from(error: EngineError) -> Self {
        error.into_shared(Self::Conflict, Self::NoAnswer, Self::Refused)
    }
}

/// The error that the stream has answered.
fn api_error(error: &ApiError) -> SnapshotError {
    EngineError::from(error).into()
}

impl NatsPlace {
    async fn read(&self) -> Result<Published, SnapshotError> {
        let Some(Last { revision, value }) = self.objects.last(&description_key(&self.name)).await? else {
            return Ok(Published::Nothing);
        };
        Ok(match decode(&self.name, &value.unwrap_or_default()) {
            Ok(snapshot) => Published::Snapshot { revision, snapshot },
            Err(reason) => Published::Invalid { revision, reason: quoted(&reason) },
        })
    }

    async fn purge(&self, slot: Slot) -> Result<(), SnapshotError> {
        Ok(self.objects.purge(&chunks_key(&self.name, slot)).await?)
    }

    async fn add(&self, slot: Slot, chunk: Vec<u8>) -> Result<(), SnapshotError> {
        let stored = self.objects.store(&chunks_key(&self.name, slot), chunk, None, None).await?;
        stored.map(drop).map_err(|error| api_error(&error))
    }

    async fn next(&self, slot: Slot, position: u64) -> Result<Option<Chunk>, SnapshotError> {
        let next = self.objects.next_after(&chunks_key(&self.name, slot), position).await?;
        let Some(Last { revision, value }) = next else { return Ok(None) };
        let bytes = value.unwrap_or_default();
        if bytes.len() > MAX_CHUNK {
            return Err(SnapshotError::Foreign(format!("a chunk of {} bytes, more than {MAX_CHUNK}", bytes.len())));
        }
        Ok(Some(Chunk { position: revision, bytes }))
    }

    async fn write(&self, snapshot: Snapshot, expected: Option<u64>) -> Result<u64, SnapshotError> {
        let too_large = || SnapshotError::Refused("the description is too large".to_owned());
        let value = encode(&self.store, &self.name, &snapshot).ok_or_else(too_large)?;
        let stored = self.objects.replace(&description_key(&self.name), value, expected).await?;
        stored.map_err(|error| api_error(&error))
    }
}

impl SnapshotPlace for NatsPlace {
    fn hold(&self) -> Answer<'_, bool> {
        Box::pin(async move { Ok(self.lease.hold().await?) })
    }

    fn published(&self) -> Answer<'_, Published> {
        Box::pin(self.read())
    }

    fn clear(&self, slot: Slot) -> Answer<'_, ()> {
        Box::pin(self.purge(slot))
    }

    fn append(&self, slot: Slot, chunk: Vec<u8>) -> Answer<'_, ()> {
        Box::pin(self.add(slot, chunk))
    }

    fn chunk_after(&self, slot: Slot, position: u64) -> Answer<'_, Option<Chunk>> {
        Box::pin(self.next(slot, position))
    }

    fn publish(&self, snapshot: Snapshot, expected: Option<u64>) -> Answer<'_, u64> {
        Box::pin(self.write(snapshot, expected))
    }
}
