//! One poll for all replicas: a call of `changes` for each [group](super::shared_groups).
//!
//! A call that fails is followed by one without paths, as in a [poll of this replica's own](super::round): if the provider does not answer that,
//! the poll fails. Otherwise the group is asked again in the same poll, without the paths that are answered in no part. So a path that makes
//! the provider fail costs the others the time of one call, when it does so for the first time. If there was no time for any part of a
//! group, the round asks about the listing only, and the token of the group stays where it is.
//!
//! Calls about what is left out come first. When they fail, they take a fifth of the time at most; when they are answered, they take four
//! seconds of a poll and one call more: what was not asked about by then remains left out until the next poll.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_host_engine::plugin::Fault;
use tokio::time::Instant;

use super::poller::Poller;
use super::round::Round;
use super::shared_groups::SharedGroups;

impl Poller {
    /// Polls each of the groups. `unanswered` gets those that are asked about again by the next poll, with the token that they have. Fails
    /// if the provider does. Returns its hint for the next poll.
    pub(super) async fn poll_shared_groups(
        &mut self,
        groups: &mut SharedGroups,
        unanswered: &mut BTreeSet<usize>,
    ) -> Result<Option<Duration>, Fault> {
        let mut round = Round::default();
        if Instant::now() >= self.retries_from {
            self.ask_about_left_out(groups, &mut round).await?;
        }
        for index in 0..groups.len() {
            if !self.poll_shared_group(groups, index, &mut round).await? {
                unanswered.insert(index);
            }
        }
        self.pause_after_failures(&round);
        Ok(round.hint)
    }

    /// Polls one group, and if that fails, what is answered of it. Returns whether it is answered. Fails if the provider does.
    async fn poll_shared_group(
        &mut self,
        groups: &mut SharedGroups,
        index: usize,
        round: &mut Round,
    ) -> Result<bool, Fault> {
        while let Some((paths, token)) = groups.call(index) {
            if paths.is_empty() && groups.leaves_out_covered(index) {
                // There was no time to find out which of them fail: the token stays where it is.
                let token = self.ask_about_listing(groups.last_token(), round).await?;
                groups.set_last_token(token);
                return Ok(true);
            }
            let (answer, took) = self.call(&paths, token.as_deref()).await;
            match answer {
                Ok(changes) => {
                    round.answer(&changes);
                    let changed = self.tell(groups.polled(index), &changes).await;
                    if let Some(found) = &mut self.found {
                        found.changed.extend(changed.iter().map(|(_, path)| path.as_str().into()));
                        found.listing |= changes.listing_changed;
                    }
                    groups.record_answer(index, changes.token);
                    return Ok(true);
                }
                Err(fault) if paths.is_empty() => return Err(fault),
                Err(fault) => {
                    self.check_provider(groups, &fault, took, round).await?;
                    if !groups.record_failure(index, fault, took, Instant::now()) {
                        return Ok(false);
                    }
                    self.ask_about_left_out(groups, round).await?;
                }
            }
        }
        Ok(true)
    }

    /// Asks about parts of what is left out, as far as there is time. What is answered is part of its groups again. Fails if the provider does.
    async fn ask_about_left_out(&mut self, groups: &mut SharedGroups, round: &mut Round) -> Result<(), Fault> {
        while round.has_time_for_parts()
            && let Some((part, paths)) = groups.next_part(Instant::now())
        {
            // Without a token, so what has changed is no part of the answer.
            match self.call(&paths, None).await {
                (Ok(_), took) => {
                    round.answer_part(took);
                    groups.admit(part);
                }
                (Err(fault), took) => {
                    self.check_provider(groups, &fault, took, round).await?;
                    groups.record_failed_part(part, fault, took, Instant::now());
                }
            }
        }
        Ok(())
    }

    /// Counts a call that has failed, and fails with its fault if the provider does not answer one without paths.
    async fn check_provider(
        &mut self,
        groups: &mut SharedGroups,
        fault: &Fault,
        took: Duration,
        round: &mut Round,
    ) -> Result<(), Fault> {
        round.fail(took);
        let answer = self.ask_about_listing(groups.last_token(), round).await;
        groups.set_last_token(answer.map_err(|_| fault.clone())?);
        Ok(())
    }
}
