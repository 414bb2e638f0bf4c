//! The plugin's configuration: its `config` table.

use encoding_rs::Encoding;
use mcp_provider::{Config, Failure, Result};
use std::path::PathBuf;

/// The directory, by default.
const DEFAULT_DIR: &str = "/files";

/// The default maximum size of a part that one read returns.
const DEFAULT_MAX_READ: usize = 1 << 20;

/// The maximum size of a document that is converted to text, by default.
const DEFAULT_MAX_DOCUMENT: usize = 16 << 20;

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `dir`: the directory, as the plugin sees it.
    pub(crate) dir: PathBuf,
    /// The visibility rules.
    pub(crate) shown: Shown,
    /// `encoding`: the encoding of text that is not UTF-8; without it, it is detected.
    pub(crate) encoding: Option<&'static Encoding>,
    /// `max-read`: the maximum number of bytes of a file that one read returns.
    pub(crate) max_read: usize,
    /// `max-document`: the maximum size of a document that is converted to text.
    pub(crate) max_document: usize,
}

/// The items that are served in addition to the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shown {
    /// `dotfiles`: whether names that begin with a dot are served.
    pub(crate) dotfiles: bool,
    /// `env-files`: whether files of environment variables, such as `.env`, are served.
    pub(crate) env_files: bool,
    /// `ignored`: whether items that `.gitignore`, `.ignore` and `.git/info/exclude` ignore are served.
    pub(crate) ignored: bool,
}

impl Settings {
    /// Parses the config. Unknown keys are errors.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&["dir", "dotfiles", "env-files", "ignored", "encoding", "max-read", "max-document"])?;
        let is_set = |key: &str| Ok::<_, Failure>(config.parse::<bool>(key)?.unwrap_or_default());
        Ok(Self {
            dir: config.get("dir").unwrap_or(DEFAULT_DIR).into(),
            shown: Shown {
                dotfiles: is_set("dotfiles")?,
                env_files: is_set("env-files")?,
                ignored: is_set("ignored")?,
            },
            encoding: config.parse_with("encoding", "an encoding such as `euc-jp`", |label| {
                Encoding::for_label(label.as_bytes())
            })?,
            max_read: config.size("max-read")?.unwrap_or(DEFAULT_MAX_READ).max(1),
            max_document: config.size("max-document")?.unwrap_or(DEFAULT_MAX_DOCUMENT).max(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_need_be_set() {
        let settings = Settings::parse(&Config::default()).unwrap();
        assert_eq!((settings.dir.to_str(), settings.shown), (Some("/files"), Shown::default()));
        assert_eq!((settings.max_read, settings.max_document), (1 << 20, 16 << 20));
    }

    #[test]
    fn sizes_booleans_and_encodings_are_written_as_people_write_them() {
        let pairs = [("max-read", "64KiB"), ("dotfiles", "true"), ("encoding", "Shift_JIS")];
        let settings = Settings::parse(&Config::from_pairs(pairs)).unwrap();
        assert_eq!((settings.max_read, settings.shown.dotfiles), (64 << 10, true));
        assert_eq!(settings.encoding, Some(encoding_rs::SHIFT_JIS));
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_that_names_it() {
        for (key, value) in [("dirr", "/n"), ("max-read", "much"), ("dotfiles", "yes"), ("encoding", "klingon")] {
            let fault = Settings::parse(&Config::from_pairs([(key, value)])).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("internal: config key `{key}`: expected ")), "{fault}");
        }
    }
}
