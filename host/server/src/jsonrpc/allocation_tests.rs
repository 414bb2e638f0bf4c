//! The cost of reading any message, measured by counting allocations.
//!
//! Every member of every message gets values of extreme length, depth, number and form.

#![allow(clippy::arithmetic_side_effects, reason = "a test fails by panicking")]

use allocation_counter::measure;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::method::Method;

/// The approximate size of each value.
const VALUE_SIZE: usize = 64 << 10;
/// The allowed cost of reading besides the size of the message.
const FIXED_OVERHEAD: usize = 64 << 10;
/// The maximum number of retained bytes of one message: the URIs of `subscriptions/listen`, or the typed values
/// of a completion.
const MAX_RETAINED: usize = 704 << 10;
/// The maximum length of an error.
const MAX_ERROR: usize = 1 << 10;
/// The placeholder for a value.
const PLACEHOLDER: &str = "@hole@";

/// Reads a message. The error describes a cost that exceeds its bound.
fn check_cost(text: &[u8], revision: Option<Revision>) -> Result<(), String> {
    let mut sent = None;
    let spent = measure(|| sent = Some(parse(text, revision, &Extension::ALL)));
    let (peak, kept) = (spent.bytes_max as usize, spent.bytes_current.max(0) as usize);
    let most = text.len() * 4 + FIXED_OVERHEAD;
    if peak > most || kept > MAX_RETAINED {
        return Err(format!("{} bytes took {peak} at once, and {kept} were kept", text.len()));
    }
    match &sent {
        Some(Err(refusal)) if refusal.error.message.len() > MAX_ERROR => return Err(refusal.error.message.to_string()),
        Some(Ok(Incoming::Single(Message {
            kind: Kind::Request { request: Err(InvalidParams(fault)), .. }, ..
        }))) if fault.len() > MAX_ERROR => {
            return Err(fault.clone());
        }
        _ => {}
    }
    Ok(())
}

/// Values of about `size` bytes.
fn values(size: usize) -> Vec<(&'static str, String)> {
    let string = |unit: &str| format!("\"{}\"", unit.repeat(size / unit.len()));
    let list = |unit: &str| format!("[{}{unit}]", format!("{unit},").repeat(size / (unit.len() + 1)));
    let object = |unit: &str| format!("{{{}{unit}}}", format!("{unit},").repeat(size / (unit.len() + 1)));
    let numbered: Vec<_> = (0..size / 12).map(|name| format!("\"{name:x}\":\"\"")).collect();
    vec![
        ("a long string", string("a")),
        ("a string of escapes", string("\\u0001")),
        ("a string of surrogates", string("\\ud83d\\ude00")),
        ("a string of surrogates that are alone", string("\\ud83d")),
        ("a string that is shown escaped", string("\u{7f}")),
        ("zeros", list("0")),
        ("empty strings", list("\"\"")),
        ("URIs", list("\"a:b\"")),
        ("empty objects", list("{}")),
        ("objects", list("{\"\":0}")),
        ("one member again and again", object("\"\":0")),
        ("one member of `params` again and again", object("\"uri\":\"a:b\"")),
        ("many members", format!("{{{}}}", numbered.join(","))),
        ("objects in an object", object("\"x\":{\"y\":{}}")),
        ("a long key", format!("{{{}:0}}", string("k"))),
        ("a long key of escapes", format!("{{{}:0}}", string("\\u006b"))),
        ("deep lists", format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2))),
        ("deep objects", format!("{}0{}", "{\"\":".repeat(size / 5), "}".repeat(size / 5))),
        ("a deep list that breaks off", "[".repeat(size)),
        ("a long number", "1".repeat(size)),
        ("a long fraction", format!("0.{}", "1".repeat(size))),
        ("a long literal", "true".repeat(size / 4)),
        ("white space", format!("{}0", " ".repeat(size))),
    ]
}

