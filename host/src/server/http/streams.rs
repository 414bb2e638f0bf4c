//! The streams of events that clients open to be told something: one takes its place before it is worked on, and has it until it
//! ends.
//!
//! These are `GET`, and `subscriptions/listen`. The answer to another request is no such stream, even if it comes as events: it
//! ends with the answer.

use std::sync::Arc;

use axum::response::Response;

use super::share::{Max, PerClient, Permit};
use super::unavailable;
use crate::host::Host;
use crate::server::client_id::ClientId;
use crate::server::message::{Kind, Message};

/// The method whose answer is a stream that stays open.
const LISTEN: &str = "subscriptions/listen";

/// The streams of events that are open.
pub(super) struct Streams {
    host: Arc<Host>,
    open: PerClient,
}

/// As many streams are open as there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoPlace;

impl NoPlace {
    /// What the client is told.
    pub(super) fn into_response(self) -> Response {
        unavailable("as many streams of events are open as there may be\n")
    }
}

impl Streams {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host, open: PerClient::default() }
    }

    /// A place for a stream of that client, unless there are as many as there may be.
    pub(super) fn place(&self, client: ClientId) -> Result<Permit, NoPlace> {
        let limits = &self.host.config().http.limits;
        self.open.acquire(client, Max::new(limits.streams.get(), limits.client_share)).map_err(|exhausted| {
            tracing::debug!(%client, ?exhausted, "event stream rejected (`http.limits.streams`)");
            NoPlace
        })
    }

    /// A place for the stream that the message asks for, if it does.
    pub(super) fn place_for(&self, message: &Message, client: ClientId) -> Result<Option<Permit>, NoPlace> {
        match &message.kind {
            Kind::Request { method, .. } if method == LISTEN => self.place(client).map(Some),
            _ => Ok(None),
        }
    }
}
