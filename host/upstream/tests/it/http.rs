//! Streamable HTTP: the negotiation, the token, errors and sizes.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use futures::StreamExt as _;
use mcp_host_config::{Config, Environment, Plugin};
use mcp_host_model::provider::{Failure, Provider as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::hostile::wait_for;
use super::scripted::{acknowledged, discovered};

/// A request that was received: its method, its headers and its message.
type Received = (Method, HeaderMap, Value);

/// A server on loopback that answers as a test says.
pub(crate) struct Server {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Method, &Value) -> Response + Send + Sync + Clone + 'static) -> Self {
        Self::start_for_users(move |_, method, message| answer(method, message)).await
    }

    /// A server that answers each user, by the value of `Authorization`, for itself.
    pub(crate) async fn start_for_users(
        answer: impl Fn(&str, &Method, &Value) -> Response + Send + Sync + Clone + 'static,
    ) -> Self {
        Self::start_with_headers(move |headers, method, message| {
            let user = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
            answer(user, method, message)
        })
        .await
    }

    /// A server whose answers depend on the headers of a request.
    async fn start_with_headers(
        answer: impl Fn(&HeaderMap, &Method, &Value) -> Response + Send + Sync + Clone + 'static,
    ) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = received.clone();
        let handler = move |request: Request| {
            let (answer, log) = (answer.clone(), log.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
                let message = serde_json::from_slice(&body).unwrap_or_default();
                let response = answer(&parts.headers, &parts.method, &message);
                log.lock().push((parts.method, parts.headers, message));
                response
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let serve = async move { axum::serve(listener, Router::new().fallback(handler)).await.unwrap_or_default() };
        Self { url, received, _task: AbortOnDropHandle::new(tokio::spawn(serve)) }
    }

    /// The URL of its endpoint.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The values of `Authorization` that were received.
    pub(crate) fn users(&self) -> Vec<String> {
        let received = self.received.lock();
        let value = |headers: &HeaderMap| Some(headers.get("authorization")?.to_str().ok()?.to_owned());
        received.iter().filter_map(|(_, headers, _)| value(headers)).collect()
    }

    /// The values of `Authorization` of the requests with this method of the protocol.
    pub(crate) fn users_of(&self, method: &str) -> Vec<String> {
        let received = self.received.lock();
        let of_method = received.iter().filter(|(_, _, message)| message["method"] == method);
        let value = |headers: &HeaderMap| Some(headers.get("authorization")?.to_str().ok()?.to_owned());
        of_method.filter_map(|(_, headers, _)| value(headers)).collect()
    }

    /// How many requests with this method of HTTP, or of the protocol, were received.
    pub(crate) fn count(&self, wanted: &str) -> usize {
        let is_wanted = |(method, _, message): &&Received| *method == wanted || message["method"] == wanted;
        self.received.lock().iter().filter(is_wanted).count()
    }

    /// The users, by the values of `Authorization`, and the ids of the requests with this method of the protocol.
    pub(crate) fn ids_of(&self, method: &str) -> Vec<(String, i64)> {
        let received = self.received.lock();
        let of_method = received.iter().filter(|(_, _, message)| message["method"] == method);
        let user = |headers: &HeaderMap| Some(headers.get("authorization")?.to_str().ok()?.to_owned());
        of_method.filter_map(|(_, headers, message)| Some((user(headers)?, message["id"].as_i64()?))).collect()
    }

    pub(crate) fn plugin(&self, keys: &str) -> Plugin {
        let text = format!("[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\n{keys}", self.url);
        let environment = Environment::empty().variable("TOKEN", "hunter2");
        let config = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &environment);
        config.unwrap_or_else(|error| panic!("{error}")).plugins[0].clone()
    }
}

pub(crate) fn status(status: u16, text: &str) -> Response {
    Response::builder().status(status).body(Body::from(text.to_owned())).unwrap()
}

