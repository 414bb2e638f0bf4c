//! Sandboxed programs of upstreams: official servers, and one that attempts forbidden actions.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{
    Client, ConfigFile, Folder, HttpServer, MockOrigin, RawStdio, Reply, Revision, StdioServer, WrittenConfig,
    client_program, host_command, node, run, wait_until,
};
use rustix::process::Signal;
use serde_json::json;
use tokio::process::Command;

/// The limits of a program that starts with an interpreter, on processors that all other tests use, too.
pub(super) const PATIENT: &str = "limits = { deadline = '2m' }";

/// Returns the config section of a confined program. Its calls have time, unless `more` has limits.
pub(super) fn program(name: &str, command: &[&str], more: &str) -> String {
    let command = serde_json::to_string(command).unwrap();
    let limits = if more.contains("limits = ") { "" } else { PATIENT };
    format!("[[upstream]]\nname = '{name}'\ncommand = {command}\nmount = '{name}+'\n{limits}\n{more}\n")
}

fn python_server(name: &str, script: &str, more: &str) -> String {
    let python = client_program("python/bin/python").display().to_string();
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/servers").join(script);
    program(name, &[&python, &server.display().to_string()], more)
}

/// Returns a server that attempts the actions that its resources are named after.
fn probe(more: &str) -> String {
    python_server("up", "probe.py", more)
}

/// Returns the path of an official server of npm.
pub(super) fn official(package: &str) -> String {
    client_program(&format!("servers/node_modules/@modelcontextprotocol/{package}/dist/index.js")).display().to_string()
}

/// Returns whether this kernel can confine programs with namespaces. If so, `check` does not mention it.
pub(super) async fn confines(config: &WrittenConfig) -> bool {
    let shown = run(["check", "--config", config.path().to_str().unwrap()]).await.text();
    let lacks = shown.contains("the sandbox is incomplete") || shown.contains("this kernel cannot confine a program");
    if lacks {
        eprintln!("skipped: this kernel cannot confine programs with namespaces:\n{shown}");
    }
    !lacks
}

async fn attempt(client: &Client, what: &str) -> String {
    client.text(&format!("up+try:{what}")).await
}

/// Creates a folder that every user may read.
fn folder() -> Folder {
    let folder = Folder::with_files([("a.txt", "granted")]);
    open_to_all(folder.path());
    folder
}

pub(super) fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[tokio::test]
async fn official_servers_serve_from_their_sandbox() {
    let node = node().display().to_string();
    let folder = folder();
    let files = folder.path().to_str().unwrap();
    let grant = format!("grants.dirs = [{{ host = '{files}', guest = '/data' }}]");
    let config = ConfigFile::new()
        .append(&program("ts", &[&node, &official("server-everything"), "stdio"], ""))
        .append(&program("fs", &[&node, &official("server-filesystem"), "/data"], &grant))
        .append(&python_server("py", "server.py", ""))
        .allow_all()
        .write();
    if !confines(&config).await {
        return;
    }
    let file = config.path();
    let check = run(["check", "--json", "--config", file.to_str().unwrap()]).await.success().json();
    let states: Vec<_> = check["plugins"].as_array().unwrap().iter().map(|plugin| &plugin["state"]).collect();
    assert_eq!(states, [&json!("ok"); 3], "{check}");
    let server = StdioServer::start_in(&config, Revision::V_2026_07_28).await;
    let client = server.client();
    assert!(client.text("ts+demo://resource/static/document/architecture.md").await.contains("Everything"));
    assert_eq!(client.text("py+memo:today").await, "a memo");
    server.end().await;
}

