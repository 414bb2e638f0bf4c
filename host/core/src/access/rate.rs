//! Rate limits of requests: one token bucket (GCRA) per client, and one for all clients together.
//!
//! A client is an authenticated principal, from any address, or else an address. A request over its client's rate takes
//! nothing from the overall rate, so a client at its limit does not affect others. A client's rate is capped at the
//! configured share of the overall rate.
//!
//! Bounded: at most [`MAX_CLIENTS`] principals and as many addresses have a bucket. Only full buckets are evicted, so
//! eviction never resets a limit. When the table is full, further clients share a fixed number of buckets
//! ([`keyed_rate`](mcp_host_base::keyed_rate)).
//!
//! The limits hold for all live replicas of a cluster together: with N replicas, each request takes N tokens. The
//! buckets outlast a change of N, so such a change grants no client a new burst.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use mcp_host_base::keyed_rate::{KeyedRate, wait_time};
use mcp_host_config::http::HttpServerLimits;

use super::Principal;

/// The maximum number of clients of one kind with their own bucket.
const MAX_CLIENTS: usize = 65_536;

/// The rates of the clients of a host, by its current config.
#[derive(Debug, Default)]
pub struct RequestRates {
    current: ArcSwapOption<Rates>,
    /// The number of live replicas that share the limits; 0 before it is known, and without a cluster.
    replicas: AtomicU32,
}

/// A client, as rate limits distinguish clients.
#[derive(Clone, Copy, Debug)]
pub enum RateClient<'a> {
    /// An authenticated principal, or one whose address is not known.
    Principal(&'a Principal),
    /// An address, or the first of a network.
    Address(IpAddr),
}

/// A request that exceeds a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct RateExceeded {
    /// The limit that is exceeded.
    pub limit: RateLimit,
    /// The time after which it may be made.
    pub retry_after: Duration,
}

/// The limit that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimit {
    /// The limit of one client.
    Client,
    /// The limit of all clients together.
    Overall,
    /// The limit of failed authentications.
    Authentication,
}

impl RateLimit {
    /// The key of the config that sets it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Client => "http.limits.client-rate",
            Self::Overall => "http.limits.rate",
            Self::Authentication => "http.limits.failed-authentications",
        }
    }
}

impl RateExceeded {
    fn text(&self) -> &'static str {
        match self.limit {
            RateLimit::Client => "too many requests of this client",
            RateLimit::Overall => "too many requests of all clients",
            RateLimit::Authentication => "too many requests of this client with credentials that are not valid",
        }
    }
}

/// The limiters of one config.
#[derive(Debug)]
struct Rates {
    quotas: Quotas,
    overall: DefaultDirectRateLimiter,
    principals: KeyedRate<Principal>,
    addresses: KeyedRate<IpAddr>,
    failed_authentications: KeyedRate<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quotas {
    overall: Quota,
    principal: Quota,
    address: Quota,
    failed_authentications: Quota,
}

impl Quotas {
    fn new(limits: &HttpServerLimits) -> Self {
        let overall = limits.rate.quota();
        let share = |apply: &dyn Fn(usize) -> usize| {
            let overall_burst = usize::try_from(overall.burst_size().get()).unwrap_or(usize::MAX);
            let part = u32::try_from(apply(overall_burst)).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
            lower(limits.client_rate.quota(), limits.rate.quota_of(part))
        };
        Self {
            overall,
            principal: share(&|number| limits.principal_share.apply(number)),
            address: share(&|number| limits.client_share.apply(number)),
            failed_authentications: limits.failed_authentications.quota(),
        }
    }
}

/// Returns the quota that satisfies both.
fn lower(one: Quota, other: Quota) -> Quota {
    let interval = one.replenish_interval().max(other.replenish_interval());
    let burst = one.burst_size().min(other.burst_size());
    Quota::with_period(interval).unwrap_or(one).allow_burst(burst)
}

impl RequestRates {
    /// Takes `requests` tokens from the limits of a client.
    pub fn take(
        &self,
        limits: &HttpServerLimits,
        client: RateClient<'_>,
        requests: NonZeroU32,
    ) -> Result<(), RateExceeded> {
        let (rates, requests) = (self.rates(limits), self.cost(requests));
        match client {
            RateClient::Principal(principal) => rates.principals.take(&principal.identity(), requests),
            RateClient::Address(address) => rates.addresses.take(&address, requests),
        }
        .map_err(|retry_after| RateExceeded { limit: RateLimit::Client, retry_after })?;
        let requests = requests.min(rates.quotas.overall.burst_size());
        let taken = rates.overall.check_n(requests).unwrap_or(Ok(()));
        taken.map_err(|until| RateExceeded { limit: RateLimit::Overall, retry_after: wait_time(&until) })
    }

