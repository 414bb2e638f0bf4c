//! Loading blocks nothing: rules take effect immediately, loaded plugins are served while others compile, and neither a
//! blocking file nor a component that never finishes compiling delays anything else.

use std::fs;
use std::path::Path;
use std::process::Stdio as Pipe;

use mcp_host_tests::{
    ConfigFile, Folder, Plugin, RawStdio, Revision, Rule, TIMEOUT, fixture, host_command, run, wait_until,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::wasm_fixtures;

const REVISION: Revision = Revision::V_2025_11_25;
const LISTING: &str = "notifications/resources/list_changed";

/// A component that takes a compiler minutes. In these tests, the compiler's deadline is longer.
fn never_compiles(folder: &Folder, name: &str) -> Plugin {
    let file = folder.write(
        format!("{name}.wasm"),
        wasm_fixtures::with_padding(wasm_fixtures::hard_to_compile(1000, 300), name.as_bytes()),
    );
    Plugin::new(name, &file, &format!("{name}:///"))
}

/// A config with a limit of the compiler.
fn config_with_compile_limit(key: &str, limit: &str) -> ConfigFile {
    ConfigFile::new().server("compile", toml::Table::from_iter([(key.to_owned(), limit.into())]))
}

/// Compiles the component of a plugin, so that the cache contains it.
async fn compile(plugin: Plugin) {
    RawStdio::start(&ConfigFile::new().plugin(plugin).write(), REVISION).await.end().await;
}

/// Reads until the result fulfils a condition.
async fn read_until(wire: &mut RawStdio, uri: &str, wanted: impl Fn(&Result<String, Value>) -> bool) {
    let reading = async { while !wanted(&wire.read(uri).await) {} };
    tokio::time::timeout(TIMEOUT, reading).await.unwrap_or_else(|_| panic!("{uri} is not read as it should be"));
}

/// Returns the number of compilers started for a file, according to the log.
fn count_compilations(log: &str, file: &str) -> usize {
    log.lines().filter(|line| line.contains("compiling a component") && line.contains(file)).count()
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test]
async fn the_plugins_of_the_config_are_counted_without_those_of_the_host() {
    // Search adds two of the host's mounts.
    let config = ConfigFile::new().plugin(Plugin::sample("a").searched()).write();
    let wire = RawStdio::start(&config, REVISION).await;
    let line = wire.log_line("finished loading plugins").await;
    assert!(line.contains("loaded=1 failed=0"), "{line}");
    wire.end().await;
}

#[tokio::test]
async fn a_config_that_becomes_a_fifo_freezes_neither_the_server_nor_its_reloads() {
    let folder = Folder::with_files([("f", "text")]);
    let faulty = || Plugin::faulty("a", folder.path());
    let config = ConfigFile::new().plugin(faulty()).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    fs::remove_file(config.path()).unwrap();
    make_fifo(&config.path());
    wire.log_line("it is a FIFO, not a regular file").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    wire.signal(Signal::HUP);
    wire.log_line("SIGHUP: reloading").await;
    config.replace(ConfigFile::new().plugin(faulty().config("prefix", "new ")));
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "new text");
    wire.end().await;
}

#[tokio::test]
async fn a_config_that_is_no_regular_file_is_refused_with_what_to_do() {
    let folder = Folder::with_files::<&str, &str>([]);
    let fifo = folder.path().join("mcp-host.toml");
    make_fifo(&fifo);
    for (file, what) in [(fifo.as_path(), "a FIFO"), (Path::new("/dev/zero"), "a device")] {
        for command in ["serve", "check", "list"] {
            let ended = run([command, "--config", file.to_str().unwrap()]).await;
            assert_eq!(ended.code(), 2, "{command}: {}", ended.stderr);
            assert!(ended.stderr.contains(&format!("it is {what}, not a regular file")), "{}", ended.stderr);
            assert!(ended.stderr.contains("write the config to a regular file"), "{}", ended.stderr);
        }
    }
}

