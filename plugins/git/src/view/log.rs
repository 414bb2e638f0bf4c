//! Histories: one commit per line, newest first.
//!
//! A line consists of the id, the author date, the author name and the subject, separated by tabs, as in `git log
//! --format='%H%x09%aI%x09%an%x09%s'`. The order and selection of commits are documented in [`crate::history`]. An
//! unreadable commit is shown with its id, the date `unknown`, and the reason in parentheses in place of the subject.

use crate::commits;
use crate::error::{Error, Result};
use crate::history::{self, History};
use crate::paths::{LogRange, log_after};
use crate::repo::Repository;
use crate::rev::Rev;
use crate::view::text::{BoundedText, Signature, single_line};
use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;
use mcp_provider::{Contents, Entry, Notice};

/// A request for a history.
pub(crate) struct Query<'q> {
    /// The revision whose history is excluded.
    pub(crate) since: Option<&'q BString>,
    /// The revision.
    pub(crate) rev: &'q BString,
    /// The path whose changes are shown.
    pub(crate) path: Option<&'q BString>,
    /// Whether renames of the file at the path are followed.
    pub(crate) follow: bool,
}

/// Reads the history of a revision.
pub(crate) fn read(repository: &Repository, query: &Query<'_>, range: LogRange) -> Result<Contents> {
    let Resolved { rev, commit, excluded } = resolve(repository, query)?;
    let path = query.path.cloned();
    let mut history = History::new(repository, history::Query { commit, excluded, path, follow: query.follow })?;
    let mut text = BoundedText::new(super::MAX_TEXT);
    let skipped = history.skip_commits(range.skip);
    let mut shown = 0_usize;
    for history::Entry { id, data } in history.by_ref().take(range.limit) {
        shown = shown.saturating_add(1);
        let decoded = data.as_ref().ok().map(|data| commits::decode(data, &id, repository.hash()));
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
    // `next` is set only if the range is full: after an end at a limit for one response, the next page would end there,
    // too.
    let is_full = skipped == range.skip && shown == range.limit;
    let has_ended = !is_full && history.ended_at_limit();
    if has_ended {
        text.push(&super::incomplete(repository, "there may be further commits"));
    }
    let is_cut_off = !history.has_more() && excluded.is_none() && !repository.shallow()?.is_empty();
    if is_cut_off {
        text.push(&super::cut_off("older commits are missing"));
    }
    let mut contents = super::bounded_contents(entry(repository, &rev, query)?, text);
    if is_cut_off {
        let notice = Notice::incomplete("the clone is shallow: older commits are missing").in_text();
        contents.entry = contents.entry.notice(notice);
    }
    if history.has_more() {
        contents.entry = contents.entry.meta(super::MORE, true);
        let path = query.path.map(|path| path.as_bstr());
        let next = log_after((&commit, excluded.as_ref()), path, range, query.follow).filter(|_| is_full);
        contents.entry = match next {
            Some(next) => {
                let notice = Notice::cut(format!("{shown} commits from {} on", range.skip)).next(next.as_str());
                contents.entry.meta(super::NEXT, next).notice(notice)
            }
            None => {
                let why = "a limit of time or commits ended the search: older commits may be missing";
                let notice = Notice::incomplete(why);
                contents.entry.notice(if has_ended { notice.in_text() } else { notice })
            }
        };
    }
    Ok(contents)
}

/// Returns the metadata of a history.
pub(crate) fn stat(repository: &Repository, query: &Query<'_>) -> Result<Entry> {
    entry(repository, &resolve(repository, query)?.rev, query)
}

/// The commits of a query.
struct Resolved {
    rev: Rev,
    commit: ObjectId,
    excluded: Option<ObjectId>,
}

fn resolve(repository: &Repository, query: &Query<'_>) -> Result<Resolved> {
    let mut rev = repository.rev(query.rev.as_ref())?;
    let commit = repository.commit_of(rev.id)?;
    let excluded = match query.since {
        Some(since) => {
            let since = repository.rev(since.as_ref())?;
            rev.is_full_id &= since.is_full_id;
            Some(repository.commit_of(since.id)?)
        }
        None => None,
    };
    if let Some(path) = query.path.filter(|_| query.follow)
        && let Some(found) = repository.entry(repository.tree_of_commit(&commit)?, path.as_ref())?
        && found.mode.is_tree()
    {
        return Err(Error::Invalid(format!("{:?} is a directory: `follow=true` is for files", single_line(path))));
    }
    Ok(Resolved { rev, commit, excluded })
}

fn entry(repository: &Repository, resolved: &Rev, query: &Query<'_>) -> Result<Entry> {
    let rev = single_line(query.rev);
    let range = query.since.map_or_else(|| rev.clone(), |since| format!("{}..{rev}", single_line(since)));
    let title = match query.path {
        Some(path) => format!("History of {} at {range}", single_line(path)),
        None => format!("History of {range}"),
    };
    let entry = Entry::new("", format!("log of {range}")).title(title).mime_type("text/plain");
    super::with_history_mutability(repository, entry, resolved)
}
