//! Limits the concurrent lookups of one principal (bulkhead), so that one principal cannot block searches of others.
//!
//! The index runs [`MAX_LOOKUPS`](super::index::MAX_LOOKUPS) lookups at a time. A principal has at most [`MAX_PER_PRINCIPAL`] of them over
//! all its clients; all clients without credentials are one principal. `local`, the only principal over stdio, may use all. A further
//! lookup waits for [`MAX_WAIT`]. An entry is kept while a lookup of its principal runs or waits.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::weak_map::WeakMap;
use mcp_host_model::principal::Principal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::SearchError;
use super::index::MAX_LOOKUPS;

/// The maximum number of concurrent lookups of one principal.
const MAX_PER_PRINCIPAL: usize = MAX_LOOKUPS / 2;
/// The maximum time that a lookup waits for others of its principal.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The semaphores of principals with lookups.
#[derive(Debug, Default)]
pub(super) struct SearchShares(WeakMap<Principal, Semaphore>);

/// A lookup of a principal. It ends when this is dropped.
pub(super) type SearchTurn = OwnedSemaphorePermit;

impl SearchShares {
    /// Waits for a lookup permit of this principal.
    ///
    /// # Errors
    ///
    /// [`SearchError::Busy`] if none of the principal's running lookups ends in time.
    pub(super) async fn turn(&self, principal: &Principal) -> Result<SearchTurn, SearchError> {
        let most = if *principal == Principal::LOCAL { MAX_LOOKUPS } else { MAX_PER_PRINCIPAL };
        let semaphore = self.0.get_or_insert_with(&principal.identity(), || Arc::new(Semaphore::new(most)));
        let permit = timeout(MAX_WAIT, semaphore.acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or(SearchError::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_principal_leaves_lookups_for_others() {
        let shares = SearchShares::default();
        let (greedy, other) = (Principal::new("greedy"), Principal::new("other"));
        let first = shares.turn(&greedy).await.unwrap();
        let second = shares.turn(&greedy).await.unwrap();
        assert!(matches!(shares.turn(&greedy).await, Err(SearchError::Busy)), "the third of four");
        let of_other = [shares.turn(&other).await.unwrap(), shares.turn(&other).await.unwrap()];
        drop(first);
        let third = shares.turn(&greedy).await.unwrap();
        drop((second, third, of_other));
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
