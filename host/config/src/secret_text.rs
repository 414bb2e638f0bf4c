//! Lines of a config file that may hold a secret, which no message quotes.
//!
//! A line may hold a secret if it assigns a value to a key with the name of a secret: `token = "…"`, `API_KEY = 5`,
//! `client-secret = "…"`. Only the text decides, because the check also applies to files that are not valid TOML, and
//! to several entries on one line. The source of a value, `{ env = "…" }` or `{ file = "…" }`, is not a secret, nor is
//! the digest of a token.

/// Words in the names of secrets.
const SECRET_WORDS: [&str; 9] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY", "AUTHORIZATION"];
/// The last word of such names.
const SECRET_SUFFIX: &str = "KEY";
/// The key with the digest of a token. By mistake it often holds the token itself.
const TOKEN_DIGEST_KEY: &str = "token-sha256";
/// The length of a list with the maximum number of digests of a principal, in bytes.
const MAX_DIGESTS_LEN: usize = 2048;

/// Returns whether the name of a key or a variable suggests a secret: `GITHUB_TOKEN`, `API_KEY`, `client-secret`.
pub(super) fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let mut words = name.split(['_', '-']);
    words.clone().any(|word| SECRET_WORDS.contains(&word))
        || words.next_back() == Some(SECRET_SUFFIX) && name.len() > SECRET_SUFFIX.len()
}

/// Returns whether a part of a config file may hold a secret.
pub(super) fn holds_secret(text: &str) -> bool {
    text.match_indices('=').any(|(at, _)| {
        let (before, value) =
            (text.get(..at).unwrap_or_default(), text.get(at.saturating_add(1)..).unwrap_or_default());
        let is_in_key = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        let before = before.trim_end().trim_end_matches(['"', '\'']);
        let key = before.rsplit(|character| !is_in_key(character)).next().unwrap_or_default();
        let value = value.trim_start();
        if key == TOKEN_DIGEST_KEY { holds_no_digest(value) } else { names_secret(key) && is_value(value) }
    })
}

/// Whether the text after a `=` is a value itself, and not a table with its source.
fn is_value(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['{', '#', '\n', '\r'])
}

/// Whether a string in the value of `token-sha256` is not a digest.
fn holds_no_digest(value: &str) -> bool {
    let value = value.get(..value.floor_char_boundary(MAX_DIGESTS_LEN)).unwrap_or(value);
    let end = if value.starts_with('[') { value.find(']') } else { value.find([',', '\n', '}']) };
    let value = value.get(..end.unwrap_or(value.len())).unwrap_or(value);
    let is_digest = |part: &str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = value.split(['"', '\'', '[', ']', ',']).map(str::trim);
    is_value(value) && parts.filter(|part| !part.is_empty() && !part.starts_with('#')).any(|part| !is_digest(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whether_the_value_is_a_secret() {
        for name in
            ["TOKEN", "github_token", "DB_PASSWORD", "API_KEY", "AWS_SECRET_ACCESS_KEY", "client-secret", "x-api-key"]
        {
            assert!(names_secret(name), "{name}");
        }
        for name in ["LANG", "KEYBOARD", "MONKEY", "TOKENIZER", "KEY_COUNT", "KEY", "key"] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn a_line_with_the_value_of_a_secret_holds_one() {
        let digest = "0123456789abcdef".repeat(4);
        for line in [
            "token = \"mcp_x\"",
            "token=mcp_x",
            "'API_KEY' = 5",
            "grants.env.API_TOKEN = 'x'",
            "introspection = { url = \"https://a\", client-secret = \"x\" }",
            "TOKEN = \"unclosed",
            "token-sha256 = \"mcp_x\"",
            &format!("principal = [{{ name = \"a b\", token-sha256 = [\"{digest}\", \"mcp_x\"] }}]"),
        ] {
            assert!(holds_secret(line), "{line}");
        }
        for line in [
            "name = \"token\"",
            "TOKEN = { env = \"MY_TOKEN\" }",
            "client-secret = { file = \"secret.txt\" }",
            "tls = { certificate = \"cert.pem\", key = \"key.pem\" }",
            "token = # nothing",
            "[[principal]]",
            &format!("token-sha256 = \"{digest}\""),
            &format!("token-sha256 = \"{}\" # of ci", digest.to_uppercase()),
            &format!("{{ token-sha256 = [\"{digest}\", \"{digest}\"], name = \"ci\" }}"),
            "token-sha256 = { file = \"digests\" }",
        ] {
            assert!(!holds_secret(line), "{line}");
        }
    }
}