#[tokio::test]
async fn a_program_has_what_it_is_granted_and_nothing_else() {
    let (granted, other) = (folder(), folder());
    let writable = Folder::with_files([("a.txt", "old")]);
    open_to_all(writable.path());
    let origin = MockOrigin::http().await;
    origin.serve("/", Reply::ok("text/plain", "a page"));
    let refused = MockOrigin::http().await;
    let text = format!(
        "grants.dirs = [{{ host = '{}', guest = '/data' }}, {{ host = '{}', guest = '/out', mode = 'rw' }}]\n\
         grants.env = {{ WORD = 'x' }}\ngrants.http = ['{}']",
        granted.path().display(),
        writable.path().display(),
        origin.origin()
    );
    let config = ConfigFile::new().append(&probe(&text)).allow_all().write();
    if !confines(&config).await {
        return;
    }
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;

    assert_eq!(attempt(&client, "read:/data/a.txt").await, "granted");
    let refused_write = attempt(&client, "write:/data/b.txt").await;
    assert!(refused_write.contains("Errno"), "{refused_write}");
    assert_eq!(attempt(&client, "write:/out/b.txt").await, "written");
    assert_eq!(std::fs::read_to_string(writable.path().join("b.txt")).unwrap(), "written");
    for path in [&other.path().join("a.txt"), &granted.path().join("a.txt"), &config.path()] {
        let read = attempt(&client, &format!("read:{}", path.display())).await;
        assert!(read.starts_with("FileNotFoundError"), "{read}");
    }
    let shadow = attempt(&client, "read:/etc/shadow").await;
    assert!(shadow.starts_with("FileNotFoundError"), "{shadow}");

    let page = attempt(&client, &format!("fetch:{}", origin.port())).await;
    assert_eq!(page, "200 a page");
    let denied = attempt(&client, &format!("fetch:{}", refused.port())).await;
    assert!(denied.starts_with("403"), "{denied}");
    server.log_line("a connection of the program was refused").await;
    for port in [origin.port(), refused.port()] {
        let connected = attempt(&client, &format!("connect:{port}")).await;
        assert!(connected.starts_with("ConnectionRefusedError"), "{connected}");
    }

    let variables = attempt(&client, "variables:").await;
    let variables: Vec<_> = variables.split(' ').collect();
    assert!(variables.contains(&"WORD") && !variables.contains(&"XDG_STATE_HOME"), "{variables:?}");
    assert_ne!(attempt(&client, "user:").await, "0");
    let processes = attempt(&client, "processes:").await;
    assert!(processes.split(' ').count() <= 3, "{processes}");
    server.end().await;
}

