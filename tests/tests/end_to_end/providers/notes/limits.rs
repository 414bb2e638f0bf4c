//! Notes with very large front matter, and folders with very many notes: each is charged only to its own request.

use std::collections::BTreeMap;

use mcp_host_tests::{ConfigFile, Folder, Plugin, StdioServer};
use rmcp::model::Resource;

/// The provider on a folder, with a low limit of CPU time per call. Work of other processes on the same processor may
/// count.
fn limited_config(folder: &Folder) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::notes("diary", folder.path()).limit("cpu", "2s"))
}

fn faults(resource: &Resource) -> String {
    let faults = resource.meta.as_ref().and_then(|meta| meta.get("notes/faults"));
    faults.map(ToString::to_string).unwrap_or_default()
}

#[tokio::test]
async fn notes_of_ten_thousand_tags_are_listed_without_them_beside_notes_with_theirs() {
    let tags: Vec<String> = (0..10_000).map(|n| format!("t{n}")).collect();
    let many = format!("---\ntitle: Too many\ntags: [{}]\n---\n", tags.join(","));
    let lines: String = tags.iter().map(|tag| format!("- {tag}\n")).collect();
    let fields: String = (0..9000).map(|n| format!("f{n}:\n")).collect();
    let folder = Folder::with_files([
        ("good.md", "---\ntitle: Good\ntags: [t1, fine]\n---\n".to_owned()),
        ("many.md", many),
        ("more.md", format!("---\ntags:\n{lines}---\n")),
        ("words.md", format!("---\ntitle: Words\ntags: {}\n---\n", tags.join(","))),
        ("fields.md", format!("---\n{fields}title: Fields\n---\n# Its heading\n")),
        ("deep.md", format!("---\na: {}\n---\n", "[".repeat(60_000))),
        ("long.md", format!("---\ntitle: {}\n---\n", "long ".repeat(12_000))),
        ("zoo.md", "---\ntitle: Zoo\n---\n".to_owned()),
    ]);
    let config = limited_config(&folder).write();
    let server = StdioServer::start(&config).await;
    let page = server.client().page(None).await.unwrap();
    assert!(page.meta.is_none_or(|meta| !meta.contains_key("mcp-host/missing")));
    let resources: BTreeMap<_, _> = page.resources.iter().map(|found| (found.name.as_str(), found)).collect();
    assert_eq!(resources.len(), 8, "{:?}", resources.keys());
    let title = |name: &str| resources[name].title.as_deref();
    assert_eq!((title("good.md"), title("zoo.md")), (Some("Good"), Some("Zoo")));
    assert_eq!((title("many.md"), title("more.md"), title("deep.md")), (None, None, None));
    assert_eq!((title("fields.md"), title("words.md")), (Some("Its heading"), Some("Words")));
    assert!(title("long.md").unwrap().ends_with('…') && title("long.md").unwrap().len() < 400);
    for name in ["many.md", "more.md", "words.md", "fields.md", "deep.md"] {
        assert!(!faults(resources[name]).is_empty(), "{name}");
    }
    assert_eq!(faults(resources["good.md"]), "");
    let tagged = server.client().text("notes://diary/tag/t1").await;
    assert!(tagged.contains("Good") && tagged.contains("Words") && !tagged.contains("many"), "{tagged}");
    server.end().await;
}

#[tokio::test]
async fn notes_that_all_say_very_much_are_listed_on_more_pages_and_none_is_left_out() {
    let description = "word ".repeat(600);
    let long = format!("description: {description}\ntags: [{}]\nx: |\n{}", "a,b,".repeat(900), "  line\n".repeat(7000));
    let notes = (0..300).map(|n| (format!("{}/n{n:03}.md", n % 7), format!("---\ntitle: T{n}\n{long}---\n")));
    let folder = Folder::with_files(notes);
    let config = limited_config(&folder).page_size(1000).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    assert_eq!(resources.len(), 300);
    assert!(resources.iter().all(|note| note.title.as_ref().is_some_and(|title| title.starts_with('T'))));
    let mut uris: Vec<_> = resources.iter().map(|note| note.uri.clone()).collect();
    uris.dedup();
    assert!(uris.is_sorted() && uris.len() == 300);
    server.end().await;
}

#[tokio::test]
async fn a_folder_of_very_many_notes_is_listed_whole_page_by_page() {
    let notes = (0..10_000).map(|n| (format!("n{n:05}.md"), "# N\n"));
    let folder =
        Folder::with_files(notes.chain([("empty/x/.hidden".to_owned(), ""), ("z/last.md".to_owned(), "# L\n")]));
    let config = limited_config(&folder).page_size(500).write();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    let names: Vec<_> = pages.iter().flat_map(|page| &page.resources).map(|note| note.name.as_str()).collect();
    assert_eq!(names.len(), 10_001);
    assert!(names[..10_000].is_sorted() && names[10_000] == "last.md");
    server.end().await;
}

#[tokio::test]
async fn notes_of_two_hundred_short_tags_are_all_listed_with_the_default_limits() {
    let tags: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let note = format!("---\ntags: [{}]\n---\n", tags.join(","));
    let folder = Folder::with_files((0..1000).map(|n| (format!("n{n:03}.md"), note.clone())));
    let config = ConfigFile::new().plugin(Plugin::notes("diary", folder.path())).write();
    let server = StdioServer::start(&config).await;
    let pages = server.client().pages().await;
    for page in &pages {
        assert!(page.meta.as_ref().is_none_or(|meta| !meta.contains_key("mcp-host/missing")), "{:?}", page.meta);
    }
    let notes: Vec<_> = pages.iter().flat_map(|page| &page.resources).collect();
    assert_eq!(notes.len(), 1000);
    assert!(notes.iter().all(|note| faults(note).is_empty()));
    server.end().await;
}
