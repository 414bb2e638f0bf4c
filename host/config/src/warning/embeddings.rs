//! An endpoint for embeddings without use.

use super::Warning;
use crate::Config;

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plugin;
    use crate::search::{Embeddings, PluginSearch, Search};

    fn warnings(embeddings: bool, queries: bool) -> Vec<Warning> {
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
        assert_eq!(warnings(false, true), [Warning::UnusedEmbeddings]);
        assert_eq!(warnings(true, false), [Warning::EmbeddingsWithoutQueries]);
        assert_eq!(warnings(true, true), []);
        assert_eq!(Config::new().embedding_warnings().count(), 0);
    }
}
