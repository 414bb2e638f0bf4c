//! The policy for browsers (`Content-Security-Policy`), which every answer of the listener has.

use mcp_host_tests::{CertificateAuthority, ConfigFile, Plugin};
use serde_json::json;

use super::super::{Administered, LOOPBACK, TOKEN, broken, with_token};

/// The whole policy of every response, and the attributes that narrow it.
const POLICIES: [&str; 2] = [
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; frame-ancestors 'none'; \
     base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'",
    "trusted-types dompurify",
];

/// Requires the policy in a response with this status.
async fn assert_policy(request: reqwest::RequestBuilder, status: u16) {
    let shown = format!("{request:?}");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), status, "{shown}");
    let all = |name: &str| {
        let fields = response.headers().get_all(name).iter();
        fields.map(|field| field.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(all("content-security-policy"), POLICIES, "{shown}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(all(name), [value], "{shown}");
    }
    // No element leads to another page.
    assert!(all("location").is_empty() && all("refresh").is_empty(), "{shown}");
}

#[tokio::test]
async fn every_answer_has_the_whole_policy_whatever_it_is() {
    let (authority, folder) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
    let config = ConfigFile::new().plugin(Plugin::sample("sample")).plugin(broken(folder.path()).set("required", true));
    let config = config.audit("file", "audit.jsonl").append(&with_token(folder.path())).write();
    let admin = Administered::start(&config).await;
    let origin = format!("http://{}", admin.address);
    // A redirect would be a response like any other.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let get = |path: &str| client.get(format!("{origin}{path}"));
    let post = |path: &str| client.post(format!("{origin}{path}"));
    let page =
        |request: reqwest::RequestBuilder| request.header("Origin", &origin).header("Sec-Fetch-Site", "same-origin");
    let authorized = |request: reqwest::RequestBuilder| request.bearer_auth(TOKEN);
    for file in ["/", "/console.js", "/chart.js", "/preview.js", "/console.css", "/icon.svg"] {
        assert_policy(get(file), 200).await;
        assert_policy(client.head(format!("{origin}{file}")), 200).await;
        let tag = get(file).send().await.unwrap().headers()["etag"].clone();
        assert_policy(get(file).header("If-None-Match", tag), 304).await;
        assert_policy(get(file).header("Accept-Encoding", "gzip"), 200).await;
        assert_policy(post(file), 405).await;
    }
    for absent in ["/console.map", "/index.html", "/console", "/console/", "/console/login/", "//", "/mcp", "/api"] {
        let status = get(absent).send().await.unwrap().status().as_u16();
        assert!((400..500).contains(&status), "{absent}: {status}");
        assert_policy(get(absent), status).await;
    }
    assert_policy(get("/console/login"), 405).await;
    assert_policy(post("/console/login").json(&json!({ "token": TOKEN })), 403).await;
    assert_policy(page(post("/console/login")).json(&json!({ "token": "wrong" })), 401).await;
    assert_policy(page(post("/console/login")).body("{"), 415).await;
    assert_policy(page(post("/console/login")).json(&json!([])), 400).await;
    assert_policy(page(post("/console/login")).json(&json!({ "token": TOKEN })), 200).await;
    assert_policy(page(post("/console/logout")).json(&json!({})), 200).await;
    for path in ["/api/v1/status", "/api/v1/nothing", "/api/v1/plugins/nothing", "/api/v1/audit?follow"] {
        assert_policy(get(path), 401).await;
    }
    assert_policy(authorized(get("/api/v1/status")), 200).await;
    assert_policy(authorized(get("/api/v1/nothing")), 404).await;
    assert_policy(authorized(get("/api/v1/plugins/nothing")), 404).await;
    assert_policy(authorized(get("/api/v1/status?limit=0")), 400).await;
    assert_policy(authorized(post("/api/v1/status")), 405).await;
    assert_policy(authorized(get("/api/v1/audit?follow")), 200).await;
    assert_policy(authorized(post("/api/v1/browse/watch")).json(&json!({})), 200).await;
    let uri = |uri: &str| json!({ "uri": uri });
    assert_policy(authorized(post("/api/v1/browse/read")).json(&uri("sample://sample/all")), 200).await;
    assert_policy(authorized(post("/api/v1/browse/read")).json(&uri("sample://sample/internal")), 502).await;
    for (path, status) in [("/livez", 200), ("/readyz", 503), ("/metrics", 200)] {
        assert_policy(get(path), status).await;
    }
    assert_policy(get("/").header("Host", "evil.example"), 403).await;
    assert_policy(get("/").header("Host", "a@b"), 400).await;
    assert_policy(get("/").header("Origin", "https://evil.example"), 403).await;
    admin.server.end().await;

    // Without encryption, although a certificate is configured.
    let files = "tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n";
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(&format!("{}{files}", LOOPBACK)).write();
    config.write_certificate(&authority.issue("localhost"));
    let admin = Administered::start(&config).await;
    for (path, status) in
        [("/", 403), ("/console.js", 403), ("/console/login", 403), ("/api/v1/status", 403), ("/livez", 200)]
    {
        assert_policy(client.get(format!("http://{}{path}", admin.address)), status).await;
    }
    admin.server.end().await;
}
