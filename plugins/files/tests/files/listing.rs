//! Listings: content, order, pages, metadata and completion.

use super::{EMPTY, Fixture, number};
use mcp_provider::{Argument, Failure, Provider, Timestamp};
use proptest::prelude::*;

fn sample() -> Fixture {
    Fixture::new([
        ("b.md", "# B"),
        ("a/z.rs", "fn main() {}"),
        ("a/deep/c.txt", "c"),
        ("a/picture.png", "\u{89}PNG"),
        ("a.md", "a"),
    ])
}

#[test]
fn the_default_listing_has_every_file_at_any_depth_and_no_directory() {
    let expected = ["a.md", "a/deep/c.txt", "a/picture.png", "a/z.rs", "b.md"];
    for limit in 1..7 {
        assert_eq!(sample().list(None, limit).unwrap(), expected);
    }
}

#[test]
fn a_directory_lists_what_is_directly_in_it_and_names_nothing_of_it_when_it_is_read() {
    let fixture = sample();
    assert_eq!(fixture.list(Some(""), 2).unwrap(), ["a", "a.md", "b.md"]);
    assert_eq!(fixture.list(Some("a"), 2).unwrap(), ["a/deep", "a/picture.png", "a/z.rs"]);
    let directory = fixture.provider.stat("a").unwrap();
    assert_eq!(directory.mime_type.as_deref(), Some("inode/directory"));
    assert!(directory.listable && directory.subscribable && directory.last_modified.is_some());
    // The host writes the index, from the entries that the client may read.
    let read = fixture.read("a").unwrap();
    assert_eq!((read.as_text(), &read.entry), (Some(""), &directory));
    assert!(matches!(fixture.list(Some("a.md"), 5), Err(Failure::InvalidRequest(_))));
    assert_eq!(fixture.list(Some("none"), 5), Err(Failure::NotFound));
    assert!(matches!(fixture.provider.read("a?lines=1-2"), Err(Failure::InvalidRequest(_))));
}

#[test]
fn what_a_listing_says_of_a_file_is_what_stat_and_read_say() {
    let fixture = Fixture::new([
        ("a.md", "# 日本".as_bytes()),
        ("empty", b""),
        ("euc.txt", b"\xc6\xfc\xcb\xdc\xb8\xec\xa4\xce\xca\xb8\xbd\xf1\xa4\xc7\xa4\xb9\xa1\xa3\n"),
        ("bom.txt", b"\xef\xbb\xbftext"),
        ("p.png", b"\x89PNG\r\n\x1a\n"),
        ("liar.txt", b"\0\x01"),
        ("unknown", b"\x1f\x8b\x08\0"),
        ("a.nt", "日本".as_bytes()),
        ("marked.dat", b"\xef\xbb\xbftext"),
        ("go.mod", b"module a"),
        ("long.txt", "x\n".repeat(40_000).as_bytes()),
    ]);
    fixture.touch("a.md", 1_736_694_058);
    let page = fixture.provider.list(None, None, 100).unwrap();
    assert_eq!(page.entries.len(), 11);
    for entry in page.entries {
        let stat = fixture.provider.stat(&entry.path).unwrap();
        let read = fixture.read(&entry.path).unwrap();
        assert_eq!(stat, entry, "{}", entry.path);
        assert_eq!((&read.entry.name, &read.entry.mime_type), (&entry.name, &entry.mime_type));
        assert_eq!(read.entry.last_modified, entry.last_modified);
        if entry.path == "long.txt" {
            assert_eq!((entry.size, number(&entry, "files/total-bytes")), (None, Some(80_000)));
        } else {
            assert_eq!(entry.size, read.entry.size, "{}", entry.path);
        }
    }
    let entry = fixture.provider.stat("a.md").unwrap();
    assert_eq!(entry.last_modified, Some(Timestamp::from("2025-01-12T15:00:58Z")));
    let encoded = fixture.provider.stat("euc.txt").unwrap();
    assert_eq!((encoded.size, number(&encoded, "files/total-bytes")), (Some(28), Some(19)));
}

