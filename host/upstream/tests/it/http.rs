//! Streamable HTTP: the negotiation, the token, errors and sizes.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use mcp_host_config::{Config, Environment, Plugin};
use mcp_host_model::provider::{Failure, Provider as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// A request that was received: its method, its headers and its message.
type Received = (Method, HeaderMap, Value);

/// A server on loopback that answers as a test says.
pub(crate) struct Server {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    async fn start(answer: impl Fn(&Method, &Value) -> Response + Send + Sync + Clone + 'static) -> Self {
        Self::start_for_users(move |_, method, message| answer(method, message)).await
    }

    /// A server that answers each user, by the value of `Authorization`, for itself.
    pub(crate) async fn start_for_users(
        answer: impl Fn(&str, &Method, &Value) -> Response + Send + Sync + Clone + 'static,
    ) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = received.clone();
        let handler = move |request: Request| {
            let (answer, log) = (answer.clone(), log.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
                let message = serde_json::from_slice(&body).unwrap_or_default();
                let user = parts.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
                let response = answer(user, &parts.method, &message);
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

    fn plugin(&self, keys: &str) -> Plugin {
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

#[tokio::test]
async fn a_server_that_refuses_the_credentials_is_said_to() {
    let server = Server::start(|_, _| status(401, "")).await;
    let Err(error) = mcp_host_upstream::connect(&server.plugin("")).await else { panic!("it is refused") };
    assert!(error.to_string().contains("refuses the credentials"), "{error}");
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
