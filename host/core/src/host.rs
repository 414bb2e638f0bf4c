//! The façade: every operation of the host, each for one principal, independent of any protocol.
//!
//! The MCP server and the command line are two of its users; an application that embeds the host is another. A request
//! passes straight down (its URI is parsed and routed to a plugin, access is decided, the plugin's provider is called
//! in its sandbox) and straight back. No request waits here for a lock or in a queue, except for a plugin that is still
//! being loaded (module `loading`).
//!
//! A [`Host::reload`] replaces what is served, and so does a plugin that finishes loading in the background. Each
//! request works with the *generation* that was current when it started.
//!
//! | module | subject |
//! |---|---|
//! | `builder`, `data_dirs`, `start_error` | starting a host |
//! | `check` | loading and trying plugins without serving them |
//! | `upstreams` | what connects to existing servers, and starts their programs |
//! | `explain`, `status` | decisions of the rules, for administrators; the state of each plugin |
//! | `resolve` | from a URI to a plugin and a path, with the access decision |
//! | `directory_index` | the content of directories, made of the children that the principal may list |
//! | `children`, `completion`, `completion_filter`, `streams`, `subscribe` | listings below a resource, completion, whole listings, subscriptions |
//! | `subscription_list` | attempts to subscribe to the resources of a list, in the background |
//! | `search` | requests to search; what search needs of the host |
//! | `skills` | lists of skills |
//! | `audit` | records of requests: the audit log, and events of the access log |
//! | `generation`, `generation_store`, `background_loader`, `reload`, `config_watcher` | what is served, and what replaces it |
//! | `replica` | messages to and from other replicas of a cluster |
//! | `loading` | requests for plugins that are still being loaded |
//! | `lifecycle` | graceful shutdown |
//! | `administration`, `sessions` | what administrators do, and the sessions that they see |
//! | `measure` | what [`metrics`](crate::metrics) read |
//! | `saved_queries` | saved queries of a provider, which `check` reads |
//! | [`transport`], `transport_state`, `hint` | calls for transports and the command line: responses from the cache, rates, records, versions; lookups for hints |

mod administration;
mod audit;
mod background_loader;
mod builder;
mod check;
mod children;
mod completion;
mod completion_filter;
mod config_watcher;
mod data_dirs;
mod directory_index;
mod explain;
mod generation;
mod generation_store;
mod hint;
mod lifecycle;
mod loading;
mod measure;
mod reload;
mod replica;
mod resolve;
mod saved_queries;
#[cfg(feature = "search")]
mod search;
#[cfg(not(feature = "search"))]
#[path = "host/search/absent.rs"]
mod search;
mod sessions;
mod skills;
mod start_error;
mod status;
mod streams;
mod subscribe;
mod subscription_list;
pub mod transport;
mod transport_state;
#[cfg(feature = "upstream")]
mod upstreams;
#[cfg(not(feature = "upstream"))]
#[path = "host/upstreams/absent.rs"]
mod upstreams;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use mcp_host_config::{Config, Operation};
use mcp_host_engine::plugin::PluginRuntime;
use mcp_host_model::resource::{Argument, Completion, Error, Listing, Resource, ResourceContents, ResourceTemplate};
use mcp_host_model::uri::{Mount, RouteError, Uri};
use tokio::sync::watch;

use self::background_loader::BackgroundLoader;
use self::children::Mounts;
use self::directory_index::split_cursor;
use self::generation::Generation;
use self::generation_store::GenerationStore;
use self::lifecycle::RequestTracker;
use self::loading::LoadWaits;
use self::resolve::{not_found_if_empty, route_error};
use self::search::BuiltIns;
use self::sessions::SessionRegistry;
use self::transport::PageBounds;
use self::transport_state::TransportState;
use crate::access::rate::RequestRates;
use crate::access::{Policy, Principal};
use crate::audit::{AuditLog, Facts};
use crate::catalog::{Catalog, Entries, Templates};
use crate::counters::HostCounters;
use crate::watch::{Hub, Subscriber, WatchStats, Watched};

