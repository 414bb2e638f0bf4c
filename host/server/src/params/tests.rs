use mcp_host_model::uri::MAX_URI_LEN;
use serde_json::{Value, json};

use super::*;
use crate::method::{Method, ParsedParams, parse_params};
use crate::request::Request;

fn parse_value(method: &str, params: Option<&Value>) -> ParsedParams {
    let text = params.map(|params| RawValue::from_string(params.to_string()).unwrap());
    parse_params(method, Method::named(method, &[]), text.as_deref())
}

fn fault(method: &str, params: Value) -> String {
    parse_value(method, Some(&params)).request.unwrap_err().0
}

#[test]
fn parameters_are_right_or_it_is_said_what_is_wrong() {
    let list = "resources/list";
    for params in [None, Some(json!(null)), Some(json!({})), Some(json!({"cursor": "x"})), Some(json!({"more": 1}))] {
        assert!(parse_value(list, params.as_ref()).request.is_ok());
    }
    assert_eq!(
        fault(list, json!({"cursor": 5})),
        "resources/list: expected params `{\"cursor\"?: string}`: `cursor`: expected a string, found 5"
    );
    assert_eq!(fault(list, json!(["x"])), "resources/list: expected params to be an object");
    assert_eq!(fault("ping", json!(5)), "ping: expected params to be an object");
    assert_eq!(fault("ping", json!({"_meta": 5})), "ping: `_meta`: expected an object, found 5");
    assert!(fault("resources/read", json!({})).ends_with("missing field `uri`"));
    assert_eq!(parse_value("no/such", Some(&json!({"uri": 5}))).request, Ok(Request::Unknown("no/such".to_owned())));
}

#[test]
fn an_array_is_no_object_and_an_error_names_the_member() {
    let reference = json!({ "type": "ref/resource", "uri": "a:///{b}" });
    let argument = json!({ "name": "b", "value": "" });
    for array in [json!([]), json!([true, ["a:b"]]), json!(["path", "1"]), json!([{ "a": "b" }])] {
        for (method, params, member) in [
            ("subscriptions/listen", json!({ "notifications": array }), "notifications"),
            ("completion/complete", json!({ "ref": array, "argument": argument }), "ref"),
            ("completion/complete", json!({ "ref": reference, "argument": array }), "argument"),
            ("completion/complete", json!({ "ref": reference, "argument": argument, "context": array }), "context"),
            ("initialize", json!({ "capabilities": array }), "capabilities"),
            ("initialize", json!({ "capabilities": {}, "clientInfo": array }), "clientInfo"),
        ] {
            let fault = fault(method, params);
            assert!(fault.ends_with(&format!(": `{member}`: expected an object, found an array")), "{fault}");
        }
        let context = json!({ "ref": reference, "argument": argument, "context": { "arguments": array } });
        let fault = fault("completion/complete", context);
        assert!(fault.ends_with(": `context.arguments`: expected an object, found an array"), "{fault}");
        let meta =
            json!({ "_meta": { (PROTOCOL_VERSION_META_KEY): "2026-07-28", (CLIENT_CAPABILITIES_META_KEY): array } });
        assert!(!parse_value("ping", Some(&meta)).meta.has_capabilities);
    }
    let absent = json!({ "ref": reference, "argument": argument, "context": null });
    assert!(parse_value("completion/complete", Some(&absent)).request.is_ok());
}

#[test]
fn the_error_of_a_member_names_it_wherever_it_is() {
    let argument = |name: Value, value: Value| json!({ "ref": { "type": "ref/resource", "uri": "a:///{b}" }, "argument": { "name": name, "value": value } });
    let client = |info: Value| json!({ "capabilities": {}, "protocolVersion": "x", "clientInfo": info });
    let reference = |reference: Value| json!({ "ref": reference, "argument": { "name": "b", "value": "" } });
    for (method, params, expected) in [
        ("resources/read", json!({ "uri": null }), "`uri`: expected a string, found null"),
        ("resources/list", json!({ "cursor": { "a": 1 } }), "`cursor`: expected a string, found an object"),
        ("logging/setLevel", json!({ "level": ["info"] }), "`level`: expected a string, found an array"),
        ("completion/complete", argument(json!("b"), json!(1.5)), "`argument.value`: expected a string, found 1.5"),
        ("completion/complete", argument(json!(true), json!("")), "`argument.name`: expected a string, found true"),
        ("completion/complete", reference(json!({ "type": "ref/resource" })), "missing field `ref.uri`"),
        (
            "completion/complete",
            reference(json!({ "type": "x" })),
            "`ref.type`: expected `ref/resource` or `ref/prompt`, found `x`",
        ),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt" }, "argument": { "name": "b", "value": "" },
                "context": { "arguments": { "group": 5 } },
            }),
            "`context.arguments`: `group`: expected a string, found 5",
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourcesListChanged": 1 } }),
            "`notifications.resourcesListChanged`: expected a boolean, found 1",
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": "a:b" } }),
            "`notifications.resourceSubscriptions`: expected an array, found the string \"a:b\"",
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": ["a:b", 5] } }),
            "`notifications.resourceSubscriptions`: expected strings, found 5",
        ),
        ("initialize", client(json!({ "version": "1" })), "missing field `clientInfo.name`"),
        (
            "initialize",
            client(json!({ "name": "a", "version": 1 })),
            "`clientInfo.version`: expected a string, found 1",
        ),
        ("initialize", json!({ "capabilities": { "roots": "all" } }), "expected an object, found the string \"all\""),
        (
            "tools/call",
            json!({ "name": "a", "arguments": "x" }),
            "`arguments`: expected an object, found the string \"x\"",
        ),
    ] {
        let fault = fault(method, params);
        assert!(fault.ends_with(&format!(": {expected}")), "{fault}");
    }
}

