//! The reasons for rejecting an access token.

use std::sync::Arc;
use std::time::Duration;

use mcp_resource_host::access::rate::RateExceeded;
use serde_json::Value;

/// The reason why an access token of an issuer is not accepted. `Display` is for the log.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum TokenError {
    /// The token names an issuer that is not in the config.
    #[error("its claim `iss` is `{named}`, which is `issuer` of no `[[issuer]]`{}", similar_issuer(.similar.as_deref()))]
    UnknownIssuer {
        /// The issuer that it names.
        named: String,
        /// An issuer of the config that differs only by case or a trailing slash. Issuers are compared exactly
        /// (RFC 8414), so it is a different one.
        similar: Option<String>,
    },
    /// The token is neither a JSON Web Token nor the token of a principal, and no issuer has an introspection endpoint.
    #[error("it is neither a token of a `[[principal]]` nor a JSON Web Token, and no `[[issuer]]` has `introspection`")]
    Opaque,
    /// The algorithm is not accepted, or a header parameter is not understood.
    #[error("its header is not accepted: {0}")]
    Header(String),
    /// The issuer has no key that can have signed the token.
    #[error("its issuer has no key with the id `{key}` for the algorithm {algorithm}")]
    UnknownKey {
        /// The key id in the token.
        key: String,
        /// The algorithm in the token.
        algorithm: &'static str,
    },
    /// The issuer's keys, which were last requested for another reason, have no key for the token. The key may be new.
    #[error("{unknown}; its keys are requested again in {} s, as they were a moment ago", .retry_after.as_secs().saturating_add(1))]
    KeyPending {
        /// The error about the unknown key.
        unknown: Box<TokenError>,
        /// The time until the keys may be requested again.
        retry_after: Duration,
    },
    /// The signature is wrong, or the token is malformed.
    #[error("its signature or its form is wrong")]
    Signature,
    /// The token has expired.
    #[error("it has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("it is not valid yet")]
    NotYetValid,
    /// The token was issued for another server.
    #[error("its claim `aud` is {found}, and neither `http.public-url` nor one of `audiences`")]
    Audience {
        /// The values of the audience, between backticks.
        found: String,
    },
    /// The token belongs to another issuer.
    #[error("it is one of another issuer")]
    Issuer,
    /// A claim is missing or malformed.
    #[error("its claim `{0}` is missing or malformed")]
    Claim(String),
    /// The claim with the principal's name is missing or not usable as a name.
    #[error("its claim `{0}` does not name a principal")]
    NoPrincipal(String),
    /// The token is bound to a key of the client, whose possession this server cannot verify.
    #[error("it is bound to a key of the client (`cnf`), and is not a bearer token")]
    SenderConstrained,
    /// The issuer reports that the token is not active.
    #[error("its issuer says that it is not active")]
    Inactive,
    /// The issuer cannot be reached, or its answer is invalid.
    #[error("its issuer cannot be asked: {0}")]
    Unavailable(Arc<str>),
    /// The token is not introspected, because its client has sent too many invalid tokens.
    #[error("its issuer is not asked: {0}")]
    TooManyFailures(#[from] RateExceeded),
}

impl TokenError {
    /// The name of the kind of reason, by which log lines are throttled.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::UnknownIssuer { .. } => "unknown issuer",
            Self::Opaque => "opaque",
            Self::Header(_) => "header",
            Self::UnknownKey { .. } => "unknown key",
            Self::KeyPending { .. } => "pending key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not yet valid",
            Self::Audience { .. } => "audience",
            Self::Issuer => "issuer",
            Self::Claim(_) => "claim",
            Self::NoPrincipal(_) => "principal",
            Self::SenderConstrained => "sender-constrained",
            Self::Inactive => "inactive",
            Self::Unavailable(_) => "unavailable",
            Self::TooManyFailures(_) => "too many failures",
        }
    }

    /// A description for the client (RFC 6750, section 3). Reasons that would reveal the config to the client share one
    /// description.
    pub(super) fn description(&self) -> &'static str {
        match self {
            Self::Expired => "the access token has expired",
            Self::NotYetValid => "the access token is not valid yet",
            Self::Audience { .. } => "the access token was issued for another resource",
            Self::SenderConstrained => "the access token is not a bearer token",
            _ => "the access token is invalid",
        }
    }
}

fn similar_issuer(similar: Option<&str>) -> String {
    similar
        .map(|similar| format!("; one is `{similar}`, without a difference but for case or a slash"))
        .unwrap_or_default()
}

/// The beginning of a text from a token, for the log.
pub(super) fn excerpt(text: &str) -> String {
    /// The maximum length, in characters.
    const MAX_LEN: usize = 200;
    text.chars().take(MAX_LEN).flat_map(char::escape_debug).collect()
}

/// Returns the values of a claim `aud` between backticks, for the log. Quotation marks would be escaped there.
pub(super) fn shown_audience(audience: Option<&Value>) -> String {
    /// The maximum number of values.
    const MAX_VALUES: usize = 4;
    let shown = |value: &Value| match value {
        Value::String(text) => format!("`{}`", excerpt(text)),
        other => format!("`{}`", excerpt(&other.to_string())),
    };
    match audience {
        Some(Value::Array(all)) if all.is_empty() => "empty".to_owned(),
        Some(Value::Array(all)) => {
            let mut values: Vec<_> = all.iter().take(MAX_VALUES).map(shown).collect();
            if all.len() > MAX_VALUES {
                values.push("…".to_owned());
            }
            values.join(", ")
        }
        Some(one) => shown(one),
        None => "missing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_audience_is_shown_without_quotation_marks() {
        for (audience, shown) in [
            (json!("http://other/mcp"), "`http://other/mcp`"),
            (json!(["a", "b"]), "`a`, `b`"),
            (json!(["a", "b", "c", "d", "e"]), "`a`, `b`, `c`, `d`, …"),
            (json!([]), "empty"),
            (json!(7), "`7`"),
        ] {
            assert_eq!(shown_audience(Some(&audience)), shown);
        }
        let long = shown_audience(Some(&json!("x".repeat(100_000))));
        assert_eq!(long.len(), 202);
    }
}
