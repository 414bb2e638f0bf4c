//! JSON Web Tokens (RFC 7519) as access tokens (RFC 9068).
//!
//! A token is verified with the configured keys of the issuer that it names, never with keys in the token: `jku`,
//! `x5u`, `jwk` and `x5c` in its header are ignored. `crit`, encrypted and compressed tokens are rejected, and so are
//! the types of other kinds of tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, dangerous, decode, decode_header};
use mcp_host_config::issuer::{Issuer, KeySet, SignatureAlgorithm};
use serde::Deserialize;

use super::claims::Claims;
use super::token_error::{TokenError, excerpt, shown_audience};

/// The maximum number of keys that are tried for a token without a key id.
const MAX_CANDIDATES: usize = 8;

/// The accepted types of a token (RFC 9068, section 2.1; RFC 7519, section 5.1). Other types are rejected: a logout
/// token or a proof of possession is not an access token.
const TYPES: [&str; 3] = ["at+jwt", "application/at+jwt", "JWT"];

/// The form of a token before any verification.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenForm {
    /// A JSON Web Token, signed or encrypted (RFC 7515 and RFC 7516, section 7.1), with the issuer if it is readable.
    Jwt(Option<String>),
    /// Another text, which does not name its issuer.
    Opaque,
}

/// Returns the form of a token. A token that begins with an encoded JSON object is a JSON Web Token, even if its header
/// or claims are not acceptable.
pub(super) fn form(token: &str) -> TokenForm {
    #[derive(Deserialize)]
    struct Named {
        iss: String,
    }
    let has_header = |encoded: &str| {
        let header = URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('='));
        header.is_ok_and(|json| serde_json::from_slice::<Claims>(&json).is_ok())
    };
    match token.split_once('.') {
        Some((header, _)) if has_header(header) => {
            TokenForm::Jwt(dangerous::insecure_decode_claims::<Named>(token).ok().map(|claims| claims.iss))
        }
        _ => TokenForm::Opaque,
    }
}

/// Verifies a token of this issuer with the issuer's keys, for one of these audiences.
pub(super) fn verify(token: &str, issuer: &Issuer, audiences: &[String], keys: &KeySet) -> Result<Claims, TokenError> {
    let given = decode_header(token).map_err(|error| header(format!("{error}")))?;
    let algorithm = accepted_algorithm(&given, issuer)?;
    let mut validation = Validation::new(given.alg);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation.set_issuer(&[issuer.issuer.as_written()]);
    validation.set_audience(audiences);
    validation.validate_nbf = true;
    validation.leeway = issuer.clock_skew.duration().as_secs();
    let key = excerpt(given.kid.as_deref().unwrap_or_default());
    let mut last_error = TokenError::UnknownKey { key, algorithm: algorithm.name() };
    for key in keys.candidates(given.kid.as_deref(), algorithm).take(MAX_CANDIDATES) {
        match decode::<Claims>(token, key, &validation) {
            Ok(token) if token.claims.contains_key("cnf") => return Err(TokenError::SenderConstrained),
            Ok(token) => return Ok(token.claims),
            // Without a key id the token may be signed with a new key.
            Err(error) if is_of_key(&error) && given.kid.is_none() => {}
            Err(error) if is_of_key(&error) => last_error = TokenError::Signature,
            Err(error) => return Err(token_error(token, &error)),
        }
    }
    Err(last_error)
}

/// Checks the parts that do not depend on a key: the algorithm, which the issuer must allow, and the rest of the
/// header.
pub(super) fn check_header(token: &str, issuer: &Issuer) -> Result<(), TokenError> {
    let given = decode_header(token).map_err(|error| header(format!("{error}")))?;
    accepted_algorithm(&given, issuer).map(drop)
}

