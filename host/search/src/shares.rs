//! Limits the concurrent lookups of one principal (bulkhead), so that it cannot keep others from searching.
//!
//! The index runs [`MAX_LOOKUPS`](super::index::MAX_LOOKUPS) at a time. A principal has at most [`MAX_PER_PRINCIPAL`] of them, over all its
//! clients; all clients without credentials are one principal. `local`, the only principal over stdio, may use all. A further lookup
//! waits for [`MAX_WAIT`]. An entry is kept while a lookup of its principal runs or waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::principal::Principal;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::SearchError;
use super::index::MAX_LOOKUPS;

/// The number of lookups of one principal at a time.
const MAX_PER_PRINCIPAL: usize = MAX_LOOKUPS / 2;
/// The longest time that a lookup waits for others of its principal.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The lookups of each principal.
#[derive(Debug, Default)]
pub(super) struct SearchShares(Arc<Mutex<HashMap<Principal, Arc<Semaphore>>>>);

/// A lookup of a principal, until it is dropped.
#[derive(Debug)]
pub(super) struct SearchTurn {
    shares: Arc<Mutex<HashMap<Principal, Arc<Semaphore>>>>,
    principal: Principal,
    permit: Option<OwnedSemaphorePermit>,
}

impl SearchShares {
    /// Waits for the turn of a lookup of that principal.
    ///
    /// # Errors
    ///
    /// [`SearchError::Busy`] if as many of its lookups as may run do not end in time.
    pub(super) async fn turn(&self, principal: &Principal) -> Result<SearchTurn, SearchError> {
        let most = if *principal == Principal::LOCAL { MAX_LOOKUPS } else { MAX_PER_PRINCIPAL };
        let principal = principal.identity();
        let semaphore = {
            let mut shares = self.0.lock();
            shares.entry(principal.clone()).or_insert_with(|| Arc::new(Semaphore::new(most))).clone()
        };
        // Dropped if the wait is cancelled, too.
        let mut turn = SearchTurn { shares: self.0.clone(), principal, permit: None };
        match timeout(MAX_WAIT, semaphore.acquire_owned()).await {
            Ok(Ok(permit)) => turn.permit = Some(permit),
            Ok(Err(_)) | Err(_) => return Err(SearchError::Busy),
        }
        Ok(turn)
    }
}

impl Drop for SearchTurn {
    fn drop(&mut self) {
        let mut shares = self.shares.lock();
        self.permit = None;
        // The map holds one reference; each running or waiting lookup holds another.
        if shares.get(&self.principal).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            shares.remove(&self.principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_principal_leaves_lookups_for_others_and_nothing_is_kept_afterwards() {
        let shares = SearchShares::default();
        let (greedy, other) = (Principal::new("greedy"), Principal::new("other"));
        let first = shares.turn(&greedy).await.unwrap();
        let second = shares.turn(&greedy).await.unwrap();
        assert!(matches!(shares.turn(&greedy).await, Err(SearchError::Busy)), "the third of four");
        let of_other = [shares.turn(&other).await.unwrap(), shares.turn(&other).await.unwrap()];
        drop(first);
        let third = shares.turn(&greedy).await.unwrap();
        drop((second, third, of_other));
        assert!(shares.0.lock().is_empty());
    }

    #[tokio::test]
    async fn the_only_principal_over_stdio_has_all() {
        let shares = SearchShares::default();
        let mut turns = Vec::new();
        for _ in 0..MAX_LOOKUPS {
            turns.push(shares.turn(&Principal::LOCAL).await.unwrap());
        }
        assert!(shares.turn(&Principal::LOCAL).await.is_err());
    }
}
