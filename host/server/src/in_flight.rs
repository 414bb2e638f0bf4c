//! The requests of one connection or session that have not been answered, by their ids.
//!
//! Two requests in flight must not have the same id, because a cancellation would be ambiguous. Over HTTP, requests
//! without a session are independent of one another, and are not recorded.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::jsonrpc::RequestId;

/// The requests in flight, each with the token that its cancellation fires. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<RequestId, CancellationToken>>>);

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    in_flight: InFlight,
    id: RequestId,
    cancelled: CancellationToken,
    /// Whether the id has been released, so that a later request may own it.
    is_released: bool,
}

impl InFlight {
    /// Records a request. None if a request with this id is already in flight.
    pub(super) fn claim(&self, id: &RequestId) -> Option<Claim> {
        let mut all = self.0.lock();
        let Entry::Vacant(entry) = all.entry(id.clone()) else { return None };
        let cancelled = CancellationToken::new();
        entry.insert(cancelled.clone());
        Some(Claim { in_flight: self.clone(), id: id.clone(), cancelled, is_released: false })
    }

    /// Cancels a request in flight and frees its id.
    pub(super) fn cancel(&self, id: &RequestId) {
        if let Some(cancelled) = self.0.lock().remove(id) {
            cancelled.cancel();
        }
    }
}

impl Claim {
    /// Waits until the request is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Frees the id of a request that is about to be answered. Returns false if the request has been cancelled and must
    /// not be answered.
    pub(super) fn release(mut self) -> bool {
        self.free()
    }

    fn free(&mut self) -> bool {
        let mut all = self.in_flight.0.lock();
        // The cancellation freed the id, and another request may own it now.
        let is_own = !std::mem::replace(&mut self.is_released, true) && !self.cancelled.is_cancelled();
        if is_own {
            all.remove(&self.id);
        }
        is_own
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_free_again_once_its_request_is_answered() {
        let all = InFlight::default();
        let id = RequestId::Number(1);
        let claim = all.claim(&id).unwrap();
        assert!(all.claim(&id).is_none());
        assert!(all.claim(&RequestId::Text("1".into())).is_some(), "another id");
        assert!(claim.release());
        let second = all.claim(&id).unwrap();
        drop(second);
        assert!(all.claim(&id).is_some());
    }

    #[tokio::test]
    async fn a_request_that_is_cancelled_frees_its_id_and_is_not_answered() {
        let all = InFlight::default();
        let [first, second] = [1, 2].map(|id| all.claim(&RequestId::Number(id)).unwrap());
        all.cancel(&RequestId::Number(3));
        all.cancel(&RequestId::Number(2));
        second.cancelled().await;
        assert!(!first.cancelled.is_cancelled());
        let reused = all.claim(&RequestId::Number(2)).unwrap();
        assert!(!second.release());
        assert!(all.claim(&RequestId::Number(2)).is_none(), "the later request keeps its id");
        assert!(reused.release() && first.release());
    }
}
