//! An OpenTelemetry collector for one test: OTLP over HTTP, as Protocol Buffers.
//!
//! ```no_run
//! # use mcp_host_tests::{Collector, ConfigFile, Plugin, Reply};
//! # async fn test() {
//! let collector = Collector::start().await;
//! let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&collector.section("sample = 1")).write();
//! // …
//! let trace = collector.trace_with("resources/read").await;
//! assert_eq!(trace.span("guest").parent, trace.span("call").id);
//! collector.answer_with(Reply::silent()); // From now on.
//! # }
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use serde_json::{Value, json};

use crate::{MockOrigin, RecordedRequest, Reply, wait_until};

/// The path that spans are sent to.
const PATH: &str = "/v1/traces";

/// A collector on an ephemeral port of loopback.
#[derive(Debug)]
pub struct Collector {
    origin: MockOrigin,
}

/// A span as it was received. Ids are hexadecimal.
#[derive(Clone, Debug)]
pub struct CollectedSpan {
    /// The name.
    pub name: String,
    /// The id of the trace.
    pub trace: String,
    /// The id.
    pub id: String,
    /// The id of the parent; empty if there is none.
    pub parent: String,
    /// Whether it is a span of a server.
    pub is_server: bool,
    /// Whether its status is an error.
    pub is_error: bool,
    /// The attributes.
    pub attributes: BTreeMap<String, Value>,
    /// The linked spans: the ids of the trace and of the span.
    pub links: Vec<(String, String)>,
}

impl CollectedSpan {
    /// Returns an attribute; null if there is none.
    pub fn attribute(&self, name: &str) -> &Value {
        self.attributes.get(name).unwrap_or(&Value::Null)
    }
}

/// The spans of one trace.
#[derive(Clone, Debug)]
pub struct CollectedTrace(pub Vec<CollectedSpan>);

impl CollectedTrace {
    /// Returns the span of that name.
    ///
    /// # Panics
    ///
    /// There is none, or there are several.
    pub fn span(&self, name: &str) -> &CollectedSpan {
        let found: Vec<_> = self.0.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "one span `{name}` in {self:#?}");
        found[0]
    }

    /// Returns the name of the parent of a span.
    pub fn parent_of(&self, name: &str) -> &str {
        let parent = &self.span(name).parent;
        self.0.iter().find(|span| span.id == *parent).map_or("", |span| &span.name)
    }
}

impl Collector {
    /// Starts a collector.
    pub async fn start() -> Self {
        let collector = Self { origin: MockOrigin::http().await };
        collector
            .answer_with(Reply::ok("application/x-protobuf", ExportTraceServiceResponse::default().encode_to_vec()));
        collector
    }

    /// The section `[telemetry]` for it, with more keys.
    pub fn section(&self, more: &str) -> String {
        format!("\n[telemetry]\notlp = \"{}\"\n{more}\n", self.origin.origin())
    }

    /// The server, which can be taken down.
    pub fn origin(&self) -> &MockOrigin {
        &self.origin
    }

    /// Answers every request with that.
    pub fn answer_with(&self, reply: Reply) {
        self.origin.serve(PATH, reply);
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.origin.requests()
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.requests().iter().flat_map(spans).collect()
    }

    /// The attributes of what sent the spans.
    pub fn resource(&self) -> BTreeMap<String, Value> {
        let requests = self.requests();
        let resource = requests
            .first()
            .and_then(|request| decode(request).resource_spans.into_iter().next().and_then(|spans| spans.resource));
        attributes(&resource.expect("spans have been sent").attributes)
    }

    /// Waits for a span of that name, and returns its trace as far as it is there. A request is sent when it has ended,
    /// and with it everything below.
    pub async fn trace_with(&self, name: &str) -> CollectedTrace {
        let is_there = || self.spans().iter().any(|span| span.name == name);
        wait_until(&format!("there is a span `{name}`"), is_there).await;
        let spans = self.spans();
        let trace = spans.iter().find(|span| span.name == name).map(|span| span.trace.clone());
        CollectedTrace(spans.into_iter().filter(|span| Some(&span.trace) == trace.as_ref()).collect())
    }
}

fn decode(request: &RecordedRequest) -> ExportTraceServiceRequest {
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", PATH));
    assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    ExportTraceServiceRequest::decode(&*request.body).expect("a request is a message of OTLP")
}

fn spans(request: &RecordedRequest) -> Vec<CollectedSpan> {
    let scopes = decode(request).resource_spans.into_iter().flat_map(|spans| spans.scope_spans);
    scopes.flat_map(|scope| scope.spans).map(CollectedSpan::from).collect()
}

impl From<Span> for CollectedSpan {
    fn from(span: Span) -> Self {
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            is_server: span.kind() == SpanKind::Server,
            is_error: span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error),
            attributes: attributes(&span.attributes),
            links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
            name: span.name,
        }
    }
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(AnyValue::StringValue(text)) => json!(text),
        Some(AnyValue::IntValue(number)) => json!(number),
        Some(AnyValue::DoubleValue(number)) => json!(number),
        Some(AnyValue::BoolValue(is_true)) => json!(is_true),
        other => panic!("an attribute is a text, a number or a truth value: {other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), value(attribute))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
