//! Operations of guests on shared buckets, of two hosts with one store that fails in every way.

use std::time::Duration;

use futures::future::join_all;
use mcp_host_base::shared_buckets::SharedBuckets;
use mcp_host_base::testing::CapturedLog;
use mcp_host_cluster::buckets::MAX_VALUE as MAX_SHARED_VALUE;
use mcp_host_cluster::engine::model::{ModelBuckets, ModelFault};
use mcp_host_config as config;
use tracing::level_filters::LevelFilter;

use super::super::operations::Operations;
use super::super::{BucketStores, Keyvalue, MAX_KEY};
use super::*;
use crate::CallAccounts;
use crate::cpu::HostCpuBudget;
use crate::guest_log::GuestLog;
use crate::memory::{CallOwner, MemoryAccount, MemoryBudget};

const I64_RANGE: std::ops::RangeInclusive<i128> = i64::MIN as i128..=i64::MAX as i128;

/// A plugin on one host, with the accounts of a call.
struct Host {
    keyvalue: Keyvalue,
    memory: Arc<MemoryAccount>,
    cpu: HostCpuBudget,
}

impl Host {
    fn new(store: &ModelBuckets) -> Self {
        Self::with(store, |_| {})
    }

    /// A host with a changed config of the plugin.
    fn with(store: &ModelBuckets, change: impl FnOnce(&mut config::Plugin)) -> Self {
        Self::start(Some(store), "web", change)
    }

    fn start(store: Option<&ModelBuckets>, plugin: &str, change: impl FnOnce(&mut config::Plugin)) -> Self {
        let mut plugin = config::Plugin::new(plugin.parse().unwrap(), "web.wasm", "web://".parse().unwrap());
        let grant = config::grants::KeyvalueGrant { shared: true, ..Default::default() };
        plugin.grants.keyvalue.insert("pages".parse().unwrap(), grant);
        change(&mut plugin);
        let log = GuestLog::new("web".into(), 1024);
        let shared = store.map(|store| store as &dyn SharedBuckets);
        let keyvalue = Keyvalue::new(&plugin, BucketStores { state_dir: None, shared }, &log);
        let memory = MemoryAccount::new(MemoryBudget::new(plugin.limits.memory.bytes(), None), CallOwner::default());
        Self { keyvalue, memory, cpu: HostCpuBudget::unlimited() }
    }

    fn pages(&self) -> Bucket {
        self.keyvalue.open("pages").unwrap()
    }

    fn call(&self) -> Operations<'_> {
        self.keyvalue.operations(CallAccounts { memory: &self.memory, cpu: &self.cpu })
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.call().get(self.pages(), key.to_owned()).await
    }

    async fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.call().set(self.pages(), key.to_owned(), value.to_vec()).await
    }

    async fn increment(&self, key: &str) -> Result<i128, StoreError> {
        self.call().increment(self.pages(), key.to_owned(), 1, I64_RANGE).await
    }

    /// All keys, page by page.
    async fn keys(&self) -> Vec<String> {
        let (mut keys, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.call().keys(self.pages(), PageStart::After(cursor)).await.unwrap();
            cursor = page.cursor();
            keys.extend(page.keys);
            if cursor.is_none() {
                return keys;
            }
        }
    }
}

fn hosts() -> (ModelBuckets, Host, Host) {
    let store = ModelBuckets::default();
    let (one, other) = (Host::new(&store), Host::new(&store));
    (store, one, other)
}

#[tokio::test]
async fn a_value_that_one_host_writes_is_read_on_the_other() {
    let (_, one, other) = hosts();
    one.set("key", b"value").await.unwrap();
    assert_eq!(other.get("key").await.unwrap().unwrap(), b"value");
    assert!(other.call().exists(other.pages(), "key".to_owned()).await.unwrap());
    other.call().delete(other.pages(), "key".to_owned()).await.unwrap();
    assert_eq!(one.get("key").await, Ok(None));
    one.call().delete(one.pages(), "key".to_owned()).await.unwrap();
    assert_eq!(one.memory.try_reserve(1).map(|one| one.bytes()).ok(), Some(1), "the memory of the calls is free again");
}

