//! Access log. Emits one `debug` event per request under the target `mcp_host::access`.
//!
//! Fields: `principal`, `operation`, `uri` (empty for merged listings) and `outcome`: `ok`, the kind of the error, or
//! `cancelled` for a request that was dropped before its response.

use super::Host;
use crate::access::Principal;
use crate::config::Operation;
use crate::log_target;
use crate::resource::Error;
use crate::uri::MAX_URI_LEN;

impl Host {
    /// Runs a request, unless the host is shutting down, and logs its outcome.
    pub(super) async fn audited<T>(
        &self,
        principal: &Principal,
        operation: Operation,
        uri: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut record = AuditRecord { principal, operation, uri, outcome: "cancelled" };
        let response = match self.requests.begin() {
            Ok(_token) => request.await,
            Err(error) => Err(error),
        };
        record.outcome = response.as_ref().map_or_else(Error::kind, |_| "ok");
        response
    }
}

/// The event of one request, emitted when it ends in any way.
struct AuditRecord<'a> {
    principal: &'a Principal,
    operation: Operation,
    uri: &'a str,
    outcome: &'static str,
}

impl Drop for AuditRecord<'_> {
    fn drop(&mut self) {
        let Self { principal, operation, uri, outcome } = self;
        // Longer text is no valid URI, and would only fill the log.
        let uri = uri.split_at_checked(uri.floor_char_boundary(MAX_URI_LEN)).map_or(*uri, |(uri, _)| uri);
        tracing::debug!(target: log_target::ACCESS, principal = %principal, %operation, uri, outcome);
    }
}
