//! Keyset pagination of sorted data.
//!
//! A cursor contains the last key of the previous page. So it needs no state, remains valid while items are inserted
//! and deleted, and its position is found with a binary search.
//!
//! ```
//! use mcp_provider::{Entry, keyset};
//!
//! let names = ["a", "b", "c"];
//! let first = keyset::page(names, None, 2, |name| name)?.map(|name| Entry::new(name, name));
//! assert_eq!(first.entries.len(), 2);
//! let second = keyset::page(names, first.next_cursor.as_deref(), 2, |name| name)?.map(|name| Entry::new(name, name));
//! assert_eq!(second.entries[0].path, "c");
//! assert_eq!(second.next_cursor, None);
//! # Ok::<(), mcp_provider::Failure>(())
//! ```

use crate::{Entry, Failure, Page, Result};

/// The maximum length of a key in a cursor, in bytes, below the contract's limit of 4096.
const MAX_KEY_LEN: usize = 4000;

/// One page of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysetPage<T> {
    /// The items, sorted.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` on the last.
    pub next_cursor: Option<String>,
}

impl<T> KeysetPage<T> {
    /// Converts each item to an entry.
    pub fn map(self, entry: impl FnMut(T) -> Entry) -> Page {
        Page { entries: self.items.into_iter().map(entry).collect(), next_cursor: self.next_cursor }
    }

    /// Converts each item to an entry, and skips items that return `None`, such as files that have just been deleted.
    ///
    /// # Errors
    ///
    /// The first failure of a conversion.
    pub fn try_map(self, entry: impl FnMut(T) -> Result<Option<Entry>>) -> Result<Page> {
        let entries = self.items.into_iter().map(entry).filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(Page { entries, next_cursor: self.next_cursor })
    }
}

/// Returns the items after `cursor`: at most `limit` of them, and at least one if any is left.
///
/// `items` must be sorted by their keys, as `str` sorts, without duplicates.
///
/// # Errors
///
/// [`Failure::InvalidRequest`] if the cursor was not created by this module.
pub fn page<T>(
    items: impl IntoIterator<Item = T>,
    cursor: Option<&str>,
    limit: usize,
    key: impl Fn(&T) -> &str,
) -> Result<KeysetPage<T>> {
    let mut items: Vec<T> = items.into_iter().collect();
    let start = start(&items, cursor, &key)?;
    let end = start.saturating_add(limit.max(1)).min(items.len());
    let next_cursor = (end < items.len()).then(|| cursor_after(&items, end, &key));
    items.truncate(end);
    items.drain(..start.min(end));
    Ok(KeysetPage { items, next_cursor })
}

/// Like [`page`], but keeps only the items that convert to an entry, for filters that must inspect each item. Items
/// are inspected one by one until the page is full and the existence of a next item is known.
///
/// # Errors
///
/// The errors of [`page`], and the first failure of a conversion.
pub fn scan<T>(
    items: &[T],
    cursor: Option<&str>,
    limit: usize,
    key: impl Fn(&T) -> &str,
    mut entry: impl FnMut(&T) -> Result<Option<Entry>>,
) -> Result<Page> {
    let mut entries = Vec::new();
    let mut end = start(items, cursor, &key)?;
    for (index, item) in items.iter().enumerate().skip(end) {
        let Some(entry) = entry(item)? else { continue };
        if entries.len() >= limit.max(1) {
            return Ok(Page { entries, next_cursor: Some(cursor_after(items, end, &key)) });
        }
        entries.push(entry);
        end = index.saturating_add(1);
    }
    Ok(Page::last(entries))
}

/// Returns the index of the first item after the cursor.
fn start<T>(items: &[T], cursor: Option<&str>, key: impl Fn(&T) -> &str) -> Result<usize> {
    Ok(match cursor.map(Position::parse).transpose()? {
        None => 0,
        Some(Position::After(last)) => items.partition_point(|item| key(item) <= last),
        Some(Position::PrefixOffset { beginning, given }) => {
            let first = items.partition_point(|item| key(item) < beginning);
            let end = items.partition_point(|item| key(item) < beginning || key(item).starts_with(beginning));
            first.saturating_add(given).min(end)
        }
    })
}

/// Returns the cursor for the items after the first `end`.
fn cursor_after<T>(items: &[T], end: usize, key: impl Fn(&T) -> &str) -> String {
    let given = items.get(..end).unwrap_or_default();
    let last = given.last().map(&key).unwrap_or_default();
    Position::new(last, given.iter().map(&key)).to_string()
}

