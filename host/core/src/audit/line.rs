//! The encoding of lines.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use mcp_host_base::escape;
use mcp_host_base::text;
use mcp_host_base::trace::TraceId;
use mcp_host_model::resource::ResourceContents;
use mcp_host_model::uri::Uri;
use parking_lot::Mutex;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::context::{MAX_REQUEST_ID, RequestContext, RequestId, SessionHash};
use crate::access::Decision;

/// The maximum length of the beginning of a URI in a line, in bytes.
pub(super) const MAX_URI: usize = 2048;
/// The maximum length of the end of a longer URI in a line, in bytes.
const MAX_URI_END: usize = 256;
/// The maximum length of the returned URIs in a line, in bytes, with their quotation marks and commas.
pub(super) const MAX_RETURNED: usize = 4096;
/// The maximum length of a principal's name in a line, in bytes.
const MAX_PRINCIPAL: usize = 256;
/// The maximum length of a log filter in a line, in bytes.
const MAX_FILTER: usize = 1024;
/// The maximum length of all text in a line that comes from outside, in bytes.
const MAX_TEXT: usize = MAX_URI + MAX_URI_END + MAX_PRINCIPAL + MAX_REQUEST_ID + MAX_FILTER;
/// The maximum number of bytes of JSON for one byte of text: `\u001b`.
const MAX_ESCAPE: usize = 6;
/// The maximum length of a rule's location in a line, in bytes.
const MAX_LOCATION: usize = 64;
/// The maximum length of a glob in a line, in bytes.
const MAX_GLOB: usize = 128;
/// The maximum length of everything else in a line: the rule, keys, numbers, the plugin's name.
const MAX_REST: usize = 768 + (MAX_LOCATION + MAX_GLOB) * MAX_ESCAPE;
/// The initial capacity for a line. Most lines are shorter.
const USUAL_LEN: usize = 512;

/// The facts about a request that become known while it is executed.
#[derive(Debug, Default)]
pub(crate) struct Facts(Mutex<Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    generation: Option<u64>,
    plugin: Option<Box<str>>,
    decision: Option<Decision>,
    /// The URI in normal form.
    uri: Option<Box<str>>,
    bytes: Option<u64>,
    returned: Returned,
    cached: bool,
    subject: Option<Box<Subject>>,
}

/// The subject of an administrator's action, besides a URI and a plugin.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Subject {
    /// A filter of the log; none for the configured one.
    Log {
        /// The filter.
        #[serde(skip_serializing_if = "Option::is_none")]
        filter: Option<Box<str>>,
        /// The time for which the filter applies.
        #[serde(skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// An access decision.
    Explain {
        /// The name of the principal that the decision is about.
        for_principal: Box<str>,
        /// The name of the operation.
        for_operation: &'static str,
    },
}

impl Subject {
    /// The setting of a filter of the log.
    pub(crate) fn log(filter: Option<&str>, seconds: Option<u64>) -> Self {
        Self::Log { filter: filter.map(|filter| text::prefix(filter, MAX_FILTER).into()), seconds }
    }

    /// The explanation of an access decision.
    pub(crate) fn explain(principal: &str, operation: &'static str) -> Self {
        Self::Explain { for_principal: text::prefix(principal, MAX_PRINCIPAL).into(), for_operation: operation }
    }

    /// The length of the text that comes from outside, in bytes.
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Self::Log { filter, .. } => filter.as_ref().map_or(0, |filter| filter.len()),
            Self::Explain { for_principal, .. } => for_principal.len(),
        }
    }
}

/// The URIs that were returned, up to the maximum of a line.
#[derive(Clone, Debug, Default)]
struct Returned {
    uris: Vec<Box<str>>,
    /// The total number.
    total: usize,
}

impl Facts {
    /// Records the generation that serves the request.
    pub(crate) fn set_generation(&self, number: u64) {
        self.0.lock().generation = Some(number);
    }

    /// Records the subject of an administrator's action.
    pub(crate) fn set_subject(&self, subject: Subject) {
        self.0.lock().subject = Some(Box::new(subject));
    }

    /// Records the plugin that the URI belongs to.
    pub(crate) fn set_plugin(&self, name: &str) {
        let mut known = self.0.lock();
        if known.plugin.as_deref() != Some(name) {
            known.plugin = Some(name.into());
        }
    }

