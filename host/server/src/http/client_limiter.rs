//! Limits with a share for each client over HTTP, such as that of open event streams.
//!
//! Event streams are `GET`, and `subscriptions/listen`. The response to any other request is not one, even if it
//! consists of events: it ends with the answer. A stream acquires its permit before the request is handled, and holds it
//! until it ends.

use axum::response::Response;
use mcp_host_base::log_target;
use mcp_host_base::share_limiter::{ShareLimiter, ShareLimits, SharePermit};
use mcp_host_config::http::HttpServerLimits;

use super::response::unavailable;
use crate::client_id::ClientId;

pub(super) use mcp_host_base::share_limiter::LimitReached;

/// The usage of each client.
pub(super) type ClientLimiter = ShareLimiter<ClientId>;
/// The usage of a client, until it is dropped.
pub(super) type ClientPermit = SharePermit<ClientId>;
/// The limits, of one client and overall.
pub(super) type ClientLimits = ShareLimits;

/// Returns the overall limit, and the share of that client in it.
pub(super) fn client_limits(overall: usize, client: &ClientId, limits: &HttpServerLimits) -> ClientLimits {
    ClientLimits { client: client.share_of(overall, limits), overall }
}

/// The event streams that are open.
#[derive(Default)]
pub(super) struct StreamLimiter(ClientLimiter);

impl StreamLimiter {
    /// Acquires a permit for a stream of that client, within the limits, or returns the response.
    pub(super) fn acquire(&self, client: &ClientId, limits: &HttpServerLimits) -> Result<ClientPermit, Box<Response>> {
        self.0.acquire(client, client_limits(limits.streams.get(), client, limits)).map_err(|exhausted| {
            tracing::debug!(target: log_target::SERVER, %client, ?exhausted, "event stream rejected (`http.limits.streams`)");
            Box::new(unavailable("as many streams of events are open as there may be\n"))
        })
    }
}
