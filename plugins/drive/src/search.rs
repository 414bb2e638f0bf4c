//! Full-text search, by Drive, in what is served.
//!
//! The folders of the tree are searched in batches, then the queries of the config. Each condition is part of the query, and
//! what Drive returns for folders is checked once more, as in a listing. Drive orders the results of a query by relevance;
//! those of several queries take turns.

use crate::api::{Corpora, FileQuery};
use crate::id::Id;
use crate::listing::file_entry;
use crate::session::{Session, query_fault};
use crate::tree::BATCH;
use crate::{markdown, query};
use mcp_provider::{Contents, Entry, Notice, Result};
use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};

/// The maximum number of files that a search returns.
pub(crate) const MAX_RESULTS: usize = 50;

/// The maximum number of queries of one search: those for the first folders.
const MAX_QUERIES: usize = 20;

/// A query, and whether its results have to be in a folder of the tree.
struct ScopedQuery {
    query: FileQuery,
    in_folders: bool,
}

/// What a search found.
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// Whether there may be more.
    pub(crate) is_incomplete: bool,
}

/// Reads the results of a search for a text.
pub(crate) fn read(session: &Session<'_>, path: &str, text: &str) -> Result<Vec<Contents>> {
    let found = find(session, Some(&query::contains_text(text)), MAX_RESULTS)?;
    let mut entry = entry(session, path, text);
    if found.is_incomplete {
        let notice = Notice::incomplete("there may be more files than these");
        entry = entry.meta("drive/incomplete", true).notice(notice);
    }
    let markdown = markdown::list(&format!("Files that contain “{text}”"), &found.entries, "");
    let files: Vec<Value> = found.entries.iter().map(to_json).collect();
    let json = json!({ "query": text, "incomplete": found.is_incomplete, "files": files });
    Ok(vec![
        Contents::text(entry.clone(), markdown),
        Contents::text(entry.mime_type("application/json"), json.to_string()),
    ])
}

/// Returns the entry of a search.
pub(crate) fn entry(session: &Session<'_>, path: &str, text: &str) -> Entry {
    let entry = Entry::new(path, "search").title(format!("Files that contain “{text}”"));
    entry.mime_type("text/markdown").ttl(session.settings.refresh)
}

fn to_json(entry: &Entry) -> Value {
    json!({
        "path": entry.path,
        "title": entry.title,
        "description": entry.description,
        "mimeType": entry.mime_type,
        "lastModified": entry.last_modified.as_ref().map(|time| time.as_str()),
        "folder": entry.meta.get("drive/folder"),
        "link": entry.meta.get("drive/link"),
    })
}

/// Returns files in scope, those that match a condition if there is one.
pub(crate) fn find(session: &Session<'_>, condition: Option<&str>, max: usize) -> Result<Found> {
    let queries = queries(session, condition)?;
    let mut is_incomplete = queries.len() > MAX_QUERIES;
    let mut results = Vec::new();
    for ScopedQuery { query, in_folders } in queries.into_iter().take(MAX_QUERIES) {
        let query = FileQuery { page_size: max, ..query };
        let mut list = session.client.list(&query, None).map_err(query_fault)?;
        is_incomplete |= list.incomplete_search || list.next_page_token.is_some();
        if in_folders {
            let tree = session.tree()?;
            list.files.retain(|file| tree.parent_of(file).is_some());
        }
        results.push(VecDeque::from(list.files));
    }
    let (mut entries, mut seen): (Vec<Entry>, HashSet<Id>) = (Vec::new(), HashSet::new());
    while let Some(position) = results.iter().position(|files| !files.is_empty()) {
        for files in results.iter_mut().skip(position) {
            let Some(file) = files.pop_front() else { continue };
            if entries.len() >= max {
                is_incomplete = true;
                return Ok(Found { entries, is_incomplete });
            }
            if seen.insert(file.id.clone()) {
                entries.extend(file_entry(session, file)?);
            }
        }
    }
    Ok(Found { entries, is_incomplete })
}

/// Returns the queries for a condition in everything that is in scope.
fn queries(session: &Session<'_>, condition: Option<&str>) -> Result<Vec<ScopedQuery>> {
    let settings = session.settings;
    let files = query::files(settings.follow_shortcuts);
    let query = |scope: Option<&str>, corpora| FileQuery {
        q: query::not_trashed_and([Some(files.as_str()), scope, condition].into_iter().flatten()),
        corpora,
        order_by: None,
        page_size: MAX_RESULTS,
    };
    if settings.unlisted {
        return Ok(vec![ScopedQuery { query: query(None, Corpora::All), in_folders: false }]);
    }
    let (tree, mut queries) = (session.tree()?, Vec::new());
    let mut batch = tree.batch_after(None);
    while let Some(last) = batch.last().cloned() {
        let query = query(Some(&query::in_folders(&batch)), tree.corpora(&batch));
        queries.push(ScopedQuery { query, in_folders: true });
        batch = if batch.len() < BATCH { Vec::new() } else { tree.batch_after(Some(&last)) };
    }
    if !settings.queries.is_empty() {
        queries.push(ScopedQuery { query: session.saved_queries(condition), in_folders: false });
    }
    Ok(queries)
}