/// Plugin `a` serves a folder, and plugin `x` is a component in a separate file.
fn faulty_beside(folder: &Folder, component: &Path) -> ConfigFile {
    let beside = Plugin::new("x", component, "raw://x/");
    ConfigFile::new().plugin(Plugin::faulty("a", folder.path())).plugin(beside)
}

#[tokio::test]
async fn a_component_that_becomes_a_fifo_changes_nothing_but_the_rules_of_its_config() {
    let folder = Folder::with_files([("f", "text"), ("g", "text")]);
    let component = folder.write("x.wasm", fs::read(fixture("raw")).unwrap());
    let both = || faulty_beside(&folder, &component);
    let config = both().write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    fs::remove_file(&component).unwrap();
    make_fifo(&component);
    let changed = || both().plugin(Plugin::faulty("b", folder.path()));
    config.replace(changed().rule(Rule::for_principal("local").deny(["faulty://a/f"])));
    read_until(&mut wire, "faulty://a/f", Result::is_err).await;
    wire.log_line("is not a file").await;
    assert_eq!(wire.read("faulty://a/g").await.unwrap(), "text");
    assert_eq!(wire.read("raw://x/good").await.unwrap(), "good");
    assert!(wire.read("faulty://b/g").await.is_err(), "plugins are as they were");
    // With any other mistake, nothing of the config takes effect.
    config.replace(
        changed().rule(Rule::for_principal("local").deny(["faulty://a/f", "faulty://a/g"])).server("page-size", "many"),
    );
    wire.log_line("keeping the current generation").await;
    assert_eq!(wire.read("faulty://a/g").await.unwrap(), "text");
    config.replace(changed().rule(Rule::for_principal("local").deny(["faulty://a/f"])));
    fs::remove_file(&component).unwrap();
    fs::copy(fixture("raw"), &component).unwrap();
    read_until(&mut wire, "faulty://b/g", Result::is_ok).await;
    assert!(wire.read("faulty://a/f").await.is_err());
    assert_eq!(wire.read("raw://x/good").await.unwrap(), "good");
    wire.end().await;
}

#[tokio::test]
async fn a_deny_rule_counts_while_the_component_of_a_plugin_is_gone() {
    let folder = Folder::with_files([("f", "text"), ("g", "text")]);
    let component = folder.write("x.wasm", fs::read(fixture("raw")).unwrap());
    let both = || faulty_beside(&folder, &component);
    let config = both().write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    fs::remove_file(&component).unwrap();
    config.replace(both().rule(Rule::for_principal("local").deny(["faulty://a/f"])));
    read_until(&mut wire, "faulty://a/f", Result::is_err).await;
    wire.log_line("there is no file at").await;
    assert_eq!(wire.read("faulty://a/g").await.unwrap(), "text");
    assert_eq!(wire.read("raw://x/good").await.unwrap(), "good");
    fs::copy(fixture("raw"), &component).unwrap();
    wire.log_line("reloaded: nothing changed").await;
    assert!(wire.read("faulty://a/f").await.is_err());
    wire.end().await;
}

#[tokio::test]
async fn a_deny_rule_counts_while_a_granted_directory_is_gone_and_plugins_follow_when_it_is_back() {
    let folder = Folder::with_files([("f", "text"), ("g", "text")]);
    let granted = folder.path().join("below/granted");
    let with = |prefix: &str| {
        let other = Plugin::faulty("b", &granted).config("prefix", prefix);
        ConfigFile::new().plugin(Plugin::faulty("a", folder.path())).plugin(other)
    };
    folder.write("below/granted/f", "text");
    let config = with("old ").write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    assert_eq!(wire.read("faulty://b/f").await.unwrap(), "old text");
    fs::remove_dir_all(folder.path().join("below")).unwrap();
    config.replace(with("new ").rule(Rule::for_principal("local").deny(["faulty://a/f"])));
    read_until(&mut wire, "faulty://a/f", Result::is_err).await;
    wire.log_line("there is no directory at").await;
    assert_eq!(wire.read("faulty://a/g").await.unwrap(), "text");
    // No request triggers the reload: the change of the file is detected.
    folder.write("below/granted/f", "text");
    wire.log_line("changed=\"b\"").await;
    assert_eq!(wire.read("faulty://b/f").await.unwrap(), "new text");
    let log = wire.end().await.log;
    assert_eq!(log.matches("there is no directory at").count(), 1, "{log}");
}

