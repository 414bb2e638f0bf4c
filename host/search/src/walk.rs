//! Walks: reconciliation of the whole listing with the index.
//!
//! A walk has two passes. [`compare`](Updater::compare) visits each listed resource, and removes resources that are no
//! longer listed from the index. It reads resources that the index lacks, while the budget allows it and for at most
//! [`MAX_COMPARE_READS`], so the pass ends soon even if reads are slow. Between the pages of a long listing it
//! processes changes, for at most half of the time.
//!
//! [`read_deferred`](Updater::read_deferred) reads the rest. With a small budget this may take hours. It also processes
//! changes, and ends early for another comparison if the listing has changed.

use std::time::Duration;

use mcp_host_base::time::now_millis;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::resource::Resource;
use tokio::time::{Instant, sleep};

use super::change_poller::ChangePoller;
use super::error::IndexError;
use super::source_reader::{Listed, Position};
use super::status::Gaps;
use super::status::SourceId;
use super::store::{self, KnownDocument};
use super::updater::{Updater, later};

/// The maximum time of reads in a comparison. Further reads are left to the second pass.
const MAX_COMPARE_READS: Duration = Duration::from_secs(5);
/// The coarsest resolution of modification times, in milliseconds (FAT).
const TIME_RESOLUTION: u64 = 2000;

/// The reason why a walk ended early.
pub(super) enum WalkError {
    Plugin(Fault),
    Index(IndexError),
}

impl From<IndexError> for WalkError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

/// The result of a pass.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The gaps of the index.
    pub(super) gaps: Gaps,
    /// Whether some resources have not been read yet.
    pub(super) has_more: bool,
}

/// The time limits of the second pass.
pub(super) struct Until {
    /// The time from which the listing is compared again, if it has changed.
    pub(super) if_changed: Instant,
    /// The time at which it is compared again in any case.
    pub(super) at_most: Instant,
}

/// The state of following changes between the pages of the first pass.
struct BetweenPages {
    /// The time when changes were last followed, or the pass began.
    since: Instant,
    /// The time of the next poll for changes. None if the provider does not report changes.
    next_poll: Option<Instant>,
}

/// The state of following changes during the second pass.
struct Following<'a> {
    poller: &'a mut ChangePoller,
    until: &'a Until,
    /// The time of the next poll for changes. None if the provider does not report changes.
    next_poll: Option<Instant>,
}

impl Following<'_> {
    /// Whether the next poll for changes is due.
    fn is_due(&self) -> bool {
        self.next_poll.is_some_and(|next| Instant::now() >= next)
    }

    /// Whether the listing has to be compared again.
    fn is_over(&self) -> bool {
        let now = Instant::now();
        now >= self.until.at_most || (self.poller.listing_changed && now >= self.until.if_changed)
    }

    /// Shortens a pause to end at the next poll or at the end of the pass.
    fn limit(&self, pause: Duration) -> Duration {
        let next = self.next_poll.unwrap_or(self.until.at_most).min(self.until.at_most);
        pause.min(next.saturating_duration_since(Instant::now()))
    }
}

/// A page of the listing, with the state of each resource in the index.
struct ComparedPage {
    resources: Vec<(Listed, Option<KnownDocument>)>,
    has_room: bool,
}

impl Updater {
    /// Compares the listing with the index, removes resources that are not listed, and reads some of the missing ones.
    pub(super) async fn compare(
        &self,
        id: SourceId,
        poller: &mut ChangePoller,
        is_first: bool,
    ) -> Result<Pass, WalkError> {
        let (mut pass, mut position, mut seen) = (Pass::default(), Position::default(), Vec::new());
        let reads_until = later(Instant::now(), MAX_COMPARE_READS);
        let plugin = &self.reader.plugin;
        poller.begin_walk(plugin).await;
        let now = Instant::now();
        let first_poll = plugin.info().watches.then(|| later(now, poller.interval(plugin.watch_interval())));
        let mut between_pages = BetweenPages { since: now, next_poll: first_poll };
        loop {
            let before = position.clone();
            let next_page = self.reader.next_page(&mut position).await;
            let Some(mut page) = next_page.map_err(WalkError::Plugin)? else { break };
            let subscribable = page.iter().filter(|listed| listed.entry.subscribable);
            if poller.watch(plugin, subscribable.map(|listed| listed.path.clone()).collect()).await {
                // Listed again after the first token, because a change between the listing and the token would be in
                // neither.
                position = before;
                let next_page = self.reader.next_page(&mut position).await;
                page = next_page.map_err(WalkError::Plugin)?.unwrap_or_default();
            }
            let ComparedPage { resources, has_room } = self.find(id, page).await?;
            let mut batch = self.new_batch();
            for (listed, known) in resources {
                seen.extend(known.map(|known| known.id));
                if known.is_some_and(|known| self.is_current(&listed, known, is_first)) {
                    continue;
                }
                if known.is_none() && !has_room {
                    pass.gaps.omitted = pass.gaps.omitted.saturating_add(1);
                } else if Instant::now() >= reads_until || self.reader.take_read(&listed.entry).is_err() {
                    pass.has_more = true;
                } else {
                    self.read_into(&mut batch, listed, known, &mut pass.gaps).await;
                }
                if batch.is_due() {
                    seen.extend(self.apply(id, &mut batch, &mut pass.gaps).await?);
                }
            }
            seen.extend(self.apply(id, &mut batch, &mut pass.gaps).await?);
            // Documents that are stored here may already have been visited, and removed after that.
            seen.extend(self.follow_between_pages(id, poller, &mut between_pages, &mut pass.gaps).await?);
        }
        pass.gaps.is_truncated = position.is_truncated;
        poller.end_walk();
        seen.sort_unstable();
        self.change(id, move |connection| Ok(((), store::remove_except(connection, id, &seen)? > 0))).await?;
        Ok(pass)
    }

