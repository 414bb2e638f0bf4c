//! The messages and requests of members on the [network](super::super::network). Messages of a shard are delivered to
//! all members with the same subject.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::calls::number;
use super::super::network::{Answer, Reaction, Sent};
use super::{Event, LEASE, MILLISECOND, Weather, World, short};
use crate::member::{Member, Output, RoleName, Time, WriteFailure};
use crate::message::Message;

/// The number of replicas above which one event delivers a message to all of them.
const MANY: usize = 64;

impl World {
    /// Calls a member, and performs its outputs.
    pub(super) fn with_member(&mut self, index: usize, shard: usize, call: impl FnOnce(&mut Member, Time)) {
        let local = self.local(index);
        if let Some(member) = &mut self.watch(index, shard).member {
            call(member, local);
        }
        let (mut polls, life) = (false, self.replicas[index].life);
        let at = short(shard);
        while let Some(output) = self.watch(index, shard).member.as_mut().and_then(|member| member.next_output()) {
            // A process may end between any two actions.
            let dies =
                matches!(self.weather, Weather::Crashes | Weather::Storm) && self.has_faults() && self.may_crash();
            if dies && self.random.u32(..3000) == 0 {
                self.crash(index);
                return;
            }
            match output {
                Output::Publish(message) => {
                    self.note(index, || format!("shard {shard} says {message:?}"));
                    self.replicas[index].load.sent += 1;
                    self.send(index, shard, Sent::Message(message.encode().unwrap()));
                }
                Output::Read => {
                    let request = self.request(index, shard);
                    self.send(index, shard, Sent::Read { request });
                    let answer = Answer::Read(Err(()));
                    self.after(LEASE / 5, index, Event::Answered { shard: at, life, request, answer });
                }
                Output::Write { expected, record } => {
                    self.note(index, || format!("shard {shard} writes over {expected:?}: {record:?}"));
                    let (request, bytes) = (self.request(index, shard), record.encode().unwrap());
                    self.send(index, shard, Sent::Write { request, expected, bytes });
                    let answer = Answer::Written(Err(WriteFailure::Unknown));
                    self.after(LEASE / 5, index, Event::Answered { shard: at, life, request, answer });
                }
                Output::Changed { changed, listing } => {
                    changed.iter().for_each(|path| self.tell(index, shard, number(path)));
                    if listing {
                        self.tell_listing(index, shard);
                    }
                }
                Output::Completed { requested, .. } => self.complete(index, shard, requested, &BTreeSet::new()),
                Output::Wake => polls = true,
            }
        }
        let Some(member) = &self.watch(index, shard).member else { return };
        let (is_holding, deadline) = (member.role() == RoleName::Holding, member.deadline());
        match is_holding {
            true => self.shards[shard].holders.insert(index),
            false => self.shards[shard].holders.remove(&index),
        };
        if polls {
            self.poll(index, shard);
        }
        if let Some(deadline) = deadline {
            let wait = deadline.saturating_sub(self.local(index)) * 1000 / self.replicas[index].clock.1 + MILLISECOND;
            let at = self.now + wait;
            let watch = self.watch(index, shard);
            if watch.wake_at.is_none_or(|before| at < before) {
                watch.wake_at = Some(at);
                self.at(at, index, Event::Wake { shard: short(shard), life, at });
            }
        }
    }

    /// Counts a request to the bucket, and returns its number.
    fn request(&mut self, index: usize, shard: usize) -> u64 {
        self.replicas[index].load.requests += 1;
        self.watch(index, shard).requests.begin()
    }

    pub(super) fn answered(&mut self, index: usize, shard: usize, request: u64, answer: Answer) {
        if self.watch(index, shard).requests.end(request) {
            self.note(index, || format!("shard {shard} is answered {answer:?}"));
            self.with_member(index, shard, |member, now| answer.pass_to(member, now));
        }
    }

    fn is_lost(&mut self) -> bool {
        self.network.loses(self.now, &mut self.random)
    }

    fn send(&mut self, index: usize, shard: usize, sent: Sent) {
        if let Some((at, connection)) = self.network.send(index, self.now, &mut self.random) {
            self.at(at, index, Event::Arrives { shard: short(shard), connection, sent });
        }
    }

    fn reply(&mut self, index: usize, event: Event) {
        let at = self.network.reply(index, self.now, &mut self.random);
        self.at(at, index, event);
    }

    pub(super) fn arrives(&mut self, index: usize, shard: usize, sent: Sent) {
        let reaction = self.network.react(&self.shards[shard].key, sent);
        match reaction {
            Reaction::Publishes(message) => self.publish(shard, message),
            Reaction::Answers { request, answer } => {
                // A response may be lost, too.
                if !self.is_lost() {
                    let life = self.replicas[index].life;
                    self.reply(index, Event::Answered { shard: short(shard), life, request, answer });
                }
            }
        }
    }

    /// Delivers a message to all subscribers of its subject.
    fn publish(&mut self, shard: usize, message: Arc<Message>) {
        if self.replicas.len() > MANY {
            let sent_at = self.now;
            return self.reply(0, Event::Broadcast { shard: short(shard), sent_at, message });
        }
        for to in 0..self.replicas.len() {
            for other in 0..self.shards.len() {
                if self.shards[other].subject != self.shards[shard].subject || self.is_lost() {
                    continue;
                }
                if let Some((connection, _)) = self.network.connection(to) {
                    let message = message.clone();
                    self.reply(to, Event::Delivered { shard: short(other), connection, message });
                }
            }
        }
    }

    /// Delivers a message to all replicas. Announcements are passed to holders only: [`Member::receive`] ignores them
    /// in any other role.
    pub(super) fn broadcast(&mut self, shard: usize, sent_at: Time, message: &Arc<Message>) {
        if matches!(**message, Message::Want(_)) {
            self.outcome.load.received += self.network.connected();
            for index in self.shards[shard].holders.clone() {
                self.deliver(index, shard, sent_at, message);
            }
            return;
        }
        for index in 0..self.replicas.len() {
            self.deliver(index, shard, sent_at, message);
        }
    }

    fn deliver(&mut self, index: usize, shard: usize, sent_at: Time, message: &Arc<Message>) {
        let Some((connection, since)) = self.network.connection(index) else { return };
        if since > sent_at || self.is_lost() {
            return;
        }
        let until = self.replicas[index].stopped_until;
        if until > self.now {
            let message = message.clone();
            return self.at(until, index, Event::Delivered { shard: short(shard), connection, message });
        }
        self.hear(index, shard, message);
    }

    pub(super) fn hear(&mut self, index: usize, shard: usize, message: &Message) {
        self.note(index, || format!("shard {shard} hears {message:?}"));
        self.replicas[index].load.received += 1;
        self.with_member(index, shard, |member, now| member.receive(now, message));
    }

    pub(super) fn connect(&mut self, index: usize) {
        if self.replicas[index].is_up {
            self.network.connect(index, self.now);
        }
    }
}
