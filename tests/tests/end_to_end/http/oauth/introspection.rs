//! Opaque tokens: the issuer is asked about them (RFC 7662).

use std::time::{Duration, Instant};

use mcp_host_tests::{MockOrigin, Reply, Revision, TIMEOUT, TokenIssuer, unix_time};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ResourceServer;

const TOKEN: &str = "opaque-token-of-alice";
const SECRET: &str = "secret:of the+server";
/// An answer counts for no longer than this, and a while for a slow machine.
const CACHED: Duration = Duration::from_secs(30);

/// A server that asks its issuer, and the file with its secret.
struct Introspected {
    resource: ResourceServer,
    _secret: NamedTempFile,
}

impl Introspected {
    /// Starts a server whose issuer says that every token is one of `alice`, for an hour.
    async fn start() -> Self {
        let secret = NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), SECRET).unwrap();
        let entry = |issuer: &TokenIssuer| {
            let (url, file) = (issuer.origin().url("/introspect"), secret.path().display());
            format!(
                "introspection = {{ url = \"{url}\", client-id = \"mcp host\", client-secret = {{ file = \"{file}\" }} }}"
            )
        };
        let resource = ResourceServer::start_with(entry).await;
        let introspected = Self { resource, _secret: secret };
        introspected.answer(&introspected.active());
        introspected
    }

    /// What the issuer says of an active token.
    fn active(&self) -> Value {
        let mut answer = self.resource.claims("alice");
        answer["active"] = json!(true);
        answer["token_type"] = json!("Bearer");
        answer
    }

    /// Has the issuer say that of every token.
    fn answer(&self, answer: &Value) {
        self.reply(Reply::ok("application/json", answer.to_string()));
    }

    fn reply(&self, reply: Reply) {
        self.resource.issuer.origin().serve("/introspect", reply);
    }

    fn questions(&self) -> usize {
        self.resource.issuer.origin().request_count("/introspect")
    }
}

#[tokio::test]
async fn the_issuer_is_asked_about_a_token_with_the_credentials_of_the_server() {
    let introspected = Introspected::start().await;
    assert_eq!(introspected.resource.uris(TOKEN).await, ["faulty://m/f"]);
    let requests = introspected.resource.issuer.origin().requests();
    let [asked] = &*requests else { panic!("{requests:?}") };
    assert_eq!((&*asked.method, &*asked.path), ("POST", "/introspect"), "the token is in no URL");
    assert_eq!(asked.header("content-type"), Some("application/x-www-form-urlencoded"));
    let body = String::from_utf8(asked.body.clone()).unwrap().replace("%2D", "-");
    assert!(body.split('&').any(|pair| pair == format!("token={TOKEN}")), "{body}");
    // RFC 6749, 2.3.1: each part is encoded as a form is, then Basic.
    let basic = asked.header("authorization").unwrap().strip_prefix("Basic ").unwrap();
    let basic = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, basic).unwrap();
    let basic = String::from_utf8(basic).unwrap().replace('+', "%20");
    assert_eq!(basic, "mcp%20host:secret%3Aof%20the%2Bserver");
    introspected.resource.end_without(&[TOKEN, SECRET]).await;
}

#[tokio::test]
async fn an_answer_counts_for_a_while_and_one_question_is_asked_at_a_time() {
    let introspected = Introspected::start().await;
    let mut asking = JoinSet::new();
    for _ in 0..50 {
        let request = introspected.resource.list_request().bearer_auth(TOKEN);
        asking.spawn(async move { request.send().await.unwrap().status() });
    }
    for status in asking.join_all().await {
        assert_eq!(status, StatusCode::OK);
    }
    assert_eq!(introspected.questions(), 1);
    introspected.resource.server.end().await;
}

#[tokio::test]
async fn only_an_active_token_of_the_issuer_for_this_server_is_accepted() {
    let introspected = Introspected::start().await;
    let (active, now) = (introspected.active(), unix_time());
    let with = |claim: &str, value: Value| {
        let mut answer = active.clone();
        answer[claim] = value;
        answer
    };
    for (number, answer) in [
        json!({ "active": false }),
        with("active", json!(false)),
        with("active", json!("true")),
        with("active", json!(1)),
        with("active", json!(null)),
        json!({}),
        with("aud", json!("https://other.example.com")),
        with("aud", json!([])),
        with("iss", json!("https://evil.example.com")),
        with("exp", json!(now - 600)),
        with("nbf", json!(now + 600)),
        with("sub", json!(null)),
        with("sub", json!("")),
    ]
    .iter()
    .enumerate()
    {
        introspected.answer(answer);
        introspected.resource.assert_invalid(&format!("token-{number}"), &answer.to_string()).await;
    }
    introspected.answer(&active);
    introspected.resource.assert_valid("another-token").await;
    introspected.resource.server.end().await;
}

#[tokio::test]
async fn without_an_answer_of_the_issuer_a_token_is_neither_accepted_nor_called_invalid() {
    let introspected = Introspected::start().await;
    let active = introspected.active().to_string();
    let attacker = MockOrigin::http().await;
    attacker.serve("/introspect", Reply::ok("application/json", active.clone()));
    for (number, reply) in [
        Reply::status(500),
        Reply::status(401),
        Reply::ok("text/html", "<title>Sign in</title>"),
        Reply::ok("application/json", "[]"),
        Reply::ok("application/json", active.clone()).truncate_after(10),
        Reply::ok("application/json", active.clone()).with_status(500),
        Reply::redirect(307, &attacker.url("/introspect")),
        Reply::endless(),
        Reply::silent(),
    ]
    .into_iter()
    .enumerate()
    {
        introspected.reply(reply);
        let begun = Instant::now();
        let refused = introspected.resource.list(&format!("token-{number}")).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "reply {number}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(attacker.requests(), [], "redirects are not followed");
    introspected.resource.issuer.origin().take_down().await;
    let down = introspected.resource.list("token-of-later").await;
    assert_eq!(down.status(), StatusCode::SERVICE_UNAVAILABLE);
    introspected.resource.issuer.origin().bring_up().await;
    introspected.answer(&introspected.active());
    introspected.resource.assert_valid("token-of-now").await;
    introspected.resource.server.end().await;
}

#[tokio::test]
async fn a_token_that_becomes_inactive_is_refused_and_its_streams_end() {
    let introspected = Introspected::start().await;
    let resource = &introspected.resource;
    let session = resource.session(TOKEN).await;
    let events = session.event_stream().await;
    let filter = json!({ "notifications": { "resourcesListChanged": true } });
    let mut wire = resource.server.uninitialized(Revision::V_2026_07_28);
    let listening = wire.request_builder("subscriptions/listen", filter).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(listening.status(), StatusCode::OK);

    let begun = Instant::now();
    introspected.answer(&json!({ "active": false }));
    for stream in [events, listening] {
        timeout(TIMEOUT, stream.bytes()).await.expect("it ends").expect("it ends in order");
    }
    assert!(begun.elapsed() < CACHED, "{:?}", begun.elapsed());
    resource.assert_invalid(TOKEN, "inactive").await;
    introspected.resource.server.end().await;
}
