//! What is sent: for every method what it does and every way in which it fails, and everything that is no message.

use mcp_host_tests::{Revision, hello, initialized, request};
use reqwest::Method;
use serde_json::{Value, json};

/// The cases of one file.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) cases: fn(&Revision) -> Vec<Case>,
}

/// All files.
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

/// Something to send.
pub(super) struct Case {
    /// What it is, in words.
    pub(super) what: &'static str,
    pub(super) sent: Sent,
    /// How many lines come back over stdio.
    pub(super) lines: usize,
    /// Whether it is the first that the server hears of this client.
    pub(super) is_first: bool,
    pub(super) http_only: bool,
    /// Another method than POST.
    pub(super) method: Option<Method>,
    /// Headers that are other than they should be; none takes one away.
    pub(super) headers: Vec<(&'static str, Option<&'static str>)>,
}

pub(super) enum Sent {
    Message(Value),
    Text(String),
}

impl Sent {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Message(message) => message.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// As it stands in a file: what is too long to read is cut short.
    pub(super) fn shown(&self) -> Value {
        match self {
            Self::Message(message) => shortened(message.clone()),
            Self::Text(text) if text.len() > 1000 => json!(format!("{}… ({} bytes)", &text[..20], text.len())),
            Self::Text(text) => json!(text),
        }
    }
}

/// The message, with a placeholder for what every request of a revision without sessions has.
fn shortened(mut message: Value) -> Value {
    let usual = request(&Revision::V_2026_07_28, 1, "", json!({}))["params"]["_meta"].take();
    match &mut message {
        Value::Array(messages) => messages.iter_mut().for_each(|message| *message = shortened(message.take())),
        message if message["params"]["_meta"] == usual => message["params"]["_meta"] = json!("<as it must be>"),
        _ => {}
    }
    message
}

impl Case {
    fn new(what: &'static str, sent: Sent) -> Self {
        Self { what, sent, lines: 1, is_first: false, http_only: false, method: None, headers: Vec::new() }
    }

    pub(super) fn message(what: &'static str, message: Value) -> Self {
        Self::new(what, Sent::Message(message))
    }

    fn text(what: &'static str, text: impl Into<String>) -> Self {
        Self::new(what, Sent::Text(text.into()))
    }

    pub(super) fn first(self) -> Self {
        Self { is_first: true, ..self }
    }

    fn silent(self) -> Self {
        Self { lines: 0, ..self }
    }

    fn http(self) -> Self {
        Self { http_only: true, ..self }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<Option<&'static str>>) -> Self {
        self.headers.push((name, value.into()));
        self.http()
    }

    pub(super) fn headers_shown(&self) -> Value {
        self.headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Numbers the requests of one subject.
pub(super) struct Asker<'a> {
    revision: &'a Revision,
    pub(super) cases: Vec<Case>,
}

impl<'a> Asker<'a> {
    pub(super) fn of(revision: &'a Revision) -> Self {
        Self { revision, cases: Vec::new() }
    }

    fn id(&self) -> u64 {
        self.cases.len() as u64 + 1
    }

    pub(super) fn request(&self, method: &str, params: Value) -> Value {
        request(self.revision, self.id(), method, params)
    }

    pub(super) fn ask(&mut self, what: &'static str, method: &str, params: Value) {
        let message = self.request(method, params);
        self.cases.push(Case::message(what, message));
    }

