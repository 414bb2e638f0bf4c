//! The encoding of lines.

use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use super::context::{MAX_REQUEST_ID, RequestContext, RequestId, SessionHash, TraceId};
use crate::escape;
use crate::text;

/// The bytes of a URI that a line has.
pub(super) const MAX_URI: usize = 2048;
/// The bytes of a principal's name that a line has.
const MAX_PRINCIPAL: usize = 256;
/// The bytes of text of foreign origin that a line has.
const MAX_TEXT: usize = MAX_URI + MAX_PRINCIPAL + MAX_REQUEST_ID;
/// The maximum number of bytes of JSON for one byte of text: `\u001b`.
const MAX_ESCAPE: usize = 6;
/// The maximum length of everything else in a line: keys, numbers, the plugin's name.
const MAX_REST: usize = 512;

/// The decision of the access rules about a request for one resource or template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Decision {
    /// The principal may perform the operation.
    Allow,
    /// It may not; for it, the resource does not exist.
    Deny,
}

/// What becomes known of a request while it is executed.
#[derive(Debug, Default)]
pub(crate) struct Facts(Mutex<Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    generation: Option<u64>,
    plugin: Option<Box<str>>,
    decision: Option<Decision>,
    bytes: Option<u64>,
}

impl Facts {
    /// Records the generation that the request works with.
    pub(crate) fn set_generation(&self, number: u64) {
        self.0.lock().generation = Some(number);
    }

    /// Records the plugin that the URI belongs to.
    pub(crate) fn set_plugin(&self, name: &str) {
        let mut known = self.0.lock();
        if known.plugin.as_deref() != Some(name) {
            known.plugin = Some(name.into());
        }
    }

    /// Records the decision of the access rules.
    pub(crate) fn set_decision(&self, decision: Decision) {
        self.0.lock().decision = Some(decision);
    }

    /// Records the size of the contents that are returned.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.0.lock().bytes = Some(bytes);
    }
}

/// A line about one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The name of the principal.
    pub(crate) principal: &'a str,
    /// The name of the operation.
    pub(crate) operation: &'static str,
    /// The URI as requested; empty for requests without one.
    pub(crate) uri: &'a str,
    /// `ok`, the kind of the error, or `cancelled`.
    pub(crate) outcome: &'static str,
    /// What became known while the request was executed.
    pub(crate) facts: &'a Facts,
}

/// The members of a line after `time` and `sequence`.
#[derive(Serialize)]
struct Members<'a> {
    principal: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionHash>,
    operation: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Decision>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<TraceId>,
}

/// The members of a line about requests that have none.
#[derive(Serialize)]
struct Losses {
    #[serde(skip_serializing_if = "is_zero")]
    dropped_lines: u64,
    #[serde(skip_serializing_if = "is_zero")]
    refused_requests: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Line<'_> {
    /// Encodes the members after `time` and `sequence`, up to the line break.
    pub(super) fn encode(&self, context: Option<&RequestContext>, duration: Duration) -> String {
        let known = self.facts.0.lock();
        encode(&Members {
            principal: text::prefix(self.principal, MAX_PRINCIPAL),
            session: context.and_then(|context| context.session),
            operation: self.operation,
            uri: text::prefix(self.uri, MAX_URI),
            plugin: known.plugin.as_deref(),
            generation: known.generation,
            decision: known.decision,
            outcome: self.outcome,
            bytes: known.bytes,
            duration_ms: millis(duration),
            request_id: context.map(|context| &context.request_id),
            trace_id: context.and_then(|context| context.trace_id),
        })
    }
}

/// Encodes the members of a line about requests without a line.
pub(super) fn encode_losses(dropped_lines: u64, refused_requests: u64) -> String {
    encode(&Losses { dropped_lines, refused_requests })
}

/// Encodes the members of an object, without the brace before them, and with a line break behind them.
fn encode(members: &impl Serialize) -> String {
    // Texts and numbers do not fail to serialize.
    let json = serde_json::to_string(members).unwrap_or_default();
    let mut text = escape::json(json.strip_prefix('{').unwrap_or("}")).into_owned();
    text.push('\n');
    text
}

/// The maximum length of a line with so many bytes of text of foreign origin.
pub(super) fn max_len(text_len: usize) -> usize {
    text_len.min(MAX_TEXT).saturating_mul(MAX_ESCAPE).saturating_add(MAX_REST)
}

/// Milliseconds with three digits after the point.
#[expect(clippy::cast_precision_loss, reason = "a duration of less than centuries is exact")]
fn millis(duration: Duration) -> f64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn line<'a>(principal: &'a str, uri: &'a str, facts: &'a Facts) -> Line<'a> {
        Line { principal, operation: "read", uri, outcome: "ok", facts }
    }

    #[test]
    fn a_line_has_what_is_known_and_no_member_for_the_rest() {
        let facts = Facts::default();
        let text = line("local", "a://b/", &facts).encode(None, Duration::from_nanos(1_234_567));
        assert_eq!(
            text,
            "\"principal\":\"local\",\"operation\":\"read\",\"uri\":\"a://b/\",\"outcome\":\"ok\",\"duration_ms\":1.234}\n"
        );
        facts.set_plugin("notes");
        facts.set_generation(3);
        facts.set_decision(Decision::Deny);
        facts.set_bytes(0);
        let text = line("local", "", &facts).encode(None, Duration::ZERO);
        assert_eq!(
            serde_json::from_str::<Value>(&format!("{{{text}")).unwrap(),
            json!({
                "principal": "local", "operation": "read", "plugin": "notes", "generation": 3, "decision": "deny",
                "outcome": "ok", "bytes": 0, "duration_ms": 0.0,
            })
        );
        assert_eq!(encode_losses(2, 0), "\"dropped_lines\":2}\n");
        assert_eq!(encode_losses(0, 3), "\"refused_requests\":3}\n");
    }

    proptest::proptest! {
        #[test]
        fn no_text_leaves_its_line_or_deceives_and_all_is_within_the_bound(
            principal in "(.|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}\u{202e}\u{e0001}\"\\\\]){0,300}",
            uri in "(.|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}\u{202e}\u{e0001}\"\\\\]){0,2500}",
        ) {
            let facts = Facts::default();
            let text = line(&principal, &uri, &facts).encode(None, Duration::MAX);
            proptest::prop_assert!(text.len() <= max_len(principal.len() + uri.len()), "{}", text.len());
            let body = text.strip_suffix('\n').unwrap();
            proptest::prop_assert!(!body.contains(escape::is_unsafe), "{body}");
            let value: Value = serde_json::from_str(&format!("{{{body}")).unwrap();
            proptest::prop_assert!(uri.starts_with(value["uri"].as_str().unwrap_or_default()));
            proptest::prop_assert!(principal.starts_with(value["principal"].as_str().unwrap()));
        }
    }
}
