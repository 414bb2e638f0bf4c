//! Japanese documents from Debian: manuals in their usual encodings, a book, and sources in reStructuredText.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use mcp_host_tests::{Folder, Plugin, StdioServer, debian_file};
use rmcp::model::{Resource, ResourceContents, Role};

use super::{ConfigFile, notes_config};

/// Encodings with their names in `iconv` and in the metadata.
const ENCODINGS: [(&str, Option<&str>); 5] = [
    ("UTF-8", None),
    ("EUC-JP", Some("EUC-JP")),
    ("CP932", Some("Shift_JIS")),
    ("ISO-2022-JP", Some("ISO-2022-JP")),
    ("UTF-16", Some("UTF-16LE")),
];

fn unzip(path: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Converts a text; `None` if the encoding lacks one of its characters.
fn iconv(text: &str, encoding: &str, scratch: &Path) -> Option<Vec<u8>> {
    fs::write(scratch, text).unwrap();
    let mut iconv = Command::new("iconv");
    let output = iconv.args(["-f", "UTF-8", "-t", encoding]).arg(scratch).stderr(Stdio::null()).output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// Replaces characters for which the tables of the C library and of the web differ.
fn as_on_the_web(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '〜' => '～',
            '−' => '－',
            '‖' => '∥',
            '—' => '―',
            '¢' => '￠',
            '£' => '￡',
            '¬' => '￢',
            c => c,
        })
        .collect()
}

/// Returns the Japanese manuals, each with the line below its heading of the name.
fn manuals() -> Vec<(String, String, String)> {
    let mut files: Vec<PathBuf> = ["man1", "man8"]
        .iter()
        .flat_map(|section| fs::read_dir(debian_file(&format!("usr/share/man/ja/{section}"))).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && !path.is_symlink())
        .collect();
    files.sort();
    let manual = |path: PathBuf| {
        let text = unzip(&path);
        let name = text.split(".SH 名前\n").nth(1)?.lines().next()?.replace(['\\', '"', '\t'], " ");
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Some((stem, name.split_whitespace().collect::<Vec<_>>().join(" "), text))
    };
    files.into_iter().filter_map(manual).collect()
}

fn meta<'a>(resource: &'a Resource, name: &str) -> Option<&'a str> {
    resource.meta.as_ref()?.get(name)?.as_str()
}

