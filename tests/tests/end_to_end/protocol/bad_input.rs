//! Invalid requests: each gets a specific error, and the server continues.

use mcp_host_tests::{ConfigFile, GitRepo, HttpServer, Plugin, RawStdio, Revision, StdioServer};
use serde_json::{Value, json};

const NOT_FOUND: i64 = -32002;
const INVALID: i64 = -32602;

/// URIs that cannot be read, with their error codes before 2026-07-28 and a part of the message.
const BAD_URIS: [(&str, i64, &str); 37] = [
    ("", INVALID, "does not begin with a scheme"),
    ("README.md", INVALID, "does not begin with a scheme"),
    ("/etc/passwd", INVALID, "does not begin with a scheme"),
    ("://repo/x", INVALID, "does not begin with a scheme"),
    ("not a uri", INVALID, "percent-encode it: `%20`"),
    ("git", INVALID, "does not begin with a scheme"),
    ("file:///etc/passwd", NOT_FOUND, "there is no resource"),
    ("git://other/blob/main/a", NOT_FOUND, "there is no resource"),
    ("urn:isbn:0", NOT_FOUND, "there is no resource"),
    ("git://demo/..", INVALID, "above its root"),
    ("git://demo/../other/x", INVALID, "above its root"),
    ("git://demo/a/../../x", INVALID, "above its root"),
    ("git://demo/%2e%2e/x", INVALID, "above its root"),
    ("git://demo/%2E%2e/%2e%2E/etc/passwd", INVALID, "above its root"),
    ("git://demo/blob/main/%00", INVALID, "is a NUL"),
    ("git://demo/blob/main/a%00.txt", INVALID, "is a NUL"),
    ("git://demo/blob/main/a\\b", INVALID, "percent-encode it: `%5C`"),
    ("git://demo/blob/main/日本", INVALID, "percent-encode it"),
    ("git://demo/blob/main/a b", INVALID, "percent-encode it: `%20`"),
    ("git://demo/blob/main/a\nb", INVALID, "percent-encode it: `%0A`"),
    ("git://demo/blob/main/100%", INVALID, "no two hexadecimal digits"),
    ("git://demo/blob/main/%zz", INVALID, "no two hexadecimal digits"),
    ("git://demo/blob/main/a#L1", INVALID, "fragment"),
    ("git://user:password@demo/blob/main/a", INVALID, "user information"),
    ("git://demo:99999999/blob/main/a", NOT_FOUND, "there is no resource"),
    ("git://demo//blob/main/README.md", INVALID, ""),
    ("git://demo/blob/main/no-such-file", NOT_FOUND, "there is no resource"),
    ("git://demo/blob/no-such-rev/README.md", NOT_FOUND, "there is no resource"),
    ("git://demo/blob/main/src%2Fmain.rs", INVALID, ""),
    ("git://demo/blob/main/..%2F..%2Fetc%2Fpasswd", INVALID, ""),
    ("git://demo/blob/feature/x/a.txt", NOT_FOUND, "there is no resource"),
    ("git://demo/nonsense", INVALID, "expected blob/{rev}"),
    ("git://demo/log/main?limit=0", INVALID, "expected a limit from 1"),
    ("git://demo/log/main?path=..%2Fx", INVALID, "without empty, `.` and `..` segments"),
    ("git://demo/blob/main/.git/config", NOT_FOUND, "there is no resource"),
    ("git://demo/blob/main/src/main.rs/deeper", NOT_FOUND, "there is no resource"),
    ("git://demo/blob/main~1/README.md", NOT_FOUND, "there is no resource"),
];

fn repo() -> GitRepo {
    GitRepo::with_files([("README.md", "hello"), ("src/main.rs", "fn main() {}")])
}

fn assert_error(uri: &str, code: i64, said: &str, error: &Value) {
    let message = error["message"].as_str().unwrap();
    assert_eq!(error["code"], code, "{uri:?}: {error}");
    assert!(message.contains(said), "{uri:?}: {message}");
    for inside in ["/repo", "backtrace", ".rs:", "wasm"] {
        assert!(!message.replace(uri, "").contains(inside), "{uri:?}: {message}");
    }
}

