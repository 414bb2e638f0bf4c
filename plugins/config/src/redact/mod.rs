//! Redaction of values that look secret.
//!
//! A secret is replaced by a placeholder with its length class, one of six. A hash is never shown, because a short
//! secret can be guessed from it. A value is secret by its key (`password`, `apiKey`, `DB_TOKEN`: [`keys`]), by its
//! shape (a private key, a token, a password in a URL: [`shapes`]), or because it contains a text that is secret by its
//! key ([`copies`]). Booleans, null and empty texts are never secret. The values in a text that is JSON are redacted
//! one by one.
//!
//! Keys are redacted by their shape when a document is read, so pointers use the keys as shown.

mod address;
mod copies;
mod keys;
mod shapes;

pub(crate) use copies::Secrets;

use copies::Finder;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The maximum depth of JSON within texts of JSON that is redacted value by value. Deeper JSON is redacted as a text.
const MAX_NESTED: usize = 3;

/// The redaction rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redactor {
    is_enabled: bool,
    /// Additional secret keys, by name in lower case or by pointer.
    secret: Vec<String>,
    /// Keys whose values are always shown.
    public: Vec<String>,
}

/// A walk over the values of a document.
struct Walk<'a> {
    pass: Pass<'a>,
    /// The pointer of the value.
    pointer: String,
    /// The number of JSON texts around the value.
    nested: usize,
}

/// The purpose of a walk.
enum Pass<'a> {
    /// Collects texts that are secret by their keys.
    Collect(&'a mut Secrets),
    /// Replaces secrets.
    Redact(&'a Finder),
}

impl Redactor {
    /// Returns a redactor with the built-in rules and the config's keys.
    pub(crate) fn new(secret: Vec<String>, public: Vec<String>) -> Self {
        Self { is_enabled: true, secret: normalized(secret), public: normalized(public) }
    }

    /// Returns a redactor that shows everything.
    pub(crate) fn disabled() -> Self {
        Self { is_enabled: false, secret: Vec::new(), public: Vec::new() }
    }

    /// Redacts all keys of a document, and numbers keys that become equal.
    pub(crate) fn keys(&self, value: &mut Value) {
        if !self.is_enabled {
            return;
        }
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.keys(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|value| self.keys(value));
                let is_shown =
                    |key: &str| is_named(&self.public, key, "") || matches!(shapes::redact(key), Cow::Borrowed(_));
                if members.keys().all(|key| is_shown(key)) {
                    return;
                }
                let (shown, secret): (Vec<_>, Vec<_>) =
                    std::mem::take(members).into_iter().partition(|(key, _)| is_shown(key));
                members.extend(shown);
                for (number, (key, value)) in (1_usize..).zip(secret) {
                    let mut redacted = shapes::redact(&key).into_owned();
                    if members.contains_key(&redacted) {
                        redacted.push_str(&format!(" ({number})"));
                    }
                    members.insert(redacted, value);
                }
            }
            _ => {}
        }
    }

    /// Adds the texts of a document that are secret by their keys.
    pub(crate) fn collect(&self, value: &Value, secrets: &mut Secrets) {
        if self.is_enabled {
            let mut walk = Walk { pass: Pass::Collect(secrets), pointer: String::new(), nested: 0 };
            self.value(&mut value.clone(), &mut walk, false);
        }
    }

    /// Redacts all values of a document, and all copies of its secrets and of `others`.
    pub(crate) fn document(&self, value: &mut Value, others: &Secrets) {
        if self.is_enabled {
            let mut secrets = others.clone();
            self.collect(value, &mut secrets);
            let finder = secrets.finder();
            self.value(value, &mut Walk { pass: Pass::Redact(&finder), pointer: String::new(), nested: 0 }, false);
        }
    }

    /// Redacts the text with a key, such as the value of a variable.
    pub(crate) fn text(&self, key: &str, text: &str, others: &Secrets) -> String {
        let mut document = Value::Object(Map::from_iter([(key.to_owned(), text.into())]));
        self.document(&mut document, others);
        document.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Returns whether the values below a key are secret; `None` if they are always shown.
    fn key(&self, key: &str, pointer: &str, is_inside_secret: bool) -> Option<bool> {
        if is_named(&self.public, key, pointer) {
            return None;
        }
        Some(is_inside_secret || is_named(&self.secret, key, pointer) || keys::is_secret(key))
    }

    fn value(&self, value: &mut Value, walk: &mut Walk<'_>, is_secret: bool) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) if is_secret && matches!(walk.pass, Pass::Redact(_)) => {
                *value = Value::String(placeholder(&number.to_string()));
            }
            Value::Number(_) => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => self.leaf(text, walk, is_secret),
            Value::Array(items) => {
                // `["--password", "…"]`: a list of arguments.
                let mut option = None;
                for item in items {
                    let text = item.as_str().map(str::to_owned);
                    let is_argument = option
                        .zip(text.as_deref())
                        .is_some_and(|(option, text): (String, _)| shapes::takes_secret(&option, text));
                    option = text;
                    self.value(item, walk, is_secret || is_argument);
                }
            }
            Value::Object(members) => self.members(members, walk, is_secret),
        }
    }

    fn leaf(&self, text: &mut String, walk: &mut Walk<'_>, is_secret: bool) {
        match &mut walk.pass {
            Pass::Collect(secrets) if is_secret => return secrets.add(text),
            Pass::Redact(_) if is_secret => {
                *text = placeholder(text);
                return;
            }
            _ => {}
        }
        if let Some(original) = json(text).filter(|_| walk.nested < MAX_NESTED) {
            let mut nested = original.clone();
            self.keys(&mut nested);
            walk.nested = walk.nested.saturating_add(1);
            self.value(&mut nested, walk, false);
            walk.nested = walk.nested.saturating_sub(1);
            if nested != original {
                *text = nested.to_string();
            }
        } else if let Pass::Redact(finder) = &walk.pass {
            finder.redact(text);
            if let Cow::Owned(redacted) = shapes::redact(text) {
                *text = redacted;
            }
        }
    }

    fn members(&self, members: &mut Map<String, Value>, walk: &mut Walk<'_>, is_secret: bool) {
        // `{ name = "DB_PASSWORD", value = "…" }`: a list of variables.
        let is_one_of = |key: &str, names: &[&str]| names.iter().any(|name| key.eq_ignore_ascii_case(name));
        let names = members.iter().filter(|(key, _)| is_one_of(key, &["name", "key"]));
        let mut names = names.filter_map(|(_, name)| name.as_str());
        let is_secret_pair = names.any(|name| self.key(name, &walk.pointer, false) == Some(true));
        let len = walk.pointer.len();
        for (key, value) in members {
            walk.pointer.truncate(len);
            walk.pointer.push_str(&crate::pointer::join("", key));
            let is_value = is_secret_pair && is_one_of(key, &["value", "val"]);
            if let Some(is_secret) = self.key(key, &walk.pointer, is_secret || is_value) {
                self.value(value, walk, is_secret);
            }
        }
        walk.pointer.truncate(len);
    }
}