#[tokio::test]
async fn another_plugin_has_another_bucket_of_the_same_name() {
    let store = ModelBuckets::default();
    let (web, wiki) = (Host::new(&store), Host::start(Some(&store), "wiki", |_| {}));
    web.set("key", b"of web").await.unwrap();
    assert_eq!(wiki.get("key").await, Ok(None));
    wiki.set("key", b"of wiki").await.unwrap();
    assert_eq!(web.get("key").await.unwrap().unwrap(), b"of web");
    assert_eq!(wiki.keys().await, ["key"]);
}

#[tokio::test]
async fn increments_of_two_hosts_at_once_are_all_counted() {
    const EACH: usize = 50;
    let (_, one, other) = hosts();
    let of = |host| join_all((0..EACH).map(move |_| Host::increment(host, "count")));
    let (of_one, of_other) = tokio::join!(of(&one), of(&other));
    let mut sums: Vec<i128> = of_one.into_iter().chain(of_other).map(Result::unwrap).collect();
    sums.sort_unstable();
    assert!(sums.iter().copied().eq(1..=2 * EACH as i128), "each sum is returned once");
    assert_eq!(one.get("count").await.unwrap().unwrap(), (2 * EACH).to_string().into_bytes());
}

#[tokio::test]
async fn an_increment_tries_again_after_conflicts_and_gives_up_in_the_end() {
    let (store, host, _) = hosts();
    store.conflict(5);
    assert_eq!(host.increment("count").await, Ok(1));
    store.conflict(usize::MAX);
    assert_eq!(host.increment("count").await, Err(StoreError::Busy));
    store.conflict(0);
    assert_eq!(host.get("count").await.unwrap().unwrap(), b"1");
}

#[tokio::test]
async fn numbers_are_checked_as_on_disk() {
    let (_, host, _) = hosts();
    for value in [&b""[..], b"x", b"1.5", b"\xff", b"99999999999999999999"] {
        host.set("text", value).await.unwrap();
        assert_eq!(host.increment("text").await, Err(StoreError::NotANumber));
    }
    host.set("max", i64::MAX.to_string().as_bytes()).await.unwrap();
    assert_eq!(host.increment("max").await, Err(StoreError::Overflow));
}

#[tokio::test]
async fn a_swap_happens_only_if_nothing_was_written_since_it_was_prepared() {
    let (_, one, other) = hosts();
    let before = one.call().begin_cas(one.pages(), "a".to_owned()).await.unwrap();
    let same = other.call().begin_cas(other.pages(), "a".to_owned()).await.unwrap();
    assert_eq!(one.call().current(before.clone()).await, Ok((None, true)));
    one.call().swap(before.clone(), b"1".to_vec()).await.unwrap().unwrap();
    let anew = other.call().swap(same.clone(), b"2".to_vec()).await.unwrap().unwrap_err();
    assert_eq!(other.call().current(same).await, Ok((Some(b"1".to_vec()), false)));
    assert_eq!(other.call().current(anew.clone()).await, Ok((Some(b"1".to_vec()), true)));
    // A value that was written again does not deceive it.
    one.call().delete(one.pages(), "a".to_owned()).await.unwrap();
    one.set("a", b"1").await.unwrap();
    let anew = other.call().swap(anew, b"2".to_vec()).await.unwrap().unwrap_err();
    other.call().swap(anew, b"2".to_vec()).await.unwrap().unwrap();
    let never = Cas { bucket: one.pages(), key: "a".to_owned(), version: Some(-1) };
    assert!(one.call().swap(never, b"3".to_vec()).await.unwrap().is_err());
    assert_eq!(one.get("a").await.unwrap().unwrap(), b"2");
}