    /// Polls for changes between two pages of the first pass, if a poll is due, and reads some of the changed
    /// resources. At least half of the time is left for the listing. Returns the ids of the stored documents.
    async fn follow_between_pages(
        &self,
        id: SourceId,
        poller: &mut ChangePoller,
        between_pages: &mut BetweenPages,
        gaps: &mut Gaps,
    ) -> Result<Vec<i64>, IndexError> {
        let began = Instant::now();
        if between_pages.next_poll.is_none_or(|next| began < next) {
            return Ok(Vec::new());
        }
        let pause = self.poll_changes(poller).await;
        let until = later(began, began.saturating_duration_since(between_pages.since));
        let put = self.read_changed_until(until, id, poller, gaps).await?;
        let now = Instant::now();
        *between_pages = BetweenPages { since: now, next_poll: Some(later(now, pause.max(began.elapsed()))) };
        Ok(put)
    }

    /// Reads the missing resources within the budget, and follows changes meanwhile. `has_more` is set if it ended
    /// early.
    pub(super) async fn read_deferred(
        &self,
        id: SourceId,
        poller: &mut ChangePoller,
        is_first: bool,
        until: &Until,
    ) -> Result<Pass, WalkError> {
        let (mut pass, mut position) = (Pass::default(), Position::default());
        let next_poll = self.reader.plugin.info().watches.then(Instant::now);
        let mut following = Following { poller, until, next_poll };
        while let Some(page) = self.reader.next_page(&mut position).await.map_err(WalkError::Plugin)? {
            let ComparedPage { resources, has_room } = self.find(id, page).await?;
            let mut batch = self.new_batch();
            for (listed, known) in resources {
                if known.is_some_and(|known| self.is_current(&listed, known, is_first)) {
                    continue;
                }
                if known.is_none() && !has_room {
                    pass.gaps.omitted = pass.gaps.omitted.saturating_add(1);
                    continue;
                }
                loop {
                    if following.is_due() {
                        // Written first, because earlier reads are older than the changes.
                        self.apply(id, &mut batch, &mut pass.gaps).await?;
                        self.follow_changes(id, &mut following).await?;
                    }
                    if following.is_over() {
                        self.apply(id, &mut batch, &mut pass.gaps).await?;
                        pass.has_more = true;
                        return Ok(pass);
                    }
                    let Err(wait) = self.reader.take_read(&listed.entry) else { break };
                    self.apply(id, &mut batch, &mut pass.gaps).await?;
                    sleep(following.limit(wait)).await;
                }
                self.read_into(&mut batch, listed, known, &mut pass.gaps).await;
                if batch.is_due() {
                    self.apply(id, &mut batch, &mut pass.gaps).await?;
                }
            }
            self.apply(id, &mut batch, &mut pass.gaps).await?;
        }
        pass.gaps.is_truncated = position.is_truncated;
        Ok(pass)
    }

    /// Reads changed resources during the second pass.
    async fn follow_changes(&self, id: SourceId, following: &mut Following<'_>) -> Result<(), IndexError> {
        let began = Instant::now();
        let next = self.poll(id, following.poller).await?;
        // At least half of the time is left for the rest of the listing.
        following.next_poll = Some(next.max(later(Instant::now(), began.elapsed())));
        Ok(())
    }

    /// Finds the states of a page's resources in the index.
    async fn find(&self, id: SourceId, page: Vec<Listed>) -> Result<ComparedPage, IndexError> {
        let paths: Vec<_> = page.iter().map(|listed| listed.path.as_str().to_owned()).collect();
        let space = self.index.space();
        let finding = self.index.write(move |connection| {
            let known = store::find_documents(connection, id, &paths)?;
            Ok((known, space.has_room(store::used_bytes(connection)?)))
        });
        let (known, has_room) = finding.await?;
        Ok(ComparedPage { resources: page.into_iter().zip(known).collect(), has_room })
    }

    /// Whether the resource in the index is current.
    fn is_current(&self, listed: &Listed, known: KnownDocument, is_first: bool) -> bool {
        let Listed { entry, entry_hash, .. } = listed;
        let source = &self.reader.source;
        let refresh = i64::try_from(source.settings().refresh.duration().as_millis()).unwrap_or(i64::MAX);
        let is_recent = now_millis().saturating_sub(known.checked) < refresh;
        let is_watched = self.reader.plugin.info().watches && entry.subscribable && !is_first;
        let tells_changes = entry.annotations.last_modified.is_some() || is_watched || !source.reads_content_of(entry);
        known.entry_hash == *entry_hash && (tells_changes || is_recent) && (is_watched || !is_racy(entry, known))
    }
}

/// Whether the resource may have changed after the read within the resolution of its modification time. The entry does
/// not show such a change.
fn is_racy(entry: &Resource, known: KnownDocument) -> bool {
    let modified = entry.annotations.last_modified.as_ref();
    let modified = modified.and_then(|time| time.as_str().parse::<jiff::Timestamp>().ok());
    modified.is_some_and(|time| known.checked.abs_diff(time.as_millisecond()) < TIME_RESOLUTION)
}
