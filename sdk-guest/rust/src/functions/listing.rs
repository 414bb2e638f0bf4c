//! Pages of iterators, whose cursors are data: another instance continues where the last page ended.
//!
//! A cursor contains the number of the iterator, the position in it, and digests of the last paths before that
//! position, the anchors. The next page begins after the last anchor that the iterator still yields, at any position.
//! So the order may be arbitrary, as long as it is stable while the data do not change. Entries that are added or
//! removed meanwhile neither repeat nor hide other entries, unless all anchors are gone: then some entries may occur
//! twice.

use super::{Args, Item, Resource};
use crate::changes::digest;
use crate::{Entry, Failure, Page, PathTemplate, Result};

/// The number of digests in a cursor.
const ANCHORS: usize = 16;
/// The length of a digest.
const LENGTH: usize = 12;

/// A resource that is listed.
pub(super) struct Listed<'r, F> {
    resource: &'r Resource<F>,
    pattern: &'r PathTemplate,
    path: String,
    values: Vec<(String, String)>,
    item: Item,
}

impl<'r, F: 'static> Listed<'r, F> {
    /// None, with a warning in the log, if no path of the template has the values.
    pub(super) fn new(resource: &'r Resource<F>, pattern: &'r PathTemplate, item: Item) -> Option<Self> {
        let names: Vec<_> = resource.path_variables(pattern).collect();
        let values = item.values.iter().zip(names.iter().copied().map(Some).chain(std::iter::repeat(None)));
        let values: Vec<_> = values
            .filter_map(|((name, value), only)| {
                Some((name.or(only.filter(|_| names.len() == 1))?.to_owned(), value.clone()))
            })
            .collect();
        let given: Vec<_> = values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let path = pattern.expand(&given).unwrap_or_default();
        let found = pattern.matches(&path);
        let is_reached = found.is_some_and(|found| {
            names.iter().all(|name| {
                let given = given.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
                given.is_some() && found.get(name) == given
            })
        });
        if !is_reached || path.split('/').any(|segment| segment == "." || segment == "..") {
            log::warn!("no path of {:?} has the values {:?}, which are left out", pattern.as_str(), item.values);
            return None;
        }
        Some(Self { resource, pattern, path, values, item })
    }

    /// The value of a variable.
    pub(super) fn value(&self, variable: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == variable).map(|(_, value)| value.as_str())
    }

    /// The entry; none if its file is gone.
    fn entry(self) -> Result<Option<Entry>> {
        let Some(captures) = self.pattern.matches(&self.path) else { return Ok(None) };
        let args = Args::new(captures, Vec::new());
        match self.item.entry(self.resource.entry(self.pattern, &self.path, &args)) {
            Err(Failure::NotFound) => Ok(None),
            entry => entry.map(Some),
        }
    }

    /// What differs when the entry does.
    pub(super) fn state(self) -> Result<String> {
        Ok(self.entry()?.map(|entry| digest(format!("{entry:?}").as_bytes())).unwrap_or_default())
    }
}

/// Where a page begins.
struct Position {
    iterator: usize,
    index: usize,
    anchors: Vec<String>,
}

impl Position {
    fn start(iterator: usize) -> Self {
        Self { iterator, index: 0, anchors: Vec::new() }
    }

    fn parse(cursor: &str, iterators: usize) -> Option<Self> {
        let mut parts = cursor.split(':');
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| number.to_string() == text);
        let iterator = number(parts.next()?).filter(|iterator| *iterator < iterators)?;
        let index = number(parts.next()?)?;
        let marks = parts.next().filter(|marks| marks.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))?;
        let anchors: Vec<_> =
            marks.as_bytes().chunks(LENGTH).map(|mark| String::from_utf8_lossy(mark).into_owned()).collect();
        let is_valid = anchors.len() <= ANCHORS && anchors.iter().all(|anchor| anchor.len() == LENGTH);
        (is_valid && parts.next().is_none()).then_some(Self { iterator, index, anchors })
    }

    fn cursor(&self) -> String {
        format!("{}:{}:{}", self.iterator, self.index, self.anchors.concat())
    }

    /// Where the iterator has to be continued now.
    fn resume<'r, F: 'static>(self, listed: impl Iterator<Item = Listed<'r, F>>) -> Self {
        let Some(last) = self.anchors.last() else { return Self::start(self.iterator) };
        let mut seen = Vec::new();
        for (index, one) in listed.enumerate() {
            let mark = anchor(&one.path);
            if self.anchors.contains(&mark) {
                let is_last = mark == *last;
                seen.push((mark, index.saturating_add(1)));
                if is_last {
                    break;
                }
            }
        }
        for (count, anchor) in self.anchors.iter().enumerate().rev() {
            if let Some((_, index)) = seen.iter().rev().find(|(mark, _)| mark == anchor) {
                let anchors = self.anchors.iter().take(count.saturating_add(1)).cloned().collect();
                return Self { iterator: self.iterator, index: *index, anchors };
            }
        }
        // All are gone: some entries may come twice.
        Self { index: self.index.saturating_sub(self.anchors.len()), ..Self::start(self.iterator) }
    }
}

fn anchor(path: &str) -> String {
    digest(path.as_bytes()).chars().take(LENGTH).collect()
}

/// Returns the page after `cursor` of all iterators, one after the other.
pub(super) fn page<'r, F: 'static>(
    iterators: usize,
    cursor: Option<&str>,
    limit: usize,
    open: impl Fn(usize) -> Result<Box<dyn Iterator<Item = Listed<'r, F>> + 'r>>,
) -> Result<Page> {
    let foreign = || Failure::invalid("expected a cursor that this provider returned");
    let mut at = match cursor {
        None => Position::start(0),
        Some(cursor) => Position::parse(cursor, iterators).ok_or_else(foreign)?,
    };
    let mut entries = Vec::new();
    while at.iterator < iterators {
        if !at.anchors.is_empty() {
            let listed = open(at.iterator)?;
            at = at.resume(listed);
        }
        for one in open(at.iterator)?.skip(at.index) {
            if entries.len() >= limit.max(1) {
                return Ok(Page { entries, next_cursor: Some(at.cursor()) });
            }
            at.index = at.index.saturating_add(1);
            at.anchors.push(anchor(&one.path));
            if at.anchors.len() > ANCHORS {
                at.anchors.remove(0);
            }
            entries.extend(one.entry()?);
        }
        at = Position::start(at.iterator.saturating_add(1));
    }
    Ok(Page::last(entries))
}
