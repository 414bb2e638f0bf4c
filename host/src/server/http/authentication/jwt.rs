//! JSON Web Tokens (RFC 7519) as access tokens (RFC 9068).
//!
//! A token is verified with the keys of the issuer that it names, and with nothing that it brings along: `jku`, `x5u`, `jwk` and
//! `x5c` in its header are ignored. `crit`, encrypted and compressed tokens are rejected, and so are types of other tokens.

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, dangerous, decode, decode_header};
use serde::Deserialize;

use super::claims::Claims;
use super::token_error::TokenError;
use crate::config::issuer::{Issuer, KeySet, SignatureAlgorithm};

/// The maximum number of keys that are tried with a token that names none.
const MAX_CANDIDATES: usize = 8;

/// The types of a token that are accepted (RFC 9068, section 2.1; RFC 7519, section 5.1). Those of other tokens are not: a logout
/// token or a proof of possession is no access token.
const TYPES: [&str; 3] = ["at+jwt", "application/at+jwt", "JWT"];

/// Returns the issuer that a token names, before anything is verified; none if it is not a JSON Web Token.
pub(super) fn unverified_issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        iss: String,
    }
    dangerous::insecure_decode::<Named>(token).ok().map(|token| token.claims.iss)
}

/// Verifies a token of that issuer with its keys, for one of those audiences.
pub(super) fn verify(token: &str, issuer: &Issuer, audiences: &[String], keys: &KeySet) -> Result<Claims, TokenError> {
    let header = decode_header(token).map_err(|_| TokenError::Header("the algorithm is not supported"))?;
    let algorithm = accepted_algorithm(&header, issuer)?;
    let mut validation = Validation::new(header.alg);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation.set_issuer(&[issuer.issuer.as_str()]);
    validation.set_audience(audiences);
    validation.validate_nbf = true;
    validation.leeway = issuer.clock_skew.duration().as_secs();
    let mut last_error = TokenError::UnknownKey;
    for key in keys.candidates(header.kid.as_deref(), algorithm).take(MAX_CANDIDATES) {
        match decode::<Claims>(token, key, &validation) {
            Ok(token) if token.claims.contains_key("cnf") => return Err(TokenError::SenderConstrained),
            Ok(token) => return Ok(token.claims),
            Err(error) if is_of_key(&error) => last_error = TokenError::Signature,
            Err(error) => return Err(token_error(&error)),
        }
    }
    Err(last_error)
}

/// Returns the algorithm of a token, if the issuer may use it and nothing else in the header is required to be understood.
fn accepted_algorithm(header: &Header, issuer: &Issuer) -> Result<SignatureAlgorithm, TokenError> {
    let algorithm = match header.alg {
        Algorithm::RS256 => SignatureAlgorithm::Rs256,
        Algorithm::RS384 => SignatureAlgorithm::Rs384,
        Algorithm::RS512 => SignatureAlgorithm::Rs512,
        Algorithm::PS256 => SignatureAlgorithm::Ps256,
        Algorithm::PS384 => SignatureAlgorithm::Ps384,
        Algorithm::PS512 => SignatureAlgorithm::Ps512,
        Algorithm::ES256 => SignatureAlgorithm::Es256,
        Algorithm::ES384 => SignatureAlgorithm::Es384,
        Algorithm::EdDSA => SignatureAlgorithm::EdDsa,
        _ => return Err(TokenError::Header("the algorithm is symmetric or unknown")),
    };
    if !issuer.algorithms.contains(&algorithm) {
        return Err(TokenError::Header("the algorithm is not one of `algorithms`"));
    }
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err(TokenError::Header("it has `crit`, `enc` or `zip`"));
    }
    let is_accepted = |kind: &str| TYPES.iter().any(|accepted| accepted.eq_ignore_ascii_case(kind));
    if !header.typ.as_deref().is_none_or(is_accepted) {
        return Err(TokenError::Header("`typ` is that of another kind of token"));
    }
    Ok(algorithm)
}

/// Returns whether another key may verify what this one did not.
fn is_of_key(error: &Error) -> bool {
    use ErrorKind::{
        InvalidAlgorithm, InvalidEcdsaKey, InvalidEddsaKey, InvalidKeyFormat, InvalidRsaKey, InvalidSignature,
    };
    matches!(
        error.kind(),
        InvalidSignature | InvalidAlgorithm | InvalidKeyFormat | InvalidEcdsaKey | InvalidEddsaKey | InvalidRsaKey(_)
    )
}

fn token_error(error: &Error) -> TokenError {
    match error.kind() {
        ErrorKind::ExpiredSignature => TokenError::Expired,
        ErrorKind::ImmatureSignature => TokenError::NotYetValid,
        ErrorKind::InvalidAudience => TokenError::Audience,
        ErrorKind::InvalidIssuer => TokenError::Issuer,
        ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
            TokenError::Claim(claim.clone())
        }
        _ => TokenError::Signature,
    }
}
