//! Decodes messages of an upstream from their bytes.
//!
//! A tree of JSON values takes up to a hundred times the bytes of its text, and rmcp tries to parse an answer as each
//! kind of result. So the result of a request of [`ask`](crate::ask) is not parsed here. It is passed on as text, and
//! the call that waits for it parses it as the expected type ([`answer`](crate::answer)), in the call's time and
//! without a tree. The error of such a request keeps its data if they are short; longer data are reduced to whether
//! they contain a `uri`.
//!
//! rmcp parses all other messages (answers of the handshake, notifications, requests), if a tree of their values takes
//! at most a quarter of `limits.memory`. The size of the tree is estimated before parsing. Long messages are decoded on
//! the runtime's threads for blocking tasks.

use bytes::Bytes;
use mcp_host_config::limits::Limits;
use mcp_host_model::json::JsonCount;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use sse_stream::Sse;

/// The minimum length of messages that are decoded on another thread, in bytes.
pub(crate) const LONG: usize = 256 * 1024;
/// Ids of requests begin at a random number from this one on. It is greater than all ids of rmcp, which have 32 bits.
const FIRST_ID: i64 = 1 << 32;
/// The number of first ids. All ids have at most 14 digits: JavaScript can represent them (`Number.MAX_SAFE_INTEGER`),
/// and libraries that write numbers as doubles with 14 digits, such as cjson for Lua, return them unchanged.
const FIRST_IDS: i64 = 1 << 46;
/// The maximum length of parsed error data in bytes.
const MAX_ERROR_DATA: usize = 4096;

/// Why a message was not decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecoded {
    /// It is not JSON, or not a message of the protocol.
    #[error("not a message of the protocol: {0}")]
    Json(#[from] serde_json::Error),
    /// Its values would take too much memory.
    #[error(
        "a message whose {values} values would take more than a quarter of `limits.memory`; raise it if the server is right"
    )]
    TooManyValues {
        /// The number of its values.
        values: usize,
        /// The id of the request that it answers.
        answered: Option<RequestId>,
    },
    /// The host is shutting down.
    #[error("nothing that could be read: the host is shutting down")]
    Ended,
}

/// The members of a message that are read before it is parsed.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<AnsweredError<'a>>,
}

#[derive(Deserialize)]
struct AnsweredError<'a> {
    code: i32,
    message: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorUri {
    uri: IgnoredAny,
}

/// Returns whether a message is a request of [`ask`](crate::ask), whose result is passed on as text.
pub(crate) fn is_asked(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(
        request.request,
        ClientRequest::ReadResourceRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::CompleteRequest(_)
            | ClientRequest::SubscribeRequest(_)
            | ClientRequest::UnsubscribeRequest(_)
    )
}

/// Returns a number for the first id of requests. So the requests of two identities have different ids, and a response
/// that reaches the wrong request, for example from a reverse proxy that confuses them, is noticed.
pub(crate) fn random_first_id() -> i64 {
    FIRST_ID.saturating_add(fastrand::i64(0..FIRST_IDS))
}

/// Returns the maximum length of an upstream's message in bytes: one and a half times `response-size`, because JSON
/// escapes and Base64 lengthen an answer, and 64 KiB for the rest of the message.
pub(crate) fn max_message(limits: &Limits) -> usize {
    let response = usize::try_from(limits.response_size.bytes()).unwrap_or(usize::MAX);
    response.saturating_add(response.div_euclid(2)).saturating_add(64 * 1024)
}

/// Decodes messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    /// The maximum size of a tree in bytes.
    budget: usize,
}

impl Decoder {
    /// Creates a decoder for an upstream with this `limits.memory`.
    pub(crate) fn new(memory: usize) -> Self {
        Self { budget: memory.div_euclid(4) }
    }