    /// Takes one token for a failed authentication from this address.
    pub fn take_failed_authentication(&self, limits: &HttpServerLimits, address: IpAddr) -> Result<(), RateExceeded> {
        let cost = self.cost(NonZeroU32::MIN);
        let taken = self.rates(limits).failed_authentications.take(&address, cost);
        taken.map_err(|retry_after| RateExceeded { limit: RateLimit::Authentication, retry_after })
    }

    /// Returns whether this address may fail once more. Takes no token.
    pub fn check_failed_authentications(&self, limits: &HttpServerLimits, address: IpAddr) -> Result<(), RateExceeded> {
        let checked = self.rates(limits).failed_authentications.peek(&address);
        checked.map_err(|retry_after| RateExceeded { limit: RateLimit::Authentication, retry_after })
    }

    /// Divides the limits by a number of replicas, from now on.
    pub(crate) fn set_replicas(&self, replicas: NonZeroU32) {
        self.replicas.store(replicas.get(), Ordering::Relaxed);
    }

    /// Returns the number of tokens that requests take: one per request and replica.
    fn cost(&self, requests: NonZeroU32) -> NonZeroU32 {
        NonZeroU32::new(self.replicas.load(Ordering::Relaxed)).map_or(requests, |count| requests.saturating_mul(count))
    }

