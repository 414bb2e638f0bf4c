//! Golden files of the protocol: every exchange, in every revision and over both transports.
//!
//! `tests/tests/wire/base/SUBJECT.json` holds the exchanges of a subject, in order, in the latest revision with
//! sessions ([`BASE`]). `tests/tests/wire/REVISION/SUBJECT.json` holds the exchanges that the revision changes, and the
//! names of the exchanges that it lacks. A change is therefore reviewed once, and the difference between two revisions
//! is a readable file.
//!
//! An exchange is the request (without the `_meta` that every request of 2026-07-28 has), the response over stdio, and
//! the HTTP status, content type and body; the body is omitted if it equals the message over stdio. A message without a
//! response is followed by the next one. Redacted: cursors (`<cursor>`), the version of the host (`<version>`), and the
//! revision itself (`<revision>`).
//!
//! Extensions of MCP have separate files, recorded with the extension switched on. With the extension off, one
//! assertion suffices: the host answers as if it did not know the extension.
//!
//! `SNAPSHOTS=overwrite` rewrites the files. Review the changes against the text of the revision.

mod cases;
mod exchange;
mod extensions;
mod overrides;
mod snapshot;
mod tools;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, REVISIONS, RawStdio, Revision, WrittenConfig};
use serde_json::Value;

use self::cases::{Case, SUBJECTS, Subject};
use self::exchange::{CursorRedactor, over_http, over_stdio};
use self::extensions::EXTENSIONS;
use self::tools::{TOOLS, wait_until_indexed};

/// The revision with which the others are compared.
const BASE: Revision = Revision::V_2025_11_25;

/// A config with pages of two entries, and a plugin with all kinds of resources.
fn config() -> ConfigFile {
    let sample = Plugin::sample("a").limit("deadline", "30s");
    ConfigFile::new()
        .server("name", "golden")
        .server("title", "Golden")
        .server("instructions", "Read `all`.")
        // The time to live of a cached response decreases with its age.
        .server("response-cache", "0B")
        .page_size(2)
        .plugin(sample)
        .allow_all()
}

