//! Opaque tokens: the host introspects them at the issuer (RFC 7662).

use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, HttpServer, MockOrigin, RawHttp, Reply, Revision, TIMEOUT, TokenIssuer, unix_time};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ResourceServer;

pub(super) const TOKEN: &str = "opaque-token-of-alice";
const SECRET: &str = "secret:of the+server";
/// The maximum time for which an answer is cached, with tolerance for a slow machine.
pub(super) const CACHED: Duration = Duration::from_secs(30);

/// A server that introspects tokens, and the file with its secret.
pub(super) struct Introspected {
    pub(super) resource: ResourceServer,
    _secret: NamedTempFile,
}

impl Introspected {
    /// Starts a server whose issuer reports every token as one of `alice`, valid for an hour.
    async fn start() -> Self {
        Self::start_with("", |config| config).await
    }

    /// The same, with additions to the issuer's entry and to the config.
    pub(super) async fn start_with(more_of_issuer: &str, more: impl FnOnce(ConfigFile) -> ConfigFile) -> Self {
        let secret = NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), SECRET).unwrap();
        let entry = |issuer: &TokenIssuer| {
            let (url, file) = (issuer.origin().url("/introspect"), secret.path().display());
            format!(
                "introspection = {{ url = \"{url}\", client-id = \"mcp host\", client-secret = {{ file = \"{file}\" }} }}\n{more_of_issuer}"
            )
        };
        let resource = ResourceServer::start_with_config(entry, more).await;
        let introspected = Self { resource, _secret: secret };
        introspected.answer(&introspected.active());
        introspected
    }

    /// Returns the issuer's answer for an active token.
    pub(super) fn active(&self) -> Value {
        let mut answer = self.resource.claims("alice");
        answer["active"] = json!(true);
        answer["token_type"] = json!("Bearer");
        answer
    }

    /// Makes the issuer give this answer for every token.
    pub(super) fn answer(&self, answer: &Value) {
        self.reply(Reply::ok("application/json", answer.to_string()));
    }

    fn reply(&self, reply: Reply) {
        self.resource.issuer.origin().serve("/introspect", reply);
    }

    fn questions(&self) -> usize {
        self.resource.issuer.origin().request_count("/introspect")
    }
}

/// Returns how many times a cached answer may have expired since `began`. It is cached for 15 s.
fn periods(began: Instant) -> usize {
    usize::try_from(began.elapsed().as_secs() / 15).unwrap()
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
    // RFC 6749, 2.3.1: each part is form-encoded, then Basic.
    let basic = asked.header("authorization").unwrap().strip_prefix("Basic ").unwrap();
    let basic = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, basic).unwrap();
    let basic = String::from_utf8(basic).unwrap().replace('+', "%20");
    assert_eq!(basic, "mcp%20host:secret%3Aof%20the%2Bserver");
    introspected.resource.end_without(&[TOKEN, SECRET]).await;
}

#[tokio::test]
async fn an_answer_counts_for_a_while_and_one_question_is_asked_at_a_time() {
    let introspected = Introspected::start().await;
    let (mut asking, began) = (JoinSet::new(), Instant::now());
    for _ in 0..50 {
        let request = introspected.resource.list_request().bearer_auth(TOKEN);
        asking.spawn(async move { request.send().await.unwrap().status() });
    }
    for status in asking.join_all().await {
        assert_eq!(status, StatusCode::OK);
    }
    assert!((1..=1 + periods(began)).contains(&introspected.questions()), "{}", introspected.questions());
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
    let listening = resource.listen(TOKEN, listing()).await;

    let begun = Instant::now();
    introspected.answer(&json!({ "active": false }));
    for stream in [events, listening] {
        timeout(TIMEOUT, stream.bytes()).await.expect("it ends").expect("it ends in order");
    }
    assert!(begun.elapsed() < CACHED, "{:?}", begun.elapsed());
    resource.assert_invalid(TOKEN, "inactive").await;
    introspected.resource.server.end().await;
}

/// The notifications that a stream of `subscriptions/listen` has here.
fn listing() -> Value {
    json!({ "resourcesListChanged": true })
}

#[tokio::test]
async fn a_verdict_against_a_token_counts_for_a_while_too() {
    let introspected = Introspected::start().await;
    let mut of_other = introspected.active();
    of_other["aud"] = json!("https://other.example.com");
    introspected.answer(&of_other);
    let began = Instant::now();
    for _ in 0..20 {
        introspected.resource.assert_invalid("token-for-another-server", "audience").await;
    }
    assert!((1..=1 + periods(began)).contains(&introspected.questions()), "{}", introspected.questions());
    introspected.resource.server.end().await;
}

const SCOPES: &str = "operation-scopes = { subscribe = [\"mcp:subscribe\"] }";

