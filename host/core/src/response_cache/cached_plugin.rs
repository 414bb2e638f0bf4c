//! Plugins whose responses are [cached](super).

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{Fault, FilteredPage, Plugin};
use mcp_host_model::resource::{Footprint, Notice, Resource, ResourceBody, ResourceContents};
use mcp_host_model::uri::{Mount, Path, Uri};

use super::encoded::{
    EncodedContents, EncodedPage, EncodedResources, EncodingForm, ListedResources, PageKey, ReadResponse, Validity,
    ViewId, yield_between_decisions,
};
use crate::skills::SkillState;

use super::epochs::DroppedFor;
use super::{CacheCounts, CacheKey, CacheUsage, Lookup, Reservation, ResponseCache, expiry};

/// The maximum number of bytes of JSON for one byte of text.
const MAX_ESCAPE_FACTOR: usize = 6;

/// A plugin and the cache of its responses. It dereferences to the plugin, for calls that are not cached.
pub(crate) struct CachedPlugin {
    plugin: Arc<Plugin>,
    responses: ResponseCache,
    /// The state of its skills, if it has some.
    skills: OnceLock<SkillState>,
}

impl Deref for CachedPlugin {
    type Target = Plugin;

    fn deref(&self) -> &Plugin {
        &self.plugin
    }
}

impl CachedPlugin {
    /// Creates a plugin with a cache that has no capacity yet.
    pub(crate) fn new(plugin: Plugin) -> Self {
        Self { plugin: Arc::new(plugin), responses: ResponseCache::new(), skills: OnceLock::new() }
    }

