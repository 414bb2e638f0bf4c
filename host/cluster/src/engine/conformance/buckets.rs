//! The contract of every store of plugins' shared buckets.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_host_base::shared_buckets::{
    BucketContents, BucketEntry, BucketError, BucketLimits, BucketPage, Expected, SharedBucket, SharedBuckets,
};

use crate::buckets::MAX_VALUE;

const LARGE: BucketLimits = BucketLimits { bytes: 64 << 20, keys: 100_000 };

/// Checks a store by two connections to it. It must be empty.
///
/// # Panics
///
/// The store breaks the contract.
pub(in crate::engine) async fn check(one: &dyn SharedBuckets, other: &dyn SharedBuckets) {
    what_one_host_writes_another_reads(one, other).await;
    a_write_needs_the_state_that_it_expects(one, other).await;
    a_deleted_key_is_as_one_that_never_was(one, other).await;
    of_many_writers_of_one_state_one_succeeds(one, other).await;
    any_text_is_a_key_and_any_bytes_are_a_value(one).await;
    a_listing_pages_through_all_keys(one, other).await;
    a_full_bucket_says_of_what(one).await;
    a_value_that_is_too_large_is_refused(one).await;
    buckets_are_apart(one, other).await;
}

fn pair(
    one: &dyn SharedBuckets,
    other: &dyn SharedBuckets,
    name: &str,
) -> (Arc<dyn SharedBucket>, Arc<dyn SharedBucket>) {
    (one.bucket("plugin", name, LARGE), other.bucket("plugin", name, LARGE))
}

async fn what_one_host_writes_another_reads(one: &dyn SharedBuckets, other: &dyn SharedBuckets) {
    let (one, other) = pair(one, other, "read");
    assert_eq!(one.get("a").await.expect("an answer"), None);
    assert_eq!(one.contents().await.expect("an answer"), BucketContents::default());
    let first = one.put("a", b"1".to_vec(), Expected::Any).await.expect("it is written");
    let entry = BucketEntry { revision: first, value: b"1".to_vec() };
    assert_eq!(other.get("a").await.expect("an answer"), Some(entry));
    let second = other.put("a", Vec::new(), Expected::Any).await.expect("it is replaced");
    assert!(second > first);
    assert_eq!(one.get("a").await.expect("an answer"), Some(BucketEntry { revision: second, value: Vec::new() }));
    assert_eq!(one.contents().await.expect("an answer").keys, 1);
}

async fn a_write_needs_the_state_that_it_expects(one: &dyn SharedBuckets, other: &dyn SharedBuckets) {
    let (one, other) = pair(one, other, "expected");
    let first = one.put("a", b"1".to_vec(), Expected::Absent).await.expect("it is created");
    assert_eq!(other.put("a", b"2".to_vec(), Expected::Absent).await, Err(BucketError::Conflict));
    let second = other.put("a", b"2".to_vec(), Expected::Revision(first)).await.expect("it is replaced");
    for expected in [Expected::Absent, Expected::Revision(first), Expected::Revision(second + 1000)] {
        assert_eq!(one.put("a", b"3".to_vec(), expected).await, Err(BucketError::Conflict), "{expected:?}");
    }
    assert_eq!(one.put("b", Vec::new(), Expected::Revision(first)).await, Err(BucketError::Conflict));
    assert_eq!(one.get("a").await.expect("an answer").expect("a value").value, b"2");
}

async fn a_deleted_key_is_as_one_that_never_was(one: &dyn SharedBuckets, other: &dyn SharedBuckets) {
    let (one, other) = pair(one, other, "deleted");
    one.delete("a").await.expect("nothing is there to delete");
    let first = one.put("a", b"1".to_vec(), Expected::Absent).await.expect("it is created");
    one.put("b", b"1".to_vec(), Expected::Absent).await.expect("it is created");
    other.delete("a").await.expect("it is deleted");
    assert_eq!(one.get("a").await.expect("an answer"), None);
    assert_eq!(one.put("a", b"2".to_vec(), Expected::Revision(first)).await, Err(BucketError::Conflict));
    assert_eq!(one.contents().await.expect("an answer").keys, 1);
    let again = one.put("a", b"1".to_vec(), Expected::Absent).await.expect("it is created anew");
    assert!(again > first, "a revision never comes back");
}

async fn of_many_writers_of_one_state_one_succeeds(one: &dyn SharedBuckets, other: &dyn SharedBuckets) {
    let (one, other) = pair(one, other, "contended");
    let writers = (0_u8..16).map(|number| {
        let bucket = if number % 2 == 0 { one.clone() } else { other.clone() };
        async move { bucket.put("a", vec![number], Expected::Absent).await.map(|_| number) }
    });
    let results = futures::future::join_all(writers).await;
    let winners: Vec<u8> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
    let losers = results.iter().filter(|result| **result == Err(BucketError::Conflict)).count();
    assert_eq!((winners.len(), losers), (1, 15), "{results:?}");
    assert_eq!(one.get("a").await.expect("an answer").expect("a value").value, winners);
}

