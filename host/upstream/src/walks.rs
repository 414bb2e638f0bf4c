//! Read-ahead and partial pages of listings, kept for the next call of the same client.
//!
//! A client that walks a listing requests a page, waits, and requests the next one. Two things are kept for the next
//! call, each under its cursor:
//!
//! - **The next page** (read-ahead). From the second call of a walk on, each call requests the next page of the
//!   upstream in advance, so the exchange between client and host overlaps with the exchange between host and upstream.
//!   At most one page of each walk is read ahead.
//! - **The rest of a page** with more entries than a call can use. It is not requested again.
//!
//! Both belong to one client of the upstream, and therefore to one identity there. Only calls of a client cause
//! requests, so a principal that may not list anything causes none. Each kept page is used once. It is valid for the
//! connection, the session and the state of the listing at the time of its request: after `list_changed`, or a gap in
//! which this notification may have been lost, the page is requested again. It is also requested again [`MAX_AGE`]
//! after the answer, and if the read-ahead failed.
//!
//! Bounds: at most [`MAX_WALKS`] pages and as many rests, within a budget in bytes. A page is read ahead only if there
//! is room for a page of the same length as the previous one. The number of concurrent requests is limited to the
//! number of answers of the maximum size that `limits.memory` has room for. Requests end at `limits.deadline`, and are
//! cancelled with the call that waits for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec;

use mcp_host_model::provider::Entry;
use parking_lot::Mutex;
use rmcp::model::{ClientRequest, ListResourcesRequest, PaginatedRequestParams};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::ask::Asker;
use crate::connection::Link;
use crate::cursor::PageCursor;
use crate::http::Thread;
use crate::slots::READING_AHEAD;
use crate::updates::{ListingState, Updates};

/// The maximum number of pages that are kept, and of rests.
const MAX_WALKS: usize = READING_AHEAD;
/// The maximum age of a kept page or rest, since its answer.
const MAX_AGE: Duration = Duration::from_secs(2);
/// The bytes of one permit of the budget.
const UNIT: usize = 1024;

/// The kept pages and rests of all walks.
pub(crate) struct Walks {
    asker: Asker,
    deadline: Duration,
    room: Arc<Semaphore>,
    /// Limits the concurrent requests, because each answer may have the maximum size.
    requests: Arc<Semaphore>,
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    pages: Mutex<HashMap<String, Ahead>>,
    rests: Mutex<HashMap<String, Rest>>,
    /// Whether a task that removes expired pages and rests is running.
    is_swept: Mutex<bool>,
}

/// The connection and the state of the listing at the time of a request. A kept page is valid only if neither has
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    link: u64,
    listing: ListingState,
}

impl Moment {
    pub(crate) fn now(link: &Link, updates: &Updates) -> Self {
        Self { link: link.id, listing: updates.listing_state() }
    }
}

/// A page that is being read ahead, or has been.
struct Ahead {
    moment: Moment,
    /// The time of the answer; none before the answer.
    answered_at: Arc<Mutex<Option<Instant>>>,
    /// The text of the answer. If the request fails, the sender is dropped.
    text: oneshot::Receiver<(String, OwnedSemaphorePermit)>,
    /// Cancels the request when it is dropped.
    task: AbortOnDropHandle<()>,
}

/// The remaining entries of a page.
pub(crate) struct Rest {
    /// The cursor of the first remaining entry.
    pub(crate) at: PageCursor,
    pub(crate) entries: vec::IntoIter<Entry>,
    /// The cursor of the next page.
    pub(crate) next: Option<PageCursor>,
    kept: Option<(Moment, Instant, OwnedSemaphorePermit)>,
}

impl Rest {
    /// Creates the rest of a page, with its entries from `at` on.
    pub(crate) fn new(at: PageCursor, entries: Vec<Entry>, next: Option<PageCursor>) -> Self {
        Self { at, entries: entries.into_iter(), next, kept: None }
    }
}

/// Returns whether an answer of this time may still be used.
fn is_fresh(answered_at: Instant) -> bool {
    answered_at.elapsed() < MAX_AGE
}

/// Returns the request of a page.
pub(crate) fn request(at: &PageCursor) -> ClientRequest {
    let params = at.upstream.as_ref().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor.clone())));
    ClientRequest::ListResourcesRequest(ListResourcesRequest {
        method: Default::default(),
        params,
        extensions: Default::default(),
    })
}

impl Walks {
    /// Creates an empty cache. Its budget is an eighth of `memory`, in bytes. `max_message` is the maximum size of an
    /// answer.
    pub(crate) fn new(asker: Asker, deadline: Duration, memory: usize, max_message: usize) -> Self {
        let room = memory.div_euclid(8).div_euclid(UNIT).min(Semaphore::MAX_PERMITS);
        let requests = memory.checked_div(max_message).unwrap_or_default().clamp(1, READING_AHEAD);
        let [room, requests] = [room, requests].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { asker, deadline, room, requests, kept: Arc::default() }
    }

