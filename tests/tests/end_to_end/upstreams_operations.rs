//! The administrator's view of upstreams: whether the server is reachable, what its program logs, and what `check`
//! finds.

use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, MockOrigin, Output, RecordedRequest, Reply, Revision, TIMEOUT, WrittenConfig,
    host_command, run,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::Command;

/// Answers as a server with sessions and the resource `x:a`. It rejects the token `refused`, has no resources for the
/// token `none`, and lists none for the token `empty`.
fn answer(request: &RecordedRequest) -> Reply {
    if request.method != "POST" {
        return Reply::status(405);
    }
    let token = request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned();
    if token == "refused" {
        return Reply::status(401);
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let capabilities = if token == "none" { json!({ "tools": {} }) } else { json!({ "resources": {} }) };
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": { "name": "mock", "version": "1" },
        }),
        "ping" => json!({}),
        "resources/list" if token == "empty" => json!({ "resources": [] }),
        "resources/list" => json!({ "resources": [
            { "uri": "x:a", "name": "a" }, { "uri": "x:secret", "name": "secret", "size": "wrong" },
        ] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => json!({ "contents": [{ "uri": "x:a", "text": "a text" }] }),
        method if method.starts_with("notifications/") => return Reply::status(202),
        _ => return Reply::status(400),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Reply::ok("application/json", answer.to_string()).header("mcp-session-id", "s")
}

async fn origin() -> MockOrigin {
    let origin = MockOrigin::http().await;
    origin.serve_with("/mcp", answer);
    origin
}

fn over_http(origin: &MockOrigin, more: &str) -> String {
    format!("[[upstream]]\nname = 'up'\nurl = '{}'\n{more}\n", origin.url("/mcp"))
}

/// A server as a shell script. It logs its actions to standard error, and exits with code 7 when `x:end` is read.
const SHELL: &str = r#"
echo "the server has started" >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *server/discover*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' "$id" ;;
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *x:end*) echo "the disk is full" >&2; exit 7 ;;
    *resources/templates*) printf '{"jsonrpc":"2.0","id":%s,"result":{"resourceTemplates":[]}}\n' "$id" ;;
    *resources/list*) printf '{"jsonrpc":"2.0","id":%s,"result":{"resources":[{"uri":"x:a","name":"a"}]}}\n' "$id" ;;
    *'"ping"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id" ;;
  esac
done
"#;

fn program(script: &str, more: &str) -> String {
    let command = serde_json::to_string(&["/bin/sh", "-c", script]).unwrap();
    format!(
        "[[upstream]]\nname = 'up'\ncommand = {command}\nsandbox = 'none'\ngrants.env = {{ PATH = '/usr/bin:/bin' }}\nmount = 'up+'\n{more}\n"
    )
}

/// A config whose administration listener is a socket in the folder.
fn administered(folder: &Folder, text: &str) -> WrittenConfig {
    let socket = folder.path().join("admin.sock");
    let admin = format!("[admin]\nlisten = 'unix:{}'\n", socket.display());
    ConfigFile::new().append(text).append(&admin).allow_all().write()
}

async fn command(config: &WrittenConfig, arguments: &[&str]) -> Output {
    let file = config.path();
    let common = ["--config", file.to_str().unwrap()];
    run(arguments.iter().copied().chain(common)).await
}

/// Returns the only plugin in the output of `status --json`.
async fn plugin(config: &WrittenConfig) -> Value {
    command(config, &["status", "--json"]).await.success().json()["plugins"]["items"][0].clone()
}

/// Runs commands until a condition holds.
async fn wait_until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async { while !holds().await {} };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn wait_for_state(config: &WrittenConfig, state: &str) {
    wait_until(state, async || plugin(config).await["state"]["name"] == state).await;
}

