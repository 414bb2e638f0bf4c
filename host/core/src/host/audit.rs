//! Records of requests: each has a line in the [audit log](crate::audit) and an event in the access log.
//!
//! The access log has one `debug` event per request under the target `mcp_host::access`, with the fields `principal`,
//! `operation`, `uri` (empty for merged listings), `outcome` and `cached`. The outcome is `ok`, the kind of the
//! error, `internal` after a panic, or `cancelled` for a request that was dropped before its response. `cached` is
//! true if the whole response was in the response cache.

use std::future::ready;
use std::pin::Pin;

use futures::FutureExt as _;
use futures::future::Either;
use mcp_host_base::log_target;
use mcp_host_base::text::prefix;
use mcp_host_config::Operation;
use mcp_host_model::caller::Caller;
use mcp_host_model::requester::Requester;
use mcp_host_model::resource::Error;
use mcp_host_model::uri::MAX_URI_LEN;

use super::Host;
use super::lifecycle::RequestTracker;
use crate::access::Principal;
use crate::audit::{Entry, Facts, Line};

/// A kind of request in records.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestKind {
    pub(super) name: &'static str,
    /// Whether the line has the URIs that were returned.
    pub(super) returns_uris: bool,
}

impl From<Operation> for RequestKind {
    fn from(operation: Operation) -> Self {
        Self { name: operation.name(), returns_uris: operation == Operation::Read }
    }
}

/// Unsubscribing.
pub(super) const UNSUBSCRIBE: RequestKind = RequestKind { name: "unsubscribe", returns_uris: false };
/// `subscriptions/listen`.
pub(super) const LISTEN: RequestKind = RequestKind { name: "listen", returns_uris: false };

impl Host {
    /// Runs a request and records its outcome after the request is dropped, unless the host is shutting down or the
    /// request cannot be recorded.
    ///
    /// Not an `async fn`: its future would store the request twice, as the argument and while it is awaited.
    pub(super) fn audited<'a, T>(
        &'a self,
        principal: &'a Principal,
        kind: impl Into<RequestKind>,
        uri: &'a str,
        facts: &'a Facts,
        request: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> {
        let begun = self.begin_record(principal, kind, uri, facts).and_then(|mut record| {
            let token = self.requests.begin().inspect_err(|error| record.line.outcome = error.kind())?;
            Ok((record, token))
        });
        match begun {
            Ok((record, token)) => {
                // Boxed: each scope moves its future, which has several KiB.
                let request = Caller::scope(self.generation.load().access.caller(principal), Box::pin(request));
                Either::Left(Requester::current_or(principal).scope(request).map(move |response| {
                    record.end(&response);
                    drop(token);
                    response
                }))
            }
            Err(error) => Either::Right(ready(Err(error))),
        }
    }

    /// Begins the record of a request.
    ///
    /// # Errors
    ///
    /// The audit log has no space, and its config refuses requests then.
    pub(super) fn begin_record<'a>(
        &'a self,
        principal: &'a Principal,
        kind: impl Into<RequestKind>,
        uri: &'a str,
        facts: &'a Facts,
    ) -> Result<RequestRecord<'a>, Error> {
        self.begin_record_about(principal, kind, uri, facts, 0)
    }

    /// Begins the record of a request with `more_text` bytes of text besides the principal and the URI.
    ///
    /// # Errors
    ///
    /// As [`begin_record`](Self::begin_record).
    pub(super) fn begin_record_about<'a>(
        &'a self,
        principal: &'a Principal,
        kind: impl Into<RequestKind>,
        uri: &'a str,
        facts: &'a Facts,
        more_text: usize,
    ) -> Result<RequestRecord<'a>, Error> {
        let RequestKind { name: operation, returns_uris } = kind.into();
        // A normal form has at most three bytes for each byte: non-ASCII bytes are percent-encoded.
        let text_len = principal.name().len().saturating_add(uri.len().saturating_mul(3)).saturating_add(more_text);
        let entry = self.audit.begin(text_len, returns_uris);
        let entry = entry.map_err(|_| match self.requests.is_closed() {
            true => Error::ShuttingDown,
            false => Error::AuditUnavailable,
        })?;
        let line = Line { principal: principal.name(), operation, uri, outcome: "cancelled", facts };
        Ok(RequestRecord { line, entry, is_audited: true })
    }
}

