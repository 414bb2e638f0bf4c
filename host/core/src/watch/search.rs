//! The interface of search to subscriptions: who subscribes to its results, and notifications for them.

use std::collections::HashSet;

use mcp_host_model::uri::{Mount, Uri};

use super::Hub;
use crate::access::Principal;

impl Hub {
    /// Returns the subscribed resources below a mount, with the principals that subscribe to each.
    pub(crate) fn principals_below(&self, mount: &Mount) -> Vec<(Uri, HashSet<Principal>)> {
        self.context.subscription_index().principals_below(mount)
    }

    /// Notifies these principals' subscribers of a resource.
    pub(crate) async fn notify(&self, uri: &Uri, principals: &HashSet<Principal>) {
        self.context.notify(vec![uri.clone()], |mailbox, _| principals.contains(&mailbox.principal())).await;
    }
}
