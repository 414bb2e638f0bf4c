//! Lookups for the hints of the command line and of tools, after a request that failed. They are not requests of the principal:
//! nothing of them is in the access log. They tell no more than the principal may know.

use super::Host;
use crate::access::Principal;
#[cfg(feature = "cli")]
use crate::audit::Facts;
#[cfg(feature = "cli")]
use crate::catalog::{PageRequest, Templates};
use crate::config::Operation;
#[cfg(any(feature = "http", feature = "stdio"))]
use crate::config::nearest_mount;
#[cfg(feature = "cli")]
use crate::resource::ResourceTemplate;
#[cfg(any(feature = "http", feature = "stdio"))]
use crate::uri::Mount;

#[cfg(any(feature = "http", feature = "stdio"))]
impl Host {
    /// Returns the mount that is most similar to the beginning of a URI, of those below which the principal may perform the
    /// operation; none if one of them has the URI.
    pub(crate) fn nearest_mount(&self, principal: &Principal, operation: Operation, uri: &str) -> Option<Mount> {
        let now = self.generation.load_full();
        let policy = now.access.policy(principal);
        let mounts = now.slots.iter().map(|slot| &slot.mount);
        let mounts: Vec<_> = mounts.filter(|mount| policy.may_allow_below(operation, mount)).collect();
        let has_uri = now.router.route(uri).is_ok_and(|routed| mounts.contains(&routed.mount));
        nearest_mount(uri, mounts).filter(|_| !has_uri).cloned()
    }
}

#[cfg(feature = "cli")]
impl Host {
    /// Returns the mount that owns a URI.
    pub(crate) fn mount_of(&self, uri: &str) -> Option<Mount> {
        self.generation.load().router.route(uri).ok().map(|routed| routed.mount.clone())
    }

    /// Returns whether a resource is listable, if it exists for the principal.
    pub(crate) async fn is_listable(&self, principal: &Principal, uri: &str) -> Option<bool> {
        let now = self.generation.load_full();
        let target = now.resolve(principal, Operation::Metadata, uri, &Facts::default()).ok()?;
        Some(target.stat(uri).await.ok()?.listable)
    }

    /// Returns the name of the plugin whose mount owns a URI, with the first of its templates that the principal may see.
    pub(crate) async fn templates_at(
        &self,
        principal: &Principal,
        uri: &str,
        limit: usize,
    ) -> Option<(String, Vec<ResourceTemplate>)> {
        let now = self.generation.load_full();
        let slot = now.slots.get(*now.router.route(uri).ok()?.target)?;
        let viewer = now.viewer(principal);
        let request = PageRequest { size: limit, ..now.page_request(&viewer, None) };
        let page = self.catalog.page(&Templates, std::slice::from_ref(slot), request).await.ok()?;
        Some((slot.name.clone(), page.items))
    }
}
