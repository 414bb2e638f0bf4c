//! The claims of a token: issuer, audience, and validity period.

use mcp_host_tests::unix_time;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::ResourceServer;

/// A time that exceeds every tolerance for clocks.
const LONG: u64 = 600;

#[tokio::test]
async fn a_valid_token_is_a_principal_with_the_rules_of_its_name_and_of_its_groups() {
    let resource = ResourceServer::start().await;
    assert_eq!(resource.uris(&resource.token("alice")).await, ["faulty://m/f"]);
    assert!(resource.uris(&resource.token("bob")).await.is_empty());
    let mut engineer = resource.claims("bob");
    engineer["groups"] = json!(["designers", "engineers"]);
    assert_eq!(resource.uris(&resource.issuer.sign(&engineer)).await, ["faulty://m/f", "faulty://m/g"]);
    resource.server.end().await;
}

#[tokio::test]
async fn only_a_token_from_the_issuer_for_this_server_that_is_valid_now_is_accepted() {
    let resource = ResourceServer::start().await;
    let (now, audience, issuer) = (unix_time(), resource.audience(), resource.issuer.identifier());
    let origin = audience.trim_end_matches("/mcp");
    for (what, claim, value) in [
        ("expired", "exp", json!(now - LONG)),
        ("expired in 1970", "exp", json!(0)),
        ("expired before 1970", "exp", json!(-1)),
        ("without expiry", "exp", Value::Null),
        ("with an expiry that is text", "exp", json!("9999999999")),
        ("with an expiry that is a list", "exp", json!([now + LONG])),
        ("not valid yet", "nbf", json!(now + LONG)),
        ("with a begin that is text", "nbf", json!("0")),
        ("for another server", "aud", json!("https://other.example.com/mcp")),
        ("for several other servers", "aud", json!(["https://other.example.com", "https://another.example.com"])),
        ("for the origin", "aud", json!(origin)),
        ("for a path below", "aud", json!(format!("{audience}/more"))),
        ("for a prefix", "aud", json!(audience[..audience.len() - 1])),
        ("for another scheme", "aud", json!(audience.replacen("http", "https", 1))),
        ("for `localhost`", "aud", json!(audience.replacen("127.0.0.1", "localhost", 1))),
        ("for nobody", "aud", json!([])),
        ("for an empty audience", "aud", json!("")),
        ("for a number", "aud", json!(1)),
        ("without audience", "aud", Value::Null),
        ("from another issuer", "iss", json!("https://evil.example.com")),
        ("from an issuer with a slash at its end", "iss", json!(format!("{issuer}/"))),
        ("from the name of the issuer", "iss", json!("corp")),
        ("from several issuers", "iss", json!([issuer, "https://evil.example.com"])),
        ("without issuer", "iss", Value::Null),
        ("bound to a key of the client", "cnf", json!({ "jkt": "x" })),
        ("without subject", "sub", Value::Null),
        ("with an empty subject", "sub", json!("")),
        ("with a subject that is a number", "sub", json!(7)),
        ("with a subject that is a list", "sub", json!(["alice"])),
    ] {
        let mut claims = resource.claims("alice");
        match &value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(claim)),
            value => claims[claim] = value.clone(),
        }
        resource.assert_invalid(&resource.issuer.sign(&claims), what).await;
    }
    for (what, claim, value) in [
        ("for the URL as libraries write it", "aud", json!(format!("{audience}/"))),
        ("for several servers", "aud", json!(["https://other.example.com", audience])),
        ("valid since a while", "nbf", json!(now - LONG)),
        ("valid for long", "exp", json!(u64::from(u32::MAX) * 2)),
        ("with a fraction of a second", "exp", json!(now as f64 + 600.5)),
        ("with a claim that nobody knows", "extra", json!({ "deep": [{ "er": null }] })),
    ] {
        let mut claims = resource.claims("alice");
        claims[claim] = value;
        assert_eq!(resource.uris(&resource.issuer.sign(&claims)).await, ["faulty://m/f"], "{what}");
    }
    resource.server.end().await;
}