    /// The plugin without its cache.
    pub(crate) fn uncached(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Returns the state of its skills.
    pub(crate) fn skill_state(&self) -> &SkillState {
        self.skills.get_or_init(SkillState::default)
    }

    /// Reads a resource for a client, as [`read`](Plugin::read) does, from the cache if possible. `is_visible` decides
    /// which contents, and which next parts in their notices, `view` shows. `encode` encodes an array of contents.
    pub(crate) async fn read_cached<E>(
        &self,
        path: &Path,
        form: EncodingForm,
        view: ViewId,
        is_visible: impl Fn(&Uri) -> bool + Clone + Send + 'static,
        encode: impl FnOnce(Vec<ResourceContents>) -> E,
    ) -> Result<ReadResponse, Fault>
    where
        E: Future<Output = Bytes>,
    {
        let key = |view| CacheKey::Contents { path: path.as_str().into(), form, view };
        let read_visible = async || {
            let filter = is_visible.clone();
            let mut contents = self.read(path, move |one| filter(&one.entry.uri)).await?;
            hide_next_parts(self.mount(), &mut contents, &is_visible);
            Ok(contents)
        };
        match self.responses.lookup::<EncodedContents>(|| key(None)).await {
            Lookup::Hit(contents) => {
                if all(&contents.uris, &is_visible).await && all(&contents.next_parts, &is_visible).await {
                    return Ok(ReadResponse::Encoded { contents, is_hit: true });
                }
            }
            Lookup::ByView => {}
            Lookup::Bypass => {
                let contents = read_visible().await?;
                self.responses.record_ttl(contents_ttl(&contents));
                return Ok(ReadResponse::Contents(contents));
            }
            Lookup::Miss(reservation) => {
                let mut contents = match self.read(path, |_| true).await {
                    Ok(contents) => contents,
                    Err(fault) => {
                        reservation.bypass_after_fault();
                        return Err(fault);
                    }
                };
                let uris: Vec<_> = contents.iter().map(|one| one.entry.uri.clone()).collect();
                let next_parts: Vec<_> = contents.iter().flat_map(|one| self.next_parts(one)).collect();
                if self.is_only(path, &contents) && all(&uris, &is_visible).await && all(&next_parts, &is_visible).await
                {
                    return Ok(self.encode_for_cache(reservation, contents, encode).await);
                }
                let ttls = contents.iter().filter_map(|one| one.entry.ttl);
                reservation.cache_by_view(ttls.max().unwrap_or_default());
                contents = retain(contents, |one| is_visible(&one.entry.uri)).await;
                hide_next_parts(self.mount(), &mut contents, &is_visible);
                return Ok(match self.responses.lookup::<EncodedContents>(|| key(Some(view))).await {
                    Lookup::Miss(reservation) => self.encode_for_cache(reservation, contents, encode).await,
                    // Only contents that this view does not show have changed.
                    Lookup::Hit(contents) => ReadResponse::Encoded { contents, is_hit: true },
                    Lookup::Bypass | Lookup::ByView => ReadResponse::Contents(contents),
                });
            }
        }
        match self.responses.lookup::<EncodedContents>(|| key(Some(view))).await {
            Lookup::Hit(contents) => Ok(ReadResponse::Encoded { contents, is_hit: true }),
            Lookup::Bypass | Lookup::ByView => read_visible().await.map(ReadResponse::Contents),
            Lookup::Miss(reservation) => match read_visible().await {
                Ok(contents) => Ok(self.encode_for_cache(reservation, contents, encode).await),
                Err(fault) => {
                    reservation.bypass_after_fault();
                    Err(fault)
                }
            },
        }
    }

    /// Returns whether all contents belong to the requested resource. If not, each view has its own response, even if
    /// it shows all contents: the set of other contents may change while the visible part does not.
    fn is_only(&self, path: &Path, contents: &[ResourceContents]) -> bool {
        let requested = self.mount().compose(path.as_str()).ok().map(|located| located.uri);
        contents.iter().all(|one| !one.entry.listable && Some(&one.entry.uri) == requested.as_ref())
    }

    /// Encodes contents and caches them, unless one of them has no time to live, or they do not fit.
    async fn encode_for_cache<E: Future<Output = Bytes>>(
        &self,
        reservation: Reservation<'_>,
        contents: Vec<ResourceContents>,
        encode: impl FnOnce(Vec<ResourceContents>) -> E,
    ) -> ReadResponse {
        // The index of a directory depends on the principal, so the host makes it for each request.
        if contents.iter().any(|one| one.entry.is_directory()) {
            reservation.bypass();
            return ReadResponse::Contents(contents);
        }
        let expires = expiry(contents_ttl(&contents));
        let expires = expires.filter(|_| self.responses.has_room(max_json_len(&contents)));
        let (Some(expires), Some(_encoding)) = (expires, self.responses.begin_encoding()) else {
            give_up(reservation, expires.is_some());
            return ReadResponse::Contents(contents);
        };
        let uris = contents.iter().map(|one| one.entry.uri.clone()).collect();
        let next_parts = contents.iter().flat_map(|one| self.next_parts(one)).collect();
        let len = ResourceContents::total_len(&contents);
        let json = encode(contents).await;
        let encoded = Arc::new(EncodedContents { json, uris, next_parts, len, expires });
        reservation.fill(encoded.clone(), expires);
        ReadResponse::Encoded { contents: encoded, is_hit: false }
    }

    /// Returns the URIs of the next parts in the notices of a content. Some principals may not read them.
    fn next_parts(&self, contents: &ResourceContents) -> impl Iterator<Item = Uri> + use<> {
        let mount = self.mount().clone();
        let next = Notice::all_in(&contents.entry.meta).into_iter().filter_map(|notice| notice.next);
        next.filter_map(move |uri| mount.composed_uri(&uri))
    }

    /// Returns one page of the default listing for a client, as [`list`](Plugin::list) does, from the cache if
    /// possible, else from a call with `limit`; and whether it was cached. `is_visible` decides which items `view`
    /// shows. `encode` encodes resources.
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
        let key = || CacheKey::Page { cursor: cursor.map(Arc::from), size, form, view: view.part() };
        let origin = CallOrigin::Client;
        let mut found = self.responses.lookup::<EncodedPage>(key).await;
        if let Lookup::Hit(page) = &found {
            let runs = page.visible_runs(view, is_visible.clone()).await;
            match page.validity(&runs, Instant::now()) {
                Validity::Holds => return Ok((page.visible(&runs), true)),
                Validity::NeverHolds => found = Lookup::Bypass,
                Validity::Expired => {
                    self.responses.remove(&key());
                    found = self.responses.lookup(key).await;
                }
            }
        }
        match found {
            // Another request has just fetched it.
            Lookup::Hit(page) => {
                let runs = page.visible_runs(view, is_visible).await;
                Ok((page.visible(&runs), true))
            }
            Lookup::Bypass | Lookup::ByView => {
                let keep = move |entry: Resource| is_visible(&entry.uri).then_some(ListedResources::One(entry));
                let page = self.list(origin, None, cursor, limit, keep).await?;
                let now = Instant::now();
                let ttl = page.items.iter().map(|item| item.ttl(now)).min();
                self.responses.record_ttl(ttl.unwrap_or_default());
                Ok((page, false))
            }
            Lookup::Miss(reservation) => {
                let page = match self.list(origin, None, cursor, size, Some).await {
                    Ok(page) => page,
                    Err(fault) => {
                        reservation.bypass_after_fault();
                        return Err(fault);
                    }
                };
                let footprint = page.items.iter().map(|entry| entry.footprint()).fold(0, usize::saturating_add);
                let ends: Vec<_> = page.items.iter().map(|entry| entry.ttl.and_then(expiry)).collect();
                let max_json_len = footprint.saturating_mul(MAX_ESCAPE_FACTOR);
                // Cached while any view may show it.
                let expires = ends.iter().max().copied().flatten();
                let expires = expires.filter(|_| self.responses.has_room(max_json_len));
                let (Some(expires), Some(_encoding)) = (expires, self.responses.begin_encoding()) else {
                    give_up(reservation, expires.is_some());
                    let items = retain(page.items, |entry| is_visible(&entry.uri)).await.into_iter();
                    let items = items.map(ListedResources::One).collect();
                    let page = FilteredPage { items, size: page.size, next_cursor: page.next_cursor };
                    return Ok((page, false));
                };
                let page = Arc::new(EncodedPage::new(encode(page.items).await, ends, page.next_cursor));
                reservation.fill(page.clone(), expires);
                let runs = page.visible_runs(view, is_visible).await;
                Ok((page.visible(&runs), false))
            }
        }
    }

