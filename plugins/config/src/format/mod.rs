//! The formats of files. Each is parsed to JSON values.
//!
//! | format | parser | values that JSON does not have |
//! |---|---|---|
//! | TOML | `toml` | dates and times are strings |
//! | YAML | `serde-saphyr` | scalars by the YAML 1.2 core schema; aliases and merge keys are expanded |
//! | INI | `configparser` | values are strings, or null without a `=`; keys before the first section are at the root |
//! | INI | `configparser` | values are strings, or null without a `=`; keys before the first section are at the root |
//! | dotenv | `dotenvy` | values are strings, with `$NAME` expanded |
//!
//! A number that JSON cannot represent (infinity, NaN) is null. Each parser limits the depth, and the expanded size of
//! aliases and variables. A fault names a line, and contains no text of the file.

mod dotenv;
mod ini;
mod toml;
mod yaml;

use serde_json::Value;
use std::collections::BTreeMap;

/// The reason why a file has no values.
pub(crate) type Fault = String;

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Toml,
    Yaml,
    Json,
    Ini,
    Dotenv,
}

impl Format {
    /// The names of all formats.
    pub(crate) const NAMES: [&str; 5] = ["toml", "yaml", "json", "ini", "dotenv"];

    /// Returns the format with a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let formats = [Self::Toml, Self::Yaml, Self::Json, Self::Ini, Self::Dotenv];
        Self::NAMES.into_iter().zip(formats).find_map(|(known, format)| (known == name).then_some(format))
    }

    /// Returns the format of a file by convention.
    fn by_convention(name: &str) -> Option<Self> {
        if name == ".env" || name.starts_with(".env.") {
            return Some(Self::Dotenv);
        }
        match extension(name)? {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            "ini" | "cfg" => Some(Self::Ini),
            "env" => Some(Self::Dotenv),
            _ => None,
        }
    }

    /// Parses a file.
    ///
    /// # Errors
    ///
    /// The line and the description of the first error.
    pub(crate) fn parse(self, bytes: &[u8]) -> Result<Value, Fault> {
        let text = std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).map_err(|error| {
            let line = line_at(bytes, error.valid_up_to());
            format!("line {line}: expected UTF-8, found another encoding or binary data")
        })?;
        match self {
            Self::Toml => toml::parse(text),
            Self::Yaml => yaml::parse(text),
            Self::Json => serde_json::from_str(text).map_err(|error| json_fault(&error)),
            Self::Ini => ini::parse(text),
            Self::Dotenv => dotenv::parse(text),
        }
    }
}

/// The formats of files by name: the ones that the config declares, and the conventional ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Formats {
    declared: BTreeMap<String, Format>,
}

impl Formats {
    /// Declares the format of files with a name, or an extension.
    pub(crate) fn add(&mut self, name: String, format: Format) {
        self.declared.insert(name, format);
    }

    /// Returns the format of a file.
    pub(crate) fn of(&self, name: &str) -> Option<Format> {
        let declared = self.declared.get(name).or_else(|| self.declared.get(extension(name)?));
        declared.copied().or_else(|| Format::by_convention(name).filter(|_| is_shown(name)))
    }
}

/// Returns whether the conventional format of a name applies: not to hidden files, except files of variables.
fn is_shown(name: &str) -> bool {
    !folder::is_hidden(name) || name == ".env" || name.starts_with(".env.")
}

fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension)
}

/// Converts the error. Its message has a position, and no text of the file.
fn json_fault(error: &serde_json::Error) -> Fault {
    let (message, line) = (error.to_string(), error.line());
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    format!("line {line}: {message}")
}

