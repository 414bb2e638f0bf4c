//! The service over HTTP, mounted in an axum application with its own login.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::header::{ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use futures::StreamExt;
use http_body_util::BodyExt;
use mcp_host_server::{HttpOptions, McpService};
use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::{Config, PrincipalSelector, Rule};
use mcp_resource_host::provider::{
    self, ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, async_trait,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::TIMEOUT;

/// Two letters, `a` and `b`.
struct Letters;

#[async_trait]
impl Provider for Letters {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("letters", "1.0.0").watches(true)
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> provider::Result<Page> {
        Ok(Page::last([Entry::new("a", "A"), Entry::new("b", "B")]))
    }

    async fn stat(&self, path: &str) -> provider::Result<Entry> {
        if path == "pending" {
            std::future::pending::<()>().await;
        }
        if ["a", "b"].contains(&path) { Ok(Entry::new(path, path).subscribable()) } else { Err(Failure::NotFound) }
    }

    async fn read(&self, path: &str) -> provider::Result<Vec<Contents>> {
        Ok(vec![Contents::text(self.stat(path).await?, path)])
    }

    async fn changes(&self, _: &[String], _: Option<&str>) -> provider::Result<ChangeSet> {
        Ok(ChangeSet::none("now"))
    }
}

/// A host of letters: `ada` and `bob` may read `a`, and `ada` may read `b`.
async fn start(change: impl FnOnce(&mut Config)) -> (Arc<Host>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::new();
    for (user, letter) in [("ada", "a"), ("ada", "b"), ("bob", "a")] {
        let mut rule = Rule::new([PrincipalSelector::Named(user.into())]);
        rule.allow = vec![format!("letters:///{letter}").parse().unwrap()];
        config.rules.push(rule);
    }
    config.server.cache = Some(dir.path().join("cache"));
    config.server.state = Some(dir.path().join("state"));
    config.server.page_size = 1.try_into().unwrap();
    change(&mut config);
    let builder = Host::builder(config).provider("letters".parse().unwrap(), "letters:///".parse().unwrap(), Letters);
    (Arc::new(builder.start().await.unwrap()), dir)
}

/// The login of the application: it trusts the user name that the client sends.
async fn login(mut request: Request, next: Next) -> Response {
    let user = request.headers().get("x-user").map(|user| user.to_str().unwrap().to_owned());
    if let Some(user) = user {
        request.extensions_mut().insert(Principal::new(user));
    }
    next.run(request).await
}

/// An application with its own pages, and the service behind its login.
struct Application {
    routes: Router,
    service: McpService,
    _dir: TempDir,
}

impl Application {
    async fn start(change: impl FnOnce(&mut Config), options: HttpOptions) -> Self {
        let (host, dir) = start(change).await;
        let service = mcp_host_server::http_service(host, options);
        let routes = Router::new()
            .route("/", get(async || "the application"))
            .nest("/context", service.clone().into_router())
            .layer(from_fn(login));
        Self { routes, service, _dir: dir }
    }

    async fn with_defaults() -> Self {
        Self::start(|_| (), HttpOptions::new()).await
    }

    async fn send(&self, request: Request) -> Response {
        timeout(TIMEOUT, self.routes.clone().oneshot(request)).await.unwrap().unwrap()
    }

    /// Opens a session as this user, and returns its id.
    async fn open_session(&self, user: &str) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" }
        });
        let response = self.send(post(user, None, &message(1, "initialize", &params))).await;
        assert_eq!(response.status(), StatusCode::OK);
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        response.into_body().collect().await.unwrap();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.send(post(user, Some(&id), &initialized)).await.status(), StatusCode::ACCEPTED);
        id
    }

    /// Opens a session of the revision with batches as this user, and returns its id.
    async fn open_session_with_batches(&self, user: &str) -> String {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client });
        let opened = self.send(post(user, None, &message(0, "initialize", &params))).await;
        let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        opened.into_body().collect().await.unwrap();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.send_batch(user, &session, &initialized).await.status(), StatusCode::ACCEPTED);
        session
    }

    /// Sends a batch, or one message, in a session of the revision with batches.
    async fn send_batch(&self, user: &str, session: &str, messages: &Value) -> Response {
        let mut request = post(user, Some(session), messages);
        // Clients of this revision do not send it.
        request.headers_mut().remove("mcp-protocol-version");
        self.send(request).await
    }

    async fn ping(&self, user: &str, session: &str) -> (StatusCode, String) {
        text(self.send(post(user, Some(session), &message(2, "ping", &json!({})))).await).await
    }

    /// Sends a session request without a body.
    async fn send_bare(&self, method: Method, user: &str, session: &str) -> Response {
        let request = builder(method, user, Some(session)).body(Body::empty()).unwrap();
        self.send(request).await
    }
}

