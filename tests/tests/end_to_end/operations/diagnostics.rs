//! Diagnostics for provider authors: times of calls, host calls, the location of a failure, and CPU profiles.

use std::fs;

use mcp_host_tests::{ConfigFile, Folder, Output, Plugin, RawStdio, Revision, WrittenConfig, fixture, run};
use serde_json::Value;

/// A config with the guest `faulty` on a folder.
fn with_file(folder: &Folder) -> WrittenConfig {
    ConfigFile::new().plugin(Plugin::faulty("faulty", folder.path())).write()
}

fn plugin(name: &str, limits: &[(&str, &str)]) -> WrittenConfig {
    let plugin = Plugin::new(name, &fixture(name), &format!("{name}:///"));
    let plugin = limits.iter().fold(plugin, |plugin, (key, value)| plugin.limit(key, *value));
    ConfigFile::new().plugin(plugin).write()
}

async fn command(config: &WrittenConfig, arguments: &[&str]) -> Output {
    let config = config.path();
    run(arguments.iter().copied().chain(["--config", config.to_str().unwrap(), "--log", "off"])).await
}

/// The last line of standard error, as JSON.
fn last_json(output: &Output) -> Value {
    serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap_or_else(|_| panic!("{}", output.stderr))
}

fn injecting(folder: &Folder, fault: &str) {
    folder.write(format!(".faults/{fault}"), "");
}

#[tokio::test]
async fn what_a_read_costs_is_shown_on_standard_error() {
    let folder = Folder::with_files([("a.txt", "x".repeat(100_000))]);
    let config = with_file(&folder);
    let read = command(&config, &["read", "faulty://faulty/a.txt", "--timing"]).await.success();
    assert_eq!(read.text().len(), 100_000, "the content is as without it");
    for expected in [
        "timing: read `a.txt` of plugin `faulty`: ",
        "  wait ",
        "  instance ",
        "  guest ",
        "CPU ",
        "wasi:filesystem/types descriptor.open-at",
        "97.7 KiB",
        "  validation ",
        "  memory, at most ",
        "timing: encoding ",
    ] {
        assert!(read.stderr.contains(expected), "{expected}: {}", read.stderr);
    }
    assert!(!read.stderr.contains("describe"), "what loads the plugin is no part of it: {}", read.stderr);
    let quiet = command(&config, &["read", "faulty://faulty/a.txt"]).await.success();
    assert_eq!(quiet.stderr, "");
}

#[tokio::test]
async fn the_cost_of_calls_is_json_for_programs() {
    let folder = Folder::with_files([("a.txt", "x".repeat(100_000))]);
    let config = with_file(&folder);
    let read = command(&config, &["read", "faulty://faulty/a.txt", "--timing", "--json"]).await.success();
    assert_eq!(read.json()["contents"][0]["text"].as_str().unwrap().len(), 100_000);
    let timing = last_json(&read);
    let call = &timing["calls"][0];
    assert_eq!((&call["function"], &call["path"], &call["error"]), (&"read".into(), &"a.txt".into(), &Value::Null));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{timing:#}"));
    assert!(number(&call["total_ms"]) >= number(&call["guest_ms"]), "{timing:#}");
    assert!(number(&call["memory_peak"]) > 100_000.0 && number(&call["memory_peak"]) < number(&call["memory_limit"]));
    let host_calls = call["host_calls"].as_array().unwrap();
    let bytes: u64 = host_calls.iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 100_000, "the content, once: {timing:#}");
    let time: f64 = host_calls.iter().map(|one| number(&one["ms"])).sum();
    assert!(time > 0.0 && time <= number(&call["total_ms"]), "{timing:#}");
    assert!(timing["encoded_bytes"].as_u64().unwrap() > 100_000);
    let list = command(&config, &["list", "--timing", "--json"]).await.success();
    assert_eq!(last_json(&list)["calls"][0]["function"], "list-entries");
}

#[tokio::test]
async fn a_trap_has_its_place_in_the_source_and_the_last_host_calls() {
    let folder = Folder::with_files([("a.txt", "x")]);
    injecting(&folder, "read.trap");
    let failed = command(&with_file(&folder), &["read", "faulty://faulty/a.txt"]).await;
    assert_eq!(failed.code(), 1);
    for expected in [
        "failed call: read `a.txt` of plugin `faulty`: trapped: wasm trap: wasm `unreachable` instruction executed",
        "inject_fault",
        "src/lib.rs:",
        "  used:   ",
        ", memory ",
        "wasi:filesystem/types descriptor.",
    ] {
        assert!(failed.stderr.contains(expected), "{expected}: {}", failed.stderr);
    }
    let place = failed.stderr.find("failed call").unwrap();
    assert!(place < failed.stderr.find("error: ").unwrap(), "what to read first is last: {}", failed.stderr);
}

