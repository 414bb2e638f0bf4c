//! The cases of extensions, and the equivalent cases for a host that does not know the extension.

use mcp_host_tests::{Revision, initialize_params};
use serde_json::{Value, json};

use super::cases::{Case, CaseBuilder, Payload, Subject};

/// One file for each extension, by its name in the config.
pub(super) const EXTENSIONS: [Subject; 2] =
    [Subject { name: "sep-2093", cases: sep_2093 }, Subject { name: "sep-2640-directory-read", cases: directory_read }];

/// The methods of extensions.
const METHODS: [&str; 5] =
    ["resources/metadata", "resources/directory/read", "skills/list", "skills/get", "mcp-host/extension"];

/// A method that no extension has.
const UNKNOWN_METHOD: &str = "nonsense";

/// Returns the case without the extension: an unknown method in place of an extension's method, and no `uri` in
/// `resources/list`. Other cases are unchanged.
pub(super) fn without_extension(case: &Case) -> Case {
    let mut case = case.clone();
    if let Payload::Message(message) = &mut case.payload {
        let method = message["method"].as_str().unwrap_or_default();
        if METHODS.contains(&method) {
            message["method"] = UNKNOWN_METHOD.into();
        } else if method == "resources/list"
            && let Some(params) = message["params"].as_object_mut()
        {
            params.remove("uri");
        }
    }
    case
}

/// Returns the record of a case without the extension, with the request of the other record.
pub(super) fn as_answer_to(plain: &Value, request: &Value) -> Value {
    let request = &request["request"];
    let method = request["method"].as_str().expect("cases of extensions have a method");
    let mut record = plain.clone();
    for member in ["http", "stdio"] {
        if let Some(answer) = record.get_mut(member) {
            let text = answer.to_string().replace(UNKNOWN_METHOD, method);
            *answer = serde_json::from_str(&text).expect("it is still JSON");
        }
    }
    record["request"] = request.clone();
    record
}

fn uri(path: &str) -> String {
    format!("sample://a/{path}")
}

/// The capabilities of the server.
fn capabilities(builder: &mut CaseBuilder<'_>, revision: &Revision) {
    let (method, params) = match revision.has_initialize() {
        true => ("initialize", initialize_params(revision)),
        false => ("server/discover", json!({})),
    };
    let message = builder.request(method, params);
    builder.cases.push(Case::message("what there is", message).first());
}

fn sep_2093(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    capabilities(&mut builder, revision);
    listing_children(&mut builder);
    metadata(&mut builder);
    for (what, path) in [
        ("a text", "all"),
        ("bytes", "binary"),
        ("a resource of which nothing is told", "plain"),
        ("several formats of one", "several"),
        ("a listable resource, with what is below it alone", "collection"),
        ("a listable resource, with what is below it beside its own", "album"),
        ("contents of others, with a resource that cannot be listed", "folder"),
        ("what is not there", "nothing"),
        ("what its owner denies", "denied"),
    ] {
        builder.push(what, "resources/read", json!({ "uri": uri(path) }));
    }
    builder.push("without a URI to read", "resources/read", json!({}));
    if !revision.has_initialize() {
        headers(&mut builder);
    }
    builder.cases
}

fn listing_children(builder: &mut CaseBuilder<'_>) {
    let list = "resources/list";
    builder.push("everything, the first page", list, json!({}));
    builder.push("everything, the last page", list, json!({ "cursor": "<cursor>" }));
    builder.push("what is below a resource", list, json!({ "uri": uri("collection") }));
    builder.push("what is below it, the last page", list, json!({ "uri": uri("collection"), "cursor": "<cursor>" }));
    builder.push("the first page again", list, json!({ "uri": uri("collection") }));
    builder.push("its cursor, below another resource", list, json!({ "uri": uri("album"), "cursor": "<cursor>" }));
    builder.push("its cursor, below nothing", list, json!({ "cursor": "<cursor>" }));
    builder.push("what is below a resource that has a content of its own", list, json!({ "uri": uri("album") }));
    builder.push("what is below one that cannot be listed", list, json!({ "uri": uri("all") }));
    builder.push("what is below one that is not there", list, json!({ "uri": uri("nothing") }));
    builder.push("what is below what no plugin has", list, json!({ "uri": "other://a/collection" }));
    builder.push("what is below no URI", list, json!({ "uri": "not a URI" }));
    builder.push("what is below an empty URI", list, json!({ "uri": "" }));
    builder.push("a URI that is null, which is none", list, json!({ "uri": null, "cursor": null }));
    builder.push("a URI that is no text", list, json!({ "uri": 5 }));
    builder.push("a cursor that is no text", list, json!({ "uri": uri("collection"), "cursor": 5 }));
    builder.push_raw("parameters that are no object", list, json!(["x"]));
}

