//! The interface of search to the host: the served plugins, and the resources that a principal may find.

use std::collections::HashSet;
use std::sync::Arc;

use mcp_host_config::Config;
use mcp_host_engine::plugin::MountedPlugin;
use mcp_host_model::principal::Principal;
use mcp_host_model::provider::async_trait;
use mcp_host_model::uri::{Mount, Uri};

/// The host that contains search.
#[async_trait]
pub trait SearchHost: Send + Sync {
    /// Returns the current config.
    fn config(&self) -> Arc<Config>;

    /// Returns the currently served plugins, for a principal.
    fn view(&self, principal: &Principal) -> Arc<dyn HostView>;

    /// Returns the resources below a mount that have subscribers, with the principals of the subscribers.
    fn subscriptions_below(&self, mount: &Mount) -> Vec<(Uri, HashSet<Principal>)>;

    /// Notifies the subscribers of a resource that belong to these principals.
    async fn notify(&self, uri: &Uri, principals: &HashSet<Principal>);
}

/// A snapshot of the plugins that a host serves, with the rules for one principal.
pub trait HostView: Send + Sync {
    /// Returns the config.
    fn config(&self) -> &Config;

    /// Returns all plugins, ordered by name.
    fn plugins(&self) -> Vec<MountedPlugin<'_>>;

    /// Returns the mount that owns a URI for the principal, and the URI in normal form.
    fn route(&self, uri: &str) -> Option<(&Mount, Uri)>;

    /// Decides whether the principal may find a resource, by its URI in normal form.
    fn may_find(&self, uri: &str) -> bool;

    /// Returns whether the principal may find any resource below a mount. Some resources below the mount may be hidden
    /// nevertheless.
    fn may_find_below(&self, mount: &Mount) -> bool;

    /// Returns whether the principal may find any resource of a plugin.
    fn may_find_some_of(&self, plugin: &str) -> bool {
        self.plugins().iter().any(|one| one.name == plugin && self.may_find_below(one.mount))
    }
}
