//! The polls of a replica: the watch of plugins, as it uses a division and a member for each shard.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::uri::{Path, Uri};

use super::super::calls::{Done, Effect, RunningPoll, SimulatedPolls, Step, moment};
use super::{Event, MILLISECOND, PATHS, SECOND, Shard, World, index_of};
use crate::division::Divided;
use crate::member::{Member, OwnPolled, Plan, RoleName, Time};

impl World {
    /// Polls each shard, in the order in which the watch of plugins does.
    pub(super) fn poll(&mut self, index: usize) {
        let (now, located) = (self.now, &self.located);
        let replica = &mut self.replicas[index];
        let (life, requested) = (replica.life, replica.requested);
        if replica.streams.is_empty() {
            let shards: Vec<_> = replica.shards.keys().copied().collect();
            replica.division.clear();
            replica.shards.values_mut().for_each(Shard::forget);
            return shards.into_iter().for_each(|shard| self.with_member(index, shard, Member::leave));
        }
        (replica.is_polling, replica.polls_again) = (true, false);
        let watched: Vec<_> = replica.streams.keys().map(|path| located[index_of(*path)].clone()).collect();
        let count = replica.shards.get(&0).map_or(1, |first| first.member.shards());
        let held = replica.shards.values().filter(|shard| shard.member.role() == RoleName::Holding).count();
        let Divided { shards, need, needs_poll } = replica.division.divide(watched, count, requested);
        if needs_poll {
            (replica.requested, replica.polls_again) = (requested + 1, true);
        }
        let count = count.max(need);
        self.outcome.fewer += u64::from(count < std::mem::replace(&mut replica.count, count));
        self.outcome.most_shards = self.outcome.most_shards.max(count);
        let has_part = |shard: u32| shard == 0 || shards.get(index_of(shard)).is_some_and(|paths| !paths.is_empty());
        let left: Vec<_> = replica.shards.keys().copied().filter(|shard| !has_part(*shard)).collect();
        for shard in left {
            // What the replica writes may be the moment at which it is killed.
            if !self.replicas[index].is_up || self.replicas[index].life != life {
                return;
            }
            self.replicas[index].shards.get_mut(&shard).unwrap().forget();
            self.with_member(index, shard, Member::leave);
        }
        for (shard, watched) in (0_u32..).zip(shards).filter(|(shard, paths)| *shard == 0 || !paths.is_empty()) {
            if !self.replicas[index].is_up || self.replicas[index].life != life {
                return;
            }
            let (id, seed) = (self.replicas[index].id, self.random.u64(..));
            self.replicas[index].shards.entry(shard).or_insert_with(|| Shard::new(id, seed));
            let paths: BTreeSet<Arc<str>> = watched.iter().map(|(_, path)| path.as_str().into()).collect();
            self.note(index, || format!("shard {shard} watches {paths:?}"));
            let mut plan = Plan::Nothing;
            self.with_member(index, shard, |member, now| {
                member.set_division(need, held);
                member.watch(now, paths, requested);
                plan = member.begin_poll(now);
            });
            if self.replicas[index].is_up && self.replicas[index].life == life {
                self.poll_shard(index, shard, watched, requested, plan, now);
            }
        }
        let replica = &mut self.replicas[index];
        if !replica.is_up || replica.life != life {
            return;
        }
        replica.is_polling = false;
        let pause = if replica.polls_again { 10 * MILLISECOND } else { SECOND };
        self.activate(index);
        self.schedule_poll(index, pause);
    }

    fn poll_shard(
        &mut self,
        index: usize,
        shard: u32,
        watched: Vec<(Uri, Path)>,
        requested: u64,
        plan: Plan,
        now: Time,
    ) {
        self.note(index, || format!("shard {shard} plans {plan:?}"));
        let of_shard = self.replicas[index].shards.get_mut(&shard).unwrap();
        match plan {
            Plan::Nothing => of_shard.is_failing = false,
            Plan::Own { tokens, tell_all, handover } => {
                let relied = of_shard.member.relies_on_rounds();
                let mut polls = of_shard.polls.take().unwrap();
                polls.begin_own(moment(now), tokens, tell_all, handover);
                let running = RunningPoll::own(polls, watched, of_shard.is_failing);
                let (polls, done) = self.finish(index, running);
                let Done::Own(unserved) = done else { panic!("it is a poll of own paths") };
                let unanswered = polls.unanswered_since(moment(now));
                let polled = if unserved.is_some() { polls.own_polled() } else { OwnPolled::Failed };
                let replica = &mut self.replicas[index];
                let of_shard = replica.shards.get_mut(&shard).unwrap();
                (of_shard.polls, of_shard.is_failing) = (Some(polls), unserved.is_none());
                if let Some(unserved) = unserved {
                    of_shard.unserved = unserved;
                    replica.polls_again |= replica.division.polled(shard, requested, &unanswered, !relied);
                }
                self.with_member(index, shard, |member, now| member.own_polled(now, polled));
            }
            Plan::Shared(poll) => {
                let polls = of_shard.polls.take().unwrap();
                let running = RunningPoll::shared(polls, poll);
                let (polls, done) = self.finish(index, running);
                let Done::Shared(found, is_ok) = done else { panic!("it is a poll for all") };
                let of_shard = self.replicas[index].shards.get_mut(&shard).unwrap();
                (of_shard.polls, of_shard.is_failing) = (Some(polls), !is_ok);
                self.outcome.shared_polls += u64::from(shard > 0);
                self.note(index, || format!("shard {shard} found {found:?}"));
                self.with_member(index, shard, |member, now| member.shared_polled(now, found, is_ok));
            }
        }
    }

    /// Runs a poll to its end.
    fn finish(&mut self, index: usize, mut poll: RunningPoll) -> (SimulatedPolls, Done) {
        let mut answer = None;
        loop {
            let (effects, step) = poll.resume(self.now, answer.take());
            for effect in effects {
                match effect {
                    Effect::Told(paths) => paths.into_iter().for_each(|path| self.tell(index, path)),
                    Effect::Everything => (0..PATHS).for_each(|path| self.tell(index, path)),
                    Effect::Listing => {}
                }
            }
            match step {
                Step::Calls(call) => {
                    answer = Some(self.provider.changes(self.now, &call.paths, call.token.as_deref()));
                }
                Step::Ends(polls, done) => return (polls, done),
            }
        }
    }

    pub(super) fn tell(&mut self, index: usize, path: u32) {
        if let Some(stream) = self.replicas[index].streams.get_mut(&path) {
            stream.untold = None;
            self.note(index, || format!("notifies p{path}"));
        }
    }

    /// Activates the subscriptions that the polls of all shards have served.
    pub(super) fn activate(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        let completed = replica.division.completed();
        for (path, stream) in &mut replica.streams {
            let is_unserved = || replica.shards.values().any(|shard| shard.unserved.contains(path));
            if stream.active_since.is_none() && stream.requested <= completed && !is_unserved() {
                stream.active_since = Some(self.now);
            }
        }
    }

    /// Begins a poll soon.
    pub(super) fn wake(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if replica.is_polling {
            replica.polls_again = true;
        } else {
            self.schedule_poll(index, MILLISECOND);
        }
    }

    fn schedule_poll(&mut self, index: usize, pause: Duration) {
        let replica = &mut self.replicas[index];
        replica.begun += 1;
        let begun = replica.begun;
        self.after(pause, index, Event::Poll { begun });
    }
}
