//! `mcp-host keyvalue`: an administrator lists and fills the buckets of plugins while a server runs.

use std::fs;
use std::process::Stdio;

use mcp_host_tests::{ConfigFile, Output, Plugin, StdioServer, WrittenConfig, host_command, run, run_on_terminal};
use serde_json::json;
use tokio::io::AsyncWriteExt;

fn config() -> WrittenConfig {
    let plugin = Plugin::keyvalue("a").bucket("pages").bucket_with_quota("small", "1KiB", 3);
    ConfigFile::new().plugin(plugin).plugin(Plugin::keyvalue("bare")).write()
}

fn arguments<'a>(config: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let options_end = arguments.iter().position(|argument| *argument == "--").unwrap_or(arguments.len());
    let (options, rest) = arguments.split_at(options_end);
    ["keyvalue"].iter().chain(options).chain(&["--config", config]).chain(rest).copied().collect()
}

async fn keyvalue(config: &WrittenConfig, words: &[&str]) -> Output {
    run(arguments(config.path().to_str().unwrap(), words)).await
}

#[tokio::test]
async fn an_admin_and_the_plugins_of_a_running_server_see_the_same_values() {
    let config = config();
    let server = StdioServer::start(&config).await;
    let read = async |path: &str| server.client().text(&format!("keyvalue://a/{path}")).await;
    keyvalue(&config, &["put", "a", "pages", "key", "by the admin"]).await.success();
    assert_eq!(read("get/pages/key").await, "by the admin");
    read("set/pages/other?value=by-the-guest").await;
    assert_eq!(keyvalue(&config, &["get", "a", "pages", "other"]).await.success().stdout, b"by-the-guest");
    assert_eq!(keyvalue(&config, &["list", "a", "pages"]).await.success().text(), "key\nother\n");
    keyvalue(&config, &["delete", "a", "pages", "key"]).await.success();
    assert_eq!(read("exists/pages/key").await, "false");
    assert_eq!(read("keys/pages").await, "1\nother\nother\n-");
    server.end().await;
}

#[tokio::test]
async fn a_value_is_any_bytes_from_an_argument_a_file_or_standard_input() {
    let config = config();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let file = config.dir().join("value");
    fs::write(&file, &bytes).unwrap();
    keyvalue(&config, &["put", "a", "pages", "file", "--file", file.to_str().unwrap()]).await.success();
    assert_eq!(keyvalue(&config, &["get", "a", "pages", "file"]).await.success().stdout, bytes);
    let copy = config.dir().join("copy");
    keyvalue(&config, &["get", "a", "pages", "file", "--output", copy.to_str().unwrap()]).await.success();
    assert_eq!(fs::read(copy).unwrap(), bytes);

    let mut put = host_command();
    put.args(arguments(config.path().to_str().unwrap(), &["put", "a", "pages", "stdin"])).stdin(Stdio::piped());
    let mut put = put.spawn().unwrap();
    put.stdin.take().unwrap().write_all(b"\xff\0\n").await.unwrap();
    assert!(put.wait().await.unwrap().success());
    assert_eq!(keyvalue(&config, &["get", "a", "pages", "stdin"]).await.success().stdout, b"\xff\0\n");

    keyvalue(&config, &["put", "a", "pages", "--", "--key", "--value"]).await.success();
    assert_eq!(keyvalue(&config, &["get", "a", "pages", "--", "--key"]).await.success().stdout, b"--value");
    keyvalue(&config, &["put", "a", "pages", "empty", ""]).await.success();
    assert_eq!(keyvalue(&config, &["get", "a", "pages", "empty"]).await.success().stdout, b"");

    let json = keyvalue(&config, &["get", "a", "pages", "stdin", "--json"]).await.success().json();
    assert_eq!(json, json!({ "key": "stdin", "base64": "/wAK" }));
    let json = keyvalue(&config, &["get", "a", "pages", "--json", "--", "--key"]).await.success().json();
    assert_eq!(json, json!({ "key": "--key", "text": "--value" }));
    let shown = run_on_terminal(arguments(config.path().to_str().unwrap(), &["get", "a", "pages", "stdin"])).await;
    assert_eq!(shown.code(), 1);
    assert!(shown.stderr.contains("is binary (3 B) and standard output is a terminal"), "{}", shown.stderr);
}

