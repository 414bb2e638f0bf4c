//! One poll for all replicas: a call of `changes` for each [group](super::shared_groups).
//!
//! A failed call is followed by a call without paths, as in a [poll of this replica's own paths](super::own_round): if
//! the provider does not answer that call, the poll fails. If the provider answers, the group is called again in the
//! same poll, without the paths that no part answers. So a path for which the provider fails costs the other paths the
//! time of one call, at its first failure. If there was no time for any part of a group, the round only calls for the
//! listing, and the group's token does not advance.
//!
//! Calls for left out paths come first. Failed calls delay the next such calls as in a poll of this replica's own
//! paths. Answered calls take at most four seconds of a poll and one more call; the remaining paths are left out until
//! the next poll.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

use super::own_round::Round;
use super::shared_groups::SharedGroups;
use super::{Caller, Polls, timed_call};
use crate::member::Found;

impl<C: Clone + Eq + Hash + Send + Sync, F: Clone + Send + Sync> Polls<C, F> {
    /// Polls each of the groups, and adds what they report to `found`. Adds to `unanswered` the groups without an
    /// answer, which keep their tokens; the next poll calls for them again. Fails if the provider does not answer.
    /// Returns the provider's hint for the next poll.
    pub(super) async fn poll_shared_groups<A>(
        &mut self,
        caller: &mut A,
        groups: &mut SharedGroups<F>,
        unanswered: &mut BTreeSet<usize>,
        found: &mut Found,
    ) -> Result<Option<Duration>, F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        let mut round = Round::default();
        if self.shared_retries_from.is_none_or(|from| caller.now() >= from) {
            Self::ask_about_left_out(caller, groups, &mut round).await?;
        }
        for index in 0..groups.len() {
            if !self.poll_shared_group(caller, groups, index, &mut round, found).await? {
                unanswered.insert(index);
            }
        }
        self.shared_retries_from = round.next_retries(caller.now()).or(self.shared_retries_from);
        Ok(round.hint)
    }

    /// Polls one group. If the call fails, polls again without the paths that are not answered. Returns whether the
    /// group was answered. Fails if the provider does not answer.
    async fn poll_shared_group<A>(
        &mut self,
        caller: &mut A,
        groups: &mut SharedGroups<F>,
        index: usize,
        round: &mut Round,
        found: &mut Found,
    ) -> Result<bool, F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        while let Some((paths, token)) = groups.call(index) {
            if paths.is_empty() && groups.leaves_out_covered(index) {
                // There was no time to determine which paths fail, so the token does not advance.
                let token = Self::ask_about_listing(caller, groups.last_token(), round).await?;
                groups.set_last_token(token);
                return Ok(true);
            }
            let (answer, took) = timed_call(caller, &paths, token.as_deref()).await;
            match answer {
                Ok(changes) => {
                    round.answer(&changes);
                    let changed = self.tell(caller, groups.polled(index), &changes).await;
                    found.changed.extend(changed.iter().map(|(_, path)| path.as_str().into()));
                    found.listing |= changes.listing_changed;
                    groups.record_answer(index, changes.token);
                    return Ok(true);
                }
                Err(fault) if paths.is_empty() => return Err(fault),
                Err(fault) => {
                    Self::check_provider(caller, groups, &fault, took, round).await?;
                    if !groups.record_failure(index, fault, took, caller.now()) {
                        return Ok(false);
                    }
                    Self::ask_about_left_out(caller, groups, round).await?;
                }
            }
        }
        Ok(true)
    }

    /// Calls for parts of the left out paths, while there is time. Answered parts return to their groups. Fails if the
    /// provider does not answer.
    async fn ask_about_left_out<A>(caller: &mut A, groups: &mut SharedGroups<F>, round: &mut Round) -> Result<(), F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        while round.has_time_for_parts()
            && let Some((part, paths)) = groups.next_part(caller.now())
        {
            // The call has no token, so the answer contains no changes.
            match timed_call(caller, &paths, None).await {
                (Ok(_), took) => {
                    round.answer_part(took);
                    groups.admit(part);
                }
                (Err(fault), took) => {
                    Self::check_provider(caller, groups, &fault, took, round).await?;
                    groups.record_failed_part(part, fault, took, caller.now());
                }
            }
        }
        Ok(())
    }

    /// Counts a failed call. If the provider does not answer a call without paths either, fails with the fault of the
    /// failed call.
    async fn check_provider<A>(
        caller: &mut A,
        groups: &mut SharedGroups<F>,
        fault: &F,
        took: Duration,
        round: &mut Round,
    ) -> Result<(), F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        round.fail(took);
        let answer = Self::ask_about_listing(caller, groups.last_token(), round).await;
        groups.set_last_token(answer.map_err(|_| fault.clone())?);
        Ok(())
    }
}
