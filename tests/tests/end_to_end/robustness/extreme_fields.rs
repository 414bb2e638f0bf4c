//! Property test of every field of every answer of the contract, with the longest, most numerous and most expensive
//! values that the limits allow.
//!
//! It checks the principle of docs/security.md: whatever a field contains, each request is answered, a good plugin is
//! answered without delay while the answer is being validated, and the memory of the process stays within the plugin's
//! limit, the response to the client, and a constant. The combinations are random, and the same in every run.

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, Revision, RpcResponse, fixture};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::proptest_config::with_cases;

/// Text fields. They have no count.
const TEXTS: &[&str] = &[
    "annotations.last-modified",
    "body.blob",
    "body.text",
    "body.text-bytes",
    "changes.token",
    "entry.description",
    "entry.meta",
    "entry.mime-type",
    "entry.name",
    "entry.path",
    "entry.title",
    "failure.denied",
    "failure.internal",
    "failure.invalid-request",
    "failure.unavailable",
    "icon.mime-type",
    "icon.src",
    "info.description",
    "info.name",
    "info.title",
    "info.version",
    "page.next-cursor",
    "template.description",
    "template.meta",
    "template.mime-type",
    "template.name",
    "template.path-template",
    "template.title",
    "annotations.priority",
];
/// List fields, of records or of texts.
const LISTS: &[&str] = &[
    "annotations.audience",
    "changes.changed",
    "completion.values",
    "entry.icons",
    "icon.sizes",
    "page.entries",
    "page.templates",
    "read.contents",
    "template.icons",
];
/// Units of texts: characters that JSON escapes six-fold, trees, templates, dot segments, percent signs, multi-byte
/// characters.
const PATTERNS: &[&str] =
    &["a", "\u{1}", "\u{2028}", "{\"\":0},", "[[", "{a}", "{+a}/", "../", "/", "%41", "%", "\"\\"];
/// Lengths of a text in bytes: the maximum of a URI, the maximum of a hint, nearly the maximum of an answer.
const LENGTHS: &[usize] = &[60, 8 << 10, 400 << 10, 7 << 20];
/// Lengths of a list: around the maximum, and far beyond.
const COUNTS: &[usize] = &[100, 9_999, 10_001, 300_000];

/// The memory limit of each plugin.
const MEMORY: &str = "32MiB";
const REPLY: &str = "8MiB";
/// The maximum memory of the process: itself with its engine, one plugin's memory, a response in flight.
const MAX_RSS: u64 = 256 << 20;
/// The number of plugins with extreme answers in one server.
const PLUGINS: usize = 6;
/// The number of combinations in one run.
const SERVERS: u32 = 8;

/// An answer with one extreme field.
#[derive(Clone, Debug)]
struct AnswerShape {
    field: &'static str,
    text: &'static str,
    length: usize,
    count: usize,
}

/// Generates shapes that fit into the guest's memory.
fn shapes() -> impl Strategy<Value = AnswerShape> {
    let texts = (select(TEXTS), select(PATTERNS), select(LENGTHS));
    let texts = texts.prop_map(|(field, text, length)| AnswerShape { field, text, length, count: 1 });
    let lists = (select(LISTS), select(PATTERNS), select(LENGTHS), select(COUNTS));
    let lists = lists.prop_map(|(field, text, length, count)| AnswerShape {
        field,
        text,
        length: length.min(LENGTHS[3] / count),
        count,
    });
    prop_oneof![2 => texts, 1 => lists]
}

impl AnswerShape {
    fn plugin(&self, name: &str) -> Plugin {
        Plugin::new(name, &fixture("raw"), &format!("raw://{name}/"))
            .config("field", self.field)
            .config("text", self.text)
            .config("length", i64::try_from(self.length).unwrap())
            .config("count", i64::try_from(self.count).unwrap())
            .limit("memory", MEMORY)
            .limit("response-size", REPLY)
            .limit("cpu", "500ms")
            .limit("response-items", 10_000)
    }
}

async fn send(server: &HttpServer, revision: &Revision, method: &str, params: Value) -> RpcResponse {
    let mut wire = server.raw_client(revision.clone()).await;
    let answer = wire.request(method, params).await;
    let members = ["result", "error"].map(|member| answer.message.get(member).is_some());
    assert!(members[0] != members[1], "{method}: expected a result or an error, found {answer:.300?}");
    answer
}

/// Sends every kind of request that calls a plugin.
async fn send_all(server: &HttpServer, revision: &Revision, plugin: &str) {
    let uri = format!("raw://{plugin}/x");
    let template = json!({ "type": "ref/resource", "uri": format!("raw://{plugin}/{{a}}/0") });
    let complete = json!({ "ref": template, "argument": { "name": "a", "value": "" } });
    send(server, revision, "resources/read", json!({ "uri": uri })).await;
    send(server, revision, "completion/complete", complete).await;
    if revision.has_initialize() {
        send(server, revision, "resources/subscribe", json!({ "uri": uri })).await;
    }
}

async fn assert_good_plugin_answers(server: &HttpServer) {
    let answer =
        send(server, &Revision::V_2026_07_28, "resources/read", json!({ "uri": "misbehaving://good/good" })).await;
    assert_eq!(answer.result()["contents"][0]["text"], "good");
}

async fn assert_bounds_hold(shapes: &[AnswerShape]) {
    let plugins = shapes.iter().enumerate().map(|(number, shape)| shape.plugin(&format!("bad{number}")));
    let config =
        plugins.fold(ConfigFile::new(), ConfigFile::plugin).plugin(Plugin::misbehaving("good")).allow_all().write();
    let server = HttpServer::start(&config).await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        send(&server, &revision, "resources/list", json!({})).await;
        send(&server, &revision, "resources/templates/list", json!({})).await;
        for number in 0..shapes.len() {
            let plugin = format!("bad{number}");
            tokio::join!(send_all(&server, &revision, &plugin), assert_good_plugin_answers(&server));
        }
    }
    let resident = server.peak_rss();
    assert!(resident < MAX_RSS, "the host took up {} MiB", resident >> 20);
    server.end().await;
}

proptest! {
    #![proptest_config(with_cases(SERVERS))]

    #[test]
    fn no_field_of_no_answer_costs_more_than_it_may(shapes in vec(shapes(), PLUGINS)) {
        Runtime::new().unwrap().block_on(assert_bounds_hold(&shapes));
    }
}
