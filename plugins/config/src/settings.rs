//! The plugin's configuration: its `config` table.

use crate::environment::Naming;
use crate::format::{Format, Formats};
use crate::redact::Redactor;
use mcp_provider::{Config, Result};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The directory, by default.
const DEFAULT_DIR: &str = "/config";
/// The default separator of nested keys in the name of a variable.
const DEFAULT_SEPARATOR: &str = "__";
/// The maximum size of a file that is parsed, by default.
const DEFAULT_MAX_FILE: usize = 1 << 20;
/// The maximum number of layers that are files.
const MAX_LAYERS: usize = 32;

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `dir`: the directory, as the plugin sees it.
    pub(crate) dir: PathBuf,
    /// `defaults`: the lowest layer.
    pub(crate) defaults: Option<Map<String, Value>>,
    /// `layers`: the names of the files of the other layers, lowest first.
    pub(crate) layers: Vec<String>,
    /// `env-prefix` and `env-separator`: the rules for the variables of the topmost layer.
    pub(crate) naming: Option<Naming>,
    /// `formats`: the formats of files.
    pub(crate) formats: Formats,
    /// `redact`, `secret-keys`, `public-keys`: the redaction of secrets.
    pub(crate) redactor: Redactor,
    /// `max-file`: the maximum size of a file that is parsed.
    pub(crate) max_file: usize,
}

impl Settings {
    /// Parses the config. Unknown keys are errors.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        const KNOWN: [&str; 10] = [
            "dir",
            "defaults",
            "layers",
            "env-prefix",
            "env-separator",
            "formats",
            "redact",
            "secret-keys",
            "public-keys",
            "max-file",
        ];
        config.refuse_unknown(&KNOWN)?;
        let layers = config.texts("layers")?.unwrap_or_default();
        if layers.len() > MAX_LAYERS {
            return Err(Config::fault("layers", &format!("at most {MAX_LAYERS} files"), layers.len()));
        }
        let formats = formats(config)?;
        if let Some(unknown) = layers.iter().find(|names| formats.of(folder::last_name(names)).is_none()) {
            return Err(Config::fault(
                "layers",
                "files of a known format, by name or by the config key `formats`",
                unknown.as_str(),
            ));
        }
        let separator = config.get("env-separator").unwrap_or(DEFAULT_SEPARATOR);
        if separator.is_empty() {
            return Err(Config::fault("env-separator", "a text that is not empty", separator));
        }
        let naming = config.get("env-prefix").map(|prefix| Naming::new(prefix, separator));
        Ok(Self {
            dir: config.get("dir").unwrap_or(DEFAULT_DIR).into(),
            defaults: config.table("defaults")?,
            layers,
            naming,
            formats,
            redactor: match config.parse::<bool>("redact")?.unwrap_or(true) {
                true => Redactor::new(
                    config.texts("secret-keys")?.unwrap_or_default(),
                    config.texts("public-keys")?.unwrap_or_default(),
                ),
                false => Redactor::disabled(),
            },
            max_file: config.size("max-file")?.unwrap_or(DEFAULT_MAX_FILE),
        })
    }
}

fn formats(config: &Config) -> Result<Formats> {
    let mut formats = Formats::default();
    for (name, format) in config.table("formats")?.unwrap_or_default() {
        let expected =
            || Config::fault("formats", &format!("one of {} for `{name}`", Format::NAMES.join(", ")), format.clone());
        formats.add(name.clone(), format.as_str().and_then(Format::from_name).ok_or_else(expected)?);
    }
    Ok(formats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_need_be_set() {
        let settings = Settings::parse(&Config::default()).unwrap();
        assert_eq!((settings.dir.to_str(), settings.max_file), (Some("/config"), 1 << 20));
        assert_eq!((settings.naming, settings.layers), (None, Vec::new()));
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_that_names_it() {
        for (key, value) in [
            ("dirr", "/n"),
            ("layers", "\"a\""),
            ("layers", "[1]"),
            ("layers", "[\"app.conf\"]"),
            ("defaults", "[]"),
            ("env-separator", ""),
            ("formats", r#"{"x":"xml"}"#),
            ("redact", "yes"),
            ("public-keys", "{}"),
            ("max-file", "much"),
        ] {
            let fault = Settings::parse(&Config::from_pairs([(key, value)])).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("internal: config key `{key}`: expected ")), "{fault}");
        }
    }
}