/// Returns the value of a text that is a JSON object or list.
fn json(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Returns whether a list of names and pointers contains a key.
fn is_named(names: &[String], key: &str, pointer: &str) -> bool {
    names.iter().any(|name| if name.starts_with('/') { name == pointer } else { *name == key.to_lowercase() })
}

fn normalized(names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| if name.starts_with('/') { name } else { name.to_lowercase() }).collect()
}

/// The beginning of the placeholder of a secret.
const PLACEHOLDER: &str = "<redacted: ";

/// Returns the placeholder of a secret, with its length class.
fn placeholder(secret: &str) -> String {
    let class = match secret.chars().count() {
        0..=7 => "1 to 7",
        8..=15 => "8 to 15",
        16..=31 => "16 to 31",
        32..=63 => "32 to 63",
        64..=255 => "64 to 255",
        _ => "256 or more",
    };
    format!("{PLACEHOLDER}{class} characters>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn redacted(redactor: &Redactor, mut value: Value) -> Value {
        redactor.keys(&mut value);
        redactor.document(&mut value, &Secrets::default());
        value
    }

    fn shown(redactor: &Redactor, name: &str, text: &str) -> String {
        redactor.text(name, text, &Secrets::default())
    }

    fn default() -> Redactor {
        Redactor::new(Vec::new(), Vec::new())
    }

    #[test]
    fn what_is_below_a_secret_key_is_there_and_not_shown() {
        let value = json!({
            "db": { "user": "app", "password": "hunter2", "port": 5432, "passwordRequired": true },
            "secrets": { "a": ["0123456789"], "b": { "pin": 1234 }, "on": true, "none": null, "empty": "" },
            "env": [{ "name": "API_TOKEN", "value": "xyzxyz" }, { "name": "LANG", "value": "ja" }],
        });
        let expected = json!({
            "db": { "user": "app", "password": "<redacted: 1 to 7 characters>", "port": 5432, "passwordRequired": true },
            "secrets": {
                "a": ["<redacted: 8 to 15 characters>"], "b": { "pin": "<redacted: 1 to 7 characters>" },
                "on": true, "none": null, "empty": "",
            },
            "env": [
                { "name": "API_TOKEN", "value": "<redacted: 1 to 7 characters>" },
                { "name": "LANG", "value": "ja" },
            ],
        });
        assert_eq!(redacted(&default(), value), expected);
    }

    #[test]
    fn the_config_has_the_last_word() {
        let redactor = Redactor::new(vec!["Host".to_owned(), "/a/b".to_owned()], vec!["/db/password".to_owned()]);
        let value = json!({ "db": { "password": "changeme", "host": "h" }, "a": { "b": "x", "c": "x" }, "b": "x" });
        let secret = "<redacted: 1 to 7 characters>";
        let expected =
            json!({ "db": { "password": "changeme", "host": secret }, "a": { "b": secret, "c": "x" }, "b": "x" });
        assert_eq!(redacted(&redactor, value.clone()), expected);
        assert_eq!(redacted(&Redactor::disabled(), value.clone()), value);
    }

    #[test]
    fn a_variable_is_redacted_by_its_name_and_its_shape() {
        assert_eq!(shown(&default(), "DB_PASSWORD", "hunter2"), "<redacted: 1 to 7 characters>");
        assert_eq!(shown(&default(), "URL", "http://a:b@c/"), "http://a:<redacted: 1 to 7 characters>@c/");
        assert_eq!(shown(&default(), "LANG", "ja"), "ja");
        let public = Redactor::new(Vec::new(), vec!["db_password".to_owned()]);
        assert_eq!(shown(&public, "DB_PASSWORD", "hunter2"), "hunter2");
    }

    #[test]
    fn a_secret_in_a_text_of_json_a_list_of_arguments_or_a_pair_is_not_shown() {
        let deep = json!({ "a": json!({ "b": json!({ "password": "hunter2" }).to_string() }).to_string() });
        for value in [
            json!({ "SHOP_DB": r#"{"password":"hunter2"}"# }),
            json!({ "x": deep.to_string() }),
            json!({ "x": json!({ "y": deep.to_string() }).to_string() }),
            json!({ "args": ["--password", "hunter2"] }),
            json!({ "args": ["-u", "user:hunter2"] }),
            json!([{ "Name": "DB_PASSWORD", "Value": "hunter2" }]),
            json!([{ "name": "db", "key": "password", "value": "hunter2" }]),
            json!([{ "key": "password", "val": "hunter2" }]),
        ] {
            let shown = redacted(&default(), value).to_string();
            assert!(shown.contains("<redacted: ") && !shown.contains("hunter2"), "{shown}");
        }
        let ordinary = json!({ "args": ["--password-file", "f", "--user", "u"], "json": r#"{"b": 1,  "a": 2}"# });
        assert_eq!(redacted(&default(), ordinary.clone()), ordinary);
    }

    #[test]
    fn a_secret_in_a_key_is_not_shown_and_no_value_is_lost() {
        let value = json!({ "urls": { "https://u:hunter2@h/": 1, "https://u:hunter3@h/": 2, "https://h/": 3 } });
        let expected = json!({ "urls": {
            "https://u:<redacted: 1 to 7 characters>@h/": 1,
            "https://u:<redacted: 1 to 7 characters>@h/ (2)": 2,
            "https://h/": 3,
        } });
        assert_eq!(redacted(&default(), value.clone()), expected);
        assert_eq!(redacted(&Redactor::disabled(), value.clone()), value);
    }

    #[test]
    fn a_copy_of_a_secret_is_not_shown_unless_its_key_is_public() {
        let value =
            json!({ "password": "hunter2", "copy": "hunter2", "url": "x/hunter2/", "note": "hunter2", "n": "ja" });
        let secret = "<redacted: 1 to 7 characters>";
        let expected = json!({
            "password": secret, "copy": secret, "url": format!("x/{secret}/"), "note": "hunter2", "n": "ja",
        });
        let redactor = Redactor::new(Vec::new(), vec!["note".to_owned()]);
        assert_eq!(redacted(&redactor, value), expected);
        let mut secrets = Secrets::default();
        default().collect(&json!({ "TOKEN": "hunter2host" }), &mut secrets);
        assert_eq!(default().text("GREETING", "hunter2host", &secrets), "<redacted: 8 to 15 characters>");
    }

    proptest! {
        #[test]
        fn nothing_of_a_secret_is_left(secret in "[a-zA-Z0-9]{8,80}", key in "(password|apiKey|DB_TOKEN|client-secret)") {
            let value = redacted(&default(), json!({ "x": { key: [secret.clone(), { "y": secret.clone() }] } }));
            prop_assert!(!value.to_string().contains(&secret));
        }
    }
}
