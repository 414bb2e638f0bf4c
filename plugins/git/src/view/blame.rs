//! The origins of a file's lines, one line per line: id, author's date, author, line number and text, separated by
//! tabs.
//!
//! The commits are the same as in `git blame`. An id with a leading `^` is the commit at which the search ended before
//! the origin was found, or at which a shallow clone ends: the line is from this commit or an older one. Bytes that are
//! not UTF-8 become replacement characters.

use crate::blame::{Blame, MAX_FILE, Origin};
use crate::commits;
use crate::error::{Error, Result};
use crate::paths::LineRange;
use crate::repo::Repository;
use crate::rev::Rev;
use crate::similarity;
use crate::tree;
use crate::view::text::{BoundedText, Signature, single_line};
use bstr::{BStr, ByteSlice};
use gix_object::Kind;
use mcp_provider::{Contents, Entry, Notice};
use std::collections::HashMap;

/// Reads the origins of some lines of a file.
pub(crate) fn read(repository: &Repository, rev: &BStr, path: &BStr, lines: LineRange) -> Result<Contents> {
    let (resolved, found) = find(repository, rev, path)?;
    if let Some(size) = repository.odb.size(&found.id)?.filter(|size| *size > MAX_FILE) {
        let what = format!("{:?}", single_line(path));
        return Err(Error::TooLarge {
            what,
            size,
            limit: MAX_FILE,
            help: "read the file itself, as blob/{rev}/{path}",
        });
    }
    let data = repository.odb.get(&found.id, Kind::Blob)?;
    if similarity::is_binary(&data) {
        return Err(Error::Invalid(format!("{:?} is a binary file and has no lines", single_line(path))));
    }
    let all: Vec<&[u8]> = data.lines_with_terminator().collect();
    let shown = lines.of(u32::try_from(all.len()).unwrap_or(u32::MAX));
    if shown.is_empty() && !all.is_empty() {
        return Err(Error::Invalid(format!(
            "{:?} has {} lines, found others in `lines`",
            single_line(path),
            all.len()
        )));
    }
    let commit = repository.commit_of(resolved.id)?;
    let blame = Blame::new(repository, commit, path.to_owned(), found.id, shown.clone())?;
    let (shallow, mut is_cut_off) = (repository.shallow()?, false);
    let mut people = HashMap::new();
    let mut text = BoundedText::new(super::MAX_TEXT);
    for Origin { id, lines, is_final } in &blame.origins {
        let is_boundary = *is_final && shallow.contains(id);
        is_cut_off |= is_boundary;
        let person = match people.get(id) {
            Some(person) => person,
            None => people.entry(*id).or_insert(author(repository, id)?),
        };
        let mark = if *is_final && !is_boundary { "" } else { "^" };
        for number in lines.clone() {
            let line = all.get(number as usize).copied().unwrap_or_default();
            let line = line.strip_suffix(b"\n").unwrap_or(line).to_str_lossy();
            text.push(&format!("{mark}{id}\t{person}\t{}\t{line}\n", number.saturating_add(1)));
        }
    }
    let is_incomplete = blame.origins.iter().any(|origin| !origin.is_final);
    if is_incomplete {
        text.push(&super::incomplete(repository, "lines with `^` are from that commit or an older one"));
    }
    if is_cut_off {
        text.push(&super::cut_off("lines with `^` are from that commit or an older one"));
    }
    let entry = entry(repository, &resolved, rev, path)?;
    let mut contents = super::bounded_contents(entry, text);
    if is_cut_off {
        let why = "the clone is shallow: lines with `^` before the id are from that commit or an older one";
        contents.entry = contents.entry.notice(Notice::incomplete(why).in_text());
    }
    if is_incomplete {
        let why = "a limit ended the search: lines with `^` before the id are from that commit or an older one";
        contents.entry = contents.entry.meta(super::MORE, true).notice(Notice::incomplete(why).in_text());
    }
    Ok(contents)
}

/// Returns the metadata of the origins of a file's lines.
pub(crate) fn stat(repository: &Repository, rev: &BStr, path: &BStr) -> Result<Entry> {
    let (resolved, _) = find(repository, rev, path)?;
    repository.commit_of(resolved.id)?;
    entry(repository, &resolved, rev, path)
}

/// Finds the file. Links and submodules are rejected: they have no lines.
fn find(repository: &Repository, rev: &BStr, path: &BStr) -> Result<(Rev, tree::Entry)> {
    let resolved = repository.rev(rev)?;
    match super::entry_at(repository, repository.tree_of(resolved.id)?, path)? {
        found if found.mode.is_blob() => Ok((resolved, found)),
        _ => Err(super::wrong_kind(path, "no file", "only files have lines")),
    }
}

/// Returns the date and the author of a commit.
fn author(repository: &Repository, id: &gix_hash::ObjectId) -> Result<String> {
    let data = repository.odb.get(id, Kind::Commit)?;
    let author = Signature::parse(commits::decode(&data, id, repository.hash())?.author);
    Ok(format!("{}\t{}", author.date(), author.name))
}

fn entry(repository: &Repository, resolved: &Rev, rev: &BStr, path: &BStr) -> Result<Entry> {
    let (path, rev) = (single_line(path), single_line(rev));
    let entry = Entry::new("", format!("blame of {path}")).title(format!("Origins of the lines of {path} at {rev}"));
    super::with_history_mutability(repository, entry.mime_type("text/plain"), resolved)
}
