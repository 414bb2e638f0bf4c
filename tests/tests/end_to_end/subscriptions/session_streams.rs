//! The event stream of a session: whatever happens to connections, each change is notified at least once.

use std::collections::BTreeSet;

use futures::future::join_all;
use mcp_host_tests::{ConfigFile, Folder, HttpServer, Plugin, RawHttp, Revision, TIMEOUT, WrittenConfig};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::UPDATED;

const REVISION: Revision = Revision::V_2025_11_25;

/// A folder with these files, served by one plugin.
fn served(files: &[&str]) -> (Folder, WrittenConfig) {
    let folder = Folder::with_files(files.iter().map(|name| (*name, "text")));
    let config = ConfigFile::new().plugin(Plugin::faulty("m", folder.path())).allow_all().write();
    (folder, config)
}

fn uri(file: &str) -> String {
    format!("faulty://m/{file}")
}

/// A stream of a session, as its client reads it.
pub(crate) struct EventStream {
    response: Response,
    buffer: String,
    /// The id of the last event read.
    pub(super) last_id: Option<String>,
}

impl EventStream {
    /// Opens the session's stream after an event.
    pub(crate) async fn open(wire: &RawHttp, last_id: Option<&str>) -> Self {
        Self::of(wire.resumed_event_stream(last_id).await)
    }

    /// Reads the stream of a response.
    pub(super) fn of(response: Response) -> Self {
        Self { response, buffer: String::new(), last_id: None }
    }

    /// Returns the next message; `None` at the end of the stream. Comments, which keep the connection open, do not
    /// extend the timeout.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        timeout(TIMEOUT, self.read_message()).await.expect("an event in time")
    }

    async fn read_message(&mut self) -> Option<Value> {
        loop {
            while let Some((line, rest)) = self.buffer.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.buffer = rest;
                if let Some(id) = line.strip_prefix("id:") {
                    self.last_id = Some(id.trim().to_owned());
                }
                let data = line.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty());
                if let Some(data) = data {
                    return Some(serde_json::from_str(data).expect("an event is JSON"));
                }
            }
            let chunk = self.response.chunk().await.expect("a chunk");
            self.buffer += std::str::from_utf8(&chunk?).expect("UTF-8");
        }
    }

    /// Returns the file of the next update.
    pub(super) async fn next_file(&mut self) -> String {
        loop {
            let message = self.next().await.expect("the stream goes on");
            if message["method"] == UPDATED {
                return message["params"]["uri"]
                    .as_str()
                    .expect("a URI")
                    .rsplit('/')
                    .next()
                    .expect("a file")
                    .to_owned();
            }
        }
    }

    /// Returns the files of all updates up to the update of `last`.
    pub(super) async fn files_until(&mut self, last: &str) -> Vec<String> {
        let mut files = Vec::new();
        while files.last().is_none_or(|file| file != last) {
            files.push(self.next_file().await);
        }
        files
    }
}

impl EventStream {
    /// Returns the files of all updates until all of `files` were updated. A repeated update may arrive after later
    /// ones, because updates of one resource are throttled.
    async fn files_until_all(&mut self, files: &[&str]) -> BTreeSet<String> {
        let mut told = BTreeSet::new();
        while !files.iter().all(|file| told.contains(*file)) {
            told.insert(self.next_file().await);
        }
        told
    }
}

async fn subscribe(wire: &mut RawHttp, files: &[&str]) {
    for file in files {
        wire.request("resources/subscribe", json!({ "uri": uri(file) })).await.result();
    }
}

/// The stream of another client, which shows that the host has detected a change.
async fn witness(server: &HttpServer, files: &[&str]) -> (RawHttp, EventStream) {
    let mut wire = server.raw_client(REVISION).await;
    subscribe(&mut wire, files).await;
    let stream = EventStream::open(&wire, None).await;
    (wire, stream)
}

