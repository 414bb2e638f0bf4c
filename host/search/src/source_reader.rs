//! Reads a plugin for the index: its listing and its texts.
//!
//! One call is in flight at a time, through the queue of clients' calls and within all limits of the plugin. A call
//! that fails because the plugin is busy or unavailable is retried a few times. Reads of content have a budget,
//! `search.reads`.

use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use mcp_host_base::text::prefix;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{Fault, Plugin, SearchSource};
use mcp_host_model::resource::{Notice, Resource, ResourceBody, ResourceContents};
use mcp_host_model::uri::{Path, Uri};
use tokio::time::sleep;

use super::document::{Document, DocumentEntry, hash};

/// The requested number of entries per page.
const PAGE_SIZE: u32 = 1000;
/// The maximum number of consecutive empty pages before a listing fails.
const MAX_EMPTY_PAGES: usize = 1000;
/// The maximum number of attempts of a call to a busy plugin.
const MAX_ATTEMPTS: u32 = 4;
/// The default pause between attempts, and the bounds of a pause that the plugin's error requests.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(250);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Reads the indexed data of a plugin.
pub(super) struct SourceReader {
    pub(super) plugin: Arc<Plugin>,
    pub(super) source: Arc<SearchSource>,
}

/// A listed resource.
pub(super) struct Listed {
    pub(super) entry: Resource,
    pub(super) path: Path,
    pub(super) entry_hash: i64,
}

/// The text of a resource.
#[derive(Default)]
struct Text {
    text: String,
    /// The provider's description of the part, if the text is only a part.
    part: Option<String>,
    /// Whether the text was longer than `max-document`.
    is_cut: bool,
}

impl Text {
    /// Truncates the text to at most `max` bytes.
    fn cut_to(mut self, max: usize) -> Self {
        if self.text.len() > max {
            let (shown, all) = (prefix(&self.text, max).len(), self.text.len());
            let of_read = format!("the first {shown} of {all} bytes (`max-document`)");
            self.part = Some(self.part.map_or(of_read.clone(), |part| format!("{of_read} of {part}")));
            self.text.truncate(shown);
            self.is_cut = true;
        }
        self
    }
}

/// The position in a listing.
#[derive(Clone, Default)]
pub(super) struct Position {
    cursor: Option<String>,
    items: usize,
    empty_pages: usize,
    is_at_end: bool,
    /// Whether the listing ended at `limits.listing-items`, although the plugin has more entries.
    pub(super) is_truncated: bool,
}

impl SourceReader {
    /// The entries of the next page of the default listing that the config includes. None at the end.
    pub(super) async fn next_page(&self, position: &mut Position) -> Result<Option<Vec<Listed>>, Fault> {
        if position.is_at_end {
            return Ok(None);
        }
        let source = self.source.clone();
        let keep = move |entry: Resource| source.includes(entry.uri.as_str()).then_some(entry);
        let cursor = position.cursor.as_deref();
        let list = || self.plugin.list(CallOrigin::Host, None, cursor, PAGE_SIZE, keep.clone());
        let page = self.attempt(list).await?;
        position.items = position.items.saturating_add(page.size);
        position.empty_pages = if page.size == 0 { position.empty_pages.saturating_add(1) } else { 0 };
        if page.next_cursor.is_some() && position.empty_pages > MAX_EMPTY_PAGES {
            return Err(Fault::EmptyPages(position.empty_pages));
        }
        position.is_truncated = page.next_cursor.is_some() && position.items >= self.plugin.max_listing_items();
        position.is_at_end = page.next_cursor.is_none() || position.is_truncated;
        position.cursor = page.next_cursor;
        Ok(Some(page.items.into_iter().filter_map(|entry| self.listed(entry)).collect()))
    }

    /// The entry of a resource. None if the resource is not indexed.
    pub(super) async fn stat(&self, path: &Path) -> Result<Option<Listed>, Fault> {
        let entry = self.attempt(|| self.plugin.stat_as(CallOrigin::Host, path)).await?;
        let is_included = self.source.includes(entry.uri.as_str());
        Ok(is_included.then(|| Listed { entry_hash: hash(&entry), path: path.clone(), entry }))
    }

