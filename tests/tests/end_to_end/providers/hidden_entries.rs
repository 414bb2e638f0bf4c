//! Entries that a principal may not see are not part of anything it reads: indexes of directories, tags, keys,
//! variables and dictionaries.
//!
//! The same plugins serve two worlds that differ only in entries that a rule denies. Every index must be the same in
//! both. The providers of web pages and metrics have no indexes; the provider of documents has a separate test, in
//! `drive`.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use mcp_host_tests::{ConfigFile, Folder, GitRepo, Plugin, Rule, StdioServer, content_bytes};
use rmcp::model::ResourceContents;
use rusqlite::Connection;

/// A text that only the denied entries contain.
const HIDDEN: &str = "hidden";

/// The indexes that are read in both worlds.
const INDEXES: [&str; 14] = [
    "files://f/",
    "files://f/dir",
    "notes://diary/",
    "notes://diary/tag",
    "notes://diary/tag/x",
    "notes://diary/lang",
    "notes://diary/lang/en",
    "config://c/env",
    "config://c/file",
    "results://r/by",
    "db://shop/dictionary",
    "db://shop/main",
    "git://repo/tree/main",
    "git://repo/tree/main/dir",
];

const DENIED: [&str; 8] = [
    "files://f/**/hidden*",
    "notes://diary/hidden.md",
    "notes://diary/dir/hidden.md",
    "config://c/env/HIDDEN_TOKEN",
    "config://c/file/hidden.toml",
    "results://r/hidden",
    "db://shop/main/hidden_table/**",
    "git://repo/**/hidden.md",
];

/// Returns the text of each index, with the URI of each of its contents.
async fn read_indexes(has_hidden: bool) -> Vec<Vec<(String, String)>> {
    let note = |title: &str| format!("---\ntitle: {title}\ndescription: About {title}\ntags: [x]\nlanguage: en\n---\n");
    let shown = |(name, _): &(&str, String)| has_hidden || !name.contains(HIDDEN);
    let written = |files: Vec<(&'static str, String)>| Folder::with_files(files.into_iter().filter(shown));
    let texts = || {
        let names = ["a.md", "hidden.md", "dir/b.md", "dir/hidden.md"];
        names.map(|name| (name, note(name))).into_iter().collect::<Vec<_>>()
    };
    let (files, notes) = (written(texts()), written(texts()));
    let configuration = written(vec![("a.toml", "a = 1\n".to_owned()), ("hidden.toml", "hidden = 2\n".to_owned())]);
    let metadata = |time: &str| format!("{{\"key\":\"k\",\"created\":\"2025-01-01T00:00:{time}Z\"}}");
    let results = written(vec![
        ("open.md", "open".to_owned()),
        ("open.meta.json", metadata("00")),
        ("hidden.md", "hidden".to_owned()),
        ("hidden.meta.json", metadata("01")),
    ]);
    let repo = GitRepo::with_files(texts().into_iter().filter(shown));
    let database = Folder::with_files::<&str, &str>([]);
    let file = database.path().join("shop.db");
    let writer = Connection::open(&file).unwrap();
    writer.execute_batch("CREATE TABLE open_table (id INTEGER PRIMARY KEY, name TEXT);").unwrap();
    if has_hidden {
        writer.execute_batch("CREATE TABLE hidden_table (id INTEGER PRIMARY KEY, hidden_column TEXT);").unwrap();
    }
    for folder in [&files, &notes, &configuration, &results] {
        set_times(folder.path());
    }
    let mut variables = Plugin::configuration("c", configuration.path()).variable("LANG", "en");
    if has_hidden {
        variables = variables.variable("HIDDEN_TOKEN", "hidden");
    }
    let config = ConfigFile::new()
        .plugin(Plugin::files("f", files.path()))
        .plugin(Plugin::notes("diary", notes.path()))
        .plugin(variables)
        .plugin(Plugin::results("r", results.path()))
        .plugin(Plugin::git("repo", repo.path()))
        .plugin(Plugin::database("shop", format!("sqlite://{}", file.display())))
        .rule(Rule::for_principal("local").allow(["**"]).deny(DENIED))
        .write();
    let server = StdioServer::start(&config).await;
    let mut indexes = Vec::new();
    for uri in INDEXES {
        let contents = server.client().read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
        indexes.push(contents.iter().map(of_content).collect());
    }
    server.end().await;
    indexes
}

fn of_content(contents: &ResourceContents) -> (String, String) {
    let (ResourceContents::TextResourceContents { uri, .. } | ResourceContents::BlobResourceContents { uri, .. }) =
        contents
    else {
        panic!("{contents:?}")
    };
    (uri.clone(), String::from_utf8(content_bytes(contents)).unwrap())
}

/// Sets the same time for everything below a directory, in both worlds.
fn set_times(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            set_times(&entry.path());
        }
        File::open(entry.path()).unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)).unwrap();
    }
    File::open(directory).unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30)).unwrap();
}

#[tokio::test]
async fn every_index_reads_as_if_what_is_denied_did_not_exist() {
    let (with, without) = (read_indexes(true).await, read_indexes(false).await);
    for ((uri, with), without) in INDEXES.into_iter().zip(&with).zip(&without) {
        assert_eq!(with, without, "{uri}");
        assert!(!format!("{with:?}").to_lowercase().contains(HIDDEN), "{uri}: {with:?}");
        assert!(with[0].1.contains("](<"), "{uri} has a link to what is shown: {with:?}");
    }
}

#[tokio::test]
async fn an_index_that_is_cut_has_the_uri_of_the_next_part_and_all_parts_have_all_children() {
    let files = (0..1200).map(|number| (format!("{number:04}.md"), ""));
    let folder = Folder::with_files(files.chain([("dir/only.md".to_owned(), "")]));
    let config = ConfigFile::new()
        .plugin(Plugin::files("f", folder.path()))
        .rule(Rule::for_principal("local").allow(["**"]).deny(["files://f/07*.md"]))
        .write();
    let server = StdioServer::start(&config).await;
    let (mut uri, mut names, mut parts) = ("files://f/".to_owned(), Vec::new(), 0);
    loop {
        let text = server.client().text(&uri).await;
        names.extend(text.lines().filter_map(|line| Some(line.strip_prefix("- [")?.split_once(']')?.0.to_owned())));
        parts += 1;
        let last = text.lines().last().unwrap();
        let Some(next) = last.strip_prefix("This is a part of the index; the next part is <") else { break };
        uri = next.strip_suffix('>').unwrap().to_owned();
    }
    let expected = (0..1200).filter(|number| !(700..800).contains(number)).map(|number| format!("{number:04}.md"));
    assert_eq!(names, expected.chain(["dir".to_owned()]).collect::<Vec<_>>());
    assert!(parts > 2, "{parts}");
    // The cursor belongs to the directory.
    let (_, cursor) = uri.split_once("#cursor=").unwrap();
    for other in ["files://f/dir", "files://f/0000.md"] {
        assert!(server.client().read(&format!("{other}#cursor={cursor}")).await.is_err(), "{other}");
    }
    server.end().await;
}
