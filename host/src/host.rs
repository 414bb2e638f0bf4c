//! The façade: everything that a host does, for one principal at a time, with no word of any protocol.
//!
//! The MCP server and the command line are two of its users; an application that embeds the host is another. A request goes
//! straight down: its URI is parsed and routed to a plugin, the principal's access is decided, the plugin's provider is called
//! in its sandbox; and straight back. No request waits here for a lock or in a queue.
//!
//! What is served changes by [`Host::reload`], and when a plugin is there that was still being loaded: each request works with
//! the *generation* of its beginning.

mod audit;
mod background_loader;
mod builder;
mod children;
mod completion;
mod data_dirs;
mod generation;
mod generation_store;
mod reload;
mod resolve;
mod status;
mod subscribe;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::join_all;
use tokio::sync::watch;

use self::audit::audited;
use self::background_loader::BackgroundLoader;
use self::generation::Generation;
use self::generation_store::GenerationStore;
use self::resolve::{not_found_if_empty, route_error};
use crate::access::Principal;
use crate::catalog::{Catalog, Entries, Templates};
use crate::config::{Config, Operation};
use crate::log_target;
use crate::plugin::PluginRuntime;
use crate::resource::{Argument, Completion, Contents, Entry, EntryTemplate, Error, Listing};
use crate::uri::RouteError;
use crate::watch::{Hub, Subscriber, WatchStats};

pub use self::builder::{HostBuilder, StartError};
pub use self::data_dirs::DataDirs;
pub use self::reload::{ReloadError, ReloadReport};
pub use self::status::{PluginState, PluginStatus};

/// A host with its plugins, each of which is loaded, being loaded, or could not be.
///
/// It is cheap to share behind an [`Arc`]; every method takes `&self` and may be called from any number of tasks. It needs a
/// tokio runtime. Dropping it ends the calls that are under way.
pub struct Host {
    /// What requests work with that begin now.
    generation: Arc<ArcSwap<Generation>>,
    catalog: Catalog,
    hub: Arc<Hub>,
    plugin_runtime: Arc<PluginRuntime>,
    /// What replaces the generation.
    generation_store: Arc<GenerationStore>,
    /// Plugins that are being loaded. Dropped, this ends.
    background_loader: BackgroundLoader,
    /// How many reloads have begun: only the last of them may replace plugins.
    latest_reload: watch::Sender<u64>,
}

/// A request to list: the whole catalog, or what is directly below one resource.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListRequest<'a> {
    /// The URI of a listable resource whose children are asked for; without one, the catalog.
    pub parent: Option<&'a str>,
    /// Where to go on: the `next_cursor` of the page before.
    pub cursor: Option<&'a str>,
}

/// A request to complete a variable of a template.
#[derive(Clone, Debug)]
pub struct CompleteRequest<'a> {
    /// The template, as [`Host::templates`] lists it.
    pub template: &'a str,
    /// The variable, and what has been typed of its value.
    pub argument: Argument,
    /// Variables that have values already.
    pub context: Vec<Argument>,
}

