//! Subscriptions at an upstream that each client uses by a token that was exchanged for its access token: whom an
//! update is told to, and what happens when a token is refused or replaced.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, RawHttp, RecordedRequest, Reply, ReservedPort, Rule, TokenIssuer, WrittenConfig,
    wait_until,
};
use serde_json::{Value, json};

use super::support::user_server::UserServer;
use super::support::watcher::{REVISION, Watcher};

/// The resource that is subscribed to.
const URI: &str = "up+x:both";

/// A token endpoint that exchanges an access token of a user for `USER-1`, `USER-2` and so on.
#[derive(Default)]
struct Exchanges {
    /// The number of tokens that each user got.
    issued: BTreeMap<String, usize>,
    /// The users whose access tokens are refused.
    refused: BTreeSet<String>,
    /// The number of refusals.
    refusals: usize,
}

impl Exchanges {
    fn answer(&mut self, request: &RecordedRequest) -> Reply {
        let form: HashMap<String, String> = form_urlencoded::parse(&request.body).into_owned().collect();
        let is_exchange = form.get("grant_type").is_some_and(|grant| grant.ends_with(":token-exchange"));
        let user = form.get("subject_token").and_then(|token| subject(token)).filter(|_| is_exchange);
        let Some(user) = user.filter(|user| !self.refused.contains(user)) else {
            self.refusals += 1;
            return Reply::ok("application/json", json!({ "error": "invalid_grant" }).to_string()).with_status(400);
        };
        let number = self.issued.entry(user.clone()).or_default();
        *number += 1;
        let kind = "urn:ietf:params:oauth:token-type:access_token";
        let issued = json!({ "access_token": format!("{user}-{number}"), "token_type": "Bearer", "expires_in": 3600,
            "issued_token_type": kind });
        Reply::ok("application/json", issued.to_string())
    }
}

/// The subject of a JWT.
fn subject(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["sub"].as_str().map(str::to_owned)
}

/// A host, the issuer that it trusts, and its upstream with the token endpoint.
struct World {
    issuer: TokenIssuer,
    users: UserServer,
    exchanges: Arc<Mutex<Exchanges>>,
    server: HttpServer,
    port: ReservedPort,
    /// The number of access tokens.
    tokens: AtomicUsize,
    _config: WrittenConfig,
    _secret: Folder,
}

impl World {
    /// Starts a host whose upstream has these keys, and notifies of changes or does not.
    async fn start(keys: &str, notifies: bool) -> Self {
        let (issuer, users, port) =
            (TokenIssuer::start().await, UserServer::start(notifies).await, ReservedPort::new());
        let exchanges = Arc::new(Mutex::new(Exchanges::default()));
        let shared = exchanges.clone();
        users.origin().serve_with("/token", move |request| shared.lock().unwrap().answer(request));
        let secret = Folder::with_files([("secret", "secret-of-the-host")]);
        let text = format!(
            "\n[[issuer]]\nname = 'corp'\nissuer = '{}'\nalgorithms = ['ES256']\njwks = '{}'\n\
             [[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\nwatch-interval = '100ms'\n{keys}\nauth.forward = 'exchange'\n\
             [upstream.auth.oauth]\nclient-id = 'mcp-host'\nclient-secret = {{ file = '{}' }}\ntoken-uri = '{}'\n",
            issuer.identifier(),
            issuer.origin().url("/jwks"),
            users.url(),
            secret.path().join("secret").display(),
            users.origin().url("/token"),
        );
        let config = ConfigFile::new().http("public-url", port.mcp_url()).append(&text);
        let config = config.rule(Rule::for_principal("*").allow(["up+**"])).write();
        let server = HttpServer::start_at(&config, &port.address().to_string()).await;
        let (tokens, _config, _secret) = (AtomicUsize::new(0), config, secret);
        Self { issuer, users, exchanges, server, port, tokens, _config, _secret }
    }

    /// A new access token of a user.
    fn token(&self, user: &str) -> String {
        let mut claims = self.issuer.claims(user, &self.port.mcp_url());
        claims["jti"] = json!(format!("token-{}", self.tokens.fetch_add(1, Ordering::SeqCst)));
        self.issuer.sign(&claims)
    }

    /// A session with a new access token, and with a subscription.
    async fn watcher(&self, user: &str) -> Watcher {
        Watcher::start(self.server.url(), &self.token(user), &[URI]).await
    }

    fn issued(&self, user: &str) -> usize {
        self.exchanges.lock().unwrap().issued.get(user).copied().unwrap_or_default()
    }

