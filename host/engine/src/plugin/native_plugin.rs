//! Native providers at their mounts, and built-in ones: parts of the host that serve their own resources.
//!
//! A [`Provider`] does not know the principal of a request, so its content is the same for all principals. A built-in
//! provider answers reads and completions per principal. Its listing, metadata, templates and changes take the same
//! call path as other plugins'.
//!
//! The façade knows no built-in provider by name. It decides access to the requested URI first, as for any plugin, and
//! then calls the built-in object of the plugin that owns the URI. The provider decides access to all other resources
//! in its response.

use std::fmt;
use std::sync::Arc;

use mcp_host_config::limits::Limits;
use mcp_host_config::search::PluginSearch;
use mcp_host_config::{Config, Operation, PluginName, UriGlob, WatchInterval};
use mcp_host_model::principal::Principal;
use mcp_host_model::provider::{Provider, async_trait};
use mcp_host_model::resource::{Argument, Completion, Error, ResourceContents};
use mcp_host_model::uri::{Mount, Path, Uri};

use super::Plugin;

/// A native provider at its mount: the counterpart of `[[plugin]]` for a component.
///
/// # Bounds of a call
///
/// Calls pass the same admission control, circuit breaker and access rules as calls of components. Their answers are
/// merged into the same listings. These [limits](mcp_host_config::limits::Limits) apply:
///
/// | limit | effect on a native provider |
/// |---|---|
/// | `rate`, `concurrency`, `queue`, `queue_timeout` | admission control, as for components |
/// | `deadline` | the future of the call is dropped |
/// | `cpu` | the processor time of the thread while it polls the call; checked when a poll returns pending, and while the answer is validated |
/// | `response_size`, `response_items`, `listing_items` | the answer fails the call, or the rest of the listing is left out |
/// | `memory` | charged with answers while they are validated |
/// | `log` | bytes a minute of faults that the host logs |
///
/// A panic fails only its call: it is a [`Fault::Panicked`](super::Fault::Panicked) and counts for the circuit breaker.
/// A panic in a destructor, when a call was ended by a limit or cancelled, does not change the outcome. The provider
/// itself stays; it is responsible for its own state after a panic. A panic in [`describe`](Provider::describe) fails
/// the start of the host.
#[derive(Clone)]
pub struct NativePlugin {
    /// The name of the plugin.
    pub name: PluginName,
    pub(crate) title: Option<String>,
    /// Its mount.
    pub mount: Mount,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) limits: Limits,
    pub(crate) watch_interval: WatchInterval,
    pub(crate) response_cache: bool,
    pub(crate) search: Option<PluginSearch>,
    pub(crate) skills: Vec<UriGlob>,
    /// The provider, if it is built in.
    pub built_in: Option<Arc<dyn BuiltIn>>,
}

impl NativePlugin {
    /// Creates a plugin with the default limits and watch interval.
    pub fn new(name: PluginName, mount: Mount, provider: impl Provider) -> Self {
        Self {
            name,
            title: None,
            mount,
            provider: Arc::new(provider),
            limits: Limits::default(),
            watch_interval: WatchInterval::default(),
            response_cache: true,
            search: None,
            skills: Vec::new(),
            built_in: None,
        }
    }

    /// Creates the plugin of an `[[upstream]]`, with the client of its server.
    ///
    /// If the server distinguishes principals, the host uses its answers for no state that all principals share.
    pub(super) fn upstream(config: &mcp_host_config::Plugin, provider: Arc<dyn Provider>) -> Self {
        let is_shared = !config.has_views();
        Self {
            name: config.name.clone(),
            title: config.title.clone(),
            mount: config.mount.clone(),
            provider,
            limits: config.limits.clone(),
            watch_interval: config.watch_interval,
            response_cache: config.response_cache && is_shared,
            search: config.search.clone().filter(|_| is_shared),
            skills: if is_shared { config.skills.clone() } else { Vec::new() },
            built_in: None,
        }
    }

    /// Sets a title, a prefix for the titles of its entries and templates in merged listings.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the interval of `changes` while a client watches, unless the provider returns a hint. Default: 2 s.
    #[must_use]
    pub fn watch_interval(mut self, interval: WatchInterval) -> Self {
        self.watch_interval = interval;
        self
    }