/// Returns the golden file of a subject in a revision: the base, or the revision's changes.
fn file(revision: &Revision, subject: &Subject) -> PathBuf {
    let folder = if *revision == BASE { "base" } else { revision.as_str() };
    root().join(folder).join(subject.name).with_extension("json")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

/// Returns whether the revision has streamable HTTP. The first one does not.
fn has_http(revision: &Revision) -> bool {
    *revision != Revision::V_2024_11_05
}

/// Sends the cases in order, over stdio and over HTTP, and records each exchange.
async fn exchanges(
    config: &WrittenConfig,
    http: &HttpServer,
    revision: &Revision,
    cases: &[Case],
    is_searched: bool,
) -> Vec<Value> {
    let http = Some(http).filter(|_| has_http(revision));
    let mut session = None;
    let mut posts = match http {
        Some(http) => Some(http.raw_client(revision.clone()).await),
        None => None,
    };
    if let Some(posts) = posts.as_mut().filter(|_| is_searched) {
        wait_until_indexed(posts).await;
    }
    let (mut lines_cursors, mut posts_cursors) = (CursorRedactor::default(), CursorRedactor::default());
    let mut exchanges = Vec::new();
    for case in cases {
        let line = match case {
            Case { http_only: true, .. } => None,
            Case { is_first: true, .. } => {
                let mut uninitialized = RawStdio::uninitialized(config, revision.clone());
                let line = over_stdio(&mut uninitialized, case, &mut lines_cursors).await;
                uninitialized.end().await;
                Some(line)
            }
            _ => {
                if session.is_none() {
                    let mut started = RawStdio::start(config, revision.clone()).await;
                    if is_searched {
                        wait_until_indexed(&mut started).await;
                    }
                    session = Some(started);
                }
                let session = session.as_mut().expect("it was started");
                Some(over_stdio(session, case, &mut lines_cursors).await)
            }
        };
        let post = match (http, &mut posts) {
            (Some(http), _) if case.is_first => {
                Some(over_http(&mut http.uninitialized(revision.clone()), case, &mut posts_cursors).await)
            }
            (_, Some(posts)) => Some(over_http(posts, case, &mut posts_cursors).await),
            _ => None,
        };
        exchanges.extend(exchange::record(case, line, post));
    }
    if let Some(session) = session {
        session.end().await;
    }
    exchanges
}

/// Fails with all differences between the golden files of the subjects and the exchanges with the config.
async fn assert_as_recorded(config: &WrittenConfig, subjects: &[Subject]) {
    let http = HttpServer::start(config).await;
    let mut differences = String::new();
    for subject in subjects {
        let is_searched = subject.name == TOOLS.name;
        let base = exchanges(config, &http, &BASE, &subject.cases_in(&BASE), is_searched).await;
        let base = overrides::redact_revision(&base, &BASE);
        differences += &snapshot::difference(&file(&BASE, subject), &base);
        for revision in REVISIONS.iter().filter(|revision| **revision != BASE) {
            let own = exchanges(config, &http, revision, &subject.cases_in(revision), is_searched).await;
            let own = overrides::redact_revision(&own, revision);
            let overrides = overrides::between(&base, own, has_http(revision));
            differences += &snapshot::difference(&file(revision, subject), &overrides);
        }
    }
    http.end().await;
    assert!(differences.is_empty(), "{differences}");
}

#[tokio::test]
async fn every_exchange_is_as_its_file_says() {
    let broken = Plugin::misbehaving("broken").config("list", "trap");
    assert_as_recorded(&config().plugin(broken).write(), &SUBJECTS).await;
}

#[tokio::test]
async fn every_exchange_of_an_extension_is_as_its_file_says() {
    for extension in &EXTENSIONS {
        let config = config().server("extensions", vec![extension.name]).write();
        assert_as_recorded(&config, std::slice::from_ref(extension)).await;
    }
}

#[tokio::test]
async fn every_exchange_of_tools_is_as_its_file_says() {
    let searched: toml::Table = toml::from_str("include = ['sample://a/{all,album,plain}']").expect("it is TOML");
    let sample = Plugin::sample("a").limit("deadline", "30s").set("search", searched);
    let config = ConfigFile::new()
        .server("name", "golden")
        .server("response-cache", "0B")
        .server("tools", vec!["list", "read", "search", "context"])
        .server("tool-links", true)
        .server("tool-structured-content", true)
        .plugin(sample)
        .allow_all();
    assert_as_recorded(&config.write(), std::slice::from_ref(&TOOLS)).await;
}

/// An extension that is off has no effect: its methods are answered like unknown methods, and its members of other
/// requests are ignored like unknown members.
#[tokio::test]
async fn nothing_shows_of_an_extension_that_is_off() {
    let config = config().write();
    let http = HttpServer::start(&config).await;
    for subject in &EXTENSIONS {
        for revision in &REVISIONS {
            let cases = subject.cases_in(revision);
            let plain: Vec<_> = cases.iter().map(extensions::without_extension).collect();
            let answers = exchanges(&config, &http, revision, &cases, false).await;
            let expected = exchanges(&config, &http, revision, &plain, false).await;
            assert_eq!(answers.len(), expected.len());
            for (answer, expected) in answers.iter().zip(&expected) {
                let expected = extensions::as_answer_to(expected, answer);
                assert_eq!(*answer, expected, "{} of {} in {}", answer["case"], subject.name, revision.as_str());
            }
        }
    }
    http.end().await;
}

#[test]
fn every_golden_file_has_its_subject() {
    for folder in std::fs::read_dir(root()).expect("a folder").map(|folder| folder.expect("an entry").path()) {
        for found in std::fs::read_dir(&folder).expect("a folder").map(|file| file.expect("an entry").path()) {
            let mut files = SUBJECTS
                .iter()
                .chain(&EXTENSIONS)
                .chain([&TOOLS])
                .flat_map(|subject| REVISIONS.map(|it| file(&it, subject)));
            assert!(files.any(|file| file == found), "no test reads {}", found.display());
        }
    }
}

/// Overrides identify cases by name.
#[test]
fn no_two_cases_of_a_subject_have_the_same_name() {
    for subject in SUBJECTS.iter().chain(&EXTENSIONS).chain([&TOOLS]) {
        for revision in &REVISIONS {
            let mut names = HashSet::new();
            for case in subject.cases_in(revision) {
                assert!(names.insert(case.name), "{}, {}: {}", revision.as_str(), subject.name, case.name);
            }
        }
    }
}
