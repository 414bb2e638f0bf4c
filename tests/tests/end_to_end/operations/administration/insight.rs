//! An administrator's insight into a running server: failing plugins, the changes that a reload would make, who may
//! read a resource, the declared needs of a component, and the list of plugins.

use mcp_host_tests::{ConfigFile, Folder, Plugin, Rule, run, wait_until};
use serde_json::{Value, json};

use super::api::{SESSIONS, assert_valid, schema};
use super::{Administered, REVISION, TOKEN, broken, with_token};

impl Administered {
    async fn plugin(&self, name: &str) -> Value {
        let (status, plugin) = self.api("GET", &format!("plugins/{name}"), None).await;
        assert_eq!(status, 200, "{plugin}");
        plugin
    }

    async fn metric(&self, sample: &str) -> bool {
        let (_, metrics) = self.get("/metrics", &format!("Authorization: Bearer {TOKEN}\r\n")).await;
        metrics.lines().any(|line| line == sample)
    }
}

#[tokio::test]
async fn a_plugin_whose_calls_fail_is_failing_until_they_succeed_again() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        ConfigFile::new().plugin(Plugin::misbehaving("m")).allow_all().append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let schema = schema().await;
    let mut client = admin.server.uninitialized(REVISION);
    let mut read = async |path: &str| {
        let uri = format!("misbehaving://m/{path}");
        client.request("resources/read", json!({ "uri": uri })).await.message["result"]["contents"].is_array()
    };
    assert_eq!(admin.plugin("m").await["status"]["state"], json!({ "name": "ready" }));
    for _ in 0..6 {
        assert!(!read("internal").await);
    }
    admin.server.log_line("failing: it is loaded, and most of its calls fail").await;
    let failing = admin.plugin("m").await;
    assert_valid(&schema, "GET /api/v1/plugins/NAME", &failing);
    let state = &failing["status"]["state"];
    assert_eq!(
        (&state["name"], &state["failed"], &state["calls"]),
        (&json!("failing"), &json!(6), &json!(6)),
        "{state}"
    );
    let reason = state["reason"].as_str().unwrap();
    assert!(reason.starts_with("read: failed: "), "{reason}");
    assert!(admin.metric("mcp_host_plugin_state{plugin=\"m\",state=\"failing\"} 1").await);
    let path = config.path();
    let status = run(["status", "--config", path.to_str().unwrap()]).await;
    assert_ne!(status.code(), 0, "port 0 is not found: {}", status.text());
    // A repeated line is shown once.
    let log = failing["log"].as_array().unwrap();
    assert_eq!((log.len(), &log[0]["times"]), (1, &json!(6)), "{log:?}");
    for _ in 0..20 {
        assert!(read("good").await);
    }
    admin.server.log_line("working again").await;
    assert_eq!(admin.plugin("m").await["status"]["state"], json!({ "name": "ready" }));
    assert!(admin.metric("mcp_host_plugin_state{plugin=\"m\",state=\"ready\"} 1").await);
    // Failures caused by one client's input do not count against the plugin.
    for _ in 0..40 {
        assert!(!read("internal").await && read("good").await);
    }
    assert_eq!(admin.plugin("m").await["status"]["state"], json!({ "name": "ready" }));
    admin.server.end().await;
}

