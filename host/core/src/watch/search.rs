//! What search needs of subscriptions: who subscribes to its results, and to notify them.

use std::collections::HashSet;

use mcp_host_model::uri::{Mount, Uri};

use super::Hub;
use crate::access::Principal;

impl Hub {
    /// Returns the resources below a mount that are subscribed to, with the principals that subscribe to each.
    pub(crate) fn principals_below(&self, mount: &Mount) -> Vec<(Uri, HashSet<Principal>)> {
        self.context.subscription_index().principals_below(mount)
    }

    /// Notifies those principals' subscribers of a resource.
    pub(crate) async fn notify(&self, uri: &Uri, principals: &HashSet<Principal>) {
        self.context.notify(vec![uri.clone()], |principal, _| principals.contains(principal)).await;
    }
}
