//! Search: an endpoint for embeddings without use, globs of a plugin's `search` that match nothing below its mount, and
//! saved searches without results, because no plugin below their URI prefix is searched.

use mcp_host_model::uri::{Mount, Router, UriPattern};

use super::Warning;
use crate::{Config, Plugin};

impl Config {
    /// Returns the warnings about `[search.embeddings]`.
    pub(super) fn embedding_warnings(&self) -> impl Iterator<Item = Warning> {
        let settings = self.search.as_ref().and_then(|search| search.embeddings.as_ref());
        let mut of_plugins = self.plugins.iter().filter_map(|plugin| plugin.search.as_ref());
        let is_sent = of_plugins.any(|search| search.embeddings);
        settings
            .and_then(|settings| match (is_sent, settings.queries) {
                (false, _) => Some(Warning::UnusedEmbeddings),
                (true, false) => Some(Warning::EmbeddingsWithoutQueries),
                (true, true) => None,
            })
            .into_iter()
    }

    /// Returns the warnings about the globs of plugins' `search`.
    pub(super) fn search_glob_warnings(&self) -> impl Iterator<Item = Warning> {
        let searched = self.plugins.iter().filter_map(|plugin| Some((plugin, plugin.search.as_ref()?)));
        searched.flat_map(|(plugin, search)| {
            let below = UriPattern::below(&plugin.mount);
            let included = search.include.iter().map(|glob| ("include", glob));
            let excluded = search.exclude.iter().map(|glob| ("exclude", glob));
            let unmatched = included.chain(excluded).filter(move |(_, glob)| !glob.reaches(&below));
            unmatched.map(move |(key, glob)| Warning::UnmatchedSearchGlob {
                plugin: plugin.name.clone(),
                key,
                glob: glob.as_str().to_owned(),
                mount: plugin.mount.as_str().to_owned(),
            })
        })
    }

    /// Returns the warnings about `within` of saved searches. It is unknown whether the plugins of other mounts are
    /// searched.
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
    use crate::search::{Embeddings, PluginSearch, SavedSearch, Search};

    fn saved_search_warnings(within: &str, other_mounts: &[&Mount]) -> Vec<String> {
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
            assert!(saved_search_warnings(within, &[]).is_empty(), "{within}");
        }
        let [unmounted] = &saved_search_warnings("note:///a", &[])[..] else { panic!("one warning") };
        assert!(unmounted.contains("`note:///a`") && unmounted.ends_with("the most similar mount is `notes:///`"));
        let [unsearched] = &saved_search_warnings("git://linux/tree/main", &[])[..] else { panic!("one warning") };
        assert!(unsearched.contains("plugin `linux` is not searched"), "{unsearched}");
        let native: Mount = "note:///".parse().unwrap();
        assert!(saved_search_warnings("note:///a", &[&native]).is_empty());
    }

    #[test]
    fn a_glob_of_search_that_matches_nothing_below_the_mount_is_warned_of() {
        let mut plugin = Plugin::new("files".parse().unwrap(), "a.wasm", "files:///".parse().unwrap());
        plugin.search = Some(PluginSearch {
            include: vec!["notes:///**".parse().unwrap(), "files:///a/**".parse().unwrap()],
            exclude: vec!["**/.env".parse().unwrap(), "file:///b".parse().unwrap()],
            ..PluginSearch::default()
        });
        let config = Config::new().plugin(plugin).unwrap();
        let warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                "`include` of `search` of plugin `files` has `notes:///**`, which matches nothing below its mount `files:///`",
                "`exclude` of `search` of plugin `files` has `file:///b`, which matches nothing below its mount `files:///`"
            ]
        );
    }

    fn embedding_warnings(embeddings: bool, queries: bool) -> Vec<Warning> {
        let url = "https://api.example.com/v1/embeddings".parse().unwrap();
        let mut settings = Embeddings::new(url, "small", 384.try_into().unwrap());
        settings.queries = queries;
        let mut plugin = Plugin::new("a".parse().unwrap(), "a.wasm", "a:///".parse().unwrap());
        plugin.search = Some(PluginSearch { embeddings, ..PluginSearch::default() });
        let mut config = Config::new().plugin(plugin).unwrap();
        config.search = Some(Search { embeddings: Some(settings), ..Search::default() });
        config.embedding_warnings().collect()
    }

    #[test]
    fn an_endpoint_that_no_plugin_and_no_query_uses_is_warned_of() {
        assert_eq!(embedding_warnings(false, true), [Warning::UnusedEmbeddings]);
        assert_eq!(embedding_warnings(true, false), [Warning::EmbeddingsWithoutQueries]);
        assert_eq!(embedding_warnings(true, true), []);
        assert_eq!(Config::new().embedding_warnings().count(), 0);
    }
}
