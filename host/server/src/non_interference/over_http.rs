//! The service over HTTP with the principal's token: each request in the revision without sessions, batches in a
//! session of the revision with batches, and the event streams of both.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::notifications::{BARRIER, Compared, FOLDER, ROOT_FOLDER, ROUNDS, TIMEOUT, folders, world_with_more, worlds};
use super::world::{ADA, Contents, HIDDEN, PART, ROOT, Rules, is_allowed, started};
use super::{Client, Exchange, principal, samples, take_cursor, transcript, world};
use crate::revision::Revision;
use crate::{HttpOptions, McpService, SESSION_ID_HEADER, http_service};

const HEADER_MISMATCH: i32 = -32020;
/// The number of messages in a batch.
const BATCH: usize = 16;
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A client of the service, with a token.
pub(super) struct HttpClient {
    service: McpService,
    token: String,
    revision: Revision,
    session: Option<String>,
}

fn message(id: usize, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(super) async fn text(response: Response) -> String {
    let body = timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

impl HttpClient {
    /// A client of the revision without sessions.
    pub(super) fn stateless(host: &Arc<Host>, token: &str) -> Self {
        let service = http_service(host.clone(), HttpOptions::new());
        Self { service, token: token.to_owned(), revision: Revision::LATEST, session: None }
    }

    /// A client with a session of this revision.
    async fn open(host: &Arc<Host>, token: &str, revision: Revision) -> Self {
        Self::initialize(host, token, revision).await.0
    }

    /// A client with a session of this revision, and the answer to `initialize`.
    pub(super) async fn initialize(host: &Arc<Host>, token: &str, revision: Revision) -> (Self, String) {
        let mut client = Self { revision, ..Self::stateless(host, token) };
        let params = json!({
            "protocolVersion": revision.name(), "capabilities": {}, "clientInfo": { "name": "test", "version": "1" }
        });
        let response = client.post(&message(0, "initialize", &params), "").await;
        client.session = Some(response.headers()[SESSION_ID_HEADER].to_str().unwrap().to_owned());
        let answer = text(response).await;
        (client, answer)
    }

    /// Sends `notifications/initialized`, after which the host walks the listing for the session, too.
    async fn watch_listing(&self) {
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&initialized, "").await.status(), StatusCode::ACCEPTED);
    }

    fn request(&self, method: Method) -> axum::http::request::Builder {
        let mut request = Request::builder().method(method).uri("/mcp");
        let token = format!("Bearer {}", self.token);
        let headers = [(HOST, "localhost"), (ACCEPT, "application/json, text/event-stream"), (AUTHORIZATION, &token)];
        for (name, value) in headers {
            request = request.header(name, value);
        }
        match &self.session {
            Some(session) => {
                request.header(SESSION_ID_HEADER, session).header("mcp-protocol-version", self.revision.name())
            }
            None => request,
        }
    }

    async fn call(&self, request: Request) -> Response {
        timeout(TIMEOUT, self.service.clone().oneshot(request)).await.unwrap().unwrap()
    }

    /// Sends a body, and repeats its method and its name, if any, in headers.
    async fn post(&self, body: &Value, name: &str) -> Response {
        let mut request = self.request(Method::POST).header(CONTENT_TYPE, "application/json");
        if self.session.is_none() && !self.revision.has_sessions() {
            let method = body["method"].as_str().unwrap();
            request = request.header("mcp-protocol-version", self.revision.name()).header("mcp-method", method);
            request = request.header("mcp-name", name);
        }
        self.call(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub(super) async fn send_stateless(&self, method: &str, params: &Value) -> Response {
        let mut params = params.clone();
        params["_meta"] = json!({ VERSION: self.revision.name(), CAPABILITIES: {} });
        let name = params["uri"].as_str().or(params["name"].as_str()).unwrap_or_default().to_owned();
        self.post(&message(1, method, &params), &name).await
    }

    /// Sends requests as one batch. Returns the answers in the order of the requests, without cursors.
    async fn send_batch(&self, requests: &[(&'static str, Value)]) -> Vec<Value> {
        let batch = requests.iter().enumerate().map(|(id, (method, params))| message(id, method, params)).collect();
        let response = self.post(&Value::Array(batch), "").await;
        let status = response.status();
        assert_eq!(status, StatusCode::OK);
        let body = text(response).await;
        let mut answers: Vec<Value> =
            body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
        answers.sort_by_key(|answer| answer["id"].as_u64());
        assert_eq!(answers.len(), requests.len(), "{body}");
        answers.iter_mut().for_each(|answer| drop(take_cursor(answer)));
        answers
    }

    /// Sends a protocol request in the session, whose answer is one event.
    async fn send_in_session(&self, method: &str, params: &Value) -> Value {
        let body = text(self.post(&message(1, method, params), "").await).await;
        serde_json::from_str(body.strip_prefix("data: ").unwrap()).unwrap()
    }

    /// Sends a request in the session. Returns the status and the body of the answer.
    pub(super) async fn ask_in_session(&self, method: &str, params: &Value) -> String {
        let response = self.post(&message(1, method, params), "").await;
        format!("{} {}", response.status(), text(response).await)
    }

    /// Opens the event stream of the session.
    async fn events(&self) -> Events {
        Events::of(self.call(self.request(Method::GET).body(Body::empty()).unwrap()).await)
    }
}

impl Client for HttpClient {
    fn revision(&self) -> Revision {
        self.revision
    }

    async fn send(&self, method: &str, params: &Value) -> Option<Value> {
        let response = self.send_stateless(method, params).await;
        let status = response.status().as_u16();
        let body = text(response).await;
        let body: Value = serde_json::from_str(&body).unwrap_or(Value::String(body));
        assert_ne!(body["error"]["code"], HEADER_MISMATCH, "{method} {params}: {body}");
        Some(json!({ "status": status, "body": body }))
    }
}

/// An event stream.
struct Events {
    body: BodyDataStream,
    received: String,
}

impl Events {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        Self { body: response.into_body().into_data_stream(), received: String::new() }
    }

    /// Returns the next notification: its method, and the URI or the plugin that it names.
    async fn next(&mut self) -> (String, String) {
        loop {
            while let Some((event, rest)) = self.received.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
                self.received = rest.to_owned();
                if let Some(data) = data {
                    let event: Value = serde_json::from_str(&data).unwrap();
                    let params = &event["params"];
                    let named = params["uri"].as_str().or(params["data"]["plugin"].as_str()).unwrap_or_default();
                    return (event["method"].as_str().unwrap_or_default().to_owned(), named.to_owned());
                }
            }
            let chunk = timeout(TIMEOUT, self.body.next()).await.unwrap().expect("it goes on").unwrap();
            self.received.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Returns the notification that has already arrived, if any.
    async fn arrived(&mut self) -> Option<(String, String)> {
        timeout(Duration::from_millis(20), self.next()).await.ok()
    }
}

fn updated(uri: &str) -> (String, String) {
    ("notifications/resources/updated".to_owned(), uri.to_owned())
}

fn list_changed() -> (String, String) {
    ("notifications/resources/list_changed".to_owned(), String::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_worlds_are_the_same_over_http_one_by_one_and_in_batches() {
    let (common, own, drawn, pool) = world::two_worlds();
    for rules in [Rules::Nothing, Rules::Deny, Rules::Both] {
        let (_dir, providers, host) = started(rules).await;
        let policy = host.policy(&principal());
        let client = HttpClient::stateless(&host, ADA);
        let told = async |own: &[String], answers: &mut Vec<Exchange>, in_batches: Option<&HttpClient>| {
            providers.set(Contents::new(&drawn, &common, own, &|uri| is_allowed(&policy, uri)));
            match in_batches {
                None => answers.extend(transcript(&host, &client, &providers, &pool).await),
                Some(session) => {
                    for batch in samples(&host, session.revision(), &pool).chunks(BATCH) {
                        answers.push((format!("{batch:?}"), session.send_batch(batch).await, None));
                    }
                }
            }
            assert_eq!(providers.calls_of(HIDDEN), 0, "{rules:?}: no call reaches what it may see nothing of");
        };
        let mut answers = [Vec::new(), Vec::new()];
        for (own, answers) in own.iter().zip(&mut answers) {
            told(own, answers, None).await;
        }
        // A session watches the listing, which calls providers at any time, so it begins after the comparisons of
        // calls.
        let in_batches = HttpClient::open(&host, ADA, Revision::V2025_03_26).await;
        let mut told_to_root = Vec::new();
        for (own, answers) in own.iter().zip(&mut answers) {
            told(own, answers, Some(&in_batches)).await;
            if rules == Rules::Nothing {
                assert_eq!(providers.calls(), 0);
                continue;
            }
            // The root principal's own calls do not count.
            let root = HttpClient::stateless(&host, ROOT);
            let listed = root.send("resources/list", &json!({})).await.unwrap();
            let read = root.send("resources/read", &json!({ "uri": "part://h/secret/b.txt" })).await.unwrap();
            told_to_root.push((listed["status"].clone(), read));
            providers.forget_calls();
        }
        let [first, second] = answers;
        assert_eq!(first.len(), second.len());
        for (one, other) in first.into_iter().zip(second) {
            assert_eq!(one, other, "{rules:?}");
        }
        assert!(
            rules == Rules::Nothing || told_to_root[0] != told_to_root[1],
            "there is a difference: {told_to_root:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_what_a_principal_may_not_see_are_on_no_event_stream() {
    for rules in [Rules::Deny, Rules::Allow] {
        let (_dir, providers, host) = started(rules).await;
        let policy = host.policy(&principal());
        let is_visible = |uri: &str| is_allowed(&policy, uri);
        let worlds = worlds(&is_visible);
        providers.set(worlds[0].clone());

        let session = HttpClient::open(&host, ADA, Revision::V2025_11_25).await;
        session.watch_listing().await;
        let known = [&[BARRIER][..], folders(rules)].concat();
        for uri in &known {
            let answer = session.send_in_session("resources/subscribe", &json!({ "uri": uri })).await;
            assert_eq!(answer["error"], Value::Null, "{uri}");
        }
        let refused = async |uri: &str| {
            let answer = session.send_in_session("resources/subscribe", &json!({ "uri": uri })).await;
            answer["error"].to_string().replace(uri, "URI")
        };
        let absent = refused("part://h/pub/none").await;
        for uri in ["part://h/secret/1.md", "part://h/secret/", "hidden://h/secret/1.md", "nobody://h/x"] {
            assert_eq!(refused(uri).await, absent, "{rules:?} {uri}");
        }
        let mut events = session.events().await;
        let unknown = ["part://h/secret/1.md", "hidden://h/secret/1.md", "nobody://h/x"];
        let all = [&known[..], &unknown].concat();
        let wanted = json!({ "notifications": { "resourcesListChanged": true, "resourceSubscriptions": all } });
        let stateless = HttpClient::stateless(&host, ADA);
        let mut heard = Events::of(stateless.send_stateless("subscriptions/listen", &wanted).await);
        assert_eq!(heard.next().await.0, "notifications/subscriptions/acknowledged");
        // Each acknowledged resource is notified once.
        let mut told = BTreeSet::new();
        while told.len() < known.len() {
            told.insert(heard.next().await);
        }
        // The first fingerprint of the listing must belong to this world.
        let subscriber = host.subscriber(&principal());
        subscriber.watch_listing();
        timeout(TIMEOUT, subscriber.listing_ready()).await.unwrap();
        for round in 1..=ROUNDS {
            let compared = Compared::now(&providers);
            providers.set(worlds[round % 2].clone());
            assert_eq!(events.next().await, updated(BARRIER), "{rules:?}");
            assert_eq!(heard.next().await, updated(BARRIER), "{rules:?}");
            compared.wait_for_more(&providers, 1, folders(rules).len()).await;
            assert_eq!(events.arrived().await, None, "{rules:?}");
            assert_eq!(heard.arrived().await, None, "{rules:?}");
        }
        assert_eq!(providers.calls_of(HIDDEN), 0, "{rules:?}");
        providers.set(world_with_more(&is_visible));
        for events in [&mut events, &mut heard] {
            let mut told = Vec::new();
            while !(told.contains(&updated(FOLDER)) && told.contains(&list_changed())) {
                told.push(events.next().await);
            }
            assert!(!told.contains(&updated(ROOT_FOLDER)), "{told:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warning_that_waits_for_a_stream_is_dropped_if_other_groups_may_not_know_of_its_plugin() {
    let (_dir, providers, host) = started(Rules::Allow).await;
    providers.fail(HIDDEN);
    providers.fail(PART);
    let service = http_service(host.clone(), HttpOptions::new());
    let as_principal = async |principal: &Principal, session: Option<&str>, body: Option<Value>| {
        let mut request = Request::builder().uri("/mcp").header(HOST, "localhost").extension(principal.clone());
        request =
            request.header(ACCEPT, "application/json, text/event-stream").header(CONTENT_TYPE, "application/json");
        if let Some(session) = session {
            request = request.header(SESSION_ID_HEADER, session).header("mcp-protocol-version", "2025-11-25");
        }
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = request.method(method).body(body).unwrap();
        timeout(TIMEOUT, service.clone().oneshot(request)).await.unwrap().unwrap()
    };
    let (member, alone) = (principal().with_groups(["corp/all"]), principal());
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" }
    });
    let opened = as_principal(&member, None, Some(message(0, "initialize", &params))).await;
    let session = opened.headers()[SESSION_ID_HEADER].to_str().unwrap().to_owned();
    text(opened).await;
    let log = message(1, "logging/setLevel", &json!({ "level": "debug" }));
    text(as_principal(&member, Some(&session), Some(log)).await).await;
    let list = message(2, "resources/list", &json!({}));
    let listed = text(as_principal(&member, Some(&session), Some(list)).await).await;
    assert!(!listed.contains("error"), "{listed}");
    let mut events = Events::of(as_principal(&alone, Some(&session), None).await);
    // Warnings are ordered by the names of the plugins.
    assert!(HIDDEN < PART);
    assert_eq!(events.next().await, ("notifications/message".to_owned(), PART.to_owned()));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(events.arrived().await, None);
}
