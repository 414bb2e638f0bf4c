//! Saved queries in the config of a plugin, which `check` prepares.
//!
//! A database provider reads them from the table `queries` of its config, each with the statement as `sql` and a list
//! `parameters`; `database` names the granted database, unless there is only one. Values of another form are ignored,
//! because the config of a plugin belongs to its provider.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use mcp_host_config as config;

/// The saved queries in a config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SavedQueries {
    /// The name of the database.
    pub(super) database: String,
    pub(super) queries: Vec<SavedQuery>,
}

/// A saved query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedQuery {
    /// The name, escaped for output.
    pub(super) name: String,
    pub(super) sql: String,
    /// The number of parameters.
    pub(super) parameters: usize,
}

#[derive(Deserialize)]
struct Written {
    sql: String,
    #[serde(default)]
    parameters: Vec<IgnoredAny>,
}

impl SavedQueries {
    /// The saved queries of a plugin. Empty if the plugin has no database, or has several and the config names none.
    pub(super) fn of(plugin: &config::Plugin) -> Self {
        let only = plugin.grants.sql.keys().next().filter(|_| plugin.grants.sql.len() == 1);
        let database = plugin.config.get("database").cloned().or_else(|| only.map(|name| name.as_str().to_owned()));
        let written = plugin.config.get("queries");
        let written = written.and_then(|text| serde_json::from_str::<BTreeMap<String, Written>>(text).ok());
        let (Some(database), Some(written)) = (database, written) else { return Self::default() };
        let queries = written.into_iter().map(|(name, Written { sql, parameters })| SavedQuery {
            name: mcp_host_base::escape::escape(&name, mcp_host_base::escape::is_unsafe).into_owned(),
            sql,
            parameters: parameters.len(),
        });
        Self { database, queries: queries.collect() }
    }

    /// Whether a statement on this database is a saved query.
    pub(super) fn contains(&self, database: &str, sql: &str) -> bool {
        self.database == database && self.queries.iter().any(|query| query.sql == sql)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::grants::{SqlGrant, SqlUrl};

    #[test]
    fn queries_are_those_of_the_named_or_the_only_database() {
        let mut plugin = config::Plugin::new("shop".parse().unwrap(), "a.wasm", "db://shop/".parse().unwrap());
        let queries =
            r#"{"of": {"sql": "SELECT $1", "parameters": [{"name": "a"}], "title": "A"}, "all": {"sql": "SELECT 1"}}"#;
        plugin.config.insert("queries".to_owned(), queries.to_owned());
        assert_eq!(SavedQueries::of(&plugin), SavedQueries::default(), "there is no database");
        let database = || SqlGrant::new(SqlUrl::Sqlite("/srv/shop.db".into()));
        plugin.grants.sql.insert("shop".parse().unwrap(), database());
        let saved = SavedQueries::of(&plugin);
        let found: Vec<_> = saved.queries.iter().map(|query| (&*query.name, query.parameters)).collect();
        assert_eq!((&*saved.database, found), ("shop", vec![("all", 0), ("of", 1)]));
        plugin.grants.sql.insert("other".parse().unwrap(), database());
        assert_eq!(SavedQueries::of(&plugin), SavedQueries::default(), "none is named");
        plugin.config.insert("database".to_owned(), "other".to_owned());
        assert_eq!(SavedQueries::of(&plugin).database, "other");
        plugin.config.insert("queries".to_owned(), "[1]".to_owned());
        assert_eq!(SavedQueries::of(&plugin), SavedQueries::default(), "they have another form");
    }
}
