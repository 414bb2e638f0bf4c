//! The listing below the URI of a mount.
//!
//! A provider need not have a resource at its top, and some have one without children. A client that knows only the mount, from a
//! template or an error, lists it all the same: what it gets is the plugin's default listing, as in the catalog, of this plugin alone. It
//! needs the operation `list` on the URI of the mount, as for any resource.

use super::resolve::ResolvedTarget;
use crate::plugin::Fault;
use crate::resource::Error;

impl ResolvedTarget<'_> {
    /// Returns whether it is the URI of a mount without children of its own. Errors name `requested_uri`, the URI as the client spelled
    /// it.
    pub(super) async fn is_bare_mount(&self, requested_uri: &str) -> Result<bool, Error> {
        if !self.path.as_str().is_empty() {
            return Ok(false);
        }
        let plugin = self.slot.loaded()?;
        match plugin.stat(&self.path).await {
            Ok(entry) => Ok(!entry.listable),
            Err(Fault::NotFound | Fault::InvalidRequest(_)) => Ok(true),
            Err(fault) => Err(fault.into_client_error(plugin.name(), requested_uri)),
        }
    }
}
