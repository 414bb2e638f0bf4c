//! The settings of a refused config that are not replaced, because they would not work.

use mcp_host_config::Config;

use super::Validate;

/// The part of a log message about plugins that are not replaced.
pub(super) const KEEPING_PLUGINS: &str = "keeping the current plugins";
/// The part about the rest of their config.
pub(super) const SETTINGS_APPLY: &str = "rules and settings of the new config apply";
/// The same if some of the settings are not replaced either.
const OTHER_SETTINGS_APPLY: &str = "rules and other settings of the new config apply";

/// The settings of a refused config that are refused for themselves. They stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeptSettings {
    issuers: bool,
    audit: bool,
}

impl KeptSettings {
    pub(super) fn new(config: &Config, validate: &Validate) -> Self {
        let is_refused = |settings: Config| validate(&settings).is_err();
        Self {
            issuers: is_refused(Config { issuers: config.issuers.clone(), ..Config::default() }),
            audit: is_refused(Config { audit: config.audit.clone(), ..Config::default() }),
        }
    }

    /// Returns the config with these settings of the current one.
    pub(super) fn keep(self, config: Config, current: &Config) -> Config {
        let mut kept = config;
        if self.issuers {
            kept.issuers.clone_from(&current.issuers);
        }
        if self.audit {
            kept.audit.clone_from(&current.audit);
        }
        kept
    }

    /// Returns the parts of a log message about what is kept, and what applies.
    pub(super) fn texts(self) -> (String, &'static str) {
        let names: Vec<_> = [(self.issuers, "issuers"), (self.audit, "audit log")]
            .iter()
            .filter(|(is_kept, _)| *is_kept)
            .map(|(_, name)| *name)
            .collect();
        match names.as_slice() {
            [] => (KEEPING_PLUGINS.to_owned(), SETTINGS_APPLY),
            names => (format!("{KEEPING_PLUGINS} and the current {}", names.join(" and ")), OTHER_SETTINGS_APPLY),
        }
    }
}
