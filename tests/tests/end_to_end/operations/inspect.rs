//! Inspection of a component before it serves anything: its digest, its imports, and the grants that the imports need.

use std::path::{Path, PathBuf};

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, Output, Plugin, StdioServer, WrittenConfig, component, fixture, run, run_on_terminal,
    run_on_terminal_of,
};
use serde_json::{Value, json};

use crate::support::wasm_fixtures;

/// A provider that no test has compiled, in a new folder. Only tests that never load it may use it.
fn never_compiled() -> (Folder, PathBuf) {
    let component = wasm_fixtures::with_padding(std::fs::read(fixture("raw")).unwrap(), b"never compiled");
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.write("never.wasm", component);
    (folder, file)
}

async fn inspect_json(file: &Path) -> Value {
    run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]).await.json()
}

async fn check(config: &WrittenConfig, arguments: &[&str]) -> Output {
    let path = config.path();
    run([&["check", "--offline", "--config", path.to_str().unwrap()], arguments].concat()).await
}

/// Returns what `check` prints about the one plugin.
async fn check_only_plugin(config: &WrittenConfig) -> Value {
    let report = check(config, &["--json"]).await.json();
    assert_eq!(report["plugins"].as_array().unwrap().len(), 1);
    report["plugins"][0].clone()
}

fn requirement<'a>(report: &'a Value, what: &str) -> &'a Value {
    report["requirements"].as_array().unwrap().iter().find(|need| need["capability"] == what).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn the_digest_that_inspect_prints_pins_the_component() {
    let file = fixture("raw");
    let printed = run(["inspect".as_ref(), file.as_os_str()]).await.success().text();
    let digest = printed.lines().next().unwrap().strip_prefix("digest    ").unwrap();
    let plugin = Plugin::new("raw", &file, "raw:///").digest(digest);
    let report = check_only_plugin(&ConfigFile::new().plugin(plugin).write()).await;
    assert_eq!((&report["state"], &report["pinned"], &report["digest"]), (&json!("ok"), &json!(true), &json!(digest)));
}

#[tokio::test]
async fn a_component_that_is_not_the_pinned_one_is_neither_compiled_nor_run() {
    let pinned = inspect_json(&fixture("raw")).await["digest"].as_str().unwrap().to_owned();
    let (_folder, file) = never_compiled();
    let config = ConfigFile::new().plugin(Plugin::new("raw", &file, "raw:///").digest(&pinned)).write();
    let refused = check(&config, &["--json"]).await;
    assert_eq!(refused.code(), 1);
    assert!(!refused.stderr.contains("compiling"), "{}", refused.stderr);
    let report = &refused.json()["plugins"][0];
    assert_eq!((&report["state"], &report["pinned"]), (&json!("not-loaded"), &json!(true)));
    let error = report["error"].as_str().unwrap();
    let (_, found) = error.split_once("found ").unwrap();
    let (found, advice) = found.split_once(';').unwrap();
    assert!(error.contains(&format!("expected {pinned}")), "{error}");
    assert!(found != pinned && advice.ends_with(&format!("write `digest = \"{found}\"`")), "{error}");
}

#[tokio::test]
async fn serve_names_a_component_that_is_not_the_pinned_one_and_serves_the_others() {
    let (_folder, file) = never_compiled();
    let pinned = format!("sha256:{}", "0".repeat(64));
    let config = ConfigFile::new()
        .plugin(Plugin::new("changed", &file, "raw://changed/").digest(&pinned))
        .plugin(Plugin::new("good", &fixture("raw"), "raw://good/"))
        .write();
    let server = StdioServer::start(&config).await;
    let page = serde_json::to_value(server.client().page(None).await.unwrap()).unwrap();
    assert_eq!(page["resources"][0]["uri"], "raw://good/good");
    assert_eq!(page["_meta"]["mcp-host/missing"][0]["plugin"], "changed");
    assert!(server.client().read_error("raw://changed/good").await.message.contains("changed"));
    let log = server.end().await.log;
    assert!(log.contains("is not the component that `digest` pins") && log.contains(&pinned), "{log}");
}

