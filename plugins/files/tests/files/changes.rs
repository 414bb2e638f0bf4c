//! Change detection.

use super::Fixture;
use mcp_provider::Changes;

fn changes(fixture: &Fixture, paths: &[&str], since: Option<&str>) -> Changes {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    fixture.changes(&paths, since)
}

#[test]
fn exactly_what_an_edit_concerns_has_changed() {
    let fixture = Fixture::new([("a.md", "a"), ("b.md", "b"), ("folder/c.md", "c")]);
    let paths = ["a.md", "a.md?lines=1-2", "b.md", "folder/c.md", "folder", ""];
    let start = changes(&fixture, &paths, None);
    assert!(start.changed.is_empty() && !start.listing_changed);
    assert_eq!(changes(&fixture, &paths, Some(&start.token)), start);
    fixture.write("a.md", "longer");
    let edited = changes(&fixture, &paths, Some(&start.token));
    assert_eq!(
        (edited.changed, edited.listing_changed),
        (vec!["a.md".into(), "a.md?lines=1-2".into(), String::new()], true)
    );
    fixture.write("folder/new.md", "");
    let created = changes(&fixture, &paths, Some(&edited.token));
    assert_eq!((created.changed, created.listing_changed), (vec!["folder".to_owned()], true));
    std::fs::remove_file(fixture.path("folder/c.md")).unwrap();
    let deleted = changes(&fixture, &paths, Some(&created.token));
    assert_eq!(deleted.changed, ["folder/c.md", "folder"]);
}

#[test]
fn an_edit_that_keeps_size_and_time_is_told_all_the_same() {
    let fixture = Fixture::new([("a.md", "a"), ("b.md", "b")]);
    for names in ["a.md", "b.md"] {
        fixture.touch(names, 1000);
    }
    let start = changes(&fixture, &["a.md", "b.md"], None);
    // The time of the last change has the resolution of the kernel's timer.
    std::thread::sleep(std::time::Duration::from_millis(20));
    fixture.write("a.md", "z");
    fixture.touch("a.md", 1000);
    assert_eq!(changes(&fixture, &["a.md", "b.md"], Some(&start.token)).changed, ["a.md"]);
}

#[test]
fn what_is_not_served_changes_nothing_until_it_is() {
    let fixture = Fixture::new([(".gitignore", "*.log\n"), ("a.md", "a")]);
    let start = changes(&fixture, &["a.md", "b.log"], None);
    fixture.write("b.log", "x");
    fixture.write(".env", "x");
    let quiet = changes(&fixture, &["a.md", "b.log"], Some(&start.token));
    assert!(quiet.changed.is_empty() && !quiet.listing_changed);
    fixture.write(".gitignore", "");
    let shown = changes(&fixture, &["a.md", "b.log"], Some(&quiet.token));
    assert_eq!((shown.changed, shown.listing_changed), (vec!["b.log".to_owned()], true));
}

#[test]
fn a_token_that_is_not_understood_means_that_all_has_changed() {
    let fixture = Fixture::new([("a.md", "a")]);
    for token in ["", "n1.0.each.", "rubbish"] {
        let all = changes(&fixture, &["a.md"], Some(token));
        assert!(all.listing_changed && all.changed == ["a.md"], "{token}");
    }
}
