//! Vectors of queries.
//!
//! A query is sent if the config enables it, within `query-rate`, and at most [`MAX_REQUESTS`] at a time. All other
//! queries have lexical results, as do queries without a response within `query-timeout`, and all queries while the
//! [circuit](mcp_host_base::circuit_breaker) is open.
//!
//! Vectors of saved searches are cached, because these are repeated for each subscriber whenever the index changes.
//! Other vectors are not cached: the time of a search would reveal that another principal has searched for the same.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::{DefaultDirectRateLimiter, RateLimiter};
use mcp_host_base::circuit_breaker::{BreakerDecision, CircuitBreaker, Verdict};
use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;
use mcp_host_config::search::Embeddings;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::endpoint::{Endpoint, InputForm};
use super::vector::Vector;

/// The maximum number of concurrent requests.
const MAX_REQUESTS: usize = 16;
/// The number of consecutive failures after which the circuit opens.
const FAILURE_THRESHOLD: u32 = 3;
/// The interval of warnings about failures.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// The vectors of queries.
pub(super) struct QueryVectors {
    endpoint: Arc<Endpoint>,
    is_enabled: bool,
    form: InputForm,
    rate: DefaultDirectRateLimiter,
    permits: Semaphore,
    breaker: CircuitBreaker,
    failure_log: Throttle,
    /// The vectors of saved searches.
    saved: Mutex<HashMap<String, Option<Vector>>>,
}

impl QueryVectors {
    pub(super) fn new<'a>(
        settings: &Embeddings,
        endpoint: Arc<Endpoint>,
        saved: impl Iterator<Item = &'a str>,
    ) -> Self {
        Self {
            endpoint,
            is_enabled: settings.queries,
            form: InputForm::of_queries(settings),
            rate: RateLimiter::direct(settings.query_rate.quota()),
            permits: Semaphore::new(MAX_REQUESTS),
            breaker: CircuitBreaker::new(FAILURE_THRESHOLD),
            failure_log: Throttle::new(WARN_INTERVAL),
            saved: Mutex::new(saved.map(|query| (query.to_owned(), None)).collect()),
        }
    }

    /// Whether the vectors of exactly these queries are cached.
    pub(super) fn are_kept<'a>(&self, saved: impl Iterator<Item = &'a str>) -> bool {
        let (own, queries) = (self.saved.lock(), saved.collect::<HashSet<_>>());
        own.len() == queries.len() && queries.into_iter().all(|query| own.contains_key(query))
    }

    /// The vector of a query, if it is available in time.
    pub(super) async fn get(&self, query: &str) -> Option<Vector> {
        if !self.is_enabled || query.trim().is_empty() {
            return None;
        }
        if let Some(Some(kept)) = self.saved.lock().get(query) {
            return Some(kept.clone());
        }
        // Held until the outcome is recorded, or until the client stops waiting.
        let decision = self.breaker.try_acquire(Instant::now());
        if matches!(decision, BreakerDecision::Rejected(_)) {
            return None;
        }
        let _slot = self.permits.try_acquire().ok()?;
        self.rate.check().ok()?;
        let text = [self.form.prefix.as_str(), query].concat();
        match self.endpoint.embed(&[text], &self.form).await {
            Ok(vectors) => {
                self.breaker.record(Verdict::Success);
                let vector = vectors.into_iter().next()?;
                if let Some(kept) = self.saved.lock().get_mut(query) {
                    *kept = Some(vector.clone());
                }
                Some(vector)
            }
            Err(error) => {
                // The rejection of one query is not a failure of the endpoint.
                if error.is_rejection() {
                    self.breaker.record(Verdict::Success);
                } else {
                    self.breaker.trip(error.retry_after(), Instant::now());
                }
                if let Some(suppressed) = self.failure_log.record() {
                    let error = error.to_string();
                    tracing::warn!(
                        target: log_target::SEARCH, error, suppressed,
                        "the endpoint of embeddings has no vector for a query: the results are lexical"
                    );
                }
                None
            }
        }
    }
}