    /// Decodes a message. `is_asked` returns for the id of an answer whether its request is one of [`ask`](crate::ask).
    pub(crate) fn decode(
        self,
        bytes: &[u8],
        is_asked: impl Fn(&RequestId) -> bool,
    ) -> Result<ServerJsonRpcMessage, Undecoded> {
        let envelope: Envelope<'_> = serde_json::from_slice(bytes)?;
        let id = envelope.id.filter(|_| envelope.method.is_none());
        let id: Option<RequestId> = id.map(|id| serde_json::from_str(id.get())).transpose()?;
        if let Some(id) = id.as_ref().filter(|id| is_asked(id)) {
            if let Some(result) = envelope.result {
                let text = CustomResult(Value::String(result.get().to_owned()));
                return Ok(ServerJsonRpcMessage::response(ServerResult::CustomResult(text), id.clone()));
            }
            if let Some(error) = envelope.error {
                return Ok(ServerJsonRpcMessage::error(error.reduced(), Some(id.clone())));
            }
        }
        let mut count = JsonCount::default();
        count.feed(bytes);
        if count.tree_bytes() > self.budget {
            return Err(Undecoded::TooManyValues { values: count.values(), answered: id });
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Decodes like [`decode`](Self::decode), on another thread if the message is long.
    pub(crate) async fn decode_any(self, bytes: Bytes, is_asked: bool) -> Result<ServerJsonRpcMessage, Undecoded> {
        if bytes.len() < LONG {
            return self.decode(&bytes, |_| is_asked);
        }
        let decoding = tokio::task::spawn_blocking(move || self.decode(&bytes, |_| is_asked));
        decoding.await.map_err(|_| Undecoded::Ended)?
    }

    /// Returns the event with a message that rmcp can parse at little cost; without data if the message cannot be
    /// decoded. `inspect` is called with the decoded message.
    pub(crate) async fn event(
        self,
        mut event: Sse,
        is_asked: bool,
        inspect: impl FnOnce(&ServerJsonRpcMessage),
    ) -> Sse {
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        let Some(data) = event.data.take_if(|data| is_message && !data.is_empty()) else { return event };
        let data = Bytes::from(data);
        let decoded = self.decode_any(data.clone(), is_asked).await;
        let encoded = match decoded.inspect(inspect) {
            Ok(message @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) if is_asked => {
                serde_json::to_string(&message).map_err(Undecoded::from)
            }
            // The message was decoded, so a tree of its values is within the budget.
            Ok(_) => Ok(String::from_utf8_lossy(&data).into_owned()),
            Err(error) => Err(error),
        };
        match encoded {
            Ok(text) => event.data = Some(text),
            Err(error) => tracing::debug!(%error, "event of the upstream ignored"),
        }
        event
    }
}

impl AnsweredError<'_> {
    fn reduced(self) -> ErrorData {
        let data = self.data.and_then(|data| match data.get() {
            text if text.len() <= MAX_ERROR_DATA => serde_json::from_str(text).ok(),
            text => {
                serde_json::from_str(text).ok().map(|ErrorUri { uri: IgnoredAny }| serde_json::json!({ "uri": true }))
            }
        });
        ErrorData::new(ErrorCode(self.code), self.message, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECODER: Decoder = Decoder { budget: 1 << 20 };

    fn decode(text: &str, is_asked: bool) -> Result<ServerJsonRpcMessage, Undecoded> {
        DECODER.decode(text.as_bytes(), |_| is_asked)
    }

    /// Returns the text of this number of objects.
    fn many(values: usize) -> String {
        format!("[{}]", vec![r#"{"":0}"#; values].join(","))
    }

    #[test]
    fn a_result_that_was_asked_for_is_passed_on_as_its_text() {
        let result = format!(r#"{{ "contents":[ ],"other":{} }}"#, many(1_000_000));
        let text = format!(r#"{{"result":{result},"id":7,"jsonrpc":"2.0"}}"#);
        let Ok(JsonRpcMessage::Response(response)) = decode(&text, true) else { panic!("it is a response") };
        assert_eq!(response.id, RequestId::Number(7));
        assert!(
            matches!(response.result, ServerResult::CustomResult(CustomResult(Value::String(text))) if text == result)
        );
    }

    #[test]
    fn the_data_of_an_error_that_was_asked_for_have_no_tree_if_they_are_long() {
        let text = |data: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":"a","error":{{"code":-32602,"message":"m","data":{data}}}}}"#)
        };
        let data = |data: &str| match decode(&text(data), true) {
            Ok(JsonRpcMessage::Error(error)) => error.error.data,
            other => panic!("{other:?}"),
        };
        assert_eq!(data(r#"{"uri":"x:a","more":[1]}"#), Some(serde_json::json!({ "uri": "x:a", "more": [1] })));
        let long = many(1000);
        assert_eq!(data(&format!(r#"{{"more":{long},"uri":"x:a"}}"#)), Some(serde_json::json!({ "uri": true })));
        assert_eq!((data(&long), data("null")), (None, None));
    }

    #[test]
    fn other_messages_have_as_many_values_as_the_memory_has_room_for() {
        let update = |meta: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"x:a","_meta":{meta}}}}}"#
            )
        };
        assert!(matches!(decode(&update("{}"), true), Ok(JsonRpcMessage::Notification(_))));
        let too_many = format!(r#"{{"a":{}}}"#, many(100_000));
        assert!(matches!(
            decode(&update(&too_many), true),
            Err(Undecoded::TooManyValues { values: 200_000.., answered: None })
        ));
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{too_many}}}"#);
        assert!(matches!(decode(&answer, false), Err(Undecoded::TooManyValues { .. })));
        assert!(matches!(decode("{}", true), Err(Undecoded::Json(_))));
        assert!(matches!(decode("[", true), Err(Undecoded::Json(_))));
    }

    #[tokio::test]
    async fn an_event_has_what_rmcp_parses() {
        let event = |data: &str| Sse { data: Some(data.to_owned()), ..Sse::default() };
        let text = r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"x:\"a"}]}}"#;
        let passed = DECODER.event(event(text), true, |_| {}).await.data.unwrap();
        let Ok(JsonRpcMessage::Response(response)) = serde_json::from_str::<ServerJsonRpcMessage>(&passed) else {
            panic!("{passed}");
        };
        let expected = r#"{"contents":[{"uri":"x:\"a"}]}"#;
        assert!(
            matches!(response.result, ServerResult::CustomResult(CustomResult(Value::String(text))) if text == expected)
        );
        let update = r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#;
        assert_eq!(DECODER.event(event(update), true, |_| {}).await.data.as_deref(), Some(update));
        assert_eq!(DECODER.event(event("["), true, |_| {}).await.data, None);
        let ping = Sse { event: Some("ping".to_owned()), data: Some("[".to_owned()), ..Sse::default() };
        assert_eq!(DECODER.event(ping, true, |_| {}).await.data.as_deref(), Some("["));
    }
}
