//! The keys of an issuer: the time and the source of their retrieval, and the effects of a malicious key server.

use std::time::{Duration, Instant};

use mcp_host_tests::{MockOrigin, Reply, SigningKey, TIMEOUT, sign_hs256};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{ResourceServer, jwks};

/// The maximum size of a key set, in bytes.
const MAX_KEYS: usize = 1 << 20;

impl ResourceServer {
    fn fetches(&self) -> usize {
        self.issuer.origin().request_count("/jwks")
    }

    /// Sends requests with a valid token until one is accepted.
    async fn wait_until_valid(&self, token: &str) {
        let accepted = async {
            while self.list(token).await.status() != StatusCode::OK {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(TIMEOUT, accepted).await.is_ok(), "it is accepted at last");
    }
}

#[tokio::test]
async fn tokens_of_unknown_keys_have_the_keys_fetched_once_in_a_while() {
    let resource = ResourceServer::start().await;
    resource.assert_valid(&resource.token("alice")).await;
    let (before, began) = (resource.fetches(), Instant::now());
    let mut asking = JoinSet::new();
    for number in 0..200 {
        let other = SigningKey::new(&format!("key-of-flood-{number}"));
        let request = resource.list_request().bearer_auth(other.sign(&other.header(), &resource.claims("alice")));
        asking.spawn(async move { request.send().await.unwrap().status() });
    }
    for status in asking.join_all().await {
        assert!([StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE].contains(&status), "{status}");
    }
    // One fetch in 5 s, because the address has sent a valid token before.
    let most = 1 + usize::try_from(began.elapsed().as_secs() / 5).unwrap();
    assert!(resource.fetches() <= before + most, "{} fetches", resource.fetches() - before);
    resource.assert_valid(&resource.token("bob")).await;
    resource.server.end().await;
}

#[tokio::test]
async fn a_new_key_of_the_issuer_is_fetched_when_a_token_names_it() {
    let resource = ResourceServer::start().await;
    resource.assert_valid(&resource.token("alice")).await;
    let next = SigningKey::new("key-2");
    resource.issuer.serve_keys([resource.issuer.key(), &next]);
    let token = next.sign(&next.header(), &resource.claims("alice"));
    resource.wait_until_valid(&token).await;
    resource.assert_valid(&resource.token("bob")).await;
    resource.server.end().await;
}

/// Requests the listing from a loopback address.
async fn list_from(resource: &ResourceServer, address: [u8; 4], token: &str) -> reqwest::Response {
    let client = reqwest::Client::builder().local_address(std::net::IpAddr::from(address)).build().unwrap();
    let request = resource.list_request().bearer_auth(token).build().unwrap();
    client.execute(request).await.unwrap()
}

#[tokio::test]
async fn strangers_do_not_delay_that_a_new_key_is_found_and_nobody_is_refused_for_one_that_may_be_new() {
    const STRANGER: [u8; 4] = [127, 0, 0, 2];
    const NEWCOMER: [u8; 4] = [127, 0, 0, 3];
    let resource = ResourceServer::start().await;
    resource.assert_valid(&resource.token("alice")).await;
    let invented = SigningKey::new("invented");
    let token_of_stranger = invented.sign(&invented.header(), &resource.claims("alice"));
    for _ in 0..2 {
        let refused = list_from(&resource, STRANGER, &token_of_stranger).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "the issuer was asked for its key");
    }
    let before = resource.fetches();
    let next = SigningKey::new("key-2");
    resource.issuer.serve_keys([resource.issuer.key(), &next]);
    let token = next.sign(&next.header(), &resource.claims("alice"));
    // A new client waits for the next fetch that unknown tokens may cause, and the answer contains the delay.
    let waiting = list_from(&resource, NEWCOMER, &token).await;
    assert_eq!(waiting.status(), StatusCode::SERVICE_UNAVAILABLE);
    let seconds: u64 = waiting.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert!(waiting.headers().get("www-authenticate").is_none(), "a new token would not help");
    assert_eq!(resource.fetches(), before);
    // A client that has sent a valid token before does not wait.
    resource.assert_valid(&token).await;
    assert_eq!(resource.fetches(), before + 1);
    assert_eq!(list_from(&resource, NEWCOMER, &token).await.status(), StatusCode::OK, "keys are shared");
    resource.server.end().await;
}

#[tokio::test]
async fn a_new_key_of_the_issuer_is_fetched_for_a_token_that_names_none() {
    let resource = ResourceServer::start().await;
    resource.assert_valid(&resource.token("alice")).await;
    let next = SigningKey::new("key-2");
    resource.issuer.serve_keys([&next]);
    let token = next.sign(&json!({ "alg": "ES256", "typ": "at+jwt" }), &resource.claims("alice"));
    resource.wait_until_valid(&token).await;
    resource.assert_refused(&resource.token("bob"), "of a key that was removed").await;
    resource.server.end().await;
}

