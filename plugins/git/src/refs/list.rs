//! Iteration over all served refs below `refs/`, sorted by name, starting after any name.
//!
//! Everything is read lazily. Loose refs are one file each: names are read and sorted one directory at a time, and a
//! ref's file is read only when the iterator reaches it. `packed-refs` is read from the position of the start name. The
//! cost therefore depends on the number of refs consumed.

use crate::error::{Error, Result};
use crate::files;
use crate::refs::packed::PackedIter;
use crate::refs::reftable::StackIter;
use crate::refs::{MAX_LOOSE_SIZE, PER_WORKTREE, RefStorage, Reference, Refs};
use bstr::{BStr, BString, ByteSlice};
use std::cmp::Ordering;
use std::iter::Peekable;

/// The maximum depth of ref directories.
const MAX_DEPTH: usize = 64;

/// The maximum number of names of one directory in memory. The names after them are read when these are consumed.
const MAX_BUFFERED_NAMES: usize = 100_000;

/// An iterator over the refs after a name. Damaged refs are skipped with a warning.
pub(crate) struct RefIter<'a> {
    refs: &'a Refs<'a>,
    source: Source<'a>,
    loose_reads: usize,
}

/// The source of the refs.
enum Source<'a> {
    Files { loose: Peekable<LooseNames<'a>>, packed: Option<Peekable<PackedIter<'a>>> },
    Tables(Tables),
}

/// The refs in reftables: the repository's tables, and the linked worktree's own tables.
pub(super) struct Tables {
    shared: Peekable<StackIter>,
    own: Option<Peekable<StackIter>>,
}

/// An iterator over the names of loose refs, sorted. A file may contain no ref.
pub(crate) struct LooseNames<'a> {
    refs: &'a Refs<'a>,
    levels: Vec<Level>,
}

/// A directory of loose refs.
struct Level {
    /// The directory's path, with a trailing slash.
    directory: String,
    /// The next names in the directory, in reverse order. Names of directories end with a slash.
    pending: Vec<String>,
    /// Whether there are more after `pending`.
    has_more: bool,
}

impl<'a> RefIter<'a> {
    /// Creates an iterator over the refs after a name, with the current `packed-refs`. An empty name starts at the
    /// beginning.
    pub(super) fn of_files(refs: &'a Refs<'a>, packed: Option<PackedIter<'a>>, behind: &BStr) -> Self {
        let loose = LooseNames::new(refs, behind).peekable();
        Self { refs, source: Source::Files { loose, packed: packed.map(Iterator::peekable) }, loose_reads: 0 }
    }

    /// Creates an iterator over the refs in reftables.
    pub(super) fn of_tables(refs: &'a Refs<'a>, tables: Tables) -> Self {
        Self { refs, source: Source::Tables(tables), loose_reads: 0 }
    }

    /// Returns the number of loose ref files read so far.
    pub(crate) fn loose_reads(&self) -> usize {
        self.loose_reads
    }

    /// Returns the next ref, whether or not it is served.
    fn next_ref(&mut self) -> Option<Reference> {
        let (loose, packed) = match &mut self.source {
            Source::Tables(tables) => return tables.next_ref(),
            Source::Files { loose, packed } => (loose, packed),
        };
        loop {
            let order = next_order(loose, packed)?;
            let packed = match order {
                Ordering::Less | Ordering::Equal => packed.as_mut().and_then(Iterator::next).and_then(Result::ok),
                Ordering::Greater => None,
            };
            if order == Ordering::Less {
                return packed;
            }
            // A loose ref takes precedence over a packed one with the same name, unless the loose one is damaged.
            let name = loose.next()?;
            self.loose_reads = self.loose_reads.saturating_add(1);
            let found = self.refs.find(name.as_str().into());
            let found = found.inspect_err(|error| log::warn!("ref skipped: {error}")).ok().flatten();
            if let Some(found) = found.or(packed) {
                return Some(found);
            }
        }
    }
}

impl Iterator for RefIter<'_> {
    type Item = Reference;

    fn next(&mut self) -> Option<Reference> {
        loop {
            let found = self.next_ref()?;
            if self.refs.filter.allows(found.name.as_ref()) {
                return Some(found);
            }
        }
    }
}

