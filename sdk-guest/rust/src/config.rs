//! The plugin's configuration: its `config` table in `mcp-host.toml`.

use crate::{Failure, Result};
use bytesize::ByteSize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
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
///
/// A provider with several settings reads them once, in [`Provider::open`](crate::Provider::open), and rejects unknown
/// keys, which are most likely typos. An invalid value is [`Failure::Internal`]; the host logs it with the key, the
/// expected form and the value.
///
/// ```
/// use mcp_provider::{Config, Result};
///
/// struct Settings {
///     dir: String,
///     max_file: usize,
///     formats: Vec<String>,
///     order: Option<Order>,
/// }
///
/// #[derive(Debug, PartialEq)]
/// enum Order {
///     Name,
///     Date,
/// }
///
/// impl Settings {
///     fn read(config: &Config) -> Result<Self> {
///         config.refuse_unknown(&["dir", "max-file", "formats", "order"])?;
///         Ok(Self {
///             dir: config.get("dir").unwrap_or("/data").to_owned(),
///             max_file: config.size("max-file")?.unwrap_or(1 << 20),
///             formats: config.texts("formats")?.unwrap_or_default(),
///             order: config.parse_with("order", "`name` or `date`", |text| match text {
///                 "name" => Some(Order::Name),
///                 "date" => Some(Order::Date),
///                 _ => None,
///             })?,
///         })
///     }
/// }
///
/// let settings = Settings::read(&Config::from_pairs([("max-file", "16MiB"), ("formats", r#"["csv"]"#)]))?;
/// assert_eq!((settings.dir.as_str(), settings.max_file), ("/data", 16 << 20));
/// assert_eq!((settings.formats, settings.order), (vec!["csv".to_owned()], None));
///
/// let fault = Settings::read(&Config::from_pairs([("order", "size")])).err().map(|fault| fault.to_string());
/// assert_eq!(fault.as_deref(), Some("internal: config key `order`: expected `name` or `date`, found \"size\""));
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
    pub fn json(&self, key: &str) -> Result<Option<Value>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let expected =
            |_| Failure::Internal(format!("config key `{key}`: expected a list or a table, found {value:?}"));
        serde_json::from_str(value).map(Some).map_err(expected)
    }

    /// Parses the text of a key. `expected` says what it has to be, for the fault.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, if `parse` returns `None`.
    pub fn parse_with<T>(&self, key: &str, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| Self::fault(key, expected, text))
    }

    /// Parses a size in bytes: a number, or one with a unit, such as `16MiB`.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, if it is no size.
    pub fn size(&self, key: &str) -> Result<Option<usize>> {
        let parse = |text: &str| text.parse::<ByteSize>().ok();
        let size = self.parse_with(key, "a size such as `16MiB`", parse)?;
        Ok(size.map(|size| usize::try_from(size.as_u64()).unwrap_or(usize::MAX)))
    }

    /// Parses the address of a server, with the scheme `http` or `https`, and returns it without a trailing slash.
    /// Addresses with a user, a query or a fragment are invalid. `expected` describes the address in the message of a
    /// failure.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, if it is no such address.
    pub fn server(&self, key: &str, expected: &str) -> Result<Option<String>> {
        self.parse_with(key, expected, |text| {
            let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
            let is_valid =
                !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['?', '#', '@', ' ']) && rest.is_ascii();
            is_valid.then(|| text.trim_end_matches('/').to_owned())
        })
    }

    /// Returns the value of a key that is a list of strings.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, if it is anything else.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.json(key)? else { return Ok(None) };
        let texts =
            value.as_array().and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        texts.map(Some).ok_or_else(|| Self::fault(key, "a list of strings", value))
    }

    /// Returns the value of a key that is a table.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, if it is anything else.
    pub fn table(&self, key: &str) -> Result<Option<Map<String, Value>>> {
        match self.json(key)? {
            None => Ok(None),
            Some(Value::Object(table)) => Ok(Some(table)),
            Some(other) => Err(Self::fault(key, "a table", other)),
        }
    }

    /// Deserializes the value of a key that is a list or a table.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the key, with the reason.
    pub fn deserialize<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.json(key)? else { return Ok(None) };
        let fault = |error| Failure::Internal(format!("config key `{key}`: {error}"));
        serde_json::from_value(value).map(Some).map_err(fault)
    }

    /// Refuses a config with other keys than these.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`], which names the first other key, and those that are known.
    pub fn refuse_unknown(&self, known: &[&str]) -> Result<()> {
        match self.keys().find(|key| !known.contains(key)) {
            None => Ok(()),
            Some(key) => Err(Failure::Internal(format!("config key `{key}`: expected one of {}", known.join(", ")))),
        }
    }

    /// Returns the fault of a value that cannot be used: what was expected, and what was found.
    pub fn fault(key: &str, expected: &str, found: impl Into<Value>) -> Failure {
        Failure::Internal(format!("config key `{key}`: expected {expected}, found {}", found.into()))
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
    fn each_type_of_setting_is_read_or_refused_with_its_key_what_was_expected_and_what_was_found() {
        let config = Config::from_pairs([
            ("size", "16MiB"),
            ("bytes", "1000"),
            ("server", "http://127.0.0.1:9090/"),
            ("texts", r#"["a","b"]"#),
            ("table", r#"{"a":1}"#),
            ("wrong", "much"),
            ("list", r#"["a",1]"#),
        ]);
        assert_eq!((config.size("size"), config.size("bytes")), (Ok(Some(16 << 20)), Ok(Some(1000))));
        assert_eq!(config.server("server", "a server"), Ok(Some("http://127.0.0.1:9090".to_owned())));
        assert_eq!(config.texts("texts"), Ok(Some(vec!["a".to_owned(), "b".to_owned()])));
        assert_eq!(config.table("table").unwrap().unwrap()["a"], 1);
        assert_eq!(config.deserialize::<(String, String)>("texts"), Ok(Some(("a".to_owned(), "b".to_owned()))));
        assert_eq!((config.size("none"), config.texts("none"), config.table("none")), (Ok(None), Ok(None), Ok(None)));
        let faults = [
            config.size("wrong").err(),
            config.server("wrong", "a server").err(),
            config.texts("list").err(),
            config.table("list").err(),
            config.deserialize::<Vec<u8>>("texts").err(),
            config.refuse_unknown(&["size", "bytes"]).err(),
        ];
        let expected = [
            "config key `wrong`: expected a size such as `16MiB`, found \"much\"",
            "config key `wrong`: expected a server, found \"much\"",
            "config key `list`: expected a list of strings, found [\"a\",1]",
            "config key `list`: expected a table, found [\"a\",1]",
            "config key `texts`: invalid type: string \"a\", expected u8",
            "config key `list`: expected one of size, bytes",
        ];
        for (fault, expected) in faults.into_iter().zip(expected) {
            assert_eq!(fault, Some(Failure::Internal(expected.to_owned())));
        }
    }

    #[test]
    fn the_address_of_a_server_has_no_user_query_or_fragment() {
        for wrong in
            ["", "ftp://h", "http://", "http:///a", "http://me:secret@h/", "http://h/?a", "http://h/#a", "http://h b"]
        {
            assert!(Config::from_pairs([("url", wrong)]).server("url", "a server").is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_come_in_order() {
        let config = Config::from_pairs([("b", ""), ("a", "")]);
        assert_eq!(config.keys().collect::<Vec<_>>(), ["a", "b"]);
    }
}