#[tokio::test]
async fn a_dry_run_says_what_a_reload_would_change_with_the_keys_and_changes_nothing() {
    for arguments in [&[][..], &["--no-reload"]] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("admin.sock");
        let file = |title: &str| {
            let admin = format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display());
            ConfigFile::new().plugin(Plugin::sample("a").set("title", title)).allow_all().append(&admin)
        };
        let config = file("one").write();
        let path = config.path();
        let path = path.to_str().unwrap().to_owned();
        let server = mcp_host_tests::HttpServer::start_with(&config, arguments).await;
        let dry_run = async || run(["admin", "reload", "--dry-run", "--config", &path]).await;
        let same = dry_run().await.success().text();
        assert_eq!(same, "a reload would change nothing; generation 1 is served\n");
        if arguments.is_empty() {
            // A changed file is served without a reload.
            server.end().await;
            continue;
        }
        config.replace(file("two").plugin(Plugin::sample("b")));
        let changed = dry_run().await.success().text();
        let lines: Vec<_> = changed.lines().collect();
        let expected = ["a reload would change this; generation 1 is served", "added: b", "changed: a", "  a: title"];
        assert_eq!(lines, expected, "{changed}");
        let text = std::fs::read_to_string(&path).unwrap();
        config.replace_text(&format!("{text}\n[search]\nnonsense = 1\n"));
        let wrong = dry_run().await;
        assert_eq!(wrong.code(), 1);
        assert!(wrong.stderr.contains("nonsense = 1") && wrong.stderr.contains("^^^"), "{}", wrong.stderr);
        server.end().await;
    }
}

#[tokio::test]
async fn a_directory_that_is_gone_is_told_by_status_and_by_a_dry_run_with_what_a_reload_would_apply() {
    let (folder, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("admin.sock");
    let file = |rule: Rule| {
        let admin = format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display());
        ConfigFile::new().plugin(Plugin::notes("n", notes.path())).rule(rule).append(&admin)
    };
    let config = file(Rule::for_principal("*").allow(["**"])).write();
    let path = config.path().to_str().unwrap().to_owned();
    let server = mcp_host_tests::HttpServer::start_with(&config, &["--no-reload"]).await;
    let whole = run(["status", "--config", &path]).await.success();
    assert!(!whole.stderr.contains("restart"), "{}", whole.stderr);
    std::fs::remove_dir(notes.path()).unwrap();
    let status = run(["status", "--config", &path]).await.success();
    let told = "note: a restart of the server would fail, unless it has other permissions or variables than this command: \
                there is no directory at";
    assert!(status.stderr.contains(told), "{}", status.stderr);
    let dry_run = async || run(["admin", "reload", "--dry-run", "--config", &path]).await;
    let same = dry_run().await;
    assert_eq!(same.code(), 1);
    let told = "error: a reload would fail: keeping the current plugins; rules and settings of the new config apply (none changed)\n";
    assert!(same.stderr.contains(told) && same.stderr.contains("there is no directory at"), "{}", same.stderr);
    config.replace(file(Rule::for_principal("*").allow(["notes://n/**"])));
    let changed = dry_run().await.stderr;
    assert!(changed.contains("rules and settings of the new config apply (rules)\n"), "{changed}");
    server.end().await;
    let started = run(["serve", "--stdio", "--config", &path]).await;
    assert_eq!(started.code(), 2, "{}", started.stderr);
}