#[tokio::test]
async fn every_bad_uri_has_its_code_and_the_server_goes_on() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("demo", repo.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for (uri, code, said) in BAD_URIS {
        let answer = wire.request("resources/read", json!({ "uri": uri })).await;
        assert_error(uri, code, said, answer.error());
        let good = wire.request("resources/read", json!({ "uri": "git://demo/blob/main/README.md" })).await;
        assert_eq!(good.result()["contents"][0]["text"], "hello", "after {uri:?}");
    }
    wire.end().await;
}

#[tokio::test]
async fn what_is_not_found_is_an_invalid_request_with_its_uri_in_2026_07_28() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("demo", repo.path())).allow_all().write();
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(Revision::V_2026_07_28).await;
    for (uri, code, said) in BAD_URIS {
        // A URI that a header cannot carry is sent encoded; other tests cover that.
        if !uri.bytes().all(|byte| byte.is_ascii_graphic()) || uri.is_empty() {
            continue;
        }
        let answer = wire.request("resources/read", json!({ "uri": uri })).await;
        assert_error(uri, INVALID, said, answer.error());
        if code == NOT_FOUND {
            assert_eq!(answer.error()["data"]["uri"], uri, "{answer:?}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_uri_of_any_length_is_answered() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("demo", repo.path())).write();
    let server = StdioServer::start(&config).await;
    for length in [8_000, 9_000, 1_000_000] {
        let error = server.client().read_error(&format!("git://demo/blob/main/{}", "a".repeat(length))).await;
        let expected = if length < 8_192 { NOT_FOUND } else { INVALID };
        assert_eq!(i64::from(error.code.0), expected, "{length}");
        assert!(error.message.len() < 10_000);
    }
    server.end().await;
}

#[tokio::test]
async fn parameters_that_are_wrong_are_told_from_methods_that_are_unknown() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("demo", repo.path())).write();
    let template = json!({ "type": "ref/resource", "uri": "git://demo/blob/{rev}/{+path}" });
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = RawStdio::start(&config, revision).await;
        for (method, params) in [
            ("resources/read", json!({})),
            ("resources/read", json!({ "uri": 5 })),
            ("resources/read", json!({ "uri": null })),
            ("completion/complete", json!({})),
            ("completion/complete", json!({ "ref": template.clone() })),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "a", "value": "" } }),
            ),
            ("completion/complete", json!({ "ref": template.clone(), "argument": { "name": "no-such", "value": "" } })),
        ] {
            let answer = wire.request(method, params.clone()).await;
            assert_eq!(answer.error_code(), INVALID, "{method} {params}: {answer:?}");
        }
        for method in ["resources/delete", "nonsense", ""] {
            assert_eq!(wire.request(method, json!({})).await.error_code(), -32601, "{method}");
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn a_template_that_is_not_there_cannot_be_completed() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("demo", repo.path())).write();
    let server = StdioServer::start(&config).await;
    for template in
        ["git://demo/nothing/{x}", "git://other/blob/{rev}", "{x}", "git://demo/blob/{rev", "git://{host}/x", ""]
    {
        let error = server.client().complete(template, ("rev", ""), &[]).await.unwrap_err();
        assert!([NOT_FOUND, INVALID].contains(&i64::from(error.code.0)), "{template}: {error:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn lines_that_are_no_messages_do_not_end_the_server() {
    let repo = repo();
    let config = ConfigFile::new().plugin(Plugin::git("demo", repo.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for line in
        ["", "not JSON", "{", "[]", "null", "42", "{}", r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#, "\u{0}"]
    {
        wire.send_line(line).await;
        let good = wire.request("resources/read", json!({ "uri": "git://demo/blob/main/README.md" })).await;
        assert_eq!(good.result()["contents"][0]["text"], "hello", "after {line:?}");
    }
    wire.end().await;
}
