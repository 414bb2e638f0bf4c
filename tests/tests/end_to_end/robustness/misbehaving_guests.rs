//! Guests that trap, hang, allocate, flood and send false data, with good ones that are still served.

use mcp_host_tests::{Client, ConfigFile, GitRepo, Plugin, RawStdio, Revision, StdioServer, fixture};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};

/// Texts that no client may receive: words from inside a guest and of its toolchain, and paths that the guest sees.
const INTERNALS: [&str; 7] = ["/very/secret", "/repo", "backtrace", "wasm", "unreachable", "panicked", ".rs"];

/// The guest `misbehaving` under low limits. Limits on time are not low, because times depend on the machine.
fn misbehaving_plugin(name: &str) -> Plugin {
    let limits =
        [("memory", "16MiB"), ("response-size", "2MiB"), ("log", "8KiB/m"), ("cpu", "10s"), ("deadline", "30s")];
    limits.into_iter().fold(Plugin::misbehaving(name), |plugin, (key, value)| plugin.limit(key, value))
}

/// A config with good plugins before and after the bad one.
fn between_good_ones(repo: &GitRepo, bad: Plugin) -> ConfigFile {
    let good = |name: &str| Plugin::new(name, &fixture("misbehaving"), &format!("good://{name}/"));
    let many = |name: &str| good(name).config("list", "many").config("count", 2);
    ConfigFile::new().plugin(many("a")).plugin(bad).plugin(Plugin::git("demo", repo.path())).plugin(many("z"))
}

fn repo() -> GitRepo {
    GitRepo::with_files([("README.md", "hello")])
}

/// Asserts that a client's result contains no internals, and no path of this machine.
fn assert_no_internals(text: &str) {
    let inside = INTERNALS.iter().find(|inside| text.to_lowercase().contains(*inside));
    assert_eq!(inside, None, "{text}");
    let machine = [env!("CARGO_MANIFEST_DIR").into(), std::env::temp_dir()];
    assert!(machine.iter().all(|path| !text.contains(path.to_str().unwrap())), "{text}");
}

/// Returns the reason that a listing gives for the missing plugin `bad`, after asserting that the good plugins are
/// complete.
async fn missing_reason_beside_good(list: &str) -> Option<Value> {
    let repo = repo();
    let bad = match list {
        "loop" => misbehaving_plugin("bad").limit("cpu", "50ms"),
        // `describe` must end within that time, too.
        "sleep" => misbehaving_plugin("bad").limit("deadline", "5s"),
        _ => misbehaving_plugin("bad"),
    };
    let config = between_good_ones(&repo, bad.config("list", list)).write();
    let server = StdioServer::start(&config).await;
    let page = server.client().page(None).await.unwrap();
    server.end().await;
    let good = page.resources.iter().filter(|resource| !resource.uri.starts_with("misbehaving:"));
    let good: Vec<_> = good.map(|resource| resource.uri.as_str()).collect();
    assert_eq!(good.len(), 5, "{list}: {good:?}");
    let page = serde_json::to_value(&page).unwrap();
    assert_no_internals(&page.to_string());
    let missing = page["_meta"]["mcp-host/missing"].as_array()?;
    assert_eq!(missing.len(), 1, "{list}: {missing:?}");
    assert_eq!(missing[0]["plugin"], "bad");
    Some(missing[0]["reason"].clone())
}

#[tokio::test]
async fn a_plugin_that_does_not_list_is_missing_and_the_reason_is_in_plain_words() {
    let failed = "it failed; the server's log says why";
    for (list, reason) in [
        ("trap", failed),
        ("panic", failed),
        ("recurse", failed),
        ("internal", failed),
        ("loop", "it used up its CPU time"),
        ("sleep", "it took too long"),
        ("grow", "it ran out of memory"),
        ("unavailable", "the well is dry"),
        ("long-cursor", failed),
    ] {
        assert_eq!(missing_reason_beside_good(list).await, Some(json!(reason)), "{list}");
    }
}

#[tokio::test]
async fn a_listing_that_is_too_large_is_missing() {
    let reason = missing_reason_beside_good("huge").await.unwrap();
    assert_eq!(reason, "its response is larger than the 2.0 MiB allowed");
}

#[tokio::test]
async fn a_plugin_that_only_makes_noise_is_listed() {
    for list in ["flood-log", "flood-stdout"] {
        assert_eq!(missing_reason_beside_good(list).await, None, "{list}");
    }
}

async fn read_error(client: &Client, path: &str) -> ErrorData {
    let error = client.read_error(&format!("misbehaving://{path}")).await;
    assert_no_internals(&serde_json::to_string(&error).unwrap());
    error
}

