//! The resources of search: the built-in mount `search:`, which exists while any plugin is searched.
//!
//! | URI | content |
//! |---|---|
//! | `search:///?q=WORDS`, with `in`, `kind`, `lang` and `limit` | the result of a search, as JSON |
//! | `search:///saved/NAME` | the result of a saved search (`search.saved`); listed, and subscribable |
//!
//! These resources are a [built-in provider](mcp_host_engine::plugin::BuiltIn), which lists the saved searches and the
//! template, and answers reads and completions for the principal.
//!
//! # Subscriptions
//!
//! The provider is polled while there are subscriptions. If the index has changed since the last poll, each saved
//! search is repeated for each principal that subscribes to it, and principals whose own result has changed are
//! notified.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use mcp_host_config::limits::Limits;
use mcp_host_config::search::SavedSearch;
use mcp_host_config::{Config, Operation, PluginName};
use mcp_host_engine::plugin::{BuiltIn, BuiltInContents, MountedPlugin, NativePlugin, Plugin};
use mcp_host_model::principal::Principal;
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_host_model::resource::{
    Argument, Completion, Error, NOTICES_META_KEY, Resource, ResourceBody, ResourceContents,
};
use mcp_host_model::uri::{Mount, Path, Uri};
use parking_lot::Mutex;

use super::context_resources::ContextResources;
use super::filters::searched_mounts;
use super::host_view::SearchHost;
use super::parameters::{self, parameters};
use super::request::SearchRequest;
use super::results::SearchResults;
use super::results::to_json;
use super::service::{SearchService, has_search};

/// The name of the plugin in messages.
const NAME: &str = "mcp-host.search";
/// Its mount.
const MOUNT: &str = "search:///";
/// The template of searches.
const TEMPLATE: &str = "{?q,in,kind,lang,limit}";
/// The prefix of the paths of saved searches.
const SAVED: &str = "saved/";
const JSON: &str = "application/json";
/// The interval at which subscribed searches are repeated, if the index has changed.
const WATCH_INTERVAL: &str = "1s";
/// The maximum time of one poll.
const DEADLINE: &str = "1m";

/// The meaning of a path of the mount.
#[derive(Clone, Debug, PartialEq)]
enum SearchPath {
    /// The mount itself.
    Root,
    /// A saved search.
    Saved(SavedSearch),
    /// A search by its parameters.
    Request(SearchRequest),
}

/// The provider of searches.
pub(super) struct SearchResources {
    service: Arc<SearchService>,
    fingerprints: Mutex<Fingerprints>,
}

/// The results of subscribed searches at the last poll.
#[derive(Default)]
struct Fingerprints {
    /// The number of changes of the index at that time.
    changes: u64,
    results: HashMap<(Uri, Principal), ResultHashes>,
}

/// The hashes of one search's results with and without embeddings, so that a failure or recovery of the endpoint is not
/// a change.
#[derive(Clone, Copy, Default)]
struct ResultHashes {
    hybrid: Option<u64>,
    lexical: Option<u64>,
}

impl ResultHashes {
    /// Records a result. Returns whether it differs from the previous one.
    fn record(&mut self, is_hybrid: bool, result: u64) -> bool {
        let last = if is_hybrid { &mut self.hybrid } else { &mut self.lexical };
        last.replace(result).is_some_and(|last| last != result)
    }
}

impl SearchService {
    /// The plugins that mount search and context.
    pub fn plugins(self: &Arc<Self>) -> Vec<NativePlugin> {
        SearchResources::plugin(self.clone()).into_iter().chain(ContextResources::plugin(self.clone())).collect()
    }
}

impl SearchResources {
    /// The plugin that mounts the provider.
    pub(super) fn plugin(service: Arc<SearchService>) -> Option<NativePlugin> {
        let (name, mount): (PluginName, Mount) = (NAME.parse().ok()?, MOUNT.parse().ok()?);
        let limits = Limits { deadline: DEADLINE.parse().ok()?, ..Limits::default() };
        let provider = Arc::new(Self { service, fingerprints: Mutex::default() });
        Some(NativePlugin::built_in(name, mount, provider).limits(limits).watch_interval(WATCH_INTERVAL.parse().ok()?))
    }

    fn host(&self) -> Result<Arc<dyn SearchHost>> {
        self.service.host().ok_or_else(|| Failure::unavailable("the host is starting, or shutting down"))
    }

    fn parse(&self, path: &str) -> Result<SearchPath> {
        parse(path, &saved_searches(&*self.host()?))
    }
}

/// The saved searches of the config.
fn saved_searches(host: &dyn SearchHost) -> Vec<SavedSearch> {
    host.config().search.as_ref().map(|search| search.saved.clone()).unwrap_or_default()
}

fn parse(path: &str, saved: &[SavedSearch]) -> Result<SearchPath> {
    if let Some(name) = path.strip_prefix(SAVED) {
        let found = saved.iter().find(|saved| saved.name.as_str() == name);
        return found.map(|saved| SearchPath::Saved(saved.clone())).ok_or(Failure::NotFound);
    }
    match path.strip_prefix('?') {
        Some(query) => parse_query(query).map(SearchPath::Request),
        None if path.is_empty() => Ok(SearchPath::Root),
        None => Err(Failure::NotFound),
    }
}

