//! Search in the façade: the built-in provider and its metrics, recorded search requests, and search's interface to the
//! host.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use mcp_host_base::metrics::Family;
use mcp_host_base::shared_snapshots::SharedSnapshots;
use mcp_host_base::text::prefix;
use mcp_host_config::{Config, Operation};
use mcp_host_engine::plugin::{MountedPlugin, NativePlugin};
use mcp_host_model::provider::async_trait;
use mcp_host_model::resource::{Error, Resource};
use mcp_host_model::uri::{Mount, Uri};
use mcp_host_search::{
    ContextRequest, ContextSelection, HostView, IndexRole, SearchHost, SearchRequest, SearchResults, SearchService,
    SearchStatus, SnapshotCounts,
};
use prometheus_client::encoding::DescriptorEncoder;

use super::Host;
use super::audit::RequestKind;
use super::generation::Generation;
use super::generation_store::GenerationStore;
use crate::access::{Policy, Principal};
use crate::audit::Facts;

/// The name of a search in records.
const SEARCH: RequestKind = RequestKind { name: "search", returns_uris: true };
/// The name of a selection of context in records.
const CONTEXT: RequestKind = RequestKind { name: "context", returns_uris: true };

const DOCUMENTS: Family = Family::gauge("mcp_host_search_documents", &["plugin"], "Resources in the search index.");
const BYTES: Family = Family::gauge("mcp_host_search_bytes", &["plugin"], "Bytes of text in the search index.");
const MISSING: Family = Family::gauge(
    "mcp_host_search_missing",
    &["plugin"],
    "Resources whose text is not completely in the search index: it could not be read, is longer than `max-document`, or did not fit.",
);
const COMPLETE: Family = Family::gauge(
    "mcp_host_search_complete",
    &["plugin"],
    "1 if the search index of the plugin is complete, 0 while it is built, or if something is missing.",
);

const CURRENT: Family = Family::gauge(
    "mcp_host_search_current_timestamp_seconds",
    &["plugin"],
    "The last time when everything that the plugin had reported was indexed: after a comparison with its listing, or a poll for \
     changes, in seconds since the Unix epoch.",
);
const SEARCHES: Family = Family::counter(
    "mcp_host_searches_total",
    &["outcome"],
    "Searches and selections of context by outcome: ok, partial (the time ended, or a plugin is not completely indexed), failed.",
);
const ROLE: Family = Family::gauge(
    "mcp_host_search_role",
    &["plugin", "role"],
    "1 for the part of this replica of a cluster in the shared search index of the plugin: building, following (it fetches the index) or alone (it indexes for itself for now).",
);
const SNAPSHOTS: Family = Family::counter(
    "mcp_host_search_snapshots_total",
    &["plugin", "result"],
    "Snapshots of the search index: published, fetched, rejected (forged, damaged or invalid), and failed requests.",
);

/// The built-in providers of this build: search. Only this type names them, besides the methods of [`Host`] for each of
/// them.
pub(crate) struct BuiltIns {
    search: Arc<SearchService>,
}

impl BuiltIns {
    /// Creates the providers, with their persistent state in this directory. They do nothing before the first
    /// generation. Replicas of a cluster share these snapshots.
    pub(super) fn new(state_dir: Option<PathBuf>, snapshots: Option<SharedSnapshots>) -> Self {
        Self { search: SearchService::new(state_dir, snapshots) }
    }

    /// Returns the plugins that mount them.
    pub(super) fn plugins(&self) -> Vec<NativePlugin> {
        self.search.plugins()
    }

    /// Connects them to the current generation of the host.
    pub(super) fn connect(&self, store: &Arc<GenerationStore>) {
        self.search.connect(Arc::<GenerationStore>::downgrade(store));
    }

    /// Encodes the metrics.
    pub(crate) fn encode_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let searched = self.search.status();
        let mut encode = |family: &Family, value: fn(&SearchStatus) -> u64| {
            family.encode(encoder, |samples| {
                searched.iter().try_for_each(|status| samples.integer(&[&status.plugin], value(status)))
            })
        };
        encode(&DOCUMENTS, |status| status.documents)?;
        encode(&BYTES, |status| status.bytes)?;
        encode(&MISSING, |status| status.omitted.saturating_add(status.failed).saturating_add(status.without_text))?;
        encode(&COMPLETE, |status| u64::from(status.has_everything()))?;
        CURRENT.encode(encoder, |samples| {
            searched.iter().try_for_each(|status| {
                let since_epoch = status.current_at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
                since_epoch.map_or(Ok(()), |since_epoch| samples.seconds(&[&status.plugin], since_epoch))
            })
        })?;
        SEARCHES.encode(encoder, |samples| {
            let counts = self.search.search_counts();
            counts.into_iter().try_for_each(|(outcome, count)| samples.integer(&[outcome], count))
        })?;
        let shared = || searched.iter().filter(|status| status.role != IndexRole::Unshared);
        ROLE.encode(encoder, |samples| {
            shared().try_for_each(|status| samples.one_of(&status.plugin, &IndexRole::SHARED, status.role.name()))
        })?;
        SNAPSHOTS.encode(encoder, |samples| {
            shared().try_for_each(|status| {
                let SnapshotCounts { published, fetched, rejected, failed, .. } = status.snapshots;
                [("published", published), ("fetched", fetched), ("rejected", rejected), ("failed", failed)]
                    .into_iter()
                    .try_for_each(|(result, count)| samples.integer(&[&status.plugin, result], count))
            })
        })
    }
}

