//! Pages in a store: finding, keeping, and making room.
//!
//! | key | value |
//! |---|---|
//! | `p:docs.rs/serde/` | the head of a page |
//! | `b:docs.rs/serde/` | its body |
//! | `r:docs.rs/serde` | the head of a redirect |
//!
//! Head and body are written together; a body that is not its head's (because two calls wrote at once) is as good as none. A
//! store that fails is as good as an empty one: what it says is logged, and the page is fetched.
//!
//! Beside them lie snapshots of sitemaps ([`snapshot`](crate::snapshot)), which go before all pages when there is no more room.
//!
//! When there is no more room, those pages go first that their origins were not asked about for longest. To bound that work
//! they are picked from a sample, and only a few times.

use super::head::{Head, digest};
use crate::store::{BATCH, Store, StoreError};
use mcp_provider::log;
use std::hash::{BuildHasher, RandomState};

/// The longest path of a page that is kept; a key has at most 1024 bytes.
const MAX_PATH: usize = 1000;
/// How many pages are looked at to find those that go.
const SAMPLE: usize = 64;
/// How many of them go at once.
const EVICT_BATCH: usize = 16;
/// How often room is made for one page.
const MAX_EVICT_ROUNDS: usize = 4;

const PAGE: &str = "p:";
const BODY: &str = "b:";
const REDIRECT: &str = "r:";

/// What is kept of a page.
#[derive(Debug)]
pub(crate) struct CachedPage {
    pub(crate) head: Head,
    /// Its body, where that was asked for.
    pub(crate) body: Option<Vec<u8>>,
}

/// Finds what is kept under a path, with its body if that is wanted.
pub(crate) fn get(store: &dyn Store, path: &str, with_body: bool) -> Option<CachedPage> {
    if path.len() > MAX_PATH {
        return None;
    }
    let (page, body, redirect) = (key(PAGE, path), key(BODY, path), key(REDIRECT, path));
    let mut keys = vec![page.as_str(), redirect.as_str()];
    if with_body {
        keys.push(&body);
    }
    let mut values = or_log(store.get(&keys))?.into_iter();
    let (page, redirect, body) = (values.next().flatten(), values.next().flatten(), values.next().flatten());
    let page = page.and_then(|bytes| Head::parse(&bytes)).filter(|head| head.content.is_some());
    if let Some(head) = page {
        if !with_body {
            return Some(CachedPage { head, body: None });
        }
        let body = body.filter(|body| head.content.as_ref().is_some_and(|content| content.digest == digest(body)));
        if body.is_none() {
            // Nobody would notice that it may not be kept any more.
            remove(store, path);
        }
        return body.map(|body| CachedPage { head, body: Some(body) });
    }
    let head = redirect.and_then(|bytes| Head::parse(&bytes)).filter(|head| head.location().is_some())?;
    Some(CachedPage { head, body: None })
}

