//! Texts that look secret whatever their key is.
//!
//! | shape | what is left |
//! |---|---|
//! | a private key in PEM | nothing |
//! | a token with a known prefix, a JSON Web Token, 20 or more random letters and digits | nothing |
//! | a password in a URL: `postgres://user:password@host/` | the rest of the URL |
//! | a pair with a secret key: `?token=…`, `Password=…;` | the rest of the text |
//! | `Bearer …`, `Basic …` | the scheme |

use super::{keys, placeholder};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The beginnings of tokens, and the minimum length of the whole.
const PREFIXES: [(&str, usize); 24] = [
    ("AIza", 30),
    ("AKIA", 16),
    ("ASIA", 16),
    ("SG.", 20),
    ("dop_v1_", 20),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("ghu_", 20),
    ("github_pat_", 20),
    ("glpat-", 20),
    ("hf_", 20),
    ("mcp_", 20),
    ("npm_", 20),
    ("pypi-", 20),
    ("rk_live_", 16),
    ("shpat_", 20),
    ("sk-", 20),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("whsec_", 16),
    ("xapp-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
];

/// The minimum length of a random token.
const MIN_RANDOM: usize = 20;
/// The minimum length of a token of hexadecimal digits.
const MIN_HEX: usize = 32;

/// Redacts what looks secret in a text.
pub(super) fn redact(text: &str) -> Cow<'_, str> {
    let is_private_key = text.contains("-----BEGIN") && text.contains("PRIVATE KEY");
    if is_private_key || text.split(is_separator).any(is_token) {
        return Cow::Owned(placeholder(text));
    }
    let text = replace_all(text, in_url);
    let text = chain(text, in_pair);
    chain(text, in_header)
}

/// Finds the range of a secret at or after an offset.
type Find = fn(&str, usize) -> Option<(usize, usize)>;

fn chain(text: Cow<'_, str>, find: Find) -> Cow<'_, str> {
    match replace_all(&text, find) {
        Cow::Owned(redacted) => Cow::Owned(redacted),
        Cow::Borrowed(_) => text,
    }
}

/// Replaces each secret that is found.
fn replace_all(text: &str, find: Find) -> Cow<'_, str> {
    let mut redacted = String::new();
    let mut done = 0;
    while let Some((start, end)) = find(text, done).filter(|(start, end)| *start >= done && end > start) {
        redacted.push_str(text.get(done..start).unwrap_or_default());
        redacted.push_str(&placeholder(text.get(start..end).unwrap_or_default()));
        done = end;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(redacted)
}

/// Finds the password in a URL.
fn in_url(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = find(text, "://", from)?;
        let rest = text.get(start..)?;
        let len = rest.find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace());
        let authority = rest.get(..len.unwrap_or(rest.len()))?;
        if let Some((user_info, _)) = authority.rsplit_once('@')
            && let Some((user, password)) = user_info.split_once(':')
            && !password.is_empty()
            && !password.starts_with('<')
        {
            let start = start.saturating_add(user.len()).saturating_add(1);
            return Some((start, start.saturating_add(password.len())));
        }
        from = start;
    }
}

/// Finds the value of a pair with a secret key, as queries and connection strings have them.
fn in_pair(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = find(text, "=", from)?;
        let key = text.get(..start.saturating_sub(1))?.trim_end();
        let key = key.rsplit(|c: char| matches!(c, ';' | '&' | '?' | ',' | '"' | '\'') || c.is_whitespace()).next()?;
        let rest = text.get(start..)?;
        let value = rest.trim_start_matches(' ');
        let start_of_value = start.saturating_add(rest.len().saturating_sub(value.len()));
        let len = match value.chars().next().filter(|first| matches!(first, '"' | '\'')) {
            Some(quote) => value.get(1..)?.find(quote).map(|end| end.saturating_add(2)),
            None => value.find(|c: char| matches!(c, ';' | '&' | ',' | '"' | '\'') || c.is_whitespace()),
        };
        let len = len.unwrap_or(value.len());
        if len > 0 && !value.starts_with('<') && keys::is_secret(key) {
            return Some((start_of_value, start_of_value.saturating_add(len)));
        }
        from = start;
    }
}

/// Finds the credentials in the value of a header `Authorization`.
fn in_header(text: &str, from: usize) -> Option<(usize, usize)> {
    let lower = text.to_ascii_lowercase();
    let start = ["bearer ", "basic "].iter().filter_map(|scheme| find(&lower, scheme, from)).min()?;
    let rest = text.get(start..)?;
    let len = rest.find(|c: char| matches!(c, '"' | '\'' | ',' | ';') || c.is_whitespace()).unwrap_or(rest.len());
    let is_credentials = len >= 8 && !rest.starts_with('<');
    if is_credentials { Some((start, start.saturating_add(len))) } else { in_header(text, start) }
}

