//! What a principal would list of one plugin, as a number: to tell whether it is still the same.
//!
//! All that is listed is walked, the entries and the templates, page by page, and nothing of it is kept. That is bounded: a
//! plugin that has more than [`MAX_ITEMS`], or needs more than [`MAX_CALLS`] calls for either, has no print, nor has one that
//! fails, and what has no print is never the same.
//!
//! A walk is made of the host's own calls, one page after the other: it takes nothing of what clients may use. Its items are
//! hashed as a part of those calls, for all principals that ask.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Entries, Item, Source, Templates, Viewer};
use crate::access::{Access, Principal};
use crate::plugin::{Plugin, Turn};

/// Items of one kind that are walked.
const MAX_ITEMS: usize = 20_000;
/// Calls that are made for one kind.
const MAX_CALLS: usize = 64;
/// Items that a page is asked for.
const PAGE: usize = 1000;

/// What a principal would list of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    /// The hash of it.
    Of(u64),
    /// It is not known.
    Unknown,
}

impl Print {
    /// The print of a plugin of which nothing is listed.
    pub(crate) fn of_nothing() -> Self {
        Self::Of(DefaultHasher::new().finish())
    }

    /// Whether the listing may be another now.
    pub(crate) fn differs(self, now: Self) -> bool {
        self == Self::Unknown || self != now
    }
}

/// What each of those principals would list of that plugin, in their order.
pub(crate) async fn prints(plugin: &Plugin, access: &Arc<Access>, principals: &[Principal]) -> Vec<Print> {
    let viewer = |principal: &Principal| Viewer { access: access.clone(), principal: principal.clone() };
    let viewers = principals.iter().map(viewer).map(|viewer| (viewer, DefaultHasher::new()));
    let viewers = Arc::new(Mutex::new(viewers.collect::<Vec<_>>()));
    let is_whole = walk(&Entries { parent: None }, plugin, &viewers).await.is_some()
        && walk(&Templates, plugin, &viewers).await.is_some();
    let print = |hasher: &DefaultHasher| if is_whole { Print::Of(hasher.finish()) } else { Print::Unknown };
    let viewers = viewers.lock().unwrap_or_else(PoisonError::into_inner);
    viewers.iter().map(|(_, hasher)| print(hasher)).collect()
}

/// Has each hasher see what its viewer is shown of the plugin: as a part of the calls, of which nothing else comes back.
async fn walk<S: Source>(
    source: &S,
    plugin: &Plugin,
    viewers: &Arc<Mutex<Vec<(Viewer, DefaultHasher)>>>,
) -> Option<()> {
    let (mut cursor, mut items) = (None, 0_usize);
    for _ in 0..MAX_CALLS {
        let viewers = viewers.clone();
        let see = move |item: &S::Item| {
            let mut viewers = viewers.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, hasher) in viewers.iter_mut().filter(|(viewer, _)| item.is_shown_to(viewer)) {
                item.hash(hasher);
            }
            false
        };
        let page = source.page(Turn::Host, plugin, cursor.as_deref(), PAGE, see).await.ok()?;
        items = items.saturating_add(page.size);
        match page.next_cursor {
            None => return Some(()),
            Some(_) if items > MAX_ITEMS => return None,
            next => cursor = next,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_never_the_same() {
        assert!(!Print::Of(1).differs(Print::Of(1)));
        assert!(Print::Of(1).differs(Print::Of(2)));
        assert!(Print::Of(1).differs(Print::Unknown));
        assert!(Print::Unknown.differs(Print::Of(1)));
        assert!(Print::Unknown.differs(Print::Unknown));
    }
}
