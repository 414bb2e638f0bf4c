//! Preparations: work of a provider that takes longer than a call, in the background.

use std::time::Duration;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, TIMEOUT, fixture, run, wait_until};
use serde_json::{Value, json};
use toml::{Table, Value as TomlValue};

const REVISION: Revision = Revision::V_2025_11_25;
const INDEX: &str = "preparing://p/index";
const ECHO: &str = "preparing://p/echo";

/// The guest on a folder, with `how` as its preparation. It has no permission to prepare.
fn not_allowed(folder: &Folder, how: &str) -> Plugin {
    let plugin = Plugin::new("p", &fixture("preparing"), "preparing://p/").set("watch-interval", "100ms");
    plugin.writable_dir(folder.path(), "/data", "1MiB").config("prepare", how)
}

/// The same, with permission to prepare within a CPU time.
fn preparing(folder: &Folder, how: &str, cpu: &str) -> Plugin {
    let limits = [("cpu", cpu), ("memory", "32MiB")].map(|(key, value)| (key.to_owned(), TomlValue::from(value)));
    not_allowed(folder, how).limit("prepare", Table::from_iter(limits))
}

fn source() -> Folder {
    Folder::with_files([("source", "text")])
}

/// Returns the tokens of the calls so far.
fn calls(folder: &Folder) -> Vec<String> {
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

/// Reads the index until it has the expected content.
async fn wait_for_index(server: &mut RawStdio, expected: &str) {
    let is_there = async { while server.read(INDEX).await.as_deref() != Ok(expected) {} };
    tokio::time::timeout(TIMEOUT, is_there).await.expect("it is prepared");
}

#[tokio::test]
async fn data_are_prepared_in_the_background_while_reads_say_so_and_are_not_delayed() {
    let folder = source();
    // A preparation does not occupy the only permit for calls.
    let plugin = preparing(&folder, "", "20s").limit("concurrency", 1).limit("queue", 0);
    let mut server = RawStdio::start(&ConfigFile::new().plugin(plugin).write(), REVISION).await;
    wait_until("it waits after the second step", || calls(&folder).iter().any(|token| token.starts_with("2."))).await;
    let refused = server.read(INDEX).await.unwrap_err();
    assert_eq!(refused["data"]["kind"], "unavailable", "{refused}");
    assert_eq!(refused["data"]["retryAfterMs"], 1000, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("it is being prepared, 50 %"), "{refused}");
    let before = calls(&folder).len();
    for _ in 0..50 {
        assert_eq!(server.read(ECHO).await.as_deref(), Ok("echo"));
    }
    wait_until("it goes on", || calls(&folder).len() > before).await;
    folder.write("go", "");
    wait_for_index(&mut server, "text").await;
    server.log_line("the preparation is done").await;
    server.end().await;
}

#[tokio::test]
async fn a_preparation_is_resumed_with_its_token_after_a_trap_a_limit_and_a_failure() {
    for (how, reason) in [
        ("trap", "the preparation fails, and is retried with back-off: trapped: wasm trap"),
        ("loop", "the preparation fails, and is retried with back-off: CPU time exceeded"),
        ("fail", "the preparation fails, and is retried with back-off: the source is locked"),
    ] {
        let folder = Folder::with_files([("source", "text"), ("fault", "")]);
        let plugin = preparing(&folder, how, "20s").limit("cpu", "200ms");
        let mut server = RawStdio::start(&ConfigFile::new().plugin(plugin).write(), REVISION).await;
        let line = server.log_line(reason).await;
        assert!(line.contains("WARN") && line.contains('p'), "{line}");
        if how == "fail" {
            std::fs::remove_file(folder.path().join("fault")).unwrap();
        }
        wait_for_index(&mut server, "text").await;
        let mut calls = calls(&folder);
        calls.dedup();
        assert_eq!(calls, ["-", "1", "2", "3"], "{how}");
        // The failure of a preparation does not count against the plugin.
        assert_eq!(server.read(ECHO).await.as_deref(), Ok("echo"));
        assert!(!server.log().contains("circuit breaker"), "{how}");
        server.end().await;
    }
}

#[tokio::test]
async fn the_cpu_time_of_all_calls_ends_a_preparation_with_a_message() {
    let folder = source();
    let config = ConfigFile::new().plugin(preparing(&folder, "never", "1s")).write();
    let mut server = RawStdio::start(&config, REVISION).await;
    server.log_line("the preparation has ended without being done: it used up `limits.prepare.cpu` (1s)").await;
    let count = calls(&folder).len();
    // Each call has 50 ms of wall-clock time, of which other tests take a part.
    assert!(count >= 5, "{count} calls");
    assert_eq!(server.read(ECHO).await.as_deref(), Ok("echo"));
    server.end().await;
    assert_eq!(calls(&folder).len(), count, "it has ended");
}

#[tokio::test]
async fn without_the_limit_nothing_is_prepared_and_everyone_is_told() {
    let folder = source();
    let config = ConfigFile::new().plugin(not_allowed(&folder, "")).write();
    let mut server = RawStdio::start(&config, REVISION).await;
    let wanted = "add `limits.prepare = { cpu = \"1m\", memory = \"64MiB\" }`";
    server.log_line(wanted).await;
    let refused = server.read(INDEX).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("which the config of the host does not allow"), "{refused}");
    assert_eq!(server.log().matches(wanted).count(), 1);
    server.end().await;
    let path = config.path();
    let checked = run(["check", "--json", "--config", path.to_str().unwrap()]).await.success().json();
    let notes = checked["plugins"][0]["notes"].to_string();
    assert!(notes.contains("limits.prepare = {"), "{checked}");
    let component = fixture("preparing");
    let inspected = run(["inspect".as_ref(), component.as_os_str()]).await.success().text();
    assert!(inspected.contains("mcp-host:provider/prepare@0.1.1"), "{inspected}");
    assert!(inspected.contains("limits.prepare = {"), "{inspected}");
    assert!(calls(&folder).is_empty());

    // The opposite mistake is reported, too.
    let limits = Table::from_iter([("cpu".to_owned(), TomlValue::from("1m"))]);
    let config = ConfigFile::new().plugin(Plugin::sample("s").limit("prepare", limits)).write();
    let path = config.path();
    let checked = run(["check", "--json", "--config", path.to_str().unwrap()]).await.success().json();
    let notes = checked["plugins"][0]["notes"].to_string();
    assert!(notes.contains("`limits.prepare` has no effect"), "{checked}");
}

