//! Changes of the listing at an upstream with an identity for each principal or group: each is notified to the clients
//! that have the identity, and to no others.

use std::time::Duration;

use mcp_host_tests::{ConfigFile, Folder, HttpServer, Rule, WrittenConfig};
use serde_json::json;

use super::support::user_server::UserServer;
use super::support::watcher::Watcher;

const TOKENS: &str = "auth.tokens = [{ principal = 'ada', token = { file = 'FILE/a' } }, { group = 'ops', token = { file = \
                      'FILE/o' } }]";
const WITHOUT_ADA: &str = "auth.tokens = [{ group = 'ops', token = { file = 'FILE/o' } }]";
/// The time after which a change is made again.
const AGAIN: Duration = Duration::from_millis(500);

/// A host with an upstream `up+`, whose server knows the users `a` and `o`. The principal `bob` is in the group `ops`.
struct World {
    users: UserServer,
    server: HttpServer,
    config: WrittenConfig,
    /// The files with the upstream's tokens.
    tokens: Folder,
}

impl World {
    /// Starts a host whose upstream has these keys, and notifies of changes or does not. `FILE` is replaced with the
    /// directory of the tokens.
    async fn start(keys: &str, notifies: bool, rule: Rule) -> Self {
        let users = UserServer::start(notifies).await;
        let tokens = Folder::with_files([("a", "a"), ("o", "o")]);
        let config = Self::config(&users, &tokens, keys, rule).write();
        let server = HttpServer::start(&config).await;
        Self { users, server, config, tokens }
    }

    fn config(users: &UserServer, tokens: &Folder, keys: &str, rule: Rule) -> ConfigFile {
        let text = format!(
            "[[group]]\nname = 'ops'\nprincipals = ['bob']\n[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\nwatch-interval = \
             '100ms'\n{}\n",
            users.url(),
            keys.replace("FILE", &tokens.path().display().to_string()),
        );
        // The tokens equal the names.
        let principals = ["ada", "bob", "mallory"].into_iter();
        let config = principals.fold(ConfigFile::new(), |config, name| config.principal(name, name));
        config.append(&text).rule(rule)
    }

    /// A session that is subscribed to no resource.
    async fn listener(&self, token: &str) -> Watcher {
        Watcher::start(self.server.url(), token, &[]).await
    }

    /// Changes the listing of a user until a client is notified: notifications begin shortly after its session.
    async fn begin(&self, user: &str, watcher: &mut Watcher) {
        for number in 0.. {
            self.users.add(user, &format!("first-{number}"));
            if watcher.is_listing_changed_within(AGAIN).await {
                break;
            }
        }
        watcher.drain().await;
    }
}

fn everything() -> Rule {
    Rule::for_principal("*").allow(["up+**"])
}

#[tokio::test]
async fn a_change_of_the_listing_of_one_identity_is_told_to_its_clients_and_to_no_others() {
    for (notifies, more) in [(true, ""), (false, "poll = true\n")] {
        let world = World::start(&format!("{more}{TOKENS}"), notifies, everything()).await;
        // One that also subscribes to a resource, and one that may see nothing of the upstream.
        let mut bob = Watcher::start(world.server.url(), "bob", &["up+x:both"]).await;
        let (mut ada, mut mallory) = (world.listener("ada").await, world.listener("mallory").await);
        world.begin("a", &mut ada).await;
        world.begin("o", &mut bob).await;
        for round in 0..2 {
            for (user, is_ada) in [("a", true), ("o", false)] {
                world.users.add(user, &format!("{user}-{round}"));
                let (one, other) = if is_ada { (&mut ada, &mut bob) } else { (&mut bob, &mut ada) };
                one.assert_listing_changed().await;
                other.assert_quiet().await;
            }
        }
        mallory.assert_quiet().await;
        let tokens = world.users.tokens();
        assert!(tokens.iter().all(|token| ["a", "o"].contains(&token.as_str())), "{tokens:?}");
        world.server.end().await;
    }
}

#[tokio::test]
async fn a_change_of_the_listing_that_a_rule_hides_is_not_told() {
    let rule = everything().deny(["up+x:hidden"]);
    let world = World::start(TOKENS, true, rule).await;
    let mut ada = world.listener("ada").await;
    world.begin("a", &mut ada).await;
    world.users.add("a", "hidden");
    ada.assert_quiet().await;
    world.users.add("a", "seen");
    ada.assert_listing_changed().await;
    world.server.end().await;
}

#[tokio::test]
async fn who_gets_and_loses_an_identity_by_a_reload_is_told_that_the_listing_has_changed() {
    let world = World::start(TOKENS, true, everything()).await;
    let (mut ada, mut mallory) = (world.listener("ada").await, world.listener("mallory").await);
    world.begin("a", &mut ada).await;
    for (generation, keys) in [(2, WITHOUT_ADA), (3, TOKENS)] {
        world.config.replace(World::config(&world.users, &world.tokens, keys, everything()));
        world.server.log_line(&format!("generation={generation}")).await;
        ada.assert_listing_changed().await;
        ada.drain().await;
    }
    world.users.add("a", "after");
    ada.assert_listing_changed().await;
    mallory.assert_quiet().await;
    world.server.end().await;
}

#[tokio::test]
async fn with_views_nothing_is_begun_for_a_client_until_it_calls_and_then_it_is_told_of_its_own_changes() {
    let world = World::start("views = 'principal'", true, everything()).await;
    let (mut ada, mut bob) = (world.listener("ada").await, world.listener("bob").await);
    ada.assert_quiet().await;
    assert_eq!(world.users.session_count(), 1, "the host's own");
    for (watcher, uri) in [(&mut ada, "up+x:ada"), (&mut bob, "up+x:bob")] {
        watcher.wire.request("resources/read", json!({ "uri": uri })).await.result();
    }
    assert_eq!(world.users.session_count(), 3);
    for (watcher, uri) in [(&mut ada, "x:ada"), (&mut bob, "x:bob")] {
        loop {
            world.users.add_where_read(uri);
            if watcher.is_listing_changed_within(AGAIN).await {
                break;
            }
        }
        watcher.drain().await;
    }
    for _ in 0..2 {
        world.users.add_where_read("x:ada");
        ada.assert_listing_changed().await;
        bob.assert_quiet().await;
        world.users.add_where_read("x:bob");
        bob.assert_listing_changed().await;
        ada.assert_quiet().await;
    }
    world.server.end().await;
}
