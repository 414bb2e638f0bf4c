//! Records of requests: a line of the [audit log](crate::audit), and an event of the access log for each.
//!
//! The access log has one `debug` event per request under the target `mcp_host::access`, with the fields `principal`,
//! `operation`, `uri` (empty for merged listings) and `outcome`: `ok`, the kind of the error, `internal` after a panic,
//! or `cancelled` for a request that was dropped before its response.

use super::Host;
use super::lifecycle::RequestTracker;
use crate::access::Principal;
use crate::audit::{Entry, Facts, Line};
use crate::log_target;
use crate::resource::Error;
use crate::text;
use crate::uri::MAX_URI_LEN;

/// The name of unsubscribing in records.
pub(super) const UNSUBSCRIBE: &str = "unsubscribe";
/// The name of `subscriptions/listen` in records.
#[cfg(any(feature = "http", feature = "stdio"))]
const LISTEN: &str = "listen";

impl Host {
    /// Runs a request, unless the host is shutting down or the request cannot be recorded, and records its outcome.
    pub(super) async fn audited<T>(
        &self,
        principal: &Principal,
        operation: &'static str,
        uri: &str,
        facts: &Facts,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut record = self.begin_record(principal, operation, uri, facts)?;
        record.run(&self.requests, request).await
    }

    /// Begins the record of a request.
    ///
    /// # Errors
    ///
    /// There is no space in the audit log, and its config says that requests are refused then.
    pub(super) fn begin_record<'a>(
        &'a self,
        principal: &'a Principal,
        operation: &'static str,
        uri: &'a str,
        facts: &'a Facts,
    ) -> Result<RequestRecord<'a>, Error> {
        let entry = self.audit.begin(principal.name().len().saturating_add(uri.len()));
        let entry = entry.map_err(|_| match self.requests.is_closed() {
            true => Error::ShuttingDown,
            false => Error::AuditUnavailable,
        })?;
        let line = Line { principal: principal.name(), operation, uri, outcome: "cancelled", facts };
        Ok(RequestRecord { line, entry, is_audited: true })
    }

    /// Records that a client listens for notifications.
    ///
    /// # Errors
    ///
    /// There is no space in the audit log, and its config says that requests are refused then.
    #[cfg(any(feature = "http", feature = "stdio"))]
    pub(crate) fn record_listen(&self, principal: &Principal) -> Result<(), Error> {
        let facts = Facts::default();
        facts.set_generation(self.generation());
        self.begin_record(principal, LISTEN, "", &facts)?.end(&Ok(()));
        Ok(())
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
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let response = match tracker.begin() {
            Ok(_token) => request.await,
            Err(error) => Err(error),
        };
        self.line.outcome = outcome(&response);
        response
    }

    /// Sets whether the audit log gets a line when the request ends. It does unless this was called.
    pub(super) fn set_audited(&mut self, is_audited: bool) {
        self.is_audited = is_audited;
    }

    /// Ends a request with that result.
    pub(super) fn end(mut self, result: &Result<(), Error>) {
        self.line.outcome = outcome(result);
    }
}

impl Drop for RequestRecord<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.line.outcome = "internal";
        }
        let Line { principal, operation, uri, outcome, .. } = self.line;
        // Longer text is no valid URI, and would only fill the log.
        let shown = text::prefix(uri, MAX_URI_LEN);
        tracing::debug!(target: log_target::ACCESS, principal, operation, uri = shown, outcome);
        if let Some(entry) = self.entry.take().filter(|_| self.is_audited) {
            entry.finish(&self.line);
        }
    }
}

fn outcome<T>(response: &Result<T, Error>) -> &'static str {
    response.as_ref().map_or_else(Error::kind, |_| "ok")
}
