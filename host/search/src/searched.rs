//! Lookups in the index over the sources of the loaded plugins. A match has the id of its source and a path. Its URI is
//! composed in this module, with the current mount of the plugin.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcp_host_engine::plugin::Plugin;
use mcp_host_model::principal::Principal;
use mcp_host_model::resource::{Notice, NoticeKind, Role};
use mcp_host_model::uri::{Mount, Uri};

use super::context::{self, Candidate, ContextPassage, ContextRequest, ContextSelection, estimate_tokens};
use super::embeddings::nearest::NearestQuery;
use super::error::{SearchError, interruptible};
use super::index::Index;
use super::lookup::{self, Found, Lookup, LookupResult, part_of};
use super::passages::{self, FoundPassage};
use super::query::{Conditions, Query};
use super::request::SearchRequest;
use super::results::{SearchHit, SearchResults};
use super::service::SearchService;
use super::shares::SearchTurn;
use super::status::{SearchStatus, SourceId};

/// The maximum time that a search waits for sources that are being opened.
const MAX_OPEN_TIME: Duration = Duration::from_secs(1);
/// The maximum number of documents with candidate passages for a context.
const MAX_CONTEXT_DOCUMENTS: usize = 50;
/// The part of the time for finding candidate passages of a context. The rest is for choosing among them.
const PASSAGES_PART: f64 = 0.75;

/// A source that a lookup searches.
#[derive(Clone)]
struct SearchedSource {
    mount: Mount,
    plugin: Arc<Plugin>,
    has_lines: bool,
}

impl SearchedSource {
    /// The URI of a document. None if the index still has the document, but the config no longer includes it.
    fn uri(&self, path: &str) -> Option<String> {
        self.plugin.search_source()?.uri(&self.mount, path)
    }
}

/// The sources of a lookup.
struct Searched {
    index: Arc<Index>,
    /// The sources with an id in the index.
    sources: Arc<BTreeMap<SourceId, SearchedSource>>,
    /// The names of the plugins that are not completely indexed.
    incomplete: Vec<String>,
}

impl SearchService {
    /// Waits for a lookup permit of the current requester, or of this principal if there is none. It is held until the
    /// lookup ends.
    pub(super) async fn turn(&self, principal: &Principal) -> Result<SearchTurn, SearchError> {
        self.shares.turn(principal).await
    }

