//! What a client sent, as JSON-RPC 2.0 and MCP have it: taken apart and checked before anything else is done with it.
//!
//! | sent | answer |
//! |---|---|
//! | no JSON | -32700 |
//! | no message: not an object, another `jsonrpc`, neither `method` nor `result` nor `error` | -32600 |
//! | an `id` that is neither a string nor an integer (MCP forbids `null`), or a string of more than [`MAX_ID`] bytes | -32600 |
//! | a member that is looked at and comes twice | -32600 |
//! | a batch where there are none, an empty one, one of more than [`MAX_BATCH`] messages, or with `initialize` in it | -32600 |
//! | parameters that are not those of the method | -32602, by whoever answers the method ([`Malformed`]) |
//!
//! The answer has the `id` of the request where that could be read, and otherwise none. What is not a request is never
//! answered.
//!
//! # What it costs
//!
//! At most twice the size of the message while it is read, for strings with escapes, and [a bounded
//! number](super::params) of bytes from then on, whatever it says. The text is never made a tree of values: the members that
//! somebody asks for are found as slices of it, read into types that are bounded, and the rest is skipped. What is kept
//! borrows nothing, so the text goes away as soon as it has been read, and rmcp gets a message that is [written
//! anew](super::rewritten).

use std::fmt;

use rmcp::ErrorData;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::params::{self, Clipped, Malformed, Meta, Params, Text, present, without_position};
use super::revision::Revision;
use crate::config::Extension;

/// The most messages of a batch.
pub(super) const MAX_BATCH: usize = 64;
/// The longest `id` of a request, in bytes: it is kept until the request is answered, and stands in the answer.
pub(super) const MAX_ID: usize = 1024;
/// The most of a method's name that is kept, to be held against `Mcp-Method`; no method has a name as long.
const MAX_METHOD: usize = 1024;

/// Why a second handshake is refused.
pub(super) const SECOND_INITIALIZE: &str = "the session is open: `initialize` comes once, and first";

/// What a client sent at once.
#[derive(Debug)]
pub(super) enum Sent {
    /// One message.
    One(Message),
    /// Several messages of one array, in its order.
    Batch(Vec<Result<Message, Refusal>>),
}

/// One message, as far as somebody asks for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// What it is.
    pub(super) kind: Kind,
    /// What its `_meta` says.
    pub(super) meta: Meta,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// It wants an answer.
    Request {
        /// Names the answer.
        id: RequestId,
        /// What is asked for.
        method: String,
        /// What is used of its parameters.
        params: Result<Params, Malformed>,
    },
    /// It wants none.
    Notification {
        /// What it tells.
        method: String,
        /// The request that it says is cancelled.
        cancels: Option<RequestId>,
    },
    /// It is one, to a request of the server's, of which there are none.
    Answer {
        /// The request; none if it names none.
        id: Option<RequestId>,
        /// Whether it has no result, but an error.
        is_error: bool,
    },
}

/// A message that is not taken, with the error that says why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    /// The id of the request, where it could be read.
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
}

impl Refusal {
    /// A message that makes no sense.
    pub(super) fn invalid(id: Option<RequestId>, reason: impl Into<String>) -> Self {
        Self { id, error: ErrorData::invalid_request(reason.into(), None) }
    }

    /// Parameters that are not those of the method.
    pub(super) fn malformed(id: RequestId, malformed: &Malformed) -> Self {
        Self { id: Some(id), error: ErrorData::invalid_params(malformed.0.clone(), None) }
    }

    /// The answer.
    pub(super) fn into_message(self) -> ServerJsonRpcMessage {
        ServerJsonRpcMessage::error(self.error, self.id)
    }

    fn parse_error(error: &impl fmt::Display) -> Self {
        let reason = format!("expected one JSON-RPC message as JSON: {error}");
        Self { id: None, error: ErrorData::parse_error(reason, None) }
    }
}

/// What a request says of its revision for itself, in `_meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// Nothing: it is that of its session.
    Nothing,
    /// That it is of this revision, and all else that a request without a session has to say.
    Whole(&'a str),
    /// That it is of this revision, and no more.
    Partly(&'a str),
}

impl Message {
    /// What a request says of its revision.
    pub(super) fn said(&self) -> Said<'_> {
        match (&self.meta.version, self.meta.has_capabilities) {
            (Some(version), true) => Said::Whole(version),
            (Some(version), false) => Said::Partly(version),
            (None, _) => Said::Nothing,
        }
    }

    /// Whether a request says for itself that it is of a revision without sessions.
    pub(super) fn is_stateless(&self) -> bool {
        match self.said() {
            // Revisions are dates, so those to come are later too.
            Said::Whole(named) | Said::Partly(named) => named >= Revision::Jul2026.name(),
            Said::Nothing => false,
        }
    }

    /// The request that a notification says is cancelled.
    pub(super) fn cancels(&self) -> Option<RequestId> {
        match &self.kind {
            Kind::Notification { cancels, .. } => cancels.clone(),
            _ => None,
        }
    }

    /// What to say to the message when rmcp cannot read it.
    pub(super) fn unreadable(&self) -> Refusal {
        match &self.kind {
            Kind::Request { id, params: Err(malformed), .. } => Refusal::malformed(id.clone(), malformed),
            Kind::Request { id, .. } => Refusal::invalid(Some(id.clone()), "expected a request of MCP"),
            _ => Refusal::invalid(None, "expected a notification or an answer of MCP"),
        }
    }
}

