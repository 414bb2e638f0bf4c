//! The response cache: hidden resources affect neither which responses are cached nor for how long.

use std::sync::Arc;

use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use mcp_resource_host::watch::Update;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::notifications::{BARRIER, Compared, ROUNDS, TIMEOUT, worlds};
use super::world::{COLLECTION, Contents, Providers, ROOT, Rules, is_allowed, started};
use super::{InProcess, walk};
use crate::revision::Revision;

/// Rounds times to live up to minutes, because they count down.
fn round_ttls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(ttl) = members.get_mut("ttlMs") {
                *ttl = json!(ttl.as_u64().unwrap().div_ceil(60_000));
            }
            members.values_mut().for_each(round_ttls);
        }
        Value::Array(items) => items.iter_mut().for_each(round_ttls),
        _ => {}
    }
}

/// The first and the second answers to each request, with the number of provider calls.
async fn answers(host: &Arc<Host>, providers: &Providers) -> Vec<(String, Vec<Value>, usize)> {
    // Answers of extensions are not cached.
    let client = InProcess { extensions: &[], ..InProcess::new(host, Revision::LATEST) };
    let reads = ["pub/a.txt", "blob/main/a.txt", "%C3%84/c.md"].map(|path| format!("part://h/{path}"));
    let reads = reads.map(|uri| ("resources/read", json!({ "uri": uri })));
    let requests: Vec<_> = [("resources/list", json!({}))].into_iter().chain(reads).collect();
    let mut answers = Vec::new();
    for (method, params) in requests.iter().chain(&requests) {
        let before = providers.calls();
        let mut told = walk(&client, method, params).await;
        told.iter_mut().for_each(round_ttls);
        answers.push((format!("{method} {params}"), told, providers.calls() - before));
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_an_answer_holds_does_not_depend_on_what_is_hidden() {
    for rules in [Rules::Deny, Rules::Both] {
        let common = ["pub/a.txt", "pub/c.md", "blob/main/a.txt", "blob/main/c.md", "A%CC%88/c.md"];
        // Without a time to live, and with a short one.
        let own = ["pub/.env", "blob/main/.env", "secret/secret", "blob/secret", "A%CC%88/.env", "blob/main/b.txt"];
        let [common, own] = [&common[..], &own].map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
        let (common, own): (Vec<String>, Vec<String>) = (common, own);
        let drawn = [common.clone(), own.clone()].concat();
        let policy = rules.policy();
        let mut told = Vec::new();
        for own in [&[], &own[..]] {
            let dir = tempfile::tempdir().unwrap();
            let providers = Providers::new();
            providers.cache();
            providers.set(Contents::new(&drawn, &common, own, &|uri| is_allowed(&policy, uri)));
            let host = providers.start(rules, dir.path(), false).await;
            told.push(answers(&host, &providers).await);
        }
        let [first, second] = [0, 1].map(|index| told[index].clone());
        if rules == Rules::Deny {
            let read_again = first.iter().rev().find(|(request, ..)| request.contains("blob/main")).unwrap();
            assert_eq!((&read_again.1[0]["result"]["ttlMs"], read_again.2), (&json!(60), 0), "{read_again:?}");
        }
        for (one, other) in first.iter().zip(&second) {
            let (request, ..) = one;
            // Filling a page of a listing takes more calls the more entries are hidden.
            let calls = |answer: &(String, Vec<Value>, usize)| (!request.contains("list")).then_some(answer.2);
            assert_eq!((&one.1, calls(one)), (&other.1, calls(other)), "{rules:?} {request}");
        }
    }
}

/// The times to live of an answer, in milliseconds.
fn ttls(value: &Value) -> Vec<u64> {
    match value {
        Value::Object(members) => {
            let own = members.get("ttlMs").and_then(Value::as_u64);
            own.into_iter().chain(members.values().flat_map(ttls)).collect()
        }
        Value::Array(items) => items.iter().flat_map(ttls).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_changes_that_another_is_notified_of_drop_nothing() {
    let (_dir, providers, host) = started(Rules::Deny).await;
    let policy = host.policy(&super::principal());
    let worlds = worlds(&|uri: &str| is_allowed(&policy, uri));
    providers.cache();
    providers.set(worlds[0].clone());
    // Another principal watches everything except the resources that are read here.
    let root = host.subscriber(&Principal::new(ROOT));
    root.watch_listing();
    timeout(TIMEOUT, root.listing_ready()).await.unwrap();
    for uri in ["part://h/secret/1.md", "part://h/secret/", &format!("part://h/{COLLECTION}")] {
        timeout(TIMEOUT, host.subscribe(&root, uri)).await.unwrap().unwrap();
    }
    let client = InProcess { extensions: &[], ..InProcess::new(&host, Revision::LATEST) };
    let requests = [
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": BARRIER })),
        ("resources/read", json!({ "uri": format!("part://h/{COLLECTION}") })),
    ];
    let mut before = Vec::new();
    // The first answer with a time to live is not cached.
    for _ in 0..3 {
        before.clear();
        for (method, params) in &requests {
            before.push(ttls(&json!(walk(&client, method, params).await)));
        }
    }
    assert!(before.iter().all(|ttls| ttls.iter().any(|ttl| *ttl > 0)), "{before:?}");
    for round in 1..=ROUNDS {
        let compared = Compared::now(&providers);
        providers.set(worlds[round % 2].clone().with_edit("secret/1.md"));
        while timeout(TIMEOUT, root.next()).await.unwrap() != Update::Listing {}
        compared.wait_for_more(&providers, 1, 0).await;
        // Times to live count down by milliseconds, so a new response has a larger one.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        for ((method, params), before) in requests.iter().zip(&mut before) {
            let now = ttls(&json!(walk(&client, method, params).await));
            // 0 belongs to a page with an item without a time to live.
            let is_older = now.iter().zip(&*before).all(|(now, before)| now < before || (*now, *before) == (0, 0));
            assert!(is_older && now.len() == before.len(), "{method} {params}: {before:?} {now:?}");
            *before = now;
        }
    }
}
