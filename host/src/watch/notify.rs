//! Notifying subscribers in pieces.
//!
//! How many there are is for clients to decide, and how often they are notified is for providers. So no piece of it puts more
//! than [`PIECE`] updates into mailboxes: then the lock that everybody needs is released, and the thread is yielded.

use super::watcher::Common;
use crate::access::Principal;
use crate::uri::{Mount, Uri};

/// Updates that are put into mailboxes, or resources that are looked at, before the thread is yielded.
pub(super) const PIECE: usize = 1024;

impl Common {
    /// Notifies the subscribers of those resources: each of whom it holds for the resource.
    pub(super) async fn notify(&self, uris: Vec<Uri>, concerns: impl Fn(&Principal, &Uri) -> bool) {
        let mut piece = PIECE;
        for uri in uris {
            let mut from = Some(0);
            while let Some(id) = from {
                from = self.interests().notify(&uri, id, &mut piece, |who| concerns(who, &uri));
                piece = piece.saturating_sub(1);
                if piece == 0 {
                    tokio::task::yield_now().await;
                    piece = PIECE;
                }
            }
        }
    }

    /// Notifies the subscribers of everything below that mount, or of everything.
    pub(super) async fn notify_below(&self, mount: Option<&Mount>, concerns: impl Fn(&Principal, &Uri) -> bool) {
        let mut behind = None;
        loop {
            let uris = self.interests().uris(mount, behind.as_ref(), PIECE);
            let Some(last) = uris.last().cloned() else { return };
            self.notify(uris, &concerns).await;
            behind = Some(last);
        }
    }
}
