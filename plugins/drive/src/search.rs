//! Drive's full-text search, restricted to the scope.
//!
//! The folders of the tree are searched in batches, then the config's queries. The scope is a condition of each query,
//! and Drive's results for folders are checked again, as in a listing. Drive sorts the results of a query by relevance;
//! the results of several queries are interleaved.

use crate::api::{Corpora, FileQuery};
use crate::id::Id;
use crate::listing::file_entry;
use crate::query;
use crate::session::{Session, query_fault};
use crate::tree::BATCH;
use mcp_provider::{Entry, Page, Result};
use std::collections::{HashSet, VecDeque};

/// The maximum number of files that a search returns.
pub(crate) const MAX_RESULTS: usize = 50;

/// The maximum number of queries per search. Queries beyond it are not sent.
const MAX_QUERIES: usize = 20;

/// A query, and whether its results must be in a folder of the tree.
struct ScopedQuery {
    query: FileQuery,
    in_folders: bool,
}

/// The description of a search's limits.
const DESCRIPTION: &str = "At most 50 files, the most relevant first; there may be more.";

/// The results of a search.
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// Whether there may be more.
    pub(crate) is_incomplete: bool,
}

/// Returns the results of a search, on one page.
pub(crate) fn list(session: &Session<'_>, text: &str) -> Result<Page> {
    Ok(Page::last(find(session, Some(&query::contains_text(text)), MAX_RESULTS)?.entries))
}

/// Returns the entry of a search: a directory of the found files, so the host can omit the files that the client may
/// not read.
pub(crate) fn entry(session: &Session<'_>, path: &str, text: &str) -> Entry {
    let entry = Entry::directory(path, "search").title(format!("Files that contain “{text}”"));
    entry.description(DESCRIPTION).ttl(session.settings.refresh)
}

/// Returns files in scope that match the condition, if any.
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

/// Returns the queries that apply a condition to the whole scope.
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
