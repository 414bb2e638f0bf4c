//! The listing below the URI of a mount.
//!
//! A provider need not have a resource at its top, and some have one without children. A client that knows only the mount, from a
//! template or an error, lists it all the same: what it gets is the plugin's default listing, as in the catalog, of this plugin alone.

use super::generation::Generation;
use super::{Host, PageBounds};
use crate::access::Principal;
use crate::audit::Facts;
use crate::catalog::{Entries, PageRequest};
use crate::config::Operation;
use crate::plugin::{Fault, PluginSlot};
use crate::resource::{Error, Listing, Resource};
use crate::uri::{Path, Uri};

impl Host {
    /// Lists one page of a plugin's default listing, if `uri` is its mount, which has no children of its own. `None` in any other case:
    /// `uri` is to be listed as a resource.
    pub(super) async fn list_mount(
        &self,
        principal: &Principal,
        uri: &str,
        cursor: Option<&str>,
        bounds: Option<PageBounds>,
    ) -> Option<Result<Listing<Resource>, Error>> {
        let now = self.generation_for(principal, Operation::List, uri, &Facts::default()).await;
        let (slot, root, path) = now.mount_at(uri)?;
        let viewer = now.viewer(principal);
        // Whether or not there is such a resource, a principal that may not list its URI is told that there is none.
        if !viewer.policy.allows(Operation::List, &root) {
            return None;
        }
        match slot.plugin.as_ref().ok()?.stat(&path).await {
            Ok(entry) if entry.listable => return None,
            Ok(_) | Err(Fault::NotFound | Fault::InvalidRequest(_)) => {}
            Err(_) => return None,
        }
        let facts = Facts::default();
        let listing = self.audited(principal, Operation::List.name(), uri, &facts, async {
            facts.set_generation(now.number);
            facts.set_plugin(&slot.name);
            let request = PageRequest { scope: root.as_str(), ..now.page_request(&viewer, cursor) };
            let request = PageBounds::bound(bounds, request);
            self.catalog.page(&Entries { parent: None }, std::slice::from_ref(slot), request).await
        });
        Some(listing.await)
    }
}

impl Generation {
    /// Returns the plugin whose mount a URI is, with the URI and the path of the mount.
    fn mount_at(&self, uri: &str) -> Option<(&PluginSlot, Uri, Path)> {
        let routed = self.router.route(uri).ok().filter(|routed| routed.path.as_str().is_empty())?;
        Some((self.slots.get(*routed.target)?, routed.uri, routed.path))
    }
}
