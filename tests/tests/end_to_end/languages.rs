//! Providers in every language with an SDK: the same example gives the same answers, and errors are never bare traps.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Folder, MockOrigin, Plugin, RawStdio, Reply, Revision, WrittenConfig, fixture, run};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

/// The languages of `examples/csv`.
const LANGUAGES: [&str; 6] = ["rust", "python", "javascript", "typescript", "c", "go"];

/// The languages whose runtime turns errors into exceptions.
const WITH_EXCEPTIONS: [&str; 2] = ["python", "javascript"];

/// The languages with a provider that uses each grant.
const WITH_GRANTS: [&str; 4] = ["python", "javascript", "c", "go"];

/// The languages with a provider that fails in every way.
const WITH_FAILURES: [&str; 3] = ["python", "javascript", "go"];

/// The time to compile the largest component, a Python interpreter, on a busy machine.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(300);

fn examples() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/csv"))
}

fn csv(language: &str, folder: &Path) -> Plugin {
    csv_component(&fixture(&format!("csv-{language}")), folder)
}

fn csv_component(component: &Path, folder: &Path) -> Plugin {
    patient("csv", component, "csv:///").dir(folder, "/csv").config("max-rows", 3)
}

/// A plugin with long time limits: each call starts an interpreter, on a machine that runs all other tests.
fn patient(name: &str, component: &Path, mount: &str) -> Plugin {
    Plugin::new(name, component, mount).limit("deadline", "1m").limit("cpu", "10s")
}

/// Returns the output of `inspect` for a component. A server compiles it before, within the limits of the tests.
async fn inspect(component: &Path) -> Value {
    let config = ConfigFile::new().plugin(patient("inspected", component, "inspected:///")).write();
    RawStdio::start(&config, Revision::V_2025_11_25).await.end().await;
    run(["inspect".as_ref(), component.as_os_str(), "--json".as_ref()]).await.success().json()
}