/// Returns the line of an offset, from 1.
fn line_at(text: &[u8], offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_file_has_the_format_of_its_name_or_the_declared_one() {
        let mut formats = Formats::default();
        formats.add("conf".to_owned(), Format::Ini);
        formats.add(".npmrc".to_owned(), Format::Ini);
        for (name, format) in [
            ("a.toml", Some(Format::Toml)),
            ("a.b.yml", Some(Format::Yaml)),
            (".env", Some(Format::Dotenv)),
            (".env.local", Some(Format::Dotenv)),
            ("prod.env", Some(Format::Dotenv)),
            ("nginx.conf", Some(Format::Ini)),
            (".npmrc", Some(Format::Ini)),
            (".toml", None),
            (".hidden.toml", None),
            ("README.md", None),
            ("toml", None),
        ] {
            assert_eq!(formats.of(name), format, "{name}");
        }
    }

    #[test]
    fn one_value_is_the_same_in_each_format() {
        let nested = json!({ "server": { "host": "localhost" } });
        for (format, text) in [
            (Format::Toml, "[server]\nhost = \"localhost\"\n"),
            (Format::Yaml, "server:\n  host: localhost\n"),
            (Format::Json, r#"{"server": {"host": "localhost"}}"#),
            (Format::Ini, "[server]\nhost = localhost\n"),
        ] {
            assert_eq!(format.parse(text.as_bytes()), Ok(nested.clone()), "{format:?}");
            let with_mark = ["\u{feff}", text].concat();
            assert_eq!(format.parse(with_mark.as_bytes()), Ok(nested.clone()), "{format:?}");
        }
        assert_eq!(Format::Dotenv.parse(b"HOST=localhost"), Ok(json!({ "HOST": "localhost" })));
    }

    #[test]
    fn a_fault_names_the_line_and_shows_nothing_of_the_file() {
        for (format, text, line) in [
            (Format::Toml, "a = 1\nb = hunter2\n", "line 2: "),
            (Format::Toml, "a = \"hunter2\n", "line 1: "),
            (Format::Yaml, "a: 1\nb: [hunter2\n", "line "),
            (Format::Yaml, "a: *hunter2\n", "line 1: "),
            (Format::Json, "{\"a\": 1,\n\"b\": hunter2}", "line 2: "),
            (Format::Ini, "[a]\n[hunter2\n", "line 2: "),
            (Format::Dotenv, "A=1\nB=\"hunter2\n", "line "),
            (Format::Dotenv, "A=1\nhunter2\n", "line 2: "),
        ] {
            let fault = format.parse(text.as_bytes()).unwrap_err();
            assert!(fault.starts_with(line) && !fault.contains("hunter2"), "{format:?}: {fault}");
        }
    }

    #[test]
    fn what_is_no_utf_8_is_refused_with_its_line() {
        let shift_jis = b"a = 1\nb = \"\x93\xfa\x96{\"\n";
        for name in Format::NAMES {
            let fault = Format::from_name(name).unwrap().parse(shift_jis).unwrap_err();
            assert!(fault.starts_with("line 2: expected UTF-8"), "{name}: {fault}");
        }
    }

    #[test]
    fn depth_is_bounded_in_each_format() {
        let deep = 500_000;
        for (format, text) in [
            (Format::Json, "[".repeat(deep)),
            (Format::Json, r#"{"a":"#.repeat(deep)),
            (Format::Yaml, "[".repeat(deep)),
            (Format::Yaml, "- ".repeat(deep)),
            (Format::Yaml, "{a: ".repeat(deep)),
            (Format::Toml, ["a = ", &"[".repeat(deep)].concat()),
            (Format::Toml, [&vec!["a"; deep].join("."), " = 1"].concat()),
            (Format::Toml, ["[", &vec!["a"; deep].join("."), "]"].concat()),
        ] {
            assert!(format.parse(text.as_bytes()).is_err(), "{format:?} {:?}", text.get(..9));
        }
    }

    proptest! {
        #[test]
        fn no_parser_panics(text in "[\\[\\]{}:=\"'#;,&*!|>$~\\\\ \t\r\na-c0-9.<-]{0,60}") {
            for name in Format::NAMES {
                let _ = Format::from_name(name).unwrap().parse(text.as_bytes());
            }
        }

        #[test]
        fn no_parser_panics_on_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            for name in Format::NAMES {
                let _ = Format::from_name(name).unwrap().parse(&bytes);
            }
        }
    }
}
