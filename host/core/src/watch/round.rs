//! One poll of a plugin: a round of calls of `changes`.
//!
//! A poll covers all watched paths: one call of `changes` for each [group](super::groups) of paths, sequentially.
//!
//! **A failed call** is followed by a call without paths. If the provider fails that call, too, the poll ends. If the provider answers,
//! only the group has failed: it is split, and polled again after its own back-off, while the other groups are polled. Failed groups are
//! polled after the others. No call begins once the failed calls of a poll have taken [`MAX_FAILED_TIME`], and a pause of four times their
//! duration, up to [`MAX_FAILED_PAUSE`], follows. The first failure of a group, and the calls for the parts of a group that worked until
//! then, are not delayed by this pause, because other paths wait for them. A client whose paths alone make a group fail pays with
//! [`FAILURE_COST`] of the polls that it may force.
//!
//! **The duration of a poll** is bounded by the groups that are not [slow](SLOW_CALL), and by [`MAX_ROUND`]. The next poll begins its slow
//! groups with those that this poll did not reach. So paths for which a provider is slow delay the other groups by one second and one call.
//!
//! The paths of an answer are reduced to a set of watched resources before any notification, so a path that is named twice counts as one
//! change. The set is processed in [batches](super::state), independent of the number of paths and subscribers.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use mcp_host_engine::plugin::{Fault, WatchedChanges};
use mcp_host_model::caller::Caller;
use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Path, Uri};
use tokio::time::Instant;

use super::groups::{GroupId, Polled};
use super::poller::Poller;
use super::state::BATCH_SIZE;
use crate::access::Principal;
use crate::response_cache::DroppedFor;

/// The duration of a call above which its group is slow.
const SLOW_CALL: Duration = Duration::from_millis(50);
/// The time after which a poll begins no further call for a slow group.
const MAX_ROUND: Duration = Duration::from_secs(1);
/// The duration of failed calls after which a poll begins no further call.
const MAX_FAILED_TIME: Duration = Duration::from_secs(2);
/// The duration of answered calls for parts of left out paths after which a poll for all replicas begins no further such call.
const MAX_PARTS_TIME: Duration = Duration::from_secs(4);
/// The minimum duration with which a failed call counts.
const MIN_FAILED_TIME: Duration = Duration::from_millis(20);
/// The pause after failed calls before failed groups are polled again, as a multiple of the calls' duration; and its maximum.
const FAILED_PAUSE_FACTOR: u32 = 4;
const MAX_FAILED_PAUSE: Duration = Duration::from_secs(5);
/// The maximum number of a resource's subscribers that are examined to determine the client of its path.
const MAX_LOOKED_AT: usize = 64;
/// The number of forced polls that a client loses if its paths make a provider fail.
const FAILURE_COST: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// The state of a poll.
#[derive(Default)]
pub(super) struct Round {
    /// The provider's hint for the next poll.
    pub(super) hint: Option<Duration>,
    /// Whether a call was answered.
    pub(super) has_answer: bool,
    /// The duration of the failed calls.
    failed_time: Duration,
    /// The duration of the answered calls for parts of left out paths, in a poll for all replicas.
    parts_time: Duration,
    /// The groups that this poll did not reach.
    pub(super) left: Vec<GroupId>,
}

impl Round {
    /// Returns whether the failed calls leave time for others.
    pub(super) fn has_time(&self) -> bool {
        self.failed_time <= MAX_FAILED_TIME
    }

    /// Returns whether there is time for one more call for a part of left out paths, in a poll for all replicas.
    pub(super) fn has_time_for_parts(&self) -> bool {
        self.has_time() && self.parts_time <= MAX_PARTS_TIME
    }

    /// Counts an answered call for such a part.
    pub(super) fn answer_part(&mut self, took: Duration) {
        self.parts_time = self.parts_time.saturating_add(took);
    }

    /// Counts an answered call.
    pub(super) fn answer(&mut self, changes: &WatchedChanges) {
        self.has_answer = true;
        self.hint = self.hint.into_iter().chain(changes.poll_after).min();
    }

    /// Counts a failed call.
    pub(super) fn fail(&mut self, took: Duration) {
        self.failed_time = self.failed_time.saturating_add(took.max(MIN_FAILED_TIME));
    }
}