#[tokio::test]
async fn a_dry_run_names_plugins_that_cannot_be_loaded_and_those_that_stay_failing() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.wasm");
    std::fs::write(&broken, b"no component").unwrap();
    let socket = folder.path().join("admin.sock");
    let file = || {
        let admin = format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display());
        ConfigFile::new().plugin(Plugin::sample("a")).allow_all().append(&admin)
    };
    let with_broken = |name: &str| file().plugin(Plugin::new(name, &broken, &format!("{name}://")));
    let config = with_broken("b").write();
    let path = config.path().to_str().unwrap().to_owned();
    let server = mcp_host_tests::HttpServer::start_with(&config, &["--no-reload"]).await;
    let dry_run =
        async |json: &[&str]| run([&["admin", "reload", "--dry-run", "--config", &path], json].concat()).await;
    let same = dry_run(&[]).await.success().text();
    let reason = "does not begin with the magic number of WebAssembly";
    assert!(
        same.starts_with("a reload would change nothing; generation 1 is served\nb fails, and would stay so: "),
        "{same}"
    );
    assert!(same.contains(reason), "{same}");
    config.replace(with_broken("c"));
    let added = dry_run(&[]).await;
    assert_eq!(added.code(), 1);
    let text = added.text();
    assert!(text.starts_with("a reload would fail; generation 1 is served\n"), "{text}");
    assert!(text.contains("c cannot be loaded: ") && text.contains(reason), "{text}");
    let answer: serde_json::Value = serde_json::from_str(&dry_run(&["--json"]).await.text()).unwrap();
    assert_eq!(answer["would_fail"], true);
    assert!(answer["plugins_failing"]["c"].as_str().unwrap().contains(reason), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_denied_read_calls_the_provider_for_no_more_than_a_hint_that_its_uri_may_have() {
    let folder = tempfile::tempdir().unwrap();
    let rule = Rule::for_principal("*").allow(["**"]).deny(["**/plain"]);
    let config = ConfigFile::new().plugin(Plugin::sample("a")).rule(rule).append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let mut client = admin.server.uninitialized(REVISION);
    let mut calls = async |uri: &str| {
        let answer = client.request("resources/read", json!({ "uri": uri })).await.message;
        assert!(answer["error"].is_object(), "{answer}");
        let (_, metrics) = admin.get("/metrics", &format!("Authorization: Bearer {TOKEN}\r\n")).await;
        let of_calls = metrics.lines().filter(|line| line.starts_with("mcp_host_plugin_calls_total{plugin=\"a\""));
        let functions = ["read", "list-templates"].map(|name| format!("function=\"{name}\""));
        let of_calls = of_calls.filter(|line| functions.iter().any(|function| line.contains(function)));
        of_calls.map(str::to_owned).collect::<Vec<_>>()
    };
    let none = calls("sample://a/plain").await;
    assert_eq!(none, Vec::<String>::new());
    let hint = calls("sample://a/x/y/plain").await;
    assert!(hint.len() == 1 && hint[0].contains("function=\"list-templates\""), "{hint:?}");
    admin.server.end().await;
}

#[tokio::test]
async fn everyone_who_may_read_something_is_listed_with_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let config = ConfigFile::new()
        .plugin(Plugin::sample("a"))
        .rule(Rule::for_principal("corp/ada").allow(["sample://a/**"]))
        .rule(Rule::for_principal("corp/agent").allow(["sample://a/**"]).deny(["**/secret"]))
        .append(&with_token(folder.path()))
        .write();
    let admin = Administered::start(&config).await;
    let schema = schema().await;
    let request = json!({ "uri": "sample://a/secret", "operation": "read" });
    let (status, found) = admin.api("POST", "explain/who", Some(&request)).await;
    assert_eq!(status, 200, "{found}");
    assert_valid(&schema, "POST /api/v1/explain/who", &json!({ "request": request, "answer": found }));
    let names = |list: &str| {
        let items = found[list]["items"].as_array().unwrap();
        items.iter().map(|who| who["name"].as_str().unwrap_or("*").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names("allowed"), names("denied")),
        (vec!["local".to_owned(), "corp/ada".to_owned()], vec!["corp/agent".to_owned()])
    );
    assert_eq!(found["denied"]["items"][0]["rule"]["glob"], "**/secret");
    assert_eq!(admin.api("POST", "explain/who", Some(&json!({ "uri": "other:///x" }))).await.0, 404);
    let path = config.path();
    let file = path.to_str().unwrap();
    let shown = run(["explain", "--who", "sample://a/secret", "--config", file]).await.success().text();
    let line =
        |text: &str| shown.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(text));
    assert!(
        line("allowed local no rule denies it") && line("allowed corp/ada `allow` has `sample://a/**`, in the rule at"),
        "{shown}"
    );
    assert!(line("denied corp/agent `deny` has `**/secret`, in the rule at"), "{shown}");
    assert!(shown.contains("Everyone else is denied it"), "{shown}");
    let all = ConfigFile::new().plugin(Plugin::sample("a")).rule(Rule::for_principal("*").allow(["**"])).write();
    let all =
        run(["explain", "--who", "sample://a/x", "--config", all.path().to_str().unwrap()]).await.success().text();
    assert!(
        all.contains("all whom the config does not name") && all.contains("Everyone may whom nothing denies it"),
        "{all}"
    );
    let by_config = run(["explain", "--who", "--json", "sample://a/secret", "--config", file]).await.success().json();
    let of = |answer: &Value| answer.as_array().unwrap().iter().map(|who| who["name"].clone()).collect::<Vec<_>>();
    assert_eq!(of(&by_config["allowed"]), of(&found["allowed"]["items"]));
    // The command must know the port.
    let text = std::fs::read_to_string(&path).unwrap();
    let known = folder.path().join("known.toml");
    std::fs::write(&known, text.replace("listen = \"127.0.0.1:0\"", &format!("listen = {:?}", admin.address))).unwrap();
    let file = known.to_str().unwrap();
    let by_server = run(["admin", "explain", "--who", "sample://a/secret", "--config", file]).await.success().text();
    for row in ["allowed local", "allowed corp/ada `allow` has `sample://a/**`, line ", "denied corp/agent `deny` has"]
    {
        let is_row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(row);
        assert!(by_server.lines().any(is_row), "{row}: {by_server}");
    }
    let as_json =
        run(["admin", "explain", "--who", "--json", "sample://a/secret", "--config", file]).await.success().json();
    assert_eq!(as_json, found);
    admin.server.end().await;
}

