//! The lower bound: a bare axum handler that has the bytes of every response ready, and parses no more of a request
//! than its method and URI.
//!
//! It knows nothing else of MCP: no validation, no sessions, no cursors. The time that a server takes beyond this is
//! its own, not the transport's. It runs in a child process: this program, started again with an argument.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Router, body::Bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::native::{self, SIZES};

/// The argument that makes this program serve bare responses over HTTP, on a port that it logs to standard error as the
/// host does.
pub(crate) const HTTP: &str = "--bare-http";

/// The text of each result, by URI for reads, by method for the rest.
type Results = Arc<HashMap<String, String>>;

/// Serves until it is killed.
pub(crate) async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    eprintln!("listening on http://{}/mcp", listener.local_addr().expect("an address"));
    let listener = listener.tap_io(|tcp| tcp.set_nodelay(true).expect("TCP_NODELAY can be set"));
    let router = Router::new().route("/mcp", post(respond)).with_state(Results::new(results()));
    axum::serve(listener, router).await.expect("it serves until it is killed");
}

async fn respond(State(results): State<Results>, body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).expect("the load speaks JSON");
    let Some(id) = asked["id"].as_u64() else { return StatusCode::ACCEPTED.into_response() };
    let about = asked["params"]["uri"].as_str().or(asked["method"].as_str()).expect("it asks for something");
    let result = &results[about];
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    ([(CONTENT_TYPE, "application/json"), ("mcp-session-id".try_into().expect("a name"), "bare")], text).into_response()
}

fn results() -> HashMap<String, String> {
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "bare" } });
    let mut results = HashMap::from([("initialize".to_owned(), hello.to_string())]);
    for size in SIZES {
        let text = json!({ "mimeType": "text/plain", "text": native::text(size) });
        let blob = json!({ "blob": STANDARD.encode(native::blob(size)) });
        for (kind, mut contents) in [("text", text), ("blob", blob)] {
            let uri = format!("sizes:///{kind}/{size}");
            contents["uri"] = uri.as_str().into();
            results.insert(uri, with_hints(json!({ "contents": [contents] })));
        }
    }
    let page: Vec<Value> = native::resources(native::PAGE_SIZE).map(|resource| json!(resource)).collect();
    results.insert("resources/list".to_owned(), with_hints(json!({ "resources": page, "nextCursor": "100" })));
    let templates = json!({ "resourceTemplates": [native::template()] });
    results.insert("resources/templates/list".to_owned(), with_hints(templates));
    let completion = json!({ "values": native::completions(native::COMPLETION_PREFIX), "hasMore": false });
    results.insert("completion/complete".to_owned(), json!({ "completion": completion }).to_string());
    results
}

fn with_hints(mut result: Value) -> String {
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "private".into();
    result.to_string()
}
