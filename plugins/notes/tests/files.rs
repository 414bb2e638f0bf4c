//! Unusual items on disk: links, special names, special files.
#![cfg(unix)]

mod common;

use common::Fixture;
use mcp_provider::{Failure, Provider, path};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

const NAMES: [&str; 15] = [
    "new\nline.md",
    "quo\"te'.md",
    "100%.md",
    "%41.md",
    "a#b.md",
    "a?b.md",
    "with space.md",
    "日本語.md",
    "🎉.md",
    "back\\slash.md",
    "a&b=c;d.md",
    "[x](y).md",
    "a:b.md",
    "~.md",
    "e\u{301}.md",
];

#[test]
fn names_in_any_script_are_listed_and_read_at_their_encoded_paths() {
    let fixture = Fixture::new(NAMES.map(|name| (name, format!("I am {name}"))));
    let entries = fixture.provider.list(None, None, 100).unwrap().entries;
    assert_eq!(entries.len(), NAMES.len());
    for entry in entries {
        assert!(entry.path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", entry.path);
        assert_eq!(path::decode(&entry.path).unwrap(), entry.name);
        let contents = fixture.read(&entry.path).unwrap();
        assert_eq!(contents.as_text(), Some(format!("I am {}", entry.name).as_str()));
    }
}

#[test]
fn folders_in_any_script_are_listed_by_their_encoded_paths() {
    let fixture = Fixture::new([("設計 メモ/第1章?.md", "# 一\n")]);
    let folder = "%E8%A8%AD%E8%A8%88%20%E3%83%A1%E3%83%A2";
    assert_eq!(fixture.list(Some(""), 5).unwrap(), [folder]);
    let notes = fixture.list(Some(folder), 5).unwrap();
    assert_eq!(fixture.provider.stat(&notes[0]).unwrap().title.as_deref(), Some("一"));
}

#[test]
fn a_name_that_is_no_text_is_left_out_and_the_others_stay() {
    let fixture = Fixture::new([("a.md", "")]);
    std::fs::write(fixture.path("").join(OsStr::from_bytes(b"\xff\xfe.md")), "").unwrap();
    assert_eq!(fixture.list(None, 5).unwrap(), ["a.md"]);
    assert_eq!(fixture.list(Some(""), 5).unwrap(), ["a.md"]);
}

#[test]
fn a_link_that_leads_out_of_the_folder_is_refused_and_not_listed() {
    let fixture = Fixture::new([("a.md", ""), ("folder/b.md", "")]);
    std::fs::write(fixture.path("../secret.md"), "secret").unwrap();
    std::fs::create_dir(fixture.path("../notes-beside")).unwrap();
    std::fs::write(fixture.path("../notes-beside/secret.md"), "secret").unwrap();
    symlink("../secret.md", fixture.path("relative.md")).unwrap();
    symlink("../../secret.md", fixture.path("folder/deeper.md")).unwrap();
    symlink(fixture.path("../secret.md"), fixture.path("absolute.md")).unwrap();
    symlink("../notes-beside", fixture.path("outside")).unwrap();
    symlink("relative.md", fixture.path("twice.md")).unwrap();
    symlink("/etc", fixture.path("etc")).unwrap();
    for path in
        ["relative.md", "folder/deeper.md", "absolute.md", "outside", "outside/secret.md", "twice.md", "etc/passwd"]
    {
        assert!(matches!(fixture.provider.read(path), Err(Failure::Denied(_))), "{path}");
        assert!(matches!(fixture.provider.stat(path), Err(Failure::Denied(_))), "{path}");
    }
    assert!(matches!(fixture.list(Some("outside"), 5), Err(Failure::Denied(_))));
    assert_eq!(fixture.list(None, 9).unwrap(), ["a.md", "folder/b.md"]);
    assert_eq!(fixture.list(Some(""), 9).unwrap(), ["a.md", "folder"]);
}

#[test]
fn a_link_inside_the_folder_is_what_it_leads_to() {
    let fixture = Fixture::new([("folder/a.md", "# A\n")]);
    symlink("folder/a.md", fixture.path("link.md")).unwrap();
    symlink("folder", fixture.path("other")).unwrap();
    assert_eq!(fixture.list(None, 9).unwrap(), ["folder/a.md", "link.md"]);
    assert_eq!(fixture.list(Some(""), 9).unwrap(), ["folder", "link.md", "other"]);
    assert_eq!(fixture.read("link.md").unwrap().as_text(), Some("# A\n"));
    assert_eq!(fixture.list(Some("other"), 9).unwrap(), ["other/a.md"]);
    assert_eq!(fixture.read("other/a.md").unwrap().as_text(), Some("# A\n"));
}

#[test]
fn links_in_circles_and_to_nothing_end_no_listing() {
    let fixture = Fixture::new([("folder/a.md", "")]);
    symlink(".", fixture.path("folder/self")).unwrap();
    symlink("..", fixture.path("folder/up")).unwrap();
    symlink("b", fixture.path("a")).unwrap();
    symlink("a", fixture.path("b")).unwrap();
    symlink("nowhere", fixture.path("dangling.md")).unwrap();
    assert_eq!(fixture.list(None, 9).unwrap(), ["folder/a.md"]);
    assert_eq!(fixture.provider.read("dangling.md"), Err(Failure::NotFound));
    assert!(fixture.provider.read("a").is_err());
}

#[test]
fn what_is_neither_file_nor_folder_is_not_there() {
    let fixture = Fixture::new([("a.md", "")]);
    std::os::unix::net::UnixListener::bind(fixture.path("socket.md")).unwrap();
    assert_eq!(fixture.list(None, 9).unwrap(), ["a.md"]);
    assert_eq!(fixture.provider.read("socket.md"), Err(Failure::NotFound));
}

#[test]
fn what_may_not_be_read_is_left_out_and_the_others_stay() {
    let fixture = Fixture::new([("a.md", ""), ("locked.md", ""), ("closed/b.md", "")]);
    let lock = |names: &str| {
        let path = fixture.path(names);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        // Permissions do not apply to root.
        std::fs::File::open(path).is_err()
    };
    if lock("locked.md") && lock("closed") {
        assert_eq!(fixture.list(None, 9).unwrap(), ["a.md"]);
        assert!(matches!(fixture.provider.read("locked.md"), Err(Failure::Denied(_))));
    }
    std::fs::set_permissions(fixture.path("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
}
