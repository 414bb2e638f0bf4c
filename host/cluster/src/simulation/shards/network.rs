//! The messages and requests of members on the [network](super::super::network).

use std::collections::HashSet;

use super::super::calls::number;
use super::super::network::{Answer, Reaction, Sent};
use super::{Event, LEASE, MILLISECOND, World, name};
use crate::member::{Member, Output, Time, WriteFailure};

impl World {
    /// Calls a member, and performs its outputs.
    pub(super) fn with_member(&mut self, index: usize, shard: u32, call: impl FnOnce(&mut Member, Time)) {
        let now = self.now;
        let Some(of_shard) = self.replicas[index].shards.get_mut(&shard) else { return };
        call(&mut of_shard.member, now);
        loop {
            let Some(of_shard) = self.replicas[index].shards.get_mut(&shard) else { return };
            let Some(output) = of_shard.member.next_output() else { break };
            // A process may end between any two actions.
            if self.may_crash() && self.random.u32(..3000) == 0 {
                return self.crash(index);
            }
            match output {
                Output::Publish(message) => {
                    self.note(index, || format!("shard {shard} says {message:?}"));
                    self.send(index, shard, Sent::Message(message.encode().unwrap()));
                }
                Output::Read => {
                    let request = self.request(index, shard);
                    self.send(index, shard, Sent::Read { request });
                    self.after(LEASE / 5, index, Event::Answered { shard, request, answer: Answer::Read(Err(())) });
                }
                Output::Write { expected, record } => {
                    let (request, bytes) = (self.request(index, shard), record.encode().unwrap());
                    self.send(index, shard, Sent::Write { request, expected, bytes });
                    let answer = Answer::Written(Err(WriteFailure::Unknown));
                    self.after(LEASE / 5, index, Event::Answered { shard, request, answer });
                }
                Output::Changed { changed, .. } => changed.iter().for_each(|path| self.tell(index, number(path))),
                Output::Completed { requested, relied } => {
                    let replica = &mut self.replicas[index];
                    replica.shards.get_mut(&shard).unwrap().unserved.clear();
                    replica.division.served(shard, requested);
                    let goes_on = relied && replica.division.polled(shard, requested, &HashSet::new(), true);
                    self.activate(index);
                    if goes_on {
                        self.wake(index);
                    }
                }
                Output::Wake => self.wake(index),
            }
        }
        let Some(of_shard) = self.replicas[index].shards.get_mut(&shard) else { return };
        let deadline = of_shard.member.deadline().map(|deadline| deadline.max(now + MILLISECOND));
        if let Some(at) = deadline
            && of_shard.wake_at != Some(at)
        {
            of_shard.wake_at = Some(at);
            self.at(at, index, Event::Wake { shard, at });
        }
    }

    fn request(&mut self, index: usize, shard: u32) -> u64 {
        self.replicas[index].shards.get_mut(&shard).unwrap().requests.begin()
    }

    pub(super) fn answered(&mut self, index: usize, shard: u32, request: u64, answer: Answer) {
        if self.replicas[index].shards.get_mut(&shard).unwrap().requests.end(request) {
            self.with_member(index, shard, |member, now| answer.pass_to(member, now));
        }
    }

    fn is_lost(&mut self) -> bool {
        self.network.loses(self.now, &mut self.random)
    }

    fn send(&mut self, index: usize, shard: u32, sent: Sent) {
        if let Some((at, connection)) = self.network.send(index, self.now, &mut self.random) {
            self.at(at, index, Event::Arrives { shard, connection, sent });
        }
    }

    fn reply(&mut self, index: usize, event: Event) {
        let at = self.network.reply(index, self.now, &mut self.random);
        self.at(at, index, event);
    }

    pub(super) fn arrives(&mut self, index: usize, shard: u32, sent: Sent) {
        match self.network.react(name(shard).key(), sent) {
            Reaction::Publishes(message) => {
                for to in 0..self.replicas.len() {
                    if let Some((connection, _)) = self.network.connection(to)
                        && !self.is_lost()
                    {
                        self.reply(to, Event::Delivered { shard, connection, message: message.clone() });
                    }
                }
            }
            Reaction::Answers { request, answer } => {
                if !self.is_lost() {
                    self.reply(index, Event::Answered { shard, request, answer });
                }
            }
        }
    }

    pub(super) fn connect(&mut self, index: usize) {
        if self.replicas[index].is_up {
            self.network.connect(index, self.now);
        }
    }
}
