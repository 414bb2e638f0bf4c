//! Notifying subscribers in pieces.
//!
//! How many there are is for clients to decide, and how often they are notified is for providers. So no piece of it puts more
//! than [`BATCH_SIZE`] updates into mailboxes: then the lock that everybody needs is released, and the thread is yielded.

use super::state::WatchContext;
use crate::access::Principal;
use crate::uri::{Mount, Uri};

/// Updates that are put into mailboxes, or resources that are looked at, before the thread is yielded.
pub(super) const BATCH_SIZE: usize = 1024;

impl WatchContext {
    /// Notifies the subscribers of those resources: each of whom it holds for the resource.
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

    /// Notifies the subscribers of everything below that mount, or of everything.
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