#[tokio::test]
async fn a_url_without_keys_is_logged_at_the_start_and_when_a_reload_brings_it() {
    const FAILURE: &str = "the keys of an issuer cannot be requested";
    let resource = ResourceServer::start_with(|issuer| {
        issuer.origin().serve("/jwks", Reply::silent());
        format!("jwks = \"{}\"", issuer.origin().url("/nothing"))
    })
    .await;
    let line = resource.server.log_line(FAILURE).await;
    assert!(line.contains("WARN") && line.contains("/nothing") && line.contains("404"), "{line}");
    resource.issuer.origin().serve("/elsewhere", Reply::ok("text/html", "<title>Sign in</title>"));
    let entry = format!("jwks = \"{}\"", resource.issuer.origin().url("/elsewhere"));
    let issuer = super::issuer_entry("corp", &resource.issuer.identifier(), &entry);
    resource.config.replace(super::base_config(&resource.folder, &resource.port).append(&issuer));
    let line = resource.server.log_line("/elsewhere").await;
    assert!(line.contains(FAILURE), "{line}");
    assert_eq!(resource.fetches(), 0, "no token was needed for that");
    resource.server.end().await;
}

#[tokio::test]
async fn the_start_does_not_wait_for_keys() {
    let resource = ResourceServer::start_with(|issuer| {
        issuer.origin().serve("/jwks", Reply::silent());
        jwks(issuer)
    })
    .await;
    resource.issuer.origin().wait_for_count("/jwks", 1).await;
    assert_eq!(reqwest::get(resource.server.url_for("/healthz")).await.unwrap().status(), StatusCode::OK);
    resource.server.end().await;
}

#[tokio::test]
async fn the_last_keys_count_while_their_server_is_down() {
    let resource = ResourceServer::start().await;
    resource.assert_valid(&resource.token("alice")).await;
    resource.issuer.origin().take_down().await;
    resource.assert_valid(&resource.token("bob")).await;
    let other = SigningKey::new("key-2");
    let of_unknown_key = resource.list(&other.sign(&other.header(), &resource.claims("alice"))).await;
    assert_eq!(of_unknown_key.status(), StatusCode::SERVICE_UNAVAILABLE, "its issuer cannot be asked");
    resource.assert_valid(&resource.token("bob")).await;
    resource.server.end().await;
}

#[tokio::test]
async fn who_hangs_up_does_not_cancel_the_request_for_the_keys() {
    let resource = ResourceServer::start_with(|issuer| {
        let keys = json!({ "keys": [issuer.key().jwk()] });
        let slow = Reply::ok("application/json", keys.to_string()).after(Duration::from_millis(700));
        issuer.origin().serve("/jwks", slow);
        jwks(issuer)
    })
    .await;
    let asking = tokio::spawn(resource.list_request().bearer_auth(resource.token("alice")).send());
    resource.issuer.origin().wait_for_count("/jwks", 1).await;
    asking.abort();
    assert!(asking.await.is_err_and(|error| error.is_cancelled()));
    resource.assert_valid(&resource.token("alice")).await;
    assert_eq!(resource.fetches(), 1);
    resource.server.end().await;
}

/// Starts a server whose issuer answers key requests with this reply. A valid token is not accepted, and the answer
/// reveals nothing about the issuer.
async fn without_keys(reply: impl FnOnce(&ResourceServerKeys) -> Reply) -> ResourceServer {
    let keys = ResourceServerKeys { attacker: MockOrigin::http().await, symmetric: symmetric_key() };
    let reply = reply(&keys);
    let resource = ResourceServer::start_with(|issuer| {
        issuer.origin().serve("/jwks", reply);
        jwks(issuer)
    })
    .await;
    keys.attacker
        .serve("/jwks", Reply::ok("application/json", json!({ "keys": [resource.issuer.key().jwk()] }).to_string()));
    let refused = resource.list(&resource.token("alice")).await.status();
    assert!([StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE].contains(&refused), "{refused}");
    let symmetric = sign_hs256(&json!({ "alg": "HS256", "kid": "key-1" }), &resource.claims("alice"), b"secret");
    assert_eq!(resource.list(&symmetric).await.status(), StatusCode::UNAUTHORIZED, "no key would help");
    assert_eq!(keys.attacker.requests(), [], "redirects are not followed");
    resource
}

struct ResourceServerKeys {
    attacker: MockOrigin,
    symmetric: Value,
}

fn symmetric_key() -> Value {
    json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "key-1", "alg": "HS256" })
}

/// The maximum growth of the server's peak memory.
const MEMORY: u64 = 64 << 20;

