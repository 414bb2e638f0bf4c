//! Notification of subscribers in batches.
//!
//! Clients determine the number of subscribers, and providers the rate of changes. So no batch adds more than
//! [`BATCH_SIZE`] updates to mailboxes: then the shared lock is released, and the task yields.

use mcp_host_model::uri::{Mount, Uri};

use super::state::WatchContext;
use crate::access::Principal;

/// The number of updates added to mailboxes, or of resources examined, before the task yields.
pub(super) const BATCH_SIZE: usize = 1024;

impl WatchContext {
    /// Notifies the subscribers of `uris` for which `concerns` returns true.
    pub(super) async fn notify(&self, uris: Vec<Uri>, concerns: impl Fn(&Principal, &Uri) -> bool) {
        let mut budget = BATCH_SIZE;
        for uri in uris {
            let mut from = Some(0);
            while let Some(id) = from {
                from = self.subscription_index().notify(&uri, id, &mut budget, |principal| concerns(principal, &uri));
                budget = budget.saturating_sub(1);
                if budget == 0 {
                    tokio::task::yield_now().await;
                    budget = BATCH_SIZE;
                }
            }
        }
    }

    /// Notifies the subscribers of all resources below `mount`, or of all resources.
    pub(super) async fn notify_under(&self, mount: Option<&Mount>, concerns: impl Fn(&Principal, &Uri) -> bool) {
        let mut after = None;
        loop {
            let uris = self.subscription_index().uris(mount, after.as_ref(), BATCH_SIZE);
            let Some(last) = uris.last().cloned() else { return };
            self.notify(uris, &concerns).await;
            after = Some(last);
        }
    }
}
