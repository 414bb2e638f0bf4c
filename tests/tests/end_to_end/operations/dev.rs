//! `mcp-host dev`: build on save, reload, and what is shown of it.

use std::fs;
use std::time::Duration;

use mcp_host_tests::{DevOnTerminal, DevProject, DevServer, Folder, fixture, run};
use rustix::process::{Pid, Signal, test_kill_process_group};

/// The start of a line that says that a listing was loaded.
const RELOADED: &str = "reload: ";

async fn wait_a_moment() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Waits until no process of the last build is left.
async fn wait_until_build_is_gone(project: &DevProject) {
    let group = project.build_group().and_then(Pid::from_raw).unwrap();
    while test_kill_process_group(group).is_ok() {
        wait_a_moment().await;
    }
}

/// Waits for a build of another process group.
async fn wait_for_build(project: &DevProject, before: Option<i32>) {
    while project.build_group().is_none() || project.build_group() == before {
        wait_a_moment().await;
    }
}

#[tokio::test]
async fn a_project_is_built_and_served_and_what_a_save_changes_is_shown() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("build: finished in ").await;
    assert_eq!(dev.line(RELOADED).await, "reload: 1 resource, 0 templates");
    assert_eq!(dev.line("  + ").await, "  + x:///world  text/plain  world");
    let client = dev.client().await;
    assert_eq!(client.text("x:///world").await, "Hello, world!");

    project.folder().write("choice", "sample");
    assert!(dev.line("choice changed").await.starts_with("build: choice changed: "));
    dev.line("  - x:///world").await;
    let text = dev.text();
    assert!(text.contains(" after the change: ") && text.contains(" added, 1 removed"), "{text}");
    assert!(text.contains("  + x:///plain"), "{text}");
    // The same client, which nothing has disconnected.
    assert_eq!(client.text("x:///plain").await, "Plain.\n");
    drop(client);
    dev.end().await;
}

#[tokio::test]
async fn a_build_that_fails_is_shown_and_the_last_component_is_served_until_one_succeeds() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("  + x:///world").await;
    project.folder().write("choice", "missing");
    dev.line("missing.wasm").await;
    let line = dev.line("error: the build failed after ").await;
    assert!(line.ends_with("exit status: 1; the last component is still served"), "{line}");
    let client = dev.client().await;
    assert_eq!(client.text("x:///world").await, "Hello, world!");
    drop(client);
    project.folder().write("choice", "hello");
    dev.line("the component is the same").await;
    project.folder().write("choice", "sample");
    dev.line("  + x:///plain").await;
    dev.end().await;
}

#[tokio::test]
async fn a_first_build_that_fails_leaves_the_server_up_for_the_next_one() {
    let project = DevProject::new();
    project.folder().write("choice", "missing");
    let dev = DevServer::start(&project).await;
    let line = dev.line("error: the build failed after ").await;
    assert!(line.ends_with("nothing is served yet"), "{line}");
    project.folder().write("choice", "hello");
    dev.line("  + x:///world").await;
    dev.end().await;
}

#[tokio::test]
async fn a_component_that_does_not_load_is_shown_and_the_last_one_is_served() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("  + x:///world").await;
    project.folder().write(".components/broken.wasm", "no component");
    project.folder().write("choice", "broken");
    dev.line("reload failed").await;
    let client = dev.client().await;
    assert_eq!(client.text("x:///world").await, "Hello, world!");
    drop(client);
    dev.end().await;
}

#[tokio::test]
async fn a_newer_save_ends_the_build_with_all_its_processes() {
    let project = DevProject::new();
    project.folder().write("slow", "");
    let dev = DevServer::start(&project).await;
    wait_for_build(&project, None).await;
    let slow = project.build_group().and_then(Pid::from_raw).unwrap();
    fs::remove_file(project.folder().path().join("slow")).unwrap();
    dev.line("build: slow changed during the build: ").await;
    dev.line("  + x:///world").await;
    assert!(test_kill_process_group(slow).is_err(), "it is gone");
    dev.end().await;
}

