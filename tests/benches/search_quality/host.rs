//! Rankings of this host: a native provider of the documents, indexed and searched through the façade.

use std::time::Duration;

use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::Config;
use mcp_resource_host::config::search::{PluginSearch, Search};
use mcp_resource_host::plugin::NativePlugin;
use mcp_resource_host::provider::{Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait};
use mcp_resource_host::search::{SearchRequest, SearchResults};
use tokio::time::sleep;

use super::judged::{DEPTH, JudgedSet, Ranking};
use super::model::Model;

const MOUNT: &str = "judged:///";

/// The documents.
struct Documents(Vec<String>);

impl Documents {
    /// The path of a document, which is its name as well: no word of a query, so that texts alone are compared, as by
    /// the other engines.
    fn path(index: usize) -> String {
        format!("d{index}")
    }

    fn index(path: &str) -> Option<usize> {
        path.strip_prefix('d')?.parse().ok()
    }

    fn text(&self, path: &str) -> Result<&String> {
        Self::index(path).and_then(|index| self.0.get(index)).ok_or(Failure::NotFound)
    }
}

#[async_trait]
impl Provider for Documents {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("judged", "1.0.0")
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        let paths = (0..self.0.len()).map(Self::path);
        Ok(Page::last(paths.map(|path| Entry::new(&path, &path))))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        self.text(path).map(|_| Entry::new(path, path))
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(Entry::new(path, path), self.text(path)?.clone())])
    }
}

/// By words alone.
pub(crate) async fn lexical(set: &JudgedSet) -> Vec<Ranking> {
    rank(set, None).await
}

/// By words and by embeddings.
pub(crate) async fn hybrid(set: &JudgedSet, model: &Model) -> Vec<Ranking> {
    rank(set, Some(Search { embeddings: Some(model.settings()), ..Search::default() })).await
}

async fn rank(set: &JudgedSet, search: Option<Search>) -> Vec<Ranking> {
    let dir = tempfile::tempdir().expect("a folder for the index");
    let is_hybrid = search.is_some();
    let mut config = Config::new();
    config.server.cache = Some(dir.path().join("cache"));
    config.server.state = Some(dir.path().join("state"));
    config.search = search;
    let of_plugin = PluginSearch { embeddings: is_hybrid, ..PluginSearch::default() };
    let documents = std::sync::Arc::new(Documents(set.documents.clone()));
    let plugin = NativePlugin::new("judged".parse().unwrap(), MOUNT.parse().unwrap(), documents).search(of_plugin);
    let host = Host::builder(config).native_plugin(plugin).start().await.expect("the host starts");
    host.wait_until_indexed().await;
    while is_hybrid && host.search_status().iter().any(|status| status.embedded < status.documents) {
        sleep(Duration::from_millis(500)).await;
    }
    let mut rankings = Vec::new();
    for query in &set.queries {
        let results = complete(&host, &query.text, is_hybrid).await;
        let paths = results.hits.iter().filter_map(|hit| hit.resource.uri.as_str().strip_prefix(MOUNT));
        rankings.push(paths.map(|path| Documents::index(path).expect("the path is that of a document")).collect());
    }
    rankings
}

/// The result of a search that was not interrupted.
async fn complete(host: &Host, query: &str, is_hybrid: bool) -> SearchResults {
    loop {
        // Quotes would be phrases.
        let request = SearchRequest::new(query.replace('"', " ")).limit(DEPTH + 1);
        let results = host.search(&Principal::LOCAL, request).await.expect("it is searched");
        if !results.is_partial && results.is_hybrid == is_hybrid {
            return results;
        }
    }
}
