//! Cursors of listings: the upstream's cursor, and the state of the cycle detection.
//!
//! Cycle detection (Brent's algorithm). A listing is read one page at a time, by requests that may be minutes apart,
//! and the host keeps no state between them. So the cursor contains the state of the algorithm: the page number, and a
//! hash of the upstream's cursor of the last page whose number is a power of two. A repeated cursor is detected within
//! three rounds of the cycle, whatever its length. A listing has at most [`MAX_PAGES`] pages.
//!
//! A page of the upstream with more entries than a call can use is returned in parts. The cursor of a part is the
//! cursor of its page, with the number of entries before the part.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The maximum number of pages of one listing.
const MAX_PAGES: u64 = 1_000_000;

/// A place in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageCursor {
    /// The number of the traversal, which [`Listed`](crate::listed::Listed) uses to compare spellings.
    pub(crate) traversal: u64,
    /// The number of the page, from 0.
    page: u64,
    /// The hash of the cursor of an earlier page.
    mark: u64,
    /// The number of entries of the page that were returned before.
    pub(crate) offset: usize,
    /// The upstream's cursor; none for the first page.
    pub(crate) upstream: Option<String>,
}

/// Why a listing is ended with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CursorFault {
    /// A cursor was repeated.
    #[error("the upstream repeats a cursor, so that its listing has no end")]
    Repeated,
    /// There are too many pages.
    #[error("the listing of the upstream has more than {MAX_PAGES} pages")]
    TooMany,
}

impl PageCursor {
    /// Returns the cursor of the first page of a traversal.
    pub(crate) fn start(traversal: u64) -> Self {
        Self { traversal, page: 0, mark: 0, offset: 0, upstream: None }
    }

    /// Returns the cursor of the next page.
    pub(crate) fn next(&self, upstream: String) -> Result<Self, CursorFault> {
        let hashed = hash(&upstream);
        let is_repeated = self.page > 0 && hashed == self.mark;
        if is_repeated || self.upstream.as_ref() == Some(&upstream) {
            return Err(CursorFault::Repeated);
        }
        let page = self.page.saturating_add(1);
        if page > MAX_PAGES {
            return Err(CursorFault::TooMany);
        }
        let mark = if page.is_power_of_two() { hashed } else { self.mark };
        Ok(Self { traversal: self.traversal, page, mark, offset: 0, upstream: Some(upstream) })
    }

    /// Parses a text of [`encode`](Self::encode).
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '.');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (traversal, page, mark, offset) = (number()?, number()?, number()?, number()?);
        let upstream = parts.next()?.to_owned();
        // The first page has no cursor of the upstream.
        let is_first = page == 0;
        if is_first && !upstream.is_empty() {
            return None;
        }
        let upstream = (!is_first).then_some(upstream);
        Some(Self { traversal, page, mark, offset: usize::try_from(offset).ok()?, upstream })
    }

    /// Returns the cursor as text.
    pub(crate) fn encode(&self) -> String {
        let Self { traversal, page, mark, offset, upstream } = self;
        format!("{traversal:x}.{page:x}.{mark:x}.{offset:x}.{}", upstream.as_deref().unwrap_or_default())
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
        let start = PageCursor::start(7);
        for upstream in ["", "a", "a.b..c", "日本"] {
            let cursor = PageCursor { offset: 5, ..start.next(upstream.to_owned()).unwrap() };
            assert_eq!(PageCursor::decode(&cursor.encode()), Some(cursor));
        }
        let part = PageCursor { offset: 100, ..start };
        assert_eq!(PageCursor::decode(&part.encode()), Some(part));
        for text in ["", "1", "1.2.3", "1.2.3.a", "x.1.1.0.a", "1.2.-3.0.a", "1.0.0.0.a"] {
            assert_eq!(PageCursor::decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_circle_of_any_length_is_found_within_three_rounds() {
        for (before, length) in [(0, 1), (0, 2), (5, 1), (3, 7), (0, 100), (17, 64), (100, 3)] {
            let name = |page: usize| if page < before { page } else { before + (page - before) % length }.to_string();
            let mut cursor = PageCursor::start(0).next(name(0)).unwrap();
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
        let last = PageCursor { page: MAX_PAGES, upstream: Some("a".to_owned()), ..PageCursor::start(0) };
        assert_eq!(last.next("b".to_owned()), Err(CursorFault::TooMany));
    }
}
