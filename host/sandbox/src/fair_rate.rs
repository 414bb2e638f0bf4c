//! A rate limit of one plugin (GCRA, a token bucket), shared fairly by its clients: for its calls (`limits.rate`) and
//! for their HTTP exchanges (`limits.http.rate`).
//!
//! One client takes at most half of the rate and of the burst, which leaves the other half for all others. The same
//! limit applies to all calls of the host together, so that polls of watched resources leave capacity for reads. The
//! client over stdio, the command line and the host's own indexers compete with no other client, and may take
//! everything.
//!
//! Bounded: at most [`MAX_CLIENTS`] clients have a separate state, as in [`keyed_rate`](mcp_host_base::keyed_rate).

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use mcp_host_base::keyed_rate::{KeyedRate, wait_time};
use mcp_host_model::requester::Requester;

/// The maximum number of clients with a separate state.
const MAX_CLIENTS: usize = 1024;

/// A rate limit with a share for each client.
#[derive(Debug)]
pub struct FairRate {
    all: DefaultDirectRateLimiter,
    by_client: KeyedRate<Requester>,
}

impl FairRate {
    /// Creates a limit with this quota.
    pub fn new(quota: Quota) -> Self {
        Self { all: RateLimiter::direct(quota), by_client: KeyedRate::new(half(quota), MAX_CLIENTS) }
    }

    /// Takes one unit from the client's share.
    ///
    /// # Errors
    ///
    /// The time until the client may take one.
    pub fn take(&self, client: Option<&Requester>) -> Result<(), Duration> {
        if let Some(client) = client.filter(|client| !client.is_local()) {
            self.by_client.take(client, NonZeroU32::MIN)?;
        }
        self.all.check().map_err(|until| wait_time(&until))
    }
}

/// Returns half of a quota, at least one of its burst.
fn half(quota: Quota) -> Quota {
    let burst = NonZeroU32::new(quota.burst_size().get() / 2).unwrap_or(NonZeroU32::MIN);
    let halved = Quota::with_period(quota.replenish_interval().saturating_mul(2));
    halved.map_or(quota, |halved| halved.allow_burst(burst))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use mcp_host_model::principal::Principal;

    use super::*;

    fn client(name: &str) -> Requester {
        Requester::Principal(Principal::new(name))
    }

    fn burst(rate: &FairRate, client: Option<&Requester>) -> usize {
        (0..100).take_while(|_| rate.take(client).is_ok()).count()
    }

    #[test]
    fn one_client_leaves_half_to_others() {
        let rate = FairRate::new(Quota::per_hour(NonZeroU32::new(20).unwrap()));
        let (ada, bob) = (client("ada"), client("bob"));
        assert_eq!(burst(&rate, Some(&ada)), 10);
        let wait = rate.take(Some(&ada)).unwrap_err();
        assert!(wait > Duration::from_mins(3) && wait <= Duration::from_mins(6), "{wait:?}");
        assert_eq!(burst(&rate, Some(&bob)), 10);
        assert_eq!(burst(&rate, None), 0, "all of it is taken");
    }

    #[test]
    fn polls_leave_half_to_clients() {
        let rate = FairRate::new(Quota::per_hour(NonZeroU32::new(20).unwrap()));
        assert_eq!(burst(&rate, Some(&Requester::Host)), 10);
        assert_eq!(burst(&rate, Some(&client("ada"))), 10);
    }

    #[test]
    fn the_only_client_and_the_host_take_everything() {
        for client in [None, Some(Requester::Principal(Principal::LOCAL))] {
            let rate = FairRate::new(Quota::per_hour(NonZeroU32::new(20).unwrap()));
            assert_eq!(burst(&rate, client.as_ref()), 20);
        }
    }

    #[test]
    fn a_rate_of_one_is_for_whoever_comes_first() {
        let rate = FairRate::new(Quota::per_hour(NonZeroU32::MIN));
        assert_eq!(burst(&rate, Some(&client("ada"))), 1);
    }

    #[test]
    fn states_of_clients_are_bounded() {
        let rate = FairRate::new(Quota::per_hour(NonZeroU32::new(100_000).unwrap()));
        for number in 0..5000_u32 {
            rate.take(Some(&Requester::Address(Ipv4Addr::from(number).into()))).unwrap();
        }
        assert!(rate.by_client.tracked() <= MAX_CLIENTS);
    }
}
