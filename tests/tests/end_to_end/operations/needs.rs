//! Declared needs of a provider: the custom section `mcp-host:needs/v1`, in `inspect` and in `check`.

use std::fs;
use std::path::{Path, PathBuf};

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, Output, Plugin, RawStdio, Revision, WatProvider, WrittenConfig, component, fixture,
    run,
};
use serde_json::{Value, json};
use wasm_encoder::{ComponentSection as _, CustomSection};

/// The hello provider with these sections, in a new folder.
fn with_sections(sections: &[&[u8]]) -> (Folder, PathBuf) {
    let mut bytes = fs::read(component("hello")).unwrap();
    for data in sections {
        CustomSection { name: "mcp-host:needs/v1".into(), data: (*data).into() }.append_to_component(&mut bytes);
    }
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.write("hello.wasm", bytes);
    (folder, file)
}

async fn inspect(file: &Path) -> Value {
    run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]).await.success().json()
}

async fn check(config: &WrittenConfig, arguments: &[&str]) -> Output {
    let path = config.path();
    run([&["check", "--config", path.to_str().unwrap()], arguments].concat()).await
}

#[tokio::test]
async fn what_a_provider_asks_for_is_shown_as_an_entry_that_serves_it() {
    let repository = GitRepo::with_files([("README.md", "hello")]);
    let file = component("git");
    let report = inspect(&file).await;
    assert_eq!(
        report["needs"]["dirs"][0],
        json!({ "guest": "/repo", "mode": "ro", "why": report["needs"]["dirs"][0]["why"] })
    );
    assert_eq!(report["needs"]["config"]["max-blob"]["default"], "16MiB");
    assert_eq!(report["warnings"], json!([]));
    let table = report["plugin_table"].as_str().unwrap();
    let printed = run(["inspect".as_ref(), file.as_os_str()]).await.success().text();
    assert!(printed.ends_with(table), "{printed}");
    let filled = table.replace("PATH", repository.path().to_str().unwrap());
    assert_ne!(filled, table);
    let folder = Folder::with_files([("mcp-host.toml", filled)]);
    let config = folder.path().join("mcp-host.toml");
    let checked = run(["check", "--strict", "--json", "--config", config.to_str().unwrap()]).await.success().json();
    let plugin = &checked["plugins"][0];
    assert_eq!(
        (&plugin["name"], &plugin["mount"], &plugin["pinned"]),
        (&json!("git"), &json!("git:///"), &json!(true))
    );
    assert_eq!((&plugin["state"], &plugin["notes"]), (&json!("ok"), &json!([])));
}

#[tokio::test]
async fn what_is_not_granted_and_what_nobody_reads_is_a_note_and_no_warning() {
    let plugin = Plugin::new("hello", &component("hello"), "hello:///").config("nams", "Ada");
    let config = ConfigFile::new().plugin(plugin).write();
    let note = "it does not say that it reads `config.nams` (did you mean `names`?); it reads `names`";
    let checked = check(&config, &["--strict"]).await.success();
    assert!(checked.text().contains(&format!("hello: note: {note}\n")), "{}", checked.text());
    let report = check(&config, &["--json"]).await.success().json();
    assert_eq!((&report["plugins"][0]["notes"], &report["plugins"][0]["warnings"]), (&json!([note]), &json!([])));

    let asking = json!({ "dirs": [{ "guest": "/data", "why": "the \u{202e}data\n" }], "env": [{ "name": "LANG" }] });
    let (_folder, file) = with_sections(&[asking.to_string().as_bytes()]);
    let config = ConfigFile::new().plugin(Plugin::new("hello", &file, "hello:///").variable("LANG", "ja")).write();
    let checked = check(&config, &["--strict"]).await;
    let note = r#"hello: note: it asks for `/data (ro)` in `grants.dirs`, which is not granted ("the \u{202e}data\n")"#;
    assert!(checked.text().contains(note), "{}", checked.text());
    let path = config.path();
    let compared = ["inspect", file.to_str().unwrap(), "--plugin", "hello", "--config", path.to_str().unwrap()];
    assert!(run(compared).await.success().text().contains(note));
}

#[tokio::test]
async fn an_import_that_the_provider_asks_a_grant_for_is_missing_in_the_table_too() {
    let config = ConfigFile::new().plugin(Plugin::new("results", &component("results"), "results:///")).write();
    let report = check(&config, &["--json"]).await.json();
    let plugin = &report["plugins"][0];
    let requirements = plugin["requirements"].as_array().unwrap();
    let directories = requirements.iter().find(|one| one["capability"] == "directories").unwrap();
    assert_eq!(directories["status"], "missing", "{plugin:#}");
    let notes = plugin["notes"].to_string();
    assert!(notes.contains("it asks for `/results (ro)` in `grants.dirs`, which is not granted"), "{plugin:#}");
}

