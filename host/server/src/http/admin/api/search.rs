//! `POST browse/search` and `browse/context`: search for one principal; and the state of the index.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use axum::extract::Request;
use axum::response::Response;
use mcp_host_model::resource::Resource;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use mcp_resource_host::search::{
    ContextPassage, ContextRequest, ContextSelection, SearchHit, SearchRequest, SearchResults, Snippet,
};

use super::browse_types::{BrowseContext, BrowseSearch, ContextView, Found, HitView, PassageView, SnippetPart};
use super::shown::resource;
use super::types::{MAX_PAGE, SearchView};
use super::viewer::ApiClient;
use super::{AdminServer, Refusal, body, ok};

impl AdminServer {
    /// Answers a request to `browse/context`, or else `browse/search`.
    pub(super) async fn browse_index(
        &self,
        what: &str,
        request: Request,
        client: &ApiClient<'_>,
    ) -> Result<Response, Refusal> {
        match what {
            "context" => self.browse_context(body(request).await?, client).await,
            _ => self.browse_search(body(request).await?, client).await,
        }
    }

    async fn browse_search(&self, request: BrowseSearch, client: &ApiClient<'_>) -> Result<Response, Refusal> {
        let BrowseSearch { viewer, query, within, kind, language } = request;
        let viewer = self.viewer(client, viewer)?;
        let request =
            SearchRequest { query: query.clone(), within, kind, language, limit: SearchRequest::DEFAULT_LIMIT };
        let results = self.view_as(client, &query, self.host.search(&viewer, request)).await?;
        let SearchResults { hits, total, is_partial, incomplete, .. } = results;
        let hits = hits.into_iter().map(|found| hit(&self.host, &viewer, found)).collect();
        Ok(ok(&Found { hits, total, partial: is_partial, incomplete }))
    }

    async fn browse_context(&self, request: BrowseContext, client: &ApiClient<'_>) -> Result<Response, Refusal> {
        let BrowseContext { viewer, query, budget } = request;
        if !(1..=ContextRequest::MAX_BUDGET).contains(&budget) {
            let most = ContextRequest::MAX_BUDGET;
            return Err(Refusal::bad_request(format!("`budget` is not a number from 1 to {most}: {budget}")));
        }
        let viewer = self.viewer(client, viewer)?;
        let shown = query.clone().unwrap_or_default();
        let request = ContextRequest { query, ..ContextRequest::new(budget) };
        let selection = self.view_as(client, &shown, self.host.context(&viewer, request)).await?;
        let ContextSelection { passages, tokens, over_budget, left_out, near_copies, is_partial, incomplete, .. } =
            selection;
        let [passages, left_out] = [passages, left_out]
            .map(|all| all.into_iter().map(|one| passage(&self.host, &viewer, one)).collect::<Vec<_>>());
        let partial = is_partial;
        Ok(ok(&ContextView { passages, tokens, over_budget, left_out, near_copies, partial, incomplete }))
    }
}

/// The languages of the texts of resources, by URI. Resources that are not indexed, or that the principal may not read,
/// are absent.
pub(super) async fn languages(host: &Host, viewer: &Principal, resources: &[Resource]) -> HashMap<String, String> {
    host.languages(viewer, resources).await
}

/// Returns the state of the index for each searched plugin, ordered by name.
pub(super) fn indexed(host: &Host) -> Vec<SearchView> {
    let mut all: Vec<_> = host
        .search_status()
        .into_iter()
        .map(|status| SearchView {
            complete: status.has_everything(),
            gaps: status.gaps(),
            role: status.role.name().to_owned(),
            plugin: status.plugin,
            documents: status.documents,
            bytes: status.bytes,
            embedded: status.embedded,
        })
        .collect();
    all.sort_by(|one, other| one.plugin.cmp(&other.plugin));
    all
}

/// Returns the reasons why plugins could not be indexed, by plugin.
pub(super) fn failures(host: &Host) -> BTreeMap<String, String> {
    let failed = host.search_status().into_iter().filter_map(|status| Some((status.plugin, status.error?)));
    failed.take(MAX_PAGE).collect()
}

fn hit(host: &Host, viewer: &Principal, hit: SearchHit) -> HitView {
    HitView {
        lines: hit.snippet.as_ref().map(|snippet| snippet.lines),
        snippet: hit.snippet.map(|Snippet { text, matches, .. }| parts(&text, &matches)).unwrap_or_default(),
        resource: resource(host, viewer, hit.resource),
    }
}

/// A snippet as parts that match and parts that do not.
fn parts(snippet: &str, matches: &[Range<usize>]) -> Vec<SnippetPart> {
    let (mut parts, mut end) = (Vec::new(), 0);
    let mut add = |range: Range<usize>, matches| {
        if let Some(text) = snippet.get(range).filter(|text| !text.is_empty()) {
            parts.push(SnippetPart { text: text.to_owned(), matches });
        }
    };
    for found in matches {
        add(end..found.start, false);
        add(found.clone(), true);
        end = found.end;
    }
    add(end..snippet.len(), false);
    parts
}

fn passage(host: &Host, viewer: &Principal, passage: ContextPassage) -> PassageView {
    let ContextPassage { resource: found, text, lines, tokens, reason, .. } = passage;
    PassageView { resource: resource(host, viewer, found), text, lines, tokens, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_snippet_are_its_text() {
        let parts = parts("a circuit breaker", &[2..9, 10..17]);
        let parts: Vec<_> = parts.into_iter().map(|part| (part.text, part.matches)).collect();
        let expected = [("a ", false), ("circuit", true), (" ", false), ("breaker", true)];
        assert_eq!(parts, expected.map(|(text, matches)| (text.to_owned(), matches)));
    }
}
