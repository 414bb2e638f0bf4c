//! Access log. Emits one `debug` event per request under the target `mcp_host::access`.
//!
//! Fields: `principal`, `operation`, `uri` (empty for merged listings) and `outcome`: `ok`, the kind of the error, or
//! `cancelled` for a request that was dropped before its response.

use super::Host;
use crate::access::Principal;
use crate::config::Operation;
use crate::log_target;
use crate::resource::Error;
use crate::text::prefix;
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
        // A longer URI is invalid, and would only fill the log.
        let [principal, uri] = [principal.name(), uri].map(|text| prefix(text, MAX_URI_LEN));
        tracing::debug!(target: log_target::ACCESS, principal, %operation, uri, outcome);
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use futures::FutureExt;
    use tracing_subscriber::filter::LevelFilter;

    use super::*;
    use crate::ListRequest;
    use crate::captured_log::CapturedLog;
    use crate::config::Config;

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
        // The access log has one for each request; the attempt to subscribe has one more.
        assert_eq!(lines.iter().filter(|line| line.contains(&escaped)).count(), 4, "{lines:#?}");
    }

    #[tokio::test]
    async fn a_long_name_of_a_principal_is_truncated() {
        let log = CapturedLog::default();
        let _capturing = log.capture(LevelFilter::DEBUG);
        let principal = &Principal::new("x".repeat(1 << 20));
        drop(AuditRecord { principal, operation: Operation::List, uri: "", outcome: "ok" });
        let lines = log.lines();
        assert!(lines.len() == 1 && lines.iter().all(|line| line.len() < 2 * MAX_URI_LEN), "{}", lines.len());
    }
}