#[tokio::test]
async fn a_call_that_waits_too_long_names_the_host_call_and_one_that_computes_its_stack() {
    let folder = Folder::with_files([("a.txt", "x")]);
    injecting(&folder, "read.hang");
    let plugin_of_folder = Plugin::faulty("faulty", folder.path()).limit("deadline", "5s");
    let config = ConfigFile::new().plugin(plugin_of_folder).write();
    let waits = command(&config, &["read", "faulty://faulty/a.txt"]).await;
    assert!(waits.stderr.contains("no response within `limits.deadline` (5s)"), "{}", waits.stderr);
    let open = waits.stderr.lines().find(|line| line.contains("had not returned"));
    assert!(open.is_some_and(|line| line.contains("wasi:")), "{}", waits.stderr);

    let computes = command(&plugin("busy", &[("cpu", "100ms"), ("deadline", "1m")]), &["read", "busy:///spin"]).await;
    assert!(computes.stderr.contains("it ran for longer than `limits.cpu` (100ms)"), "{}", computes.stderr);
    assert!(computes.stderr.contains("  stack:  "), "{}", computes.stderr);
}

#[tokio::test]
async fn a_test_shows_each_place_once() {
    let folder = Folder::with_files([("a.txt", "x"), ("b.txt", "x"), ("c.txt", "x")]);
    injecting(&folder, "read.trap");
    let grant = format!("{}=/data", folder.path().display());
    let component = fixture("faulty");
    let arguments = ["test", component.to_str().unwrap(), "--dir", &grant, "--log", "off"];
    let tested = run(arguments).await;
    assert_eq!(tested.stderr.matches("failed call: read ").count(), 1, "{}", tested.stderr);
    assert!(tested.stderr.contains(" more calls failed there"), "{}", tested.stderr);
    let report = run(arguments.into_iter().chain(["--json"])).await.json();
    let failed = &report["failed_calls"][0];
    assert!(failed["count"].as_u64().unwrap() >= 3, "{report:#}");
    assert!(
        failed["stack"].as_array().unwrap().iter().any(|frame| {
            frame["function"].as_str().unwrap().contains("inject_fault") && frame["place"].is_string()
        })
    );
}

#[tokio::test]
async fn check_shows_where_a_provider_fails() {
    let folder = Folder::with_files([("a.txt", "x")]);
    injecting(&folder, "list.trap");
    let checked = command(&with_file(&folder), &["check"]).await;
    assert_eq!(checked.code(), 1);
    assert!(checked.stderr.contains("failed call: list-entries of plugin `faulty`: trapped"), "{}", checked.stderr);
}

#[tokio::test]
async fn a_server_logs_the_stack_and_tells_no_client() {
    let folder = Folder::with_files([("a.txt", "x")]);
    injecting(&folder, "read.trap");
    let mut server = RawStdio::start(&with_file(&folder), Revision::V_2025_11_25).await;
    let error = server.read("faulty://faulty/a.txt").await.unwrap_err();
    assert!(!error.to_string().contains("inject_fault"), "{error}");
    let line = server.log_line("trapped: wasm trap").await;
    assert!(line.contains("stack=\"abort < ") && line.contains("faulty::"), "{line}");
    assert!(!line.contains("wasm backtrace"), "{line}");
    server.end().await;
}

#[tokio::test]
async fn a_traceback_of_an_interpreter_is_one_record() {
    for (language, expected) in
        [("python", ["Traceback", "KeyError: 'missing'"]), ("javascript", ["TypeError", "at read"])]
    {
        let component = fixture(&format!("failing-{language}"));
        let plugin = Plugin::new("failing", &component, "f:///").limit("deadline", "1m").limit("cpu", "10s");
        let config = ConfigFile::new().plugin(plugin).write();
        let config = config.path();
        let arguments = ["read", "f:///bug", "--log-format", "json", "--config", config.to_str().unwrap()];
        let failed = run(arguments).await;
        let lines = failed.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let messages: Vec<_> = lines.filter_map(|line| Some(line["message"].as_str()?.to_owned())).collect();
        let record = messages.iter().find(|message| expected.iter().all(|part| message.contains(part)));
        assert!(record.is_some(), "{language}: {}", failed.stderr);
        let shown = failed.stderr.split("failed call: read `bug`").nth(1).unwrap();
        assert!(expected.iter().all(|part| shown.contains(part)), "without the log, too: {language}: {shown}");
    }
}

