//! Client messages by JSON-RPC 2.0 and MCP: the first step, parsing and validation.
//!
//! | received | answer |
//! |---|---|
//! | malformed JSON | -32700 |
//! | not a message: not an object, another `jsonrpc`, neither `method` nor `result` nor `error` | -32600 |
//! | an `id` that is neither a string nor an integer (MCP forbids `null`), or a string of more than [`MAX_ID_LEN`] bytes | -32600 |
//! | a member that is used and occurs twice | -32600 |
//! | a batch in a revision without batches, an empty one, one of more than [`MAX_BATCH`] messages, or one with `initialize` | -32600 |
//! | malformed parameters | -32602, if the method exists ([`InvalidParams`]) |
//!
//! The answer has the `id` of the request if it could be parsed, else none. Only requests are answered.
//!
//! # Cost
//!
//! Parsing allocates at most twice the size of the message, for strings with escapes, and retains [a bounded
//! number](super::params) of bytes for any message. The text is not parsed into a tree of values: the used members are
//! located as slices of the text, and parsed into bounded types; all others are skipped. The result borrows nothing, so
//! the text is dropped right after parsing.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{ErrorCode, RpcError};
use super::method::{Method, ParsedParams, parse_params};
use super::params::{self, BoundedString, InvalidParams, RequestMeta, TruncatedString, present, without_position};
use super::request::Request;
use super::revision::Revision;
use mcp_host_config::Extension;
pub(super) use mcp_resource_host::audit::RequestId;

/// The maximum number of messages in a batch.
pub(super) const MAX_BATCH: usize = 64;
/// The maximum length of a request's `id` in bytes. The id is retained until the request is answered, and repeated in
/// the answer.
pub(super) const MAX_ID_LEN: usize = 1024;
/// The retained length of a method's name, for the comparison with `Mcp-Method`. No method has a longer name.
const MAX_METHOD_LEN: usize = 1024;

/// The version of JSON-RPC.
const VERSION: &str = "2.0";

/// The content of one received body or line.
#[derive(Debug)]
pub(super) enum Incoming {
    /// One message.
    Single(Message),
    /// The messages of one array, in order.
    Batch(Vec<Result<Message, Rejection>>),
}

/// A message with its used members.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Its kind.
    pub(super) kind: Kind,
    /// Its `_meta`.
    pub(super) meta: RequestMeta,
}

/// The kind of a message.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A request, which expects an answer.
    Request {
        /// The id of the request.
        id: RequestId,
        /// The name of the method.
        name: String,
        /// The method, if there is one of that name.
        method: Option<&'static Method>,
        /// The request.
        request: Result<Request, InvalidParams>,
    },
    /// A notification, which expects no answer.
    Notification {
        /// The method.
        method: String,
        /// The id of the request that the notification cancels.
        cancelled_request: Option<RequestId>,
    },
    /// An answer to a server's request. The server makes no requests.
    Response,
}

/// A rejected message, with the error for the client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rejection {
    /// The id of the request, if it could be parsed.
    pub(super) id: Option<RequestId>,
    pub(super) error: RpcError,
    /// The status of the response over HTTP.
    pub(super) status: RejectionStatus,
}

/// The status of the response to a rejected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectionStatus {
    /// 200: the message was valid.
    Ok,
    /// 400.
    BadRequest,
    /// 404.
    NotFound,
    /// 503: the message may be sent again soon.
    Unavailable,
}

impl Rejection {
    /// Rejects a message that is malformed, or is not allowed at this time.
    pub(super) fn new(id: Option<RequestId>, error: RpcError) -> Self {
        Self { id, error, status: RejectionStatus::BadRequest }
    }

    /// Rejects a malformed message.
    pub(super) fn invalid_request(id: Option<RequestId>, reason: impl Into<String>) -> Self {
        Self::new(id, RpcError::invalid_request(reason.into()))
    }

    /// Rejects a request with the id of another request in flight.
    pub(super) fn id_in_flight(id: &RequestId) -> Self {
        let reason = format!("the id {id} is that of a request that has not been answered");
        Self::invalid_request(Some(id.clone()), reason)
    }

