//! Traces: the spans that the host exports, and the trace contexts that clients send (W3C Trace Context, SEP-414).
//!
//! A sampled request has a span with the target [`TARGET`], and child spans for the operations that it waits for.
//! Without a layer that takes spans of this target ([`is_span`]), no span is created, at the cost of one comparison
//! each. These spans are not part of the log. The exporting layer takes a span that is not a request only below another
//! one, so a request that is not sampled has no spans at all.
//!
//! The trace id is a field of a span with the target [`log_target::REQUEST`](super::log_target::REQUEST), which is part
//! of the log.
//!
//! Code that continues on another thread runs in the spans in which it began: [`CurrentSpans`].

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use tracing::instrument::Instrumented;
use tracing::{Instrument as _, Metadata, Span};

/// The target of exported spans.
pub const TARGET: &str = "mcp_host::trace";
/// The name of a request's span, whose parent is not in this process.
pub const REQUEST: &str = "request";
/// The maximum length of text from outside in an attribute, in bytes.
pub const MAX_ATTRIBUTE: usize = 1024;

/// Returns whether a span is exported if its request is sampled. Numbers in its fields are `i64` or `f64`, as in
/// attributes.
pub fn is_span(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TARGET
}

/// Decides whether a new request has a span. Global to the process, like the subscriber that takes spans.
static ADMISSION: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// Sets the function that decides whether a new request has a span. Only the first call has an effect.
pub fn set_admission(admits_request: impl Fn() -> bool + Send + Sync + 'static) {
    let _ = ADMISSION.set(Box::new(admits_request));
}

/// Returns whether a new request has a span, if it is sampled.
///
/// A layer's filter cannot decide this as cheaply: `tracing_subscriber::Registry` creates a span even if the filters of
/// all layers reject it, and enters it at each poll of the request.
pub fn admits_request() -> bool {
    ADMISSION.get().is_none_or(|admits_request| admits_request())
}

/// A trace id of W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

/// The parent of a span in another process: `traceparent` of W3C Trace Context. Its flags are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: TraceId,
    span_id: [u8; 8],
}

/// A text that is not a `traceparent` with a valid trace id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTraceParent;

/// The contexts that a client sent with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientContext {
    /// The context of the message: `_meta.traceparent`.
    pub message: Option<TraceParent>,
    /// The context of the HTTP request: the header `traceparent`.
    pub http: Option<TraceParent>,
}

impl TraceParent {
    /// Returns the id of the trace.
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }
}

impl ClientContext {
    /// Returns the parent of the request: the context of the message, or else the context of the HTTP request.
    pub fn parent(&self) -> Option<TraceParent> {
        self.message.or(self.http)
    }

    /// Makes a span continue the trace of the client. If there are both contexts, the span also links to the context of
    /// the HTTP request.
    pub fn apply_to(&self, span: &Span) {
        export::apply(self, span);
    }
}

/// Returns a span below the current one. Without a current one, as in a request that is not sampled, no span is
/// created, and no layer is called.
pub fn child(make: impl FnOnce() -> Span) -> Span {
    if Span::current().is_none() { Span::none() } else { make() }
}

/// Returns the trace id of a span, if the span is exported.
pub fn trace_id(span: &Span) -> Option<TraceId> {
    export::trace_id(span)
}

/// Returns the `traceparent` of the current span, if the span is exported: for requests to other servers.
pub fn traceparent() -> Option<String> {
    export::traceparent()
}

/// The spans in which code continues on another thread.
#[derive(Clone, Debug)]
pub struct CurrentSpans {
    outer: Span,
    exported: Span,
}

impl CurrentSpans {
    /// The current span, and an exported one below it.
    pub fn with(exported: Span) -> Self {
        Self { outer: Span::current(), exported }
    }

    /// Returns a span below the exported one. Without an exported span, nothing is created, at the cost of one
    /// comparison.
    pub fn child(&self, make: impl FnOnce() -> Span) -> Span {
        if self.exported.is_disabled() { Span::none() } else { make() }
    }

    /// Runs a future in these spans.
    pub fn instrument<F: Future>(self, future: F) -> Instrumented<Instrumented<F>> {
        future.instrument(self.exported).instrument(self.outer)
    }
}

