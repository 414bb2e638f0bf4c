//! Access tokens from a token endpoint, and tokens of clients that are exchanged there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::Method;
use axum::response::Response;
use mcp_host_config::grants::{AuthorizationGrant, OAuth};
use mcp_host_config::{Config, Environment};
use mcp_host_model::caller::{AccessToken, Caller};
use mcp_host_model::provider::{Body, Failure, Page, Provider, async_trait};
use mcp_host_upstream::process::Unconfined;
use mcp_host_upstream::{AccessTokens, HeaderValue, TokenClient};
use serde_json::{Value, json};

use super::http::{Server, json, status, with_session};

/// Issues `NAME-1`, `NAME-2` and so on, the next one when one was rejected.
#[derive(Debug)]
struct Issuer {
    name: String,
    number: AtomicUsize,
}

#[async_trait]
impl AccessTokens for Issuer {
    async fn authorization(&self) -> Result<HeaderValue, String> {
        let number = self.number.load(Ordering::SeqCst);
        HeaderValue::from_str(&format!("Bearer {}-{number}", self.name)).map_err(|error| error.to_string())
    }

    async fn reject(&self, rejected: &HeaderValue) -> bool {
        let is_current = self.authorization().await.is_ok_and(|current| current == rejected);
        if is_current {
            self.number.fetch_add(1, Ordering::SeqCst);
        }
        true
    }
}

/// A client of a token endpoint that exchanges `of-ada` for `ada-1`, and has `host-1` for itself.
fn token_client() -> Arc<TokenClient> {
    Arc::new(|oauth: &OAuth| {
        let name = match &oauth.grant {
            AuthorizationGrant::TokenExchange { subject, client, resource } => {
                assert_eq!(client.id, "host");
                assert!(resource.as_str().ends_with("/mcp"));
                subject.expose().trim_start_matches("of-").to_owned()
            }
            AuthorizationGrant::ClientCredentials(client) => client.id.clone(),
            grant => panic!("{grant:?} is not asked for"),
        };
        Arc::new(Issuer { name, number: AtomicUsize::new(1) })
    })
}

/// Reads everything as the user, whose first token is not accepted if its name is `host`.
fn answer(user: &str, method: &Method, message: &Value) -> Response {
    let user = user.strip_prefix("Bearer ").unwrap_or_default();
    if user.is_empty() || user == "host-1" {
        return status(401, "");
    }
    let listed = json!({ "resources": [{ "uri": format!("x:{user}"), "name": user }], "nextCursor": "next" });
    match message["method"].as_str() {
        Some("resources/list") => json(message, listed),
        _ => with_session(method, message, |uri| json(message, json!({ "contents": [{ "uri": uri, "text": user }] }))),
    }
}

async fn start(server: &Server, forward: &str) -> Arc<dyn Provider> {
    let text = format!(
        "[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\n{forward}\n[upstream.auth.oauth]\nclient-id = 'host'\nclient-secret = {{ env \
         = 'SECRET' }}\ntoken-uri = 'https://login.example.com/token'",
        server.url()
    );
    let environment = Environment::empty().variable("SECRET", "s");
    let config = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &environment);
    let plugin = config.unwrap_or_else(|error| panic!("{error}")).plugins[0].clone();
    let connected =
        mcp_host_upstream::connect_with(&plugin, Arc::new(Unconfined), Arc::new(()), Some(&token_client())).await;
    connected.unwrap_or_else(|error| panic!("{error}"))
}

async fn text(up: &Arc<dyn Provider>) -> Result<String, Failure> {
    match up.read("x:1").await?.remove(0).body {
        Body::Text(text) => Ok(text),
        body => panic!("{body:?} is no text"),
    }
}

async fn with_token<T>(token: &str, task: impl Future<Output = T>) -> T {
    with_token_of("corp/x", token, task).await
}

async fn with_token_of<T>(principal: &str, token: &str, task: impl Future<Output = T>) -> T {
    let calling = async { Caller::scope(Some(Caller::new(Some(principal), [])), task).await };
    AccessToken::scope(Some(AccessToken::new(token)), calling).await
}

#[tokio::test]
async fn a_token_that_is_not_accepted_any_more_is_replaced_and_the_request_repeated() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server, "").await;
    assert_eq!(text(&up).await.unwrap(), "host-2");
    assert_eq!(server.users()[0], "Bearer host-1");
    assert!(server.users()[1..].iter().all(|user| user == "Bearer host-2"), "{:?}", server.users());
}

#[tokio::test]
async fn each_access_token_of_a_client_is_exchanged_and_never_sent() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server, "auth.forward = 'exchange'").await;
    for (token, user) in [("of-ada", "ada-1"), ("of-bob", "bob-1"), ("of-ada", "ada-1")] {
        assert_eq!(with_token(token, text(&up)).await.unwrap(), user);
        let page = with_token(token, up.list(None, None, 10)).await.unwrap();
        assert_eq!(page.entries[0].name, user);
    }
    let cursor = with_token("of-ada", up.list(None, None, 10)).await.unwrap().next_cursor;
    let foreign = with_token("of-bob", up.list(None, cursor.as_deref(), 10)).await;
    assert!(matches!(foreign, Err(Failure::InvalidRequest(_))), "{foreign:?}");
    assert!(server.users().iter().all(|user| !user.contains("of-")), "{:?}", server.users());
    let before = server.users().len();
    let without_token = async {
        assert_eq!(text(&up).await, Err(Failure::NotFound));
        assert_eq!(up.list(None, None, 10).await, Ok(Page::last([])));
    };
    Caller::scope(Some(Caller::new(Some("ci"), [])), without_token).await;
    assert_eq!(text(&up).await, Err(Failure::NotFound));
    assert_eq!(server.users().len(), before);
}

#[tokio::test]
async fn a_principal_with_many_tokens_evicts_its_own_clients_alone() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server, "auth.forward = 'exchange'").await;
    assert_eq!(with_token_of("corp/ada", "of-ada", text(&up)).await.unwrap(), "ada-1");
    for number in 0..300 {
        let token = format!("of-mallory{number}");
        assert!(with_token_of("corp/mallory", &token, text(&up)).await.is_ok());
    }
    assert_eq!(with_token_of("corp/ada", "of-ada", text(&up)).await.unwrap(), "ada-1");
    let connected = server.users_of("initialize").iter().filter(|user| *user == "Bearer ada-1").count();
    assert_eq!(connected, 1, "ada's client was kept");
}
