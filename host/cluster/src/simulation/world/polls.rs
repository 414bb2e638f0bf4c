//! The polls of a replica, in the order in which the watch of plugins uses a member.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::calls::{Done, Effect, RunningPoll, Step, moment};
use super::super::replica::Running;
use super::{AFTER_FAILURE, Event, MILLISECOND, SECOND, Weather, World, index_of, micros, short};
use crate::member::{Member, OwnPolled, Plan};

impl World {
    pub(super) fn poll(&mut self, index: usize, shard: usize) {
        let watch = self.watch(index, shard);
        if watch.running.is_some() || watch.is_planning {
            watch.polls_again = true;
            return;
        }
        if watch.paths.is_empty() {
            if std::mem::take(&mut watch.is_watching) {
                if let Some(polls) = &mut watch.polls {
                    polls.go_idle();
                }
                (watch.is_failing, watch.listing_since, watch.listing_untold) = (false, None, None);
                self.with_member(index, shard, Member::leave);
            }
            return;
        }
        watch.is_planning = true;
        let is_new = !std::mem::replace(&mut watch.is_watching, true) | std::mem::take(&mut watch.is_changed);
        let (requested, life) = (watch.requested, self.replicas[index].life);
        let names = &self.shards[shard].names;
        let paths = self.replicas[index].watches[shard].paths.keys().filter(|_| is_new);
        let paths = paths.map(|path| names[index_of(*path)].clone()).collect::<BTreeSet<_>>();
        let mut plan = Plan::Nothing;
        self.with_member(index, shard, |member, now| {
            if is_new {
                member.watch(now, paths, requested);
            }
            plan = member.begin_poll(now);
        });
        if !self.is_alive(index, life) {
            return;
        }
        self.note(index, || format!("shard {shard} plans {plan:?}"));
        let local = self.local(index);
        let (located, watch) = (&self.shards[shard].located, &mut self.replicas[index].watches[shard]);
        (watch.is_planning, watch.begun) = (false, watch.begun + 1);
        let Some(mut polls) = watch.polls.take() else { return };
        let (is_shared, poll) = match plan {
            Plan::Nothing => {
                watch.polls = Some(polls);
                watch.is_failing = false;
                let pause = if std::mem::take(&mut watch.polls_again) { MILLISECOND } else { self.size.interval };
                let begun = watch.begun;
                return self.after(pause, index, Event::Poll { shard: short(shard), life, begun });
            }
            Plan::Own { tokens, tell_all, handover } => {
                polls.begin_own(moment(local), tokens, tell_all, handover);
                let watched = watch.paths.keys().map(|path| located[index_of(*path)].clone()).collect();
                (false, RunningPoll::own(polls, watched, watch.is_failing))
            }
            Plan::Shared(poll) => (true, RunningPoll::shared(polls, poll)),
        };
        let began = self.now;
        watch.running = Some(Running { poll, is_shared, began, requested, call: None, answer: None });
        self.replicas[index].load.polls += 1;
        self.resume(index, shard);
    }

    /// Continues the poll under way with the answer of the provider, if there is one.
    pub(super) fn resume(&mut self, index: usize, shard: usize) {
        let (local, life) = (self.local(index), self.replicas[index].life);
        let Some(mut running) = self.watch(index, shard).running.take() else { return };
        let (effects, step) = running.poll.resume(local, running.answer.take());
        let is_shared = running.is_shared;
        let done = match step {
            Step::Calls(call) => {
                running.call = Some(call);
                let delay = self.milliseconds(1, self.leg);
                self.after(delay, index, Event::CallReads { shard: short(shard), life });
                self.watch(index, shard).running = Some(running);
                None
            }
            Step::Ends(polls, done) => Some((polls, done, running.began, running.requested)),
        };
        for effect in effects {
            match effect {
                Effect::Told(paths) => paths.into_iter().for_each(|path| self.tell(index, shard, path)),
                Effect::Everything => self.tell_everything(index, shard),
                Effect::Listing => self.tell_listing(index, shard),
            }
        }
        let Some((polls, done, began, requested)) = done else { return };
        let polled = polls.own_polled();
        self.watch(index, shard).polls = Some(polls);
        match done {
            Done::Own(unserved) => {
                self.note(index, || format!("shard {shard} polled, shared {is_shared}, without {unserved:?}"));
                let polled = if unserved.is_some() { polled } else { OwnPolled::Failed };
                self.watch(index, shard).is_failing = polled == OwnPolled::Failed;
                if let Some(unserved) = unserved {
                    self.complete(index, shard, requested, &unserved);
                }
                self.with_member(index, shard, |member, now| member.own_polled(now, polled));
            }
            Done::Shared(found, is_ok) => {
                self.note(index, || format!("shard {shard} polled, shared {is_shared}, ok {is_ok}: {found:?}"));
                self.watch(index, shard).is_failing = !is_ok;
                self.with_member(index, shard, |member, now| member.shared_polled(now, found, is_ok));
            }
        }
        if !self.is_alive(index, life) {
            return;
        }
        let took = (self.now - began).clamp(MILLISECOND, SECOND);
        let watch = self.watch(index, shard);
        // A poll has begun that these outputs requested.
        if watch.running.is_some() {
            return;
        }
        let begun = watch.begun;
        let pause = if std::mem::take(&mut watch.polls_again) { took } else { self.size.interval };
        self.after(pause, index, Event::Poll { shard: short(shard), life, begun });
    }

    /// The provider handles the call of a poll.
    pub(super) fn call_reads(&mut self, index: usize, shard: usize) {
        let is_unlucky = self.weather == Weather::Storm && self.has_faults() && self.random.u32(..60) == 0;
        let now = self.now;
        let at = &mut self.shards[shard];
        let replica = &mut self.replicas[index];
        let Some(running) = &mut replica.watches[shard].running else { return };
        let Some(call) = running.call.take() else { return };
        replica.load.calls += 1;
        let is_slow = at.provider.is_slow(&call.paths);
        let answer = if is_unlucky { None } else { at.provider.changes(now, &call.paths, call.token.as_deref()) };
        if is_unlucky || now < at.provider.down_until {
            at.hindered = at.hindered.max(now + AFTER_FAILURE);
        }
        let is_ok = answer.is_some();
        running.answer = Some(answer);
        self.note(index, || format!("shard {shard} calls {call:?}, ok {is_ok}"));
        let ends = self.milliseconds(1, self.leg) + Duration::from_millis(if is_slow { 60 } else { 0 });
        let life = self.replicas[index].life;
        self.after(ends, index, Event::CallEnds { shard: short(shard), life });
    }

    /// Activates the subscriptions that a poll has served.
    pub(super) fn complete(&mut self, index: usize, shard: usize, requested: u64, without: &BTreeSet<u32>) {
        self.note(index, || format!("shard {shard} has active subscriptions up to {requested} without {without:?}"));
        let now = self.now;
        let (streams, watch) = (&mut self.streams, &mut self.replicas[index].watches[shard]);
        watch.listing_since.get_or_insert(now);
        watch.pending.retain(|stream| {
            let stream = &mut streams[index_of(*stream)];
            let is_served = stream.requested <= requested && !without.contains(&stream.path);
            if is_served {
                stream.active_since = Some(micros(now));
            }
            !is_served
        });
    }
}
