//! The provider `notes`, on the example notes and on generated ones.

mod japanese;
mod limits;
mod subscriptions;

use std::os::unix::fs::symlink;
use std::path::Path;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, StdioServer, reserved_expansion};
use rmcp::model::{ErrorCode, ResourceContents, Role};
use serde_json::json;

fn notes_config(folder: &Path) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::notes("diary", folder))
}

const PLAN: &str = "\
---
title: The plan
description: What comes next.
tags: [work, 計画]
audience: [user, assistant]
priority: 0.8
date: 2025-01-12T15:00:58+09:00
language: en
---
# Not the title

Do it.
";

fn generated_notes() -> Folder {
    Folder::with_files([
        ("plan.md", PLAN),
        ("heading.md", "# From the heading\n\nText.\n"),
        ("plain.txt", "plain"),
        ("会議/議事録 二月.md", "---\ntitle: 二月の会議\ntags: 計画\nlanguage: ja\npriority: 1\n---\n本文。\n"),
        ("broken.md", "---\ntitle: [never closed\npriority: 7\n---\nStill here.\n"),
        ("unclosed.md", "---\ntitle: no end\n\nStill here, too.\n"),
        ("bounds.md", "---\ntitle: Out of bounds\npriority: 7\ndate: someday\n---\nText.\n"),
        (".hidden.md", "hidden"),
        (".git/config", "hidden"),
        ("a/.b/c.md", "hidden"),
    ])
}

#[tokio::test]
async fn front_matter_becomes_title_description_and_annotations() {
    let folder = generated_notes();
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    let plan = resources.iter().find(|resource| resource.uri == "notes://diary/plan.md").unwrap();
    assert_eq!((plan.title.as_deref(), plan.description.as_deref()), (Some("The plan"), Some("What comes next.")));
    assert_eq!(plan.mime_type.as_deref(), Some("text/markdown"));
    let annotations = plan.annotations.as_ref().unwrap();
    assert_eq!(annotations.audience.as_deref(), Some([Role::User, Role::Assistant].as_slice()));
    assert_eq!(annotations.last_modified.as_deref(), Some("2025-01-12T06:00:58Z"));
    let heading = resources.iter().find(|resource| resource.uri == "notes://diary/heading.md").unwrap();
    assert_eq!(heading.title.as_deref(), Some("From the heading"));
    assert_eq!(server.client().text("notes://diary/plan.md").await, PLAN, "a note is read whole");
    server.end().await;
}

#[tokio::test]
async fn a_priority_is_on_the_wire_as_it_was_written() {
    let folder = generated_notes();
    let config = notes_config(folder.path()).write();
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let mut wire = RawStdio::start(&config, revision).await;
        let listed = wire.request("resources/list", json!({})).await;
        let resources = listed.result()["resources"].as_array().unwrap();
        let plan = resources.iter().find(|resource| resource["uri"] == "notes://diary/plan.md").unwrap();
        assert_eq!(plan["annotations"]["priority"], json!(0.8));
        wire.end().await;
    }
}

#[tokio::test]
async fn names_in_any_script_are_listed_and_read() {
    let folder = generated_notes();
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let uri = "notes://diary/%E4%BC%9A%E8%AD%B0/%E8%AD%B0%E4%BA%8B%E9%8C%B2%20%E4%BA%8C%E6%9C%88.md";
    let resources = server.client().resources().await;
    let minutes = resources.iter().find(|resource| resource.uri == uri).unwrap();
    assert_eq!((minutes.name.as_str(), minutes.title.as_deref()), ("議事録 二月.md", Some("二月の会議")));
    assert_eq!(minutes.annotations.as_ref().unwrap().priority, Some(1.0));
    assert!(server.client().text(uri).await.ends_with("本文。\n"));
    server.end().await;
}

#[tokio::test]
async fn collections_by_tag_and_language_name_their_notes() {
    let folder = generated_notes();
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let templates: Vec<_> = client.templates().await.into_iter().map(|template| template.uri_template).collect();
    assert_eq!(templates, ["notes://diary/{+path}", "notes://diary/tag/{tag}", "notes://diary/lang/{lang}"]);
    let tag = client.text("notes://diary/tag/%E8%A8%88%E7%94%BB").await;
    assert!(tag.contains("The plan") && tag.contains("二月の会議") && !tag.contains("From the heading"), "{tag}");
    let language = client.text("notes://diary/lang/ja").await;
    assert!(language.contains("二月の会議") && !language.contains("The plan"), "{language}");
    let tags = client.complete("notes://diary/tag/{tag}", ("tag", ""), &[]).await.unwrap();
    assert_eq!(tags.values, ["計画", "work"], "the most used first");
    assert_eq!(client.read_error("notes://diary/tag/none").await.code, ErrorCode(-32002));
    server.end().await;
}

#[tokio::test]
async fn paths_in_any_script_are_completed_to_what_the_template_makes_a_uri_of() {
    let folder = generated_notes();
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let completed = server.client().complete("notes://diary/{+path}", ("path", ""), &[]).await.unwrap();
    assert_eq!(completed.values.len(), 7, "{completed:?}");
    for value in completed.values {
        let uri = format!("notes://diary/{}", reserved_expansion(&value));
        assert!(!server.client().bytes(&uri).await.is_empty(), "{value}");
    }
    server.end().await;
}