impl Poller {
    /// Polls each group, while there is time.
    pub(super) async fn poll_groups(&mut self) -> Result<Round, Fault> {
        let (began, mut round) = (Instant::now(), Round::default());
        let is_slow = |took: Duration| took > SLOW_CALL;
        let mut working: VecDeque<_> = self.groups.working(is_slow).into();
        let mut has_slow = false;
        while let Some(id) = working.pop_front() {
            let is_slow = self.groups.get(id).is_some_and(|group| is_slow(group.took));
            if !round.has_time() || (is_slow && has_slow && began.elapsed() > MAX_ROUND) {
                round.left.push(id);
                continue;
            }
            has_slow |= is_slow;
            if let Some(works) = self.poll_group(id, &mut round).await? {
                working.push_front(works);
            }
        }
        let may_retry = began >= self.retries_from;
        while round.has_time()
            && let Some(id) = self.groups.next_due(Instant::now(), may_retry)
        {
            self.poll_group(id, &mut round).await?;
        }
        if !round.has_answer {
            self.poll_listing(&mut round).await?;
        }
        self.pause_after_failures(&round);
        Ok(round)
    }

    /// Polls one group. If the call fails and the provider answers a call without paths, the group is split. Returns the part that works as
    /// far as known, if there is one. Fails if the provider does not answer.
    async fn poll_group(&mut self, id: GroupId, round: &mut Round) -> Result<Option<GroupId>, Fault> {
        let (paths, token) = match self.groups.get(id) {
            Some(group) => (group.watched.iter().map(|(_, path)| path.clone()).collect(), group.token.clone()),
            None => (Vec::new(), None),
        };
        let (answer, took) = self.call(&paths, token.as_deref()).await;
        let fault = match answer {
            Ok(changes) => {
                self.tell_changes(id, changes, took, round).await;
                return Ok(None);
            }
            Err(fault) => fault,
        };
        round.fail(took);
        if self.poll_listing(round).await.is_err() {
            return Err(fault);
        }
        self.groups.record_failure(id, fault, took, Instant::now());
        let clients = self.clients_of(id).await;
        self.charge(&clients);
        Ok(self.groups.split(id, clients, Instant::now()).flatten())
    }

    /// Calls `changes`, and returns the answer and the duration.
    pub(super) async fn call(&self, paths: &[Path], token: Option<&str>) -> (Result<WatchedChanges, Fault>, Duration) {
        let began = Instant::now();
        let answer = Caller::scope_view(self.caller.clone(), self.state.plugin.changes(paths, token)).await;
        (answer, began.elapsed())
    }

    /// Calls `changes` without paths: for changes of the listing, and to check whether the provider answers at all.
    async fn poll_listing(&mut self, round: &mut Round) -> Result<(), Fault> {
        let token = self.ask_about_listing(self.groups.last_token(), round).await?;
        self.groups.set_last_token(token);
        Ok(())
    }

    /// Calls `changes` for changes of the listing since a token, and returns the next token.
    pub(super) async fn ask_about_listing(&self, token: Option<&str>, round: &mut Round) -> Result<String, Fault> {
        let changes = Caller::scope_view(self.caller.clone(), self.state.plugin.changes(&[], token)).await?;
        round.answer(&changes);
        self.tell_listing(token.is_none(), changes.listing_changed);
        Ok(changes.token)
    }

    /// Delays the next calls for failed groups, in proportion to the duration of this round's failed calls.
    pub(super) fn pause_after_failures(&mut self, round: &Round) {
        if !round.failed_time.is_zero() {
            let pause = round.failed_time.saturating_mul(FAILED_PAUSE_FACTOR).min(MAX_FAILED_PAUSE);
            let now = Instant::now();
            self.retries_from = now.checked_add(pause).unwrap_or(now);
        }
    }

    /// Drops cached pages of the listing if it has changed, or if no state of it was known before.
    fn tell_listing(&self, is_first: bool, has_changed: bool) {
        if is_first || has_changed {
            self.state.plugin.drop_cached_pages(DroppedFor::Whole);
        }
        if has_changed {
            self.state.listing.mark_dirty();
            self.state.plugin.data_changed();
        }
    }

    /// Notifies the changes of a group, and stores its token.
    async fn tell_changes(&mut self, id: GroupId, changes: WatchedChanges, took: Duration, round: &mut Round) {
        round.answer(&changes);
        self.tell(self.groups.polled(id), &changes).await;
        self.groups.record_answer(id, changes.token, took, Instant::now());
        // In a cluster, another replica may make the next poll, with another token. In a view, a resource that another view watches may
        // have been left out since.
        if self.state.shared.is_none() && self.state.view.is_none() {
            let watched = self.groups.get(id).map(|group| group.watched.as_slice()).unwrap_or_default();
            for batch in watched.chunks(BATCH_SIZE) {
                self.state.context.subscription_index().set_polled(batch, self.state.id);
                tokio::task::yield_now().await;
            }
        }
    }