pub use self::administration::{AdminAction, AdminError, AdminSubject};
pub use self::builder::HostBuilder;
pub use self::check::{CheckError, CheckReport, CheckedProvider, InspectError, PluginCheck, Tried};
pub use self::config_watcher::{ConfigWatcher, ReloadOutcome, ReloadTrigger};
pub use self::data_dirs::DataDirs;
pub use self::explain::{Explanation, Judged, MountDecision, Party, Served, WhoMay};
pub use self::generation::NativePluginConflict;
pub(crate) use self::measure::MeasuredState;
pub use self::reload::{ReloadError, ReloadReport};
pub use self::replica::{About, ClusterView, ReplicaView, RosterStats, shared_buckets};
#[doc(hidden)]
pub use self::replica::{
    MAX_SUBSCRIPTIONS, MAX_URI_BYTES, ModelEngine, Opener, RecordPlace, ReplicaId, SessionChange, SessionKey,
    SessionRecord, SessionStore, StoreError, Stored, StreamPlace, Unwritten,
};
pub use self::sessions::{OpenSession, SessionInfo};
pub use self::start_error::StartError;
pub use self::status::{PluginState, PluginStatus};
pub use crate::catalog::Disabled;

/// A host with its plugins: loaded, being loaded, or failed.
///
/// It is cheap to share behind an [`Arc`]; every method takes `&self` and may be called from any number of tasks. It
/// needs a tokio runtime. [`shutdown`](Self::shutdown) ends it gracefully; dropping it cancels the calls in flight.
pub struct Host {
    /// The generation that new requests work with.
    generation: Arc<ArcSwap<Generation>>,
    catalog: Catalog,
    hub: Arc<Hub>,
    plugin_runtime: Arc<PluginRuntime>,
    /// The only place that replaces the generation.
    generation_store: Arc<GenerationStore>,
    /// Loads plugins until it is dropped.
    background_loader: BackgroundLoader,
    /// The built-in providers of the host.
    built_ins: BuiltIns,
    /// Bounds requests that wait for a plugin to be loaded.
    load_waits: LoadWaits,
    /// The number of reloads that have begun. Only the latest reload may replace plugins.
    latest_reload: watch::Sender<u64>,
    /// The requests in flight.
    requests: RequestTracker,
    /// One line per request.
    audit: Arc<AuditLog>,
    /// The rates of clients.
    rates: Arc<RequestRates>,
    /// The sessions of transports.
    sessions: Arc<SessionRegistry>,
    /// Counters for metrics.
    counters: HostCounters,
    /// State that the protocol servers keep.
    transport_state: TransportState,
}

/// A request to list the catalog, or the direct children of one resource.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListRequest<'a> {
    /// The URI of the listable resource whose children are requested. Without one: the catalog.
    pub parent: Option<&'a str>,
    /// The `next_cursor` of the previous page. Without one: the first page.
    pub cursor: Option<&'a str>,
}

/// A request to complete a variable of a template.
#[derive(Clone, Debug)]
pub struct CompleteRequest<'a> {
    /// The template, as [`Host::templates`] lists it.
    pub template: &'a str,
    /// The variable, and the prefix of its value.
    pub argument: Argument,
    /// The variables that already have values.
    pub context: Vec<Argument>,
}