/// A message as it is sent.
pub(super) fn to_json(message: &ServerJsonRpcMessage) -> Vec<u8> {
    // Nothing that a message consists of fails to be written.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Takes apart what a client sent, in a session of that revision, or none yet, with those extensions.
pub(super) fn read(text: &[u8], revision: Option<Revision>, on: &[Extension]) -> Result<Sent, Refusal> {
    let text = str::from_utf8(text).map_err(|error| Refusal::parse_error(&error))?;
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => message(text, on).map(Sent::One),
        Some(b'[') => batch(text, revision, on).map(Sent::Batch),
        _ => {
            let value: &RawValue = serde_json::from_str(text).map_err(|error| Refusal::parse_error(&error))?;
            Err(no_message(value))
        }
    }
}

/// The messages of a batch, and how many there are.
struct Elements<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

fn batch(text: &str, revision: Option<Revision>, on: &[Extension]) -> Result<Vec<Result<Message, Refusal>>, Refusal> {
    let Elements { first, count } = elements(text).map_err(|error| Refusal::parse_error(&error))?;
    if !revision.is_some_and(Revision::has_batches) {
        let found =
            revision.map_or("there is no session of it".to_owned(), |revision| format!("this is {}", revision.name()));
        return Err(Refusal::invalid(None, format!("batches are of revision 2025-03-26 alone, and {found}")));
    }
    if count == 0 || count > MAX_BATCH {
        let reason = format!("expected a batch of 1 to {MAX_BATCH} messages, found {count}");
        return Err(Refusal::invalid(None, reason));
    }
    Ok(first.into_iter().map(|value| in_batch(value, on)).collect())
}

/// The elements of an array, of which no more are kept than a batch may have.
fn elements(text: &str) -> serde_json::Result<Elements<'_>> {
    struct Counted;

    impl<'de> Visitor<'de> for Counted {
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
    let elements = json.deserialize_seq(Counted)?;
    json.end()?;
    Ok(elements)
}

fn in_batch(value: &RawValue, on: &[Extension]) -> Result<Message, Refusal> {
    if !value.get().starts_with('{') {
        return Err(no_message(value));
    }
    match message(value.get(), on)? {
        Message { kind: Kind::Request { id, method, .. }, .. } if method == "initialize" => {
            Err(Refusal::invalid(Some(id), "`initialize` cannot be part of a batch"))
        }
        message => Ok(message),
    }
}

/// The members of a message, as they were sent.
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

fn message(text: &str, on: &[Extension]) -> Result<Message, Refusal> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| match error.is_data() {
        true => Refusal::invalid(None, format!("expected every member once: {}", without_position(&error))),
        false => Refusal::parse_error(&error),
    })?;
    let id = envelope.id.map(request_id);
    let readable = id.clone().and_then(Result::ok);
    let refuse = |reason: &str| Refusal::invalid(readable.clone(), reason);
    if envelope.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
        return Err(refuse("expected `\"jsonrpc\": \"2.0\"`"));
    }
    let is_answer = envelope.result.is_some() || envelope.error.is_some();
    let method = match envelope.method.map(|method| serde_json::from_str(method.get())) {
        Some(Ok(Clipped::<MAX_METHOD>(method))) => method,
        Some(Err(_)) => return Err(refuse("expected `method` to be a string")),
        None if is_answer => {
            let kind = Kind::Answer { id: readable, is_error: envelope.result.is_none() };
            return Ok(Message { kind, meta: Meta::default() });
        }
        None => return Err(refuse("expected a `method`, or the `result` or `error` of an answer")),
    };
    let id = match id {
        Some(Ok(id)) => id,
        Some(Err(reason)) => return Err(Refusal::invalid(None, reason)),
        None => {
            let is_cancellation = method == "notifications/cancelled";
            let cancels = envelope.params.filter(|_| is_cancellation).and_then(params::cancelled);
            let cancels = cancels.and_then(|id| request_id(id).ok());
            return Ok(Message { kind: Kind::Notification { method, cancels }, meta: Meta::default() });
        }
    };
    let params::Read { params, meta } = params::read(&method, envelope.params, on);
    Ok(Message { kind: Kind::Request { id, method, params }, meta })
}

