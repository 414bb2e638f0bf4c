//! The official TypeScript and Python clients: one full pass each, over both transports, in both kinds of lifecycle.

mod subscriptions;
pub(crate) mod watcher;

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, HttpServer, Plugin, TIMEOUT, WrittenConfig, client_program, host_binary, run,
};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\xff\xfe";

struct ClientFixture {
    _repo: GitRepo,
    _notes: Folder,
    config: WrittenConfig,
}

fn client_fixture() -> ClientFixture {
    let files = [("README.md", b"# Demo\n".as_slice()), ("logo.png", PNG), ("src/main.rs", b"fn main() {}\n")];
    let repo = GitRepo::with_files(files);
    let notes = Folder::with_files([("a.md", "---\ntags: [x]\n---\nOne.\n"), ("日本.md", "二。\n")]);
    let config = ConfigFile::new()
        .server("name", "walked")
        .page_size(2)
        .plugin(Plugin::git("repo", repo.path()))
        .plugin(Plugin::notes("diary", notes.path()))
        .allow_all()
        .write();
    ClientFixture { _repo: repo, _notes: notes, config }
}

/// Returns the command that runs a client program of a language.
pub(crate) fn program(language: &str, name: &str) -> Command {
    let (program, script) = match language {
        "typescript" => ("node".into(), client_program(&format!("typescript/{name}.mjs"))),
        _ => {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("clients/python/{name}.py"));
            (client_program("python/bin/python").into_os_string(), script)
        }
    };
    let mut command = Command::new::<OsString>(program);
    command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Connects the client to a new server over stdio.
pub(crate) fn over_stdio(command: &mut Command, config: &WrittenConfig) {
    command.arg("stdio").arg(host_binary()).args(["serve", "--stdio", "--config"]).arg(config.path());
}

/// Runs a pass and returns its summary.
pub(crate) async fn summary(mut command: Command) -> Value {
    let output = timeout(TIMEOUT, command.output()).await.expect("the walk ends").expect("the walk starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"))
}

/// Returns the listing of the command line, which both clients must return, too.
async fn expected(config: &WrittenConfig) -> (Vec<Value>, Vec<Value>) {
    let path = config.path();
    let list = async |more: &[&str]| {
        let arguments = [["list", "--all", "--json", "--config", path.to_str().unwrap()].as_slice(), more].concat();
        let text = run(arguments).await.success().text();
        text.lines().map(|page| serde_json::from_str::<Value>(page).unwrap()).collect::<Vec<_>>()
    };
    let of = |pages: Vec<Value>, list: &str, key: &str| {
        let items = pages.iter().flat_map(|page| page[list].as_array().unwrap()).map(|item| item[key].clone());
        items.collect::<Vec<_>>()
    };
    (of(list(&[]).await, "resources", "uri"), of(list(&["--templates"]).await, "resourceTemplates", "uriTemplate"))
}

async fn check(summary: &Value, language: &str, transport: &str, stateless: bool, config: &WrittenConfig) {
    let (resources, templates) = expected(config).await;
    assert_eq!(summary["client"], language);
    assert_eq!(summary["transport"], transport);
    assert_eq!(summary["server"]["name"], "walked");
    assert_eq!(summary["revision"] == "2026-07-28", stateless, "{summary}");
    assert_eq!(summary["pinged"], !stateless);
    assert_eq!((&summary["pages"], &summary["resources"]), (&json!(3), &json!(resources)));
    assert_eq!(summary["templates"], json!(templates));
    assert!(summary["text"]["size"].as_u64().is_some_and(|size| size > 0), "{summary}");
    assert_eq!(summary["blob"]["uri"], "git://repo/blob/HEAD/logo.png");
    assert_eq!((&summary["blob"]["mimeType"], &summary["blob"]["size"]), (&json!("image/png"), &json!(PNG.len())));
    assert!(summary["completion"]["values"].as_array().is_some_and(|values| !values.is_empty()), "{summary}");
    assert_eq!(summary["unknown"]["code"], if stateless { -32602 } else { -32002 });
}

async fn assert_walk(language: &str) {
    let ClientFixture { config, .. } = &client_fixture();
    let server = HttpServer::start(config).await;
    for stateless in [false, true] {
        let flag = stateless.then_some("--stateless");
        let mut command = program(language, "walk");
        command.args(flag).args(["http", server.url()]);
        check(&summary(command).await, language, "http", stateless, config).await;

        let mut command = program(language, "walk");
        over_stdio(command.args(flag), config);
        check(&summary(command).await, language, "stdio", stateless, config).await;
    }
    server.end().await;
}

#[tokio::test]
async fn the_typescript_client_walks_through_everything() {
    assert_walk("typescript").await;
}

#[tokio::test]
async fn the_python_client_walks_through_everything() {
    assert_walk("python").await;
}

#[tokio::test]
async fn the_rust_program_of_the_demo_walks_through_it() {
    let ClientFixture { config, .. } = &client_fixture();
    let server = HttpServer::start(config).await;
    let mut command = Command::new(host_binary().with_file_name("smoke-client"));
    command.arg(server.url()).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(TIMEOUT, command.output()).await.expect("the walk ends").expect("the walk starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("connected to walked") && text.contains("resources/read"), "{text}");
    server.end().await;
}

/// Uses all tools and no other feature, over stdio, in both kinds of lifecycle.
async fn assert_tools(language: &str) {
    let folder = Folder::with_files([("guide.md", "The circuit breaker opens after five failures.\n"), ("b.md", "x")]);
    let config = ConfigFile::new()
        .server("tools", vec!["list", "read", "search", "context"])
        .server("tool-structured-content", true)
        .page_size(1)
        .plugin(Plugin::files("f", folder.path()).searched())
        .write();
    for stateless in [false, true] {
        let mut command = program(language, "tools");
        command.env("WORDS", "circuit breaker").args(stateless.then_some("--stateless"));
        over_stdio(&mut command, &config);
        let used = summary(command).await;
        let text = "The circuit breaker opens after five failures.\n";
        let tools = ["list_resources", "read_resource", "search_resources", "resource_context"];
        assert_eq!(used["tools"], json!(tools));
        assert_eq!(used["listed"], json!(["files://f/b.md", "files://f/guide.md"]));
        assert_eq!((&used["found"], &used["text"]), (&json!(["files://f/guide.md"]), &json!(text)));
        let passage = json!({ "uri": "files://f/guide.md?lines=1-1", "text": text, "read": text });
        assert_eq!(used["passages"], json!([passage]));
    }
}

#[tokio::test]
async fn the_typescript_client_searches_by_tools() {
    assert_tools("typescript").await;
}

#[tokio::test]
async fn the_python_client_searches_by_tools() {
    assert_tools("python").await;
}