/// The end position of a page.
enum Position<'a> {
    /// After this key.
    After(&'a str),
    /// After this number of keys with this prefix, if the last key is too long for a cursor.
    PrefixOffset { beginning: &'a str, given: usize },
}

impl<'a> Position<'a> {
    fn new(last: &'a str, given: impl Iterator<Item = &'a str>) -> Self {
        if last.len() <= MAX_KEY_LEN {
            return Self::After(last);
        }
        let (beginning, _) = last.split_at_checked(last.floor_char_boundary(MAX_KEY_LEN)).unwrap_or_default();
        Self::PrefixOffset { beginning, given: given.filter(|key| key.starts_with(beginning)).count() }
    }

    fn parse(cursor: &'a str) -> Result<Self> {
        let position = match cursor.split_once(':') {
            Some(("", last)) => Some(Self::After(last)),
            Some((given, beginning)) => given.parse().ok().map(|given| Self::PrefixOffset { beginning, given }),
            None => None,
        };
        position.ok_or_else(|| Failure::invalid("expected a cursor that this provider returned"))
    }
}

impl std::fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::After(last) => write!(f, ":{last}"),
            Self::PrefixOffset { beginning, given } => write!(f, "{given}:{beginning}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_pages(keys: &[String], limit: usize) -> Vec<String> {
        let mut seen = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = page(keys, cursor.as_deref(), limit, |key| key).unwrap();
            assert!(page.items.len() <= limit);
            seen.extend(page.items.into_iter().cloned());
            let Some(next) = page.next_cursor else {
                return seen;
            };
            assert!(next.len() <= 4096);
            assert_ne!(Some(&next), cursor.as_ref());
            cursor = Some(next);
        }
    }

    #[test]
    fn a_page_goes_on_after_the_last_key_although_others_came_and_went() {
        let first = page(["a", "c", "e"], None, 2, |key| key).unwrap();
        let second = page(["b", "d", "e"], first.next_cursor.as_deref(), 2, |key| key).unwrap();
        assert_eq!(second.items, ["d", "e"]);
        assert_eq!(second.next_cursor, None);
    }

    #[test]
    fn the_last_page_has_no_cursor_even_when_it_is_full() {
        assert_eq!(page(["a", "b"], None, 2, |key| key).unwrap().next_cursor, None);
    }

    #[test]
    fn an_empty_listing_has_one_empty_page() {
        let page = page(Vec::<String>::new(), None, 2, |key| key).unwrap();
        assert_eq!((page.items.len(), page.next_cursor), (0, None));
    }

    #[test]
    fn a_cursor_of_somebody_else_is_an_invalid_request() {
        for cursor in ["", "a", "x:a", "-1:a"] {
            assert!(matches!(page(["a"], Some(cursor), 2, |key| key), Err(Failure::InvalidRequest(_))), "{cursor}");
        }
    }

    #[test]
    fn keys_too_long_for_a_cursor_are_paged_all_the_same() {
        let long = "日".repeat(2000);
        let mut keys: Vec<String> = (0..5).map(|n| format!("{long}{n}")).collect();
        keys.extend([long.chars().take(1333).collect(), "z".to_owned(), format!("{}x", "日".repeat(1333))]);
        keys.sort();
        for limit in 1..keys.len() {
            assert_eq!(all_pages(&keys, limit), keys);
        }
    }

    #[test]
    fn an_item_that_turns_out_to_be_none_is_left_out_of_its_page() {
        let page = page(["a", "b"], None, 5, |key| key)
            .unwrap()
            .try_map(|key| Ok((key != "a").then(|| Entry::new(key, key))))
            .unwrap();
        assert_eq!(page.entries.len(), 1);
    }

    #[test]
    fn a_scan_gives_full_pages_of_what_it_keeps_and_ends_with_the_last_that_it_keeps() {
        let items: Vec<String> = (10..30).map(|n| n.to_string()).collect();
        let even = |item: &String| Ok(item.ends_with(['0', '2', '4', '6', '8']).then(|| Entry::new(item, item)));
        let first = scan(&items, None, 5, |item| item, even).unwrap();
        let names: Vec<_> = first.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["10", "12", "14", "16", "18"]);
        let last = scan(&items, first.next_cursor.as_deref(), 5, |item| item, even).unwrap();
        assert_eq!((last.entries.len(), last.next_cursor), (5, None));
    }

    #[test]
    fn a_scan_looks_at_nothing_before_its_cursor() {
        let look = |item: &&str| {
            assert!(*item > "b");
            Ok(Some(Entry::new(*item, *item)))
        };
        let page = scan(&["a", "b", "c"], Some(":b"), 5, |item| item, look).unwrap();
        assert_eq!(page.entries.len(), 1);
    }

    proptest! {
        #[test]
        fn the_pages_are_the_listing(keys in proptest::collection::btree_set(".{0,6}", 0..30), limit in 1..8_usize) {
            let keys: Vec<String> = keys.into_iter().collect();
            prop_assert_eq!(all_pages(&keys, limit), keys);
        }
    }
}