    /// Requests a page in advance, unless it is already requested or there is no room. `expected` is the length of the
    /// previous page in bytes.
    pub(crate) fn read_ahead(&self, link: &Arc<Link>, at: &PageCursor, expected: usize, moment: Moment) {
        let key = at.encode();
        let mut pages = self.kept.pages.lock();
        pages.retain(|_, page| page.moment == moment && page.is_fresh());
        if pages.len() >= MAX_WALKS || pages.contains_key(&key) {
            return;
        }
        let Ok(in_flight) = self.requests.clone().try_acquire_owned() else { return };
        let Some(mut permit) = take_room(&self.room, expected) else { return };
        let (sender, text) = oneshot::channel();
        let answered_at = Arc::<Mutex<Option<Instant>>>::default();
        let (asker, link, room, answered) = (self.asker.clone(), link.clone(), self.room.clone(), answered_at.clone());
        let (request, deadline) = (request(at), self.deadline);
        let task = self.asker.runtime().spawn(async move {
            let asking = asker.ask(&link, request, Thread::OfTransport);
            let Ok(Ok(text)) = tokio::time::timeout(deadline, asking).await else { return };
            drop(link);
            if let Some(missing) = text.len().checked_sub(expected).filter(|missing| *missing > 0) {
                let Some(more) = take_room(&room, missing) else { return };
                permit.merge(more);
            }
            drop(in_flight);
            *answered.lock() = Some(Instant::now());
            sender.send((text, permit)).unwrap_or_default();
        });
        pages.insert(key, Ahead { moment, answered_at, text, task: AbortOnDropHandle::new(task) });
        drop(pages);
        self.sweep_later();
    }

    /// Takes the text of this page's answer, if the page was read ahead. Waits for a pending request.
    pub(crate) async fn page(&self, at: &PageCursor, moment: Moment) -> Option<String> {
        let page = self.kept.pages.lock().remove(&at.encode())?;
        if page.moment != moment || !page.is_fresh() {
            return None;
        }
        let Ahead { text, task: _task, .. } = page;
        text.await.ok().map(|(text, _)| text)
    }

    /// Keeps the rest of a page, unless there is no room. `size` returns the size of an entry in bytes.
    pub(crate) fn keep(&self, mut rest: Rest, moment: Moment, size: impl Fn(&Entry) -> usize) {
        let kept = match rest.kept.take() {
            Some((_, answered_at, permit)) => Some((answered_at, permit)),
            None => {
                let bytes = rest.entries.as_slice().iter().map(size).fold(0, usize::saturating_add);
                take_room(&self.room, bytes).map(|permit| (Instant::now(), permit))
            }
        };
        let Some((answered_at, permit)) = kept else { return };
        rest.kept = Some((moment, answered_at, permit));
        let mut rests = self.kept.rests.lock();
        rests.retain(|_, rest| rest.is_of(moment));
        if rests.len() < MAX_WALKS {
            rests.insert(rest.at.encode(), rest);
        }
        drop(rests);
        self.sweep_later();
    }

    /// Takes the rest of a page from this cursor on, if it was kept.
    pub(crate) fn rest(&self, at: &PageCursor, moment: Moment) -> Option<Rest> {
        self.kept.rests.lock().remove(&at.encode()).filter(|rest| rest.is_of(moment))
    }

    /// Starts a task that removes expired pages and rests, unless it is running.
    fn sweep_later(&self) {
        let mut is_swept = self.kept.is_swept.lock();
        if std::mem::replace(&mut *is_swept, true) {
            return;
        }
        let kept = Arc::downgrade(&self.kept);
        self.asker.runtime().spawn(async move {
            loop {
                tokio::time::sleep(MAX_AGE).await;
                if kept.upgrade().is_none_or(|kept| kept.sweep()) {
                    return;
                }
            }
        });
    }
}

impl Kept {
    /// Removes expired pages and rests. Returns whether none are left.
    fn sweep(&self) -> bool {
        let mut is_swept = self.is_swept.lock();
        let (mut pages, mut rests) = (self.pages.lock(), self.rests.lock());
        pages.retain(|_, page| page.is_fresh());
        rests.retain(|_, rest| rest.is_fresh());
        *is_swept = !(pages.is_empty() && rests.is_empty());
        !*is_swept
    }
}

impl Ahead {
    /// Returns whether the request is pending, or its answer is not expired.
    fn is_fresh(&self) -> bool {
        let answered_at = *self.answered_at.lock();
        answered_at.map_or(!self.task.is_finished(), is_fresh)
    }
}

impl Rest {
    fn is_of(&self, moment: Moment) -> bool {
        self.is_fresh() && self.kept.as_ref().is_some_and(|(kept_in, _, _)| *kept_in == moment)
    }

    fn is_fresh(&self) -> bool {
        self.kept.as_ref().is_some_and(|(_, kept_at, _)| is_fresh(*kept_at))
    }
}

fn take_room(room: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
    room.clone().try_acquire_many_owned(units).ok()
}