    pub(super) fn with_status(self, status: RejectionStatus) -> Self {
        Self { status, ..self }
    }

    /// Converts the rejection to the answer.
    pub(super) fn into_response(self) -> Response {
        Response { jsonrpc: VERSION, id: self.id, outcome: Outcome::Error(self.error) }
    }

    fn parse_error(error: &impl fmt::Display) -> Self {
        let reason = format!("expected one JSON-RPC message as JSON: {error}");
        Self::new(None, RpcError::new(ErrorCode::PARSE_ERROR, reason))
    }
}

/// The answer to a request.
#[derive(Debug, Serialize)]
pub(super) struct Response {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<RequestId>,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Result(Value),
    Error(RpcError),
}

impl Response {
    pub(super) fn new(id: RequestId, outcome: Result<Value, RpcError>) -> Self {
        let outcome = outcome.map_or_else(Outcome::Error, Outcome::Result);
        Self { jsonrpc: VERSION, id: Some(id), outcome }
    }

    /// Serializes the answer.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // The members of an answer always serialize.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The revision that a request declares in `_meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeclaredRevision<'a> {
    /// None: the revision of the session applies.
    None,
    /// This revision, with all members that a request without a session requires.
    Complete(&'a str),
    /// This revision, without the other members.
    VersionOnly(&'a str),
}

impl Message {
    /// Returns the revision that a request declares.
    pub(super) fn declared_revision(&self) -> DeclaredRevision<'_> {
        match (&self.meta.version, self.meta.has_capabilities) {
            (Some(version), true) => DeclaredRevision::Complete(version),
            (Some(version), false) => DeclaredRevision::VersionOnly(version),
            (None, _) => DeclaredRevision::None,
        }
    }

    /// Returns the method for metrics, and whether the message is a request.
    pub(super) fn counted_as(&self) -> (Option<&'static Method>, bool) {
        match &self.kind {
            Kind::Request { method, .. } => (*method, true),
            _ => (None, false),
        }
    }

    /// Returns the id of a request.
    pub(super) fn request_id(&self) -> Option<&RequestId> {
        match &self.kind {
            Kind::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Returns whether a request declares a revision without sessions.
    pub(super) fn is_stateless(&self) -> bool {
        match self.declared_revision() {
            // Revisions are dates, so future revisions compare as later.
            DeclaredRevision::Complete(named) | DeclaredRevision::VersionOnly(named) => {
                named >= Revision::V2026_07_28.name()
            }
            DeclaredRevision::None => false,
        }
    }
}

/// Parses the bytes of a client, in a session of this revision or before one is open, with these extensions enabled.
pub(super) fn parse(text: &[u8], revision: Option<Revision>, on: &[Extension]) -> Result<Incoming, Rejection> {
    let text = str::from_utf8(text).map_err(|error| Rejection::parse_error(&error))?;
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => parse_message(text, on).map(Incoming::Single),
        Some(b'[') => parse_batch(text, revision, on).map(Incoming::Batch),
        _ => {
            let value: &RawValue = serde_json::from_str(text).map_err(|error| Rejection::parse_error(&error))?;
            Err(not_a_message(value))
        }
    }
}

/// The messages of a batch, and their number.
struct Elements<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

fn parse_batch(
    text: &str,
    revision: Option<Revision>,
    on: &[Extension],
) -> Result<Vec<Result<Message, Rejection>>, Rejection> {
    let Elements { first, count } = parse_elements(text).map_err(|error| Rejection::parse_error(&error))?;
    if !revision.is_some_and(Revision::has_batches) {
        let found =
            revision.map_or("there is no session of it".to_owned(), |revision| format!("this is {}", revision.name()));
        return Err(Rejection::invalid_request(None, format!("batches are of revision 2025-03-26 alone, and {found}")));
    }
    if count == 0 || count > MAX_BATCH {
        let reason = format!("expected a batch of 1 to {MAX_BATCH} messages, found {count}");
        return Err(Rejection::invalid_request(None, reason));
    }
    Ok(first.into_iter().map(|value| parse_batch_element(value, on)).collect())
}

/// Parses the elements of an array, and retains at most the maximum number of a batch.
fn parse_elements(text: &str) -> serde_json::Result<Elements<'_>> {
    struct ElementsVisitor;

    impl<'de> Visitor<'de> for ElementsVisitor {
        type Value = Elements<'de>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a batch")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Elements<'de>, A::Error> {
            let mut first = Vec::new();
            while first.len() < MAX_BATCH {
                match elements.next_element()? {
                    Some(element) => first.push(element),
                    None => return Ok(Elements { count: first.len(), first }),
                }
            }
            let mut count = first.len();
            while elements.next_element::<IgnoredAny>()?.is_some() {
                count = count.saturating_add(1);
            }
            Ok(Elements { first, count })
        }
    }

    let mut json = serde_json::Deserializer::from_str(text);
    let elements = json.deserialize_seq(ElementsVisitor)?;
    json.end()?;
    Ok(elements)
}

fn parse_batch_element(value: &RawValue, on: &[Extension]) -> Result<Message, Rejection> {
    if !value.get().starts_with('{') {
        return Err(not_a_message(value));
    }
    match parse_message(value.get(), on)? {
        Message { kind: Kind::Request { id, name, .. }, .. } if name == "initialize" => {
            Err(Rejection::invalid_request(Some(id), "`initialize` cannot be part of a batch"))
        }
        message => Ok(message),
    }
}

/// The members of a message, as raw JSON.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn parse_message(text: &str, on: &[Extension]) -> Result<Message, Rejection> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| match error.is_data() {
        true => Rejection::invalid_request(None, format!("expected every member once: {}", without_position(&error))),
        false => Rejection::parse_error(&error),
    })?;
    let id = envelope.id.map(parse_request_id);
    let readable = id.clone().and_then(Result::ok);
    let refuse = |reason: &str| Rejection::invalid_request(readable.clone(), reason);
    if envelope.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
        return Err(refuse("expected `\"jsonrpc\": \"2.0\"`"));
    }
    let is_answer = envelope.result.is_some() || envelope.error.is_some();
    let method = match envelope.method.map(|method| serde_json::from_str(method.get())) {
        Some(Ok(TruncatedString::<MAX_METHOD_LEN>(method))) => method,
        Some(Err(_)) => return Err(refuse("expected `method` to be a string")),
        None if is_answer => return Ok(Message { kind: Kind::Response, meta: RequestMeta::default() }),
        None => return Err(refuse("expected a `method`, or the `result` or `error` of an answer")),
    };
    let id = match id {
        Some(Ok(id)) => id,
        Some(Err(reason)) => return Err(Rejection::invalid_request(None, reason)),
        None => {
            let is_cancellation = method == "notifications/cancelled";
            let cancels = envelope.params.filter(|_| is_cancellation).and_then(params::cancelled_request_id);
            let cancels = cancels.and_then(|id| parse_request_id(id).ok());
            return Ok(Message {
                kind: Kind::Notification { method, cancelled_request: cancels },
                meta: RequestMeta::default(),
            });
        }
    };
    let name = method;
    let method = Method::named(&name, on);
    let ParsedParams { request, meta } = parse_params(&name, method, envelope.params);
    Ok(Message { kind: Kind::Request { id, name, method, request }, meta })
}

