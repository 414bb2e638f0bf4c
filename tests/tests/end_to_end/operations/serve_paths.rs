//! `mcp-host serve PATH…`: without a config.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcp_host_tests::{Folder, GitRepo, HttpServer, RawHttp, RawStdio, Revision, component, host_command};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::process::Command;

const REVISION: Revision = Revision::V_2025_11_25;

/// `mcp-host serve` with these arguments and the tests' components.
fn serve<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = host_command();
    command.arg("serve").args(arguments).arg("--plugins").arg(component("git").parent().unwrap());
    command
}

/// Runs the command to its end, and returns its exit code and standard error.
async fn failure(mut command: Command) -> (i32, String) {
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the URIs of the listing, in order.
async fn uris(wire: &mut RawStdio) -> Vec<String> {
    let listed = wire.request("resources/list", json!({})).await;
    let resources = listed.result()["resources"].as_array().unwrap().clone();
    let mut uris: Vec<_> = resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect();
    uris.sort();
    uris
}

#[tokio::test]
async fn a_folder_of_notes_is_served_over_stdio_with_search_and_tools() {
    let folder = Folder::with_files([
        ("notes/a.md", "# A\ncircuit breaker\n"),
        ("notes/tls/server.key", "secret"),
        ("notes/id_ed25519", "secret"),
        ("notes/prod.env", "secret"),
        ("notes/mcp-host.toml", "secret"),
        ("outside.md", "secret"),
    ]);
    folder.symlink("notes/link.md", "../outside.md");
    let mut wire = RawStdio::start_command(serve([folder.path().join("notes")]), REVISION).await;
    assert_eq!(uris(&mut wire).await, ["notes:///a.md"]);
    assert_eq!(wire.read("notes:///a.md").await.unwrap(), "# A\ncircuit breaker\n");
    for path in ["tls/server.key", "id_ed25519", "prod.env", "mcp-host.toml", "link.md", "../outside.md"] {
        assert!(wire.read(&format!("notes:///{path}")).await.is_err(), "{path}");
    }
    let tools = wire.request("tools/list", json!({})).await;
    assert_eq!(tools.result()["tools"].as_array().unwrap().len(), 4);
    let call = json!({ "name": "search_resources", "arguments": { "query": "breaker" } });
    // Repeats the search until everything is indexed.
    loop {
        let found = wire.request("tools/call", call.clone()).await;
        if found.result()["content"][0]["text"].as_str().unwrap().contains("notes:///a.md") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ended = wire.end().await;
    assert!(ended.log.contains("serving read-only, without a config"), "{}", ended.log);
}

#[tokio::test]
async fn a_repository_is_served_with_its_work_tree() {
    let repo = GitRepo::with_files([
        ("src/main.rs", "fn main() {}\n"),
        (".gitignore", "target\n"),
        (".env", "secret"),
        ("tls.pem", "secret"),
    ]);
    std::fs::create_dir(repo.path().join("target")).unwrap();
    std::fs::write(repo.path().join("target/built"), "x").unwrap();
    std::fs::write(repo.path().join("new.rs"), "// not committed\n").unwrap();
    let mut command = serve(["."]);
    command.current_dir(repo.path());
    let mut wire = RawStdio::start_command(command, REVISION).await;
    let all = uris(&mut wire).await;
    let git = all.iter().find(|uri| uri.starts_with("git://")).unwrap();
    let mount = git.split_inclusive('/').take(3).collect::<String>();
    assert_eq!(
        all,
        ["files:///new.rs", "files:///src/main.rs"]
            .map(str::to_owned)
            .into_iter()
            .chain([".gitignore", "src/main.rs"].map(|path| format!("{mount}blob/HEAD/{path}")))
            .collect::<Vec<_>>()
    );
    for path in [".env", "tls.pem"] {
        assert!(wire.read(&format!("{mount}blob/HEAD/{path}")).await.is_err(), "{path}");
    }
    wire.end().await;
}

#[tokio::test]
async fn a_database_is_served_as_tables_and_not_written_to() {
    let folder = Folder::with_files([("beside.txt", "secret")]);
    let file = folder.path().join("it's a shop.sqlite3");
    let writer = Connection::open(&file).unwrap();
    writer
        .execute_batch("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO items VALUES (7, 'pen')")
        .unwrap();
    drop(writer);
    let before = std::fs::read(&file).unwrap();
    let mut wire = RawStdio::start_command(serve([&file]), REVISION).await;
    assert_eq!(uris(&mut wire).await, ["sqlite:///dictionary", "sqlite:///main"]);
    let rows = wire.read("sqlite:///main/items/rows?format=csv").await.unwrap();
    assert!(rows.contains("pen"), "{rows}");
    wire.end().await;
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn several_paths_have_mounts_of_their_own() {
    let parent = Folder::with_files([("one/docs/a.md", "# A\n"), ("two/docs/b.md", "# B\n"), ("plain/c.txt", "c")]);
    let paths = ["one/docs", "two/docs", "plain"].map(|path| parent.path().join(path));
    let mut wire = RawStdio::start_command(serve(&paths), REVISION).await;
    assert_eq!(uris(&mut wire).await, ["files:///c.txt", "notes://docs-2/b.md", "notes://docs/a.md"]);
    wire.end().await;
}

#[tokio::test]
async fn what_is_not_to_leave_the_machine_is_denied_in_any_spelling() {
    let secrets = [".eNv", "a/prod.ENV.local", "server.pEm", "iD_rSa", "backups/site/config"];
    let folder = Folder::with_files([("a/plain.txt", "text"), ("backups/site/HEAD", "ref: refs/heads/main\n")]);
    for directory in ["backups/site/objects", "backups/site/refs"] {
        std::fs::create_dir_all(folder.path().join(directory)).unwrap();
    }
    for secret in secrets {
        folder.write(secret, "secret");
    }
    let mut wire = RawStdio::start_command(serve([folder.path()]), REVISION).await;
    assert_eq!(uris(&mut wire).await, ["files:///a/plain.txt"]);
    for secret in secrets {
        assert!(wire.read(&format!("files:///{secret}")).await.is_err(), "{secret}");
    }
    wire.end().await;
}

#[tokio::test]
async fn a_downloaded_folder_whose_git_file_leads_elsewhere_is_served_as_a_folder() {
    let private = GitRepo::with_files([("secret.txt", "secret")]);
    let git_dir = private.path().join(".git");
    let folder = Folder::with_files([("a.txt", "text"), (".git", &format!("gitdir: {}\n", git_dir.display()))]);
    let mut wire = RawStdio::start_command(serve([folder.path()]), REVISION).await;
    assert_eq!(uris(&mut wire).await, ["files:///a.txt"]);
    let ended = wire.end().await;
    assert!(!ended.log.contains(git_dir.to_str().unwrap()), "{}", ended.log);
}

/// Returns the entry for a client that the server printed, parsed from its JSON.
async fn client_entry(server: &HttpServer) -> Value {
    let line = server.log_line("\"Authorization\"").await;
    let (_, entry) = line.split_once("\": ").unwrap();
    serde_json::from_str(entry).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Asserts that the server answers only requests with the token that it printed.
async fn assert_token_is_needed(server: &HttpServer, uri: &str) {
    let entry = client_entry(server).await;
    assert_eq!((entry["type"].as_str(), entry["url"].as_str()), (Some("http"), Some(server.url())));
    let token = entry["headers"]["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap();
    let mut wire = RawHttp::start_with_token(server.url(), REVISION, token).await;
    let read = wire.request("resources/read", json!({ "uri": uri })).await;
    assert_eq!(read.result()["contents"][0]["text"], "# A\n");
    let read = wire.request("resources/read", json!({ "uri": uri.replace("a.md", "key.pem") })).await;
    assert!(read.error()["message"].is_string());
    let mut stranger = server.uninitialized(REVISION);
    let answer = stranger.request_builder("resources/read", json!({ "uri": uri })).send().await.unwrap();
    assert_eq!(answer.status(), 401);
}

#[tokio::test]
async fn on_a_terminal_it_listens_on_loopback_with_a_token_of_its_own() {
    let notes = Folder::with_files([("a.md", "# A\n"), ("key.pem", "secret")]);
    let mut command = serve(["."]);
    command.current_dir(notes.path());
    let server = HttpServer::start_on_terminal(command).await;
    assert!(server.address().starts_with("127.0.0.1:"), "{}", server.address());
    server.log_line("finished loading plugins").await;
    assert_token_is_needed(&server, "notes:///a.md").await;
    let ended = server.end().await;
    let lines: Vec<_> = ended.log.lines().skip_while(|line| !line.contains("listening on")).collect();
    let between = lines.iter().position(|line| line.contains("\"Authorization\"")).unwrap();
    let note = lines.get(1..between).unwrap().join(" ");
    assert!(
        note.contains("note: the token is of this run only") && note.contains("mcp-host connect CLIENT PATH"),
        "{lines:#?}"
    );
    assert!(!note.contains("INFO"), "a line of the log is between: {lines:#?}");
}

#[tokio::test]
async fn each_run_has_another_token() {
    let notes = Folder::with_files([("a.md", "# A\n"), ("key.pem", "secret")]);
    let mut entries = Vec::new();
    for _ in 0..2 {
        let arguments = [OsStr::new("--http"), OsStr::new("127.0.0.1:0"), notes.path().as_os_str()];
        let server = HttpServer::start_command(serve(arguments)).await;
        server.log_line("finished loading plugins").await;
        assert_token_is_needed(&server, "notes:///a.md").await;
        entries.push(client_entry(&server).await["headers"].clone());
        let mut stranger = server.uninitialized(REVISION);
        let request = stranger.request_builder("resources/list", json!({})).bearer_auth("mcp_of_another_run");
        assert_eq!(request.send().await.unwrap().status(), 401);
        let ended = server.end().await;
        assert!(ended.log.contains("the token is not one that this server accepts"), "{}", ended.log);
        assert!(!ended.log.contains("[[principal]]"), "there is no config: {}", ended.log);
    }
    assert_ne!(entries[0], entries[1]);
}

#[tokio::test]
async fn no_config_is_read() {
    let notes = Folder::with_files([("a.md", "# A\n"), ("mcp-host.toml", "no config")]);
    let mut command = serve(["."]);
    command.current_dir(notes.path()).env("MCP_HOST_CONFIG", "mcp-host.toml");
    let mut wire = RawStdio::start_command(command, REVISION).await;
    assert_eq!(uris(&mut wire).await, ["notes:///a.md"]);
    wire.end().await;
    for arguments in [["--config", "mcp-host.toml", "serve", "."], ["serve", ".", "--config", "mcp-host.toml"]] {
        let mut command = host_command();
        command.args(arguments).current_dir(notes.path());
        let (code, err) = failure(command).await;
        assert!(code == 2 && err.contains("'--config <FILE>' cannot be used with '[PATH]...'"), "{err}");
    }
}

#[tokio::test]
async fn the_root_and_the_home_directory_need_an_agreement() {
    let home = Folder::with_files([("notes/a.md", "# A\n"), (".ssh/id_rsa", "secret")]);
    for (path, said) in [("/", "home directories"), (home.path().to_str().unwrap(), "is the home directory")] {
        let mut command = serve([path]);
        command.env("HOME", home.path());
        let (code, err) = failure(command).await;
        assert!(code == 2 && err.contains(said) && err.contains("`--yes`"), "{err}");
    }
    let mut command = serve(["--yes", "."]);
    command.env("HOME", home.path()).current_dir(home.path());
    let mut wire = RawStdio::start_command(command, REVISION).await;
    assert_eq!(uris(&mut wire).await, ["notes:///notes/a.md"]);
    wire.end().await;
}

#[tokio::test]
async fn what_cannot_be_served_is_named_with_what_to_do() {
    let folder = Folder::with_files([("a.md", "# A\n"), ("team.toml", "")]);
    let path = |name: &str| folder.path().join(name).into_os_string();
    let options = |options: &[&str]| options.iter().map(Into::into).collect::<Vec<_>>();
    for (arguments, said) in [
        (vec![path("absent")], "absent` cannot be served: No such file or directory"),
        (vec![path("absent")], "name a directory or a database that exists"),
        (vec![path("a.md")], "databases of SQLite are served by themselves"),
        (vec![path("team.toml")], "if it is a config: `mcp-host serve --config "),
        ([vec![path("")], options(&["--http", "0.0.0.0:0"])].concat(), "without a config there is no TLS"),
        ([vec![path("")], options(&["--stdio", "--http", "127.0.0.1:0"])].concat(), "cannot be used with"),
    ] {
        let (code, err) = failure(serve(&arguments)).await;
        assert!(code == 2 && err.contains(said), "{arguments:?}: {code} {err}");
    }
    let mut command = host_command();
    command.args(["serve", "--plugins", "nowhere"]).arg(folder.path());
    let (code, err) = failure(command).await;
    assert!(code == 1 && err.contains("`notes.wasm`") && err.contains("`mcp-host serve PATH --plugins DIR`"), "{err}");
    for option in [["--yes", "--stdio"], ["--plugins", "x"]] {
        let mut command = host_command();
        let (code, err) = failure({
            command.arg("serve").args(option);
            command
        })
        .await;
        assert!(code == 2 && err.contains("PATH"), "{err}");
    }
}

#[tokio::test]
async fn providers_are_found_by_name_in_the_plugin_path() {
    let prefix = Folder::with_files([("bin/x", ""), ("lib/mcp-host/plugins/x", ""), ("docs/a.md", "# A\n")]);
    let program = prefix.path().join("bin/mcp-host");
    let host = host_command();
    let built = Path::new(host.as_std().get_program());
    if std::fs::hard_link(built, &program).is_err() {
        std::fs::copy(built, &program).unwrap();
    }
    std::fs::copy(component("notes"), prefix.path().join("lib/mcp-host/plugins/notes.wasm")).unwrap();
    let mut command = Command::new(&program);
    command.env_clear().envs(host.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["serve", "--stdio"]).arg(prefix.path().join("docs"));
    let mut wire = RawStdio::start_command(command, REVISION).await;
    assert_eq!(wire.read("notes:///a.md").await.unwrap(), "# A\n");
    wire.end().await;
}
