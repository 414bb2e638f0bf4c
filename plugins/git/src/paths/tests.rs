use super::*;

fn invalid(path: &str) -> bool {
    matches!(Address::parse(path), Err(Failure::InvalidRequest(_)))
}

#[test]
fn each_family_is_recognized() {
    let (rev, path) = (BString::from("feature/x"), BString::from("a b/c"));
    let parse = |path: &str| Address::parse(path).unwrap();
    let log = |path, limit| {
        let range = LogRange { skip: 0, limit };
        Address::Log { since: None, rev: rev.clone(), path, range, follow: false }
    };
    assert_eq!(parse("blob/feature%2Fx/a%20b/c"), Address::Blob { rev: rev.clone(), path: path.clone() });
    assert_eq!(parse("tree/feature%2Fx/a%20b/c"), Address::Tree { rev: rev.clone(), path: path.clone() });
    assert_eq!(parse("commit/feature%2Fx"), Address::Commit { rev: rev.clone() });
    assert_eq!(parse("log/feature%2Fx"), log(None, 50));
    for path in ["log/feature%2Fx?path=a%20b%2Fc&limit=3", "log/feature%2Fx?limit=3&path=a%20b/c/"] {
        assert_eq!(parse(path), log(Some("a b/c".into()), 3), "{path}");
    }
    assert_eq!(parse("refs"), Address::Refs { after: None });
    for path in ["refs?after=refs%2Fheads%2Fa%20b", "refs?after=refs/heads/a%20b"] {
        assert_eq!(parse(path), Address::Refs { after: Some("refs/heads/a b".into()) }, "{path}");
    }
    assert_eq!(parse(&refs_after("refs/heads/=&é".into())), Address::Refs { after: Some("refs/heads/=&é".into()) });
}

#[test]
fn a_range_has_two_ends_which_are_the_head_if_missing() {
    let parse = |path: &str| Address::parse(path).unwrap();
    for (path, before, after) in
        [("v1..feature%2Fx", "v1", "feature/x"), ("v1..", "v1", "HEAD"), ("..v2", "HEAD", "v2")]
    {
        let (before, after) = (BString::from(before), BString::from(after));
        let diff = Address::Diff { before: before.clone(), after: after.clone(), path: Some("a/b".into()) };
        assert_eq!(parse(&format!("diff/{path}?path=a%2Fb")), diff);
        let range = LogRange::default();
        let log = Address::Log { since: Some(before), rev: after, path: None, range, follow: false };
        assert_eq!(parse(&format!("log/{path}")), log);
    }
    assert_eq!(parse("log/a..b").revs().collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn lines_are_counted_from_one_and_both_ends_are_included() {
    for (query, expected) in [
        ("", 0..9),
        ("?lines=", 0..9),
        ("?lines=2-3", 1..3),
        ("?lines=8-", 7..9),
        ("?lines=-2", 7..9),
        ("?lines=20-30", 9..9),
    ] {
        let Ok(Address::Blame { lines, .. }) = Address::parse(&format!("blame/main/a{query}")) else { panic!() };
        assert_eq!(lines.of(9), expected, "{query}");
    }
}

#[test]
fn the_root_is_a_tree_with_and_without_a_slash() {
    for path in ["tree/main", "tree/main/"] {
        assert_eq!(Address::parse(path), Ok(Address::Tree { rev: "main".into(), path: "".into() }), "{path}");
    }
}

#[test]
fn what_has_no_shape_of_ours_is_refused() {
    for path in ["", "blob", "blob/", "blob/main", "blob/main/", "tree", "tree/", "commit", "commit/", "log", "log/"] {
        assert!(invalid(path), "{path:?}");
    }
    for path in [
        "refs/",
        "refs/heads",
        "commit/feature/x",
        "log/feature/x",
        "blob//a",
        "tags/v1",
        "refs?x=1",
        "refs?",
        "refs?after=a&b=c",
    ] {
        assert!(invalid(path), "{path:?}");
    }
    for path in [
        "blob/main/a?x=1",
        "tree/main?limit=1",
        "log/main?skip=-1",
        "log/main?skip=200001",
        "log/main?limit=0",
        "log/main?limit=1001",
        "log/main?follow=true",
        "log/a...b",
        "log/a..b/c",
        "diff/main",
        "diff/a...b",
        "diff/a..b?limit=1",
        "diff/a..b?path=a&path=b",
        "blame/main",
        "blame/main/",
        "blame/main/a?lines=0-1",
        "blame/main/a?lines=3-2",
        "blame/main/a?lines=3",
        "blame/main/a?lines=-",
        "blame/main/a?path=b",
    ] {
        assert!(invalid(path), "{path:?}");
    }
}

#[test]
fn a_path_that_means_to_escape_is_refused() {
    for names in ["..", "a/../b", "%2e%2e/a", "a%2Fb", "a//b", "a/", "%00", "%zz", "."] {
        assert!(invalid(&format!("blob/main/{names}")), "{names:?}");
    }
    for names in ["..", "a%2F..%2Fb", "a//b", "%00", "."] {
        assert!(invalid(&format!("log/main?path={names}")), "{names:?}");
    }
}

proptest::proptest! {
    #[test]
    fn what_is_built_is_parsed_back(
        rev in proptest::collection::vec(1u8.., 1..20),
        path in proptest::collection::vec("[^/\0.][^/\0]{0,8}", 1..4),
    ) {
        let path: BString = path.join("/").into();
        let rev: BString = rev.into();
        let blob = Address::parse(&blob(rev.as_ref(), path.as_ref())).unwrap();
        let tree = Address::parse(&tree(rev.as_ref(), path.as_ref())).unwrap();
        proptest::prop_assert_eq!(blob, Address::Blob { rev: rev.clone(), path: path.clone() });
        proptest::prop_assert_eq!(tree, Address::Tree { rev, path });
    }

    #[test]
    fn no_path_makes_it_panic(path in ".*") {
        let _ = Address::parse(&path);
        let _ = Address::parse(&format!("log/{path}"));
        let _ = Address::parse(&format!("log/main?{path}"));
    }
}
