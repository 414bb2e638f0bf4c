//! The plugin's configuration: its `config` table in `mcp-host.toml`.

use crate::{Failure, Result};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// The `config` table of the plugin from `mcp-host.toml`: strings verbatim, other values as JSON text.
///
/// ```
/// use mcp_provider::Config;
///
/// // config = { rev = "main", depth = 3 }
/// let config = Config::from_pairs([("rev", "main"), ("depth", "3")]);
/// assert_eq!(config.get("rev"), Some("main"));
/// assert_eq!(config.parse::<u32>("depth")?, Some(3));
/// assert_eq!(config.parse::<u32>("width")?, None);
/// # Ok::<(), mcp_provider::Failure>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config(BTreeMap<String, String>);

impl Config {
    /// Creates a config from pairs, for tests.
    pub fn from_pairs<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Parses the value of a key, such as a number or a boolean, with [`FromStr`].
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, if the value does not parse.
    pub fn parse<T>(&self, key: &str) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        value.parse().map(Some).map_err(|error| fault::<T>(key, value, &error))
    }

    /// Parses the value of a key as JSON: lists, tables and numbers are in it as JSON, texts as they are.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, if the value is a text that is no JSON.
    pub fn json(&self, key: &str) -> Result<Option<serde_json::Value>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let expected =
            |_| Failure::Internal(format!("config key `{key}`: expected a list or a table, found {value:?}"));
        serde_json::from_str(value).map(Some).map_err(expected)
    }

    /// Returns all keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn fault<T>(key: &str, value: &str, error: &dyn Display) -> Failure {
    let expected = match std::any::type_name::<T>().rsplit("::").next().unwrap_or_default() {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number from 0 up, not too large",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "bool" => "`true` or `false`",
        // Of the crate `bytesize`, which most providers use for sizes.
        "ByteSize" => "a size such as `16MiB`",
        _ => return Failure::Internal(format!("config key `{key}`: found {value:?}: {error}")),
    };
    Failure::Internal(format!("config key `{key}`: expected {expected}, found {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_parse_is_an_internal_failure_that_names_its_key() {
        let config = Config::from_pairs([("depth", "deep")]);
        let Err(Failure::Internal(fault)) = config.parse::<u32>("depth") else { panic!("expected a fault") };
        assert_eq!(fault, "config key `depth`: expected a whole number from 0 up, not too large, found \"deep\"");
        let Err(Failure::Internal(fault)) = config.parse::<char>("depth") else { panic!("expected a fault") };
        assert_eq!(fault, "config key `depth`: found \"deep\": too many characters in string");
    }

    #[test]
    fn lists_and_tables_come_as_json() {
        let config = Config::from_pairs([("dirs", r#"["a","b"]"#), ("bad", "[")]);
        assert_eq!(config.json("dirs"), Ok(Some(serde_json::json!(["a", "b"]))));
        assert_eq!(config.json("none"), Ok(None));
        assert!(matches!(config.json("bad"), Err(Failure::Internal(_))));
    }

    #[test]
    fn keys_come_in_order() {
        let config = Config::from_pairs([("b", ""), ("a", "")]);
        assert_eq!(config.keys().collect::<Vec<_>>(), ["a", "b"]);
    }
}