fn metadata(builder: &mut CaseBuilder<'_>) {
    let metadata = "resources/metadata";
    for (what, path) in [
        ("all that there is to tell", "all"),
        ("of a resource of which nothing is told", "plain"),
        ("of one in several formats", "several"),
        ("of a directory", "collection"),
        ("of a resource that has a content of its own and others below it", "album"),
        ("of what is not there", "nothing"),
        ("of what its owner denies", "denied"),
        ("of what cannot be had now", "unavailable"),
        ("of what the provider fails at", "internal"),
    ] {
        builder.push(what, metadata, json!({ "uri": uri(path) }));
    }
    builder.push("of what no plugin has", metadata, json!({ "uri": "other://a/all" }));
    builder.push("of no URI", metadata, json!({ "uri": "not a URI" }));
    builder.push("without a URI", metadata, json!({}));
    builder.push("with a URI that is no text", metadata, json!({ "uri": 5 }));
    builder.push_raw("with parameters that are no object", metadata, json!(["x"]));
}

/// Headers that contradict the message.
fn headers(builder: &mut CaseBuilder<'_>) {
    let mut ask = |what, method: &str, change: &dyn Fn(Case) -> Case| {
        let message: Value = builder.request(method, json!({ "uri": uri("plain") }));
        builder.cases.push(change(Case::message(what, message)));
    };
    ask("listing, with another method in the header", "resources/list", &|case| {
        case.header("mcp-method", "resources/read")
    });
    ask("listing, with no method in the headers", "resources/list", &|case| case.header("mcp-method", None));
    ask("reading, with another URI in the header", "resources/read", &|case| case.header("mcp-name", "sample://a/all"));
    ask("reading, with no URI in the headers", "resources/read", &|case| case.header("mcp-name", None));
    ask("reading, with the URI encoded in the header", "resources/read", &|case| {
        case.header("mcp-name", "=?base64?c2FtcGxlOi8vYS9wbGFpbg==?=")
    });
    ask("metadata, with another method in the header", "resources/metadata", &|case| {
        case.header("mcp-method", "resources/read")
    });
    ask("metadata, with no URI in the headers, where none needs to be", "resources/metadata", &|case| {
        case.header("mcp-name", None)
    });
    ask("a method of the host's own", "mcp-host/extension", &|case| case);
}

fn directory_read(revision: &Revision) -> Vec<Case> {
    let mut builder = CaseBuilder::new(revision);
    capabilities(&mut builder, revision);
    let read = "resources/directory/read";
    builder.push("a directory", read, json!({ "uri": uri("collection") }));
    builder.push("the last page of it", read, json!({ "uri": uri("collection"), "cursor": "<cursor>" }));
    builder.push("a resource that can be listed and is no directory", read, json!({ "uri": uri("album") }));
    builder.push("a resource that cannot be listed", read, json!({ "uri": uri("all") }));
    builder.push("what is not there", read, json!({ "uri": uri("nothing") }));
    builder.push("what no plugin has", read, json!({ "uri": "other://a/collection" }));
    builder.push("what is no URI", read, json!({ "uri": "not a URI" }));
    builder.push("a cursor that nobody gave", read, json!({ "uri": uri("collection"), "cursor": "made up" }));
    builder.push("without a URI", read, json!({}));
    builder.push("with a cursor that is no text", read, json!({ "uri": uri("collection"), "cursor": 5 }));
    builder.push("all skills, of which there are none", "skills/list", json!({}));
    builder.push("a further page of skills", "skills/list", json!({ "cursor": "made up" }));
    builder.push("with a cursor of skills that is no text", "skills/list", json!({ "cursor": 5 }));
    builder.push("a skill", "skills/get", json!({ "uri": "skill://a/SKILL.md" }));
    builder.push("a skill that is none", "skills/get", json!({ "uri": uri("all") }));
    builder.push("a skill without its URI", "skills/get", json!({}));
    builder.push("what another extension has", "resources/metadata", json!({ "uri": uri("all") }));
    builder.push("a resource, as it is without the extension", "resources/read", json!({ "uri": uri("all") }));
    builder.cases
}