    fn set_refused(&self, user: &str, is_refused: bool) {
        let mut exchanges = self.exchanges.lock().unwrap();
        if is_refused {
            exchanges.refused.insert(user.to_owned());
        } else {
            exchanges.refused.remove(user);
        }
    }
}

#[tokio::test]
async fn an_update_and_a_change_of_the_listing_are_told_to_the_client_whose_token_has_received_them() {
    let world = World::start("", true).await;
    let (mut alice, mut bob) = (world.watcher("alice").await, world.watcher("bob").await);
    for user in ["alice", "bob"] {
        world.users.wait_until_subscribed(user, "x:both").await;
    }
    alice.drain().await;
    bob.drain().await;
    for round in 0..2 {
        for (user, is_alice) in [("alice", true), ("bob", false)] {
            let (one, other) = if is_alice { (&mut alice, &mut bob) } else { (&mut bob, &mut alice) };
            world.users.edit(user);
            one.assert_updated(URI).await;
            world.users.add(user, &format!("{user}-{round}"));
            one.assert_listing_changed().await;
            other.assert_quiet().await;
        }
    }
    assert_eq!((world.issued("alice"), world.issued("bob")), (1, 1));
    let tokens = world.users.tokens();
    assert!(tokens.iter().all(|token| ["alice-1", "bob-1"].contains(&token.as_str())), "{tokens:?}");
    world.server.end().await;
}

#[tokio::test]
async fn a_subscription_goes_on_when_its_token_is_refused_and_when_its_client_has_another_access_token() {
    let world = World::start("poll = true", false).await;
    let (mut alice, mut bob) = (world.watcher("alice").await, world.watcher("bob").await);
    world.users.edit("alice");
    alice.assert_updated(URI).await;
    bob.assert_no_update().await;
    // The upstream refuses the exchanged token, and the access token is exchanged again.
    world.users.refuse("alice-1");
    wait_until("the access token is exchanged again", || world.issued("alice") == 2).await;
    world.users.edit("alice");
    alice.assert_updated(URI).await;
    bob.assert_no_update().await;
    // The token endpoint refuses it, too. Others are not affected.
    world.set_refused("alice", true);
    world.users.refuse("alice-2");
    wait_until("the token endpoint refuses", || world.exchanges.lock().unwrap().refusals > 0).await;
    world.users.edit("alice");
    world.users.edit("bob");
    bob.assert_updated(URI).await;
    alice.assert_no_update().await;
    // Changes in the meantime are notified once there is a token again.
    world.set_refused("alice", false);
    alice.assert_updated(URI).await;
    assert_eq!(world.issued("alice"), 3);
    alice.drain().await;
    // The session goes on with another access token, and so does the subscription: it is notified once.
    let mut renewed = RawHttp::start_with_token(world.server.url(), REVISION, &world.token("alice")).await;
    renewed.use_session(alice.wire.session_id().unwrap());
    renewed.request("resources/read", json!({ "uri": URI })).await.result();
    alice.assert_updated(URI).await;
    alice.drain().await;
    let before = world.users.tokens().len();
    world.users.edit("alice");
    alice.assert_updated(URI).await;
    bob.assert_no_update().await;
    let tokens = world.users.tokens().split_off(before);
    assert!(tokens.iter().all(|token| ["alice-4", "bob-1"].contains(&token.as_str())), "{tokens:?}");
    assert_eq!(world.issued("bob"), 1);
    world.server.end().await;
}

#[tokio::test]
async fn one_principal_has_subscriptions_with_a_limited_number_of_access_tokens() {
    /// The documented number of identities of one principal.
    const MAX_IDENTITIES: usize = 16;
    let world = World::start("", true).await;
    let subscribe = json!({ "uri": URI });
    let mut sessions = Vec::new();
    for _ in 0..MAX_IDENTITIES {
        sessions.push(world.watcher("alice").await);
    }
    let mut more = RawHttp::start_with_token(world.server.url(), REVISION, &world.token("alice")).await;
    let refused = more.request("resources/subscribe", subscribe.clone()).await;
    assert_eq!(refused.error()["data"]["kind"], "unavailable", "{refused:?}");
    let message = refused.error()["message"].as_str().unwrap();
    assert!(message.contains("you have subscriptions with 16 access tokens, which is the limit"), "{message}");
    // Another principal is not affected.
    let mut bob = world.watcher("bob").await;
    world.users.wait_until_subscribed("bob", "x:both").await;
    bob.drain().await;
    world.users.edit("bob");
    bob.assert_updated(URI).await;
    sessions.remove(0).wire.delete_session().await;
    while more.request("resources/subscribe", subscribe.clone()).await.message.get("result").is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.server.end().await;
}
