//! Subscriptions at an upstream with an identity for each principal or group: each is notified of its own changes,
//! also across reloads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mcp_host_tests::{ConfigFile, Folder, HttpServer, MockOrigin, RecordedRequest, Reply, Rule, WrittenConfig};
use serde_json::{Value, json};

use super::support::watcher::Watcher;

/// The resource that is subscribed to.
const URI: &str = "up+x:both";

/// The version of each user's content.
type Versions = Arc<Mutex<HashMap<String, u32>>>;

/// Answers as a server with sessions whose content differs by user, and that notifies of no changes.
fn answer(request: &RecordedRequest, versions: &Versions) -> Reply {
    if request.method != "POST" {
        return Reply::status(405);
    }
    let user = request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned();
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": {} },
            "serverInfo": { "name": "users", "version": "1" } }),
        "resources/list" => json!({ "resources": [{ "uri": "x:both", "name": "both" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => {
            let version = versions.lock().unwrap().get(&user).copied().unwrap_or_default();
            json!({ "contents": [{ "uri": message["params"]["uri"], "text": format!("{version} of {user}") }] })
        }
        method if method.starts_with("notifications/") => return Reply::status(202),
        _ => return Reply::status(400),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Reply::ok("application/json", answer.to_string()).header("mcp-session-id", &user)
}

struct World {
    server: HttpServer,
    origin: MockOrigin,
    config: WrittenConfig,
    versions: Versions,
    generation: u64,
    /// The files with the upstream's tokens.
    tokens: Folder,
}

impl World {
    /// Starts a host whose upstream has these keys. `FILE` is replaced with the directory of the tokens.
    async fn start(keys: &str) -> Self {
        let (origin, versions) = (MockOrigin::http().await, Versions::default());
        let of_server = versions.clone();
        origin.serve_with("/mcp", move |request| answer(request, &of_server));
        let tokens = Folder::with_files([("a", "a"), ("o", "o"), ("host", "host")]);
        let config = Self::config(&origin, &tokens, keys, Rule::for_principal("*").allow(["up+**"])).write();
        let server = HttpServer::start(&config).await;
        Self { server, origin, config, versions, generation: 1, tokens }
    }

    fn config(origin: &MockOrigin, tokens: &Folder, keys: &str, rule: Rule) -> ConfigFile {
        let text = format!(
            "[[group]]\nname = 'ops'\nprincipals = ['bob']\n[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\npoll = true\nwatch-interval = \
             '100ms'\n{}\n",
            origin.url("/mcp"),
            keys.replace("FILE", &tokens.path().display().to_string()),
        );
        // The tokens equal the names.
        ConfigFile::new().principal("ada", "ada").principal("bob", "bob").append(&text).rule(rule)
    }

    async fn reload(&mut self, keys: &str) {
        self.reload_with(keys, Rule::for_principal("*").allow(["up+**"])).await;
    }

    async fn reload_with(&mut self, keys: &str, rule: Rule) {
        self.config.replace(Self::config(&self.origin, &self.tokens, keys, rule));
        self.generation += 1;
        self.server.log_line(&format!("generation={}", self.generation)).await;
    }

    fn edit(&self, user: &str) {
        *self.versions.lock().unwrap().entry(user.to_owned()).or_default() += 1;
    }

    async fn watcher(&self, token: &str) -> Watcher {
        Watcher::start(self.server.url(), token, &[URI]).await
    }
}

const TOKENS: &str = "auth.tokens = [{ principal = 'ada', token = { file = 'FILE/a' } }, { group = 'ops', token = { file = \
                      'FILE/o' } }]";
const WITHOUT_ADA: &str = "auth.tokens = [{ group = 'ops', token = { file = 'FILE/o' } }]";
const SHARED: &str = "auth.token = { file = 'FILE/host' }";
const VIEWS: &str = "auth.token = { file = 'FILE/host' }\nviews = 'principal'";

#[tokio::test]
async fn two_principals_with_tokens_of_their_own_are_told_of_their_own_changes() {
    let world = World::start(TOKENS).await;
    let (mut ada, mut bob) = (world.watcher("ada").await, world.watcher("bob").await);
    for _ in 0..2 {
        world.edit("a");
        ada.assert_updated(URI).await;
        bob.assert_no_update().await;
        world.edit("o");
        bob.assert_updated(URI).await;
        ada.assert_no_update().await;
    }
    let users: Vec<_> =
        world.origin.requests().iter().filter_map(|one| one.header("authorization")).map(str::to_owned).collect();
    assert!(users.iter().all(|user| ["Bearer a", "Bearer o"].contains(&user.as_str())), "{users:?}");
    world.server.end().await;
}

#[tokio::test]
async fn subscriptions_survive_reloads_between_one_identity_for_all_and_one_for_each() {
    let mut world = World::start(TOKENS).await;
    let (mut ada, mut bob) = (world.watcher("ada").await, world.watcher("bob").await);
    // Ada's identity is taken, and given back.
    world.reload(WITHOUT_ADA).await;
    ada.assert_updated(URI).await;
    bob.assert_updated(URI).await;
    ada.drain().await;
    bob.drain().await;
    world.edit("a");
    world.edit("o");
    bob.assert_updated(URI).await;
    ada.assert_no_update().await;
    world.reload(TOKENS).await;
    ada.assert_updated(URI).await;
    ada.drain().await;
    bob.drain().await;
    world.edit("a");
    ada.assert_updated(URI).await;
    bob.assert_no_update().await;
    // From views to one poll for all, to other views, and back.
    for (keys, user) in [(SHARED, "host"), (VIEWS, "host"), (SHARED, "host"), (TOKENS, "a")] {
        world.reload(keys).await;
        ada.assert_updated(URI).await;
        bob.assert_updated(URI).await;
        ada.drain().await;
        bob.drain().await;
        world.edit(user);
        ada.assert_updated(URI).await;
        if user == "host" {
            bob.assert_updated(URI).await;
        } else {
            bob.assert_no_update().await;
        }
        ada.drain().await;
        bob.drain().await;
    }
    world.server.end().await;
}

#[tokio::test]
async fn an_update_that_a_rule_denies_since_is_not_told() {
    let mut world = World::start(TOKENS).await;
    let (mut ada, mut bob) = (world.watcher("ada").await, world.watcher("bob").await);
    world.reload_with(TOKENS, Rule::for_principal("bob").allow(["up+**"])).await;
    world.edit("a");
    world.edit("o");
    bob.assert_updated(URI).await;
    ada.assert_no_update().await;
    world.reload(TOKENS).await;
    ada.assert_updated(URI).await;
    world.server.end().await;
}