/// The heads of pages, in the paths' order; redirects are none.
pub(crate) fn heads(store: &dyn Store, paths: &[&str]) -> Vec<Option<Head>> {
    let mut heads = Vec::with_capacity(paths.len());
    for paths in paths.chunks(BATCH) {
        let keys: Vec<String> = paths.iter().map(|path| key(PAGE, path)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let values = or_log(store.get(&keys)).unwrap_or_else(|| vec![None; keys.len()]);
        heads.extend(values.into_iter().map(|value| Head::parse(&value?)));
    }
    heads
}

/// The paths of all pages, sorted.
pub(crate) fn paths(store: &dyn Store) -> Vec<String> {
    let keys = or_log(store.keys()).unwrap_or_default();
    keys.iter().filter_map(|key| key.strip_prefix(PAGE)).map(str::to_owned).collect()
}

/// Keeps a page or a redirect under a path, in place of what was there. What does not fit is not kept.
pub(crate) fn put(store: &dyn Store, path: &str, head: &Head, body: Option<&[u8]>) {
    if path.len() > MAX_PATH {
        return;
    }
    let bytes = head.to_bytes();
    let (page, body_key, redirect) = (key(PAGE, path), key(BODY, path), key(REDIRECT, path));
    let mut values: Vec<(&str, &[u8])> = Vec::new();
    if let Some(body) = body {
        values.push((&body_key, body));
    }
    values.push((if head.content.is_some() { &page } else { &redirect }, &bytes));
    let mut rounds = 0..MAX_EVICT_ROUNDS;
    while let Err(error) = store.put(&values) {
        let is_worth_another = matches!(error, StoreError::Full(_)) && rounds.next().is_some() && evict(store, path);
        if !is_worth_another {
            return log::warn!("{path} is not kept: {error}");
        }
    }
}

/// Takes away what is kept under a path.
pub(crate) fn remove(store: &dyn Store, path: &str) {
    if path.len() <= MAX_PATH {
        let keys = [key(PAGE, path), key(BODY, path), key(REDIRECT, path)];
        or_log(store.remove(&keys.each_ref().map(String::as_str)));
    }
}

/// Takes away the redirect that was under a path which is now a page, or the other way round.
pub(crate) fn remove_other_kind(store: &dyn Store, path: &str, head: &Head) {
    if path.len() <= MAX_PATH {
        let keys =
            if head.content.is_some() { vec![key(REDIRECT, path)] } else { vec![key(PAGE, path), key(BODY, path)] };
        or_log(store.remove(&keys.iter().map(String::as_str).collect::<Vec<_>>()));
    }
}

/// Throws a few pages away, but not the one that room is made for. Says whether there were any.
fn evict(store: &dyn Store, path: &str) -> bool {
    let keys = or_log(store.keys()).unwrap_or_default();
    let is_other = |key: &&String| key.split_at_checked(2).is_some_and(|(_, other)| other != path);
    // Bodies without a head come first: nothing will ever ask for them.
    let heads: Vec<&String> = keys.iter().filter(is_other).filter(|key| !key.starts_with(BODY)).collect();
    let is_orphan = |body: &str| keys.binary_search(&key(PAGE, body)).is_err();
    let bodies = keys.iter().filter(is_other).filter_map(|key| key.strip_prefix(BODY));
    let orphans: Vec<String> = bodies.filter(|body| is_orphan(body)).take(BATCH).map(|body| key(BODY, body)).collect();
    let leaving = if orphans.is_empty() { least_recently_validated(store, &sample(heads)) } else { orphans };
    let leaving: Vec<&str> = leaving.iter().map(String::as_str).collect();
    !leaving.is_empty() && or_log(store.remove(&leaving)).is_some()
}

/// The keys of those pages and redirects that their origins were not asked about for longest; damaged ones before all.
fn least_recently_validated(store: &dyn Store, keys: &[&str]) -> Vec<String> {
    let values = or_log(store.get(keys)).unwrap_or_default();
    let received =
        values.into_iter().map(|value| value.and_then(|bytes| Head::parse(&bytes)).map(|head| head.received()));
    let mut by_time: Vec<_> = received.zip(keys).collect();
    by_time.sort_unstable();
    let all = |key: &str| match key.strip_prefix(PAGE) {
        Some(path) => vec![key.to_owned(), self::key(BODY, path)],
        None => vec![key.to_owned()],
    };
    let most = EVICT_BATCH.min(by_time.len().div_ceil(2));
    by_time.into_iter().take(most).flat_map(|(_, key)| all(key)).collect()
}

/// At most [`SAMPLE`] of the keys: all if there are no more, else a stretch that begins anywhere, at equal distances.
fn sample(keys: Vec<&String>) -> Vec<&str> {
    let step = keys.len().div_ceil(SAMPLE).max(1);
    let random = usize::try_from(RandomState::new().hash_one(0) & 0xffff).unwrap_or_default();
    let start = random.checked_rem(step).unwrap_or_default();
    keys.into_iter().skip(start).step_by(step).map(String::as_str).collect()
}

fn key(prefix: &str, path: &str) -> String {
    [prefix, path].concat()
}

/// What a store said; that it failed is only logged.
fn or_log<T>(answer: Result<T, StoreError>) -> Option<T> {
    answer.inspect_err(|error| log::debug!("the store fails: {error}")).ok()
}
