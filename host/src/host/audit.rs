//! Who asked for what, and what came of it: one event for each request, of the target `mcp_host::access` and the level debug.
//!
//! Its fields are `principal`, `operation`, `uri` (empty for merged listings) and `outcome`: `ok`, or the kind of the error.
//! A request that is given up before it is answered has one too.

use crate::access::Principal;
use crate::config::Operation;
use crate::log_target;
use crate::resource::Error;
use crate::uri::MAX_URI_LEN;

/// Answers a request, and tells of it in the log.
pub(super) async fn audited<T>(
    principal: &Principal,
    operation: Operation,
    uri: &str,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut record = AuditRecord { principal, operation, uri, outcome: "cancelled" };
    let answer = request.await;
    record.outcome = answer.as_ref().map_or_else(Error::kind, |_| "ok");
    answer
}

/// A request that is told of when it is over, however it ends.
struct AuditRecord<'a> {
    principal: &'a Principal,
    operation: Operation,
    uri: &'a str,
    outcome: &'static str,
}

impl Drop for AuditRecord<'_> {
    fn drop(&mut self) {
        let Self { principal, operation, uri, outcome } = self;
        // What is longer than any URI is none, and is nothing to fill a log with.
        let uri = uri.split_at_checked(uri.floor_char_boundary(MAX_URI_LEN)).map_or(*uri, |(uri, _)| uri);
        tracing::debug!(target: log_target::ACCESS, principal = %principal, %operation, uri, outcome);
    }
}
