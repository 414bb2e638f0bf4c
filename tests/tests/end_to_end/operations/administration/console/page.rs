//! The console's page while the server changes: its contents without a reload of the page, in a real browser.

use std::process::Stdio;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, ReservedPort, Rule, TIMEOUT, fixture};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;
use toml::Table;

use super::super::api::{assert_valid, schema};
use super::super::{Administered, TOKEN, broken, with_token};
use super::{ALICE_TOKEN, browse, browser};

/// Runs parts of the browser test. When the browser requests a step, it waits until the step is done.
async fn browse_in_steps(parts: &str, address: &str, token: &str, mut step: impl AsyncFnMut(&str)) {
    let mut command = browser(parts, address, token);
    let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut answers = running.stdin.take().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut stderr = running.stderr.take().unwrap();
    let errors = tokio::spawn(async move {
        let mut text = String::new();
        stderr.read_to_string(&mut text).await.unwrap();
        text
    });
    while let Some(line) = timeout(TIMEOUT, lines.next_line()).await.expect("the browser ends in time").unwrap() {
        if let Some(name) = line.strip_prefix("step ") {
            step(name).await;
            answers.write_all(b"done\n").await.unwrap();
        }
    }
    let status = running.wait().await.unwrap();
    let errors = errors.await.unwrap();
    assert!(status.success(), "{errors}");
}

#[tokio::test]
async fn a_page_follows_the_files_the_subscribers_and_the_end_of_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        Folder::with_files([("plan.md", "# The plan\n"), ("old.md", "# Old\n"), ("secret.txt", "hidden words\n")]);
    let config = ConfigFile::new()
        .plugin(Plugin::files("files", files.path()))
        .rule(Rule::for_principal("local").allow(["**"]))
        .rule(Rule::for_principal("anonymous").allow(["**"]).deny(["**/secret*"]))
        .append(&with_token(folder.path()))
        .write();
    let admin = Administered::start(&config).await;
    let address = format!("http://{}", admin.address);
    let mut client = None;
    let steps = async |step: &str| match step {
        "edit" => {
            files.write("plan.md", "# Another plan\n");
        }
        "add" => {
            files.write("new.md", "# New\n");
        }
        "remove" => std::fs::remove_file(files.path().join("old.md")).unwrap(),
        "edit the secret" => {
            files.write("secret.txt", "other words\n");
        }
        "subscribe" => {
            let mut subscriber = admin.server.raw_client(mcp_host_tests::Revision::V_2025_11_25).await;
            let uri = json!({ "uri": "files://files/plan.md" });
            subscriber.request("resources/subscribe", uri).await.result();
            let events = subscriber.event_stream().await;
            client = Some((subscriber, events));
        }
        "replace the token" => {
            std::fs::write(folder.path().join("admin.token"), TOKEN.replace('0', "9")).unwrap();
        }
        other => panic!("no step {other}"),
    };
    browse_in_steps("follow", &address, TOKEN, steps).await;
    admin.server.end().await;
}

#[tokio::test]
async fn a_page_says_that_the_server_was_restarted_and_goes_on_after_a_login() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n")]);
    let port = ReservedPort::new();
    let token = with_token(folder.path()).replace("127.0.0.1:0", &port.address().to_string());
    let config = ConfigFile::new().plugin(Plugin::files("files", files.path())).allow_all().append(&token).write();
    let mut server = Some(HttpServer::start(&config).await);
    let address = format!("http://{}", port.address());
    let steps = async |step: &str| match step {
        "end" => {
            server.take().unwrap().end().await;
        }
        "start" => {
            let started = HttpServer::start(&config).await;
            started.log_line("administration at ").await;
            server = Some(started);
        }
        other => panic!("no step {other}"),
    };
    browse_in_steps("restart", &address, TOKEN, steps).await;
    server.take().unwrap().end().await;
}

/// A page shows the other plugins while one does not answer.
#[tokio::test]
async fn a_slow_plugin_keeps_no_page_from_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n")]);
    let slow = Plugin::misbehaving("slow").limit("deadline", "5s");
    let config = ConfigFile::new().plugin(slow).plugin(Plugin::files("files", files.path())).allow_all();
    let config = config.append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    browse("slow", &format!("http://{}", admin.address)).await;
    admin.server.end().await;
}

#[tokio::test]
async fn all_is_done_by_keyboard() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n"), ("other.md", "# Other\n")]);
    let config = ConfigFile::new().plugin(broken(folder.path())).plugin(Plugin::files("files", files.path()));
    let config = config.allow_all().audit("file", "audit.jsonl").append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    browse("keyboard", &format!("http://{}", admin.address)).await;
    admin.server.end().await;
}