impl Host {
    /// Searches the text, names, titles, descriptions and paths of the resources of all searched plugins (`search` of a
    /// `[[plugin]]`), as far as the principal may list and read them.
    ///
    /// The result is partial if the search takes longer than 200 ms, or if the index does not have everything.
    ///
    /// # Errors
    ///
    /// The request cannot match anything: the query has no word, or is longer than [`SearchRequest::MAX_QUERY_LEN`]; a
    /// kind or language is not a valid [`KindFilter`](mcp_host_config::search::KindFilter) or
    /// [`LanguageCode`](mcp_host_config::search::LanguageCode); nothing is searched below the URI; no plugin is
    /// searched at all. Or the index is temporarily unusable.
    pub async fn search(&self, principal: &Principal, request: SearchRequest) -> Result<SearchResults, Error> {
        let facts = Facts::default();
        let query = prefix(&request.query, SearchRequest::MAX_QUERY_LEN).to_owned();
        self.audited(principal, SEARCH, &query, &facts, async {
            facts.set_generation(self.generation());
            let results = self.built_ins.search.search(principal, request).await?;
            facts.set_returned(results.hits.iter().map(|hit| hit.resource.uri.as_str()));
            let snippets = results.hits.iter().filter_map(|hit| Some(hit.snippet.as_ref()?.text.as_str()));
            facts.set_bytes(total_len(snippets));
            Ok(results)
        })
        .await
    }

    /// Chooses the best passages for a question within a budget of tokens, from the resources of all searched plugins,
    /// as far as the principal may list and read them. The text is from the time of indexing.
    ///
    /// The result is the same for the same index. It is partial if the search takes longer than 200 ms, or if the index
    /// does not have everything.
    ///
    /// # Errors
    ///
    /// The errors of [`search`](Self::search), if a question is given.
    pub async fn context(&self, principal: &Principal, request: ContextRequest) -> Result<ContextSelection, Error> {
        let facts = Facts::default();
        let query = prefix(request.query.as_deref().unwrap_or_default(), SearchRequest::MAX_QUERY_LEN).to_owned();
        self.audited(principal, CONTEXT, &query, &facts, async {
            facts.set_generation(self.generation());
            let selection = self.built_ins.search.context(principal, request).await?;
            facts.set_returned(selection.passages.iter().map(|passage| passage.resource.uri.as_str()));
            facts.set_bytes(total_len(selection.passages.iter().map(|passage| passage.text.as_str())));
            Ok(selection)
        })
        .await
    }

    /// Returns the languages of the texts of those resources, by their URIs: for those that are indexed, that the
    /// principal may list and read, and whose language is determined.
    pub async fn languages(&self, principal: &Principal, resources: &[Resource]) -> HashMap<String, String> {
        let uris = resources.iter().map(|resource| resource.uri.as_str().to_owned()).collect();
        self.built_ins.search.languages(principal, uris).await
    }

    /// Returns the index status of each searched plugin, ordered by name.
    pub fn search_status(&self) -> Vec<SearchStatus> {
        self.built_ins.search.status()
    }

    /// Waits until the whole listing of each searched and loaded plugin has been compared with the index, or the
    /// comparison has failed.
    pub async fn wait_until_indexed(&self) {
        self.wait_until_loaded().await;
        self.built_ins.search.wait_until_indexed().await;
    }

    /// Deletes the search index. All resources are read and indexed again.
    ///
    /// # Errors
    ///
    /// No plugin is searched, or the index cannot be deleted or created.
    pub async fn rebuild_search_index(&self) -> Result<(), Error> {
        self.built_ins.search.rebuild().await
    }
}

/// The total length of texts in bytes.
fn total_len<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    texts.map(|text| u64::try_from(text.len()).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

#[async_trait]
impl SearchHost for GenerationStore {
    fn config(&self) -> Arc<Config> {
        self.generation.load().config.clone()
    }

    fn view(&self, principal: &Principal) -> Arc<dyn HostView> {
        let generation = self.generation.load_full();
        let policy = generation.access.policy(principal);
        Arc::new(View { generation, policy })
    }

    fn subscriptions_below(&self, mount: &Mount) -> Vec<(Uri, HashSet<Principal>)> {
        self.hub.principals_below(mount)
    }

    async fn notify(&self, uri: &Uri, principals: &HashSet<Principal>) {
        self.hub.notify(uri, principals).await;
    }
}

/// A generation, for one principal.
struct View {
    generation: Arc<Generation>,
    policy: Arc<Policy>,
}

impl HostView for View {
    fn config(&self) -> &Config {
        &self.generation.config
    }

    fn plugins(&self) -> Vec<MountedPlugin<'_>> {
        self.generation.mounted_plugins()
    }

    fn route(&self, uri: &str) -> Option<(&Mount, Uri)> {
        let routed = self.generation.route_for(&self.policy, Operation::List, uri).ok();
        routed.map(|routed| (routed.mount, routed.uri))
    }

    fn may_find(&self, uri: &str) -> bool {
        let may = |operation| self.policy.allows_normalized(operation, uri);
        may(Operation::List) && may(Operation::Read)
    }

    fn may_find_below(&self, mount: &Mount) -> bool {
        let may = |operation| self.policy.may_allow_below(operation, mount);
        may(Operation::List) && may(Operation::Read)
    }
}