/// The record of one request, emitted when it ends in any way.
pub(super) struct RequestRecord<'a> {
    line: Line<'a>,
    /// None if the audit log is off.
    entry: Option<Entry<'a>>,
    is_audited: bool,
}

impl RequestRecord<'_> {
    /// Runs the request, unless the host is shutting down.
    pub(super) async fn run<T>(
        &mut self,
        tracker: &RequestTracker,
        request: Pin<&mut impl Future<Output = Result<T, Error>>>,
    ) -> Result<T, Error> {
        let response = match tracker.begin() {
            Ok(_token) => request.await,
            Err(error) => Err(error),
        };
        self.line.outcome = outcome(&response);
        response
    }

    /// Sets whether the audit log gets a line when the request ends. Default: it does.
    pub(super) fn set_audited(&mut self, is_audited: bool) {
        self.is_audited = is_audited;
    }

    /// Sets the outcome, in a word or two.
    pub(super) fn set_outcome(&mut self, outcome: &'static str) {
        self.line.outcome = outcome;
    }

    /// Ends a request with this result.
    pub(super) fn end<T>(mut self, result: &Result<T, Error>) {
        self.line.outcome = outcome(result);
    }
}

impl Drop for RequestRecord<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.line.outcome = "internal";
        }
        let Line { principal, operation, uri, outcome, facts } = self.line;
        // A longer URI is invalid, and would only fill the log.
        let [shown_principal, shown_uri] = [principal, uri].map(|text| prefix(text, MAX_URI_LEN));
        tracing::debug!(target: log_target::ACCESS, principal = shown_principal, operation, uri = shown_uri, outcome, cached = facts.is_cached().then_some(true));
        if let Some(entry) = self.entry.take().filter(|_| self.is_audited) {
            entry.finish(&self.line);
        }
    }
}

fn outcome<T>(response: &Result<T, Error>) -> &'static str {
    response.as_ref().map_or_else(Error::kind, |_| "ok")
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tracing_subscriber::filter::LevelFilter;

    use super::*;
    use crate::host::ListRequest;
    use mcp_host_base::testing::CapturedLog;
    use mcp_host_config::Config;

    #[tokio::test]
    async fn neither_a_principal_nor_a_uri_forges_a_line_or_drives_the_terminal() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::builder(Config::new()).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let host = host.start().await.unwrap();
        let log = CapturedLog::default();
        let _capturing = log.capture(LevelFilter::DEBUG);
        let hostile = "a\n2026-01-01T00:00:00Z FAKE \u{1b}[31mx";
        let principal = Principal::new(hostile);
        assert!(host.list(&principal, ListRequest::default()).await.is_ok());
        assert!(host.read(&principal, hostile).await.is_err());
        let subscriber = host.subscriber(&principal);
        assert!(host.maintain_subscriptions(&subscriber, &[hostile.to_owned()]).now_or_never().is_none());
        let lines = log.lines();
        let escaped = hostile.escape_debug().to_string();
        for line in lines.iter().filter(|line| line.contains("FAKE")) {
            assert!(line.starts_with("DEBUG ") && line.contains(&escaped) && !line.contains('\u{1b}'), "{line:?}");
        }
        // The access log has an event for each of the two, and one more for the attempt to subscribe.
        assert!(lines.iter().filter(|line| line.contains(&escaped)).count() >= 3, "{lines:#?}");
    }

    #[tokio::test]
    async fn a_long_name_of_a_principal_is_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::builder(Config::new()).cache_dir(dir.path().join("cache")).state_dir(dir.path().join("state"));
        let host = host.start().await.unwrap();
        let log = CapturedLog::default();
        let _capturing = log.capture(LevelFilter::DEBUG);
        host.list(&Principal::new("x".repeat(1 << 20)), ListRequest::default()).await.unwrap();
        let lines = log.lines();
        let access: Vec<_> = lines.iter().filter(|line| line.contains("xxx")).collect();
        assert!(!access.is_empty() && access.iter().all(|line| line.len() < 2 * MAX_URI_LEN), "{}", lines.len());
    }
}
