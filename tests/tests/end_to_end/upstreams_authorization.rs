//! An upstream whose access tokens come from a certified authorization server (`oidc-provider`), by client credentials
//! and by token exchange with the client's token; or from a token server that accepts the JWTs of a service account.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_tests::{
    AuthorizationServer, ConfigFile, HttpServer, MockOrigin, RawHttp, RecordedRequest, Reply, ReservedPort, Revision,
    StdioServer, TokenServer, WrittenConfig,
};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use toml::Table;

const REVISION: Revision = Revision::V_2026_07_28;

/// Returns the subject of a request's access token, if the token is a JWT for the resource (RFC 9068).
fn subject(request: &RecordedRequest, resource: &str) -> Option<String> {
    let token = request.header("authorization")?.strip_prefix("Bearer ")?.to_owned();
    let mut parts = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let mut part = || serde_json::from_slice::<Value>(&parts.next()??).ok();
    let (header, claims) = (part()?, part()?);
    let is_for_it = header["typ"] == "at+jwt" && claims["aud"] == resource;
    claims["sub"].as_str().filter(|_| is_for_it).map(str::to_owned)
}

/// Answers the user of a request's access token.
fn answer(request: &RecordedRequest, resource: &str) -> Reply {
    match subject(request, resource) {
        Some(user) => answer_to(&user, request),
        None => Reply::status(401),
    }
}

/// Answers as a server with sessions whose answers differ by user and may be cached.
fn answer_to(user: &str, request: &RecordedRequest) -> Reply {
    if request.method != "POST" {
        return Reply::status(405);
    }
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {} },
            "serverInfo": { "name": "users", "version": "1" } }),
        "resources/list" => {
            json!({ "resources": [{ "uri": "x:own", "name": user }], "ttlMs": 60_000, "cacheScope": "public" })
        }
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => {
            json!({ "contents": [{ "uri": "x:own", "text": user }], "ttlMs": 60_000, "cacheScope": "public" })
        }
        method if method.starts_with("notifications/") => return Reply::status(202),
        _ => return Reply::status(400),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Reply::ok("application/json", answer.to_string()).header("mcp-session-id", user)
}

/// A host, the authorization server that it trusts, and its upstream, which trusts the same server.
struct World {
    authorization: AuthorizationServer,
    origin: MockOrigin,
    server: HttpServer,
    port: ReservedPort,
    _config: WrittenConfig,
    _secret: NamedTempFile,
}

impl World {
    async fn start(forward: &str) -> Self {
        let (origin, port) = (MockOrigin::http().await, ReservedPort::new());
        let url = origin.url("/mcp");
        let resource = url.clone();
        origin.serve_with("/mcp", move |request| answer(request, &resource));
        let authorization = AuthorizationServer::start_for_upstream(&url).await;
        let secret = NamedTempFile::new().unwrap();
        fs::write(secret.path(), AuthorizationServer::CLIENT_SECRET).unwrap();
        let (issuer, id, file) = (authorization.issuer(), AuthorizationServer::CLIENT_ID, secret.path().display());
        let config = ConfigFile::new()
            .http("public-url", port.mcp_url())
            .append(&format!(
                "\n[[issuer]]\nname = 'corp'\nissuer = '{issuer}'\nintrospection = {{ url = '{issuer}/token/introspection', client-id = '{id}', \
                 client-secret = {{ file = '{file}' }} }}\n\
                 [[upstream]]\nname = 'up'\nurl = '{url}'\nmount = 'up+'\n{forward}\n\
                 [upstream.auth.oauth]\nclient-id = '{id}'\nclient-secret = {{ file = '{file}' }}\ntoken-uri = '{issuer}/token'\n\
                 [[rule]]\nprincipals = ['*']\nallow = ['up+**']\n"
            ))
            .write();
        let server = HttpServer::start_at(&config, &port.address().to_string()).await;
        Self { authorization, origin, server, port, _config: config, _secret: secret }
    }

    /// Creates a client with an access token of an account.
    async fn client(&mut self, account: &str) -> RawHttp {
        let token = self.authorization.token(account, &self.port.mcp_url()).await;
        RawHttp::start_with_token(self.server.url(), REVISION, &token).await
    }
}

