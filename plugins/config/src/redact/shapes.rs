//! Texts that look secret under any key.
//!
//! | shape | what remains |
//! |---|---|
//! | a private key in PEM | nothing |
//! | a token with a known prefix, a JSON Web Token, 20 or more random letters and digits | nothing |
//! | a password in a URL or in the address of a database: [`address`] | the rest of the text |
//! | a pair with a secret key: `?token=…`, `Password=…;`, `X-Api-Key: …` | the rest of the text |
//! | an option of a command: `--password …`, `-u user:…` | the rest of the text |
//! | `Bearer …`, `Basic …`, and `token …` as the whole text | the scheme |

use super::{PLACEHOLDER, address, keys, placeholder};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The prefixes of tokens, and the minimum length of such a token.
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

/// Redacts the secrets in a text.
pub(super) fn redact(text: &str) -> Cow<'_, str> {
    let is_private_key = text.contains("-----BEGIN") && text.contains("PRIVATE KEY");
    if is_private_key || text.split(is_separator).any(is_token) {
        return Cow::Owned(placeholder(text));
    }
    let finders: [Find; 7] = [
        address::in_url,
        address::in_go_dsn,
        address::in_oracle,
        in_header,
        |text, from| in_pair(text, from, ':'),
        |text, from| in_pair(text, from, '='),
        in_option,
    ];
    finders.into_iter().fold(Cow::Borrowed(text), chain)
}

/// Returns whether an argument of a command is the secret of the preceding option.
pub(super) fn takes_secret(option: &str, argument: &str) -> bool {
    let is_secret = option.starts_with('-') && !option.contains(['=', ' ']) && keys::is_secret(option);
    // Such an option may also have the ids of a user and a group.
    let is_user = |(_, password): (&str, &str)| password.contains(|c: char| !c.is_ascii_digit());
    is_secret && !argument.starts_with('-')
        || matches!(option, "-u" | "--user") && argument.split_once(':').is_some_and(is_user)
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

/// Finds the value of a pair with a secret key: after `=`, as in queries and connection strings, or after `:`, as in
/// headers, YAML and JSON.
fn in_pair(text: &str, from: usize, sign: char) -> Option<(usize, usize)> {
    let is_quote = |c: char| matches!(c, '"' | '\'');
    let mut from = from;
    loop {
        let at = from.saturating_add(text.get(from..)?.find(sign)?);
        from = at.saturating_add(1);
        let rest = text.get(from..)?;
        // The name in an image tag or a URN is not a key: `secret-store:1.0`.
        if sign == ':' && !rest.starts_with([' ', '\t', '"', '\'']) {
            continue;
        }
        let before = text.get(..at)?.trim_end_matches(|c: char| is_quote(c) || c.is_whitespace());
        let key = before.rsplit(|c: char| is_end_of_pair(c) || c.is_whitespace()).next().unwrap_or_default();
        let value = rest.trim_start_matches([' ', '\t']);
        let scheme = ["bearer ", "basic ", "token "].into_iter().find(|scheme| starts_with(value, scheme));
        let is_redacted = |value: &str| value.starts_with(PLACEHOLDER);
        if is_redacted(value) || scheme.is_some_and(|scheme| value.get(scheme.len()..).is_some_and(is_redacted)) {
            continue;
        }
        if !keys::is_secret(key) {
            continue;
        }
        let quote_of_pair = text.get(..before.len().saturating_sub(key.len()))?.chars().next_back();
        let len = match value.chars().next()? {
            quote @ ('"' | '\'') => closing(value, quote),
            '{' if sign == '=' => closing(value, '}'),
            // A value after `:` may contain spaces and commas.
            _ if sign == ':' => {
                value.find(|c: char| c == '\n' || is_quote(c) && quote_of_pair == Some(c)).unwrap_or(value.len())
            }
            _ => value
                .find(|c: char| matches!(c, ';' | '&' | ',' | '"' | '\'') || c.is_whitespace())
                .unwrap_or(value.len()),
        };
        if len > 0 {
            let start = from.saturating_add(rest.len().saturating_sub(value.len()));
            return Some((start, start.saturating_add(len)));
        }
    }
}

/// Returns whether a character, other than white space, ends the key of a pair.
fn is_end_of_pair(character: char) -> bool {
    matches!(character, ';' | '&' | '?' | ',' | '"' | '\'' | '=' | ':' | '<' | '{' | '(' | '[')
}

/// Returns the length of a text in quotes, or in the braces of ODBC. A doubled closing character, or a quote after a
/// backslash, is part of the text.
fn closing(text: &str, closing: char) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && closing != '}' {
            characters.next();
        } else if character == closing && characters.next_if(|(_, next)| *next == closing).is_none() {
            return at.saturating_add(1);
        }
    }
    text.len()
}