async fn metrics(folder: &Folder) -> String {
    let mut stream = UnixStream::connect(folder.path().join("admin.sock")).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_server_that_is_gone_is_unreachable_and_the_host_not_ready_until_it_is_back() {
    let (folder, origin) = (Folder::with_files([("a", "")]), origin().await);
    let config = administered(&folder, &over_http(&origin, "mount = 'up+'\nrequired = true"));
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    assert_eq!(client.text("up+x:a").await, "a text");
    command(&config, &["status", "--probe"]).await.success();

    origin.take_down().await;
    client.read_error("up+x:a").await;
    wait_for_state(&config, "unreachable").await;
    let state = plugin(&config).await["state"].clone();
    assert!(state["since"].as_str().unwrap().ends_with('Z'), "{state}");
    assert!(state["reason"].as_str().unwrap().contains("refused"), "{state}");
    let shown = command(&config, &["status"]).await.success().text();
    assert!(shown.contains("not ready") && shown.contains("up: not reachable since"), "{shown}");
    let probe = command(&config, &["status", "--probe"]).await;
    assert_eq!(probe.code(), 1);
    assert!(probe.text().contains("plugin `up` has not been reachable since"), "{}", probe.text());
    let measured = metrics(&folder).await;
    for sample in [
        "mcp_host_ready{} 0",
        "mcp_host_plugin_state{plugin=\"up\",state=\"unreachable\"} 1",
        "mcp_host_plugin_unreachable_since_timestamp_seconds{plugin=\"up\"} ",
    ] {
        assert!(measured.contains(sample), "{sample}: {measured}");
    }
    let lost = server.log_line("the upstream cannot be reached any more").await;
    assert!(lost.contains("WARN"), "{lost}");

    origin.bring_up().await;
    wait_for_state(&config, "ready").await;
    command(&config, &["status", "--probe"]).await.success();
    let back = server.log_line("the upstream can be reached again").await;
    assert!(back.contains("INFO"), "{back}");
    assert!(!metrics(&folder).await.contains("mcp_host_plugin_unreachable_since_timestamp_seconds{"));
    assert_eq!(client.text("up+x:a").await, "a text");
    server.end().await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_noticed_without_a_call_and_a_reset_waits_until_it_is_back() {
    let (folder, origin) = (Folder::with_files([("a", "")]), origin().await);
    let config = administered(&folder, &over_http(&origin, "mount = 'up+'"));
    let server = HttpServer::start(&config).await;
    wait_for_state(&config, "ready").await;
    origin.take_down().await;
    wait_for_state(&config, "unreachable").await;
    origin.bring_up().await;
    assert_eq!(command(&config, &["admin", "reset", "up"]).await.success().text(), "up  ready\n");
    server.end().await;
}

#[tokio::test]
async fn a_program_that_ends_is_started_again_and_its_status_has_what_it_wrote_and_its_memory() {
    let folder = Folder::with_files([("a", "")]);
    let config = administered(&folder, &program(SHELL, ""));
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    wait_until("its memory is known", async || plugin(&config).await["memory"]["used"].as_u64() > Some(0)).await;
    client.read_error("up+x:end").await;
    let lost = server.log_line("the upstream cannot be reached any more").await;
    assert!(lost.contains("it exited with code 7"), "{lost}");
    server.log_line("the upstream can be reached again").await;
    wait_for_state(&config, "ready").await;
    let shown = command(&config, &["status", "up"]).await.success().text();
    assert!(shown.contains("the server has started") && shown.contains("the disk is full"), "{shown}");
    server.end().await;
}

#[tokio::test]
async fn check_says_how_a_program_ended_and_what_it_wrote_last() {
    let config = ConfigFile::new()
        .append(&program("echo 'first' >&2; echo 'no such token: X' >&2; exit 3", ""))
        .allow_all()
        .write();
    let check = command(&config, &["check"]).await;
    let shown = check.text();
    assert_eq!(check.code(), 1);
    assert!(shown.contains("the program has ended: it exited with code 3"), "{shown}");
    assert!(shown.contains("\n  first\n  no such token: X\n"), "{shown}");
    let error = command(&config, &["check", "--json"]).await.json()["plugins"][0]["error"].clone();
    assert!(error.as_str().unwrap().contains("no such token: X"), "{error}");
}

#[tokio::test]
async fn a_program_may_open_1024_files_although_the_shell_permits_fewer() {
    let config = ConfigFile::new().append(&program("ulimit -n >&2; exit 3", "")).allow_all().write();
    let host = host_command();
    let host = host.as_std();
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", "ulimit -S -n 512 && exec \"$@\"", "sh"]).arg(host.get_program());
    limited.args(["check", "--config"]).arg(config.path());
    limited.env_clear().envs(host.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    let shown = String::from_utf8(limited.output().await.unwrap().stdout).unwrap();
    assert!(shown.contains("\n  1024\n"), "{shown}");
}

#[tokio::test]
async fn a_program_that_dies_at_its_start_is_shown_as_failed_with_what_it_wrote_last() {
    let folder = Folder::with_files([("a", "")]);
    let config = administered(&folder, &program("echo 'no such token: X' >&2; exit 3", "required = true"));
    let server = HttpServer::start(&config).await;
    wait_for_state(&config, "failed").await;
    let shown = command(&config, &["status", "up"]).await.success().text();
    assert!(shown.contains("it exited with code 3") && shown.contains("\n  no such token: X\n"), "{shown}");
    let probe = command(&config, &["status", "--probe"]).await.text();
    assert!(probe.contains("plugin `up` could not be loaded") && !probe.contains("no such token"), "{probe}");
    server.end().await;
}

#[tokio::test]
async fn check_warns_of_an_upstream_of_which_nothing_is_served() {
    let (origin, folder) = (origin().await, Folder::with_files([("none", "none"), ("empty", "empty")]));
    let with_token = |name: &str| {
        format!("mount = 'up+'\nauth = {{ token = {{ file = '{}' }} }}", folder.path().join(name).display())
    };
    for (more, warning) in [
        ("mount = 'files://nas/'\nprefix = 'file:///srv/'".to_owned(), "none begins with `prefix = \"file:///srv/\"`"),
        (with_token("none"), "the server has no resources"),
        (with_token("empty"), "it lists neither a valid resource nor a valid template"),
    ] {
        let config = ConfigFile::new().append(&over_http(&origin, &more)).allow_all().write();
        let shown = command(&config, &["check"]).await.success().text();
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(warning), "{shown}");
        assert_eq!(command(&config, &["check", "--strict"]).await.code(), 1);
    }
    let config = ConfigFile::new().append(&over_http(&origin, "mount = 'x:///'\nprefix = 'x:///'")).allow_all().write();
    let shown = command(&config, &["check"]).await.success().text();
    assert!(shown.contains("x:a"), "the first of its URIs is shown: {shown}");
}

