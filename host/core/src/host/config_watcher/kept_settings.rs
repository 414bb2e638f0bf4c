//! The settings that keep their current values when a config is refused, because the new ones would not work.

use mcp_host_config::Config;

use super::Validate;

/// The part of a log message about plugins that are kept.
pub(super) const KEEPING_PLUGINS: &str = "keeping the current plugins";
/// The part about the other settings of the config.
pub(super) const SETTINGS_APPLY: &str = "rules and settings of the new config apply";
/// The same part if some settings are kept, too.
const OTHER_SETTINGS_APPLY: &str = "rules and other settings of the new config apply";
/// The same part if all settings except those that decide access are kept.
const ACCESS_APPLIES: &str = "rules, groups, principals and issuers of the new config apply";

/// The settings of a refused config that are refused on their own. They keep their current values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeptSettings {
    issuers: bool,
    audit: bool,
    /// All settings except rules, groups, principals and issuers.
    others: bool,
}

impl KeptSettings {
    pub(super) fn new(config: &Config, validate: &Validate) -> Self {
        let is_refused = |settings: Config| validate(&settings).is_err();
        Self {
            issuers: is_refused(Config { issuers: config.issuers.clone(), ..Config::default() }),
            audit: is_refused(Config { audit: config.audit.clone(), ..Config::default() }),
            others: false,
        }
    }

    /// Keeps all settings except those that decide access, for a config in which only these can be used.
    pub(super) fn all_but_access(config: &Config, validate: &Validate) -> Self {
        Self { others: true, ..Self::new(config, validate) }
    }

    /// Returns the config with these settings replaced by the current ones.
    pub(super) fn keep(self, config: Config, current: &Config) -> Config {
        let mut kept = match self.others {
            true => {
                let Config { rules, groups, principals, issuers, .. } = config;
                Config { rules, groups, principals, issuers, ..current.clone() }
            }
            false => config,
        };
        if self.issuers {
            kept.issuers.clone_from(&current.issuers);
        }
        if self.audit {
            kept.audit.clone_from(&current.audit);
        }
        kept
    }

    /// Returns the parts of a log message: which settings are kept, and which apply.
    pub(super) fn texts(self) -> (String, &'static str) {
        let names: Vec<_> = [(self.issuers, "issuers"), (self.audit, "audit log")]
            .iter()
            .filter(|(is_kept, _)| *is_kept)
            .map(|(_, name)| *name)
            .collect();
        match names.as_slice() {
            [] if self.others => (format!("{KEEPING_PLUGINS} and settings"), ACCESS_APPLIES),
            _ if self.others => {
                (format!("{KEEPING_PLUGINS}, settings and issuers"), "rules and groups of the new config apply")
            }
            [] => (KEEPING_PLUGINS.to_owned(), SETTINGS_APPLY),
            names => (format!("{KEEPING_PLUGINS} and the current {}", names.join(" and ")), OTHER_SETTINGS_APPLY),
        }
    }
}
