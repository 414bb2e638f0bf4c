//! Components that cannot be loaded, with good ones that are still served.

use std::path::{Path, PathBuf};

use mcp_host_tests::{ConfigFile, Folder, GitRepo, Plugin, RawStdio, Revision, StdioServer, fixture, run};
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

/// A file that is not a provider, and the expected error message.
struct BrokenComponent {
    name: &'static str,
    file: PathBuf,
    said: &'static str,
}

/// Every kind of file that is not a provider.
fn write_broken_components(folder: &Folder) -> Vec<BrokenComponent> {
    let wat = |text: &str| wat::parse_str(text).unwrap();
    let whole = std::fs::read(fixture("raw")).unwrap();
    let unknown = r#"(component (import "acme:unknown/thing@1.0.0" (instance (export "f" (func)))))"#;
    let lies = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $provider (export "describe" (func $f)))
        (export "mcp-host:provider/resource-provider@0.1.0" (instance $provider)))"#;
    let files: [(&str, Vec<u8>, &str); 8] = [
        (
            "text",
            b"This is no component, but a letter.\n".to_vec(),
            "it does not begin with the magic number of WebAssembly",
        ),
        ("empty", Vec::new(), "it is empty"),
        ("core", wat("(module)"), "it is a core module"),
        ("cut-off", whole[..whole.len() / 2].to_vec(), "cannot compile"),
        ("garbled", [&wat("(component)")[..], &[0xff; 64]].concat(), "cannot compile"),
        ("bare", wat("(component)"), "is a component but no provider"),
        ("strange", wat(unknown), "acme:unknown/thing@1.0.0"),
        ("lies", wat(lies), "is a component but no provider"),
    ];
    let broken = files.map(|(name, bytes, said)| BrokenComponent {
        name,
        file: folder.write(format!("{name}.wasm"), bytes),
        said,
    });
    broken.into()
}

fn plugin(name: &str, file: &Path) -> Plugin {
    Plugin::new(name, file, &format!("broken://{name}/"))
}

fn missing(result: &Value) -> Vec<&Value> {
    result["_meta"]["mcp-host/missing"].as_array().map(|all| all.iter().collect()).unwrap_or_default()
}

#[tokio::test]
async fn good_plugins_are_served_beside_all_kinds_of_broken_ones() {
    let folder = Folder::with_files::<&str, &str>([]);
    let broken = write_broken_components(&folder);
    let repo = GitRepo::with_files([("README.md", "hello")]);
    let config = broken.iter().fold(ConfigFile::new().plugin(Plugin::git("repo", repo.path())), |config, one| {
        config.plugin(plugin(one.name, &one.file))
    });
    let config = config.write();
    let server = StdioServer::start(&config).await;
    let client = server.client();

    let page = client.page(None).await.unwrap();
    assert_eq!(page.resources.len(), 1, "{page:?}");
    let page = serde_json::to_value(page).unwrap();
    let mut named: Vec<_> = missing(&page).into_iter().map(|one| one["plugin"].as_str().unwrap()).collect();
    let mut expected: Vec<_> = broken.iter().map(|one| one.name).collect();
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected);
    assert_eq!(client.text("git://repo/blob/main/README.md").await, "hello");

    for one in &broken {
        let error = client.read_error(&format!("broken://{}/x", one.name)).await;
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
        assert_eq!(error.data.unwrap(), json!({ "kind": "unavailable", "plugin": one.name }));
        assert!(!error.message.contains('/'), "no path of this machine: {}", error.message);
    }
    let log = server.end().await.log;
    for one in &broken {
        let file = format!("{}.wasm", one.name);
        let is_told = log.lines().any(|line| line.contains(&file) && line.contains(one.said));
        assert!(is_told, "{}: {}\n{log}", one.name, one.said);
    }
}