#[tokio::test]
async fn a_command_that_reads_once_prepares_nothing() {
    let folder = source();
    let config = ConfigFile::new().plugin(preparing(&folder, "trap", "20s")).write();
    let path = config.path();
    let read = run(["read", ECHO, "--config", path.to_str().unwrap()]).await.success();
    assert_eq!((read.text().as_str(), calls(&folder).len()), ("echo", 0));
}

#[tokio::test]
async fn a_reload_with_another_config_and_a_change_prepare_again() {
    let folder = source();
    folder.write("go", "");
    let plugin = |prefix: &str| ConfigFile::new().plugin(preparing(&folder, "", "20s").config("prefix", prefix));
    let config = plugin("").write();
    let mut server = RawStdio::start(&config, REVISION).await;
    wait_for_index(&mut server, "text").await;
    config.replace(plugin("new "));
    wait_for_index(&mut server, "new text").await;
    server.subscribe(INDEX).await;
    folder.write("source", "changed");
    wait_for_index(&mut server, "new changed").await;
    server.end().await;
}

#[tokio::test]
async fn a_read_that_lacks_its_data_after_an_edit_prepares_them_again_without_a_subscriber() {
    let folder = source();
    let config = ConfigFile::new().plugin(preparing(&folder, "strict", "20s")).write();
    let mut server = RawStdio::start(&config, REVISION).await;
    wait_for_index(&mut server, "text").await;
    for version in ["changed", "changed again"] {
        let before = calls(&folder).len();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(calls(&folder).len(), before, "nothing is missing");
        folder.write("source", version);
        let refused = server.read(INDEX).await.unwrap_err();
        assert_eq!(refused["data"]["kind"], "unavailable", "{refused}");
        wait_for_index(&mut server, version).await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_poll_that_lacks_its_data_prepares_them_again() {
    let folder = source();
    let config = ConfigFile::new().plugin(preparing(&folder, "strict", "20s")).write();
    let mut server = RawStdio::start(&config, REVISION).await;
    wait_for_index(&mut server, "text").await;
    server.subscribe(INDEX).await;
    // The first poll is made with this version.
    tokio::time::sleep(Duration::from_millis(500)).await;
    folder.write("source", "changed");
    let index = folder.path().join("index");
    wait_until("the poll starts a preparation", || std::fs::read_to_string(&index).is_ok_and(|text| text == "changed"))
        .await;
    assert_eq!(server.read(INDEX).await.as_deref(), Ok("changed"));
    server.end().await;
}

#[tokio::test]
async fn clients_whose_reads_always_fail_cannot_prepare_more_often_than_once_a_second() {
    let folder = source();
    // It says that all is prepared, and has no index.
    let config = ConfigFile::new().plugin(preparing(&folder, "message", "20s")).write();
    let began = std::time::Instant::now();
    let mut server = RawStdio::start(&config, REVISION).await;
    server.log_line("the preparation is done").await;
    while calls(&folder).len() < 3 {
        let refused = server.read(INDEX).await.unwrap_err();
        assert_eq!(refused["data"]["kind"], "unavailable", "{refused}");
        assert!(began.elapsed() < TIMEOUT, "it is prepared again");
    }
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    server.end().await;
}

#[tokio::test]
async fn a_check_notes_that_the_listing_has_to_be_prepared_and_succeeds() {
    let folder = source();
    let config = ConfigFile::new().plugin(preparing(&folder, "strict", "20s")).write();
    let path = config.path();
    let checked = run(["check", "--json", "--config", path.to_str().unwrap()]).await.success().json();
    let plugin = &checked["plugins"][0];
    assert_eq!((&plugin["state"], &plugin["error"]), (&json!("not-prepared"), &Value::Null), "{checked}");
    assert!(plugin["notes"].to_string().contains("its listing was not tried: it is being prepared"), "{checked}");
    let shown = run(["check", "--config", path.to_str().unwrap()]).await.success().text();
    assert!(shown.contains("not prepared"), "{shown}");
    assert!(calls(&folder).is_empty(), "a check prepares nothing");
    // Without permission the listing never works.
    let config = ConfigFile::new().plugin(not_allowed(&folder, "strict")).write();
    let path = config.path();
    let checked = run(["check", "--json", "--config", path.to_str().unwrap()]).await;
    assert_eq!((checked.code(), &checked.json()["plugins"][0]["state"]), (1, &json!("failing")));
}

#[tokio::test]
async fn a_test_of_the_contract_prepares_the_data_first_if_a_plugin_permits_it() {
    let outcome = |report: &Value, name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap().clone()
    };
    let component = fixture("preparing");
    let folder = source();
    let edit = format!("printf changed > '{}/source'", folder.path().display());
    let config = ConfigFile::new().plugin(preparing(&folder, "strict", "20s")).write();
    let path = config.path();
    let arguments = ["test", component.to_str().unwrap(), "--json", "--config", path.to_str().unwrap()];
    let report = run(arguments.iter().chain(&["--plugin", "p", "--edit", edit.as_str()])).await.json();
    let prepared = outcome(&report, "prepare");
    assert_eq!(prepared["outcome"], "passed", "{report:#}");
    assert!(prepared["notes"][0].as_str().unwrap().starts_with("prepared: 4 calls"), "{report:#}");
    for check in ["listing-ends", "readable", "changes-reported"] {
        assert_eq!(outcome(&report, check)["outcome"], "passed", "{report:#}");
    }

    let folder = source();
    let grant = format!("{}=/data:rw", folder.path().display());
    let report =
        run(["test", component.to_str().unwrap(), "--json", "--dir", grant.as_str(), "--set", "prepare=strict"]).await;
    let report = report.json();
    for check in ["prepare", "listing-ends", "listing-stable", "readable", "changes-quiet"] {
        let check = outcome(&report, check);
        assert_eq!(check["outcome"], "skipped", "{report:#}");
        assert!(check["reason"].as_str().unwrap().contains("use --plugin NAME"), "{report:#}");
    }

    let folder = source();
    for (how, cpu, problem) in [
        ("panic", "20s", "call 1 of the preparation: trapped"),
        ("never", "1s", "it used up `limits.prepare.cpu` (1s)"),
    ] {
        let config = ConfigFile::new().plugin(preparing(&folder, how, cpu)).write();
        let path = config.path();
        let arguments = ["test", component.to_str().unwrap(), "--json", "--plugin", "p", "--config"];
        let tested = run(arguments.iter().chain(&[path.to_str().unwrap()])).await;
        let report = tested.json();
        assert_eq!(tested.code(), 1, "{report:#}");
        assert!(outcome(&report, "prepare")["problems"].to_string().contains(problem), "{report:#}");
    }
}

#[tokio::test]
async fn a_reload_ends_a_preparation_that_is_being_made_and_so_does_the_end() {
    let folder = source();
    let config = ConfigFile::new().plugin(preparing(&folder, "", "20s")).write();
    let mut server = RawStdio::start(&config, REVISION).await;
    let is_waiting = || calls(&folder).iter().any(|token| token.starts_with("2."));
    wait_until("it waits after the second step", is_waiting).await;
    config.replace(ConfigFile::new().plugin(not_allowed(&folder, "")));
    server.log_line("limits.prepare = {").await;
    let count = calls(&folder).len();
    for _ in 0..20 {
        assert_eq!(server.read(ECHO).await.as_deref(), Ok("echo"));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(calls(&folder).len(), count, "the plugin that prepared is gone");
    std::fs::remove_file(folder.path().join("calls")).unwrap();
    config.replace(ConfigFile::new().plugin(preparing(&folder, "", "20s")));
    wait_until("it waits after the second step", is_waiting).await;
    server.end().await;
}

#[tokio::test]
async fn a_provider_that_misbehaves_as_it_prepares_harms_nothing() {
    for (how, reason) in [
        ("large-token", "its token has 70000 bytes; 65536 are allowed"),
        ("same-token", "its token is the one that it was called with"),
        ("percent", "it is prepared to 250 per cent; 100 are allowed"),
        ("panic", "trapped"),
        ("memory", "it requested more than `limits.prepare.memory` (32.0 MiB) leaves"),
    ] {
        let folder = source();
        let config = ConfigFile::new().plugin(preparing(&folder, how, "1s")).write();
        let mut server = RawStdio::start(&config, REVISION).await;
        server.log_line("and is retried with back-off: ").await;
        server.log_line(reason).await;
        assert_eq!(server.read(ECHO).await.as_deref(), Ok("echo"), "{how}");
        server.end().await;
    }
}

/// Returns the administration's status of the config's plugin.
async fn status(config: &mcp_host_tests::WrittenConfig) -> Value {
    let path = config.path();
    run(["status", "p", "--json", "--config", path.to_str().unwrap()]).await.success().json()
}

#[tokio::test]
async fn progress_is_in_the_status_and_in_the_metrics() {
    let folder = source();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let config = ConfigFile::new()
        .plugin(preparing(&folder, "", "20s"))
        .append(&format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display()))
        .write();
    let server = RawStdio::start(&config, REVISION).await;
    wait_until("it waits after the second step", || calls(&folder).iter().any(|token| token.starts_with("2."))).await;
    let running = status(&config).await["status"]["preparation"].clone();
    assert_eq!(
        (&running["state"], &running["percent"], &running["message"], &running["cpu_limit_ms"]),
        (&json!("running"), &json!(50), &json!("2 of 4 steps"), &json!(20_000)),
        "{running}"
    );
    let since = |preparation: &Value| preparation["since"].as_str().unwrap().to_owned();
    assert_eq!(since(&status(&config).await["status"]["preparation"]), since(&running), "it is the same state");
    let path = config.path();
    let shown = run(["status", "p", "--config", path.to_str().unwrap()]).await.success().text();
    assert!(shown.contains("prepared   running, 50 %: 2 of 4 steps; "), "{shown}");
    folder.write("go", "");
    server.log_line("the preparation is done").await;
    let done = status(&config).await;
    let preparation = &done["status"]["preparation"];
    assert_eq!((&preparation["state"], &preparation["percent"]), (&json!("done"), &json!(100)), "{done}");
    // Their times are of whole seconds.
    assert!(since(preparation) >= since(&running), "{done}");
    assert_eq!(done["config"]["limits"]["prepare"], json!({ "cpu_ms": 20_000, "memory": 32 << 20 }));
    let metrics = reqwest::Client::builder().unix_socket(socket).build().unwrap();
    let metrics = metrics.get("http://localhost/metrics").send().await.unwrap().text().await.unwrap();
    for sample in [
        "mcp_host_plugin_preparation{plugin=\"p\",state=\"done\"} 1",
        "mcp_host_plugin_preparation_percent{plugin=\"p\"} 100",
    ] {
        assert!(metrics.lines().any(|line| line == sample), "{sample}: {metrics}");
    }
    server.end().await;

    // The provider's message is shown, and has no other effect.
    config.replace(
        ConfigFile::new()
            .plugin(preparing(&folder, "message", "20s"))
            .append(&format!("\n[admin]\nlisten = \"unix:{}\"\n", dir.path().join("admin.sock").display())),
    );
    let server = RawStdio::start(&config, REVISION).await;
    server.log_line("the preparation is done").await;
    let path = config.path();
    let shown = run(["status", "p", "--config", path.to_str().unwrap()]).await.success().text();
    assert!(shown.contains("\\u{1b}[2Jone\\ntwo xxx") && shown.len() < 4000, "{shown}");
    server.end().await;
}
