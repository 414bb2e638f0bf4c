//! The declared needs of a provider: the custom section `mcp-host:needs/v1` of its component.
//!
//! A provider may embed the grants that it would like to have, so that an admin need not search its
//! documentation. A declared need grants nothing: `inspect` shows it as a `[[plugin]]` table, and `check`
//! compares it with the grants. It is JSON of at most [`MAX_LEN`] bytes:
//!
//! ```json
//! {
//!   "http": [{ "origin": "https://docs.rs", "why": "pages" }],
//!   "dirs": [{ "guest": "/repo", "mode": "ro", "why": "the repository" }],
//!   "keyvalue": [{ "bucket": "pages", "why": "the cache" }],
//!   "sql": [{ "database": "shop", "why": "orders" }],
//!   "env": [{ "name": "LANG", "why": "the language of titles" }],
//!   "config": { "rev": { "type": "string", "default": "HEAD", "why": "the revision that is listed" } },
//!   "limits": { "memory": { "min": "256MiB", "why": "the index" }, "prepare.cpu": { "min": "5m" } }
//! }
//! ```
//!
//! All members are optional; unknown and repeated ones are invalid. The section is read from the top level of
//! the component, else from its core modules. An invalid or repeated section causes a warning and is ignored.
//! Loading a plugin never reads it: a server reads it once the plugin is loaded, for the log of warnings.
//!
//! The publisher of the component wrote all of this: names are valid by their types, and texts must be
//! escaped before they are shown.

mod comparison;
mod limit;
mod setting;
mod unique_json;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub(super) use self::limit::prepare_limits;
pub use self::limit::{NeededLimit, NeededLimits};
pub use self::setting::{NeededSetting, SettingType};
use mcp_host_config::grants::{BucketName, DatabaseName, EnvName, GuestPath};
use mcp_host_model::net::OriginPattern;

use self::unique_json::UniqueJson;
use crate::CustomSectionError;

/// The name of the custom section.
pub const SECTION: &str = "mcp-host:needs/v1";
/// The maximum size of the section in bytes.
pub const MAX_LEN: u64 = 64 * 1024;
/// The maximum length of a quotation of the section in an error, in characters.
const MAX_QUOTED: usize = 200;

/// The declared needs of a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Needs {
    /// Origins that it sends requests to.
    pub http: Vec<NeededOrigin>,
    /// Directories that it reads or writes.
    pub dirs: Vec<NeededDir>,
    /// Key-value buckets that it opens.
    pub keyvalue: Vec<NeededBucket>,
    /// SQL databases that it queries.
    pub sql: Vec<NeededDatabase>,
    /// Environment variables that it reads.
    pub env: Vec<NeededVariable>,
    /// Keys of its config.
    pub config: BTreeMap<String, NeededSetting>,
    /// Limits that it does not work below.
    #[serde(with = "limit")]
    pub limits: NeededLimits,
}

/// Origins that a provider sends requests to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NeededOrigin {
    /// An origin, or all origins below a domain.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub origin: OriginPattern,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A directory that a provider reads or writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NeededDir {
    /// The path at which the provider expects the directory.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub guest: GuestPath,
    /// Whether the provider writes there.
    #[serde(default)]
    pub mode: NeededMode,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The access mode that a provider needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NeededMode {
    /// Read only.
    #[default]
    #[serde(rename = "ro")]
    ReadOnly,
    /// Read and write.
    #[serde(rename = "rw")]
    ReadWrite,
}

