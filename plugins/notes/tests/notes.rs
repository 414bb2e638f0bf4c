//! The metadata of notes, and their served content.

mod common;

use common::{Fixture, faults, strings};
use mcp_provider::{Failure, Provider, Role, Timestamp};

const WHOLE: &str = "---
title: Sandboxes
description: What a provider may touch
tags: [wasm, security]
audience: [user, assistant]
priority: 0.9
date: 2025-01-12
language: en-GB
draft: true
---
# A heading

Text.
";

#[test]
fn front_matter_becomes_title_description_and_annotations() {
    let fixture = Fixture::new([("a.md", WHOLE)]);
    let entry = fixture.provider.stat("a.md").unwrap();
    assert_eq!(entry.name, "a.md");
    assert_eq!(entry.title.as_deref(), Some("Sandboxes"));
    assert_eq!(entry.description.as_deref(), Some("What a provider may touch"));
    assert_eq!(entry.mime_type.as_deref(), Some("text/markdown"));
    assert_eq!(entry.audience, [Role::User, Role::Assistant]);
    assert_eq!(entry.priority, Some(0.9));
    assert_eq!(entry.last_modified, Some(Timestamp::from("2025-01-12T00:00:00Z")));
    assert_eq!(entry.meta.get("notes/language").and_then(|language| language.as_str()), Some("en-GB"));
    assert_eq!(strings(&entry, "notes/tags"), ["wasm", "security"]);
    assert_eq!(faults(&fixture, "a.md"), Vec::<String>::new());
    assert!(entry.subscribable && !entry.listable);
}

#[test]
fn a_note_is_read_whole_and_unchanged_and_says_the_same_of_itself() {
    let fixture = Fixture::new([("a.md", WHOLE)]);
    let contents = fixture.read("a.md").unwrap();
    assert_eq!(contents.as_text(), Some(WHOLE));
    assert_eq!(contents.entry, fixture.provider.stat("a.md").unwrap());
}

#[test]
fn a_note_without_front_matter_has_the_title_of_its_heading_and_the_time_of_its_file() {
    let fixture = Fixture::new([("a.md", "# 見出し\n\ntext")]);
    fixture.touch("a.md", 1_736_694_058);
    let entry = fixture.provider.stat("a.md").unwrap();
    assert_eq!(entry.title.as_deref(), Some("見出し"));
    assert_eq!(entry.last_modified, Some(Timestamp::from("2025-01-12T15:00:58Z")));
    assert_eq!(entry.size, Some(17));
    assert!(entry.meta.is_empty() && entry.audience.is_empty());
}

#[test]
fn malformed_front_matter_is_served_as_text_with_the_fault() {
    let text = "---\ntitle: [unclosed\n---\n# Still here\n";
    let fixture = Fixture::new([("a.md", text), ("b.md", "---\nno end"), ("c.md", "---\n- a\n- list\n---\n")]);
    let contents = fixture.read("a.md").unwrap();
    assert_eq!(contents.as_text(), Some(text));
    assert_eq!(contents.entry.title.as_deref(), Some("Still here"));
    for (path, begin) in [
        ("a.md", "front matter: line 3: "),
        ("b.md", "front matter: it has no closing"),
        ("c.md", "front matter: line 2"),
    ] {
        let faults = faults(&fixture, path);
        assert!(faults.len() == 1 && faults[0].starts_with(begin), "{path}: {faults:?}");
        assert_eq!(strings(&fixture.read(path).unwrap().entry, "notes/faults"), faults);
    }
    assert_eq!(fixture.list(None, 10).unwrap().len(), 3);
}

#[test]
fn a_field_that_makes_no_sense_is_dropped_with_a_fault_and_the_others_stay() {
    let fixture = Fixture::new([("a.md", "---\ntitle: T\npriority: 7\ndate: someday\n---\n")]);
    fixture.touch("a.md", 0);
    let entry = fixture.provider.stat("a.md").unwrap();
    assert_eq!((entry.title.as_deref(), entry.priority), (Some("T"), None));
    assert_eq!(entry.last_modified, Some(Timestamp::from("1970-01-01T00:00:00Z")));
    assert_eq!(strings(&entry, "notes/faults").len(), 2);
}

