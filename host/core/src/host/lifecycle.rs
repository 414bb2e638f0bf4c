//! Graceful shutdown: [`Host::shutdown`].
//!
//! Every request of the façade holds a token of one [`RequestTracker`] while it runs. A shutdown closes the tracker,
//! which rejects later requests with [`Error::ShuttingDown`], and then drains: it waits until all tokens are returned.
//! The tracker costs two atomic operations per request.

use std::time::{Duration, Instant};

use futures::future::join_all;
use mcp_host_base::log_target;
use mcp_host_model::resource::Error;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Host;

/// The minimum time for closing databases, and for closing the audit log, even if draining has used up the whole
/// timeout.
const MIN_CLOSE_TIME: Duration = Duration::from_millis(100);

/// Counts the requests in flight, and rejects new ones after it was closed.
#[derive(Debug, Default)]
pub(super) struct RequestTracker(TaskTracker);

impl RequestTracker {
    /// Counts a request while the token lives.
    pub(super) fn begin(&self) -> Result<TaskTrackerToken, Error> {
        // The token is taken first: a shutdown waits for every request that finds the tracker open.
        let token = self.0.token();
        if self.0.is_closed() { Err(Error::ShuttingDown) } else { Ok(token) }
    }

    /// The number of requests in flight.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Host {
    /// Shuts the host down gracefully. New requests are rejected with [`Error::ShuttingDown`], plugins are no longer
    /// loaded or polled for changes, and subscribers get no more updates. Requests in flight are completed. Then the
    /// key-value databases of plugins are closed, which checkpoints their write-ahead logs, and the audit log is
    /// flushed.
    ///
    /// Requests that are still in flight after `timeout` are logged and left running; dropping the host cancels them. A
    /// database that cannot be closed in time is left as by a killed process: no acknowledged write is lost.
    pub async fn shutdown(&self, timeout: Duration) {
        let start = Instant::now();
        self.requests.0.close();
        // This supersedes a reload in flight.
        self.latest_reload.send_modify(|newest| *newest = newest.wrapping_add(1));
        self.background_loader.stop();
        self.hub.shutdown();
        self.generation.load_full().shut_down_built_ins();
        if tokio::time::timeout(timeout, self.requests.0.wait()).await.is_err() {
            let requests = self.requests.0.len();
            tracing::warn!(target: log_target::SERVER, requests, "graceful shutdown: requests are still in flight after {timeout:?}");
        }
        let generation = self.generation.load_full();
        let closing = join_all(generation.plugins().map(|plugin| plugin.close()));
        let close_timeout = timeout.saturating_sub(start.elapsed()).max(MIN_CLOSE_TIME);
        if tokio::time::timeout(close_timeout, closing).await.is_err() {
            tracing::warn!(target: log_target::SERVER, "graceful shutdown: key-value databases are still open after {timeout:?}");
        }
        self.audit.close(timeout.saturating_sub(start.elapsed()).max(MIN_CLOSE_TIME)).await;
    }
}