    /// Asks with parameters that leave no room for what belongs to the revision.
    pub(super) fn ask_plainly(&mut self, what: &'static str, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": self.id(), "method": method, "params": params });
        self.cases.push(Case::message(what, message));
    }
}

fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn lifecycle(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
    let first = |asker: &mut Asker<'_>, what, method: &str, params| {
        let message = asker.request(method, params);
        asker.cases.push(Case::message(what, message).first());
    };
    if revision.has_initialize() {
        first(&mut asker, "the handshake", "initialize", hello(revision));
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
            first(&mut asker, what, "initialize", params);
        }
        first(&mut asker, "a ping before the handshake", "ping", json!({}));
        first(&mut asker, "a request before the handshake", "resources/list", json!({}));
        asker.ask("a second handshake", "initialize", hello(revision));
        asker.cases.push(Case::message("the end of the handshake, once more", initialized()).silent());
    } else {
        first(&mut asker, "what there is to know of the server", "server/discover", json!({}));
        first(&mut asker, "the first request", "resources/templates/list", json!({}));
        first(&mut asker, "a ping, which the revision has not", "ping", json!({}));
        first(&mut asker, "a handshake, which the revision has not", "initialize", hello(revision));
        let message = json!({ "jsonrpc": "2.0", "id": asker.id(), "method": "initialize", "params": hello(revision) });
        asker.cases.push(Case::message("the handshake of older revisions", message).first());
        let params = json!({ "protocolVersion": "1999-12-31", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": asker.id(), "method": "initialize", "params": params });
        asker.cases.push(Case::message("the handshake of a revision that nobody knows", message).first());
        asker.ask_plainly("a request that says nothing of itself", "resources/list", json!({}));
        asker.ask_plainly(
            "a request without all that it must say",
            "resources/list",
            json!({ "_meta": {
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            }}),
        );
        asker.ask_plainly(
            "a request with client capabilities that are none",
            "resources/list",
            json!({ "_meta": {
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientCapabilities": 5,
            }}),
        );
        asker.ask_plainly(
            "a request of a revision that nobody knows",
            "resources/list",
            json!({ "_meta": {
                "io.modelcontextprotocol/protocolVersion": "1999-12-31",
                "io.modelcontextprotocol/clientCapabilities": {},
            }}),
        );
        let unknown = asker.cases.pop().expect("it was just added");
        asker.cases.push(unknown.header("mcp-protocol-version", "1999-12-31").anywhere());
    }
    asker.ask("what there is to know of the server", "server/discover", json!({}));
    asker.ask("a ping", "ping", json!({}));
    asker.ask_plainly("a ping with parameters that are none", "ping", json!([]));
    asker.cases
}

impl Case {
    /// Takes place over stdio too, where there are no headers.
    fn anywhere(self) -> Self {
        Self { http_only: false, ..self }
    }
}

fn listing(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
    let list = "resources/list";
    asker.ask("the first page", list, json!({}));
    asker.ask("the last page, on which a plugin is missing", list, json!({ "cursor": "<cursor>" }));
    asker.ask("with a token for progress", list, json!({ "_meta": { "progressToken": "p" } }));
    asker.ask("a cursor that nobody gave", list, json!({ "cursor": "made up" }));
    asker.ask("an empty cursor", list, json!({ "cursor": "" }));
    asker.ask("a cursor that is no text", list, json!({ "cursor": 5 }));
    asker.ask("a cursor that is null, which is none", list, json!({ "cursor": null }));
    asker.ask_plainly("parameters that are no object", list, json!(["x"]));
    asker.ask_plainly("a `_meta` that is no object", list, json!({ "_meta": "x" }));
    if revision.has_initialize() {
        let message = json!({ "jsonrpc": "2.0", "id": "a", "method": list });
        asker.cases.push(Case::message("without parameters, and with an id that is a text", message));
    }
    asker.cases
}

fn templates(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
    let list = "resources/templates/list";
    asker.ask("the first page", list, json!({}));
    asker.ask("a further page", list, json!({ "cursor": "<cursor>" }));
    asker.ask("a cursor of another listing", "resources/list", json!({}));
    asker.ask("that cursor", list, json!({ "cursor": "<cursor>" }));
    asker.ask("a cursor that is no text", list, json!({ "cursor": { "x": 1 } }));
    asker.cases
}

fn reading(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
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
        asker.ask(what, "resources/read", json!({ "uri": format!("sample://a/{path}") }));
    }
    asker.ask("what no plugin has", "resources/read", json!({ "uri": "other://a/all" }));
    asker.ask("what is no URI", "resources/read", json!({ "uri": "not a URI" }));
    asker.ask("what the guest traps at", "resources/read", json!({ "uri": "unruly://broken/trap" }));
    asker.ask("without a URI", "resources/read", json!({}));
    asker.ask("a URI that is no text", "resources/read", json!({ "uri": 5 }));
    asker.ask("a URI that is null", "resources/read", json!({ "uri": null }));
    asker.cases
}