#[tokio::test]
async fn streams_end_when_only_the_scope_of_subscriptions_is_lost() {
    let introspected = Introspected::start_with(SCOPES, |config| config).await;
    let resource = &introspected.resource;
    let mut session = resource.session(TOKEN).await;
    let subscribed = session.request("resources/subscribe", json!({ "uri": "faulty://m/f" })).await;
    assert!(subscribed.message.get("result").is_some(), "{subscribed:?}");
    let (events, listening) = (session.event_stream().await, resource.listen(TOKEN, listing()).await);
    let begun = Instant::now();
    let mut narrower = introspected.active();
    narrower["scope"] = json!("mcp:read");
    introspected.answer(&narrower);
    for stream in [events, listening] {
        timeout(TIMEOUT, stream.bytes()).await.expect("it ends").expect("it ends in order");
    }
    assert!(begun.elapsed() < CACHED, "{:?}", begun.elapsed());
    resource.assert_valid(TOKEN).await;
    // Without the scope, a session still has its stream, but no subscription messages are sent on it.
    drop(session.event_stream().await);
    introspected.resource.server.end().await;
}

#[tokio::test]
async fn a_client_whose_tokens_fail_causes_a_bounded_number_of_questions_and_known_tokens_go_on() {
    let limited = |config: ConfigFile| config.http_limit("failed-authentications", "20/h");
    let introspected = Introspected::start_with("", limited).await;
    let resource = &introspected.resource;
    resource.assert_valid(TOKEN).await;
    introspected.answer(&json!({ "active": false }));
    let mut flood = JoinSet::new();
    for number in 0..200 {
        let request = resource.list_request().bearer_auth(format!("random-token-{number}"));
        flood.spawn(async move { request.send().await.unwrap().status() });
    }
    let statuses = flood.join_all().await;
    let refused = [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS];
    assert!(statuses.iter().all(|status| refused.contains(status)), "{statuses:?}");
    // A few more tokens may be introspected before the last failure is counted.
    assert!(introspected.questions() <= 1 + 20 + 8, "{}", introspected.questions());

    introspected.answer(&introspected.active());
    let before = introspected.questions();
    let unknown = resource.list("token-that-was-not-seen-before").await;
    assert_eq!(unknown.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(unknown.headers().contains_key("retry-after"));
    assert_eq!(introspected.questions(), before);
    // The known token is introspected again after its cached answer expired, and remains valid.
    let lapsed = async {
        while introspected.questions() == before {
            resource.assert_valid(TOKEN).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, lapsed).await.expect("it is asked about again");
    resource.assert_valid(TOKEN).await;
    let elsewhere = resource.server.uninitialized(Revision::V_2026_07_28).from_address([127, 0, 0, 2].into());
    let elsewhere = elsewhere_list(elsewhere, "token-of-another-client").await;
    assert_eq!(elsewhere.status(), StatusCode::OK);
    resource.server.log_line("http.limits.failed-authentications").await;
    introspected.resource.server.end().await;
}

async fn elsewhere_list(mut wire: RawHttp, token: &str) -> Response {
    wire.request_builder("resources/list", json!({})).bearer_auth(token).send().await.unwrap()
}

#[tokio::test]
async fn a_reload_of_a_rule_for_somebody_else_asks_about_no_token_and_ends_no_stream() {
    const TOKENS: usize = 20;
    let introspected = Introspected::start().await;
    let (mut streams, began) = (Vec::new(), Instant::now());
    for number in 0..TOKENS {
        streams.push(introspected.resource.listen(&format!("token-{number}"), listing()).await);
    }
    let before = introspected.questions();
    let config = &introspected.resource.config;
    let rule = "\n[[rule]]\nprincipals = [\"corp/bob\"]\nallow = [\"faulty://m/g\"]\n";
    config.replace_text(&(std::fs::read_to_string(config.path()).unwrap() + rule));
    introspected.resource.server.log_line("rules=true").await;
    for number in 0..TOKENS {
        introspected.resource.assert_valid(&format!("token-{number}")).await;
    }
    // On a slow machine, the cached answers for a few of them have expired, and on a very slow one, all.
    let most = before + TOKENS / 2 + TOKENS * periods(began);
    assert!(introspected.questions() < most, "{} {before}", introspected.questions());
    introspected.resource.issuer.origin().wait_until_idle().await;
    for stream in &mut streams {
        let ended = async { while stream.chunk().await.unwrap().is_some() {} };
        assert!(timeout(Duration::from_millis(20), ended).await.is_err(), "it is open");
    }
    drop(streams);
    introspected.resource.server.end().await;
}

#[tokio::test]
async fn what_a_token_says_is_logged_when_it_is_first_accepted_and_never_the_token() {
    let introspected = Introspected::start().await;
    let debugging =
        HttpServer::start_with(&introspected.resource.config, &["--log", "info,mcp_host::server=debug"]).await;
    let mut answer = introspected.active();
    answer["groups"] = json!(["/engineers", "chess\u{202e}\n2026-01-01 FORGED", "engineers"]);
    introspected.answer(&answer);
    for _ in 0..3 {
        let mut wire = debugging.uninitialized(Revision::V_2026_07_28);
        let listed = wire.request_builder("resources/list", json!({})).bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(listed.status(), StatusCode::OK);
    }
    let line = debugging.log_line("an access token is accepted").await;
    for part in
        ["corp/alice", "corp//engineers, ", "used_groups=\"corp/engineers\"", "mcp:read, mcp:subscribe", "expires_in=3"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    let log = debugging.end().await.log;
    assert_eq!(log.matches("an access token is accepted").count(), 1, "{log}");
    assert!(!log.contains(TOKEN) && !log.contains("\n2026-01-01 FORGED") && !log.contains('\u{202e}'), "{log}");
    introspected.resource.server.end().await;
}
