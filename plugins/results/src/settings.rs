//! The plugin's configuration: its `config` table.

use mcp_provider::{Config, Result};
use std::path::PathBuf;

/// The parsed config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `dir`: the directory, as the plugin sees it.
    pub(crate) dir: PathBuf,
    /// `max-file`: the maximum size of a readable file.
    pub(crate) max_file: usize,
}

impl Settings {
    /// Parses the config. Unknown keys are errors.
    pub(crate) fn parse(config: &Config) -> Result<Self> {
        config.refuse_unknown(&["dir", "max-file"])?;
        Ok(Self {
            dir: config.get("dir").unwrap_or("/results").into(),
            max_file: config.size("max-file")?.unwrap_or(16 << 20),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_need_be_set() {
        let settings = Settings::parse(&Config::default()).unwrap();
        assert_eq!((settings.dir.to_str(), settings.max_file), (Some("/results"), 16 << 20));
    }

    #[test]
    fn an_unknown_or_malformed_key_is_a_fault_that_names_it() {
        for (key, value) in [("dirr", "/n"), ("max-file", "much")] {
            let fault = Settings::parse(&Config::from_pairs([(key, value)])).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("internal: config key `{key}`: expected ")), "{fault}");
        }
    }
}
