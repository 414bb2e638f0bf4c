//! Prefetch of plugins' pages.
//!
//! If each plugin were called only after the previous one, a page over many small plugins would take as long as all of
//! them together. So once a plugin is exhausted, the next ones are called concurrently: one, then two, then four, up to
//! [`MAX_PREFETCH`]. A page that one plugin fills causes no call of another.

use std::collections::VecDeque;

use futures::future::join_all;
use mcp_host_engine::plugin::{Fault, FilteredPage};

use super::{PagePosition, PageSource, PluginSlot, Viewer};

/// The maximum number of plugins that are called concurrently.
const MAX_PREFETCH: usize = 16;

/// A page, or the plugin's fault; `Err(None)` if the plugin is not loaded.
pub(super) type PageResult<T> = Result<FilteredPage<T>, Option<Fault>>;

/// Fetches plugins' pages.
pub(super) struct Prefetcher<'a, S: PageSource> {
    source: &'a S,
    viewer: &'a Viewer,
    slots: &'a [&'a PluginSlot],
    /// The prefetched first pages, with the plugins' indices in `slots`.
    fetched: VecDeque<(usize, PageResult<S::Item>)>,
    window_size: usize,
}

impl<'a, S: PageSource> Prefetcher<'a, S> {
    pub(super) fn new(source: &'a S, viewer: &'a Viewer, slots: &'a [&'a PluginSlot]) -> Self {
        Self { source, viewer, slots, fetched: VecDeque::new(), window_size: 0 }
    }

    /// Returns the page at `position`, requested with room for `remaining` items after the skipped ones.
    pub(super) async fn page(&mut self, position: &PagePosition, remaining: usize) -> PageResult<S::Item> {
        let limit = remaining.saturating_add(position.skip);
        if position.cursor.is_some() {
            return self.fetch(position.plugin, position.cursor.as_deref(), limit).await;
        }
        while let Some((plugin, answer)) = self.fetched.pop_front() {
            if plugin == position.plugin {
                return answer;
            }
        }
        self.window_size = self.window_size.saturating_mul(2).clamp(1, MAX_PREFETCH);
        let window = position.plugin..position.plugin.saturating_add(self.window_size).min(self.slots.len());
        let answers = join_all(window.clone().map(|plugin| self.fetch(plugin, None, limit))).await;
        self.fetched = window.zip(answers).collect();
        self.fetched.pop_front().map_or(Err(None), |(_, answer)| answer)
    }

    async fn fetch(&self, plugin: usize, cursor: Option<&str>, limit: usize) -> PageResult<S::Item> {
        let plugin = self.slots.get(plugin).and_then(|slot| slot.plugin.as_deref().ok()).ok_or(None)?;
        self.source.page(plugin, cursor, limit, self.viewer).await.map_err(Some)
    }
}
