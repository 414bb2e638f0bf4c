//! Faults during a search: the disk, a provider, the file of the index.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;
use std::time::Instant;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, TIMEOUT, fixture, has_user_namespaces, run};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{search, searched, uris, wait_until_found};

/// Waits until a search is partial and has results, and returns its result.
async fn wait_until_partial(wire: &mut RawStdio, query: &str) -> Value {
    loop {
        let result = search(wire, query).await;
        if result["partial"] == true && result["total"] != 0 {
            return result;
        }
    }
}

#[tokio::test]
async fn what_a_full_disk_leaves_out_makes_results_partial_until_there_is_space() {
    if !has_user_namespaces() {
        return;
    }
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = searched(&folder).write();
    let directory = config.dir().join("state/search");
    let mut wire = RawStdio::start_with_disk_at(&directory, "8M", &config, Revision::V_2025_11_25).await;
    wait_until_found(&mut wire, "needle", 1).await;
    let status = async |wire: &RawStdio| {
        let path = config.path();
        let arguments = ["index", "status", "--json", "--config", path.to_str().unwrap()];
        wire.run_in_namespace(arguments).await.success().json()["plugins"][0].clone()
    };
    assert_eq!((&status(&wire).await["complete"], &status(&wire).await["error"]), (&json!(true), &Value::Null));

    let filler = wire.path_in_namespace(&directory.join("filler"));
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
    folder.write("b.md", "another needle in a haystack of words\n".repeat(20_000));
    let result = wait_until_partial(&mut wire, "needle").await;
    assert_eq!((uris(&result), &result["incomplete"]), (vec!["files://f/a.md".to_owned()], &json!(["f"])));
    let line = wire.log_line("a plugin cannot be indexed").await;
    assert!(line.contains("the disk is full"), "{line}");
    let told = status(&wire).await;
    assert!(told["error"].as_str().is_some_and(|error| error.contains("the disk is full")), "{told}");

    drop(file);
    fs::remove_file(&filler).unwrap();
    wait_until_found(&mut wire, "needle", 2).await;
    let log = wire.log();
    assert_eq!(log.lines().filter(|line| line.contains("the disk is full")).count(), 1, "{log}");
    let told = status(&wire).await;
    assert_eq!((&told["error"], &told["complete"]), (&Value::Null, &json!(true)));
    wire.end().await;
}

#[tokio::test]
async fn what_the_index_has_no_room_for_is_told_wherever_it_is_searched() {
    let line = "needle in a haystack of words\n";
    let folder = Folder::with_files((0..40).map(|number| (format!("{number}.md"), line.repeat(1000))));
    let config = searched(&folder).search("max-size", "1MiB").write();
    let path = config.path();
    let command = async |arguments: &[&str]| run([arguments, &["--config", path.to_str().unwrap()]].concat()).await;
    let result = loop {
        let result = command(&["search", "needle", "--json"]).await.success().json();
        // A busy machine may end the search early.
        if result["total"] != 0 {
            break result;
        }
    };
    let found = result["total"].as_u64().unwrap();
    assert!(found > 0 && found < 40, "{result}");
    assert_eq!((&result["partial"], &result["incomplete"]), (&json!(true), &json!(["f"])));
    let status = command(&["index", "status", "--json"]).await.success().json()["plugins"][0].clone();
    assert_eq!((status["complete"].as_bool(), status["omitted"].as_u64()), (Some(true), Some(40 - found)));
    let text = command(&["index", "status"]).await.success().text();
    assert!(text.contains("the index is full (`search.max-size`)"), "{text}");
}

#[tokio::test]
async fn a_plugin_that_is_not_loaded_makes_results_partial() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let broken = Folder::with_files([("broken.wasm", "no component")]);
    let config = searched(&folder)
        .server("tools", vec!["search"])
        .server("tool-structured-content", true)
        .plugin(Plugin::new("broken", &broken.path().join("broken.wasm"), "broken:///").searched())
        .write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let result = loop {
        let params = json!({ "name": "search_resources", "arguments": { "query": "needle" } });
        let called = wire.request("tools/call", params).await.result()["structuredContent"].clone();
        if called["incomplete"] == json!(["broken"]) {
            break called;
        }
    };
    assert_eq!((uris(&result), &result["partial"]), (vec!["files://f/a.md".to_owned()], &json!(true)));
    wire.end().await;

    let config = ConfigFile::new()
        .server("tools", vec!["search"])
        .server("tool-structured-content", true)
        .plugin(Plugin::new("broken", &broken.path().join("broken.wasm"), "broken:///").searched())
        .write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let params = json!({ "name": "search_resources", "arguments": { "query": "needle" } });
    let called = wire.request("tools/call", params).await.result().clone();
    assert_eq!((&called["isError"], &called["structuredContent"]["incomplete"]), (&Value::Null, &json!(["broken"])));
    wire.end().await;
}