/// Returns the offset behind the next occurrence of a text.
fn find(text: &str, what: &str, from: usize) -> Option<usize> {
    let found = text.get(from..)?.find(what)?;
    Some(from.saturating_add(found).saturating_add(what.len()))
}

/// Separates parts of a text that may be tokens.
fn is_separator(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '"' | '\'' | '`' | ',' | ';' | '=' | '&' | '?' | '/' | '@' | ':' | '(' | ')' | '[' | ']')
}

/// Returns whether a part of a text looks like a token.
fn is_token(part: &str) -> bool {
    let has_prefix = |(prefix, least): &(&str, usize)| part.len() >= *least && part.starts_with(prefix);
    PREFIXES.iter().any(has_prefix) || is_web_token(part) || is_random(part)
}

/// Returns whether a part is a JSON Web Token: three parts in base64, the first of which is a JSON object.
fn is_web_token(part: &str) -> bool {
    part.starts_with("eyJ") && part.len() >= MIN_RANDOM && part.split('.').count() >= 3
}

/// Returns whether a part is random letters and digits: many different ones, of each kind, or many hexadecimal digits.
fn is_random(part: &str) -> bool {
    let count = |is: fn(&u8) -> bool| part.bytes().filter(is).count();
    let (digits, hex) = (count(u8::is_ascii_digit), count(u8::is_ascii_hexdigit));
    if part.len() >= MIN_HEX && hex == part.len() && digits > 0 && digits < part.len() {
        return entropy(part) >= 3.0;
    }
    let is_alphabet = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'_' | b'-'));
    part.len() >= MIN_RANDOM
        && is_alphabet
        && digits >= 3
        && count(u8::is_ascii_uppercase) >= 3
        && count(u8::is_ascii_lowercase) >= 3
        && entropy(part) >= 3.5
}

/// Returns the Shannon entropy of a text in bits per byte.
fn entropy(text: &str) -> f64 {
    let mut counts: BTreeMap<u8, f64> = BTreeMap::new();
    text.bytes().for_each(|byte| *counts.entry(byte).or_default() += 1.0);
    let total: f64 = counts.values().sum();
    counts.values().map(|count| -(count / total) * (count / total).log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_password_of_a_url_is_redacted_and_the_rest_is_shown() {
        let secret = "<redacted: 1 to 7 characters>";
        for (text, expected) in [
            ("postgres://app:hunter2@db:5432/x", format!("postgres://app:{secret}@db:5432/x")),
            ("a://u:p@h,b://u:q@h", format!("a://u:{secret}@h,b://u:{secret}@h")),
            ("redis://:p@h", format!("redis://:{secret}@h")),
            ("http://h/?user=a&token=abc", format!("http://h/?user=a&token={secret}")),
            ("Server=s;User=u;Password=abc;", format!("Server=s;User=u;Password={secret};")),
            ("host=h password = 'a b' user=u", format!("host=h password = {secret} user=u")),
            ("Authorization: Bearer abcdefg.", "Authorization: Bearer <redacted: 8 to 15 characters>".to_owned()),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn tokens_are_told_by_prefix_and_randomness() {
        for text in [
            "ghp_0123456789abcdefghij",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
            "9f86d081884c7d659a2feaa0c55ad015",
            "wJalrXUtnFEMI7K7MDENG3bPxRfiCYEXAMPLEKEY",
            "https://hooks.example/services/T01ABC/B02DEF/a8Kd92LmQpz7Xc3VbN1Rt5Yw",
            "-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----",
        ] {
            let redacted = redact(text);
            assert!(redacted.starts_with("<redacted: "), "{text}: {redacted}");
        }
    }

    #[test]
    fn ordinary_texts_are_shown() {
        for text in [
            "",
            "localhost:8080",
            "https://user@example.com/path?page=2",
            "2025-01-12T15:00:58Z",
            "my-service-production-eu-west-1",
            "/usr/lib/x86_64-linux-gnu/libexample.so.1",
            "550e8400-e29b-41d4-a716-446655440000",
            "com.example.VeryLongClassNameOfAnApplication",
            "a basic test",
            "日本語のとても長い説明文はそのまま表示されます",
            "00000000000000000000000000000000",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    proptest! {
        #[test]
        fn redaction_never_panics_and_is_done_once(text in "[a-zA-Z0-9:/@=;&? '\"<>日]{0,60}") {
            let once = redact(&text).into_owned();
            prop_assert_eq!(redact(&once).into_owned(), once);
        }
    }
}