pub(crate) fn json(message: &Value, result: Value) -> Response {
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    let response = Response::builder().header("content-type", "application/json").header("mcp-session-id", "s1");
    response.body(Body::from(answer.to_string())).unwrap()
}

/// A server with sessions, of which others than `read` are answered alike.
pub(crate) fn with_session(method: &Method, message: &Value, read: impl Fn(&str) -> Response) -> Response {
    match (method, message["method"].as_str().unwrap_or_default()) {
        (&Method::GET, _) => status(405, ""),
        (&Method::DELETE, _) => status(200, ""),
        (_, "server/discover") => status(400, "no valid session"),
        (_, "initialize") => json(
            message,
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {} },
            "serverInfo": { "name": "old", "version": "1" } }),
        ),
        (_, "resources/read") => read(message["params"]["uri"].as_str().unwrap_or_default()),
        (_, method) if method.starts_with("notifications/") => status(202, ""),
        _ => status(500, "?"),
    }
}

#[tokio::test]
async fn a_server_of_sessions_is_fallen_back_to_and_gets_the_token_in_each_request() {
    let server = Server::start(|method, message| {
        with_session(method, message, |uri| json(message, json!({ "contents": [{ "uri": uri, "text": "1" }] })))
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("auth = { token = { env = 'TOKEN' } }")).await.unwrap();
    assert_eq!(up.describe().name, "old");
    assert!(up.read("x:1").await.is_ok());
    let received = server.received.lock().clone();
    assert!(received.iter().all(|(_, headers, _)| headers["authorization"] == "Bearer hunter2"));
    let (_, headers, _) = received.iter().find(|(_, _, message)| message["method"] == "resources/read").unwrap();
    assert_eq!(
        (&headers["mcp-session-id"], &headers["mcp-protocol-version"]),
        (&"s1".parse().unwrap(), &"2025-06-18".parse().unwrap())
    );
}

/// On a connection that was idle, the request could be sent twice.
#[tokio::test]
async fn a_session_is_begun_on_a_new_connection() {
    let ports = Arc::new(Mutex::new(Vec::new()));
    let log = ports.clone();
    let handler = move |request: Request| {
        let log = log.clone();
        async move {
            let port = request.extensions().get::<ConnectInfo<SocketAddr>>().unwrap().0.port();
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            log.lock().push((message["method"].as_str().unwrap_or_default().to_owned(), port));
            if message["method"] == "server/discover" {
                let error = json!({ "code": -32601, "message": "?" });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                return json_text(answer.to_string());
            }
            with_session(&parts.method, &message, |uri| {
                json(&message, json!({ "contents": [{ "uri": uri, "text": "1" }] }))
            })
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = Router::new().fallback(handler).into_make_service_with_connect_info::<SocketAddr>();
    let serve = async move { axum::serve(listener, service).await.unwrap_or_default() };
    let server = Server { url, received: Arc::default(), _task: AbortOnDropHandle::new(tokio::spawn(serve)) };
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    assert!(up.read("x:1").await.is_ok());
    let ports = ports.lock();
    let (position, (_, port)) = ports.iter().enumerate().find(|(_, (method, _))| method == "initialize").unwrap();
    assert!(ports[..position].iter().all(|(_, before)| before != port), "{ports:?}");
}

#[tokio::test]
async fn a_server_that_refuses_the_credentials_is_said_to() {
    let server = Server::start(|_, _| status(401, "")).await;
    let Err(error) = mcp_host_upstream::connect(&server.plugin("")).await else { panic!("it is refused") };
    assert!(error.to_string().contains("refuses the credentials"), "{error}");
}

#[tokio::test]
async fn a_url_of_no_mcp_server_is_named_with_what_it_answers() {
    let html = |_: &Method, _: &Value| {
        Response::builder().header("content-type", "text/html").body(Body::from("<p>")).unwrap()
    };
    for (server, answers) in [
        (Server::start(|_, _| status(405, "")).await, "HTTP 405, as no MCP endpoint does: correct `url`"),
        (Server::start(|_, _| status(500, "")).await, "HTTP 500"),
        (Server::start(html).await, "with the content type `text/html`, as no MCP endpoint does: correct `url`"),
    ] {
        let Err(error) = mcp_host_upstream::connect(&server.plugin("")).await else { panic!("it is no MCP server") };
        assert_eq!(error.to_string(), format!("{} answers {answers}", server.url()));
    }
}

#[tokio::test]
async fn a_server_that_is_not_running_is_named_with_the_reason_of_the_system() {
    // The port is bound and does not listen.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let server = Server {
        url: format!("http://{}/mcp", socket.local_addr().unwrap()),
        received: Arc::default(),
        _task: AbortOnDropHandle::new(tokio::spawn(async {})),
    };
    let Err(error) = mcp_host_upstream::connect(&server.plugin("")).await else { panic!("nothing listens") };
    let text = error.to_string();
    assert!(text.starts_with(&format!("{}: Connection refused", server.url())), "{text}");
    assert!(text.ends_with("; start that server, or correct `url`"), "{text}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_none_fails_its_call_alone() {
    let server = Server::start(|method, message| {
        with_session(method, message, |uri| match uri {
            "x:long" => json(message, json!({ "contents": [{ "uri": uri, "text": "x".repeat(1 << 20) }] })),
            "x:html" => Response::builder().header("content-type", "text/html").body(Body::from("<p>")).unwrap(),
            "x:moved" => Response::builder()
                .status(StatusCode::FOUND)
                .header("location", "/elsewhere")
                .body(Body::empty())
                .unwrap(),
            "x:busy" => status(503, "busy"),
            uri => json(message, json!({ "contents": [{ "uri": uri, "text": "1" }] })),
        })
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("limits = { response-size = '64KiB' }")).await.unwrap();
    for path in ["x:long", "x:html", "x:moved", "x:busy"] {
        assert!(matches!(up.read(path).await, Err(Failure::Unavailable { .. } | Failure::Internal(_))), "{path}");
        assert!(up.read("x:1").await.is_ok());
    }
    let received = server.received.lock();
    let sessions = received.iter().filter(|(_, _, message)| message["method"] == "initialize").count();
    assert_eq!(sessions, 1, "the connection is kept");
}

#[tokio::test]
async fn subscriptions_that_never_answer_leave_room_for_reads() {
    let server = Server::start(|method, message| match message["method"].as_str() {
        Some("initialize") => json(
            message,
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": { "subscribe": true } },
            "serverInfo": { "name": "old", "version": "1" } }),
        ),
        // Its body never ends.
        Some("resources/subscribe") => Response::builder()
            .header("content-type", "application/json")
            .body(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()))
            .unwrap(),
        _ => with_session(method, message, |uri| json(message, json!({ "contents": [{ "uri": uri, "text": "1" }] }))),
    })
    .await;
    let plugin = server.plugin("limits = { concurrency = 1, deadline = '10m' }");
    let up = mcp_host_upstream::connect(&plugin).await.unwrap();
    let watched: Vec<String> = (0..40).map(|number| format!("x:{number}")).collect();
    up.changes(&watched, None).await.unwrap();
    // Without a slot of its own, it would wait for ten minutes.
    let read = tokio::time::timeout(Duration::from_secs(60), up.read("x:1")).await;
    assert!(read.is_ok_and(|read| read.is_ok()));
}

#[tokio::test]
async fn a_new_session_is_subscribed_in_again_and_everything_has_changed_once() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let current = sessions.clone();
    let server = Server::start_with_headers(move |headers, method, message| {
        let session = format!("s{}", current.load(Ordering::SeqCst));
        let is_current = headers.get("mcp-session-id").is_none_or(|found| *found == session);
        let mut response = match (method, message["method"].as_str().unwrap_or_default()) {
            (_, "initialize") => json(
                message,
                json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": { "subscribe": true } },
                "serverInfo": { "name": "old", "version": "1" } }),
            ),
            _ if !is_current => status(404, ""),
            (&Method::GET, _) => Response::builder()
                .header("content-type", "text/event-stream")
                .body(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()))
                .unwrap(),
            (_, "resources/subscribe") => json(message, json!({})),
            _ => {
                with_session(method, message, |uri| json(message, json!({ "contents": [{ "uri": uri, "text": "1" }] })))
            }
        };
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        response
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    let watched = vec!["x:1".to_owned()];
    let streams = |session: &str| {
        let is_of = |headers: &HeaderMap| headers.get("mcp-session-id").is_some_and(|found| *found == session);
        server.received.lock().iter().filter(|(method, headers, _)| *method == Method::GET && is_of(headers)).count()
    };
    wait_for(async || streams("s0") > 0).await;
    let start = up.changes(&watched, None).await.unwrap().token;
    sessions.store(1, Ordering::SeqCst);
    wait_for(async || up.read("x:1").await.is_ok()).await;
    wait_for(async || streams("s1") > 0).await;
    wait_for(async || up.changes(&watched, Some(&start)).await.is_ok_and(|changes| changes.changed == watched)).await;
    let subscribed = || {
        let received = server.received.lock();
        let subscriptions = received.iter().filter(|(_, _, message)| message["method"] == "resources/subscribe");
        subscriptions.map(|(_, headers, _)| headers["mcp-session-id"].clone()).collect::<Vec<_>>()
    };
    wait_for(async || up.changes(&watched, Some(&start)).await.is_ok() && subscribed() == ["s0", "s1"]).await;
}

