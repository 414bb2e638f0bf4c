//! The commands for administrators: what they print while a server restarts, and when a plugin comes back late.

use std::process::Stdio;

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, TIMEOUT, WrittenConfig, host_command};
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
