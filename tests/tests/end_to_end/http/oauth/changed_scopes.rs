//! Scopes that differ between the beginning and the end of a stream, a session or a request.

use std::time::Instant;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawHttp, Revision, Rule, TIMEOUT, TokenIssuer};
use reqwest::{Response, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use toml::Table;

use super::introspection::{CACHED, Introspected, TOKEN};
use super::scopes::token;
use super::{ResourceServer, base_config, issuer_entry, jwks};

const SCOPES: &str =
    "operation-scopes = { list = [\"mcp:list\"], read = [\"mcp:read\"], subscribe = [\"mcp:subscribe\"] }";
const ALL: &str = "mcp:list mcp:read mcp:subscribe";
const ADMIN: &str = "\n[admin]\nlisten = \"127.0.0.1:0\"\nusers = true\n";

/// A saved search, and a file that it does not find.
const SEARCH: &str = "search:///saved/needles";
const FILE: &str = "files://s/c.md";

fn entry(issuer: &TokenIssuer) -> String {
    format!("{}\n{SCOPES}", jwks(issuer))
}

fn files() -> Folder {
    Folder::with_files([("a.md", "needle"), ("b.md", "hay"), ("c.md", "hay")])
}

fn rule() -> Rule {
    Rule::for_principal("corp/alice").allow(["files://s/**", "search:///**"])
}

/// A config whose folder is searched, with the saved search.
fn searched(config: ConfigFile, folder: &Folder) -> ConfigFile {
    let saved = [("name", "needles"), ("query", "needle")].map(|(key, value)| (key.to_owned(), value.into()));
    let saved: toml::Value = Table::from_iter(saved).into();
    config.search("saved", vec![saved]).plugin(Plugin::files("s", folder.path()).searched()).rule(rule())
}

/// The part of a notification that names a resource.
fn updated(uri: &str) -> String {
    format!("\"uri\":\"{uri}\"")
}

/// Reads a stream until it has a text. Returns what was read.
async fn read_until(stream: &mut Response, wanted: &str) -> String {
    let reading = async {
        let mut text = String::new();
        while !text.contains(wanted) {
            let chunk = stream.chunk().await.unwrap();
            text += &String::from_utf8_lossy(&chunk.expect("the stream goes on"));
        }
        text
    };
    timeout(TIMEOUT, reading).await.expect("it is told")
}

#[tokio::test]
async fn streams_with_changes_of_the_listing_end_when_only_the_scope_of_list_is_lost() {
    let introspected = Introspected::start_with(SCOPES, |config| config.append(ADMIN)).await;
    let answer_with = |scopes: &str| {
        let mut answer = introspected.active();
        answer["scope"] = json!(scopes);
        introspected.answer(&answer);
    };
    answer_with(ALL);
    let resource = &introspected.resource;
    let line = resource.server.log_line("administration at ").await;
    let watch = format!("{}/api/v1/browse/watch", line.split_whitespace().last().unwrap());
    let watch = reqwest::Client::new().post(watch).bearer_auth(TOKEN).json(&json!({ "listing": true }));
    let watching = watch.send().await.unwrap();
    assert_eq!(watching.status(), StatusCode::OK);
    let session = resource.session(TOKEN).await;
    let listing = json!({ "resourcesListChanged": true });
    let (events, listening) = (session.event_stream().await, resource.listen(TOKEN, listing.clone()).await);

    let begun = Instant::now();
    answer_with("mcp:read mcp:subscribe");
    for stream in [watching, events, listening] {
        timeout(TIMEOUT, stream.bytes()).await.expect("it ends").expect("it ends in order");
    }
    assert!(begun.elapsed() < CACHED, "{:?}", begun.elapsed());
    assert_eq!(resource.list(TOKEN).await.status(), StatusCode::FORBIDDEN);
    // The next stream has no changes of the listing, and says so.
    let acknowledged = read_until(&mut resource.listen(TOKEN, listing).await, "\n\n").await;
    assert!(acknowledged.contains("acknowledged") && !acknowledged.contains("ListChanged"), "{acknowledged}");
    introspected.resource.server.end().await;
}

#[tokio::test]
async fn the_stream_of_a_token_that_is_not_for_search_tells_of_none_and_the_next_one_catches_up() {
    let folder = files();
    let resource = ResourceServer::start_with_config(entry, |config| searched(config, &folder)).await;
    let (narrow, whole) = (token(&resource, &json!("mcp:subscribe")), token(&resource, &json!(ALL)));
    let mut wire = RawHttp::start_with_token(resource.server.url(), Revision::V_2025_11_25, &whole).await;
    for uri in [SEARCH, FILE] {
        let subscribed = wire.request("resources/subscribe", json!({ "uri": uri })).await;
        assert!(subscribed.message.get("result").is_some(), "{subscribed:?}");
    }
    let session = wire.session_id().unwrap().to_owned();
    let event_stream = async |token: &str, received: Option<&str>| {
        let request = reqwest::Client::new().get(resource.server.url()).header("accept", "text/event-stream");
        let request = request.header("mcp-protocol-version", "2025-11-25").header("mcp-session-id", &session);
        let request = received.into_iter().fold(request, |request, id| request.header("last-event-id", id));
        let stream = request.bearer_auth(token).send().await.unwrap();
        assert_eq!(stream.status(), StatusCode::OK);
        stream
    };
    let mut of_narrow = event_stream(&narrow, None).await;
    let mut known = resource.listen(&whole, json!({ "resourceSubscriptions": [SEARCH] })).await;
    read_until(&mut known, &updated(SEARCH)).await;
    folder.write("b.md", "a second needle");
    read_until(&mut known, &updated(SEARCH)).await;
    // The client receives a later event, and resumes after it with another token.
    folder.write("c.md", "more hay");
    let told = read_until(&mut of_narrow, &updated(FILE)).await;
    let received = told.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    let mut of_whole = event_stream(&whole, Some(received)).await;
    read_until(&mut of_whole, &updated(SEARCH)).await;
    let told = told + &timeout(TIMEOUT, of_narrow.text()).await.expect("it ends").expect("it ends in order");
    assert!(!told.contains("search:"), "{told}");
    drop((known, of_whole));
    resource.server.end().await;
}

#[tokio::test]
async fn a_search_that_a_reload_adds_is_not_told_on_the_stream_of_a_token_that_is_not_for_it() {
    let folder = files();
    let unsearched = |config: ConfigFile| config.plugin(Plugin::files("s", folder.path())).rule(rule());
    let resource = ResourceServer::start_with_config(entry, unsearched).await;
    let (narrow, whole) = (token(&resource, &json!("mcp:subscribe")), token(&resource, &json!(ALL)));
    let filter = json!({ "resourceSubscriptions": [SEARCH, FILE] });
    let of_narrow = resource.listen(&narrow, filter.clone()).await;
    let mut of_whole = resource.listen(&whole, filter).await;
    read_until(&mut of_whole, &updated(FILE)).await;

    let issuer = issuer_entry("corp", &resource.issuer.identifier(), &entry(&resource.issuer));
    let config = base_config(&resource.folder, &resource.port).append(&issuer);
    resource.config.replace(searched(config, &folder));
    read_until(&mut of_whole, &updated(SEARCH)).await;
    folder.write("c.md", "more hay");
    read_until(&mut of_whole, &updated(FILE)).await;
    drop(of_whole);
    let (told, _) = tokio::join!(of_narrow.text(), resource.server.end());
    let told = told.expect("it ends in order");
    let updates: Vec<_> = told.lines().filter(|line| line.contains("resources/updated")).collect();
    assert!(!updates.is_empty() && !updates.iter().any(|line| line.contains("search:")), "{told}");
}

#[tokio::test]
async fn a_scope_that_a_reload_requires_is_required_of_a_request_whose_body_arrives_after_it() {
    let resource = ResourceServer::start_with(jwks).await;
    let token = token(&resource, &json!("mcp:read"));
    let request = resource.list_request().bearer_auth(&token).build().unwrap();
    let body = request.body().unwrap().as_bytes().unwrap();
    let (first, rest) = body.split_at(body.len() / 2);
    let fields = request.headers().iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
    let fields: String = fields.filter(|field| !field.starts_with("content-length")).collect();
    let (host, length) = (resource.server.address(), body.len());
    let head =
        format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\n{fields}content-length: {length}\r\nconnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(&[head.as_bytes(), first].concat()).await.unwrap();
    resource.assert_valid(&token).await;

    let issuer = issuer_entry("corp", &resource.issuer.identifier(), &entry(&resource.issuer));
    resource.config.replace(base_config(&resource.folder, &resource.port).append(&issuer));
    while resource.list(&token).await.status() != StatusCode::FORBIDDEN {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    stream.write_all(rest).await.unwrap();
    let mut answer = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.expect("it is answered").unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("insufficient_scope"), "{answer}");
    resource.server.end().await;
}
