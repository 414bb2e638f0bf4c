//! `mcp-host test`: each fault of a provider is found, and the shipped providers have none.

use std::path::Path;

use mcp_host_tests::{
    ConfigFile, DriveServer, Folder, GitRepo, MockOrigin, Output, Plugin, PrometheusServer, Reply, WatProvider,
    component, fixture, run,
};
use serde_json::{Value, json};

/// The faults of the guest `raw`. Each has the name of the check that it must fail.
const FAULTS: [&str; 22] = [
    "describe",
    "listing-ends",
    "listing-stable",
    "listing-unique",
    "cursor-resume",
    "bad-cursor",
    "children",
    "readable",
    "stat-agrees",
    "not-found",
    "paths",
    "hints",
    "utf-8",
    "sizes",
    "templates",
    "completion",
    "changes-quiet",
    "changes-reported",
    "token",
    "bad-token",
    "stateless",
    "limits",
];

async fn test(component: &Path, arguments: &[&str]) -> Output {
    let command = ["test", component.to_str().unwrap(), "--log", "off"];
    run(command.iter().chain(arguments)).await
}

/// The same with a longer deadline of calls than the default, which a busy machine may exceed, and with more CPU time
/// than a slow machine needs. Other grants and limits come from the command line.
async fn test_with_time(component: &Path, arguments: &[&str]) -> Output {
    let plugin = Plugin::new("patient", component, "patient:///").limit("deadline", "1m").limit("cpu", "5s");
    let config = ConfigFile::new().plugin(plugin).write();
    let config_file = config.path();
    let of_config = ["--config", config_file.to_str().unwrap(), "--plugin", "patient"];
    test(component, &[&of_config[..], arguments].concat()).await
}

