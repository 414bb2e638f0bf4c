//! Outbound HTTP: the common parts of the plugins' clients and the host's own [client](client).

mod client;

use std::time::Duration;

use hyper::StatusCode;
use rustls::pki_types::CertificateDer;

use mcp_host_base::log_target;
use mcp_host_base::task;

pub use self::client::{ExchangeBounds, ExchangeError, HttpsClient};

/// The maximum `Retry-After` that is shown. A date counts as longer.
const MAX_SHOWN_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the certificate authorities that this machine trusts, on a blocking thread, because there are some hundred
/// files. Unreadable ones are logged.
pub(crate) async fn system_certificates() -> Vec<CertificateDer<'static>> {
    let found = task::spawn_blocking(rustls_native_certs::load_native_certs).await.unwrap_or_default();
    for error in &found.errors {
        tracing::warn!(target: log_target::SERVER, %error, "cannot read some of the certificate authorities that this machine trusts");
    }
    if found.certs.is_empty() {
        tracing::warn!(
            target: log_target::SERVER,
            "this machine has no certificate authorities: TLS works only with those that the config names with `ca`"
        );
    }
    found.certs
}

/// Returns advice for an admin about an answer with this status: retry, instead of searching for a mistake in the
/// config. None unless the status means that the endpoint is busy or failing.
pub fn retry_advice(status: StatusCode, retry_after: Option<Duration>) -> Option<String> {
    let is_busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    (is_busy || status.is_server_error()).then(|| {
        let when = match retry_after {
            None => "later".to_owned(),
            Some(after) if after <= MAX_SHOWN_DELAY => format!("in {}", humantime::format_duration(after)),
            Some(_) => "at the time of its `Retry-After`, which is a date, or more than a day".to_owned(),
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
