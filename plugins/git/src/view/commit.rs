//! Commits: author, message and diff.
//!
//! A commit is shown as its id, parents and people, its indented message, and its added, modified and removed files;
//! then the diff. The MIME type is `text/x-diff`, because most of the text is a diff that clients can highlight; diff
//! tools skip the text before the first header. The diff is against the first parent, or against the empty tree for a
//! root commit. A renamed file is shown as one removed and one added file.

use crate::commits;
use crate::error::Result;
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::view::changes::{Changes, MAX_HEAD};
use crate::view::text::{Signature, iso8601, single_line};
use bstr::{BStr, ByteSlice};
use gix_hash::ObjectId;
use gix_object::{CommitRef, Kind, TagRef};
use mcp_provider::{Contents, Entry};
use std::fmt::Write;
use std::rc::Rc;

/// The MIME type of a commit.
pub(crate) const MIME_TYPE: &str = "text/x-diff";

/// The contents of the tags on the way to a commit.
type Tags = Vec<Rc<Vec<u8>>>;

/// Reads a commit with its diff, of which at most `max_diff` bytes are shown.
pub(crate) fn read(repository: &Repository, max_diff: usize, rev: &BStr) -> Result<Contents> {
    let (resolved, id, tags) = find(repository, rev)?;
    let data = repository.odb.get(&id, Kind::Commit)?;
    let commit = commits::decode(&data, &id, repository.hash())?;
    let is_cut_off = !commit.parents.is_empty() && repository.shallow()?.contains(&id);
    let parent = commit.parents().next().filter(|_| !is_cut_off);
    let before = parent.map(|parent| repository.tree_of_commit(&parent)).transpose()?;

    let mut head = String::new();
    for tag in &tags {
        write_tag(&mut head, repository, tag);
    }
    write_head(&mut head, &id, &commit);
    let changes = Changes::between(repository, before, Some(commit.tree()))?;
    if commit.parents.len() > 1 {
        head += "Below: the differences from its first parent.\n";
    }
    if is_cut_off {
        head += "Below: all its files, because the clone is shallow and its parents are not in the repository.\n";
    }
    let help = || {
        let parent = parent.map(|parent| format!(" and blob/{parent}/PATH")).unwrap_or_default();
        format!("Read them as blob/{id}/PATH{parent}")
    };
    let written = changes.write(repository, &truncate_head(head), max_diff, help)?;
    let mut entry = entry(&resolved, rev, &id, &commit, is_cut_off);
    if written.is_truncated {
        entry = super::truncated(
            entry,
            format!("the differences are beyond {max_diff} bytes; its end names the files left out"),
        );
    }
    Ok(Contents::text(entry, written.text))
}

/// Returns the metadata of a commit.
pub(crate) fn stat(repository: &Repository, rev: &BStr) -> Result<Entry> {
    let (resolved, id, _) = find(repository, rev)?;
    let data = repository.odb.get(&id, Kind::Commit)?;
    let commit = commits::decode(&data, &id, repository.hash())?;
    let is_cut_off = !commit.parents.is_empty() && repository.shallow()?.contains(&id);
    Ok(entry(&resolved, rev, &id, &commit, is_cut_off))
}

/// Peels a revision to a commit, and collects the tags on the way.
fn find(repository: &Repository, rev: &BStr) -> Result<(Rev, ObjectId, Tags)> {
    let resolved = repository.rev(rev)?;
    let mut tags = Vec::new();
    let mut bytes = 0_usize;
    // A chain of large tags could exceed the memory. In that case, the later tags are not shown.
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
    // A shallow history may be deepened, which changes the diff.
    if is_cut_off { entry.subscribable() } else { resource_entry::with_mutability(entry, resolved) }
}

fn write_tag(head: &mut String, repository: &Repository, tag: &[u8]) {
    // A tag that can be peeled but not decoded is skipped: the client requested the commit.
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

/// Writes the message, indented so that no line can be mistaken for a part of the diff.
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

/// Truncates a head that exceeds the limit. The cut is within the message.
fn truncate_head(mut head: String) -> String {
    if head.len() > MAX_HEAD {
        head.truncate(head.floor_char_boundary(MAX_HEAD.saturating_sub(64)));
        head += "\n\n    ... message truncated\n\n";
    }
    head
}
