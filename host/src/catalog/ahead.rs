//! Asking plugins for their pages, those that come next ahead of time.
//!
//! A page over many small plugins would take as long as all of them together if each was asked only after the one before. So
//! once a plugin has been used up, the next ones are asked at the same time: one, then two, then four, up to
//! [`MAX_AHEAD`]. A page that one plugin fills asks no other.

use std::collections::VecDeque;

use futures::future::join_all;

use super::{Item, Place, Slot, Source, Viewer};
use crate::plugin::{Fault, Page, Turn};

/// Plugins that are asked at the same time.
const MAX_AHEAD: usize = 16;

/// A page, or why there is none; without a fault, the plugin did not load.
pub(super) type Answer<T> = Result<Page<T>, Option<Fault>>;

/// Asks plugins for their pages.
pub(super) struct Ahead<'a, S: Source> {
    source: &'a S,
    viewer: &'a Viewer,
    slots: &'a [Slot],
    /// First pages that were asked for ahead of time, with the plugins' places in `slots`.
    fetched: VecDeque<(usize, Answer<S::Item>)>,
    width: usize,
}

impl<'a, S: Source> Ahead<'a, S> {
    pub(super) fn new(source: &'a S, viewer: &'a Viewer, slots: &'a [Slot]) -> Self {
        Self { source, viewer, slots, fetched: VecDeque::new(), width: 0 }
    }

    /// The page at that place, asked for with `room` items in mind behind those that are skipped.
    pub(super) async fn page(&mut self, place: &Place, room: usize) -> Answer<S::Item> {
        let limit = room.saturating_add(place.skip);
        if place.cursor.is_some() {
            return self.ask(place.plugin, place.cursor.as_deref(), limit).await;
        }
        while let Some((plugin, answer)) = self.fetched.pop_front() {
            if plugin == place.plugin {
                return answer;
            }
        }
        self.width = self.width.saturating_mul(2).clamp(1, MAX_AHEAD);
        let window = place.plugin..place.plugin.saturating_add(self.width).min(self.slots.len());
        let answers = join_all(window.clone().map(|plugin| self.ask(plugin, None, limit))).await;
        self.fetched = window.zip(answers).collect();
        self.fetched.pop_front().map_or(Err(None), |(_, answer)| answer)
    }

    async fn ask(&self, plugin: usize, cursor: Option<&str>, limit: usize) -> Answer<S::Item> {
        let plugin = self.slots.get(plugin).and_then(|slot| slot.plugin.as_deref().ok()).ok_or(None)?;
        let viewer = self.viewer.clone();
        let keep = move |item: &S::Item| item.is_shown_to(&viewer);
        self.source.page(Turn::Client, plugin, cursor, limit, keep).await.map_err(Some)
    }
}
