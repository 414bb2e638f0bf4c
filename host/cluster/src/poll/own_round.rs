//! One poll of a plugin: a round of calls of `changes`.
//!
//! A poll covers all watched paths: one call of `changes` for each [group](super::groups) of paths, sequentially.
//!
//! **A failed call** is followed by a call without paths. If the provider fails that call, too, the poll ends. If the
//! provider answers, only the group has failed: it is split, and polled again after its own back-off, while the other
//! groups are polled. Failed groups are polled after the others. No call begins once the failed calls of a poll have
//! taken [`MAX_FAILED_TIME`], and a pause of four times their duration, up to [`MAX_FAILED_PAUSE`], follows. The first
//! failure of a group, and the calls for the parts of a group that worked until then, are not delayed by this pause,
//! because other paths wait for them.
//!
//! **The duration of a poll** is bounded by the groups that are not [slow](SLOW_CALL), and by [`MAX_ROUND`]. The next
//! poll begins its slow groups with those that this poll did not reach. So paths for which a provider is slow delay the
//! other groups by one second and one call.

use std::collections::VecDeque;
use std::hash::Hash;
use std::time::Duration;

use mcp_host_model::resource::WatchedChanges;
use tokio::time::Instant;

use super::groups::GroupId;
use super::{Caller, Polls, timed_call};

/// The duration of a call above which its group is slow.
const SLOW_CALL: Duration = Duration::from_millis(50);
/// The time after which a poll begins no further call for a slow group.
const MAX_ROUND: Duration = Duration::from_secs(1);
/// The duration of failed calls after which a poll begins no further call.
const MAX_FAILED_TIME: Duration = Duration::from_secs(2);
/// The duration of answered calls for parts of left out paths after which a poll for all replicas calls for no further
/// part.
const MAX_PARTS_TIME: Duration = Duration::from_secs(4);
/// The minimum duration with which a failed call counts.
const MIN_FAILED_TIME: Duration = Duration::from_millis(20);
/// The pause after failed calls before failed groups are polled again, as a multiple of the calls' duration; and its
/// maximum.
const FAILED_PAUSE_FACTOR: u32 = 4;
const MAX_FAILED_PAUSE: Duration = Duration::from_secs(5);

/// The state of a poll.
#[derive(Default)]
pub struct Round {
    /// The provider's hint for the next poll.
    pub hint: Option<Duration>,
    /// Whether a call was answered.
    pub(super) has_answer: bool,
    /// The duration of the failed calls.
    failed_time: Duration,
    /// The duration of the answered calls for parts of left out paths, in a poll for all replicas.
    parts_time: Duration,
    /// The groups that this poll did not reach.
    pub left: Vec<GroupId>,
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

    /// Counts an answered call for a part of left out paths.
    pub(super) fn answer_part(&mut self, took: Duration) {
        self.parts_time = self.parts_time.saturating_add(took);
    }

    /// Counts an answered call.
    pub(super) fn answer(&mut self, changes: &WatchedChanges) {
        self.has_answer = true;
        self.hint = self.hint.into_iter().chain(changes.poll_after).min();
    }

    /// Returns the time from which failed paths may be polled again: delayed in proportion to the duration of this
    /// round's failed calls; none if no call has failed.
    pub(super) fn next_retries(&self, now: Instant) -> Option<Instant> {
        let pause = self.failed_time.saturating_mul(FAILED_PAUSE_FACTOR).min(MAX_FAILED_PAUSE);
        (!pause.is_zero()).then(|| now.checked_add(pause).unwrap_or(now))
    }

    /// Counts a failed call.
    pub(super) fn fail(&mut self, took: Duration) {
        self.failed_time = self.failed_time.saturating_add(took.max(MIN_FAILED_TIME));
    }
}

impl<C: Clone + Eq + Hash + Send + Sync, F: Clone + Send + Sync> Polls<C, F> {
    /// Polls each group, while there is time.
    pub(super) async fn poll_groups<A>(&mut self, caller: &mut A) -> Result<Round, F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        let (began, mut round) = (caller.now(), Round::default());
        let is_slow = |took: Duration| took > SLOW_CALL;
        let mut working: VecDeque<_> = self.groups.working(is_slow).into();
        let mut has_slow = false;
        while let Some(id) = working.pop_front() {
            let is_slow = self.groups.get(id).is_some_and(|group| is_slow(group.took));
            let elapsed = caller.now().saturating_duration_since(began);
            if !round.has_time() || (is_slow && has_slow && elapsed > MAX_ROUND) {
                round.left.push(id);
                continue;
            }
            has_slow |= is_slow;
            if let Some(works) = self.poll_group(caller, id, &mut round).await? {
                working.push_front(works);
            }
        }
        let may_retry = self.retries_from.is_none_or(|from| began >= from);
        while round.has_time()
            && let Some(id) = self.groups.next_due(caller.now(), may_retry)
        {
            self.poll_group(caller, id, &mut round).await?;
        }
        if !round.has_answer {
            self.poll_listing(caller, &mut round).await?;
        }
        self.retries_from = round.next_retries(caller.now()).or(self.retries_from);
        Ok(round)
    }

    /// Polls one group. If the call fails and the provider answers a call without paths, the group is split. Returns
    /// the part that is expected to work, if there is one. Fails if the provider does not answer.
    async fn poll_group<A>(&mut self, caller: &mut A, id: GroupId, round: &mut Round) -> Result<Option<GroupId>, F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        let (paths, token) = match self.groups.get(id) {
            Some(group) => (group.watched.iter().map(|(_, path)| path.clone()).collect(), group.token.clone()),
            None => (Vec::new(), None),
        };
        let (answer, took) = timed_call(caller, &paths, token.as_deref()).await;
        let fault = match answer {
            Ok(changes) => {
                self.tell_changes(caller, id, changes, took, round).await;
                return Ok(None);
            }
            Err(fault) => fault,
        };
        round.fail(took);
        if self.poll_listing(caller, round).await.is_err() {
            return Err(fault);
        }
        self.groups.record_failure(id, fault, took, caller.now());
        let watched = self.groups.get(id).map(|group| group.watched.as_slice()).unwrap_or_default();
        let clients = caller.failed(watched).await;
        Ok(self.groups.split(id, clients, caller.now()).flatten())
    }

    /// Calls `changes` without paths: for changes of the listing, and to check whether the provider answers at all.
    async fn poll_listing<A>(&mut self, caller: &mut A, round: &mut Round) -> Result<(), F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        let token = Self::ask_about_listing(caller, self.groups.last_token(), round).await?;
        self.groups.set_last_token(token);
        Ok(())
    }

    /// Notifies the changes of a group, and stores its token.
    async fn tell_changes<A>(
        &mut self,
        caller: &mut A,
        id: GroupId,
        changes: WatchedChanges,
        took: Duration,
        round: &mut Round,
    ) where
        A: Caller<Fault = F, Client = C>,
    {
        round.answer(&changes);
        self.tell(caller, self.groups.polled(id), &changes).await;
        self.groups.record_answer(id, changes.token, took, caller.now());
        let watched = self.groups.get(id).map(|group| group.watched.as_slice()).unwrap_or_default();
        caller.polled(watched).await;
    }
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
