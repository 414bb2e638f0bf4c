//! A native provider of texts that tests change, and a host that searches it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp_resource_host::Host;
use mcp_resource_host::access::Principal;
use mcp_resource_host::config::search::PluginSearch;
use mcp_resource_host::config::{Config, Rule};
use mcp_resource_host::plugin::NativePlugin;
use mcp_resource_host::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait,
};
use mcp_resource_host::resource::Error;
use mcp_resource_host::search::{SearchRequest, SearchResults};

use crate::{TIMEOUT, engine};

/// Texts at paths.
#[derive(Default)]
pub(crate) struct Texts {
    texts: Mutex<BTreeMap<String, String>>,
    /// Incremented with each change.
    version: AtomicUsize,
    reads: AtomicUsize,
    /// The nice value of the thread of the last read.
    pub(crate) niceness: AtomicI32,
    /// Whether its listing fails.
    pub(crate) is_failing: AtomicBool,
    /// Whether reads fail with an error that can be retried.
    pub(crate) is_unreadable: AtomicBool,
    /// Whether everything changes with each poll.
    pub(crate) is_restless: AtomicBool,
    mime_type: Option<&'static str>,
}

impl Texts {
    pub(crate) fn new(texts: impl IntoIterator<Item = (&'static str, &'static str)>) -> Arc<Self> {
        let texts = texts.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        Arc::new(Self { texts: Mutex::new(texts), ..Self::default() })
    }

    /// No texts at first. Added texts have this MIME type.
    pub(crate) fn of_type(mime_type: &'static str) -> Arc<Self> {
        Arc::new(Self { mime_type: Some(mime_type), ..Self::default() })
    }

    pub(crate) fn set(&self, path: &str, text: Option<&str>) {
        let mut texts = self.texts.lock().unwrap();
        match text {
            Some(text) => texts.insert(path.to_owned(), text.to_owned()),
            None => texts.remove(path),
        };
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    fn entry(&self, path: &str) -> Entry {
        let entry = Entry::new(path, path).subscribable();
        match self.mime_type {
            Some(mime_type) => entry.mime_type(mime_type),
            None => entry,
        }
    }
}

#[async_trait]
impl Provider for Texts {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("texts", "1.0.0").watches(true)
    }

    async fn list(&self, _: Option<&str>, _: Option<&str>, _: usize) -> Result<Page> {
        if self.is_failing.load(Ordering::SeqCst) {
            return Err(Failure::Internal("it fails".to_owned()));
        }
        let texts = self.texts.lock().unwrap();
        Ok(Page::last(texts.keys().map(|path| self.entry(path))))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        let texts = self.texts.lock().unwrap();
        texts.contains_key(path).then(|| self.entry(path)).ok_or(Failure::NotFound)
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.niceness.store(rustix::process::getpriority_process(None).unwrap(), Ordering::SeqCst);
        if self.is_unreadable.load(Ordering::SeqCst) {
            return Err(Failure::Internal("it fails".to_owned()));
        }
        let texts = self.texts.lock().unwrap();
        let text = texts.get(path).ok_or(Failure::NotFound)?;
        Ok(vec![Contents::text(self.entry(path), text.clone())])
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        if self.is_restless.load(Ordering::SeqCst) {
            self.version.fetch_add(1, Ordering::SeqCst);
        }
        let now = self.version.load(Ordering::SeqCst).to_string();
        Ok(match since {
            Some(since) if since != now => ChangeSet::all(now, watched),
            _ => ChangeSet::none(now),
        })
    }
}

/// Starts a host, and waits until it has indexed the texts or failed to.
pub(crate) async fn start(texts: &Arc<Texts>, search: Option<PluginSearch>, dir: &Path, rules: Vec<Rule>) -> Host {
    let host = start_indexing(texts, search, dir, rules).await;
    host.wait_until_indexed().await;
    host
}

/// Starts a host that indexes the resources of a provider at `texts:///`.
pub(crate) async fn start_indexing<P: Provider>(
    provider: &Arc<P>,
    search: Option<PluginSearch>,
    dir: &Path,
    rules: Vec<Rule>,
) -> Host {
    let mut config = Config::new();
    config.server.cache = Some(dir.join("cache"));
    config.server.state = Some(dir.join("state"));
    config.rules = rules;
    let plugin = NativePlugin::new("texts".parse().unwrap(), "texts:///".parse().unwrap(), provider.clone());
    let mut plugin = plugin.watch_interval("100ms".parse().unwrap());
    if let Some(search) = search {
        plugin = plugin.search(search);
    }
    Host::builder(config).engine(engine()).native_plugin(plugin).start().await.unwrap()
}

/// Drops a host, and waits until it has closed its index, because SQLite locks the file while the last connection
/// closes.
pub(crate) async fn close(host: Host, dir: &Path) {
    drop(host);
    let deadline = Instant::now() + TIMEOUT;
    while dir.join("state/search/index.sqlite3-wal").exists() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Searches repeatedly until the result is not partial for lack of time.
pub(crate) async fn search(host: &Host, who: &Principal, request: SearchRequest) -> SearchResults {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match host.search(who, request.clone()).await {
            Ok(results) if !results.is_partial || !results.incomplete.is_empty() => return results,
            Ok(_) | Err(Error::Unavailable { .. }) if Instant::now() < deadline => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn found(host: &Host, query: &str) -> Vec<String> {
    let results = search(host, &Principal::LOCAL, SearchRequest::new(query)).await;
    assert_eq!(results.total, u64::try_from(results.hits.len()).unwrap());
    results.hits.into_iter().map(|hit| hit.resource.uri.to_string()).collect()
}

/// Waits until a query has exactly these hits.
pub(crate) async fn wait_until_found(host: &Host, query: &str, expected: &[&str]) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let now = found(host, query).await;
        if now == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{query}: {now:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
