//! Keys whose values are secret, by the words in them: `dbPassword`, `API_KEY` and `client-secret`.
//!
//! A key that names a property of a secret is not one: `tokenUrl`, `password_file`, `max_tokens`.

/// Words that name a secret.
const SECRETS: [&str; 22] = [
    "apikey",
    "authorization",
    "authtoken",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "jwt",
    "otp",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "privatekey",
    "pwd",
    "secret",
    "secretkey",
    "secrets",
    "token",
    "tokens",
    "webhook",
];

/// Words that name a secret if they are the last one.
const LAST: [&str; 4] = ["auth", "pass", "pin", "salt"];

/// Words that name a secret in front of `key`.
const KINDS_OF_KEY: [&str; 12] = [
    "access",
    "account",
    "api",
    "auth",
    "deploy",
    "encryption",
    "license",
    "master",
    "private",
    "secret",
    "shared",
    "signing",
];

/// Last words that name a property of a secret.
const PROPERTIES: [&str; 42] = [
    "age",
    "alg",
    "algorithm",
    "count",
    "dir",
    "directory",
    "duration",
    "enabled",
    "endpoint",
    "env",
    "expiration",
    "expires",
    "expiry",
    "field",
    "file",
    "header",
    "host",
    "id",
    "issuer",
    "length",
    "lifetime",
    "limit",
    "max",
    "method",
    "min",
    "mode",
    "name",
    "path",
    "policy",
    "port",
    "prefix",
    "provider",
    "ref",
    "required",
    "rotation",
    "size",
    "store",
    "timeout",
    "ttl",
    "type",
    "uri",
    "url",
];

/// First words that name a number of something.
const AMOUNTS: [&str; 4] = ["max", "min", "num", "total"];

/// Returns whether the value of a key is secret by the key's words.
pub(super) fn is_secret(key: &str) -> bool {
    let words = words(key);
    let last = words.last().map(String::as_str).unwrap_or_default();
    let first = words.first().map(String::as_str).unwrap_or_default();
    if PROPERTIES.contains(&last) || words.len() > 1 && AMOUNTS.contains(&first) {
        return false;
    }
    let is_kind_of_key = |(kind, key): (&String, &String)| {
        KINDS_OF_KEY.contains(&kind.as_str()) && matches!(key.as_str(), "key" | "keys")
    };
    words.iter().any(|word| SECRETS.contains(&word.as_str()))
        || LAST.contains(&last)
        || words.iter().zip(words.iter().skip(1)).any(is_kind_of_key)
}

/// Splits a key into words in lower case: at what is no letter or digit, and where the case says so.
fn words(key: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut characters = key.chars().peekable();
    let mut before = None;
    while let Some(character) = characters.next() {
        if !character.is_alphanumeric() {
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            before = None;
            continue;
        }
        let is_after_lower = before.is_some_and(|before: char| !before.is_uppercase());
        let is_before_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        if character.is_uppercase() && before.is_some() && (is_after_lower || is_before_lower) {
            words.push(std::mem::take(&mut word));
        }
        word.extend(character.to_lowercase());
        before = Some(character);
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_each_spelling() {
        for key in ["db_api_key", "DB_API_KEY", "dbApiKey", "DbAPIKey", "db-api-key", "db.api.key"] {
            assert_eq!(words(key), ["db", "api", "key"], "{key}");
        }
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn keys_of_secrets_are_told_from_keys_of_their_properties() {
        for key in [
            "password",
            "DB_PASSWORD",
            "dbPassword",
            "apiKey",
            "APIKey",
            "api-key",
            "AWS_SECRET_ACCESS_KEY",
            "client_secret",
            "_authToken",
            "_auth",
            "SMTP_PASS",
            "privateKey",
            "session.cookie",
            "GITHUB_TOKEN",
            "credentials",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in [
            "user",
            "tokenUrl",
            "password_file",
            "max_tokens",
            "token-ttl",
            "AWS_ACCESS_KEY_ID",
            "secretName",
            "key",
            "publicKey",
            "primary_key",
            "compass",
            "author",
            "passwordRequired",
            "cache",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