/// Parses a `traceparent`: `VERSION-TRACE-PARENT-FLAGS`, in lower-case hexadecimal digits. Versions after 00 may have
/// more fields.
impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let is_hex = |text: &str, len: usize| {
            text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
        let mut fields = text.splitn(5, '-');
        let mut field = || fields.next().ok_or(InvalidTraceParent);
        let (version, trace, parent, flags) = (field()?, field()?, field()?, field()?);
        let is_valid = is_hex(version, 2)
            && version != "ff"
            && is_hex(trace, 32)
            && !is_zero(trace)
            && is_hex(parent, 16)
            && !is_zero(parent)
            && is_hex(flags, 2)
            && (version != "00" || fields.next().is_none());
        if !is_valid {
            return Err(InvalidTraceParent);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| InvalidTraceParent)?;
        let parent = u64::from_str_radix(parent, 16).map_err(|_| InvalidTraceParent)?;
        Ok(Self { trace_id: TraceId(trace.to_be_bytes()), span_id: parent.to_be_bytes() })
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Exported spans, in a build with the feature `otlp`.
#[cfg(feature = "otlp")]
mod export {
    use opentelemetry::Context;
    use opentelemetry::trace::{self, SpanId, TraceContextExt as _, TraceFlags, TraceState};
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    use super::{ClientContext, TraceId, TraceParent};

    pub(super) fn apply(client: &ClientContext, span: &Span) {
        if span.is_disabled() {
            return;
        }
        if let Some(parent) = client.parent() {
            // This fails for a span that no layer exports.
            let _ = span.set_parent(Context::new().with_remote_span_context(span_context(parent)));
        }
        if let (Some(_), Some(http)) = (client.message, client.http) {
            span.add_link(span_context(http));
        }
    }

    fn span_context(parent: TraceParent) -> trace::SpanContext {
        let TraceParent { trace_id: TraceId(trace_id), span_id } = parent;
        let (trace_id, span_id) = (trace::TraceId::from_bytes(trace_id), SpanId::from_bytes(span_id));
        trace::SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, true, TraceState::NONE)
    }

    pub(super) fn trace_id(span: &Span) -> Option<TraceId> {
        context(span).map(|context| TraceId(context.trace_id().to_bytes()))
    }

    pub(super) fn traceparent() -> Option<String> {
        context(&Span::current()).map(|context| format!("00-{}-{}-01", context.trace_id(), context.span_id()))
    }

    fn context(span: &Span) -> Option<trace::SpanContext> {
        if span.is_disabled() {
            return None;
        }
        let context = span.context().span().span_context().clone();
        context.is_valid().then_some(context)
    }
}

/// Without the feature `otlp` no span is exported.
#[cfg(not(feature = "otlp"))]
mod export {
    use tracing::Span;

    use super::{ClientContext, TraceId};

    pub(super) fn apply(_: &ClientContext, _: &Span) {}

    pub(super) fn trace_id(_: &Span) -> Option<TraceId> {
        None
    }

    pub(super) fn traceparent() -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Option<String> {
        let parent: TraceParent = text.parse().ok()?;
        serde_json::to_string(&parent.trace_id()).ok()
    }

    #[test]
    fn a_trace_id_is_that_of_a_valid_traceparent() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let shown = Some(format!("\"{id}\""));
        assert_eq!(trace(&format!("00-{id}-00f067aa0ba902b7-01")), shown);
        assert_eq!(trace(&format!("cc-{id}-00f067aa0ba902b7-01-later")), shown, "a later version has more fields");
        let leading = "00000000000000000000000000000001";
        assert_eq!(trace(&format!("00-{leading}-00f067aa0ba902b7-00")), Some(format!("\"{leading}\"")));
        for invalid in [
            String::new(),
            id.to_owned(),
            format!("00-{id}"),
            format!("00-{id}-00f067aa0ba902b7"),
            format!("00-{id}-00f067aa0ba902b7-01-more"),
            format!("ff-{id}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", id.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{id}-{}-01", "0".repeat(16)),
            format!("00-{id}-00f067aa0ba902b7-1"),
            format!("00-{id}é-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", id.replace("4b", "+b")),
        ] {
            assert_eq!(trace(&invalid), None, "{invalid}");
        }
    }

    #[test]
    fn the_context_of_a_message_goes_before_that_of_its_http_request() {
        let parent = |digit: char| {
            let text = format!("00-{}-{}-00", digit.to_string().repeat(32), digit.to_string().repeat(16));
            text.parse::<TraceParent>().ok()
        };
        let both = ClientContext { message: parent('1'), http: parent('2') };
        assert_eq!(both.parent(), parent('1'));
        assert_eq!(ClientContext { message: None, ..both }.parent(), parent('2'));
        assert_eq!(ClientContext::default().parent(), None);
    }
}
