//! A listing with many entries. Each group may see a share of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_resource_host::access::Principal;
use mcp_resource_host::config::limits::Limits;
use mcp_resource_host::plugin::NativePlugin;
use mcp_resource_host::provider::{Contents, Entry, Failure, Page, Provider, Result, async_trait};
use mcp_resource_host::{Host, ListRequest};
use tempfile::TempDir;

use crate::rules::{GROUPS, config};

/// The number of entries in the listing.
const COUNT: usize = 10_000;
/// The number of entries on a page.
const PAGE: usize = 100;

/// Entries below `team0` to `team99`, in turn.
#[derive(Default)]
struct Entries {
    /// The number of entries that the provider has returned.
    returned: AtomicUsize,
}

#[async_trait]
impl Provider for Entries {
    async fn list(&self, _: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let start: usize = cursor.map_or(Ok(0), str::parse).map_err(|_| Failure::invalid("a number"))?;
        let end = COUNT.min(start + limit);
        self.returned.fetch_add(end - start, Ordering::Relaxed);
        let path = |number: usize| format!("team{}/area{}/item-{number}", number % GROUPS, number / GROUPS % 10);
        let entries = (start..end).map(|number| Entry::new(path(number), "An item").mime_type("text/plain")).collect();
        Ok(Page { entries, next_cursor: (end < COUNT).then(|| end.to_string()) })
    }

    async fn stat(&self, _: &str) -> Result<Entry> {
        Err(Failure::NotFound)
    }

    async fn read(&self, _: &str) -> Result<Vec<Contents>> {
        Err(Failure::NotFound)
    }
}

/// A host with this listing.
pub(crate) struct Pages {
    host: Host,
    entries: Arc<Entries>,
    _dir: TempDir,
}

impl Pages {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = config();
        config.server.cache = Some(dir.path().join("cache"));
        config.server.state = Some(dir.path().join("state"));
        config.server.page_size = PAGE.try_into().expect("it is in range");
        let limits = Limits { rate: "1000000/s".parse().expect("it is in range"), ..Limits::default() };
        let entries = Arc::new(Entries::default());
        let mount = "a:///".parse().expect("a mount");
        let plugin = NativePlugin::new("a".parse().expect("a name"), mount, entries.clone()).limits(limits);
        let host = Host::builder(config).native_plugin(plugin).start().await.expect("the host starts");
        Self { host, entries, _dir: dir }
    }

    /// Requests the first page `times` times. Returns the number of entries that the provider returned for
    /// it.
    pub(crate) async fn ask(&self, principal: &Principal, times: u64) -> usize {
        let before = self.entries.returned.load(Ordering::Relaxed);
        for _ in 0..times {
            let page = self.host.list(principal, ListRequest::default()).await.expect("a page");
            assert!(!page.items.is_empty() && page.missing.is_empty(), "{page:?}");
        }
        self.entries.returned.load(Ordering::Relaxed) - before
    }
}