fn completion(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
    let complete = "completion/complete";
    let template = json!({ "type": "ref/resource", "uri": "sample://a/item/{group}/{number}" });
    let argument = |name: &str, value: &str| json!({ "name": name, "value": value });
    asker.ask("what fits", complete, json!({ "ref": template, "argument": argument("group", "ev") }));
    asker.ask("what nothing fits", complete, json!({ "ref": template, "argument": argument("group", "x") }));
    asker.ask(
        "more than one answer can have",
        complete,
        json!({ "ref": template, "argument": argument("number", "") }),
    );
    asker.ask(
        "as other variables have values already",
        complete,
        json!({
            "ref": template, "argument": argument("number", "24"), "context": { "arguments": { "group": "odd" } },
        }),
    );
    asker.ask("a variable that is not there", complete, json!({ "ref": template, "argument": argument("x", "") }));
    for (what, reference) in [
        ("a template that is not there", json!({ "type": "ref/resource", "uri": "sample://a/nothing/{x}" })),
        ("a template of nobody", json!({ "type": "ref/resource", "uri": "other://a/{x}" })),
        ("a prompt", json!({ "type": "ref/prompt", "name": "x" })),
        ("a reference of an unknown type", json!({ "type": "ref/tool", "name": "x" })),
        ("a reference without its URI", json!({ "type": "ref/resource" })),
    ] {
        asker.ask(what, complete, json!({ "ref": reference, "argument": argument("x", "") }));
    }
    asker.ask("without an argument", complete, json!({ "ref": template }));
    asker.ask(
        "an argument of a wrong type",
        complete,
        json!({ "ref": template, "argument": argument("group", "")["name"] }),
    );
    asker.ask(
        "values that are no texts",
        complete,
        json!({
            "ref": template, "argument": argument("number", ""), "context": { "arguments": { "group": 5 } },
        }),
    );
    asker.ask("without parameters", complete, json!({}));
    asker.cases
}

fn subscriptions(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        asker.ask("a resource that can be", method, json!({ "uri": "sample://a/all" }));
        asker.ask("a resource that cannot be", method, json!({ "uri": "sample://a/plain" }));
        asker.ask("a resource that is not there", method, json!({ "uri": "sample://a/nothing" }));
        asker.ask("what is no URI", method, json!({ "uri": "not a URI" }));
        asker.ask("without a URI", method, json!({}));
        asker.ask("a URI that is no text", method, json!({ "uri": 5 }));
    }
    let listen = "subscriptions/listen";
    if revision.has_initialize() {
        asker.ask("the stream of a later revision", listen, json!({ "notifications": {} }));
    }
    asker.ask("a stream of nothing that is said", listen, json!({}));
    asker.ask("a stream of wrong types", listen, json!({ "notifications": { "resourceSubscriptions": 5 } }));
    asker.cases
}

fn other_methods(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
    asker.ask("the least severe messages to be told", "logging/setLevel", json!({ "level": "emergency" }));
    asker.ask("a level that is none", "logging/setLevel", json!({ "level": "loud" }));
    asker.ask("without a level", "logging/setLevel", json!({}));
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
        asker.ask(what, method, params);
    }
    asker.cases
}

fn messages(revision: &Revision) -> Vec<Case> {
    let asker = Asker::of(revision);
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
            .silent(),
        Case::message(
            "an error to nothing that was asked",
            json!({ "jsonrpc": "2.0", "id": 99, "error": { "code": 1, "message": "" } }),
        )
        .silent(),
        Case::message("a notification that nobody knows", notification("notifications/nonsense", json!({}))).silent(),
        Case::message("a cancellation of nothing", notification("notifications/cancelled", json!({ "requestId": 99 })))
            .silent(),
        Case::message(
            "a cancellation that makes no sense",
            notification("notifications/cancelled", json!({ "requestId": [] })),
        )
        .silent(),
        Case::message("a request without an id, which is none", notification("resources/list", json!({}))).silent(),
    ];
    let read = |id: u64, uri: &str| request(revision, id, "resources/read", json!({ "uri": uri }));
    let batch = json!([read(1, "sample://a/plain"), notification("notifications/nonsense", json!({}))]);
    cases.push(Case::message("a batch of a request and a notification", batch));
    if revision.as_str() == "2025-03-26" {
        let initialize = json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": hello(revision) });
        cases.push(Case::message("a batch with what is no message", json!([5, read(2, "sample://a/nothing")])));
        cases.push(Case::message("a batch with a handshake", json!([initialize])));
        cases.push(Case::message("a batch of notifications", json!([initialized(), initialized()])).silent());
        cases.push(Case::text("a batch that is too long", Value::Array(vec![ping(json!(1)); 65]).to_string()));
    }
    drop(asker);
    cases
}

