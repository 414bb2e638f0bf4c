//! Resolution: from the URI of a request to a plugin, and the access decision on the way.
//!
//! Everything here works on one [`Generation`], so routing, rules and plugins of one request always belong together. A
//! URI that the principal may not access gets the same response as one that does not exist. An error about a malformed
//! URI below a mount names the mount only to principals that may access it.

use std::sync::Arc;

use mcp_host_config::Operation;
use mcp_host_engine::plugin::BuiltInContents;
use mcp_host_model::resource::{Error, Resource, ResourceContents};
use mcp_host_model::uri::{Mount, Path, RouteError, Routed, Router, Uri, UriTemplate};

use super::generation::Generation;
use crate::access::{Decision, Policy, Principal};
use crate::audit::Facts;
use crate::catalog::{PageRequest, PluginSlot, Viewer};
use crate::response_cache::hide_next_parts;

/// The plugin and the path that a URI resolves to.
pub(super) struct ResolvedTarget<'a> {
    /// The policy that allows the operation.
    pub(super) policy: Arc<Policy>,
    pub(super) slot: &'a PluginSlot,
    pub(super) uri: Uri,
    pub(super) path: Path,
}

/// The plugin that a template belongs to.
pub(super) struct ResolvedTemplate<'a> {
    /// The policy that allows the operation.
    pub(super) policy: Arc<Policy>,
    pub(super) slot: &'a PluginSlot,
    pub(super) template: UriTemplate,
}

impl Generation {
    /// Returns the principal with its policy in this generation.
    pub(super) fn viewer(&self, principal: &Principal) -> Viewer {
        Viewer { policy: self.access.policy(principal), principal: principal.clone() }
    }

    /// The request for one page of the merged listing, with the page size of the config.
    pub(super) fn page_request<'a>(&self, viewer: &'a Viewer, cursor: Option<&'a str>) -> PageRequest<'a> {
        let server = &self.config.server;
        let max_bytes = usize::try_from(server.page_bytes.bytes()).unwrap_or(usize::MAX);
        PageRequest { viewer, scope: "", cursor, size: server.page_size.get(), max_bytes }
    }

    /// Resolves a URI, if it is valid, a mount owns it, and the principal may perform the operation on it. Records the
    /// plugin and the decision in `facts`.
    pub(super) fn resolve(
        &self,
        principal: &Principal,
        operation: Operation,
        uri: &str,
        facts: &Facts,
    ) -> Result<ResolvedTarget<'_>, Error> {
        facts.set_generation(self.number);
        let policy = self.access.policy(principal);
        let routed = self.route_for(&policy, operation, uri);
        let routed = routed.map_err(|error| route_error_for(&policy, operation, &error, uri, facts))?;
        facts.set_uri(routed.uri.as_str());
        let not_found = || Error::NotFound { uri: uri.to_owned() };
        let slot = self.slots.get(*routed.target).ok_or_else(not_found)?;
        facts.set_plugin(&slot.name);
        let decision = policy.decide(operation, &routed.uri);
        let is_allowed = decision.is_allowed();
        facts.set_decision(decision);
        match is_allowed {
            true => Ok(ResolvedTarget { policy, slot, uri: routed.uri, path: routed.path }),
            false => Err(not_found()),
        }
    }

    /// Finds the plugin that owns a URI: see [`route_for`].
    pub(super) fn route_for(
        &self,
        policy: &Policy,
        operation: Operation,
        uri: &str,
    ) -> Result<Routed<'_, usize>, RouteError> {
        route_for(&self.router, policy, operation, uri)
    }

    /// Resolves a template, if it is valid, a mount owns it, and the principal may complete its variables. Records the
    /// plugin and the decision in `facts`.
    pub(super) fn resolve_template(
        &self,
        principal: &Principal,
        template: &str,
        facts: &Facts,
    ) -> Result<ResolvedTemplate<'_>, Error> {
        facts.set_generation(self.number);
        let policy = self.access.policy(principal);
        let routed = self.router.route_template(template);
        let (slot, routed) =
            routed.map_err(|error| route_error_for(&policy, Operation::Complete, &error, template, facts))?;
        let not_found = || Error::NotFound { uri: template.to_owned() };
        let slot = self.slots.get(*slot).ok_or_else(not_found)?;
        facts.set_plugin(&slot.name);
        let decision = policy.decide_template(Operation::Complete, &routed);
        let is_allowed = decision.is_allowed();
        facts.set_decision(decision);
        match is_allowed {
            true => Ok(ResolvedTemplate { policy, slot, template: routed }),
            false => Err(not_found()),
        }
    }
}

