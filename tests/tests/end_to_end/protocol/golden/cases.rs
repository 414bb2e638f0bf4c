//! The requests of the golden files: every method with success and with each kind of failure, and all kinds of invalid
//! messages.

use mcp_host_tests::{Revision, initialize_params, initialized_notification, request};
use reqwest::Method;
use serde_json::{Value, json};

/// The cases of one file.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) cases: fn(&Revision) -> Vec<Case>,
}

impl Subject {
    /// Returns the cases in a revision.
    pub(super) fn cases_in(&self, revision: &Revision) -> Vec<Case> {
        (self.cases)(revision)
    }
}

/// All subjects except the subjects of extensions.
pub(super) const SUBJECTS: [Subject; 9] = [
    Subject { name: "lifecycle", cases: lifecycle },
    Subject { name: "listing", cases: listing },
    Subject { name: "templates", cases: templates },
    Subject { name: "reading", cases: reading },
    Subject { name: "completion", cases: completion },
    Subject { name: "subscriptions", cases: subscriptions },
    Subject { name: "other-methods", cases: other_methods },
    Subject { name: "messages", cases: messages },
    Subject { name: "http", cases: http },
];

/// A message to send.
#[derive(Clone)]
pub(super) struct Case {
    /// The name, unique within the subject.
    pub(super) name: &'static str,
    pub(super) payload: Payload,
    /// The number of lines of the response over stdio.
    pub(super) expected_lines: usize,
    /// Whether the case is the first message on its connection.
    pub(super) is_first: bool,
    pub(super) http_only: bool,
    /// The HTTP method, unless it is POST.
    pub(super) method: Option<Method>,
    /// Headers with incorrect values; `None` removes a header.
    pub(super) headers: Vec<(&'static str, Option<&'static str>)>,
}

#[derive(Clone)]
pub(super) enum Payload {
    Message(Value),
    Text(String),
}

impl Payload {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Message(message) => message.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// Returns the payload for the golden file. Long texts are truncated.
    pub(super) fn for_golden(&self) -> Value {
        match self {
            Self::Message(message) => abbreviate(message.clone()),
            Self::Text(text) if text.len() > 1000 => json!(format!("{}… ({} bytes)", &text[..20], text.len())),
            Self::Text(text) => json!(text),
        }
    }
}

/// Replaces the usual `_meta` of a revision without sessions by a placeholder.
fn abbreviate(mut message: Value) -> Value {
    let usual = request(&Revision::V_2026_07_28, 1, "", json!({}))["params"]["_meta"].take();
    match &mut message {
        Value::Array(messages) => messages.iter_mut().for_each(|message| *message = abbreviate(message.take())),
        message if message["params"]["_meta"] == usual => message["params"]["_meta"] = json!("<as it must be>"),
        _ => {}
    }
    message
}

impl Case {
    fn new(what: &'static str, sent: Payload) -> Self {
        Self {
            name: what,
            payload: sent,
            expected_lines: 1,
            is_first: false,
            http_only: false,
            method: None,
            headers: Vec::new(),
        }
    }

    pub(super) fn message(what: &'static str, message: Value) -> Self {
        Self::new(what, Payload::Message(message))
    }

    fn text(what: &'static str, text: impl Into<String>) -> Self {
        Self::new(what, Payload::Text(text.into()))
    }

    pub(super) fn first(self) -> Self {
        Self { is_first: true, ..self }
    }

    fn without_response(self) -> Self {
        Self { expected_lines: 0, ..self }
    }

    fn over_http_only(self) -> Self {
        Self { http_only: true, ..self }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<Option<&'static str>>) -> Self {
        self.headers.push((name, value.into()));
        self.over_http_only()
    }

    pub(super) fn headers_json(&self) -> Value {
        self.headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Builds the cases of one subject, with consecutive ids.
pub(super) struct CaseBuilder<'a> {
    revision: &'a Revision,
    pub(super) cases: Vec<Case>,
}

impl<'a> CaseBuilder<'a> {
    pub(super) fn new(revision: &'a Revision) -> Self {
        Self { revision, cases: Vec::new() }
    }

    fn id(&self) -> u64 {
        self.cases.len() as u64 + 1
    }

    pub(super) fn request(&self, method: &str, params: Value) -> Value {
        request(self.revision, self.id(), method, params)
    }

    pub(super) fn push(&mut self, what: &'static str, method: &str, params: Value) {
        let message = self.request(method, params);
        self.cases.push(Case::message(what, message));
    }

