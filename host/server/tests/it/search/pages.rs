//! Changes while a long listing is compared with the index. The provider lists its pages one at a time, and a test
//! permits each.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use mcp_resource_host::Host;
use mcp_resource_host::config::search::PluginSearch;
use mcp_resource_host::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait,
};
use tokio::sync::Semaphore;

use super::texts::{found, start_indexing};
use crate::TIMEOUT;

/// A first page, a last page, and any number of pages between them, each with one resource. Entries do not reveal
/// changes.
struct Pages {
    first: &'static str,
    last: &'static str,
    texts: Mutex<BTreeMap<String, String>>,
    /// The changed paths in order. A token is a number of changes.
    changes: Mutex<Vec<String>>,
    reads: AtomicUsize,
    /// Whether there are pages between the first and the last one. Each waits for a permit.
    is_long: AtomicBool,
    permits: Semaphore,
    /// The numbers of listings that have begun and ended.
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Pages {
    fn new(is_long: bool) -> Arc<Self> {
        let texts = ["a", "z"].map(|path| (path.to_owned(), "fox".to_owned()));
        Arc::new(Self {
            first: "a",
            last: "z",
            texts: Mutex::new(texts.into()),
            changes: Mutex::default(),
            reads: AtomicUsize::new(0),
            is_long: AtomicBool::new(is_long),
            permits: Semaphore::new(0),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        })
    }

    fn set(&self, path: &str, text: Option<&str>) {
        let mut texts = self.texts.lock().unwrap();
        match text {
            Some(text) => texts.insert(path.to_owned(), text.to_owned()),
            None => texts.remove(path),
        };
        self.changes.lock().unwrap().push(path.to_owned());
    }

    fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// The resource of a page between the first and the last.
    fn between(number: usize) -> String {
        format!("between/{number}")
    }

    /// Lists one page after another until a query has exactly these hits, within the same listing.
    async fn list_until_found(&self, host: &Host, query: &str, expected: &[&str]) {
        let (ended, deadline) = (self.ended(), Instant::now() + TIMEOUT);
        loop {
            let now = found(host, query).await;
            assert_eq!(self.ended(), ended, "the listing has ended before {query:?} finds {expected:?}: {now:?}");
            if now == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{query}: {now:?}");
            self.permits.add_permits(1);
            // A page may take as long as a search.
            tokio::task::yield_now().await;
        }
    }

    /// Lets the listing end.
    fn end(&self) {
        self.is_long.store(false, Ordering::SeqCst);
        self.permits.add_permits(1);
    }
}

async fn wait_until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

fn entry(path: &str) -> Entry {
    Entry::new(path, path).subscribable()
}

#[async_trait]
impl Provider for Pages {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("pages", "1.0.0").watches(true)
    }

    async fn list(&self, _: Option<&str>, cursor: Option<&str>, _: usize) -> Result<Page> {
        let has = |path: &str| self.texts.lock().unwrap().contains_key(path);
        let entries = |path: &str| if has(path) { vec![entry(path)] } else { Vec::new() };
        let Some(cursor) = cursor else {
            self.begun.fetch_add(1, Ordering::SeqCst);
            return Ok(Page { entries: entries(self.first), next_cursor: Some("1".to_owned()) });
        };
        let number: usize = cursor.parse().map_err(|_| Failure::NotFound)?;
        if self.is_long.load(Ordering::SeqCst) {
            self.permits.acquire().await.map_err(|_| Failure::NotFound)?.forget();
        }
        if self.is_long.load(Ordering::SeqCst) {
            let path = Self::between(number);
            self.texts.lock().unwrap().insert(path.clone(), "between".to_owned());
            return Ok(Page { entries: vec![entry(&path)], next_cursor: Some((number + 1).to_string()) });
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
        Ok(Page::last(entries(self.last)))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        self.texts.lock().unwrap().contains_key(path).then(|| entry(path)).ok_or(Failure::NotFound)
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let texts = self.texts.lock().unwrap();
        let text = texts.get(path).ok_or(Failure::NotFound)?;
        Ok(vec![Contents::text(entry(path), text.clone())])
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let changes = self.changes.lock().unwrap();
        let since = since.map_or(Ok(changes.len()), str::parse).map_err(|_| Failure::NotFound)?;
        let changed = changes.iter().skip(since).filter(|path| watched.contains(path));
        Ok(changed.fold(ChangeSet::none(changes.len().to_string()), |set, path| set.changed(path)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_found_before_a_long_comparison_ends() {
    let dir = tempfile::tempdir().unwrap();
    let pages = Pages::new(true);
    let host = start_indexing(&pages, Some(PluginSearch::default()), dir.path(), Vec::new()).await;
    pages.list_until_found(&host, "fox", &["texts:///a"]).await;
    pages.set("a", Some("dog"));
    pages.list_until_found(&host, "dog", &["texts:///a"]).await;
    assert!(!host.search_status()[0].is_complete);
    pages.end();
    host.wait_until_indexed().await;
    let status = host.search_status().remove(0);
    assert!(status.has_everything(), "{status:?}");
    assert_eq!(found(&host, "dog").await, ["texts:///a"]);
    assert_eq!(found(&host, "fox").await, ["texts:///z"]);
    let documents = usize::try_from(status.documents).unwrap();
    assert_eq!(pages.reads.load(Ordering::SeqCst), documents + 1, "each was read once, and what was edited twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_what_a_comparison_has_not_met_yet_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let pages = Pages::new(false);
    let settings = PluginSearch { refresh: "1s".parse().unwrap(), ..PluginSearch::default() };
    let host = start_indexing(&pages, Some(settings), dir.path(), Vec::new()).await;
    host.wait_until_indexed().await;
    assert_eq!(found(&host, "fox").await, ["texts:///a", "texts:///z"]);
    // The next listing does not end.
    pages.is_long.store(true, Ordering::SeqCst);
    let is_listing = async || pages.begun.load(Ordering::SeqCst) > pages.ended();
    wait_until("a listing begins", is_listing).await;
    pages.set("z", Some("dog"));
    pages.list_until_found(&host, "dog", &["texts:///z"]).await;
    // Resources that the listing has already passed are removed, and come back.
    pages.set("a", None);
    pages.list_until_found(&host, "fox", &[]).await;
    pages.set("a", Some("cat"));
    pages.list_until_found(&host, "cat", &["texts:///a"]).await;
    let ended = pages.ended();
    pages.end();
    wait_until("two listings have ended", async || pages.ended() >= ended + 2).await;
    assert_eq!(found(&host, "dog").await, ["texts:///z"]);
    assert_eq!(found(&host, "cat").await, ["texts:///a"]);
}
