//! Key-value buckets: persistence, isolation, quotas, and the effects of a kill or a damaged file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Instant;

use futures::future::join_all;
use mcp_host_tests::{
    Client, ConfigFile, Folder, Plugin, RawStdio, Revision, StdioServer, WrittenConfig, component, fixture, run,
};
use rmcp::model::ErrorCode;
use rustix::process::Signal;
use serde_json::{Value, json};

fn one_bucket() -> WrittenConfig {
    ConfigFile::new().plugin(Plugin::keyvalue("a").bucket("pages")).write()
}

/// Returns the file of the plugin `a`'s buckets.
fn database_path(config: &WrittenConfig) -> PathBuf {
    config.dir().join("state/keyvalue/a.sqlite3")
}

async fn read_text(client: &Client, path: &str) -> String {
    client.text(&format!("keyvalue://{path}")).await
}

/// Returns the client's error while a bucket is unavailable.
async fn unavailable_reason(client: &Client, path: &str) -> String {
    let error = client.read_error(&format!("keyvalue://{path}")).await;
    assert_eq!(error.data.unwrap_or_default()["kind"], "unavailable", "{path}: {}", error.message);
    error.message.into_owned()
}

fn read_params(path: &str) -> Value {
    json!({ "uri": format!("keyvalue://{path}") })
}

#[tokio::test]
async fn what_was_kept_is_there_after_a_restart() {
    let config = one_bucket();
    let server = StdioServer::start(&config).await;
    assert_eq!(read_text(server.client(), "a/set/pages/key?value=kept").await, "done");
    assert_eq!(read_text(server.client(), "a/get/pages/key").await, "kept");
    server.end().await;
    let server = StdioServer::start(&config).await;
    assert_eq!(read_text(server.client(), "a/get/pages/key").await, "kept");
    assert_eq!(read_text(server.client(), "a/delete/pages/key").await, "done");
    assert_eq!(read_text(server.client(), "a/exists/pages/key").await, "false");
    server.end().await;
}

#[tokio::test]
async fn a_write_that_was_answered_survives_a_kill() {
    let config = one_bucket();
    for n in 0..3 {
        let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        let answer = wire.request("resources/read", read_params(&format!("a/set/pages/key-{n}?value={n}"))).await;
        assert_eq!(answer.result()["contents"][0]["text"], "done");
        wire.signal(Signal::KILL);
        assert_eq!(wire.wait_exit().await.code, None);
    }
    let server = StdioServer::start(&config).await;
    assert_eq!(read_text(server.client(), "a/many/pages?keys=key-0,key-1,key-2").await, "0\n1\n2");
    server.end().await;
}

