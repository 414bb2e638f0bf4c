//! The spellings of the listed URIs, and the metadata of the listed resources, for requests by URI.
//!
//! A request to the upstream has the spelling that the upstream listed. If it lists two spellings of one canonical
//! form, both are dropped, because a request for the canonical form would be ambiguous. They remain dropped until a
//! traversal that began later has ended with only one of them. So concurrent traversals, in any order, do not restore
//! an ambiguous spelling.
//!
//! The remembered data take at most [`Listed::new`]'s number of bytes. When the budget is exhausted, an entry in
//! canonical form is served and not remembered, and an entry in another spelling is dropped.

use std::collections::HashMap;

use mcp_host_model::provider::Entry;

/// The estimated bytes of an entry in addition to its texts.
const OVERHEAD: usize = 512;

/// The remembered spellings and metadata.
#[derive(Debug)]
pub(crate) struct Listed {
    by_path: HashMap<Box<str>, Record>,
    used: usize,
    budget: usize,
}

#[derive(Debug)]
struct Record {
    /// The upstream's spelling; none if it is the canonical form.
    spelling: Option<Box<str>>,
    /// The last traversal that listed this spelling.
    traversal: u64,
    /// The last traversal that listed another spelling. The path is ambiguous until a later traversal has ended.
    other: Option<u64>,
    entry: Option<Box<Entry>>,
    bytes: usize,
}

/// Whether an entry of a listing is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The entry is served.
    Keep,
    /// The entry is dropped: another spelling of its canonical form is listed.
    Ambiguous,
    /// The entry is dropped: it is not in canonical form, and there is no room to remember its spelling.
    NoRoom,
}

/// The spelling of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling<'a> {
    /// The upstream listed this spelling.
    Listed(&'a str),
    /// The upstream listed the canonical form.
    Canonical,
    /// The upstream listed two spellings.
    Ambiguous,
    /// The upstream has not listed the path.
    Unlisted,
}

impl Listed {
    pub(crate) fn new(budget: usize) -> Self {
        Self { by_path: HashMap::new(), used: 0, budget }
    }

    /// Records an entry with its canonical path. `canonical` is the upstream's URI of this path, and `spelling` the
    /// listed URI. A traversal that began later has a greater number.
    pub(crate) fn record(&mut self, entry: &Entry, canonical: &str, spelling: &str, traversal: u64) -> Verdict {
        let spelled = (spelling != canonical).then_some(spelling);
        let Some(record) = self.by_path.get_mut(entry.path.as_str()) else {
            return self.insert(entry, spelled, traversal);
        };
        if record.spelling.as_deref() == spelled {
            record.traversal = record.traversal.max(traversal);
        } else if record.traversal >= traversal {
            record.other = record.other.max(Some(traversal));
        } else {
            // This traversal has not listed the previous spelling so far.
            let [before, now] = [record.spelling.as_deref(), spelled].map(|text| text.map_or(0, str::len));
            let used = self.used.saturating_sub(before).saturating_add(now);
            if now > before && used > self.budget {
                self.used = self.used.saturating_sub(record.bytes);
                self.by_path.remove(entry.path.as_str());
                return Verdict::NoRoom;
            }
            self.used = used;
            record.bytes = record.bytes.saturating_sub(before).saturating_add(now);
            record.other = record.other.max(Some(record.traversal));
            (record.spelling, record.traversal) = (spelled.map(Box::from), traversal);
        }
        if record.other.is_some() {
            record.entry = None;
            return Verdict::Ambiguous;
        }
        if record.entry.as_deref() != Some(entry) {
            record.entry = Some(Box::new(entry.clone()));
        }
        Verdict::Keep
    }

    fn insert(&mut self, entry: &Entry, spelled: Option<&str>, traversal: u64) -> Verdict {
        let bytes = size_of_entry(entry).saturating_add(spelled.map_or(0, str::len));
        if self.used.saturating_add(bytes) > self.budget {
            return if spelled.is_some() { Verdict::NoRoom } else { Verdict::Keep };
        }
        self.used = self.used.saturating_add(bytes);
        let (spelling, entry_of) = (spelled.map(Box::from), Some(Box::new(entry.clone())));
        let record = Record { spelling, traversal, other: None, entry: entry_of, bytes };
        self.by_path.insert(entry.path.as_str().into(), record);
        Verdict::Keep
    }

    /// Returns the spelling of a path.
    pub(crate) fn spelling(&self, path: &str) -> Spelling<'_> {
        match self.by_path.get(path) {
            Some(record) if record.other.is_some() => Spelling::Ambiguous,
            Some(record) => record.spelling.as_deref().map_or(Spelling::Canonical, Spelling::Listed),
            None => Spelling::Unlisted,
        }
    }

    /// Returns the metadata of a path, if they are remembered.
    pub(crate) fn entry(&self, path: &str) -> Option<&Entry> {
        self.by_path.get(path)?.entry.as_deref()
    }

    /// Records the end of a traversal: removes resources and spellings that only earlier traversals listed, because the
    /// upstream no longer has them.
    pub(crate) fn finish(&mut self, traversal: u64) {
        let mut used = self.used;
        self.by_path.retain(|_, record| {
            record.other = record.other.filter(|other| *other >= traversal);
            let is_kept = record.traversal >= traversal || record.other.is_some();
            used = if is_kept { used } else { used.saturating_sub(record.bytes) };
            is_kept
        });
        self.used = used;
    }
}

