//! Lookups for the hints of the command line, after a request that failed. They are not requests of the principal: nothing of
//! them is in the access log. They tell no more than the principal may know.

use super::Host;
use crate::access::Principal;
use crate::audit::Facts;
use crate::catalog::{PageRequest, Templates};
use crate::config::Operation;
use crate::resource::ResourceTemplate;

impl Host {
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