#[tokio::test]
async fn a_deny_rule_counts_while_a_component_of_the_same_change_never_compiles() {
    let folder = Folder::with_files([("f", "text"), ("g", "text")]);
    let good = || config_with_compile_limit("deadline", "1h").plugin(Plugin::faulty("a", folder.path()));
    let config = good().write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    for uri in ["faulty://a/f", "faulty://a/g"] {
        wire.subscribe(uri).await;
    }
    let slow = never_compiles(&folder, "z");
    config.replace(good().plugin(slow.clone()).rule(Rule::for_principal("local").deny(["faulty://a/f"])));
    read_until(&mut wire, "faulty://a/f", Result::is_err).await;
    wait_until("a compiler runs", || wire.child_count() == 1).await;
    assert!(!wire.log().contains("reloaded"), "its plugins are still being loaded: {}", wire.log());
    // Notifications are filtered by the new rules, too.
    folder.write("f", "changed in secret");
    folder.write("g", "changed");
    let updated = wire.notification("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "faulty://a/g");
    assert_eq!(wire.read("faulty://a/g").await.unwrap(), "changed");

    // One more rule while the same component compiles: the rule takes effect immediately, and the compiler continues.
    config.replace(good().plugin(slow).rule(Rule::for_principal("local").deny(["faulty://a/*"])));
    read_until(&mut wire, "faulty://a/g", Result::is_err).await;
    assert_eq!(wire.child_count(), 1);
    // The resource may be read again, and the component is no longer needed.
    config.replace(good());
    read_until(&mut wire, "faulty://a/g", Result::is_ok).await;
    wait_until("the compiler is ended", || wire.child_count() == 0).await;
    let log = wire.end().await.log;
    assert_eq!(count_compilations(&log, "z.wasm"), 1, "{log}");
}

#[tokio::test]
async fn what_is_loaded_is_served_while_the_rest_compiles() {
    let folder = Folder::with_files([("f", "text")]);
    let slow = ["x", "y", "z"].map(|name| never_compiles(&folder, name));
    // The number of concurrent compilers equals the number of processors.
    compile(Plugin::faulty("a", folder.path())).await;
    let config = slow.into_iter().fold(config_with_compile_limit("deadline", "1h"), ConfigFile::plugin);
    let config = config.plugin(Plugin::faulty("a", folder.path())).write();
    let mut wire = RawStdio::start_before_plugins_load(&config, REVISION).await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    let waiting = wire.send_request("resources/read", json!({ "uri": "z:///f" })).await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text", "others do not wait");
    let listed = wire.request("resources/list", json!({})).await;
    assert_eq!(listed.result()["resources"][0]["uri"], "faulty://a/f");
    let missing = listed.result()["_meta"]["mcp-host/missing"].as_array().unwrap();
    let missing: Vec<_> = missing.iter().map(|one| one["plugin"].as_str().unwrap()).collect();
    assert_eq!(missing, ["x", "y", "z"]);
    let processors = std::thread::available_parallelism().unwrap().get();
    wait_until("compilers run", || wire.child_count() == processors.min(3)).await;
    assert_eq!(wire.buffered_responses(), Vec::<&Value>::new());
    let _compilers = wire.kill_children_on_drop();
    // Neither the shutdown nor a request waits for the compilers.
    wire.signal(Signal::TERM);
    let refused = wire.response_to(waiting).await.message["error"].take();
    assert_eq!(refused["data"], json!({ "kind": "unavailable", "plugin": "z" }));
    wire.wait_clean_exit().await;
}

#[tokio::test]
async fn what_never_compiles_keeps_a_change_of_other_plugins_back_only_if_it_is_of_the_same_change() {
    let folder = Folder::with_files([("f", "text")]);
    let all = |prefix: &str| {
        let faulty = Plugin::faulty("a", folder.path()).config("prefix", prefix);
        config_with_compile_limit("deadline", "1h").plugin(never_compiles(&folder, "z")).plugin(faulty)
    };
    let config = all("").write();
    let mut wire = RawStdio::start_before_plugins_load(&config, REVISION).await;
    config.replace(all("new "));
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "new text");
    wait_until("the compiler goes on", || wire.child_count() == 1).await;
    let _compiler = wire.kill_children_on_drop();
    wire.signal(Signal::TERM);
    wire.wait_clean_exit().await;
}

