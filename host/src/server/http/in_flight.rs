//! The requests of sessions that have not been answered.
//!
//! A request of a session must not have the id of another one that is in flight: rmcp would answer one of them and leave the
//! other open for ever. Without sessions requests have nothing to do with one another.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;

/// All of them, by the id of their session and their own.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<(String, RequestId)>>>);

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    all: InFlight,
    request: (String, RequestId),
}

impl InFlight {
    /// Counts a request as in flight; none, if one of that id is.
    pub(super) fn claim(&self, session: &str, id: &RequestId) -> Option<Claim> {
        let request = (session.to_owned(), id.clone());
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.clone());
        is_new.then(|| Claim { all: self.clone(), request })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.request);
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
}