#[tokio::test]
async fn malformed_front_matter_is_served_as_text_with_its_fault() {
    let folder = generated_notes();
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    for (name, said) in [("broken", "front matter"), ("unclosed", "no closing line"), ("bounds", "priority")] {
        let contents = server.client().read(&format!("notes://diary/{name}.md")).await.unwrap();
        let ResourceContents::TextResourceContents { text, meta, .. } = &contents[0] else { panic!("{contents:?}") };
        assert!(text.starts_with("---\n"), "{name}: {text}");
        let faults = meta.as_ref().unwrap()["notes/faults"].to_string();
        assert!(faults.contains(said), "{name}: {faults}");
    }
    let resources = server.client().resources().await;
    let bounds = resources.iter().find(|resource| resource.uri == "notes://diary/bounds.md").unwrap();
    assert_eq!(bounds.title.as_deref(), Some("Out of bounds"));
    assert!(bounds.annotations.as_ref().is_none_or(|annotations| annotations.priority.is_none()));
    server.end().await;
}

#[tokio::test]
async fn hidden_files_are_neither_listed_nor_read() {
    let folder = generated_notes();
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let uris = server.client().uris().await;
    assert_eq!(uris.len(), 7, "{uris:?}");
    for path in [".hidden.md", "%2ehidden.md", ".git/config", "%2Egit/config", "a/.b/c.md", "a/%2eb/c.md"] {
        let error = server.client().read_error(&format!("notes://diary/{path}")).await;
        assert_eq!(error.code, ErrorCode(-32002), "{path}");
    }
    server.end().await;
}

#[tokio::test]
async fn links_that_leave_the_folder_are_refused_and_those_that_stay_are_followed() {
    let outside = Folder::with_files([("secret.md", "# Secret"), ("dir/deep.md", "# Deep")]);
    let folder = Folder::with_files([("real.md", "# Real"), ("sub/a.md", "# A")]);
    let secret = outside.path().join("secret.md");
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    folder.symlink("inside.md", "real.md");
    folder.symlink("absolute.md", &secret);
    folder.symlink("relative.md", format!("../{name}/secret.md"));
    folder.symlink("twice.md", "absolute.md");
    folder.symlink("away", outside.path());
    folder.symlink("loop.md", "loop.md");
    folder.symlink("nowhere.md", "nothing-here.md");
    symlink("../real.md", folder.path().join("sub/up.md")).unwrap();
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let uris = client.uris().await;
    assert_eq!(
        uris,
        ["notes://diary/inside.md", "notes://diary/real.md", "notes://diary/sub/a.md", "notes://diary/sub/up.md"]
    );
    assert_eq!(client.text("notes://diary/inside.md").await, "# Real");
    assert_eq!(client.text("notes://diary/sub/up.md").await, "# Real");
    for path in
        ["absolute.md", "relative.md", "twice.md", "away/secret.md", "away/dir/deep.md", "loop.md", "nowhere.md"]
    {
        let error = client.read_error(&format!("notes://diary/{path}")).await;
        let said = serde_json::to_string(&error).unwrap();
        assert!(!said.contains("Secret") && !said.contains(name), "{path}: {said}");
    }
    server.end().await;
}

#[tokio::test]
async fn attachments_have_types_of_their_own() {
    let folder = Folder::with_files([
        ("photo.png", b"\x89PNG\r\n\x1a\n\xff".as_slice()),
        ("data.json", b"{}"),
        ("unknown.qqq", b"\xff\xfe"),
        ("latin1.md", b"caf\xe9"),
        ("no-text.md", b"\x01\xe9"),
    ]);
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    for (name, mime_type, is_text) in [
        ("photo.png", "image/png", false),
        ("data.json", "application/json", true),
        ("unknown.qqq", "application/octet-stream", false),
        ("latin1.md", "text/markdown", true),
        ("no-text.md", "text/markdown", false),
    ] {
        let contents = server.client().read(&format!("notes://diary/{name}")).await.unwrap();
        let found = match &contents[0] {
            ResourceContents::TextResourceContents { mime_type, .. } => (mime_type.as_deref(), true),
            ResourceContents::BlobResourceContents { mime_type, .. } => (mime_type.as_deref(), false),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, (Some(mime_type), is_text), "{name}");
    }
    server.end().await;
}

#[tokio::test]
async fn what_changes_on_disk_is_read_as_it_is_now() {
    let folder = Folder::with_files([("a.md", "old")]);
    let config = notes_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("notes://diary/a.md").await, "old");
    folder.write("a.md", "new");
    folder.write("b.md", "more");
    assert_eq!(server.client().text("notes://diary/a.md").await, "new");
    assert_eq!(server.client().uris().await.len(), 2);
    std::fs::remove_file(folder.path().join("a.md")).unwrap();
    assert_eq!(server.client().read_error("notes://diary/a.md").await.code, ErrorCode(-32002));
    server.end().await;
}

#[tokio::test]
async fn the_example_notes_have_titles_priorities_and_japanese_documents() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/notes");
    let config = notes_config(&examples).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    let notes = || resources.iter().filter(|resource| resource.mime_type.as_deref() == Some("text/markdown"));
    assert!(notes().all(|note| note.title.is_some()));
    let is_japanese = |text: &str| text.chars().any(|c| ('\u{3040}'..='\u{9fff}').contains(&c));
    let japanese: Vec<_> = notes().filter(|note| note.title.as_deref().is_some_and(is_japanese)).collect();
    assert!(!japanese.is_empty());
    let has_priority =
        |note: &&&rmcp::model::Resource| note.annotations.as_ref().is_some_and(|hints| hints.priority.is_some());
    assert!(japanese.iter().any(|note| has_priority(&note)));
    for resource in &resources {
        assert!(!server.client().bytes(&resource.uri).await.is_empty(), "{}", resource.uri);
    }
    server.end().await;
}
