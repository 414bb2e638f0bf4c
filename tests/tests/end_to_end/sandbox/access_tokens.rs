//! Access tokens of HTTP grants: the host gets them from a token server, and the guest sees neither tokens nor
//! credentials.

use std::time::{Duration, Instant};

use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Folder, MockOrigin, Output, Plugin, Reply, StdioServer, TokenServer,
    WrittenConfig, fixture, run, wait_until,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use toml::Table;

/// A config with the guest that sends requests to web servers, at `fetch://web/`, and a grant of an origin with access
/// tokens.
fn config(api: &MockOrigin, oauth: Table) -> WrittenConfig {
    config_with_limits(api, oauth, [])
}

fn config_with_limits<const N: usize>(
    api: &MockOrigin,
    oauth: Table,
    limits: [(&str, toml::Value); N],
) -> WrittenConfig {
    ConfigFile::new().plugin(plugin(api, oauth, limits)).write()
}

fn plugin<const N: usize>(api: &MockOrigin, oauth: Table, limits: [(&str, toml::Value); N]) -> Plugin {
    let limits: Table = limits.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let grant: Table =
        [("origin".to_owned(), api.origin().into()), ("oauth".to_owned(), oauth.into())].into_iter().collect();
    let plugin = Plugin::new("web", &fixture("fetch"), "fetch://web/").limit("deadline", "60s").limit("http", limits);
    plugin.http(grant.into())
}

async fn check(config: &WrittenConfig) -> Output {
    run(["check".as_ref(), "--config".as_ref(), config.path().as_os_str()]).await
}

async fn fetch(server: &StdioServer, what: &str, url: &str, more: &str) -> Value {
    let url: String = url.bytes().map(|byte| format!("%{byte:02X}")).collect();
    serde_json::from_str(&server.client().text(&format!("fetch://web/{what}?url={url}{more}")).await).unwrap()
}

async fn get(server: &StdioServer, url: &str) -> Value {
    fetch(server, "get", url, "").await
}

/// The error that the guest receives if there is no token. SDKs convert it to `unavailable`.
fn no_token() -> Value {
    json!({ "error": "ErrorCode::InternalError(Some(\"the host has no access token for the origin\"))" })
}

/// Returns the values of `Authorization` that an origin received.
fn authorizations(api: &MockOrigin) -> Vec<Option<String>> {
    api.requests().iter().map(|request| request.header("authorization").map(str::to_owned)).collect()
}

fn assert_no_secret(text: &str) {
    for secret in TokenServer::SECRETS {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn each_kind_of_credentials_gets_tokens_and_the_guest_sees_none_of_it() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect(&api, "/", "welcome");
    for (number, oauth) in
        [tokens.service_account(), tokens.refresh_token(), tokens.client_credentials()].into_iter().enumerate()
    {
        let config = config(&api, oauth);
        let server = StdioServer::start(&config).await;
        let own = "&header=Authorization:mine&header=X-Trace:1";
        let answers = [fetch(&server, "get", &api.url("/"), own).await, get(&server, &api.url("/")).await];
        let ended = server.end().await;
        assert_eq!(answers[0]["body"], "welcome");
        assert_eq!(tokens.issued(), number + 1, "the second request takes the cached token");
        assert_no_secret(&format!("{answers:?} {}", ended.log));
    }
    let sent: Vec<_> = [0, 0, 1, 1, 2, 2].map(|number| Some(format!("Bearer ya29.token-{number}"))).into();
    assert_eq!(authorizations(&api), sent);
    assert_eq!(api.requests()[0].header("x-trace"), Some("1"));
    assert_eq!(tokens.claims()["sub"], "user@example.com");
}

#[tokio::test]
async fn check_requests_a_token_of_each_source_and_says_why_there_is_none() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    for (number, oauth) in
        [tokens.service_account(), tokens.refresh_token(), tokens.client_credentials()].into_iter().enumerate()
    {
        let checked = check(&config(&api, oauth)).await.success();
        assert_eq!(tokens.issued(), number + 1, "{}", checked.text());
        assert_no_secret(&format!("{} {}", checked.text(), checked.stderr));
    }
    for (code, advice) in [
        ("invalid_client", "check `client-id`, `client-secret` and `client-authentication`"),
        ("secret-hunter2", "without an error code that is known"),
    ] {
        tokens.refuse(code);
        let checked = check(&config(&api, tokens.client_credentials())).await;
        assert_eq!(checked.code(), 1, "{}", checked.text());
        let text = checked.text().split_whitespace().collect::<Vec<_>>().join(" ");
        let (origin, server) = (api.origin(), tokens.origin().origin());
        let reason = format!("web: there is no access token for {origin} (`oauth` in `grants.http`) from {server}: ");
        assert!(text.contains(&reason) && text.contains(advice), "{text}");
        assert_no_secret(&format!("{text} {}", checked.stderr));
    }
    tokens.origin().serve_with("/token", |_| Reply::status(503).header("Retry-After", "30"));
    let busy = check(&config(&api, tokens.client_credentials())).await;
    let text = busy.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(busy.code(), 1, "{text}");
    assert!(text.contains("503 Service Unavailable: it is busy or failing; try again in 30s"), "{text}");
    assert!(!text.contains("token-uri"), "{text}");
    assert_eq!(api.requests(), [], "the listing of this provider sends no request");
}