#[tokio::test]
async fn buckets_are_listed_with_what_they_hold_and_keys_by_prefix() {
    let config = config();
    let empty = keyvalue(&config, &["list", "a"]).await.success();
    assert_eq!(empty.text(), "pages  0 of 100000  0 B of 64.0 MiB\nsmall  0 of 3       0 B of 1.0 KiB\n");
    assert!(!config.dir().join("state/keyvalue").exists(), "reading creates nothing");
    let server = StdioServer::start(&config).await;
    server.client().text("keyvalue://a/fill/pages?count=1000&size=1").await;
    server.client().text("keyvalue://a/set/pages/key-?value=1").await;
    server.client().text("keyvalue://a/set/pages/zz?value=1").await;
    server.end().await;
    let keys = keyvalue(&config, &["list", "a", "pages"]).await.success().text();
    assert_eq!((keys.lines().count(), keys.lines().next_back()), (1002, Some("zz")));
    let keys = keyvalue(&config, &["list", "a", "pages", "--prefix", "key-"]).await.success().text();
    assert_eq!((keys.lines().count(), keys.lines().next()), (1001, Some("key-")));
    let keys = keyvalue(&config, &["list", "a", "pages", "--prefix", "key-0099", "--json"]).await.success().json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 10);
    let buckets = keyvalue(&config, &["list", "a", "--json"]).await.success().json();
    assert_eq!(buckets["buckets"][0]["keys"], 1002);
    assert_eq!(
        buckets["buckets"][1],
        json!({ "bucket": "small", "keys": 0, "bytes": 0, "maxKeys": 3, "maxBytes": 1024 })
    );
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_refused_and_nothing_changes() {
    let config = config();
    keyvalue(&config, &["put", "a", "small", "key", "kept"]).await.success();
    let refused = keyvalue(&config, &["put", "a", "small", "key", &"x".repeat(1022)]).await;
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("quota exceeded: the bucket `small` may hold 1.0 KiB"), "{}", refused.stderr);
    assert_eq!(keyvalue(&config, &["get", "a", "small", "key"]).await.success().stdout, b"kept");
    let large = config.dir().join("large");
    fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let refused = keyvalue(&config, &["put", "a", "pages", "key", "--file", large.to_str().unwrap()]).await;
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("the values of one call have at most 16.0 MiB"), "{}", refused.stderr);
    let refused = keyvalue(&config, &["put", "a", "pages", "", "x"]).await;
    assert!(refused.stderr.contains("a key has 1 to 1024 bytes"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_mistake_is_told_with_what_there_is() {
    let config = config();
    for (words, code, expected) in [
        (&["get", "none", "pages", "key"][..], 2, &["the config has no plugin `none`", "it has a, bare"][..]),
        (&["get", "a", "Pages", "key"], 2, &["the plugin `a` is granted no bucket `Pages`", "it has pages, small"]),
        (&["put", "bare", "x", "key", "1"], 2, &["is granted no bucket `x`", "grants.keyvalue = [\"x\"]"]),
        (&["get", "a", "pages", "key"], 1, &["has no key `key`", "mcp-host keyvalue list a pages"]),
        (&["put", "a", "pages", "key", "--file", "/nowhere"], 1, &["cannot read /nowhere"]),
        (&["list", "a", "--prefix", "x"], 2, &["<BUCKET>"]),
        (&["list", "bare"], 0, &["the plugin `bare` is granted no bucket"]),
        (&["put", "a", "small", "key"], 0, &["the value is empty: standard input has no bytes"]),
    ] {
        let output = keyvalue(&config, words).await;
        assert_eq!(output.code(), code, "{words:?}: {}", output.stderr);
        for expected in expected {
            assert!(output.stderr.contains(expected), "{words:?}: {}", output.stderr);
        }
    }
    let gone = keyvalue(&config, &["delete", "a", "pages", "key"]).await.success();
    assert!(gone.stderr.contains("there was no key `key`"), "{}", gone.stderr);
    let state = config.dir().join("state/keyvalue");
    keyvalue(&config, &["put", "a", "pages", "key", "1"]).await.success();
    fs::write(state.join("a.sqlite3"), "").unwrap();
    let damaged = keyvalue(&config, &["list", "a", "pages"]).await;
    assert_eq!(damaged.code(), 1);
    assert!(damaged.stderr.contains("a.sqlite3 is damaged: it is empty"), "{}", damaged.stderr);
}
