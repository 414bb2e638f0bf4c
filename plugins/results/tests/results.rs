//! The provider on directories on disk.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "code of tests"
)]

use mcp_provider::{Argument, Failure, Provider};
use proptest::prelude::*;
use results_provider::Results;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

type Fixture = folder::fixture::Fixture<Results>;

const EMPTY: [(&str, &str); 0] = [];

/// Publishes a result with a Markdown file.
fn publish(fixture: &Fixture, id: &str, metadata: &Value) {
    fixture.write(&format!("{id}.md"), format!("# {id}\n"));
    fixture.write(&format!("{id}.meta.json"), metadata.to_string());
}

fn listed(fixture: &Fixture) -> Vec<String> {
    fixture.list(None, 2).unwrap()
}

#[test]
fn a_result_is_there_once_its_metadata_is() {
    let fixture = Fixture::new(EMPTY);
    assert_eq!(listed(&fixture), Vec::<String>::new());
    assert_eq!(fixture.read("latest"), Err(Failure::NotFound));
    fixture.write("a/b.md", "# B\n");
    fixture.write("a/b.json", "{}");
    assert_eq!(listed(&fixture), Vec::<String>::new(), "it is not published");
    fixture.write(".b.meta.json", "{}");
    fixture.write("a/b.meta.json", "{\"title\": \"B");
    assert_eq!(listed(&fixture), Vec::<String>::new(), "its metadata is not whole");
    fixture.write("a/b.meta.json", "{\"title\": \"B\"}");
    fixture.write("c.meta.json", "{}");
    assert_eq!(listed(&fixture), ["a/b", "latest"], "metadata without content is no result");
    let contents = fixture.provider.read("a/b").unwrap();
    let texts: Vec<_> = contents.iter().map(|contents| contents.as_text().unwrap()).collect();
    assert_eq!(texts, ["# B\n", "{}"]);
    assert_eq!(contents[0].entry.title.as_deref(), Some("B"));
}

