//! Listings: the scope of the config, and the children of a folder.
//!
//! The default listing consists of the config's folders; then the files in the tree, [`BATCH`](crate::tree::BATCH)
//! folders at a time, by id; then the files that match a query of the config and are in no folder of the tree. A cursor
//! contains the position in this sequence and Drive's page token. The token belongs to its query: if the folders of a
//! batch changed, or Drive rejects the token, the batch starts again, as the API requires. A listing ends after
//! `max-files` files, so it ends whatever the server answers.

use crate::api::{Error, FOLDER, File, FileList, FileQuery};
use crate::entries::{self, listed};
use crate::format::Format;
use crate::id::Id;
use crate::query;
use crate::session::{Session, query_fault};
use crate::store::digest;
use mcp_provider::{Contents, Entry, Failure, Page, Result, log};
use serde::{Deserialize, Serialize};

/// The maximum number of Drive's pages without listed files that one page of a listing requests.
const MAX_EMPTY_PAGES: usize = 8;

/// A cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    /// The number of files on the previous pages, listed or not.
    seen: usize,
    at: Position,
}

/// The start of the next page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Position {
    /// At the root with this index.
    Roots(usize),
    /// In the batch of folders after this one.
    Folders { after: Option<Id>, token: Option<Token> },
    /// In the results of the queries.
    Queries { token: Option<Token> },
    /// In the children of a folder.
    Children { token: Token },
}

/// A page token, with the digest of its query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Token {
    query: u64,
    token: String,
}

/// A page of files, and the position after it.
#[derive(Default)]
struct Files {
    files: Vec<File>,
    /// The number of files that Drive returned, at least one per page, so an endless sequence of empty pages ends, too.
    seen: usize,
    next: Option<Position>,
}

/// Returns a page of the default listing.
pub(crate) fn list(session: &Session<'_>, cursor: Option<&str>, limit: usize) -> Result<Page> {
    let mut cursor = match cursor {
        None => Cursor { seen: 0, at: Position::Roots(0) },
        Some(cursor) => {
            parse(cursor).filter(|cursor| !matches!(cursor.at, Position::Children { .. })).ok_or_else(foreign_cursor)?
        }
    };
    let mut entries = Vec::new();
    for _ in 0..MAX_EMPTY_PAGES {
        let mut files = Files::default();
        let next = match &cursor.at {
            Position::Roots(first) => {
                entries.extend(roots(session, *first, limit)?);
                let behind = first.saturating_add(limit);
                let is_last = behind >= session.tree()?.roots.len();
                Some(if is_last { Position::Folders { after: None, token: None } } else { Position::Roots(behind) })
            }
            Position::Folders { after, token } => {
                files = in_folders(session, after.as_ref(), token.as_ref(), limit)?;
                files.next.take()
            }
            Position::Queries { token } => {
                files = of_queries(session, token.as_ref(), limit)?;
                files.next.take()
            }
            Position::Children { .. } => return Err(foreign_cursor()),
        };
        cursor.seen = cursor.seen.saturating_add(files.seen);
        for file in files.files {
            entries.extend(file_entry(session, file)?);
        }
        let Some(next) = next else { return Ok(Page::last(entries)) };
        cursor.at = next;
        if cursor.seen >= session.settings.max_files {
            let max = session.settings.max_files;
            log::warn!("the listing ends after {max} files, the `max-files` of this plugin");
            return Ok(Page::last(entries));
        }
        if !entries.is_empty() {
            break;
        }
    }
    Ok(Page { entries, next_cursor: Some(format(&cursor)?) })
}

fn roots(session: &Session<'_>, first: usize, limit: usize) -> Result<Vec<Entry>> {
    let tree = session.tree()?;
    let roots = tree.roots.iter().skip(first).take(limit);
    Ok(roots.filter_map(|id| Some(entries::folder(session, id, tree.get(id)?))).collect())
}

/// Returns a page of the files in a batch of folders.
fn in_folders(session: &Session<'_>, after: Option<&Id>, token: Option<&Token>, limit: usize) -> Result<Files> {
    let tree = session.tree()?;
    let batch = tree.batch_after(after);
    let Some(last) = batch.last() else {
        let is_done = session.settings.queries.is_empty();
        return Ok(Files { next: (!is_done).then_some(Position::Queries { token: None }), ..Files::default() });
    };
    let conditions = [query::files(session.settings.follow_shortcuts), query::in_folders(&batch)];
    let query = FileQuery {
        q: query::not_trashed_and(conditions.iter().map(String::as_str)),
        corpora: tree.corpora(&batch),
        order_by: Some("name"),
        page_size: limit,
    };
    let (mut list, query) = page(session, &query, token)?;
    let seen = list.files.len().max(1);
    // A file with several parents is listed only with the first one, by id.
    list.files.retain(|file| tree.parent_of(file).is_some_and(|parent| batch.contains(parent)));
    let next = match list.next_page_token {
        Some(token) => Position::Folders { after: after.cloned(), token: Some(Token { query, token }) },
        None => Position::Folders { after: Some(last.clone()), token: None },
    };
    Ok(Files { files: list.files, seen, next: Some(next) })
}

