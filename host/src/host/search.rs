//! Search, for one principal.
//!
//! A hit needs both `list` and `read`. They are decided for each match before it is ranked, and once more, under the rules
//! of that moment, before the hits are returned.

use std::time::Duration;

use super::Host;
use super::generation_store::GenerationStore;
use super::resolve::ResolvedTarget;
use super::search_resources;
use crate::access::{Policy, Principal};
use crate::audit::Facts;
use crate::config::Operation;
use crate::log_target;
use crate::resource::{Error, ResourceContents};
use crate::search::{SearchError, SearchRequest, SearchResults, SearchStatus};

/// The name of a search in records.
const SEARCH: &str = "search";
/// The retry delay while too many searches run.
const BUSY_RETRY_DELAY: Duration = Duration::from_secs(1);

impl Host {
    /// Searches the text, names, titles, descriptions and paths of the resources of all plugins that are searched
    /// (`search` of a `[[plugin]]`), as far as the principal may list and read them.
    ///
    /// The result is partial if the search takes longer than 200 ms.
    ///
    /// # Errors
    ///
    /// The query is longer than [`SearchRequest::MAX_QUERY_LEN`], no plugin is searched, or the index cannot be used at the
    /// moment.
    pub async fn search(&self, principal: &Principal, request: SearchRequest) -> Result<SearchResults, Error> {
        let facts = Facts::default();
        let query = request.query.clone();
        let searching = search(&self.generation_store, principal, request, &facts);
        self.audited(principal, SEARCH, &query, &facts, searching).await
    }

    /// Reads a resource of search for a principal; none if a plugin has to be read.
    pub(super) async fn read_built_in(
        &self,
        principal: &Principal,
        target: &ResolvedTarget<'_>,
        facts: &Facts,
    ) -> Option<Result<Vec<ResourceContents>, Error>> {
        if !self.generation.load().is_search(target.slot) {
            return None;
        }
        let ResolvedTarget { uri, path, .. } = target;
        Some(search_resources::read(&self.generation_store, principal, uri, path, facts).await)
    }

    /// Returns what the index has of each plugin that is searched, ordered by name.
    pub fn search_status(&self) -> Vec<SearchStatus> {
        self.generation_store.search.status()
    }

    /// Waits until the whole listing of each plugin that is searched and loaded was compared with the index, or that has
    /// failed.
    pub async fn wait_until_indexed(&self) {
        self.wait_until_loaded().await;
        self.generation_store.search.wait_until_indexed().await;
    }

    /// Deletes the search index. Everything is read and indexed again.
    ///
    /// # Errors
    ///
    /// No plugin is searched, or the index cannot be deleted or created.
    pub async fn rebuild_search_index(&self) -> Result<(), Error> {
        self.generation_store.search.rebuild().await.map_err(search_error)
    }
}

/// Searches for a principal.
pub(super) async fn search(
    store: &GenerationStore,
    principal: &Principal,
    mut request: SearchRequest,
    facts: &Facts,
) -> Result<SearchResults, Error> {
    let now = store.generation.load_full();
    facts.set_generation(now.number);
    if request.query.len() > SearchRequest::MAX_QUERY_LEN {
        let (found, max) = (request.query.len(), SearchRequest::MAX_QUERY_LEN);
        return Err(Error::InvalidRequest { message: format!("the query has {found} bytes, more than {max}") });
    }
    request.within = request.within.map(|uri| now.router.route(&uri).map_or(uri, |routed| routed.uri.into()));
    let policy = now.access.policy(principal);
    let searched = store.search.search(&request, move |uri| may_find(&policy, uri)).await;
    let mut results = searched.map_err(search_error)?;
    let now = store.generation.load_full();
    let policy = now.access.policy(principal);
    let found = results.hits.len();
    results.hits.retain(|hit| may_find(&policy, hit.resource.uri.as_str()));
    let gone = found.saturating_sub(results.hits.len());
    results.total = results.total.saturating_sub(u64::try_from(gone).unwrap_or(u64::MAX));
    results
        .indexing
        .retain(|plugin| now.slot(plugin).is_some_and(|slot| policy.may_allow_below(Operation::List, &slot.mount)));
    Ok(results)
}

/// Whether the policy lets a resource be found, by its URI in normal form.
pub(super) fn may_find(policy: &Policy, uri: &str) -> bool {
    policy.allows_normalized(Operation::List, uri) && policy.allows_normalized(Operation::Read, uri)
}

fn search_error(error: SearchError) -> Error {
    match error {
        SearchError::Off => Error::InvalidRequest {
            message: "nothing is searched: no plugin of this server has a table `search` in its config".to_owned(),
        },
        SearchError::Busy => unavailable("too many searches run at the moment; try again shortly"),
        SearchError::Index(reason) => {
            tracing::warn!(target: log_target::SEARCH, reason, "a search failed");
            unavailable("the index cannot be used; the server's log says why")
        }
    }
}

fn unavailable(reason: &str) -> Error {
    Error::Unavailable { plugin: SEARCH.to_owned(), reason: reason.to_owned(), retry_after: Some(BUSY_RETRY_DELAY) }
}
