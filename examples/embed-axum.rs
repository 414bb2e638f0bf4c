//! MCP mounted in an axum application that has its own login: each user of the application is a principal of the host.
//!
//! ```sh
//! cargo xtask plugins
//! cargo run --example embed-axum --features http                    # two users send one request each
//! cargo run --example embed-axum --features http -- 127.0.0.1:3000  # serves http://127.0.0.1:3000/context/mcp
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mcp_host_server::{HttpOptions, http_service};
use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::{Config, Plugin, PrincipalSelector, Rule};
use mcp_resource_host::engine::{Compiler, run_compiler};
use serde_json::{Value, json};
use tower::ServiceExt;

/// The longest that requests in flight are waited for when the application ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The component of `examples/hello-rust`.
const COMPONENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/plugins/hello.wasm");

fn main() -> Result<(), Box<dyn Error>> {
    run_compiler();
    tokio::runtime::Runtime::new()?.block_on(run())
}

/// The login of the application. It is the application's alone: a session cookie, a token, a client certificate. The host
/// gets its result, a [`Principal`] in the extensions of the request.
async fn login(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let user = match token {
        Some("Bearer token-of-ada") => "ada",
        Some("Bearer token-of-grace") => "grace",
        _ => return StatusCode::UNAUTHORIZED.into_response(),
    };
    let principal = Principal::new(user);
    request.extensions_mut().insert(principal);
    next.run(request).await
}

/// Over HTTP nothing is allowed without a rule. Rules name the users of the application.
fn rule(user: &str, glob: &str) -> Result<Rule, Box<dyn Error>> {
    let mut rule = Rule::new([PrincipalSelector::Named(user.to_owned())]);
    rule.allow.push(glob.parse()?);
    Ok(rule)
}

fn config() -> Result<Config, Box<dyn Error>> {
    let mut hello = Plugin::new("hello".parse()?, COMPONENT, "hello:///".parse()?);
    hello.config.insert("names".to_owned(), "Ada, Grace".to_owned());
    let mut config = Config::new().plugin(hello)?;
    // The name by which clients reach the application. A `Host` that is neither listed nor loopback is answered with 403.
    config.http.hosts.push("app.example.com".parse()?);
    Ok(config.rule(rule("ada", "hello:///**")?).rule(rule("grace", "hello:///Grace")?))
}

async fn run() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let host = Host::builder(config()?)
        .compiler(Compiler::CurrentExe)
        .state_dir(directory.path().join("state"))
        .cache_dir(directory.path().join("cache"))
        .start()
        .await?;
    let host = Arc::new(host);

    // `require_principal`: on a route that the login does not cover, requests are rejected.
    let mcp = http_service(host.clone(), HttpOptions::new().require_principal());
    let app = Router::new()
        .route("/", get(async || "The application."))
        .route_service("/context/mcp", mcp.clone())
        .layer(from_fn(login));

    if let Some(address) = std::env::args().nth(1).and_then(|argument| argument.parse::<SocketAddr>().ok()) {
        let listener = tokio::net::TcpListener::bind(address).await?;
        println!("serving http://{}/context/mcp", listener.local_addr()?);
        // The service first: axum waits until all connections are closed, and an open event stream keeps its connection.
        let shutdown = async move {
            drop(tokio::signal::ctrl_c().await);
            mcp.shutdown(SHUTDOWN_TIMEOUT).await;
        };
        axum::serve(listener, app).with_graceful_shutdown(shutdown).await?;
    } else {
        assert_eq!(uris(&app, "token-of-ada").await?, ["hello:///Ada", "hello:///Grace"]);
        assert_eq!(uris(&app, "token-of-grace").await?, ["hello:///Grace"]);
        assert_eq!(send(&app, "another").await?.status(), StatusCode::UNAUTHORIZED);
    }

    // The host last: it closes what its plugins have open, such as key-value databases.
    host.shutdown(SHUTDOWN_TIMEOUT).await;
    Ok(())
}

/// The URIs that the user of that token can list.
async fn uris(app: &Router, token: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let body = to_bytes(send(app, token).await?.into_body(), 1 << 20).await?;
    let answer: Value = serde_json::from_slice(&body)?;
    let resources = answer.pointer("/result/resources").and_then(Value::as_array).ok_or("expected a list")?;
    let uris = resources.iter().filter_map(|resource| resource["uri"].as_str().map(str::to_owned)).collect();
    println!("{token} lists {uris:?}");
    Ok(uris)
}

/// A request as an MCP client of revision 2026-07-28 sends it.
async fn send(app: &Router, token: &str) -> Result<Response, Box<dyn Error>> {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } } });
    let request = Request::post("/context/mcp")
        .header(header::HOST, "localhost")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(header::CONTENT_TYPE, "application/json")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "resources/list")
        .body(Body::from(message.to_string()))?;
    Ok(app.clone().oneshot(request).await?)
}