/// Finds the next valid packed ref, and returns the order of its name relative to the next loose one.
fn next_order(loose: &mut Peekable<LooseNames<'_>>, packed: &mut Option<Peekable<PackedIter<'_>>>) -> Option<Ordering> {
    let packed = loop {
        match packed.as_mut().and_then(Peekable::peek) {
            Some(Err(error)) => log::warn!("ref skipped: {error}"),
            Some(Ok(packed)) => break Some(packed),
            None => break None,
        }
        packed.as_mut().and_then(Iterator::next);
    };
    match (packed, loose.peek()) {
        (None, None) => None,
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (Some(packed), Some(loose)) => Some(packed.name.as_bytes().cmp(loose.as_bytes())),
    }
}

impl Tables {
    /// Returns the next ref below `refs/`. A ref's name determines whether the repository's or the worktree's tables
    /// contain it.
    fn next_ref(&mut self) -> Option<Reference> {
        let is_per_worktree = |found: &Reference| PER_WORKTREE.iter().any(|prefix| found.name.starts_with_str(prefix));
        let is_below_refs = |found: &Reference| found.name.starts_with_str("refs/");
        let Some(own) = &mut self.own else {
            return self.shared.find(is_below_refs);
        };
        while self.shared.next_if(|found| !is_below_refs(found) || is_per_worktree(found)).is_some() {}
        while own.next_if(|found| !is_per_worktree(found)).is_some() {}
        match (self.shared.peek(), own.peek()) {
            (Some(shared), Some(own_ref)) if own_ref.name < shared.name => own.next(),
            (None, _) => own.next(),
            _ => self.shared.next(),
        }
    }
}

impl<'a> LooseNames<'a> {
    fn new(refs: &'a Refs<'a>, behind: &BStr) -> Self {
        let mut names = Self { refs, levels: Vec::new() };
        // A lossy conversion is fine: no UTF-8 names follow a name that is not UTF-8.
        names.enter("refs/".to_owned(), &behind.to_str_lossy());
        names
    }

    /// Enters a directory of refs, at the names after `behind`.
    fn enter(&mut self, directory: String, behind: &str) {
        if self.levels.len() > MAX_DEPTH {
            return log::warn!("refs in {directory} skipped: nested more than {MAX_DEPTH} directories deep");
        }
        let (ahead, goes_on) = self.read(&directory, behind);
        let first = ahead.last().map(|name| [directory.as_str(), name].concat());
        self.levels.push(Level { directory, pending: ahead, has_more: goes_on });
        // Directories on the path to the start name are entered now, because the rest of the start name is known only
        // here.
        if let Some(first) =
            first.filter(|first| first.ends_with('/') && behind.len() > first.len() && behind.starts_with(first))
        {
            self.levels.last_mut().and_then(|level| level.pending.pop());
            self.enter(first, behind);
        }
    }

    /// Reads the names in a directory after `behind`, in reverse order, and whether there are more.
    fn read(&self, directory: &str, behind: &str) -> (Vec<String>, bool) {
        let mut names: Vec<String> = Vec::new();
        let at = |name: &str| [directory, name].concat();
        let mut add = |mut name: String, is_directory: bool| {
            if is_directory {
                name.push('/');
            }
            let full = at(&name);
            let is_on_the_way = is_directory && behind.len() > full.len() && behind.starts_with(&full);
            if full.as_str() > behind || is_on_the_way {
                names.push(name);
            }
        };
        // Links to directories are not followed, which prevents cycles.
        let path = self.refs.directory(directory.into()).join(directory.trim_end_matches('/'));
        if let Err(error) = files::for_each(&path, |file| add(file.name, file.is_directory)) {
            log::warn!("refs in {directory} skipped: {error}");
        }
        if directory == "refs/" && self.refs.layout.git_dir != self.refs.layout.common_dir {
            for name in PER_WORKTREE {
                add(name.trim_start_matches("refs/").trim_end_matches('/').to_owned(), true);
            }
        }
        names.sort_unstable();
        names.dedup();
        let goes_on = names.len() > MAX_BUFFERED_NAMES;
        names.truncate(MAX_BUFFERED_NAMES);
        names.reverse();
        (names, goes_on)
    }
}