impl Host {
    /// Starts a host as the configuration says: [`Host::builder`] with nothing changed.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::builder(config).start().await
    }

    /// A host that is about to be started.
    pub fn builder(config: Config) -> HostBuilder {
        HostBuilder::new(config)
    }

    /// The configuration that it serves by now.
    pub fn config(&self) -> Arc<Config> {
        self.generation.load().config.clone()
    }

    /// The number of the generation that serves by now: 1 at first, and one more with each reload that changes something.
    pub fn generation(&self) -> u64 {
        self.generation.load().number
    }

    /// Changes whenever something else is served: by a reload, and when a plugin was loaded in the background.
    #[cfg(any(feature = "http", feature = "stdio"))]
    pub(crate) fn version(&self) -> u64 {
        self.generation_store.version()
    }

    /// Waits until no plugin is being loaded any more: each is, or could not be.
    pub async fn wait_until_loaded(&self) {
        self.generation_store.wait_until_loaded().await;
    }

    /// How each plugin is at this moment, in the order of their names.
    pub fn plugins(&self) -> Vec<PluginStatus> {
        self.generation.load().slots.iter().map(PluginStatus::new).collect()
    }

    /// One page of the merged listing, or of what is directly below a resource.
    ///
    /// A plugin that fails is left out of the merged listing and named in it; the listing below a resource fails with it. A
    /// resource that cannot be listed is an invalid request.
    pub async fn list(&self, principal: &Principal, request: ListRequest<'_>) -> Result<Listing<Entry>, Error> {
        if let Some(parent) = request.parent {
            let check = |entry: &Entry| if entry.listable { Ok(()) } else { Err("cannot be listed") };
            return self.list_children(principal, parent, request.cursor, check).await;
        }
        audited(principal, Operation::List, "", async {
            let now = self.generation.load_full();
            let viewer = now.viewer(principal);
            self.catalog.page(&Entries { parent: None }, &now.slots, now.page_request(&viewer, request.cursor)).await
        })
        .await
    }

    /// One page of all templates.
    pub async fn templates(
        &self,
        principal: &Principal,
        cursor: Option<&str>,
    ) -> Result<Listing<EntryTemplate>, Error> {
        audited(principal, Operation::Templates, "", async {
            let now = self.generation.load_full();
            let viewer = now.viewer(principal);
            self.catalog.page(&Templates, &now.slots, now.page_request(&viewer, cursor)).await
        })
        .await
    }

    /// Reads a resource: at least one content. Those with other URIs than the one asked for are of what is below it.
    pub async fn read(&self, principal: &Principal, uri: &str) -> Result<Vec<Contents>, Error> {
        audited(principal, Operation::Read, uri, async {
            let now = self.generation.load_full();
            let target = now.resolve(principal, Operation::Read, uri)?;
            let plugin = target.slot.loaded()?;
            let contents = plugin.read(&target.path, now.read_filter(principal)).await;
            not_found_if_empty(uri, contents.map_err(|fault| fault.into_client_error(plugin.name(), uri))?)
        })
        .await
    }

    /// Tells about a resource without reading it.
    pub async fn metadata(&self, principal: &Principal, uri: &str) -> Result<Entry, Error> {
        audited(principal, Operation::Metadata, uri, async {
            let now = self.generation.load_full();
            now.resolve(principal, Operation::Metadata, uri)?.stat(uri).await
        })
        .await
    }

    /// Completes a variable of a template. A template that is not there, or not for this principal, is not found.
    pub async fn complete(&self, principal: &Principal, request: CompleteRequest<'_>) -> Result<Completion, Error> {
        audited(principal, Operation::Complete, request.template, self.complete_inner(principal, request)).await
    }

    /// Closes what plugins have open beside their instances, after the calls under way: their key-value databases, whose
    /// write-ahead logs are checkpointed by that. To be called at the end of serving; a call that comes later opens them again.
    /// What takes longer than `timeout` is left as a process that is killed leaves it: nothing that was acknowledged is lost.
    pub async fn close(&self, timeout: Duration) {
        let generation = self.generation.load_full();
        let closing = join_all(generation.plugins().map(|plugin| plugin.close()));
        if tokio::time::timeout(timeout, closing).await.is_err() {
            tracing::warn!(target: log_target::SERVER, "shutdown: key-value databases are still open: they take longer than {timeout:?} to close");
        }
    }

    /// A subscriber that is told of nothing yet.
    pub fn subscriber(&self, principal: &Principal) -> Subscriber {
        self.hub.subscriber(principal)
    }

    /// How much is being watched at this moment, by all subscribers together.
    pub fn watch_stats(&self) -> WatchStats {
        self.hub.watch_stats()
    }

    /// Whether any plugin can tell what changes. One that is still being loaded may be able to.
    pub fn supports_subscriptions(&self) -> bool {
        self.hub.supports_subscriptions() || self.generation.load().loading().next().is_some()
    }

    /// Whether that operation gives every principal the same answers, by the rules.
    pub fn is_public(&self, operation: Operation) -> bool {
        self.generation.load().access.is_public(operation)
    }

    /// Whether a URI is one, and a plugin owns it.
    pub fn owns(&self, uri: &str) -> bool {
        self.generation.load().router.route(uri).is_ok()
    }

    /// Takes a subscription back. That there is none is no error.
    pub fn unsubscribe(&self, subscriber: &Subscriber, uri: &str) -> Result<(), Error> {
        match self.generation.load().router.route(uri) {
            Ok(routed) => subscriber.unsubscribe(&routed.uri),
            // Its plugin may be gone since; nobody can say any more how else it may be spelled.
            Err(RouteError::NoMount) if subscriber.unsubscribe_by_spelling(uri) => {}
            Err(error) => return Err(route_error(&error, uri)),
        }
        Ok(())
    }
}