#[tokio::test]
async fn a_token_is_taken_from_one_authorization_header_only() {
    let resource = ResourceServer::start().await;
    let token = resource.token("alice");
    let in_url = Client::new().post(format!("{}?access_token={token}", resource.server.url()));
    assert_eq!(in_url.send().await.unwrap().status(), StatusCode::UNAUTHORIZED, "in the URL");
    let (valid, other) = (format!("Bearer {token}"), format!("Bearer {}", resource.token("bob")));
    for (what, headers, status) in [
        ("twice", vec![("authorization", &valid), ("authorization", &valid)], StatusCode::BAD_REQUEST),
        ("two tokens", vec![("authorization", &other), ("authorization", &valid)], StatusCode::BAD_REQUEST),
        ("two in one header", vec![("authorization", &format!("{valid}, {other}"))], StatusCode::BAD_REQUEST),
        ("of another scheme", vec![("authorization", &format!("DPoP {token}"))], StatusCode::UNAUTHORIZED),
        ("without a scheme", vec![("authorization", &token)], StatusCode::BAD_REQUEST),
        ("in another header", vec![("x-access-token", &token)], StatusCode::UNAUTHORIZED),
        ("in a proxy's header", vec![("proxy-authorization", &valid)], StatusCode::UNAUTHORIZED),
        ("in a cookie", vec![("cookie", &format!("access_token={token}"))], StatusCode::UNAUTHORIZED),
        ("with the scheme in lower case", vec![("authorization", &format!("bearer {token}"))], StatusCode::OK),
    ] {
        let request =
            headers.into_iter().fold(resource.list_request(), |request, (name, value)| request.header(name, value));
        assert_eq!(request.send().await.unwrap().status(), status, "{what}");
    }
    resource.end_without(&[&token]).await;
}

#[tokio::test]
async fn a_token_of_any_size_and_shape_is_answered() {
    let resource = ResourceServer::start().await;
    let key = resource.issuer.key();
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let claims = resource.claims("alice").to_string();
    let with = |member: &str| format!("{},{member}}}", claims.trim_end_matches('}'));
    let mut groups = resource.claims("alice");
    groups["groups"] = (0..500).map(|number| json!(format!("group-{number}"))).collect();
    let header = key.header().to_string();
    let valid = resource.token("alice");
    for (what, token) in [
        ("empty parts", "..".to_owned()),
        ("one part", "a".to_owned()),
        ("four parts", format!("{valid}.{valid}")),
        ("many parts", ".".repeat(4000)),
        ("an encrypted token", format!("{valid}.a.b")),
        ("with padding", format!("{valid}=")),
        ("a header that is no JSON", key.sign_text("alg: ES256", &claims)),
        ("a header that is a list", key.sign_text("[]", &claims)),
        ("a header that is nested", key.sign_text(&format!("{{\"alg\":\"ES256\",\"x\":{}}}", nested(1500)), &claims)),
        ("claims that are no JSON", key.sign_text(&header, "sub=alice")),
        ("claims that are a list", key.sign_text(&header, &format!("[{claims}]"))),
        ("claims that are not UTF-8", format!("{}.{}.a", valid.split('.').next().unwrap(), "_w")),
        ("claims that are nested", key.sign_text(&header, &with(&format!("\"x\":{}", nested(1500))))),
        ("no claims", key.sign_text(&header, "{}")),
        ("two subjects", key.sign_text(&header, &with("\"sub\":\"bob\""))),
        ("two audiences", key.sign_text(&header, &with("\"aud\":\"https://other.example.com\""))),
        ("many groups", resource.issuer.sign(&groups)),
        ("30 KB", key.sign_text(&header, &with(&format!("\"x\":\"{}\"", "x".repeat(20_000))))),
        ("1 MB", "a".repeat(1 << 20)),
    ] {
        // A header of this size may end the connection.
        let status = resource.list_request().bearer_auth(&token).send().await.map(|answer| answer.status());
        let refused = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE];
        let is_answered = status.as_ref().map_or(token.len() > 100_000, |status| refused.contains(status));
        assert!(is_answered || what == "many groups", "{what}: {status:?}");
    }
    resource.assert_valid(&valid).await;
    resource.server.end().await;
}

#[tokio::test]
async fn an_issuer_that_differs_by_a_slash_is_named_in_the_log() {
    let resource = ResourceServer::start().await;
    let issuer = resource.issuer.identifier();
    let mut claims = resource.claims("alice");
    claims["iss"] = json!(format!("{issuer}/"));
    resource.assert_invalid(&resource.issuer.sign(&claims), "of an issuer with a slash").await;
    resource.server.log_line(&format!("one is `{issuer}`, without a difference but for case or a slash")).await;
    resource.server.end().await;
}