#[tokio::test]
async fn manuals_in_each_encoding_have_their_titles_and_are_served_as_utf_8() {
    let folder = Folder::with_files::<&str, &str>([]);
    let scratch = tempfile::NamedTempFile::new().unwrap();
    let mut expected = Vec::new();
    for (n, (stem, name, text)) in manuals().into_iter().enumerate().step_by(4) {
        let (iconv_name, encoding) = ENCODINGS[n / 4 % ENCODINGS.len()];
        let note = format!(
            "---\n題名: \"{name}\"\n優先度: ０．５\n日付: 令和７年１月１２日\nタグ: 手引、{iconv_name}\n---\n{text}"
        );
        let Some(bytes) = iconv(&note, iconv_name, scratch.path()) else { continue };
        fs::write(folder.path().join(format!("{stem}.md")), bytes).unwrap();
        expected.push((format!("{stem}.md"), name, note, encoding));
    }
    assert!(expected.len() > 60, "{} manuals", expected.len());
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    for (file, name, note, encoding) in &expected {
        let resource = resources.iter().find(|resource| resource.name == *file).unwrap();
        let uri = &resource.uri;
        let title = resource.title.as_deref().unwrap_or_default();
        let shown: String = as_on_the_web(name).chars().take(300).collect();
        assert!(as_on_the_web(title).starts_with(&shown), "{uri}: {title} and {name}");
        assert_eq!(meta(resource, "notes/encoding"), *encoding, "{uri}");
        let annotations = resource.annotations.as_ref().unwrap();
        assert_eq!(
            (annotations.priority, annotations.last_modified.as_deref()),
            (Some(0.5), Some("2025-01-12T00:00:00Z"))
        );
        let contents = server.client().read(&resource.uri).await.unwrap();
        let ResourceContents::TextResourceContents { text, .. } = &contents[0] else { panic!("{uri}") };
        assert!(as_on_the_web(text) == as_on_the_web(note), "{uri} in {encoding:?}");
        assert!(resource.size.is_none_or(|size| size == text.len() as u64), "{uri}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_book_is_text_and_sources_of_restructured_text_have_titles() {
    let folder = Folder::with_files::<&str, &str>([]);
    let scratch = tempfile::NamedTempFile::new().unwrap();
    let book = unzip(&debian_file("usr/share/debian-reference/debian-reference.ja.txt.gz"));
    // Characters that EUC-JP lacks are omitted.
    let book: String = book
        .lines()
        .filter(|line| line.chars().all(|c| c.is_ascii() || ('\u{3000}'..='龠').contains(&c) && c != '〜'))
        .collect::<Vec<_>>()
        .join("\n");
    fs::write(folder.path().join("本.txt"), iconv(&book, "EUC-JP", scratch.path()).unwrap()).unwrap();
    let sources = debian_file("usr/share/developers-reference/ja/_sources");
    let mut titles = Vec::new();
    for entry in fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let line = text.lines().position(|line| line.starts_with("****")).unwrap();
        titles.push((name.clone(), text.lines().nth(line - 1).unwrap().to_owned()));
        fs::write(folder.path().join(name), text).unwrap();
    }
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("notes://diary/%E6%9C%AC.txt").await, book);
    let resources = server.client().resources().await;
    assert!(titles.len() >= 10);
    for (name, title) in titles {
        let resource = resources.iter().find(|resource| resource.name == name).unwrap();
        assert_eq!(resource.title.as_deref(), Some(title.as_str()), "{name}");
        assert_eq!(resource.mime_type.as_deref(), Some("text/x-rst"));
    }
    server.end().await;
}

#[tokio::test]
async fn folders_have_defaults_and_listings_may_be_in_order_of_reading() {
    let folder = Folder::with_files([
        ("規程/就業規則.adoc", "= 就業規則\n:toc:\n\n本文\n"),
        ("規程/旅費.md", "---\n題名: 旅費規程\n読み: りょひきてい\n優先度: ０．２\n---\n"),
        ("議事録.md", "---\n題名: 議事録\n読み: ぎじろく\n対象: 利用者、ＡＩ\n---\n"),
        ("暗号.md", "---\n題名: 暗号\nふりがな: アンゴウ\n---\n"),
    ]);
    let plugin = Plugin::notes("diary", folder.path())
        .config("order", "reading")
        .config("priority", toml::Table::from_iter([("規程/".to_owned(), 0.9.into())]))
        .config("audience", toml::Table::from_iter([("規程".to_owned(), "assistant".into())]));
    let config = ConfigFile::new().plugin(plugin).page_size(1).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    let titles: Vec<_> = resources.iter().map(|resource| resource.title.as_deref().unwrap()).collect();
    assert_eq!(titles, ["暗号", "議事録", "旅費規程", "就業規則"], "what has no reading is sorted by its title");
    let annotations: Vec<_> = resources.iter().map(|resource| resource.annotations.as_ref().unwrap()).collect();
    let priorities: Vec<_> = annotations.iter().map(|annotations| annotations.priority).collect();
    assert_eq!(priorities, [None, None, Some(0.2), Some(0.9)]);
    let audiences: Vec<_> = annotations.iter().map(|annotations| annotations.audience.clone()).collect();
    assert_eq!(
        audiences[1..],
        [Some(vec![Role::User, Role::Assistant]), Some(vec![Role::Assistant]), Some(vec![Role::Assistant])]
    );
    server.end().await;
}