#[tokio::test]
async fn what_is_imported_is_held_against_what_is_granted() {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let plugin = Plugin::git("repo", repo.path()).variable("TOKEN", "hunter2").config("rev", "main");
    let report = check_only_plugin(&ConfigFile::new().plugin(plugin).write()).await;
    for (what, granted) in [("directories", "/repo (ro)"), ("variables", "TOKEN"), ("config", "rev")] {
        let need = requirement(&report, what);
        assert_eq!((&need["status"], &need["granted"]), (&json!("granted"), &json!([granted])), "{what}");
        assert!(need["imports"][0].as_str().unwrap().starts_with("wasi:"), "{need}");
    }
    assert_eq!(requirement(&report, "clocks")["status"], "not-required");
    assert_eq!((&report["warnings"], &report["first_page_items"]), (&json!([]), &json!(1)));
    assert!(!report.to_string().contains("hunter2"));
}

#[tokio::test]
async fn what_is_granted_for_nothing_is_a_warning_and_with_strict_an_error() {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path()).origin("https://docs.rs")).write();
    let warning = "`grants.http` is granted but unused: it does not import `wasi:http/outgoing-handler`";
    let report = check_only_plugin(&config).await;
    assert_eq!((&report["state"], &report["warnings"]), (&json!("ok"), &json!([warning])));
    assert_eq!(requirement(&report, "http")["status"], "unused");
    let lenient = check(&config, &[]).await.success();
    assert!(lenient.text().contains(&format!("repo: warning: {warning}\n")), "{}", lenient.text());
    let strict = check(&config, &["--strict"]).await;
    assert_eq!(strict.code(), 1);
    assert!(strict.stderr.contains("1 warning, and"), "{}", strict.stderr);
}

#[tokio::test]
async fn what_is_imported_and_of_no_use_without_a_grant_is_missing() {
    let fetch = || Plugin::new("web", &fixture("fetch"), "fetch://web/");
    let warning = "it imports `wasi:http/outgoing-handler`, which is of no use without `grants.http`: \
                   every request will be refused";
    let report = check_only_plugin(&ConfigFile::new().plugin(fetch()).write()).await;
    assert_eq!((&requirement(&report, "http")["status"], &report["warnings"]), (&json!("missing"), &json!([warning])));
    let report = check_only_plugin(&ConfigFile::new().plugin(fetch().origin("https://docs.rs")).write()).await;
    assert_eq!((&requirement(&report, "http")["status"], &report["warnings"]), (&json!("granted"), &json!([])));
}

#[tokio::test]
async fn a_bucket_that_the_config_misspells_is_missing() {
    let plugin = Plugin::new("web", &component("http-cache"), "web://").bucket("pagse").origin("https://docs.rs");
    let config = ConfigFile::new().plugin(plugin).write();
    let warning = "it opens `pages`, which `grants.keyvalue` does not name; granted: `pagse`";
    let report = check_only_plugin(&config).await;
    assert_eq!(
        (&requirement(&report, "keyvalue")["status"], &report["warnings"]),
        (&json!("missing"), &json!([warning]))
    );
    assert_eq!(check(&config, &["--strict"]).await.code(), 1);
}

#[tokio::test]
async fn a_plugin_whose_listing_fails_is_found_by_check() {
    let empty = Folder::with_files::<&str, &str>([]);
    let good = Plugin::new("good", &fixture("raw"), "raw://good/").config("list", "meta/1");
    let config = ConfigFile::new().plugin(Plugin::git("empty", empty.path())).plugin(good).write();
    let checked = check(&config, &["--json"]).await;
    assert_eq!(checked.code(), 1);
    let report = checked.json();
    let (fails, works) = (&report["plugins"][0], &report["plugins"][1]);
    assert_eq!((&fails["state"], &fails["provider"]["name"]), (&json!("failing"), &json!("git")));
    assert!(fails["error"].as_str().unwrap().starts_with("its listing fails: "), "{fails}");
    assert_eq!((&works["state"], &works["first_page_items"], &works["error"]), (&json!("ok"), &json!(1), &Value::Null));
    // The metadata of its only entry is not a JSON object.
    assert_eq!(works["faults"], json!({ "contract": 1 }));
    let checked = check(&config, &[]).await;
    assert!(checked.text().contains("ok, 1 fault\n") && checked.text().contains("  failing\n"), "{}", checked.text());
    assert!(checked.stderr.contains("1 of 2 plugins does not work"), "{}", checked.stderr);
}

