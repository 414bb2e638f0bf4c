//! Commits: who changed what, when and why, and the diff.
//!
//! First come the commit's id, parents and people, its message, indented, and which files it added, changed and
//! removed; then the diff. The whole is served as `text/x-diff`, because that is what most of it is and what clients
//! can highlight: every tool that takes a diff passes over what stands before it. The diff is against the first parent,
//! and of a commit without parents against nothing; a renamed file is one that was removed and one that was added.

use crate::error::Result;
use crate::history;
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::tree::Change;
use crate::view::patch::{self, patch};
use crate::view::text::{BoundedText, Signature, iso8601, quote, single_line};
use bstr::{BStr, ByteSlice};
use gix_hash::ObjectId;
use gix_object::{CommitRef, Kind, TagRef};
use mcp_provider::{Contents, Entry};
use std::fmt::Write;
use std::rc::Rc;

/// The MIME type of a commit.
pub(crate) const MIME_TYPE: &str = "text/x-diff";

/// How many files a commit is said to have changed.
const MAX_FILES: usize = 10_000;

/// How many bytes are shown of what stands before the diff.
const MAX_HEAD: usize = 1024 * 1024;

/// How many bytes of files are compared for one diff, but for the last of them.
const MAX_COMPARED: u64 = 32 * 1024 * 1024;

/// What the tags hold that lead to a commit.
type Tags = Vec<Rc<Vec<u8>>>;

/// A commit with its diff, of which at most so many bytes are shown.
pub(crate) fn read(repository: &Repository, max_diff: usize, rev: &BStr) -> Result<Contents> {
    let (resolved, id, tags) = find(repository, rev)?;
    let data = repository.odb.get(&id, Kind::Commit)?;
    let commit = history::decode(&data, &id, repository.hash())?;
    let is_cut_off = !commit.parents.is_empty() && repository.shallow()?.contains(&id);
    let parent = commit.parents().next().filter(|_| !is_cut_off);
    let before = parent.map(|parent| repository.tree_of_commit(&parent)).transpose()?;

    let mut head = String::new();
    for tag in &tags {
        write_tag(&mut head, repository, tag);
    }
    write_head(&mut head, &id, &commit);
    let mut changes = Vec::new();
    let mut more = false;
    repository.diff(before, Some(commit.tree()), |change| {
        more = changes.len() >= MAX_FILES;
        if !more {
            changes.push(change);
        }
        !more
    })?;
    if commit.parents.len() > 1 {
        head += "Below: what differs from the first of its parents.\n";
    }
    if is_cut_off {
        head +=
            "Below: all its files, because the history was cut off here and its parents are not in the repository.\n";
    }
    let mut text = BoundedText::new(MAX_HEAD);
    text.push(&truncate_head(head));
    for change in &changes {
        text.push(&format!("{}\t{}\n", status(change), quote("", change.path.as_ref())));
    }
    let unnamed = text.omitted();
    let mut whole = text.into_string();
    if unnamed > 0 || more {
        whole += "... and more files\n";
    }

    let mut diff = BoundedText::new(max_diff);
    let (mut compared, mut left_out) = (0_u64, 0_usize);
    for change in &changes {
        // What would be left out is not made.
        if left_out == 0 && compared < MAX_COMPARED {
            compared = compared.saturating_add(patch::cost(repository, change)?);
            diff.push(&patch(repository, change)?);
            left_out = diff.omitted();
        } else {
            left_out = left_out.saturating_add(1);
        }
    }
    if !changes.is_empty() {
        whole.push('\n');
        whole += &diff.into_string();
    }
    if left_out > 0 {
        let _ = writeln!(
            whole,
            "\nThe diff ends here, after at most {max_diff} bytes: {left_out} of the files named above are left out. \
             Read them as blob/{id}/PATH{}",
            parent.map(|parent| format!(" and blob/{parent}/PATH")).unwrap_or_default()
        );
    }
    let mut entry = entry(&resolved, rev, &id, &commit, is_cut_off);
    if unnamed > 0 || more || left_out > 0 {
        entry = entry.meta(super::TRUNCATED, true);
    }
    Ok(Contents::text(entry, whole))
}