#[tokio::test]
async fn what_a_component_asks_for_why_one_is_not_loaded_and_which_plugins_there_are_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let notes = Folder::with_files([("plan.md", "# Plan\n")]);
    let without = Plugin::shipped("ungranted", "notes", "notes");
    let config = ConfigFile::new()
        .plugin(without)
        .plugin(Plugin::notes("n", notes.path()))
        .plugin(broken(folder.path()))
        .allow_all()
        .audit("file", "audit.jsonl")
        .append(&with_token(folder.path()))
        .write();
    let admin = Administered::start(&config).await;
    let unmet = admin.plugin("ungranted").await["unmet"].clone();
    let unmet = unmet.as_array().unwrap();
    assert!(unmet.iter().any(|one| one.as_str().unwrap().contains("`/notes (ro)` in `grants.dirs`")), "{unmet:?}");
    assert_eq!(admin.plugin("n").await["unmet"], json!([]));
    let log = admin.plugin("broken").await["log"].clone();
    let line = log[0]["text"].as_str().unwrap();
    assert!(line.starts_with("could not be loaded: ") && log[0]["level"] == "error", "{log}");
    let (status, answer) = admin.api("GET", "plugins/nosuch", None).await;
    assert_eq!(status, 404);
    assert_eq!(answer["error"], "the server has no plugin `nosuch`");
    assert_eq!(answer["help"], "it has `broken`, `n`, `ungranted`");
    // A session without a stream is an unheard subscriber.
    let mut client = admin.server.raw_client(SESSIONS).await;
    client.request("resources/subscribe", json!({ "uri": "notes://n/plan.md" })).await.result();
    let unheard = async || admin.api("GET", "subscriptions", None).await.1["resources"]["items"][0]["unheard"].clone();
    assert_eq!(unheard().await, 1);
    let events = client.event_stream().await;
    assert_eq!(unheard().await, 0);
    drop(events);
    let path = config.path();
    let wrong = run(["admin", "audit", "--operation", "nosuch", "--config", path.to_str().unwrap()]).await;
    assert!(wrong.code() != 0 && wrong.stderr.contains("nosuch"), "{}", wrong.stderr);
    admin.server.end().await;
    wait_until("the audit log is written", || config.dir().join("audit.jsonl").exists()).await;
}
