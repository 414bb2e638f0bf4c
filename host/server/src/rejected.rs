//! Requests that are rejected before they are executed. Each is counted, and has a span if it is sampled, like one that is executed.

use std::net::IpAddr;

use mcp_host_base::trace::{ClientContext, TraceParent};
use mcp_host_config::Config;

use super::jsonrpc::{Message, Rejection};
use super::method::Method;
use super::server_metrics::{ServerMetrics, Transport};
use super::trace::{RequestTrace, TracedRequest};

/// What is counted of a message if it is rejected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejected {
    method: Option<&'static Method>,
    is_request: bool,
    traceparent: Option<TraceParent>,
}

/// How a message came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) config: &'a Config,
    pub(super) transport: Transport,
    /// The context of the HTTP request.
    pub(super) http: Option<TraceParent>,
    /// The address of the client; of an IPv6 address that of its network.
    pub(super) address: Option<IpAddr>,
}

impl Rejected {
    /// Of a message; text that is none may have been a request.
    pub(super) fn of(message: Option<&Message>) -> Self {
        let (method, is_request) = message.map_or((None, true), Message::counted_as);
        Self { method, is_request, traceparent: message.and_then(|message| message.meta.traceparent) }
    }

    /// Counts and traces the rejection of a request; other messages have no answer.
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
