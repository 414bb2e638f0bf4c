//! Compression of responses, for clients that accept it.

use std::io::Read;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, Revision, WrittenConfig, fixture, request};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use serde_json::{Value, json};

const LARGE: &str = "a line of a text that is long enough to be worth it\n";

/// The number of lines in an answer that is encoded in several chunks of 64 KiB.
const HUGE: usize = 10_000;

async fn start() -> ((Folder, WrittenConfig), HttpServer) {
    let folder = Folder::with_files([
        ("huge.md", LARGE.repeat(HUGE).as_str()),
        ("large.md", LARGE.repeat(100).as_str()),
        ("small.md", "small"),
    ]);
    let config = ConfigFile::new().plugin(Plugin::notes("n", folder.path())).allow_all().write();
    let server = HttpServer::start(&config).await;
    ((folder, config), server)
}

/// Returns the content encoding of a response for a client of a revision, and its bytes.
async fn read(
    server: &HttpServer,
    revision: Revision,
    note: &str,
    accepted: Option<&str>,
) -> (Option<String>, Vec<u8>) {
    let uri = format!("notes://n/{note}");
    let mut request = server.raw_client(revision).await.request_builder("resources/read", json!({ "uri": uri }));
    if let Some(accepted) = accepted {
        request = request.header(ACCEPT_ENCODING, accepted);
    }
    let response = request.send().await.unwrap();
    let encoding = response.headers().get(CONTENT_ENCODING).map(|value| value.to_str().unwrap().to_owned());
    (encoding, response.bytes().await.unwrap().to_vec())
}

fn text(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    answer["result"]["contents"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_is_compressed_if_the_client_accepts_it() {
    let (_sources, server) = start().await;
    let stateless = Revision::V_2026_07_28;
    let (encoding, plain) = read(&server, stateless.clone(), "large.md", None).await;
    assert_eq!((encoding, text(&plain)), (None, LARGE.repeat(100)));

    for revision in [Revision::V_2025_11_25, stateless.clone()] {
        let (encoding, compressed) = read(&server, revision, "large.md", Some("gzip")).await;
        assert_eq!(encoding.as_deref(), Some("gzip"));
        assert!(compressed.len() < plain.len() / 4, "{} of {}", compressed.len(), plain.len());
        let mut answer = Vec::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut answer).unwrap();
        assert_eq!(text(&answer), text(&plain));
    }

    let (encoding, refused) = read(&server, stateless.clone(), "large.md", Some("gzip;q=0, gzip")).await;
    assert_eq!((encoding, text(&refused)), (None, text(&plain)));

    let (encoding, _) = read(&server, stateless, "large.md", Some("gzip;q=0.5, br")).await;
    assert_eq!(encoding.as_deref(), Some("gzip"));
    server.end().await;
}

#[tokio::test]
async fn an_answer_of_several_chunks_is_compressed_to_its_end() {
    let (_sources, server) = start().await;
    for revision in [Revision::V_2025_11_25, Revision::V_2026_07_28] {
        let (encoding, compressed) = read(&server, revision, "huge.md", Some("gzip")).await;
        assert_eq!(encoding.as_deref(), Some("gzip"));
        let mut answer = Vec::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut answer).unwrap();
        assert_eq!(text(&answer), LARGE.repeat(HUGE));
    }
    server.end().await;
}

#[tokio::test]
async fn the_length_of_a_cached_answer_is_told_unless_it_is_compressed() {
    let sizes = Plugin::new("s", &fixture("sizes"), "sizes://s/").config("ttl", 3600);
    let config = ConfigFile::new().plugin(sizes).allow_all().write();
    let server = HttpServer::start(&config).await;
    for size in [1 << 10, 64 << 10, 1 << 20] {
        for (round, accepted) in [("first", "identity"), ("cached", "identity"), ("cached", "gzip")] {
            let uri = format!("sizes://s/text/{size}");
            let mut client = server.raw_client(Revision::V_2026_07_28).await;
            let request =
                client.request_builder("resources/read", json!({ "uri": uri })).header(ACCEPT_ENCODING, accepted);
            let response = request.send().await.unwrap();
            let told = response.headers().get(CONTENT_LENGTH).map(|value| value.to_str().unwrap().parse().unwrap());
            let body = response.bytes().await.unwrap();
            match (round, accepted) {
                (_, "gzip") => assert_eq!(told, None, "{size}"),
                ("cached", _) => {
                    assert_eq!(told, Some(body.len()), "{size}");
                    assert_eq!(text(&body).len(), size);
                }
                _ => assert!(told.is_none_or(|told| told == body.len()), "{size}"),
            }
        }
    }
    server.end().await;
}

#[tokio::test]
async fn what_nobody_asks_for_or_is_not_worth_it_is_not_compressed() {
    let (_sources, server) = start().await;
    for (note, accepted) in
        [("large.md", "identity"), ("large.md", "gzip;q=0, br"), ("large.md", "zstd"), ("small.md", "gzip, br")]
    {
        let (encoding, answer) = read(&server, Revision::V_2026_07_28, note, Some(accepted)).await;
        assert_eq!(encoding, None, "{note} {accepted}");
        text(&answer);
    }
    server.end().await;
}

#[tokio::test]
async fn streams_of_events_are_not_compressed() {
    let (_sources, server) = start().await;
    let revision = Revision::V_2025_03_26;
    let batch = json!([request(&revision, 1, "resources/read", json!({ "uri": "notes://n/large.md" }))]);
    let posted = server.raw_client(revision).await.post(&batch).header(ACCEPT_ENCODING, "gzip, br");
    let response = posted.send().await.unwrap();
    assert_eq!(response.headers().get(CONTENT_ENCODING), None);
    let events = response.text().await.unwrap();
    assert!(events.starts_with("data: {") && events.len() > LARGE.len() * 100);
    server.end().await;
}