#[tokio::test]
async fn a_read_that_fails_is_an_error_of_its_kind_and_the_next_read_is_answered() {
    let repo = repo();
    let frugal = misbehaving_plugin("frugal").limit("cpu", "50ms");
    let hurried = misbehaving_plugin("hurried").limit("deadline", "5s");
    let config = between_good_ones(&repo, misbehaving_plugin("bad")).plugin(frugal).plugin(hurried).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let internal = json!({ "kind": "internal", "plugin": "bad" });
    let unavailable = |plugin: &str| json!({ "kind": "unavailable", "plugin": plugin });
    for (path, data) in [
        ("bad/trap", &internal),
        ("bad/panic", &internal),
        ("bad/recurse", &internal),
        ("bad/internal", &internal),
        ("bad/foreign", &internal),
        ("bad/nothing", &internal),
        ("frugal/loop", &unavailable("frugal")),
        ("frugal/host-calls", &unavailable("frugal")),
        ("hurried/sleep", &unavailable("hurried")),
        ("bad/grow", &unavailable("bad")),
        ("bad/large", &unavailable("bad")),
        ("bad/unavailable", &json!({ "kind": "unavailable", "plugin": "bad", "retryAfterMs": 7000 })),
    ] {
        let error = read_error(client, path).await;
        assert_eq!((error.code, error.data.as_ref()), (ErrorCode::INTERNAL_ERROR, Some(data)), "{path}: {error:?}");
        assert_eq!(client.text("misbehaving://bad/good").await, "good", "after {path}");
        assert_eq!(client.text("git://demo/blob/main/README.md").await, "hello", "after {path}");
    }
    server.end().await;
}

#[tokio::test]
async fn what_a_provider_says_to_the_client_reaches_it() {
    let config = ConfigFile::new().plugin(misbehaving_plugin("bad")).write();
    let server = StdioServer::start(&config).await;
    let invalid = read_error(server.client(), "bad/invalid").await;
    assert_eq!((invalid.code, invalid.data.as_ref()), (ErrorCode::INVALID_PARAMS, None));
    assert!(invalid.message.contains("expected another path"), "{}", invalid.message);
    let denied = read_error(server.client(), "bad/denied").await;
    assert_eq!((denied.code, denied.data), (ErrorCode::INVALID_PARAMS, Some(json!({ "kind": "denied" }))));
    assert!(denied.message.contains("the keeper says no"), "{}", denied.message);
    assert!(read_error(server.client(), "bad/unavailable").await.message.contains("the well is dry"));
    server.end().await;
}

#[tokio::test]
async fn why_a_guest_failed_is_in_the_log_under_its_plugins_name() {
    let config = ConfigFile::new().plugin(misbehaving_plugin("bad").limit("cpu", "50ms")).write();
    let server = StdioServer::start(&config).await;
    for path in ["bad/internal", "bad/panic", "bad/loop"] {
        read_error(server.client(), path).await;
    }
    let log = server.end().await.log;
    for said in ["failed: the secret is at /very/secret/place", "panicked at", "ran for longer than `limits.cpu`"] {
        // The lines of a record after the first begin with `  |`, and its fields are at its end.
        let lines = log.lines().skip_while(|line| !line.contains(said));
        let record = lines.enumerate().take_while(|(index, line)| *index == 0 || line.starts_with("  |"));
        assert!(record.map(|(_, line)| line).any(|line| line.contains("bad")), "{said}:\n{log}");
    }
}

#[tokio::test]
async fn paths_that_leave_the_mount_are_left_out_and_the_others_are_listed() {
    let repo = repo();
    let config = between_good_ones(&repo, misbehaving_plugin("bad").config("list", "paths")).write();
    let server = StdioServer::start(&config).await;
    let uris = server.client().uris().await;
    let bad: Vec<_> = uris.iter().filter(|uri| uri.starts_with("misbehaving:")).collect();
    assert_eq!(bad, ["misbehaving://bad/good", "misbehaving://bad/git://demo/README.md"]);
    assert_eq!(uris.len(), 7, "{uris:?}");
    let log = server.end().await.log;
    assert!(log.contains("`../escape` is refused"), "{log}");
}

