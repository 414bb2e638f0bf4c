//! Search and context, for one principal.
//!
//! A hit needs both `list` and `read`. They are decided for each match before it is ranked, and once more, under the rules
//! of that moment, before the hits are returned.

use std::time::Duration;

use super::Host;
use super::generation::{BuiltIn, Generation};
use super::generation_store::GenerationStore;
use super::resolve::ResolvedTarget;
use super::search_filters::{check, check_query};
use super::{context_resources, search_resources};
use crate::access::{Policy, Principal};
use crate::audit::Facts;
use crate::config::Operation;
use crate::log_target;
use crate::resource::{Error, ResourceContents};
use crate::search::{ContextRequest, ContextSelection, SearchError, SearchRequest, SearchResults, SearchStatus};
use crate::text::prefix;

/// The name of a search in records.
pub(super) const SEARCH: &str = "search";
/// The name of a selection of context in records.
pub(super) const CONTEXT: &str = "context";
/// The retry delay while too many searches run.
const BUSY_RETRY_DELAY: Duration = Duration::from_secs(1);

impl Host {
    /// Searches the text, names, titles, descriptions and paths of the resources of all plugins that are searched
    /// (`search` of a `[[plugin]]`), as far as the principal may list and read them.
    ///
    /// The result is partial if the search takes longer than 200 ms, or if the index does not have everything.
    ///
    /// # Errors
    ///
    /// The request cannot match anything: the query has no word, or is longer than [`SearchRequest::MAX_QUERY_LEN`]; no kind or
    /// language is as [`KindFilter`](crate::config::search::KindFilter) and [`LanguageCode`](crate::config::search::LanguageCode)
    /// say; nothing is searched below the URI; no plugin is searched at all. Or the index cannot be used at the moment.
    pub async fn search(&self, principal: &Principal, request: SearchRequest) -> Result<SearchResults, Error> {
        let facts = Facts::default();
        let query = prefix(&request.query, SearchRequest::MAX_QUERY_LEN).to_owned();
        let searching = search(&self.generation_store, principal, request, &facts);
        self.audited(principal, SEARCH, &query, &facts, searching).await
    }

    /// Chooses the best passages for a question within a budget of tokens, from the resources of all plugins that are searched,
    /// as far as the principal may list and read them. The text is as it was when it was indexed.
    ///
    /// The result is the same for the same index. It is partial if the search takes longer than 200 ms, or if the index does not
    /// have everything.
    ///
    /// # Errors
    ///
    /// As [`search`](Self::search), for a question that is given.
    pub async fn context(&self, principal: &Principal, request: ContextRequest) -> Result<ContextSelection, Error> {
        let facts = Facts::default();
        let query = prefix(request.query.as_deref().unwrap_or_default(), SearchRequest::MAX_QUERY_LEN).to_owned();
        let choosing = context(&self.generation_store, principal, request, &facts);
        self.audited(principal, CONTEXT, &query, &facts, choosing).await
    }

    /// Reads a resource of search or context for a principal; none if a plugin has to be read.
    pub(super) async fn read_built_in(
        &self,
        principal: &Principal,
        target: &ResolvedTarget<'_>,
        facts: &Facts,
    ) -> Option<Result<Vec<ResourceContents>, Error>> {
        let ResolvedTarget { slot, uri, path, .. } = target;
        let store = &self.generation_store;
        let built_in = self.generation.load().built_in(slot)?;
        match built_in {
            BuiltIn::Search => Some(search_resources::read(store, principal, uri, path, facts).await),
            BuiltIn::Context => Some(context_resources::read(store, principal, uri, path, facts).await),
        }
    }

