//! The plugin's configuration.

use encoding_rs::Encoding;
use mcp_provider::{Config, Result, Role};
use serde_json::Value;
use std::path::PathBuf;
use unicode_normalization::UnicodeNormalization;

const DIR: &str = "dir";
const MAX_FILE_BYTES: &str = "max-file-bytes";
const ENCODING: &str = "encoding";
const PRIORITY: &str = "priority";
const AUDIENCE: &str = "audience";
const ORDER: &str = "order";

/// The order of listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// By path.
    #[default]
    Path,
    /// By reading.
    Reading,
}

/// The parsed config.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// The folder of notes, at its guest path.
    pub(crate) dir: PathBuf,
    /// The maximum size of a served file, in bytes.
    pub(crate) max_file_bytes: u64,
    /// The encoding of text that is not UTF-8; without it, it is detected.
    pub(crate) encoding: Option<&'static Encoding>,
    /// The default priority of files, by folder.
    priority: ByFolder<f64>,
    /// The default audience of files, by folder.
    audience: ByFolder<Vec<Role>>,
    pub(crate) order: Order,
}

/// Values for the files in folders. The innermost folder takes precedence.
#[derive(Debug, Clone, PartialEq)]
struct ByFolder<T>(Vec<(String, T)>);

impl<T> ByFolder<T> {
    fn get(&self, names: &str) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        let names = nfc(names);
        let is_inside =
            |folder: &str| folder.is_empty() || names.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let matching = self.0.iter().filter(|(folder, _)| is_inside(folder));
        matching.max_by_key(|(folder, _)| folder.len()).map(|(_, value)| value)
    }
}

impl Settings {
    /// Parses the config. An unknown key is an error, because it is most likely a typo.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&[DIR, MAX_FILE_BYTES, ENCODING, PRIORITY, AUDIENCE, ORDER])?;
        let order = config.parse_with(ORDER, "`path` or `reading`", |order| match order {
            "path" => Some(Order::Path),
            "reading" => Some(Order::Reading),
            _ => None,
        })?;
        Ok(Self {
            dir: config.get(DIR).unwrap_or("/notes").into(),
            max_file_bytes: config.parse(MAX_FILE_BYTES)?.unwrap_or(16 * 1024 * 1024),
            encoding: config
                .parse_with(ENCODING, "an encoding such as `euc-jp`", |label| Encoding::for_label(label.as_bytes()))?,
            priority: by_folder(config, PRIORITY, "a number from 0.0 to 1.0 for each folder", |value| {
                value.as_f64().filter(|priority| (0.0..=1.0).contains(priority))
            })?,
            audience: by_folder(config, AUDIENCE, "`user`, `assistant` or a list of them for each folder", roles)?,
            order: order.unwrap_or_default(),
        })
    }

    /// Returns the default priority of a file.
    pub(crate) fn priority(&self, names: &str) -> Option<f64> {
        self.priority.get(names).copied()
    }

    /// Returns the default audience of a file.
    pub(crate) fn audience(&self, names: &str) -> &[Role] {
        self.audience.get(names).map_or(&[], Vec::as_slice)
    }
}

/// Parses a table of folders.
fn by_folder<T>(
    config: &Config,
    key: &str,
    expected: &str,
    parse: impl Fn(&Value) -> Option<T>,
) -> Result<ByFolder<T>> {
    let Some(table) = config.json(key)? else { return Ok(ByFolder(Vec::new())) };
    let folders = table.as_object().and_then(|table| {
        let one = |(folder, value): (&String, &Value)| Some((nfc(folder.trim_matches('/')), parse(value)?));
        table.iter().map(one).collect()
    });
    folders.map(ByFolder).ok_or_else(|| Config::fault(key, expected, table.to_string()))
}

fn roles(value: &Value) -> Option<Vec<Role>> {
    let role = |value: &Value| match value.as_str()? {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    };
    match value {
        Value::Array(roles) => roles.iter().map(role).collect(),
        one => role(one).map(|role| vec![role]),
    }
}

/// Returns names in the normalization form that is used for comparisons.
fn nfc(names: &str) -> String {
    names.nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_provider::Failure;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::parse(&Config::from_pairs(pairs.iter().copied()))
    }

    #[test]
    fn the_folder_is_at_notes_unless_the_config_says_otherwise() {
        assert_eq!(parse(&[]).unwrap().dir, PathBuf::from("/notes"));
        let settings = parse(&[(DIR, "/n"), (MAX_FILE_BYTES, "5"), (ENCODING, "sjis"), (ORDER, "reading")]).unwrap();
        assert_eq!((settings.dir, settings.max_file_bytes), ("/n".into(), 5));
        assert_eq!((settings.encoding, settings.order), (Some(encoding_rs::SHIFT_JIS), Order::Reading));
    }

    #[test]
    fn the_innermost_folder_counts() {
        let settings = parse(&[
            (PRIORITY, r#"{"規程/":0.9,"規程/旧":0.1,"か\u3099":0.5}"#),
            (AUDIENCE, r#"{"":"user","規程":["assistant"]}"#),
        ])
        .unwrap();
        for (names, priority) in [
            ("規程/就業.md", Some(0.9)),
            ("規程/旧/就業.md", Some(0.1)),
            ("規程集/a.md", None),
            ("a.md", None),
            ("が/a.md", Some(0.5)),
            ("か\u{3099}/a.md", Some(0.5)),
        ] {
            assert_eq!(settings.priority(names), priority, "{names}");
        }
        assert_eq!(settings.audience("a.md"), [Role::User]);
        assert_eq!(settings.audience("規程/就業.md"), [Role::Assistant]);
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_for_the_log() {
        for pair in [
            ("dirr", "/n"),
            (MAX_FILE_BYTES, "much"),
            (ENCODING, "klingon"),
            (ORDER, "size"),
            (PRIORITY, "0.9"),
            (PRIORITY, r#"{"a":2}"#),
            (AUDIENCE, r#"{"a":"everybody"}"#),
        ] {
            assert!(matches!(parse(&[pair]), Err(Failure::Internal(_))), "{pair:?}");
        }
    }
}
