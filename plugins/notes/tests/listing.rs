//! Listings: content, order, pages, and completion.

mod common;

use common::Fixture;
use mcp_provider::{Argument, Failure, Provider};

const EMPTY: [(&str, &str); 0] = [];

fn sample() -> Fixture {
    Fixture::new([
        ("b.md", "---\ntags: x, y\nlanguage: en\n---\n"),
        ("a/z.md", "---\ntags: [x, 日本/語]\nlanguage: ja\n---\n"),
        ("a/deep/c.md", "# C"),
        ("a/picture.png", "png"),
        ("a.md", "---\ntags: x\nlanguage: ja\n---\n"),
    ])
}

#[test]
fn the_default_listing_has_every_file_in_order_of_path() {
    let expected = ["a.md", "a/deep/c.md", "a/picture.png", "a/z.md", "b.md"];
    for limit in 1..7 {
        assert_eq!(sample().list(None, limit).unwrap(), expected);
    }
}

#[test]
fn a_folder_lists_what_is_directly_in_it() {
    let fixture = sample();
    assert_eq!(fixture.list(Some(""), 2).unwrap(), ["a", "a.md", "b.md"]);
    assert_eq!(fixture.list(Some("a"), 2).unwrap(), ["a/deep", "a/picture.png", "a/z.md"]);
    let folder = fixture.provider.stat("a").unwrap();
    assert_eq!(folder.mime_type.as_deref(), Some("inode/directory"));
    assert!(folder.listable && folder.subscribable && folder.last_modified.is_some());
}

#[test]
fn a_folder_or_a_collection_that_is_read_names_nothing_that_is_in_it() {
    let fixture = sample();
    for path in ["", "a", "a/deep", "tag", "tag/x", "lang/ja"] {
        // The host writes the index, from the entries that the client may read.
        let contents = fixture.read(path).unwrap();
        let entry = fixture.provider.stat(path).unwrap();
        assert_eq!((contents.as_text(), &contents.entry), (Some(""), &entry), "{path}");
    }
    assert_eq!(fixture.read("tag/none"), Err(Failure::NotFound));
}

#[test]
fn tags_and_languages_list_their_notes() {
    let fixture = sample();
    for limit in 1..4 {
        assert_eq!(fixture.list(Some("tag/x"), limit).unwrap(), ["a.md", "a/z.md", "b.md"]);
        assert_eq!(fixture.list(Some("lang/ja"), limit).unwrap(), ["a.md", "a/z.md"]);
        assert_eq!(fixture.list(Some("tag"), limit).unwrap(), ["tag/x", "tag/y", "tag/%E6%97%A5%E6%9C%AC%2F%E8%AA%9E"]);
        assert_eq!(fixture.list(Some("lang"), limit).unwrap(), ["lang/en", "lang/ja"]);
    }
    assert_eq!(fixture.list(Some("tag/%E6%97%A5%E6%9C%AC%2F%E8%AA%9E"), 5).unwrap(), ["a/z.md"]);
    let entry = fixture.provider.stat("tag/x").unwrap();
    assert!(entry.listable && entry.path == "tag/x");
}

#[test]
fn what_is_not_there_is_not_found_and_a_file_is_not_listable() {
    let fixture = sample();
    for path in ["no.md", "no", "a/no.md", "b.md/x", "tag/none", "lang/xx"] {
        assert_eq!(fixture.list(Some(path), 5), Err(Failure::NotFound), "{path}");
        assert_eq!(fixture.provider.stat(path), Err(Failure::NotFound), "{path}");
        assert_eq!(fixture.provider.read(path), Err(Failure::NotFound), "{path}");
    }
    assert!(matches!(fixture.list(Some("b.md"), 5), Err(Failure::InvalidRequest(_))));
    assert!(matches!(fixture.provider.list(None, Some("not mine"), 5), Err(Failure::InvalidRequest(_))));
}

#[test]
fn a_path_that_is_none_is_an_invalid_request() {
    let fixture = sample();
    for path in ["../b.md", "a/%2e%2e/b.md", "a%2Fz.md", "/b.md", "a/", "b.md?x=1", "%zz", "%ff", "a%00"] {
        assert!(matches!(fixture.provider.read(path), Err(Failure::InvalidRequest(_))), "{path}");
    }
}

