//! The requests of sessions that have not been answered.
//!
//! A request of a session must not have the id of another one that is in flight: rmcp would answer one of them and leave the
//! other open for ever; and a client that cancels one has to be understood. Without sessions requests have nothing to do with
//! one another.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// All of them, by the id of their session and their own, with what tells them that they are cancelled.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<Requests>>);

type Requests = HashMap<(String, RequestId), CancellationToken>;

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    in_flight: InFlight,
    request: (String, RequestId),
    cancelled: CancellationToken,
}

impl InFlight {
    /// Counts a request as in flight; none, if one of that id is.
    pub(super) fn claim(&self, session: &str, id: &RequestId) -> Option<Claim> {
        let request = (session.to_owned(), id.clone());
        let cancelled = CancellationToken::new();
        match self.lock().entry(request.clone()) {
            Entry::Vacant(place) => place.insert(cancelled.clone()),
            Entry::Occupied(_) => return None,
        };
        Some(Claim { in_flight: self.clone(), request, cancelled })
    }

    /// Tells a request that it is cancelled, if it is in flight.
    pub(super) fn cancel(&self, session: &str, id: RequestId) {
        if let Some(cancelled) = self.lock().get(&(session.to_owned(), id)) {
            cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Waits until the request is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_free_again_once_its_request_is_answered() {
        let all = InFlight::default();
        let id = RequestId::Number(1);
        let first = all.claim("a", &id).unwrap();
        assert!(all.claim("a", &id).is_none());
        assert!(all.claim("b", &id).is_some(), "another session");
        assert!(all.claim("a", &RequestId::String("1".into())).is_some(), "another id");
        drop(first);
        assert!(all.claim("a", &id).is_some());
    }

    #[tokio::test]
    async fn a_request_is_told_that_it_is_cancelled_and_no_other() {
        let all = InFlight::default();
        let [first, second] = [1, 2].map(|id| all.claim("a", &RequestId::Number(id)).unwrap());
        all.cancel("a", RequestId::Number(3));
        all.cancel("b", RequestId::Number(1));
        all.cancel("a", RequestId::Number(2));
        second.cancelled().await;
        assert!(futures::poll!(std::pin::pin!(first.cancelled())).is_pending());
    }
}
