//! Reload of a running server: another config or another component, without a failure for any connected client.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, RawStdio, Revision, Rule, component, fixture};
use rustix::process::Signal;
use serde_json::{Value, json};

const UPDATED: &str = "notifications/resources/updated";
const LISTING: &str = "notifications/resources/list_changed";
const REVISION: Revision = Revision::V_2025_11_25;

async fn next_updated(wire: &mut RawStdio) -> String {
    wire.notification(UPDATED).await["params"]["uri"].as_str().unwrap().to_owned()
}

/// A config with the component at this path.
fn config_with_component(file: &Path) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::new("x", file, "x:///"))
}

#[tokio::test]
async fn an_edited_config_counts_and_sessions_and_subscriptions_go_on() {
    let folder = Folder::with_files([("f", "text")]);
    let faulty = Plugin::faulty("a", folder.path());
    let config = ConfigFile::new().plugin(faulty.clone()).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    wire.subscribe("faulty://a/f").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");

    let other = Plugin::faulty("b", folder.path());
    config.replace(ConfigFile::new().plugin(faulty.config("prefix", "new: ")).plugin(other));
    let line = wire.log_line("generation=2").await;
    assert!(line.contains("added=\"b\" changed=\"a\" removed=\"\""), "{line}");
    // Both notifications are sent, in any order.
    let mut told = wire.take_notifications();
    let is_told = |told: &[Value], method: &str| told.iter().any(|message| message["method"] == method);
    while !(is_told(&told, UPDATED) && is_told(&told, LISTING)) {
        told.push(wire.message().await.expect("both are told"));
    }
    assert!(told.iter().all(|message| message["method"] != UPDATED || message["params"]["uri"] == "faulty://a/f"));
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "new: text");
    assert_eq!(wire.read("faulty://b/f").await.unwrap(), "text");
    folder.write("f", "changed");
    assert_eq!(next_updated(&mut wire).await, "faulty://a/f");
    wire.end().await;
}

#[tokio::test]
async fn a_component_that_is_renamed_to_or_written_over_is_loaded_when_it_is_whole() {
    let folder = Folder::with_files([("x.wasm", fs::read(component("hello")).unwrap())]);
    let file = folder.path().join("x.wasm");
    let config = config_with_component(&file).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    assert_eq!(wire.read("x:///world").await.unwrap(), "Hello, world!");

    fs::copy(fixture("misbehaving"), folder.path().join("aside")).unwrap();
    fs::rename(folder.path().join("aside"), &file).unwrap();
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("x:///good").await.unwrap(), "good");

    let bytes = fs::read(component("hello")).unwrap();
    fs::write(&file, &bytes).unwrap();
    wire.log_line("generation=3").await;
    assert_eq!(wire.read("x:///world").await.unwrap(), "Hello, world!");

    let bytes = fs::read(fixture("misbehaving")).unwrap();
    let (half, rest) = bytes.split_at(bytes.len() / 2);
    let mut writing = fs::File::create(&file).unwrap();
    writing.write_all(half).unwrap();
    let line = wire.log_line("reload failed").await;
    assert!(line.contains("plugin `x`"), "{line}");
    assert_eq!(wire.read("x:///world").await.unwrap(), "Hello, world!");
    writing.write_all(rest).unwrap();
    drop(writing);
    wire.log_line("generation=4").await;
    assert_eq!(wire.read("x:///good").await.unwrap(), "good");
    wire.end().await;
}

#[tokio::test]
async fn a_config_with_a_mistake_is_told_with_its_line_and_the_old_one_serves() {
    let folder = Folder::with_files([("f", "text")]);
    let faulty = || Plugin::faulty("a", folder.path());
    let config = ConfigFile::new().plugin(faulty()).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let good = fs::read_to_string(config.path()).unwrap();
    config.replace_text(&format!("{good}\n[[plugin]]\nname = \"b\"\nconponent = \"b.wasm\"\nmount = \"b:///\"\n"));
    wire.log_line("reload failed").await;
    wire.log_line("conponent = \"b.wasm\"").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    config.replace(ConfigFile::new().plugin(faulty().config("prefix", "mended ")));
    let line = wire.log_line("the config is valid again").await;
    assert!(line.contains("INFO") && line.contains("generation=2"), "{line}");
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "mended text");
    wire.end().await;
}

#[tokio::test]
async fn a_component_that_comes_after_the_config_that_names_it_is_noticed() {
    let folder = Folder::with_files([("f", "text")]);
    let faulty = || Plugin::faulty("a", folder.path());
    let config = ConfigFile::new().plugin(faulty()).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let late = folder.path().join("components/late.wasm");
    config.replace(ConfigFile::new().plugin(faulty()).plugin(Plugin::new("late", &late, "late:///")));
    wire.log_line("there is no file at").await;
    fs::create_dir(folder.path().join("components")).unwrap();
    fs::copy(component("hello"), &late).unwrap();
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("late:///world").await.unwrap(), "Hello, world!");
    wire.end().await;
}