#[tokio::test]
async fn a_program_beside_the_config_sees_neither_the_files_of_the_host_nor_those_of_other_programs() {
    let python = client_program("python/bin/python").display().to_string();
    let grant = "grants.env = { WORD = { file = 'word.token' } }";
    let of_other = "grants.dirs = [{ host = 'notes', guest = '/notes' }]";
    let config = ConfigFile::new()
        .append(&program("up", &[&python, "server.py"], grant))
        .append(&python_server("other", "probe.py", of_other))
        .allow_all()
        .write();
    let at = |name: &str| config.dir().join(name);
    // The program may have another user.
    std::fs::set_permissions(config.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let probe = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/servers/probe.py");
    std::fs::copy(probe, at("probe_server.py")).unwrap();
    std::fs::write(at("server.py"), "import probe_server\n").unwrap();
    std::fs::write(at("word.token"), "secret").unwrap();
    std::fs::create_dir(at("notes")).unwrap();
    std::fs::write(at("notes/a.txt"), "of the other program").unwrap();
    if !confines(&config).await {
        return;
    }
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    let read = async |name: &str| attempt(&client, &format!("read:{}", at(name).display())).await;
    assert!(read("probe_server.py").await.contains("ATTEMPTS"));
    assert!(at("state/compiled.key").exists());
    assert_eq!(client.text("other+try:read:/notes/a.txt").await, "of the other program");
    let hidden = ["word.token", "mcp-host.toml", "state/cursor.key", "state/compiled.key", "notes/a.txt"];
    for name in hidden {
        let refused = read(name).await;
        assert!(refused.starts_with("FileNotFoundError"), "{name}: {refused}");
    }
    // The same value, so that the program is not started again.
    std::fs::write(at("new"), "secret").unwrap();
    std::fs::rename(at("new"), at("word.token")).unwrap();
    let refused = read("word.token").await;
    assert!(refused.starts_with("FileNotFoundError"), "{refused}");
    server.end().await;
}

#[tokio::test]
async fn a_program_without_grants_has_no_network() {
    let config = ConfigFile::new().append(&probe("")).allow_all().write();
    if !confines(&config).await {
        return;
    }
    let origin = MockOrigin::http().await;
    let server = StdioServer::start(&config).await;
    let connected = attempt(server.client(), &format!("connect:{}", origin.port())).await;
    assert!(connected.starts_with("ConnectionRefusedError"), "{connected}");
    let fetched = attempt(server.client(), &format!("fetch:{}", origin.port())).await;
    assert!(fetched.starts_with("KeyError"), "{fetched}");
    server.end().await;
}

#[tokio::test]
async fn a_program_that_forks_or_allocates_without_end_is_stopped_and_comes_back() {
    let limits = "limits = { memory = '128MiB', deadline = '2m' }";
    let config = ConfigFile::new().append(&probe(limits)).allow_all().write();
    if !confines(&config).await {
        return;
    }
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let forked = attempt(client, "fork:1000").await;
    assert!(forked.starts_with("stopped at "), "{forked}");
    assert_eq!(client.text("up+try:loud:3").await, "said");
    server.log_line("noise 2").await;
    let failed = client.read_error("up+try:allocate:300").await;
    assert!(!failed.message.is_empty());
    server.log_line("limits.memory").await;
    // The program is restarted after a pause.
    let mut read = client.read("up+try:loud:0").await;
    while read.is_err() {
        tokio::task::yield_now().await;
        read = client.read("up+try:loud:0").await;
    }
    server.end().await;
}

#[tokio::test]
async fn administrators_see_a_program_with_its_use_and_how_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let limits = "limits = { memory = '128MiB', deadline = '2m' }";
    let admin = format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display());
    let config = ConfigFile::new().append(&probe(limits)).allow_all().append(&admin).write();
    if !confines(&config).await {
        return;
    }
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    let path = config.path().to_str().unwrap().to_owned();
    let status = async || run(["status", "up", "--json", "--config", &path]).await.success().json();
    let mut found = status().await;
    while found["programs"]["programs"][0]["memory"].is_null() {
        found = status().await;
    }
    let program = &found["programs"]["programs"][0];
    assert_eq!((&program["state"], &program["restarts"]), (&json!("running"), &json!(0)), "{found}");
    assert_eq!((&program["memory_limit"], &program["processes_limit"]), (&json!(128 << 20), &json!(128)), "{found}");
    assert!(program["memory"].as_u64().unwrap() > 1 << 20 && program["processes"].as_u64().unwrap() >= 1, "{found}");
    let first = program["process"].as_u64().unwrap();
    assert!(Path::new(&format!("/proc/{first}")).exists(), "{found}");
    assert_eq!(found["programs"]["last_end"], json!(null), "{found}");

    client.read_error("up+try:allocate:300").await;
    while client.read("up+try:loud:0").await.is_err() {
        tokio::task::yield_now().await;
    }
    let found = status().await;
    let (program, end) = (&found["programs"]["programs"][0], &found["programs"]["last_end"]);
    assert_eq!((&end["reason"], &found["programs"]["ends"]["memory"]), (&json!("memory"), &json!(1)), "{found}");
    assert_eq!(end["text"], "it was killed above `limits.memory` (128MiB)");
    assert_eq!((&program["state"], &program["restarts"]), (&json!("running"), &json!(1)), "{found}");
    assert_ne!(program["process"].as_u64().unwrap(), first);
    let text = run(["status", "up", "--config", &path]).await.success().text();
    assert!(
        text.contains("program    running, process ")
            && text.contains("ended      it was killed above `limits.memory` (128MiB) at "),
        "{text}"
    );
    server.end().await;
}

#[tokio::test]
async fn a_program_above_its_processor_time_ends_and_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let limits = "limits = { program-cpu = '2s', deadline = '2m' }";
    let admin = format!("\n[admin]\nlisten = \"unix:{}\"\n", socket.display());
    let config = ConfigFile::new().append(&probe(limits)).allow_all().append(&admin).write();
    if !confines(&config).await {
        return;
    }
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    client.read_error("up+try:spin:").await;
    server.log_line("it was killed above `limits.program-cpu`").await;
    while client.read("up+try:loud:0").await.is_err() {
        tokio::task::yield_now().await;
    }
    let path = config.path().to_str().unwrap().to_owned();
    let found = run(["status", "up", "--json", "--config", &path]).await.success().json();
    let (program, ends) = (&found["programs"]["programs"][0], &found["programs"]["ends"]);
    assert_eq!((&program["state"], &program["restarts"]), (&json!("running"), &json!(1)), "{found}");
    assert_eq!((&program["cpu_limit_ms"], &ends["cpu"]), (&json!(2000), &json!(1)), "{found}");
    let shown = run(["status", "up", "--config", &path]).await.success().text();
    assert!(shown.contains(", program-cpu 2s\n") && !shown.contains("random-bytes"), "{shown}");
    server.end().await;
}