#[test]
fn what_is_asked_for_is_kept_as_it_was_sent() {
    for length in [0, 1, 63, 64, 65, 1000, MAX_URI_LEN] {
        let uri = "ü".repeat(length / 2);
        let params = json!({ "uri": uri });
        let read = parse_value("resources/read", Some(&params)).request;
        assert_eq!(read, Ok(Request::Read(uri)));
    }
}

#[test]
fn a_member_that_is_looked_at_comes_once() {
    let raw = RawValue::from_string("{\"uri\":\"a:b\",\"x\":1,\"x\":2,\"uri\":\"a:c\"}".to_owned()).unwrap();
    let fault = parse_params("resources/read", Method::named("resources/read", &[]), Some(&raw)).request.unwrap_err().0;
    assert_eq!(fault, "resources/read: duplicate field `uri`");
}

#[test]
fn an_error_repeats_no_long_text() {
    let long = "\u{7f}".repeat(100_000);
    for (method, params) in [
        ("resources/read", json!({ "uri": long })),
        ("resources/list", json!({ "cursor": long })),
        ("completion/complete", json!({ "ref": long })),
        ("completion/complete", json!({ "ref": { "type": long } })),
        ("completion/complete", json!({ "ref": { "type": "ref/resource", "uri": long } })),
        ("subscriptions/listen", json!({ "notifications": long })),
        ("subscriptions/listen", json!({ "notifications": { "resourcesListChanged": long } })),
        ("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": long } })),
        ("logging/setLevel", json!({ "level": long })),
        ("initialize", json!({ "capabilities": long, "clientInfo": long, "protocolVersion": long })),
        ("initialize", json!({ "capabilities": { "roots": long } })),
        ("initialize", json!({ "capabilities": { "experimental": { "x": long } } })),
        ("initialize", json!({ "capabilities": {}, "clientInfo": long })),
        ("ping", json!({ "_meta": long })),
    ] {
        let fault = fault(method, params);
        assert!(fault.len() < 600, "{method}: {fault}");
    }
}

#[test]
fn of_a_client_its_revision_is_kept() {
    let long = "ü".repeat(1000);
    let info = json!({ "name": long, "version": "\u{1}".repeat(100_000), "title": "t", "websiteUrl": 5 });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "x": [long] }, "clientInfo": info });
    let Ok(Request::Initialize(initialize)) = parse_value("initialize", Some(&params)).request else { panic!() };
    assert_eq!(*initialize, InitializeParams { version: "2025-11-25".to_owned() });
}

#[test]
fn streams_are_of_so_many_resources_and_no_more() {
    let resources = |uris: Value| {
        let params = json!({ "notifications": { "resourceSubscriptions": uris } });
        let Ok(Request::Listen(listen)) = parse_value("subscriptions/listen", Some(&params)).request else { panic!() };
        listen.subscriptions.unwrap()
    };
    assert_eq!(resources(json!(["a:b", "a:c"])), ["a:b", "a:c"]);
    assert_eq!(resources(json!(vec!["a:b"; 2000])).len(), 1024);
    let long = "a".repeat(8192);
    assert_eq!(resources(json!(vec![long.as_str(); 2000])).len(), 32);
    assert_eq!(resources(json!([long + "a", "a:b"])), ["a:b"]);
}

#[test]
fn values_that_are_known_are_kept_up_to_a_number() {
    let params = |count: usize| {
        let known: serde_json::Map<_, _> = (0..count).map(|name| (name.to_string(), json!("x"))).collect();
        json!({
            "ref": { "type": "ref/resource", "uri": "a:{x}" }, "argument": { "name": "x", "value": "" },
            "context": { "arguments": known },
        })
    };
    let Ok(Request::Complete(complete)) = parse_value("completion/complete", Some(&params(64))).request else {
        panic!()
    };
    assert_eq!(complete.context.len(), 64);
    assert!(fault("completion/complete", params(65)).ends_with("expected at most 64 arguments, found more"));
}

#[test]
fn what_meta_says_of_a_request_is_whether_it_says_all() {
    let meta = |meta: Value| parse_value("ping", Some(&json!({ "_meta": meta }))).meta;
    let whole =
        meta(json!({ PROTOCOL_VERSION_META_KEY: "2026-07-28", CLIENT_CAPABILITIES_META_KEY: { "x": [1] }, "more": 5 }));
    assert_eq!(
        whole,
        RequestMeta {
            is_valid: true,
            version: Some("2026-07-28".to_owned()),
            has_capabilities: true,
            traceparent: None
        }
    );
    for capabilities in [json!(5), json!(null), json!({ "roots": 5 }), json!({ "extensions": { "x": 5 } })] {
        assert!(!meta(json!({ CLIENT_CAPABILITIES_META_KEY: capabilities })).has_capabilities, "{capabilities}");
    }
    assert_eq!(meta(json!({ PROTOCOL_VERSION_META_KEY: 5 })).version, None);
}