    fn listed(&self, entry: Resource) -> Option<Listed> {
        let mount = self.plugin.mount();
        let path = mount.compose(entry.uri.as_str().strip_prefix(mount.as_str())?).ok()?.path;
        Some(Listed { entry_hash: hash(&entry), path, entry })
    }

    /// Takes a read from the budget, if the resource has to be read at all. The error is the time until the budget has
    /// a read.
    pub(super) fn take_read(&self, entry: &Resource) -> Result<(), Duration> {
        if !self.source.reads_content_of(entry) {
            return Ok(());
        }
        self.source.reads().check().map_err(|early| early.wait_time_from(DefaultClock::default().now()))
    }

    /// Waits until the budget has a read for the resource, and takes it.
    pub(super) async fn wait_for_read(&self, entry: &Resource) {
        while let Err(wait) = self.take_read(entry) {
            sleep(wait).await;
        }
    }

    /// Reads a resource, unless only its metadata are indexed. The caller has taken the read from the budget.
    pub(super) async fn read(&self, listed: Listed) -> Result<Document, Fault> {
        let Listed { entry, path, entry_hash } = listed;
        let Text { text, part, is_cut } = match self.source.reads_content_of(&entry) {
            true => self.read_text(&entry.uri, &path).await?,
            false => Text::default(),
        };
        let entry = DocumentEntry { part, ..DocumentEntry::new(&entry) };
        Ok(Document { path: path.as_str().to_owned(), entry, entry_hash, text, is_cut })
    }

    /// The text of a resource: its first text content, up to `max-document`. Empty if there is none.
    async fn read_text(&self, uri: &Uri, path: &Path) -> Result<Text, Fault> {
        let own = uri.clone();
        let filter = move |one: &ResourceContents| one.entry.uri == own && matches!(one.body, ResourceBody::Text(_));
        let contents = self.attempt(|| self.plugin.read_as(CallOrigin::Indexer, path, filter.clone())).await?;
        let text = contents.into_iter().find_map(|one| match one.body {
            ResourceBody::Text(text) => Some(Text { text, part: Notice::part(&one.entry.meta), is_cut: false }),
            ResourceBody::Blob(_) => None,
        });
        let max = usize::try_from(self.source.settings().max_document.bytes()).unwrap_or(usize::MAX);
        Ok(text.map(|text| text.cut_to(max)).unwrap_or_default())
    }

    /// Whether the provider has lines of each resource, by a template such as `{+path}{?lines}`. None if this is
    /// unknown.
    pub(super) async fn has_lines(&self) -> Option<bool> {
        let page = self.plugin.templates(CallOrigin::Host, None, |_| true).await.ok()?;
        Some(page.items.iter().any(|template| {
            let path = template.uri_template.path_template();
            let query = path.strip_prefix("{+").and_then(|rest| rest.split_once("}{?")?.1.strip_suffix('}'));
            query.is_some_and(|query| query.split(',').any(|variable| variable == "lines"))
        }))
    }

    /// Makes a call, and retries it a few times if the plugin is busy or unavailable.
    async fn attempt<T, F: Future<Output = Result<T, Fault>>>(&self, call: impl Fn() -> F) -> Result<T, Fault> {
        let mut attempts = 1_u32;
        loop {
            let fault = match call().await {
                Err(fault) if attempts < MAX_ATTEMPTS => fault,
                result => return result,
            };
            let pause = match &fault {
                Fault::RateLimited(pause) | Fault::Suspended(pause) => *pause,
                Fault::Unavailable { retry_after, .. } => retry_after.unwrap_or(RETRY_PAUSE),
                Fault::QueueFull(_) | Fault::QueueTimeout(_) => RETRY_PAUSE,
                _ => return Err(fault),
            };
            attempts = attempts.saturating_add(1);
            sleep(pause.clamp(MIN_RETRY_PAUSE, MAX_RETRY_PAUSE)).await;
        }
    }
}