/// A plugin that prepares an index of a file, in steps.
fn preparing(name: &str, files: &Folder, how: &str) -> Plugin {
    let plugin = Plugin::new(name, &fixture("preparing"), &format!("preparing://{name}/"));
    plugin.writable_dir(files.path(), "/data", "1MiB").config("prepare", how)
}

#[tokio::test]
async fn preparations_circuit_breakers_and_missing_grants_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let [prepared, locked, forbidden] = [(); 3].map(|()| Folder::with_files([("source", "text")]));
    locked.write("fault", "");
    let switch = Folder::with_files([("switch", "")]);
    let limits = [("cpu", "20s"), ("memory", "32MiB")].map(|(key, value)| (key.to_owned(), value.into()));
    let limits = Table::from_iter(limits);
    let config = ConfigFile::new()
        .plugin(preparing("prepared", &prepared, "").limit("prepare", limits.clone()))
        .plugin(preparing("fails", &locked, "fail").limit("prepare", limits))
        .plugin(preparing("forbidden", &forbidden, ""))
        .plugin(Plugin::misbehaving("trapping").dir(switch.path(), "/switch"))
        .plugin(Plugin::shipped("ungranted", "files", "files"))
        .allow_all()
        .append(&with_token(folder.path()))
        .write();
    let admin = Administered::start(&config).await;
    let state = async |name: &str, path: &[&str]| {
        let (_, plugin) = admin.api("GET", &format!("plugins/{name}"), None).await;
        path.iter().fold(&plugin["status"], |value, name| &value[name]).clone()
    };
    while state("prepared", &["preparation", "percent"]).await != 50 {}
    while state("fails", &["preparation", "state"]).await != "failing" {}
    while state("trapping", &["state", "name"]).await != "ready" {}
    switch.write("broken", "");
    while state("trapping", &["state", "name"]).await != "suspended" {
        admin.api("POST", "browse/read", Some(&json!({ "uri": "misbehaving://trapping/good" }))).await;
    }
    let steps = async |step: &str| match step {
        "go on" => {
            prepared.write("go", "");
        }
        "repair" => std::fs::remove_file(switch.path().join("broken")).unwrap(),
        other => panic!("no step {other}"),
    };
    browse_in_steps("states", &format!("http://{}", admin.address), TOKEN, steps).await;
    admin.server.end().await;
}

#[tokio::test]
async fn the_page_of_a_client_whose_token_is_revoked_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::with_files([("plan.md", "# The plan\n")]);
    let config = || {
        let config = ConfigFile::new().plugin(Plugin::files("files", files.path())).allow_all();
        config.append(&format!("{}users = true\n", with_token(folder.path())))
    };
    let written = config().principal("alice", ALICE_TOKEN).write();
    let admin = Administered::start(&written).await;
    let steps = async |step: &str| match step {
        "revoke" => written.replace(config()),
        other => panic!("no step {other}"),
    };
    browse_in_steps("revoked", &format!("http://{}", admin.address), ALICE_TOKEN, steps).await;
    admin.server.end().await;
}

#[tokio::test]
async fn what_of_the_config_on_disk_is_not_served_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let token = with_token(folder.path());
    let served = || ConfigFile::new().plugin(Plugin::sample("a")).allow_all();
    let written = served().append(&token).write();
    let admin = Administered::start(&written).await;
    let schema = schema().await;
    let changes = async || {
        let (status, answer) = admin.api("GET", "config/changes", None).await;
        assert_eq!(status, 200, "{answer}");
        assert_valid(&schema, "GET /api/v1/config/changes", &answer);
        answer
    };
    let unchanged = changes().await;
    assert_eq!((&unchanged["changed"], &unchanged["requires_restart"]), (&json!(false), &json!([])), "{unchanged}");
    let steps = async |step: &str| match step {
        "break" => {
            let wanted = served().plugin(broken(folder.path())).http("keep-alive", "7s").append(&token);
            written.replace(wanted);
            admin.server.log_line("reload failed").await;
            let found = changes().await;
            assert_eq!(found["plugins_added"], json!(["broken"]), "{found}");
            assert_eq!((&found["changed"], &found["requires_restart"]), (&json!(true), &json!(["http.keep-alive"])));
        }
        "repair" => written.replace(served().append(&token)),
        "write nonsense" => {
            written.replace_text("[[plugin]]\nnonsense = 1\n");
            let (status, answer) = admin.api("GET", "config/changes", None).await;
            assert_eq!(status, 409, "{answer}");
            assert!(answer["error"].as_str().unwrap().contains("nonsense"), "{answer}");
        }
        other => panic!("no step {other}"),
    };
    browse_in_steps("changes", &format!("http://{}", admin.address), TOKEN, steps).await;
    admin.server.end().await;
}
