//! Answers of a token endpoint (RFC 6749, sections 5.1 and 5.2).

use std::fmt;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use mcp_host_config::Secret;
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

use super::TokenError;

/// The lifetime of a token whose answer declares none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(600);
/// The maximum time for which a token is cached.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// An error code of a token server, and the remedy for an admin.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) struct ErrorCode {
    name: &'static str,
    advice: &'static str,
}

impl ErrorCode {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.advice)
    }
}

const fn code(name: &'static str, advice: &'static str) -> ErrorCode {
    ErrorCode { name, advice }
}

/// The allowlist of error codes that messages repeat: RFC 6749, its extensions, and Google's. Messages repeat no other
/// text of a server, which could echo a part of the request.
static ERROR_CODES: [ErrorCode; 13] = [
    code("access_denied", "ask the administrator of the authorization server for access"),
    code("admin_policy_enforced", "the administrator of the Google Workspace has to allow the client and its `scopes`"),
    code(
        "invalid_client",
        "check `client-id`, `client-secret` and `client-authentication`, or the key of the service account",
    ),
    code(
        "invalid_grant",
        "the refresh token or the key of the service account was revoked, has expired or was used before, `subject` is not \
         known, or the clock of this machine is wrong; replace the credential, or set the clock",
    ),
    code("invalid_request", "check `token-uri`, `client-authentication` and `scopes`"),
    code("invalid_scope", "check `scopes`"),
    code("invalid_target", "check `token-uri` and `scopes`"),
    code("org_internal", "the client is restricted to its own organization; use a credential of that organization"),
    code("rate_limit_exceeded", "try again later"),
    code("slow_down", "try again later"),
    code("temporarily_unavailable", "try again later"),
    code(
        "unauthorized_client",
        "the client may not use this kind of credential; for `subject`, delegate `scopes` to the service account",
    ),
    code("unsupported_grant_type", "check `token-uri`: the server has no support for this kind of credential"),
];

/// An access token from a token server.
#[derive(Debug)]
pub(super) struct TokenAnswer {
    /// The value of `Authorization`.
    pub(super) authorization: HeaderValue,
    pub(super) lifetime: Duration,
    /// The replacement of the presented refresh token (rotation).
    pub(super) refresh_token: Option<Secret<String>>,
}

#[derive(Deserialize)]
struct Issued {
    access_token: Option<String>,
    token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    error: Option<String>,
}

/// Parses an answer.
pub(super) fn parse(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Result<TokenAnswer, TokenError> {
    if !status.is_success() {
        let error = serde_json::from_slice(body).ok().and_then(|Refused { error }| error);
        let code = error.and_then(|error| ERROR_CODES.iter().find(|code| code.name == error));
        return Err(TokenError::Refused { status, code, retry_after });
    }
    let invalid = TokenError::InvalidAnswer;
    let issued: Issued = serde_json::from_slice(body).map_err(|_| invalid("is not the JSON of a token"))?;
    let token = issued.access_token.map(Zeroizing::new).ok_or(invalid("has no `access_token`"))?;
    if issued.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(invalid("has a `token_type` other than `Bearer`"));
    }
    // The syntax of RFC 6750 is narrower, but not all servers follow it.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid("has an `access_token` that is not printable ASCII"));
    }
    let authorization = Zeroizing::new(format!("Bearer {}", *token));
    let mut authorization =
        HeaderValue::from_str(&authorization).map_err(|_| invalid("has no valid `access_token`"))?;
    authorization.set_sensitive(true);
    let lifetime = match &issued.expires_in {
        None | Some(Value::Null) => DEFAULT_LIFETIME,
        Some(value) => seconds(value).ok_or(invalid("has an `expires_in` that is not a number of seconds"))?,
    };
    let refresh_token = issued.refresh_token.filter(|token| !token.is_empty()).map(Secret::new);
    Ok(TokenAnswer { authorization, lifetime: lifetime.min(MAX_LIFETIME), refresh_token })
}

