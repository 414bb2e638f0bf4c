//! What a client sent, as JSON-RPC 2.0 and MCP have it: taken apart and checked before anything else is done with it.
//!
//! | sent | answer |
//! |---|---|
//! | no JSON | -32700 |
//! | no message: not an object, another `jsonrpc`, neither `method` nor `result` nor `error` | -32600 |
//! | an `id` that is neither a string nor an integer (MCP forbids `null`) | -32600 |
//! | a batch where there are none, an empty one, one of more than [`MAX_BATCH`] messages, or with `initialize` in it | -32600 |
//! | parameters that are not those of the method | -32602, by whoever answers the method ([`Malformed`]) |
//!
//! The answer has the `id` of the request where that could be read, and otherwise none. What is not a request is never
//! answered.

use std::sync::LazyLock;

use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, ErrorCode, RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::params::{self, Malformed};
use super::revision::Revision;

/// The most messages of a batch.
pub(super) const MAX_BATCH: usize = 64;

/// Why a second handshake is refused.
pub(super) const SECOND_INITIALIZE: &str = "the session is open: `initialize` comes once, and first";

/// The keys in `_meta` that make a request one without a session.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// What a client sent at once.
#[derive(Debug)]
pub(super) enum Sent {
    /// One message.
    One(Message),
    /// Several messages of one array, in its order.
    Batch(Vec<Result<Message, Refusal>>),
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// What it is.
    pub(super) kind: Kind,
    /// All of it.
    pub(super) value: Value,
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
        /// Whether its parameters are those of the method.
        params: Result<(), Malformed>,
    },
    /// It wants none.
    Notification,
    /// It is one, to a request of the server's.
    Answer,
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

    /// A method that there is not.
    pub(super) fn unknown(id: RequestId, method: &'static str) -> Self {
        Self { id: Some(id), error: ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None) }
    }

    /// The answer.
    pub(super) fn into_message(self) -> ServerJsonRpcMessage {
        ServerJsonRpcMessage::error(self.error, self.id)
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
    /// The parameters, as they were sent; an empty object where there are none, which some libraries write as `null`.
    pub(super) fn params(&self) -> &Value {
        static NONE: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
        self.value.get("params").filter(|params| !params.is_null()).unwrap_or(&NONE)
    }

    /// What a request says of its revision.
    pub(super) fn said(&self) -> Said<'_> {
        let meta = self.params().get("_meta");
        let Some(named) = meta.and_then(|meta| meta.get(PROTOCOL_VERSION)).and_then(Value::as_str) else {
            return Said::Nothing;
        };
        let capabilities = meta.and_then(|meta| meta.get(CLIENT_CAPABILITIES));
        match capabilities.is_some_and(|capabilities| ClientCapabilities::deserialize(capabilities).is_ok()) {
            true => Said::Whole(named),
            false => Said::Partly(named),
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
        let is_that = self.kind == Kind::Notification
            && self.value.get("method").and_then(Value::as_str) == Some("notifications/cancelled");
        self.params().get("requestId").filter(|_| is_that).and_then(request_id)
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

/// Takes apart what a client sent, in a session of that revision; none is none yet.
pub(super) fn read(text: &[u8], revision: Option<Revision>) -> Result<Sent, Refusal> {
    let value = serde_json::from_slice(text).map_err(|error| Refusal {
        id: None,
        error: ErrorData::parse_error(format!("expected one JSON-RPC message as JSON: {error}"), None),
    })?;
    match value {
        Value::Array(values) => batch(values, revision).map(Sent::Batch),
        Value::Object(members) => message(members).map(Sent::One),
        other => {
            Err(Refusal::invalid(None, format!("expected a JSON-RPC message, an object, found {}", kind_of(&other))))
        }
    }
}

fn batch(values: Vec<Value>, revision: Option<Revision>) -> Result<Vec<Result<Message, Refusal>>, Refusal> {
    if !revision.is_some_and(Revision::has_batches) {
        let found =
            revision.map_or("there is no session of it".to_owned(), |revision| format!("this is {}", revision.name()));
        return Err(Refusal::invalid(None, format!("batches are of revision 2025-03-26 alone, and {found}")));
    }
    if values.is_empty() || values.len() > MAX_BATCH {
        let reason = format!("expected a batch of 1 to {MAX_BATCH} messages, found {}", values.len());
        return Err(Refusal::invalid(None, reason));
    }
    Ok(values.into_iter().map(in_batch).collect())
}

fn in_batch(value: Value) -> Result<Message, Refusal> {
    let Value::Object(members) = value else {
        let reason = format!("expected a JSON-RPC message, an object, found {}", kind_of(&value));
        return Err(Refusal::invalid(None, reason));
    };
    match message(members)? {
        Message { kind: Kind::Request { id, method, .. }, .. } if method == "initialize" => {
            Err(Refusal::invalid(Some(id), "`initialize` cannot be part of a batch"))
        }
        message => Ok(message),
    }
}

fn message(members: Map<String, Value>) -> Result<Message, Refusal> {
    let id = members.get("id").map(request_id);
    let readable = id.clone().flatten();
    let refuse = |reason: &str| Refusal::invalid(readable.clone(), reason);
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(refuse("expected `\"jsonrpc\": \"2.0\"`"));
    }
    let kind = match (members.get("method"), id) {
        (Some(Value::String(_)), Some(None)) => return Err(refuse("expected an `id` that is a string or an integer")),
        (Some(Value::String(method)), Some(Some(id))) => {
            Kind::Request { id, method: method.clone(), params: params::check(method, members.get("params")) }
        }
        (Some(Value::String(_)), None) => Kind::Notification,
        (Some(_), _) => return Err(refuse("expected `method` to be a string")),
        (None, _) if members.contains_key("result") || members.contains_key("error") => Kind::Answer,
        (None, _) => return Err(refuse("expected a `method`, or the `result` or `error` of an answer")),
    };
    Ok(Message { kind, value: Value::Object(members) })
}

fn request_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        other => other.as_i64().map(RequestId::Number),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SESSION: Option<Revision> = Some(Revision::Nov2025);
    const BATCHES: Option<Revision> = Some(Revision::Mar2025);

    fn refusal(text: &str) -> Refusal {
        read(text.as_bytes(), SESSION).unwrap_err()
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
        let kind = |value: Value| match read(value.to_string().as_bytes(), SESSION) {
            Ok(Sent::One(message)) => message.kind,
            other => panic!("{other:?}"),
        };
        let request = kind(json!({"jsonrpc": "2.0", "id": "a", "method": "ping"}));
        assert!(matches!(request, Kind::Request { params: Ok(()), .. }));
        let malformed = kind(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read"}));
        assert!(matches!(malformed, Kind::Request { params: Err(_), .. }));
        assert_eq!(kind(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), Kind::Notification);
        assert_eq!(kind(json!({"jsonrpc": "2.0", "id": 1, "result": {}})), Kind::Answer);
        assert_eq!(kind(json!({"jsonrpc": "2.0", "error": {"code": 1, "message": ""}})), Kind::Answer);
    }

    #[test]
    fn a_batch_is_taken_apart_in_its_revision_alone() {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let initialize = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize"});
        let text = json!([ping, 5, initialize]).to_string();
        let Ok(Sent::Batch(parts)) = read(text.as_bytes(), BATCHES) else { panic!("it is a batch") };
        assert!(parts[0].is_ok());
        assert_eq!(parts[1].as_ref().unwrap_err().id, None);
        assert_eq!(parts[2].as_ref().unwrap_err().id, Some(RequestId::Number(2)));
        for revision in [None, SESSION, Some(Revision::Jul2026)] {
            assert!(read(text.as_bytes(), revision).is_err(), "{revision:?}");
        }
        let long = Value::Array(vec![ping; MAX_BATCH + 1]).to_string();
        assert!(read(long.as_bytes(), BATCHES).is_err());
        assert!(read(b"[]", BATCHES).is_err());
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_a_message_or_refused(text in ".{0,80}", revision in 0_usize..5) {
            match read(text.as_bytes(), Revision::ALL.get(revision).copied()) {
                Ok(Sent::Batch(messages)) => prop_assert!(!messages.is_empty()),
                Ok(Sent::One(message)) => prop_assert_eq!(&message.value["jsonrpc"], "2.0"),
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
                let Ok(Sent::One(message)) = read(text.as_bytes(), SESSION) else { panic!("{method}") };
                let Kind::Request { id: found, .. } = message.kind else { panic!("{method}") };
                prop_assert_eq!(found, RequestId::Number(id));
            }
        }
    }
}
