//! Refs in reftables: a stack of tables in which each table overrides the older ones (git's document `reftable`).
//!
//! The file `tables.list` names the tables, the oldest first. Git replaces the file atomically, and then deletes the
//! tables that it no longer names. A reader that finds a table missing reads the list again.

mod block;
mod table;

use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::files;
use crate::refs::{Reference, is_valid};
use bstr::{BStr, BString};
use gix_hash::Kind;
use std::path::Path;
use std::rc::Rc;
use table::{Table, TableIter};

/// The maximum size of the list of tables, in bytes.
const MAX_LIST_SIZE: u64 = 64 * 1024;

/// The maximum number of tables. Git merges them geometrically, so there are few.
const MAX_TABLES: usize = 1000;

/// The maximum number of times that the list is read again while git replaces it.
const MAX_ATTEMPTS: usize = 3;

/// A stack of tables.
pub(crate) struct Stack {
    /// The content of the list.
    list: Vec<u8>,
    /// The tables, the newest first.
    tables: Vec<Rc<Table>>,
}

/// The record of a ref in a table: a value, or `None` if the ref was deleted.
struct Record {
    name: BString,
    value: Option<Reference>,
}

impl Stack {
    /// Opens the stack in a directory. Tables that an earlier stack had open are reused.
    pub(crate) fn open(git_dir: &Path, cache: &Rc<BlockCache>, hash: Kind, before: Option<&Self>) -> Result<Rc<Self>> {
        let directory = git_dir.join("reftable");
        for _ in 0..MAX_ATTEMPTS {
            let list = files::read(&directory.join("tables.list"), MAX_LIST_SIZE)?.unwrap_or_default();
            if let Some(tables) = open_tables(&directory, &list, cache, hash, before)? {
                return Ok(Rc::new(Self { list, tables }));
            }
        }
        Err(Error::corrupt(directory.display(), "tables.list names a table that does not exist"))
    }

    /// Returns whether the directory still contains this stack.
    pub(crate) fn is_current(&self, git_dir: &Path) -> Result<bool> {
        let list = files::read(&git_dir.join("reftable/tables.list"), MAX_LIST_SIZE)?.unwrap_or_default();
        Ok(list == self.list)
    }

    /// Returns the content of the list, which changes with every ref.
    pub(crate) fn list(&self) -> &[u8] {
        &self.list
    }

    /// Returns the ref with a name.
    pub(crate) fn find(&self, name: &BStr) -> Result<Option<Reference>> {
        for table in &self.tables {
            let mut records = TableIter::seek(table, name)?;
            if let Some(record) = records.next().transpose()?
                && record.name == name
            {
                return Ok(record.value);
            }
        }
        Ok(None)
    }

    /// Returns an iterator over the refs after a name, sorted by name.
    pub(crate) fn iter_after(&self, name: &BStr) -> Result<StackIter> {
        let mut tables = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            let mut records = TableIter::seek(table, name)?;
            let mut next = records.next().transpose()?;
            if next.as_ref().is_some_and(|next| next.name == name) {
                next = records.next().transpose()?;
            }
            tables.push(Lookahead { next, records });
        }
        Ok(StackIter { tables })
    }
}

/// Opens the tables of a list; `None` if a table does not exist.
fn open_tables(
    directory: &Path,
    list: &[u8],
    cache: &Rc<BlockCache>,
    hash: Kind,
    before: Option<&Stack>,
) -> Result<Option<Vec<Rc<Table>>>> {
    let damaged = |fault: &str| Error::corrupt(directory.join("tables.list").display(), fault);
    let mut tables = Vec::new();
    let text = std::str::from_utf8(list).map_err(|_| damaged("expected UTF-8 text"))?;
    for name in text.lines().rev() {
        if name.is_empty() || name.contains(['/', '\\']) || tables.len() >= MAX_TABLES {
            return Err(damaged("expected at most 1000 file names"));
        }
        let path = directory.join(name);
        let open = before.and_then(|before| before.tables.iter().find(|table| table.path() == path));
        let table = match open {
            Some(table) => Rc::clone(table),
            None => match Table::open(&path, cache, hash)? {
                Some(table) => Rc::new(table),
                None => return Ok(None),
            },
        };
        tables.push(table);
    }
    Ok(Some(tables))
}

/// An iterator over the refs of a stack, sorted by name. It ends at the first damage.
pub(crate) struct StackIter {
    /// The tables, the newest first.
    tables: Vec<Lookahead>,
}

/// The records of a table, with one record of lookahead.
struct Lookahead {
    next: Option<Record>,
    records: TableIter,
}

impl StackIter {
    fn next_ref(&mut self) -> Result<Option<Reference>> {
        loop {
            let names = self.tables.iter().filter_map(|table| table.next.as_ref().map(|next| &next.name));
            let Some(name) = names.min().cloned() else { return Ok(None) };
            let mut newest = None;
            for table in &mut self.tables {
                if table.next.as_ref().is_some_and(|next| next.name == name) {
                    let record = std::mem::replace(&mut table.next, table.records.next().transpose()?);
                    newest = newest.or(record);
                }
            }
            if let Some(reference) = newest.and_then(|record| record.value)
                && is_valid(reference.name.as_ref())
            {
                return Ok(Some(reference));
            }
        }
    }
}

impl Iterator for StackIter {
    type Item = Reference;

    fn next(&mut self) -> Option<Reference> {
        self.next_ref().unwrap_or_else(|error| {
            log::warn!("refs skipped: {error}");
            self.tables.clear();
            None
        })
    }
}
