//! The response cache of a plugin: encoded responses, for the time to live that their provider sets.
//!
//! A [`CachedPlugin`] is a plugin behind its cache. The transport makes the JSON, which is opaque here.
//!
//! A response is served from the cache if everything in it that the principal may see has a time to live (`ttl-ms`):
//! for the smallest of these, and at most [`MAX_TTL`]. Hidden items do not count, so that the principal does not learn
//! of them. Entries are unfiltered, except contents of which a principal may not see all: the caller decides access for
//! each request, before and after the lookup. Concurrent misses for one key make one call (single flight). A request
//! waits for another request's call at most once: if that call fails, is cancelled, or is not cacheable, the request
//! makes its own call, under the limits of the plugin. A response that turns out not to be cacheable leaves a
//! *hit-for-miss* entry, so that for a while requests for it do not wait for each other.
//!
//! # Invalidation
//!
//! After a change notification, no older response for the changed resource is served. A client that subscribes and then
//! reads gets nothing older than the state from which changes are reported. So before a resource is notified, and when
//! it is first polled, the responses to its path with any query are [dropped](epochs); a change of the listing drops
//! the pages of the listing. Nothing else is dropped: other entries keep their time to live, whatever one client
//! subscribes to or one resource changes.
//!
//! An entry for a view that shows only a part of the plugin is dropped if the visible part has changed, and not because
//! of hidden changes: times to live would reveal them. So pages of a listing are cached per such view. A response that
//! is being fetched during the drop is not cached either. Replacing a plugin drops its cache.
//!
//! [`set_capacity`](ResponseCache::set_capacity) bounds the memory; a new cache has no capacity and stores nothing.
//! There are no lookups before a plugin has returned its first time to live.

mod cached_plugin;
mod encoded;
mod epochs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcp_host_model::uri::Uri;
use quick_cache::sync::{Cache, DefaultLifecycle, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::encoded::EncodedPage;
use self::epochs::Epochs;

pub(crate) use self::cached_plugin::{CachedPlugin, hide_next_parts, hide_next_parts_of};
pub(crate) use self::encoded::{PageKey, ViewId};
pub(crate) use self::epochs::DroppedFor;

pub use self::encoded::{EncodedContents, EncodedResources, EncodedRun, EncodingForm, ListedResources, ReadResponse};

/// The maximum time for which a response is cached, and the maximum time to live in responses to clients.
pub const MAX_TTL: Duration = Duration::from_secs(60 * 60);
/// The time for which requests for an uncacheable response do not wait for each other.
const HIT_FOR_MISS_TIME: Duration = Duration::from_secs(10);
/// The same time after a failure.
const HIT_FOR_MISS_TIME_AFTER_FAULT: Duration = Duration::from_secs(1);
/// A response whose JSON may exceed this fraction of the capacity (1/8) is not cached.
const MAX_PART: u64 = 8;
/// The maximum number of responses that are encoded for the cache concurrently. Their memory is not part of its
/// capacity.
const MAX_ENCODINGS: usize = 2;
/// The approximate memory of an entry in addition to its parts.
const ENTRY_OVERHEAD: usize = 256;
/// The typical size of a response, used to estimate the number of entries.
const TYPICAL_RESPONSE: u64 = 4096;

/// The request that a cached response answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CacheKey {
    /// All contents of a read, or the contents that a view shows.
    Contents { path: Arc<str>, form: EncodingForm, view: Option<ViewId> },
    /// A page of the listing, for a view that shows only a part, or for all others.
    Page { cursor: Option<Arc<str>>, size: u32, form: EncodingForm, view: Option<ViewId> },
}

/// A response that can be cached.
trait Cacheable: Send + Sync + Sized {
    fn into_value(self: Arc<Self>) -> Value;
    fn from_value(value: &Value) -> Option<Arc<Self>>;
    /// The approximate memory of the value, in bytes.
    fn weight(&self) -> usize;
}

#[derive(Clone)]
enum Value {
    Contents(Arc<EncodedContents>),
    Page(Arc<EncodedPage>),
    /// Each view has its own response, because one of them does not show all contents.
    ByView,
    /// The response cannot be cached.
    HitForMiss,
}

#[derive(Clone)]
struct Entry {
    value: Value,
    epoch: u64,
    expires: Instant,
    weight: u64,
}

#[derive(Clone, Debug)]
struct ByWeight;

type Entries = Cache<CacheKey, Entry, ByWeight>;
type Guard<'a> = PlaceholderGuard<'a, CacheKey, Entry, ByWeight, DefaultHashBuilder, DefaultLifecycle<CacheKey, Entry>>;