fn message(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn builder(method: Method, user: &str, session: Option<&str>) -> axum::http::request::Builder {
    let mut request = Request::builder().method(method).uri("/context/mcp");
    let headers = [(HOST, "localhost"), (ACCEPT, "application/json, text/event-stream")];
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if !user.is_empty() {
        request = request.header("x-user", user);
    }
    match session {
        Some(session) => request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25"),
        None => request,
    }
}

fn post(user: &str, session: Option<&str>, message: &Value) -> Request {
    let body = Body::from(message.to_string());
    builder(Method::POST, user, session).header(CONTENT_TYPE, "application/json").body(body).unwrap()
}

/// A request of the revision without sessions.
fn stateless(user: &str, id: u64, method: &str, mut params: Value) -> Request {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let body = Body::from(message(id, method, &params).to_string());
    let request = builder(Method::POST, user, None).header(CONTENT_TYPE, "application/json");
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    let request = match params["uri"].as_str() {
        Some(uri) => request.header("mcp-name", uri),
        None => request,
    };
    request.body(body).unwrap()
}

async fn text(response: Response) -> (StatusCode, String) {
    let status = response.status();
    let body = timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap();
    (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

/// Reads an event stream to its end.
async fn drain(mut events: BodyDataStream) {
    timeout(TIMEOUT, async { while events.next().await.is_some() {} }).await.unwrap();
}

#[tokio::test]
async fn the_application_and_the_service_answer_side_by_side() {
    let application = Application::with_defaults().await;
    let page = Request::builder().uri("/").body(Body::empty()).unwrap();
    assert_eq!(text(application.send(page).await).await, (StatusCode::OK, "the application".to_owned()));
    let health = Request::builder().uri("/context/healthz").body(Body::empty()).unwrap();
    assert_eq!(text(application.send(health).await).await, (StatusCode::OK, "ok\n".to_owned()));
    let none = Request::builder().uri("/none").header(HOST, "evil.example").body(Body::empty()).unwrap();
    assert_eq!(application.send(none).await.status(), StatusCode::NOT_FOUND, "other pages are the application's");
    let (status, body) = text(application.send(stateless("ada", 1, "resources/list", json!({}))).await).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["result"]["resources"][0]["uri"], "letters:///a");
}

#[tokio::test]
async fn the_service_is_mounted_at_any_path() {
    let (host, _dir) = start(|_| ()).await;
    let service = mcp_host_server::http_service(host, HttpOptions::new());
    let routes = Router::new().route_service("/anywhere", service);
    let mut request = stateless("", 1, "resources/list", json!({}));
    *request.uri_mut() = "/anywhere".parse().unwrap();
    assert_eq!(routes.oneshot(request).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn the_principal_of_the_application_is_the_one_that_rules_are_about() {
    let application = Application::with_defaults().await;
    for (user, may_read) in [("ada", true), ("bob", false), ("", false)] {
        let read = application.send(stateless(user, 1, "resources/read", json!({ "uri": "letters:///b" }))).await;
        let (_, body) = text(read).await;
        assert_eq!(body.contains("contents"), may_read, "{user}: {body}");
    }
}

#[tokio::test]
async fn a_cursor_of_one_principal_is_none_for_another() {
    let application = Application::with_defaults().await;
    let list = async |user: &str, params: Value| {
        let (_, body) = text(application.send(stateless(user, 1, "resources/list", params)).await).await;
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let first = list("ada", json!({})).await;
    let cursor = json!({ "cursor": first["result"]["nextCursor"] });
    assert_eq!(list("bob", cursor.clone()).await["error"]["code"], -32602);
    assert_eq!(list("ada", cursor).await["result"]["resources"][0]["uri"], "letters:///b");
}

#[tokio::test]
async fn a_session_of_one_principal_does_not_exist_for_another() {
    let application = Application::with_defaults().await;
    let session = application.open_session("ada").await;
    let unknown = "00000000-0000-0000-0000-000000000000";
    for user in ["bob", ""] {
        let refused = application.ping(user, &session).await;
        assert_eq!(refused.0, StatusCode::NOT_FOUND);
        assert_eq!(refused, application.ping(user, unknown).await, "as a session that there is not");
        for method in [Method::GET, Method::DELETE] {
            let refused = text(application.send_bare(method.clone(), user, &session).await).await;
            assert_eq!(refused.0, StatusCode::NOT_FOUND, "{method}");
            assert_eq!(refused, text(application.send_bare(method.clone(), user, unknown).await).await, "{method}");
        }
    }
    assert_eq!(application.ping("ada", &session).await.0, StatusCode::OK, "nobody else has ended it");
    let deleted = application.send_bare(Method::DELETE, "ada", &session).await;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert_eq!(application.ping("ada", &session).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn no_message_is_answered_in_a_session_that_does_not_exist() {
    let application = Application::with_defaults().await;
    let [foreign, ended] = [application.open_session("ada").await, application.open_session("bob").await];
    application.send_bare(Method::DELETE, "bob", &ended).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2025-11-25",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" }
    });
    let messages = [
        message(1, "initialize", &initialize),
        message(1, "server/discover", &json!({})),
        message(1, "ping", &json!({})),
        message(1, "resources/list", &json!({})),
        message(1, "resources/list", &json!({ "_meta": meta })),
        message(1, "resources/unsubscribe", &json!({ "uri": "letters:///a", "_meta": meta })),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ];
    for session in [foreign.as_str(), ended.as_str(), "00000000-0000-0000-0000-000000000000", "never"] {
        for message in &messages {
            let (status, refused) = text(application.send(post("bob", Some(session), message)).await).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{message}");
            let refused: Value = serde_json::from_str(&refused).unwrap();
            assert_eq!(refused.get("id"), message.get("id"));
            assert!(refused["error"]["message"].as_str().unwrap().contains("`initialize`"), "{refused}");
        }
        let mut batch = post("bob", Some(session), &json!([messages[1], messages[2]]));
        batch.headers_mut().insert("mcp-protocol-version", "2025-03-26".parse().unwrap());
        assert_eq!(application.send(batch).await.status(), StatusCode::NOT_FOUND);
    }
    assert_eq!(application.ping("ada", &foreign).await.0, StatusCode::OK);
    let mut stateless = stateless("bob", 1, "resources/list", json!({}));
    stateless.headers_mut().insert("mcp-session-id", "never".parse().unwrap());
    assert_eq!(application.send(stateless).await.status(), StatusCode::OK, "a revision without sessions");
}

#[tokio::test]
async fn what_changes_a_session_is_refused_outside_of_one() {
    let application = Application::with_defaults().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2025-11-25",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    for (method, mut params) in [
        ("resources/subscribe", json!({ "uri": "letters:///a" })),
        ("resources/unsubscribe", json!({ "uri": "letters:///a" })),
        ("logging/setLevel", json!({ "level": "debug" })),
    ] {
        params["_meta"] = meta.clone();
        let mut request = post("ada", None, &message(1, method, &params));
        request.headers_mut().insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
        let (status, body) = text(application.send(request).await).await;
        let error = &serde_json::from_str::<Value>(&body).unwrap()["error"];
        assert_eq!((status, &error["code"]), (StatusCode::BAD_REQUEST, &json!(-32600)), "{method}: {body}");
        assert!(error["message"].as_str().unwrap().contains("`initialize`"), "{body}");
        let session = application.open_session("ada").await;
        let (status, body) =
            text(application.send(post("ada", Some(&session), &message(1, method, &params))).await).await;
        assert_eq!(status, StatusCode::OK);
        assert!(!body.contains("-32600"), "{method}: {body}");
    }
}

#[tokio::test]
async fn no_answer_of_a_cancelled_request_is_sent_to_the_next_one_with_its_id() {
    let pending = |config: &mut Config| {
        let mut rule = Rule::new([PrincipalSelector::Named("ada".into())]);
        rule.allow = vec!["letters:///pending".parse().unwrap()];
        config.rules.push(rule);
    };
    let application = Application::start(pending, HttpOptions::new()).await;
    let session = application.open_session("ada").await;
    for id in 100..160 {
        let subscribe = message(id, "resources/subscribe", &json!({ "uri": "letters:///pending" }));
        let subscribed = application.send(post("ada", Some(&session), &subscribe)).await;
        let subscribed = tokio::spawn(text(subscribed));
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        assert_eq!(application.send(post("ada", Some(&session), &cancel)).await.status(), StatusCode::ACCEPTED);
        let ping = message(id, "ping", &json!({}));
        let (_, answer) = text(application.send(post("ada", Some(&session), &ping)).await).await;
        assert!(answer.contains("\"result\":{}") || answer.contains("has not been answered"), "{answer}");
        let (_, cancelled) = timeout(TIMEOUT, subscribed).await.unwrap().unwrap();
        assert!(!cancelled.contains("\"result\""), "{cancelled}");
    }
}

#[tokio::test]
async fn only_the_principal_of_a_session_hears_its_events() {
    let application = Application::with_defaults().await;
    let session = application.open_session("ada").await;
    assert_eq!(application.send_bare(Method::GET, "bob", &session).await.status(), StatusCode::NOT_FOUND);
    let events = application.send_bare(Method::GET, "ada", &session).await;
    assert_eq!(events.status(), StatusCode::OK);
    assert_eq!(application.send_bare(Method::DELETE, "ada", &session).await.status(), StatusCode::NO_CONTENT);
    drain(events.into_body().into_data_stream()).await;
}

#[tokio::test]
async fn a_request_without_a_principal_is_refused_if_one_is_required() {
    let application = Application::start(|_| (), HttpOptions::new().require_principal()).await;
    let list = |user| application.send(stateless(user, 1, "resources/list", json!({})));
    assert_eq!(list("").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(list("ada").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn hosts_and_origins_are_checked_unless_the_application_does_it() {
    let strange = || {
        let mut request = stateless("ada", 1, "resources/list", json!({}));
        request.headers_mut().insert(HOST, "evil.example".parse().unwrap());
        request
    };
    let application = Application::with_defaults().await;
    assert_eq!(application.send(strange()).await.status(), StatusCode::FORBIDDEN);
    let application = Application::start(|_| (), HttpOptions::new().origin_check(false)).await;
    assert_eq!(application.send(strange()).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn cross_origin_requests_are_handled_unless_the_application_does_it() {
    let config = |config: &mut Config| config.http.cors = vec!["https://app.example.com".parse().unwrap()];
    let page = || {
        let mut request = stateless("ada", 1, "resources/list", json!({}));
        request.headers_mut().insert(ORIGIN, "https://app.example.com".parse().unwrap());
        request
    };
    for (options, is_shared) in [(HttpOptions::new(), true), (HttpOptions::new().cors(false), false)] {
        let response = Application::start(config, options).await.send(page()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), is_shared);
    }
}

/// The unsent answers of each client that [`with_small_shares`] allows, in bytes.
const SMALL_SHARE: usize = 256 << 10;

/// Allows [`SMALL_SHARE`] bytes of unsent answers for each client, and any rate of requests.
fn with_small_shares(config: &mut Config) {
    let limits = &mut config.http.limits;
    limits.rate = "1000000/s".parse().unwrap();
    limits.response_memory = "16MiB".parse().unwrap();
    limits.client_share = "1/64".parse().unwrap();
    limits.principal_share = "1/64".parse().unwrap();
    limits.write_timeout = "100ms".parse().unwrap();
}

#[tokio::test]
async fn answers_are_charged_to_the_principal_or_else_to_the_peer_until_their_bodies_are_dropped() {
    let application = Application::start(with_small_shares, HttpOptions::new()).await;
    let list = async |user: &str, peer: Option<u8>| {
        let mut request = stateless(user, 1, "resources/list", json!({}));
        if user.is_empty() {
            request.headers_mut().remove("x-user");
        }
        if let Some(peer) = peer {
            let peer = SocketAddr::from((Ipv4Addr::new(192, 0, 2, peer), 1));
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        application.send(request).await
    };
    for (one, same, other) in [
        (("carol", None), ("carol", None), ("dave", None)),
        (("carol", Some(1)), ("carol", Some(2)), ("dave", Some(1))),
        (("", Some(1)), ("", Some(1)), ("", Some(2))),
    ] {
        // An empty answer takes 2 KiB; 64 KiB are reserved for a pending answer.
        let mut held = Vec::new();
        while held.len() < 100 {
            held.push(list(one.0, one.1).await);
        }
        let (_, refused) = text(list(same.0, same.1).await).await;
        assert!(refused.contains("wait to be read"), "{refused}");
        let (_, answer) = text(list(other.0, other.1).await).await;
        assert!(answer.contains("resources"), "another client has its own share: {answer}");
        drop(held);
        let (_, answer) = text(list(one.0, one.1).await).await;
        assert!(answer.contains("resources"), "{answer}");
    }
}

/// Returns whether the listing of `ada` is refused because its unread answers take all of its share.
async fn is_refused(application: &Application) -> bool {
    let (_, answer) = text(application.send(stateless("ada", 1, "resources/list", json!({}))).await).await;
    assert!(answer.contains("resources") || answer.contains("wait to be read"), "{answer}");
    answer.contains("wait to be read")
}

/// Returns whether the listing of `ada` is refused for longer than a request waits for room: requests in flight may
/// take all of the share, too, but not for so long.
async fn stays_refused(application: &Application) -> bool {
    for _ in 0..3 {
        if !is_refused(application).await {
            return false;
        }
    }
    true
}

/// Waits until the listing of `ada` is refused because its unread answers take all of its share, or is answered again.
async fn wait_until_refused(application: &Application, refused: bool, what: &str) {
    let waiting = async { while is_refused(application).await != refused {} };
    timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("{what}: refused: {refused}"));
}

#[tokio::test]
async fn errors_are_charged_until_their_bodies_are_dropped() {
    let application = Application::start(with_small_shares, HttpOptions::new()).await;
    for (what, uri) in [("not found", json!("letters:///none")), ("malformed", json!(5))] {
        // An error takes more than 2 KiB.
        let mut held = Vec::new();
        while held.len() < 100 {
            held.push(application.send(stateless("ada", 1, "resources/read", json!({ "uri": uri }))).await);
        }
        wait_until_refused(&application, true, what).await;
        drop(held);
        wait_until_refused(&application, false, what).await;
    }
}

/// A response of which a part was read. The rest of its body is polled no more, as while a client does not read.
struct Unread {
    first_frame: Bytes,
    _body: BodyDataStream,
}

impl Unread {
    /// Polls a body until it has its first frame.
    async fn begin(response: Response) -> Self {
        let mut body = response.into_body().into_data_stream();
        let first_frame = timeout(TIMEOUT, body.next()).await.unwrap().unwrap().unwrap();
        Self { first_frame, _body: body }
    }
}

/// A read that fails with an error that repeats 8 KB of the client.
fn long_read(id: u64) -> Value {
    message(id, "resources/read", &json!({ "uri": format!("x:{}", "a".repeat(8000)) }))
}

/// The answers of a batch are made by tasks, which need no poll of the body. With one message in a batch, the first
/// frame is its whole answer, so no task is left. With several, the answers behind the first one are not polled.
#[tokio::test]
async fn unread_batches_take_no_more_than_the_share_of_their_client_whatever_their_answers_are() {
    let application = Application::start(with_small_shares, HttpOptions::new()).await;
    let session = application.open_session_with_batches("ada").await;
    let of_method = |method: &'static str, params: Value| move |id: u64| message(id, method, &params);
    // Rejected, because it has no method.
    let rejected = |id: u64| json!({ "jsonrpc": "2.0", "id": format!("{id:01000}") });
    let ping = of_method("ping", json!({}));
    let partly_rejected = |id: u64| if id.is_multiple_of(4) { ping(id) } else { rejected(id) };
    let cases: [(&str, &dyn Fn(u64) -> Value); 6] = [
        ("a long URI", &long_read),
        ("malformed parameters", &of_method("resources/read", json!({ "uri": 5 }))),
        ("an unknown method", &of_method("no/such", json!({}))),
        ("ping", &ping),
        ("rejected", &rejected),
        ("partly rejected", &partly_rejected),
    ];
    for (what, message_of) in cases {
        for size in [1, 4] {
            let what = format!("{what}, {size} in a batch");
            let (mut held, mut number) = (Vec::new(), 0);
            while !stays_refused(&application).await {
                // Each answer is charged with 2 KiB and its size.
                assert!(number < 128, "{what}: {number} unread batches leave room for a listing");
                let messages = (0..size).map(|index| message_of(number * size + index)).collect();
                let response = application.send_batch("ada", &session, &Value::Array(messages)).await;
                held.push(Unread::begin(response).await);
                number += 1;
            }
            let bytes: usize = held.iter().map(|unread| unread.first_frame.len()).sum();
            assert!(bytes <= SMALL_SHARE, "{what}: {bytes} bytes of {number} batches");
            drop(held);
            wait_until_refused(&application, false, &what).await;
        }
    }
}

#[tokio::test]
async fn each_request_of_a_batch_is_answered_though_there_is_no_room_for_its_answer() {
    let application = Application::start(with_small_shares, HttpOptions::new()).await;
    let session = application.open_session_with_batches("ada").await;
    let batch = |message_of: &dyn Fn(u64) -> Value| Value::Array((0..64).map(message_of).collect());
    let pings = batch(&|id: u64| message(100 + id, "ping", &json!({})));
    let (mut pauses, mut is_full) = ([1, 2, 4, 8, 16, 32].into_iter(), false);
    while !is_full {
        // All answers together take more than a MiB. None is read until each request has its answer, or has waited for
        // room in vain. That takes a busy machine longer.
        let pause = pauses.next().expect("the answers take all of the share");
        let unread = application.send_batch("ada", &session, &batch(&long_read)).await;
        tokio::time::sleep(Duration::from_secs(pause)).await;
        // A batch without room for 64 errors is rejected before it is executed.
        let (rejection, rejected) = text(application.send_batch("ada", &session, &pings).await).await;

        let (status, events) = text(unread).await;
        assert_eq!(status, StatusCode::OK);
        let answers = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let answers: Vec<Value> = answers.map(|answer| serde_json::from_str(answer).unwrap()).collect();
        let ids: BTreeSet<u64> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
        assert_eq!((ids, answers.len()), ((0..64).collect(), 64));
        let is_refused = |answer: &&Value| answer["error"]["message"].as_str().unwrap().contains("wait to be read");
        let refused = answers.iter().filter(is_refused).count();
        assert!(refused < 64, "{refused} of them are refused");
        is_full = rejection == StatusCode::SERVICE_UNAVAILABLE && rejected.contains("wait to be read") && refused > 0;
    }

    let (status, events) = text(application.send_batch("ada", &session, &pings).await).await;
    assert_eq!((status, events.matches("\"result\":{}").count()), (StatusCode::OK, 64));
}

#[tokio::test]
async fn the_first_event_of_a_list_of_subscriptions_is_charged_until_it_is_read() {
    let application = Application::start(with_small_shares, HttpOptions::new()).await;
    // The notification repeats these URIs: with its chunk in flight it takes most of the share of 256 KiB.
    let uris: Vec<_> = (0..1000).map(|number| format!("letters:///{number:0>90}")).collect();
    let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
    let listen = async || application.send(stateless("ada", 1, "subscriptions/listen", wanted.clone())).await;
    let mut unread = listen().await.into_body().into_data_stream();
    assert!(stays_refused(&application).await);
    let (_, refused) = text(listen().await).await;
    assert!(refused.contains("wait to be read"), "{refused}");
    let first = timeout(TIMEOUT, unread.next()).await.unwrap().unwrap().unwrap();
    assert!(first.len() > 100_000, "{}", first.len());
    // The connection takes the next event once it has sent this one.
    assert!(timeout(Duration::from_millis(10), unread.next()).await.is_err());
    assert!(!is_refused(&application).await);
}

#[tokio::test]
async fn shutting_down_ends_streams_and_refuses_new_requests() {
    let application = Application::with_defaults().await;
    let session = application.open_session("ada").await;
    let events = application.send_bare(Method::GET, "ada", &session).await;
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    let listening = application.send(stateless("ada", 1, "subscriptions/listen", wanted)).await;
    assert_eq!((events.status(), listening.status()), (StatusCode::OK, StatusCode::OK));
    let streams = tokio::spawn(async move {
        tokio::join!(drain(events.into_body().into_data_stream()), drain(listening.into_body().into_data_stream()))
    });
    timeout(TIMEOUT, application.service.shutdown(TIMEOUT)).await.unwrap();
    timeout(TIMEOUT, streams).await.unwrap().unwrap();
    assert_eq!(application.ping("ada", &session).await.0, StatusCode::SERVICE_UNAVAILABLE);
    let health = Request::builder().uri("/context/healthz").body(Body::empty()).unwrap();
    assert_eq!(application.send(health).await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_service_that_is_dropped_ends_its_sessions_and_leaves_nothing_of_the_host() {
    let (host, dir) = start(|_| ()).await;
    let service = mcp_host_server::http_service(host.clone(), HttpOptions::new());
    let routes = Router::new().nest("/context", service.clone().into_router()).layer(from_fn(login));
    let application = Application { routes, service, _dir: dir };
    let session = application.open_session("ada").await;
    application.open_session("bob").await;
    let events = application.send_bare(Method::GET, "ada", &session).await;
    let wanted = json!({ "notifications": { "resourcesListChanged": true } });
    let listening = application.send(stateless("ada", 1, "subscriptions/listen", wanted)).await;
    drop(application);
    drain(events.into_body().into_data_stream()).await;
    drain(listening.into_body().into_data_stream()).await;
    let freed = async {
        while Arc::strong_count(&host) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, freed).await.expect("nothing else holds the host");
}