#[tokio::test]
async fn a_stream_of_subscriptions_that_ends_is_opened_again_and_everything_has_changed_once() {
    let end = Arc::new(watch::Sender::new(()));
    let ends = end.clone();
    let server = Server::start(move |_, message| {
        with_subscriptions(message, |first| {
            let first = Ok::<_, std::io::Error>(first.into_bytes());
            // The stream ends when the test says so.
            let mut ended = ends.subscribe();
            let rest = futures::stream::once(async move {
                ended.changed().await.unwrap_or_default();
                Ok(b":\n\n".to_vec())
            });
            let events = Body::from_stream(futures::stream::iter([first]).chain(rest));
            Response::builder().header("content-type", "text/event-stream").body(events).unwrap()
        })
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    let watched = vec!["x:1".to_owned(), "x:2".to_owned()];
    let since = async |token: &str| up.changes(&watched, Some(token)).await;
    // The stream may begin later than the first call, which everything is notified for once.
    let mut start = up.changes(&watched, None).await.unwrap().token;
    loop {
        let changes = since(&start).await.unwrap();
        start = changes.token;
        if changes.changed.is_empty() && server.count("subscriptions/listen") > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = server.count("subscriptions/listen");
    end.send_replace(());
    let is_open_again = || server.count("subscriptions/listen") > before;
    wait_for(async || since(&start).await.is_ok_and(|changes| changes.changed == watched) && is_open_again()).await;
    let after = since(&start).await.unwrap().token;
    assert!(since(&after).await.unwrap().changed.is_empty());
}

/// A server without sessions. `answer` makes its other answers, and gets the id of the request, too.
fn without_sessions(message: &Value, answer: impl Fn(&Value, &Value) -> Response) -> Response {
    match message["method"].as_str() {
        Some("server/discover") => json(message, discovered(json!({}))),
        _ => answer(&message["id"], message),
    }
}

/// A server without sessions that has subscriptions. `listen` returns their stream, of which it gets the first event.
pub(crate) fn with_subscriptions(message: &Value, listen: impl FnOnce(String) -> Response) -> Response {
    match message["method"].as_str() {
        Some("server/discover") => json(message, discovered(json!({ "subscribe": true }))),
        Some("subscriptions/listen") => listen(format!("data: {}\n\n", acknowledged(message))),
        _ => status(400, ""),
    }
}

/// A stream of those messages, which then ends.
fn stream(messages: &[Value]) -> Response {
    let events: String = messages.iter().map(|message| format!("data: {message}\n\n")).collect();
    Response::builder().header("content-type", "text/event-stream").body(Body::from(events)).unwrap()
}

/// The answer with the content of a resource.
fn contents(id: &Value, uri: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "resultType": "complete", "contents": [{ "uri": uri, "text": "1" }] } })
}