/// Returns the names of the checks with an outcome.
fn checks<'r>(report: &'r Value, outcome: &str) -> Vec<&'r str> {
    let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["outcome"] == outcome);
    checks.map(|check| check["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_fault_fails_its_check_and_no_other() {
    let guest = fixture("raw");
    let data = Folder::with_files([("version", "0")]);
    let grant = format!("{}=/data", data.path().display());
    // The data must change from one run to the next, so each run writes its own version.
    let edit = |version: usize| format!("echo {} > '{}/version'", version + 1, data.path().display());
    let none =
        test(&guest, &["--json", "--set", "fault=none", "--dir", &grant, "--edit", &edit(0)]).await.success().json();
    assert_eq!(checks(&none, "passed").len(), FAULTS.len() + 1, "{none:#}");
    for (number, fault) in FAULTS.iter().enumerate() {
        let (set, edit) = (format!("fault={fault}"), edit(number + 1));
        let tested = test(&guest, &["--json", "--set", &set, "--dir", &grant, "--edit", &edit]).await;
        let report = tested.json();
        assert_eq!(checks(&report, "failed"), [*fault], "{report:#}");
        assert_eq!((tested.code(), &report["passed"]), (1, &Value::from(false)));
    }
}

#[tokio::test]
async fn a_template_whose_expansion_has_the_entry_of_another_path_fails() {
    let guest = fixture("raw");
    let report = test(&guest, &["--json", "--set", "fault=template-spelling"]).await.json();
    assert_eq!(checks(&report, "failed"), ["templates"], "{report:#}");
    assert!(report.to_string().contains("a client cannot subscribe to it"), "{report:#}");
}

#[tokio::test]
async fn a_template_that_traps_with_another_value_than_the_first_fails() {
    let guest = fixture("raw");
    let report = test(&guest, &["--json", "--set", "fault=template-value"]).await.json();
    assert_eq!(checks(&report, "failed"), ["templates"], "{report:#}");
    assert!(report.to_string().contains("reading `item/two`"), "{report:#}");
}

#[tokio::test]
async fn what_to_do_is_said_for_each_problem() {
    let guest = fixture("raw");
    for (fault, check, problem, advice) in [
        ("template-stat", "templates", "`stat` of `item/one`", "answer `stat` for the paths that templates expand to"),
        ("template-twice", "listing-unique", "is listed more than once", "return each path template once"),
        (
            "contents-of-another",
            "readable",
            "has the contents of `b`",
            "return the contents with the path that was requested",
        ),
        ("contents-twice", "readable", "several contents of `a`", "return one content for each path and MIME type"),
        ("empty-name", "hints", "the name of `a` is empty", "give each entry and template a name"),
        ("completion-twice", "completion", "the completion `one` more than once", "return each value once"),
        ("readable", "readable", "reading `a`: ", "find in `read` what `list-entries` lists"),
        ("limits", "limits", "reading `e`: ", "read in parts instead of as a whole"),
    ] {
        let report = test(&guest, &["--json", "--set", &format!("fault={fault}")]).await.json();
        assert_eq!(checks(&report, "failed"), [check], "{fault}: {report:#}");
        let failed = report["checks"].as_array().unwrap().iter().find(|one| one["name"] == check).unwrap();
        assert!(failed["problems"].to_string().contains(problem), "{fault}: {failed:#}");
        let all = failed["advice"].as_str().unwrap();
        assert!(all.starts_with(advice) && !all.contains('\n'), "{fault}: {failed:#}");
    }
}

#[tokio::test]
async fn a_panic_is_quoted_and_the_advice_is_to_fix_it() {
    let guest = fixture("misbehaving");
    let report = test(&guest, &["--json", "--set", "list=panic"]).await.json();
    let checks = report["checks"].as_array().unwrap();
    let failed = checks.iter().find(|check| check["name"] == "listing-ends").unwrap();
    let problem = failed["problems"][0].as_str().unwrap();
    assert!(problem.contains("; before, it wrote: thread ") && problem.contains("actions.rs:"), "{problem}");
    assert!(!problem.contains("RUST_BACKTRACE"), "{problem}");
    let advice = failed["advice"].as_str().unwrap();
    assert!(advice.starts_with("fix what the message says") && !advice.contains("next-cursor"), "{advice}");
}

#[tokio::test]
async fn a_provider_that_fails_without_a_grant_that_it_asks_for_is_to_be_granted_it() {
    let tested = test(&fixture("csv-c"), &[]).await;
    assert_eq!(tested.code(), 1);
    let text = tested.text();
    assert!(text.contains("to fix:  the notes say where the grants and the config"), "{text}");
    assert!(text.contains("it asks for `/csv (ro)` in `grants.dirs`, which is not granted"), "{text}");
}

#[tokio::test]
async fn an_import_without_a_grant_is_a_note_since_a_grant_may_be_optional() {
    let import = r#"(import "wasi:keyvalue/store@0.2.0-draft2" "open" (func (param i32 i32 i32)))"#;
    let description =
        r#"(data (i32.const 2048) "\00\09\00\00\01\00\00\00\01\09\00\00\01\00\00\00") (data (i32.const 2304) "a1")"#;
    // The failure `not-found`.
    let not_found = r#"(data (i32.const 3072) "\01")"#;
    let provider = WatProvider::new()
        .imports(import)
        .module_fields(&[description, not_found].concat())
        .function("describe", "(i32.const 2048)")
        .function("read", "(i32.const 3072)")
        .function("stat", "(i32.const 3072)")
        .build();
    let report = test(&provider.path(), &["--json"]).await.success().json();
    assert!(report.to_string().contains("which is of no use without `grants.keyvalue`"), "{report:#}");
    test(&provider.path(), &["--keyvalue", "pages"]).await.success();
}

#[tokio::test]
async fn what_ships_keeps_the_contract_with_its_grants_alone() {
    test_with_time(&component("hello"), &[]).await.success();
    let notes = Folder::with_files([("a.md", "# A\n"), ("b/c.md", "# C\n#tag\n")]);
    let (grant, edit) =
        (format!("{}=/notes", notes.path().display()), format!("echo x >> {}/a.md", notes.path().display()));
    let report =
        test_with_time(&component("notes"), &["--json", "--dir", &grant, "--edit", &edit]).await.success().json();
    assert!(checks(&report, "passed").contains(&"changes-reported"), "{report:#}");
    let files =
        Folder::with_files([("a.md", "# A\n"), ("src/b.rs", "fn main() {}\n"), ("big.log", &"line\n".repeat(500_000))]);
    let (grant, edit) =
        (format!("{}=/files", files.path().display()), format!("echo x >> {}/a.md", files.path().display()));
    let report =
        test_with_time(&component("files"), &["--json", "--dir", &grant, "--edit", &edit]).await.success().json();
    assert!(checks(&report, "passed").contains(&"templates"), "{report:#}");
    let settings = Folder::with_files([("app.toml", "[server]\nport = 80\n"), ("sub/b.yaml", "password: hunter2\n")]);
    let (grant, edit) = (
        format!("{}=/config", settings.path().display()),
        format!("echo x = 1 > {}/app.toml", settings.path().display()),
    );
    let set = ["--set", "layers=[\"app.toml\", \"sub/b.yaml\"]"];
    let report =
        test_with_time(&component("config"), &[&["--json", "--dir", &grant, "--edit", &edit], &set[..]].concat()).await;
    let report = report.success().json();
    assert!(checks(&report, "passed").contains(&"changes-reported"), "{report:#}");
    let results = Folder::with_files([
        ("a.md", "# A\n"),
        ("a.meta.json", r#"{"key": "k"}"#),
        ("b/c.csv", "x\n1\n"),
        ("b/c.meta.json", "{}"),
    ]);
    let (grant, edit) =
        (format!("{}=/results", results.path().display()), format!("echo x >> {}/a.md", results.path().display()));
    let report =
        test_with_time(&component("results"), &["--json", "--dir", &grant, "--edit", &edit]).await.success().json();
    assert!(checks(&report, "passed").contains(&"changes-reported"), "{report:#}");
    let repo = GitRepo::with_files([("README.md", "hello"), ("src/main.rs", "fn main() {}\n")]);
    let grant = format!("{}=/repo", repo.path().display());
    let report = test_with_time(&component("git"), &["--json", "--dir", &grant]).await.success().json();
    assert!(checks(&report, "passed").contains(&"templates"), "{report:#}");
    let origin = MockOrigin::http().await;
    origin.serve("/page", Reply::ok("text/html", "<title>Hello</title>"));
    let (set, http) = (format!("plain-http=[\"127.0.0.1:{}\"]", origin.port()), origin.origin());
    test_with_time(&component("http-cache"), &["--http", &http, "--keyvalue", "pages", "--set", &set]).await.success();
    let prometheus = PrometheusServer::builder().blocks("# TYPE up gauge\nup 1 1700000000\n# EOF\n").start().await;
    let (url, queries) =
        (format!("url={}", prometheus.url()), r#"queries={"one":"vector(1)","up":{"query":"up","range":"1h"}}"#);
    let arguments = ["--json", "--http", prometheus.url(), "--set", &url, "--set", queries];
    let report = test_with_time(&component("prometheus"), &arguments).await.success().json();
    assert!(checks(&report, "passed").contains(&"templates"), "{report:#}");
    let (folder, document) = ("application/vnd.google-apps.folder", "application/vnd.google-apps.document");
    let drive = DriveServer::start([
        json!({ "do": "create", "id": "F", "name": "Team", "mimeType": folder }),
        json!({ "do": "create", "id": "S", "name": "Specs", "mimeType": folder, "parents": ["F"] }),
        json!({ "do": "create", "id": "a", "name": "a.txt", "parents": ["S"], "content": "text" }),
        json!({ "do": "create", "id": "d", "name": "Plan", "mimeType": document, "parents": ["F"], "content": "# Plan\n" }),
    ])
    .await;
    let config = ConfigFile::new().plugin(drive.plugin().bucket("drive").config("folders", vec!["F"])).write();
    let config_file = config.path();
    let arguments = ["--json", "--config", config_file.to_str().unwrap(), "--plugin", "drive"];
    let report = test(&component("drive"), &arguments).await.success().json();
    assert!(checks(&report, "passed").contains(&"templates"), "{report:#}");
    drive.requests();
}

#[tokio::test]
async fn a_provider_of_functions_keeps_the_contract_in_every_language() {
    for language in ["python", "javascript", "typescript", "go", "rust", "c"] {
        let files = Folder::with_files([("a b,c.md", "# A\n"), ("b.txt", "1\n2\n"), ("ü.txt", "x\n")]);
        let (grant, edit) =
            (format!("{}=/data", files.path().display()), format!("echo x >> {}/b.txt", files.path().display()));
        let arguments = ["--json", "--dir", &grant, "--edit", &edit];
        let report = test_with_time(&fixture(&format!("folder-{language}")), &arguments).await.success().json();
        for check in ["cursor-resume", "templates", "completion", "changes-reported", "stateless"] {
            assert!(checks(&report, "passed").contains(&check), "{language}: {report:#}");
        }
    }
}

#[tokio::test]
async fn the_report_says_what_is_wrong_and_what_to_do() {
    let guest = fixture("raw");
    let failed = test(&guest, &["--set", "fault=sizes"]).await;
    assert_eq!(failed.code(), 1);
    let text = failed.text();
    for expected in ["`d` is listed with 999 bytes and has 1", "to fix:  set `size`", "1 failed"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(failed.stderr.contains("1 check failed"), "{}", failed.stderr);
}

#[tokio::test]
async fn ci_gets_a_junit_report() {
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.path().join("report.xml");
    let junit = ["--junit", file.to_str().unwrap(), "--set", "fault=utf-8"];
    assert_eq!(test(&fixture("raw"), &junit).await.code(), 1);
    let xml = std::fs::read_to_string(&file).unwrap();
    for expected in ["<testsuite ", "tests=\"24\"", "failures=\"1\"", "name=\"utf-8\"", "<failure", "<skipped"] {
        assert!(xml.contains(expected), "{expected}: {xml}");
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_tested_does_not_pass() {
    let empty = Folder::with_files::<&str, &str>([]);
    let grant = format!("{}=/repo", empty.path().display());
    let failed = test(&component("git"), &["--json", "--dir", &grant]).await;
    assert_eq!((failed.code(), checks(&failed.json(), "failed")), (1, vec!["listing-ends"]));
    let folder = Folder::with_files([("no.wasm", "no component")]);
    assert_eq!(test(&folder.path().join("no.wasm"), &[]).await.code(), 1);
    let edited = test(&fixture("raw"), &["--json", "--set", "fault=none", "--edit", "exit 3"]).await;
    assert_eq!(checks(&edited.json(), "failed"), ["changes-reported"]);
}

#[tokio::test]
async fn grants_and_config_may_come_from_a_plugin_of_the_config() {
    let plugin = Plugin::new("faulty", &fixture("raw"), "faulty:///").config("fault", "hints");
    let config = ConfigFile::new().plugin(plugin).write();
    let config_file = config.path();
    let of_config = ["--config", config_file.to_str().unwrap(), "--plugin"];
    let report = test(&fixture("raw"), &[&of_config[..], &["faulty", "--json"]].concat()).await;
    assert_eq!(checks(&report.json(), "failed"), ["hints"]);
    let set = test(&fixture("raw"), &[&of_config[..], &["faulty", "--set", "fault=none"]].concat()).await;
    set.success();
    assert_eq!(test(&fixture("raw"), &[&of_config[..], &["other"]].concat()).await.code(), 2);
    assert_eq!(test(&fixture("raw"), &["--dir", "/nonexistent=/data"]).await.code(), 2);
}
