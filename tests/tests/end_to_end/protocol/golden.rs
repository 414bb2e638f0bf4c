//! What is on the wire, in every revision and over both transports, held against files.
//!
//! `tests/tests/wire/REVISION/SUBJECT.json` has what is sent and what comes back, in order. What varies is not in them:
//! cursors, which are `<cursor>`, and the version of the host. With `UPDATE_GOLDEN=1` the files are written anew, to be
//! reviewed against the revision's text.
//!
//! Extensions of MCP have files of their own: `NAME.json` with the extension switched on, `NAME-off.json` with the same
//! sent to a host that has none switched on.
//!
//! Of each exchange there is what is asked (without the `_meta` that every request of 2026-07-28 has), the answer over stdio, and what HTTP has of its own: its status, the type of its body, and the
//! body where that is not the same message. A line that nothing answers is followed by the next.

mod cases;
mod exchange;
mod extensions;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, REVISIONS, RawStdio, Revision, WrittenConfig};
use serde_json::Value;

use self::cases::{Case, SUBJECTS, Subject};
use self::exchange::{CursorRedactor, over_http, over_stdio};
use self::extensions::EXTENSIONS;

/// What is served: pages of two, from a plugin with everything.
fn config() -> ConfigFile {
    let sample = Plugin::sample("a").limit("deadline", "30s");
    ConfigFile::new()
        .server("name", "golden")
        .server("title", "Golden")
        .server("instructions", "Read `all`.")
        .page_size(2)
        .plugin(sample)
        .allow_all()
}

fn folder(revision: &Revision) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire").join(revision.as_str())
}

/// The exchanges of a subject in a revision, as they are now.
async fn exchanges(config: &WrittenConfig, http: Option<&HttpServer>, revision: &Revision, subject: &Subject) -> Value {
    let mut session = None;
    let mut posts = match http {
        Some(http) => Some(http.raw_client(revision.clone()).await),
        None => None,
    };
    let (mut lines_cursors, mut posts_cursors) = (CursorRedactor::default(), CursorRedactor::default());
    let mut exchanges = Vec::new();
    for case in (subject.cases)(revision) {
        let line = match &case {
            Case { http_only: true, .. } => None,
            Case { is_first: true, .. } => {
                let mut stranger = RawStdio::uninitialized(config, revision.clone());
                let line = over_stdio(&mut stranger, &case, &mut lines_cursors).await;
                stranger.close_stdin();
                stranger.wait_clean_exit().await;
                Some(line)
            }
            _ => {
                if session.is_none() {
                    session = Some(RawStdio::start(config, revision.clone()).await);
                }
                let session = session.as_mut().expect("it was started");
                Some(over_stdio(session, &case, &mut lines_cursors).await)
            }
        };
        let post = match (http, &mut posts) {
            (Some(http), _) if case.is_first => {
                Some(over_http(&mut http.uninitialized(revision.clone()), &case, &mut posts_cursors).await)
            }
            (_, Some(posts)) => Some(over_http(posts, &case, &mut posts_cursors).await),
            _ => None,
        };
        exchanges.extend(exchange::record(&case, line, post));
    }
    if let Some(mut session) = session {
        session.close_stdin();
        session.wait_clean_exit().await;
    }
    Value::Array(exchanges)
}

/// What differs between those exchanges with that config, and the files; with `UPDATE_GOLDEN`, nothing.
async fn differences(config: &WrittenConfig, subjects: &[Subject]) -> String {
    let http = HttpServer::start(config).await;
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut differences = String::new();
    for revision in REVISIONS {
        // The first revision has no streamable HTTP.
        let http = Some(&http).filter(|_| revision != Revision::V_2024_11_05);
        for subject in subjects {
            let found = exchanges(config, http, &revision, subject).await;
            let file = folder(&revision).join(subject.name).with_extension("json");
            let text = serde_json::to_string_pretty(&found).expect("it is JSON") + "\n";
            if update {
                std::fs::create_dir_all(folder(&revision)).expect("folders can be made");
                match found.as_array().is_some_and(Vec::is_empty) {
                    true => drop(std::fs::remove_file(file)),
                    false => std::fs::write(file, text).expect("files can be written"),
                }
            } else if found != Value::Array(Vec::new()) {
                let golden = std::fs::read_to_string(&file).unwrap_or_default();
                differences += &first_difference(&file, &golden, &text);
            }
        }
    }
    http.end().await;
    differences
}

fn assert_no_differences(differences: &str) {
    assert!(differences.is_empty(), "{differences}\nIf that is right, run the test with UPDATE_GOLDEN=1 and review.");
}

#[tokio::test]
async fn every_exchange_is_as_its_file_says() {
    let broken = Plugin::misbehaving("broken").config("list", "trap");
    assert_no_differences(&differences(&config().plugin(broken).write(), &SUBJECTS).await);
}

#[tokio::test]
async fn every_exchange_of_an_extension_is_as_its_file_says() {
    for extension in &EXTENSIONS {
        let config = config().server("extensions", vec![extension.name]).write();
        assert_no_differences(&differences(&config, std::slice::from_ref(extension)).await);
    }
}

#[tokio::test]
async fn nothing_shows_of_an_extension_that_is_off() {
    let off = EXTENSIONS.map(|on| Subject { name: extensions::name_when_off(on.name), ..on });
    assert_no_differences(&differences(&config().write(), &off).await);
}

/// The lines around the first one that is not as the file has it.
fn first_difference(file: &Path, golden: &str, found: &str) -> String {
    let mut text = String::new();
    if let Some(at) = golden.lines().zip(found.lines()).position(|(golden, found)| golden != found).or_else(|| {
        (golden.lines().count() != found.lines().count()).then(|| golden.lines().count().min(found.lines().count()))
    }) {
        let around = |text: &str| text.lines().skip(at.saturating_sub(12)).take(24).collect::<Vec<_>>().join("\n");
        let _ =
            writeln!(text, "{}:{}\nexpected:\n{}\nfound:\n{}", file.display(), at + 1, around(golden), around(found));
    }
    text
}