/// A key-value bucket that a provider opens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NeededBucket {
    /// Its name.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub bucket: BucketName,
    /// Whether the provider does not open the bucket without the grant.
    #[serde(default, skip_serializing_if = "setting::is_false")]
    pub optional: bool,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// An SQL database that a provider queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NeededDatabase {
    /// The name that the provider uses.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub database: DatabaseName,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// An environment variable that a provider reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NeededVariable {
    /// Its name.
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub name: EnvName,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Why the declared needs of a provider cannot be used. `Display` may quote them, escaped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NeedsError {
    /// The section cannot be read, is too large, or is repeated.
    #[error(transparent)]
    Section(#[from] CustomSectionError),
    /// The section is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The section is not the JSON of this format.
    #[error("{0}")]
    Invalid(String),
}

impl NeedsError {
    /// Returns the warning about a component.
    pub fn warning(&self) -> String {
        format!("its custom section `{SECTION}`, what it asks for, is ignored: {self}")
    }
}

impl Needs {
    /// Parses the contents of a section.
    ///
    /// # Errors
    ///
    /// The contents are invalid.
    pub fn parse(section: &[u8]) -> Result<Self, NeedsError> {
        let text = str::from_utf8(section).map_err(|_| NeedsError::NotUtf8)?;
        let syntax_error = |error: serde_json::Error| invalid(&error.to_string());
        let UniqueJson(json) = serde_json::from_str(text).map_err(syntax_error)?;
        check_objects(&json)?;
        let needs: Self = serde_json::from_str(text).map_err(syntax_error)?;
        needs.check_repetitions()?;
        for (key, setting) in &needs.config {
            setting.check(key).map_err(|reason| invalid(&format!("`config` has `{key}`: {reason}")))?;
        }
        Ok(needs)
    }

    /// Returns whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn check_repetitions(&self) -> Result<(), NeedsError> {
        check_unique("http", self.http.iter().map(|need| &need.origin))?;
        check_unique("dirs", self.dirs.iter().map(|need| &need.guest))?;
        check_unique("keyvalue", self.keyvalue.iter().map(|need| &need.bucket))?;
        check_unique("sql", self.sql.iter().map(|need| &need.database))?;
        check_unique("env", self.env.iter().map(|need| &need.name))
    }
}

/// Checks that every structure is a JSON object, because serde also accepts arrays of the members' values.
fn check_objects(json: &Value) -> Result<(), NeedsError> {
    let Some(members) = json.as_object() else { return Err(invalid("it is not a JSON object")) };
    for (name, member) in members {
        let are_objects = match member {
            Value::Array(entries) => entries.iter().all(Value::is_object),
            Value::Object(entries) => entries.values().all(Value::is_object),
            _ => true,
        };
        if !are_objects {
            return Err(invalid(&format!("an entry of `{name}` is not an object")));
        }
    }
    Ok(())
}

fn check_unique<T: Ord + Display>(list: &str, names: impl Iterator<Item = T>) -> Result<(), NeedsError> {
    let mut known = BTreeSet::new();
    for name in names {
        let text = name.to_string();
        if !known.insert(name) {
            return Err(invalid(&format!("`{list}` has `{text}` twice")));
        }
    }
    Ok(())
}

/// Returns an error that quotes the section, escaped and truncated.
fn invalid(message: &str) -> NeedsError {
    let mut shown: String = message.chars().take(MAX_QUOTED).collect();
    if shown.len() < message.len() {
        shown.push('…');
    }
    NeedsError::Invalid(mcp_host_base::escape::escape(&shown, mcp_host_base::escape::is_unsafe).into_owned())
}