fn request_id(id: &RawValue) -> Result<RequestId, String> {
    let expected = || "expected an `id` that is a string or an integer".to_owned();
    if !id.get().starts_with('"') {
        return serde_json::from_str(id.get()).map(RequestId::Number).map_err(|_| expected());
    }
    match serde_json::from_str(id.get()) {
        Ok(Text::<MAX_ID>(text)) => Ok(RequestId::String(text.into())),
        Err(_) => Err(format!("expected an `id` of at most {MAX_ID} bytes")),
    }
}

fn no_message(value: &RawValue) -> Refusal {
    let found = match value.get().as_bytes().first() {
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        Some(b'"') => "a string",
        Some(b'[') => "an array",
        Some(b'{') => "an object",
        _ => "a number",
    };
    Refusal::invalid(None, format!("expected a JSON-RPC message, an object, found {found}"))
}

#[cfg(test)]
mod budget;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::ErrorCode;
    use serde_json::{Value, json};

    use super::*;

    const SESSION: Option<Revision> = Some(Revision::Nov2025);
    const BATCHES: Option<Revision> = Some(Revision::Mar2025);

    fn refusal(text: &str) -> Refusal {
        read(text.as_bytes(), SESSION, &[]).unwrap_err()
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_code_of_json_rpc() {
        for text in ["", "{", "nothing", "{\"a\": 1,}", "{} {}", "\u{0}"] {
            assert_eq!(refusal(text).error.code, ErrorCode::PARSE_ERROR, "{text}");
        }
        for text in ["null", "5", "\"x\"", "[]", "{}", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"method\":5}"] {
            assert_eq!(refusal(text), Refusal { id: None, ..refusal(text) }, "{text}");
            assert_eq!(refusal(text).error.code, ErrorCode::INVALID_REQUEST, "{text}");
        }
    }

    #[test]
    fn a_refusal_names_the_request_where_its_id_can_be_read() {
        let named = refusal("{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}");
        assert_eq!(named.id, Some(RequestId::Number(7)));
        for id in ["null", "1.5", "true", "[]", "{}", "18446744073709551615"] {
            let unnamed = refusal(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}"));
            assert_eq!((unnamed.id, unnamed.error.code), (None, ErrorCode::INVALID_REQUEST), "{id}");
        }
    }

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        let kind = |value: Value| match read(value.to_string().as_bytes(), SESSION, &[]) {
            Ok(Sent::One(message)) => message.kind,
            other => panic!("{other:?}"),
        };
        let request = kind(json!({"jsonrpc": "2.0", "id": "a", "method": "ping"}));
        assert!(matches!(request, Kind::Request { params: Ok(_), .. }));
        let malformed = kind(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read"}));
        assert!(matches!(malformed, Kind::Request { params: Err(_), .. }));
        let initialized = kind(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(initialized, Kind::Notification { method: "notifications/initialized".into(), cancels: None });
        let answer = kind(json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        assert_eq!(answer, Kind::Answer { id: Some(RequestId::Number(1)), is_error: false });
        let error = kind(json!({"jsonrpc": "2.0", "error": {"code": 1, "message": ""}}));
        assert_eq!(error, Kind::Answer { id: None, is_error: true });
    }

    #[test]
    fn a_batch_is_taken_apart_in_its_revision_alone() {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let initialize = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize"});
        let text = json!([ping, 5, initialize]).to_string();
        let Ok(Sent::Batch(parts)) = read(text.as_bytes(), BATCHES, &[]) else { panic!("it is a batch") };
        assert!(parts[0].is_ok());
        assert_eq!(parts[1].as_ref().unwrap_err().id, None);
        assert_eq!(parts[2].as_ref().unwrap_err().id, Some(RequestId::Number(2)));
        for revision in [None, SESSION, Some(Revision::Jul2026)] {
            assert!(read(text.as_bytes(), revision, &[]).is_err(), "{revision:?}");
        }
        let long = Value::Array(vec![ping; MAX_BATCH + 1]).to_string();
        assert!(read(long.as_bytes(), BATCHES, &[]).is_err());
        assert!(read(b"[]", BATCHES, &[]).is_err());
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_a_message_or_refused(text in ".{0,80}", revision in 0_usize..5) {
            match read(text.as_bytes(), Revision::ALL.get(revision).copied(), &[]) {
                Ok(Sent::Batch(messages)) => prop_assert!(!messages.is_empty()),
                Ok(Sent::One(_)) => prop_assert!(text.contains("2.0")),
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
                let Ok(Sent::One(message)) = read(text.as_bytes(), SESSION, &[]) else { panic!("{method}") };
                let Kind::Request { id: found, .. } = message.kind else { panic!("{method}") };
                prop_assert_eq!(found, RequestId::Number(id));
            }
        }
    }
}
