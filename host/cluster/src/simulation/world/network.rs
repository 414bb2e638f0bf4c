//! NATS: what a member sends arrives later, in order, and may be lost.
//!
//! Messages of one connection arrive in the order in which they were sent, in each direction. Messages of a shard are delivered to all
//! members with the same subject.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::calls::number;
use super::super::{Bug, is_planted};
use super::{Answer, Event, LEASE, MILLISECOND, Sent, Weather, World, short};
use crate::bounded_json;
use crate::engine::{EngineError, Entry};
use crate::member::{Member, Output, RoleName, Stored, Time, WriteFailure};
use crate::message::Message;
use crate::record::Record;

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
        let watch = self.watch(index, shard);
        watch.is_requesting = true;
        watch.request
    }

    pub(super) fn answered(&mut self, index: usize, shard: usize, request: u64, answer: Answer) {
        let watch = self.watch(index, shard);
        if watch.request != request {
            return;
        }
        (watch.request, watch.is_requesting) = (request + 1, false);
        self.note(index, || format!("shard {shard} is answered {answer:?}"));
        self.with_member(index, shard, |member, now| match answer {
            Answer::Read(result) => {
                let decode = |value: &[u8]| match is_planted(Bug::NumbersNotBounded) {
                    true => Ok(bounded_json::decode(value, usize::MAX)?),
                    false => Record::decode(value),
                };
                let stored = |entry: Option<Entry>| match entry {
                    None => Stored::Nothing,
                    Some(Entry { revision, value }) => match decode(&value) {
                        Ok(record) => Stored::Record(revision, Box::new(record)),
                        Err(_) => Stored::Invalid(revision),
                    },
                };
                member.read(now, result.map(stored));
            }
            Answer::Written(result) => member.written(now, result),
        });
    }

    fn delay(&mut self) -> Duration {
        match self.is_lossy && self.has_faults() {
            true => self.milliseconds(1, 400),
            false => self.milliseconds(1, 30),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.is_lossy && self.has_faults() && self.random.u32(..20) == 0
    }

    fn send(&mut self, index: usize, shard: usize, sent: Sent) {
        let delay = self.delay();
        let Some((connection, _)) = self.replicas[index].connection else { return };
        let at = (self.now + delay).max(self.replicas[index].uplink);
        self.replicas[index].uplink = at;
        self.at(at, index, Event::Arrives { shard: short(shard), connection, sent });
    }

    pub(super) fn arrives(&mut self, index: usize, shard: usize, sent: Sent) {
        let (life, at) = (self.replicas[index].life, short(shard));
        let answered = match sent {
            Sent::Message(bytes) => return self.publish(shard, &bytes),
            Sent::Read { request } => {
                let answer = Answer::Read(Ok(self.server.get(&self.shards[shard].key)));
                Event::Answered { shard: at, life, request, answer }
            }
            Sent::Write { request, expected, bytes } => {
                let key = &self.shards[shard].key;
                let unchecked = is_planted(Bug::LeaseNotChecked);
                let expected = if unchecked { self.server.get(key).map(|entry| entry.revision) } else { expected };
                let written = self.server.write(key, &bytes, expected).map_err(|error| match error {
                    EngineError::Conflict => WriteFailure::Conflict,
                    _ => WriteFailure::Unknown,
                });
                Event::Answered { shard: at, life, request, answer: Answer::Written(written) }
            }
        };
        // A response may be lost, too.
        if !self.is_lost() {
            self.reply(index, answered);
        }
    }

    /// Delivers a message to all subscribers of its subject.
    fn publish(&mut self, shard: usize, bytes: &[u8]) {
        let decoded = match is_planted(Bug::NumbersNotBounded) {
            true => Ok(serde_json::from_slice(bytes).unwrap()),
            false => Message::decode(bytes),
        };
        let message: Arc<Message> = Arc::new(decoded.unwrap());
        if self.replicas.len() > MANY {
            let delay = self.delay();
            let at = (self.now + delay).max(self.replicas[0].downlink);
            self.replicas[0].downlink = at;
            return self.at(at, 0, Event::Broadcast { shard: short(shard), sent_at: self.now, message });
        }
        for to in 0..self.replicas.len() {
            for other in 0..self.shards.len() {
                if self.shards[other].subject != self.shards[shard].subject || self.is_lost() {
                    continue;
                }
                if let Some((connection, _)) = self.replicas[to].connection {
                    let message = message.clone();
                    self.reply(to, Event::Delivered { shard: short(other), connection, message });
                }
            }
        }
    }

    /// Delivers a message to all replicas. Announcements are passed to holders only: [`Member::receive`] ignores them in any other role.
    pub(super) fn broadcast(&mut self, shard: usize, sent_at: Time, message: &Arc<Message>) {
        if matches!(**message, Message::Want(_)) {
            self.outcome.load.received += self.connected;
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
        let Some((connection, since)) = self.replicas[index].connection else { return };
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

    fn reply(&mut self, index: usize, event: Event) {
        let delay = self.delay();
        let at = (self.now + delay).max(self.replicas[index].downlink);
        self.replicas[index].downlink = at;
        self.at(at, index, event);
    }

    pub(super) fn connect(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if self.is_server_up && replica.is_up && replica.connection.is_none() {
            self.connections += 1;
            self.connected += 1;
            replica.connection = Some((self.connections, self.now));
        }
    }

    pub(super) fn disconnect(&mut self, index: usize) {
        if self.replicas[index].connection.take().is_some() {
            self.connected -= 1;
        }
    }
}