#[tokio::test]
async fn hints_that_are_wrong_are_dropped_and_the_entry_stays() {
    let config = ConfigFile::new().plugin(misbehaving_plugin("bad").config("list", "hints")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let listed = wire.request("resources/list", json!({})).await;
    assert_eq!(
        listed.result()["resources"],
        json!([{
            "uri": "misbehaving://bad/good",
            "name": "good",
            "icons": [{ "src": "https://example.com/good.png" }],
            "_meta": { "example.com/kept": 1 },
        }])
    );
    assert_eq!(listed.result().get("_meta"), None, "a provider cannot speak for the host");
    let log = wire.end().await.log;
    for hint in ["priority", "last-modified", "icon", "MIME type"] {
        assert!(log.contains(&format!("{hint} of `good` dropped")), "{hint}: {log}");
    }
}

#[tokio::test]
async fn what_the_sdk_would_not_let_a_guest_do_is_caught_as_well() {
    let plugin = Plugin::new("raw", &fixture("raw"), "raw://raw/").config("list", "meta/1");
    let config = ConfigFile::new().plugin(plugin).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let resources = client.resources().await;
    assert_eq!((resources.len(), resources[0].meta.as_ref()), (1, None), "metadata that is no JSON is dropped");
    assert_eq!(client.text("raw://raw/good").await, "good");
    let error = client.read_error("raw://raw/not-utf8").await;
    assert_eq!(error.data.unwrap(), json!({ "kind": "internal", "plugin": "raw" }));
    let log = server.end().await.log;
    assert!(log.contains("is not UTF-8"), "{log}");
}

#[tokio::test]
async fn a_cursor_that_leads_back_ends_that_plugins_part_of_the_listing() {
    let repo = repo();
    let config = between_good_ones(&repo, misbehaving_plugin("bad").config("list", "same-cursor")).page_size(3).write();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    let uris: Vec<_> = pages.iter().flat_map(|page| &page.resources).map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris.iter().filter(|uri| uri.starts_with("misbehaving:")).count(), 1, "{uris:?}");
    assert_eq!(uris.iter().filter(|uri| !uri.starts_with("misbehaving:")).count(), 5, "{uris:?}");
    server.end().await;
}

#[tokio::test]
async fn a_cursor_that_its_provider_disowns_ends_the_listing_of_that_client_with_an_invalid_cursor() {
    let config =
        ConfigFile::new().page_size(1).plugin(misbehaving_plugin("bad").config("list", "no-such-cursor")).write();
    let server = StdioServer::start(&config).await;
    let first = server.client().page(None).await.unwrap();
    let error = server.client().page(first.next_cursor.as_deref()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    server.end().await;
}

#[tokio::test]
async fn a_listing_that_never_ends_is_given_in_bounded_pages() {
    for list in ["endless", "endless-empty"] {
        let config = ConfigFile::new().page_size(10).plugin(misbehaving_plugin("bad").config("list", list)).write();
        let server = StdioServer::start(&config).await;
        let mut cursor = None;
        for _ in 0..3 {
            let page = server.client().page(cursor.as_deref()).await.unwrap();
            assert_eq!(page.resources.len(), if list == "endless" { 10 } else { 0 });
            cursor = page.next_cursor;
            assert!(cursor.is_some());
        }
        server.end().await;
    }
}

#[tokio::test]
async fn slow_reads_of_one_plugin_hold_up_neither_another_nor_those_who_would_wait() {
    let repo = repo();
    let slow = misbehaving_plugin("slow").limit("concurrency", 2).limit("queue-timeout", "0s");
    let config = ConfigFile::new().plugin(slow).plugin(Plugin::git("demo", repo.path())).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let read = |uri: &str| json!({ "uri": uri });
    let mut under_way = Vec::new();
    for path in ["slow?ms=25001", "slow?ms=25002"] {
        under_way.push(wire.send_request("resources/read", read(&format!("misbehaving://slow/{path}"))).await);
        wire.log_line(&format!("a slow read has begun: {path}")).await;
    }
    let quick = wire.request("resources/read", read("git://demo/blob/main/README.md")).await;
    assert_eq!(quick.result()["contents"][0]["text"], "hello");
    let third = wire.request("resources/read", read("misbehaving://slow/good")).await;
    assert_eq!(third.error()["data"], json!({ "kind": "unavailable", "plugin": "slow", "retryAfterMs": 1000 }));
    for id in under_way {
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }))
            .await;
    }
    wire.end().await;
}

#[tokio::test]
async fn floods_of_log_and_output_are_cut_and_what_was_dropped_is_told() {
    let config = ConfigFile::new().plugin(misbehaving_plugin("bad")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for path in ["flood-log", "flood-stdout"] {
        let read = wire.request("resources/read", json!({ "uri": format!("misbehaving://bad/{path}") })).await;
        assert_eq!(read.result()["contents"][0]["text"], "survived", "{path}");
    }
    wire.close_stdin();
    // Every line on standard output was a message; if not, `RawStdio` would have failed.
    let log = wire.wait_clean_exit().await.log;
    assert!(log.contains("logs more than `limits.log` allows"), "{log}");
    assert!(log.len() < 200 << 10, "{} bytes of log", log.len());
}