#[tokio::test]
async fn the_tables_of_check_fit_a_terminal_of_80_columns() {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let many = ["a", "b", "c", "d"].map(|host| format!("https://{host}.example.com"));
    let plugin = many.iter().fold(Plugin::git("repo", repo.path()), |plugin, origin| plugin.origin(origin));
    let config = ConfigFile::new().plugin(plugin.variable("TOKEN", "hunter2")).write();
    let shown = run_on_terminal(["check", "--color", "never", "--config", config.path().to_str().unwrap()]).await;
    let shown = shown.success().text();
    for line in [
        "PLUGIN  MOUNT        PROVIDER   STATE",
        "repo    git://repo/  git 0.1.0  ok",
        "PLUGIN  GRANT            IMPORTS          GRANTED                   STATUS",
        "repo    grants.dirs      wasi:filesystem  /repo (ro)                granted",
        "        grants.http      -                https://a.example.com +3  unused",
        "        grants.keyvalue  wasi:keyvalue    -                         not granted",
        "        grants.env       wasi:cli         TOKEN                     granted",
    ] {
        assert!(line.len() <= 80 && shown.lines().any(|shown| shown.trim_end() == line), "{line}\n{shown}");
    }
    // The component works without this interface.
    assert!(!shown.contains("wasi:config"), "{shown}");
    assert!(!shown.contains('\u{1b}'));

    for command in ["check", "list"] {
        let path = config.path();
        let arguments = [command, "--color", "never", "--config", path.to_str().unwrap()];
        let shown = run_on_terminal_of(50, arguments).await.success().text();
        let longest = shown.lines().map(|line| line.chars().count()).max();
        assert!(longest.is_some_and(|longest| longest <= 50), "{shown}");
        let piped = run(arguments).await.success().text();
        assert!(piped.lines().any(|line| line.chars().count() > 50), "{piped}");
    }
}

#[tokio::test]
async fn what_inspect_prints_fits_a_terminal_of_80_columns() {
    let file = component("notes");
    let shown = run_on_terminal_of(80, ["inspect", "--color", "never", file.to_str().unwrap()]).await.success().text();
    let of_one_word = |line: &&str| line.starts_with("digest") || line.starts_with("component");
    let mut wide = shown.lines().filter(|line| !of_one_word(line) && line.trim_end().chars().count() > 80);
    assert_eq!(wide.next(), None, "{shown}");
    assert!(shown.contains("# config.encoding = \"VALUE\""), "{shown}");
}