/// Returns the algorithm of a token, if the issuer may use it and the header has no other critical parameter.
fn accepted_algorithm(given: &Header, issuer: &Issuer) -> Result<SignatureAlgorithm, TokenError> {
    let algorithm = match given.alg {
        Algorithm::RS256 => SignatureAlgorithm::Rs256,
        Algorithm::RS384 => SignatureAlgorithm::Rs384,
        Algorithm::RS512 => SignatureAlgorithm::Rs512,
        Algorithm::PS256 => SignatureAlgorithm::Ps256,
        Algorithm::PS384 => SignatureAlgorithm::Ps384,
        Algorithm::PS512 => SignatureAlgorithm::Ps512,
        Algorithm::ES256 => SignatureAlgorithm::Es256,
        Algorithm::ES384 => SignatureAlgorithm::Es384,
        Algorithm::EdDSA => SignatureAlgorithm::EdDsa,
        other => return Err(header(format!("the algorithm {other:?} is symmetric or unknown"))),
    };
    if !issuer.algorithms.contains(&algorithm) {
        return Err(header(format!("the algorithm {} is not one of `algorithms`", algorithm.name())));
    }
    if given.crit.is_some() || given.enc.is_some() || given.zip.is_some() {
        return Err(header("it has `crit`, `enc` or `zip`".to_owned()));
    }
    let is_accepted = |kind: &str| TYPES.iter().any(|accepted| accepted.eq_ignore_ascii_case(kind));
    if !given.typ.as_deref().is_none_or(is_accepted) {
        return Err(header(format!("`typ` is `{}`, another kind of token", header_type(given))));
    }
    Ok(algorithm)
}

fn header(reason: String) -> TokenError {
    TokenError::Header(excerpt(&reason))
}

fn header_type(header: &Header) -> &str {
    header.typ.as_deref().unwrap_or_default()
}

/// Returns the audience of a token, for the log.
fn audience(token: &str) -> String {
    let claims = dangerous::insecure_decode_claims::<Claims>(token).unwrap_or_default();
    shown_audience(claims.get("aud"))
}

/// Returns whether another key might verify a token that this key did not.
fn is_of_key(error: &Error) -> bool {
    use ErrorKind::{
        InvalidAlgorithm, InvalidEcdsaKey, InvalidEddsaKey, InvalidKeyFormat, InvalidRsaKey, InvalidSignature,
    };
    matches!(
        error.kind(),
        InvalidSignature | InvalidAlgorithm | InvalidKeyFormat | InvalidEcdsaKey | InvalidEddsaKey | InvalidRsaKey(_)
    )
}

fn token_error(token: &str, error: &Error) -> TokenError {
    match error.kind() {
        ErrorKind::ExpiredSignature => TokenError::Expired,
        ErrorKind::ImmatureSignature => TokenError::NotYetValid,
        ErrorKind::InvalidAudience => TokenError::Audience { found: audience(token) },
        ErrorKind::InvalidIssuer => TokenError::Issuer,
        ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
            TokenError::Claim(claim.clone())
        }
        _ => TokenError::Signature,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_with_a_header_is_of_the_issuer_that_it_names_and_of_no_other() {
        let claims = r#"{"iss":"https://a.example"}"#;
        for header in
            [r#"{"alg":"ES256"}"#, r#"{"alg":"ES512"}"#, r#"{"alg":"none","kid":7}"#, r#"{"alg":"a","alg":"b"}"#]
        {
            assert_eq!(form(&token(header, claims)), TokenForm::Jwt(Some("https://a.example".to_owned())), "{header}");
        }
        for claims in ["{}", r#"{"iss":7}"#, r#"{"iss":"a","iss":"b"}"#, "no JSON"] {
            assert_eq!(form(&token(r#"{"alg":"ES256"}"#, claims)), TokenForm::Jwt(None), "{claims}");
        }
        let encrypted = token(r#"{"alg":"RSA-OAEP","enc":"A256GCM"}"#, "key") + ".text.tag";
        assert_eq!(form(&encrypted), TokenForm::Jwt(None));
        for opaque in ["", "abc", "a.b.c", "mcp_9qZ", "W10.a.b"] {
            assert_eq!(form(opaque), TokenForm::Opaque, "{opaque}");
        }
    }
}
