//! Environment variables as a layer.
//!
//! With the prefix `APP_` and the separator `__`, `APP_SERVER__PORT=80` sets the key `port` in `server`. Names match
//! keys without regard to case, and a new key is in lower case. A value that is JSON other than a string (`80`, `true`,
//! `["a"]`, `{"a": 1}`) is parsed; any other value is text.

use serde_json::Value;
use std::collections::BTreeMap;

/// The maximum number of keys in the name of one variable. The last key contains the rest of the name.
const MAX_KEYS: usize = 32;

/// Variables, by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// The rules by which names of variables become keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Naming {
    prefix: String,
    separator: String,
}

impl Naming {
    /// Creates the rules.
    pub(crate) fn new(prefix: &str, separator: &str) -> Self {
        Self { prefix: prefix.to_owned(), separator: separator.to_owned() }
    }

    /// Returns the prefix of the variables.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the keys in the name of a variable, outermost first, in lower case; `None` if the variable is not part
    /// of the layer.
    pub(crate) fn keys(&self, name: &str) -> Option<Vec<String>> {
        let rest = name.strip_prefix(&self.prefix).filter(|rest| !rest.is_empty())?;
        let keys: Vec<String> = rest.splitn(MAX_KEYS, self.separator.as_str()).map(str::to_lowercase).collect();
        keys.iter().all(|key| !key.is_empty()).then_some(keys)
    }
}

/// Parses the value of a variable.
pub(crate) fn value(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::String(_)) | Err(_) => Value::String(text.to_owned()),
        Ok(value) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_with_the_prefix_is_a_path_of_keys() {
        let naming = Naming::new("APP_", "__");
        let keys = |name| naming.keys(name).map(|keys| keys.join("."));
        assert_eq!(keys("APP_SERVER__PORT").as_deref(), Some("server.port"));
        assert_eq!(keys("APP_LOG_LEVEL").as_deref(), Some("log_level"));
        for name in ["APP_", "APPX", "OTHER_A", "APP___A", "APP_A__"] {
            assert_eq!(keys(name), None, "{name}");
        }
    }

    #[test]
    fn a_value_that_is_json_has_its_type() {
        for (text, expected) in [
            ("80", json!(80)),
            ("true", json!(true)),
            ("[1, \"a\"]", json!([1, "a"])),
            ("null", json!(null)),
            ("\"80\"", json!("\"80\"")),
            ("yes", json!("yes")),
            ("007", json!("007")),
            ("", json!("")),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }
}