/// The cached responses of one plugin.
struct ResponseCache {
    entries: Entries,
    /// The times since which entries are valid.
    epochs: Epochs,
    /// Whether the plugin has returned a time to live.
    has_ttls: AtomicBool,
    encodings: Semaphore,
    lookups: Counters,
}

/// The outcome of a lookup.
enum Lookup<'a, T> {
    /// It is cached.
    Hit(Arc<T>),
    /// It is not cached. Requests for it wait until the reservation is filled or dropped.
    Miss(Reservation<'a>),
    /// Each view has its own response.
    ByView,
    /// It is not cached, and no other request waits for this request's response.
    Bypass,
}

/// The place of a response that is being fetched.
struct Reservation<'a> {
    cache: &'a ResponseCache,
    key: CacheKey,
    epoch: u64,
    /// None once it is filled.
    guard: Option<Guard<'a>>,
}

impl Weighter<CacheKey, Entry> for ByWeight {
    fn weight(&self, key: &CacheKey, entry: &Entry) -> u64 {
        entry.weight.saturating_add(key.len()).max(1)
    }
}

impl CacheKey {
    fn len(&self) -> u64 {
        let len = match self {
            Self::Contents { path, .. } => path.len(),
            Self::Page { cursor, .. } => cursor.as_ref().map_or(0, |cursor| cursor.len()),
        };
        u64::try_from(len).unwrap_or(u64::MAX)
    }
}

impl ResponseCache {
    /// A cache without capacity.
    fn new() -> Self {
        Self {
            entries: entries(0),
            epochs: Epochs::default(),
            has_ttls: AtomicBool::new(false),
            encodings: Semaphore::new(MAX_ENCODINGS),
            lookups: Counters::default(),
        }
    }

    /// Sets the capacity in bytes. Entries that no longer fit are evicted.
    fn set_capacity(&self, bytes: u64) {
        self.entries.set_capacity(bytes);
    }

    /// Returns whether a response whose JSON takes at most `json_len` bytes may be cached.
    fn has_room(&self, json_len: usize) -> bool {
        u64::try_from(json_len).is_ok_and(|len| len <= self.entries.capacity() / MAX_PART)
    }

    /// Returns a permit to encode a response; none if too many responses are being encoded.
    fn begin_encoding(&self) -> Option<SemaphorePermit<'_>> {
        self.encodings.try_acquire().ok()
    }

    /// Drops all entries, and prevents responses that are being fetched from becoming entries.
    fn clear(&self) {
        self.epochs.drop_all();
        self.entries.clear();
    }

    /// Drops some responses. If there is no room to record the drop, stale records are removed first.
    fn drop_responses(&self, drop: impl Fn(&Epochs) -> bool) {
        if drop(&self.epochs) {
            return;
        }
        self.epochs.forget(|is_current| {
            self.entries.retain(|key, entry| match entry.value {
                Value::ByView | Value::HitForMiss => true,
                Value::Contents(_) | Value::Page(_) => is_current(key, entry.epoch),
            });
        });
        // The records are full of responses that are being fetched.
        if !drop(&self.epochs) {
            self.clear();
        }
    }

    /// Records that a response had a time to live: from now on there are lookups.
    fn record_ttl(&self, ttl: Duration) {
        if !ttl.is_zero() && !self.has_ttls.load(Ordering::Relaxed) {
            self.has_ttls.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the numbers of hits and misses.
    fn counts(&self) -> CacheCounts {
        self.lookups.counts()
    }

    /// Returns the memory use of the entries.
    fn usage(&self) -> CacheUsage {
        let Self { entries, .. } = self;
        CacheUsage { responses: entries.len(), bytes: entries.weight(), capacity: entries.capacity() }
    }

    /// Looks up a response; waits for one that is being fetched.
    async fn lookup<T: Cacheable>(&self, key: impl FnOnce() -> CacheKey) -> Lookup<'_, T> {
        if !self.has_ttls.load(Ordering::Relaxed) || self.entries.capacity() == 0 {
            return Lookup::Bypass;
        }
        let found = self.find(key()).await;
        if !matches!(found, Lookup::ByView) {
            self.lookups.record(matches!(found, Lookup::Hit(_)));
        }
        found
    }

    async fn find<T: Cacheable>(&self, key: CacheKey) -> Lookup<'_, T> {
        if let Some(entry) = self.entries.get(&key) {
            if self.is_current(&key, &entry) && Instant::now() < entry.expires {
                return entry.into_lookup();
            }
            self.entries.remove_if(&key, |found| (found.epoch, found.expires) == (entry.epoch, entry.expires));
        }
        match self.entries.get_value_or_guard_async(&key).await {
            // The entry was fetched while this request waited, so it may be used even if it has expired since.
            Ok(entry) if self.is_current(&key, &entry) => entry.into_lookup(),
            Ok(_) => Lookup::Bypass,
            Err(guard) => {
                // A response that is fetched from now on is at least as new.
                let epoch = self.epochs.begin(&key);
                Lookup::Miss(Reservation { cache: self, key, epoch, guard: Some(guard) })
            }
        }
    }

    /// Drops the entry of this key.
    fn remove(&self, key: &CacheKey) {
        self.entries.remove(key);
    }

    fn is_current(&self, key: &CacheKey, entry: &Entry) -> bool {
        match entry.value {
            // These entries have no content.
            Value::ByView | Value::HitForMiss => self.epochs.is_since_all(entry.epoch),
            Value::Contents(_) | Value::Page(_) => self.epochs.is_current(key, entry.epoch),
        }
    }
}

