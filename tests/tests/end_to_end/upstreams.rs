//! Existing servers mounted like plugins: official servers over pipes and over HTTP, with and without sessions.

use std::path::Path;
use std::process::{Child, Stdio};

use mcp_host_tests::{
    ConfigFile, GitRepo, HttpServer, Plugin, ReservedPort, Revision, StdioServer, client_program, node, run,
};
use rmcp::model::ErrorCode;

use super::upstreams_programs::PATIENT;

/// The official TypeScript server with all features. It has sessions.
fn everything() -> String {
    client_program("servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js").display().to_string()
}

/// Returns the config section of a program whose calls have time.
fn program(name: &str, command: &[&str]) -> String {
    let command = serde_json::to_string(command).unwrap();
    format!("[[upstream]]\nname = '{name}'\ncommand = {command}\nsandbox = 'none'\nmount = '{name}+'\n{PATIENT}\n")
}

/// The official TypeScript server, over pipes.
fn typescript() -> String {
    program("ts", &[&node().display().to_string(), &everything(), "stdio"])
}

/// A server of the official Python SDK, without sessions, over pipes.
fn python() -> String {
    let python = client_program("python/bin/python").display().to_string();
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/servers/server.py");
    program("py", &[&python, &server.display().to_string()])
}

const DOCUMENT: &str = "demo://resource/static/document/architecture.md";
const EXAMPLE: &str = include_str!("../../../examples/upstreams.toml");

#[tokio::test]
async fn servers_of_both_lifecycles_and_plugins_are_in_one_listing() {
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let config = ConfigFile::new()
        .page_size(3)
        .plugin(Plugin::git("repo", repo.path()))
        .append(&typescript())
        .append(&python())
        .allow_all()
        .write();
    for revision in [Revision::V_2025_06_18, Revision::V_2026_07_28] {
        let server = StdioServer::start_in(&config, revision).await;
        let client = server.client();
        let uris = client.uris().await;
        let document = format!("ts+{DOCUMENT}");
        for uri in [document.as_str(), "py+memo:today", "py+note://notes/Caf%C3%A9,1", "git://repo/README.md"] {
            let is_git = uri.starts_with("git:");
            assert!(
                uris.iter().any(|listed| if is_git { listed.starts_with("git://repo/") } else { listed == uri }),
                "{uri}: {uris:?}"
            );
        }
        assert!(client.text(&document).await.contains("Everything"));
        assert_eq!(client.text("py+memo:today").await, "a memo");
        assert_eq!(client.text("py+note://notes/Caf%C3%A9,1").await, "a spelled note");
        assert_eq!(client.text("py+note://notes/x/text").await, "the note x");
        let templates: Vec<_> = client.templates().await.into_iter().map(|template| template.uri_template).collect();
        for template in ["ts+demo://resource/dynamic/text/{resourceId}", "py+note://notes/{name}/text"] {
            assert!(templates.iter().any(|listed| listed == template), "{templates:?}");
        }
        assert!(client.text("ts+demo://resource/dynamic/text/7").await.contains('7'));
        let missing = client.read_error("ts+demo://resource/none").await;
        let expected = [ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::INVALID_PARAMS];
        assert!(expected.contains(&missing.code), "{missing:?}");
        server.end().await;
    }
}

/// The official server over HTTP. It is ended when this value is dropped.
struct EverythingOverHttp(Child);

impl EverythingOverHttp {
    async fn start(port: &ReservedPort) -> Self {
        let address = port.address();
        let mut command = std::process::Command::new(node());
        command.arg(everything()).arg("streamableHttp").env("PORT", address.port().to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        mcp_host_tests::wait_until("the server listens", || std::net::TcpStream::connect(address).is_ok()).await;
        Self(child)
    }
}

impl Drop for EverythingOverHttp {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[tokio::test]
async fn a_server_over_http_is_mounted_and_its_prefix_exchanged() {
    let port = ReservedPort::new();
    let _upstream = EverythingOverHttp::start(&port).await;
    let text = format!(
        "[[upstream]]\nname = 'demo'\nurl = '{}'\nmount = 'files://demo/'\nprefix = 'demo://resource/static/'\n",
        port.mcp_url()
    );
    let config = ConfigFile::new().append(&text).allow_all().write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    let uris = client.uris().await;
    assert!(uris.iter().any(|uri| uri == "files://demo/document/architecture.md"), "{uris:?}");
    assert!(client.text("files://demo/document/architecture.md").await.contains("Everything"));
    // A template without the prefix does not exist.
    assert!(client.templates().await.is_empty());
    server.end().await;
}

#[tokio::test]
async fn the_example_serves_an_installed_server_twice() {
    let port = ReservedPort::new();
    let _upstream = EverythingOverHttp::start(&port).await;
    let installed = [node().display().to_string(), everything(), "stdio".to_owned()];
    // The sandbox has tests of its own (`upstreams_programs`), and this one runs on any kernel.
    let command = format!("{}\nsandbox = \"none\"\n{PATIENT}", serde_json::to_string(&installed).unwrap());
    let mut text = EXAMPLE.to_owned();
    for (from, to) in [
        (r#"["mcp-server-everything", "stdio"]"#, command.as_str()),
        ("http://127.0.0.1:3001/mcp", port.mcp_url().as_str()),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let config = ConfigFile::new().append(&text).write();
    let server = StdioServer::start_in(&config, Revision::V_2025_11_25).await;
    let uris = server.client().uris().await;
    for mount in ["everything+", "remote+"] {
        let document = format!("{mount}{DOCUMENT}");
        assert!(uris.contains(&document), "{uris:?}");
        assert!(server.client().text(&document).await.contains("Everything"));
    }
    server.end().await;
}

#[tokio::test]
async fn the_commands_name_an_upstream_and_one_that_is_not_there_leaves_the_others() {
    let port = ReservedPort::new();
    let text = format!("[[upstream]]\nname = 'away'\nurl = '{}'\nmount = 'away+'\n", port.mcp_url());
    let config = ConfigFile::new().append(&python()).append(&text).allow_all().write();
    let file = config.path();
    let check = run(["check", "--config", file.to_str().unwrap()]).await;
    let shown = check.text();
    assert!(shown.contains("away") && shown.contains("the upstream cannot be connected to"), "{shown}");
    assert_ne!(check.code(), 0);
    let listed = run(["list", "--config", file.to_str().unwrap()]).await;
    assert!(listed.text().contains("py+memo:today"), "{}", listed.text());
    let explained = run(["explain", "--config", file.to_str().unwrap(), "py+memo:today"]).await.text();
    assert!(explained.contains("py"), "{explained}");
}