#[tokio::test]
async fn without_sessions_a_request_says_in_its_headers_what_is_in_it() {
    let server = Server::start(|_, message| {
        without_sessions(message, |id, message| {
            let answer = contents(id, &message["params"]["uri"]);
            let response = Response::builder().header("content-type", "application/json");
            response.body(Body::from(answer.to_string())).unwrap()
        })
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("auth = { token = { env = 'TOKEN' } }")).await.unwrap();
    for _ in 0..3 {
        assert!(up.read("x:1").await.is_ok());
    }
    let received = server.received.lock();
    let reads: Vec<_> = received.iter().filter(|(_, _, message)| message["method"] == "resources/read").collect();
    assert_eq!(reads.len(), 3);
    for (_, headers, message) in &reads {
        let expected = [("mcp-method", "resources/read"), ("mcp-name", "x:1"), ("mcp-protocol-version", "2026-07-28")];
        for (name, value) in expected.into_iter().chain([("authorization", "Bearer hunter2")]) {
            assert_eq!(headers[name], value);
        }
        assert!(!headers.contains_key("mcp-session-id"));
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "mcp-host");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    }
    let ids: std::collections::HashSet<_> = reads.iter().map(|(_, _, message)| message["id"].to_string()).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn without_sessions_an_answer_is_found_in_a_stream_and_what_is_none_harms_its_own_call_alone() {
    let server = Server::start(|_, message| {
        without_sessions(message, |id, message| {
            let uri = &message["params"]["uri"];
            let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "" } });
            match uri.as_str().unwrap_or_default() {
                "x:other" => stream(&[contents(&json!(4_000_000), uri), log, contents(id, uri)]),
                "x:flood" => stream(&vec![log; 2000]),
                "x:long" => {
                    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "contents": [{ "uri": uri, "text": "x".repeat(1 << 20) }] } });
                    json_text(answer.to_string())
                }
                "x:unasked" => json_text(contents(&json!(4_000_000), uri).to_string()),
                "x:none" => {
                    let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": "Resource not found" } });
                    let mut response = json_text(error.to_string());
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                    response
                }
                "x:busy" => status(503, "busy"),
                "x:refused" => status(401, ""),
                _ => json_text(contents(id, uri).to_string()),
            }
        })
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("limits = { response-size = '64KiB' }")).await.unwrap();
    for path in ["x:other", "x:1"] {
        assert!(up.read(path).await.is_ok(), "{path}");
    }
    for path in ["x:flood", "x:long", "x:unasked", "x:busy", "x:refused"] {
        let failed = up.read(path).await;
        assert!(matches!(failed, Err(Failure::Unavailable { .. } | Failure::Internal(_))), "{path} {failed:?}");
        wait_for(async || up.read("x:1").await.is_ok()).await;
    }
    assert_eq!(up.read("x:none").await, Err(Failure::NotFound));
}