    /// Whether a URI is one of a search, or of a selection of context.
    pub fn is_search_resource(&self, uri: &str) -> bool {
        let now = self.generation.load();
        let slot = now.router.route(uri).ok().and_then(|routed| now.slots.get(*routed.target));
        slot.is_some_and(|slot| now.built_in(slot).is_some())
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
    check(&now, &store.search, principal, &mut request).await?;
    let policy = now.access.policy(principal);
    let turn = store.search.turn(principal).await.map_err(search_error)?;
    let searched = store.search.search(turn, &request, move |uri| may_find(&policy, uri)).await;
    let mut results = searched.map_err(search_error)?;
    let now = store.generation.load_full();
    let policy = now.access.policy(principal);
    let found = results.hits.len();
    results.hits.retain(|hit| may_find(&policy, hit.resource.uri.as_str()));
    let gone = found.saturating_sub(results.hits.len());
    results.total = results.total.saturating_sub(u64::try_from(gone).unwrap_or(u64::MAX));
    results.incomplete.retain(|plugin| may_find_some_of(&now, &policy, plugin));
    results.is_partial |= !results.incomplete.is_empty();
    facts.set_returned(results.hits.iter().map(|hit| hit.resource.uri.as_str()));
    facts.set_bytes(total_len(results.hits.iter().filter_map(|hit| Some(hit.snippet.as_ref()?.text.as_str()))));
    Ok(results)
}

/// Chooses passages for a principal.
pub(super) async fn context(
    store: &GenerationStore,
    principal: &Principal,
    request: ContextRequest,
    facts: &Facts,
) -> Result<ContextSelection, Error> {
    let now = store.generation.load_full();
    facts.set_generation(now.number);
    request.query.as_deref().map_or(Ok(()), |query| check_query(&now, query))?;
    let policy = now.access.policy(principal);
    let turn = store.search.turn(principal).await.map_err(search_error)?;
    let chosen = store.search.context(turn, &request, move |uri| may_find(&policy, uri)).await;
    let mut selection = chosen.map_err(search_error)?;
    let now = store.generation.load_full();
    let policy = now.access.policy(principal);
    selection.passages.retain(|passage| may_find(&policy, passage.resource.uri.as_str()));
    selection.tokens = selection.passages.iter().map(|passage| passage.tokens).sum();
    selection.incomplete.retain(|plugin| may_find_some_of(&now, &policy, plugin));
    selection.is_partial |= !selection.incomplete.is_empty();
    facts.set_returned(selection.passages.iter().map(|passage| passage.resource.uri.as_str()));
    facts.set_bytes(total_len(selection.passages.iter().map(|passage| passage.text.as_str())));
    Ok(selection)
}

/// Whether a URI or a template has the scheme of a built-in mount of search or context.
#[cfg(any(feature = "http", feature = "stdio"))]
pub(super) fn is_of_search(uri: &str) -> bool {
    let schemes = [search_resources::MOUNT, context_resources::MOUNT].map(|mount| mount.split(':').next());
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| schemes.iter().flatten().any(|known| known.eq_ignore_ascii_case(scheme)))
}

/// The size of those texts.
fn total_len<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    texts.map(|text| u64::try_from(text.len()).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

/// Whether the policy lets a resource be found, by its URI in normal form.
pub(super) fn may_find(policy: &Policy, uri: &str) -> bool {
    policy.allows_normalized(Operation::List, uri) && policy.allows_normalized(Operation::Read, uri)
}

/// Whether the policy may let resources of a plugin be found.
fn may_find_some_of(generation: &Generation, policy: &Policy, plugin: &str) -> bool {
    let may = |operation, mount| policy.may_allow_below(operation, mount);
    generation.slot(plugin).is_some_and(|slot| may(Operation::List, &slot.mount) && may(Operation::Read, &slot.mount))
}

fn search_error(error: SearchError) -> Error {
    match error {
        SearchError::Off => Error::InvalidRequest {
            message: "nothing is searched: no plugin of this server has a table `search` in its config, such as \
                      `search = {}`"
                .to_owned(),
        },
        SearchError::NoIndex(_) => unavailable("there is no search index; the server's log says why"),
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