impl Entry {
    fn into_lookup<'a, T: Cacheable>(self) -> Lookup<'a, T> {
        match &self.value {
            Value::ByView => Lookup::ByView,
            value => T::from_value(value).map_or(Lookup::Bypass, Lookup::Hit),
        }
    }
}

impl Reservation<'_> {
    /// Stores the response until `expires`, unless the cache was cleared since the reservation.
    fn fill<T: Cacheable>(mut self, response: Arc<T>, expires: Instant) {
        let weight = u64::try_from(response.weight().saturating_add(ENTRY_OVERHEAD)).unwrap_or(u64::MAX);
        self.insert(response.into_value(), expires, weight);
    }

    /// Lets waiting requests, and later ones for a while, look up the response of their view.
    fn cache_by_view(mut self, time: Duration) {
        match time.is_zero() {
            true => self.pass(Value::HitForMiss, HIT_FOR_MISS_TIME),
            false => self.pass(Value::ByView, time.min(MAX_TTL)),
        }
    }

    /// Lets waiting requests, and later ones for a while, make their own calls.
    fn bypass(mut self) {
        self.pass(Value::HitForMiss, HIT_FOR_MISS_TIME);
    }

    /// Does the same after a fault, for a shorter time. Without this, the waiting requests would hit the fault one
    /// after the other.
    fn bypass_after_fault(mut self) {
        self.pass(Value::HitForMiss, HIT_FOR_MISS_TIME_AFTER_FAULT);
    }

    fn pass(&mut self, value: Value, time: Duration) {
        let now = Instant::now();
        let weight = u64::try_from(ENTRY_OVERHEAD).unwrap_or(u64::MAX);
        self.insert(value, now.checked_add(time).unwrap_or(now), weight);
    }

    fn insert(&mut self, value: Value, expires: Instant, weight: u64) {
        let Some(guard) = self.guard.take() else { return };
        let epoch = self.epoch;
        // Waiting requests get the entry in any case. If the cache was cleared, the entry must not remain.
        let _ = guard.insert(Entry { value, epoch, expires, weight });
        if !self.cache.epochs.is_since_all(epoch) {
            self.cache.entries.remove_if(&self.key, |found| found.epoch == epoch);
        }
    }
}

impl Drop for Reservation<'_> {
    /// A cancelled request lets all waiting requests make their own calls. If one of them were to take its place, a
    /// client that cancels its requests could make others wait forever.
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.pass(Value::HitForMiss, Duration::ZERO);
            // The entry has woken the waiting requests, and is no longer needed.
            let is_mark = |found: &Entry| matches!(found.value, Value::HitForMiss) && found.epoch == self.epoch;
            self.cache.entries.remove_if(&self.key, is_mark);
        }
        self.cache.epochs.end(&self.key);
    }
}

/// Returns the time at which a response with this time to live expires; none if it cannot be cached.
fn expiry(ttl: Duration) -> Option<Instant> {
    let ttl = ttl.min(MAX_TTL);
    (!ttl.is_zero()).then(|| Instant::now().checked_add(ttl)).flatten()
}

fn entries(capacity: u64) -> Entries {
    let items = usize::try_from(capacity / TYPICAL_RESPONSE).unwrap_or(usize::MAX).max(16);
    // One shard, so that a response may be as large as the capacity.
    let options = OptionsBuilder::new().shards(1).estimated_items_capacity(items).weight_capacity(capacity).build();
    match options {
        Ok(options) => {
            Cache::with_options(options, ByWeight, DefaultHashBuilder::default(), DefaultLifecycle::default())
        }
        // All options without a default are set, so this does not happen.
        Err(_) => Cache::with_weighter(items, capacity, ByWeight),
    }
}

