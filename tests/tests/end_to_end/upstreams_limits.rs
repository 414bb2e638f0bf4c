//! The number of identities with subscriptions at an upstream.

use std::time::Duration;

use mcp_host_tests::{ConfigFile, HttpServer, RawHttp, RpcResponse, Rule};
use serde_json::json;

use super::support::user_server::UserServer;
use super::support::watcher::{REVISION, Watcher};

/// The documented number of identities.
const MAX_IDENTITIES: usize = 128;

/// Subscribes to the resource that is named after a principal.
async fn subscribe(wire: &mut RawHttp, name: &str) -> RpcResponse {
    wire.request("resources/subscribe", json!({ "uri": format!("up+x:{name}") })).await
}

#[tokio::test]
async fn one_more_identity_than_the_limit_is_refused_and_gets_the_place_of_one_that_has_left() {
    let users = UserServer::start(true).await;
    let upstream = format!(
        "[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\nviews = 'principal'\nwatch-interval = '1s'\n",
        users.url()
    );
    let names: Vec<_> = (0..=MAX_IDENTITIES).map(|number| format!("user-{number}")).collect();
    // The tokens equal the names.
    let config = names.iter().fold(ConfigFile::new(), |config, name| config.principal(name, name));
    let config = config.append(&upstream).rule(Rule::for_principal("*").allow(["up+**"])).write();
    let server = HttpServer::start(&config).await;
    let mut clients = Vec::new();
    for name in &names {
        clients.push(RawHttp::start_with_token(server.url(), REVISION, name).await);
    }
    // A session that listens to the listing, and has called, takes no place.
    let (mut last, last_name) = (clients.pop().unwrap(), names[MAX_IDENTITIES].as_str());
    last.request("resources/list", json!({})).await.result();
    for (client, name) in clients.iter_mut().zip(&names) {
        subscribe(client, name).await.result();
    }
    let refused = subscribe(&mut last, last_name).await;
    assert_eq!(refused.error()["data"]["kind"], "unavailable", "{refused:?}");
    let message = refused.error()["message"].as_str().unwrap();
    assert!(message.contains("its limit of 128 identities with subscriptions at a time is reached"), "{message}");
    // The refused client reads all the same, and the others are notified.
    last.request("resources/read", json!({ "uri": format!("up+x:{last_name}") })).await.result();
    let mut first = Watcher::of(clients.remove(0)).await;
    users.wait_until_subscribed("", "x:user-0").await;
    users.update("x:user-0");
    first.assert_updated("up+x:user-0").await;
    // Another principal leaves. Its place is free a short time later.
    clients.remove(0).delete_session().await;
    while subscribe(&mut last, last_name).await.message.get("result").is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    users.wait_until_subscribed("", &format!("x:{last_name}")).await;
    let mut last = Watcher::of(last).await;
    last.drain().await;
    users.update(&format!("x:{last_name}"));
    last.assert_updated(&format!("up+x:{last_name}")).await;
    users.update("x:user-0");
    first.assert_updated("up+x:user-0").await;
    server.end().await;
}