    /// Adds a request with exactly these parameters, without the `_meta` of the revision.
    pub(super) fn push_raw(&mut self, what: &'static str, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": self.id(), "method": method, "params": params });
        self.cases.push(Case::message(what, message));
    }
}

fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn lifecycle(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    let first = |builder: &mut CaseBuilder<'_>, what, method: &str, params| {
        let message = builder.request(method, params);
        builder.cases.push(Case::message(what, message).first());
    };
    if revision.has_initialize() {
        first(&mut builder, "the handshake", "initialize", initialize_params(revision));
        for (what, params) in [
            (
                "the handshake without who the client is",
                json!({ "protocolVersion": revision.as_str(), "capabilities": {} }),
            ),
            (
                "the handshake without a revision",
                json!({ "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } }),
            ),
            (
                "the handshake with parameters of wrong types",
                json!({ "protocolVersion": 5, "capabilities": [], "clientInfo": "x" }),
            ),
        ] {
            first(&mut builder, what, "initialize", params);
        }
        first(&mut builder, "a ping before the handshake", "ping", json!({}));
        first(&mut builder, "a request before the handshake", "resources/list", json!({}));
        builder.push("a second handshake", "initialize", initialize_params(revision));
        builder
            .cases
            .push(Case::message("the end of the handshake, once more", initialized_notification()).without_response());
    } else {
        first(&mut builder, "what there is to know of the server, first of all", "server/discover", json!({}));
        first(&mut builder, "the first request", "resources/templates/list", json!({}));
        first(&mut builder, "a ping, which the revision has not", "ping", json!({}));
        first(&mut builder, "a handshake, which the revision has not", "initialize", initialize_params(revision));
        let message = json!({ "jsonrpc": "2.0", "id": builder.id(), "method": "initialize", "params": initialize_params(revision) });
        builder.cases.push(Case::message("the handshake of older revisions", message).first());
        let params = json!({ "protocolVersion": "1999-12-31", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": builder.id(), "method": "initialize", "params": params });
        builder.cases.push(Case::message("the handshake of a revision that nobody knows", message).first());
        builder.push_raw("a request that says nothing of itself", "resources/list", json!({}));
        builder.push_raw(
            "a request without all that it must say",
            "resources/list",
            json!({ "_meta": {
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            }}),
        );
        builder.push_raw(
            "a request with client capabilities that are none",
            "resources/list",
            json!({ "_meta": {
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientCapabilities": 5,
            }}),
        );
        builder.push_raw(
            "a request of a revision that nobody knows",
            "resources/list",
            json!({ "_meta": {
                "io.modelcontextprotocol/protocolVersion": "1999-12-31",
                "io.modelcontextprotocol/clientCapabilities": {},
            }}),
        );
        let unknown = builder.cases.pop().expect("it was just added");
        builder.cases.push(unknown.header("mcp-protocol-version", "1999-12-31").over_both_transports());
    }
    builder.push("what there is to know of the server", "server/discover", json!({}));
    builder.push("a ping", "ping", json!({}));
    builder.push_raw("a ping with parameters that are none", "ping", json!([]));
    builder.cases
}

impl Case {
    /// Sends the case over stdio, too, where there are no headers.
    fn over_both_transports(self) -> Self {
        Self { http_only: false, ..self }
    }
}

fn listing(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    let list = "resources/list";
    builder.push("the first page", list, json!({}));
    builder.push("the last page, on which a plugin is missing", list, json!({ "cursor": "<cursor>" }));
    builder.push("with a token for progress", list, json!({ "_meta": { "progressToken": "p" } }));
    builder.push("a cursor that nobody gave", list, json!({ "cursor": "made up" }));
    builder.push("an empty cursor", list, json!({ "cursor": "" }));
    builder.push("a cursor that is no text", list, json!({ "cursor": 5 }));
    builder.push("a cursor that is null, which is none", list, json!({ "cursor": null }));
    builder.push_raw("parameters that are no object", list, json!(["x"]));
    builder.push_raw("a `_meta` that is no object", list, json!({ "_meta": "x" }));
    if revision.has_initialize() {
        let message = json!({ "jsonrpc": "2.0", "id": "a", "method": list });
        builder.cases.push(Case::message("without parameters, and with an id that is a text", message));
    }
    builder.cases
}

fn templates(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    let list = "resources/templates/list";
    builder.push("the first page", list, json!({}));
    builder.push("a further page", list, json!({ "cursor": "<cursor>" }));
    builder.push("a cursor of another listing", "resources/list", json!({}));
    builder.push("that cursor", list, json!({ "cursor": "<cursor>" }));
    builder.push("a cursor that is no text", list, json!({ "cursor": { "x": 1 } }));
    builder.cases
}

fn reading(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    for (what, path) in [
        ("a text", "all"),
        ("bytes", "binary"),
        ("several formats of one", "several"),
        ("the contents of what is below it", "folder"),
        ("what a template describes", "item/odd/3"),
        ("what is not there", "nothing"),
        ("what its owner denies", "denied"),
        ("what makes no sense to the provider", "invalid"),
        ("what cannot be had now", "unavailable"),
        ("what the provider fails at", "internal"),
        ("what lies outside its mount", "../b/all"),
    ] {
        builder.push(what, "resources/read", json!({ "uri": format!("sample://a/{path}") }));
    }
    builder.push("what no plugin has", "resources/read", json!({ "uri": "other://a/all" }));
    builder.push("what is no URI", "resources/read", json!({ "uri": "not a URI" }));
    builder.push("what the guest traps at", "resources/read", json!({ "uri": "misbehaving://broken/trap" }));
    builder.push("without a URI", "resources/read", json!({}));
    builder.push("a URI that is no text", "resources/read", json!({ "uri": 5 }));
    builder.push("a URI that is null", "resources/read", json!({ "uri": null }));
    for (what, path) in [
        ("a resource of which nothing is told", "plain"),
        ("a listable resource", "collection"),
        ("a listable resource that has a content of its own", "album"),
    ] {
        builder.push(what, "resources/read", json!({ "uri": format!("sample://a/{path}") }));
    }
    builder.cases
}

fn completion(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    let complete = "completion/complete";
    let template = json!({ "type": "ref/resource", "uri": "sample://a/item/{group}/{number}" });
    let argument = |name: &str, value: &str| json!({ "name": name, "value": value });
    builder.push("what fits", complete, json!({ "ref": template, "argument": argument("group", "ev") }));
    builder.push("what nothing fits", complete, json!({ "ref": template, "argument": argument("group", "x") }));
    builder.push(
        "more than one answer can have",
        complete,
        json!({ "ref": template, "argument": argument("number", "") }),
    );
    builder.push(
        "as other variables have values already",
        complete,
        json!({
            "ref": template, "argument": argument("number", "24"), "context": { "arguments": { "group": "odd" } },
        }),
    );
    builder.push("a variable that is not there", complete, json!({ "ref": template, "argument": argument("x", "") }));
    for (what, reference) in [
        ("a template that is not there", json!({ "type": "ref/resource", "uri": "sample://a/nothing/{x}" })),
        ("a template of nobody", json!({ "type": "ref/resource", "uri": "other://a/{x}" })),
        ("a prompt", json!({ "type": "ref/prompt", "name": "x" })),
        ("a reference of an unknown type", json!({ "type": "ref/tool", "name": "x" })),
        ("a reference without its URI", json!({ "type": "ref/resource" })),
    ] {
        builder.push(what, complete, json!({ "ref": reference, "argument": argument("x", "") }));
    }
    builder.push("without an argument", complete, json!({ "ref": template }));
    builder.push(
        "an argument of a wrong type",
        complete,
        json!({ "ref": template, "argument": argument("group", "")["name"] }),
    );
    builder.push(
        "values that are no texts",
        complete,
        json!({
            "ref": template, "argument": argument("number", ""), "context": { "arguments": { "group": 5 } },
        }),
    );
    builder.push("without parameters", complete, json!({}));
    builder.cases
}

fn subscriptions(revision: &Revision) -> Vec<Case> {
    const SUBSCRIBE: &str = "resources/subscribe";
    const UNSUBSCRIBE: &str = "resources/unsubscribe";
    let mut builder = CaseBuilder::new(revision);
    for (what, method, params) in [
        ("subscribing to a resource that can be", SUBSCRIBE, json!({ "uri": "sample://a/all" })),
        ("subscribing to a resource that cannot be", SUBSCRIBE, json!({ "uri": "sample://a/plain" })),
        ("subscribing to a resource that is not there", SUBSCRIBE, json!({ "uri": "sample://a/nothing" })),
        ("subscribing to what is no URI", SUBSCRIBE, json!({ "uri": "not a URI" })),
        ("subscribing without a URI", SUBSCRIBE, json!({})),
        ("subscribing to a URI that is no text", SUBSCRIBE, json!({ "uri": 5 })),
        ("unsubscribing from a resource that can be", UNSUBSCRIBE, json!({ "uri": "sample://a/all" })),
        ("unsubscribing from a resource that cannot be", UNSUBSCRIBE, json!({ "uri": "sample://a/plain" })),
        ("unsubscribing from a resource that is not there", UNSUBSCRIBE, json!({ "uri": "sample://a/nothing" })),
        ("unsubscribing from what is no URI", UNSUBSCRIBE, json!({ "uri": "not a URI" })),
        ("unsubscribing without a URI", UNSUBSCRIBE, json!({})),
        ("unsubscribing from a URI that is no text", UNSUBSCRIBE, json!({ "uri": 5 })),
    ] {
        builder.push(what, method, params);
    }
    let listen = "subscriptions/listen";
    if revision.has_initialize() {
        builder.push("the stream of a later revision", listen, json!({ "notifications": {} }));
    }
    builder.push("a stream of nothing that is said", listen, json!({}));
    builder.push("a stream of wrong types", listen, json!({ "notifications": { "resourceSubscriptions": 5 } }));
    builder.cases
}

fn other_methods(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    builder.push("the least severe messages to be told", "logging/setLevel", json!({ "level": "emergency" }));
    builder.push("a level that is none", "logging/setLevel", json!({ "level": "loud" }));
    builder.push("without a level", "logging/setLevel", json!({}));
    for (what, method, params) in [
        ("there are no tools", "tools/list", json!({})),
        ("there are no tools to call", "tools/call", json!({ "name": "x", "arguments": {} })),
        ("there are no prompts", "prompts/list", json!({})),
        ("there are no prompts to get", "prompts/get", json!({ "name": "x" })),
        ("there are no tasks", "tasks/get", json!({ "taskId": "x" })),
        ("there are no skills", "skills/list", json!({})),
        ("folders are not read", "resources/directory/read", json!({ "uri": "sample://a/folder" })),
        ("a method of an extension that is off", "resources/metadata", json!({ "uri": "sample://a/all" })),
        ("a method of the client's", "sampling/createMessage", json!({})),
        ("a method that never was", "nonsense", json!({})),
        ("a method without a name", "", json!({})),
    ] {
        builder.push(what, method, params);
    }
    builder.cases
}

fn messages(revision: &Revision) -> Vec<Case> {
    let builder = CaseBuilder::new(revision);
    let ping = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "resources/templates/list" });
    let mut cases = vec![
        Case::text("no JSON", "nonsense"),
        Case::text("JSON that breaks off", r#"{"jsonrpc":"2.0","id":1,"#),
        Case::text(
            "two messages at once",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        ),
        Case::text("null", "null"),
        Case::text("a number", "5"),
        Case::text("an empty object", "{}"),
        Case::text("an empty batch", "[]"),
        Case::message("another JSON-RPC", json!({ "jsonrpc": "1.0", "id": 1, "method": "ping" })),
        Case::message("no JSON-RPC", json!({ "id": 1, "method": "ping" })),
        Case::message("a method that is no text", json!({ "jsonrpc": "2.0", "id": 1, "method": 5 })),
        Case::message("neither a method nor an answer", json!({ "jsonrpc": "2.0", "id": 1 })),
        Case::message("an id that is null", ping(json!(null))),
        Case::message("an id that is no integer", ping(json!(1.5))),
        Case::message("an id that is a list", ping(json!([1]))),
        Case::message("an answer to nothing that was asked", json!({ "jsonrpc": "2.0", "id": 99, "result": {} }))
            .without_response(),
        Case::message(
            "an error to nothing that was asked",
            json!({ "jsonrpc": "2.0", "id": 99, "error": { "code": 1, "message": "" } }),
        )
        .without_response(),
        Case::message("a notification that nobody knows", notification("notifications/nonsense", json!({})))
            .without_response(),
        Case::message("a cancellation of nothing", notification("notifications/cancelled", json!({ "requestId": 99 })))
            .without_response(),
        Case::message(
            "a cancellation that makes no sense",
            notification("notifications/cancelled", json!({ "requestId": [] })),
        )
        .without_response(),
        Case::message("a request without an id, which is none", notification("resources/list", json!({})))
            .without_response(),
    ];
    let read = |id: u64, uri: &str| request(revision, id, "resources/read", json!({ "uri": uri }));
    let batch = json!([read(1, "sample://a/plain"), notification("notifications/nonsense", json!({}))]);
    cases.push(Case::message("a batch of a request and a notification", batch));
    if revision.as_str() == "2025-03-26" {
        let initialize =
            json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": initialize_params(revision) });
        cases.push(Case::message("a batch with what is no message", json!([5, read(2, "sample://a/nothing")])));
        cases.push(Case::message("a batch with a handshake", json!([initialize])));
        cases.push(
            Case::message("a batch of notifications", json!([initialized_notification(), initialized_notification()]))
                .without_response(),
        );
        cases.push(Case::text("a batch that is too long", Value::Array(vec![ping(json!(1)); 65]).to_string()));
    }
    drop(builder);
    cases
}

fn http(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    let list = |builder: &mut CaseBuilder<'_>, what, change: &dyn Fn(Case) -> Case| {
        let message = builder.request("resources/templates/list", json!({ "cursor": "made up" }));
        builder.cases.push(change(Case::message(what, message).over_http_only()));
    };
    list(&mut builder, "accepting JSON alone", &|case| case.header("accept", "application/json"));
    list(&mut builder, "accepting anything", &|case| case.header("accept", "*/*"));
    list(&mut builder, "not saying what is accepted", &|case| case.header("accept", None));
    list(&mut builder, "a body of another type", &|case| case.header("content-type", "text/plain"));
    list(&mut builder, "a body of no type", &|case| case.header("content-type", None));
    list(&mut builder, "a type with a parameter", &|case| {
        case.header("content-type", "application/json; charset=utf-8")
    });
    list(&mut builder, "a foreign host", &|case| case.header("host", "evil.example"));
    list(&mut builder, "a foreign page", &|case| case.header("origin", "https://evil.example"));
    list(&mut builder, "a page of this machine", &|case| case.header("origin", "http://localhost:3000"));
    list(&mut builder, "a revision that nobody knows", &|case| case.header("mcp-protocol-version", "1999-12-31"));
    list(&mut builder, "no revision", &|case| case.header("mcp-protocol-version", None));
    list(&mut builder, "another method than POST", &|case| Case { method: Some(Method::PUT), ..case });
    builder.cases.push(Case::text("a body that is too long", format!("{{{}", " ".repeat(5 << 20))).over_http_only());
    if revision.has_initialize() {
        list(&mut builder, "no session", &|case| case.header("mcp-session-id", None));
        list(&mut builder, "a session that never was", &|case| {
            case.header("mcp-session-id", "00000000-0000-0000-0000-000000000000")
        });
        list(&mut builder, "the stream of the session without accepting one", &|case| {
            Case { method: Some(Method::GET), ..case }.header("accept", "application/json")
        });
        list(&mut builder, "a stream of no session", &|case| {
            Case { method: Some(Method::GET), ..case }.header("mcp-session-id", None)
        });
        list(&mut builder, "an end of no session", &|case| {
            Case { method: Some(Method::DELETE), ..case }.header("mcp-session-id", None)
        });
        if revision.as_str() == "2025-03-26" {
            let batch = || {
                Case::message("", json!([request(revision, 1, "resources/read", json!({ "uri": "sample://a/plain" }))]))
            };
            builder.cases.push(Case { name: "a batch of no revision", ..batch().header("mcp-protocol-version", None) });
            builder
                .cases
                .push(Case { name: "a batch of a later one", ..batch().header("mcp-protocol-version", "2025-06-18") });
            builder.cases.push(Case { name: "a batch without a session", ..batch().header("mcp-session-id", None) });
        }
        list(&mut builder, "the end of the session", &|case| Case { method: Some(Method::DELETE), ..case });
        list(&mut builder, "a request behind it", &|case| case);
    } else {
        list(&mut builder, "another method in the header", &|case| case.header("mcp-method", "resources/list"));
        list(&mut builder, "no method in the headers", &|case| case.header("mcp-method", None));
        list(&mut builder, "an older revision in the header", &|case| {
            case.header("mcp-protocol-version", "2025-11-25")
        });
        list(&mut builder, "a stream without a request", &|case| Case { method: Some(Method::GET), ..case });
        list(&mut builder, "an end of what has none", &|case| Case { method: Some(Method::DELETE), ..case });
        for (what, name) in [
            ("another URI in the header", Some("sample://a/all")),
            ("no URI in the headers", None),
            ("the URI in the header, encoded", Some("=?base64?c2FtcGxlOi8vYS9wbGFpbg==?=")),
        ] {
            let message = builder.request("resources/read", json!({ "uri": "sample://a/plain" }));
            builder.cases.push(Case::message(what, message).header("mcp-name", name));
        }
        let tasks = builder.request("tasks/get", json!({ "taskId": "x" }));
        let tasks = Case::message("no name in the headers for a method that the revision has not", tasks);
        builder.cases.push(tasks.header("mcp-name", None));
        let cancelled = |name| Case::message(name, notification("notifications/cancelled", json!({ "requestId": 99 })));
        builder.cases.push(cancelled("a notification without its method in the headers").header("mcp-method", None));
        builder.cases.push(cancelled("a notification with another method in the headers").header("mcp-method", "ping"));
    }
    builder.cases
}