/// Finds the owner of a URI, as if mounts that are invisible to the policy did not exist: a URI that leaves such a
/// mount may belong to another.
pub(super) fn route_for<'a, T>(
    router: &'a Router<T>,
    policy: &Policy,
    operation: Operation,
    uri: &str,
) -> Result<Routed<'a, T>, RouteError> {
    match router.route(uri) {
        Err(RouteError::Path { mount, .. }) if !decide_mount(policy, operation, &mount).is_allowed() => {
            router.route_resolved(uri)
        }
        routed => routed,
    }
}

/// Returns one principal's error for a URI or template that cannot be routed: the existence of a mount is not public.
pub(super) fn route_error_for(
    policy: &Policy,
    operation: Operation,
    error: &RouteError,
    requested_uri: &str,
    facts: &Facts,
) -> Error {
    let decision = error.mount().map(|mount| decide_mount(policy, operation, mount));
    match decision.filter(|decision| !decision.is_allowed()) {
        Some(denied) => {
            facts.set_decision(denied);
            Error::NotFound { uri: requested_uri.to_owned() }
        }
        None => route_error(error, requested_uri),
    }
}

/// The decision on the root of a mount.
fn decide_mount(policy: &Policy, operation: Operation, mount: &Mount) -> Decision {
    mount.compose("").map_or(Decision::DeniedByDefault, |root| policy.decide(operation, &root.uri))
}

impl ResolvedTarget<'_> {
    /// Returns a filter that retains the contents that the principal may read.
    pub(super) fn read_filter(&self) -> impl FnMut(&ResourceContents) -> bool + Send + use<> {
        let policy = self.policy.clone();
        move |one| policy.allows(Operation::Read, &one.entry.uri)
    }

    /// Reads a resource of a built-in provider for the principal; none if the plugin's provider is not built in.
    pub(super) async fn read_built_in(
        &self,
        principal: &Principal,
        facts: &Facts,
    ) -> Option<Result<Vec<ResourceContents>, Error>> {
        let read = self.slot.built_in()?.read_for(principal, &self.uri, &self.path).await;
        Some(read.map(|BuiltInContents { contents, returned }| {
            facts.set_returned(returned.iter().map(String::as_str));
            facts.set_bytes(ResourceContents::total_len(&contents));
            contents
        }))
    }

    /// Removes URIs of next parts that the principal may not read from the notices of contents.
    pub(super) fn hide_denied_parts(&self, contents: &mut [ResourceContents]) {
        hide_next_parts(&self.slot.mount, contents, |uri| self.policy.allows(Operation::Read, uri));
    }

    /// Calls the provider's `stat`. Errors name `requested_uri`, the URI in the client's spelling.
    pub(super) async fn stat(&self, requested_uri: &str) -> Result<Resource, Error> {
        let plugin = self.slot.loaded()?;
        plugin.stat(&self.path).await.map_err(|fault| fault.into_client_error(plugin.name(), requested_uri))
    }
}

/// Returns the readable contents. Without any, the resource does not exist for the principal.
pub(super) fn not_found_if_empty(
    requested_uri: &str,
    contents: Vec<ResourceContents>,
) -> Result<Vec<ResourceContents>, Error> {
    if contents.is_empty() { Err(Error::NotFound { uri: requested_uri.to_owned() }) } else { Ok(contents) }
}

/// The error for a URI or template that cannot be routed.
pub(super) fn route_error(error: &RouteError, requested_uri: &str) -> Error {
    match error {
        RouteError::NoMount => Error::NotFound { uri: requested_uri.to_owned() },
        _ => Error::InvalidRequest { message: error.to_string() },
    }
}
