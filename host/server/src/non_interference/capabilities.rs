//! Two worlds that differ in the abilities of the hidden plugin: whether it exists, is loaded, reports changes and has
//! skills. The test compares the capabilities that `initialize` and `server/discover` announce, the existing methods,
//! the methods that the error for an unknown method lists, and the acknowledged subscriptions. The visible plugin has
//! none of these abilities.

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use mcp_host_config::{Config, Extension, PrincipalSelector, Rule, TokenDigest, TokenDigests, TokenPrincipal};
use mcp_host_engine::plugin::NativePlugin;
use mcp_host_model::provider::{Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait};
use mcp_resource_host::host::Host;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::notifications::TIMEOUT;
use super::over_http::{HttpClient, text};
use super::world::{ADA, HIDDEN, PART, ROOT, Rules};
use crate::revision::Revision;

/// The state of the hidden plugin in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    /// The plugin does not exist.
    Absent,
    /// The plugin serves resources.
    Plain,
    /// The plugin reports changes and has skills.
    Able,
    /// The plugin has skills, and could not be loaded.
    Failed,
}

struct OneFile {
    watches: bool,
}

#[async_trait]
impl Provider for OneFile {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("one-file", "1.0.0").watches(self.watches)
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        Ok(Page { entries: vec![self.stat("pub/a.txt").await?], next_cursor: None })
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        let entry = || Entry::new(path, path).subscribable();
        if path == "pub/a.txt" { Ok(entry()) } else { Err(Failure::NotFound) }
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(self.stat(path).await?, "a text")])
    }
}

async fn start(rules: Vec<Rule>, hidden: Hidden, dir: &Path) -> Arc<Host> {
    let mut config = match hidden {
        Hidden::Failed => {
            let mount = format!("{HIDDEN}://h/");
            std::fs::write(dir.join("broken.wasm"), "no component").unwrap();
            let plugin = format!("name = '{HIDDEN}'\ncomponent = './broken.wasm'\nmount = '{mount}'\nskills = ['**']");
            Config::parse(&format!("[[plugin]]\n{plugin}\n"), &dir.join("mcp-host.toml")).unwrap()
        }
        _ => Config::new(),
    };
    config.server.extensions = vec![Extension::Sep2093];
    config.rules = rules;
    config.principals = [ADA, ROOT]
        .map(|name| TokenPrincipal {
            name: name.parse().unwrap(),
            token_sha256: TokenDigests::new([TokenDigest::of(name)]),
        })
        .into();
    let plugin = |name: &str, watches| {
        let mount = format!("{name}://h/").parse().unwrap();
        NativePlugin::new(name.parse().unwrap(), mount, Arc::new(OneFile { watches }))
    };
    let mut builder = Host::builder(config).cache_dir(dir.join("cache")).state_dir(dir.join("state"));
    builder = builder.native_plugin(plugin(PART, false));
    builder = match hidden {
        Hidden::Absent | Hidden::Failed => builder,
        Hidden::Plain => builder.native_plugin(plugin(HIDDEN, false)),
        Hidden::Able => builder.native_plugin(plugin(HIDDEN, true).skills(["**".parse().unwrap()])),
    };
    let host = builder.start().await.unwrap();
    host.wait_until_loaded().await;
    Arc::new(host)
}

/// The announced capabilities of the server for a principal, and the answers of methods that depend on a plugin's
/// abilities.
async fn told(host: &Arc<Host>, token: &str) -> Vec<(String, String)> {
    let mut told = Vec::new();
    let part = json!({ "uri": "part://h/pub/a.txt" });
    for revision in Revision::ALL.into_iter().filter(|revision| revision.has_sessions()) {
        let (client, initialized) = HttpClient::initialize(host, token, revision).await;
        told.push((format!("initialize {}", revision.name()), initialized));
        for method in ["resources/subscribe", "resources/unsubscribe", "nonsense"] {
            let answer = client.ask_in_session(method, &part).await;
            told.push((format!("{method} {}", revision.name()), answer));
        }
    }
    let client = HttpClient::stateless(host, token);
    let empty = json!({});
    for (method, params) in
        [("server/discover", &empty), ("skills/list", &empty), ("skills/get", &part), ("nonsense", &empty)]
    {
        let response = client.send_stateless(method, params).await;
        let status = response.status();
        told.push((method.to_owned(), format!("{status} {}", text(response).await)));
    }
    let uris = ["part://h/pub/a.txt", "hidden://h/pub/a.txt"];
    let listen = json!({ "notifications": { "resourcesListChanged": true, "resourceSubscriptions": uris } });
    let body = client.send_stateless("subscriptions/listen", &listen).await.into_body();
    told.push(("subscriptions/listen".to_owned(), first_event(body).await));
    told
}

/// The first event of a stream.
async fn first_event(body: Body) -> String {
    let mut received = String::new();
    let mut chunks = body.into_data_stream();
    while !received.contains("\n\n") {
        let chunk = timeout(TIMEOUT, chunks.next()).await.unwrap().expect("an event").unwrap();
        received.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    received.split("\n\n").next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hidden_plugin_can_do_is_told_by_no_capability_and_no_method() {
    for rules in Rules::ALL {
        let mut worlds = Vec::new();
        for hidden in [Hidden::Absent, Hidden::Plain, Hidden::Able, Hidden::Failed] {
            let dir = tempfile::tempdir().unwrap();
            let host = start(rules.rules(), hidden, dir.path()).await;
            worlds.push((hidden, told(&host, ADA).await, told(&host, ROOT).await));
        }
        let [(_, absent, _), others @ ..] = &worlds[..] else { panic!("{worlds:?}") };
        for (hidden, told, _) in others {
            for (one, other) in absent.iter().zip(told) {
                assert_eq!(one, other, "{rules:?}: the hidden plugin is {hidden:?}");
            }
        }
        // The root principal may see the plugin, so its answers differ.
        let of_root = |wanted: Hidden, method: &str| {
            let (_, _, told) = worlds.iter().find(|(hidden, ..)| *hidden == wanted).unwrap();
            told.iter().find(|(asked, _)| asked == method).unwrap().1.clone()
        };
        for (method, told) in [
            ("initialize 2025-11-25", "\"subscribe\":true"),
            ("server/discover", "io.modelcontextprotocol/skills"),
            ("nonsense", "skills/list"),
            ("subscriptions/listen", "hidden://h/pub/a.txt"),
        ] {
            assert!(of_root(Hidden::Able, method).contains(told), "{method}: {}", of_root(Hidden::Able, method));
            assert!(!of_root(Hidden::Absent, method).contains(told), "{method}");
        }
        assert!(of_root(Hidden::Failed, "server/discover").contains("io.modelcontextprotocol/skills"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capabilities_are_for_shared_caches_if_all_principals_have_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut for_all = Rule::new([PrincipalSelector::Any]);
    for_all.allow = vec!["**".parse().unwrap()];
    for (rules, scope) in [(Rules::Deny.rules(), "private"), (vec![for_all], "public")] {
        let host = start(rules.clone(), Hidden::Plain, dir.path()).await;
        let response = HttpClient::stateless(&host, ADA).send_stateless("server/discover", &json!({})).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["result"]["cacheScope"], scope, "{rules:?}");
    }
}