impl Cacheable for EncodedContents {
    fn into_value(self: Arc<Self>) -> Value {
        Value::Contents(self)
    }

    fn from_value(value: &Value) -> Option<Arc<Self>> {
        match value {
            Value::Contents(contents) => Some(contents.clone()),
            _ => None,
        }
    }

    fn weight(&self) -> usize {
        let uris =
            self.uris.iter().chain(&self.next_parts).map(|uri| uri.as_str().len().saturating_add(size_of::<Uri>()));
        uris.fold(self.json.len(), usize::saturating_add)
    }
}

impl Cacheable for EncodedPage {
    fn into_value(self: Arc<Self>) -> Value {
        Value::Page(self)
    }

    fn from_value(value: &Value) -> Option<Arc<Self>> {
        match value {
            Value::Page(page) => Some(page.clone()),
            _ => None,
        }
    }

    fn weight(&self) -> usize {
        self.memory()
    }
}

/// The lookups of one plugin's responses in the response cache, since it was loaded. Requests before the plugin's first
/// time to live cause no lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Responses that were cached, or that another request was fetching.
    pub hits: u64,
    /// Responses that were not cached, and took a call.
    pub misses: u64,
}

/// The memory use of a plugin's cached responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUsage {
    /// The number of responses.
    pub responses: usize,
    /// Their approximate size in bytes.
    pub bytes: u64,
    /// The maximum size in bytes: its share of [`server.response-cache`](mcp_host_config::Server::response_cache).
    pub capacity: u64,
}

