//! `mcp-host new` and `mcp-host doctor`. The components are built from new projects by their printed instructions: see
//! `xtask/src/languages/projects.rs`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Folder, Output, Plugin, RawStdio, Revision, fixture, host_binary, host_command, run};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The languages of `mcp-host new`.
const LANGUAGES: [&str; 6] = ["rust", "python", "typescript", "javascript", "c", "go"];

/// The time to compile the largest component, a Python interpreter, on a busy machine.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(300);

/// A blob of two bytes that are not UTF-8, and its base64.
const BINARY: (&[u8], &str) = (b"\xff\x00", "/wA=");

fn plugin(language: &str, folder: &Path) -> Plugin {
    patient(&fixture(&format!("new-{language}"))).dir(folder, "/data").config("lines", 1)
}

/// A plugin with long time limits: each call starts an interpreter, on a machine that runs all other tests.
fn patient(component: &Path) -> Plugin {
    Plugin::new("notes", component, "notes:///").limit("deadline", "1m").limit("cpu", "10s")
}

/// Starts a server and waits until its plugin is loaded.
async fn start(plugin: Plugin) -> RawStdio {
    let config = ConfigFile::new().plugin(plugin).write();
    let mut server = RawStdio::start_before_plugins_load(&config, Revision::V_2025_11_25).await;
    let started = Instant::now();
    while server.request("resources/templates/list", json!({})).await.result()["_meta"].is_object() {
        assert!(started.elapsed() < COMPILE_TIMEOUT, "{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server
}

#[tokio::test]
async fn a_new_project_is_a_whole_provider_in_every_language() {
    for language in LANGUAGES {
        let folder = Folder::with_files([("a b.md", b"one\ntwo\n".as_slice()), ("c.bin", BINARY.0), (".hidden", b"")]);
        let mut server = start(plugin(language, folder.path())).await;

        let listed = server.request("resources/list", json!({})).await.result()["resources"].clone();
        let uris: Vec<_> = listed.as_array().unwrap().iter().map(|entry| entry["uri"].as_str().unwrap()).collect();
        assert_eq!(uris, ["notes:///a%20b.md", "notes:///c.bin"], "{language}");
        assert_eq!(listed[0]["mimeType"], "text/markdown", "{language}");

        assert_eq!(server.read("notes:///a%20b.md").await, Ok("one\ntwo\n".to_owned()), "{language}");
        let binary = server.request("resources/read", json!({ "uri": "notes:///c.bin" })).await;
        assert_eq!(binary.result()["contents"][0]["blob"], BINARY.1, "{language}");

        let first_line = server.read("notes:///first/a%20b.md").await;
        assert_eq!(first_line, Ok("one\n".to_owned()), "{language}: as many lines as the config says");
        for missing in ["notes:///.hidden", "notes:///x", "notes:///first/x", "notes:///..%2Fx"] {
            assert_eq!(server.read(missing).await.unwrap_err()["code"], -32002, "{language}: {missing}");
        }
        let request = json!({
            "ref": { "type": "ref/resource", "uri": "notes:///first/{name}" },
            "argument": { "name": "name", "value": "a" },
        });
        let completed = server.request("completion/complete", request).await;
        assert_eq!(completed.result()["completion"]["values"], json!(["a b.md"]), "{language}");

        server.subscribe("notes:///first/a%20b.md").await;
        folder.write("a b.md", "changed\n");
        let updated = server.notification("notifications/resources/updated").await;
        assert_eq!(updated["params"]["uri"], "notes:///first/a%20b.md", "{language}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_new_project_keeps_the_contract_in_every_language() {
    for language in LANGUAGES {
        let folder = Folder::with_files([("a.md", "one\n"), ("b", "")]);
        // The host compiles the component within the start timeout of a server, and stores it for the test of the
        // contract.
        start(plugin(language, folder.path())).await.end().await;
        let component = fixture(&format!("new-{language}"));
        let config = ConfigFile::new().plugin(patient(&component)).write();
        let config_file = config.path();
        let folder = folder.path().display();
        let (grant, edit) = (format!("{folder}=/data"), format!("echo two >> '{folder}/a.md'"));
        let of_config = ["--config", config_file.to_str().unwrap(), "--plugin", "notes"];
        let tested = ["test", component.to_str().unwrap(), "--dir", &grant, "--edit", &edit];
        let tested = run(tested.into_iter().chain(of_config)).await;
        assert_eq!(tested.code(), 0, "{language}: {}{}", tested.text(), tested.stderr);
    }
}

/// Runs `mcp-host` in a folder, with only these programs in `PATH`.
async fn run_in(folder: &Path, path: &Path, arguments: &[&str]) -> Output {
    let mut command = host_command();
    let output = command.args(arguments).current_dir(folder).env("PATH", path).output();
    let output = timeout(Duration::from_secs(60), output).await.expect("it ends").unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Output { status: output.status, stdout: output.stdout, stderr }
}

#[tokio::test]
async fn a_project_never_overwrites_a_file() {
    let folder = Folder::with_files([("notes/README.md", "mine")]);
    let refused = run_in(folder.path(), folder.path(), &["new", "notes", "--lang", "c"]).await;
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("notes has `README.md` already; nothing was written"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("notes/README.md")).unwrap(), "mine");
    assert_eq!(fs::read_dir(folder.path().join("notes")).unwrap().count(), 1);
    // Only files with the same names are obstacles.
    fs::rename(folder.path().join("notes/README.md"), folder.path().join("notes/OTHER.md")).unwrap();
    run_in(folder.path(), folder.path(), &["new", "notes", "--lang", "c"]).await.success();
    assert!(folder.path().join("notes/OTHER.md").is_file() && folder.path().join("notes/provider.c").is_file());
}

#[tokio::test]
async fn a_project_that_cannot_be_written_leaves_nothing_behind() {
    let folder = Folder::with_files([("notes/sdk", "a file where the SDK would be")]);
    let failed = run_in(folder.path(), folder.path(), &["new", "notes", "--lang", "go"]).await;
    assert_eq!(failed.code(), 1);
    assert!(failed.stderr.contains("nothing was left behind"), "{}", failed.stderr);
    assert_eq!(fs::read_dir(folder.path().join("notes")).unwrap().count(), 1);
}

#[tokio::test]
async fn the_sdk_of_a_project_is_updated_and_nothing_else() {
    let folder = Folder::with_files([("bin/x", "")]);
    let bin = folder.path().join("bin");
    run_in(folder.path(), &bin, &["new", "notes", "--lang", "c"]).await.success();
    let project = folder.path().join("notes");
    let current = run_in(&project, &bin, &["new", "--update"]).await.success();
    assert!(current.text().contains("is the SDK for C of mcp-host"), "{}", current.text());

    // As if an older version had written it: a file is missing, and the provider is the author's.
    fs::remove_file(project.join("sdk/include/mcp_sql.h")).unwrap();
    folder.write("notes/provider.c", "mine");
    let updated = run_in(folder.path(), &bin, &["new", "--update", "notes"]).await.success();
    assert!(updated.text().contains("0 changed, 1 added, 0 removed"), "{}", updated.text());
    assert!(updated.text().contains("  added    sdk/include/mcp_sql.h\n"), "{}", updated.text());
    assert!(updated.text().contains("`make`, `make test`"), "{}", updated.text());
    assert!(project.join("sdk/include/mcp_sql.h").is_file());
    assert_eq!(fs::read_to_string(project.join("provider.c")).unwrap(), "mine");

    folder.write("notes/sdk/include/mcp_sql.h", "edited");
    let refused = run_in(&project, &bin, &["new", "--update"]).await;
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("`sdk/include/mcp_sql.h` was edited"), "{}", refused.stderr);
    assert!(refused.stderr.contains("mcp-host new --update --force"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(project.join("sdk/include/mcp_sql.h")).unwrap(), "edited");
    run_in(&project, &bin, &["new", "--update", "--force"]).await.success();
    assert_ne!(fs::read_to_string(project.join("sdk/include/mcp_sql.h")).unwrap(), "edited");

    let refused = run_in(folder.path(), &bin, &["new", "--update"]).await;
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("mcp-host new --update DIR"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_bad_name_and_an_unknown_language_are_refused_with_what_to_write() {
    let folder = Folder::with_files([("x", "")]);
    for (arguments, expected) in [
        (["new", "花", "--lang", "c"], "no package name can be made of `花`"),
        (["new", "/", "--lang", "c"], "`/` has no last segment"),
        (["new", "notes", "--lang", "pyton"], "a similar value exists: 'python'"),
    ] {
        let refused = run_in(folder.path(), folder.path(), &arguments).await;
        assert_eq!(refused.code(), 2, "{arguments:?}");
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_project_is_written_without_its_toolchain_and_says_what_is_missing() {
    let folder = Folder::with_files([("bin/x", "")]);
    let written = run_in(folder.path(), &folder.path().join("bin"), &["new", "notes", "--lang", "go"]).await.success();
    assert!(written.text().contains("  go generate "), "{}", written.text());
    assert!(written.stderr.contains("warning: go is missing\n  install Go 1.24"), "{}", written.stderr);
}

/// Writes a tool: a shell script.
fn tool(folder: &Folder, name: &str, script: &str) {
    let file = folder.write(format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
}

/// Runs `mcp-host doctor --lang go --json` with these tools.
async fn doctor(folder: &Folder) -> (i32, Value) {
    let path = folder.path().join("bin");
    let output = run_in(folder.path(), &path, &["doctor", "--lang", "go", "--json"]).await;
    (output.code(), output.json()["languages"][0]["tools"].clone())
}

#[tokio::test]
async fn doctor_says_which_tools_are_missing_or_too_old_and_how_to_install_them() {
    let folder = Folder::with_files([("bin/x", "")]);
    let (code, tools) = doctor(&folder).await;
    assert_eq!((code, &tools[0]["status"], &tools[1]["status"]), (1, &json!("missing"), &json!("missing")));
    let install = tools[1]["install"].as_str().unwrap();
    assert_eq!(install, format!("export PATH=\"{}:$PATH\"", host_binary().parent().unwrap().display()));

    tool(&folder, "mcp-host", "echo mcp-host 0.1.0");
    tool(&folder, "go", "echo go version go1.19.8 linux/amd64");
    let (code, tools) = doctor(&folder).await;
    assert_eq!((code, &tools[0]["status"], &tools[0]["found"]), (1, &json!("too-old"), &json!("1.19.8")));
    assert_eq!(tools[0]["needed"], "1.24 or newer");

    // A package manager is suggested if its version is recent enough.
    tool(&folder, "apt-get", "exit 1");
    tool(&folder, "apt-cache", "echo '  Candidate: 2:1.24~2'");
    let (_, tools) = doctor(&folder).await;
    assert!(tools[0]["install"].as_str().unwrap().ends_with("apt-get install golang-go"), "{tools}");

    tool(&folder, "go", "echo go version go1.26.6 linux/amd64");
    let (code, tools) = doctor(&folder).await;
    assert_eq!((code, &tools[0]["status"], &tools[0]["install"]), (0, &json!("ok"), &Value::Null));
}

#[tokio::test]
async fn a_tool_that_hangs_does_not_hang_doctor() {
    let folder = Folder::with_files([("bin/x", "")]);
    tool(&folder, "mcp-host", "echo mcp-host 0.1.0");
    tool(&folder, "go", "exec /bin/sleep 600");
    let (code, tools) = doctor(&folder).await;
    assert_eq!((code, &tools[0]["status"]), (1, &json!("no-answer")));
    assert_eq!((&tools[0]["check"], &tools[0]["install"]), (&json!("go version"), &Value::Null));
    assert!(tools[0]["reason"].as_str().unwrap().starts_with("it did not answer within"), "{tools}");
}