    /// Notifies the changes of an answer about these paths. Returns the changed resources.
    pub(super) async fn tell(&self, polled: Polled<'_>, changes: &WatchedChanges) -> Vec<(Uri, Path)> {
        for batch in polled.new.chunks(BATCH_SIZE) {
            // Newly watched paths are compared with the state of this answer from now on.
            batch.iter().for_each(|(_, path)| self.state.plugin.drop_cached(path, DroppedFor::All));
            tokio::task::yield_now().await;
        }
        if (!polled.new.is_empty() || changes.listing_changed || !changes.changed.is_empty())
            && let Some(replicas) = &self.state.context.replicas
        {
            replicas.invalidate(&self.state.plugin);
        }
        self.tell_listing(polled.is_first, changes.listing_changed);
        if !changes.changed.is_empty() {
            self.state.plugin.data_changed();
        }
        let changed = changed_resources(polled, changes).await;
        if !self.notify_all_once {
            self.state.notify_of_change(changed.clone()).await;
        }
        changed
    }

    /// Returns the client of each path of a group: among its subscribers, the client with the fewest paths of the group.
    async fn clients_of(&self, id: GroupId) -> Vec<Requester> {
        let Some(group) = self.groups.get(id) else { return Vec::new() };
        let mut subscribers = Vec::with_capacity(group.watched.len());
        // The number of each client's paths, and the place of its first path.
        let mut orders: HashMap<Requester, (usize, usize)> = HashMap::new();
        for batch in group.watched.chunks(MAX_LOOKED_AT) {
            {
                let index = self.state.context.subscription_index();
                let of_path = |(uri, _): &(Uri, Path)| {
                    index.requesters(uri, MAX_LOOKED_AT, |mailbox| self.state.concerns(mailbox))
                };
                subscribers.extend(batch.iter().map(of_path));
            }
            tokio::task::yield_now().await;
        }
        for requester in subscribers.iter().flatten() {
            let place = orders.len();
            let (count, _) = orders.entry(requester.clone()).or_insert((0, place));
            *count = count.saturating_add(1);
        }
        let order = |one: &Requester| orders.get(one).copied().unwrap_or_default();
        let owner = |requesters: HashSet<Requester>| requesters.into_iter().min_by_key(order);
        // A path without subscribers is attributed to the local client.
        let anyone = Requester::Principal(Principal::LOCAL);
        subscribers.into_iter().map(|requesters| owner(requesters).unwrap_or_else(|| anyone.clone())).collect()
    }

    /// Charges the failure of a group to its client, if all paths of the group have the same client.
    fn charge(&self, clients: &[Requester]) {
        let Some(client) = clients.first().filter(|first| clients.iter().all(|client| client == *first)) else {
            return;
        };
        if !client.is_local() {
            // If fewer tokens are left, none are taken.
            let _ = self.state.forced_polls.take(client, FAILURE_COST);
        }
    }
}

/// Returns the changed resources of a group according to the provider, each once.
async fn changed_resources(polled: Polled<'_>, changes: &WatchedChanges) -> Vec<(Uri, Path)> {
    let Polled { watched, new, owed, covers_others, .. } = polled;
    let new: HashSet<_> = new.iter().map(|(_, path)| path).filter(|_| !covers_others).collect();
    let mut changed: BTreeSet<_> = owed.iter().collect();
    for batch in changes.changed.chunks(BATCH_SIZE) {
        changed.extend(batch.iter().filter(|path| !new.contains(path)));
        tokio::task::yield_now().await;
    }
    watched.iter().filter(|(_, path)| changed.contains(path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_calls_about_parts_take_four_seconds_of_a_poll_and_one_call_more() {
        let (mut round, mut calls) = (Round::default(), 0);
        while round.has_time_for_parts() {
            round.answer_part(Duration::from_millis(1500));
            calls += 1;
        }
        assert_eq!(calls, 3);
        assert!(round.has_time(), "groups are still polled");
        round.fail(Duration::from_secs(3));
        assert!(!round.has_time());
    }
}