    /// Searches the sources. `is_visible` decides on a URI in normal form: rejected documents are neither ranked nor
    /// counted. `within` of the request is in normal form.
    pub(super) async fn find(
        &self,
        turn: SearchTurn,
        request: &SearchRequest,
        is_visible: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<SearchResults, SearchError> {
        let Searched { index, sources, incomplete } = self.searched().await?;
        if sources.is_empty() {
            return Ok(SearchResults { incomplete, ..SearchResults::default() });
        }
        let searched = sources.clone();
        let within = request.within.clone();
        let filter = move |source: SourceId, path: &str| {
            let uri = searched.get(&source)?.uri(path)?;
            let is_within = within.as_deref().is_none_or(|within| is_below(&uri, within));
            (is_within && is_visible(&uri)).then_some(uri)
        };
        let nearest = self.nearest_query(&request.query).await;
        let is_hybrid = nearest.is_some();
        let (query, limit) = (Query::parse(&request.query), request.limit.min(SearchRequest::MAX_LIMIT));
        let conditions = Conditions {
            kind: request.kind.as_deref().map(|kind| kind.trim_end_matches("/*").to_ascii_lowercase()),
            language: request.language.as_deref().map(str::to_ascii_lowercase),
            audience: 0,
        };
        let looking_up = index.read(move |connection, deadline| {
            let _turn = turn;
            Lookup { query, nearest, conditions, limit, deadline, filter }.run(connection)
        });
        let late = || LookupResult { is_partial: true, ..LookupResult::default() };
        let result = interruptible(looking_up.await)?.unwrap_or_else(late);
        let hits = result.found.into_iter().filter_map(|found| to_hit(found, &sources)).collect();
        Ok(SearchResults { hits, total: result.total, is_partial: result.is_partial, is_hybrid, incomplete })
    }

    /// Chooses passages within a budget, from the visible documents of the sources.
    pub(super) async fn choose(
        &self,
        turn: SearchTurn,
        request: &ContextRequest,
        is_visible: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<ContextSelection, SearchError> {
        let Searched { index, sources, incomplete } = self.searched().await?;
        if sources.is_empty() {
            return Ok(ContextSelection { incomplete, ..ContextSelection::default() });
        }
        let searched = sources.clone();
        let filter = move |source: SourceId, path: &str| {
            let uri = searched.get(&source)?.uri(path)?;
            is_visible(&uri).then_some(uri)
        };
        let audience = match request.audience {
            None => 0,
            Some(Role::User) => 1,
            Some(Role::Assistant) => 2,
        };
        let nearest = match &request.query {
            Some(query) => self.nearest_query(query).await,
            None => None,
        };
        let (query, budget) = (request.query.as_deref().map(Query::parse), request.budget);
        let choosing = index.read(move |connection, end| {
            let _turn = turn;
            let deadline = part_of(end, PASSAGES_PART);
            let found = match query {
                Some(query) => {
                    let conditions = Conditions { audience, ..Conditions::default() };
                    let limit = MAX_CONTEXT_DOCUMENTS;
                    Lookup { query, nearest, conditions, limit, deadline, filter }.run_passages(connection)?
                }
                None => passages::by_priority(connection, audience, budget, deadline, filter)?,
            };
            let candidates = found.found.into_iter().filter_map(|found| to_candidate(found, &sources)).collect();
            let mut selection = context::select(candidates, budget, end);
            selection.is_partial |= found.is_partial;
            Ok(selection)
        });
        let chosen = interruptible(choosing.await)?;
        let late = || ContextSelection { is_partial: true, ..ContextSelection::default() };
        Ok(ContextSelection { incomplete, ..chosen.unwrap_or_else(late) })
    }

    /// The MIME types, or the languages, of the visible documents, in alphabetical order. Incomplete if the deadline
    /// passes.
    pub(super) async fn values(
        &self,
        turn: SearchTurn,
        are_kinds: bool,
        is_visible: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Vec<String>, SearchError> {
        let Searched { index, sources, .. } = self.searched().await?;
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let filter = move |source: SourceId, path: &str| {
            sources.get(&source).and_then(|source| source.uri(path)).is_some_and(|uri| is_visible(&uri))
        };
        let finding = index.read(move |connection, deadline| {
            let _turn = turn;
            lookup::values(connection, are_kinds, deadline, filter)
        });
        Ok(interruptible(finding.await)?.unwrap_or_default())
    }

    /// The languages of documents, by their URIs; those that are found before the time is over, of the sources that are
    /// open.
    pub(super) async fn languages_of(
        &self,
        turn: SearchTurn,
        uris: Vec<String>,
    ) -> Result<HashMap<String, String>, SearchError> {
        let Searched { index, sources, .. } = self.opened()?;
        let place = |uri: &str| {
            sources.iter().find_map(|(id, source)| {
                let path = uri.strip_prefix(source.mount.as_str())?;
                source.uri(path).map(|_| (*id, path.to_owned()))
            })
        };
        let places: Vec<_> = uris.into_iter().filter_map(|uri| Some((place(&uri)?, uri))).collect();
        if places.is_empty() {
            return Ok(HashMap::new());
        }
        let finding = index.read(move |connection, deadline| {
            let _turn = turn;
            let mut languages = HashMap::new();
            for ((source, path), uri) in places {
                if Instant::now() >= deadline {
                    break;
                }
                let Some(language) = interruptible(lookup::language(connection, source, &path))? else { break };
                languages.extend(language.map(|language| (uri, language)));
            }
            Ok(languages)
        });
        Ok(interruptible(finding.await)?.unwrap_or_default())
    }

    /// The vector of a query, and where it is looked up. None if the query is not sent to an endpoint, or has a phrase,
    /// which every result must contain literally.
    async fn nearest_query(&self, query: &str) -> Option<NearestQuery> {
        let embeddings = self.state.lock().embeddings.clone()?;
        if Query::parse(query).has_phrase() {
            return None;
        }
        embeddings.query(query).await
    }

    /// Waits until each source has been found or created in the index, or this has failed. It takes a moment
    /// immediately after a start.
    async fn wait_until_open(&self) {
        let waiting: Vec<_> = self.state.lock().sources.values().map(|source| source.state.clone()).collect();
        let opening = async {
            for state in waiting {
                let is_open = |status: &SearchStatus| state.id.lock().is_some() || status.error.is_some();
                // The wait fails only without a sender, which `state` owns.
                let _ = state.status.subscribe().wait_for(is_open).await;
            }
        };
        // A search of the opened sources is better than none.
        let _ = tokio::time::timeout(MAX_OPEN_TIME, opening).await;
    }

    /// Returns the sources of a lookup.
    async fn searched(&self) -> Result<Searched, SearchError> {
        self.wait_until_open().await;
        self.opened()
    }

    /// The same, as far as it is open.
    fn opened(&self) -> Result<Searched, SearchError> {
        let state = self.state.lock();
        if state.sources.is_empty() && state.not_loaded.is_empty() {
            return Err(SearchError::Off);
        }
        let index = state.index()?.clone();
        let (mut sources, mut incomplete) = (BTreeMap::new(), state.not_loaded.clone());
        for (mount, running) in &state.sources {
            if let Some(id) = *running.state.id.lock() {
                let has_lines = running.state.has_lines.load(Ordering::Relaxed);
                let (mount, plugin) = (mount.clone(), running.plugin.clone());
                sources.insert(id, SearchedSource { mount, plugin, has_lines });
            }
            // After a rebuild there are no documents until the source is opened again.
            let is_open = running.state.rebuild.load(Ordering::SeqCst) == index.rebuild_count();
            if !is_open || !running.state.status.borrow().has_everything() {
                incomplete.push(running.plugin.name().to_owned());
            }
        }
        incomplete.sort_unstable();
        Ok(Searched { index, sources: Arc::new(sources), incomplete })
    }
}

/// Whether a URI equals `within` or is below it.
pub(super) fn is_below(uri: &str, within: &str) -> bool {
    match uri.strip_prefix(within) {
        Some(rest) => rest.is_empty() || within.ends_with('/') || rest.starts_with(['/', '?']),
        None => false,
    }
}

/// The hit of a match, with its current URI.
fn to_hit(found: Found, sources: &BTreeMap<SourceId, SearchedSource>) -> Option<SearchHit> {
    let SearchedSource { mount, plugin, has_lines } = sources.get(&found.source)?;
    let uri = mount.compose(&found.path).ok()?.uri;
    let is_plain_text = found.entry.mime_type.as_deref().is_none_or(|kind| kind.starts_with("text/"));
    let lines = found.snippet.as_ref().filter(|_| *has_lines && is_plain_text && !found.path.contains('?'));
    let lines_uri = lines.and_then(|snippet| lines_uri(mount, &found.path, snippet.lines));
    let mut resource = found.entry.into_resource(uri);
    if let Some(title) = plugin.title() {
        resource.prefix_title(title);
    }
    if found.is_snippet_partial {
        let text = "the time for the search ended before all of the text was compared; another part may match better";
        Notice::new(NoticeKind::Incomplete, text.to_owned()).push_to(&mut resource.meta);
    }
    Some(SearchHit { resource, snippet: found.snippet, is_snippet_partial: found.is_snippet_partial, lines_uri })
}

/// A candidate passage for a context, with the current URI of its resource.
fn to_candidate(found: FoundPassage, sources: &BTreeMap<SourceId, SearchedSource>) -> Option<Candidate> {
    let FoundPassage { source, path, entry, text, line, relevance, words, is_nearest } = found;
    let SearchedSource { mount, has_lines, .. } = sources.get(&source)?;
    let uri = mount.compose(&path).ok()?.uri;
    let lines = (line, line.saturating_add(text.lines().count().saturating_sub(1)));
    let is_plain_text = entry.mime_type.as_deref().is_none_or(|kind| kind.starts_with("text/"));
    let has_lines = *has_lines && is_plain_text && !path.contains('?');
    let lines_uri = if has_lines { lines_uri(mount, &path, lines) } else { None };
    let priority = entry.priority.map(|priority| format!("priority {priority}"));
    let matches = (!words.is_empty()).then(|| format!("matches {}", words.join(", ")));
    let near = is_nearest.then(|| "near to the question".to_owned());
    let reason = matches.into_iter().chain(near).chain(priority).collect::<Vec<_>>().join("; ");
    let (tokens, resource) = (estimate_tokens(&text), entry.into_resource(uri));
    Some(Candidate { passage: ContextPassage { resource, lines_uri, text, lines, tokens, reason }, relevance })
}

fn lines_uri(mount: &Mount, path: &str, (first, last): (usize, usize)) -> Option<Uri> {
    Some(mount.compose(&format!("{path}?lines={first}-{last}")).ok()?.uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_uri_is_what_continues_it_with_a_slash() {
        for (uri, within, expected) in [
            ("files:///src/a", "files:///src", true),
            ("files:///src/a", "files:///src/", true),
            ("files:///src", "files:///src", true),
            ("files:///src?as=text", "files:///src", true),
            ("files:///srcs/a", "files:///src", false),
            ("files:///a", "files:///", true),
            ("notes:///a", "files:///", false),
        ] {
            assert_eq!(is_below(uri, within), expected, "{uri} in {within}");
        }
    }
}