#[tokio::test]
async fn a_newer_config_takes_the_place_of_one_that_is_still_being_loaded() {
    let folder = Folder::with_files([("f", "text")]);
    let with = |prefix: &str| {
        config_with_compile_limit("deadline", "1h").plugin(Plugin::faulty("a", folder.path()).config("prefix", prefix))
    };
    let config = with("").write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    config.replace(with("never ").plugin(never_compiles(&folder, "z")));
    wait_until("a compiler runs", || wire.child_count() == 1).await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text", "all or nothing");
    config.replace(with("newest "));
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "newest text");
    wait_until("the compiler is ended", || wire.child_count() == 0).await;
    wire.end().await;
}

#[tokio::test]
async fn a_component_that_does_not_compile_is_not_tried_again_for_a_change_that_does_not_touch_it() {
    let folder = Folder::with_files([("f", "text")]);
    let slow = never_compiles(&folder, "z");
    // The good plugin is compiled before, within the default limits.
    compile(Plugin::faulty("a", folder.path())).await;
    let with = |prefix: &str| {
        let faulty = Plugin::faulty("a", folder.path()).config("prefix", prefix);
        config_with_compile_limit("cpu", "1s").plugin(slow.clone()).plugin(faulty)
    };
    let config = with("").write();
    let wire = RawStdio::start(&config, REVISION).await;
    for (generation, prefix) in [(2, "one"), (3, "two")] {
        config.replace(with(prefix));
        wire.log_line(&format!("generation={generation}")).await;
    }
    // In a new config, the component is still the same.
    let again = folder.path().join("again.wasm");
    fs::copy(folder.path().join("z.wasm"), &again).unwrap();
    config.replace(with("two").plugin(Plugin::new("again", &again, "again:///")));
    wire.log_line("reload failed").await;
    let compiled = |log: &str| count_compilations(log, "z.wasm") + count_compilations(log, "again.wasm");
    assert_eq!(compiled(&wire.log()), 1, "{}", wire.log());
    // A manual reload retries the compilation.
    wire.signal(Signal::HUP);
    wait_until("it is compiled again", || compiled(&wire.log()) == 2).await;
    wire.end().await;
}

#[tokio::test]
async fn a_plugin_that_cannot_describe_itself_at_the_start_comes_back_by_itself() {
    let folder = Folder::with_files([("f", "text"), (".faults/describe.trap", "")]);
    let config = ConfigFile::new().plugin(Plugin::faulty("a", folder.path())).plugin(Plugin::misbehaving("b")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    wire.log_line("cannot describe itself").await;
    let refused = wire.read("faulty://a/f").await.unwrap_err();
    assert_eq!(refused["data"]["kind"], "unavailable");
    assert!(refused["data"]["retryAfterMs"].is_u64(), "{refused}");
    assert_eq!(wire.read("misbehaving://b/good").await.unwrap(), "good");
    fs::remove_file(folder.path().join(".faults/describe.trap")).unwrap();
    wire.notification(LISTING).await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    let log = wire.end().await.log;
    assert_eq!(log.matches("cannot describe itself").count(), 1, "{log}");
    assert_eq!(log.matches("is served now").count(), 1, "{log}");
}

#[tokio::test]
async fn a_reload_whose_plugin_cannot_describe_itself_is_tried_again_by_itself() {
    let folder = Folder::with_files([("f", "text"), (".faults/none", "")]);
    let faulty = || Plugin::faulty("a", folder.path());
    let config = ConfigFile::new().plugin(faulty()).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    folder.write(".faults/describe.trap", "");
    config.replace(ConfigFile::new().plugin(faulty().config("prefix", "new ")));
    let line = wire.log_line("reload failed").await;
    assert!(line.contains("tried again"), "{line}");
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    fs::remove_file(folder.path().join(".faults/describe.trap")).unwrap();
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "new text");
    wire.end().await;
}