/// Returns the estimated size of an entry in bytes.
pub(crate) fn size_of_entry(entry: &Entry) -> usize {
    let texts = [&entry.title, &entry.description, &entry.mime_type, &entry.last_modified, &entry.meta];
    let texts = texts.into_iter().flatten().map(String::len).fold(0, usize::saturating_add);
    let icons = entry.icons.iter().map(|icon| icon.src.len().saturating_add(OVERHEAD)).fold(0, usize::saturating_add);
    let path = entry.path.len().saturating_mul(2).saturating_add(entry.name.len());
    [OVERHEAD, texts, icons, path].into_iter().fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(listed: &mut Listed, spelling: &str, traversal: u64) -> Verdict {
        listed.record(&Entry::new("x:a,b", "a"), "x:a,b", spelling, traversal)
    }

    #[test]
    fn the_spelling_that_was_listed_is_known() {
        let mut listed = Listed::new(1 << 20);
        assert_eq!(record(&mut listed, "x:a%2Cb", 1), Verdict::Keep);
        assert_eq!(listed.spelling("x:a,b"), Spelling::Listed("x:a%2Cb"));
        assert_eq!(listed.spelling("x:other"), Spelling::Unlisted);
        assert_eq!(listed.entry("x:a,b").unwrap().name, "a");
        listed.finish(1);
        assert_eq!(record(&mut listed, "x:a,b", 2), Verdict::Ambiguous, "the other one may follow");
        listed.finish(2);
        assert_eq!(listed.spelling("x:a,b"), Spelling::Canonical, "it is spelled otherwise by now");
        assert_eq!(record(&mut listed, "x:a,b", 3), Verdict::Keep);
    }

    #[test]
    fn two_spellings_are_dropped_until_a_traversal_has_one() {
        let mut listed = Listed::new(1 << 20);
        assert_eq!(record(&mut listed, "x:a,b", 1), Verdict::Keep, "the other one is not known yet");
        assert_eq!(record(&mut listed, "x:a%2Cb", 1), Verdict::Ambiguous);
        assert_eq!((listed.spelling("x:a,b"), listed.entry("x:a,b")), (Spelling::Ambiguous, None));
        listed.finish(1);
        for traversal in [2, 3] {
            assert_eq!(record(&mut listed, "x:a,b", traversal), Verdict::Ambiguous);
            assert_eq!(record(&mut listed, "x:a%2Cb", traversal), Verdict::Ambiguous);
            listed.finish(traversal);
        }
        assert_eq!(record(&mut listed, "x:a%2Cb", 4), Verdict::Ambiguous);
        listed.finish(4);
        assert_eq!(listed.spelling("x:a,b"), Spelling::Listed("x:a%2Cb"), "traversal 4 had one");
        assert_eq!(record(&mut listed, "x:a%2Cb", 5), Verdict::Keep);
    }

    #[test]
    fn two_listings_at_once_bring_no_ambiguous_spelling_back() {
        let spellings = ["x:a,b", "x:a%2Cb"];
        for rounds in 0..4 {
            let mut listed = Listed::new(1 << 20);
            for spelling in spellings {
                record(&mut listed, spelling, 0);
            }
            listed.finish(0);
            // Two traversals of two pages each, with all interleavings of their pages.
            for order in [[1, 2, 1, 2], [1, 2, 2, 1], [2, 1, 1, 2], [2, 1, 2, 1], [1, 1, 2, 2], [2, 2, 1, 1]] {
                let mut pages = [0, 0];
                for step in order {
                    let (page, traversal) = (pages[step - 1], rounds * 2 + step as u64);
                    assert_eq!(record(&mut listed, spellings[page], traversal), Verdict::Ambiguous, "{order:?}");
                    pages[step - 1] += 1;
                    if page == 1 {
                        listed.finish(traversal);
                    }
                    assert_eq!(listed.spelling("x:a,b"), Spelling::Ambiguous, "{order:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_when_it_is_gone() {
        let mut listed = Listed::new(1500);
        let kept = |listed: &Listed, path: &str| listed.entry(path).is_some();
        for path in ["a:1", "a:2", "a:3"] {
            assert_eq!(listed.record(&Entry::new(path, ""), path, path, 1), Verdict::Keep);
        }
        assert_eq!([kept(&listed, "a:1"), kept(&listed, "a:2"), kept(&listed, "a:3")], [true, true, false]);
        assert_eq!(listed.record(&Entry::new("a:4", ""), "a:4", "A:4", 1), Verdict::NoRoom);
        listed.record(&Entry::new("a:2", ""), "a:2", "a:2", 2);
        listed.finish(2);
        assert_eq!([kept(&listed, "a:1"), kept(&listed, "a:2")], [false, true]);
        assert_eq!(listed.record(&Entry::new("a:4", ""), "a:4", "A:4", 2), Verdict::Keep);
    }
}
