//! The usage of a plugin's grants since it was loaded.

use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use mcp_host_base::metrics::Counter;

/// An unusable grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableGrant {
    /// The time since when it is unusable.
    pub since: SystemTime,
    /// The reason, for an admin.
    pub reason: String,
}

/// The operations of a plugin on a grant, by outcome.
#[derive(Debug, Default)]
pub struct OutcomeCounts {
    succeeded: Counter,
    failed: Counter,
}

impl OutcomeCounts {
    /// Counts one operation.
    pub(crate) fn record(&self, is_ok: bool) {
        if is_ok { &self.succeeded } else { &self.failed }.increment();
    }

    /// The number of operations that succeeded.
    pub fn succeeded(&self) -> u64 {
        self.succeeded.get()
    }

    /// The number of operations that failed, or that the host refused.
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }
}

/// The outcome of an HTTP exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpOutcome {
    /// The response is complete, or the guest stopped reading it; its status is below 400.
    Ok,
    /// As `Ok`, with a status from 400 to 499.
    ClientError,
    /// As `Ok`, with a status from 500.
    ServerError,
    /// The origin is not granted.
    RefusedOrigin,
    /// The host refuses the method, a header or the URI of the request.
    RefusedRequest,
    /// The name resolves to non-public addresses only.
    RefusedAddress,
    /// `limits.http.concurrency` or `limits.http.rate` is exhausted.
    Limit,
    /// There is no access token for the origin.
    Token,
    /// The name was not resolved.
    Dns,
    /// There is no connection.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The response did not arrive in time.
    Timeout,
    /// A message exceeds `limits.http.headers` or `limits.http.body`.
    TooLarge,
    /// The server broke HTTP, or closed the connection too early.
    Protocol,
    /// The call ended before the exchange did, or had no processor time left for it.
    Cancelled,
}

impl HttpOutcome {
    /// All outcomes, in the order of their numbers.
    const ALL: [Self; 15] = [
        Self::Ok,
        Self::ClientError,
        Self::ServerError,
        Self::RefusedOrigin,
        Self::RefusedRequest,
        Self::RefusedAddress,
        Self::Limit,
        Self::Token,
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::TooLarge,
        Self::Protocol,
        Self::Cancelled,
    ];

    /// The outcome of an exchange with a response of this status.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            status if status.is_server_error() => Self::ServerError,
            status if status.is_client_error() => Self::ClientError,
            _ => Self::Ok,
        }
    }

    /// The name of the outcome in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientError => "client-error",
            Self::ServerError => "server-error",
            Self::RefusedOrigin => "refused-origin",
            Self::RefusedRequest => "refused-request",
            Self::RefusedAddress => "refused-address",
            Self::Limit => "limit",
            Self::Token => "token",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::TooLarge => "too-large",
            Self::Protocol => "protocol",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The HTTP exchanges of a plugin, by outcome.
#[derive(Debug, Default)]
pub struct HttpOutcomeCounts([Counter; HttpOutcome::ALL.len()]);

impl HttpOutcomeCounts {
    /// Counts one exchange.
    pub(crate) fn record(&self, outcome: HttpOutcome) {
        if let Some(count) = self.0.get(outcome as usize) {
            count.increment();
        }
    }

    /// The numbers of exchanges by the name of their outcome, from a closed list. Outcomes that did not occur are left
    /// out.
    pub fn by_outcome(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = HttpOutcome::ALL.into_iter().zip(&self.0);
        counts.map(|(outcome, count)| (outcome.name(), count.get())).filter(|(_, count)| *count > 0)
    }
}

/// The usage of a plugin's grants.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GrantUsage<'a> {
    /// The HTTP exchanges.
    pub http: &'a HttpOutcomeCounts,
    /// The SQL statements.
    pub sql: &'a OutcomeCounts,
    /// The time of the statements, including waits for a connection.
    pub sql_time: Duration,
}

/// The contents and the quotas of a key-value bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUsage {
    /// The name of the bucket.
    pub name: String,
    /// The number of keys.
    pub keys: u64,
    /// The bytes of keys and values.
    pub bytes: u64,
    /// The quota of keys.
    pub max_keys: u64,
    /// The quota of bytes.
    pub max_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_apart() {
        let counts = OutcomeCounts::default();
        [true, false, true].into_iter().for_each(|is_ok| counts.record(is_ok));
        assert_eq!((counts.succeeded(), counts.failed()), (2, 1));
    }

    #[test]
    fn exchanges_are_counted_by_outcome_and_status() {
        let counts = HttpOutcomeCounts::default();
        for status in [200, 304, 404, 503, 599] {
            counts.record(HttpOutcome::of_status(StatusCode::from_u16(status).unwrap()));
        }
        counts.record(HttpOutcome::Cancelled);
        let expected = [("ok", 2), ("client-error", 1), ("server-error", 2), ("cancelled", 1)];
        assert_eq!(counts.by_outcome().collect::<Vec<_>>(), expected);
        assert!(HttpOutcome::ALL.iter().enumerate().all(|(number, outcome)| *outcome as usize == number));
    }
}
