//! Requests that are rejected before they are executed. Each is counted, and has a span if it is sampled, like an executed request.

use std::net::IpAddr;

use mcp_host_base::trace::{ClientContext, TraceParent};
use mcp_host_config::Config;

use super::jsonrpc::{Message, Rejection};
use super::method::Method;
use super::server_metrics::{ServerMetrics, Transport};
use super::trace::{RequestTrace, TracedRequest};

/// The facts about a message that are counted if it is rejected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejected {
    method: Option<&'static Method>,
    is_request: bool,
    traceparent: Option<TraceParent>,
}

/// The circumstances of a message's arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) config: &'a Config,
    pub(super) transport: Transport,
    /// The trace context of the HTTP request.
    pub(super) http: Option<TraceParent>,
    /// The address of the client; for IPv6 the address of its network.
    pub(super) address: Option<IpAddr>,
}

impl Rejected {
    /// Takes the facts from a message. Without a message, the text may have been a request, so it counts as one.
    pub(super) fn of(message: Option<&Message>) -> Self {
        let (method, is_request) = message.map_or((None, true), Message::counted_as);
        Self { method, is_request, traceparent: message.and_then(|message| message.meta.traceparent) }
    }

    /// Counts and traces the rejection of a request. Other messages are ignored, because they have no answer.
    pub(super) fn record(self, metrics: &ServerMetrics, arrival: &Arrival<'_>, rejection: &Rejection) {
        let Self { method, is_request, traceparent } = self;
        if !is_request {
            return;
        }
        let Arrival { config, transport, http, address } = *arrival;
        metrics.count_request(transport, method, None, rejection.error.outcome());
        let id = rejection.id.as_ref();
        let traced = TracedRequest { id, method, request: None, revision: None, session: None, transport, address };
        RequestTrace::begin(config, ClientContext { message: traceparent, http }, &traced).fail(&rejection.error);
    }
}
