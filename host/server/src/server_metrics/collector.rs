//! The metric families of the servers of a host.

use std::fmt;
use std::sync::Arc;

use mcp_host_base::metrics::Family;
use mcp_resource_host::host::Host;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Outcome, ServerMetrics, Transport, revision_names};

const REQUESTS: Family = Family::counter(
    "mcp_host_requests_total",
    &["method", "revision", "transport", "outcome"],
    "Requests by MCP method (_OTHER for unknown methods), revision, transport (http, stdio) and outcome (ok, or the kind of the error).",
);
const OPERATIONS: Family = Family::histogram(
    "mcp_server_operation_duration_seconds",
    &["mcp_method_name", "mcp_protocol_version", "network_transport"],
    "Durations of requests with one answer, until the answer is ready (OpenTelemetry semantic conventions).",
);
const SESSION_DURATIONS: Family = Family::histogram(
    "mcp_server_session_duration_seconds",
    &["mcp_protocol_version", "network_transport"],
    "Durations of sessions that have ended (OpenTelemetry semantic conventions).",
);
const SESSIONS: Family = Family::gauge("mcp_host_sessions", &["transport"], "Open sessions.");
const SESSIONS_LIMIT: Family = Family::gauge(
    "mcp_host_sessions_limit",
    &[],
    "The maximum number of open sessions over HTTP: `http.limits.sessions`.",
);
const STREAMS: Family = Family::gauge(
    "mcp_host_event_streams",
    &[],
    "Open event streams over HTTP: of sessions, and of `subscriptions/listen`.",
);
const STREAMS_LIMIT: Family = Family::gauge(
    "mcp_host_event_streams_limit",
    &[],
    "The maximum number of open event streams: `http.limits.streams`.",
);
const CONNECTIONS: Family = Family::gauge("mcp_host_connections", &[], "Open connections at the listener of clients.");
const CONNECTIONS_LIMIT: Family = Family::gauge(
    "mcp_host_connections_limit",
    &[],
    "The maximum number of open connections: `http.limits.connections`.",
);
const FIRST_BYTE: Family = Family::histogram(
    "mcp_host_http_time_to_first_byte_seconds",
    &[],
    "Durations from the head of an HTTP request to the head of its response, at the listener of clients.",
);
const SENT: Family = Family::counter(
    "mcp_host_sent_bytes_total",
    &["transport"],
    "Bytes sent to clients: bodies of HTTP responses, after compression, and lines over stdio.",
);
const REJECTIONS: Family = Family::counter(
    "mcp_host_rejections_total",
    &["limit"],
    "Connections, streams, sessions and requests that a limit rejected, by the key of the limit in the config.",
);

/// The metrics of the servers of a host, for a registry of `prometheus-client`, besides the metrics of the host
/// itself ([`HostCollector`](mcp_resource_host::metrics::HostCollector)).
#[derive(Debug)]
pub struct ServerCollector {
    host: Arc<Host>,
    metrics: Arc<ServerMetrics>,
}

impl ServerCollector {
    /// Creates the collector of a host's servers.
    pub fn new(host: Arc<Host>) -> Self {
        Self { metrics: ServerMetrics::of(&host), host }
    }
}

impl Collector for ServerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (metrics, encoder) = (&*self.metrics, &mut encoder);
        REQUESTS.encode(encoder, |samples| {
            metrics.cells().try_for_each(|(method, revision, transport, cell)| {
                let mut counted = Outcome::ALL.into_iter().zip(&cell.outcomes).filter(|(_, count)| count.get() > 0);
                counted.try_for_each(|(outcome, count)| {
                    samples.integer(&[method, revision, transport.name(), outcome.name()], count.get())
                })
            })
        })?;
        OPERATIONS.encode(encoder, |samples| {
            let mut cells = metrics.cells().filter(|(.., cell)| !cell.durations.is_empty());
            cells.try_for_each(|(method, revision, transport, cell)| {
                samples.histogram(&[method, revision, transport.network_transport()], &cell.durations)
            })
        })?;
        SESSION_DURATIONS.encode(encoder, |samples| {
            let mut revisions = revision_names().zip(&metrics.session_durations);
            revisions.try_for_each(|(revision, transports)| {
                let durations = Transport::ALL.into_iter().zip(transports);
                durations.filter(|(_, durations)| !durations.is_empty()).try_for_each(|(transport, durations)| {
                    samples.histogram(&[revision, transport.network_transport()], durations)
                })
            })
        })?;
        SESSIONS.encode(encoder, |samples| {
            let mut sessions = Transport::ALL.into_iter().zip(&metrics.sessions);
            sessions.try_for_each(|(transport, open)| samples.integer(&[transport.name()], open.get()))
        })?;
        let config = self.host.config();
        let limits = &config.http.limits;
        let limit = |limit: usize| u64::try_from(limit).unwrap_or(u64::MAX);
        SESSIONS_LIMIT.encode_one(encoder, limit(limits.sessions.get()))?;
        STREAMS.encode_one(encoder, metrics.streams.get())?;
        STREAMS_LIMIT.encode_one(encoder, limit(limits.streams.get()))?;
        CONNECTIONS.encode_one(encoder, metrics.connections.get())?;
        CONNECTIONS_LIMIT.encode_one(encoder, limit(limits.connections.get()))?;
        FIRST_BYTE.encode(encoder, |samples| samples.histogram(&[], &metrics.times_to_first_byte))?;
        SENT.encode(encoder, |samples| {
            let mut sent = Transport::ALL.into_iter().zip(&metrics.sent_bytes);
            sent.try_for_each(|(transport, bytes)| samples.integer(&[transport.name()], bytes.get()))
        })?;
        let rejections = metrics.rejections.lock().clone();
        REJECTIONS.encode(encoder, |samples| {
            rejections.iter().try_for_each(|(limit, count)| samples.integer(&[limit], *count))
        })
    }
}