#[tokio::test]
async fn the_newest_stream_takes_over_while_the_connection_of_the_older_is_taken_for_alive() {
    let (folder, config) = served(&["a"]);
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    subscribe(&mut wire, &["a"]).await;
    let mut streams = vec![EventStream::open(&wire, None).await];
    for text in ["1", "22", "333"] {
        let mut newest = EventStream::open(&wire, None).await;
        folder.write("a", text);
        assert_eq!(newest.next_file().await, "a");
        streams.push(newest);
    }
    let newest = streams.pop().unwrap();
    for mut older in streams {
        while older.next().await.is_some() {}
    }
    drop(newest);
    server.end().await;
}

#[tokio::test]
async fn of_what_changes_while_no_stream_is_open_each_resource_is_told_once() {
    let names: Vec<_> = (10..50).map(|number| format!("f{number}")).collect();
    let files: Vec<_> = names.iter().map(String::as_str).chain(["last"]).collect();
    let (folder, config) = served(&files);
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    subscribe(&mut wire, &files).await;
    let (_session, mut known) = witness(&server, &files).await;
    for file in &names {
        folder.write(file, "changed");
        known.files_until(file).await;
    }
    let mut stream = EventStream::open(&wire, None).await;
    folder.write("last", "changed");
    let mut told = stream.files_until("last").await;
    told.pop();
    assert_eq!(told.len(), names.len(), "once each: {told:?}");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), names.into_iter().collect());
    server.end().await;
}

