//! Histories: one commit a line, newest first.
//!
//! A line has the id, the author's date, the author's name and the subject, with a tab between them, as
//! `git log --format='%H%x09%aI%x09%an%x09%s'` gives them. Which commits there are is told in [`crate::history`].

use crate::error::Result;
use crate::history::{self, History};
use crate::present;
use crate::repo::Repository;
use crate::rev::Rev;
use crate::view::text::{Person, Text, line};
use bstr::{BStr, BString};
use mcp_provider::{Contents, Entry};

/// Said of a log behind whose last commit the history goes on, so that a greater limit, or a log of that commit, may
/// have more.
const MORE: &str = "git/more";

/// The history of a revision.
pub(crate) fn read(repository: &Repository, rev: &BStr, path: Option<&BString>, limit: usize) -> Result<Contents> {
    let resolved = repository.rev(rev)?;
    let mut history = History::new(repository, repository.commit_of(resolved.id)?, path.cloned())?;
    let mut text = Text::new(super::MOST_TEXT);
    for commit in history.by_ref().take(limit) {
        let commit = commit?;
        let decoded = history::decode(&commit.data, &commit.id, repository.hash())?;
        let author = Person::parse(decoded.author);
        let subject = line(&decoded.message_summary());
        text.push(&format!("{}\t{}\t{}\t{subject}\n", commit.id, author.date(), author.name));
    }
    let mut contents = super::cut(entry(repository, &resolved, rev, path)?, text);
    if history.goes_on() {
        contents.entry = contents.entry.meta(MORE, true);
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
        Some(path) => format!("History of {} at {}", line(path), line(rev)),
        None => format!("History of {}", line(rev)),
    };
    let entry = Entry::new("", format!("log of {}", line(rev))).title(title).mime_type("text/plain");
    // A history that was cut off may be deepened, so even that of a full id may change.
    Ok(if repository.shallow()?.is_empty() { present::lasting(entry, resolved) } else { entry.subscribable() })
}