    /// Records the decision of the access rules about a request for one resource or template.
    pub(crate) fn set_decision(&self, decision: Decision) {
        self.0.lock().decision = Some(decision);
    }

    /// Records the URI in the normal form of the mount that owns it.
    pub(crate) fn set_uri(&self, uri: &str) {
        self.0.lock().uri = Some(uri.into());
    }

    /// Records the URIs of resources whose contents are returned, in normal form. Duplicates count once.
    pub(crate) fn set_returned<'a>(&self, all: impl IntoIterator<Item = &'a str>) {
        let (mut seen, mut uris, mut len) = (HashSet::new(), Vec::new(), 0_usize);
        for uri in all {
            if seen.insert(uri) {
                // The URI with its quotation marks and its comma.
                len = len.saturating_add(uri.len()).saturating_add(3);
                if len <= MAX_RETURNED {
                    uris.push(uri.into());
                }
            }
        }
        self.0.lock().returned = Returned { uris, total: seen.len() };
    }

    /// Records the size of the contents that a read returns, and their URIs if some belong to other
    /// resources.
    pub(crate) fn set_contents(&self, requested: &Uri, contents: &[ResourceContents]) {
        self.set_bytes(ResourceContents::total_len(contents));
        self.set_returned_with(requested, contents.iter().map(|one| &one.entry.uri));
    }

    /// Records the URIs of the contents that a read returns, if some belong to other resources.
    pub(crate) fn set_returned_with<'a>(&self, requested: &Uri, uris: impl Iterator<Item = &'a Uri> + Clone) {
        if uris.clone().any(|uri| uri != requested) {
            self.set_returned(uris.map(Uri::as_str));
        }
    }

    /// Records the size of the contents that are returned.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.0.lock().bytes = Some(bytes);
    }

    /// Records whether the response was in the response cache.
    pub(crate) fn set_cached(&self, is_cached: bool) {
        self.0.lock().cached = is_cached;
    }

    /// Returns whether the response was in the response cache.
    pub(crate) fn is_cached(&self) -> bool {
        self.0.lock().cached
    }
}

/// A line about one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The name of the principal.
    pub(crate) principal: &'a str,
    /// The name of the operation.
    pub(crate) operation: &'static str,
    /// The URI as requested, written if the URI has no normal form; empty for requests without a URI.
    pub(crate) uri: &'a str,
    /// `ok`, the kind of the error, or `cancelled`.
    pub(crate) outcome: &'static str,
    /// The facts that became known while the request was executed.
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
    #[serde(flatten)]
    truncated: Option<Truncated<'a>>,
    #[serde(flatten)]
    subject: Option<&'a Subject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    glob: Option<&'a str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    returned: &'a [Box<str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    returned_total: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cached: bool,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    administrator: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<TraceId>,
}

/// The members of a line for a URI of more than [`MAX_URI`] bytes.
#[derive(Serialize)]
struct Truncated<'a> {
    /// The length of the whole URI.
    uri_bytes: usize,
    /// Its end.
    uri_end: &'a str,
    /// The SHA-256 of the whole URI.
    uri_sha256: String,
}

/// The members of a line about losses: requests without a line.
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
    /// Encodes the members after `time` and `sequence`, from the comma before them to the line break.
    pub(super) fn encode(&self, context: Option<&RequestContext>, duration: Duration) -> Vec<u8> {
        let known = self.facts.0.lock();
        let glob = known.decision.as_ref().and_then(Decision::glob);
        let location = glob.and_then(|glob| glob.location.as_deref());
        let uri = known.uri.as_deref().unwrap_or(self.uri);
        let Returned { uris: returned, total } = &known.returned;
        encode(&Members {
            principal: text::prefix(self.principal, MAX_PRINCIPAL),
            session: context.and_then(|context| context.session),
            operation: self.operation,
            uri: text::prefix(uri, MAX_URI),
            truncated: (uri.len() > MAX_URI).then(|| Truncated::new(uri)),
            subject: known.subject.as_deref(),
            plugin: known.plugin.as_deref(),
            generation: known.generation,
            decision: known.decision.as_ref().map(|decision| if decision.is_allowed() { "allow" } else { "deny" }),
            rule: location.map(|location| text::suffix(location, MAX_LOCATION)),
            glob: glob.map(|glob| text::prefix(&glob.glob, MAX_GLOB)),
            outcome: self.outcome,
            bytes: known.bytes,
            returned,
            returned_total: Some(*total).filter(|total| *total > returned.len()),
            cached: known.cached,
            duration_ms: millis(duration),
            request_id: context.and_then(RequestContext::request_id),
            administrator: context.and_then(RequestContext::administrator),
            trace_id: context.and_then(|context| context.trace_id),
        })
    }
}