    /// Sets whether servers of the host cache its responses with a time to live, in encoded form
    /// (`server.response-cache`). Default: they do.
    #[must_use]
    pub fn response_cache(mut self, is_on: bool) -> Self {
        self.response_cache = is_on;
        self
    }

    /// Sets which resources are indexed for search (feature `search`). Default: none. The default of [`PluginSearch`]
    /// is the whole listing, within the default bounds.
    #[must_use]
    pub fn search(mut self, search: PluginSearch) -> Self {
        self.search = Some(search);
        self
    }

    /// Sets which directories are skills if they have a `SKILL.md` (SEP-2640), by globs of their URIs. Default: none.
    #[must_use]
    pub fn skills(mut self, directories: impl IntoIterator<Item = UriGlob>) -> Self {
        self.skills = directories.into_iter().collect();
        self
    }
}

impl fmt::Debug for NativePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            title,
            mount,
            provider: _,
            limits,
            watch_interval,
            response_cache,
            search,
            skills,
            built_in: _,
        } = self;
        f.debug_struct("NativePlugin")
            .field("name", name)
            .field("title", title)
            .field("mount", mount)
            .field("limits", limits)
            .field("watch_interval", watch_interval)
            .field("response_cache", response_cache)
            .field("search", search)
            .field("skills", skills)
            .finish_non_exhaustive()
    }
}

/// A provider that is part of the host. [`NativePlugin::built_in`] creates its plugin.
#[async_trait]
pub trait BuiltIn: Provider {
    /// Returns whether its plugin is mounted, given the config and all native plugins. Called for each generation,
    /// before [`switch_generation`](Self::switch_generation).
    fn is_mounted(&self, config: &Config, native: &[&Plugin]) -> bool;

    /// Returns the additional operations that a request for one of its resources performs. An access token needs their
    /// scopes, too.
    fn performed_operations(&self) -> &'static [Operation];

    /// Reads a resource for a principal that may read its URI.
    ///
    /// # Errors
    ///
    /// Any error of a read, with the requested URI.
    async fn read_for(&self, principal: &Principal, uri: &Uri, path: &Path) -> Result<BuiltInContents, Error>;

    /// Completes a variable of one of its templates for a principal that may complete the template.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if there is no such variable. No match is not an error.
    async fn complete_for(&self, principal: &Principal, argument: &Argument) -> Result<Completion, Error>;

    /// Applies the config and the plugins of a new generation, even if its own plugin is not mounted. Called once at
    /// the start, and for each generation after requests have begun to use it. Calls do not overlap, and run on a tokio
    /// runtime.
    fn switch_generation(&self, _config: &Config, _plugins: &[MountedPlugin<'_>]) {}

    /// Stops its tasks. Called at the beginning of a shutdown, and again when the host is dropped.
    fn shutdown(&self) {}
}

/// A plugin of a generation, loaded or not.
#[derive(Clone, Copy)]
pub struct MountedPlugin<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its mount.
    pub mount: &'a Mount,
    /// The plugin, if it is loaded.
    pub loaded: Option<&'a Arc<Plugin>>,
}

impl MountedPlugin<'_> {
    /// Returns whether it is loaded and searched.
    pub fn is_searched(&self) -> bool {
        self.loaded.is_some_and(|plugin| plugin.search_source().is_some())
    }
}

/// The contents that a built-in provider returns.
#[derive(Debug)]
pub struct BuiltInContents {
    /// The contents.
    pub contents: Vec<ResourceContents>,
    /// The URIs of the resources whose text is in the contents, for the audit log.
    pub returned: Vec<String>,
}

impl NativePlugin {
    /// Creates the plugin of a built-in provider. Its responses are not cached, because they depend on the principal.
    pub fn built_in(name: PluginName, mount: Mount, provider: Arc<dyn BuiltIn>) -> Self {
        let built_in = Some(provider.clone());
        Self { built_in, ..Self::new(name, mount, provider).response_cache(false) }
    }
}
