//! Assertions of service accounts: JSON Web Tokens that are signed with RS256 (RFC 7523, section 3).
//!
//! They are signed with `ring`, which TLS uses, too, and not with `jsonwebtoken`: its cryptography comes from a
//! provider that is set once per process, possibly by the embedding application, and possibly without signing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_config::EndpointUrl;
use mcp_host_config::grants::ServiceAccountKey;
use mcp_host_config::issuer::Scope;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;
use zeroize::Zeroizing;

use super::TokenError;

/// The time from `iat` to `exp`. Google accepts at most an hour.
const LIFETIME: Duration = Duration::from_secs(3600);
/// The offset of `iat` into the past, for a token server whose clock is behind.
const LEEWAY: Duration = Duration::from_secs(60);

/// Signs an assertion for a service account. The audience is the token endpoint that the key names, even if the
/// assertion is sent to another one, or the actual endpoint if the key names none.
pub(super) fn sign(
    key: &ServiceAccountKey,
    subject: Option<&str>,
    scopes: &[Scope],
    token_uri: &EndpointUrl,
) -> Result<Zeroizing<String>, TokenError> {
    let mut header = json!({ "alg": "RS256", "typ": "JWT" });
    if let (Some(id), Some(header)) = (key.key_id(), header.as_object_mut()) {
        header.insert("kid".to_owned(), id.into());
    }
    let issued_at = unix_time().saturating_sub(LEEWAY.as_secs());
    let mut claims = json!({
        "iss": key.email(),
        "scope": scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(" "),
        "aud": key.token_uri().unwrap_or(token_uri).as_written(),
        "iat": issued_at,
        "exp": issued_at.saturating_add(LIFETIME.as_secs()),
    });
    if let (Some(subject), Some(claims)) = (subject, claims.as_object_mut()) {
        claims.insert("sub".to_owned(), subject.into());
    }
    let content = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let pair = RsaKeyPair::from_pkcs8(key.private_key().expose());
    let pair = pair.map_err(|_| TokenError::Request("the key of the service account is not valid"))?;
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), content.as_bytes(), &mut signature)
        .map_err(|_| TokenError::Request("signing failed"))?;
    Ok(Zeroizing::new(format!("{content}.{}", URL_SAFE_NO_PAD.encode(signature))))
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    const KEY: &str = include_str!("../../../../config/tests/ui/valid/secrets/service-account.json");

    #[test]
    fn an_assertion_is_signed_with_the_key_of_the_service_account() {
        let key = ServiceAccountKey::from_json(KEY).unwrap();
        let scopes = ["https://www.googleapis.com/auth/drive.readonly", "email"].map(|scope| scope.parse().unwrap());
        let elsewhere = "http://127.0.0.1:8080/token".parse().unwrap();
        let jwt = sign(&key, Some("user@example.com"), &scopes, &elsewhere).unwrap();
        let (content, signature) = jwt.rsplit_once('.').unwrap();
        let pair = RsaKeyPair::from_pkcs8(key.private_key().expose()).unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref())
            .verify(content.as_bytes(), &signature)
            .unwrap();
        let part = |encoded| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap();
        let (header, claims) = content.split_once('.').unwrap();
        assert_eq!(
            part(header),
            json!({ "alg": "RS256", "typ": "JWT", "kid": "0123456789abcdef0123456789abcdef01234567" })
        );
        let claims = part(claims);
        assert_eq!(claims["iss"], "reader@example.iam.gserviceaccount.com");
        assert_eq!(claims["scope"], "https://www.googleapis.com/auth/drive.readonly email");
        assert_eq!(claims["aud"], "https://oauth2.googleapis.com/token");
        assert_eq!(claims["sub"], "user@example.com");
        let (iat, exp) = (claims["iat"].as_u64().unwrap(), claims["exp"].as_u64().unwrap());
        assert_eq!(exp - iat, 3600);
        assert!((59..120).contains(&(unix_time() - iat)), "{claims}");
    }

    #[test]
    fn the_account_acts_for_itself_and_for_the_endpoint_unless_the_key_says_otherwise() {
        let mut json: Value = serde_json::from_str(KEY).unwrap();
        json["token_uri"] = Value::Null;
        let key = ServiceAccountKey::from_json(&json.to_string()).unwrap();
        let jwt = sign(&key, None, &[], &"https://login.example.com/token".parse().unwrap()).unwrap();
        let claims = URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1).unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!((&claims["aud"], claims.get("sub")), (&json!("https://login.example.com/token"), None));
    }
}
