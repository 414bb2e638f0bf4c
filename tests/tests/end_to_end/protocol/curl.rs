//! The curl commands in `docs/protocol.md` are run verbatim, and the answers are as documented.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, Rule, TIMEOUT, component};
use serde_json::Value;
use tokio::process::Command;

/// The URL of the server on the page.
const URL: &str = "http://127.0.0.1:8080/mcp";

/// Returns the blocks of a language in the section of the page, joined.
fn blocks(section: &str, language: &str) -> String {
    let begin = format!("```{language}\n");
    section.split(&*begin).skip(1).map(|rest| rest.split_once("```").expect("a block ends").0).collect()
}

/// Returns the messages in a text, without the time of the file, which depends on the test.
fn messages(text: &str) -> Vec<Value> {
    let mut messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for message in &mut messages {
        if let Some(annotations) = message.pointer_mut("/result/resources/0/annotations") {
            annotations.take();
        }
    }
    messages
}

#[tokio::test]
async fn the_commands_with_curl_on_the_page_of_the_protocol_are_answered_as_it_says() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol.md")).unwrap();
    let (_, section) = page.split_once("\n### With curl\n").expect("the page has the section");
    let (section, _) = section.split_once("\n### ").expect("another one follows");
    let folder = Folder::with_files([("welcome.md", "# Welcome\n")]);
    let notes = Plugin::new("notes", &component("notes"), "notes:///").dir(folder.path(), "/notes");
    let rule = Rule::for_principal("anonymous").allow(["**"]);
    let server = HttpServer::start(&ConfigFile::new().rule(rule).plugin(notes).write()).await;
    let script = blocks(section, "sh");
    assert!(script.contains(URL));
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &script.replace(URL, server.url())]);
    let output = tokio::time::timeout(TIMEOUT, shell.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.expect("it ends").expect("this machine has bash");
    let (answers, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{answers}{errors}");
    let expected = messages(&blocks(section, "json"));
    assert_eq!(expected.len(), 4);
    assert_eq!(messages(&answers), expected);
    server.end().await;
}
