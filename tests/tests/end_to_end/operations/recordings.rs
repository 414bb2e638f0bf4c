//! `--record` and `replay`: the same calls, without any grant.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_host_tests::{
    ConfigFile, Folder, MockOrigin, Output, Plugin, RawStdio, Reply, Revision, WrittenConfig, fixture, run,
};
use rusqlite::Connection;
use serde_json::Value;

/// The languages of `examples/csv`.
const LANGUAGES: [&str; 6] = ["rust", "python", "javascript", "typescript", "c", "go"];
/// The languages with a provider that uses each grant.
const WITH_GRANTS: [&str; 4] = ["python", "javascript", "c", "go"];

fn csv(language: &str, folder: &Path) -> WrittenConfig {
    let plugin = patient(Plugin::new("csv", &fixture(&format!("csv-{language}")), "csv:///"));
    ConfigFile::new().plugin(plugin.dir(folder, "/csv").config("max-rows", 3)).write()
}

/// A plugin with long time limits: each call starts an interpreter.
fn patient(plugin: Plugin) -> Plugin {
    plugin.limit("deadline", "1m").limit("cpu", "10s").limit("memory", "256MiB")
}

async fn record(config: &WrittenConfig, arguments: &[&str], into: &Path) -> Output {
    let (config, into) = (config.path(), into.to_str().unwrap().to_owned());
    let options = ["--config", config.to_str().unwrap(), "--log", "off", "--record", &into];
    run(arguments.iter().copied().chain(options)).await
}

async fn replay(file: &Path, options: &[&str]) -> Output {
    run(["replay", file.to_str().unwrap(), "--log", "off", "--json"].into_iter().chain(options.iter().copied())).await
}

/// Returns the number of replayed calls with the same result.
fn same(replayed: &Output) -> u64 {
    assert_eq!(replayed.code(), 0, "{}{}", replayed.text(), replayed.stderr);
    let report: Value = serde_json::from_str(&replayed.text()).unwrap();
    assert_eq!((report["differing"].as_array().unwrap().len(), &report["partial"]), (0, &0.into()), "{report:#}");
    assert_eq!(report["is_complete"], true, "{report:#}");
    report["calls"].as_u64().unwrap()
}

/// Returns the lines of a recording with this member.
fn lines(file: &Path, member: &str) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| serde_json::from_str::<Value>(line).unwrap().get(member).cloned()).collect()
}

/// Returns the names of the host calls in all calls.
fn host_calls(file: &Path) -> Vec<String> {
    let calls = lines(file, "call");
    let of = |call: &Value| call["host-calls"].as_array().unwrap().clone();
    calls.iter().flat_map(of).map(|call| call["function"].as_str().unwrap().to_owned()).collect()
}

fn recordings() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("recorded.jsonl");
    (dir, file)
}

#[tokio::test]
async fn what_a_provider_does_is_the_same_without_its_directory_in_every_language() {
    for language in LANGUAGES {
        let folder = Folder::with_files([("people.csv", "name,born\nAda,1815\nGrace,1906\nKen,1943\nRob,1956\n")]);
        let (_dir, file) = recordings();
        let config = csv(language, folder.path());
        record(&config, &["list", "--all"], &file).await.success();
        let listed = same(&replay(&file, &[]).await);
        assert!(listed >= 2, "{language}: `describe` and `list-entries`");
        record(&config, &["read", "csv:///people.csv"], &file).await;
        drop(folder);
        let read = lines(&file, "call").into_iter().find(|call| call["function"] == "read").unwrap();
        assert!(read["complete"] == true && !read["outcome"]["cancelled"].is_object(), "{language}: {read:#}");
        assert!(same(&replay(&file, &["--times", "20"]).await) >= 2, "{language}");
        let calls = host_calls(&file);
        assert!(calls.iter().any(|call| call == "wasi:filesystem/preopens get-directories"), "{language}: {calls:?}");
    }
}

#[tokio::test]
async fn a_thousand_replays_are_equal() {
    let folder = Folder::with_files([("people.csv", "name,born\nAda,1815\n")]);
    for language in ["rust", "python"] {
        let (_dir, file) = recordings();
        record(&csv(language, folder.path()), &["list"], &file).await.success();
        // Python requests its hash seed and its start time.
        let calls = host_calls(&file);
        let takes_random = calls.iter().any(|call| call == "wasi:random/random get-random-bytes");
        assert!(takes_random || language == "rust", "{calls:?}");
        assert!(same(&replay(&file, &["--times", "1000"]).await) >= 2, "{language}");
    }
}

