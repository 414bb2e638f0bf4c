//! The index follows the served resources, and survives failures of the process.

use std::fs;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, component, run};
use rustix::process::Signal;

use super::{run_search, search, searched, uris, wait_until_found};

#[tokio::test]
async fn a_thousand_files_are_found_soon_and_an_edit_shortly_after() {
    let files = (0..1000)
        .map(|number| (format!("d{}/{number}.md", number % 10), format!("# File {number}\n\ncommon word{number}\n")));
    let folder = Folder::with_files(files);
    let config = searched(&folder).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    let took = wait_until_found(&mut wire, "common", 1000).await;
    println!("1000 files were found after {took:?}");
    assert_eq!(uris(&search(&mut wire, "word123").await), ["files://f/d3/123.md"]);

    folder.write("d3/123.md", "entirely different");
    let took = wait_until_found(&mut wire, "entirely different", 1).await;
    println!("an edit was found after {took:?}");
    wait_until_found(&mut wire, "word123", 0).await;
    fs::remove_file(folder.path().join("d4/124.md")).unwrap();
    wait_until_found(&mut wire, "word124", 0).await;
    wire.end().await;
}

#[tokio::test]
async fn a_host_that_is_killed_while_it_indexes_goes_on_where_it_was() {
    let text = "some words of no importance, again and again; ".repeat(40);
    let files = (0..600).map(|number| (format!("{number}.txt"), format!("common word{number} {text}")));
    let folder = Folder::with_files(files);
    let config = searched(&folder).write();
    let mut before = 0;
    for _ in 0..3 {
        if before == 600 {
            break;
        }
        let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        // Each run is killed with some more indexed documents than the previous one.
        while search(&mut wire, "common").await["total"].as_u64().unwrap() <= before {}
        before = search(&mut wire, "common").await["total"].as_u64().unwrap();
        wire.signal(Signal::KILL);
        wire.wait_exit_unread().await;
    }
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wait_until_found(&mut wire, "common", 600).await;
    assert_eq!(uris(&search(&mut wire, "word599").await), ["files://f/599.txt"]);
    wire.end().await;
}

#[tokio::test]
async fn an_index_that_was_damaged_is_made_anew() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = searched(&folder).write();
    let path = config.path();
    let arguments = ["search", "needle", "--json", "--config", path.to_str().unwrap()];
    let searching = || run_search(&arguments);
    assert_eq!(uris(&searching().await.json()), ["files://f/a.md"]);
    let index = config.dir().join("state/search/index.sqlite3");
    for damage in ["", "not a database"] {
        fs::write(&index, damage).unwrap();
        assert_eq!(uris(&searching().await.json()), ["files://f/a.md"], "{damage:?}");
    }
}

#[tokio::test]
async fn a_search_below_a_mount_that_is_not_there_names_the_nearest() {
    let folder = Folder::with_files([("a.md", "needle")]);
    // This plugin is not searched.
    let nearer = Plugin::new("o", &component("notes"), "file://o/").dir(folder.path(), "/notes");
    let config = searched(&folder).plugin(nearer).write();
    let path = config.path();
    let search = async |within: &str| {
        let searched = run(["search", "needle", "--in", within, "--config", path.to_str().unwrap()]).await;
        assert_eq!((searched.code(), searched.text()), (1, String::new()), "{}", searched.stderr);
        searched.stderr
    };
    let stderr = search("file://f/a.md").await;
    assert!(stderr.contains("`in`: expected a URI below a mount that is searched, found `file://f/a.md`"), "{stderr}");
    assert!(stderr.contains("the nearest one is `files://f/`") && !stderr.contains("file://o/"), "{stderr}");
    let stderr = search("").await;
    assert!(stderr.contains("found an empty text; the nearest one is `files://f/`"), "{stderr}");
}

#[tokio::test]
async fn a_search_below_a_plugin_that_is_not_searched_says_so_and_what_to_set() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = searched(&folder).plugin(Plugin::notes("o", folder.path())).write();
    let path = config.path();
    for within in ["notes://o/a.md", "notes://o/"] {
        let searched = run(["search", "needle", "--in", within, "--config", path.to_str().unwrap()]).await;
        let expected = format!(
            "`in`: nothing is found below `{within}`, because plugin `o` is not searched; `search = {{}}` in its `[[plugin]]`"
        );
        assert!(searched.code() == 1 && searched.stderr.contains(&expected), "{}", searched.stderr);
        assert!(!searched.stderr.contains("files://f/"), "{}", searched.stderr);
    }
}

