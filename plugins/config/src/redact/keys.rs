//! Keys whose values are secret, by their words: `dbPassword`, `API_KEY` and `client-secret`.
//!
//! A key that names a property of a secret is not secret: `tokenUrl`, `password_file`, `max_tokens`. Keys are compared
//! in Unicode's compatibility form (NFKC), without trailing digits of words: `ｐａｓｓｗｏｒｄ`, `password1`.

use unicode_normalization::UnicodeNormalization;

/// Words that name a secret, even if split into two words: `pass_phrase`.
const SECRETS: [&str; 26] = [
    "apikey",
    "authorization",
    "authtoken",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "cvc",
    "cvv",
    "jwt",
    "otp",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "pincode",
    "privatekey",
    "pw",
    "pwd",
    "secret",
    "secretkey",
    "secrets",
    "token",
    "tokens",
    "webhook",
];

/// Endings of words that name a secret, as in `pgpassword`. Japanese has no spaces between words.
const ENDINGS: [&str; 22] = [
    "accesskey",
    "apikey",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "secretkey",
    "signingkey",
    "token",
    "webhook",
    "webhookurl",
    "シークレット",
    "トークン",
    "パスワード",
    "合言葉",
    "暗証番号",
    "秘密",
    "秘密鍵",
];

/// Pairs of last words that name a secret, although the last one is in [`PROPERTIES`]: the password of Vault's AppRole,
/// and webhook URLs, which grant access to everyone who knows them.
const SECRET_PROPERTIES: [(&str, &str); 3] = [("secret", "id"), ("webhook", "uri"), ("webhook", "url")];

/// Words that name a secret if they are the last word.
const LAST: [&str; 4] = ["auth", "pass", "pin", "salt"];

/// Words that name a secret before `key`.
const KINDS_OF_KEY: [&str; 13] = [
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
    "ssh",
];

/// Last words that name a property of a secret.
const PROPERTIES: [&str; 43] = [
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
    "stdin",
    "store",
    "timeout",
    "ttl",
    "type",
    "uri",
    "url",
];

/// First words that name a quantity.
const AMOUNTS: [&str; 4] = ["max", "min", "num", "total"];

/// Returns whether the value of a key is secret by the key's words.
pub(super) fn is_secret(key: &str) -> bool {
    let words = words(&key.nfkc().collect::<String>());
    let words = words.iter().map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let last = words.last().copied().unwrap_or_default();
    let first = words.first().copied().unwrap_or_default();
    let pairs = || words.iter().copied().zip(words.iter().copied().skip(1));
    if pairs().next_back().is_some_and(|pair| SECRET_PROPERTIES.contains(&pair)) {
        return true;
    }
    if PROPERTIES.contains(&last) || words.len() > 1 && AMOUNTS.contains(&first) {
        return false;
    }
    let is_secret_pair = |(first, second): (&str, &str)| {
        KINDS_OF_KEY.contains(&first) && matches!(second, "key" | "keys")
            || SECRETS.iter().any(|secret| secret.strip_prefix(first) == Some(second))
    };
    words.iter().any(|word| SECRETS.contains(word) || ENDINGS.iter().any(|ending| word.ends_with(ending)))
        || LAST.contains(&last)
        || pairs().any(is_secret_pair)
}

/// Splits a key into words in lower case: at characters that are not letters or digits, and at changes of case.
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
            "PGPASSWORD",
            "dbpassword",
            "password1",
            "userPassword2",
            "db_pass2",
            "password_2",
            "pass_phrase",
            "pw",
            "accesskey",
            "sshKey",
            "cvv",
            "pinCode",
            "VAULT_SECRET_ID",
            "SLACK_WEBHOOK_URL",
            "パスワード",
            "データベースのﾊﾟｽﾜｰﾄﾞ",
            "ｐａｓｓｗｏｒｄ",
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
            "token_id",
            "webhook_port",
            "password-stdin",
            "パスワードファイル",
            "pass_through",
            "x509",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
