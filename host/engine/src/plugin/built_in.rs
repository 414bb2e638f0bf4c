//! Built-in providers: a part of the host that serves resources of its own.
//!
//! A [`Provider`] does not know the principal of a request, so its content is the same for all. A built-in provider answers reads and
//! completions per principal. Its listing, metadata, templates and changes go through the call path of any other plugin.
//!
//! The façade knows no built-in provider by name. It decides access to the requested URI first, as for any plugin, and then calls the
//! object of the plugin that owns the URI. The provider decides access to everything that it returns beside.

use std::sync::Arc;

use mcp_host_config::{Config, Operation, PluginName};
use mcp_host_model::principal::Principal;
use mcp_host_model::provider::{Provider, async_trait};
use mcp_host_model::resource::{Argument, Completion, Error, ResourceContents};
use mcp_host_model::uri::{Mount, Path, Uri};

use super::{NativePlugin, Plugin};

/// A provider that is part of the host. Its plugin is made by [`NativePlugin::built_in`].
#[async_trait]
pub trait BuiltIn: Provider {
    /// Returns whether its plugin is mounted, by the config and all native plugins. Called for each generation, before
    /// [`switch_generation`](Self::switch_generation).
    fn is_mounted(&self, config: &Config, native: &[&Plugin]) -> bool;

    /// Returns the operations that a request for one of its resources performs beside its own. An access token needs their scopes, too.
    fn performed_operations(&self) -> &'static [Operation];

    /// Reads a resource for a principal that may read its URI.
    ///
    /// # Errors
    ///
    /// Any error of a read, with the URI that was requested.
    async fn read_for(&self, principal: &Principal, uri: &Uri, path: &Path) -> Result<BuiltInContents, Error>;

    /// Completes a variable of one of its templates for a principal that may complete the template.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidRequest`] if there is no such variable. No match is not an error.
    async fn complete_for(&self, principal: &Principal, argument: &Argument) -> Result<Completion, Error>;

    /// Applies the config and the plugins of a new generation. Called once at the start, and for each generation after requests have
    /// begun to use it, whether or not its plugin is mounted. Calls do not overlap, and run on a tokio runtime.
    fn switch_generation(&self, _config: &Config, _plugins: &[MountedPlugin<'_>]) {}

    /// Stops its tasks. Called at the beginning of a shutdown, and again when the host is dropped.
    fn shutdown(&self) {}
}

/// A plugin of a generation, loaded or not.
#[derive(Clone, Copy)]
pub struct MountedPlugin<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it is mounted.
    pub mount: &'a Mount,
    /// The plugin, if it is loaded.
    pub loaded: Option<&'a Arc<Plugin>>,
}

impl MountedPlugin<'_> {
    /// Whether it is loaded and searched.
    pub fn is_searched(&self) -> bool {
        self.loaded.is_some_and(|plugin| plugin.search_source().is_some())
    }
}

/// The contents that a built-in provider returns.
#[derive(Debug)]
pub struct BuiltInContents {
    /// The contents.
    pub contents: Vec<ResourceContents>,
    /// The URIs of the resources that the contents have text of, for the audit log.
    pub returned: Vec<String>,
}

impl NativePlugin {
    /// The plugin of a built-in provider. Its responses are not cached, as they depend on the principal.
    pub fn built_in(name: PluginName, mount: Mount, provider: Arc<dyn BuiltIn>) -> Self {
        let built_in = Some(provider.clone());
        Self { built_in, ..Self::new(name, mount, provider).response_cache(false) }
    }
}
