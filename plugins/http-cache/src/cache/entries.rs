//! Pages in a store: lookup, insertion, and eviction.
//!
//! | key | value |
//! |---|---|
//! | `p:docs.rs/serde/` | the head of a page |
//! | `b:docs.rs/serde/` | its body |
//! | `r:docs.rs/serde` | the head of a redirect |
//!
//! Head and body are written together. A body that does not belong to its head (after two concurrent writes) is
//! ignored. A failing store counts as empty: the error is logged, and the page is fetched.
//!
//! The store also contains snapshots of sitemaps ([`snapshot`](crate::snapshot)), which are evicted before all pages
//! when it is full.
//!
//! When the store is full, the least recently validated pages are evicted. To bound this work, they are chosen from a
//! sample, in a few rounds.

use super::head::{Head, digest};
use mcp_provider::keyvalue::Store;
use mcp_provider::{Failure, Result, log};
use std::hash::{BuildHasher, RandomState};

/// The maximum number of keys read or deleted in one call.
pub(crate) const BATCH: usize = 500;
/// The maximum length of the path of a stored page. A key has at most 1024 bytes.
const MAX_PATH: usize = 1000;
/// The number of pages sampled for eviction.
const SAMPLE: usize = 64;
/// The number of pages evicted per round.
const EVICT_BATCH: usize = 16;
/// The maximum number of eviction rounds per insertion.
const MAX_EVICT_ROUNDS: usize = 4;

const PAGE: &str = "p:";
const BODY: &str = "b:";
const REDIRECT: &str = "r:";

/// A stored page.
#[derive(Debug)]
pub(crate) struct CachedPage {
    pub(crate) head: Head,
    /// The body, if it was requested.
    pub(crate) body: Option<Vec<u8>>,
}

/// Looks up the page under a path, with its body if requested.
pub(crate) fn get(store: &dyn Store, path: &str, with_body: bool) -> Option<CachedPage> {
    if path.len() > MAX_PATH {
        return None;
    }
    let (page, body, redirect) = (key(PAGE, path), key(BODY, path), key(REDIRECT, path));
    let mut keys = vec![page.as_str(), redirect.as_str()];
    if with_body {
        keys.push(&body);
    }
    let mut values = or_log(store.get_many(&keys))?.into_iter();
    let (page, redirect, body) = (values.next().flatten(), values.next().flatten(), values.next().flatten());
    let page = page.and_then(|bytes| Head::parse(&bytes)).filter(|head| head.content.is_some());
    if let Some(head) = page {
        if !with_body {
            return Some(CachedPage { head, body: None });
        }
        let body = body.filter(|body| head.content.as_ref().is_some_and(|content| content.digest == digest(body)));
        if body.is_none() {
            // The page is removed here, because one that is no longer storable would remain.
            remove(store, path);
        }
        return body.map(|body| CachedPage { head, body: Some(body) });
    }
    let head = redirect.and_then(|bytes| Head::parse(&bytes)).filter(|head| head.location().is_some())?;
    Some(CachedPage { head, body: None })
}

/// Returns the heads of pages, in the order of the paths; `None` for redirects.
pub(crate) fn heads(store: &dyn Store, paths: &[&str]) -> Vec<Option<Head>> {
    let mut heads = Vec::with_capacity(paths.len());
    for paths in paths.chunks(BATCH) {
        let keys: Vec<String> = paths.iter().map(|path| key(PAGE, path)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let values = or_log(store.get_many(&keys)).unwrap_or_else(|| vec![None; keys.len()]);
        heads.extend(values.into_iter().map(|value| Head::parse(&value?)));
    }
    heads
}

/// Returns the paths of all pages, sorted.
pub(crate) fn paths(store: &dyn Store) -> Vec<String> {
    let keys = or_log(store.all_keys()).unwrap_or_default();
    keys.iter().filter_map(|key| key.strip_prefix(PAGE)).map(str::to_owned).collect()
}

/// Stores a page or a redirect under a path, and replaces the previous one. A page that does not fit is not stored.
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
    while let Err(error) = store.set_many(&values) {
        let is_worth_another =
            matches!(error, Failure::Unavailable(_)) && rounds.next().is_some() && evict(store, path);
        if !is_worth_another {
            return match error {
                Failure::Internal(_) => log::warn!("pages are not stored, every read sends requests: {error}"),
                error => log::warn!("{path} not stored: {error}"),
            };
        }
    }
}

/// Removes the page or redirect under a path.
pub(crate) fn remove(store: &dyn Store, path: &str) {
    if path.len() <= MAX_PATH {
        let keys = [key(PAGE, path), key(BODY, path), key(REDIRECT, path)];
        or_log(store.delete_many(&keys.each_ref().map(String::as_str)));
    }
}

/// Removes the redirect under a path that is now a page, or the page under a path that is now a redirect.
pub(crate) fn remove_other_kind(store: &dyn Store, path: &str, head: &Head) {
    if path.len() <= MAX_PATH {
        let keys =
            if head.content.is_some() { vec![key(REDIRECT, path)] } else { vec![key(PAGE, path), key(BODY, path)] };
        or_log(store.delete_many(&keys.iter().map(String::as_str).collect::<Vec<_>>()));
    }
}

/// Evicts a few pages, except the one to be inserted. Returns whether any page was evicted.
fn evict(store: &dyn Store, path: &str) -> bool {
    let keys = or_log(store.all_keys()).unwrap_or_default();
    let is_other = |key: &&String| key.split_at_checked(2).is_some_and(|(_, other)| other != path);
    // Bodies without a head come first: they are unreachable.
    let heads: Vec<&String> = keys.iter().filter(is_other).filter(|key| !key.starts_with(BODY)).collect();
    let is_orphan = |body: &str| keys.binary_search(&key(PAGE, body)).is_err();
    let bodies = keys.iter().filter(is_other).filter_map(|key| key.strip_prefix(BODY));
    let orphans: Vec<String> = bodies.filter(|body| is_orphan(body)).take(BATCH).map(|body| key(BODY, body)).collect();
    let leaving = if orphans.is_empty() { least_recently_validated(store, &sample(heads)) } else { orphans };
    let leaving: Vec<&str> = leaving.iter().map(String::as_str).collect();
    !leaving.is_empty() && or_log(store.delete_many(&leaving)).is_some()
}

/// Returns the keys of the least recently validated pages and redirects, damaged ones first.
fn least_recently_validated(store: &dyn Store, keys: &[&str]) -> Vec<String> {
    let values = or_log(store.get_many(keys)).unwrap_or_default();
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

/// Returns at most [`SAMPLE`] of the keys, at equal distances from a random start; all keys if there are no more.
fn sample(keys: Vec<&String>) -> Vec<&str> {
    let step = keys.len().div_ceil(SAMPLE).max(1);
    let random = usize::try_from(RandomState::new().hash_one(0) & 0xffff).unwrap_or_default();
    let start = random.checked_rem(step).unwrap_or_default();
    keys.into_iter().skip(start).step_by(step).map(String::as_str).collect()
}

fn key(prefix: &str, path: &str) -> String {
    [prefix, path].concat()
}

/// Returns the result of a store operation. An error is logged.
fn or_log<T>(answer: Result<T>) -> Option<T> {
    answer.inspect_err(|error| log::debug!("store operation failed: {error}")).ok()
}