#[tokio::test]
async fn a_client_resumes_behind_the_last_event_that_it_received() {
    let (folder, config) = served(&["a", "b", "c", "d", "e", "f"]);
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    subscribe(&mut wire, &["a", "b", "c", "d", "e", "f"]).await;
    let mut stream = EventStream::open(&wire, None).await;
    folder.write("a", "changed");
    assert_eq!(stream.next_file().await, "a");
    let received = stream.last_id.clone().expect("an event has an id");
    // Updates that a client did not receive before its connection broke.
    folder.write("b", "changed");
    assert_eq!(stream.next_file().await, "b");
    let all = stream.last_id.clone().expect("an event has an id");
    drop(stream);

    let mut resumed = EventStream::open(&wire, Some(&received)).await;
    folder.write("c", "changed");
    assert_eq!(resumed.files_until_all(&["b", "c"]).await, ["b", "c"].map(str::to_owned).into());
    let all_and_c = resumed.last_id.clone().expect("an event has an id");
    assert_ne!(all, all_and_c);
    drop(resumed);

    // No update is repeated.
    let mut resumed = EventStream::open(&wire, Some(&all_and_c)).await;
    for text in ["once", "and again"] {
        folder.write("d", text);
        assert_eq!(resumed.files_until("d").await, ["d"]);
    }
    drop(resumed);

    // With an id that was never issued, or without an id, every update that is not known to be received may have been
    // lost.
    for (id, last) in [(Some("99999"), "e"), (Some("0/7"), "f")] {
        let mut resumed = EventStream::open(&wire, id).await;
        folder.write(last, "changed");
        let told = resumed.files_until_all(&["d", last]).await;
        assert!(!told.contains("a"), "{id:?}: {told:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_stream_begins_with_the_id_to_resume_from() {
    let (folder, config) = served(&["a", "b"]);
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    subscribe(&mut wire, &["a", "b"]).await;
    let (_session, mut known) = witness(&server, &["a", "b"]).await;
    let mut stream = EventStream::open(&wire, None).await;
    // The client has received only the first event, which has no data.
    while stream.last_id.is_none() {
        let chunk = timeout(TIMEOUT, stream.response.chunk()).await.unwrap().unwrap().expect("the stream goes on");
        let text = std::str::from_utf8(&chunk).unwrap();
        stream.last_id = text.lines().find_map(|line| line.strip_prefix("id:")).map(|id| id.trim().to_owned());
    }
    folder.write("a", "changed");
    known.files_until("a").await;
    let mut resumed = EventStream::open(&wire, stream.last_id.as_deref()).await;
    folder.write("b", "changed");
    assert_eq!(resumed.files_until_all(&["a", "b"]).await, ["a", "b"].map(str::to_owned).into());
    server.end().await;
}

#[tokio::test]
async fn a_hundred_sessions_hear_of_every_edit_through_dead_connections_and_gaps() {
    const SESSIONS: usize = 100;
    let (folder, config) = served(&["a", "b", "c"]);
    let server = HttpServer::start(&config).await;
    let mut wires = join_all((0..SESSIONS).map(|_| server.raw_client(REVISION))).await;
    join_all(wires.iter_mut().map(|wire| subscribe(wire, &["a", "b", "c"]))).await;
    let (_session, mut known) = witness(&server, &["a", "b", "c"]).await;
    // A third of the clients has no stream, a third has one that is never read, and a third has one that is dropped.
    let opened = wires.iter().enumerate().map(async |(number, wire)| match number % 3 {
        0 => None,
        _ => Some(EventStream::open(wire, None).await),
    });
    let dead: Vec<_> = join_all(opened).await;
    folder.write("a", "changed");
    known.files_until("a").await;
    let dead: Vec<_> = dead.into_iter().enumerate().filter(|(number, _)| number % 3 == 1).collect();
    folder.write("b", "changed");
    known.files_until("b").await;
    let mut streams = join_all(wires.iter().map(|wire| EventStream::open(wire, None))).await;
    folder.write("c", "changed");
    join_all(streams.iter_mut().map(|stream| stream.files_until_all(&["a", "b", "c"]))).await;
    drop((dead, streams));
    server.end().await;
}

#[tokio::test]
async fn a_server_that_was_restarted_says_that_a_session_is_over_and_what_to_do() {
    let (folder, config) = served(&["a"]);
    let server = HttpServer::start(&config).await;
    let mut wire = server.raw_client(REVISION).await;
    subscribe(&mut wire, &["a"]).await;
    let address = server.address().to_owned();
    server.end().await;
    let server = HttpServer::start_at(&config, &address).await;
    let request = wire.request_builder("resources/subscribe", json!({ "uri": uri("a") }));
    let refused = timeout(TIMEOUT, request.send()).await.unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    let error: Value = refused.json().await.unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("`initialize`"), "{error}");
    let mut wire = server.raw_client(REVISION).await;
    subscribe(&mut wire, &["a"]).await;
    folder.write("a", "changed");
    assert_eq!(EventStream::open(&wire, None).await.next_file().await, "a");
    server.end().await;
}

#[tokio::test]
async fn the_id_of_a_cancelled_request_of_a_session_is_free_at_once() {
    let folder = Folder::with_files([("state", "0"), ("stat.hang", "")]);
    let plugin = Plugin::watched("w", folder.path()).limit("log", "16MiB/m").limit("deadline", "1m");
    let server = HttpServer::start(&ConfigFile::new().plugin(plugin).allow_all().write()).await;
    let wire = server.raw_client(REVISION).await;
    let request = |method: &str, params: Value| {
        wire.post(&json!({ "jsonrpc": "2.0", "id": "mine", "method": method, "params": params }))
    };
    let hanging = tokio::spawn(request("resources/subscribe", json!({ "uri": "watched://w/f" })).send());
    server.log_line("stat f").await;
    assert_eq!(request("ping", json!({})).send().await.unwrap().status(), StatusCode::BAD_REQUEST);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "mine" } });
    assert_eq!(wire.post(&cancel).send().await.unwrap().status(), StatusCode::ACCEPTED);
    let cancelled = timeout(TIMEOUT, hanging).await.unwrap().unwrap().unwrap();
    assert_eq!(cancelled.text().await.unwrap(), "", "a cancelled request has no answer");
    assert_eq!(request("ping", json!({})).send().await.unwrap().status(), StatusCode::OK);
    server.end().await;
}