#[tokio::test]
async fn a_setting_of_another_type_than_the_provider_declares_is_a_warning() {
    let asking = json!({ "config": { "lines": { "type": "integer", "why": "of a file" } } });
    let (_folder, file) = with_sections(&[asking.to_string().as_bytes()]);
    let plugin =
        |lines: &str| ConfigFile::new().plugin(Plugin::new("hello", &file, "hello:///").config("lines", lines));
    let config = plugin("two").write();
    let report = check(&config, &["--json"]).await.success().json();
    let warning = r#"the provider reads `config.lines` as integer, and the config has another type ("of a file")"#;
    assert_eq!(report["plugins"][0]["warnings"], json!([warning]));
    assert_eq!(check(&config, &["--strict"]).await.code(), 1);
    let config = plugin("2").write();
    check(&config, &["--strict"]).await.success();
}

#[tokio::test]
async fn imports_of_a_runtime_that_nobody_asks_a_grant_for_are_not_shown() {
    let config = ConfigFile::new().plugin(Plugin::new("hello", &component("hello"), "hello:///")).write();
    let checked = check(&config, &[]).await.success().text();
    assert!(!checked.contains("grants.dirs") && !checked.contains("grants.env"), "{checked}");
    // A provider without declared needs may need everything that it imports.
    let config = ConfigFile::new().plugin(Plugin::sample("sample")).write();
    let checked = check(&config, &[]).await.success().text();
    assert!(checked.contains("grants.env"), "{checked}");
}

#[tokio::test]
async fn limits_that_a_provider_asks_for_are_shown_and_change_no_limit() {
    let asking = json!({ "limits": {
        "memory": { "min": "256MiB", "why": "the index" },
        "cpu": { "min": "500ms" },
        "prepare.cpu": { "min": "5m" },
    } });
    let (_folder, file) = with_sections(&[asking.to_string().as_bytes()]);
    let report = inspect(&file).await;
    assert_eq!(report["needs"]["limits"], asking["limits"]);
    let table = report["plugin_table"].as_str().unwrap();
    let lines = "limits.memory = \"256MiB\"   # the index\n# limits.cpu = \"500ms\"   # the default suffices\n";
    assert!(table.contains(&format!("{lines}limits.prepare.cpu = \"5m\"\n")), "{table}");

    let memory = "it asks for `limits.memory` of at least 256MiB, and the plugin has 64MiB (\"the index\")";
    let plugin = || Plugin::new("hello", &file, "hello:///");
    let config = ConfigFile::new().plugin(plugin()).write();
    let report = check(&config, &["--strict", "--json"]).await.success().json();
    assert_eq!((&report["plugins"][0]["notes"], &report["plugins"][0]["warnings"]), (&json!([memory]), &json!([])));
    let path = config.path();
    let compared = ["inspect", file.to_str().unwrap(), "--plugin", "hello", "--config", path.to_str().unwrap()];
    assert!(run(compared).await.success().text().contains(&format!("hello: note: {memory}")));

    let config = ConfigFile::new().plugin(plugin().limit("memory", "256MiB").limit("cpu", "100ms")).write();
    let report = check(&config, &["--json"]).await.success().json();
    let cpu = "it asks for `limits.cpu` of at least 500ms, and the plugin has 100ms";
    assert_eq!(report["plugins"][0]["notes"], json!([cpu]));
}