impl Host {
    /// Starts a host with the given config and the defaults of [`Host::builder`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::builder(config).start().await
    }

    /// Returns a builder for a host with the given config.
    pub fn builder(config: Config) -> HostBuilder {
        HostBuilder::new(config)
    }

    /// Returns the config that is served now.
    pub fn config(&self) -> Arc<Config> {
        self.generation.load().config.clone()
    }

    /// The built-in providers of the host.
    pub(crate) fn built_ins(&self) -> &BuiltIns {
        &self.built_ins
    }

    /// Returns the number of the current generation: 1 at first, and one more after each reload that changes something.
    pub fn generation(&self) -> u64 {
        self.generation.load().number
    }

    /// Waits until no plugin is being loaded: each is loaded, or has failed, which a [`shutdown`](Self::shutdown) also
    /// causes.
    pub async fn wait_until_loaded(&self) {
        self.generation_store.wait_until_loaded().await;
    }

    /// Returns the current status of each plugin, ordered by name.
    pub fn plugins(&self) -> Vec<PluginStatus> {
        let now = self.generation.load();
        now.slots.iter().map(|slot| PluginStatus::new(slot, &self.hub, &now.config)).collect()
    }

    /// Lists one page of the catalog, or of the direct children of a resource.
    ///
    /// A merged listing leaves out a plugin that fails, and names it; a listing of children fails with its plugin. A
    /// resource that is not listable is an invalid request, except a mount, below which the plugin's default listing is
    /// returned.
    pub async fn list(&self, principal: &Principal, request: ListRequest<'_>) -> Result<Listing<Resource>, Error> {
        self.list_within(principal, request, None).await
    }

    /// Lists one page, within additional bounds.
    async fn list_within(
        &self,
        principal: &Principal,
        request: ListRequest<'_>,
        bounds: Option<PageBounds>,
    ) -> Result<Listing<Resource>, Error> {
        if let Some(parent) = request.parent {
            if let Some(listing) = self.list_prefix_mount(principal, parent, request.cursor, bounds).await {
                return listing;
            }
            let check = |entry: &Resource| if entry.listable { Ok(()) } else { Err("cannot be listed") };
            return self.list_children(principal, parent, request.cursor, bounds, Mounts::Listed, check).await;
        }
        let facts = Facts::default();
        self.audited(principal, Operation::List, "", &facts, async {
            let now = self.generation.load_full();
            facts.set_generation(now.number);
            let viewer = now.viewer(principal);
            let page = PageBounds::bound(bounds, now.page_request(&viewer, request.cursor));
            self.catalog.page(&Entries { parent: None }, &now.slots, page).await
        })
        .await
    }

    /// Lists one page of the templates of all plugins.
    pub async fn templates(
        &self,
        principal: &Principal,
        cursor: Option<&str>,
    ) -> Result<Listing<ResourceTemplate>, Error> {
        let facts = Facts::default();
        self.audited(principal, Operation::Templates, "", &facts, async {
            let now = self.generation.load_full();
            facts.set_generation(now.number);
            let viewer = now.viewer(principal);
            self.catalog.page(&Templates, &now.slots, now.page_request(&viewer, cursor)).await
        })
        .await
    }

    /// Reads a resource. Returns at least one content; contents whose URI differs from the requested URI belong to
    /// resources below it.
    pub async fn read(&self, principal: &Principal, uri: &str) -> Result<Vec<ResourceContents>, Error> {
        let facts = Facts::default();
        self.audited(principal, Operation::Read, uri, &facts, async {
            let (uri, cursor) = split_cursor(uri);
            let now = self.generation_for(principal, Operation::Read, uri, &facts).await;
            let target = now.resolve(principal, Operation::Read, uri, &facts)?;
            if let Some(contents) = target.read_built_in(principal, &facts).await {
                return contents;
            }
            let plugin = target.slot.loaded()?;
            let contents = plugin.read(&target.path, target.read_filter()).await;
            let mut contents = contents.map_err(|fault| fault.into_client_error(plugin.name(), uri))?;
            target.hide_denied_parts(&mut contents);
            let contents = self.with_index(&now, principal, &target, cursor, contents).await?;
            facts.set_contents(&target.uri, &contents);
            not_found_if_empty(uri, contents)
        })
        .await
    }

    /// Returns the metadata of a resource without reading it.
    pub async fn metadata(&self, principal: &Principal, uri: &str) -> Result<Resource, Error> {
        let facts = Facts::default();
        self.audited(principal, Operation::Metadata, uri, &facts, async {
            let now = self.generation_for(principal, Operation::Metadata, uri, &facts).await;
            now.resolve(principal, Operation::Metadata, uri, &facts)?.stat(uri).await
        })
        .await
    }

    /// Completes a variable of a template. A template that does not exist, or that the principal may not see, is not
    /// found.
    pub async fn complete(&self, principal: &Principal, request: CompleteRequest<'_>) -> Result<Completion, Error> {
        let (facts, template) = (Facts::default(), request.template);
        let completing = self.complete_inner(principal, request, &facts);
        self.audited(principal, Operation::Complete, template, &facts, completing).await
    }

    /// Returns a new subscriber without subscriptions.
    pub fn subscriber(&self, principal: &Principal) -> Subscriber {
        self.hub.subscriber(principal)
    }

    /// Returns statistics of what is watched now, over all subscribers.
    pub fn watch_stats(&self) -> WatchStats {
        self.hub.watch_stats()
    }

    /// Returns the resources with subscriptions, in order, and their subscribers: the first `limit` after `after`.
    pub fn watched_resources(&self, after: Option<&str>, limit: usize) -> Vec<Watched> {
        self.hub.watched_resources(after, limit)
    }

    /// Returns whether any plugin supports change detection, and the principal may read and subscribe to something of
    /// it. A plugin that is still being loaded counts, because it may support change detection.
    pub fn supports_subscriptions(&self, principal: &Principal) -> bool {
        let now = self.generation.load();
        let policy = now.access.policy(principal);
        let may_subscribe = |mount: &Mount| {
            [Operation::Subscribe, Operation::Read].iter().all(|operation| policy.may_allow_below(*operation, mount))
        };
        self.hub.supports_subscriptions(may_subscribe)
            || now.slots.iter().any(|slot| slot.is_loading() && may_subscribe(&slot.mount))
    }

    /// Returns the policy of a principal under the current rules.
    pub fn policy(&self, principal: &Principal) -> Arc<Policy> {
        self.generation.load().access.policy(principal)
    }

    /// Returns whether the rules give every principal the same responses to the operation.
    #[doc(hidden)]
    pub fn is_public(&self, operation: Operation) -> bool {
        self.generation.load().access.is_public(operation)
    }

    /// Returns the URI in normal form (RFC 3986), if it is valid and the mount of a plugin owns it. Whether the
    /// resource exists is not checked.
    ///
    /// Every URI in a response of the host is in this form.
    pub fn normalize(&self, uri: &str) -> Option<Uri> {
        let router = &self.generation.load().router;
        router.route(uri).or_else(|_| router.route_resolved(uri)).ok().map(|routed| routed.uri)
    }

    /// Cancels a subscription. A subscription that does not exist is not an error, whether or not a mount owns the URI.
    pub fn unsubscribe(&self, subscriber: &Subscriber, uri: &str) -> Result<(), Error> {
        let facts = Facts::default();
        let principal = subscriber.principal();
        let record = self.begin_record(&principal, audit::UNSUBSCRIBE, uri, &facts)?;
        let generation = self.generation.load();
        facts.set_generation(generation.number);
        let policy = generation.access.policy(&principal);
        let result = match generation.route_for(&policy, Operation::Subscribe, uri) {
            Ok(routed) => {
                facts.set_uri(routed.uri.as_str());
                subscriber.unsubscribe(&routed.uri);
                Ok(())
            }
            // If the plugin is gone, so is the normal form, and only the spelling in the subscription identifies it.
            // The existence of a mount is not public.
            Err(RouteError::NoMount | RouteError::Path { .. }) => {
                subscriber.unsubscribe_by_spelling(uri);
                Ok(())
            }
            Err(error) => Err(route_error(&error, uri)),
        };
        record.end(&result);
        result
    }
}

impl Drop for Host {
    /// Stops polling, and ends the streams of updates, because subscribers may outlive the host.
    fn drop(&mut self) {
        self.hub.shutdown();
        self.generation.load_full().shut_down_built_ins();
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugins: Vec<_> = self.plugins().into_iter().map(|plugin| (plugin.name, plugin.state)).collect();
        f.debug_struct("Host")
            .field("generation", &self.generation())
            .field("plugins", &plugins)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
