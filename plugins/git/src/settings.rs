//! The plugin's configuration: its `config` table.

use crate::refs::RefFilter;
use bstr::BString;
use mcp_provider::{Config, Result};
use std::path::PathBuf;

/// The repository's directory, by default.
const DEFAULT_DIR: &str = "/repo";

/// The default maximum size of a file. A read takes up to twice the size of the file, or twice the size of the largest
/// version in its delta chain.
const DEFAULT_MAX_BLOB: usize = 16 << 20;

/// The maximum size of a commit's diff, by default.
const DEFAULT_MAX_DIFF: usize = 1 << 20;

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `dir`: the repository's directory, as the plugin sees it.
    pub(crate) dir: PathBuf,
    /// `rev`: the revision that is listed by default; `HEAD` if absent.
    pub(crate) rev: Option<BString>,
    /// `refs`: the refs that are served.
    pub(crate) refs: RefFilter,
    /// `max-blob`: the maximum size of a served file, in bytes.
    pub(crate) max_blob: u64,
    /// `max-diff`: the maximum size of a commit's diff, in bytes.
    pub(crate) max_diff: usize,
}

impl Settings {
    /// Parses the config. Unknown keys are errors.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&["dir", "rev", "refs", "max-blob", "max-diff"])?;
        Ok(Self {
            dir: config.get("dir").unwrap_or(DEFAULT_DIR).into(),
            rev: config.get("rev").map(BString::from),
            refs: config.json("refs")?.map_or_else(|| Ok(RefFilter::default()), |refs| RefFilter::parse(&refs))?,
            max_blob: config.size("max-blob")?.unwrap_or(DEFAULT_MAX_BLOB) as u64,
            max_diff: config.size("max-diff")?.unwrap_or(DEFAULT_MAX_DIFF),
        })
    }

    /// Returns the maximum size of any object that is read. It is at least the default, because a small `max-blob` must
    /// not affect directories and other objects.
    pub(crate) fn max_object(&self) -> u64 {
        self.max_blob.max(DEFAULT_MAX_BLOB as u64)
    }

    /// Returns the revision that is listed by default.
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
        assert_eq!(fault, "internal: config key `branch`: expected one of dir, rev, refs, max-blob, max-diff");
    }
}
