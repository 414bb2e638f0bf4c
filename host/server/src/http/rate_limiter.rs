//! Rate limits of requests, with the status 429, `Retry-After`, and a JSON-RPC error.
//!
//! A request is counted when its principal is known, before its body is received; the further messages of a batch are
//! counted after parsing. A request with invalid credentials is counted for its address in a separate limit
//! ([`failed_authentications`](mcp_host_config::http::HttpServerLimits::failed_authentications)), so it takes nothing
//! from the valid requests of this address. While that limit is exceeded, no issuer is requested for unknown tokens
//! from this address, and requests with such tokens are rejected, too.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use mcp_host_base::log_target;
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_config::http::HttpServerLimits;
use mcp_resource_host::access::rate::{RateClient, RateExceeded};
use mcp_resource_host::host::Host;

use super::response::message_response;
use crate::client_id::ClientId;
use crate::error::rate_exceeded;
use crate::jsonrpc::Rejection;
use crate::server_metrics::ServerMetrics;

/// The throttle interval of warnings about rejected requests, for each limit.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The rate limits of the clients of a service.
pub(super) struct RateLimiter {
    host: Arc<Host>,
    metrics: Arc<ServerMetrics>,
    log: ThrottlePerReason,
}

/// A request that exceeds a rate limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyRequests(pub(super) RateExceeded);

impl RateLimiter {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { metrics: ServerMetrics::of(&host), host, log: ThrottlePerReason::new(WARN_INTERVAL) }
    }

    /// Takes requests from the limits of a client.
    pub(super) fn take(
        &self,
        client: &ClientId,
        requests: NonZeroU32,
        limits: &HttpServerLimits,
    ) -> Result<(), TooManyRequests> {
        let taken = self.host.rates().take(limits, client.rate_client(), requests);
        taken.map_err(|exceeded| self.reject(client, exceeded))
    }

    /// Counts one failed authentication of this client. For a client without an address, it counts a request.
    pub(super) fn take_failed_authentication(
        &self,
        client: &ClientId,
        limits: &HttpServerLimits,
    ) -> Result<(), TooManyRequests> {
        let RateClient::Address(address) = client.rate_client() else {
            return self.take(client, NonZeroU32::MIN, limits);
        };
        let taken = self.host.rates().take_failed_authentication(limits, address);
        taken.map_err(|exceeded| self.reject(client, exceeded))
    }

    /// Logs a rejected request, throttled for each limit.
    pub(super) fn reject(&self, client: &ClientId, exceeded: RateExceeded) -> TooManyRequests {
        let key = exceeded.limit.key();
        self.metrics.record_rejection(key);
        match self.log.record(key) {
            Some(suppressed) => {
                tracing::warn!(target: log_target::SERVER, %client, key, suppressed, "a request is rejected: {exceeded}");
            }
            None => tracing::debug!(target: log_target::SERVER, %client, key, "a request is rejected: {exceeded}"),
        }
        TooManyRequests(exceeded)
    }
}

impl IntoResponse for TooManyRequests {
    fn into_response(self) -> Response {
        let Self(exceeded) = self;
        // Whole seconds, rounded up.
        let seconds = exceeded.retry_after.as_nanos().div_ceil(1_000_000_000).max(1);
        let rejection = Rejection::new(None, rate_exceeded(&exceeded));
        let mut response = message_response(StatusCode::TOO_MANY_REQUESTS, &rejection.into_response());
        if let Ok(seconds) = seconds.to_string().parse() {
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_resource_host::access::rate::RateLimit;

    #[test]
    fn the_time_of_a_retry_is_in_whole_seconds_rounded_up() {
        let retry_after = |millis| {
            let exceeded = RateExceeded { limit: RateLimit::Client, retry_after: Duration::from_millis(millis) };
            let response = TooManyRequests(exceeded).into_response();
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            response.headers()[RETRY_AFTER].to_str().unwrap().to_owned()
        };
        assert_eq!([0, 1, 1000, 1001, 59_001].map(retry_after), ["1", "1", "1", "2", "60"]);
    }
}
