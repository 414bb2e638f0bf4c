//! Tokens of principals and groups: two worlds that do not meet.

use std::path::Path;
use std::sync::Arc;

use axum::http::Method;
use axum::response::Response;
use mcp_host_config::{Config, Environment};
use mcp_host_model::caller::Caller;
use mcp_host_model::provider::{Body, Failure, Page, Provider};
use serde_json::{Value, json};

use super::http::{Server, json, status, with_session};

/// Lists what the user has, in two pages, and reads everything as that user.
fn answer(user: &str, method: &Method, message: &Value) -> Response {
    let Some(user) = user.strip_prefix("Bearer ").filter(|user| *user != "refused") else { return status(401, "") };
    let resource = |name: &str| json!({ "uri": format!("x:{name}"), "name": format!("{name} of {user}") });
    match (message["method"].as_str().unwrap_or_default(), message["params"]["cursor"].as_str()) {
        ("resources/list", None) => json(message, json!({ "resources": [resource("both")], "nextCursor": "two" })),
        ("resources/list", Some(_)) => json(message, json!({ "resources": [resource(user)] })),
        ("resources/templates/list", _) => {
            json(message, json!({ "resourceTemplates": [{ "uriTemplate": format!("x:{user}/{{id}}"), "name": user }] }))
        }
        _ => with_session(method, message, |uri| match uri {
            "x:both" => json(message, json!({ "contents": [{ "uri": uri, "text": format!("for {user}") }] })),
            uri if uri == format!("x:{user}") => json(message, json!({ "contents": [{ "uri": uri, "text": "own" }] })),
            _ => {
                let error =
                    json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32002, "message": "none" } });
                Response::builder().header("content-type", "application/json").body(error.to_string().into()).unwrap()
            }
        }),
    }
}

async fn start(server: &Server) -> Arc<dyn Provider> {
    let text = format!(
        "[[principal]]\nname = 'ada'\ntoken-sha256 = '{:064}'\n[[principal]]\nname = 'eve'\ntoken-sha256 = '{:064}'\n[[upstream]]\nname = \
         'up'\nurl = '{}'\nmount = 'up+'\nauth.tokens = [{{ principal = 'ada', token = {{ env = 'ADA' }} }}, {{ group = 'corp/ops', token = \
         {{ env = 'OPS' }} }}, {{ principal = 'eve', token = {{ env = 'REFUSED' }} }}]",
        1,
        2,
        server.url()
    );
    let environment = Environment::empty().variable("ADA", "a").variable("OPS", "o").variable("REFUSED", "refused");
    let config = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &environment);
    let plugin = config.unwrap_or_else(|error| panic!("{error}")).plugins[0].clone();
    mcp_host_upstream::connect(&plugin).await.unwrap_or_else(|error| panic!("{error}"))
}

fn ada() -> Caller {
    Caller::new(Some("ada"), [])
}

fn bob() -> Caller {
    Caller::new(Some("corp/bob"), ["corp/ops"])
}

async fn as_caller<T>(caller: &Caller, task: impl Future<Output = T>) -> T {
    Caller::scope(Some(caller.clone()), task).await
}

fn paths(page: &Page) -> Vec<String> {
    page.entries.iter().map(|entry| format!("{} {}", entry.path, entry.name)).collect()
}

async fn text(up: &Arc<dyn Provider>, path: &str) -> Result<String, Failure> {
    match up.read(path).await?.remove(0).body {
        Body::Text(text) => Ok(text),
        body => panic!("{body:?} is no text"),
    }
}

#[tokio::test]
async fn each_identity_sees_its_own_content() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    for (caller, user) in [(ada(), "a"), (bob(), "o"), (ada(), "a")] {
        let first = as_caller(&caller, up.list(None, None, 100)).await.unwrap();
        assert_eq!(paths(&first), [format!("x:both both of {user}")]);
        let second = as_caller(&caller, up.list(None, first.next_cursor.as_deref(), 100)).await.unwrap();
        assert_eq!(paths(&second), [format!("x:{user} {user} of {user}")]);
        assert_eq!(as_caller(&caller, text(&up, "x:both")).await.unwrap(), format!("for {user}"));
        // What was listed is known to the identity that listed it.
        let stat = as_caller(&caller, up.stat("x:both")).await.unwrap();
        assert_eq!((stat.name, stat.ttl, stat.subscribable), (format!("both of {user}"), None, false));
        let templates = as_caller(&caller, up.templates()).await.unwrap();
        assert_eq!(templates[0].name, user);
    }
    assert!(as_caller(&ada(), text(&up, "x:o")).await.is_err());
    assert!(as_caller(&bob(), text(&up, "x:a")).await.is_err());
    assert!(!up.describe().watches);
}

#[tokio::test]
async fn a_cursor_of_another_identity_is_none() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    let cursor = as_caller(&ada(), up.list(None, None, 100)).await.unwrap().next_cursor;
    let foreign = as_caller(&bob(), up.list(None, cursor.as_deref(), 100)).await;
    assert!(matches!(foreign, Err(Failure::InvalidRequest(_))), "{foreign:?}");
}

#[tokio::test]
async fn who_has_no_token_and_the_host_itself_see_nothing_and_nothing_is_sent_for_them() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    let before = server.users().len();
    let nobody = Caller::new(Some("mallory"), ["ada"]);
    for caller in [Some(nobody), Some(Caller::new(None, [])), None] {
        let looking = async {
            assert_eq!(up.list(None, None, 100).await, Ok(Page::last([])));
            assert_eq!(up.templates().await, Ok(Vec::new()));
            assert_eq!(text(&up, "x:both").await, Err(Failure::NotFound));
            assert_eq!(up.stat("x:a").await, Err(Failure::NotFound));
        };
        Caller::scope(caller, looking).await;
    }
    assert_eq!(server.users().len(), before);
}

#[tokio::test]
async fn an_identity_whose_token_is_refused_fails_alone() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    let eve = Caller::new(Some("eve"), []);
    assert!(matches!(as_caller(&eve, text(&up, "x:both")).await, Err(Failure::Unavailable { .. })));
    assert_eq!(as_caller(&ada(), text(&up, "x:both")).await.unwrap(), "for a");
}
