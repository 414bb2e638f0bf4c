//! What looks secret is not shown.
//!
//! A value is replaced by a text that says that it is there, and how long it is, as one of six classes; never by a hash,
//! from which a short secret could be guessed. It looks secret by its key (`password`, `apiKey`, `DB_TOKEN`: [`keys`]) or
//! by its shape (a private key, a token, a password in a URL: [`shapes`]). Booleans and null never do, nor does an empty
//! text.

mod keys;
mod shapes;

use serde_json::{Map, Value};
use std::borrow::Cow;

/// What is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redactor {
    is_enabled: bool,
    /// Keys that are secret in addition, by name in lower case or by pointer.
    secret: Vec<String>,
    /// Keys whose values are shown whatever they look like.
    public: Vec<String>,
}

impl Redactor {
    /// Returns a redactor for what looks secret, and for what the config says.
    pub(crate) fn new(secret: Vec<String>, public: Vec<String>) -> Self {
        Self { is_enabled: true, secret: normalized(secret), public: normalized(public) }
    }

    /// Returns a redactor that shows everything.
    pub(crate) fn disabled() -> Self {
        Self { is_enabled: false, secret: Vec::new(), public: Vec::new() }
    }

    /// Redacts all values of a document.
    pub(crate) fn document(&self, value: &mut Value) {
        if self.is_enabled {
            self.value(value, &mut String::new(), false);
        }
    }

    /// Redacts the text with a key, such as the value of a variable.
    pub(crate) fn text(&self, key: &str, text: &str) -> String {
        let mut document = Value::Object(Map::from_iter([(key.to_owned(), text.into())]));
        self.document(&mut document);
        document.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Returns whether what is below a key is secret; `None` if it is shown whatever it looks like.
    fn key(&self, key: &str, pointer: &str, is_inside_secret: bool) -> Option<bool> {
        let is_named = |names: &[String]| {
            names.iter().any(|name| if name.starts_with('/') { name == pointer } else { *name == key.to_lowercase() })
        };
        if is_named(&self.public) {
            return None;
        }
        Some(is_inside_secret || is_named(&self.secret) || keys::is_secret(key))
    }

    fn value(&self, value: &mut Value, pointer: &mut String, is_secret: bool) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) if is_secret => *value = Value::String(placeholder(&number.to_string())),
            Value::Number(_) => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) if is_secret => *text = placeholder(text),
            Value::String(text) => {
                if let Cow::Owned(redacted) = shapes::redact(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, pointer, is_secret)),
            Value::Object(members) => self.members(members, pointer, is_secret),
        }
    }

    fn members(&self, members: &mut Map<String, Value>, pointer: &mut String, is_secret: bool) {
        // `{ name = "DB_PASSWORD", value = "…" }`, as lists of variables have it.
        let name = ["name", "key"].iter().find_map(|key| members.get(*key)?.as_str());
        let is_secret_pair = name.is_some_and(|name| self.key(name, pointer, false) == Some(true));
        let len = pointer.len();
        for (key, value) in members {
            pointer.truncate(len);
            let of_key = crate::pointer::join("", key);
            pointer.push_str(&of_key);
            if let Some(is_secret) = self.key(key, pointer, is_secret || is_secret_pair && key == "value") {
                self.value(value, pointer, is_secret);
            }
        }
        pointer.truncate(len);
    }
}

fn normalized(names: Vec<String>) -> Vec<String> {
    names.into_iter().map(|name| if name.starts_with('/') { name } else { name.to_lowercase() }).collect()
}

/// Returns what is shown of a secret: that it is there, and the class of its length.
fn placeholder(secret: &str) -> String {
    let class = match secret.chars().count() {
        0..=7 => "1 to 7",
        8..=15 => "8 to 15",
        16..=31 => "16 to 31",
        32..=63 => "32 to 63",
        64..=255 => "64 to 255",
        _ => "256 or more",
    };
    format!("<redacted: {class} characters>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn redacted(redactor: &Redactor, mut value: Value) -> Value {
        redactor.document(&mut value);
        value
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
        assert_eq!(default().text("DB_PASSWORD", "hunter2"), "<redacted: 1 to 7 characters>");
        assert_eq!(default().text("URL", "http://a:b@c/"), "http://a:<redacted: 1 to 7 characters>@c/");
        assert_eq!(default().text("LANG", "ja"), "ja");
        let public = Redactor::new(Vec::new(), vec!["db_password".to_owned()]);
        assert_eq!(public.text("DB_PASSWORD", "hunter2"), "hunter2");
    }

    proptest! {
        #[test]
        fn nothing_of_a_secret_is_left(secret in "[a-zA-Z0-9]{8,80}", key in "(password|apiKey|DB_TOKEN|client-secret)") {
            let value = redacted(&default(), json!({ "x": { key: [secret.clone(), { "y": secret.clone() }] } }));
            prop_assert!(!value.to_string().contains(&secret));
        }
    }
}