/// The counters of hits and misses.
#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Counters {
    /// Counts a lookup.
    fn record(&self, is_hit: bool) {
        let counter = if is_hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    fn counts(&self) -> CacheCounts {
        CacheCounts { hits: self.hits.load(Ordering::Relaxed), misses: self.misses.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    /// A cache with lookups enabled.
    fn cache(capacity: u64) -> ResponseCache {
        let cache = ResponseCache::new();
        cache.set_capacity(capacity);
        cache.record_ttl(TTL);
        cache
    }

    fn key(path: &str) -> impl FnOnce() -> CacheKey {
        || CacheKey::Contents { path: path.into(), form: EncodingForm(0), view: None }
    }

    fn contents(len: usize) -> Arc<EncodedContents> {
        let json = "x".repeat(len).into();
        let (uris, next_parts) = (Box::default(), Box::default());
        Arc::new(EncodedContents { json, uris, next_parts, len: 0, expires: Instant::now() })
    }

    async fn lookup<'a>(cache: &'a ResponseCache, path: &str) -> Lookup<'a, EncodedContents> {
        cache.lookup(key(path)).await
    }

    async fn reserve<'a>(cache: &'a ResponseCache, path: &str) -> Reservation<'a> {
        match lookup(cache, path).await {
            Lookup::Miss(reservation) => reservation,
            Lookup::Hit(_) => panic!("{path} is cached"),
            Lookup::ByView | Lookup::Bypass => panic!("{path} is bypassed"),
        }
    }

    async fn is_hit(cache: &ResponseCache, path: &str) -> bool {
        matches!(lookup(cache, path).await, Lookup::Hit(_))
    }

    #[tokio::test]
    async fn what_is_stored_is_found_until_it_expires() {
        let cache = cache(1 << 20);
        reserve(&cache, "a").await.fill(contents(10), Instant::now() + TTL);
        assert!(is_hit(&cache, "a").await);
        reserve(&cache, "b").await.fill(contents(10), Instant::now());
        assert!(!is_hit(&cache, "b").await);
        assert_eq!(cache.counts(), CacheCounts { hits: 1, misses: 3 });
        assert_eq!(expiry(Duration::ZERO), None);
        assert!(expiry(Duration::MAX).unwrap() <= Instant::now() + MAX_TTL);
    }

    #[tokio::test]
    async fn nothing_that_was_fetched_before_it_was_cleared_is_found_after() {
        let cache = cache(1 << 20);
        reserve(&cache, "stored").await.fill(contents(10), Instant::now() + TTL);
        let in_flight = reserve(&cache, "in flight").await;
        cache.clear();
        in_flight.fill(contents(10), Instant::now() + TTL);
        for path in ["stored", "in flight"] {
            assert!(!is_hit(&cache, path).await, "{path}");
        }
        reserve(&cache, "stored").await.fill(contents(10), Instant::now() + TTL);
        assert!(is_hit(&cache, "stored").await);
    }

    #[tokio::test]
    async fn however_many_resources_are_dropped_the_others_are_found() {
        let cache = cache(1 << 20);
        reserve(&cache, "seen").await.fill(contents(10), Instant::now() + TTL);
        reserve(&cache, "stale").await.fill(contents(10), Instant::now() + TTL);
        let in_flight = reserve(&cache, "in flight").await;
        let drop_one = |path: &str| cache.drop_responses(|epochs| epochs.drop_resource(path, DroppedFor::All));
        ["stale", "in flight"].into_iter().for_each(drop_one);
        (0..10_000).for_each(|number| drop_one(&number.to_string()));
        in_flight.fill(contents(10), Instant::now() + TTL);
        assert!(is_hit(&cache, "seen").await);
        for path in ["stale", "in flight"] {
            assert!(!is_hit(&cache, path).await, "{path}");
        }
    }

    #[tokio::test]
    async fn one_request_fetches_what_others_wait_for() {
        let cache = cache(1 << 20);
        let first = reserve(&cache, "a").await;
        let mut second = Box::pin(lookup(&cache, "a"));
        assert!((&mut second).now_or_never().is_none());
        // The entry has expired when the waiting request gets it.
        first.fill(contents(10), Instant::now());
        assert!(matches!(second.await, Lookup::Hit(_)));
        reserve(&cache, "a").await.fill(contents(10), Instant::now() + TTL);
        assert!(is_hit(&cache, "a").await);
    }

    #[tokio::test]
    async fn nobody_waits_twice() {
        let cache = cache(1 << 20);
        let first = reserve(&cache, "a").await;
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(lookup(&cache, "a"))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        drop(first);
        for one in waiting {
            assert!(matches!(one.await, Lookup::Bypass), "the request that was waited for was cancelled");
        }
        assert_eq!(cache.entries.len(), 0, "nothing is left of it");
        let first = reserve(&cache, "a").await;
        let mut second = Box::pin(lookup(&cache, "a"));
        assert!((&mut second).now_or_never().is_none());
        cache.clear();
        let third = reserve(&cache, "a").await;
        first.fill(contents(10), Instant::now() + TTL);
        assert!(matches!(second.await, Lookup::Bypass), "the response is older than a change");
        third.fill(contents(10), Instant::now() + TTL);
        assert!(is_hit(&cache, "a").await);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_response_that_cannot_be_cached() {
        for is_fault in [false, true] {
            let cache = cache(1 << 20);
            let first = reserve(&cache, "a").await;
            let mut second = Box::pin(lookup(&cache, "a"));
            assert!((&mut second).now_or_never().is_none());
            if is_fault {
                first.bypass_after_fault()
            } else {
                first.bypass()
            }
            assert!(matches!(second.await, Lookup::Bypass));
            assert!(matches!(lookup(&cache, "a").await, Lookup::Bypass));
        }
    }

    #[tokio::test]
    async fn nothing_is_looked_up_before_the_first_time_to_live_and_without_capacity() {
        let cache = ResponseCache::new();
        cache.set_capacity(1 << 20);
        assert!(matches!(lookup(&cache, "a").await, Lookup::Bypass));
        cache.record_ttl(Duration::ZERO);
        assert!(matches!(lookup(&cache, "a").await, Lookup::Bypass));
        assert_eq!(cache.counts(), CacheCounts::default());
        cache.record_ttl(TTL);
        reserve(&cache, "a").await.fill(contents(10), Instant::now() + TTL);
        cache.set_capacity(0);
        assert!(matches!(lookup(&cache, "a").await, Lookup::Bypass));
    }

    #[tokio::test]
    async fn the_memory_is_bounded() {
        let cache = cache(1 << 20);
        for number in 0..500 {
            reserve(&cache, &number.to_string()).await.fill(contents(10_000), Instant::now() + TTL);
            assert!(cache.entries.weight() <= 1 << 20);
        }
        assert!(cache.entries.len() > 50, "{}", cache.entries.len());
        cache.set_capacity(100_000);
        assert!(cache.entries.weight() <= 100_000);
        assert!(cache.has_room(12_500) && !cache.has_room(12_501));
        let two: Vec<_> = (0..2).map(|_| cache.begin_encoding().unwrap()).collect();
        assert!(cache.begin_encoding().is_none());
        drop(two);
        reserve(&cache, "large").await.fill(contents(200_000), Instant::now() + TTL);
        assert!(cache.entries.weight() <= 100_000);
    }
}
