//! The signature of a token: the algorithm and the key.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mcp_host_tests::{MockOrigin, Reply, SigningKey, sign_hs256, unsigned_token};
use serde_json::json;

use super::ResourceServer;

#[tokio::test]
async fn a_token_without_a_signature_is_refused() {
    let resource = ResourceServer::start().await;
    let claims = resource.claims("alice");
    for algorithm in ["none", "None", "NONE", "nOnE", "", "HS0"] {
        for header in [json!({ "alg": algorithm }), json!({ "alg": algorithm, "typ": "at+jwt", "kid": "key-1" })] {
            resource.assert_invalid(&unsigned_token(&header, &claims), algorithm).await;
            // The signature is correct for the algorithm.
            resource.assert_invalid(&resource.issuer.key().sign(&header, &claims), algorithm).await;
        }
    }
    let valid = resource.token("alice");
    let (content, _) = valid.rsplit_once('.').unwrap();
    for signature in ["", ".", "A", &"A".repeat(86), &"A".repeat(4000)] {
        resource.assert_invalid(&format!("{content}.{signature}"), "another signature").await;
    }
    resource.assert_valid(&valid).await;
    resource.server.end().await;
}

#[tokio::test]
async fn a_public_key_is_no_secret_that_signs_tokens() {
    let resource = ResourceServer::start().await;
    let (key, claims) = (resource.issuer.key(), resource.claims("alice"));
    let jwk = key.jwk();
    // The prefix of an ECDSA key on P-256 as `SubjectPublicKeyInfo`.
    let prefix = URL_SAFE_NO_PAD.decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA").unwrap();
    let der = [&prefix, key.public_key()].concat();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&der));
    let (set, jwk) = (json!({ "keys": [jwk] }).to_string(), jwk.to_string());
    let secrets =
        [key.public_key(), &key.public_key()[1..], &der, pem.as_bytes(), jwk.as_bytes(), set.as_bytes(), b"", b"key-1"];
    for secret in secrets {
        for header in [json!({ "alg": "HS256", "kid": "key-1" }), json!({ "alg": "HS256" }), key.header()] {
            resource.assert_invalid(&sign_hs256(&header, &claims, secret), &header.to_string()).await;
        }
    }
    resource.server.end().await;
}

#[tokio::test]
async fn a_token_of_another_key_or_algorithm_is_refused() {
    let resource = ResourceServer::start().await;
    let claims = resource.claims("alice");
    let (other, key) = (SigningKey::new("key-1"), resource.issuer.key());
    resource.assert_invalid(&other.sign(&other.header(), &claims), "another key of the same name").await;
    for algorithm in ["ES384", "ES512", "ES256K", "RS256", "PS256", "EdDSA", "HS256", "es256", "RSA-OAEP"] {
        let header = json!({ "alg": algorithm, "typ": "at+jwt", "kid": "key-1" });
        resource.assert_refused(&key.sign(&header, &claims), algorithm).await;
    }
    for header in [
        json!({ "kid": "key-1" }),
        json!({ "alg": null, "kid": "key-1" }),
        json!({ "alg": ["ES256"], "kid": "key-1" }),
        json!({ "alg": "ES256", "kid": 1 }),
        json!({ "alg": "ES256", "kid": "key-1", "typ": "logout+jwt" }),
        json!({ "alg": "ES256", "kid": "key-1", "typ": "dpop+jwt" }),
        json!({ "alg": "ES256", "kid": "key-1", "zip": "DEF" }),
        json!({ "alg": "ES256", "kid": "key-1", "crit": ["exp"], "exp": 1 }),
        json!({ "alg": "ES256", "kid": "key-1", "crit": ["b64"], "b64": false }),
        json!({ "alg": "ES256", "kid": "../../etc/passwd" }),
        json!({ "alg": "ES256", "kid": "key-1' OR '1'='1" }),
    ] {
        resource.assert_refused(&key.sign(&header, &claims), &header.to_string()).await;
    }
    for header in [
        json!({ "alg": "ES256" }),
        json!({ "alg": "ES256", "kid": "key-1" }),
        json!({ "alg": "ES256", "kid": "key-1", "typ": "JWT" }),
        json!({ "alg": "ES256", "kid": "key-1", "typ": "application/at+jwt" }),
    ] {
        resource.assert_valid(&key.sign(&header, &claims)).await;
    }
    resource.server.end().await;
}

#[tokio::test]
async fn a_token_does_not_say_where_its_key_is() {
    let resource = ResourceServer::start().await;
    let attacker = MockOrigin::http().await;
    let key = SigningKey::new("key-of-the-attacker");
    let keys = json!({ "keys": [key.jwk()] }).to_string();
    for path in ["/jwks", "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/cert.pem"] {
        attacker.serve(path, Reply::ok("application/json", keys.clone()));
    }
    for id in ["key-of-the-attacker", "key-1"] {
        for claims in [resource.claims("alice"), {
            let mut claims = resource.claims("alice");
            claims["iss"] = json!(attacker.origin());
            claims
        }] {
            for (member, value) in [
                ("jwk", key.jwk()),
                ("jku", json!(attacker.url("/jwks"))),
                ("x5u", json!(attacker.url("/cert.pem"))),
                ("x5c", json!([STANDARD.encode(key.public_key())])),
                ("iss", json!(attacker.origin())),
            ] {
                let mut header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": id });
                header[member] = value;
                resource.assert_refused(&key.sign(&header, &claims), member).await;
            }
        }
    }
    assert_eq!(attacker.requests(), [], "nothing is fetched from where a token says");
    // These headers are ignored in a token with the issuer's key.
    let mut header = resource.issuer.key().header();
    header["jku"] = json!(attacker.url("/jwks"));
    resource.assert_valid(&resource.issuer.key().sign(&header, &resource.claims("alice"))).await;
    assert_eq!(attacker.requests(), []);
    resource.server.end().await;
}
