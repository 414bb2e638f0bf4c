//! NATS in a simulated world: what a member sends arrives later, in order, and may be lost.
//!
//! Messages of one connection arrive in the order in which they were sent, in each direction. In a lossy network,
//! delays are long, and messages and answers are lost, until the faults of the world end.

use std::sync::Arc;
use std::time::Duration;

use super::{Bug, is_planted};
use crate::bounded_json;
use crate::engine::model::ModelServer;
use crate::engine::{EngineError, Entry};
use crate::member::{Member, Revision, Stored, Time, WriteFailure};
use crate::message::Message;
use crate::record::Record;

/// What a replica sends.
pub(super) enum Sent {
    Message(Vec<u8>),
    Read { request: u64 },
    Write { request: u64, expected: Option<Revision>, bytes: Vec<u8> },
}

/// What the server does with it.
pub(super) enum Reaction {
    /// It delivers a message to all subscribers.
    Publishes(Arc<Message>),
    Answers {
        request: u64,
        answer: Answer,
    },
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum Answer {
    Read(Result<Option<Entry>, ()>),
    Written(Result<Revision, WriteFailure>),
}

impl Answer {
    /// Passes the answer to the member that has made the request.
    pub(super) fn pass_to(self, member: &mut Member, now: Time) {
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
        match self {
            Self::Read(result) => member.read(now, result.map(stored)),
            Self::Written(result) => member.written(now, result),
        }
    }
}

/// The requests of one member to the bucket. It makes one at a time.
#[derive(Default)]
pub(super) struct Requests {
    /// The number of requests so far.
    last: u64,
    is_waiting: bool,
}

impl Requests {
    /// Begins a request, and returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.is_waiting = true;
        self.last
    }

    /// Ends a request. Returns whether it was under way: its answer, or its timeout, may have been handled before.
    pub(super) fn end(&mut self, request: u64) -> bool {
        self.last == request && std::mem::take(&mut self.is_waiting)
    }

    /// Whether a request is under way.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }
}

/// The server, and the connections of replicas.
pub(super) struct Network {
    pub(super) server: ModelServer,
    is_up: bool,
    /// Until when delays are long, and messages are lost.
    lossy_until: Time,
    /// One for each replica.
    links: Vec<Link>,
    /// The number of connections so far.
    opened: u64,
    /// The number of connected replicas.
    connected: u64,
}

/// The link of a replica to the server.
#[derive(Clone, Default)]
struct Link {
    /// The number of its connection, and since when it has it.
    connection: Option<(u64, Time)>,
    /// The arrival of its last message, and of the last message for it.
    uplink: Time,
    downlink: Time,
}

impl Network {
    /// A server to which no replica is connected yet.
    pub(super) fn new(replicas: usize, lossy_until: Time) -> Self {
        let (server, links) = (ModelServer::default(), vec![Link::default(); replicas]);
        Self { server, is_up: true, lossy_until, links, opened: 0, connected: 0 }
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Starts the server again.
    pub(super) fn start(&mut self) {
        self.is_up = true;
    }

    /// Stops the server, and ends all connections. It may lose everything that it has stored.
    pub(super) fn stop(&mut self, loses_all: bool) {
        self.is_up = false;
        (0..self.links.len()).for_each(|index| self.disconnect(index));
        if loses_all {
            self.server = ModelServer::default();
        }
    }

    /// Connects a replica, unless it is connected, or the server does not run.
    pub(super) fn connect(&mut self, index: usize, now: Time) {
        let link = &mut self.links[index];
        if self.is_up && link.connection.is_none() {
            self.opened += 1;
            self.connected += 1;
            link.connection = Some((self.opened, now));
        }
    }

    pub(super) fn disconnect(&mut self, index: usize) {
        if self.links[index].connection.take().is_some() {
            self.connected -= 1;
        }
    }

    /// Returns the number of a replica's connection, and since when it has it.
    pub(super) fn connection(&self, index: usize) -> Option<(u64, Time)> {
        self.links[index].connection
    }

    /// Returns whether a replica still has the connection with this number.
    pub(super) fn is_connected(&self, index: usize, connection: u64) -> bool {
        self.is_up && self.connection(index).is_some_and(|(number, _)| number == connection)
    }

    /// Returns the number of connected replicas.
    pub(super) fn connected(&self) -> u64 {
        self.connected
    }

    fn is_lossy(&self, now: Time) -> bool {
        now < self.lossy_until
    }

    /// Returns whether a message that is delivered now is lost.
    pub(super) fn loses(&self, now: Time, random: &mut fastrand::Rng) -> bool {
        self.is_lossy(now) && random.u32(..20) == 0
    }

    fn delay(&self, now: Time, random: &mut fastrand::Rng) -> Duration {
        let max = if self.is_lossy(now) { 400 } else { 30 };
        Duration::from_millis(random.u64(1..max))
    }

    /// Returns when something that a replica sends now arrives at the server, and by which connection; none without a
    /// connection.
    pub(super) fn send(&mut self, index: usize, now: Time, random: &mut fastrand::Rng) -> Option<(Time, u64)> {
        let delay = self.delay(now, random);
        let link = &mut self.links[index];
        let (connection, _) = link.connection?;
        link.uplink = link.uplink.max(now + delay);
        Some((link.uplink, connection))
    }

    /// Returns when something that the server sends now arrives at a replica.
    pub(super) fn reply(&mut self, index: usize, now: Time, random: &mut fastrand::Rng) -> Time {
        let delay = self.delay(now, random);
        let link = &mut self.links[index];
        link.downlink = link.downlink.max(now + delay);
        link.downlink
    }

    /// Handles what has arrived at the server. `key` is the key of the member's record.
    pub(super) fn react(&mut self, key: &str, sent: Sent) -> Reaction {
        match sent {
            Sent::Message(bytes) => {
                let decoded = match is_planted(Bug::NumbersNotBounded) {
                    true => Ok(serde_json::from_slice(&bytes).unwrap()),
                    false => Message::decode(&bytes),
                };
                Reaction::Publishes(Arc::new(decoded.unwrap()))
            }
            Sent::Read { request } => Reaction::Answers { request, answer: Answer::Read(Ok(self.server.get(key))) },
            Sent::Write { request, expected, bytes } => {
                let unchecked = is_planted(Bug::LeaseNotChecked);
                let expected = if unchecked { self.server.get(key).map(|entry| entry.revision) } else { expected };
                let written = self.server.write(key, &bytes, expected).map_err(|error| match error {
                    EngineError::Conflict => WriteFailure::Conflict,
                    _ => WriteFailure::Unknown,
                });
                Reaction::Answers { request, answer: Answer::Written(written) }
            }
        }
    }
}