#[tokio::test]
async fn a_plugin_that_does_not_load_keeps_all_as_it_was_unless_it_was_like_that_before() {
    let folder = Folder::with_files([("f", "text"), ("broken.wasm", "no component")]);
    let faulty = || Plugin::faulty("a", folder.path());
    let broken = |name: &str| Plugin::new(name, &folder.path().join("broken.wasm"), &format!("{name}:///"));
    let config = ConfigFile::new().plugin(faulty()).plugin(broken("old")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let next = || ConfigFile::new().plugin(faulty().config("prefix", "new ")).plugin(broken("old"));
    config.replace(next().plugin(broken("new")));
    let line = wire.log_line("reload failed").await;
    assert!(line.contains("plugin `new`") && !line.contains("plugin `old`"), "{line}");
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    config.replace(next());
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "new text");
    wire.end().await;
}

#[tokio::test]
async fn a_config_behind_links_as_config_maps_have_it_is_noticed() {
    let folder = Folder::with_files([("f", "text")]);
    let faulty = || Plugin::faulty("a", folder.path());
    let written = ConfigFile::new().plugin(faulty()).write();
    let map = Folder::with_files([("..1/mcp-host.toml", fs::read(written.path()).unwrap())]);
    map.symlink("..data", "..1");
    map.symlink("mcp-host.toml", "..data/mcp-host.toml");
    let mut wire = RawStdio::start_at(&map.path().join("mcp-host.toml"), &[], REVISION).await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");

    written.replace(ConfigFile::new().plugin(faulty().config("prefix", "new ")));
    map.write("..2/mcp-host.toml", fs::read(written.path()).unwrap());
    symlink("..2", map.path().join("..data_tmp")).unwrap();
    fs::rename(map.path().join("..data_tmp"), map.path().join("..data")).unwrap();
    wire.log_line("generation=2").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "new text");
    wire.end().await;
}

#[tokio::test]
async fn sighup_reloads_and_says_so_even_if_nothing_changed() {
    let folder = Folder::with_files([("f", "text")]);
    let config = ConfigFile::new().plugin(Plugin::faulty("a", folder.path())).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    wire.signal(Signal::HUP);
    wire.log_line("nothing changed").await;
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    wire.end().await;
}