async fn any_text_is_a_key_and_any_bytes_are_a_value(one: &dyn SharedBuckets) {
    let bucket = one.bucket("plugin", "any", LARGE);
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let long = "k".repeat(1024);
    let keys = ["a", "A", " ", "a\0b", "a.b", "*", ">", "../../x", "$KV.x", "鍵", "🗝", "\r\n", long.as_str()];
    for key in keys {
        bucket.put(key, [key.as_bytes(), &all].concat(), Expected::Absent).await.expect("it is created");
    }
    for key in keys {
        let entry = bucket.get(key).await.expect("an answer").expect("a value");
        assert_eq!(entry.value, [key.as_bytes(), &all].concat(), "{key:?}");
    }
    let page = bucket.keys_after(0, 100).await.expect("an answer");
    assert_eq!((page.keys, page.next), (keys.map(str::to_owned).to_vec(), None));
}

async fn a_listing_pages_through_all_keys(one: &dyn SharedBuckets, other: &dyn SharedBuckets) {
    let (one, other) = pair(one, other, "listed");
    assert_eq!(one.keys_after(0, 10).await.expect("an answer"), BucketPage::default());
    for number in 0..25 {
        one.put(&format!("key-{number:02}"), b"x".to_vec(), Expected::Absent).await.expect("it is created");
    }
    other.delete("key-05").await.expect("it is deleted");
    let (mut seen, mut after, mut pages) = (BTreeSet::new(), 0, 0);
    loop {
        let page = other.keys_after(after, 10).await.expect("an answer");
        assert!(page.keys.len() <= 10);
        seen.extend(page.keys);
        pages += 1;
        // A key that is written again moves to the end, and stays in the listing.
        one.put("key-00", pages.to_string().into_bytes(), Expected::Any).await.expect("it is written");
        match page.next {
            Some(next) if pages < 10 => after = next,
            _ => break,
        }
    }
    let expected: BTreeSet<_> =
        (0..25).filter(|number| *number != 5).map(|number| format!("key-{number:02}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(other.keys_after(u64::MAX >> 12, 10).await.expect("an answer"), BucketPage::default());
}

async fn a_full_bucket_says_of_what(one: &dyn SharedBuckets) {
    let few = one.bucket("plugin", "few", BucketLimits { bytes: 1 << 20, keys: 2 });
    few.put("a", b"1".to_vec(), Expected::Any).await.expect("it is written");
    few.put("b", b"1".to_vec(), Expected::Any).await.expect("it is written");
    assert_eq!(few.put("c", b"1".to_vec(), Expected::Any).await, Err(BucketError::FullOfKeys));
    few.put("a", b"2".to_vec(), Expected::Any).await.expect("a key that is there can be written");
    few.delete("b").await.expect("it is deleted");
    few.put("c", b"1".to_vec(), Expected::Absent).await.expect("there is room again");
    let small = one.bucket("plugin", "small", BucketLimits { bytes: 4096, keys: 100 });
    small.put("a", vec![7; 3000], Expected::Any).await.expect("it fits");
    assert_eq!(small.put("b", vec![7; 3000], Expected::Any).await, Err(BucketError::FullOfBytes));
    assert_eq!(small.get("b").await.expect("an answer"), None);
    // The bucket has the limits of the host that used it last.
    let larger = one.bucket("plugin", "small", BucketLimits { bytes: 1 << 20, keys: 100 });
    larger.put("b", vec![7; 3000], Expected::Any).await.expect("it fits now");
    let smaller = one.bucket("plugin", "small", BucketLimits { bytes: 4096, keys: 100 });
    assert_eq!(smaller.put("c", vec![7; 3000], Expected::Any).await, Err(BucketError::FullOfBytes));
    assert_eq!(smaller.get("b").await.expect("an answer").expect("nothing is taken away").value, vec![7; 3000]);
}

async fn a_value_that_is_too_large_is_refused(one: &dyn SharedBuckets) {
    let bucket = one.bucket("plugin", "large", LARGE);
    bucket.get("a").await.expect("an answer");
    let max = bucket.max_value();
    assert!((MAX_VALUE / 2..=MAX_VALUE).contains(&max), "{max}");
    let refused = bucket.put("a", vec![7; max + 1], Expected::Any).await;
    assert_eq!(refused, Err(BucketError::TooLarge { length: max + 1, max }));
    let revision = bucket.put("a", vec![7; max], Expected::Absent).await.expect("it fits");
    bucket.put("a", vec![8; max], Expected::Revision(revision)).await.expect("it fits");
    assert_eq!(bucket.get("a").await.expect("an answer").expect("a value").value, vec![8; max]);
}

async fn buckets_are_apart(one: &dyn SharedBuckets, other: &dyn SharedBuckets) {
    for (plugin, bucket) in [("a", "b"), ("a", "B"), ("a-b", "c"), ("a", "b-c"), ("a.b", "c"), ("a", "b.c")] {
        let of_one = one.bucket(plugin, bucket, LARGE);
        let value = format!("{plugin} {bucket}").into_bytes();
        of_one.put("key", value, Expected::Absent).await.expect("no other bucket has this key");
    }
    for (plugin, bucket) in [("a", "b"), ("a", "B"), ("a-b", "c"), ("a", "b-c"), ("a.b", "c"), ("a", "b.c")] {
        let entry = other.bucket(plugin, bucket, LARGE).get("key").await.expect("an answer").expect("a value");
        assert_eq!(entry.value, format!("{plugin} {bucket}").into_bytes());
    }
}