/// Finds the credentials in the value of an `Authorization` header.
fn in_header(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let at = from.saturating_add(text.get(from..)?.find(' ')?);
        from = at.saturating_add(1);
        let scheme = text.get(..at)?.as_bytes();
        let is_scheme = [&b"bearer"[..], b"basic"].iter().any(|known| {
            let end = scheme.len().checked_sub(known.len()).and_then(|start| scheme.get(start..));
            end.is_some_and(|end| end.eq_ignore_ascii_case(known))
        });
        // GitHub's scheme is an ordinary word, so it counts only if it and the token are the whole text.
        let is_token = scheme.eq_ignore_ascii_case(b"token");
        if !is_scheme && !is_token {
            continue;
        }
        let rest = text.get(from..)?;
        let len = rest.find(|c: char| matches!(c, '"' | '\'' | ',' | ';') || c.is_whitespace()).unwrap_or(rest.len());
        let is_whole = len == rest.len() && rest.contains(|c: char| c.is_ascii_digit());
        if len >= 8 && !rest.starts_with(PLACEHOLDER) && (is_scheme || is_whole) {
            return Some((from, from.saturating_add(len)));
        }
    }
}

/// Finds the secret after an option of a command.
fn in_option(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let at = from.saturating_add(text.get(from..)?.find(char::is_whitespace)?);
        let rest = text.get(at..)?;
        let value = rest.trim_start();
        let start = at.saturating_add(rest.len().saturating_sub(value.len()));
        from = start;
        let option = text.get(..at)?.rsplit(char::is_whitespace).next().unwrap_or_default();
        if !option.starts_with('-') || value.starts_with(PLACEHOLDER) {
            continue;
        }
        let len = match value.chars().next()? {
            quote @ ('"' | '\'') => closing(value, quote),
            _ => value.find(char::is_whitespace).unwrap_or(value.len()),
        };
        let argument = value.get(..len)?;
        let is_user = matches!(option, "-u" | "--user");
        if takes_secret(option, argument) && !argument.contains(PLACEHOLDER.trim_end()) {
            // The user name before the password is shown.
            let name = argument.find(':').filter(|_| is_user).map_or(0, |colon| colon.saturating_add(1));
            if len > name {
                return Some((start.saturating_add(name), start.saturating_add(len)));
            }
        }
    }
}

/// Returns whether a text starts with another text, regardless of case.
fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start))
}

/// Returns whether a character separates parts of a text that may be tokens.
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

/// Returns whether a part is random: a mix of many different letters and digits, or a long sequence of hexadecimal
/// digits.
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
            ("//u:hunter2@host/", format!("//u:{secret}@host/")),
            ("https://u:hun/er2@host/", format!("https://u:{secret}@host/")),
            ("https://TOKEN1@github.com/", format!("https://{secret}@github.com/")),
            ("app:hunter2@tcp(db:3306)/shop", format!("app:{secret}@tcp(db:3306)/shop")),
            ("jdbc:oracle:thin:scott/tiger5@db", format!("jdbc:oracle:thin:scott/{secret}@db")),
            ("Password={hu;}}er2};User=u", "Password=<redacted: 8 to 15 characters>;User=u".to_owned()),
            ("password='a''b\\'c' user=u", "password=<redacted: 8 to 15 characters> user=u".to_owned()),
            ("password: hunter2", format!("password: {secret}")),
            ("user: a\npassword: b, c\nport: 1", format!("user: a\npassword: {secret}\nport: 1")),
            ("x = {\"password\":\"a\\\"b\"}", format!("x = {{\"password\":{secret}}}")),
            ("-H 'X-Api-Key: abc' -v", format!("-H 'X-Api-Key: {secret}' -v")),
            ("token hunter2tk", "token <redacted: 8 to 15 characters>".to_owned()),
            ("mysql --password hunter2 -h h", format!("mysql --password {secret} -h h")),
            ("curl -u user:hunter2 h", format!("curl -u user:{secret} h")),
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
            "registry.example:5000/secret-store:1.0",
            "https://h:8080/a@b",
            "https://[::1]/u:p@b",
            "http://localhost:8080/x:y@z",
            "// see a:b",
            "mysql --password -h h",
            "docker run --user 1000:1000 x",
            "run --token-file f --user u",
            "the token expired",
            "日本語のとても長い説明文はそのまま表示されます",
            "00000000000000000000000000000000",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn time_is_linear_in_the_size_of_a_text() {
        let started = std::time::Instant::now();
        for part in
            ["basic ", "a=", "a: ", "//a:b", "//a:b@", "@tcp(", "-u ", "jdbc:oracle:", "a\": ", "token=\"", "{="]
        {
            redact(&part.repeat((1 << 17) / part.len()));
        }
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn redaction_never_panics_and_is_done_once(text in "(password|token|//| -u |jdbc:oracle:|@tcp[(]|[a-zA-Z0-9:/@=;&? '\"<>{}日]){0,40}") {
            let once = redact(&text).into_owned();
            prop_assert_eq!(redact(&once).into_owned(), once);
        }
    }
}
