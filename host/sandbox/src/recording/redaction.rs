//! Redaction of secrets in a record: values that the config takes from a variable or a file, and credentials in
//! headers.
//!
//! Each occurrence of a secret value, in text and in bytes, is replaced by the same number of bytes of [`FILLER`].
//! Lengths and offsets stay the same, so a provider that passes the value on behaves the same in a replay. A value of
//! fewer than [`MIN_LENGTH`] bytes is replaced only if it is a whole text, because it would match elsewhere by chance.
//! The host does not know values that a provider computes from a secret; values of the headers in [`HEADERS`] are
//! always replaced, and match any value in a replay.
//!
//! The host's own secrets of a grant (tokens, passwords of databases) never reach a guest, and so are not in a record.
//! They are replaced nevertheless, because a server may echo them.

use serde_json::{Value, json};

use super::{HostCallOutcome, RecordedHostCall};

/// The replacement of secrets, repeated and cut to their length.
const FILLER: &str = "redacted-";
/// The minimum length of a value that is replaced inside of texts.
const MIN_LENGTH: usize = 6;
/// Headers whose values are not recorded.
const HEADERS: [&str; 5] = ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"];

/// The secret values of a plugin.
#[derive(Default)]
pub struct Redaction {
    /// The secrets, longest first, with their replacements.
    secrets: Vec<(String, String)>,
}

impl Redaction {
    /// Creates a redaction of these values.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let replaced = |secret: &str| FILLER.bytes().cycle().take(secret.len()).map(char::from).collect();
        let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
        let mut secrets: Vec<(String, String)> = secrets.map(|secret| (secret.to_owned(), replaced(secret))).collect();
        secrets.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets }
    }

    pub(super) fn apply_to_call(&self, call: &mut RecordedHostCall) {
        call.arguments.iter_mut().for_each(|argument| self.apply(argument));
        if let HostCallOutcome::Result(result) = &mut call.outcome {
            self.apply(result);
            redact_headers(result);
        }
        if call.function.starts_with("wasi:http/types fields.") {
            redact_fields(call);
        }
    }

    /// Replaces the secrets in a value of a record.
    pub fn apply(&self, value: &mut Value) {
        if self.secrets.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.apply_to_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(fields) => {
                if let Some(bytes) = fields.get("base64").and_then(Value::as_str).and_then(decode) {
                    let replaced = self.replace_bytes(bytes);
                    *value = super::value::bytes(&replaced);
                    return;
                }
                fields.values_mut().for_each(|field| self.apply(field));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn apply_to_text(&self, text: &mut String) {
        for (secret, replacement) in &self.secrets {
            let is_there = if secret.len() < MIN_LENGTH { text == secret } else { text.contains(secret) };
            if is_there {
                *text = text.replace(secret, replacement);
            }
        }
    }

    /// Replaces the secrets in bytes that are not UTF-8.
    fn replace_bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for (secret, replacement) in self.secrets.iter().filter(|(secret, _)| secret.len() >= MIN_LENGTH) {
            let mut from = 0_usize;
            while let Some(rest) = bytes.get_mut(from..) {
                let Some(at) = rest.windows(secret.len()).position(|window| window == secret.as_bytes()) else { break };
                let end = at.saturating_add(secret.len());
                if let Some(place) = rest.get_mut(at..end) {
                    place.copy_from_slice(replacement.as_bytes());
                }
                from = from.saturating_add(end);
            }
        }
        bytes
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.decode(text).ok()
}

/// The value of a redacted header. It matches any value.
fn redacted() -> Value {
    json!({ "redacted": true })
}

fn is_secret_header(name: &Value) -> bool {
    name.as_str().is_some_and(|name| HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header)))
}

/// Redacts the argument and the result of a function of `fields`.
fn redact_fields(call: &mut RecordedHostCall) {
    let names_one = call.arguments.iter().any(is_secret_header);
    if names_one {
        if let Some(value) = call.arguments.get_mut(2) {
            *value = redacted();
        }
        if let HostCallOutcome::Result(Value::Array(values)) = &mut call.outcome {
            values.iter_mut().for_each(blank);
        }
    }
    call.arguments.iter_mut().for_each(redact_headers);
}

