//! Contents and metadata of resources.

mod blame;
mod blob;
mod changes;
mod commit;
mod diff;
mod hunks;
mod log;
mod patch;
mod refs;
mod text;
mod tree;

use crate::error::{Error, Result};
use crate::paths::Address;
use crate::repo::Repository;
use crate::resource_entry;
use crate::rev::Rev;
use crate::settings::Settings;
use crate::tree::Entry as TreeEntry;
use bstr::BStr;
pub(crate) use commit::MIME_TYPE as COMMIT;
pub(crate) use diff::MIME_TYPE as DIFF;
use gix_hash::ObjectId;
use mcp_provider::{Contents, Entry, Notice};
use text::{BoundedText, single_line};

/// The metadata key that marks truncated text.
const TRUNCATED: &str = "git/truncated";

/// The metadata key that marks a log, a blame or refs with further items.
const MORE: &str = "git/more";

/// The metadata key of the path at which a log or the refs continue.
const NEXT: &str = "git/next";

/// The maximum size of a directory, a log or the refs as text, in bytes.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// Reads a resource. The caller sets the path in its entry.
pub(crate) fn read(repository: &Repository, settings: &Settings, address: &Address) -> Result<Contents> {
    match address {
        Address::Blob { rev, path } => blob::read(repository, settings.max_blob, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::read(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::read(repository, settings.max_diff, rev.as_ref()),
        Address::Log { since, rev, path, range, follow } => {
            let query = log::Query { since: since.as_ref(), rev, path: path.as_ref(), follow: *follow };
            log::read(repository, &query, *range)
        }
        Address::Diff { before, after, path } => {
            diff::read(repository, settings.max_diff, before.as_ref(), after.as_ref(), path.as_ref())
        }
        Address::Blame { rev, path, lines } => blame::read(repository, rev.as_ref(), path.as_ref(), *lines),
        Address::Refs { after } => refs::read(repository, after.as_ref()),
    }
}

/// Returns the metadata of a resource. The caller sets the path in the entry.
pub(crate) fn stat(repository: &Repository, address: &Address) -> Result<Entry> {
    match address {
        Address::Blob { rev, path } => blob::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Tree { rev, path } => tree::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Commit { rev } => commit::stat(repository, rev.as_ref()),
        Address::Log { since, rev, path, follow, .. } => {
            log::stat(repository, &log::Query { since: since.as_ref(), rev, path: path.as_ref(), follow: *follow })
        }
        Address::Diff { before, after, path } => diff::stat(repository, before.as_ref(), after.as_ref(), path.as_ref()),
        Address::Blame { rev, path, .. } => blame::stat(repository, rev.as_ref(), path.as_ref()),
        Address::Refs { .. } => Ok(refs::stat()),
    }
}

/// Returns the entry at a path of a tree.
fn entry_at(repository: &Repository, tree: ObjectId, path: &BStr) -> Result<TreeEntry> {
    repository.entry(tree, path)?.ok_or_else(|| {
        ::log::debug!("{:?} is not in the tree {tree}", single_line(path));
        Error::NotFound
    })
}

/// Creates the error for a path whose family does not match the kind of the entry.
fn wrong_kind(path: &BStr, found: &str, help: &str) -> Error {
    Error::Invalid(format!("{:?} is {found}: {help}", single_line(path)))
}

/// Marks an entry that depends on history as immutable or as subscribable. A shallow history may be deepened, so an
/// entry at a full id may change, too.
fn with_history_mutability(repository: &Repository, entry: Entry, rev: &Rev) -> Result<Entry> {
    Ok(match repository.shallow()?.is_empty() {
        true => resource_entry::with_mutability(entry, rev),
        false => entry.subscribable(),
    })
}

/// Returns the last line of a text whose search ended at a limit: the missing part, and the remedy.
fn incomplete(repository: &Repository, missing: &str) -> String {
    let next = match repository.learned().is_kept() {
        true => "; what it found is kept, so that the next request for this goes on from there",
        false => "",
    };
    let help = match repository.commit_graph() {
        Some(_) => "",
        None => {
            "; the repository has no commit-graph, with which this is faster: git commit-graph write --reachable --changed-paths"
        }
    };
    format!(
        "# This is not complete, as the search ended at a limit of one call (time: half of the plugin's `limits.cpu` or \
         `limits.deadline`): {missing}{next}{help}\n"
    )
}

/// Returns the last line of a text that ends where a shallow clone ends: the missing part.
fn cut_off(missing: &str) -> String {
    format!("# This is not complete, as the clone is shallow: {missing}; git fetch --unshallow completes it\n")
}

/// Marks an entry whose text was truncated.
fn truncated(entry: Entry, why: impl Into<String>) -> Entry {
    entry.meta(TRUNCATED, true).notice(Notice::cut(why))
}

/// Creates text contents, marked if the text was truncated.
fn bounded_contents(entry: Entry, text: BoundedText) -> Contents {
    let entry = match text.omitted() {
        0 => entry,
        lines => truncated(entry, format!("{lines} further lines are beyond {MAX_TEXT} bytes")),
    };
    Contents::text(entry, text.into_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    /// Creates a repository with two commits of one file.
    fn create(dir: &Path) {
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(dir).args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).args(args);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            assert!(git.status().unwrap().success(), "{args:?}");
        };
        git(&["init", "--quiet", "--initial-branch=main"]);
        for text in ["one\n", "one\ntwo\n"] {
            std::fs::write(dir.join("a.txt"), text).unwrap();
            git(&["add", "a.txt"]);
            git(&["commit", "--quiet", "-m", text.trim()]);
        }
    }

    #[test]
    fn a_search_that_ended_at_a_limit_says_so_in_its_last_line_and_one_that_is_complete_does_not() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path());
        let settings = Settings::parse(&mcp_provider::Config::default()).unwrap();
        for path in ["log/main?path=a.txt", "log/main?path=a.txt&follow=true", "blame/main/a.txt"] {
            let read = |max_time: Option<Duration>| {
                let mut repository = Repository::open(dir.path(), 1 << 20, settings.refs.clone()).unwrap();
                if let Some(max_time) = max_time {
                    repository.set_max_time(max_time);
                }
                repository.begin_call();
                read(&repository, &settings, &Address::parse(path).unwrap()).unwrap()
            };
            let (whole, part) = (read(None), read(Some(Duration::ZERO)));
            assert!(!whole.as_text().unwrap().contains('#') && !whole.entry.meta.contains_key(MORE), "{path}");
            let last = part.as_text().unwrap().lines().last().unwrap_or_default();
            assert!(
                last.starts_with("# This is not complete") && last.contains("git commit-graph write"),
                "{path}: {last}"
            );
            assert_eq!(part.entry.meta[MORE], true, "{path}");
        }
    }
}
