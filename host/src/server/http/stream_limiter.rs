//! The limit of open event streams. A stream acquires its permit before the request is handled, and holds it until it
//! ends.
//!
//! Event streams are `GET`, and `subscriptions/listen`. The response to any other request is not one, even if it
//! consists of events: it ends with the answer.

use std::sync::Arc;

use axum::response::Response;

use super::client_limiter::{ClientLimiter, ClientPermit, client_limits};
use super::unavailable;
use crate::host::Host;
use crate::log_target;
use crate::server::client_id::ClientId;

/// The open event streams.
pub(super) struct StreamLimiter {
    host: Arc<Host>,
    limiter: ClientLimiter,
}

/// The limit of event streams is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyStreams;

impl TooManyStreams {
    /// Returns the response to the client.
    pub(super) fn into_response(self) -> Response {
        unavailable("as many streams of events are open as there may be\n")
    }
}

impl StreamLimiter {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host, limiter: ClientLimiter::default() }
    }

    /// Acquires a permit for a stream of that client, within the limits.
    pub(super) fn acquire(&self, client: &ClientId) -> Result<ClientPermit, TooManyStreams> {
        let limits = &self.host.config().http.limits;
        self.limiter.acquire(client, client_limits(limits.streams.get(), client, limits)).map_err(|exhausted| {
            tracing::debug!(target: log_target::SERVER, %client, ?exhausted, "event stream rejected (`http.limits.streams`)");
            TooManyStreams
        })
    }
}
