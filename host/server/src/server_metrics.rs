//! The metrics of the servers of one host: requests, sessions, connections and event streams, over all transports.
//!
//! A request is counted in a table with a cell for each method, revision, transport and outcome, so counting takes no
//! lock and no map. The names of methods come from the table of [`method`](crate::method); all others are
//! [`OTHER_METHOD`].

mod collector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::metrics::{Counter, Histogram, Open, OpenCount};
use mcp_resource_host::host::Host;
use parking_lot::Mutex;

pub use self::collector::ServerCollector;
use super::error::Outcome;
use super::method::{METHOD_COUNT, Method};
use super::revision::Revision;

/// The label of unknown methods.
pub(super) const OTHER_METHOD: &str = "_OTHER";
/// The label of the revision of a message that was rejected before its revision was known.
const NO_REVISION: &str = "none";
const METHODS: usize = METHOD_COUNT.saturating_add(1);
const REVISIONS: usize = Revision::ALL.len().saturating_add(1);

/// The buckets of the semantic conventions, and four for shorter requests.
const OPERATION_BOUNDS: [Duration; 18] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(300),
];

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Http,
    Stdio,
}

impl Transport {
    const ALL: [Self; 2] = [Self::Http, Self::Stdio];

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }

    /// The name of the transport in the semantic conventions: `network.transport`.
    pub(super) fn network_transport(self) -> &'static str {
        match self {
            Self::Http => "tcp",
            Self::Stdio => "pipe",
        }
    }
}

type Durations = Histogram<{ OPERATION_BOUNDS.len() }>;

/// A table with a cell for each transport.
type ByTransport<T> = [T; Transport::ALL.len()];

/// The requests of one method, revision and transport.
#[derive(Debug)]
struct RequestCell {
    outcomes: [Counter; Outcome::ALL.len()],
    durations: Durations,
}

/// The metrics of a host's servers, which share them.
#[derive(Debug)]
pub(super) struct ServerMetrics {
    /// The requests by method, revision and transport.
    requests: Box<[[ByTransport<RequestCell>; REVISIONS]; METHODS]>,
    session_durations: [ByTransport<Durations>; REVISIONS],
    sessions: ByTransport<OpenCount>,
    streams: OpenCount,
    connections: OpenCount,
    /// The times from the head of an HTTP request to the head of its response.
    times_to_first_byte: Durations,
    /// The bytes of responses over HTTP, and of lines over stdio.
    sent_bytes: ByTransport<Counter>,
    /// The rejections by the key of the limit.
    rejections: Mutex<BTreeMap<&'static str, u64>>,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let durations = || Histogram::new(&OPERATION_BOUNDS);
        let cell = || RequestCell { outcomes: std::array::from_fn(|_| Counter::default()), durations: durations() };
        let by_transport = || std::array::from_fn(|_| cell());
        Self {
            requests: Box::new(std::array::from_fn(|_| std::array::from_fn(|_| by_transport()))),
            session_durations: std::array::from_fn(|_| std::array::from_fn(|_| durations())),
            sessions: Default::default(),
            streams: OpenCount::default(),
            connections: OpenCount::default(),
            times_to_first_byte: durations(),
            sent_bytes: Default::default(),
            rejections: Mutex::default(),
        }
    }
}

impl ServerMetrics {
    /// Returns the metrics of a host.
    pub(super) fn of(host: &Host) -> Arc<Self> {
        host.transport_state()
    }

    /// Begins a request that is answered once.
    pub(super) fn begin_request(
        self: &Arc<Self>,
        transport: Transport,
        method: Option<&'static Method>,
        revision: Revision,
    ) -> RequestTimer {
        RequestTimer {
            metrics: self.clone(),
            labels: RequestLabels { method, revision: Some(revision), transport },
            began: Instant::now(),
            outcome: Outcome::Cancelled,
        }
    }