#[test]
fn front_matter_is_found_beyond_the_first_read_but_not_beyond_its_limit() {
    let padding = |bytes: usize| format!("---\npadding: {}\ntitle: T\n---\n", "x".repeat(bytes));
    let fixture = Fixture::new([("long.md", padding(30_000)), ("longer.md", padding(70_000))]);
    assert_eq!(fixture.provider.stat("long.md").unwrap().title.as_deref(), Some("T"));
    assert_eq!(fixture.provider.stat("longer.md").unwrap().title, None);
    assert_eq!(faults(&fixture, "longer.md").len(), 1);
    for path in ["long.md", "longer.md"] {
        assert_eq!(fixture.read(path).unwrap().entry, fixture.provider.stat(path).unwrap());
    }
}

#[test]
fn a_heading_that_the_first_read_cuts_off_is_read_to_its_end() {
    for bytes in 4060..4110 {
        let text = format!("---\npadding: {}\n---\n# The whole heading\ntext", "x".repeat(bytes - 20));
        let fixture = Fixture::new([("a.md", text)]);
        assert_eq!(fixture.provider.stat("a.md").unwrap().title.as_deref(), Some("The whole heading"));
    }
}

#[test]
fn a_note_that_is_no_text_is_served_as_bytes() {
    let fixture = Fixture::new([("a.md", b"---\ntitle: \x01\xff\n---\n".as_slice()), ("b.md", b"text \x01\xff")]);
    let contents = fixture.read("a.md").unwrap();
    assert_eq!((contents.as_text(), contents.entry.title.as_deref()), (None, None));
    assert!(faults(&fixture, "a.md")[0].contains("UTF-8"));
    assert_eq!(fixture.read("b.md").unwrap().as_bytes(), b"text \x01\xff");
}

#[test]
fn attachments_have_their_own_types() {
    let fixture = Fixture::new([
        ("a.svg", b"<svg/>".as_slice()),
        ("b.png", b"\x89PNG\r\n"),
        ("c.unheard-of", b"text"),
        ("d.unheard-of", b"\xff"),
        ("e.json", b"{}"),
        ("f.sql", b"SELECT 1"),
        ("go.mod", b"module a"),
    ]);
    for (path, mime, is_text) in [
        ("a.svg", "image/svg+xml", true),
        ("b.png", "image/png", false),
        ("c.unheard-of", "text/plain", true),
        ("d.unheard-of", "application/octet-stream", false),
        ("e.json", "application/json", true),
        ("f.sql", "text/x-sql", true),
        ("go.mod", "text/plain", true),
    ] {
        let contents = fixture.read(path).unwrap();
        assert_eq!(contents.entry.mime_type.as_deref(), Some(mime));
        assert_eq!(contents.as_text().is_some(), is_text, "{path}");
    }
}

#[test]
fn a_file_beyond_the_limit_is_listed_but_not_read() {
    let fixture = Fixture::with_config([("a.bin", "123456"), ("b.bin", "12345")], [("max-file-bytes", "5")]);
    assert_eq!(fixture.provider.stat("a.bin").unwrap().size, Some(6));
    let Err(Failure::Denied(reason)) = fixture.read("a.bin") else { panic!("expected a refusal") };
    assert_eq!(reason, "the file has 6 bytes, and this folder serves files of at most 5");
    assert_eq!(fixture.read("b.bin").unwrap().as_bytes(), b"12345");
}

#[test]
fn a_folder_that_is_not_granted_is_a_fault_that_says_what_to_write() {
    let config = mcp_provider::Config::from_pairs([("dir", "/no/such/folder")]);
    let Err(Failure::Internal(fault)) = notes_provider::Notes::open(&config) else { panic!("expected a fault") };
    assert!(fault.contains("grants.dirs"), "{fault}");
}
