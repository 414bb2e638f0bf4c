//! The streams of events that clients open to be told something: one takes its place before it is worked on, and has it until it
//! ends.
//!
//! These are `GET`, and `subscriptions/listen`. The answer to another request is no such stream, even if it comes as events: it
//! ends with the answer.

use std::sync::Arc;

use axum::response::Response;

use super::client_limiter::{ClientLimiter, ClientLimits, ClientPermit};
use super::unavailable;
use crate::host::Host;
use crate::log_target;
use crate::server::client_id::ClientId;
use crate::server::jsonrpc::{Kind, Message};

/// The method whose answer is a stream that stays open.
const LISTEN_METHOD: &str = "subscriptions/listen";

/// The streams of events that are open.
pub(super) struct StreamLimiter {
    host: Arc<Host>,
    limiter: ClientLimiter,
}

/// As many streams are open as there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooManyStreams;

impl TooManyStreams {
    /// What the client is told.
    pub(super) fn into_response(self) -> Response {
        unavailable("as many streams of events are open as there may be\n")
    }
}

impl StreamLimiter {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host, limiter: ClientLimiter::default() }
    }

    /// A place for a stream of that client, unless there are as many as there may be.
    pub(super) fn acquire(&self, client: &ClientId) -> Result<ClientPermit, TooManyStreams> {
        let limits = &self.host.config().http.limits;
        self.limiter.acquire(client, ClientLimits::new(limits.streams.get(), limits.client_share)).map_err(|exhausted| {
            tracing::debug!(target: log_target::SERVER, %client, ?exhausted, "event stream rejected (`http.limits.streams`)");
            TooManyStreams
        })
    }

    /// A place for the stream that the message asks for, if it does.
    pub(super) fn acquire_for(
        &self,
        message: &Message,
        client: &ClientId,
    ) -> Result<Option<ClientPermit>, TooManyStreams> {
        match &message.kind {
            Kind::Request { method, .. } if method == LISTEN_METHOD => self.acquire(client).map(Some),
            _ => Ok(None),
        }
    }
}
