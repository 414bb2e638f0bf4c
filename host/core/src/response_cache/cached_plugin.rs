//! Plugins whose responses are [cached](super).

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{Fault, FilteredPage, Plugin};
use mcp_host_model::resource::{Footprint, Notice, Resource, ResourceBody, ResourceContents};
use mcp_host_model::uri::{Path, Uri};

use super::encoded::{
    EncodedContents, EncodedPage, EncodedResources, EncodedRun, EncodingForm, ListedResources, PageKey, ReadResponse,
    ViewId, yield_between_decisions,
};
use super::{CacheCounts, CacheKey, Lookup, Reservation, ResponseCache, expiry};

/// How many bytes of JSON a byte of text becomes at most.
const MAX_ESCAPE_FACTOR: usize = 6;

/// A plugin, and the cache of its responses. What is not cached is called on the plugin itself, to which it dereferences.
pub(crate) struct CachedPlugin {
    plugin: Arc<Plugin>,
    responses: ResponseCache,
}

impl Deref for CachedPlugin {
    type Target = Plugin;

    fn deref(&self) -> &Plugin {
        &self.plugin
    }
}

impl CachedPlugin {
    /// A plugin with a cache that has no capacity yet.
    pub(crate) fn new(plugin: Plugin) -> Self {
        Self { plugin: Arc::new(plugin), responses: ResponseCache::new() }
    }