impl<'a> Truncated<'a> {
    fn new(uri: &'a str) -> Self {
        let mut uri_sha256 = String::with_capacity(64);
        for byte in Sha256::digest(uri) {
            // Writing to memory does not fail.
            let _ = write!(uri_sha256, "{byte:02x}");
        }
        // The end does not overlap the beginning, so that a line has no more text than the URI.
        let end_len = uri.len().saturating_sub(MAX_URI).min(MAX_URI_END);
        Self { uri_bytes: uri.len(), uri_end: text::suffix(uri, end_len), uri_sha256 }
    }
}

/// Encodes the members of a line about losses.
pub(super) fn encode_losses(dropped_lines: u64, refused_requests: u64) -> Vec<u8> {
    encode(&Losses { dropped_lines, refused_requests })
}

/// Encodes the members of an object: a comma replaces the opening brace, and a line break follows.
pub(super) fn encode(members: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(USUAL_LEN);
    // Serializing texts and numbers does not fail, nor does writing to memory.
    let _ = serde_json::to_writer(&mut json, members);
    let mut json = escape::json_bytes(json);
    if let Some(brace) = json.first_mut() {
        *brace = b',';
    }
    json.push(b'\n');
    json
}

/// Returns the maximum length of a line with `text_len` bytes of text from outside.
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
    use crate::access::MatchedGlob;

    fn line<'a>(principal: &'a str, uri: &'a str, facts: &'a Facts) -> Line<'a> {
        Line { principal, operation: "read", uri, outcome: "ok", facts }
    }

    #[test]
    fn a_line_has_what_is_known_and_no_member_for_the_rest() {
        let facts = Facts::default();
        let encode = |uri, duration| String::from_utf8(line("local", uri, &facts).encode(None, duration)).unwrap();
        assert_eq!(
            encode("a://b/", Duration::from_nanos(1_234_567)),
            ",\"principal\":\"local\",\"operation\":\"read\",\"uri\":\"a://b/\",\"outcome\":\"ok\",\"duration_ms\":1.234}\n"
        );
        facts.set_plugin("notes");
        facts.set_generation(3);
        facts.set_decision(Decision::DeniedByDefault);
        facts.set_bytes(0);
        facts.set_cached(true);
        assert_eq!(
            value(&encode("", Duration::ZERO)),
            json!({
                "principal": "local", "operation": "read", "plugin": "notes", "generation": 3, "decision": "deny",
                "outcome": "ok", "bytes": 0, "cached": true, "duration_ms": 0.0,
            })
        );
        facts.set_subject(Subject::log(Some("debug"), Some(600)));
        let line = value(&encode("", Duration::ZERO));
        assert_eq!((&line["filter"], &line["seconds"]), (&json!("debug"), &json!(600)));
        facts.set_subject(Subject::explain("ci", "read"));
        let line = value(&encode("", Duration::ZERO));
        assert_eq!((&line["for_principal"], &line["for_operation"]), (&json!("ci"), &json!("read")));
        assert_eq!(encode_losses(2, 0), b",\"dropped_lines\":2}\n");
        assert_eq!(encode_losses(0, 3), b",\"refused_requests\":3}\n");
    }

    /// Parses a whole line with these members.
    fn value(members: &str) -> Value {
        serde_json::from_str(&format!("{{{}", members.strip_prefix(',').unwrap())).unwrap()
    }

    #[test]
    fn the_rule_that_decided_has_its_place_and_its_glob_within_bounds() {
        let decided = |location: Option<&str>, glob: &str| {
            let facts = Facts::default();
            let glob = MatchedGlob { rule: 0, glob: glob.into(), location: location.map(Into::into) };
            facts.set_decision(Decision::Allowed(glob));
            let line = value(str::from_utf8(&line("a", "", &facts).encode(None, Duration::ZERO)).unwrap());
            (line["decision"].clone(), line["rule"].clone(), line["glob"].clone())
        };
        assert_eq!(
            decided(Some("mcp-host.toml:15"), "**/.env"),
            ("allow".into(), "mcp-host.toml:15".into(), "**/.env".into())
        );
        assert_eq!(decided(None, "**"), ("allow".into(), Value::Null, "**".into()), "a rule of an application");
        let (_, location, glob) = decided(Some(&format!("{}:15", "x".repeat(255))), &"y".repeat(1024));
        assert_eq!(location, format!("{}:15", "x".repeat(MAX_LOCATION - 3)), "the line number is kept");
        assert_eq!(glob, "y".repeat(MAX_GLOB));
    }

    #[test]
    fn a_uri_that_is_too_long_has_its_end_its_length_and_its_hash() {
        let facts = Facts::default();
        let uri = format!("files:///{}secret.txt", "a/".repeat(2000));
        let text = line("a", &uri, &facts).encode(None, Duration::ZERO);
        let found = value(str::from_utf8(&text).unwrap());
        let (beginning, _) = uri.split_at(MAX_URI);
        let (_, end) = uri.split_at(uri.len() - MAX_URI_END);
        assert_eq!((&found["uri"], &found["uri_end"]), (&Value::from(beginning), &Value::from(end)));
        assert_eq!(found["uri_bytes"], uri.len());
        let hash: String = Sha256::digest(&uri).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found["uri_sha256"], hash);
        let whole = line("a", beginning, &facts).encode(None, Duration::ZERO);
        assert!(!str::from_utf8(&whole).unwrap().contains("uri_"), "nothing is left out");
    }

    #[test]
    fn a_line_has_the_normal_form_and_not_what_the_client_wrote() {
        let facts = Facts::default();
        facts.set_uri("files:///secret.txt");
        let spelled = format!("files:///{}{}secret.txt", "a/".repeat(1030), "../".repeat(1030));
        let text = line("a", &spelled, &facts).encode(None, Duration::ZERO);
        assert_eq!(value(str::from_utf8(&text).unwrap())["uri"], "files:///secret.txt");
    }

    #[test]
    fn what_was_returned_is_named_once_and_counted_where_it_does_not_fit() {
        let facts = Facts::default();
        let found = |facts: &Facts| {
            let text = line("a", "", facts).encode(None, Duration::ZERO);
            let line = value(str::from_utf8(&text).unwrap());
            (line["returned"].clone(), line["returned_total"].clone())
        };
        assert_eq!(found(&facts), (Value::Null, Value::Null));
        facts.set_returned(["a:///1", "a:///2", "a:///1"]);
        assert_eq!(found(&facts), (json!(["a:///1", "a:///2"]), Value::Null));
        let long: Vec<_> = (0..5).map(|number| format!("a:///{number}{}", "x".repeat(1000))).collect();
        facts.set_returned(long.iter().map(String::as_str));
        assert_eq!(found(&facts), (json!(long[..4]), json!(5)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_leaves_its_line_or_deceives_and_all_is_within_the_bound(
            glob in "[\u{0}-\u{1f}a]{0,300}",
            principal in "(.|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}\u{202e}\u{e0001}\"\\\\]){0,300}",
            uri in "(.|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}\u{202e}\u{e0001}\"\\\\]){0,2500}",
            filter in "[\u{0}-\u{1f}a]{0,1100}",
        ) {
            let facts = Facts::default();
            let subject = Subject::log(Some(&filter), Some(u64::MAX));
            let text_len = principal.len() + uri.len() + subject.text_len();
            facts.set_subject(subject);
            let location = Some(glob.as_str().into());
            facts.set_cached(true);
            let returned: Vec<_> = (0..200).map(|number| format!("files:///some/path/{number}")).collect();
            facts.set_returned(returned.iter().map(String::as_str));
            facts.set_decision(Decision::Denied(MatchedGlob { rule: 0, glob: glob.into(), location }));
            let text = String::from_utf8(line(&principal, &uri, &facts).encode(None, Duration::MAX)).unwrap();
            proptest::prop_assert!(text.len() <= max_len(text_len) + MAX_RETURNED, "{}", text.len());
            let body = text.strip_suffix('\n').unwrap();
            proptest::prop_assert!(!body.contains(escape::is_unsafe), "{body}");
            let value = value(body);
            proptest::prop_assert!(uri.starts_with(value["uri"].as_str().unwrap_or_default()));
            proptest::prop_assert!(principal.starts_with(value["principal"].as_str().unwrap()));
        }
    }
}
