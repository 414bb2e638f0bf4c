//! MCP Inspector's command line: lists, reads and pages, over both transports.

use std::process::Stdio;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, TIMEOUT, client_program, host_binary, node, run};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// Runs Inspector against a server and returns its output.
async fn inspect(home: &Folder, target: &[&str], arguments: &[&str]) -> Value {
    let mut command = Command::new(node());
    command.arg(client_program("tools/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"));
    command.arg("--cli").args(arguments).args(target);
    command.env("HOME", home.path()).env("MCP_CATALOG_PATH", home.path().join("catalog.json"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(TIMEOUT, command.output()).await.expect("Inspector ends").expect("Inspector starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}\n{out}\n{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"))
}

fn strings<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap()).collect()
}

async fn walk(home: &Folder, target: &[&str]) {
    let listed = inspect(home, target, &["--method", "resources/list"]).await;
    let uris = ["sample://a/all", "sample://a/binary", "sample://a/plain", "sample://b/all", "sample://b/binary"];
    assert_eq!(strings(&listed["resources"], "uri")[..5], uris, "all pages: {listed}");
    let templates = inspect(home, target, &["--method", "resources/templates/list"]).await;
    assert_eq!(strings(&templates["resourceTemplates"], "uriTemplate")[0], "sample://a/item/{group}/{number}");
    let read = inspect(home, target, &["--method", "resources/read", "--uri", "sample://a/all"]).await;
    assert_eq!(read["contents"][0]["text"], "All of it.\n");
    let read = inspect(home, target, &["--method", "resources/read", "--uri", "sample://b/binary"]).await;
    assert_eq!(read["contents"][0]["blob"], "/wD+Af0=");
}

#[tokio::test]
async fn inspector_lists_reads_and_pages() {
    let home = Folder::with_files::<&str, &str>([]);
    let config =
        ConfigFile::new().page_size(2).plugin(Plugin::sample("a")).plugin(Plugin::sample("b")).allow_all().write();
    let server = HttpServer::start(&config).await;
    walk(&home, &[server.url(), "--transport", "http"]).await;
    server.end().await;

    let (host, path) = (host_binary(), config.path());
    let command = [host.to_str().unwrap(), "serve", "--stdio", "--config", path.to_str().unwrap()];
    walk(&home, &[["--"].as_slice(), &command].concat()).await;
}

#[tokio::test]
async fn inspector_shows_and_calls_the_tools() {
    let home = Folder::with_files::<&str, &str>([]);
    let folder = Folder::with_files([("guide.md", "The circuit breaker opens after five failures.\n")]);
    let tools = vec!["list", "read", "search", "context"];
    let config = ConfigFile::new()
        .server("tools", tools)
        .server("tool-structured-content", true)
        .plugin(Plugin::files("f", folder.path()).searched())
        .write();
    // The command returns after everything is indexed.
    run(["search", "circuit", "--config", config.path().to_str().unwrap()]).await.success();
    let (host, path) = (host_binary(), config.path());
    let target = ["--", host.to_str().unwrap(), "serve", "--stdio", "--config", path.to_str().unwrap()];
    let listed = inspect(&home, &target, &["--method", "tools/list"]).await;
    let names = ["list_resources", "read_resource", "search_resources", "resource_context"];
    assert_eq!(strings(&listed["tools"], "name"), names);
    let call = async |name, argument: Option<&str>| {
        let argument = argument.map(|argument| ["--tool-arg", argument]);
        let call = ["--method", "tools/call", "--tool-name", name];
        let arguments = call.into_iter().chain(argument.into_iter().flatten()).collect::<Vec<_>>();
        inspect(&home, &target, &arguments).await
    };
    let listed = call("list_resources", None).await;
    assert_eq!(strings(&listed["structuredContent"]["resources"], "uri"), ["files://f/guide.md"]);
    let read = call("read_resource", Some("uri=files://f/guide.md")).await;
    assert_eq!(read["content"][0]["text"], "The circuit breaker opens after five failures.\n");
    let found = call("search_resources", Some("query=circuit")).await;
    assert_eq!(strings(&found["structuredContent"]["results"], "uri"), ["files://f/guide.md"]);
    let chosen = call("resource_context", Some("query=when does the breaker open")).await;
    assert_eq!(strings(&chosen["structuredContent"]["passages"], "linesUri"), ["files://f/guide.md?lines=1-1"]);
}
