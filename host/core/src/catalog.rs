//! The catalog: the merged listing of all plugins, as one principal sees it.
//!
//! Plugins are ordered by name, and each plugin's items in its own order, so the listing is the same on every host and
//! after every restart. Pagination is stateless: the host fills a page by walking the plugins from the cursor's
//! position, and puts the new position into the next cursor. The host stores nothing between pages, and the last page
//! costs the same as the first.
//!
//! A plugin that fails is skipped, and the page on which its items would have been listed reports it as missing.
//!
//! # Hidden items
//!
//! A plugin of which the principal may see nothing is not part of its listing: the plugin is not called, and no page
//! and no cursor depends on it. Other plugins' hidden items are filtered during the call. Filtering does not shorten
//! pages, and a page has a cursor only if there is more to list: where items may be hidden, the host looks for the next
//! visible item before it makes the cursor, which costs one more call. To keep a listing with many hidden items cheap,
//! a page makes at most [`MAX_CALLS`] calls, each for at least [`FILTERED_PAGE`] items. Such a page may be short or
//! empty, with a cursor to continue. So a principal can notice hidden items only where more than about [`MAX_CALLS`]
//! pages in a row are hidden.
//!
//! # Bounds
//!
//! Every walk ends. The cursor counts a plugin's listed items, so a provider with an endless sequence of cursors cannot
//! make the plugins after it unreachable. The rest of a plugin is skipped, and reported as missing, after
//! `limits.listing-items` visible items, [`MAX_HIDDEN`] times as many hidden items, or [`MAX_EMPTY_PAGES`] consecutive
//! empty pages. A listing below these bounds is returned completely, however small its pages are.

mod cursor;
mod fingerprint;
mod key;
mod prefetch;
mod slot;
mod source;

use std::collections::VecDeque;

use mcp_host_engine::plugin::Fault;
use mcp_host_model::resource::{Error, Footprint, Listing, MissingPlugin};

use crate::access::Principal;

use self::cursor::{Binding, CursorCipher, CursorPayload, WalkProgress};
use self::prefetch::Prefetcher;

pub(crate) use self::fingerprint::{
    ListingFingerprint, directory_fingerprints, fingerprints, may_see_listing, may_see_whole_listing,
};
pub use self::slot::Disabled;
pub(crate) use self::slot::{NotLoaded, PluginSlot};
pub(crate) use self::source::{
    CachedEntries, Entries, ListingItem, ListingKind, ListingSource, PageItem, PageSource, Templates, Viewer,
};

pub use self::key::{CursorKey, KeyError};

#[cfg(any(test, feature = "fuzzing"))]
pub use self::cursor::fuzzing;

/// The maximum number of provider calls for one page.
const MAX_CALLS: usize = 64;
/// The maximum number of consecutive empty pages of one plugin.
const MAX_EMPTY_PAGES: usize = 1000;
/// The minimum page size in requests to a provider if some of its items may be hidden.
const FILTERED_PAGE: usize = 1000;
/// The number of hidden items after which a plugin's listing ends, ÷ `limits.listing-items`.
const MAX_HIDDEN: usize = 16;

/// The parameters of a requested page.
#[derive(Clone, Copy)]
pub(crate) struct PageRequest<'a> {
    pub(crate) viewer: &'a Viewer,
    /// The URI below which to list; empty for the whole catalog.
    pub(crate) scope: &'a str,
    pub(crate) cursor: Option<&'a str>,
    /// The maximum number of items on the page, at least 1.
    pub(crate) size: usize,
    /// The approximate maximum size of the page's items in bytes. One item is always returned, whatever its size.
    pub(crate) max_bytes: usize,
}

/// A position in a listing: the plugin, the plugin's page, and the number of items to skip from there on. Only visible
/// items count, so that changes of hidden items make the principal see no item twice and miss none.
#[derive(Default)]
struct PagePosition {
    plugin: usize,
    cursor: Option<String>,
    skip: usize,
    progress: WalkProgress,
}

/// Creates pages of merged listings.
pub(crate) struct Catalog {
    cipher: CursorCipher,
}