#[tokio::test]
async fn requests_buckets_and_variables_come_from_the_recording_and_secrets_are_not_in_it() {
    let origin = MockOrigin::http().await;
    origin.serve_with("/echo", |request| Reply::ok("text/plain", request.body.clone()));
    let secrets = Folder::with_files([("who", "correct-horse-battery")]);
    for language in WITH_GRANTS {
        let plugin = patient(Plugin::new("granted", &fixture(&format!("granted-{language}")), "f:///"));
        let plugin = plugin.config("url", origin.url("/echo")).origin(&origin.origin()).bucket("visits");
        let plugin = plugin.variable_from_file("WHO", &secrets.path().join("who"));
        let config = ConfigFile::new().plugin(plugin).write();
        let (_dir, file) = recordings();
        for (path, content, calls) in [
            ("http", "sent", "wasi:http/outgoing-handler handle"),
            ("keyvalue", "2 5 0 1 9 None False ['a', 'n']", "wasi:keyvalue/store open"),
            ("env", "correct-horse-battery", "wasi:cli/environment get-environment"),
        ] {
            let read = record(&config, &["read", &format!("f:///{path}")], &file).await.success();
            assert_eq!(read.text(), content, "{language}");
            let made = host_calls(&file);
            assert!(made.iter().any(|made| made == calls), "{language}: {made:?}");
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains("correct-horse"), "{language}: {text}");
            assert!(same(&replay(&file, &["--times", "3"]).await) >= 2, "{language} {path}");
        }
    }
}

#[tokio::test]
async fn rows_of_a_database_come_from_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    let shop = Connection::open(&database).unwrap();
    shop.execute_batch("CREATE TABLE people (name TEXT, born INTEGER); INSERT INTO people VALUES ('Ada', 1815);")
        .unwrap();
    drop(shop);
    let plugin = Plugin::database("shop", format!("sqlite://{}", database.display()));
    let config = ConfigFile::new().plugin(patient(plugin)).write();
    let (_dir, file) = recordings();
    record(&config, &["list", "--all"], &file).await.success();
    fs::remove_file(&database).unwrap();
    assert!(host_calls(&file).iter().any(|call| call.starts_with("mcp-host:sql/databases ")));
    assert!(same(&replay(&file, &["--times", "10"]).await) >= 2);
}

#[tokio::test]
async fn a_recording_is_for_its_owner_only() {
    let folder = Folder::with_files([("a.txt", "x")]);
    let config = ConfigFile::new().plugin(Plugin::faulty("faulty", folder.path())).write();
    let (_dir, file) = recordings();
    fs::write(&file, "what was there").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let read = record(&config, &["read", "faulty://faulty/a.txt"], &file).await.success();
    assert!(read.stderr.contains("calls recorded in "), "{}", read.stderr);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let end = lines(&file, "end");
    assert_eq!(end, [serde_json::json!({ "calls": lines(&file, "call").len(), "skipped": 0 })]);
    assert_eq!(lines(&file, "mcp-host-recording"), [1]);
}

#[tokio::test]
async fn of_a_read_only_the_plugin_that_serves_the_resource_is_recorded() {
    let folder = Folder::with_files([("a.txt", "x"), ("people.csv", "name,born\nAda,1815\n")]);
    let csv = patient(Plugin::new("csv", &fixture("csv-rust"), "csv:///")).dir(folder.path(), "/csv");
    let config = ConfigFile::new().plugin(csv).plugin(Plugin::faulty("faulty", folder.path())).write();
    let (_dir, file) = recordings();
    let recorded = |member: &str, key: &str| {
        let mut names: Vec<_> =
            lines(&file, member).iter().map(|line| line[key].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    record(&config, &["read", "faulty://faulty/a.txt"], &file).await.success();
    assert_eq!(
        (recorded("plugin", "name"), recorded("call", "plugin")),
        (vec!["faulty".to_owned()], vec!["faulty".to_owned()])
    );
    record(&config, &["list"], &file).await.success();
    assert_eq!(recorded("plugin", "name"), ["csv", "faulty"], "a listing has all plugins");
}

#[tokio::test]
async fn a_trap_is_recorded_and_replayed_as_one() {
    let folder = Folder::with_files([("a.txt", "x")]);
    folder.write(".faults/read.trap", "");
    let config = ConfigFile::new().plugin(Plugin::faulty("faulty", folder.path())).write();
    let (_dir, file) = recordings();
    assert_eq!(record(&config, &["read", "faulty://faulty/a.txt"], &file).await.code(), 1);
    let read = lines(&file, "call").into_iter().find(|call| call["function"] == "read").unwrap();
    assert!(read["outcome"]["trap"].as_str().unwrap().contains("unreachable"), "{read:#}");
    drop(folder);
    assert!(same(&replay(&file, &[]).await) >= 2);
}

#[tokio::test]
async fn another_component_differs_where_it_calls_something_else_or_answers_something_else() {
    let folder = Folder::with_files([("people.csv", "name,born\nAda,1815\n")]);
    let (dir, file) = recordings();
    record(&csv("rust", folder.path()), &["list"], &file).await.success();
    let python = fixture("csv-python");
    let other = replay(&file, &["--component", python.to_str().unwrap()]).await;
    assert_eq!(other.code(), 1, "{}", other.text());
    let report: Value = serde_json::from_str(&other.text()).unwrap();
    let first = &report["differing"][0];
    assert!(first["recorded"] != first["replayed"], "{report:#}");

    // A recording in which the provider gave another answer: the host calls are the same, the answer differs.
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("people.csv"));
    let changed: Vec<_> = text
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line["call"]["function"] == "list-entries" {
                line["call"]["outcome"]["answer"]["entries"][0]["name"] = "persons".into();
            }
            line.to_string()
        })
        .collect();
    let edited = dir.path().join("edited.jsonl");
    fs::write(&edited, changed.join("\n")).unwrap();
    let differs = replay(&edited, &[]).await;
    assert_eq!(differs.code(), 1);
    let report: Value = serde_json::from_str(&differs.text()).unwrap();
    assert_eq!(report["differing"].as_array().unwrap().len(), 1, "{report:#}");
    assert_eq!(report["differing"][0]["at"], "/entries/0/name");
    assert_eq!(report["differing"][0]["recorded"], "\"persons\"");
}

