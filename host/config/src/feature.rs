//! Cargo features that keys of a config require.
//!
//! A config is read and validated in the same way for all builds. The program passes its features when it uses the
//! config: [`Config::check_features`].

use std::fmt;

use super::plugin::PluginName;
use super::{Config, Plugin};

/// A cargo feature of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// Replicas that share their polls: `[cluster]`.
    Cluster,
    /// Key-value buckets of plugins: `grants.keyvalue`.
    Keyvalue,
    /// Export of traces: `[telemetry]`.
    Otlp,
    /// Search: `[search]`, and `search` of a plugin.
    Search,
    /// SQL databases of plugins: `grants.sql`.
    Sql,
    /// Existing servers: `[[upstream]]`.
    Upstream,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "cluster",
            Self::Keyvalue => "keyvalue",
            Self::Otlp => "otlp",
            Self::Search => "search",
            Self::Sql => "sql",
            Self::Upstream => "upstream",
        })
    }
}

/// A key of a config requires a feature that the program lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{key}`{} requires the cargo feature `{feature}`, which this build does not have: build `mcp-resource-host` with the feature \
     `{feature}`, or remove the key", of_plugin(.plugin.as_ref())
)]
pub struct MissingFeature {
    key: &'static str,
    plugin: Option<PluginName>,
    feature: Feature,
}

fn of_plugin(name: Option<&PluginName>) -> String {
    name.map(|name| format!(" of plugin `{name}`")).unwrap_or_default()
}

impl MissingFeature {
    /// Returns the feature.
    pub fn feature(&self) -> Feature {
        self.feature
    }
}

impl Config {
    /// Checks that a program with these features supports all keys of the config.
    ///
    /// # Errors
    ///
    /// A key requires another feature.
    pub fn check_features(&self, features: &[Feature]) -> Result<(), MissingFeature> {
        let of_plugin = |plugin: &Plugin| {
            let Plugin { name, grants, search, upstream, .. } = plugin;
            let keys = [
                ("plugin.grants.keyvalue", !grants.keyvalue.is_empty(), Feature::Keyvalue),
                ("plugin.grants.sql", !grants.sql.is_empty(), Feature::Sql),
                ("plugin.search", search.is_some(), Feature::Search),
                ("upstream", upstream.is_some(), Feature::Upstream),
            ];
            keys.map(|(key, is_set, feature)| {
                is_set.then(|| MissingFeature { key, plugin: Some(name.clone()), feature })
            })
        };
        let of_section = [
            ("cluster", self.cluster.is_some(), Feature::Cluster),
            ("search", self.search.is_some(), Feature::Search),
            ("telemetry", self.telemetry.is_some(), Feature::Otlp),
        ];
        let of_section =
            of_section.map(|(key, is_set, feature)| is_set.then_some(MissingFeature { key, plugin: None, feature }));
        let mut required = of_section.into_iter().flatten().chain(self.plugins.iter().flat_map(of_plugin).flatten());
        required.find(|missing| !features.contains(&missing.feature)).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::KeyvalueGrant;

    const ALL: [Feature; 6] =
        [Feature::Cluster, Feature::Keyvalue, Feature::Otlp, Feature::Search, Feature::Sql, Feature::Upstream];

    /// The error of a program without one feature, for a changed config.
    fn error(lacks: Feature, change: impl FnOnce(&mut Config)) -> String {
        let plugin = Plugin::new("notes".parse().unwrap(), "notes.wasm", "notes:///".parse().unwrap());
        let mut config = Config::new();
        config.plugins.add(plugin).unwrap();
        assert_eq!(config.check_features(&[]), Ok(()), "a config without such keys requires nothing");
        change(&mut config);
        assert_eq!(config.check_features(&ALL), Ok(()));
        let others: Vec<_> = ALL.into_iter().filter(|feature| *feature != lacks).collect();
        let error = config.check_features(&others).unwrap_err();
        assert_eq!(error.feature(), lacks);
        error.to_string()
    }

    /// Changes the only plugin of a config.
    fn change_plugin(config: &mut Config, change: impl FnOnce(&mut Plugin)) {
        let mut plugin = config.plugins[0].clone();
        change(&mut plugin);
        config.plugins = Default::default();
        config.plugins.add(plugin).unwrap();
    }

    #[test]
    fn a_key_of_a_feature_that_is_not_built_in_is_an_error_that_names_the_feature() {
        let keyvalue = error(Feature::Keyvalue, |config| {
            change_plugin(config, |plugin| {
                plugin.grants.keyvalue.insert("pages".parse().unwrap(), KeyvalueGrant::default());
            });
        });
        assert_eq!(
            keyvalue,
            "`plugin.grants.keyvalue` of plugin `notes` requires the cargo feature `keyvalue`, which this build does not have: build \
             `mcp-resource-host` with the feature `keyvalue`, or remove the key"
        );
        let sql = error(Feature::Sql, |config| {
            change_plugin(config, |plugin| {
                let url = crate::grants::SqlUrl::Sqlite("/srv/shop.db".into());
                plugin.grants.sql.insert("shop".parse().unwrap(), crate::grants::SqlGrant::new(url));
            });
        });
        assert!(sql.starts_with("`plugin.grants.sql` of plugin `notes` requires the cargo feature `sql`"), "{sql}");
        let search = error(Feature::Search, |config| config.search = Some(Default::default()));
        assert!(search.starts_with("`search` requires the cargo feature `search`"), "{search}");
        let cluster = error(Feature::Cluster, |config| {
            let nats = "tls://n1.example:4222".parse().unwrap();
            config.cluster = Some(crate::cluster::Cluster::new("prod".parse().unwrap(), [nats]));
        });
        assert!(cluster.starts_with("`cluster` requires the cargo feature `cluster`"), "{cluster}");
        let telemetry = error(Feature::Otlp, |config| {
            config.telemetry = Some(crate::telemetry::Telemetry::new("http://127.0.0.1:4318".parse().unwrap()));
        });
        assert!(telemetry.starts_with("`telemetry` requires the cargo feature `otlp`"), "{telemetry}");
        let of_plugin = error(Feature::Search, |config| {
            change_plugin(config, |plugin| plugin.search = Some(Default::default()));
        });
        assert!(of_plugin.starts_with("`plugin.search` of plugin `notes` requires"), "{of_plugin}");
    }
}