/// Returns the name of the listed resource, and the text of the read one.
async fn seen(client: &mut RawHttp) -> (Value, Value) {
    let listed = client.request("resources/list", json!({})).await.result().clone();
    let read = client.request("resources/read", json!({ "uri": "up+x:own" })).await.result().clone();
    assert_eq!((&listed["cacheScope"], &read["cacheScope"]), (&json!("private"), &json!("private")));
    (listed["resources"][0]["name"].clone(), read["contents"][0]["text"].clone())
}

#[tokio::test]
async fn two_principals_get_their_own_answers_by_tokens_that_were_exchanged_for_theirs() {
    let mut world = World::start("auth.forward = 'exchange'").await;
    let (mut alice, mut bob) = (world.client("alice").await, world.client("bob").await);
    for _ in 0..3 {
        for (client, user) in [(&mut alice, json!("alice")), (&mut bob, json!("bob"))] {
            assert_eq!(seen(client).await, (user.clone(), user));
        }
    }
    // To the host, another token of the same user is another identity. It gets the same answers.
    let mut again = world.client("alice").await;
    assert_eq!(seen(&mut again).await, (json!("alice"), json!("alice")));
    for (user, tokens) in [("alice", 2), ("bob", 1)] {
        let issued = world.authorization.count(&format!("issued by token-exchange to {user}"));
        assert_eq!(issued, tokens, "one for each token of {user}");
    }
    assert_eq!(world.authorization.count("issued by client_credentials"), 0);
    world.server.end().await;
}

#[tokio::test]
async fn the_host_itself_is_the_user_of_a_token_by_client_credentials() {
    let mut world = World::start("").await;
    let host = json!(AuthorizationServer::CLIENT_ID);
    for account in ["alice", "bob"] {
        let mut client = world.client(account).await;
        let listed = client.request("resources/list", json!({})).await.result().clone();
        assert_eq!(listed["resources"][0]["name"], host, "{listed}");
    }
    assert_eq!(world.authorization.count("issued by client_credentials to mcp-host"), 1);
    assert!(world.origin.request_count("/mcp") > 0);
    world.server.end().await;
}

#[tokio::test]
async fn the_host_gets_its_tokens_for_jwts_that_it_signs_with_the_key_of_a_service_account() {
    let (tokens, origin) = (TokenServer::start().await, MockOrigin::http().await);
    tokens.protect_with(&origin, "/mcp", |request| answer_to("service", request));
    let keys = format!("name = 'up'\nurl = '{}'\nmount = 'up+'\nresponse-cache = false\n", origin.url("/mcp"));
    let mut upstream: Table = toml::from_str(&keys).unwrap();
    let auth = Table::from_iter([("oauth".to_owned(), tokens.service_account().into())]);
    upstream.insert("auth".to_owned(), auth.into());
    let text = toml::to_string(&Table::from_iter([("upstream".to_owned(), vec![upstream].into())])).unwrap();
    let config = ConfigFile::new().append(&format!("\n{text}")).allow_all().write();
    let server = StdioServer::start(&config).await;
    for _ in 0..2 {
        assert_eq!(server.client().text("up+x:own").await, "service");
    }
    let claims = tokens.claims();
    assert_eq!((&claims["sub"], &claims["scope"]), (&json!("user@example.com"), &json!(TokenServer::SCOPE)));
    assert_eq!(tokens.issued(), 1, "the second request has the cached token");
    tokens.revoke_tokens();
    assert_eq!(server.client().text("up+x:own").await, "service");
    assert_eq!(tokens.issued(), 2, "a rejected token is replaced");
    let sent: Vec<_> =
        origin.requests().iter().map(|request| request.header("authorization").map(str::to_owned)).collect();
    let is_issued =
        |header: &Option<String>| header.as_deref().is_some_and(|value| value.starts_with("Bearer ya29.token-"));
    assert!(sent.iter().all(is_issued), "{sent:?}");
    let log = server.end().await.log;
    for secret in TokenServer::SECRETS {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}