fn json_text(text: String) -> Response {
    Response::builder().header("content-type", "application/json").body(Body::from(text)).unwrap()
}

#[tokio::test]
async fn a_server_that_ends_streams_before_their_answers_is_asked_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let reads = count.clone();
    let server = Server::start(move |method, message| {
        if method == Method::GET {
            return status(405, "");
        }
        without_sessions(message, |id, message| {
            let is_first = reads.fetch_add(1, Ordering::SeqCst) == 0;
            let answer = contents(id, &message["params"]["uri"]);
            if is_first { stream(&[]) } else { json_text(answer.to_string()) }
        })
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    for reads in [2, 3] {
        assert!(up.read("x:1").await.is_ok());
        assert_eq!(count.load(Ordering::SeqCst), reads);
    }
}

/// Sets a flag when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn without_sessions_a_call_that_is_given_up_closes_its_connection() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let closed = dropped.clone();
    let server = Server::start(move |_, message| {
        without_sessions(message, |id, message| {
            if message["params"]["uri"] != "x:never" {
                return json_text(contents(id, &message["params"]["uri"]).to_string());
            }
            let guard = Dropped(closed.clone());
            let never = futures::stream::poll_fn(move |_| {
                let _ = &guard;
                std::task::Poll::<Option<Result<Vec<u8>, std::io::Error>>>::Pending
            });
            Response::builder().header("content-type", "application/json").body(Body::from_stream(never)).unwrap()
        })
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(200), up.read("x:never")).await.is_err());
    wait_for(async || dropped.load(Ordering::SeqCst) == 1).await;
    assert!(up.read("x:1").await.is_ok());
}