/// Returns whether a process of this machine sleeps for this time.
fn sleeps(seconds: &str) -> bool {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{seconds}\0");
    commands.into_iter().any(|command| command == wanted.as_bytes())
}

#[tokio::test]
async fn nothing_that_a_program_started_outlives_the_host_however_it_ends() {
    for (sandbox, seconds) in [("full", "100007"), ("none", "100008")] {
        let seconds = format!("{seconds}{}", std::process::id());
        let config = ConfigFile::new().append(&probe(&format!("sandbox = '{sandbox}'"))).allow_all().write();
        if sandbox == "full" && !confines(&config).await {
            continue;
        }
        for is_killed in [false, true] {
            let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
            let read = wire.request("resources/read", json!({ "uri": format!("up+try:leave:{seconds}") })).await;
            assert_eq!(read.result()["contents"][0]["text"], "left");
            wait_until("it sleeps", || sleeps(&seconds)).await;
            if is_killed {
                wire.signal(Signal::KILL);
                wire.wait_exit().await;
            } else {
                wire.end().await;
            }
            wait_until("nothing sleeps", || !sleeps(&seconds)).await;
        }
    }
}

/// Runs a command of `mcp-host` on a machine whose kernel refuses a system call, and returns its standard output and
/// its log.
async fn run_without(call: libc::c_long, command: &str, config: &WrittenConfig) -> (String, String) {
    let host = host_command();
    let refused = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/servers/refused.py");
    let mut running = Command::new(client_program("python/bin/python"));
    running.arg(refused).arg(call.to_string()).arg(host.as_std().get_program());
    running.args([command, "--config"]).arg(config.path());
    let variables = host.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
    running.env_clear().envs(variables).current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    let output = running.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn what_the_kernel_lacks_is_told_by_check_and_at_the_start() {
    let config = ConfigFile::new().append(&probe("")).allow_all().write();
    for (call, lack, what_to_do) in [
        (libc::SYS_unshare, "no namespaces (", "permit them to this user (`user.max_user_namespaces`"),
        (libc::SYS_landlock_create_ruleset, "no Landlock: ", "use Linux 5.13 or later with `landlock`"),
    ] {
        let (check, _) = run_without(call, "check", &config).await;
        let told = format!("up: warning: the sandbox is incomplete on this machine: {lack}");
        assert!(check.contains(&told) && check.contains(what_to_do), "{check}");
        let (_, log) = run_without(call, "serve", &config).await;
        let told = format!("the sandbox of programs is incomplete on this machine: {lack}");
        assert!(log.contains(&told) && log.contains(what_to_do), "{log}");
    }
    let (check, log) = run_without(libc::SYS_landlock_create_ruleset, "check", &config).await;
    assert!(check.contains("this kernel cannot confine a program: no Landlock"), "{check}{log}");
    assert!(check.contains("write `sandbox = \"none\"` if the program is trusted like the host"), "{check}");
}

#[tokio::test]
async fn a_confined_server_starts_its_programs_and_no_others() {
    let granted = folder();
    let keys = |guest: &str| format!("grants.dirs = [{{ host = '{}', guest = '{guest}' }}]", granted.path().display());
    let confined = |guest: &str| ConfigFile::new().server("confine", true).append(&probe(&keys(guest))).allow_all();
    let config = confined("/data").write();
    if !confines(&config).await {
        return;
    }
    let server = HttpServer::start(&config).await;
    let client = server.client(Revision::V_2026_07_28).await;
    assert_eq!(attempt(&client, "read:/data/a.txt").await, "granted");
    config.replace(confined("/moved"));
    server.log_line("the config did not name it, with all that it is granted now").await;
    assert_eq!(attempt(&client, "read:/data/a.txt").await, "granted");
    server.end().await;
}
