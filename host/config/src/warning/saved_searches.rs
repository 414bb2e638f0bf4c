//! Saved searches without results, because no plugin below their URI prefix is searched.

use mcp_host_model::uri::{Mount, Router};

use super::Warning;
use crate::{Config, Plugin};

impl Config {
    /// Returns the warnings about `within` of saved searches. It is unknown whether the plugins of other mounts are searched.
    pub(super) fn saved_search_warnings(&self, other_mounts: &[&Mount]) -> impl Iterator<Item = Warning> {
        let saved = self.search.iter().flat_map(|search| &search.saved);
        saved.filter_map(move |saved| {
            let within = saved.within.as_deref()?;
            let is_there = |mount: &Mount| has_mount_at(mount, within);
            let (searched, others): (Vec<_>, Vec<_>) = self
                .plugins
                .iter()
                .filter(|plugin| is_there(&plugin.mount))
                .partition(|plugin| plugin.search.is_some());
            if !searched.is_empty() || other_mounts.iter().any(|mount| is_there(mount)) {
                return None;
            }
            let plugin = others.first().map(|plugin: &&Plugin| plugin.name.clone());
            let nearest = self.nearest_mount(within).map(|mount| mount.as_str().to_owned());
            Some(Warning::UnsearchedPrefix { search: saved.name.clone(), within: within.to_owned(), plugin, nearest })
        })
    }
}

/// Whether a URI is below a mount, or the mount below the URI.
fn has_mount_at(mount: &Mount, within: &str) -> bool {
    let is_below = |rest: &str| within.ends_with('/') || rest.is_empty() || rest.starts_with('/');
    mount.as_str().strip_prefix(within).is_some_and(is_below)
        || Router::new([(mount.clone(), ())]).is_ok_and(|router| router.route(within).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{PluginSearch, SavedSearch, Search};

    fn warnings(within: &str, other_mounts: &[&Mount]) -> Vec<String> {
        let plugin = |name: &str, mount: &str| Plugin::new(name.parse().unwrap(), "a.wasm", mount.parse().unwrap());
        let mut notes = plugin("notes", "notes:///");
        notes.search = Some(PluginSearch::default());
        let mut config = Config::new().plugin(notes).unwrap().plugin(plugin("linux", "git://linux/")).unwrap();
        let mut saved = SavedSearch::new("todo".parse().unwrap(), "TODO");
        saved.within = Some(within.to_owned());
        config.search = Some(Search { saved: vec![saved], ..Search::default() });
        config.warnings_beside(other_mounts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_saved_search_below_what_is_not_searched_is_told() {
        for within in ["notes:///", "notes:///a/b", "NOTES:///a%2fb", "notes://"] {
            assert!(warnings(within, &[]).is_empty(), "{within}");
        }
        let [unmounted] = &warnings("note:///a", &[])[..] else { panic!("one warning") };
        assert!(unmounted.contains("`note:///a`") && unmounted.ends_with("the most similar mount is `notes:///`"));
        let [unsearched] = &warnings("git://linux/tree/main", &[])[..] else { panic!("one warning") };
        assert!(unsearched.contains("plugin `linux` is not searched"), "{unsearched}");
        let native: Mount = "note:///".parse().unwrap();
        assert!(warnings("note:///a", &[&native]).is_empty());
    }
}
