//! The listing: stored pages, seeds, and the pages of sitemaps, sorted by path.
//!
//! Only sitemaps cause requests, once for each walk from the first page to the last ([`snapshot`]). A stored page has
//! complete metadata; of any other page, only the address is known. A page that is stored or in a sitemap is listed
//! while its origin is granted; a seed of another origin is listed with its address only. A sitemap that could not be
//! read at the start of a walk is listed itself, and `http-cache/missing` in its `_meta` states what is missing. If a
//! sitemap is lost during a walk (which requires a store that stores no snapshot), the page fails as unavailable, so a
//! completed walk is complete.

use crate::HttpCache;
use crate::address::{Address, PlainHosts};
use crate::cache::head::Head;
use crate::cache::{Cache, entries};
use crate::resource_entry;
use crate::sitemap::{self, MissingSitemap, SitemapPages};
use crate::snapshot::{self, WalkCursor};
use mcp_provider::{Entry, Failure, Page, Result, Retry, keyset};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Returns one page of the listing.
pub(crate) fn list(provider: &HttpCache, cursor: Option<&str>, limit: usize) -> Result<Page> {
    let HttpCache { cache, settings } = provider;
    let (walk, position) = match cursor.map(WalkCursor::parse).transpose()? {
        Some((walk, position)) => (Some(walk), Some(position)),
        None => (None, None),
    };
    let others = stored_and_seed_paths(provider);
    let stored = walk.as_ref().and_then(|walk| walk.load(cache.store(), cache.now()));
    let is_stored = stored.is_some();
    let found = match stored {
        Some(found) => found,
        None => sitemap::collect(cache, &settings.sitemaps, &settings.plain, cache.deadline()),
    };
    if let Some(lost) = walk.as_ref().and_then(|walk| walk.newly_missing(&found)) {
        return Err(unavailable(lost));
    }
    let mut granted = GrantedOrigins::new(provider);
    let mut paths: Vec<&str> = found.pages.lines().filter(|path| granted.contains(path)).collect();
    paths.extend(others.iter().map(String::as_str));
    paths.extend(found.missing.iter().map(|missing| missing.path.as_str()));
    paths.sort();
    paths.dedup();
    let page = keyset::page(paths, position, limit, |path| path)?;
    let heads = entries::heads(cache.store(), &page.items);
    let entries = page.items.iter().zip(heads).filter_map(|(path, head)| {
        let entry = entry(provider, path, head)?;
        let missing = found.missing.iter().find(|missing| missing.path == *path);
        Some(match missing {
            Some(missing) => resource_entry::with_missing_reason(entry, &missing.reason),
            None => entry,
        })
    });
    let entries = entries.collect();
    let next_cursor = page.next_cursor.map(|position| {
        let walk = walk.filter(|_| is_stored).unwrap_or_else(|| start_walk(provider, &found));
        format!("{walk}:{position}")
    });
    Ok(Page { entries, next_cursor })
}

/// Starts a walk. Called when the first page has a next one, or when the snapshot was lost.
fn start_walk(provider: &HttpCache, found: &SitemapPages) -> WalkCursor {
    let HttpCache { cache, settings } = provider;
    let has_sitemaps = !settings.sitemaps.is_empty();
    let stored =
        Some(found).filter(|_| has_sitemaps).and_then(|found| snapshot::save(cache.store(), found, cache.now()));
    WalkCursor::new(stored, found)
}

fn unavailable(lost: &MissingSitemap) -> Failure {
    let reason = format!("the listing cannot continue, start again: sitemap {}: {}", lost.path, lost.reason);
    let retry = Retry::new(reason);
    lost.after.map_or(retry.clone(), |after| retry.after(Duration::from_secs(after))).into()
}

/// Returns the paths of the listing that are known without requests.
pub(crate) fn stored_and_seed_paths(provider: &HttpCache) -> BTreeSet<String> {
    let mut granted = GrantedOrigins::new(provider);
    let mut stored = entries::paths(provider.cache.store());
    stored.retain(|path| granted.contains(path));
    stored.into_iter().chain(provider.settings.seeds.iter().map(Address::path)).collect()
}

fn entry(provider: &HttpCache, path: &str, head: Option<Head>) -> Option<Entry> {
    let HttpCache { cache, settings } = provider;
    // A path stored under an earlier config or version may no longer be a canonical address.
    let address = Address::from_resource_path(path, &settings.plain).ok()?;
    let head = head.filter(|_| cache.is_granted(&address));
    let head = head.or_else(|| if settings.seeds.contains(&address) { cache.cached_head(&address) } else { None });
    let known = head.and_then(|head| {
        let ttl = head.response.ttl(cache.now());
        Some(resource_entry::cached_entry(path, &address, head.content.as_ref()?, &head.response, ttl, settings))
    });
    Some(known.unwrap_or_else(|| resource_entry::uncached_entry(&address)))
}

/// A cache of which origins of listed pages are granted, because thousands of pages have the same origin.
struct GrantedOrigins<'a> {
    cache: &'a Cache,
    plain: &'a PlainHosts,
    known: BTreeMap<String, bool>,
}

impl<'a> GrantedOrigins<'a> {
    fn new(provider: &'a HttpCache) -> Self {
        Self { cache: &provider.cache, plain: &provider.settings.plain, known: BTreeMap::new() }
    }

    /// Returns whether the origin of a page is granted. A path that is not an address has no origin.
    fn contains(&mut self, path: &str) -> bool {
        let host = path.split(['/', '?']).next().unwrap_or(path);
        if let Some(is_granted) = self.known.get(host) {
            return *is_granted;
        }
        let is_granted = Address::parse(host, self.plain).is_ok_and(|address| self.cache.is_granted(&address));
        self.known.insert(host.to_owned(), is_granted);
        is_granted
    }
}