#[tokio::test]
async fn a_server_can_be_ended_while_everything_compiles() {
    let folder = Folder::with_files::<&str, &str>([]);
    let assert_nothing_failed = |log: &str| {
        let is_failure = log.contains("could not be loaded") || log.contains("failed=1");
        assert!(!is_failure, "what was not compiled has not failed: {log}");
    };
    // Before anything is served. The compiler continues without the server.
    let config = config_with_compile_limit("deadline", "30s").plugin(never_compiles(&folder, "y")).write();
    let mut command = host_command();
    command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(config.path());
    let mut server = command.stdin(Pipe::null()).stdout(Pipe::null()).stderr(Pipe::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    // The signal handler is installed before.
    while !lines.next_line().await.unwrap().expect("it compiles").contains("compiling a component") {}
    let id = rustix::process::Pid::from_raw(server.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(id, Signal::TERM).unwrap();
    let ending = async {
        let mut log = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            log.push_str(&line);
            log.push('\n');
        }
        (server.wait().await.unwrap(), log)
    };
    let (status, log) = tokio::time::timeout(TIMEOUT, ending).await.expect("it ends");
    assert!(status.success(), "{status}: {log}");
    assert_nothing_failed(&log);

    // While the server serves.
    let config = config_with_compile_limit("deadline", "1h").plugin(never_compiles(&folder, "z")).write();
    let wire = RawStdio::start_before_plugins_load(&config, REVISION).await;
    wait_until("a compiler runs", || wire.child_count() == 1).await;
    let _compiler = wire.kill_children_on_drop();
    wire.signal(Signal::TERM);
    assert_nothing_failed(&wire.wait_clean_exit().await.log);
}

#[tokio::test]
async fn a_rule_that_matches_no_mount_is_told_with_the_nearest() {
    let all = ConfigFile::new().plugin(Plugin::misbehaving("a")).allow_all();
    let config = all
        .rule(Rule::for_principal("*").deny(["misbehavin://a/secrets/**", "misbehaving://a/ok/**", "**/.env"]))
        .write();
    let path = config.path();
    let file = fs::read_to_string(&path).unwrap();
    let line = 1 + file.lines().enumerate().filter(|(_, line)| *line == "[[rule]]").nth(1).unwrap().0;
    let said = &*format!(
        "`deny` of rule 2 (line {line}) has `misbehavin://a/secrets/**`, which matches nothing below any mount; the most \
         similar mount is `misbehaving://a/`"
    );
    let check = |options: &'static [&str]| {
        run(["check", "--config", path.to_str().unwrap()].into_iter().chain(options.iter().copied()).map(str::to_owned))
    };
    let checked = check(&[]).await.success();
    assert!(checked.text().contains(said), "{}", checked.text());
    assert_eq!(check(&["--json"]).await.success().json()["warnings"], json!([said]));
    assert_eq!(check(&["--strict"]).await.code(), 1);
    let wire = RawStdio::start(&config, REVISION).await;
    let log = wire.end().await.log;
    assert_eq!(log.matches("matches nothing below any mount").count(), 1, "{log}");
    assert!(log.contains(said), "{log}");
}

#[tokio::test]
async fn of_many_rules_that_match_no_mount_the_first_are_told() {
    let globs = |scheme: &str| (0..50).map(|number| format!("{scheme}://a/{number}")).collect();
    let with = |scheme: &str| {
        ConfigFile::new().plugin(Plugin::misbehaving("a")).rule(Rule::for_principal("*").deny_globs(globs(scheme)))
    };
    let config = with("gone").write();
    let wire = RawStdio::start(&config, REVISION).await;
    wire.log_line("and 30 more warnings").await;
    config.replace(with("lost"));
    wait_until("it is told again", || wire.log().matches("and 30 more warnings").count() == 2).await;
    let log = wire.end().await.log;
    assert_eq!(log.matches("matches nothing below any mount").count(), 40, "{log}");
}
