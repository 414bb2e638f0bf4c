//! A host that indexes a corpus, and serves another resource at the same time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::Config;
use mcp_resource_host::config::limits::Limits;
use mcp_resource_host::config::search::{PluginSearch, Search};
use mcp_resource_host::plugin::NativePlugin;
use mcp_resource_host::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait,
};
use mcp_resource_host::search::{SearchRequest, SearchResults};
use tempfile::TempDir;

use crate::corpus::Corpus;

/// The document that is edited.
const EDITED: usize = 7;
/// The other resource.
const OTHER: &str = "other:///a";

/// The documents. None is listed before indexing begins.
struct Documents {
    corpus: Arc<Corpus>,
    is_listed: AtomicBool,
    /// The number of edits of one document.
    edits: AtomicUsize,
}

impl Documents {
    fn entry(path: &str) -> Entry {
        Entry::new(path, path).mime_type("text/markdown").subscribable()
    }

    fn version(&self) -> String {
        format!("{}-{}", self.is_listed.load(Ordering::SeqCst), self.edits.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Provider for Documents {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("documents", "1.0.0").watches(true)
    }

    async fn list(&self, _: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let count = if self.is_listed.load(Ordering::SeqCst) { self.corpus.len() } else { 0 };
        let start: usize = cursor.map_or(Ok(0), str::parse).map_err(|_| Failure::invalid("a number"))?;
        let end = count.min(start + limit);
        let entries = (start..end).map(|number| Self::entry(&format!("d{number}"))).collect();
        Ok(Page { entries, next_cursor: (end < count).then(|| end.to_string()) })
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        Ok(Self::entry(path))
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let number = path.strip_prefix('d').and_then(|number| number.parse().ok()).ok_or(Failure::NotFound)?;
        let edits = self.edits.load(Ordering::SeqCst);
        let text = match number {
            EDITED if edits > 0 => format!("edition{edits}"),
            _ => self.corpus.text(number),
        };
        Ok(vec![Contents::text(Self::entry(path), text)])
    }

    async fn changes(&self, _: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let now = self.version();
        let Some(before) = since.filter(|since| *since != now) else { return Ok(ChangeSet::none(now)) };
        let was_listed = before.starts_with("true");
        let changes = ChangeSet::all(now, &[format!("d{EDITED}")]);
        Ok(if was_listed { changes } else { changes.listing_changed() })
    }
}

/// One small resource that is not searched.
struct Other;

#[async_trait]
impl Provider for Other {
    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        Ok(Page::last([Entry::new("a", "a")]))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        Ok(Entry::new(path, path))
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(Entry::new(path, path), "a text")])
    }
}

/// A host with both providers.
pub(crate) struct Searched {
    host: Host,
    documents: Arc<Documents>,
    dir: TempDir,
}

impl Searched {
    pub(crate) async fn start(corpus: &Arc<Corpus>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = Config::new();
        config.server.cache = Some(dir.path().join("cache"));
        config.server.state = Some(dir.path().join("state"));
        config.search = Some(Search { max_size: "16GiB".parse().expect("it is in range"), ..Search::default() });
        let limits = Limits { rate: "1000000/s".parse().expect("it is in range"), ..Limits::default() };
        let settings = PluginSearch {
            reads: "1000000/s".parse().expect("it is in range"),
            max_bytes: "16GiB".parse().expect("it is in range"),
            ..PluginSearch::default()
        };
        let (is_listed, edits) = (AtomicBool::new(false), AtomicUsize::new(0));
        let documents = Arc::new(Documents { corpus: corpus.clone(), is_listed, edits });
        let mount = "documents:///".parse().expect("a mount");
        let indexed = NativePlugin::new("documents".parse().expect("a name"), mount, documents.clone());
        let indexed = indexed.limits(limits.clone()).search(settings);
        let indexed = indexed.watch_interval("100ms".parse().expect("it is in range"));
        let mount = "other:///".parse().expect("a mount");
        let other = NativePlugin::new("other".parse().expect("a name"), mount, Arc::new(Other)).limits(limits);
        let host = Host::builder(config).native_plugin(indexed).native_plugin(other.response_cache(false));
        let host = host.start().await.expect("the host starts");
        host.wait_until_indexed().await;
        Self { host, documents, dir }
    }

    /// Makes the provider list the documents.
    pub(crate) fn begin(&self) {
        self.documents.is_listed.store(true, Ordering::SeqCst);
    }

    /// The times of reads of the other resource.
    pub(crate) async fn read_another_for(&self, time: Duration) -> Vec<Duration> {
        let began = Instant::now();
        self.read_another(|| began.elapsed() < time).await
    }

    /// The times of reads of the other resource, until all documents are indexed.
    pub(crate) async fn read_another_until_indexed(&self) -> Vec<Duration> {
        let count = self.documents.corpus.len() as u64;
        let is_indexing = || self.host.search_status().first().is_none_or(|status| status.documents < count);
        self.read_another(is_indexing).await
    }

    async fn read_another(&self, goes_on: impl Fn() -> bool) -> Vec<Duration> {
        let mut times = Vec::new();
        while goes_on() {
            let began = Instant::now();
            self.host.read(&Principal::LOCAL, OTHER).await.expect("it can be read");
            times.push(began.elapsed());
            // As clients do, and so that the reads leave the processor to the indexer.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times
    }

    pub(crate) async fn search(&self, query: &str) -> SearchResults {
        self.host.search(&Principal::LOCAL, SearchRequest::new(query)).await.expect("a search has a result")
    }

    /// The time until an edit is found.
    pub(crate) async fn edit_to_found(&self, edit: usize) -> Duration {
        let began = Instant::now();
        self.documents.edits.store(edit + 1, Ordering::SeqCst);
        while self.search(&format!("edition{}", edit + 1)).await.total == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        began.elapsed()
    }

    /// The size of the index on disk.
    pub(crate) fn index_size(&self) -> u64 {
        let directory: PathBuf = self.dir.path().join("state/search");
        let files = std::fs::read_dir(directory).expect("the index has a directory");
        files.map(|file| file.expect("a file").metadata().expect("it has a size").len()).sum()
    }
}