#[tokio::test]
async fn a_kill_in_a_storm_of_writes_loses_none_that_was_answered() {
    const ANSWERED: usize = 20;
    let config = ConfigFile::new().plugin(Plugin::keyvalue("a").bucket("pages").limit("queue-timeout", "60s")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let mut asked = Vec::new();
    for n in 0..ANSWERED * 3 {
        let path =
            if n % 3 == 0 { format!("a/fill/pages?count=50&size={n}") } else { format!("a/set/pages/{n}?size=3000") };
        asked.push((wire.send_request("resources/read", read_params(&path)).await, n));
    }
    for (id, _) in &asked[..ANSWERED] {
        assert_eq!(wire.response_to(*id).await.result()["contents"][0]["text"], "done");
    }
    wire.signal(Signal::KILL);
    let mut answered: Vec<usize> = asked[..ANSWERED].iter().map(|(_, n)| *n).collect();
    while let Some(message) = wire.message().await {
        let place = asked.iter().find(|(id, _)| message["id"] == *id);
        answered.extend(place.filter(|_| message["result"].is_object()).map(|(_, n)| *n));
    }
    assert_eq!(wire.wait_exit().await.code, None);

    let server = StdioServer::start(&config).await;
    for n in answered.into_iter().filter(|n| n % 3 != 0) {
        assert_eq!(server.client().bytes(&format!("keyvalue://a/get/pages/{n}")).await.len(), 3000);
    }
    // Values written together have the same length: no batch was written partially.
    let mut lengths = Vec::new();
    for n in 0..50 {
        lengths.push(server.client().bytes(&format!("keyvalue://a/get/pages/key-{n:05}")).await.len());
    }
    assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
    server.end().await;
}

#[tokio::test]
async fn plugins_do_not_see_each_others_buckets_even_of_one_component_and_one_name() {
    let plugins = [Plugin::keyvalue("a").bucket("pages"), Plugin::keyvalue("b").bucket("pages")];
    let config = plugins.into_iter().fold(ConfigFile::new(), ConfigFile::plugin).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    read_text(client, "a/set/pages/key?value=of-a").await;
    assert_eq!(read_text(client, "b/exists/pages/key").await, "false");
    read_text(client, "b/set/pages/key?value=of-b").await;
    assert_eq!(read_text(client, "a/get/pages/key").await, "of-a");
    assert_eq!(read_text(client, "b/keys/pages").await, "1\nkey\nkey\n-");
    server.end().await;
}

#[tokio::test]
async fn a_bucket_that_is_not_granted_cannot_be_opened_and_the_log_says_so_once() {
    let config = one_bucket();
    let server = StdioServer::start(&config).await;
    let began = Instant::now();
    for path in ["a/get/other/key", "a/set/Pages/key?value=1", "a/keys/other"] {
        let error = server.client().read_error(&format!("keyvalue://{path}")).await;
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{path}");
        assert!(!error.message.contains("other"), "{}", error.message);
    }
    let log = server.end().await.log;
    assert!(log.contains("the bucket `other` is not granted: add it to `grants.keyvalue`"), "{log}");
    let told = log.matches("call failed: the bucket").count() as u64;
    // Logged once in ten seconds.
    assert!((1..=1 + began.elapsed().as_secs() / 10).contains(&told), "{told}: {log}");
}

#[tokio::test]
async fn a_state_directory_that_cannot_be_used_matters_only_to_plugins_that_have_a_bucket() {
    let key = Folder::with_files([("key", "00".repeat(32))]);
    let cursor_key = toml::Table::from_iter([("file".to_owned(), key.path().join("key").to_str().unwrap().into())]);
    let config = ConfigFile::new().server("cursor-key", cursor_key);
    let config = config.plugin(Plugin::misbehaving("good")).plugin(Plugin::keyvalue("a").bucket("pages")).write();
    fs::remove_dir_all(config.dir().join("state")).unwrap();
    symlink("/proc/nowhere", config.dir().join("state")).unwrap();
    let server = StdioServer::start(&config).await;
    let reason = unavailable_reason(server.client(), "a/set/pages/key?value=1").await;
    assert!(reason.contains("the store of this plugin cannot be used"), "{reason}");
    assert_eq!(server.client().text("misbehaving://good/good").await, "good");
    let log = server.end().await.log;
    assert!(log.contains("check that the user who runs the host can write to it"), "{log}");
}

#[tokio::test]
async fn a_bucket_is_full_at_its_quota_of_bytes_and_what_is_there_stays() {
    let config = ConfigFile::new().plugin(Plugin::keyvalue("a").bucket_with_quota("pages", "1KiB", 100)).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let began = Instant::now();
    // A key counts as well: 3 bytes.
    read_text(client, "a/set/pages/one?size=1000").await;
    let reason = unavailable_reason(client, "a/set/pages/two?size=19").await;
    assert!(reason.contains("quota exceeded: the bucket `pages` may hold 1.0 KiB of keys and values"), "{reason}");
    assert_eq!(read_text(client, "a/exists/pages/two").await, "false");
    read_text(client, "a/set/pages/two?size=18").await;
    unavailable_reason(client, "a/set/pages/one?size=1001").await;
    assert_eq!(client.bytes("keyvalue://a/get/pages/one").await.len(), 1000);
    read_text(client, "a/delete/pages/one").await;
    read_text(client, "a/set/pages/two?size=1021").await;
    let log = server.end().await.log;
    let told = log.matches("call failed: quota exceeded: the bucket `pages`").count() as u64;
    // Logged once in ten seconds.
    assert!((1..=1 + began.elapsed().as_secs() / 10).contains(&told), "{told}: {log}");
}

#[tokio::test]
async fn a_bucket_is_full_at_its_quota_of_keys_and_a_batch_fits_whole_or_not_at_all() {
    let config = ConfigFile::new().plugin(Plugin::keyvalue("a").bucket_with_quota("pages", "1MiB", 3)).write();
    let server = StdioServer::start(&config).await;
    let reason = unavailable_reason(server.client(), "a/fill/pages?count=4").await;
    assert!(reason.contains("may hold 3 keys"), "{reason}");
    assert_eq!(read_text(server.client(), "a/keys/pages").await, "0\n-\n-\n-");
    read_text(server.client(), "a/fill/pages?count=3").await;
    read_text(server.client(), "a/clear/pages?keys=key-00000,key-00001").await;
    assert_eq!(read_text(server.client(), "a/keys/pages").await, "1\nkey-00002\nkey-00002\n-");
    server.end().await;
}

#[tokio::test]
async fn hosts_that_share_a_state_directory_share_buckets_and_quotas() {
    let config = ConfigFile::new().plugin(Plugin::keyvalue("a").bucket_with_quota("pages", "1KiB", 100)).write();
    let (one, other) = (StdioServer::start(&config).await, StdioServer::start(&config).await);
    read_text(one.client(), "a/set/pages/one?size=1000").await;
    assert_eq!(read_text(other.client(), "a/exists/pages/one").await, "true");
    unavailable_reason(other.client(), "a/set/pages/two?size=1000").await;
    read_text(other.client(), "a/delete/pages/one").await;
    read_text(other.client(), "a/set/pages/two?size=1000").await;
    unavailable_reason(one.client(), "a/set/pages/one?size=1000").await;
    one.end().await;
    other.end().await;
}

#[tokio::test]
async fn increments_at_the_same_time_and_of_two_hosts_add_up() {
    const EACH: usize = 40;
    let config = ConfigFile::new().plugin(Plugin::keyvalue("a").bucket("counts").limit("queue-timeout", "60s")).write();
    let (one, other) = (StdioServer::start(&config).await, StdioServer::start(&config).await);
    let add = |server: &StdioServer| {
        let peer = server.client().peer().clone();
        let request = rmcp::model::ReadResourceRequestParams::new("keyvalue://a/increment/counts/all?by=3");
        async move { peer.read_resource(request).await.unwrap() }
    };
    join_all((0..EACH).flat_map(|_| [add(&one), add(&other)])).await;
    assert_eq!(read_text(one.client(), "a/get/counts/all").await, (EACH * 2 * 3).to_string());
    assert_eq!(read_text(other.client(), "a/increment/counts/all?by=-240").await, "0");
    one.end().await;
    other.end().await;
}

#[tokio::test]
async fn a_swap_happens_only_from_the_value_that_was_expected() {
    let config = one_bucket();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(read_text(client, "a/swap/pages/key?to=1").await, "true");
    assert_eq!(read_text(client, "a/swap/pages/key?to=2").await, "false");
    assert_eq!(read_text(client, "a/swap/pages/key?from=2&to=3").await, "false");
    assert_eq!(read_text(client, "a/swap/pages/key?from=1&to=2").await, "true");
    assert_eq!(read_text(client, "a/get/pages/key").await, "2");
    server.end().await;
}

#[tokio::test]
async fn values_may_be_binary_or_empty_and_keys_any_text() {
    let config = one_bucket();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(client.bytes("keyvalue://a/all-bytes/pages/all").await, (0..=u8::MAX).collect::<Vec<_>>());
    read_text(client, "a/set/pages/empty?value=").await;
    assert_eq!(read_text(client, "a/get/pages/empty").await, "");
    assert_eq!(read_text(client, "a/exists/pages/empty").await, "true");
    let keys = ["with%20space", "%2Fslash%2F", "..%2F..%2Fx", "%E9%8D%B5", "'%3B--", &"k".repeat(1024)];
    for (n, key) in keys.into_iter().enumerate() {
        read_text(client, &format!("a/set/pages/{key}?value={n}")).await;
        assert_eq!(read_text(client, &format!("a/get/pages/{key}")).await, n.to_string(), "{key}");
    }
    let reason = unavailable_reason(client, &format!("a/get/pages/{}", "k".repeat(1025))).await;
    assert!(reason.contains("a key has 1 to 1024 bytes"), "{reason}");
    unavailable_reason(client, "a/increment/pages/all").await;
    server.end().await;
}

#[tokio::test]
async fn keys_are_listed_page_by_page_also_over_a_restart() {
    let config = one_bucket();
    let server = StdioServer::start(&config).await;
    read_text(server.client(), "a/fill/pages?count=2500").await;
    let first = read_text(server.client(), "a/keys/pages").await;
    let (first, cursor) = first.rsplit_once('\n').unwrap();
    assert_eq!(first, "1000\nkey-00000\nkey-00999");
    server.end().await;
    let server = StdioServer::start(&config).await;
    let second = read_text(server.client(), &format!("a/keys/pages?cursor={cursor}")).await;
    let (second, cursor) = second.rsplit_once('\n').unwrap();
    assert_eq!(second, "1000\nkey-01000\nkey-01999");
    let last = read_text(server.client(), &format!("a/keys/pages?cursor={cursor}")).await;
    assert_eq!(last, "500\nkey-02000\nkey-02499\n-");
    let reason = unavailable_reason(server.client(), "a/keys/pages?cursor=~").await;
    assert!(reason.contains("the cursor was not issued"), "{reason}");
    server.end().await;
}

#[tokio::test]
async fn a_damaged_file_is_told_to_client_and_admin_left_as_it_is_and_harms_no_other_plugin() {
    let plugins = [Plugin::keyvalue("a").bucket("pages"), Plugin::keyvalue("b").bucket("pages")];
    let config = plugins.into_iter().fold(ConfigFile::new(), ConfigFile::plugin).write();
    fs::create_dir_all(database_path(&config).parent().unwrap()).unwrap();
    let damaged = b"This was a database before the disk went bad. ".repeat(100);
    fs::write(database_path(&config), &damaged).unwrap();
    let server = StdioServer::start(&config).await;
    for path in ["a/get/pages/key", "a/set/pages/key?value=1"] {
        let reason = unavailable_reason(server.client(), path).await;
        assert!(reason.contains("the store of this plugin is damaged"), "{reason}");
        assert!(!reason.contains("sqlite"), "{reason}");
    }
    read_text(server.client(), "b/set/pages/key?value=1").await;
    assert_eq!(fs::read(database_path(&config)).unwrap(), damaged);
    // After an administrator moves the file away, the host works without a restart.
    fs::remove_file(database_path(&config)).unwrap();
    read_text(server.client(), "a/set/pages/key?value=1").await;
    let log = server.end().await.log;
    let told: Vec<_> = log.lines().filter(|line| line.contains("key-value store of a plugin is damaged")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("a.sqlite3") && told[0].contains("recover"), "{}", told[0]);
}

#[tokio::test]
async fn a_plugin_whose_store_cannot_be_used_is_failing_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let admin = format!("\n[admin]\nlisten = \"unix:{}\"\n", folder.path().join("admin.sock").display());
    let config = ConfigFile::new().plugin(Plugin::keyvalue("a").bucket("pages")).append(&admin).write();
    fs::create_dir_all(database_path(&config).parent().unwrap()).unwrap();
    fs::write(database_path(&config), b"no database".repeat(500)).unwrap();
    let server = StdioServer::start(&config).await;
    let path = config.path().to_str().unwrap().to_owned();
    let state =
        async || run(["status", "a", "--json", "--config", &path]).await.success().json()["status"]["state"].clone();
    // The state before any call.
    let failing = state().await;
    assert_eq!((&failing["name"], &failing["cause"]), (&"failing".into(), &"grant".into()), "{failing}");
    let reason = failing["reason"].as_str().unwrap();
    assert!(reason.starts_with("its key-value store cannot be used: ") && reason.contains("a.sqlite3"), "{reason}");
    let text = run(["status", "--config", &path]).await.success().text();
    assert!(text.contains("a: failing since ") && text.contains("its key-value store cannot be used"), "{text}");
    unavailable_reason(server.client(), "a/get/pages/key").await;
    assert_eq!(state().await["since"], failing["since"]);
    fs::remove_file(database_path(&config)).unwrap();
    read_text(server.client(), "a/set/pages/key?value=1").await;
    assert_eq!(state().await, serde_json::json!({ "name": "ready" }));
    server.end().await;
}