/// The same without the content.
pub(crate) fn stat(repository: &Repository, rev: &BStr) -> Result<Entry> {
    let (resolved, id, _) = find(repository, rev)?;
    let data = repository.odb.get(&id, Kind::Commit)?;
    let commit = history::decode(&data, &id, repository.hash())?;
    let is_cut_off = !commit.parents.is_empty() && repository.shallow()?.contains(&id);
    Ok(entry(&resolved, rev, &id, &commit, is_cut_off))
}

/// The commit that a revision leads to, and the tags on the way there.
fn find(repository: &Repository, rev: &BStr) -> Result<(Rev, ObjectId, Tags)> {
    let resolved = repository.rev(rev)?;
    let mut tags = Vec::new();
    let mut bytes = 0_usize;
    // A chain of large tags would be more than memory holds; what it leads to is shown all the same.
    let keep = |tag: Rc<Vec<u8>>| {
        bytes = bytes.saturating_add(tag.len());
        if bytes <= MAX_HEAD {
            tags.push(tag);
        }
    };
    match repository.peel(resolved.id, keep)? {
        (id, Kind::Commit) => Ok((resolved, id, tags)),
        _ => Err(crate::error::Error::NotFound),
    }
}

fn entry(resolved: &Rev, rev: &BStr, id: &ObjectId, commit: &CommitRef<'_>, is_cut_off: bool) -> Entry {
    let (author, committer) = (Signature::parse(commit.author), Signature::parse(commit.committer));
    let mut entry = Entry::new("", single_line(rev))
        .title(single_line(&commit.message_summary()))
        .description(format!("Commit {id} by {} on {}", author.name, author.date()))
        .mime_type(MIME_TYPE)
        .meta(resource_entry::OBJECT, id.to_string());
    if let Some(time) = committer.time {
        entry = entry.last_modified(iso8601(gix_date::Time::new(time.seconds, 0)));
    }
    // A history that was cut off may be deepened, and then the diff is another.
    if is_cut_off { entry.subscribable() } else { resource_entry::with_mutability(entry, resolved) }
}

fn write_tag(head: &mut String, repository: &Repository, tag: &[u8]) {
    // A tag that can be followed but not taken apart is passed over: what it points to is what was asked for.
    let Ok(decoded) = TagRef::from_bytes(tag, repository.hash()) else { return };
    let _ = writeln!(head, "tag {}", single_line(decoded.name));
    if let Some(tagger) = decoded.tagger.map(Signature::parse) {
        let _ = writeln!(head, "Tagger:     {} <{}>\nTaggerDate: {}", tagger.name, tagger.email, tagger.date());
    }
    write_message(head, decoded.message.as_bstr());
}

fn write_head(head: &mut String, id: &ObjectId, commit: &CommitRef<'_>) {
    let _ = writeln!(head, "commit {id}");
    for parent in commit.parents() {
        let _ = writeln!(head, "parent {parent}");
    }
    let (author, committer) = (Signature::parse(commit.author), Signature::parse(commit.committer));
    let _ = writeln!(head, "Author:     {} <{}>\nAuthorDate: {}", author.name, author.email, author.date());
    let _ = writeln!(head, "Commit:     {} <{}>\nCommitDate: {}", committer.name, committer.email, committer.date());
    write_message(head, commit.message.as_bstr());
}

/// Indented, so that nothing in it can be taken for a part of the diff.
fn write_message(head: &mut String, message: &BStr) {
    head.push('\n');
    for text in message.trim_end().lines() {
        if head.len() > MAX_HEAD {
            break;
        }
        let shown = text.to_str_lossy();
        let _ = if shown.is_empty() { writeln!(head) } else { writeln!(head, "    {shown}") };
    }
    head.push('\n');
}

/// A message that is longer than a diff may be, cut to what is left for it.
fn truncate_head(mut head: String) -> String {
    if head.len() > MAX_HEAD {
        head.truncate(head.floor_char_boundary(MAX_HEAD.saturating_sub(64)));
        head += "\n\n    ... and more of the message\n\n";
    }
    head
}

/// What happened to a file, as `git diff --name-status` says it.
fn status(change: &Change) -> char {
    let file_type = |side: crate::tree::Side| side.mode.value() & 0o170_000;
    match (change.before, change.after) {
        (None, _) => 'A',
        (_, None) => 'D',
        (Some(before), Some(after)) if file_type(before) != file_type(after) => 'T',
        _ => 'M',
    }
}