#[tokio::test]
async fn what_is_no_set_of_keys_has_none() {
    for what in ["html", "empty", "list", "number", "status", "symmetric", "private", "truncated"] {
        let resource = without_keys(|keys| match what {
            "html" => Reply::ok("text/html", "<!doctype html><title>Sign in</title>"),
            "empty" => Reply::ok("application/json", ""),
            "list" => Reply::ok("application/json", "[]"),
            "number" => Reply::ok("application/json", "{\"keys\":7}"),
            "status" => Reply::status(500),
            "symmetric" => Reply::ok("application/json", json!({ "keys": [keys.symmetric] }).to_string()),
            "private" => Reply::ok(
                "application/json",
                json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "key-1" }] }).to_string(),
            ),
            _ => Reply::ok("application/json", "{\"keys\":[]}").truncate_after(5),
        })
        .await;
        resource.server.end().await;
    }
}

#[tokio::test]
async fn a_redirect_of_the_server_of_keys_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let resource = without_keys(|keys| Reply::redirect(status, &keys.attacker.url("/jwks"))).await;
        resource.server.end().await;
    }
}

#[tokio::test]
async fn a_server_of_keys_that_never_ends_costs_bounded_time_and_memory() {
    for reply in [
        Reply::silent(),
        Reply::endless(),
        Reply::endless_headers(),
        Reply::drip(Duration::from_millis(50)),
        Reply::ok("application/json", " ".repeat(MAX_KEYS + 1)),
    ] {
        let resource = without_keys(|_| reply).await;
        assert!(resource.server.peak_rss() < resource.server.rss() + MEMORY);
        resource.issuer.origin().wait_until_idle().await;
        resource.server.end().await;
    }
}

#[tokio::test]
async fn others_are_served_while_a_server_of_keys_hangs() {
    let resource = ResourceServer::start_with_config(
        |issuer| {
            issuer.origin().serve("/jwks", Reply::silent());
            jwks(issuer)
        },
        |config| config.rule(mcp_host_tests::Rule::for_principal("anonymous").allow(["faulty://m/g"])),
    )
    .await;
    let request = resource.list_request().bearer_auth(resource.token("alice"));
    let waiting = tokio::spawn(request.send());
    resource.issuer.origin().wait_for_count("/jwks", 1).await;
    let anonymous = super::uris(resource.list_request().send().await.unwrap()).await;
    assert_eq!(anonymous, ["faulty://m/g"]);
    assert!(!waiting.is_finished() || waiting.await.unwrap().unwrap().status() != StatusCode::OK);
    resource.server.end().await;
}

#[tokio::test]
async fn who_waits_for_keys_shares_the_request_of_the_first_also_when_it_fails() {
    let resource = ResourceServer::start_with(|issuer| {
        issuer.origin().serve("/jwks", Reply::silent());
        jwks(issuer)
    })
    .await;
    let token = resource.token("alice");
    let waiting: Vec<_> = (0..6).map(|_| tokio::spawn(resource.list_request().bearer_auth(&token).send())).collect();
    for request in waiting {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(resource.fetches(), 1);
    resource.server.end().await;
}

#[tokio::test]
async fn many_keys_and_strange_keys_do_not_keep_the_right_one_from_counting() {
    let resource = ResourceServer::start_with(|issuer| {
        let mut keys = vec![
            symmetric_key(),
            json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "key-2" }),
            json!({ "kty": "EC", "crv": "P-1000", "x": "AA", "y": "AA", "kid": "key-3" }),
            json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "key-4" }),
            json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "key-5", "use": "enc" }),
        ];
        keys.push(issuer.key().jwk());
        issuer.origin().serve("/jwks", Reply::ok("application/json", json!({ "keys": keys }).to_string()));
        jwks(issuer)
    })
    .await;
    resource.assert_valid(&resource.token("alice")).await;
    let secret_of_symmetric =
        sign_hs256(&json!({ "alg": "HS256", "kid": "key-1" }), &resource.claims("alice"), b"secret");
    resource.assert_invalid(&secret_of_symmetric, "a symmetric key").await;
    resource.server.end().await;
}

#[tokio::test]
async fn keys_can_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let resource = ResourceServer::start_with(|issuer| {
        std::fs::write(&file, json!({ "keys": [issuer.key().jwk()] }).to_string()).unwrap();
        format!("jwks = {{ file = \"{}\" }}", file.display())
    })
    .await;
    resource.assert_valid(&resource.token("alice")).await;
    assert_eq!(resource.issuer.origin().requests(), []);
    let next = SigningKey::new("key-2");
    std::fs::write(&file, json!({ "keys": [next.jwk()] }).to_string()).unwrap();
    resource.wait_until_valid(&next.sign(&next.header(), &resource.claims("alice"))).await;
    resource.assert_invalid(&resource.token("alice"), "of a key that was removed").await;
    resource.server.end().await;
}
