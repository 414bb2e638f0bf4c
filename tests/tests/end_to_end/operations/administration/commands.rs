//! The commands for administrators: what they print while a server restarts, and how to correct what was typed.

use std::process::Stdio;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, TIMEOUT, WrittenConfig, host_command, run};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::time::timeout;

fn with_socket(folder: &tempfile::TempDir, config: ConfigFile) -> WrittenConfig {
    config.append(&format!("\n[admin]\nlisten = \"unix:{}\"\n", folder.path().join("admin.sock").display())).write()
}

#[tokio::test]
async fn status_is_watched_across_a_restart_of_the_server_and_ends_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let config = with_socket(&folder, ConfigFile::new().plugin(Plugin::sample("a")));
    let server = HttpServer::start(&config).await;
    let mut command = host_command();
    command.args(["status", "--watch", "--json", "--config"]).arg(config.path()).stdin(Stdio::null());
    let mut watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut answers = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut messages = BufReader::new(watching.stderr.take().unwrap());
    let mut process = async || {
        let line = timeout(TIMEOUT, answers.next_line()).await.unwrap().unwrap().expect("it goes on");
        serde_json::from_str::<serde_json::Value>(&line).unwrap()["pid"].as_u64().unwrap()
    };
    let before = process().await;
    server.end().await;
    let mut told = String::new();
    timeout(TIMEOUT, messages.read_line(&mut told)).await.unwrap().unwrap();
    assert!(told.starts_with("warning: no answer from the administration listener at unix:"), "{told}");
    assert!(told.ends_with("; trying again\n"), "{told}");
    let server = HttpServer::start(&config).await;
    while process().await == before {}
    let id = watching.id().and_then(|id| Pid::from_raw(id.cast_signed())).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    assert!(timeout(TIMEOUT, watching.wait()).await.unwrap().unwrap().success());
    let mut rest = String::new();
    messages.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
    server.end().await;
}

#[tokio::test]
async fn the_plugins_of_the_host_are_built_in_and_what_cannot_be_indexed_is_told() {
    let (folder, notes) = (tempfile::tempdir().unwrap(), Folder::with_files([("plan.md", "# Plan\n")]));
    let plugins = ConfigFile::new().plugin(Plugin::notes("n", notes.path()).searched());
    let config = with_socket(&folder, plugins.plugin(Plugin::shipped("broken", "notes", "broken").searched()));
    let server = HttpServer::start(&config).await;
    let path = config.path();
    let status = async |plugin: &[&str]| {
        let command = ["status", "--config", path.to_str().unwrap()];
        run(command.into_iter().chain(plugin.iter().copied())).await.success().text()
    };
    let is_told = |shown: &str| shown.contains("\nsearch    broken is not completely indexed: ");
    let waiting = async {
        loop {
            let shown = status(&[]).await;
            if is_told(&shown) {
                break shown;
            }
        }
    };
    let shown = timeout(TIMEOUT, waiting).await.expect("`notes` needs a directory");
    assert!(shown.contains("\nbuilt in: mcp-host.context, mcp-host.search\n"), "{shown}");
    assert!(!shown.contains("search    n is"), "{shown}");
    let one = status(&["mcp-host.search"]).await;
    assert!(one.contains("built in   a plugin of the host"), "{one}");
    server.end().await;
}

#[tokio::test]
async fn what_is_typed_wrongly_is_told_with_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let config = with_socket(&folder, ConfigFile::new().plugin(Plugin::sample("a")).principal("agent", "token"));
    let server = HttpServer::start(&config).await;
    let path = config.path();
    for (arguments, code, told) in [
        (&["admin", "log"][..], 2, "<FILTER|--restore>"),
        (
            &["admin", "explain", "sample://a/x", "--as", "agemt"],
            1,
            "has no principal `agemt`\nhelp: did you mean `agent`?",
        ),
        (
            &["admin", "explain", "sample://a/x", "--as", "nobody"],
            1,
            "help: it has local, anonymous, agent; one that an issuer",
        ),
        (&["admin", "explain", "nix:///x"], 1, "`mcp-host status --wide` shows the mounts"),
    ] {
        let common = ["--config", path.to_str().unwrap()];
        let failed = run(arguments.iter().copied().chain(common)).await;
        assert_eq!(failed.code(), code, "{arguments:?}: {}", failed.stderr);
        assert!(failed.stderr.contains(told), "{arguments:?}: {}", failed.stderr);
    }
    server.end().await;
}