fn parse_request_id(id: &RawValue) -> Result<RequestId, String> {
    let expected = || "expected an `id` that is a string or an integer".to_owned();
    if !id.get().starts_with('"') {
        return serde_json::from_str(id.get()).map(RequestId::Number).map_err(|_| expected());
    }
    match serde_json::from_str(id.get()) {
        Ok(BoundedString::<MAX_ID_LEN>(text)) => Ok(RequestId::Text(text.into())),
        Err(_) => Err(format!("expected an `id` of at most {MAX_ID_LEN} bytes")),
    }
}

fn not_a_message(value: &RawValue) -> Rejection {
    let found = match value.get().as_bytes().first() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'"') => "a string",
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        _ => "a number",
    };
    Rejection::invalid_request(None, format!("expected a JSON-RPC message, an object, found {found}"))
}

#[cfg(test)]
mod allocation_tests;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SESSION: Option<Revision> = Some(Revision::V2025_11_25);
    const BATCHES: Option<Revision> = Some(Revision::V2025_03_26);

    fn rejection(text: &str) -> Rejection {
        parse(text.as_bytes(), SESSION, &[]).unwrap_err()
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_code_of_json_rpc() {
        for text in ["", "{", "nothing", "{\"a\": 1,}", "{} {}", "\u{0}"] {
            assert_eq!(rejection(text).error.code, ErrorCode::PARSE_ERROR, "{text}");
        }
        for text in ["null", "5", "\"x\"", "[]", "{}", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"method\":5}"] {
            assert_eq!(rejection(text), Rejection { id: None, ..rejection(text) }, "{text}");
            assert_eq!(rejection(text).error.code, ErrorCode::INVALID_REQUEST, "{text}");
        }
    }

    #[test]
    fn a_refusal_names_the_request_where_its_id_can_be_read() {
        let named = rejection("{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}");
        assert_eq!(named.id, Some(RequestId::Number(7)));
        for id in ["null", "1.5", "true", "[]", "{}", "18446744073709551615"] {
            let unnamed = rejection(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}"));
            assert_eq!((unnamed.id, unnamed.error.code), (None, ErrorCode::INVALID_REQUEST), "{id}");
        }
    }

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        let kind = |value: Value| match parse(value.to_string().as_bytes(), SESSION, &[]) {
            Ok(Incoming::Single(message)) => message.kind,
            other => panic!("{other:?}"),
        };
        let request = kind(json!({"jsonrpc": "2.0", "id": "a", "method": "ping"}));
        assert!(matches!(request, Kind::Request { request: Ok(Request::Ping), .. }));
        let malformed = kind(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read"}));
        assert!(matches!(malformed, Kind::Request { request: Err(_), .. }));
        let initialized = kind(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert!(matches!(initialized, Kind::Notification { cancelled_request: None, .. }));
        let answer = kind(json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        assert!(matches!(answer, Kind::Response));
        let error = kind(json!({"jsonrpc": "2.0", "error": {"code": 1, "message": ""}}));
        assert!(matches!(error, Kind::Response));
    }

    #[test]
    fn a_batch_is_taken_apart_in_its_revision_alone() {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let initialize = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize"});
        let text = json!([ping, 5, initialize]).to_string();
        let Ok(Incoming::Batch(parts)) = parse(text.as_bytes(), BATCHES, &[]) else { panic!("it is a batch") };
        assert!(parts[0].is_ok());
        assert_eq!(parts[1].as_ref().unwrap_err().id, None);
        assert_eq!(parts[2].as_ref().unwrap_err().id, Some(RequestId::Number(2)));
        for revision in [None, SESSION, Some(Revision::V2026_07_28)] {
            assert!(parse(text.as_bytes(), revision, &[]).is_err(), "{revision:?}");
        }
        let long = Value::Array(vec![ping; MAX_BATCH + 1]).to_string();
        assert!(parse(long.as_bytes(), BATCHES, &[]).is_err());
        assert!(parse(b"[]", BATCHES, &[]).is_err());
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_a_message_or_refused(text in ".{0,80}", revision in 0_usize..5) {
            match parse(text.as_bytes(), Revision::ALL.get(revision).copied(), &[]) {
                Ok(Incoming::Batch(messages)) => prop_assert!(!messages.is_empty()),
                Ok(Incoming::Single(_)) => prop_assert!(text.contains("2.0")),
                Err(refusal) => prop_assert!(
                    [ErrorCode::PARSE_ERROR, ErrorCode::INVALID_REQUEST].contains(&refusal.error.code)
                ),
            }
        }

        #[test]
        fn a_request_with_any_parameters_keeps_its_id(id in any::<i64>(), uri in ".*", cursor in any::<bool>()) {
            let params = json!({ "uri": uri, "cursor": cursor, "ref": [uri], "level": id });
            for method in ["resources/list", "resources/read", "completion/complete", "logging/setLevel", "nonsense"] {
                let text = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
                let Ok(Incoming::Single(message)) = parse(text.as_bytes(), SESSION, &[]) else { panic!("{method}") };
                let Kind::Request { id: found, .. } = message.kind else { panic!("{method}") };
                prop_assert_eq!(found, RequestId::Number(id));
            }
        }
    }
}