#[tokio::test]
async fn a_component_is_inspected_in_the_place_of_a_plugin() {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let pinned = format!("sha256:{}", "0".repeat(64));
    let plugin = Plugin::git("repo", repo.path()).origin("https://docs.rs").digest(&pinned);
    let config = ConfigFile::new().plugin(plugin).write();
    let (file, config) = (component("git"), config.path().to_str().unwrap().to_owned());
    let arguments = ["inspect", file.to_str().unwrap(), "--config", &config, "--plugin", "repo"];
    let shown = run(arguments).await.success().text();
    for line in [
        "grants.dirs      wasi:filesystem  /repo (ro)       granted",
        "repo: `grants.http` is granted but unused: it does not import `wasi:http/outgoing-handler`",
        &format!("repo: `digest` pins another component, {pinned}"),
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    let report = run(arguments.into_iter().chain(["--json"])).await.success().json();
    assert_eq!(report["warnings"].as_array().unwrap().len(), 2);
    assert_eq!(requirement(&report, "directories")["granted"], json!(["/repo (ro)"]));

    let unknown = run(["inspect", file.to_str().unwrap(), "--config", &config, "--plugin", "nobody"]).await;
    assert_eq!((unknown.code(), unknown.text().as_str()), (2, ""));
    assert!(unknown.stderr.contains("no plugin `nobody`") && unknown.stderr.contains("it has repo"));
}

#[tokio::test]
async fn a_component_for_another_world_is_told_all_that_is_missing() {
    let imports =
        ["wasi:nn/tensor@0.2.0", "acme:x/y@1.0.0", "wasi:cli/environment@0.3.0", "wasi:clocks/wall-clock@0.2.0"];
    let folder = Folder::with_files([("other.wasm", wasm_fixtures::component_with_imports(imports))]);
    let file = folder.path().join("other.wasm");
    let report = inspect_json(&file).await;
    let expected = "imports what this host does not have: `wasi:nn/tensor@0.2.0`, `acme:x/y@1.0.0`, \
                    `wasi:cli/environment@0.3.0` (here it is 0.2.12); ";
    assert!(report["error"].as_str().unwrap().contains(expected), "{report}");
    assert_eq!(report["imports"].as_array().unwrap().len(), imports.len());
    assert_eq!((&report["provider"], &report["exports"]), (&Value::Null, &json!([])));

    let config = ConfigFile::new().plugin(Plugin::new("other", &file, "other:///")).plugin(Plugin::misbehaving("good"));
    let server = StdioServer::start(&config.write()).await;
    assert_eq!(server.client().text("misbehaving://good/good").await, "good");
    let log = server.end().await.log;
    assert!(log.contains(expected), "{log}");
}

#[tokio::test]
async fn an_interface_that_is_here_with_less_in_it_is_named_with_what_differs() {
    // The real interface has no function `f`.
    let folder =
        Folder::with_files([("newer.wasm", wasm_fixtures::component_with_imports(["wasi:cli/environment@0.2.99"]))]);
    let error = inspect_json(&folder.path().join("newer.wasm")).await["error"].as_str().unwrap().to_owned();
    assert!(error.contains("`wasi:cli/environment@0.2.99`") && error.contains("`f`"), "{error}");
}

#[tokio::test]
async fn a_provider_of_another_version_of_the_contract_is_told_both_versions() {
    let other = r#"(component (instance $i) (export "mcp-host:provider/resource-provider@0.2.0" (instance $i)))"#;
    let command = r#"(component (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#;
    let known = "`mcp-host:provider/resource-provider@0.1.1`";
    for (text, said) in [
        (other, format!("it exports `mcp-host:provider/resource-provider@0.2.0`, and this host knows {known}")),
        (command, format!("it exports `wasi:cli/run@0.2.0`, and not {known}")),
        ("(component)", format!("it exports nothing, and not {known}")),
    ] {
        let folder = Folder::with_files([("other.wasm", wat::parse_str(text).unwrap())]);
        let error = inspect_json(&folder.path().join("other.wasm")).await["error"].as_str().unwrap().to_owned();
        assert!(error.contains(&said), "{error}");
    }
}

#[tokio::test]
async fn names_of_a_hostile_component_are_cut_where_people_read_them() {
    let name = "x".repeat(90_000);
    let text =
        format!("(component (import \"{name}\" (func)) (core module $m) (export \"{name}-out\" (core module $m)))");
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.write("long.wasm", wat::parse_str(text).unwrap());
    let inspected = run(["inspect".as_ref(), file.as_os_str()]).await;
    assert!(!inspected.stderr.contains("panicked"), "{}", &inspected.stderr[..1000]);
    assert!(inspected.text().len() < 70_000 && inspected.stderr.len() < 2000, "{}", inspected.stderr.len());
    let config = ConfigFile::new().plugin(Plugin::new("long", &file, "long:///")).write();
    let checked = check(&config, &[]).await;
    assert!(checked.text().len() + checked.stderr.len() < 4000, "{}{}", checked.text(), checked.stderr);
}