#[tokio::test]
async fn another_secret_is_another_source() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let secret = Folder::with_files([("token", "the first value of a secret")]);
    let plugin = Plugin::files("f", folder.path()).searched();
    let plugin = plugin.variable_from_file("TOKEN", &secret.path().join("token"));
    let config = ConfigFile::new().plugin(plugin).write();
    let path = config.path();
    let documents = async || {
        let status = run(["index", "status", "--json", "--config", path.to_str().unwrap()]).await.success().json();
        status["plugins"][0]["documents"].as_u64().unwrap()
    };
    run(["search", "needle", "--config", path.to_str().unwrap()]).await.success();
    assert_eq!(documents().await, 1);
    secret.write("token", "the second value of a secret");
    assert_eq!(documents().await, 0, "it may open something else");
    secret.write("token", "the first value of a secret");
    assert_eq!(documents().await, 1);
}

#[tokio::test]
async fn something_else_in_the_place_of_the_index_is_named_once() {
    let folder = Folder::with_files([("a.md", "needle")]);
    for (what, make) in [
        ("a directory", (|path| fs::create_dir(path).unwrap()) as fn(&Path)),
        ("a FIFO", |path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap()),
        ("a symbolic link", |path| symlink("/dev/zero", path).unwrap()),
    ] {
        let config = searched(&folder).write();
        let path = config.path();
        let index = config.dir().join("state/search/index.sqlite3");
        DirBuilder::new().recursive(true).mode(0o700).create(index.parent().unwrap()).unwrap();
        make(&index);
        let searched = run(["search", "needle", "--config", path.to_str().unwrap()]).await;
        let expected = format!("{}: expected a regular file, found {what}; move it away", index.display());
        let stderr = &searched.stderr;
        assert_eq!(stderr.matches(&expected).count(), 1, "{stderr}");
        assert!(!stderr.contains("chmod"), "{stderr}");
    }
}

#[tokio::test]
async fn bytes_of_the_index_that_were_overwritten_do_not_stop_a_server() {
    let files = (0..200).map(|number| (format!("{number}.txt"), format!("common word{number} ").repeat(50)));
    let folder = Folder::with_files(files);
    let config = searched(&folder).write();
    let path = config.path();
    run(["search", "common", "--config", path.to_str().unwrap()]).await.success();
    let index = config.dir().join("state/search/index.sqlite3");
    let size = fs::metadata(&index).unwrap().len();
    for page in [1, 3, 7, size / 4096 / 2, size / 4096 - 1] {
        let mut file = OpenOptions::new().write(true).open(&index).unwrap();
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xA5; 4096]).unwrap();
        drop(file);
        let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        // Damaged pages make the host rebuild the index, at the latest when they are written. The search that detects
        // the damage fails, and can be repeated.
        folder.write("0.txt", format!("common page{page}"));
        let uri = format!("search:///?q=page{page}");
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < TIMEOUT, "{}", wire.log());
            match wire.read(&uri).await {
                Ok(text) if serde_json::from_str::<Value>(&text).unwrap()["total"] == 1 => break,
                Ok(_) => {}
                Err(error) => assert_eq!(error["data"]["kind"], "unavailable", "{error}"),
            }
        }
        wire.end().await;
    }
}

#[tokio::test]
async fn the_index_is_consistent_whenever_its_host_is_killed() {
    let text = "some words of no importance, again and again; ".repeat(40);
    let files = (0..400).map(|number| (format!("{number}.txt"), format!("common word{number} {text}")));
    let folder = Folder::with_files(files);
    let config = searched(&folder).write();
    for round in 0..5 {
        let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        while search(&mut wire, "common").await["total"].as_u64().unwrap() <= round * 60 {}
        wire.signal(Signal::KILL);
        wire.wait_exit_unread().await;
        let index = rusqlite::Connection::open(config.dir().join("state/search/index.sqlite3")).unwrap();
        let check: String = index.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "round {round}");
        index.execute("INSERT INTO terms (terms) VALUES ('integrity-check')", []).unwrap();
        let counted: [u64; 2] = ["SELECT sum(documents) FROM sources", "SELECT count(*) FROM documents"]
            .map(|query| index.query_row(query, [], |row| row.get(0)).unwrap());
        assert_eq!(counted[0], counted[1], "round {round}");
    }
}

#[tokio::test]
async fn a_hundred_thousand_tiny_entries_are_indexed_in_bounded_memory_and_space() {
    let sizes = Plugin::new("sizes", &fixture("sizes"), "sizes:///")
        .config("count", 100_000)
        .limit("listing-items", 100_000)
        .searched();
    let config = ConfigFile::new().search("max-size", "4MiB").plugin(sizes).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    search(&mut wire, "text").await;
    let before = wire.rss();
    // Waits until the index is full.
    wire.log_line("the search index is full").await;
    let growth = wire.rss().saturating_sub(before) >> 20;
    assert!(growth < 64, "{growth} MiB");
    let directory = fs::read_dir(config.dir().join("state/search")).unwrap();
    let size: u64 = directory.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(size <= 4 << 20, "{size} bytes");
    wire.end().await;
}