/// Redacts the values in lists of headers among the arguments, `[["authorization", {"text": "…"}]]`.
fn redact_headers(value: &mut Value) {
    let Value::Array(items) = value else { return };
    for item in items {
        if let Value::Array(pair) = item
            && let [name, value] = pair.as_mut_slice()
            && is_secret_header(name)
        {
            blank(value);
        }
    }
}

/// Overwrites bytes that a guest receives with the same number of other bytes.
fn blank(value: &mut Value) {
    let len = match (value.get("text").and_then(Value::as_str), value.get("base64").and_then(Value::as_str)) {
        (Some(text), _) => text.len(),
        (None, Some(encoded)) => decode(encoded).map_or(0, |bytes| bytes.len()),
        (None, None) => return,
    };
    let filler: String = FILLER.bytes().cycle().take(len).map(char::from).collect();
    *value = json!({ "text": filler });
}

/// Whether arguments match the record. Redacted values match any value.
pub(super) fn are_same(recorded: &[Value], actual: &[Value]) -> bool {
    recorded.len() == actual.len() && recorded.iter().zip(actual).all(|(recorded, actual)| is_same(recorded, actual))
}

fn is_same(recorded: &Value, actual: &Value) -> bool {
    match (recorded, actual) {
        (Value::Object(object), _) if object.get("redacted") == Some(&Value::Bool(true)) => true,
        (Value::Array(recorded), Value::Array(actual)) => {
            // The values in a list of headers were overwritten, and so match any value of the same name.
            let is_header = matches!(recorded.as_slice(), [name, _] if is_secret_header(name));
            (is_header && recorded.first() == actual.first()) || are_same(recorded, actual)
        }
        (Value::Object(recorded), Value::Object(actual)) => {
            recorded.len() == actual.len()
                && recorded.iter().all(|(name, value)| actual.get(name).is_some_and(|actual| is_same(value, actual)))
        }
        _ => recorded == actual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &str, arguments: Value, result: Value) -> RecordedHostCall {
        let Value::Array(arguments) = arguments else { panic!("arguments are a list") };
        RecordedHostCall { function: function.to_owned(), arguments, outcome: HostCallOutcome::Result(result) }
    }

    #[test]
    fn secrets_are_replaced_in_texts_and_bytes_by_as_many_bytes() {
        let redaction = Redaction::new(["hunter22", "1", "hunter"]);
        let mut value = json!({
            "ok": ["a hunter22 b", "1", "10", { "text": "hunter!" }, { "base64": super::super::value::bytes(b"\xff-hunter22")["base64"] }]
        });
        redaction.apply(&mut value);
        let binary = super::super::value::bytes(b"\xff-redacted");
        assert_eq!(value, json!({ "ok": ["a redacted b", "r", "10", { "text": "redact!" }, binary] }));
    }

    #[test]
    fn values_of_headers_with_credentials_are_not_recorded_and_equal_to_any() {
        let redaction = Redaction::default();
        let mut appended = call(
            "wasi:http/types fields.append",
            json!([{ "handle": 1 }, "Authorization", { "text": "Basic abc" }]),
            json!({ "ok": null }),
        );
        redaction.apply_to_call(&mut appended);
        assert_eq!(appended.arguments[2], json!({ "redacted": true }));
        assert!(are_same(
            &appended.arguments,
            &[json!({ "handle": 1 }), json!("Authorization"), json!({ "text": "x" })]
        ));
        assert!(!are_same(
            &appended.arguments,
            &[json!({ "handle": 2 }), json!("Authorization"), json!({ "text": "x" })]
        ));
        let mut entries = call(
            "wasi:http/types fields.entries",
            json!([{ "handle": 1 }]),
            json!([["set-cookie", { "text": "abc" }], ["age", { "text": "7" }]]),
        );
        redaction.apply_to_call(&mut entries);
        let expected = json!([["set-cookie", { "text": "red" }], ["age", { "text": "7" }]]);
        assert_eq!(entries.outcome, HostCallOutcome::Result(expected));
    }
}