/// A stream with an answer, followed by 1 KiB of comments each millisecond, or by nothing. It never ends.
fn endless(answer: &Value, has_comments: bool, dropped: &Arc<AtomicUsize>) -> Response {
    let (first, guard) = (format!("data: {answer}\n\n").into_bytes(), Dropped(dropped.clone()));
    let comment = [b":".as_slice(), &[b'x'; 1021], b"\n\n"].concat();
    let rest = futures::stream::unfold(guard, move |guard| {
        let comment = comment.clone();
        async move {
            if has_comments {
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                std::future::pending::<()>().await;
            }
            Some((comment, guard))
        }
    });
    let events = futures::stream::iter([first]).chain(rest).map(Ok::<_, std::io::Error>);
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(events)).unwrap()
}

#[tokio::test]
async fn what_follows_an_answer_is_read_up_to_a_size_and_for_one_call_at_a_time() {
    let (commenting, silent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let dropped = (commenting.clone(), silent.clone());
    let server = Server::start(move |_, message| {
        without_sessions(message, |id, message| {
            let uri = &message["params"]["uri"];
            match uri.as_str().unwrap_or_default() {
                "x:comments" => endless(&contents(id, uri), true, &dropped.0),
                "x:silent" => endless(&contents(id, uri), false, &dropped.1),
                _ => json_text(contents(id, uri).to_string()),
            }
        })
    })
    .await;
    let up = mcp_host_upstream::connect(&server.plugin("")).await.unwrap();
    // Less than the time for which a stream is read. A busy machine needs several attempts.
    let time = Duration::from_millis(800);
    let (mut is_bounded, mut is_one_waited_for) = (false, false);
    for _ in 0..10 {
        // 64 KiB take 64 ms or a little more, and without a bound the stream is read for a second.
        let (began, before) = (Instant::now(), commenting.load(Ordering::SeqCst));
        assert!(up.read("x:comments").await.is_ok());
        wait_for(async || commenting.load(Ordering::SeqCst) > before).await;
        is_bounded |= began.elapsed() < time;
        // Of four streams that stay open, one is waited for.
        let (began, before) = (Instant::now(), silent.load(Ordering::SeqCst));
        for _ in 0..4 {
            assert!(up.read("x:silent").await.is_ok());
        }
        wait_for(async || silent.load(Ordering::SeqCst) >= before + 3).await;
        is_one_waited_for |= silent.load(Ordering::SeqCst) == before + 3 && began.elapsed() < time;
        wait_for(async || silent.load(Ordering::SeqCst) == before + 4).await;
        if is_bounded && is_one_waited_for {
            break;
        }
    }
    assert!(is_bounded && is_one_waited_for, "{is_bounded} {is_one_waited_for}");
    assert!(up.read("x:1").await.is_ok());
}
