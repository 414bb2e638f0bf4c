//! Search and context for one principal.
//!
//! A principal finds a resource if it may both list and read it. The host decides this, through [`HostView`]: for each
//! match before ranking and counting, and again for each returned hit, under the then current rules.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_model::principal::Principal;
use mcp_host_model::resource::Error;

use super::context::{ContextRequest, ContextSelection};
use super::error::SearchError;
use super::filters::{check, check_query};
use super::host_view::HostView;
use super::request::SearchRequest;
use super::results::SearchResults;
use super::service::SearchService;

/// The retry delay while too many searches run, or there is no index.
const BUSY_RETRY_DELAY: Duration = Duration::from_secs(1);

/// A search in progress. Type-erased, so that it is compiled in this crate only.
type Searching<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl SearchService {
    /// Searches for a principal.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if the request cannot match anything, or no plugin is searched; [`Error::Unavailable`]
    /// if the index cannot be used at the moment.
    pub fn search<'a>(
        &'a self,
        principal: &'a Principal,
        request: SearchRequest,
    ) -> Searching<'a, Result<SearchResults, Error>> {
        Box::pin(async move {
            let result = self.search_for(principal, request).await;
            self.counts.record(&result, |results| results.is_partial);
            result
        })
    }

    async fn search_for(&self, principal: &Principal, mut request: SearchRequest) -> Result<SearchResults, Error> {
        let host = self.host().ok_or(Error::ShuttingDown)?;
        let view = host.view(principal);
        check(&view, self, principal, &mut request).await?;
        let turn = self.turn(principal).await?;
        let mut results = self.find(turn, &request, move |uri| view.may_find(uri)).await?;
        let view = host.view(principal);
        let found = results.hits.len();
        results.hits.retain(|hit| view.may_find(hit.resource.uri.as_str()));
        let gone = found.saturating_sub(results.hits.len());
        results.total = results.total.saturating_sub(u64::try_from(gone).unwrap_or(u64::MAX));
        results.incomplete.retain(|plugin| view.may_find_some_of(plugin));
        results.is_partial |= !results.incomplete.is_empty();
        Ok(results)
    }

    /// Chooses passages for a principal.
    ///
    /// # Errors
    ///
    /// The same as for [`search`](Self::search).
    pub fn context<'a>(
        &'a self,
        principal: &'a Principal,
        request: ContextRequest,
    ) -> Searching<'a, Result<ContextSelection, Error>> {
        Box::pin(async move {
            let result = self.context_for(principal, request).await;
            self.counts.record(&result, |selection| selection.is_partial);
            result
        })
    }

    async fn context_for(&self, principal: &Principal, request: ContextRequest) -> Result<ContextSelection, Error> {
        let host = self.host().ok_or(Error::ShuttingDown)?;
        let view = host.view(principal);
        request.query.as_deref().map_or(Ok(()), |query| check_query(&*view, query))?;
        let turn = self.turn(principal).await?;
        let mut selection = self.choose(turn, &request, move |uri| view.may_find(uri)).await?;
        let view = host.view(principal);
        selection.passages.retain(|passage| view.may_find(passage.resource.uri.as_str()));
        selection.tokens = selection.passages.iter().map(|passage| passage.tokens).sum();
        selection.incomplete.retain(|plugin| view.may_find_some_of(plugin));
        selection.is_partial |= !selection.incomplete.is_empty();
        Ok(selection)
    }

    /// Returns the languages of the texts of resources that the principal may find, by their URIs in normal form. A
    /// resource that is not indexed, or whose language is undetermined, is absent. Empty if the index cannot be used.
    pub fn languages<'a>(
        &'a self,
        principal: &'a Principal,
        uris: Vec<String>,
    ) -> Searching<'a, HashMap<String, String>> {
        Box::pin(self.languages_for(principal, uris))
    }

    async fn languages_for(&self, principal: &Principal, uris: Vec<String>) -> HashMap<String, String> {
        let Some(host) = self.host() else { return HashMap::new() };
        let view = host.view(principal);
        let uris = uris.into_iter().filter(|uri| view.may_find(uri)).collect();
        let found = match self.turn(principal).await {
            Ok(turn) => self.languages_of(turn, uris).await,
            Err(busy) => Err(busy),
        };
        let mut languages = found.unwrap_or_default();
        let view = host.view(principal);
        languages.retain(|uri, _| view.may_find(uri));
        languages
    }

    /// The MIME types, or the languages, of the documents that a principal may find. None if the index cannot be used.
    pub(super) async fn values_for(
        &self,
        principal: &Principal,
        are_kinds: bool,
        view: Arc<dyn HostView>,
    ) -> Vec<String> {
        let found = match self.turn(principal).await {
            Ok(turn) => self.values(turn, are_kinds, move |uri| view.may_find(uri)).await,
            Err(busy) => Err(busy),
        };
        found.unwrap_or_default()
    }
}

impl From<SearchError> for Error {
    fn from(error: SearchError) -> Self {
        let unavailable = |reason: &str| Self::Unavailable {
            plugin: "search".to_owned(),
            reason: reason.to_owned(),
            retry_after: Some(BUSY_RETRY_DELAY),
        };
        match error {
            SearchError::Off => Self::InvalidRequest {
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
}
