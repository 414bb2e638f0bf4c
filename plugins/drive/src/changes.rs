//! Change detection by Drive's list of changes: the token is Drive's page token, which does not expire.
//!
//! The list has all changes that the account can read, each with the new state. A changed file affects its own
//! resources. The list does not contain the former folder, so every change may affect any folder and the listing: these
//! are always reported as changed.

use crate::api::{Change, Error, FOLDER, SHORTCUT};
use crate::id::Id;
use crate::route::Route;
use crate::session::Session;
use crate::tree::Tree;
use mcp_provider::{Changes, Result};
use std::collections::BTreeSet;
use std::time::Duration;

/// The prefix of a token, with the version of its format.
const PREFIX: &str = "1:";

/// The maximum number of pages of changes that one call requests.
const MAX_PAGES: usize = 10;

/// The delay before the next call if there are more changes.
const NEXT_ROUND: Duration = Duration::from_secs(1);

/// Returns what changed since a token.
pub(crate) fn changes(session: &Session<'_>, watched: &[String], since: Option<&str>) -> Result<Changes> {
    let poll_after = session.settings.refresh;
    let Some(since) = since else {
        return Ok(Changes::none(start(session)?).poll_after(poll_after));
    };
    let all = || -> Result<Changes> {
        Tree::forget(session.cache);
        Ok(Changes::all(start(session)?, watched).poll_after(poll_after))
    };
    let Some(mut token) = since.strip_prefix(PREFIX).filter(|token| !token.is_empty()).map(str::to_owned) else {
        return all();
    };
    let mut changed = Changed::default();
    let mut is_over = false;
    for _ in 0..MAX_PAGES {
        let list = match session.client.changes(&token) {
            Err(Error::Invalid(_) | Error::Gone | Error::NotFound) => return all(),
            list => list?,
        };
        list.changes.iter().for_each(|change| changed.add(change));
        match (list.next_page_token, list.new_start_page_token) {
            (Some(next), _) => token = next,
            (None, Some(next)) => {
                token = next;
                is_over = true;
                break;
            }
            (None, None) => return all(),
        }
    }
    if changed.is_tree {
        Tree::forget(session.cache);
    }
    let mut changes = Changes::none(format!("{PREFIX}{token}"));
    changes.changed = watched.iter().filter(|path| changed.concerns(path)).cloned().collect();
    changes.listing_changed = changed.is_any;
    Ok(changes.poll_after(if is_over { poll_after } else { NEXT_ROUND }))
}

fn start(session: &Session<'_>) -> Result<String> {
    Ok(format!("{PREFIX}{}", session.client.start_page_token()?))
}

/// The changes.
#[derive(Default)]
struct Changed {
    is_any: bool,
    files: BTreeSet<Id>,
    /// Whether a folder, or a shortcut to one, may have changed.
    is_tree: bool,
}

impl Changed {
    fn add(&mut self, change: &Change) {
        self.is_any = true;
        self.files.extend(change.file_id.iter().cloned());
        let kind = change.file.as_ref().filter(|_| !change.removed).map(|file| file.mime_type.as_str());
        self.is_tree |= kind.is_none_or(|kind| [FOLDER, SHORTCUT].contains(&kind));
    }

    /// Returns whether a watched path may have changed.
    fn concerns(&self, path: &str) -> bool {
        match Route::parse(path) {
            Ok(Route::File(id, _) | Route::Chunk(id, _) | Route::Sheet(id, _)) => self.files.contains(&id),
            Ok(Route::Folder(_)) => self.is_any,
            Ok(Route::Search(_)) | Err(_) => false,
        }
    }
}
