//! Histories: one commit per line, newest first.
//!
//! A line consists of the id, the author date, the author name and the subject, separated by tabs, as in `git log
//! --format='%H%x09%aI%x09%an%x09%s'`. The order and selection of commits are documented in [`crate::history`]. An
//! unreadable commit is shown with its id, the date `unknown`, and the reason in parentheses in place of the subject.

use crate::error::{Error, Result};
use crate::history::{self, Commit, History};
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::view::text::{BoundedText, Signature, single_line};
use bstr::{BStr, BString};
use mcp_provider::{Contents, Entry};

/// Reads the history of a revision.
pub(crate) fn read(repository: &Repository, rev: &BStr, path: Option<&BString>, limit: usize) -> Result<Contents> {
    let resolved = repository.rev(rev)?;
    let mut history = History::new(repository, repository.commit_of(resolved.id)?, path.cloned())?;
    let mut text = BoundedText::new(super::MAX_TEXT);
    for Commit { id, data } in history.by_ref().take(limit) {
        let decoded = data.as_ref().ok().map(|data| history::decode(data, &id, repository.hash()));
        text.push(&match (&data, decoded) {
            (Ok(_), Some(Ok(commit))) => {
                let (author, subject) = (Signature::parse(commit.author), single_line(&commit.message_summary()));
                format!("{id}\t{}\t{}\t{subject}\n", author.date(), author.name)
            }
            (Err(Error::TooLarge { size, .. }), _) => format!("{id}\tunknown\t\t(not read: {size} bytes)\n"),
            (Err(Error::Missing(_)), _) => format!("{id}\tunknown\t\t(not read: missing)\n"),
            _ => format!("{id}\tunknown\t\t(not read: damaged)\n"),
        });
    }
    let mut contents = super::bounded_contents(entry(repository, &resolved, rev, path)?, text);
    if history.has_more() {
        contents.entry = contents.entry.meta(super::MORE, true);
    }
    Ok(contents)
}

/// Returns the metadata of a history.
pub(crate) fn stat(repository: &Repository, rev: &BStr, path: Option<&BString>) -> Result<Entry> {
    let resolved = repository.rev(rev)?;
    repository.commit_of(resolved.id)?;
    entry(repository, &resolved, rev, path)
}

fn entry(repository: &Repository, resolved: &Rev, rev: &BStr, path: Option<&BString>) -> Result<Entry> {
    let title = match path {
        Some(path) => format!("History of {} at {}", single_line(path), single_line(rev)),
        None => format!("History of {}", single_line(rev)),
    };
    let entry = Entry::new("", format!("log of {}", single_line(rev))).title(title).mime_type("text/plain");
    // A shallow history may be deepened, so even that of a full id may change.
    Ok(if repository.shallow()?.is_empty() {
        resource_entry::with_mutability(entry, resolved)
    } else {
        entry.subscribable()
    })
}
