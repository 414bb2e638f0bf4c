//! What a principal would list of one plugin, as a number: to tell whether it is still the same.
//!
//! All that is listed is walked, the entries and the templates, page by page, and nothing of it is kept. That is bounded: a
//! plugin that has more than [`MAX_ITEMS`], or needs more than [`MAX_CALLS`] calls for either, has no print, nor has one that
//! fails, and what has no print is never the same.
//!
//! A walk is made of the host's own calls, one page after the other: it takes nothing of what clients may use. Its items are
//! hashed in pieces of [`PIECE`], for as many principals as ask, and the thread is yielded between two of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Entries, Source, Templates};
use crate::access::{Access, Principal};
use crate::plugin::{Plugin, Turn};

/// Items of one kind that are walked.
const MAX_ITEMS: usize = 20_000;
/// Calls that are made for one kind.
const MAX_CALLS: usize = 64;
/// Items that are hashed, once for each principal, before the thread is yielded.
const PIECE: usize = 1024;
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
pub(crate) async fn prints(plugin: &Plugin, access: &Access, principals: &[Principal]) -> Vec<Print> {
    let mut hashers = vec![DefaultHasher::new(); principals.len()];
    let entries: Vec<_> = principals.iter().map(|principal| Entries { parent: None, access, principal }).collect();
    let templates: Vec<_> = principals.iter().map(|principal| Templates { access, principal }).collect();
    let is_whole =
        walk(&entries, plugin, &mut hashers).await.is_some() && walk(&templates, plugin, &mut hashers).await.is_some();
    let print = |hasher: &DefaultHasher| if is_whole { Print::Of(hasher.finish()) } else { Print::Unknown };
    hashers.iter().map(print).collect()
}

/// Has each hasher see what its source shows of the plugin.
async fn walk<S: Source<Item: Hash>>(sources: &[S], plugin: &Plugin, hashers: &mut [DefaultHasher]) -> Option<()> {
    let first = sources.first()?;
    let (mut cursor, mut items, mut in_piece) = (None, 0_usize, 0_usize);
    for _ in 0..MAX_CALLS {
        let page = first.page(Turn::Host, plugin, cursor.as_deref(), PAGE).await.ok()?;
        items = items.saturating_add(page.items.len());
        for item in &page.items {
            for (_, hasher) in sources.iter().zip(&mut *hashers).filter(|(source, _)| source.shows(item)) {
                item.hash(hasher);
            }
            in_piece = in_piece.saturating_add(sources.len());
            if in_piece >= PIECE {
                in_piece = 0;
                tokio::task::yield_now().await;
            }
        }
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
