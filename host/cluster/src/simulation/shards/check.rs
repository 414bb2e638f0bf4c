//! Subscriptions and edits, and the checker: each replica notifies each edit of a path that it watches in time, unless
//! the provider failed for the path.

use super::{BOUND, Event, PATHS, PHASE, Shard, Stream, World, index_of};
use crate::member::{RoleName, Time};

impl World {
    /// A replica watches more paths, or fewer.
    pub(super) fn churn(&mut self, index: usize) {
        // In the end, subscriptions no longer change.
        if !self.has_faults() {
            return;
        }
        let next = self.milliseconds(500, 6000);
        self.after(next, index, Event::Churn);
        if !self.replicas[index].is_up {
            return;
        }
        let has_many = (self.now.as_secs() / PHASE.as_secs()).is_multiple_of(2);
        let target = if has_many { self.random.usize(3..=30) } else { self.random.usize(0..=3) };
        for _ in 0..self.random.usize(1..=20) {
            let path = self.random.u32(..PATHS);
            let replica = &mut self.replicas[index];
            match replica.streams.len() {
                count if count < target => {
                    replica.requested += 1;
                    let requested = replica.requested;
                    let stream = || Stream { requested, active_since: None, untold: None };
                    replica.streams.entry(path).or_insert_with(stream);
                }
                _ => drop(replica.streams.remove(&path)),
            }
        }
        self.wake(index);
    }

    pub(super) fn edit(&mut self) {
        if !self.has_faults() {
            return;
        }
        let (path, now) = (self.random.u32(..PATHS), self.now);
        self.provider.edit(path);
        self.note(0, || format!("edit of p{path}"));
        for replica in &mut self.replicas {
            if let Some(stream) = replica.streams.get_mut(&path)
                && stream.active_since.is_some_and(|since| since < now)
            {
                stream.untold.get_or_insert(now);
            }
        }
        self.after(BOUND, 0, Event::Check { path, at: now });
        let next = self.milliseconds(20, 1000);
        self.after(next, 0, Event::Edit);
    }

    /// Checks that an edit was notified to each replica in time, unless the provider failed for the path.
    pub(super) fn check(&mut self, path: u32, at: Time) {
        let is_holding = |shard: &Shard| shard.member.role() == RoleName::Holding;
        let holders = self.replicas.iter().filter(|replica| replica.shards.values().any(is_holding)).count();
        self.outcome.most_holders = self.outcome.most_holders.max(holders);
        let is_bad = self.provider.bad.contains(&path);
        if is_bad || self.hindered[index_of(path)] >= at {
            return;
        }
        for (index, replica) in self.replicas.iter().enumerate() {
            let untold = replica.streams.get(&path).and_then(|stream| stream.untold);
            if untold.is_some_and(|untold| untold <= at) {
                let failure = format!("at {:?} r{index} has not notified the edit of p{path} at {untold:?}", self.now);
                self.outcome.failure.get_or_insert(failure);
            }
        }
    }
}
