//! Saved queries of the provider `prometheus`, which [`check`](super::HostBuilder::check) reads.
//!
//! They are the table `queries` of the plugin's config: PromQL, or a table with `query`. Prometheus has no request that
//! prepares a query, so each is read at `saved/NAME`, as clients read it: the provider sends it to its server, which
//! parses and runs it. The host prepares saved SQL queries itself, because it has the connection (`sandbox::sql`).
//!
//! Bounded: reads have the limits of the plugin, they run one at a time, and all of them together have [`MAX_TIME`].
//! The first failure that is not the query's fault ends them.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout};

use mcp_host_base::escape::{escape, is_unsafe};
use mcp_host_config as config;
use mcp_host_engine::plugin::{Fault, Plugin};
use mcp_host_model::uri::{Mount, Path};

/// The name of the provider.
const PROVIDER: &str = "prometheus";
/// The maximum time for all queries of a plugin together.
const MAX_TIME: Duration = Duration::from_secs(30);

/// The saved queries of a plugin: their names, escaped, and their paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SavedQueries(Vec<(String, Path)>);

impl SavedQueries {
    /// Returns the saved queries of a loaded plugin; an empty list for a provider without saved queries.
    pub(super) fn of(plugin: &Plugin, config: &config::Plugin) -> Self {
        if plugin.info().name == PROVIDER { Self::in_config(config, plugin.mount()) } else { Self::default() }
    }

    fn in_config(config: &config::Plugin, mount: &Mount) -> Self {
        let written = config.config.get("queries");
        let written = written.and_then(|text| serde_json::from_str::<BTreeMap<String, IgnoredAny>>(text).ok());
        let query = |name: String| {
            let path = mount.compose(&format!("saved/{}", utf8_percent_encode(&name, NON_ALPHANUMERIC))).ok()?.path;
            Some((escape(&name, is_unsafe).into_owned(), path))
        };
        Self(written.unwrap_or_default().into_keys().filter_map(query).collect())
    }

    /// Reads each query. Returns a warning for each one that is refused, and one for all that could not be tried.
    pub(super) async fn check(&self, plugin: &Plugin) -> Vec<String> {
        let (mut warnings, started) = (Vec::new(), Instant::now());
        for (index, (name, path)) in self.0.iter().enumerate() {
            let left = MAX_TIME.saturating_sub(started.elapsed());
            let reason = match timeout(left, plugin.read(path, |_| false)).await {
                Ok(Ok(_)) => continue,
                Ok(Err(Fault::InvalidRequest(reason) | Fault::Denied(reason))) => {
                    let reason = escape(&reason, is_unsafe);
                    warnings.push(format!("the saved query `{name}` is refused: {reason}"));
                    continue;
                }
                Ok(Err(fault)) => escape(&fault.to_string(), is_unsafe).into_owned(),
                Err(_) => format!("the queries before it took {} s", MAX_TIME.as_secs()),
            };
            let others = match self.0.len().saturating_sub(index).saturating_sub(1) {
                0 => String::new(),
                others => format!(", and {others} after it were not tried"),
            };
            warnings.push(format!("the saved query `{name}` could not be tried{others}: {reason}"));
            break;
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_query_is_its_name_as_one_segment() {
        let mount: Mount = "prometheus:///".parse().unwrap();
        let mut plugin = config::Plugin::new("metrics".parse().unwrap(), "a.wasm", mount.clone());
        assert_eq!(SavedQueries::in_config(&plugin, &mount), SavedQueries::default());
        let queries = r#"{"up": "up", "a/b c": {"query": "up", "range": "1h"}}"#;
        plugin.config.insert("queries".to_owned(), queries.to_owned());
        let SavedQueries(found) = SavedQueries::in_config(&plugin, &mount);
        let found: Vec<_> = found.iter().map(|(name, path)| (name.as_str(), path.as_str())).collect();
        assert_eq!(found, [("a/b c", "saved/a%2Fb%20c"), ("up", "saved/up")]);
        plugin.config.insert("queries".to_owned(), "[1]".to_owned());
        assert_eq!(SavedQueries::in_config(&plugin, &mount), SavedQueries::default(), "they have another form");
    }
}
