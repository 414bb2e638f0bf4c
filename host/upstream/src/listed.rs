//! What an upstream listed: how it spelled its URIs, and the metadata of its resources, for requests by URI.
//!
//! The upstream gets the spelling that it listed. Two spellings of one normal form that are listed in one traversal are both dropped, as
//! nothing tells which one a request means; they stay dropped until a later traversal has only one. What is remembered takes at most
//! [`Listed::new`]'s number of bytes; beyond, an entry in normal form is served and not remembered, and one in another spelling is dropped.

use std::collections::HashMap;

use mcp_host_model::provider::Entry;

/// The bytes of an entry beside its texts.
const OVERHEAD: usize = 512;

/// What an upstream listed.
#[derive(Debug)]
pub(crate) struct Listed {
    by_path: HashMap<Box<str>, Record>,
    used: usize,
    budget: usize,
}

#[derive(Debug)]
struct Record {
    /// The upstream's spelling; none if it is the normal form.
    spelling: Option<Box<str>>,
    /// The last traversal that listed it.
    traversal: u64,
    /// Whether two spellings were listed.
    is_ambiguous: bool,
    /// Whether the last traversal listed two spellings.
    was_ambiguous: bool,
    entry: Option<Box<Entry>>,
    bytes: usize,
}

/// What becomes of an entry of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is served.
    Keep,
    /// Another spelling of its normal form is listed.
    Ambiguous,
    /// It is not in normal form, and its spelling cannot be remembered.
    NoRoom,
}

impl Listed {
    pub(crate) fn new(budget: usize) -> Self {
        Self { by_path: HashMap::new(), used: 0, budget }
    }

    /// Records an entry with its path in normal form. `normal` is the upstream's URI of that path, `spelling` the one that it listed.
    pub(crate) fn record(&mut self, entry: &Entry, normal: &str, spelling: &str, traversal: u64) -> Verdict {
        let spelled = (spelling != normal).then(|| Box::<str>::from(spelling));
        if let Some(record) = self.by_path.get_mut(entry.path.as_str()) {
            if record.traversal == traversal {
                record.was_ambiguous |= record.spelling != spelled;
                record.is_ambiguous |= record.was_ambiguous;
            } else {
                record.is_ambiguous &= std::mem::take(&mut record.was_ambiguous);
                record.traversal = traversal;
                record.spelling = spelled;
            }
            if record.is_ambiguous {
                record.entry = None;
                return Verdict::Ambiguous;
            }
            if record.entry.as_deref() != Some(entry) {
                record.entry = Some(Box::new(entry.clone()));
            }
            return Verdict::Keep;
        }
        let bytes = size_of_entry(entry).saturating_add(spelling.len());
        if self.used.saturating_add(bytes) > self.budget {
            return if spelled.is_some() { Verdict::NoRoom } else { Verdict::Keep };
        }
        self.used = self.used.saturating_add(bytes);
        let record = Record {
            spelling: spelled,
            traversal,
            is_ambiguous: false,
            was_ambiguous: false,
            entry: Some(Box::new(entry.clone())),
            bytes,
        };
        self.by_path.insert(entry.path.as_str().into(), record);
        Verdict::Keep
    }

    /// The spelling of a path; none if it is the normal form. An error if it is ambiguous.
    pub(crate) fn spelling(&self, path: &str) -> Result<Option<&str>, ()> {
        match self.by_path.get(path) {
            Some(record) if record.is_ambiguous => Err(()),
            Some(record) => Ok(record.spelling.as_deref()),
            None => Ok(None),
        }
    }

    /// The metadata of a path, if it is remembered.
    pub(crate) fn entry(&self, path: &str) -> Option<&Entry> {
        self.by_path.get(path)?.entry.as_deref()
    }

    /// Forgets what the traversals before this one listed, once it has reached the end: it is no longer there.
    pub(crate) fn finish(&mut self, traversal: u64) {
        let mut used = self.used;
        self.by_path.retain(|_, record| {
            let is_kept = record.traversal >= traversal;
            used = if is_kept { used } else { used.saturating_sub(record.bytes) };
            is_kept
        });
        self.used = used;
    }
}

fn size_of_entry(entry: &Entry) -> usize {
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
        assert_eq!(listed.spelling("x:a,b"), Ok(Some("x:a%2Cb")));
        assert_eq!(listed.spelling("x:other"), Ok(None));
        assert_eq!(listed.entry("x:a,b").unwrap().name, "a");
        assert_eq!(record(&mut listed, "x:a,b", 2), Verdict::Keep, "it is spelled otherwise by now");
        assert_eq!(listed.spelling("x:a,b"), Ok(None));
    }

    #[test]
    fn two_spellings_of_one_traversal_are_dropped_until_there_is_one() {
        let mut listed = Listed::new(1 << 20);
        assert_eq!(record(&mut listed, "x:a,b", 1), Verdict::Keep, "the other one is not known yet");
        assert_eq!(record(&mut listed, "x:a%2Cb", 1), Verdict::Ambiguous);
        assert_eq!((listed.spelling("x:a,b"), listed.entry("x:a,b")), (Err(()), None));
        for traversal in [2, 3] {
            assert_eq!(record(&mut listed, "x:a,b", traversal), Verdict::Ambiguous);
            assert_eq!(record(&mut listed, "x:a%2Cb", traversal), Verdict::Ambiguous);
        }
        assert_eq!(record(&mut listed, "x:a,b", 4), Verdict::Ambiguous);
        assert_eq!(record(&mut listed, "x:a,b", 5), Verdict::Keep, "traversal 4 had one");
        assert_eq!(listed.spelling("x:a,b"), Ok(None));
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