fn to_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'d, T: FromStr<Err: Display>, D: Deserializer<'d>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &serde_json::Value) -> Result<Needs, String> {
        Needs::parse(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn all_members_are_read_and_written_in_the_same_form() {
        let full = json!({
            "http": [{ "origin": "https://docs.rs", "why": "pages" }, { "origin": "https://*.example.com" }],
            "dirs": [{ "guest": "/repo", "mode": "ro" }, { "guest": "/drafts", "mode": "rw", "why": "yours" }],
            "keyvalue": [{ "bucket": "pages" }],
            "sql": [{ "database": "shop", "why": "orders" }],
            "env": [{ "name": "LANG", "why": "titles" }],
            "config": { "rev": { "type": "string", "default": "HEAD", "why": "a revision" }, "most": { "type": "integer" } },
            "limits": { "memory": { "min": "256MiB", "why": "the index" }, "http.rate": { "min": "600/m" }, "prepare.cpu": { "min": "5m" } },
        });
        let needs = parse(&full).unwrap();
        assert_eq!(serde_json::to_value(&needs).unwrap(), full);
        assert_eq!(needs.dirs[1].mode, NeededMode::ReadWrite);
        assert!(parse(&json!({})).unwrap().is_empty() && !needs.is_empty());
        assert_eq!(parse(&json!({ "dirs": [{ "guest": "/a" }] })).unwrap().dirs[0].mode, NeededMode::ReadOnly);
    }

    #[test]
    fn what_is_invalid_is_named() {
        for (value, expected) in [
            (json!([]), "it is not a JSON object"),
            (json!({ "sockets": [] }), "unknown field `sockets`"),
            (json!({ "http": [{ "origin": "docs.rs" }] }), "is not an origin"),
            (json!({ "http": ["https://docs.rs"] }), "an entry of `http` is not an object"),
            (json!({ "dirs": [["/a"]] }), "an entry of `dirs` is not an object"),
            (json!({ "env": { "A": {} } }), "invalid type"),
            (json!({ "http": [{ "origin": "https://docs.rs", "credentials": true }] }), "unknown field `credentials`"),
            (json!({ "dirs": [{ "guest": "repo" }] }), "`repo`"),
            (json!({ "dirs": [{ "guest": "/repo", "mode": "rwx" }] }), "unknown variant `rwx`"),
            (json!({ "dirs": [{ "guest": "/a" }, { "guest": "/a", "mode": "rw" }] }), "`dirs` has `/a` twice"),
            (json!({ "keyvalue": [{ "bucket": "" }] }), "is not a bucket name"),
            (json!({ "sql": [{ "database": "a b" }] }), "is not a database name"),
            (json!({ "env": [{ "name": "A=B" }] }), "not a valid variable name"),
            (json!({ "env": [{ "name": "A" }, { "name": "A" }] }), "`env` has `A` twice"),
            (json!({ "config": { "a": { "type": "number" } } }), "unknown variant `number`"),
            (json!({ "limits": { "cpus": { "min": "1s" } } }), "unknown limit `cpus`, expected one of `memory`"),
            (json!({ "limits": { "memory": "64MiB" } }), "an entry of `limits` is not an object"),
            (json!({ "limits": { "memory": {} } }), "missing field `min`"),
            (json!({ "limits": { "memory": { "min": "64" } } }), "`limits` has `memory`: the size `64` has no unit"),
            (json!({ "limits": { "cpu": { "min": "1h" } } }), "`limits` has `cpu`: "),
            (json!({ "limits": { "cpu": { "max": "1s" } } }), "unknown field `max`"),
            (
                json!({ "config": { "a": { "type": "integer", "default": "1" } } }),
                "`config` has `a`: its default is not",
            ),
        ] {
            let error = parse(&value).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
        for repeated in [
            r#"{"config": {"a": {"type": "string"}, "a": {"type": "integer"}}}"#,
            r#"{"config": {"t": {"type": "table", "default": {"a": [{"a": 1, "a": 2}]}}}}"#,
            r#"{"a": {}, "a": {}}"#,
        ] {
            let error = Needs::parse(repeated.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("an object has `a` twice"), "{error}");
        }
        assert!(matches!(Needs::parse(b"{\"http\": \xff}"), Err(NeedsError::NotUtf8)));
        assert!(matches!(Needs::parse(b""), Err(NeedsError::Invalid(_))));
        assert!(matches!(Needs::parse(&b"[".repeat(60_000)), Err(NeedsError::Invalid(_))));
    }

    #[test]
    fn an_error_quotes_little_and_nothing_that_drives_a_terminal() {
        let error = parse(&json!({ format!("\u{1b}[2J\u{202e}{}", "x".repeat(60_000)): [] })).unwrap_err();
        assert!(error.len() < 400 && !error.contains(['\u{1b}', '\u{202e}']), "{error}");
    }
}