#[test]
fn files_other_than_the_declared_ones_are_no_result() {
    let fixture = Fixture::new([("a.md", "12345"), ("a.meta.json", r#"{"files": {"md": 5}}"#)]);
    assert_eq!(listed(&fixture), ["a", "latest"]);
    fixture.write("a.md", "1234");
    assert_eq!((listed(&fixture), fixture.read("a")), (Vec::new(), Err(Failure::NotFound)));
    fixture.write("a.md", "12345");
    fixture.write("a.csv", "x");
    assert_eq!(listed(&fixture), Vec::<String>::new());
}

#[test]
fn what_is_superseded_is_not_listed_and_says_so_without_a_name() {
    let fixture = Fixture::new(EMPTY);
    publish(&fixture, "a", &json!({ "key": "k", "created": "2025-01-01T00:00:00Z" }));
    publish(&fixture, "b", &json!({ "key": "k", "created": "2025-01-02T00:00:00Z", "supersedes": ["a", "c", "none"] }));
    publish(&fixture, "c", &json!({ "key": "k", "created": "2025-01-03T00:00:00Z", "supersedes": "b" }));
    publish(&fixture, "d", &json!({ "created": "2024-01-01T00:00:00Z" }));
    assert_eq!(listed(&fixture), ["c", "d", "latest"], "of a circle the newest is current");
    assert_eq!(fixture.read("latest").unwrap().as_text(), Some("# c\n"));
    assert_eq!(fixture.read("by/k").unwrap().entry.path, "c");
    assert_eq!(fixture.list(Some("by/k"), 2).unwrap(), ["c", "b", "a"]);
    assert_eq!(fixture.list(Some("latest"), 1).unwrap(), ["c", "d"]);
    let superseded = |id: &str| fixture.provider.stat(id).unwrap().meta.get("results/superseded").cloned();
    assert_eq!([superseded("a"), superseded("b"), superseded("c")], [Some(json!(true)), Some(json!(true)), None]);
    // An expired result still supersedes others.
    publish(
        &fixture,
        "c",
        &json!({ "created": "2025-01-03T00:00:00Z", "supersedes": "b", "expires": "2025-01-04T00:00:00Z" }),
    );
    assert_eq!(listed(&fixture), ["d", "latest"]);
    assert_eq!(fixture.read("c"), Err(Failure::NotFound));
}

#[test]
fn results_are_found_by_key_and_by_the_digest_of_their_inputs() {
    let fixture = Fixture::new(EMPTY);
    publish(&fixture, "a", &json!({ "key": "売上/月次", "inputs": "sha256:ab" }));
    publish(&fixture, "b", &json!({ "inputs": { "x": "sha256:cd" } }));
    assert_eq!(fixture.list(Some("by"), 1).unwrap(), ["by/sha256:ab", "by/%E5%A3%B2%E4%B8%8A%2F%E6%9C%88%E6%AC%A1"]);
    for path in ["by/sha256:ab", "by/%E5%A3%B2%E4%B8%8A%2F%E6%9C%88%E6%AC%A1"] {
        assert_eq!(fixture.read(path).unwrap().entry.path, "a");
    }
    assert_eq!(fixture.read("by/none"), Err(Failure::NotFound));
    assert_eq!(fixture.list(Some("by/none"), 9), Err(Failure::NotFound));
    let complete = |template: &str, name: &str, typed: &str| {
        fixture.provider.complete(template, &Argument::new(name, typed), &[]).unwrap().values
    };
    assert_eq!(complete("by/{key}", "key", "sha"), ["sha256:ab"]);
    assert_eq!(complete("{+id}", "id", ""), ["a", "b"]);
}

#[test]
fn reserved_ids_and_files_of_other_types_are_no_results() {
    let fixture = Fixture::new([("x.txt", "x"), ("x.meta.json", "{}")]);
    for id in ["latest", "by", "by/x"] {
        publish(&fixture, id, &json!({}));
    }
    assert_eq!(listed(&fixture), Vec::<String>::new());
}

#[test]
fn the_newest_result_is_one_that_can_be_read_if_there_is_one() {
    let fixture = Fixture::with_config(EMPTY, [("max-file", "10B")]);
    publish(&fixture, "huge-result", &json!({ "key": "k", "created": "2025-01-02T00:00:00Z" }));
    assert!(fixture.read("latest").unwrap_err().to_string().contains("expected at most 10"));
    publish(&fixture, "small", &json!({ "key": "k", "created": "2025-01-01T00:00:00Z" }));
    for path in ["latest", "by/k"] {
        let found = fixture.read(path).unwrap();
        assert_eq!(found.as_text(), Some("# small\n"), "{path}");
        assert_eq!(found.entry.meta["mcp-host/notices"][0]["kind"], "stale", "{path}");
    }
    assert!(!fixture.read("small").unwrap().entry.meta.contains_key("mcp-host/notices"));
}

#[test]
fn exactly_what_a_writer_did_has_changed() {
    let fixture = Fixture::new(EMPTY);
    publish(&fixture, "a", &json!({ "key": "k", "created": "2025-01-01T00:00:00Z" }));
    publish(&fixture, "b", &json!({ "created": "2025-01-01T00:00:00Z" }));
    let paths = ["a", "b", "new", "latest", "by/k", "by"].map(str::to_owned);
    let start = fixture.changes(&paths, None);
    assert_eq!(fixture.changes(&paths, Some(&start.token)), start);
    assert_eq!(start.poll_after, None);
    fixture.write(".new.md.tmp", "half");
    fixture.write("new.md", "whole");
    let quiet = fixture.changes(&paths, Some(&start.token));
    assert!(quiet.changed.is_empty() && !quiet.listing_changed, "it is not published");
    fixture.write("new.meta.json", r#"{"key": "k", "supersedes": "a", "expires": "2999-01-01T00:00:00Z"}"#);
    let published = fixture.changes(&paths, Some(&quiet.token));
    assert_eq!(
        (published.changed.as_slice(), published.listing_changed),
        (&["a", "new", "latest", "by/k"].map(str::to_owned)[..], true)
    );
    assert!(published.poll_after.unwrap() > Duration::from_secs(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Pages of any size contain each current result once. In every graph of superseding results, the newest one is
    /// current.
    #[test]
    fn pages_have_each_current_result_once(
        results in proptest::collection::btree_map("[a-f]", (0_u8..5, proptest::collection::vec("[a-f]", 0..3)), 1..6),
        limit in 1_usize..4,
    ) {
        let fixture = Fixture::new(EMPTY);
        for (id, (day, supersedes)) in &results {
            let created = format!("2025-01-0{}T00:00:00Z", day + 1);
            publish(&fixture, id, &json!({ "created": created, "supersedes": supersedes }));
        }
        let listed = fixture.list(None, limit).unwrap();
        let unique: BTreeSet<&String> = listed.iter().collect();
        prop_assert_eq!(unique.len(), listed.len());
        prop_assert!(listed.len() >= 2, "`latest` and a result: {:?}", listed);
        let newest = fixture.read("latest").unwrap().entry.path;
        prop_assert!(listed.contains(&newest));
        let age = |id: &String| (results[id].0, id.clone());
        prop_assert!(results.keys().all(|id| age(id) <= age(&newest)), "the newest of all is superseded by none");
    }
}
