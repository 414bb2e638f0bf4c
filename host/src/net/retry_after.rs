//! What an admin is told of an endpoint that is busy or failing: to try again, and not to look for a mistake in the config.

use std::time::Duration;

use hyper::StatusCode;

/// The longest `Retry-After` that is told. A date has no length, and counts as a longer one.
const MAX_TOLD: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns what to do about an answer with that status; none if it does not say that the endpoint is busy or failing.
pub(crate) fn retry_advice(status: StatusCode, retry_after: Option<Duration>) -> Option<String> {
    let is_busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    (is_busy || status.is_server_error()).then(|| {
        let when = match retry_after {
            None => "later".to_owned(),
            Some(after) if after <= MAX_TOLD => format!("in {}", humantime::format_duration(after)),
            Some(_) => "when its `Retry-After` says, which is a date, or more than a day".to_owned(),
        };
        format!("it is busy or failing; try again {when}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_busy_or_failing_is_to_be_asked_again() {
        for status in [408, 429, 500, 502, 503, 504].map(|status| StatusCode::from_u16(status).unwrap()) {
            let advice = |seconds: Option<u64>| retry_advice(status, seconds.map(Duration::from_secs)).unwrap();
            assert_eq!(advice(None), "it is busy or failing; try again later");
            assert_eq!(advice(Some(90)), "it is busy or failing; try again in 1m 30s");
            assert!(advice(Some(u64::MAX)).contains("`Retry-After`"));
        }
        for status in [301, 400, 401, 403, 404, 405].map(|status| StatusCode::from_u16(status).unwrap()) {
            assert_eq!(retry_advice(status, Some(Duration::ZERO)), None, "{status}");
        }
    }
}