/// Starts a server and waits until its plugin is loaded.
async fn start(config: &WrittenConfig) -> RawStdio {
    let mut server = RawStdio::start_before_plugins_load(config, Revision::V_2025_11_25).await;
    let started = Instant::now();
    while server.request("resources/templates/list", json!({})).await.result()["_meta"].is_object() {
        assert!(started.elapsed() < COMPILE_TIMEOUT, "{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server
}

/// Returns the answer to a request of the list, in the list's form. For a listing, it contains all pages.
async fn answer(server: &mut RawStdio, method: &str, params: &Value) -> Value {
    if method != "resources/list" {
        let mut answer = server.request(method, params.clone()).await.message;
        let answer = answer.as_object_mut().unwrap();
        return answer.remove_entry("result").or_else(|| answer.remove_entry("error")).into_iter().collect();
    }
    let mut pages = Vec::new();
    let mut params = Map::new();
    loop {
        let page = server.request(method, params.clone().into()).await.result().clone();
        pages.push(page["resources"].clone());
        let Some(cursor) = page.get("nextCursor") else { return json!({ "pages": pages }) };
        params.insert("cursor".to_owned(), cursor.clone());
    }
}

#[tokio::test]
async fn the_example_gives_the_same_answers_in_every_language() {
    for language in LANGUAGES {
        assert_answers_requests(&fixture(&format!("csv-{language}"))).await;
    }
}

#[tokio::test]
async fn a_component_that_was_built_in_november_2026_answers_as_it_did() {
    for name in ["csv-rust", "csv-c"] {
        assert_answers_requests(&kept_component(name)).await;
    }
}

#[tokio::test]
async fn a_component_of_a_later_patch_version_of_the_contract_is_served() {
    let built = fs::read(kept_component("csv-rust")).unwrap();
    for (version, error) in [
        ("0.1.1", None),
        ("0.1.9", None),
        ("0.2.0", Some("it exports `mcp-host:provider/resource-provider@0.2.0`, and this host knows")),
    ] {
        let folder = Folder::with_files([("later.wasm", with_contract_version(&built, version))]);
        let component = folder.path().join("later.wasm");
        let Some(error) = error else {
            assert_answers_requests(&component).await;
            continue;
        };
        let refused = run(["inspect".as_ref(), component.as_os_str()]).await;
        assert!(refused.code() != 0 && refused.stderr.contains(error), "{version}: {refused:?}");
    }
}

/// Asserts that the component answers all requests of the example's list as expected.
async fn assert_answers_requests(component: &Path) {
    let list = fs::read_to_string(examples().join("requests.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let config = ConfigFile::new().page_size(3).plugin(csv_component(component, &examples().join("data"))).write();
    let mut server = start(&config).await;
    for request in list["requests"].as_array().unwrap() {
        let mut expected = request.as_object().unwrap().clone();
        let method = expected.remove("method").unwrap();
        let params = expected.remove("params").unwrap_or_else(|| json!({}));
        let answer = answer(&mut server, method.as_str().unwrap(), &params).await;
        assert_eq!(answer, Value::Object(expected), "{}: {method} {params}", component.display());
    }
    server.end().await;
}

/// Returns the path of a component that is stored as a file.
fn kept_component(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/contract-0.1.0").join(name).with_extension("wasm")
}

/// Returns the component with another contract version in the name of its export. All versions have the same length.
fn with_contract_version(component: &[u8], version: &str) -> Vec<u8> {
    let (name, other) = ("resource-provider@0.1.0", format!("resource-provider@{version}"));
    let mut patched = component.to_vec();
    for start in 0..component.len() - name.len() {
        if component[start..].starts_with(name.as_bytes()) {
            patched[start..start + name.len()].copy_from_slice(other.as_bytes());
        }
    }
    assert_ne!(patched == component, version != "0.1.0");
    patched
}

#[tokio::test]
async fn the_example_asks_for_the_same_in_every_language() {
    for language in LANGUAGES {
        let report = inspect(&fixture(&format!("csv-{language}"))).await;
        let expected = json!({
            "http": [], "keyvalue": [], "sql": [], "env": [], "limits": {},
            "dirs": [{ "guest": "/csv", "mode": "ro", "why": "the folder of CSV files" }],
            "config": {
                "dir": { "type": "string", "default": "/csv", "why": "the folder, at its guest path" },
                "max-rows": { "type": "integer", "default": 1000, "why": "the maximum number of rows of one read" },
            },
        });
        assert_eq!(report["needs"], expected, "{language}");
    }
}

#[tokio::test]
async fn a_file_that_is_written_is_notified_in_every_language() {
    for language in LANGUAGES {
        let folder = Folder::with_files([("a.csv", "x\n1\n"), ("b.csv", "x\n")]);
        let config = ConfigFile::new().plugin(csv(language, folder.path())).write();
        let mut server = start(&config).await;
        server.subscribe("csv:///a.csv/rows?from=1").await;
        fs::write(folder.path().join("a.csv"), "x\n1\n2\n").unwrap();
        let updated = server.notification("notifications/resources/updated").await;
        assert_eq!(updated["params"]["uri"], "csv:///a.csv/rows?from=1", "{language}");
        assert_eq!(server.read("csv:///a.csv/rows?from=2").await, Ok("x\n2\n".to_owned()), "{language}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_path_that_a_client_expands_can_be_read_and_subscribed_to_in_every_language() {
    let name = "me@h (1),a&b=c+d;e!f$g'h*i:j.csv";
    // A client encodes all reserved characters of a value (RFC 6570, section 3.2.2).
    let expanded = "csv:///me%40h%20%281%29%2Ca%26b%3Dc%2Bd%3Be%21f%24g%27h%2Ai%3Aj.csv/rows?from=1";
    let listed = "csv:///me@h%20(1),a&b=c+d;e!f$g'h*i:j.csv";
    for language in LANGUAGES {
        let folder = Folder::with_files([(name, "x\n1\n")]);
        let config = ConfigFile::new().plugin(csv(language, folder.path())).write();
        let mut server = start(&config).await;
        let entries = server.request("resources/list", json!({})).await.result()["resources"].clone();
        assert_eq!(entries[0]["uri"], listed, "{language}");
        assert_eq!(server.read(expanded).await, Ok("x\n1\n".to_owned()), "{language}");
        let encoded = expanded.strip_suffix("/rows?from=1").unwrap();
        assert_eq!(server.read(encoded).await, server.read(listed).await, "{language}");
        server.subscribe(expanded).await;
        fs::write(folder.path().join(name), "x\n1\n2\n").unwrap();
        let updated = server.notification("notifications/resources/updated").await;
        assert_eq!(updated["params"]["uri"], expanded, "{language}");
        server.end().await;
    }
}

/// Returns the language's provider that receives lists.
fn lists(language: &str) -> PathBuf {
    let name = if WITH_GRANTS.contains(&language) { "granted" } else { "lists" };
    fixture(&format!("{name}-{language}"))
}

#[tokio::test]
async fn lists_of_1_to_16_mb_are_received_in_every_language_by_fresh_and_by_reused_instances() {
    let origin = MockOrigin::http().await;
    let sizes = [1_000_000, 2_000_000, 16_000_000];
    for size in sizes {
        origin.serve_with(&format!("/{size}"), move |_| Reply::ok("application/octet-stream", vec![0; size]));
    }
    for language in LANGUAGES {
        for is_reused in [false, true] {
            let mut plugin = patient("lists", &lists(language), "l:///").config("url", origin.url("").as_str());
            plugin = plugin.bucket("visits").origin(&origin.origin()).limit("cpu", "1m").limit("memory", "512MiB");
            if is_reused {
                plugin = plugin.instances("max-calls", 1000).instances("max-idle", 1);
            }
            let mut server = start(&ConfigFile::new().plugin(plugin).write()).await;
            // Twice, because a garbage collector starts only after the heap has grown.
            for size in sizes.into_iter().chain(sizes) {
                let body = server.read(&format!("l:///body/{size}")).await;
                assert_eq!(body, Ok(size.to_string()), "{language}, reused: {is_reused}\n{}", server.log());
                let values = server.read(&format!("l:///bucket/{size}")).await;
                assert_eq!(values, Ok((5 * size).to_string()), "{language}, reused: {is_reused}\n{}", server.log());
            }
            server.end().await;
        }
    }
}

#[tokio::test]
async fn lists_of_2_mb_are_received_in_go_within_the_default_memory() {
    let origin = MockOrigin::http().await;
    origin.serve_with("/2000000", |_| Reply::ok("application/octet-stream", vec![0; 2_000_000]));
    let plugin = patient("lists", &lists("go"), "l:///").config("url", origin.url("").as_str());
    let mut server = start(&ConfigFile::new().plugin(plugin.bucket("visits").origin(&origin.origin())).write()).await;
    for _ in 0..10 {
        assert_eq!(server.read("l:///body/2000000").await, Ok("2000000".to_owned()), "{}", server.log());
        assert_eq!(server.read("l:///bucket/1000000").await, Ok("5000000".to_owned()), "{}", server.log());
    }
    server.end().await;
}

#[tokio::test]
async fn what_python_imports_when_it_runs_is_in_the_component() {
    let plugin = patient("standard", &fixture("standard-python"), "s:///");
    let mut server = start(&ConfigFile::new().plugin(plugin).write()).await;
    for (name, expected) in [
        ("zoneinfo", "2026-07-01 12:00:00+02:00"),
        ("strptime", "2026-01-02 11:21:00+01:00"),
        ("fromisoformat", "2026-01-02 11:21:00+01:00"),
        ("cp1252", "€"),
        ("utf-8-sig", "a"),
        ("idna", "xn--bcher-kva.example"),
        ("shift-jis", "日本"),
        ("email", "€"),
        ("sqlite3", "2"),
        ("argparse", "provider"),
        ("tomllib", "2026-01-02 11:21:00+01:00"),
    ] {
        assert_eq!(server.read(&format!("s:///imported/{name}")).await, Ok(expected.to_owned()), "{name}");
    }
    let first = server.read("s:///imported/random").await.unwrap();
    assert_ne!(server.read("s:///imported/random").await.unwrap(), first, "each instance has a seed of its own");
    server.end().await;
}

#[tokio::test]
async fn what_javascript_would_do_wrong_in_silence_is_right_or_an_error() {
    let mut server = start(&failing("javascript")).await;
    let first = server.read("f:///random").await.unwrap();
    assert_ne!(server.read("f:///random").await.unwrap(), first, "each instance has a seed of its own");
    server.read("f:///locale").await.unwrap_err();
    server.log_line("toLocaleDateString has no locales, time zones and formats in a component").await;
    server.end().await;
}

#[tokio::test]
async fn time_zones_are_known_in_go() {
    let mut server = start(&failing("go")).await;
    assert_eq!(server.read("f:///zone").await, Ok("2026-07-01T12:00:00+02:00".to_owned()));
    server.end().await;
}

fn failing(language: &str) -> WrittenConfig {
    let plugin = patient("failing", &fixture(&format!("failing-{language}")), "f:///").config("depth", 3);
    ConfigFile::new().plugin(plugin).write()
}

#[tokio::test]
async fn an_error_that_nobody_expected_is_internal_and_its_traceback_is_in_the_log() {
    for language in WITH_EXCEPTIONS {
        let mut server = start(&failing(language)).await;
        for (path, logged) in [
            ("bug", if language == "python" { "KeyError: 'missing'" } else { "TypeError: cannot read property" }),
            (
                "wrong",
                if language == "python" {
                    "contents.entry.size: expected int"
                } else {
                    "entry.size: expected a whole number"
                },
            ),
            ("internal", "corrupt"),
        ] {
            let error = server.read(&format!("f:///{path}")).await.unwrap_err();
            assert_eq!(error["data"]["kind"], "internal", "{language} {path}: {error}");
            assert!(!error.to_string().contains("Error:"), "the client is not told: {error}");
            server.log_line(logged).await;
        }
        if language == "python" {
            server.read("f:///import").await.unwrap_err();
            server.log_line("of which something is imported at the top of a module").await;
        }
        let frame = if language == "python" { "failing.py\", line" } else { "at read (failing.js:" };
        server.log_line(frame).await;
        server.end().await;
    }
}

#[tokio::test]
async fn failures_binary_content_config_and_log_arrive_from_every_language() {
    for language in WITH_FAILURES {
        let mut server = start(&failing(language)).await;
        let good = server.request("resources/read", json!({ "uri": "f:///good" })).await;
        assert_eq!(good.result()["contents"][0]["blob"], "/wA=", "{language}");
        server.log_line("read, with").await;
        assert!(server.log().contains("depth"), "{language}");
        let denied = server.read("f:///denied").await.unwrap_err();
        assert_eq!((&denied["code"], &denied["message"]), (&json!(-32602), &json!("not for you")), "{language}");
        let busy = server.read("f:///busy").await.unwrap_err();
        assert_eq!(busy["data"]["retryAfterMs"], 2000, "{language}: {busy}");
        let missing = server.read("f:///missing").await.unwrap_err();
        assert_eq!(missing["code"], -32002, "{language}");
        server.end().await;
    }
}

#[tokio::test]
async fn requests_are_sent_to_granted_origins_only_from_every_language() {
    let (granted, other) = (MockOrigin::http().await, MockOrigin::http().await);
    for origin in [&granted, &other] {
        origin.serve_with("/echo", |request| Reply::ok("text/plain", request.body.clone()));
    }
    for language in WITH_GRANTS {
        let config = |origin: &MockOrigin| {
            let plugin = patient("granted", &fixture(&format!("granted-{language}")), "f:///");
            ConfigFile::new().plugin(plugin.config("url", origin.url("/echo")).origin(&granted.origin())).write()
        };
        let mut server = start(&config(&granted)).await;
        assert_eq!(server.read("f:///http").await, Ok("sent".to_owned()), "{language}");
        server.end().await;
        let mut server = start(&config(&other)).await;
        let denied = server.read("f:///http").await.unwrap_err();
        assert!(denied["message"].as_str().unwrap().ends_with("are not granted"), "{language}: {denied}");
        server.end().await;
    }
    assert_eq!(other.request_count("/echo"), 0);
}

#[tokio::test]
async fn buckets_and_variables_are_used_from_every_language() {
    for language in WITH_GRANTS {
        let plugin = patient("granted", &fixture(&format!("granted-{language}")), "f:///");
        let config = ConfigFile::new().plugin(plugin.bucket("visits").variable("WHO", "me")).write();
        let mut server = start(&config).await;
        let done = server.read("f:///keyvalue").await;
        assert_eq!(done, Ok("2 5 0 1 9 None False ['a', 'n']".to_owned()), "{language}");
        assert_eq!(server.read("f:///env").await, Ok("me".to_owned()), "{language}");
        server.end().await;
    }
}

#[tokio::test]
async fn databases_are_queried_from_every_language() {
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.path().join("shop.sqlite");
    let shop = Connection::open(&file).unwrap();
    shop.execute_batch(
        "CREATE TABLE items (name TEXT, price REAL, photo BLOB);
         INSERT INTO items VALUES ('quince', 2.5, x'ff00'), ('pear', 1.5, NULL), ('fig', 2.75, NULL), ('rum', 30, NULL);",
    )
    .unwrap();
    for language in WITH_GRANTS {
        let plugin = patient("granted", &fixture(&format!("granted-{language}")), "f:///");
        let plugin = plugin.sql("shop", format!("sqlite://{}", file.display()), []);
        let mut server = start(&ConfigFile::new().plugin(plugin).write()).await;
        let expected = r#"["42000","sqlite",["name","price","photo"],[["pear",1.5,null],["quince",2.5,[255,0]]],true]"#;
        assert_eq!(server.read("f:///sql").await, Ok(expected.to_owned()), "{language}\n{}", server.log());
        server.end().await;
    }
}

#[tokio::test]
async fn what_was_made_of_a_file_is_kept_in_c_until_the_file_changes() {
    for (is_reused, made_of_one, made_of_two) in [(true, 1, 2), (false, 1, 1)] {
        let folder = Folder::with_files([("memo.txt", "one")]);
        let mut plugin = patient("memo", &fixture("granted-c"), "m:///").dir(folder.path(), "/data");
        if is_reused {
            plugin = plugin.instances("max-calls", 1000).instances("max-idle", 1);
        }
        let mut server = start(&ConfigFile::new().plugin(plugin).write()).await;
        for (text, made) in [("one", made_of_one), ("three", made_of_two)] {
            folder.write("memo.txt", text);
            for _ in 0..3 {
                let expected = Ok(format!("made of {text}, {made} times"));
                assert_eq!(server.read("m:///memo").await, expected, "reused: {is_reused}\n{}", server.log());
            }
        }
        server.end().await;
    }
}

#[tokio::test]
async fn data_are_prepared_in_every_language_and_go_on_after_failures() {
    for language in WITH_GRANTS {
        let folder = Folder::with_files([("source", "text"), ("fault", ""), ("bug", "")]);
        let prepare = [("cpu", "10m"), ("memory", "256MiB")].map(|(key, value)| (key.to_owned(), value.into()));
        let plugin = patient("p", &fixture(&format!("preparing-{language}")), "p:///")
            .dir(folder.path(), "/data")
            .bucket("index")
            .limit("prepare", toml::Table::from_iter(prepare));
        let mut server = start(&ConfigFile::new().plugin(plugin).write()).await;
        server.log_line("the preparation fails, and is retried with back-off: the source is locked").await;
        let refused = server.read("p:///index").await.unwrap_err();
        assert_eq!(refused["data"]["retryAfterMs"], 1000, "{language}: {refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("it is being prepared, 33 %"), "{language}: {message}");
        fs::remove_file(folder.path().join("fault")).unwrap();
        server.log_line(if language == "c" { "trapped" } else { "a bug" }).await;
        fs::remove_file(folder.path().join("bug")).unwrap();
        let prepared = async { while server.read("p:///index").await.as_deref() != Ok("text") {} };
        tokio::time::timeout(COMPILE_TIMEOUT, prepared).await.expect("it is prepared");
        server.end().await;
    }
    for language in LANGUAGES {
        let exports = inspect(&fixture(&format!("csv-{language}"))).await["exports"].to_string();
        assert!(!exports.contains("/prepare@"), "only who prepares exports it: {language}");
    }
}

#[tokio::test]
async fn a_component_that_uses_no_grant_imports_none_whatever_its_sdk_can_do() {
    for language in LANGUAGES {
        for (provider, expected) in [("csv", false), ("granted", true)] {
            if provider == "granted" && !WITH_GRANTS.contains(&language) {
                continue;
            }
            let report = inspect(&fixture(&format!("{provider}-{language}"))).await;
            for interface in ["wasi:http/", "wasi:keyvalue/", "mcp-host:sql/"] {
                let is_imported = report["imports"].to_string().contains(interface);
                assert_eq!(is_imported, expected, "{provider} in {language}: {interface}");
            }
        }
    }
}

#[tokio::test]
async fn a_panic_in_go_is_internal_and_its_stack_is_in_the_log() {
    let mut server = start(&failing("go")).await;
    let logged = [
        ("bug", "panic: assignment to entry in nil map"),
        ("internal", "the index is corrupt"),
        ("not-granted", "add one to its `grants.dirs`, such as { host = \"…\", guest = \"/data\" }"),
    ];
    for (path, logged) in logged {
        let error = server.read(&format!("f:///{path}")).await.unwrap_err();
        assert_eq!(error["data"]["kind"], "internal", "{path}: {error}");
        assert!(!error.to_string().contains("corrupt"), "the client is not told: {error}");
        server.log_line(logged).await;
    }
    server.log_line("main.failing.Read").await;
    server.end().await;
}

#[tokio::test]
async fn a_provider_in_go_that_is_exported_in_main_is_told_where_to_export_it() {
    let component = fixture("unexported-go");
    let inspected = run(["inspect".as_ref(), component.as_os_str()]).await;
    assert_eq!(inspected.code(), 1, "{}", inspected.stderr);
    assert!(inspected.stderr.contains("call provider.Export in an init function"), "{}", inspected.stderr);
}

#[tokio::test]
async fn the_example_keeps_the_contract_in_every_language() {
    for language in LANGUAGES {
        let folder = Folder::with_files([("a.csv", "x,y\n1,2\n"), ("b.csv", "x\n"), ("c d.csv", "")]);
        // The host compiles the component within the start timeout of a server, and stores it for the test of the
        // contract.
        start(&ConfigFile::new().plugin(csv(language, folder.path())).write()).await.end().await;
        let component = fixture(&format!("csv-{language}"));
        let limits = ConfigFile::new().plugin(patient("csv", &component, "csv:///")).write();
        let (grant, edit) =
            (format!("{}=/csv", folder.path().display()), format!("echo 3,4 >> '{}/a.csv'", folder.path().display()));
        let config = limits.path();
        let plugin = ["--config", config.to_str().unwrap(), "--plugin", "csv"];
        let tested = ["test", component.to_str().unwrap(), "--dir", &grant, "--edit", &edit];
        let tested = run(tested.into_iter().chain(plugin)).await;
        assert_eq!(tested.code(), 0, "{language}: {}{}", tested.text(), tested.stderr);
    }
}