#[tokio::test]
async fn components_that_import_the_draft_before_are_served_as_well() {
    let plugin = Plugin::new("a", &fixture("keyvalue-draft1"), "keyvalue-draft1://a/").bucket("pages");
    let config = ConfigFile::new().plugin(plugin).write();
    let server = StdioServer::start(&config).await;
    let actions = [
        "get Some([118, 97, 108, 117, 101])",
        "exists true false",
        "keys 1000 Some(1000), then 499 None",
        "many [Some(\"a\"), None]",
        "increment 2 5",
        "too much true",
    ];
    assert_eq!(server.client().text("keyvalue-draft1://a/actions").await, actions.join("\n"));
    assert_eq!(server.client().text("keyvalue-draft1://a/other").await, "no such store");
    server.end().await;
}

#[tokio::test]
async fn the_example_of_the_documentation_does_what_it_says() {
    let config = ConfigFile::new().plugin(Plugin::keyvalue("a").bucket("visits")).write();
    let server = StdioServer::start(&config).await;
    for count in 1..=2 {
        assert_eq!(read_text(server.client(), "a/visit/start").await, format!("start was read {count} times"));
    }
    server.end().await;
}

#[test]
fn a_guest_that_keeps_nothing_imports_nothing_to_keep_it_with() {
    let imports = |file: PathBuf| fs::read(file).unwrap().windows(13).any(|bytes| bytes == b"wasi:keyvalue");
    for name in ["files", "hello", "notes"] {
        assert!(!imports(component(name)), "{name}");
    }
    assert!(imports(fixture("keyvalue")));
}