    /// Returns the limiters for these limits. A reload that changes the limits resets them.
    fn rates(&self, limits: &HttpServerLimits) -> Arc<Rates> {
        let quotas = Quotas::new(limits);
        match self.current.load_full() {
            Some(rates) if rates.quotas == quotas => rates,
            _ => {
                let rates = Arc::new(Rates {
                    quotas,
                    overall: RateLimiter::direct(quotas.overall),
                    principals: KeyedRate::new(quotas.principal, MAX_CLIENTS),
                    addresses: KeyedRate::new(quotas.address, MAX_CLIENTS),
                    failed_authentications: KeyedRate::new(quotas.failed_authentications, MAX_CLIENTS),
                });
                self.current.store(Some(rates.clone()));
                rates
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn limits(rate: &str, client_rate: &str) -> HttpServerLimits {
        let (rate, client_rate) = (rate.parse().unwrap(), client_rate.parse().unwrap());
        HttpServerLimits { rate, client_rate, ..HttpServerLimits::default() }
    }

    fn address(last: u8) -> RateClient<'static> {
        RateClient::Address(Ipv4Addr::new(192, 0, 2, last).into())
    }

    /// Returns the number of requests that a client may make in one burst.
    fn burst(rates: &RequestRates, limits: &HttpServerLimits, client: RateClient<'_>) -> usize {
        (0..1000).take_while(|_| rates.take(limits, client, NonZeroU32::MIN).is_ok()).count()
    }

    #[test]
    fn a_client_at_its_limit_takes_nothing_from_others() {
        let (rates, limits) = (RequestRates::default(), limits("20/h", "10/h"));
        let (ada, bob) = (Principal::new("corp/ada"), Principal::new("corp/bob"));
        assert_eq!(burst(&rates, &limits, RateClient::Principal(&ada)), 5, "a quarter of all");
        let exceeded = rates.take(&limits, RateClient::Principal(&ada), NonZeroU32::MIN).unwrap_err();
        assert_eq!(exceeded.limit, RateLimit::Client);
        assert!(exceeded.retry_after > Duration::from_secs(60), "{exceeded:?}");
        let member = ada.clone().with_groups(["corp/x"]);
        assert_eq!(burst(&rates, &limits, RateClient::Principal(&member)), 0, "groups make no other client");
        assert_eq!(burst(&rates, &limits, RateClient::Principal(&bob)), 5);
        assert_eq!(burst(&rates, &limits, address(1)), 10, "its own rate");
        let exceeded = rates.take(&limits, address(2), NonZeroU32::MIN).unwrap_err();
        assert_eq!(exceeded.limit, RateLimit::Overall, "20 have been taken");
    }

    #[test]
    fn a_batch_counts_as_its_messages_and_at_most_as_a_burst() {
        let (rates, limits) = (RequestRates::default(), limits("1000/h", "10/h"));
        let number = |number| NonZeroU32::new(number).unwrap();
        assert!(rates.take(&limits, address(1), number(6)).is_ok());
        assert!(rates.take(&limits, address(1), number(6)).is_err());
        assert!(rates.take(&limits, address(1), number(4)).is_ok());
        assert!(rates.take(&limits, address(2), number(64)).is_ok());
        assert!(rates.take(&limits, address(2), number(1)).is_err());
    }

    #[test]
    fn a_reload_that_changes_other_limits_gives_nobody_a_new_burst() {
        let (rates, limits) = (RequestRates::default(), limits("1000/h", "2/h"));
        assert_eq!(burst(&rates, &limits, address(1)), 2);
        let other = HttpServerLimits { streams: 1.try_into().unwrap(), ..limits.clone() };
        assert_eq!(burst(&rates, &other, address(1)), 0);
        let higher = HttpServerLimits { client_rate: "3/h".parse().unwrap(), ..limits };
        assert_eq!(burst(&rates, &higher, address(1)), 3);
    }

    #[test]
    fn replicas_divide_the_limits_and_a_change_of_their_number_gives_nobody_a_new_burst() {
        let (one, other, limits) = (RequestRates::default(), RequestRates::default(), limits("1000/h", "12/h"));
        let replicas = |rates: &RequestRates, number| rates.set_replicas(NonZeroU32::new(number).unwrap());
        replicas(&one, 2);
        replicas(&other, 2);
        assert_eq!([&one, &other].map(|rates| burst(rates, &limits, address(1))), [6, 6]);
        assert_eq!(burst(&one, &limits, address(2)), 6);
        // One of the replicas ends. The tokens that were taken stay taken.
        replicas(&one, 1);
        assert_eq!(burst(&one, &limits, address(1)), 0);
        assert_eq!(burst(&one, &limits, address(3)), 12);
        // There are more replicas than the limit allows requests: each replica still allows one.
        replicas(&one, 100);
        assert_eq!(burst(&one, &limits, address(4)), 1);
    }

    #[test]
    fn failed_authentications_have_a_rate_of_their_own() {
        let failed_authentications = "2/h".parse().unwrap();
        let limits = HttpServerLimits { failed_authentications, ..limits("1000/h", "10/h") };
        let rates = RequestRates::default();
        let fail = || rates.take_failed_authentication(&limits, Ipv4Addr::LOCALHOST.into()).is_ok();
        let may_fail = || rates.check_failed_authentications(&limits, Ipv4Addr::LOCALHOST.into()).is_ok();
        assert_eq!([may_fail(), may_fail(), may_fail()], [true; 3], "nothing is taken");
        assert_eq!([fail(), fail(), fail()], [true, true, false]);
        assert!(!may_fail());
        assert_eq!(burst(&rates, &limits, RateClient::Address(Ipv4Addr::LOCALHOST.into())), 10);
    }
}