#[tokio::test]
async fn a_search_that_the_command_line_reads_has_everything() {
    let folder = Folder::with_files((0..100).map(|number| (format!("{number}.md"), "needle")));
    let config = searched(&folder).write();
    let path = config.path();
    let result = run_search(&["read", "search:///?q=needle", "--config", path.to_str().unwrap()]).await.json();
    assert_eq!((&result["total"], &result["partial"]), (&100.into(), &false.into()), "{result}");
}

#[tokio::test]
async fn the_command_line_searches_and_tells_what_is_indexed() {
    let folder = Folder::with_files([("a.md", "# Title\n\nthe needle is here\n"), ("b.md", "nothing")]);
    let config = searched(&folder).write();
    let path = config.path();
    let command = async |arguments: &[&str]| run([arguments, &["--config", path.to_str().unwrap()]].concat()).await;
    let search =
        async |arguments: &[&str]| run_search(&[arguments, &["--config", path.to_str().unwrap()]].concat()).await;
    let empty = command(&["index", "status", "--json"]).await.success().json();
    assert_eq!(empty["plugins"][0]["documents"], 0);
    let text = search(&["search", "needle", "NOT"]).await.text();
    assert!(text.contains("files://f/a.md?lines=") && text.contains("the needle is here"), "{text}");
    assert!(text.ends_with("1 result\n"), "{text}");
    let status = command(&["index", "status", "--json"]).await.success().json();
    assert_eq!((&status["plugins"][0]["plugin"], &status["plugins"][0]["documents"]), (&"f".into(), &2.into()));
    let rebuilt = command(&["index", "rebuild"]).await.success().text();
    assert!(rebuilt.starts_with('f'), "{rebuilt}");
    let nothing = search(&["search", "absent"]).await.text();
    assert_eq!(nothing, "nothing was found\n");
    let denied = search(&["search", "needle", "--as", "anonymous", "--json"]).await.json();
    assert_eq!(denied["total"], 0);
}

#[tokio::test]
async fn a_text_that_is_longer_than_max_document_is_found_by_its_beginning_and_every_door_says_so() {
    let text = "needle at the beginning\n".to_owned() + &"filler\n".repeat(200_000) + "quokka at the end\n";
    let folder = Folder::with_files([("big.txt", text.as_str()), ("a.txt", "nothing\n")]);
    let plugin = Plugin::files("f", folder.path()).searched().config("max-read", "8MiB");
    let config = ConfigFile::new().plugin(plugin).write();
    let path = config.path();
    let part = format!("the first 1048576 of {} bytes (`max-document`)", text.len());
    let command =
        async |arguments: &[&str]| run_search(&[arguments, &["--config", path.to_str().unwrap()]].concat()).await;
    let found = command(&["search", "needle", "--json"]).await.json();
    assert_eq!((&found["total"], &found["incomplete"]), (&1.into(), &serde_json::json!(["f"])), "{found}");
    assert!(found["results"][0]["notices"][0].to_string().contains(&part), "{found}");
    let absent = command(&["search", "quokka", "--json"]).await.json();
    assert_eq!((&absent["total"], &absent["incomplete"]), (&0.into(), &serde_json::json!(["f"])), "{absent}");
    assert!(command(&["search", "needle"]).await.text().contains(&part));
    assert!(command(&["context", "needle", "--budget", "2000"]).await.text().contains(&part));
    let status = run(["index", "status", "--config", path.to_str().unwrap()]).await.success().text();
    assert!(status.contains("1 without all of their text"), "{status}");
}

#[tokio::test]
async fn a_listing_that_is_longer_than_its_limit_is_not_said_to_be_indexed() {
    let folder = Folder::with_files((0..2500).map(|number| (format!("{number:04}.md"), format!("word{number}\n"))));
    let plugin = Plugin::files("f", folder.path()).searched().limit("listing-items", 1000);
    let config = ConfigFile::new().plugin(plugin).write();
    let path = config.path();
    let result = run_search(&["search", "word2499", "--json", "--config", path.to_str().unwrap()]).await.json();
    assert_eq!((&result["total"], &result["incomplete"]), (&0.into(), &serde_json::json!(["f"])), "{result}");
    let status = run(["index", "status", "--config", path.to_str().unwrap()]).await.success().text();
    assert!(status.contains("the listing is longer than `limits.listing-items`"), "{status}");
}
