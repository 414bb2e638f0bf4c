//! A native provider at its mount.

use std::fmt;
use std::sync::Arc;

use mcp_host_config::limits::Limits;
use mcp_host_config::search::PluginSearch;
use mcp_host_config::{PluginName, WatchInterval};
use mcp_host_model::provider::Provider;
use mcp_host_model::uri::Mount;

use super::BuiltIn;

/// A native provider at its mount: what `[[plugin]]` is for a component.
///
/// # What bounds a call
///
/// Calls pass the same admission control, circuit breaker and access rules as those of components, and their answers are merged
/// into the same listings. Of the [limits](mcp_host_config::limits::Limits) these apply:
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
/// A panic fails that call alone: it is a [`Fault::Panicked`](super::Fault::Panicked) and counts for the circuit breaker. One
/// of a destructor, when a call was ended by a limit or cancelled, changes nothing of that. The provider itself stays; it is
/// responsible for its own state after a panic. A panic in [`describe`](Provider::describe) fails the start of the host.
#[derive(Clone)]
pub struct NativePlugin {
    /// The name of the plugin.
    pub name: PluginName,
    pub(crate) title: Option<String>,
    /// Where it is mounted.
    pub mount: Mount,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) limits: Limits,
    pub(crate) watch_interval: WatchInterval,
    pub(crate) response_cache: bool,
    pub(crate) search: Option<PluginSearch>,
    /// The provider, if it is a built-in one.
    pub built_in: Option<Arc<dyn BuiltIn>>,
}

impl NativePlugin {
    /// A plugin with the default limits and watch interval.
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
            built_in: None,
        }
    }

    /// Sets a title, put in front of the titles of its entries and templates in merged listings.
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

    /// Sets how often `changes` is called while somebody watches, unless the provider hints otherwise. 2 s by default.
    #[must_use]
    pub fn watch_interval(mut self, interval: WatchInterval) -> Self {
        self.watch_interval = interval;
        self
    }

    /// Sets whether its responses with a time to live are cached, encoded, by servers of the host (`server.response-cache`). They are by
    /// default.
    #[must_use]
    pub fn response_cache(mut self, is_on: bool) -> Self {
        self.response_cache = is_on;
        self
    }

    /// Sets what is indexed for search (feature `search`). Nothing unless set; the default of [`PluginSearch`] is everything
    /// that it lists, within the default bounds.
    #[must_use]
    pub fn search(mut self, search: PluginSearch) -> Self {
        self.search = Some(search);
        self
    }
}

impl fmt::Debug for NativePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, title, mount, provider: _, limits, watch_interval, response_cache, search, built_in: _ } =
            self;
        f.debug_struct("NativePlugin")
            .field("name", name)
            .field("title", title)
            .field("mount", mount)
            .field("limits", limits)
            .field("watch_interval", watch_interval)
            .field("response_cache", response_cache)
            .field("search", search)
            .finish_non_exhaustive()
    }
}