/// A message of each method with all its parameters.
fn messages() -> Vec<Value> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "experimental": { "x": {} }, "roots": {} },
        "io.modelcontextprotocol/clientInfo": { "name": "n" },
        "progressToken": 1,
        "more": 1,
    });
    let params = [
        (
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {
                    "experimental": { "x": { "y": [] } }, "extensions": { "x": {} }, "roots": { "listChanged": true },
                    "sampling": {}, "elicitation": {}, "more": 1,
                },
                "clientInfo": { "name": "n", "version": "1", "title": "t", "icons": [], "websiteUrl": "", "more": 1 },
            }),
        ),
        ("ping", json!({})),
        ("server/discover", json!({})),
        ("resources/list", json!({ "uri": "a:b", "cursor": "c" })),
        ("resources/templates/list", json!({ "cursor": "c" })),
        ("resources/read", json!({ "uri": "a:b" })),
        ("resources/metadata", json!({ "uri": "a:b" })),
        ("resources/directory/read", json!({ "uri": "a:b", "cursor": "c" })),
        ("skills/list", json!({ "cursor": "c" })),
        ("skills/get", json!({ "uri": "a:b" })),
        ("resources/subscribe", json!({ "uri": "a:b" })),
        ("resources/unsubscribe", json!({ "uri": "a:b" })),
        (
            "subscriptions/listen",
            json!({
                "notifications": { "resourcesListChanged": true, "resourceSubscriptions": ["a:b"], "more": 1 },
            }),
        ),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/resource", "uri": "a:{b}", "more": 1 },
                "argument": { "name": "b", "value": "", "more": 1 },
                "context": { "arguments": { "c": "d" }, "more": 1 },
            }),
        ),
        ("logging/setLevel", json!({ "level": "info" })),
        ("tools/list", json!({ "cursor": "c" })),
        ("tools/call", json!({ "name": "n", "arguments": { "x": 1 } })),
        ("prompts/list", json!({ "cursor": "c" })),
        ("prompts/get", json!({ "name": "n", "arguments": { "x": "y" } })),
        ("tasks/get", json!({ "taskId": "t" })),
        ("no/such", json!({ "uri": "a:b" })),
    ];
    let missing = Method::names().find(|name| params.iter().all(|(method, _)| method != name));
    assert_eq!(missing, None, "a method has no message here");
    let requests = params.into_iter().map(|(method, mut params)| {
        params["_meta"] = meta.clone();
        params["more"] = json!(1);
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params, "more": 1 })
    });
    let others = [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized", "params": { "_meta": {} } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1, "reason": "r" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "x": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "m", "data": 1 } }),
    ];
    requests.chain(others).collect()
}

/// Returns copies of the message, each with a placeholder in place of one of its values.
fn with_placeholders(message: &Value) -> Vec<Value> {
    let mut all = vec![json!(PLACEHOLDER)];
    match message {
        Value::Object(members) => {
            for (name, value) in members {
                for holed in with_placeholders(value) {
                    let mut message = message.clone();
                    message[name] = holed;
                    all.push(message);
                }
            }
        }
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                for holed in with_placeholders(element) {
                    let mut message = message.clone();
                    message[at] = holed;
                    all.push(message);
                }
            }
        }
        _ => {}
    }
    all
}

#[test]
fn whatever_stands_in_whichever_member_costs_at_most_four_times_the_size_of_the_message() {
    let values = values(VALUE_SIZE);
    let hole = json!(PLACEHOLDER).to_string();
    for holed in messages().iter().flat_map(with_placeholders) {
        for (what, value) in &values {
            let text = holed.to_string().replace(&hole, value);
            let cost = check_cost(text.as_bytes(), Some(Revision::V2025_03_26));
            assert_eq!(cost, Ok(()), "{what} in {holed}");
        }
    }
}

#[test]
fn a_batch_costs_as_much_as_its_messages() {
    let values = values(VALUE_SIZE / 8);
    let hole = json!(PLACEHOLDER).to_string();
    for message in messages() {
        let params = if message["params"].is_object() { "params" } else { "more" };
        let mut holed = message.clone();
        holed[params]["more"] = json!(PLACEHOLDER);
        for (what, value) in &values {
            let one = holed.to_string().replace(&hole, value);
            let text = format!("[{}{one}]", format!("{one},").repeat(63));
            assert_eq!(check_cost(text.as_bytes(), Some(Revision::V2025_03_26)), Ok(()), "{what} in {holed}");
        }
    }
}

#[test]
fn an_id_is_kept_up_to_a_length() {
    let read = |id: &str| {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"ping\"}}");
        parse(text.as_bytes(), None, &[])
    };
    assert!(read(&"x".repeat(MAX_ID_LEN)).is_ok());
    for id in ["x".repeat(MAX_ID_LEN + 1), "\\u0001".repeat(MAX_ID_LEN + 1), "x".repeat(1 << 20)] {
        let refusal = read(&id).unwrap_err();
        assert_eq!((refusal.id, &*refusal.error.message), (None, "expected an `id` of at most 1024 bytes"));
    }
}

#[test]
fn a_member_that_comes_twice_is_refused() {
    for text in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"method\":\"resources/read\"}",
    ] {
        let refusal = parse(text.as_bytes(), None, &[]).unwrap_err();
        assert!(refusal.error.message.starts_with("expected every member once: duplicate field"), "{refusal:?}");
    }
}

/// JSON of any shape.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        Just(json!("a".repeat(20_000))),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        let name = prop_oneof![
            ".{0,8}",
            Just("uri".to_owned()),
            Just("_meta".to_owned()),
            Just("arguments".to_owned()),
            Just("resourceSubscriptions".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..8).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_in_any_member_is_read_within_bounds(which in any::<prop::sample::Index>(), value in any_json()) {
        let holed: Vec<_> = messages().iter().flat_map(with_placeholders).collect();
        let text = which.get(&holed).to_string().replace(&json!(PLACEHOLDER).to_string(), &value.to_string());
        prop_assert_eq!(check_cost(text.as_bytes(), Some(Revision::V2025_03_26)), Ok(()));
    }
}