#[test]
fn a_real_folder_named_like_a_collection_is_reached_behind_file() {
    let fixture = Fixture::new([("tag/x.md", "# X\n"), ("n.md", "---\ntags: x.md\n---\n"), ("file", "a file")]);
    assert_eq!(fixture.list(None, 5).unwrap(), ["file/file", "n.md", "file/tag/x.md"]);
    assert_eq!(fixture.list(Some("file/tag"), 5).unwrap(), ["file/tag/x.md"]);
    assert_eq!(fixture.read("file/tag/x.md").unwrap().as_text(), Some("# X\n"));
    assert_eq!(fixture.read("file/file").unwrap().as_text(), Some("a file"));
    assert_eq!(fixture.list(Some("tag/x.md"), 5).unwrap(), ["n.md"]);
}

#[test]
fn hidden_files_are_neither_listed_nor_read_at_any_level() {
    let fixture =
        Fixture::new([(".env", "s"), (".git/config", "s"), ("a/.hidden/b.md", "s"), ("a/.c.md", "s"), ("a/d.md", "s")]);
    assert_eq!(fixture.list(None, 9).unwrap(), ["a/d.md"]);
    assert_eq!(fixture.list(Some(""), 9).unwrap(), ["a"]);
    assert_eq!(fixture.list(Some("a"), 9).unwrap(), ["a/d.md"]);
    for path in [".env", "%2Eenv", ".git", ".git/config", "a/.hidden/b.md", "a/.c.md"] {
        assert_eq!(fixture.provider.read(path), Err(Failure::NotFound), "{path}");
        assert_eq!(fixture.list(Some(path), 9), Err(Failure::NotFound), "{path}");
    }
}

#[test]
fn an_empty_folder_has_an_empty_listing() {
    let fixture = Fixture::new(EMPTY);
    assert_eq!(fixture.list(None, 5).unwrap(), Vec::<String>::new());
    assert_eq!(fixture.list(Some("tag"), 5).unwrap(), Vec::<String>::new());
    assert_eq!(fixture.read("").unwrap().as_text(), Some(""));
}

#[test]
fn a_note_that_goes_away_between_two_pages_does_not_end_the_listing() {
    let fixture = sample();
    let first = fixture.provider.list(None, None, 2).unwrap();
    std::fs::remove_file(fixture.path("a/deep/c.md")).unwrap();
    let second = fixture.provider.list(None, first.next_cursor.as_deref(), 9).unwrap();
    assert_eq!(
        second.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(),
        ["a/picture.png", "a/z.md", "b.md"]
    );
}

#[test]
fn ten_thousand_notes_are_paged_without_reading_their_bodies() {
    let fixture = Fixture::new(EMPTY);
    for n in 0..10_000 {
        fixture.write(&format!("{:02}/{n:05}.md", n % 50), "---\ntitle: T\n---\n");
    }
    // A body of 1 TiB takes no space on disk. Reading it would take forever.
    std::fs::File::options().write(true).open(fixture.path("00/00000.md")).unwrap().set_len(1 << 40).unwrap();
    let first = fixture.provider.list(None, None, 100).unwrap();
    assert_eq!(first.entries.len(), 100);
    assert_eq!(first.entries[0].size, Some(1 << 40));
    assert_eq!(fixture.list(None, 1000).unwrap().len(), 10_000);
}

#[test]
fn templates_are_completed_with_what_is_there() {
    let fixture = sample();
    fixture.write("a/100%?.md", "");
    let complete = |template: &str, variable: &str, typed: &str| {
        fixture.provider.complete(template, &Argument::new(variable, typed), &[]).unwrap().values
    };
    assert_eq!(complete("tag/{tag}", "tag", ""), ["x", "y", "日本/語"]);
    assert_eq!(complete("tag/{tag}", "tag", "日"), ["日本/語"]);
    assert_eq!(complete("lang/{lang}", "lang", ""), ["ja", "en"]);
    assert_eq!(complete("{+path}", "path", "a/"), ["a/deep/c.md", "a/picture.png", "a/z.md"]);
    assert_eq!(fixture.provider.templates().len(), 3);
}

#[test]
fn notes_of_many_short_tags_are_listed_on_more_pages_and_none_is_left_out() {
    let fixture = Fixture::new(EMPTY);
    let tags: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let note = format!("---\ntags: [{}]\n---\n", tags.join(","));
    (0..300).for_each(|n| fixture.write(&format!("n{n:03}.md"), &note));
    for parent in [None, Some(""), Some("tag/t7")] {
        let page = fixture.provider.list(parent, None, 1000).unwrap();
        assert!((50..=100).contains(&page.entries.len()) && page.next_cursor.is_some(), "{}", page.entries.len());
        assert_eq!(fixture.list(parent, 1000).unwrap().len(), 300);
        assert_eq!(fixture.list(parent, 1).unwrap().len(), 300);
    }
}
