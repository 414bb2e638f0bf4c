//! The plugin's configuration: its `config` table.

use bytesize::ByteSize;
use encoding_rs::Encoding;
use mcp_provider::{Config, Failure, Result};
use std::path::PathBuf;

/// The directory, by default.
const DEFAULT_DIR: &str = "/files";

/// The maximum size of a part of a file that is read at once, by default.
const DEFAULT_MAX_READ: ByteSize = ByteSize::mib(1);

/// The maximum size of a document that is converted to text, by default.
const DEFAULT_MAX_DOCUMENT: ByteSize = ByteSize::mib(16);

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `dir`: the directory, as the plugin sees it.
    pub(crate) dir: PathBuf,
    /// Which files are served.
    pub(crate) shown: Shown,
    /// `encoding`: the encoding of text that is not UTF-8; without it, it is detected.
    pub(crate) encoding: Option<&'static Encoding>,
    /// `max-read`: the maximum number of bytes of a file that one read returns.
    pub(crate) max_read: usize,
    /// `max-document`: the maximum size of a document that is converted to text.
    pub(crate) max_document: usize,
}

/// Which files are served besides those that are by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shown {
    /// `dotfiles`: whether names that begin with a dot are.
    pub(crate) dotfiles: bool,
    /// `env-files`: whether files of environment variables, such as `.env`, are.
    pub(crate) env_files: bool,
    /// `ignored`: whether what `.gitignore`, `.ignore` and `.git/info/exclude` name is.
    pub(crate) ignored: bool,
}

impl Settings {
    /// Parses the config. Unknown keys are errors.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        const KNOWN: [&str; 7] = ["dir", "dotfiles", "env-files", "ignored", "encoding", "max-read", "max-document"];
        if let Some(unknown) = config.keys().find(|key| !KNOWN.contains(key)) {
            return Err(Failure::internal(format!("config key `{unknown}`: expected one of {}", KNOWN.join(", "))));
        }
        let size = |key: &str, default: ByteSize| {
            let size = config.parse::<ByteSize>(key)?.unwrap_or(default).as_u64().max(1);
            Ok::<_, Failure>(usize::try_from(size).unwrap_or(usize::MAX))
        };
        let is_set = |key: &str| Ok::<_, Failure>(config.parse::<bool>(key)?.unwrap_or_default());
        let encoding = config.get("encoding").map(|label| {
            Encoding::for_label(label.as_bytes()).ok_or_else(|| {
                Failure::internal(format!(
                    "config key `encoding`: expected an encoding such as `euc-jp`, found {label:?}"
                ))
            })
        });
        Ok(Self {
            dir: config.get("dir").unwrap_or(DEFAULT_DIR).into(),
            shown: Shown {
                dotfiles: is_set("dotfiles")?,
                env_files: is_set("env-files")?,
                ignored: is_set("ignored")?,
            },
            encoding: encoding.transpose()?,
            max_read: size("max-read", DEFAULT_MAX_READ)?,
            max_document: size("max-document", DEFAULT_MAX_DOCUMENT)?,
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