/// Parses a lifetime, up to the maximum. Some servers write the number as a text, or with a fraction.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let seconds = seconds.filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)?;
    Duration::try_from_secs_f64(seconds.min(MAX_LIFETIME.as_secs_f64())).ok()
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3): a number of seconds, of any size. A date counts as longer than the
/// maximum, because the clock of this machine may differ from the server's.
pub(super) fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    (!text.is_empty()).then(|| match text.parse() {
        Ok(seconds) if is_number => Duration::from_secs(seconds),
        _ => Duration::MAX,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ok(body: &Value) -> Result<TokenAnswer, TokenError> {
        parse(StatusCode::OK, None, body.to_string().as_bytes())
    }

    #[test]
    fn a_token_has_a_lifetime_within_bounds() {
        for (expires_in, lifetime) in [
            (json!(3599), 3599),
            (json!("3599"), 3599),
            (json!(0), 0),
            (json!(null), 600),
            (json!(u64::MAX), 86_400),
            (json!(3600.0), 3600),
            (json!(1e3), 1000),
            (json!("3600.0"), 3600),
            (json!(1e300), 86_400),
            (json!(-0.0), 0),
        ] {
            let answer =
                ok(&json!({ "access_token": "ya29.a", "token_type": "Bearer", "expires_in": expires_in })).unwrap();
            assert_eq!(
                (answer.lifetime.as_secs(), answer.authorization.to_str().unwrap()),
                (lifetime, "Bearer ya29.a")
            );
            assert!(answer.authorization.is_sensitive() && answer.refresh_token.is_none());
        }
        let answer = ok(&json!({ "access_token": "a", "token_type": "bearer", "refresh_token": "next" })).unwrap();
        assert_eq!(answer.refresh_token.unwrap().expose(), "next");
    }

    #[test]
    fn an_answer_without_a_usable_token_is_invalid() {
        for body in [
            json!({}),
            json!([]),
            json!({ "access_token": 7 }),
            json!({ "access_token": "" }),
            json!({ "access_token": "a\r\nHost: evil" }),
            json!({ "access_token": "a b" }),
            json!({ "access_token": "é" }),
            json!({ "access_token": "a", "token_type": "mac" }),
            json!({ "access_token": "a", "expires_in": -1 }),
            json!({ "access_token": "a", "expires_in": -0.5 }),
            json!({ "access_token": "a", "expires_in": "soon" }),
            json!({ "access_token": "a", "expires_in": "inf" }),
            json!({ "access_token": "a", "expires_in": "NaN" }),
        ] {
            assert!(matches!(ok(&body), Err(TokenError::InvalidAnswer(_))), "{body}");
        }
        assert!(matches!(parse(StatusCode::OK, None, b"<html>"), Err(TokenError::InvalidAnswer(_))));
    }

    #[test]
    fn a_time_that_is_no_small_number_is_a_long_one() {
        for (text, seconds) in [("0", 0), (" 30 ", 30), ("18446744073709551615", u64::MAX)] {
            assert_eq!(retry_after(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["99999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT", "+5", "-1"] {
            assert_eq!(retry_after(text), Some(Duration::MAX), "{text}");
        }
        assert_eq!(retry_after(""), None);
    }

    #[test]
    fn a_refusal_is_told_by_its_code_and_never_in_the_words_of_the_server() {
        let refusal = |body: &str| parse(StatusCode::BAD_REQUEST, None, body.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            refusal(r#"{ "error": "invalid_scope", "error_description": "hunter2" }"#),
            "the token server answered 400 Bad Request, invalid_scope: check `scopes`"
        );
        for body in [r#"{ "error": "hunter2" }"#, r#"{ "error": { "code": "hunter2" } }"#, "hunter2", ""] {
            let text = refusal(body);
            assert_eq!(
                text,
                "the token server answered 400 Bad Request, without an error code that is known: check `token-uri`"
            );
        }
    }

    #[test]
    fn a_server_that_is_busy_or_failing_is_not_looked_for_in_the_config() {
        let refusal = |status: StatusCode, retry_after: Option<u64>, body: &str| {
            parse(status, retry_after.map(Duration::from_secs), body.as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(
            refusal(StatusCode::SERVICE_UNAVAILABLE, Some(30), "<html>"),
            "the token server answered 503 Service Unavailable: it is busy or failing; try again in 30s"
        );
        assert_eq!(
            refusal(StatusCode::TOO_MANY_REQUESTS, None, r#"{ "error": "slow_down" }"#),
            "the token server answered 429 Too Many Requests, slow_down: it is busy or failing; try again later"
        );
        for status in [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::FOUND] {
            assert!(refusal(status, Some(30), "").ends_with("check `token-uri`"), "{status}");
        }
    }
}
