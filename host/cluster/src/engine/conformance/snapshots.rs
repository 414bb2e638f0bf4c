//! The contract of every store of shared index snapshots.

use std::sync::Arc;

use mcp_host_base::shared_snapshots::{
    Chunk, MAX_CHUNK, Published, Slot, Snapshot, SnapshotError, SnapshotPlace, SnapshotStore,
};

/// Checks a store by two replicas of it. It must be empty.
///
/// # Panics
///
/// The store breaks the contract.
pub(in crate::engine) async fn check(one: &dyn SnapshotStore, other: &dyn SnapshotStore) {
    one_replica_holds_the_lease_of_a_place(one, other).await;
    chunks_come_back_in_order_and_slots_are_apart(one, other).await;
    a_description_is_published_by_whoever_knows_the_last_one(one, other).await;
}

fn pair(
    one: &dyn SnapshotStore,
    other: &dyn SnapshotStore,
    name: &str,
) -> (Arc<dyn SnapshotPlace>, Arc<dyn SnapshotPlace>) {
    (one.place(name), other.place(name))
}

async fn one_replica_holds_the_lease_of_a_place(one: &dyn SnapshotStore, other: &dyn SnapshotStore) {
    let (here, there) = pair(one, other, "1ea5e");
    for _ in 0..3 {
        assert!(here.hold().await.expect("an answer"));
        assert!(!there.hold().await.expect("an answer"));
    }
    assert!(other.place("1ea5e2").hold().await.expect("an answer"), "each place has its own lease");
}

async fn chunks(place: &dyn SnapshotPlace, slot: Slot) -> Vec<Vec<u8>> {
    let (mut chunks, mut position) = (Vec::new(), 0);
    while let Some(Chunk { position: next, bytes }) = place.chunk_after(slot, position).await.expect("an answer") {
        assert!(next > position, "positions grow");
        position = next;
        chunks.push(bytes);
    }
    chunks
}

async fn chunks_come_back_in_order_and_slots_are_apart(one: &dyn SnapshotStore, other: &dyn SnapshotStore) {
    let (here, there) = pair(one, other, "c4a0c5");
    here.clear(Slot::A).await.expect("nothing can be cleared");
    assert!(chunks(&*there, Slot::A).await.is_empty());
    let large = vec![0xff; MAX_CHUNK];
    for chunk in [b"1".to_vec(), large.clone(), Vec::new(), b"4".to_vec()] {
        here.append(Slot::A, chunk).await.expect("it is stored");
    }
    here.append(Slot::B, b"of the other slot".to_vec()).await.expect("it is stored");
    other.place("c4a0c52").append(Slot::A, b"of another place".to_vec()).await.expect("it is stored");
    assert_eq!(chunks(&*there, Slot::A).await, [b"1".to_vec(), large, Vec::new(), b"4".to_vec()]);
    there.clear(Slot::A).await.expect("it is cleared");
    assert!(chunks(&*here, Slot::A).await.is_empty());
    assert_eq!(chunks(&*here, Slot::B).await, [b"of the other slot"]);
}

async fn a_description_is_published_by_whoever_knows_the_last_one(one: &dyn SnapshotStore, other: &dyn SnapshotStore) {
    let (here, there) = pair(one, other, "de5c");
    assert_eq!(there.published().await, Ok(Published::Nothing));
    let snapshot = |slot| Snapshot { slot, chunks: 2, bytes: 9, digest: [3; 32], seal: vec![0, 0xff] };
    let first = here.publish(snapshot(Slot::A), None).await.expect("it is published");
    let published = Published::Snapshot { revision: first, snapshot: snapshot(Slot::A) };
    assert_eq!(there.published().await, Ok(published.clone()));
    assert_eq!(there.publish(snapshot(Slot::B), None).await, Err(SnapshotError::Conflict));
    let second = there.publish(snapshot(Slot::B), Some(first)).await.expect("it is replaced");
    assert!(second > first);
    assert_eq!(here.publish(snapshot(Slot::A), Some(first)).await, Err(SnapshotError::Conflict));
    let published = Published::Snapshot { revision: second, snapshot: snapshot(Slot::B) };
    assert_eq!(here.published().await, Ok(published));
    assert_eq!(one.place("de5c2").published().await, Ok(Published::Nothing));
}