#[tokio::test]
async fn a_file_that_is_no_recording_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.jsonl");
    for (text, expected) in [
        ("{\"mcp-host-recording\":2}\n", "has version 2 of the format, and 1 is known"),
        ("{\"call\":{}}\n", "line 1: "),
        ("{\"mcp-host-recording\":1}\nnonsense\n", "line 2: "),
    ] {
        fs::write(&file, text).unwrap();
        let refused = replay(&file, &[]).await;
        assert!(refused.code() == 1 && refused.stderr.contains(expected), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn a_recording_is_a_regular_file_with_lines_of_a_bounded_length() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo.jsonl");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let refused = replay(&fifo, &[]).await;
    assert!(refused.code() == 1 && refused.stderr.contains("it is a FIFO, not a regular file"), "{}", refused.stderr);

    // A line of 1 GiB that takes no space on the disk.
    let long = dir.path().join("long.jsonl");
    fs::write(&long, "{\"mcp-host-recording\":1}\n").unwrap();
    fs::File::options().write(true).open(&long).unwrap().set_len(1 << 30).unwrap();
    let refused = replay(&long, &[]).await;
    assert!(refused.code() == 1 && refused.stderr.contains("line 2: it has more than 64 MiB"), "{}", refused.stderr);
}

#[tokio::test]
async fn recordings_of_a_directory_are_a_regression_suite() {
    let folder = Folder::with_files([("people.csv", "name,born\nAda,1815\n")]);
    let dir = tempfile::tempdir().unwrap();
    for (name, arguments) in
        [("list.jsonl", ["list", "--all"].as_slice()), ("read.jsonl", &["read", "csv:///people.csv"])]
    {
        record(&csv("rust", folder.path()), arguments, &dir.path().join(name)).await;
    }
    let test = |language: &str| {
        let (component, dir) = (fixture(&format!("csv-{language}")), dir.path().to_owned());
        async move {
            let arguments = ["test", component.to_str().unwrap(), "--replay", dir.to_str().unwrap(), "--log", "off"];
            run(arguments).await
        }
    };
    let passed = test("rust").await.success();
    assert!(passed.text().contains("list.jsonl: ") && passed.text().contains("read.jsonl: "), "{}", passed.text());
    let failed = test("go").await;
    assert_eq!(failed.code(), 1);
    assert!(failed.text().contains("recorded: ") && failed.text().contains("now: "), "{}", failed.text());
    let empty = tempfile::tempdir().unwrap();
    let component = fixture("csv-rust");
    let none = run(["test", component.to_str().unwrap(), "--replay", empty.path().to_str().unwrap()]).await;
    assert!(none.code() == 1 && none.stderr.contains("no recordings"), "{}", none.stderr);
}

/// A config with an administration socket for a server on stdio.
fn administered(folder: &Path, plugin: Plugin) -> WrittenConfig {
    let listen = format!("\n[admin]\nlisten = \"unix:{}\"\n", folder.join("admin.sock").display());
    ConfigFile::new().plugin(plugin.set("response-cache", false)).audit("file", "audit.jsonl").append(&listen).write()
}

fn audit(config: &WrittenConfig) -> String {
    fs::read_to_string(config.dir().join("audit.jsonl")).unwrap_or_default()
}

#[tokio::test]
async fn calls_of_a_running_server_are_recorded_for_its_administrator() {
    let data = Folder::with_files([("a.txt", "what the provider reads")]);
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::faulty("faulty", data.path()).instances("max-idle", 2);
    let config = administered(dir.path(), plugin);
    let mut server = RawStdio::start(&config, Revision::V_2025_11_25).await;
    assert!(server.read("faulty://faulty/a.txt").await.is_ok());
    let file = dir.path().join("served.jsonl");
    let (path, out) = (config.path(), file.clone());
    let recording = tokio::spawn(async move {
        let options = ["--max", "3", "--for", "1m", "--config"];
        let command = ["record".as_ref(), "faulty".as_ref(), "--out".as_ref(), out.as_os_str()];
        run(command.into_iter().chain(options.map(AsRef::as_ref)).chain([path.as_os_str()])).await
    });
    while !recording.is_finished() {
        assert_eq!(server.read("faulty://faulty/a.txt").await, Ok("what the provider reads".to_owned()));
    }
    let recorded = recording.await.unwrap().success();
    assert!(recorded.stderr.contains("3 calls recorded in "), "{}", recorded.stderr);
    assert_eq!((lines(&file, "call").len(), &lines(&file, "end")[0]["calls"]), (3, &3.into()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // After the recording, the server continues as before.
    assert!(server.read("faulty://faulty/a.txt").await.is_ok());
    drop(data);
    assert_eq!(same(&replay(&file, &[]).await), 3);
    let absent = run(["record", "absent", "--out", "/dev/null", "--config", config.path().to_str().unwrap()]).await;
    assert!(absent.code() == 1 && absent.stderr.contains("no plugin `absent`"), "{}", absent.stderr);
    server.end().await;
    let audited = audit(&config);
    let line = audited.lines().find(|line| line.contains("\"admin-record\"")).unwrap_or_else(|| panic!("{audited}"));
    assert!(line.contains("\"faulty\"") && line.contains("\"ok\""), "{line}");
}

#[tokio::test]
async fn a_call_for_whose_record_there_is_no_memory_is_served_and_counted() {
    // Recorded, it takes 80 times its size.
    const SIZE: usize = 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::keyvalue("a").bucket("pages").limit("cpu", "10s").limit("deadline", "1m");
    let config = administered(dir.path(), plugin);
    let mut server = RawStdio::start(&config, Revision::V_2025_11_25).await;
    for set in ["small?value=x".to_owned(), format!("large?size={SIZE}")] {
        assert_eq!(server.read(&format!("keyvalue://a/set/pages/{set}")).await, Ok("done".to_owned()));
    }
    let file = dir.path().join("served.jsonl");
    let (path, out) = (config.path(), file.clone());
    let recording = tokio::spawn(async move {
        let options = ["--max", "5", "--for", "1m", "--config"];
        let command = ["record".as_ref(), "a".as_ref(), "--out".as_ref(), out.as_os_str()];
        run(command.into_iter().chain(options.map(AsRef::as_ref)).chain([path.as_os_str()])).await
    });
    // Were these failures, the fourth would be refused.
    while !recording.is_finished() {
        let large = server.read("keyvalue://a/get/pages/large").await;
        assert_eq!(large.map(|text| text.len()), Ok(SIZE));
        assert_eq!(server.read("keyvalue://a/get/pages/small").await, Ok("x".to_owned()));
    }
    let recorded = recording.await.unwrap().success();
    assert!(recorded.stderr.contains("5 calls recorded in "), "{}", recorded.stderr);
    assert!(recorded.stderr.contains(" more were not recorded"), "{}", recorded.stderr);
    let large = server.read("keyvalue://a/get/pages/large").await;
    assert_eq!(large.map(|text| text.len()), Ok(SIZE));
    server.end().await;
    assert_eq!(same(&replay(&file, &[]).await), 5);
}

#[tokio::test]
async fn calls_of_a_running_server_are_profiled_for_its_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let busy = Plugin::new("busy", &fixture("busy"), "busy:///").limit("cpu", "1m").limit("deadline", "1m");
    let config = administered(dir.path(), busy);
    let mut server = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let path = config.path();
    let profiling = tokio::spawn(async move {
        run(["profile", "busy", "--seconds", "2", "--out", "-", "--config", path.to_str().unwrap()]).await
    });
    while !profiling.is_finished() {
        server.read("busy:///compute?rounds=5000").await.unwrap();
    }
    let profile: Value = serde_json::from_str(&profiling.await.unwrap().success().text()).unwrap();
    assert_eq!(profile["threads"][0]["name"], "busy");
    assert!(profile["threads"][0]["samples"]["length"].as_u64().unwrap() > 10, "{profile:#}");
    server.end().await;
    assert!(audit(&config).contains("\"admin-profile\""), "{}", audit(&config));
}
