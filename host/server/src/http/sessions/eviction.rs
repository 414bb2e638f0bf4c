//! The choice of a session to evict: the least recently used idle one (LRU).
//!
//! Finding it takes a scan of all sessions, while the store is locked. So one scan finds the [`CANDIDATES`] that have
//! been idle for longest, and the next evictions take them in order. The order stays exact: a session that was used
//! since the scan is skipped, and every session outside of the list became idle later than those in it. A client that
//! opens sessions without end thus causes one scan for each [`CANDIDATES`], or for as many idle sessions as it has, if
//! these are fewer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::stored::StoredSession;
use crate::client_id::ClientId;

/// The number of candidates that one scan finds.
const CANDIDATES: usize = 256;
/// The maximum number of lists.
const MAX_LISTS: usize = 64;

/// The sessions of a store, by id.
pub(super) type ById = HashMap<Arc<str>, Arc<StoredSession>>;

/// The sessions that an eviction chooses from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Among {
    /// One client's sessions. None for the sessions of all clients.
    pub(super) client: Option<ClientId>,
    /// Copies of other replicas' sessions, or sessions that were opened here.
    pub(super) copies: bool,
}

impl Among {
    fn has(&self, session: &StoredSession) -> bool {
        session.is_copy() == self.copies && self.client.as_ref().is_none_or(|client| session.client == *client)
    }
}

/// The candidates for eviction, the longest idle first, each with the time since when it was idle.
#[derive(Debug, Default)]
pub(super) struct Candidates(HashMap<Among, VecDeque<(Instant, Arc<str>)>>);

impl Candidates {
    /// Returns the session that has been idle for longest. None if all are in use.
    pub(super) fn longest_idle(&mut self, all: &ById, among: Among) -> Option<Arc<StoredSession>> {
        if let Some(list) = self.0.get_mut(&among)
            && let Some(session) = next(list, all)
        {
            return Some(session);
        }
        let mut list = scan(all, &among);
        let session = next(&mut list, all);
        if self.0.len() >= MAX_LISTS {
            self.0.clear();
        }
        self.0.insert(among, list);
        session
    }
}

/// Takes the first candidate that was not used since the scan.
fn next(list: &mut VecDeque<(Instant, Arc<str>)>, all: &ById) -> Option<Arc<StoredSession>> {
    while let Some((since, id)) = list.pop_front() {
        if let Some(session) = all.get(&id).filter(|session| session.idle_since() == Some(since)) {
            return Some(session.clone());
        }
    }
    None
}

fn scan(all: &ById, among: &Among) -> VecDeque<(Instant, Arc<str>)> {
    let candidates = all.values().filter(|session| among.has(session));
    let mut idle: Vec<_> = candidates.filter_map(|session| Some((session.idle_since()?, session.id.clone()))).collect();
    if idle.len() > CANDIDATES {
        idle.select_nth_unstable(CANDIDATES);
        idle.truncate(CANDIDATES);
    }
    idle.sort_unstable();
    idle.into()
}