#[tokio::test]
async fn another_build_command_in_the_config_is_used_at_once_and_a_mistake_changes_nothing() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    dev.line("  + x:///world").await;
    let file = project.folder().path().join("mcp-host.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{config}\nwacth = ['src']\n")).unwrap();
    dev.line("did you mean `watch`?").await;
    let plugin = config.split("[dev]").next().unwrap();
    fs::write(&file, format!("{plugin}[dev]\nbuild = 'cp .components/sample.wasm provider.wasm'\n")).unwrap();
    dev.line("build: the config changed: cp .components/sample.wasm provider.wasm").await;
    dev.line("  + x:///plain").await;
    dev.end().await;
}

#[tokio::test]
async fn what_the_build_prints_does_not_drive_the_terminal() {
    let project = DevProject::new();
    let dev = DevServer::start(&project).await;
    assert_eq!(dev.line("building hello").await, "building hello ");
    dev.line("  + x:///world").await;
    let text = dev.end().await.log;
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[tokio::test]
async fn keys_read_list_test_and_quit_and_leave_the_terminal_as_it_was() {
    let project = DevProject::new();
    let mut dev = DevOnTerminal::start(&project);
    dev.wait_for("+ x:///world").await;
    dev.wait_for("ready │ r read").await;
    assert!(!dev.is_terminal_cooked());
    dev.press("r");
    dev.wait_for("1  x:///world").await;
    dev.wait_for("read: █").await;
    dev.press("1\r");
    dev.wait_for("==> x:///world (text/plain, 13 B, ").await;
    dev.wait_for("Hello, world!").await;
    // Again, by Enter alone.
    dev.press("r\r");
    dev.wait_for("Hello, world!").await;
    dev.press("rnobody\r");
    dev.wait_for("error: x:///nobody").await;
    dev.press("r99\r");
    dev.wait_for("error: there is no resource 99; the numbers are 1 to 1").await;
    dev.press("t");
    dev.wait_for("test: x: ").await;
    dev.wait_for(" passed, 0 failed, ").await;
    project.folder().write("choice", "sample");
    dev.wait_for("+ x:///plain").await;
    dev.press("rbinary\r");
    dev.wait_for("==> x:///binary (").await;
    dev.wait_for("binary: not shown").await;
    dev.press("?");
    dev.wait_for("Clients connect at http://127.0.0.1:").await;
    dev.press("b");
    dev.wait_for("the component is the same").await;
    dev.press("q");
    assert_eq!(dev.wait_exit().await, (Some(0), true), "{}", dev.text());
}

#[tokio::test]
async fn the_test_at_a_key_shows_what_fails_and_what_to_do() {
    let project = DevProject::new();
    project.folder().write(".components/bad.wasm", fs::read(fixture("nonconforming")).unwrap());
    let file = project.folder().path().join("mcp-host.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("[dev]", "config = { fault = 'sizes' }\n\n[dev]")).unwrap();
    project.folder().write("choice", "bad");
    let mut dev = DevOnTerminal::start(&project);
    dev.wait_for(RELOADED).await;
    dev.press("t");
    dev.wait_for(" 1 failed, ").await;
    dev.wait_for("sizes: ").await;
    dev.wait_for("to fix: ").await;
    dev.press("q");
    assert_eq!(dev.wait_exit().await, (Some(0), true));
}

#[tokio::test]
async fn a_signal_restores_the_terminal_and_ends_the_build() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let project = DevProject::new();
        project.folder().write("slow", "");
        let mut dev = DevOnTerminal::start(&project);
        wait_for_build(&project, None).await;
        dev.wait_for("building, ").await;
        assert!(!dev.is_terminal_cooked());
        dev.signal(signal);
        assert_eq!(dev.wait_exit().await, (Some(0), true), "{signal:?}: {}", dev.text());
        wait_until_build_is_gone(&project).await;
    }
}

#[tokio::test]
async fn without_a_project_or_a_build_command_it_says_what_to_write() {
    let folder = Folder::with_files([("pyproject.toml", "")]);
    let dir = folder.path().to_str().unwrap();
    let output = run(["dev", dir]).await;
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("mcp-host.toml") && output.stderr.contains("[[plugin]]"), "{}", output.stderr);
    folder.write("mcp-host.toml", "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\n");
    let output = run(["dev", dir]).await;
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("nothing says how to build the project"), "{}", output.stderr);
    assert!(output.stderr.contains("[dev]\nbuild = \"componentize-py"), "{}", output.stderr);
    assert_eq!(run(["dev", "/nonexistent"]).await.code(), 2);
}