    /// Counts a request that is not answered once, or that was rejected before it was executed.
    pub(super) fn count_request(
        &self,
        transport: Transport,
        method: Option<&'static Method>,
        revision: Option<Revision>,
        outcome: Outcome,
    ) {
        self.cell(RequestLabels { method, revision, transport }, |cell| cell.count(outcome));
    }

    /// Counts a connection while it is open.
    pub(super) fn open_connection(&self) -> Open {
        self.connections.open()
    }

    /// Counts an event stream while it is open.
    pub(super) fn open_stream(&self) -> Open {
        self.streams.open()
    }

    /// Counts a session while it is open, and then its duration.
    pub(super) fn open_session(self: &Arc<Self>, transport: Transport, revision: Revision) -> OpenSession {
        let open = self.sessions.get(transport as usize).map(OpenCount::open);
        OpenSession { metrics: self.clone(), transport, revision, began: Instant::now(), _open: open }
    }

    /// Counts the head of an HTTP response, with the time since the head of its request.
    pub(super) fn record_first_byte(&self, after: Duration) {
        self.times_to_first_byte.observe(after);
    }

    /// Counts bytes that were sent to a client.
    pub(super) fn record_sent(&self, transport: Transport, bytes: usize) {
        if let Some(count) = self.sent_bytes.get(transport as usize) {
            count.add(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }

    /// Counts a rejection by the limit with this key.
    pub(super) fn record_rejection(&self, limit: &'static str) {
        let mut rejections = self.rejections.lock();
        let count = rejections.entry(limit).or_default();
        *count = count.saturating_add(1);
    }

    fn cell(&self, labels: RequestLabels, with: impl FnOnce(&RequestCell)) {
        let RequestLabels { method, revision, transport } = labels;
        let method = method.map_or(METHOD_COUNT, Method::number);
        let cell = self.requests.get(method).and_then(|revisions| revisions.get(revision_number(revision)));
        if let Some(cell) = cell.and_then(|transports| transports.get(transport as usize)) {
            with(cell);
        }
    }

    /// The cells with their labels: method, revision and transport.
    fn cells(&self) -> impl Iterator<Item = (&'static str, &'static str, Transport, &RequestCell)> {
        let methods = Method::names().chain([OTHER_METHOD]).zip(self.requests.iter());
        methods.flat_map(|(method, revisions)| {
            revision_names().zip(revisions).flat_map(move |(revision, transports)| {
                Transport::ALL
                    .into_iter()
                    .zip(transports)
                    .map(move |(transport, cell)| (method, revision, transport, cell))
            })
        })
    }
}

impl RequestCell {
    fn count(&self, outcome: Outcome) {
        if let Some(count) = self.outcomes.get(outcome as usize) {
            count.increment();
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct RequestLabels {
    /// None if the method does not exist.
    method: Option<&'static Method>,
    /// None if the revision is unknown.
    revision: Option<Revision>,
    transport: Transport,
}

/// A request in progress. Dropping this counts it as cancelled, unless it has ended.
#[derive(Debug)]
pub(super) struct RequestTimer {
    metrics: Arc<ServerMetrics>,
    labels: RequestLabels,
    began: Instant,
    outcome: Outcome,
}

impl RequestTimer {
    /// Ends the request.
    pub(super) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        self.metrics.cell(self.labels, |cell| {
            cell.count(self.outcome);
            cell.durations.observe(self.began.elapsed());
        });
    }
}

/// An open session. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct OpenSession {
    metrics: Arc<ServerMetrics>,
    transport: Transport,
    revision: Revision,
    began: Instant,
    _open: Option<Open>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let durations = self.metrics.session_durations.get(self.revision as usize);
        if let Some(durations) = durations.and_then(|transports| transports.get(self.transport as usize)) {
            durations.observe(self.began.elapsed());
        }
    }
}

fn revision_number(revision: Option<Revision>) -> usize {
    revision.map_or(Revision::ALL.len(), |revision| revision as usize)
}

fn revision_names() -> impl Iterator<Item = &'static str> {
    Revision::ALL.into_iter().map(Revision::name).chain([NO_REVISION])
}
