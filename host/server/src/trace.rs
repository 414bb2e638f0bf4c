//! The trace of a request: its span, by the semantic conventions for MCP, and its id in lines of the log and of the
//! audit log. A request that is rejected before it is executed is counted, and has a span if it is sampled, like an
//! executed one ([`Rejected`]).
//!
//! `telemetry.sample` decides which requests have a span, independently of the client's sampling flag: a client cannot
//! force tracing of all its requests. While the queue of spans is full, no request has a span
//! ([`trace::admits_request`]). The span continues the trace of the client, and ends when the answer is encoded. A
//! request without a span keeps the id of the client's trace.
//!
//! Attributes are bounded by [`MAX_ATTRIBUTE`]. Unknown names of methods and tools are `_OTHER`, so the number of span
//! names is bounded. The session is identified by its hash, as in the audit log.

use std::net::IpAddr;

use mcp_host_base::text::prefix;
use mcp_host_base::trace::{self, ClientContext, MAX_ATTRIBUTE, TraceId, TraceParent};
use mcp_host_config::Config;
use mcp_host_config::telemetry::SampleRatio;
use mcp_resource_host::audit::SessionHash;
use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use super::error::{Outcome, RpcError};
use super::jsonrpc::{Message, Rejection, RequestId};
use super::method::Method;
use super::request::Request;
use super::revision::Revision;
use super::server_metrics::{OTHER_METHOD, ServerMetrics, Transport};
use super::tools;

/// The trace of a request.
#[derive(Clone, Debug)]
pub(super) struct RequestTrace {
    span: Span,
    id: Option<TraceId>,
}

/// The facts about a request for its span.
pub(super) struct TracedRequest<'a> {
    /// None if the request has no valid id.
    pub(super) id: Option<&'a RequestId>,
    pub(super) method: Option<&'static Method>,
    /// None if the parameters are malformed.
    pub(super) request: Option<&'a Request>,
    /// None if the request was rejected before its revision was known.
    pub(super) revision: Option<Revision>,
    pub(super) session: Option<SessionHash>,
    pub(super) transport: Transport,
    /// The address of the client; for IPv6 the address of its network.
    pub(super) address: Option<IpAddr>,
}

impl RequestTrace {
    /// Begins the trace of a request.
    pub(super) fn begin(config: &Config, client: ClientContext, request: &TracedRequest<'_>) -> Self {
        let span = if is_sampled(config) && trace::admits_request() { request.span() } else { Span::none() };
        client.apply_to(&span);
        let id = trace::trace_id(&span).or_else(|| client.parent().as_ref().map(TraceParent::trace_id));
        Self { span, id }
    }

    /// No trace.
    #[cfg(all(test, feature = "search"))]
    pub(super) fn none() -> Self {
        Self { span: Span::none(), id: None }
    }

    /// The id of the trace: the client's, or one that begins here.
    pub(super) fn id(&self) -> Option<TraceId> {
        self.id
    }

    /// The span; disabled if the request is not sampled.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// The span of encoding the answer.
    pub(super) fn encoding(&self) -> Span {
        match self.span.is_disabled() {
            true => Span::none(),
            // A layer accepts the span only below one that is entered.
            false => self.span.in_scope(|| info_span!(target: trace::TARGET, "encode")),
        }
    }

    /// Records that the answer is an error.
    pub(super) fn fail(&self, error: &RpcError) {
        self.fail_with(error.outcome());
        self.span.record("rpc.response.status_code", display(error.code));
    }

    /// Records that the request failed with this outcome, and that the answer is not a message.
    pub(super) fn fail_with(&self, outcome: Outcome) {
        self.span.record("otel.status_code", "ERROR");
        self.span.record("error.type", outcome.name());
    }

    /// Records the session that the request has opened.
    pub(super) fn opened(&self, session: SessionHash) {
        self.span.record("mcp.session.id", display(session));
    }

    /// Records the outcome of a request whose answer has begun.
    pub(super) fn record<T>(&self, answer: &Result<T, RpcError>) -> Outcome {
        if let Err(error) = answer {
            self.fail(error);
        }
        Outcome::of(answer)
    }
}

fn is_sampled(config: &Config) -> bool {
    let Some(telemetry) = &config.telemetry else { return false };
    fastrand::u32(..SampleRatio::WHOLE) < telemetry.sample.billionths()
}

impl TracedRequest<'_> {
    fn span(&self) -> Span {
        let Self { id, method, request, revision, session, transport, address } = self;
        let method = method.map_or(OTHER_METHOD, |method| method.name);
        let (mut tool, mut prompt, mut uri) = (None, None, None);
        match request {
            Some(Request::CallTool(call)) => {
                tool = Some(call.name.as_deref().and_then(tools::known_name).unwrap_or(OTHER_METHOD));
            }
            Some(Request::GetPrompt(name)) => prompt = Some(prefix(name, MAX_ATTRIBUTE)),
            Some(request) => uri = request.uri().map(|uri| prefix(uri, MAX_ATTRIBUTE)),
            None => {}
        }
        // The host has no prompts, so prompt names are not part of span names.
        let name = tool.map_or_else(|| method.to_owned(), |tool| format!("{method} {tool}"));
        let id = id.map(ToString::to_string);
        info_span!(
            target: trace::TARGET,
            parent: None,
            trace::REQUEST,
            "otel.name" = name,
            "otel.kind" = "server",
            "otel.status_code" = Empty,
            "mcp.method.name" = method,
            "mcp.protocol.version" = revision.map(Revision::name),
            "mcp.session.id" = session.map(display),
            "mcp.resource.uri" = uri,
            "gen_ai.operation.name" = tool.map(|_| "execute_tool"),
            "gen_ai.tool.name" = tool,
            "gen_ai.prompt.name" = prompt,
            "jsonrpc.request.id" = id.as_deref().map(|id| prefix(id, MAX_ATTRIBUTE)),
            "network.transport" = transport.network_transport(),
            "client.address" = address.map(display),
            "error.type" = Empty,
            "rpc.response.status_code" = Empty,
        )
    }
}

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