impl Iterator for LooseNames<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let level = self.levels.last_mut()?;
            let directory = level.directory.clone();
            let Some(name) = level.pending.pop() else {
                self.levels.pop();
                continue;
            };
            let full = [directory.as_str(), &name].concat();
            if level.pending.is_empty() && level.has_more {
                let (ahead, goes_on) = self.read(&directory, &full);
                if let Some(level) = self.levels.last_mut() {
                    (level.pending, level.has_more) = (ahead, goes_on);
                }
            }
            if full.ends_with('/') {
                self.enter(full, "");
            } else if super::is_valid(full.as_str().into()) {
                return Some(full);
            }
        }
    }
}

impl Refs<'_> {
    /// Returns an iterator over the names of loose refs, sorted.
    pub(crate) fn loose_names(&self) -> LooseNames<'_> {
        LooseNames::new(self, BStr::new(""))
    }

    /// Returns the refs in reftables after a name.
    pub(super) fn tables_after(&self, name: &BStr) -> Result<Tables> {
        let after = |top: &str| Ok::<_, Error>(self.stack(top.into())?.iter_after(name)?.peekable());
        let is_linked = self.layout.git_dir != self.layout.common_dir;
        Ok(Tables { shared: after("refs/heads/")?, own: is_linked.then(|| after("refs/worktree/")).transpose()? })
    }

    /// Returns the names of all served refs, sorted.
    pub(crate) fn names(&self) -> Result<Vec<BString>> {
        if self.storage == RefStorage::Reftable {
            return self.with_refs_after("".into(), |all| Ok(all.map(|found| found.name).collect()));
        }
        let packed = self.packed()?;
        let packed = packed.iter().flat_map(|packed| packed.iter()).filter_map(Result::ok).map(|found| found.name);
        let mut names: Vec<BString> = packed.chain(self.loose_names().map(BString::from)).collect();
        names.retain(|name| self.filter.allows(name.as_ref()));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Reads the file of a loose ref.
    pub(super) fn loose_content(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path(name.into())?;
        files::read(&path, MAX_LOOSE_SIZE).unwrap_or_else(|error| {
            log::warn!("ref skipped: {error}");
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::block_cache::BlockCache;
    use crate::layout::Layout;
    use crate::refs::{RefFilter, RefStorage, Refs};
    use gix_hash::Kind;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::fs;

    const ID: &str = "1234567890123456789012345678901234567890";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn behind_any_ref_come_those_that_are_behind_it(
            names in proptest::collection::btree_set("(heads|tags)/([ab-]{1,2}/){0,2}x[ab-]{0,2}", 0..20),
            is_loose in proptest::collection::vec(proptest::bool::ANY, 20),
            sorted in proptest::bool::ANY,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let names: BTreeSet<String> = names.into_iter().map(|name| format!("refs/{name}")).collect();
            let mut packed = if sorted { "# pack-refs with: sorted \n".to_owned() } else { String::new() };
            let all: Vec<&String> = names.iter().collect();
            for (name, is_loose) in all.iter().rev().zip(&is_loose) {
                if *is_loose {
                    fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
                    fs::write(dir.path().join(name), ID).unwrap();
                }
            }
            let mut lines: Vec<_> = all.iter().rev().zip(&is_loose).filter(|(_, loose)| !**loose).map(|(name, _)| name).collect();
            if sorted {
                lines.sort();
            }
            lines.iter().for_each(|name| packed += &format!("{ID} {name}\n"));
            fs::write(dir.path().join("packed-refs"), packed).unwrap();
            let layout = Layout { git_dir: dir.path().to_owned(), common_dir: dir.path().to_owned() };
            let blocks = BlockCache::new();
            let filter = RefFilter::default();
            let refs = Refs::new(&layout, &blocks, Kind::Sha1, RefStorage::Files, &filter);
            for at in 0..=all.len() {
                let behind = at.checked_sub(1).map_or("", |last| all[last].as_str());
                let found = refs.with_refs_after(behind.into(), |all| Ok(all.map(|found| found.name.to_string()).collect::<Vec<_>>()));
                let expected: Vec<String> = all[at..].iter().map(ToString::to_string).collect();
                prop_assert_eq!(found.unwrap(), expected);
            }
        }
    }
}
