//! An issuer of access tokens that a test controls: its keys, its tokens, valid or not, and what its endpoints answer.
//!
//! ```no_run
//! # use mcp_host_tests::TokenIssuer;
//! # use serde_json::json;
//! # async fn test() {
//! let issuer = TokenIssuer::start().await; // Serves its keys at `/jwks`.
//! let claims = issuer.claims("alice", "http://127.0.0.1:8080/mcp"); // Valid for an hour.
//! let valid = issuer.sign(&claims);
//! let other = issuer.key().sign(&json!({ "alg": "ES256", "typ": "at+jwt", "jku": "…" }), &claims);
//! # }
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::{MockOrigin, Reply};

/// An issuer with one key, on a web server of its own.
#[derive(Debug)]
pub struct TokenIssuer {
    origin: MockOrigin,
    key: SigningKey,
}

impl TokenIssuer {
    /// Starts an issuer that serves its keys at `/jwks`.
    pub async fn start() -> Self {
        let issuer = Self { origin: MockOrigin::http().await, key: SigningKey::new("key-1") };
        issuer.serve_keys([&issuer.key]);
        issuer
    }

    /// Its web server.
    pub fn origin(&self) -> &MockOrigin {
        &self.origin
    }

    /// Its issuer identifier.
    pub fn identifier(&self) -> String {
        self.origin.origin()
    }

    /// Its key.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Serves exactly these keys.
    pub fn serve_keys<'a>(&self, keys: impl IntoIterator<Item = &'a SigningKey>) {
        let keys: Vec<Value> = keys.into_iter().map(SigningKey::jwk).collect();
        self.origin.serve("/jwks", Reply::ok("application/json", json!({ "keys": keys }).to_string()));
    }

    /// The claims of a valid token of that subject for that audience, for an hour, with all scopes and without groups.
    pub fn claims(&self, subject: &str, audience: &str) -> Value {
        let now = unix_time();
        json!({
            "iss": self.identifier(),
            "sub": subject,
            "aud": audience,
            "iat": now,
            "exp": now + 3600,
            "jti": "token",
            "client_id": "client",
            "scope": "mcp:read mcp:subscribe",
        })
    }

    /// A token with those claims, signed with its key.
    pub fn sign(&self, claims: &Value) -> String {
        self.key.sign(&self.key.header(), claims)
    }
}

/// A key pair for `ES256`.
#[derive(Debug)]
pub struct SigningKey {
    id: String,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    /// Creates a key with that id.
    pub fn new(id: &str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("keys can be made");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).expect("a key can be read again");
        Self { id: id.to_owned(), pair }
    }

    /// The public key as an uncompressed point of the curve.
    pub fn public_key(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// The public key as a JWK.
    pub fn jwk(&self) -> Value {
        // An uncompressed point: 0x04, then the coordinates.
        let (x, y) = self.public_key()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": self.id, "use": "sig", "alg": "ES256" })
    }

    /// The JOSE header of a valid token.
    pub fn header(&self) -> Value {
        json!({ "alg": "ES256", "typ": "at+jwt", "kid": self.id })
    }

    /// A token with any header and claims, signed with this key.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        self.sign_text(&header.to_string(), &claims.to_string())
    }

    /// A token with any texts in place of header and claims, signed with this key.
    pub fn sign_text(&self, header: &str, claims: &str) -> String {
        let content = encode(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), content.as_bytes()).expect("a key signs");
        format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// A token whose signature is an HMAC with SHA-256.
pub fn sign_hs256(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let content = encode(&header.to_string(), &claims.to_string());
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), content.as_bytes());
    format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A token without a signature.
pub fn unsigned_token(header: &Value, claims: &Value) -> String {
    encode(&header.to_string(), &claims.to_string()) + "."
}

/// The number of seconds since 1970.
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs()
}

fn encode(header: &str, claims: &str) -> String {
    [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
}
