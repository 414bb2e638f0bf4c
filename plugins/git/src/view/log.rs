//! Histories: one commit a line, newest first.
//!
//! A line has the id, the author's date, the author's name and the subject, with a tab between them, as
//! `git log --format='%H%x09%aI%x09%an%x09%s'` gives them. Which commits there are is told in [`crate::history`].
//! One that cannot be read has its id, `unknown` for the date, and in place of the subject why it is not, in parentheses.

use crate::error::{Error, Result};
use crate::history::{self, Commit, History};
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::view::text::{BoundedText, Signature, single_line};
use bstr::{BStr, BString};
use mcp_provider::{Contents, Entry};

/// The history of a revision.
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
            (Err(Error::TooLarge { size, .. }), _) => format!("{id}\tunknown\t\t(not read: it has {size} bytes)\n"),
            (Err(Error::Missing(_)), _) => format!("{id}\tunknown\t\t(not read: it is missing)\n"),
            _ => format!("{id}\tunknown\t\t(not read: it is damaged)\n"),
        });
    }
    let mut contents = super::bounded_contents(entry(repository, &resolved, rev, path)?, text);
    if history.has_more() {
        contents.entry = contents.entry.meta(super::MORE, true);
    }
    Ok(contents)
}

/// The same without the content.
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
    // A history that was cut off may be deepened, so even that of a full id may change.
    Ok(if repository.shallow()?.is_empty() {
        resource_entry::with_mutability(entry, resolved)
    } else {
        entry.subscribable()
    })
}
