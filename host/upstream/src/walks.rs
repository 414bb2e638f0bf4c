//! What is kept of the listings that clients are walking, for their next call.
//!
//! Whoever walks a listing asks for a page, waits, and asks for the next one. Two things are kept for that next call, each under the
//! cursor that it comes with:
//!
//! - **The page after.** A call that came with a cursor, so the second of a walk or a later one, has the next page of the upstream asked for
//!   before it is. So the exchange of the client with the host and that of the host with the upstream overlap. One page of each walk is read
//!   ahead, and none for a client that takes the first page alone.
//! - **The rest of a page** that has more entries than a call can use. The upstream is not asked for it once more.
//!
//! Both are of one client of the upstream, so of one identity there, and no call that is not made asks for anything: what a principal may not list
//! at all is not called for it. What is kept is taken once. It is for the connection, the session and the state of the listing that it was asked
//! in: after `list_changed`, or a gap in which that may have been lost, the upstream is asked again. So it is after [`MAX_AGE`], counted from
//! the answer, and if a page could not be read ahead.
//!
//! [`MAX_WALKS`] of each are kept, and they take at most the bytes that [`Walks::new`] says; what finds no room is not kept. Requests
//! end at `limits.deadline`, and are cancelled with whoever waits for them.

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
    /// Nothing yet. What is kept takes at most that number of bytes.
    pub(crate) fn new(asker: Asker, deadline: Duration, budget: usize) -> Self {
        let room = Arc::new(Semaphore::new(budget.div_euclid(UNIT).min(Semaphore::MAX_PERMITS)));
        Self { asker, deadline, room, kept: Arc::default() }
    }

    /// Asks for a page, unless that is under way.
    pub(crate) fn read_ahead(&self, link: &Arc<Link>, at: &PageCursor, moment: Moment) {
        let key = at.encode();
        let mut pages = self.kept.pages.lock();
        pages.retain(|_, page| page.moment == moment && page.is_fresh());
        if pages.len() >= MAX_WALKS || pages.contains_key(&key) {
            return;
        }
        let (sender, text) = oneshot::channel();
        let answered_at = Arc::<Mutex<Option<Instant>>>::default();
        let (asker, link, room, answered) = (self.asker.clone(), link.clone(), self.room.clone(), answered_at.clone());
        let (request, deadline) = (request(at), self.deadline);
        let task = self.asker.runtime().spawn(async move {
            let asking = asker.ask(&link, request, Thread::OfTransport);
            let Ok(Ok(text)) = tokio::time::timeout(deadline, asking).await else { return };
            drop(link);
            let Some(permit) = take_room(&room, text.len()) else { return };
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
        let permit = match rest.kept.take() {
            Some((_, _, permit)) => Some(permit),
            None => {
                let bytes = rest.entries.as_slice().iter().map(size).fold(0, usize::saturating_add);
                take_room(&self.room, bytes)
            }
        };
        let Some(permit) = permit else { return };
        rest.kept = Some((moment, Instant::now(), permit));
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
