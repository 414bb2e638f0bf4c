//! Names on disk: all scripts, both normalization forms, and names that are not text.

use super::{EMPTY, Fixture};
use mcp_provider::{Failure, Provider, path};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_name_is_found_in_either_normalization_form_and_has_one_path() {
    let composed = "が/ぱ.md";
    let decomposed = "か\u{3099}/は\u{309a}.md";
    let mixed = "が/は\u{309a}.md";
    for on_disk in [composed, decomposed, mixed] {
        let fixture = Fixture::new([(on_disk, "found")]);
        assert_eq!(fixture.list(None, 5).unwrap(), [path::encode(on_disk)]);
        for asked in [composed, decomposed, mixed] {
            let contents = fixture.read(&path::encode(asked)).unwrap();
            assert_eq!(contents.as_text(), Some("found"), "{asked:?} on {on_disk:?}");
            assert_eq!(contents.entry.path, path::encode(on_disk), "it has one path");
            // Metadata are at the exact path only, because the host checks rules for the requested path.
            assert_eq!(fixture.provider.stat(&path::encode(asked)).is_ok(), asked == on_disk);
        }
    }
}

#[test]
fn two_names_that_differ_in_their_form_are_two_files() {
    let fixture = Fixture::new([("が.md", "composed"), ("か\u{3099}.md", "decomposed")]);
    assert_eq!(fixture.list(None, 5).unwrap().len(), 2);
    assert_eq!(fixture.read(&path::encode("が.md")).unwrap().as_text(), Some("composed"));
    assert_eq!(fixture.read(&path::encode("か\u{3099}.md")).unwrap().as_text(), Some("decomposed"));
}

#[test]
fn a_name_that_no_form_on_disk_equals_is_not_found() {
    let fixture = Fixture::new([("か.md", "")]);
    assert_eq!(fixture.provider.read(&path::encode("が.md")), Err(Failure::NotFound));
}

#[test]
fn names_in_any_script_are_listed_and_read_at_their_encoded_paths() {
    let names = [
        "new\nline",
        "quo\"te'",
        "100%",
        "%41",
        "a#b",
        "a?b",
        "with space",
        "日本語",
        "🎉",
        "back\\slash",
        "[x](y)",
        "a:b",
        "~",
    ];
    let fixture = Fixture::new(names.map(|name| (name, name)));
    let paths = fixture.list(None, 100).unwrap();
    assert_eq!(paths.len(), names.len());
    for listed in paths {
        let name = path::decode(&listed).unwrap();
        assert_eq!(fixture.read(&listed).unwrap().as_text(), Some(name.as_str()));
    }
}

#[test]
fn a_name_that_is_no_text_is_left_out_and_the_others_stay() {
    let fixture = Fixture::new(EMPTY);
    fixture.write("a.md", "");
    std::fs::write(fixture.path("").join(OsStr::from_bytes(b"\xff\xfe.md")), "").unwrap();
    assert_eq!(fixture.list(None, 5).unwrap(), ["a.md"]);
    assert_eq!(fixture.list(Some(""), 5).unwrap(), ["a.md"]);
    assert!(matches!(fixture.provider.read("%ff%fe.md"), Err(Failure::InvalidRequest(_))));
}
