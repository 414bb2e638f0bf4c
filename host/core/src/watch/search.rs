//! The interface of search to subscriptions: who subscribes to its results, and notifications for them. The index of
//! subscriptions is locked for one [batch](super::context) at a time.

use std::collections::HashSet;

use mcp_host_model::uri::{Mount, Uri};

use super::Hub;
use super::context::BATCH_SIZE;
use crate::access::Principal;

impl Hub {
    /// Returns the subscribed resources below a mount, with the principals that subscribe to each.
    pub(crate) fn principals_below(&self, mount: &Mount) -> Vec<(Uri, HashSet<Principal>)> {
        let (mut below, mut from) = (Vec::<(Uri, HashSet<Principal>)>::new(), None);
        loop {
            let index = self.context.subscription_index();
            from = index.visit(mount, from.as_ref(), BATCH_SIZE, |uri, _, mailbox| match below.last_mut() {
                Some((last, principals)) if *last == *uri => drop(principals.insert(mailbox.principal())),
                _ => below.push((uri.clone(), HashSet::from([mailbox.principal()]))),
            });
            if from.is_none() {
                return below;
            }
        }
    }

    /// Notifies these principals' subscribers of a resource.
    pub(crate) async fn notify(&self, uri: &Uri, principals: &HashSet<Principal>) {
        self.context.notify(vec![uri.clone()], |mailbox, _| principals.contains(&mailbox.principal())).await;
    }
}
