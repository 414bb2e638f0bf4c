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
//! end does not keep the plugins behind it out of reach for ever: after `limits.listing-items` items, or [`MAX_EMPTY`] pages in a row
//! with nothing on them, the rest of it is left out, and the page says so. An honest listing below that is given whole, however
//! small its pages are.

mod ahead;
mod cursor;
mod key;
mod print;
mod source;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::ahead::Ahead;
use self::cursor::{Binding, Position, Sealer, Walked};
use crate::plugin::{Fault, LoadError, Plugin};
use crate::resource::{Error, Footprint, Listing, Missing};
use crate::uri::Mount;

pub(crate) use self::print::{Print, prints};
pub(crate) use self::source::{Entries, Item, Kind, Source, Templates, Viewer};

pub use self::key::{CursorKey, KeyError};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::cursor::fuzzing;

/// Calls to providers that one page may take.
const MAX_CALLS: usize = 64;
/// Pages of one plugin in a row that may have nothing on them.
const MAX_EMPTY: usize = 1000;
/// When to come again while a plugin is being loaded.
const WHILE_LOADING: Duration = Duration::from_secs(1);

/// A plugin of the config: loaded, or not.
#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) mount: Mount,
    pub(crate) plugin: Result<Arc<Plugin>, Absent>,
}

/// Why a plugin of the config is not served.
#[derive(Clone, Debug)]
pub(crate) enum Absent {
    /// It is being loaded, which may take a compiler a while.
    Loading,
    /// It could not be loaded.
    Failed {
        /// Why.
        error: Arc<LoadError>,
        /// When it is tried again by itself, if it is.
        retry_at: Option<Instant>,
    },
}

impl Slot {
    /// The plugin, if it did load.
    pub(crate) fn loaded(&self) -> Result<&Plugin, Error> {
        self.plugin.as_deref().map_err(|_| self.not_loaded())
    }

    /// The answer to any request for a plugin that is not loaded.
    fn not_loaded(&self) -> Error {
        let (reason, retry_after) = match &self.plugin {
            Err(Absent::Failed { retry_at, .. }) => (
                "it could not be loaded; the server's log says why",
                retry_at.map(|at| at.saturating_duration_since(Instant::now())),
            ),
            _ => ("it is still being loaded; try again shortly", Some(WHILE_LOADING)),
        };
        Error::Unavailable { plugin: self.name.clone(), reason: reason.to_owned(), retry_after }
    }
}

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
    pub(crate) bytes: usize,
}

/// Where a listing is: in which plugin, at which page of it, behind how many of that page's items.
#[derive(Default)]
struct Place {
    plugin: usize,
    cursor: Option<String>,
    skip: usize,
    walked: Walked,
}

/// Makes pages of merged listings.
pub(crate) struct Catalog {
    sealer: Sealer,
}

impl Catalog {
    /// A catalog whose cursors are sealed with that key.
    pub(crate) fn new(key: &CursorKey) -> Self {
        Self { sealer: Sealer::new(key.bytes()) }
    }

    /// One page of what `slots`, in the order of their names, have of `source`.
    pub(crate) async fn page<S: Source>(
        &self,
        source: &S,
        slots: &[Slot],
        request: PageRequest<'_>,
    ) -> Result<Listing<S::Item>, Error> {
        let binding = Binding { kind: S::KIND, scope: request.scope, principal: &request.viewer.principal };
        let start = request.cursor.map(|cursor| self.sealer.open(cursor, binding)).transpose()?;
        let mut is_clients_place = start.is_some();
        let mut place = start.map(|position| place_of(position, slots)).unwrap_or_default();
        let mut ahead = Ahead::new(source, request.viewer, slots);
        let mut listing = Listing { items: Vec::new(), next_cursor: None, missing: Vec::new() };
        let mut bytes: usize = 0;
        let mut is_full = false;
        for _ in 0..MAX_CALLS {
            let room = if is_full { 0 } else { request.size.saturating_sub(listing.items.len()) };
            let Some(slot) = slots.get(place.plugin).filter(|_| room > 0) else { break };
            let page = ahead.page(&place, room).await;
            let was_clients_place = std::mem::take(&mut is_clients_place);
            let next_plugin = Place { plugin: place.plugin.saturating_add(1), ..Place::default() };
            place = match page {
                Ok(page) => {
                    let mut items = page.items.into_iter().skip_while(|(index, _)| *index < place.skip).peekable();
                    let mut taken = place.skip;
                    while listing.items.len() < request.size
                        && let Some((_, item)) = items.peek()
                    {
                        bytes = bytes.saturating_add(item.footprint());
                        is_full = bytes > request.bytes;
                        if is_full && !listing.items.is_empty() {
                            break;
                        }
                        if let Some((index, item)) = items.next() {
                            taken = index.saturating_add(1);
                            listing.items.push(item);
                        }
                    }
                    let walked = place.walked.and(page.size);
                    if items.peek().is_some() {
                        Place { skip: taken, ..place }
                    } else if page.next_cursor.is_none() {
                        next_plugin
                    } else if let Some(fault) = given_up(slot, walked) {
                        listing.missing.push(missing(slot, Some(fault)));
                        next_plugin
                    } else {
                        Place { plugin: place.plugin, cursor: page.next_cursor, skip: 0, walked }
                    }
                }
                // The provider does not know its own cursor any more: neither is the client's of any use.
                Err(Some(Fault::InvalidRequest(_))) if was_clients_place => return Err(Error::InvalidCursor),
                // Below one resource there is nobody else to answer.
                Err(fault) if !request.scope.is_empty() => return Err(answer(slot, fault, request.scope)),
                Err(fault) => {
                    listing.missing.push(missing(slot, fault));
                    next_plugin
                }
            };
        }
        if let Some(slot) = slots.get(place.plugin) {
            let Place { cursor, skip, walked, .. } = place;
            let position = Position { plugin: slot.name.clone(), cursor, skip, walked };
            listing.next_cursor = Some(self.sealer.seal(&position, binding)?);
        }
        Ok(listing)
    }
}

/// The place that a cursor stands for. A plugin that is gone since is passed over: its successors follow.
fn place_of(position: Position, slots: &[Slot]) -> Place {
    let plugin = slots.partition_point(|slot| slot.name < position.plugin);
    if slots.get(plugin).is_some_and(|slot| slot.name == position.plugin) {
        Place { plugin, cursor: position.cursor, skip: position.skip, walked: position.walked }
    } else {
        Place { plugin, ..Place::default() }
    }
}

/// Why the listing of a plugin does not go on, if it has come so far that it must not.
fn given_up(slot: &Slot, walked: Walked) -> Option<Fault> {
    let plugin = slot.plugin.as_ref().ok()?;
    let most = plugin.most_listed();
    let fault = if walked.items >= most {
        Fault::Listing(most)
    } else if walked.empty >= MAX_EMPTY {
        Fault::Barren(MAX_EMPTY)
    } else {
        return None;
    };
    plugin.note("list-entries", &fault);
    Some(fault)
}

/// What the one who asked may know of a plugin that failed, or that did not load.
fn answer(slot: &Slot, fault: Option<Fault>, uri: &str) -> Error {
    fault.map_or_else(|| slot.not_loaded(), |fault| fault.answer(&slot.name, uri))
}

fn missing(slot: &Slot, fault: Option<Fault>) -> Missing {
    let (reason, retry_after) = match answer(slot, fault, "") {
        Error::Unavailable { reason, retry_after, .. } => (reason, retry_after),
        _ => ("it failed; the server's log says why".to_owned(), None),
    };
    Missing { plugin: slot.name.clone(), reason, retry_after }
}
