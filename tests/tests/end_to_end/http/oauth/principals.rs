//! The names of principals and groups from tokens never equal names of the config, of the host or of another issuer.

use std::fs;

use mcp_host_tests::{ConfigFile, Rule, TokenIssuer, wait_until};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{ResourceServer, issuer_entry, jwks};

/// Adds rules for all principals that a token must not be able to become.
fn rules_for_others(config: ConfigFile) -> ConfigFile {
    let others = ["local", "anonymous", "ci", "corp"];
    let config =
        others.into_iter().fold(config, |config, name| config.rule(Rule::for_principal(name).allow(["faulty://m/g"])));
    config
        .principal("ci", "token-of-ci")
        .principal("corp", "token-of-corp")
        .append("\n[[group]]\nname = \"operators\"\nprincipals = [\"ci\"]\n")
        .append("\n[[rule]]\ngroups = [\"operators\"]\nallow = [\"faulty://m/g\"]\n")
        .audit("file", "audit.jsonl")
}

#[tokio::test]
async fn a_subject_is_a_name_of_its_issuer_whatever_it_says() {
    let resource = ResourceServer::start_with_config(jwks, rules_for_others).await;
    let long = "x".repeat(10_000);
    let mut answered = 0;
    for subject in [
        "local",
        "anonymous",
        "ci",
        "corp",
        "*",
        "**",
        "corp/alice",
        "../ci",
        "../../local",
        "..",
        ".",
        "/",
        "//alice",
        "/alice",
        "alice/",
        "alice/..",
        "x/../alice",
        "./alice",
        "a/b",
        "%61lice",
        "alice%00",
        "alice\0",
        "alice\n",
        "\u{1b}[2Jalice",
        "alice\u{200b}",
        "\u{202e}ecila",
        "ａｌｉｃｅ",
        "ALICE",
        " alice",
        "alice ",
        " ",
        "\"",
        "\\",
        "{}",
        "operators",
        "engineers",
        "corp/engineers",
        &long,
    ] {
        let answer = resource.list(&resource.token(subject)).await;
        if answer.status() == StatusCode::OK {
            answered += 1;
            assert!(super::uris(answer).await.is_empty(), "{subject:?} has the rights of another");
        } else {
            let shown: String = subject.chars().take(100).collect();
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{shown:?}");
        }
    }
    let mut lines = Vec::new();
    let file = resource.config.dir().join("audit.jsonl");
    wait_until("every request has its line", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        // The start and failed logins have separate lines.
        lines.retain(|line| line["operation"] == "list");
        lines.len() == answered
    })
    .await;
    for line in &lines {
        let principal = line["principal"].as_str().unwrap();
        assert!(principal.starts_with("corp/") && principal.len() <= 300, "{principal}");
        assert!(!principal.chars().any(char::is_control), "{principal}");
    }
    resource.end_without(&[&"x".repeat(5000), "\u{1b}[2J"]).await;
}

#[tokio::test]
async fn a_claim_of_groups_names_groups_of_its_issuer_only() {
    let resource = ResourceServer::start_with_config(jwks, rules_for_others).await;
    for groups in [
        json!(["operators"]),
        json!("operators"),
        json!(["corp/engineers", "/engineers", "../operators", "*", "ENGINEERS", "engineers ", "engineers\0", ""]),
        json!([["engineers"]]),
        json!({ "engineers": true }),
        json!({ "0": "engineers" }),
        json!([{ "name": "engineers" }]),
        json!(7),
        json!(null),
        json!(true),
    ] {
        let mut claims = resource.claims("bob");
        claims["groups"] = groups.clone();
        let answer = resource.list(&resource.issuer.sign(&claims)).await;
        if answer.status() == StatusCode::OK {
            assert!(super::uris(answer).await.is_empty(), "{groups}");
        } else {
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{groups}");
        }
    }
    resource.server.end().await;
}

#[tokio::test]
async fn two_issuers_have_principals_of_their_own_with_equal_subjects() {
    let other = TokenIssuer::start().await;
    let entry = issuer_entry("partner", &other.identifier(), &jwks(&other));
    let resource = ResourceServer::start_with_config(jwks, |config| config.append(&entry)).await;
    assert_eq!(resource.uris(&resource.token("alice")).await, ["faulty://m/f"]);
    let (claims, audience) = (other.claims("alice", &resource.audience()), resource.audience());
    assert!(resource.uris(&other.sign(&claims)).await.is_empty(), "partner/alice");
    // Each issuer signs only its own tokens.
    let mut foreign = claims.clone();
    foreign["iss"] = json!(resource.issuer.identifier());
    resource.assert_invalid(&other.sign(&foreign), "the key of another issuer").await;
    resource
        .assert_invalid(&resource.issuer.sign(&other.claims("alice", &audience)), "the name of another issuer")
        .await;
    let mut engineer = claims;
    engineer["groups"] = json!(["engineers", "corp/engineers"]);
    assert!(resource.uris(&other.sign(&engineer)).await.is_empty(), "partner/engineers");
    resource.server.end().await;
}

#[tokio::test]
async fn a_session_belongs_to_the_principal_and_not_to_the_token() {
    let resource = ResourceServer::start().await;
    let alice = resource.session(&resource.token("alice")).await;
    let session = alice.session_id().unwrap().to_owned();
    let list = json!({ "jsonrpc": "2.0", "id": 9, "method": "resources/list", "params": {} });
    let with = |token: String| {
        let request = resource.server.uninitialized(mcp_host_tests::Revision::V_2025_11_25).post(&list);
        request.header("mcp-session-id", &session).bearer_auth(token).send()
    };
    let mut refreshed = resource.claims("alice");
    refreshed["jti"] = json!("another token");
    assert_eq!(with(resource.issuer.sign(&refreshed)).await.unwrap().status(), StatusCode::OK);
    assert_eq!(with(resource.token("bob")).await.unwrap().status(), StatusCode::NOT_FOUND);
    resource.server.end().await;
}

#[tokio::test]
async fn a_config_without_a_public_url_has_no_issuers() {
    let issuer = TokenIssuer::start().await;
    let config = ConfigFile::new().append(&issuer_entry("corp", &issuer.identifier(), &jwks(&issuer))).write();
    let refused = mcp_host_tests::run(["check", "--config", config.path().to_str().unwrap()]).await;
    assert_eq!(refused.code(), 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("`[[issuer]]` requires `http.public-url`"), "{}", refused.stderr);
}