#[tokio::test]
async fn check_tries_the_token_of_each_principal_and_names_the_one_that_is_refused() {
    let (origin, folder) = (origin().await, Folder::with_files([("good", "good"), ("refused", "refused")]));
    let file = |name: &str| folder.path().join(name).display().to_string();
    let text = over_http(
        &origin,
        &format!(
            "mount = 'up+'\nauth.tokens = [{{ principal = 'ada', token = {{ file = '{}' }} }}, {{ principal = 'eve', token = {{ file = '{}' }} }}]",
            file("good"),
            file("refused")
        ),
    );
    let config = ConfigFile::new()
        .principal("ada", "token-of-ada")
        .principal("eve", "token-of-eve")
        .append(&text)
        .allow_all()
        .write();
    let check = command(&config, &["check"]).await;
    assert_eq!(check.code(), 1);
    let shown = check.text();
    assert!(shown.contains("the token of the principal `eve`") && shown.contains("refuses the credentials"), "{shown}");
    assert!(!shown.contains("principal `ada`"), "{shown}");
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("its responses are not cached, and it is not indexed and has no skills"), "{shown}");
}

#[tokio::test]
async fn check_warns_of_an_empty_server_only_if_it_is_empty_for_all_principals() {
    let files = [("good", "good"), ("none", "none"), ("empty", "empty")];
    let (origin, folder) = (origin().await, Folder::with_files(files));
    for (ada, eve, is_warned) in [("good", "none", false), ("good", "empty", false), ("none", "empty", true)] {
        let [ada, eve] = [("ada", ada), ("eve", eve)].map(|(principal, token)| {
            let file = folder.path().join(token);
            format!("{{ principal = '{principal}', token = {{ file = '{}' }} }}", file.display())
        });
        let config = ConfigFile::new()
            .principal("ada", "token-of-ada")
            .principal("eve", "token-of-eve")
            .append(&over_http(&origin, &format!("mount = 'up+'\nauth.tokens = [{ada}, {eve}]")))
            .allow_all()
            .write();
        let shown = command(&config, &["check"]).await.success().text();
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for warning in ["the server has no resources", "it lists neither a valid resource nor a valid template"] {
            assert_eq!(shown.contains(warning), is_warned, "{ada}, {eve}: {shown}");
        }
    }
}

