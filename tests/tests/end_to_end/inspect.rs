//! What is known of a component before it serves anything: its digest, what it imports, what that needs.

use std::path::{Path, PathBuf};

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, Output, Plugin, Stdio, WrittenConfig, component, fixture, run, run_on_terminal,
};
use serde_json::{Value, json};

use crate::made;

/// A component that nobody has compiled before, in a folder of its own.
struct Fresh {
    folder: Folder,
}

impl Fresh {
    fn provider() -> Self {
        let fresh = Self { folder: Folder::with_files::<&str, &str>([]) };
        fresh.put(&std::fs::read(fixture("raw")).unwrap());
        fresh
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("fresh.wasm")
    }

    /// Puts a component there, made one of a kind.
    fn put(&self, bytes: &[u8]) {
        let folder = self.folder.path().as_os_str().as_encoded_bytes();
        self.folder.write("fresh.wasm", made::padded(bytes.to_vec(), folder));
    }

    async fn digest(&self) -> String {
        inspected(&self.file()).await["digest"].as_str().unwrap().to_owned()
    }
}

async fn inspected(file: &Path) -> Value {
    run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]).await.json()
}

async fn check(config: &WrittenConfig, arguments: &[&str]) -> Output {
    let path = config.path();
    run([&["check", "--config", path.to_str().unwrap()], arguments].concat()).await
}

/// What `check` says of the one plugin.
async fn checked(config: &WrittenConfig) -> Value {
    let report = check(config, &["--json"]).await.json();
    assert_eq!(report["plugins"].as_array().unwrap().len(), 1);
    report["plugins"][0].clone()
}

fn need<'a>(report: &'a Value, what: &str) -> &'a Value {
    report["needs"].as_array().unwrap().iter().find(|need| need["what"] == what).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn the_digest_that_inspect_prints_pins_the_component() {
    let fresh = Fresh::provider();
    let printed = run(["inspect".as_ref(), fresh.file().as_os_str()]).await.success().text();
    let digest = printed.lines().next().unwrap().strip_prefix("digest    ").unwrap();
    let plugin = Plugin::new("fresh", &fresh.file(), "raw://fresh/").digest(digest);
    let report = checked(&ConfigFile::new().plugin(plugin).write()).await;
    assert_eq!((&report["state"], &report["pinned"], &report["digest"]), (&json!("ok"), &json!(true), &json!(digest)));
}

#[tokio::test]
async fn a_component_that_is_not_the_pinned_one_is_neither_compiled_nor_run() {
    let fresh = Fresh::provider();
    let pinned = fresh.digest().await;
    let other = made::padded(std::fs::read(fixture("raw")).unwrap(), b"other");
    fresh.put(&other);
    let plugin = Plugin::new("fresh", &fresh.file(), "raw://fresh/").digest(&pinned);
    let config = ConfigFile::new().plugin(plugin).write();
    let refused = check(&config, &["--json"]).await;
    assert_eq!(refused.code(), 1);
    assert!(!refused.stderr.contains("compiling"), "{}", refused.stderr);
    let report = &refused.json()["plugins"][0];
    assert_eq!((&report["state"], &report["pinned"]), (&json!("not-loaded"), &json!(true)));
    let found = fresh.digest().await;
    let error = report["error"].as_str().unwrap();
    for said in [format!("expected {pinned}"), format!("found {found}"), format!("write `digest = \"{found}\"`")] {
        assert!(error.contains(&said), "{said}\n{error}");
    }
}

#[tokio::test]
async fn serve_names_a_component_that_is_not_the_pinned_one_and_serves_the_others() {
    let fresh = Fresh::provider();
    let pinned = format!("sha256:{}", "0".repeat(64));
    let config = ConfigFile::new()
        .plugin(Plugin::new("fresh", &fresh.file(), "raw://fresh/").digest(&pinned))
        .plugin(Plugin::new("good", &fixture("raw"), "raw://good/"))
        .write();
    let server = Stdio::start(&config).await;
    let page = serde_json::to_value(server.client().page(None).await.unwrap()).unwrap();
    assert_eq!(page["resources"][0]["uri"], "raw://good/good");
    assert_eq!(page["_meta"]["mcp-host/missing"][0]["plugin"], "fresh");
    assert!(server.client().refusal("raw://fresh/good").await.message.contains("fresh"));
    let log = server.end().await.log;
    assert!(log.contains("is not the component that `digest` pins") && log.contains(&pinned), "{log}");
}

#[tokio::test]
async fn what_is_imported_is_held_against_what_is_granted() {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let plugin = Plugin::git("repo", repo.path()).variable("TOKEN", "hunter2").config("rev", "main");
    let report = checked(&ConfigFile::new().plugin(plugin).write()).await;
    for (what, granted) in [("directories", "/repo (ro)"), ("variables", "TOKEN"), ("config", "rev")] {
        let need = need(&report, what);
        assert_eq!((&need["standing"], &need["granted"]), (&json!("granted"), &json!([granted])), "{what}");
        assert!(need["imports"][0].as_str().unwrap().starts_with("wasi:"), "{need}");
    }
    assert_eq!(need(&report, "clocks")["standing"], "always-there");
    assert_eq!((&report["warnings"], &report["listed"]), (&json!([]), &json!(1)));
    assert!(!report.to_string().contains("hunter2"));
}

#[tokio::test]
async fn what_is_granted_for_nothing_is_a_warning_and_with_strict_an_error() {
    // Its imports do not include the environment: it has no standard library that asks for it.
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).text("grants.http = ['https://docs.rs']\n");
    // The text stands at the end of the file, behind the plugin's tables.
    let config = config.write();
    let file = std::fs::read_to_string(config.path()).unwrap();
    let file = file.replace("grants.http = ['https://docs.rs']\n", "");
    let file =
        file.replace("[[plugin.grants.dirs]]", "[plugin.grants]\nhttp = ['https://docs.rs']\n\n[[plugin.grants.dirs]]");
    std::fs::write(config.path(), file).unwrap();
    let warning = "`grants.http` is granted for nothing: it does not import `wasi:http/outgoing-handler`";
    let report = checked(&config).await;
    assert_eq!((&report["state"], &report["warnings"]), (&json!("ok"), &json!([warning])));
    assert_eq!(need(&report, "http")["standing"], "for-nothing");
    let lenient = check(&config, &[]).await.success();
    assert!(lenient.text().contains(&format!("repo: {warning}\n")), "{}", lenient.text());
    let strict = check(&config, &["--strict"]).await;
    assert_eq!(strict.code(), 1);
    assert!(strict.stderr.contains("1 warnings"), "{}", strict.stderr);
}
