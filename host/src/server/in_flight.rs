//! The requests of one connection or session that have not been answered, by their ids.
//!
//! A request must not have the id of another one in flight: a cancellation would be ambiguous, and rmcp would answer
//! one of the two and leave the other pending forever. Requests without a session are independent of one another, and
//! are not recorded.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// The requests in flight, each with what its transport attaches to it. Clones share them.
#[derive(Debug)]
pub(super) struct InFlight<T = ()>(Arc<Mutex<Requests<T>>>);

type Requests<T> = HashMap<RequestId, PendingRequest<T>>;

#[derive(Debug)]
struct PendingRequest<T> {
    attached: T,
    cancelled: CancellationToken,
}

impl<T> Clone for InFlight<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> InFlight<T> {
    /// Records a request and returns the token that its cancellation fires. If a request with this id is in flight
    /// already, it returns what was to be attached.
    pub(super) fn insert(&self, id: &RequestId, attached: T) -> Result<CancellationToken, T> {
        match self.lock().entry(id.clone()) {
            Entry::Vacant(entry) => {
                let cancelled = CancellationToken::new();
                entry.insert(PendingRequest { attached, cancelled: cancelled.clone() });
                Ok(cancelled)
            }
            Entry::Occupied(_) => Err(attached),
        }
    }

    /// Removes a request, which frees its id, and returns what was attached to it. Returns nothing if it is not in
    /// flight.
    pub(super) fn remove(&self, id: &RequestId) -> Option<T> {
        self.lock().remove(id).map(|request| request.attached)
    }

    /// Fires the cancellation token of a request, if it is in flight. The request keeps its id until it is removed.
    pub(super) fn cancel(&self, id: &RequestId) {
        if let Some(request) = self.lock().get(id) {
            request.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requests<T>> {
        self.0.lock()
    }
}

/// A recorded request, which is removed when this is dropped.
#[cfg(feature = "http")]
#[derive(Debug)]
pub(super) struct Claim {
    in_flight: InFlight,
    id: RequestId,
    cancelled: CancellationToken,
}

#[cfg(feature = "http")]
impl InFlight {
    /// Records a request until the claim is dropped; none if a request with this id is in flight already.
    pub(super) fn claim(&self, id: &RequestId) -> Option<Claim> {
        let cancelled = self.insert(id, ()).ok()?;
        Some(Claim { in_flight: self.clone(), id: id.clone(), cancelled })
    }
}

#[cfg(feature = "http")]
impl Claim {
    /// Waits until the request is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

#[cfg(feature = "http")]
impl Drop for Claim {
    fn drop(&mut self) {
        self.in_flight.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_free_again_once_its_request_is_answered() {
        let all = InFlight::<&str>::default();
        let id = RequestId::Number(1);
        let cancelled = all.insert(&id, "first").unwrap();
        assert_eq!(all.insert(&id, "second").err(), Some("second"));
        assert!(all.insert(&RequestId::String("1".into()), "another id").is_ok());
        assert_eq!(all.remove(&id), Some("first"));
        assert_eq!(all.remove(&id), None);
        assert!(!cancelled.is_cancelled());
        assert!(all.insert(&id, "third").is_ok());
    }

    #[test]
    fn a_request_is_told_that_it_is_cancelled_and_no_other() {
        let all = InFlight::default();
        let [first, second] = [1, 2].map(|id| all.insert(&RequestId::Number(id), ()).unwrap());
        all.cancel(&RequestId::Number(3));
        all.cancel(&RequestId::Number(2));
        assert!(second.is_cancelled() && !first.is_cancelled());
        assert!(all.insert(&RequestId::Number(2), ()).is_err(), "it keeps its id until it is removed");
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_claim_that_is_dropped_frees_its_id() {
        let all = InFlight::default();
        let claim = all.claim(&RequestId::Number(1)).unwrap();
        assert!(all.claim(&RequestId::Number(1)).is_none());
        drop(claim);
        assert!(all.claim(&RequestId::Number(1)).is_some());
    }
}