#[tokio::test]
async fn the_line_that_lets_a_provider_prepare_has_what_it_asks_for() {
    let asking = json!({ "limits": { "prepare.cpu": { "min": "5m" }, "prepare.memory": { "min": "32MiB" } } });
    let mut bytes = fs::read(fixture("preparing")).unwrap();
    let data = asking.to_string().into_bytes().into();
    CustomSection { name: "mcp-host:needs/v1".into(), data }.append_to_component(&mut bytes);
    let folder = Folder::with_files([("source", "text")]);
    let file = folder.write("preparing.wasm", bytes);
    let plugin = || Plugin::new("p", &file, "preparing://p/").writable_dir(folder.path(), "/data", "1MiB");
    let config = ConfigFile::new().plugin(plugin()).write();
    let report = check(&config, &["--json"]).await.success().json();
    let notes = report["plugins"][0]["notes"].to_string();
    assert!(notes.contains(r#"add `limits.prepare = { cpu = \"5m\", memory = \"64MiB\" }`"#), "{notes}");
    assert!(!notes.contains("at least"), "it is said once: {notes}");

    let prepare = toml::Table::from_iter([("cpu".to_owned(), toml::Value::from("1m"))]);
    let config = ConfigFile::new().plugin(plugin().limit("prepare", prepare)).write();
    let report = check(&config, &["--json"]).await.success().json();
    let notes = report["plugins"][0]["notes"].to_string();
    assert!(notes.contains("it asks for `limits.prepare.cpu` of at least 5m, and the plugin has 1m"), "{notes}");
}

#[tokio::test]
async fn a_section_that_is_invalid_or_there_twice_is_a_warning_and_the_provider_is_served() {
    let large = [b"{}".to_vec(), vec![b' '; 65 * 1024]].concat();
    let deep = b"[".repeat(60_000);
    let hostile: [(&[&[u8]], &str); 7] = [
        (&[&large], "it has 66562 bytes, more than 65536"),
        (&[b"{}", b"{}"], "the component has 2 of them, and only one counts"),
        (&[b"{\"env\": \"\xff\"}"], "it is not UTF-8"),
        (&[b"{\"\x1b[2J\": 1}"], "control character"),
        (&["{\"\u{202e}\u{2028}\": 1}".as_bytes()], r"unknown field `\u{202e}\u{2028}`"),
        (&[&deep], "recursion limit"),
        (&[b""], "EOF"),
    ];
    for (sections, expected) in hostile {
        let (_folder, file) = with_sections(sections);
        let config = ConfigFile::new().plugin(Plugin::new("hello", &file, "hello:///")).write();
        let report = check(&config, &["--json"]).await.success().json();
        let plugin = &report["plugins"][0];
        assert_eq!((&plugin["state"], &plugin["notes"]), (&json!("ok"), &json!([])));
        let warnings = plugin["warnings"].as_array().unwrap();
        let warning = warnings[0].as_str().unwrap();
        assert!(warnings.len() == 1 && warning.contains(expected) && warning.len() < 500, "{expected}: {warnings:?}");
        assert!(
            warning.starts_with("its custom section `mcp-host:needs/v1`, what it asks for, is ignored: "),
            "{warning}"
        );
        assert_eq!(check(&config, &["--strict"]).await.code(), 1);
        let inspected = inspect(&file).await;
        assert_eq!((&inspected["needs"], &inspected["plugin_table"]), (&Value::Null, &Value::Null));
        assert_eq!(inspected["warnings"], json!([warning]));
        let mut server = RawStdio::start(&config, Revision::V_2025_11_25).await;
        let listed = server.request("resources/list", json!({})).await.result().clone();
        assert_eq!(listed["resources"].as_array().unwrap().len(), 1, "{expected}");
        let line = server.log_line("its custom section `mcp-host:needs/v1`, what it asks for, is ignored: ").await;
        assert!(line.contains("WARN") && line.contains(r#"plugin="hello""#), "{line}");
        server.end().await;
    }
}

#[tokio::test]
async fn no_text_of_a_publisher_leaves_its_place_in_the_table() {
    let text = "\"]\n[[rule]]\nprincipals = [\"*\"]\nallow = [\"**\"]\n#\u{1b}[2J\u{202e}\r\\";
    let asking = json!({
        "dirs": [{ "guest": "/a\"] }]#", "why": text }],
        "config": { "key\"]#\\": { "type": "array", "default": [text], "why": text } },
    });
    let (_folder, file) = with_sections(&[asking.to_string().as_bytes()]);
    let printed = run(["inspect".as_ref(), file.as_os_str()]).await.success().text();
    assert!(!printed.contains(['\u{1b}', '\u{202e}', '\r']) && !printed.contains("\n[[rule]]"), "{printed}");
    let table = printed.split_once("[[plugin]]").unwrap().1;
    let folder = Folder::with_files([("mcp-host.toml", format!("[[plugin]]{}", table.replace("PATH", ".")))]);
    let config = folder.path().join("mcp-host.toml");
    let report = run(["check", "--json", "--config", config.to_str().unwrap()]).await.success().json();
    assert_eq!((&report["plugins"][0]["state"], &report["plugins"][0]["notes"]), (&json!("ok"), &json!([])));
}

#[tokio::test]
async fn a_build_of_a_core_module_embeds_what_a_file_asks_for() {
    let folder =
        Folder::with_files([("needs.json", r#"{ "env": [{ "name": "LANG" }] }"#), ("bad.json", r#"{ "evn": [] }"#)]);
    let core = folder.write("a.core.wasm", WatProvider::new().core_module());
    let componentize = async |needs: &str| {
        let needs = folder.path().join(needs);
        run(["componentize", core.to_str().unwrap(), "--needs", needs.to_str().unwrap()]).await
    };
    let refused = componentize("bad.json").await;
    assert_eq!(refused.code(), 1);
    assert!(refused.stderr.contains("bad.json cannot be embedded: unknown field `evn`"), "{}", refused.stderr);
    assert!(!folder.path().join("a.wasm").exists());
    componentize("needs.json").await.success();
    let file = folder.path().join("a.wasm");
    let inspected = run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]).await.json();
    assert_eq!(inspected["needs"]["env"], json!([{ "name": "LANG" }]));
}
