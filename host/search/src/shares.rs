//! Shares the concurrent lookups fairly among clients (bulkhead), so that one client cannot block the searches of
//! others.
//!
//! The index runs [`MAX_LOOKUPS`](super::index::MAX_LOOKUPS) lookups at a time. They are the permits of a
//! [`FairSemaphore`]: of four, one client has at most two, and a permit that becomes free goes to the waiting client
//! with the fewest. A client is a [`Requester`]: a principal with all its clients, or the address of a client without
//! credentials. `local`, the only client over stdio, may use all permits.
//!
//! Bounded: [`MAX_WAITING`] lookups wait, of which one client has half, each for [`MAX_WAIT`]. An entry is kept while a
//! lookup of its client runs or waits.

use std::time::Duration;

use mcp_host_base::fair_semaphore::{FairSemaphore, Permit};
use mcp_host_model::principal::Principal;
use mcp_host_model::requester::Requester;
use tokio::time::timeout;

use super::error::SearchError;
use super::index::MAX_LOOKUPS;

/// The maximum number of waiting lookups. A waiting one takes some kilobytes, and four lookups of 200 ms each end 20
/// per second.
const MAX_WAITING: usize = 256;
/// The maximum time that a lookup waits for others.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The permits of lookups.
pub(super) struct SearchShares(FairSemaphore<Requester>);

/// A lookup of a client. It ends when this is dropped.
pub(super) type SearchTurn = Permit<Requester>;

impl Default for SearchShares {
    fn default() -> Self {
        Self(FairSemaphore::new(MAX_LOOKUPS, MAX_WAITING))
    }
}

impl SearchShares {
    /// Waits for a lookup permit of the current task's [`Requester`], or of this principal if the task has none.
    ///
    /// # Errors
    ///
    /// [`SearchError::Busy`] if the client gets no permit in time, or too many of its lookups wait.
    pub(super) async fn turn(&self, principal: &Principal) -> Result<SearchTurn, SearchError> {
        let waiting = self.0.acquire(Requester::current_or(principal));
        let permit = timeout(MAX_WAIT, waiting).await;
        permit.ok().and_then(Result::ok).ok_or(SearchError::Busy)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::*;

    /// An anonymous client with this last byte of its address.
    fn anonymous(number: u8) -> Requester {
        Requester::Address(IpAddr::from([192, 0, 2, number]))
    }

    async fn turn_of(shares: &SearchShares, client: &Requester) -> Result<SearchTurn, SearchError> {
        client.clone().scope(shares.turn(&Principal::ANONYMOUS)).await
    }

    /// Waits until this number of lookups of a client wait.
    async fn until_waiting(shares: &SearchShares, client: &Requester, count: usize) {
        let waiting = async {
            while shares.0.usage_of(client).1 != count {
                tokio::task::yield_now().await;
            }
        };
        timeout(MAX_WAIT, waiting).await.expect("they wait");
    }

    #[tokio::test]
    async fn one_principal_leaves_lookups_for_others() {
        let shares = SearchShares::default();
        let (greedy, other) = (Principal::new("greedy"), Principal::new("other"));
        let first = shares.turn(&greedy).await.unwrap();
        let second = shares.turn(&greedy).await.unwrap();
        assert!(matches!(shares.turn(&greedy).await, Err(SearchError::Busy)), "the third of four");
        let of_other = shares.turn(&other).await.unwrap();
        let of_third = shares.turn(&Principal::new("third")).await.unwrap();
        drop((first, of_other));
        let third = shares.turn(&greedy).await.unwrap();
        drop((second, third, of_third));
    }

    #[tokio::test]
    async fn an_address_with_a_hundred_waiting_searches_takes_none_from_another_one() {
        let shares = Arc::new(SearchShares::default());
        let (greedy, other) = (anonymous(1), anonymous(2));
        let held = [turn_of(&shares, &greedy).await.unwrap(), turn_of(&shares, &greedy).await.unwrap()];
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let (shares, greedy) = (shares.clone(), greedy.clone());
                tokio::spawn(async move { turn_of(&shares, &greedy).await.is_ok() })
            })
            .collect();
        until_waiting(&shares, &greedy, 100).await;
        let immediate = timeout(Duration::ZERO, turn_of(&shares, &other)).await;
        let first = immediate.expect("it does not wait").expect("it is not refused");
        for task in waiting {
            assert!(!task.await.unwrap(), "no lookup ends");
        }
        assert!(turn_of(&shares, &other).await.is_err(), "one permit is left for a third client");
        drop((held, first));
    }

    #[tokio::test]
    async fn a_permit_that_becomes_free_goes_to_the_client_with_the_fewest() {
        let shares = Arc::new(SearchShares::default());
        let clients = [1, 1, 2, 3].map(anonymous);
        let mut held = Vec::new();
        for client in &clients {
            held.push(turn_of(&shares, client).await.unwrap());
        }
        let waiting = |client: Requester| {
            let shares = shares.clone();
            tokio::spawn(async move { turn_of(&shares, &client).await })
        };
        let of_greedy = waiting(anonymous(1));
        until_waiting(&shares, &anonymous(1), 1).await;
        let of_new = waiting(anonymous(4));
        until_waiting(&shares, &anonymous(4), 1).await;
        drop(held.pop());
        assert!(of_new.await.unwrap().is_ok());
        assert!(of_greedy.await.unwrap().is_err());
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
