//! Upstreams that misbehave, together with a plugin and a client that must not be affected. The effects on a single
//! call are tested in the crate `mcp-host-upstream` (`tests/it/hostile.rs`, with a list of the kinds); the tests here
//! need the whole program.

use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Folder, HttpServer, MockOrigin, Plugin, RawHttp, RecordedRequest, Reply,
    Revision, Rule, wait_until,
};
use serde_json::{Value, json};

/// Returns a server in shell that answers the handshake; `script` handles all other lines, with the id of the request
/// in `$id`.
fn shell(script: &str) -> String {
    let script = format!(
        r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *server/discover*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"?"}}}}\n' "$id" ;;
    *'"initialize"'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"protocolVersion":"2025-06-18","capabilities":{{"resources":{{}}}},"serverInfo":{{"name":"sh","version":"1"}}}}}}\n' "$id" ;;
    {script}
    *resources/list*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"resources":[{{"uri":"x:a","name":"a"}}]}}}}\n' "$id" ;;
    *resources/read*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"contents":[{{"uri":"x:a","text":"fine"}}]}}}}\n' "$id" ;;
    *'"ping"'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{}}}}\n' "$id" ;;
  esac
done
"#
    );
    let command = serde_json::to_string(&["/bin/sh", "-c", &script]).unwrap();
    format!(
        "[[upstream]]\nname = 'up'\ncommand = {command}\nsandbox = 'none'\ngrants.env = {{ PATH = '/usr/bin:/bin' }}\nmount = 'up+'\n"
    )
}

#[tokio::test]
async fn a_line_of_a_gigabyte_takes_no_memory_and_leaves_others_alone() {
    let folder = Folder::with_files([("a.txt", "a file")]);
    let upstream = shell("*x:huge*) head -c 1073741824 /dev/zero | tr '\\000' x; echo ;;");
    let config = ConfigFile::new()
        .plugin(Plugin::files("f", folder.path()))
        .append(&format!("{upstream}limits = {{ response-size = '1MiB', deadline = '2s' }}\n"))
        .allow_all()
        .write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    assert_eq!(client.text("up+x:a").await, "fine");
    let before = server.peak_rss();
    client.read_error("up+x:huge").await;
    assert_eq!(client.text("files://f/a.txt").await, "a file");
    server.log_line("a line of the upstream is too long, and passed over").await;
    // The next response is behind the rest of the line.
    while client.read("up+x:a").await.is_err() {}
    let grown = server.peak_rss().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown}");
    server.end().await;
}

#[tokio::test]
async fn a_flood_of_a_program_is_logged_and_ends_its_connection() {
    let folder = Folder::with_files([("a.txt", "a file")]);
    let upstream = shell("*x:flood*) yes '' ;;");
    let config = ConfigFile::new()
        .plugin(Plugin::files("f", folder.path()))
        .append(&format!("{upstream}limits = {{ deadline = '2s' }}\n"))
        .allow_all()
        .write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    assert_eq!(client.text("up+x:a").await, "fine");
    client.read_error("up+x:flood").await;
    let line = server.log_line("the connection to the upstream was ended").await;
    assert!(line.contains("WARN") && line.contains("more than 10000 events or lines at once"), "{line}");
    assert_eq!(client.text("files://f/a.txt").await, "a file");
    // The program is started again.
    while client.read("up+x:a").await.is_err() {}
    server.end().await;
}

/// The responses of a server with `x:open` and `x:secret`. Every response that can contain a URI discloses the second
/// one.
fn talkative(request: &RecordedRequest) -> Reply {
    if request.method != "POST" {
        return Reply::status(405);
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let uri = message["params"]["uri"].as_str().unwrap_or_default();
    let both = |other: &str| json!([{ "uri": "x:open", "name": "open", "text": "open" }, { "uri": other, "name": "other", "text": "SECRET" }]);
    let result = match message["method"].as_str().unwrap() {
        "initialize" => {
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {}, "completions": {} },
            "serverInfo": { "name": "talkative", "version": "1" } })
        }
        "resources/list" => json!({ "resources": both("x:secret") }),
        "resources/templates/list" => json!({ "resourceTemplates": [{ "uriTemplate": "x:{name}", "name": "all" }] }),
        "resources/read" if uri == "x:open" => json!({ "contents": both("x:secret") }),
        "resources/read" if uri == "x:bad" => {
            let error = json!({ "code": -32602, "message": "do you mean up+x:secret, or x:secret?" });
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            return Reply::ok("application/json", answer.to_string());
        }
        "resources/read" => json!({ "contents": [{ "uri": uri, "text": "SECRET" }] }),
        "completion/complete" => json!({ "completion": { "values": ["open", "secret"], "total": 2 } }),
        method if method.starts_with("notifications/") => return Reply::status(202),
        _ => return Reply::status(400),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Reply::ok("application/json", answer.to_string()).header("mcp-session-id", "s")
}

#[tokio::test]
async fn what_a_rule_denies_is_not_told_wherever_an_upstream_names_it() {
    let origin = MockOrigin::http().await;
    origin.serve_with("/mcp", talkative);
    let text = format!("[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\n", origin.url("/mcp"));
    let rule = Rule::for_principal("*").allow(["up+**"]).deny(["up+x:secret"]);
    let config = ConfigFile::new().append(&text).rule(rule).write();
    let server = HttpServer::start(&config).await;
    let mut client = RawHttp::start(server.url(), Revision::V_2026_07_28).await;
    let template =
        json!({ "ref": { "type": "ref/resource", "uri": "up+x:{name}" }, "argument": { "name": "name", "value": "" } });
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "up+x:open" })),
        ("resources/read", json!({ "uri": "up+x:bad" })),
        ("completion/complete", template),
    ] {
        let answer = client.request(method, params.clone()).await.message.to_string();
        assert!(!answer.to_lowercase().contains("secret"), "{method} {params}: {answer}");
    }
    let denied = client.request("resources/read", json!({ "uri": "up+x:secret" })).await.message["error"].clone();
    let missing = client.request("resources/read", json!({ "uri": "none:secret" })).await.message["error"].clone();
    assert_eq!(denied.to_string().replace("up+x", "none"), missing.to_string());
    server.end().await;
}

#[tokio::test]
async fn a_server_with_a_certificate_of_somebody_else_is_told_nothing() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let origin = MockOrigin::https(&authority).await;
    origin.serve_with("/mcp", talkative);
    let folder = Folder::with_files([("ca.pem", authority.pem()), ("token", "hunter2")]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\nauth = {{ token = {{ file = '{}' }} }}\n",
        origin.url("/mcp"),
        path("token")
    );
    let config = ConfigFile::new().append(&text).allow_all().write();
    let server = HttpServer::start_service(&config, &[("SSL_CERT_FILE", path("ca.pem"))]).await;
    let client = server.client(Revision::V_2026_07_28).await;
    assert_eq!(client.text("up+x:other").await, "SECRET");
    origin.change_certificate(&other);
    origin.take_down().await;
    origin.bring_up().await;
    let before = origin.request_count("/mcp");
    client.read_error("up+x:other").await;
    server.log_line("the upstream cannot be reached any more").await;
    assert_eq!(origin.request_count("/mcp"), before, "no token was sent");
    origin.change_certificate(&authority);
    while client.read("up+x:other").await.is_err() {}
    wait_until("it was asked again", || origin.request_count("/mcp") > before).await;
    server.end().await;
}