#[tokio::test]
async fn requests_at_once_cause_one_request_for_a_token() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect(&api, "/", "welcome");
    let server =
        StdioServer::start(&config_with_limits(&api, tokens.service_account(), [("concurrency", 32.into())])).await;
    let answers = fetch(&server, "many", &api.url("/"), "&count=20").await;
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["body"] == "welcome"), "{answers}");
    server.end().await;
    assert_eq!((tokens.origin().request_count("/token"), api.request_count("/")), (1, 20));
}

#[tokio::test]
async fn a_token_is_used_as_long_as_its_lifetime_says() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect(&api, "/", "welcome");
    tokens.set_lifetime(0);
    // The refresh token is rotated with each use, and the host uses the new one.
    let server = StdioServer::start(&config(&api, tokens.refresh_token())).await;
    for number in 1..=3 {
        assert_eq!(get(&server, &api.url("/")).await["body"], "welcome");
        assert_eq!(tokens.issued(), number);
        // The minimum time for which every token is used.
        sleep(Duration::from_millis(1100)).await;
    }
    tokens.set_lifetime(3600);
    for _ in 0..3 {
        assert_eq!(get(&server, &api.url("/")).await["body"], "welcome");
        assert_eq!(tokens.issued(), 4);
    }
    server.end().await;
}

#[tokio::test]
async fn a_token_that_expires_early_is_replaced_and_the_request_sent_again_if_that_is_safe() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect(&api, "/", "welcome");
    let server = StdioServer::start(&config(&api, tokens.service_account())).await;
    assert_eq!(get(&server, &api.url("/")).await["body"], "welcome");
    tokens.revoke_tokens();
    assert_eq!(get(&server, &api.url("/")).await["body"], "welcome");
    assert_eq!((tokens.issued(), api.request_count("/")), (2, 3));
    server.end().await;
    let server = StdioServer::start(&config(&api, tokens.service_account())).await;
    assert_eq!(get(&server, &api.url("/")).await["body"], "welcome");
    tokens.revoke_tokens();
    let post = fetch(&server, "get", &api.url("/"), "&method=POST&fill=10").await;
    assert_eq!(post["status"], 401, "a request that may have had an effect is not sent twice");
    assert_eq!(get(&server, &api.url("/")).await["body"], "welcome");
    assert_eq!((tokens.issued(), api.request_count("/")), (4, 6));
    server.end().await;
}

#[tokio::test]
async fn an_origin_that_accepts_no_token_causes_no_flood_of_requests_for_tokens() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    api.serve("/", Reply::status(401));
    let server = StdioServer::start(&config(&api, tokens.client_credentials())).await;
    let began = Instant::now();
    for _ in 0..4 {
        assert_eq!(get(&server, &api.url("/")).await["status"], 401);
    }
    // The first request, and one in five seconds.
    let most = 2 + began.elapsed().as_secs() / 5;
    server.end().await;
    assert!((2..=most).contains(&u64::try_from(tokens.issued()).unwrap()), "{} of {most}", tokens.issued());
}

#[tokio::test]
async fn credentials_that_were_revoked_are_told_in_the_log_and_not_tried_again_at_once() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect(&api, "/", "welcome");
    for oauth in [tokens.service_account(), tokens.refresh_token(), tokens.client_credentials()] {
        tokens.refuse("invalid_grant");
        let server = StdioServer::start(&config(&api, oauth)).await;
        let answers = fetch(&server, "many", &api.url("/"), "&count=2").await;
        assert_eq!(answers, json!([no_token(), no_token()]));
        let line = server.log_line("there is no access token").await;
        let reason =
            format!("from {}: the token server answered 400 Bad Request, invalid_grant", tokens.origin().origin());
        assert!(line.contains(&reason), "{line}");
        assert_no_secret(&server.end().await.log);
    }
    assert_eq!((tokens.origin().request_count("/token"), api.requests().len()), (3, 0));
}

#[tokio::test]
async fn a_token_server_that_comes_back_is_asked_again() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect(&api, "/", "welcome");
    tokens.origin().take_down().await;
    let config = config_with_limits(&api, tokens.client_credentials(), [("rate", "100000/m".into())]);
    let server = StdioServer::start(&config).await;
    assert_eq!(get(&server, &api.url("/")).await, no_token());
    server.log_line("cannot reach the token server").await;
    tokens.origin().bring_up().await;
    let mut answer = Value::Null;
    while answer["body"] != "welcome" {
        answer = get(&server, &api.url("/")).await;
        assert!(answer == no_token() || answer["body"] == "welcome", "{answer}");
    }
    server.end().await;
    assert_eq!(tokens.issued(), 1);
}