impl Catalog {
    /// Creates a catalog whose cursors are sealed with `key`.
    pub(crate) fn new(key: &CursorKey) -> Self {
        Self { cipher: CursorCipher::new(key.bytes()).opening(key.earlier()) }
    }

    /// Returns a cursor for the list of skills: after a directory of a plugin, or before all of the plugin's skills.
    pub(crate) fn seal_skill(&self, principal: &Principal, plugin: &str, after: Option<&str>) -> Result<String, Error> {
        let cursor = after.map(str::to_owned);
        let (skip, progress) = Default::default();
        let payload = CursorPayload { plugin: plugin.to_owned(), cursor, skip, progress };
        self.cipher.seal(&payload, Binding { kind: ListingKind::Skills, scope: "", principal })
    }

    /// Returns the plugin and the directory of a cursor that [`seal_skill`](Self::seal_skill) made for this principal.
    pub(crate) fn open_skill(&self, principal: &Principal, cursor: &str) -> Result<(String, Option<String>), Error> {
        let binding = Binding { kind: ListingKind::Skills, scope: "", principal };
        self.cipher.open(cursor, binding).map(|payload| (payload.plugin, payload.cursor))
    }

    /// Returns one page of `source`'s items from the plugins in `slots`, which are ordered by name.
    pub(crate) async fn page<S: PageSource>(
        &self,
        source: &S,
        slots: &[PluginSlot],
        request: PageRequest<'_>,
    ) -> Result<Listing<S::Item>, Error> {
        let (operation, policy) = (S::KIND.operation(), &request.viewer.policy);
        let is_visible = |slot: &&PluginSlot| policy.may_allow_below(operation, &slot.mount);
        let slots: Vec<&PluginSlot> = slots.iter().filter(is_visible).collect();
        let binding = Binding { kind: S::KIND, scope: request.scope, principal: &request.viewer.principal };
        let start = request.cursor.map(|cursor| self.cipher.open(cursor, binding)).transpose()?;
        let mut is_client_cursor = start.is_some();
        let mut position = start.map(|payload| resume_at(payload, &slots)).unwrap_or_default();
        let mut prefetcher = Prefetcher::new(source, request.viewer, &slots);
        let mut listing = Listing { items: Vec::new(), next_cursor: None, missing: Vec::new() };
        let (mut listed, mut bytes): (usize, usize) = (0, 0);
        let mut is_full = false;
        for _ in 0..MAX_CALLS {
            let remaining = request.size.saturating_sub(listed);
            let Some(slot) = slots.get(position.plugin).copied().filter(|_| !is_full) else { break };
            let may_hide = !policy.allows_all_below(operation, &slot.mount);
            if remaining == 0 && !may_hide {
                break;
            }
            // Where items may be hidden, the provider's page size does not depend on the client's: a client with small
            // pages could count hidden items by short pages.
            let limit = if may_hide { request.size.max(FILTERED_PAGE) } else { remaining.max(1) };
            let page = prefetcher.page(&position, limit).await;
            let was_client_cursor = std::mem::take(&mut is_client_cursor);
            let next_plugin = PagePosition { plugin: position.plugin.saturating_add(1), ..PagePosition::default() };
            position = match page {
                Ok(page) => {
                    // Each item is numbered with the visible items before it.
                    let mut visible: usize = 0;
                    let numbered = page.items.into_iter().map(|item| {
                        let before = visible;
                        visible = visible.saturating_add(item.count());
                        (before, item)
                    });
                    let mut items: VecDeque<_> = numbered.collect();
                    listing.items.reserve(items.len().min(remaining));
                    let mut next_index = position.skip;
                    while let Some((index, mut item)) = items.pop_front() {
                        let before_position = position.skip.saturating_sub(index);
                        if before_position > 0 {
                            if let Some(rest) = item.split_off(before_position) {
                                items.push_front((position.skip, rest));
                            }
                            continue;
                        }
                        let room = request.size.saturating_sub(listed).min(item.count());
                        let fitting = item.count_within(request.max_bytes.saturating_sub(bytes));
                        is_full = fitting < room || room == 0;
                        let count = fitting.max(usize::from(listed == 0)).min(room);
                        if count == 0 {
                            next_index = index;
                            items.push_front((index, item));
                            break;
                        }
                        next_index = index.saturating_add(count);
                        if let Some(rest) = item.split_off(count) {
                            items.push_front((next_index, rest));
                        }
                        if let Some(title) = slot.title.as_ref().filter(|_| request.scope.is_empty()) {
                            item.prefix_title(title);
                        }
                        bytes = bytes.saturating_add(item.footprint());
                        listed = listed.saturating_add(count);
                        listing.items.push(item);
                        if is_full {
                            break;
                        }
                    }
                    let progress = position.progress.advance(page.size, visible);
                    if !items.is_empty() {
                        PagePosition { skip: next_index, ..position }
                    } else if page.next_cursor.is_none() {
                        next_plugin
                    } else if let Some(fault) = check_listing_bounds(slot, progress) {
                        listing.missing.push(missing_plugin(slot, Some(fault)));
                        next_plugin
                    } else {
                        // If hidden items were added meanwhile, visible items have moved to the next page.
                        let skip = if may_hide { position.skip.saturating_sub(visible) } else { 0 };
                        PagePosition { plugin: position.plugin, cursor: page.next_cursor, skip, progress }
                    }
                }
                // It is not known whether there is more. The next page reports this plugin as missing.
                Err(_) if remaining == 0 => break,
                // The provider rejects its own cursor, so the client's cursor is invalid as well.
                Err(Some(Fault::InvalidRequest(_))) if was_client_cursor => return Err(Error::InvalidCursor),
                // A listing below one resource has only one plugin, so the result is this plugin's fault.
                Err(fault) if !request.scope.is_empty() => return Err(client_error(slot, fault, request.scope)),
                Err(fault) => {
                    listing.missing.push(missing_plugin(slot, fault));
                    next_plugin
                }
            };
        }
        if let Some(slot) = slots.get(position.plugin) {
            let PagePosition { cursor, skip, progress, .. } = position;
            let payload = CursorPayload { plugin: slot.name.clone(), cursor, skip, progress };
            listing.next_cursor = Some(self.cipher.seal(&payload, binding)?);
        }
        Ok(listing)
    }
}