fn parse_query(query: &str) -> Result<SearchRequest> {
    let mut request = SearchRequest::new("");
    let mut has_query = false;
    for (name, value) in parameters(query) {
        match name {
            "q" => (request.query, has_query) = (value, true),
            // A template expression without a value.
            _ if value.is_empty() => {}
            "in" => request.within = Some(value),
            "kind" => request.kind = Some(value),
            "lang" => request.language = Some(value),
            "limit" => request.limit = parameters::integer(name, &value, SearchRequest::MAX_LIMIT)?,
            _ => return Err(parameters::unknown(name, &["q", "in", "kind", "lang", "limit"])),
        }
    }
    if has_query { Ok(request) } else { Err(Failure::invalid("a search needs words: `search:///?q=WORDS`")) }
}

impl From<SavedSearch> for SearchRequest {
    fn from(saved: SavedSearch) -> Self {
        let SavedSearch { query, within, kind, lang, limit, .. } = saved;
        let (kind, language) = (kind.map(|kind| kind.to_string()), lang.map(|lang| lang.to_string()));
        Self { query, within, kind, language, limit: limit.get() }
    }
}

fn entry(path: &str, meaning: SearchPath) -> Entry {
    match meaning {
        SearchPath::Root => Entry::new(path, "search")
            .title("Search")
            .description("Full-text search: `search:///?q=WORDS` has the result."),
        SearchPath::Saved(saved) => {
            let name = saved.name.as_str().to_owned();
            let title = saved.title.unwrap_or_else(|| format!("Search: {}", saved.query));
            let description = format!("The result of a search for {}.", saved.query);
            Entry::new(path, name).title(title).description(description).mime_type(JSON).subscribable()
        }
        SearchPath::Request(request) => Entry::new(path, request.query).mime_type(JSON),
    }
}

#[async_trait]
impl Provider for SearchResources {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("search", env!("CARGO_PKG_VERSION"))
            .title("Search")
            .description("Full-text search over the resources of this server.")
            .watches(true)
    }

    async fn list(&self, parent: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        if parent.is_some() {
            return Err(Failure::invalid("a URI of a plugin; searches have no children"));
        }
        let saved = saved_searches(&*self.host()?).into_iter();
        Ok(Page::last(saved.map(|saved| entry(&format!("{SAVED}{}", saved.name), SearchPath::Saved(saved)))))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        Ok(entry(path, self.parse(path)?))
    }

    /// Reads need a principal: [`read_for`](BuiltIn::read_for).
    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        self.parse(path).and(Err(Failure::internal("a search was read without a principal")))
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        let description = "Finds resources by words in their text, names and descriptions. `q`: the words; `in`: a URI below \
                           which is searched; `kind`: a MIME type; `lang`: the code of a language; `limit`: the number of \
                           results.";
        Ok(vec![Template::new(TEMPLATE, "search").title("Search").description(description).mime_type(JSON)])
    }

    async fn changes(&self, _: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let host = self.host()?;
        let saved = hash(&format!("{:?}", saved_searches(&*host))).to_string();
        self.notify_of_changed_results(&*host).await;
        let changes = ChangeSet::none(saved.clone());
        Ok(if since.is_some_and(|since| since != saved) { changes.listing_changed() } else { changes })
    }
}

impl SearchResources {
    /// Notifies each principal of subscribed searches whose result has changed for this principal.
    async fn notify_of_changed_results(&self, host: &dyn SearchHost) {
        let Some(mount) = MOUNT.parse::<Mount>().ok() else { return };
        let watched = host.subscriptions_below(&mount);
        let changes = self.service.change_count();
        let before = {
            let mut fingerprints = self.fingerprints.lock();
            let is_watched = |(uri, principal): &(Uri, Principal)| {
                watched.iter().any(|(other, principals)| other == uri && principals.contains(principal))
            };
            fingerprints.results.retain(|key, _| is_watched(key));
            let has_changed = fingerprints.changes != changes;
            fingerprints.changes = changes;
            (has_changed, fingerprints.results.clone())
        };
        let (has_changed, before) = before;
        let saved = saved_searches(host);
        for (uri, principals) in watched {
            let Some(path) = uri.as_str().strip_prefix(MOUNT) else { continue };
            let Ok(SearchPath::Saved(search)) = parse(path, &saved) else { continue };
            let request = SearchRequest::from(search);
            let mut concerned = HashSet::new();
            for principal in principals {
                let key = (uri.clone(), principal);
                let known = before.get(&key).copied();
                if known.is_some() && !has_changed {
                    continue;
                }
                let found = fingerprint(&self.service, &key.1, request.clone()).await;
                let Some((is_hybrid, result)) = found else { continue };
                let mut hashes = known.unwrap_or_default();
                if hashes.record(is_hybrid, result) {
                    concerned.insert(key.1.clone());
                }
                self.fingerprints.lock().results.insert(key, hashes);
            }
            host.notify(&uri, &concerned).await;
        }
    }
}