#[tokio::test]
async fn check_offline_says_that_an_upstream_was_not_asked() {
    let origin = origin().await;
    let config = ConfigFile::new().append(&over_http(&origin, "mount = 'up+'")).allow_all().write();
    let shown = command(&config, &["check", "--offline"]).await.success().text();
    assert!(shown.contains("not asked") && shown.contains("`--offline` connects to no upstream"), "{shown}");
    let report = command(&config, &["check", "--offline", "--json"]).await.success().json()["plugins"][0].clone();
    assert_eq!((&report["state"], &report["first_page_items"]), (&json!("not-asked"), &Value::Null));
    assert_eq!(origin.request_count("/mcp"), 0);
}

#[tokio::test]
async fn a_mount_in_front_of_uris_is_listed_and_explained_and_a_program_is_quiet_meanwhile() {
    let config = ConfigFile::new().append(&program(SHELL, "")).allow_all().write();
    let listed = command(&config, &["list", "up+"]).await.success();
    assert!(listed.text().contains("up+x:a"), "{listed:?}");
    assert!(!listed.stderr.contains("the server has started"), "{listed:?}");
    let listed = command(&config, &["list", "up+", "--log", "info"]).await.success();
    assert!(listed.stderr.contains("the server has started"), "{listed:?}");
    let other = command(&config, &["list", "other+"]).await;
    assert_eq!(other.code(), 1, "{other:?}");
    let explained = command(&config, &["explain", "up+"]).await.success().text();
    assert!(explained.contains("allowed: the rules allow all resources below it"), "{explained}");
    let watched = command(&config, &["watch", "up+"]).await;
    assert!(watched.stderr.contains("`mcp-host watch --listing`"), "{watched:?}");
    let watched = command(&config, &["watch", "up+x:a"]).await;
    assert!(watched.stderr.contains("`poll = true`"), "{watched:?}");
}

#[tokio::test]
async fn a_mount_is_listed_for_whoever_may_see_something_below_it_only() {
    let origin = origin().await;
    let text = over_http(&origin, "mount = 'up+'");
    let rules = "[[rule]]\nprincipals = ['local']\nallow = ['up+**']\n";
    let config = ConfigFile::new().append(&text).append(rules).write();
    assert!(command(&config, &["list", "up+"]).await.success().text().contains("up+x:a"));
    let hidden = command(&config, &["list", "up+", "--as", "anonymous"]).await;
    let missing = command(&config, &["list", "no+", "--as", "anonymous"]).await;
    assert_eq!(hidden.code(), 1);
    assert_eq!((hidden.text(), hidden.stderr.replace("up+", "no+")), (missing.text(), missing.stderr));
}

#[tokio::test]
async fn an_invalid_item_of_a_listing_is_dropped_and_logged() {
    let origin = origin().await;
    let config = ConfigFile::new().append(&over_http(&origin, "mount = 'up+'")).allow_all().write();
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    assert_eq!(client.uris().await, ["up+x:a"]);
    let line = server.log_line("a listed resource of the upstream is invalid, and was dropped").await;
    assert!(line.contains("x:secret"), "{line}");
    server.end().await;
}