#[tokio::test]
async fn a_loop_in_python_has_its_line_if_its_stack_is_asked_for() {
    let plugin = Plugin::new("failing", &fixture("failing-python"), "f:///").limit("deadline", "1m").limit("cpu", "2s");
    let config = ConfigFile::new().plugin(plugin.variable("MCP_HOST_STACK_AFTER", "0.1")).write();
    let failed = command(&config, &["read", "f:///loop"]).await;
    let shown = failed.stderr.split_once("failed call: read `loop`").map(|(_, shown)| shown).unwrap_or_default();
    let expected = ["it ran for longer than `limits.cpu` (2s)", "read has run for ", "failing.py\", line", "in read"];
    assert!(expected.iter().all(|part| shown.contains(part)), "{}", failed.stderr);
}

#[tokio::test]
async fn a_trap_in_c_has_its_line_and_a_loop_in_go_its_function() {
    for (language, path, expected) in [
        ("c", "trap", ["trapped: wasm trap: wasm `unreachable` instruction executed", "abort", "granted.c:"]),
        // In WebAssembly, address 0 is memory: without the sanitizer this would not trap.
        ("c", "null", ["trapped: wasm trap: wasm `unreachable` instruction executed", "read", "granted.c:"]),
        ("go", "loop", ["it ran for longer than `limits.cpu` (500ms)", "main.endless", "main.granted.Read"]),
    ] {
        let plugin = Plugin::new("granted", &fixture(&format!("granted-{language}")), "granted:///");
        let plugin = plugin.limit("cpu", "500ms").limit("deadline", "1m");
        let config = ConfigFile::new().plugin(plugin).write();
        let failed = command(&config, &["read", &format!("granted:///{path}")]).await;
        let stack = failed.stderr.split_once("failed call").map(|(_, stack)| stack).unwrap_or_default();
        assert!(expected.iter().all(|part| stack.contains(part)), "{language}: {}", failed.stderr);
    }
}

#[tokio::test]
async fn a_profile_is_for_firefox_or_a_flame_graph_and_a_tree() {
    let config = plugin("busy", &[("cpu", "1m"), ("deadline", "1m")]);
    let folder = Folder::with_files([("x", "")]);
    let file = folder.path().join("profile.json");
    let read = ["read", "busy:///compute?rounds=50000", "--profile"];
    command(&config, &[&read[..], &[file.to_str().unwrap()]].concat()).await.success();
    let profile: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(profile["threads"][0]["name"], "busy");
    assert!(profile["threads"][0]["samples"]["length"].as_u64().unwrap() > 10, "{profile:#}");
    let tree = command(&config, &[&read[..], &["-"]].concat()).await.success();
    assert!(tree.stderr.contains(" samples in "), "{}", tree.stderr);
    let first = tree.stderr.lines().find(|line| line.contains('%')).unwrap();
    assert!(first.trim_start().starts_with("100.0%") && first.ends_with("  read"), "{}", tree.stderr);
    let rows: Vec<_> = tree.stderr.lines().filter(|line| line.contains('│')).collect();
    assert!(rows.len() > 1 && rows.iter().all(|row| row.chars().count() <= 100), "{}", tree.stderr);
    assert_eq!(rows[0], format!("│read {}", "─".repeat(94)), "all of the time is below the function of the contract");
    assert!(!tree.stderr.contains('\u{1b}'), "{}", tree.stderr);
    let (graph, percentages) = tree.stderr.split_once("\n\n").unwrap();
    assert!(graph.ends_with(rows[rows.len() - 1]) && percentages.starts_with(first), "{}", tree.stderr);
    assert_eq!(tree.text(), "computed");
    let colored = command(&config, &[&read[..], &["-", "--color", "always"]].concat()).await.success();
    assert!(colored.stderr.contains("│read ") && !colored.stderr.contains('─'), "{}", colored.stderr);
    assert!(colored.stderr.lines().any(|line| line.starts_with("\u{1b}[30m\u{1b}[")), "{}", colored.stderr);
    let unwritable = command(&config, &[&read[..], &["/nowhere/profile.json"]].concat()).await;
    assert_eq!(unwritable.code(), 1);
    assert!(unwritable.stderr.contains("/nowhere/profile.json"), "{}", unwritable.stderr);
}
