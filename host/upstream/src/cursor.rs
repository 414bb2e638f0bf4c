//! Cursors of listings: the upstream's own, with what tells that a listing goes round in circles.
//!
//! A listing is read one page at a time, by requests that may be minutes apart, and nothing of it is kept. So the cursor has what
//! Brent's algorithm needs: the number of the page, and a hash of the upstream's cursor of the last page whose number is a power of two. A
//! cursor that comes again is found within three rounds of the circle, whatever its length. A listing has at most [`MAX_PAGES`] pages.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The maximum number of pages of one listing.
const MAX_PAGES: u64 = 1_000_000;

/// The place of a page in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageCursor {
    /// The number of the traversal, by which spellings are compared.
    pub(crate) traversal: u64,
    /// The number of the page, from 1.
    page: u64,
    /// The hash of the cursor of an earlier page.
    mark: u64,
    /// The upstream's cursor.
    pub(crate) upstream: String,
}

/// Why a listing does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CursorFault {
    /// A cursor came again.
    #[error("the upstream repeats a cursor, so that its listing has no end")]
    Repeated,
    /// There are too many pages.
    #[error("the listing of the upstream has more than {MAX_PAGES} pages")]
    TooMany,
}

impl PageCursor {
    /// The cursor of the second page of a traversal.
    pub(crate) fn first(traversal: u64, upstream: String) -> Self {
        Self { traversal, page: 1, mark: hash(&upstream), upstream }
    }

    /// The cursor of the page after this one.
    pub(crate) fn next(&self, upstream: String) -> Result<Self, CursorFault> {
        let hashed = hash(&upstream);
        if hashed == self.mark || upstream == self.upstream {
            return Err(CursorFault::Repeated);
        }
        let page = self.page.saturating_add(1);
        if page > MAX_PAGES {
            return Err(CursorFault::TooMany);
        }
        let mark = if page.is_power_of_two() { hashed } else { self.mark };
        Ok(Self { traversal: self.traversal, page, mark, upstream })
    }

    /// Parses what [`encode`](Self::encode) made.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '.');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (traversal, page, mark) = (number()?, number()?, number()?);
        Some(Self { traversal, page, mark, upstream: parts.next()?.to_owned() })
    }

    /// The cursor as text.
    pub(crate) fn encode(&self) -> String {
        let Self { traversal, page, mark, upstream } = self;
        format!("{traversal:x}.{page:x}.{mark:x}.{upstream}")
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_its_own_text() {
        for upstream in ["", "a", "a.b..c", "日本"] {
            let cursor = PageCursor::first(7, upstream.to_owned());
            assert_eq!(PageCursor::decode(&cursor.encode()), Some(cursor));
        }
        for text in ["", "1", "1.2.3", "x.1.1.a", "1.2.-3.a"] {
            assert_eq!(PageCursor::decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_circle_of_any_length_is_found_within_three_rounds() {
        for (before, length) in [(0, 1), (0, 2), (5, 1), (3, 7), (0, 100), (17, 64), (100, 3)] {
            let name = |page: usize| if page < before { page } else { before + (page - before) % length }.to_string();
            let mut cursor = PageCursor::first(0, name(0));
            let end = (1..).find(|page| match cursor.next(name(*page)) {
                Ok(next) => {
                    cursor = next;
                    false
                }
                Err(fault) => fault == CursorFault::Repeated,
            });
            assert!(end.unwrap() <= 2 * before.max(length) + before + length + 1, "{before} {length}: {end:?}");
        }
    }

    #[test]
    fn pages_without_end_end() {
        let last = PageCursor { traversal: 0, page: MAX_PAGES, mark: 0, upstream: "a".to_owned() };
        assert_eq!(last.next("b".to_owned()), Err(CursorFault::TooMany));
    }
}
