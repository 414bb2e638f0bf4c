//! The plugin's configuration.

use mcp_provider::{Config, Failure, Result};
use std::path::PathBuf;

const DIR: &str = "dir";
const MAX_FILE_BYTES: &str = "max-file-bytes";

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The folder of notes, at its guest path.
    pub(crate) dir: PathBuf,
    /// The maximum size of a file that is served, in bytes.
    pub(crate) max_file_bytes: u64,
}

impl Settings {
    /// Parses the config; an unknown key is an error, since it is most likely a typo.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        if let Some(unknown) = config.keys().find(|key| ![DIR, MAX_FILE_BYTES].contains(key)) {
            return Err(Failure::internal(format!(
                "config key `{unknown}` is unknown; expected `{DIR}` or `{MAX_FILE_BYTES}`"
            )));
        }
        Ok(Self {
            dir: config.get(DIR).unwrap_or("/notes").into(),
            max_file_bytes: config.parse(MAX_FILE_BYTES)?.unwrap_or(16 * 1024 * 1024),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_at_notes_unless_the_config_says_otherwise() {
        assert_eq!(Settings::parse(&Config::default()).unwrap().dir, PathBuf::from("/notes"));
        let config = Config::from_pairs([(DIR, "/n"), (MAX_FILE_BYTES, "5")]);
        assert_eq!(Settings::parse(&config), Ok(Settings { dir: "/n".into(), max_file_bytes: 5 }));
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_for_the_log() {
        for pair in [("dirr", "/n"), (MAX_FILE_BYTES, "much")] {
            assert!(matches!(Settings::parse(&Config::from_pairs([pair])), Err(Failure::Internal(_))));
        }
    }
}