    /// The hits and misses of its responses, since it was loaded.
    pub(crate) fn response_cache_counts(&self) -> CacheCounts {
        self.responses.counts()
    }

    /// The memory use of its cached responses.
    pub(crate) fn response_cache_usage(&self) -> CacheUsage {
        self.responses.usage()
    }

    /// Drops all cached responses.
    pub(crate) fn clear_cached_responses(&self) {
        self.responses.clear();
    }

    /// Drops the cached responses to a resource, with any query, for `whom`. Called before they are notified of a
    /// change.
    pub(crate) fn drop_cached(&self, path: &Path, whom: DroppedFor) {
        self.responses.drop_responses(|epochs| epochs.drop_resource(path.as_str(), whom));
    }

    /// Drops the cached pages of the listing, for `whom`. Called before they are notified of a change.
    pub(crate) fn drop_cached_pages(&self, whom: DroppedFor) {
        self.responses.drop_responses(|epochs| epochs.drop_pages(whom));
    }

    /// Sets the capacity of the cache in bytes: 0 if the plugin's config disables caching.
    pub(crate) fn set_response_cache_capacity(&self, bytes: u64) {
        self.responses.set_capacity(if self.caches_responses() { bytes } else { 0 });
    }
}

/// Lets waiting requests make their own calls, and later requests for a while, unless the response may be cacheable the
/// next time.
fn give_up(reservation: Reservation<'_>, is_cacheable: bool) {
    match is_cacheable {
        true => drop(reservation),
        false => reservation.bypass(),
    }
}

fn contents_ttl(contents: &[ResourceContents]) -> Duration {
    Resource::min_ttl(contents.iter().map(|one| &one.entry))
}

/// Removes the URIs of invisible next parts from the [notices](Notice) of contents: a resource that does not exist for
/// a principal is not named.
pub(crate) fn hide_next_parts(mount: &Mount, contents: &mut [ResourceContents], is_visible: impl Fn(&Uri) -> bool) {
    contents.iter_mut().for_each(|one| hide_next_parts_of(mount, &mut one.entry, &is_visible));
}

/// Does the same for one resource.
pub(crate) fn hide_next_parts_of(mount: &Mount, entry: &mut Resource, is_visible: impl Fn(&Uri) -> bool) {
    Notice::replace_in(&mut entry.meta, |mut notice| {
        let is_visible = |uri: &String| mount.composed_uri(uri).is_some_and(|uri| is_visible(&uri));
        notice.next = notice.next.filter(is_visible);
        notice
    });
}

/// Returns an upper bound of the length of contents as JSON.
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

/// Returns the items for which the function returns true. Yields in between, because a provider decides how many items
/// there are.
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

/// Returns whether all URIs are visible. The first, which is nearly always the only one, is decided without yielding.
async fn all(uris: &[Uri], is_visible: impl Fn(&Uri) -> bool) -> bool {
    for (index, uri) in uris.iter().enumerate() {
        yield_between_decisions(index).await;
        if !is_visible(uri) {
            return false;
        }
    }
    true
}