#[tokio::test]
async fn a_batch_handles_as_many_keys_as_on_disk() {
    let (_, one, other) = hosts();
    let names: Vec<_> = (0..MAX_KEYS).map(|n| format!("key-{n:04}")).collect();
    let entries = names.iter().map(|name| (name.clone(), name.clone().into_bytes())).collect();
    one.call().set_many(one.pages(), entries).await.unwrap();
    let mut requested = names.clone();
    requested.reverse();
    requested[1] = "absent".to_owned();
    let found = other.call().get_many(other.pages(), requested.clone()).await.unwrap();
    assert_eq!(found.len(), MAX_KEYS);
    for (key, found) in requested.into_iter().zip(found) {
        let expected = (key != "absent").then(|| (key.clone(), key.into_bytes()));
        assert_eq!(found, expected);
    }
    let last = vec![("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"1".to_vec()), ("a".to_owned(), b"2".to_vec())];
    one.call().set_many(one.pages(), last).await.unwrap();
    assert_eq!(one.get("a").await.unwrap().unwrap(), b"2");
    assert_eq!(other.keys().await.len(), MAX_KEYS + 2);
    other.call().delete_many(other.pages(), names).await.unwrap();
    let mut left = one.keys().await;
    left.sort();
    assert_eq!(left, ["a", "b"]);
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_anything_is_written() {
    let (_, host, _) = hosts();
    let call = host.call();
    let key = || "a".to_owned();
    assert_eq!(host.get("").await, Err(StoreError::InvalidKeyLength(0)));
    let long = "k".repeat(MAX_KEY + 1);
    assert_eq!(host.set(&long, b"").await, Err(StoreError::InvalidKeyLength(MAX_KEY + 1)));
    let too_large = StoreError::SharedValueTooLarge { length: MAX_SHARED_VALUE + 1, max: MAX_SHARED_VALUE };
    for batch in [
        vec![(key(), Vec::new()), (String::new(), Vec::new())],
        vec![(key(), Vec::new()), ("b".to_owned(), vec![0; MAX_SHARED_VALUE + 1])],
        vec![(key(), vec![0; MAX_SHARED_VALUE]); 17],
        vec![(key(), Vec::new()); MAX_KEYS + 1],
    ] {
        let refused = call.set_many(host.pages(), batch).await.unwrap_err();
        assert!(
            [StoreError::InvalidKeyLength(0), StoreError::ValuesTooLarge, StoreError::TooManyKeys(MAX_KEYS + 1)]
                .contains(&refused)
                || refused == too_large,
            "{refused:?}"
        );
    }
    let cas = call.begin_cas(host.pages(), key()).await.unwrap();
    assert_eq!(call.swap(cas, vec![0; MAX_SHARED_VALUE + 1]).await.unwrap_err(), too_large);
    assert_eq!(host.keys().await, Vec::<String>::new());
    let text = too_large.to_string();
    assert!(text.contains("max_payload") && text.contains("16.0 MiB"), "both bounds are named: {text}");
    for n in 0..17 {
        host.set(&n.to_string(), &vec![0; MAX_SHARED_VALUE]).await.unwrap();
    }
    let all = (0..17).map(|n| n.to_string()).collect();
    assert_eq!(call.get_many(host.pages(), all).await, Err(StoreError::ValuesTooLarge));
}

#[tokio::test]
async fn a_quota_is_that_of_the_store_and_said_to_be_approximate() {
    let store = ModelBuckets::default();
    let host = Host::with(&store, |plugin| {
        let (quota, keys) = ("1KiB".parse().unwrap(), 5.try_into().unwrap());
        let grant = config::grants::KeyvalueGrant { quota, keys, shared: true };
        plugin.grants.keyvalue.insert("pages".parse().unwrap(), grant);
    });
    let error = host.set("large", &[0; 1024]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "quota exceeded: the shared bucket `pages` may hold 1.0 KiB as NATS stores it, with about 150 bytes for each key"
    );
    for n in 0..5 {
        host.set(&n.to_string(), b"").await.unwrap();
    }
    assert_eq!(host.increment("5").await, Err(StoreError::KeyQuotaExceeded { name: "pages".to_owned(), quota: 5 }));
    host.set("4", b"x").await.unwrap();
    host.call().delete(host.pages(), "4".to_owned()).await.unwrap();
    assert_eq!(host.increment("5").await, Ok(1));
}

#[tokio::test]
async fn while_the_store_is_gone_each_call_fails_at_once_and_the_next_one_after_it_succeeds() {
    let (store, host, _) = hosts();
    let log = CapturedLog::default();
    let _capturing = log.capture(LevelFilter::WARN);
    store.set_fault(Some(ModelFault::Gone));
    let unreachable = StoreError::Unreachable("not connected".to_owned());
    assert_eq!(unreachable.to_string(), "the store of shared buckets cannot be reached; try again");
    for _ in 0..3 {
        assert_eq!(host.get("a").await, Err(unreachable.clone()));
        assert_eq!(host.set("a", b"1").await, Err(unreachable.clone()));
        assert_eq!(host.increment("a").await, Err(unreachable.clone()));
    }
    let lines = log.lines();
    let about = lines.iter().filter(|line| line.contains("the shared buckets of a plugin cannot be reached"));
    assert_eq!(about.filter(|line| line.contains("not connected")).count(), 1, "{lines:?}");
    assert!(host.keyvalue.unusable().is_none(), "the plugin's own data are not at fault");
    store.set_fault(None);
    assert_eq!(host.increment("a").await, Ok(1));
}

#[tokio::test]
async fn while_the_store_is_silent_a_call_fails_in_half_of_its_deadline_and_few_wait() {
    let store = ModelBuckets::default();
    store.set_fault(Some(ModelFault::Silent));
    let mut is_in_time = false;
    // A busy machine may be late.
    for (text, deadline) in [600, 2400, 9600].map(|ms| (format!("{ms}ms"), Duration::from_millis(ms))) {
        let host = Host::with(&store, |plugin| plugin.limits.deadline = text.parse().unwrap());
        let began = Instant::now();
        let results = join_all((0..MAX_OPERATIONS + 2).map(|_| host.get("a"))).await;
        let took = began.elapsed();
        assert!(took >= deadline / 2, "{took:?} of {deadline:?}");
        let count =
            |wanted: fn(&StoreError) -> bool| results.iter().filter(|one| one.as_ref().is_err_and(wanted)).count();
        // Those that wait for a permit get it, if at all, when their time is over, too.
        let (unreachable, busy) =
            (count(|error| matches!(error, StoreError::Unreachable(_))), count(|error| *error == StoreError::Busy));
        assert!(unreachable >= MAX_OPERATIONS && unreachable + busy == MAX_OPERATIONS + 2, "{results:?}");
        is_in_time = took < deadline;
        if is_in_time {
            break;
        }
    }
    assert!(is_in_time);
    let time = |deadline: &str| {
        let host = Host::with(&store, |plugin| plugin.limits.deadline = deadline.parse().unwrap());
        host.pages().shared().unwrap().unwrap().0.requests.time
    };
    assert_eq!([time("4s"), time("10m")], [Duration::from_secs(2), MAX_TIME]);
}

#[tokio::test]
async fn a_result_is_charged_to_the_memory_of_the_plugin() {
    let store = ModelBuckets::default();
    let large = Host::new(&store);
    large.set("a", &vec![7; MAX_SHARED_VALUE]).await.unwrap();
    large.set("b", &vec![7; MAX_SHARED_VALUE]).await.unwrap();
    let small = Host::with(&store, |plugin| plugin.limits.memory = "1536KiB".parse().unwrap());
    assert_eq!(small.get("a").await.unwrap().unwrap().len(), MAX_SHARED_VALUE);
    let both = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(small.call().get_many(small.pages(), both).await, Err(StoreError::OutOfMemory));
    assert_eq!(small.set("c", &vec![7; 2 * MAX_SHARED_VALUE]).await, Err(StoreError::OutOfMemory));
    assert!(small.memory.try_reserve(MAX_SHARED_VALUE).is_ok(), "the memory of the calls is free again");
}

#[tokio::test]
async fn what_others_write_into_a_bucket_is_an_error_or_left_out_and_never_a_panic() {
    let (store, host, _) = hosts();
    host.set("good", b"1").await.unwrap();
    let long = "k".repeat(MAX_KEY + 1);
    for key in ["", long.as_str()] {
        store.write_foreign("web", "pages", key, b"garbage");
    }
    assert_eq!(host.keys().await, ["good"]);
    for value in [&b""[..], b"\0\xff", &vec![0xff; MAX_SHARED_VALUE]] {
        store.write_foreign("web", "pages", "good", value);
        assert_eq!(host.get("good").await.unwrap().unwrap(), value);
        assert_eq!(host.increment("good").await, Err(StoreError::NotANumber));
    }
    store.write_foreign("web", "pages", "good", &vec![0; MAX_SHARED_VALUE + 1]);
    assert!(matches!(host.get("good").await, Err(StoreError::Foreign(_))));
    assert!(matches!(host.increment("good").await, Err(StoreError::Foreign(_))));
    let many = host.call().get_many(host.pages(), vec!["good".to_owned()]).await;
    assert!(matches!(many, Err(StoreError::Foreign(_))), "{many:?}");
    host.set("good", b"2").await.unwrap();
    assert_eq!(host.increment("good").await, Ok(3));
}

#[tokio::test]
async fn a_listing_is_continued_by_either_kind_of_cursor_and_by_no_other() {
    let (_, one, other) = hosts();
    let names: Vec<_> = (0..MAX_KEYS * 2 + 1).map(|n| format!("key-{n:04}")).collect();
    for names in names.chunks(MAX_KEYS) {
        let entries = names.iter().map(|name| (name.clone(), Vec::new())).collect();
        one.call().set_many(one.pages(), entries).await.unwrap();
    }
    let mut listed = other.keys().await;
    listed.sort();
    assert_eq!(listed, names);
    let (mut by_offset, mut offset) = (Vec::new(), Some(0));
    while let Some(start) = offset {
        let page = other.call().keys(other.pages(), PageStart::Offset(start)).await.unwrap();
        assert!(page.keys.len() <= MAX_KEYS);
        offset = page.offset(start);
        by_offset.extend(page.keys);
    }
    by_offset.sort();
    assert_eq!(by_offset, names);
    for cursor in ["", "x", "-1", "1.5", "99999999999999999999", "18446744073709551615"] {
        let start = PageStart::After(Some(cursor.to_owned()));
        assert_eq!(one.call().keys(one.pages(), start).await, Err(StoreError::InvalidCursor), "{cursor}");
    }
}

#[tokio::test]
async fn the_usage_is_read_in_the_background_and_stays_while_the_store_is_gone() {
    let (store, host, _) = hosts();
    assert_eq!(host.keyvalue.usage(), []);
    // That began a reading.
    while host.keyvalue.usage().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    host.set("key", b"value").await.unwrap();
    host.keyvalue.read_shared_usage().await;
    let usage = host.keyvalue.usage();
    assert_eq!((usage[0].name.as_str(), usage[0].keys, usage[0].max_keys), ("pages", 1, 100_000));
    assert!(usage[0].bytes > 8, "with the overhead of the store: {usage:?}");
    assert_eq!(host.keyvalue.check_shared().await, Vec::<String>::new());
    store.set_fault(Some(ModelFault::Gone));
    host.keyvalue.read_shared_usage().await;
    assert_eq!(host.keyvalue.usage(), usage);
    let warnings = host.keyvalue.check_shared().await;
    assert!(
        warnings[0].contains("its shared bucket `pages` cannot be used now") && warnings[0].contains("not connected")
    );
}

#[tokio::test]
async fn a_shared_bucket_of_a_host_without_a_cluster_exists_and_fails() {
    let host = Host::start(None, "web", |_| {});
    let error = host.set("a", b"1").await.unwrap_err();
    assert_eq!(error.to_string(), "the bucket `pages` is shared between replicas, and this host has no `[cluster]`");
    assert_eq!(host.get("a").await, Err(error));
    assert_eq!(host.keyvalue.usage(), []);
}