#[tokio::test]
async fn a_provider_that_cannot_describe_itself_is_not_loaded() {
    let mute = Plugin::new("mute", &fixture("raw"), "raw://mute/").config("describe", "trap");
    let good = Plugin::new("good", &fixture("raw"), "raw://good/");
    let config = ConfigFile::new().plugin(mute).plugin(good).write();
    let mut wire = RawStdio::start(&config, Revision::V_2026_07_28).await;
    let listed = wire.request("resources/list", json!({})).await;
    assert_eq!(listed.result()["resources"][0]["uri"], "raw://good/good");
    assert_eq!(missing(listed.result())[0]["plugin"], "mute");
    wire.close_stdin();
    assert!(wire.wait_clean_exit().await.log.contains("cannot describe itself"));
}

#[tokio::test]
async fn check_tells_what_is_wrong_with_each_and_fails() {
    let folder = Folder::with_files::<&str, &str>([]);
    let broken = write_broken_components(&folder);
    let config = broken.iter().fold(ConfigFile::new().plugin(Plugin::misbehaving("good")), |config, one| {
        config.plugin(plugin(one.name, &one.file))
    });
    let config = config.write();
    let path = config.path();
    let path = path.to_str().unwrap();
    let checked = run(["check", "--json", "--config", path]).await;
    assert_eq!(checked.code(), 1);
    let report = checked.json();
    let plugins = report["plugins"].as_array().unwrap();
    assert_eq!(plugins.len(), broken.len() + 1);
    for plugin in plugins {
        let name = plugin["name"].as_str().unwrap();
        match broken.iter().find(|one| one.name == name) {
            None => assert_eq!((&plugin["error"], &plugin["provider"]["name"]), (&Value::Null, &json!("misbehaving"))),
            Some(one) => assert!(plugin["error"].as_str().unwrap().contains(one.said), "{plugin}"),
        }
    }
    let checked = run(["check", "--config", path]).await;
    assert_eq!(checked.code(), 1);
    assert!(checked.stderr.contains("8 of 9 plugins do not work"), "{}", checked.stderr);
}

#[tokio::test]
async fn inspect_tells_what_is_wrong_with_a_file() {
    let folder = Folder::with_files::<&str, &str>([]);
    for one in write_broken_components(&folder) {
        let inspected = run(["inspect".as_ref(), one.file.as_os_str()]).await;
        assert_eq!(inspected.code(), 1, "{}", one.name);
        assert!(inspected.stderr.contains(one.said), "{}: {}", one.name, inspected.stderr);
    }
    let inspected = run(["inspect".as_ref(), folder.path().join("nowhere.wasm").as_os_str()]).await;
    assert_eq!(inspected.code(), 1);
    assert!(inspected.stderr.contains("cannot read the component"), "{}", inspected.stderr);
}

#[tokio::test]
async fn a_component_that_is_not_there_is_an_error_of_the_config() {
    let config = ConfigFile::new().plugin(plugin("gone", Path::new("/nowhere/gone.wasm"))).write();
    for command in ["serve", "check", "list"] {
        let ended = run([command, "--config", config.path().to_str().unwrap()]).await;
        assert_eq!(ended.code(), 2, "{command}");
        assert!(ended.stderr.contains("there is no file at `/nowhere/gone.wasm`"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_directory_that_goes_away_leaves_its_plugin_missing_and_comes_back_with_it() {
    let folder = Folder::with_files([("notes/a.md", "A")]);
    let notes = folder.path().join("notes");
    let aside = folder.path().join("aside");
    let config = ConfigFile::new().plugin(Plugin::notes("diary", &notes)).plugin(Plugin::misbehaving("good")).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(client.text("notes://diary/a.md").await, "A");
    std::fs::rename(&notes, &aside).unwrap();
    let error = client.read_error("notes://diary/a.md").await;
    assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
    assert!(!error.message.contains(folder.path().to_str().unwrap()), "{}", error.message);
    assert_eq!(client.text("misbehaving://good/good").await, "good");
    std::fs::rename(&aside, &notes).unwrap();
    assert_eq!(client.text("notes://diary/a.md").await, "A");
    server.end().await;
}
