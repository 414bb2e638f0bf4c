//! What the administrator sets: the `config` table of the plugin.

use bstr::BString;
use bytesize::ByteSize;
use mcp_provider::{Config, Failure, Result};
use std::path::PathBuf;

/// Where the repository is unless the config says otherwise.
const DEFAULT_DIR: &str = "/repo";

/// How many bytes a file may have unless the config says otherwise. Reading one takes up to twice its size, or twice
/// that of a version that it is stored as a difference from.
const DEFAULT_MAX_BLOB: ByteSize = ByteSize::mib(16);

/// How many bytes of diff a commit is shown with unless the config says otherwise.
const DEFAULT_MAX_DIFF: ByteSize = ByteSize::mib(1);

/// What the administrator sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `dir`: where the repository is, as the plugin sees it.
    pub(crate) dir: PathBuf,
    /// `rev`: the revision whose files are listed first; without it what `HEAD` names.
    pub(crate) rev: Option<BString>,
    /// `max-blob`: how many bytes a file may have to be served.
    pub(crate) max_blob: u64,
    /// `max-diff`: how many bytes of diff a commit is shown with.
    pub(crate) max_diff: usize,
}

impl Settings {
    /// Reads them from the config, and refuses what it does not know.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        const KNOWN: [&str; 4] = ["dir", "rev", "max-blob", "max-diff"];
        if let Some(unknown) = config.keys().find(|key| !KNOWN.contains(key)) {
            return Err(Failure::internal(format!("config key `{unknown}`: expected one of {}", KNOWN.join(", "))));
        }
        let size = |key: &str, default: ByteSize| Ok::<_, Failure>(config.parse::<ByteSize>(key)?.unwrap_or(default));
        Ok(Self {
            dir: config.get("dir").unwrap_or(DEFAULT_DIR).into(),
            rev: config.get("rev").map(BString::from),
            max_blob: size("max-blob", DEFAULT_MAX_BLOB)?.as_u64(),
            max_diff: usize::try_from(size("max-diff", DEFAULT_MAX_DIFF)?.as_u64()).unwrap_or(usize::MAX),
        })
    }

    /// How many bytes any object may have that is read: a small `max-blob` is not meant for directories and the like.
    pub(crate) fn max_object(&self) -> u64 {
        self.max_blob.max(DEFAULT_MAX_BLOB.as_u64())
    }

    /// The revision whose files are listed first.
    pub(crate) fn default_rev(&self) -> BString {
        self.rev.clone().unwrap_or_else(|| "HEAD".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_need_be_set() {
        let settings = Settings::parse(&Config::default()).unwrap();
        assert_eq!((settings.dir.to_str(), settings.default_rev()), (Some("/repo"), "HEAD".into()));
        assert_eq!((settings.max_blob, settings.max_diff), (16 << 20, 1 << 20));
    }

    #[test]
    fn sizes_are_numbers_of_bytes_or_written_with_a_unit() {
        let settings = Settings::parse(&Config::from_pairs([("max-blob", "32MiB"), ("max-diff", "1000")])).unwrap();
        assert_eq!((settings.max_blob, settings.max_diff), (32 << 20, 1000));
        let fault = Settings::parse(&Config::from_pairs([("max-blob", "much")])).unwrap_err().to_string();
        assert!(fault.contains("`max-blob`"), "{fault}");
    }

    #[test]
    fn a_small_limit_for_files_leaves_directories_readable() {
        let settings = Settings::parse(&Config::from_pairs([("max-blob", "1KiB")])).unwrap();
        assert_eq!((settings.max_blob, settings.max_object()), (1024, 16 << 20));
    }

    #[test]
    fn a_key_that_is_not_known_is_refused_with_those_that_are() {
        let fault = Settings::parse(&Config::from_pairs([("branch", "main")])).unwrap_err().to_string();
        assert_eq!(fault, "internal: config key `branch`: expected one of dir, rev, max-blob, max-diff");
    }
}
