//! One exchange: sends the request of a case and records the response.

use mcp_host_tests::{RawHttp, RawStdio};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::cases::{Case, Payload};

/// The placeholder of a cursor in the files.
const CURSOR: &str = "<cursor>";

/// The id of a request whose response shows that all earlier messages were processed.
const SENTINEL: &str = "sentinel";

/// Redacts cursors, and remembers the last one that the server returned.
#[derive(Debug, Default)]
pub(super) struct CursorRedactor(Option<String>);

impl CursorRedactor {
    /// Returns the text to send, with the last cursor in place of its placeholder.
    fn insert_cursor(&self, text: &str) -> String {
        text.replace(CURSOR, self.0.as_deref().unwrap_or(CURSOR))
    }

    /// Remembers a cursor, and replaces variable values by placeholders.
    fn redact(&mut self, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact(value)),
            Value::Object(members) => {
                // In the schema of a tool, `nextCursor` is a property.
                if let Some(cursor) = members.get_mut("nextCursor").filter(|cursor| cursor.is_string()) {
                    self.0 = cursor.as_str().map(str::to_owned);
                    *cursor = json!(CURSOR);
                }
                if members.contains_key("name") && members.contains_key("version") {
                    members.insert("version".to_owned(), json!("<version>"));
                }
                members.values_mut().for_each(|value| self.redact(value));
            }
            _ => {}
        }
    }
}

/// Sends the request over stdio and returns all lines of the response.
pub(super) async fn over_stdio(wire: &mut RawStdio, case: &Case, cursors: &mut CursorRedactor) -> Vec<Value> {
    wire.send_line(&cursors.insert_cursor(&case.payload.text())).await;
    let mut lines = Vec::new();
    while lines.len() < case.expected_lines {
        lines.push(wire.line().await.unwrap_or_else(|| panic!("{}: an answer", case.name)));
    }
    // The server must survive the request, and must not have sent more lines than expected.
    wire.send(&json!({ "jsonrpc": "2.0", "id": SENTINEL, "method": "server/discover", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }}}))
    .await;
    loop {
        let line = wire.line().await.unwrap_or_else(|| panic!("{}: the server goes on", case.name));
        if line["id"] == SENTINEL {
            break;
        }
        lines.push(line);
    }
    lines.iter_mut().for_each(|line| cursors.redact(line));
    lines
}

/// Sends the request over HTTP and returns the status, the content type and the messages in the body.
pub(super) async fn over_http(wire: &mut RawHttp, case: &Case, cursors: &mut CursorRedactor) -> Value {
    let message = match &case.payload {
        Payload::Message(message) => message.clone(),
        Payload::Text(_) => Value::Null,
    };
    let mut request = wire.post(&message).body(cursors.insert_cursor(&case.payload.text())).build().expect("a request");
    if let Some(method) = &case.method {
        *request.method_mut() = method.clone();
    }
    for (name, value) in &case.headers {
        let name = HeaderName::from_static(name);
        match value {
            Some(value) => drop(request.headers_mut().insert(name, HeaderValue::from_static(value))),
            None => drop(request.headers_mut().remove(name)),
        }
    }
    let response = reqwest::Client::new().execute(request).await.expect("the server answers");
    let (status, kind) = (response.status().as_u16(), response.headers().get(CONTENT_TYPE).cloned());
    let text = response.text().await.expect("a body");
    let events = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let events =
        events.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).expect("an event is JSON"));
    let mut body = match kind.as_ref().map(HeaderValue::as_bytes) {
        Some(b"text/event-stream") => events.collect(),
        _ if text.is_empty() => Vec::new(),
        _ => vec![serde_json::from_str(&text).unwrap_or(Value::String(text))],
    };
    body.iter_mut().for_each(|message| cursors.redact(message));
    let mut post = Map::new();
    post.insert("status".to_owned(), status.into());
    post.extend(kind.map(|kind| ("type".to_owned(), kind.to_str().expect("ASCII").into())));
    post.insert("body".to_owned(), Value::Array(body));
    Value::Object(post)
}

/// Returns the exchange in the form of a golden file; `None` if the case applies to neither transport.
pub(super) fn record(case: &Case, line: Option<Vec<Value>>, post: Option<Value>) -> Option<Value> {
    if line.is_none() && post.is_none() {
        return None;
    }
    let mut record = Map::new();
    record.insert("case".to_owned(), case.name.into());
    record.insert("request".to_owned(), case.payload.for_golden());
    if !case.headers.is_empty() || case.method.is_some() {
        let method = case.method.as_ref().map_or("POST", |method| method.as_str());
        record.insert("http-request".to_owned(), json!({ "method": method, "headers": case.headers_json() }));
    }
    if let Some(mut post) = post {
        if line.as_deref() == post["body"].as_array().map(Vec::as_slice) {
            post["body"] = json!("as over stdio");
        }
        record.insert("http".to_owned(), post);
    }
    record.extend(line.map(|lines| ("stdio".to_owned(), Value::Array(lines))));
    Some(Value::Object(record))
}