#[tokio::test]
async fn explain_judges_the_spelling_that_is_served() {
    let text = "[[upstream]]\nname = 'up'\nurl = 'https://mcp.example.com/mcp'\nmount = 'up+'\n\
                [[rule]]\nprincipals = ['*']\nallow = ['up+**']\ndeny = ['up+file:///secret/**']\n";
    let config = ConfigFile::new().append(text).write();
    for uri in ["up+file:/secret/x", "up+file:///pub/..%2Fsecret/x"] {
        let explained = command(&config, &["explain", uri]).await;
        let shown = explained.text();
        assert_eq!(explained.code(), 1);
        assert!(shown.contains("the resource is up+file:///secret/x") && shown.contains("denied: `deny`"), "{shown}");
    }
    let explained = command(&config, &["explain", "--json", "up+file:/pub/x"]).await;
    let view = explained.json();
    assert_eq!((&view["allowed"], &view["served"]), (&json!(false), &json!("elsewhere")));
    assert_eq!(view["served_at"], "up+file:///pub/x");
    command(&config, &["explain", "up+file:///pub/x"]).await.success();
}

#[tokio::test]
async fn a_reload_that_fails_quotes_no_value_that_may_be_private() {
    let (folder, origin) = (Folder::with_files([("a", "")]), origin().await);
    let query = format!("[[upstream]]\nname = 'up'\nurl = '{}?key=hunter1'\nmount = 'up+'\n", origin.url("/mcp"));
    let config = administered(&folder, &query);
    let server = HttpServer::start(&config).await;
    let status = command(&config, &["status", "up"]).await.success().text();
    assert!(status.contains("/mcp?…") && !status.contains("hunter"), "{status}");
    assert!(status.contains(", listing-items ") && !status.contains("random-bytes"), "an upstream has none: {status}");
    let socket = folder.path().join("admin.sock");
    let mistakes = [
        ("component = 'x'\ngrants.env = { DATABASE = 'hunter2', MODE = 5 }", "`grants.env`"),
        ("command = ['/bin/sh', 'hunter3', 5]", "`command`"),
        ("url = 'http://mcp.example.com/?key=hunter4'", "a query"),
    ];
    for (mistake, what) in mistakes {
        let admin = format!("[admin]\nlisten = 'unix:{}'\n", socket.display());
        let text = format!("{admin}[[upstream]]\nname = 'up'\n{mistake}\nmount = 'up+'\n");
        config.replace_text(&text);
        wait_until("the reload has failed", async || {
            let status = command(&config, &["status", "--json"]).await.json();
            status["reload_failure"]["reason"].as_str().is_some_and(|reason| reason.contains("mcp-host.toml"))
        })
        .await;
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        stream.write_all(b"GET /api/v1/config/changes HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut changes = String::new();
        stream.read_to_string(&mut changes).await.unwrap();
        assert!(changes.starts_with("HTTP/1.1 409") && !changes.contains("hunter"), "{what}: {changes}");
        let status = command(&config, &["status", "--json"]).await.text();
        assert!(!status.contains("hunter"), "{what}: {status}");
    }
    let exit = server.end().await;
    assert!(!exit.log.contains("hunter"), "{}", exit.log);
}

#[tokio::test]
async fn check_warns_of_a_directory_that_a_program_may_not_write_to() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root starts programs as another user");
        return;
    }
    let folder = Folder::with_files([("a.txt", "a")]);
    let command_line = serde_json::to_string(&["/bin/sh", "-c", SHELL]).unwrap();
    let text = format!(
        "[[upstream]]\nname = 'up'\ncommand = {command_line}\nmount = 'up+'\n\
         grants.dirs = [{{ host = '{0}', guest = '{0}', mode = 'rw' }}]\n",
        folder.path().display()
    );
    let config = ConfigFile::new().append(&text).allow_all().write();
    let shown = command(&config, &["check"]).await.text();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("the program runs as nobody, who may not write there"), "{shown}");
    open_to_all(folder.path());
    let shown = command(&config, &["check"]).await.text();
    assert!(!shown.contains("may not write there"), "{shown}");
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}