/// Whether the result for a principal is hybrid, and its fingerprint. None if the search was interrupted. The
/// fingerprint leaves out a snippet that may not be the best one, because it differs from search to search.
async fn fingerprint(service: &SearchService, principal: &Principal, request: SearchRequest) -> Option<(bool, u64)> {
    let results = service.search(principal, request).await.ok()?;
    let SearchResults { mut hits, total, is_partial, is_hybrid, incomplete } = results;
    if is_partial && incomplete.is_empty() && !hits.iter().any(|hit| hit.is_snippet_partial) {
        return None;
    }
    for hit in hits.iter_mut().filter(|hit| hit.is_snippet_partial) {
        hit.snippet = None;
        hit.resource.meta.remove(NOTICES_META_KEY);
    }
    let shown: Vec<_> =
        hits.iter().map(|hit| (&hit.resource, hit.snippet.as_ref().map(|snippet| &snippet.text))).collect();
    Some((is_hybrid, hash(&(shown, total))))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[async_trait]
impl BuiltIn for SearchResources {
    fn is_mounted(&self, config: &Config, native: &[&Plugin]) -> bool {
        has_search(config, native.iter().copied())
    }

    fn performed_operations(&self) -> &'static [Operation] {
        &[Operation::List, Operation::Read]
    }

    async fn read_for(
        &self,
        principal: &Principal,
        uri: &Uri,
        path: &Path,
    ) -> std::result::Result<BuiltInContents, Error> {
        let host = self.service.host().ok_or(Error::ShuttingDown)?;
        let request = match parse(path.as_str(), &saved_searches(&*host)) {
            Ok(SearchPath::Root) => {
                let message = "a search needs words: `search:///?q=WORDS`".to_owned();
                return Err(Error::InvalidRequest { message });
            }
            Ok(SearchPath::Saved(saved)) => saved.into(),
            Ok(SearchPath::Request(request)) => request,
            Err(Failure::InvalidRequest(message)) => return Err(Error::InvalidRequest { message }),
            Err(_) => return Err(Error::NotFound { uri: uri.to_string() }),
        };
        let results = self.service.search(principal, request).await?;
        let returned = results.hits.iter().map(|hit| hit.resource.uri.to_string()).collect();
        let text = to_json(results).to_string();
        let (mime_type, size) = (Some(JSON.to_owned()), u64::try_from(text.len()).ok());
        let entry = Resource { mime_type, size, ..Resource::named(uri.clone(), "search") };
        Ok(BuiltInContents { contents: vec![ResourceContents { entry, body: ResourceBody::Text(text) }], returned })
    }

    async fn complete_for(&self, principal: &Principal, argument: &Argument) -> std::result::Result<Completion, Error> {
        let view = self.service.host().ok_or(Error::ShuttingDown)?.view(principal);
        let values = match argument.name.as_str() {
            "in" => searched_mounts(&*view).map(ToString::to_string).collect(),
            "kind" | "lang" => self.service.values_for(principal, argument.name == "kind", view).await,
            "q" | "limit" => Vec::new(),
            _ => {
                let message = "the template has the variables `q`, `in`, `kind`, `lang` and `limit`".to_owned();
                return Err(Error::InvalidRequest { message });
            }
        };
        Ok(Completion::matching(values, &argument.value))
    }

    /// Switches the generation for context, too.
    fn switch_generation(&self, config: &Config, plugins: &[MountedPlugin<'_>]) {
        self.service.switch_generation(config, plugins);
    }

    fn shutdown(&self) {
        self.service.shutdown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(path: &str) -> Result<SearchPath> {
        let saved = SavedSearch::new("todo".parse().unwrap(), "TODO FIXME");
        parse(path, &[saved])
    }

    #[test]
    fn a_search_is_its_parameters() {
        let request = SearchRequest::new("a b").within("files:///src/").kind("text").language("en").limit(5);
        let parsed = query("?q=a%20b&in=files:///src/&kind=text&lang=en&limit=5").unwrap();
        assert_eq!(parsed, SearchPath::Request(request));
        assert_eq!(query("?q=a+b&in=&limit=").unwrap(), SearchPath::Request(SearchRequest::new("a b")));
        assert_eq!(query("?q=").unwrap(), SearchPath::Request(SearchRequest::new("")));
        for invalid in ["?", "?in=a", "?q=a&limit=0", "?q=a&limit=1000", "?q=a&limit=x", "?q=a&other=1"] {
            assert!(matches!(query(invalid), Err(Failure::InvalidRequest(_))), "{invalid}");
        }
    }

    #[test]
    fn a_saved_search_is_found_by_its_name() {
        assert!(matches!(query("saved/todo"), Ok(SearchPath::Saved(_))));
        for absent in ["saved/other", "saved/", "x"] {
            assert_eq!(query(absent), Err(Failure::NotFound), "{absent}");
        }
        assert_eq!(query(""), Ok(SearchPath::Root));
    }

    #[test]
    fn its_own_plugin_is_valid() {
        assert!(SearchResources::plugin(SearchService::new(None, None)).is_some());
    }
}
