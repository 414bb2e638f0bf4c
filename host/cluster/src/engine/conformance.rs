//! The contract of every engine, as checks for the tests of the model, which the simulation relies on, and of
//! NATS.

pub(super) mod buckets;
pub(super) mod snapshots;

use std::time::Duration;

use tokio::sync::mpsc;

use super::{Engine, EngineError, Entry};

/// The maximum delivery time of a message that is not lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks an engine by two connections to it. Its bucket must have none of the keys that are used here.
///
/// # Panics
///
/// The engine breaks the contract.
pub(super) async fn check<E: Engine>(one: E, other: E) {
    a_key_is_created_once(&one, &other).await;
    a_value_is_replaced_by_whoever_knows_its_revision(&one, &other).await;
    of_many_writers_of_one_revision_one_succeeds(&one, &other).await;
    messages_reach_all_subscribers_in_order(&one, &other).await;
    a_message_is_sent_before_what_is_written_later_is_seen(&one, &other).await;
}

async fn a_key_is_created_once<E: Engine>(one: &E, other: &E) {
    assert_eq!(one.get("created").await.expect("an answer"), None);
    let revision = one.write("created", b"a".to_vec(), None).await.expect("it is created");
    let entry = Entry { revision, value: b"a".to_vec() };
    assert_eq!(other.get("created").await.expect("an answer"), Some(entry));
    assert!(matches!(other.write("created", b"b".to_vec(), None).await, Err(EngineError::Conflict)));
}

async fn a_value_is_replaced_by_whoever_knows_its_revision<E: Engine>(one: &E, other: &E) {
    let first = one.write("replaced", b"a".to_vec(), None).await.expect("it is created");
    let second = other.write("replaced", b"b".to_vec(), Some(first)).await.expect("it is replaced");
    assert!(second > first, "revisions grow: {first}, {second}");
    assert!(matches!(one.write("replaced", b"c".to_vec(), Some(first)).await, Err(EngineError::Conflict)));
    let unused = second.saturating_add(1000);
    assert!(matches!(one.write("replaced", b"c".to_vec(), Some(unused)).await, Err(EngineError::Conflict)));
    let third = one.write("replaced", b"c".to_vec(), Some(second)).await.expect("it is replaced");
    let entry = other.get("replaced").await.expect("an answer");
    assert_eq!(entry, Some(Entry { revision: third, value: b"c".to_vec() }));
    assert!(matches!(one.write("absent", b"a".to_vec(), Some(first)).await, Err(EngineError::Conflict)));
}

async fn of_many_writers_of_one_revision_one_succeeds<E: Engine>(one: &E, other: &E) {
    let first = one.write("contended", Vec::new(), None).await.expect("it is created");
    let writers = (0_u8..16).map(|number| {
        let engine = if number % 2 == 0 { one.clone() } else { other.clone() };
        async move { engine.write("contended", vec![number], Some(first)).await.map(|_| number) }
    });
    let results = futures::future::join_all(writers).await;
    let winners: Vec<u8> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
    let losers = results.iter().filter(|result| matches!(result, Err(EngineError::Conflict))).count();
    assert_eq!((winners.len(), losers), (1, 15), "{results:?}");
    let entry = one.get("contended").await.expect("an answer").expect("a value");
    assert_eq!(entry.value, winners);
}

/// Checks an engine whose values expire, by two connections to it.
///
/// # Panics
///
/// The engine breaks the contract.
pub(super) async fn check_expiry<E: Engine>(one: E, other: E) {
    a_value_that_is_overwritten_is_not_written_by_who_knew_another(&one, &other).await;
    a_value_is_dropped_after_its_time_unless_it_is_written_again(&one, &other).await;
}