#[tokio::test]
async fn a_token_server_that_hangs_costs_a_request_no_more_than_its_time() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.origin().serve("/token", Reply::silent());
    let server =
        StdioServer::start(&config_with_limits(&api, tokens.client_credentials(), [("timeout", "500ms".into())])).await;
    let timeout = json!({ "error": "ErrorCode::HttpResponseTimeout" });
    for _ in 0..2 {
        assert_eq!(get(&server, &api.url("/")).await, timeout);
    }
    server.end().await;
    assert_eq!((tokens.origin().request_count("/token"), api.requests().len()), (1, 0));
}

#[tokio::test]
async fn a_token_server_that_hangs_delays_requests_to_its_own_origin_only() {
    let (tokens, api, other) = (TokenServer::start().await, MockOrigin::http().await, MockOrigin::http().await);
    tokens.origin().serve("/token", Reply::silent());
    other.serve("/", Reply::ok("text/plain", "welcome"));
    let plugin = plugin(&api, tokens.client_credentials(), [("concurrency", 1.into())]);
    let config = ConfigFile::new().plugin(plugin.http(other.origin().into())).write();
    let server = StdioServer::start(&config).await;
    let (api_url, other_url) = (api.url("/"), other.url("/"));
    let (waiting, meanwhile) = tokio::join!(get(&server, &api_url), async {
        wait_until("a token is requested", || tokens.origin().request_count("/token") == 1).await;
        get(&server, &other_url).await
    });
    assert_eq!((waiting, &meanwhile["body"]), (no_token(), &json!("welcome")));
    server.end().await;
}

#[tokio::test]
async fn a_token_server_that_hangs_is_not_taken_for_the_origin() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.origin().serve("/token", Reply::silent());
    let server = StdioServer::start(&config(&api, tokens.client_credentials())).await;
    assert_eq!(get(&server, &api.url("/")).await, no_token());
    server.log_line("the token server did not answer within 4 s").await;
    server.end().await;
    assert_eq!(api.requests().len(), 0);
}

#[tokio::test]
async fn a_flood_of_requests_causes_no_flood_of_requests_for_tokens_that_expire_at_once() {
    let (tokens, api) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect(&api, "/", "welcome");
    tokens.set_lifetime(0);
    let limits = [("concurrency", 32.into()), ("rate", "100000/m".into())];
    let server = StdioServer::start(&config_with_limits(&api, tokens.client_credentials(), limits)).await;
    let began = Instant::now();
    let answers = fetch(&server, "many", &api.url("/"), "&count=20").await;
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["body"] == "welcome"), "{answers}");
    // The first request, and one per second.
    let most = 1 + began.elapsed().as_secs();
    server.end().await;
    assert!(u64::try_from(tokens.issued()).unwrap() <= most, "{} of {most}", tokens.issued());
}

#[tokio::test]
async fn nonsense_is_no_token_and_a_redirect_is_not_followed() {
    let (tokens, api, other) = (TokenServer::start().await, MockOrigin::http().await, MockOrigin::http().await);
    for nonsense in [
        Reply::ok("text/html", "<h1>Sign in</h1>"),
        Reply::ok("application/json", "{ \"access_token\": \"a\\r\\nHost: evil\" }"),
        Reply::ok("application/json", "{ \"access_token\": \"a\", \"token_type\": \"mac\" }"),
        Reply::redirect(307, &other.url("/token")),
        Reply::status(500),
        Reply::endless(),
        Reply::endless_headers(),
        Reply::ok("application/json", "{ \"access_token\": \"a\" }").truncate_after(5),
    ] {
        tokens.origin().serve("/token", nonsense.clone());
        let server = StdioServer::start(&config(&api, tokens.client_credentials())).await;
        assert_eq!(get(&server, &api.url("/")).await, no_token(), "{nonsense:?}");
        server.log_line("there is no access token").await;
        server.end().await;
    }
    assert_eq!((api.requests().len(), other.requests().len()), (0, 0));
}

#[tokio::test]
async fn a_token_server_over_tls_is_who_the_certificate_says() {
    let (authority, api) = (CertificateAuthority::new(), MockOrigin::http().await);
    let tokens = TokenServer::https(&authority).await;
    tokens.protect(&api, "/", "welcome");
    let files = Folder::with_files([("ca.pem", authority.pem())]);
    let server = StdioServer::start(&config(&api, tokens.client_credentials())).await;
    assert_eq!(get(&server, &api.url("/")).await, no_token());
    server.log_line("the server's certificate is not trusted").await;
    server.end().await;
    assert_eq!(tokens.origin().requests(), []);
    let mut oauth = tokens.client_credentials();
    oauth.insert("ca".to_owned(), files.path().join("ca.pem").to_str().unwrap().into());
    let server = StdioServer::start(&config(&api, oauth)).await;
    assert_eq!(get(&server, &api.url("/")).await["body"], "welcome");
    server.end().await;
}