#[test]
fn dotfiles_and_environment_files_are_off_unless_the_config_says_otherwise() {
    let files = [(".hidden", ""), (".env", "S"), ("prod.env", "S"), (".git/config", "S"), ("a/.b/c", ""), ("d", "")];
    let fixture = Fixture::new(files);
    assert_eq!(fixture.list(None, 9).unwrap(), ["d"]);
    assert_eq!(fixture.list(Some(""), 9).unwrap(), ["a", "d"]);
    for path in [".hidden", ".env", "%2eenv", "prod.env", ".git/config", ".git", "a/.b", "a/.b/c", ".env?lines=1-2"] {
        assert_eq!(fixture.provider.read(path), Err(Failure::NotFound), "{path}");
        assert_eq!(fixture.provider.stat(path), Err(Failure::NotFound), "{path}");
        assert_eq!(fixture.list(Some(path.trim_end_matches("?lines=1-2")), 9), Err(Failure::NotFound), "{path}");
    }
    let fixture = Fixture::with_config(files, [("dotfiles", "true")]);
    assert_eq!(fixture.list(None, 9).unwrap(), [".hidden", "a/.b/c", "d"]);
    let fixture = Fixture::with_config(files, [("dotfiles", "true"), ("env-files", "true")]);
    assert_eq!(fixture.list(None, 9).unwrap(), [".env", ".hidden", "a/.b/c", "d", "prod.env"]);
    assert_eq!(fixture.provider.read(".git/config"), Err(Failure::NotFound));
}

#[test]
fn a_cursor_of_somebody_else_is_an_invalid_request() {
    for cursor in ["", "x", "{}"] {
        assert!(matches!(sample().provider.list(None, Some(cursor), 5), Err(Failure::InvalidRequest(_))), "{cursor}");
    }
}

#[test]
fn paths_are_completed_and_what_a_template_cannot_hold_is_left_out() {
    let fixture = sample();
    fixture.write("a/100%?.md", "");
    let complete = |name: &str, typed: &str| {
        fixture.provider.complete("{+path}{?lines,bytes,as}", &Argument::new(name, typed), &[]).unwrap().values
    };
    assert_eq!(complete("path", "a/"), ["a/deep", "a/picture.png", "a/z.rs", "a/deep/c.txt"]);
    assert_eq!(complete("as", "t"), ["text"]);
    assert_eq!(fixture.provider.templates().len(), 2);
}

#[test]
fn a_file_that_goes_away_between_two_pages_does_not_end_the_listing() {
    let fixture = sample();
    let first = fixture.provider.list(None, None, 2).unwrap();
    std::fs::remove_file(fixture.path("a/deep/c.txt")).unwrap();
    let second = fixture.provider.list(None, first.next_cursor.as_deref(), 9).unwrap();
    assert_eq!(
        second.entries.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(),
        ["a/picture.png", "a/z.rs", "b.md"]
    );
}

#[test]
fn an_empty_directory_has_an_empty_listing() {
    let fixture = Fixture::new(EMPTY);
    assert_eq!(fixture.list(None, 5).unwrap(), Vec::<String>::new());
    assert_eq!(fixture.read("").unwrap().as_text(), Some(""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_listing_is_resumed_from_any_cursor_with_any_limit(
        files in proptest::collection::btree_set("([ab日!0]{1,2}/){0,3}f[ab!0]{0,2}", 0..25), limit in 1usize..6, other in 1usize..6,
    ) {
        let fixture = Fixture::new(files.iter().map(|file| (file.as_str(), "")));
        let all = fixture.list(None, 1000).unwrap();
        prop_assert_eq!(all.len(), files.len());
        let mut cursor: Option<String> = None;
        let mut seen = 0;
        loop {
            let page = fixture.provider.list(None, cursor.as_deref(), limit).unwrap();
            seen += page.entries.len();
            let Some(next) = page.next_cursor else { break };
            let rest = fixture.provider.list(None, Some(&next), other).unwrap();
            prop_assert!(rest.entries.iter().map(|entry| &entry.path).eq(all[seen..].iter().take(other)));
            cursor = Some(next);
        }
        prop_assert_eq!(seen, all.len());
    }
}