fn http(revision: &Revision) -> Vec<Case> {
    let mut asker = Asker::of(revision);
    let list = |asker: &mut Asker<'_>, what, change: &dyn Fn(Case) -> Case| {
        let message = asker.request("resources/templates/list", json!({ "cursor": "made up" }));
        asker.cases.push(change(Case::message(what, message).http()));
    };
    list(&mut asker, "accepting JSON alone", &|case| case.header("accept", "application/json"));
    list(&mut asker, "accepting anything", &|case| case.header("accept", "*/*"));
    list(&mut asker, "not saying what is accepted", &|case| case.header("accept", None));
    list(&mut asker, "a body of another type", &|case| case.header("content-type", "text/plain"));
    list(&mut asker, "a body of no type", &|case| case.header("content-type", None));
    list(&mut asker, "a type with a parameter", &|case| case.header("content-type", "application/json; charset=utf-8"));
    list(&mut asker, "a foreign host", &|case| case.header("host", "evil.example"));
    list(&mut asker, "a foreign page", &|case| case.header("origin", "https://evil.example"));
    list(&mut asker, "a page of this machine", &|case| case.header("origin", "http://localhost:3000"));
    list(&mut asker, "a revision that nobody knows", &|case| case.header("mcp-protocol-version", "1999-12-31"));
    list(&mut asker, "no revision", &|case| case.header("mcp-protocol-version", None));
    list(&mut asker, "another method than POST", &|case| Case { method: Some(Method::PUT), ..case });
    asker.cases.push(Case::text("a body that is too long", format!("{{{}", " ".repeat(5 << 20))).http());
    if revision.has_initialize() {
        list(&mut asker, "no session", &|case| case.header("mcp-session-id", None));
        list(&mut asker, "a session that never was", &|case| {
            case.header("mcp-session-id", "00000000-0000-0000-0000-000000000000")
        });
        list(&mut asker, "the stream of the session without accepting one", &|case| {
            Case { method: Some(Method::GET), ..case }.header("accept", "application/json")
        });
        list(&mut asker, "a stream of no session", &|case| {
            Case { method: Some(Method::GET), ..case }.header("mcp-session-id", None)
        });
        list(&mut asker, "an end of no session", &|case| {
            Case { method: Some(Method::DELETE), ..case }.header("mcp-session-id", None)
        });
        if revision.as_str() == "2025-03-26" {
            let batch = || {
                Case::message("", json!([request(revision, 1, "resources/read", json!({ "uri": "sample://a/plain" }))]))
            };
            asker.cases.push(Case { what: "a batch of no revision", ..batch().header("mcp-protocol-version", None) });
            asker
                .cases
                .push(Case { what: "a batch of a later one", ..batch().header("mcp-protocol-version", "2025-06-18") });
            asker.cases.push(Case { what: "a batch without a session", ..batch().header("mcp-session-id", None) });
        }
        list(&mut asker, "the end of the session", &|case| Case { method: Some(Method::DELETE), ..case });
        list(&mut asker, "a request behind it", &|case| case);
    } else {
        list(&mut asker, "another method in the header", &|case| case.header("mcp-method", "resources/list"));
        list(&mut asker, "no method in the headers", &|case| case.header("mcp-method", None));
        list(&mut asker, "an older revision in the header", &|case| case.header("mcp-protocol-version", "2025-11-25"));
        list(&mut asker, "a stream without a request", &|case| Case { method: Some(Method::GET), ..case });
        list(&mut asker, "an end of what has none", &|case| Case { method: Some(Method::DELETE), ..case });
        for (what, name) in [
            ("another URI in the header", Some("sample://a/all")),
            ("no URI in the headers", None),
            ("the URI in the header, encoded", Some("=?base64?c2FtcGxlOi8vYS9wbGFpbg==?=")),
        ] {
            let message = asker.request("resources/read", json!({ "uri": "sample://a/plain" }));
            asker.cases.push(Case::message(what, message).header("mcp-name", name));
        }
    }
    asker.cases
}
