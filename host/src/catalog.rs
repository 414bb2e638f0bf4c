//! The catalog: one merged listing of what all plugins offer, as one principal sees it.
//!
//! Plugins stand in the order of their names, and each one's items in its own order, so the listing is the same for every
//! host and after every restart. A page is filled by walking the plugins from where the cursor says, and the next cursor
//! says where to go on: no state is kept between pages, and a page at the end costs what one at the start does.
//!
//! A plugin that fails is passed over, and the page on which its items would have stood says so. What the principal may not
//! see is left out, as a part of the call to the plugin; so that a listing of much that is hidden stays cheap, a page makes at most [`MAX_CALLS`] calls and may
//! then be short, or empty, with a cursor that leads on.
//!
//! Every walk ends. How much of a plugin has been listed is counted in the cursor, so that a provider whose own cursors never
//! end does not keep the plugins behind it out of reach for ever: after `limits.listing-items` items, or [`MAX_EMPTY_PAGES`] pages in a row
//! with nothing on them, the rest of it is left out, and the page says so. An honest listing below that is given whole, however
//! small its pages are.

mod cursor;
mod fingerprint;
mod key;
mod prefetch;
mod source;

use self::cursor::{Binding, CursorCipher, CursorPayload, WalkProgress};
use self::prefetch::Prefetcher;
use crate::plugin::{Fault, PluginSlot};
use crate::resource::{Error, Footprint, Listing, MissingPlugin};

pub(crate) use self::fingerprint::{ListingFingerprint, fingerprints};
pub(crate) use self::source::{Entries, ListingItem, ListingKind, ListingSource, Templates, Viewer};

pub use self::key::{CursorKey, KeyError};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::cursor::fuzzing;

/// Calls to providers that one page may take.
const MAX_CALLS: usize = 64;
/// Pages of one plugin in a row that may have nothing on them.
const MAX_EMPTY_PAGES: usize = 1000;
/// The page that is asked for.
#[derive(Clone, Copy)]
pub(crate) struct PageRequest<'a> {
    pub(crate) viewer: &'a Viewer,
    /// The URI below which is listed; empty for the whole catalog.
    pub(crate) scope: &'a str,
    pub(crate) cursor: Option<&'a str>,
    /// Items on a page, at least 1.
    pub(crate) size: usize,
    /// The bytes that the items of a page take, about. One item is on it however many it takes.
    pub(crate) max_bytes: usize,
}

/// Where a listing is: in which plugin, at which page of it, behind how many of that page's items.
#[derive(Default)]
struct PagePosition {
    plugin: usize,
    cursor: Option<String>,
    skip: usize,
    progress: WalkProgress,
}

/// Makes pages of merged listings.
pub(crate) struct Catalog {
    cipher: CursorCipher,
}

impl Catalog {
    /// A catalog whose cursors are sealed with that key.
    pub(crate) fn new(key: &CursorKey) -> Self {
        Self { cipher: CursorCipher::new(key.bytes()) }
    }

    /// One page of what `slots`, in the order of their names, have of `source`.
    pub(crate) async fn page<S: ListingSource>(
        &self,
        source: &S,
        slots: &[PluginSlot],
        request: PageRequest<'_>,
    ) -> Result<Listing<S::Item>, Error> {
        let binding = Binding { kind: S::KIND, scope: request.scope, principal: &request.viewer.principal };
        let start = request.cursor.map(|cursor| self.cipher.open(cursor, binding)).transpose()?;
        let mut is_client_cursor = start.is_some();
        let mut position = start.map(|payload| resume_at(payload, slots)).unwrap_or_default();
        let mut prefetcher = Prefetcher::new(source, request.viewer, slots);
        let mut listing = Listing { items: Vec::new(), next_cursor: None, missing: Vec::new() };
        let mut bytes: usize = 0;
        let mut is_full = false;
        for _ in 0..MAX_CALLS {
            let remaining = if is_full { 0 } else { request.size.saturating_sub(listing.items.len()) };
            let Some(slot) = slots.get(position.plugin).filter(|_| remaining > 0) else { break };
            let page = prefetcher.page(&position, remaining).await;
            let was_client_cursor = std::mem::take(&mut is_client_cursor);
            let next_plugin = PagePosition { plugin: position.plugin.saturating_add(1), ..PagePosition::default() };
            position = match page {
                Ok(page) => {
                    let mut items = page.items.into_iter().skip_while(|(index, _)| *index < position.skip).peekable();
                    let mut next_index = position.skip;
                    while listing.items.len() < request.size
                        && let Some((_, item)) = items.peek()
                    {
                        bytes = bytes.saturating_add(item.footprint());
                        is_full = bytes > request.max_bytes;
                        if is_full && !listing.items.is_empty() {
                            break;
                        }
                        if let Some((index, item)) = items.next() {
                            next_index = index.saturating_add(1);
                            listing.items.push(item);
                        }
                    }
                    let progress = position.progress.advance(page.size);
                    if items.peek().is_some() {
                        PagePosition { skip: next_index, ..position }
                    } else if page.next_cursor.is_none() {
                        next_plugin
                    } else if let Some(fault) = check_listing_bounds(slot, progress) {
                        listing.missing.push(missing_plugin(slot, Some(fault)));
                        next_plugin
                    } else {
                        PagePosition { plugin: position.plugin, cursor: page.next_cursor, skip: 0, progress }
                    }
                }
                // The provider does not know its own cursor any more: neither is the client's of any use.
                Err(Some(Fault::InvalidRequest(_))) if was_client_cursor => return Err(Error::InvalidCursor),
                // Below one resource there is nobody else to answer.
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

/// The place that a cursor stands for. A plugin that is gone since is passed over: its successors follow.
fn resume_at(payload: CursorPayload, slots: &[PluginSlot]) -> PagePosition {
    let plugin = slots.partition_point(|slot| slot.name < payload.plugin);
    if slots.get(plugin).is_some_and(|slot| slot.name == payload.plugin) {
        PagePosition { plugin, cursor: payload.cursor, skip: payload.skip, progress: payload.progress }
    } else {
        PagePosition { plugin, ..PagePosition::default() }
    }
}

/// Why the listing of a plugin does not go on, if it has come so far that it must not.
fn check_listing_bounds(slot: &PluginSlot, progress: WalkProgress) -> Option<Fault> {
    let plugin = slot.plugin.as_ref().ok()?;
    let max_items = plugin.max_listing_items();
    let fault = if progress.items >= max_items {
        Fault::Listing(max_items)
    } else if progress.empty_pages >= MAX_EMPTY_PAGES {
        Fault::EmptyPages(MAX_EMPTY_PAGES)
    } else {
        return None;
    };
    plugin.record_fault("list-entries", &fault);
    Some(fault)
}

/// What the one who asked may know of a plugin that failed, or that did not load.
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
