//! Search and context: hits, counts and completions do not depend on hidden resources, although the index contains
//! them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::over_http::HttpClient;
use super::world::ADA;
use super::world::{Contents, Providers, Rules, is_allowed};
use super::{Client, InProcess};
use crate::revision::Revision;

const TEMPLATE: &str = "search:///{?q,in,kind,lang,limit}";

fn samples() -> Vec<(&'static str, Value)> {
    let mut samples = Vec::new();
    for query in ["words", "text", "secret", "main", "nothing"] {
        samples.push(("tools/call", json!({ "name": "search_resources", "arguments": { "query": query } })));
        samples.push(("tools/call", json!({ "name": "resource_context", "arguments": { "query": query } })));
        samples.push(("resources/read", json!({ "uri": format!("search:///?q={query}") })));
        samples.push(("resources/read", json!({ "uri": format!("search:///?q={query}&in=hidden://h/") })));
        samples.push(("resources/read", json!({ "uri": format!("search:///?q={query}&in=part://h/secret/") })));
        samples.push(("resources/read", json!({ "uri": format!("search:///?q={query}&kind=n/o/n/e") })));
        samples.push(("resources/read", json!({ "uri": format!("context:///?q={query}&budget=200") })));
    }
    for variable in ["in", "kind", "lang", "q", "limit"] {
        let argument = json!({ "name": variable, "value": "" });
        let params = json!({ "ref": { "type": "ref/resource", "uri": TEMPLATE }, "argument": argument });
        samples.push(("completion/complete", params));
    }
    samples
}

/// The complete answer: a search that takes long is partial, so it is repeated.
async fn whole(client: &impl Client, method: &str, params: &Value) -> Value {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60), "{method} {params}");
        let answer = client.send(method, params).await.unwrap();
        let text = answer.to_string();
        if !text.contains("partial\\\":true") && !text.contains("\"partial\":true") && !text.contains("retryAfterMs") {
            return answer;
        }
    }
}

async fn answers(client: &impl Client, rules: Rules) -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    for (method, params) in samples() {
        answers.push((format!("{rules:?} {method} {params}"), whole(client, method, &params).await));
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_found_does_not_depend_on_what_is_hidden() {
    for rules in [Rules::Deny, Rules::Allow] {
        let common: Vec<String> = ["pub/a.txt", "pub/c.md", "blob/main/c.md"].map(str::to_owned).into();
        let own = ["secret/a.txt", "secret/secret.md", "blob/secret/c.md", "pub/.env"].map(str::to_owned);
        let drawn: Vec<String> = common.iter().chain(&own).cloned().collect();
        let mut told = Vec::new();
        for own in [&own[..], &own[..1], &[]] {
            let dir = tempfile::tempdir().unwrap();
            let providers = Providers::new();
            let policy = rules.policy();
            providers.set(Contents::new(&drawn, &common, own, &|uri| is_allowed(&policy, uri)));
            let host = providers.start(rules, dir.path(), true).await;
            host.wait_until_indexed().await;
            let mut answers = answers(&InProcess::new(&host, Revision::LATEST), rules).await;
            answers.extend(self::answers(&HttpClient::stateless(&host, ADA), rules).await);
            told.push(answers);
        }
        let text = format!("{:?}", told[0]);
        assert!(text.contains("part://h/pub/c.md") && !text.contains("part://h/secret/secret.md"), "{text}");
        let (first, others) = told.split_first().unwrap();
        for other in others {
            for (one, other) in first.iter().zip(other) {
                assert_eq!(one, other);
            }
        }
    }
}