/// Returns a page of the files that match a query of the config and are in no folder of the tree.
fn of_queries(session: &Session<'_>, token: Option<&Token>, limit: usize) -> Result<Files> {
    let tree = session.tree()?;
    let query = FileQuery { page_size: limit, ..session.saved_queries(None) };
    let (mut list, query) = page(session, &query, token)?;
    let seen = list.files.len().max(1);
    list.files.retain(|file| tree.parent_of(file).is_none());
    let next = list.next_page_token.map(|token| Position::Queries { token: Some(Token { query, token }) });
    Ok(Files { files: list.files, seen, next })
}

/// Returns a page of a query, and the digest of the query. A token of another query, or one that Drive rejects, is
/// dropped.
fn page(session: &Session<'_>, query: &FileQuery, token: Option<&Token>) -> Result<(FileList, u64)> {
    let digest = digest(&query.q);
    let token = token.filter(|token| token.query == digest).map(|token| token.token.as_str());
    let list = match session.client.list(query, token) {
        Err(Error::Invalid(_) | Error::Gone) if token.is_some() => session.client.list(query, None),
        list => list,
    };
    Ok((list.map_err(query_fault)?, digest))
}

/// Returns a page of the children of a folder.
pub(crate) fn children(session: &Session<'_>, folder: &Id, cursor: Option<&str>, limit: usize) -> Result<Page> {
    let (seen, token) = match cursor.map(parse) {
        None => (0, None),
        Some(Some(Cursor { seen, at: Position::Children { token } })) => (seen, Some(token)),
        Some(_) => return Err(foreign_cursor()),
    };
    let tree = session.tree()?;
    if tree.get(folder).is_none() {
        return Err(Failure::NotFound);
    }
    let batch = std::slice::from_ref(folder);
    let mut conditions = vec![query::in_folders(batch)];
    if !session.settings.follow_shortcuts {
        conditions.push(query::no_shortcuts());
    }
    let query = FileQuery {
        q: query::not_trashed_and(conditions.iter().map(String::as_str)),
        corpora: tree.corpora(batch),
        order_by: Some("folder,name"),
        page_size: limit,
    };
    let (list, query) = page(session, &query, token.as_ref())?;
    let seen = seen.saturating_add(list.files.len().max(1));
    let mut children = Vec::new();
    for file in list.files.into_iter().filter(|file| file.parents.contains(folder)) {
        children.extend(child_entry(session, file)?);
    }
    let next = list.next_page_token.filter(|_| seen < session.settings.max_files);
    let next = next.map(|token| format(&Cursor { seen, at: Position::Children { token: Token { query, token } } }));
    Ok(Page { entries: children, next_cursor: next.transpose()? })
}

/// Reads a folder. The host creates its index from the folder's children.
pub(crate) fn read_folder(session: &Session<'_>, id: &Id) -> Result<Contents> {
    let folder = session.tree()?.get(id).ok_or(Failure::NotFound)?;
    Ok(Contents::directory(entries::folder(session, id, folder)))
}

/// Returns the entry of a file or folder in a folder; `None` if it is not served.
fn child_entry(session: &Session<'_>, file: File) -> Result<Option<Entry>> {
    let folder = match &file.shortcut_details {
        Some(shortcut) => Some(&shortcut.target_id).filter(|_| shortcut.target_mime_type == FOLDER),
        None => Some(&file.id).filter(|_| file.is_folder()),
    };
    match folder {
        Some(id) => Ok(session.tree()?.get(id).map(|folder| entries::folder(session, id, folder))),
        None => file_entry(session, file),
    }
}

/// Returns the entry of a file; `None` if it is not served.
pub(crate) fn file_entry(session: &Session<'_>, file: File) -> Result<Option<Entry>> {
    if file.trashed || file.is_shortcut() && !session.settings.follow_shortcuts {
        return Ok(None);
    }
    let Some(served) = listed(file) else { return Ok(None) };
    let format = if served.target.is_google_type() {
        Format::of(&served.target, session.export_formats()?)
    } else {
        Some(Format::Stored)
    };
    format.map(|format| entries::file(session, &served, &format)).transpose()
}

/// Returns the failure for a cursor that this provider did not issue.
pub(crate) fn foreign_cursor() -> Failure {
    Failure::invalid("expected a cursor that this provider returned")
}

fn parse(cursor: &str) -> Option<Cursor> {
    serde_json::from_str(cursor).ok()
}

fn format(cursor: &Cursor) -> Result<String> {
    Ok(serde_json::to_string(cursor)?)
}
