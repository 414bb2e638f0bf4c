//! The checker: each stream is notified of each edit in time, and of nothing that it may not see.
//!
//! An edit is recorded at each stream with an active subscription to the path, if the principal may see it
//! (`Stream::untold`). A notification removes the record. A record that is left after `World::bound` is a failure,
//! unless the replica, the shard or the path was hindered at or after the time of the edit. At the end of the world
//! nothing is hindered any more. Changes of the listing are recorded at each replica.
//!
//! A notification to a stream that is not subscribed to the path, or may not see it, is always a failure.

use super::super::{Bug, is_planted};
use super::{Event, World, index_of, micros, short};
use crate::member::Time;

impl World {
    pub(super) fn edit(&mut self) {
        let paths = (index_of(self.size.paths) * self.size.shards / 100).max(1);
        for _ in 0..self.random.usize(1..=paths) {
            let (shard, path) = (self.random.usize(..self.size.shards), self.random.u32(..self.size.paths));
            self.shards[shard].provider.edit(path);
            self.outcome.changes += 1;
            self.note_world(|| format!("edit of p{path} of shard {shard}"));
            let now = micros(self.now);
            for index in 0..self.replicas.len() {
                let rules = self.replicas[index].rules;
                let Some(streams) = self.replicas[index].watches[shard].paths.get(&path) else { continue };
                let mask = self.rules[rules][shard][index_of(path)];
                for id in streams {
                    let stream = &mut self.streams[index_of(*id)];
                    let is_active = stream.active_since.is_some_and(|since| since < now);
                    if is_active && mask & (1 << stream.principal) != 0 {
                        stream.untold.get_or_insert(now);
                    }
                }
            }
            self.after(self.bound, 0, Event::Check { shard: short(shard), path, at: self.now });
        }
        let next = self.milliseconds(50, 3000);
        self.after(next, 0, Event::Edit);
    }

    pub(super) fn edit_listing(&mut self) {
        let shard = self.random.usize(..self.size.shards);
        self.shards[shard].provider.edit_listing();
        self.outcome.changes += 1;
        self.note_world(|| format!("edit of the listing of shard {shard}"));
        let now = self.now;
        for replica in &mut self.replicas {
            let watch = &mut replica.watches[shard];
            if watch.listing_since.is_some_and(|since| since < now) {
                watch.listing_untold.get_or_insert(now);
            }
        }
        self.after(self.bound, 0, Event::CheckListing { shard: short(shard), at: now });
        let next = self.milliseconds(500, 10_000);
        self.after(next, 0, Event::EditListing);
    }

    pub(super) fn tell(&mut self, index: usize, shard: usize, path: u32) {
        let rules = self.replicas[index].rules;
        let Some(streams) = self.replicas[index].watches[shard].paths.get(&path).cloned() else { return };
        for id in streams {
            let stream = self.streams[index_of(id)];
            let is_allowed = self.allows(rules, shard, path, stream.principal);
            // A stream is not notified of a path that it may not see.
            if !is_allowed && !is_planted(Bug::PolicyNotAsked) {
                continue;
            }
            self.outcome.notifications += 1;
            self.streams[index_of(id)].untold = None;
            let is_foreign = (stream.replica, stream.shard, stream.path) != (Some(short(index)), short(shard), path);
            if is_foreign || !is_allowed {
                self.outcome.denied += 1;
                self.failure = Some(format!(
                    "r{index} has notified stream {id} of p{path} of shard {shard}, which it may not see"
                ));
            }
        }
        self.note(index, || format!("shard {shard} notifies p{path}"));
    }

    pub(super) fn tell_everything(&mut self, index: usize, shard: usize) {
        let paths: Vec<_> = self.watch(index, shard).paths.keys().copied().collect();
        paths.into_iter().for_each(|path| self.tell(index, shard, path));
        self.tell_listing(index, shard);
    }

    pub(super) fn tell_listing(&mut self, index: usize, shard: usize) {
        self.note(index, || format!("shard {shard} notifies the listing"));
        self.watch(index, shard).listing_untold = None;
    }

    /// Returns the last time at which something prevented a replica from a notification.
    fn hindered(&self, index: usize, shard: usize, path: Option<u32>) -> Time {
        let at = &self.shards[shard];
        let of_path = path.map_or(Time::ZERO, |path| match at.provider.bad.contains(&path) {
            true => self.now,
            false => at.path_hindered[index_of(path)],
        });
        self.replicas[index].hindered.max(at.hindered).max(of_path)
    }

    /// Checks that an edit was notified to each stream in time, unless something prevented it.
    pub(super) fn check(&mut self, shard: usize, path: u32, at: Time) {
        for index in 0..self.replicas.len() {
            let Some(streams) = self.replicas[index].watches[shard].paths.get(&path) else { continue };
            let is_late = |id: &&u32| self.streams[index_of(**id)].untold.is_some_and(|untold| untold <= micros(at));
            if let Some(id) = streams.iter().find(is_late)
                && self.hindered(index, shard, Some(path)) < at
            {
                self.outcome.lost += 1;
                self.failure = Some(format!(
                    "r{index} has not notified stream {id} of the edit of p{path} of shard {shard} at {at:?}"
                ));
                return;
            }
        }
    }

    pub(super) fn check_listing(&mut self, shard: usize, at: Time) {
        for index in 0..self.replicas.len() {
            let untold = self.replicas[index].watches[shard].listing_untold;
            if untold.is_some_and(|untold| untold <= at) && self.hindered(index, shard, None) < at {
                self.outcome.lost += 1;
                self.failure =
                    Some(format!("r{index} has not notified the change of the listing of shard {shard} at {at:?}"));
                return;
            }
        }
    }

    /// Checks all streams at the end: nothing is hindered any more.
    pub(super) fn check_all(&mut self) {
        let latest = self.end - self.bound;
        for (id, stream) in self.streams.iter().enumerate() {
            let (Some(index), Some(untold)) = (stream.replica, stream.untold) else { continue };
            let hindered = self.hindered(index_of(index), index_of(stream.shard), Some(stream.path));
            if untold <= micros(latest) && hindered <= latest {
                self.outcome.lost += 1;
                let (path, shard) = (stream.path, stream.shard);
                self.failure =
                    Some(format!("r{index} never notified stream {id} of p{path} of shard {shard}, since {untold} µs"));
            }
        }
        for index in 0..self.replicas.len() {
            for shard in 0..self.size.shards {
                let untold = self.replicas[index].watches[shard].listing_untold;
                if untold.is_some_and(|untold| untold <= latest) && self.hindered(index, shard, None) <= latest {
                    self.outcome.lost += 1;
                    self.failure = Some(format!("r{index} never notified the change of the listing of shard {shard}"));
                }
            }
        }
    }
}