#[tokio::test]
async fn sighup_and_the_end_of_the_server_say_how_often_responses_were_cached() {
    let config = ConfigFile::new().plugin(Plugin::sample("used")).plugin(Plugin::sample("unused")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    for _ in 0..3 {
        wire.request("resources/read", json!({ "uri": "sample://used/binary" })).await.result();
    }
    wire.signal(Signal::HUP);
    // The first read makes no lookup, because no time to live is known.
    let counts = "lookups in the response cache since the plugin was loaded plugin=\"used\" hits=1 misses=1";
    wire.log_line(counts).await;
    wire.log_line("nothing changed").await;
    let log = wire.end().await.log;
    assert_eq!(log.matches(counts).count(), 2, "{log}");
    assert!(!log.contains("plugin=\"unused\" hits"), "{log}");
}

/// Returns whether this process, and therefore its children, ignore SIGHUP: it runs under `nohup`.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}

#[tokio::test]
async fn without_reload_nothing_is_watched_and_sighup_ends_the_server() {
    let folder = Folder::with_files([("f", "text")]);
    let faulty = Plugin::faulty("a", folder.path());
    let config = ConfigFile::new().plugin(faulty.clone()).write();
    let mut wire = RawStdio::start_at(&config.path(), &["--no-reload"], REVISION).await;
    config.replace(ConfigFile::new().plugin(faulty.config("prefix", "new ")));
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
    wire.signal(Signal::HUP);
    // A process inherits the set of ignored signals.
    if is_hangup_ignored() {
        assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text", "as `nohup` promises");
        wire.end().await;
        return;
    }
    let ended = wire.wait_exit().await;
    assert_eq!(ended.code, None, "{}", ended.log);
    assert!(!ended.log.contains("reload"), "{}", ended.log);
}

#[tokio::test]
async fn a_read_under_way_is_finished_by_the_plugin_that_it_began_with() {
    let config = ConfigFile::new().plugin(Plugin::misbehaving("u")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let id = wire.send_request("resources/read", json!({ "uri": "misbehaving://u/slow?ms=2000" })).await;
    wire.log_line("a slow read has begun").await;
    config.replace(ConfigFile::new().plugin(Plugin::misbehaving("v")));
    let line = wire.log_line("generation=2").await;
    assert!(line.contains("added=\"v\" changed=\"\" removed=\"u\""), "{line}");
    let answer = wire.response_to(id).await;
    assert_eq!(answer.result()["contents"][0]["text"], "slow");
    let answer = wire.request("resources/read", json!({ "uri": "misbehaving://u/good" })).await;
    assert_eq!(answer.error_code(), -32002);
    wire.end().await;
}

#[tokio::test]
async fn a_subscription_whose_plugin_goes_away_sleeps_until_it_is_back() {
    let folder = Folder::with_files([("f", "text")]);
    let with_a = || ConfigFile::new().plugin(Plugin::faulty("a", folder.path()));
    let with_b = || ConfigFile::new().plugin(Plugin::faulty("b", folder.path()));
    let config = with_a().write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    wire.subscribe("faulty://a/f").await;
    config.replace(with_b());
    wire.log_line("generation=2").await;
    assert_eq!(next_updated(&mut wire).await, "faulty://a/f", "it went away");
    folder.write("f", "changed while it was gone");
    config.replace(with_a());
    wire.log_line("generation=3").await;
    assert_eq!(next_updated(&mut wire).await, "faulty://a/f", "it is back");
    assert_eq!(wire.read("faulty://a/f").await.unwrap(), "changed while it was gone");
    folder.write("f", "changed after that");
    assert_eq!(next_updated(&mut wire).await, "faulty://a/f");
    wire.end().await;
}

#[tokio::test]
async fn new_rules_count_for_subscriptions_too() {
    let folder = Folder::with_files([("f", "text"), ("g", "text")]);
    let all = || ConfigFile::new().plugin(Plugin::faulty("a", folder.path()));
    let config = all().write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    for uri in ["faulty://a/f", "faulty://a/g"] {
        wire.subscribe(uri).await;
    }
    config.replace(all().rule(Rule::for_principal("local").deny(["faulty://a/f"])));
    wire.log_line("generation=2").await;
    folder.write("f", "changed in secret");
    folder.write("g", "changed");
    assert_eq!(next_updated(&mut wire).await, "faulty://a/g");
    config.replace(all());
    wire.log_line("generation=3").await;
    assert_eq!(next_updated(&mut wire).await, "faulty://a/f", "it may be read again");
    wire.end().await;
}

#[tokio::test]
async fn a_cursor_leads_on_after_a_reload() {
    let folder = Folder::with_files([("f", "text")]);
    let faulty = |name| Plugin::faulty(name, folder.path());
    let config = ConfigFile::new().page_size(1).plugin(faulty("a")).plugin(faulty("c")).write();
    let mut wire = RawStdio::start(&config, REVISION).await;
    let page = wire.request("resources/list", json!({})).await;
    assert_eq!(page.result()["resources"][0]["uri"], "faulty://a/f");
    config.replace(ConfigFile::new().page_size(1).plugin(faulty("b")).plugin(faulty("c")));
    wire.log_line("generation=2").await;
    let page = wire.request("resources/list", json!({ "cursor": page.result()["nextCursor"] })).await;
    assert_eq!(page.result()["resources"][0]["uri"], "faulty://c/f");
    wire.end().await;
}

#[tokio::test]
async fn what_counts_after_a_restart_only_is_said() {
    let folder = Folder::with_files([("f", "text")]);
    let all =
        |name: &str| ConfigFile::new().server("name", name).plugin(Plugin::faulty("a", folder.path())).allow_all();
    let config = all("before").server("http", "127.0.0.1:0").write();
    let server = HttpServer::start(&config).await;
    let after = all("after").server("http", "127.0.0.1:1").server("cursor-key", cursor_key_source(config.dir()));
    config.replace(after.http("keep-alive", "1s"));
    server.log_line("generation=2").await;
    server.log_line("`http.keep-alive` changed").await;
    server.log_line("`server.cursor-key` changed").await;
    let client = server.client(REVISION).await;
    assert_eq!(client.peer().peer_info().unwrap().server_info.as_ref().unwrap().name, "after");
    let log = server.end().await.log;
    assert!(!log.contains("`server.http`"), "the command line says where to listen: {log}");
}

/// Returns the source of a cursor key: a file.
fn cursor_key_source(dir: &Path) -> toml::Table {
    fs::write(dir.join("key"), "00".repeat(32)).unwrap();
    toml::Table::from_iter([("file".to_owned(), dir.join("key").to_str().unwrap().into())])
}

#[tokio::test]
async fn rules_count_at_once_whatever_else_of_the_machine_is_missing() {
    let folder = Folder::with_files([("f", "text")]);
    let served = || ConfigFile::new().plugin(Plugin::faulty("a", folder.path()));
    for section in [
        "[[trust]]\nsources = [\"oci://registry.example/\"]\nkeys = [{ file = \"gone.pub\" }]\n",
        "[registry]\nca = [\"gone.pem\"]\n",
        "[telemetry]\notlp = \"http://127.0.0.1:4318\"\nheaders = { authorization = { file = \"gone\" } }\n",
        "[admin]\nlisten = \"127.0.0.1:0\"\ntoken = { file = \"gone\" }\n",
    ] {
        let config = served().rule(Rule::for_principal("*").allow(["**"])).write();
        let mut wire = RawStdio::start(&config, REVISION).await;
        assert_eq!(wire.read("faulty://a/f").await.unwrap(), "text");
        let rule = Rule::for_principal("*").allow(["**"]).deny(["faulty://a/f"]);
        config.replace(served().rule(rule).append(&format!("\n{section}")));
        wire.log_line("reload failed; keeping the current plugins").await;
        let denied = wire.read("faulty://a/f").await.unwrap_err();
        assert_eq!(denied["code"], -32002, "{section}: {denied}");
        wire.end().await;
    }
}