    /// The plugin without its cache.
    pub(crate) fn uncached(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Reads a resource for a client, as [`read`](Plugin::read) does, from the cache if it is there. `is_visible` decides which
    /// contents are returned, and `encode` encodes an array of contents.
    pub(crate) async fn read_cached<E>(
        &self,
        path: &Path,
        form: EncodingForm,
        is_visible: impl Fn(&Uri) -> bool + Clone + Send + 'static,
        encode: impl FnOnce(Vec<ResourceContents>) -> E,
    ) -> Result<ReadResponse, Fault>
    where
        E: Future<Output = Bytes>,
    {
        let key = || CacheKey::Contents(path.as_str().into(), form);
        let filtered = async || {
            let is_visible = is_visible.clone();
            self.read(path, move |one| is_visible(&one.entry.uri)).await
        };
        let (contents, is_hit) = match self.responses.lookup::<EncodedContents>(key).await {
            Lookup::Hit(encoded) => (encoded, true),
            Lookup::Bypass => {
                let contents = filtered().await?;
                self.responses.record_ttl(contents_ttl(&contents));
                return Ok(ReadResponse::Contents(contents));
            }
            Lookup::Miss(reservation) => {
                let contents = match self.read(path, |_| true).await {
                    Ok(contents) => contents,
                    Err(fault) => {
                        reservation.bypass_after_fault();
                        return Err(fault);
                    }
                };
                // The index of a directory depends on the principal: the host makes it for each request.
                if contents.iter().any(|one| one.entry.is_directory()) {
                    reservation.bypass();
                    return Ok(ReadResponse::Contents(retain(contents, |one| is_visible(&one.entry.uri)).await));
                }
                let expires = expiry(contents_ttl(&contents));
                let expires = expires.filter(|_| self.responses.has_room(max_json_len(&contents)));
                let (Some(expires), Some(_encoding)) = (expires, self.responses.begin_encoding()) else {
                    give_up(reservation, expires.is_some());
                    let contents = retain(contents, |one| is_visible(&one.entry.uri)).await;
                    return Ok(ReadResponse::Contents(contents));
                };
                let uris = contents.iter().map(|one| one.entry.uri.clone()).collect();
                let next_parts = contents.iter().flat_map(|one| self.next_parts(one)).collect();
                let len = ResourceContents::total_len(&contents);
                let json = encode(contents).await;
                let encoded = Arc::new(EncodedContents { json, uris, next_parts, len, expires });
                reservation.fill(encoded.clone(), expires);
                (encoded, false)
            }
        };
        // What some may not read is not cut out of what is encoded.
        match all(&contents.uris, &is_visible).await && all(&contents.next_parts, &is_visible).await {
            true => Ok(ReadResponse::Encoded { contents, is_hit }),
            false => filtered().await.map(ReadResponse::Contents),
        }
    }

    /// The URIs of the next parts in the notices of a content, which not every principal may read.
    fn next_parts(&self, contents: &ResourceContents) -> impl Iterator<Item = Uri> + use<> {
        let mount = self.mount().clone();
        let next = Notice::all_in(&contents.entry.meta).into_iter().filter_map(|notice| notice.next);
        next.filter_map(move |uri| mount.composed_uri(&uri))
    }

    /// Returns one page of its default listing for a client, as [`list`](Plugin::list) does, from the cache if it is there, and with
    /// `limit` otherwise. `is_visible` decides which items `view` shows, and `encode` encodes resources.
    /// Returns whether it was in the cache, too.
    pub(crate) async fn list_cached<E>(
        &self,
        page: PageKey<'_>,
        limit: u32,
        view: ViewId,
        is_visible: impl Fn(&Uri) -> bool + Clone + Send + 'static,
        encode: impl FnOnce(Vec<Resource>) -> E,
    ) -> Result<(FilteredPage<ListedResources>, bool), Fault>
    where
        E: Future<Output = EncodedResources>,
    {
        let PageKey { cursor, size, form } = page;
        let key = || CacheKey::Page { cursor: cursor.map(Arc::from), size, form };
        let origin = CallOrigin::Client;
        let (page, is_hit) = match self.responses.lookup::<EncodedPage>(key).await {
            Lookup::Hit(page) => (page, true),
            Lookup::Bypass => {
                let keep = move |entry: Resource| is_visible(&entry.uri).then_some(ListedResources::One(entry));
                let page = self.list(origin, None, cursor, limit, keep).await?;
                let now = Instant::now();
                let ttl = page.items.iter().map(|(_, item)| item.ttl(now)).min();
                self.responses.record_ttl(ttl.unwrap_or_default());
                return Ok((page, false));
            }
            Lookup::Miss(reservation) => {
                let page = match self.list(origin, None, cursor, size, Some).await {
                    Ok(page) => page,
                    Err(fault) => {
                        reservation.bypass_after_fault();
                        return Err(fault);
                    }
                };
                let footprint = page.items.iter().map(|(_, entry)| entry.footprint()).fold(0, usize::saturating_add);
                let expires = expiry(Resource::min_ttl(page.items.iter().map(|(_, entry)| entry)));
                let max_json_len = footprint.saturating_mul(MAX_ESCAPE_FACTOR);
                let expires = expires.filter(|_| self.responses.has_room(max_json_len));
                let (Some(expires), Some(_encoding)) = (expires, self.responses.begin_encoding()) else {
                    give_up(reservation, expires.is_some());
                    let items = retain(page.items, |(_, entry)| is_visible(&entry.uri)).await.into_iter();
                    let items = items.map(|(index, entry)| (index, ListedResources::One(entry))).collect();
                    let page = FilteredPage { items, size: page.size, next_cursor: page.next_cursor };
                    return Ok((page, false));
                };
                let entries: Vec<Resource> = page.items.into_iter().map(|(_, entry)| entry).collect();
                // Each of its own: a principal is not told how long what it may not see holds.
                let ends: Vec<_> = entries.iter().map(|entry| expiry(entry.ttl.unwrap_or_default())).collect();
                let ends = ends.into_iter().map(|end| end.unwrap_or(expires));
                let page = Arc::new(EncodedPage::new(encode(entries).await, ends.collect(), page.next_cursor));
                reservation.fill(page.clone(), expires);
                (page, false)
            }
        };
        let runs = page.visible_runs(view, is_visible).await;
        let run = |range: &Range<usize>| {
            (range.start, ListedResources::Encoded(EncodedRun::new(page.clone(), range.clone())))
        };
        let items = runs.iter().map(run).collect();
        Ok((FilteredPage { items, size: page.len(), next_cursor: page.next_cursor().cloned() }, is_hit))
    }

    /// How often its responses were cached, since it was loaded.
    pub(crate) fn response_cache_counts(&self) -> CacheCounts {
        self.responses.counts()
    }

    /// The bytes of its cached responses, and how many they may be.
    pub(crate) fn response_cache_usage(&self) -> (u64, u64) {
        self.responses.usage()
    }

    /// Drops all cached responses. Called before a change is notified.
    pub(crate) fn clear_cached_responses(&self) {
        self.responses.clear();
    }

    /// Sets how many bytes of responses may be cached: none if the config of the plugin says so.
    pub(crate) fn set_response_cache_capacity(&self, bytes: u64) {
        self.responses.set_capacity(if self.caches_responses() { bytes } else { 0 });
    }
}

/// Lets the requests that wait make calls of their own, and others too for a while, unless the response may be cached next time.
fn give_up(reservation: Reservation<'_>, is_cacheable: bool) {
    match is_cacheable {
        true => drop(reservation),
        false => reservation.bypass(),
    }
}

fn contents_ttl(contents: &[ResourceContents]) -> Duration {
    Resource::min_ttl(contents.iter().map(|one| &one.entry))
}

/// An upper bound of the length of contents as JSON.
fn max_json_len(contents: &[ResourceContents]) -> usize {
    let is_escaped = |byte: &&u8| **byte < 0x20 || matches!(byte, b'"' | b'\\');
    let body = |body: &ResourceBody| match body {
        ResourceBody::Text(text) => {
            let escaped = text.as_bytes().iter().filter(is_escaped).count();
            text.len().saturating_add(escaped.saturating_mul(MAX_ESCAPE_FACTOR.saturating_sub(1)))
        }
        ResourceBody::Blob(bytes) => bytes.len().div_ceil(3).saturating_mul(4),
    };
    let one = |one: &ResourceContents| {
        one.entry.footprint().saturating_mul(MAX_ESCAPE_FACTOR).saturating_add(body(&one.body))
    };
    contents.iter().map(one).fold(0, usize::saturating_add)
}

/// Returns the items for which the function returns true. It yields in between, as a provider decides how many there are.
async fn retain<T>(items: impl IntoIterator<Item = T>, is_visible: impl Fn(&T) -> bool) -> Vec<T> {
    let mut kept = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        yield_between_decisions(index).await;
        if is_visible(&item) {
            kept.push(item);
        }
    }
    kept
}

/// Returns whether all of them are visible; the first, which is nearly always the only one, is decided at once.
async fn all(uris: &[Uri], is_visible: impl Fn(&Uri) -> bool) -> bool {
    for (index, uri) in uris.iter().enumerate() {
        yield_between_decisions(index).await;
        if !is_visible(uri) {
            return false;
        }
    }
    true
}
