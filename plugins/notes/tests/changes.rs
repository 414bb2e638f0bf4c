//! Change detection.

mod common;

use common::Fixture;
use mcp_provider::Changes;

fn sample() -> Fixture {
    let fixture = Fixture::new([("a.md", "a"), ("b.md", "b"), ("folder/c.md", "c")]);
    for names in ["a.md", "b.md", "folder/c.md"] {
        fixture.touch(names, 1000);
    }
    fixture
}

fn changes(fixture: &Fixture, paths: &[&str], since: Option<&str>) -> Changes {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    fixture.changes(&paths, since)
}

#[test]
fn without_a_token_nothing_has_changed_yet() {
    let fixture = sample();
    let start = changes(&fixture, &["a.md"], None);
    assert!(start.changed.is_empty() && !start.listing_changed);
    let again = changes(&fixture, &["a.md"], Some(&start.token));
    assert_eq!(again, start);
}

#[test]
fn a_note_that_is_edited_has_changed_and_so_have_its_folder_and_the_collections() {
    let fixture = sample();
    let paths = ["a.md", "folder/c.md", "folder", "", "tag/x"];
    let start = changes(&fixture, &paths, None);
    fixture.write("folder/c.md", "longer");
    let after = changes(&fixture, &paths, Some(&start.token));
    assert_eq!(after.changed, ["folder/c.md", "folder", "tag/x"]);
    assert!(after.listing_changed);
    assert!(changes(&fixture, &paths, Some(&after.token)).changed.is_empty());
}

#[test]
fn what_appears_in_a_folder_concerns_the_folder_and_not_the_one_above() {
    let fixture = sample();
    let paths = ["folder", "folder/new.md", ""];
    let start = changes(&fixture, &paths, None);
    fixture.write("folder/new.md", "new");
    assert_eq!(changes(&fixture, &paths, Some(&start.token)).changed, ["folder", "folder/new.md"]);
}

#[test]
fn an_edit_that_keeps_the_size_is_told_by_its_time() {
    let fixture = sample();
    let start = changes(&fixture, &["a.md", "b.md"], None);
    fixture.write("a.md", "z");
    fixture.touch("a.md", 1001);
    assert_eq!(changes(&fixture, &["a.md", "b.md"], Some(&start.token)).changed, ["a.md"]);
}

#[test]
fn what_appears_or_goes_away_has_changed() {
    let fixture = sample();
    let paths = ["a.md", "new.md", "b.md", "never.md", "..%2F"];
    let start = changes(&fixture, &paths, None);
    fixture.write("new.md", "");
    std::fs::remove_file(fixture.path("a.md")).unwrap();
    let after = changes(&fixture, &paths, Some(&start.token));
    assert_eq!(after.changed, ["a.md", "new.md"]);
    assert!(after.listing_changed);
}

#[test]
fn a_hidden_file_changes_nothing() {
    let fixture = sample();
    let start = changes(&fixture, &["a.md"], None);
    fixture.write(".hidden", "x");
    assert!(!changes(&fixture, &["a.md"], Some(&start.token)).listing_changed);
}

#[test]
fn a_path_that_the_token_does_not_know_is_said_to_have_changed() {
    let fixture = sample();
    let start = changes(&fixture, &["a.md"], None);
    assert_eq!(changes(&fixture, &["a.md", "b.md"], Some(&start.token)).changed, ["b.md"]);
}

#[test]
fn a_token_that_is_not_understood_means_that_all_has_changed() {
    let fixture = sample();
    for token in ["", "n1", "rubbish"] {
        let after = changes(&fixture, &["a.md", "b.md"], Some(token));
        assert_eq!(after.changed, ["a.md", "b.md"]);
        assert!(after.listing_changed);
    }
}

#[test]
fn a_token_for_very_many_paths_stays_small_and_reports_few_others_with_one_that_changed() {
    let fixture = sample();
    let mut paths: Vec<String> = (0..5000).map(|n| format!("{n}.md")).collect();
    paths.push("a.md".to_owned());
    let start = fixture.changes(&paths, None);
    assert!(start.token.len() <= 65536);
    assert!(fixture.changes(&paths, Some(&start.token)).changed.is_empty());
    fixture.write("a.md", "longer");
    let changed = fixture.changes(&paths, Some(&start.token)).changed;
    assert!(changed.iter().any(|path| path == "a.md"), "{changed:?}");
    assert!(changed.len() < 16, "paths with the same hash count as changed, too: {}", changed.len());
}
