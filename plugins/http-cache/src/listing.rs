//! What is listed: pages that are kept, seeds, and the pages of sitemaps, in order of path.
//!
//! Listing asks no origin but for sitemaps. What is kept of a page fills its entry; of others, only the place is known.

use crate::HttpCache;
use crate::address::Address;
use crate::cache::head::Head;
use crate::cache::shelf;
use crate::present;
use crate::sitemap;
use mcp_provider::{Entry, Page, Result, keyset};
use std::collections::BTreeSet;

/// One page of the listing.
pub(crate) fn list(provider: &HttpCache, cursor: Option<&str>, limit: usize) -> Result<Page> {
    let HttpCache { cache, settings } = provider;
    let mut paths = listed_without_sitemaps(provider);
    paths.extend(sitemap::pages(cache, &settings.sitemaps, &settings.plain, cache.deadline()));
    let page = keyset::page(paths, cursor, limit, String::as_str)?;
    let on_page: Vec<&str> = page.items.iter().map(String::as_str).collect();
    let heads = shelf::heads(cache.store(), &on_page);
    let entries = on_page.iter().zip(heads).filter_map(|(path, head)| entry(provider, path, head)).collect();
    Ok(Page { entries, next_cursor: page.next_cursor })
}

/// The paths of the listing that are known without asking anybody.
pub(crate) fn listed_without_sitemaps(provider: &HttpCache) -> BTreeSet<String> {
    let kept = shelf::paths(provider.cache.store());
    kept.into_iter().chain(provider.settings.seeds.iter().map(Address::path)).collect()
}

fn entry(provider: &HttpCache, path: &str, head: Option<Head>) -> Option<Entry> {
    let HttpCache { cache, settings } = provider;
    // What an earlier config kept may be no address today.
    let address = Address::parse(path, &settings.plain).ok()?;
    let head = head.or_else(|| if settings.seeds.contains(&address) { cache.kept(&address) } else { None });
    let known = head.and_then(|head| {
        let ttl = head.response.ttl(cache.now());
        Some(present::known(path, &address, head.content.as_ref()?, &head.response, ttl, settings))
    });
    Some(known.unwrap_or_else(|| present::unknown(&address)))
}
