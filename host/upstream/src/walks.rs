//! What is kept of the listings that clients are walking, for their next call.
//!
//! A client that walks a listing requests a page, waits, and requests the next one. Two things are kept for the next call, each under its
//! cursor:
//!
//! - **The page after** (read-ahead). The second call of a walk, and each later one, requests the next page of the upstream in advance, so the
//!   exchange between client and host overlaps with the exchange between host and upstream. One page of each walk is read ahead, and none
//!   after the first page of a walk.
//! - **The rest of a page** that has more entries than a call can use. It is not requested again.
//!
//! Both belong to one client of the upstream, and so to one identity there. Only calls of a client cause requests: a principal that may not
//! list anything causes none. Each kept page is taken once. It is valid for the connection, the session and the state of the listing at the
//! time of its request: after `list_changed`, or a gap in which this notification may have been lost, the page is requested again. The same
//! holds after [`MAX_AGE`], counted from the answer, and if a page could not be read ahead.
//!
//! Bounds: at most [`MAX_WALKS`] pages and rests are kept, within a budget in bytes. A page is read ahead only if there is room for a page
//! as long as the one before, and while fewer requests are in flight than could exceed `limits.memory` with answers of the maximum size.
//! Requests end at `limits.deadline`, and are cancelled with the call that waits for them.

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

/// The walks of which something is kept.
const MAX_WALKS: usize = READING_AHEAD;
/// The time for which it is kept.
const MAX_AGE: Duration = Duration::from_secs(2);
/// The bytes of a permit.
const UNIT: usize = 1024;

/// What is kept of all walks.
pub(crate) struct Walks {
    asker: Asker,
    deadline: Duration,
    room: Arc<Semaphore>,
    /// The requests in flight, any of whose answers may have the maximum size.
    requests: Arc<Semaphore>,
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    pages: Mutex<HashMap<String, Ahead>>,
    rests: Mutex<HashMap<String, Rest>>,
    /// Whether a task drops what is too old.
    is_swept: Mutex<bool>,
}

/// What the listing was when something was kept.
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

/// A page that is being read ahead, or was.
struct Ahead {
    moment: Moment,
    /// When it was answered; none until then.
    answered_at: Arc<Mutex<Option<Instant>>>,
    /// The text of the answer. Without a sender there is none.
    text: oneshot::Receiver<(String, OwnedSemaphorePermit)>,
    /// Ends the request when it is dropped.
    task: AbortOnDropHandle<()>,
}

/// The entries of a page that are left.
pub(crate) struct Rest {
    /// The first of them.
    pub(crate) at: PageCursor,
    pub(crate) entries: vec::IntoIter<Entry>,
    /// The page after.
    pub(crate) next: Option<PageCursor>,
    kept: Option<(Moment, Instant, OwnedSemaphorePermit)>,
}

impl Rest {
    /// The entries of a page from that place on.
    pub(crate) fn new(at: PageCursor, entries: Vec<Entry>, next: Option<PageCursor>) -> Self {
        Self { at, entries: entries.into_iter(), next, kept: None }
    }
}

/// Whether something may be used that was answered at that time.
fn is_fresh(answered_at: Instant) -> bool {
    answered_at.elapsed() < MAX_AGE
}

/// The request of a page.
pub(crate) fn request(at: &PageCursor) -> ClientRequest {
    let params = at.upstream.as_ref().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor.clone())));
    ClientRequest::ListResourcesRequest(ListResourcesRequest {
        method: Default::default(),
        params,
        extensions: Default::default(),
    })
}

impl Walks {
    /// Keeps nothing yet. Kept pages take at most an eighth of `memory`, in bytes. `max_message` is the maximum size of an answer.
    pub(crate) fn new(asker: Asker, deadline: Duration, memory: usize, max_message: usize) -> Self {
        let room = memory.div_euclid(8).div_euclid(UNIT).min(Semaphore::MAX_PERMITS);
        let requests = memory.checked_div(max_message).unwrap_or_default().clamp(1, READING_AHEAD);
        let [room, requests] = [room, requests].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { asker, deadline, room, requests, kept: Arc::default() }
    }

    /// Requests a page, unless it is requested already or there is no room. `expected` is the length of the page before, in bytes.
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

    /// The text of the answer with that page, if it was read ahead, or is.
    pub(crate) async fn page(&self, at: &PageCursor, moment: Moment) -> Option<String> {
        let page = self.kept.pages.lock().remove(&at.encode())?;
        if page.moment != moment || !page.is_fresh() {
            return None;
        }
        let Ahead { text, task: _task, .. } = page;
        text.await.ok().map(|(text, _)| text)
    }

    /// Keeps the rest of a page, unless there is no room. `size` is the bytes of an entry.
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

    /// The rest of a page from that place on, if it was kept.
    pub(crate) fn rest(&self, at: &PageCursor, moment: Moment) -> Option<Rest> {
        self.kept.rests.lock().remove(&at.encode()).filter(|rest| rest.is_of(moment))
    }

    /// Has what nobody takes dropped.
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
    /// Drops what is too old. Returns whether nothing is left.
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
    /// Whether it is under way, or was answered a moment ago.
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