/// Returns the position in a cursor. If its plugin has been removed, the position is the next plugin.
fn resume_at(payload: CursorPayload, slots: &[&PluginSlot]) -> PagePosition {
    let plugin = slots.partition_point(|slot| slot.name < payload.plugin);
    if slots.get(plugin).is_some_and(|slot| slot.name == payload.plugin) {
        PagePosition { plugin, cursor: payload.cursor, skip: payload.skip, progress: payload.progress }
    } else {
        PagePosition { plugin, ..PagePosition::default() }
    }
}

/// Returns the fault that ends a plugin's listing if it exceeds its bounds.
fn check_listing_bounds(slot: &PluginSlot, progress: WalkProgress) -> Option<Fault> {
    let plugin = slot.plugin.as_ref().ok()?;
    let max_items = plugin.max_listing_items();
    let has_too_many_hidden = progress.hidden >= max_items.saturating_mul(MAX_HIDDEN);
    let fault = if progress.visible >= max_items || has_too_many_hidden {
        Fault::ListingItems(max_items)
    } else if progress.empty_pages >= MAX_EMPTY_PAGES {
        Fault::EmptyPages(MAX_EMPTY_PAGES)
    } else {
        return None;
    };
    plugin.record_fault("list-entries", &fault);
    Some(fault)
}

/// Returns the error for a client if a plugin failed or is not loaded.
fn client_error(slot: &PluginSlot, fault: Option<Fault>, uri: &str) -> Error {
    fault.map_or_else(|| slot.unavailable_error(), |fault| fault.into_client_error(&slot.name, uri))
}

fn missing_plugin(slot: &PluginSlot, fault: Option<Fault>) -> MissingPlugin {
    let (reason, retry_after) = match client_error(slot, fault, "") {
        Error::Unavailable { reason, retry_after, .. } => (reason, retry_after),
        _ => ("it failed; the server's log says why".to_owned(), None),
    };
    MissingPlugin { plugin: slot.name.clone(), reason, retry_after }
}
