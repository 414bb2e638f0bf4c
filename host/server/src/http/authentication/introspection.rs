//! Token introspection (RFC 7662): the issuer reports whether a token is active.
//!
//! Semaphores limit the introspection requests in flight: [`MAX_REQUESTS`] in total and [`MAX_CLIENT_REQUESTS`] for
//! one client, so random tokens of one client cannot starve the others. A client that has sent too many invalid
//! tokens causes no requests ([`RateCheck`]). Without an answer, a token is not accepted.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;
use mcp_host_base::weak_map::WeakMap;
use mcp_host_config::issuer::{Introspection, Issuer};
use mcp_resource_host::access::rate::RateExceeded;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::claims::{Claims, numeric_date};
use super::fetch::{BOUNDS, FetchError, Fetcher};
use super::token_error::{TokenError, shown_audience};
use crate::client_id::ClientId;

/// The maximum number of concurrent requests.
const MAX_REQUESTS: usize = 16;
/// The maximum number of concurrent requests for tokens of one client.
const MAX_CLIENT_REQUESTS: usize = 4;
/// The maximum time for which a request waits for a permit.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The interval of warnings about failures.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Checks the rate of a client's invalid tokens before an introspection request.
pub(super) type RateCheck<'a> = dyn Fn() -> Result<(), RateExceeded> + Send + Sync + 'a;

/// An introspection endpoint.
#[derive(Debug)]
pub(super) struct Introspector {
    endpoint: Introspection,
    fetcher: Fetcher,
    permits: Semaphore,
    /// The semaphores of clients with tokens that wait for introspection or are being introspected.
    client_permits: WeakMap<ClientId, Semaphore>,
    failure_log: Throttle,
}

impl Introspector {
    pub(super) fn new(endpoint: Introspection, fetcher: Fetcher) -> Self {
        let (permits, failure_log) = (Semaphore::new(MAX_REQUESTS), Throttle::new(WARN_INTERVAL));
        Self { endpoint, fetcher, permits, client_permits: WeakMap::default(), failure_log }
    }

    /// Returns the issuer's claims about a token, if the token is active and was issued for one of these audiences.
    pub(super) async fn introspect(
        &self,
        token: &str,
        client: &ClientId,
        issuer: &Issuer,
        audiences: &[String],
        check_rate: &RateCheck<'_>,
    ) -> Result<Claims, TokenError> {
        check_rate()?;
        let of_client =
            self.client_permits.get_or_insert_with(client, || Arc::new(Semaphore::new(MAX_CLIENT_REQUESTS)));
        let permits = async { (of_client.acquire().await, self.permits.acquire().await) };
        let Ok(_permits) = timeout(MAX_WAIT, permits).await else {
            return Err(self.failure(FetchError::Timeout(BOUNDS.timeout).to_string()));
        };
        // Other tokens of the client may have failed meanwhile.
        check_rate()?;
        let answer = self.fetcher.introspect(&self.endpoint, token).await.map_err(|error| error.to_string());
        let claims = answer.and_then(|json| serde_json::from_slice::<Claims>(&json).map_err(|error| error.to_string()));
        let claims = claims.map_err(|reason| self.failure(reason))?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(TokenError::Inactive);
        }
        validate(&claims, issuer, audiences)?;
        Ok(claims)
    }

    fn failure(&self, reason: String) -> TokenError {
        let url = self.endpoint.url.as_str();
        if let Some(suppressed) = self.failure_log.record() {
            tracing::warn!(target: log_target::SERVER, url, reason, suppressed, "an issuer cannot be asked about a token");
        }
        TokenError::Unavailable(reason.into())
    }
}

/// Validates the issuer, the audience and the start of validity in an introspection answer.
fn validate(claims: &Claims, issuer: &Issuer, audiences: &[String]) -> Result<(), TokenError> {
    if claims.get("iss").is_some_and(|iss| iss.as_str() != Some(issuer.issuer.as_written())) {
        return Err(TokenError::Issuer);
    }
    let is_own = |value: &Value| value.as_str().is_some_and(|text| audiences.iter().any(|own| own == text));
    let is_audience = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(is_own),
        Some(one) => is_own(one),
        None => return Err(TokenError::Claim("aud".to_owned())),
    };
    if !is_audience {
        return Err(TokenError::Audience { found: shown_audience(claims.get("aud")) });
    }
    if claims.contains_key("cnf") {
        return Err(TokenError::SenderConstrained);
    }
    let now = Duration::from_secs(jsonwebtoken::get_current_timestamp()).saturating_add(issuer.clock_skew.duration());
    match numeric_date(claims, "nbf")? {
        Some(nbf) if nbf > now => Err(TokenError::NotYetValid),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mcp_host_config::issuer::Jwks;

    fn check(claims: &Value) -> Result<(), TokenError> {
        let url: mcp_host_config::EndpointUrl = "https://login.example.com".parse().unwrap();
        let issuer = Issuer::new("corp".parse().unwrap(), url.clone(), Jwks::Url(url));
        validate(claims.as_object().unwrap(), &issuer, &["https://mcp.example.com/mcp".to_owned()])
    }

    #[test]
    fn an_answer_is_about_a_token_of_this_issuer_for_this_server() {
        let (own, other) = ("https://mcp.example.com/mcp", "https://other.example.com");
        for audience in [json!(own), json!([other, own])] {
            check(&json!({ "aud": audience, "iss": "https://login.example.com" })).unwrap();
            check(&json!({ "aud": audience, "nbf": 1 })).unwrap();
            assert!(matches!(check(&json!({ "aud": audience, "iss": other })), Err(TokenError::Issuer)));
            assert!(matches!(
                check(&json!({ "aud": audience, "nbf": 9_999_999_999_u64 })),
                Err(TokenError::NotYetValid)
            ));
            assert!(matches!(check(&json!({ "aud": audience, "nbf": "1" })), Err(TokenError::Claim(_))));
            assert!(matches!(check(&json!({ "aud": audience, "cnf": {} })), Err(TokenError::SenderConstrained)));
        }
        for audience in [json!(other), json!([]), json!(7)] {
            assert!(matches!(check(&json!({ "aud": audience })), Err(TokenError::Audience { .. })));
        }
        assert!(matches!(check(&json!({})), Err(TokenError::Claim(_))));
    }
}