async fn a_value_that_is_overwritten_is_not_written_by_who_knew_another<E: Engine>(one: &E, other: &E) {
    const LONG: Duration = Duration::from_mins(1);
    let first = one.write_expiring("overwritten", b"a".to_vec(), None, LONG).await.expect("it is created");
    let second = other.overwrite("overwritten", Vec::new(), LONG).await.expect("it is overwritten");
    assert!(second > first);
    let known = one.write_expiring("overwritten", b"b".to_vec(), Some(first), LONG).await;
    assert!(matches!(known, Err(EngineError::Conflict)), "{known:?}");
    let created = one.write_expiring("overwritten", b"b".to_vec(), None, LONG).await;
    assert!(matches!(created, Err(EngineError::Conflict)), "{created:?}");
    let entry = one.get("overwritten").await.expect("an answer");
    assert_eq!(entry, Some(Entry { revision: second, value: Vec::new() }));
    other.overwrite("never", b"a".to_vec(), LONG).await.expect("it is created");
}

async fn a_value_is_dropped_after_its_time_unless_it_is_written_again<E: Engine>(one: &E, other: &E) {
    const SHORT: Duration = Duration::from_secs(1);
    const LONG: Duration = Duration::from_mins(1);
    one.write_expiring("dropped", b"a".to_vec(), None, SHORT).await.expect("it is created");
    let kept = one.write_expiring("kept", b"a".to_vec(), None, SHORT).await.expect("it is created");
    let kept = one.write_expiring("kept", b"b".to_vec(), Some(kept), LONG).await.expect("it is replaced");
    let dropped = async {
        while other.get("dropped").await.expect("an answer").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, dropped).await.expect("it is dropped");
    let entry = other.get("kept").await.expect("an answer");
    assert_eq!(entry, Some(Entry { revision: kept, value: b"b".to_vec() }));
    other.write_expiring("dropped", b"c".to_vec(), None, LONG).await.expect("it is created anew");
}

async fn receive(receiver: &mut mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
    let received = tokio::time::timeout(PATIENCE, receiver.recv()).await;
    received.expect("a message arrives").expect("the subscription goes on")
}

async fn messages_reach_all_subscribers_in_order<E: Engine>(one: &E, other: &E) {
    let mut subscriptions = Vec::new();
    for engine in [one, other] {
        subscriptions.push(engine.subscribe("mcp.test.order").await.expect("a subscription"));
    }
    let mut elsewhere = one.subscribe("mcp.test.elsewhere").await.expect("a subscription");
    // A server has a subscription once a message has come through it.
    settle(one, &mut subscriptions).await;
    for number in 0_u8..100 {
        one.publish("mcp.test.order", vec![number]).await.expect("it is sent");
    }
    for subscription in &mut subscriptions {
        for number in 0_u8..100 {
            assert_eq!(receive(subscription).await, [number]);
        }
    }
    assert!(elsewhere.try_recv().is_err());
}

/// Sends messages until each subscription has received one, and waits until no more arrive.
async fn settle<E: Engine>(engine: &E, subscriptions: &mut [mpsc::Receiver<Vec<u8>>]) {
    for subscription in subscriptions.iter_mut() {
        while subscription.try_recv().is_err() {
            engine.publish("mcp.test.order", b"hello".to_vec()).await.expect("it is sent");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    engine.publish("mcp.test.order", b"last".to_vec()).await.expect("it is sent");
    for subscription in subscriptions {
        while receive(subscription).await != b"last" {}
    }
}

async fn a_message_is_sent_before_what_is_written_later_is_seen<E: Engine>(one: &E, other: &E) {
    let mut subscriptions = [one.subscribe("mcp.test.order").await.expect("a subscription")];
    settle(one, &mut subscriptions).await;
    let [mut subscription] = subscriptions;
    let mut expected = None;
    for number in 0_u8..20 {
        one.publish("mcp.test.order", vec![number]).await.expect("it is sent");
        let written = one.write("ordered", vec![number], expected).await.expect("it is written");
        expected = Some(written);
        let seen = other.get("ordered").await.expect("an answer").expect("a value");
        assert_eq!(seen.value, [number]);
        // A message of the same connection has arrived by now, or is about to.
        assert_eq!(receive(&mut subscription).await, [number]);
    }
}
