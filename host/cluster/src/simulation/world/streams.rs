//! The event streams of clients, which connect, move to other replicas and paths, and disconnect; and the rules, which
//! change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Event, SECOND, World, index_of, short};

impl World {
    /// Returns whether a principal may see a path under a version of the rules.
    pub(super) fn allows(&self, rules: usize, shard: usize, path: u32, principal: u8) -> bool {
        self.rules[rules][shard][index_of(path)] & (1 << principal) != 0
    }

    /// Connects streams to replicas that run.
    pub(super) fn connect_streams(&mut self, streams: Vec<u32>) {
        let mut later = Vec::new();
        let mut changed = BTreeSet::new();
        for stream in streams {
            let mut indexes = (0..8).map(|_| self.random.usize(..self.replicas.len()));
            let replicas = &self.replicas;
            let now = self.now;
            let found = indexes.find(|index| replicas[*index].is_up && replicas[*index].stopped_until <= now);
            drop(indexes);
            match found {
                Some(index) => changed.extend(self.subscribe(index, stream).map(|shard| (index, shard))),
                None => later.push(stream),
            }
        }
        if !later.is_empty() {
            self.after(SECOND, 0, Event::Connect { streams: later });
        }
        changed.into_iter().for_each(|(index, shard)| self.poll(index, shard));
    }

    /// Subscribes a stream at a replica, unless it may not see its path. Returns the shard.
    fn subscribe(&mut self, index: usize, id: u32) -> Option<usize> {
        let (rules, stream) = (self.replicas[index].rules, self.streams[index_of(id)]);
        let shard = index_of(stream.shard);
        if stream.replica.is_some() || !self.allows(rules, shard, stream.path, stream.principal) {
            return None;
        }
        let watch = self.watch(index, shard);
        watch.requested += 1;
        watch.is_changed = true;
        watch.pending.push(id);
        watch.paths.entry(stream.path).or_default().push(id);
        let requested = watch.requested;
        let stream = &mut self.streams[index_of(id)];
        (stream.replica, stream.requested) = (Some(short(index)), requested);
        Some(shard)
    }

    fn unsubscribe(&mut self, id: u32) {
        let stream = &mut self.streams[index_of(id)];
        let Some(index) = stream.replica.take() else { return };
        (stream.active_since, stream.untold) = (None, None);
        let (path, shard) = (stream.path, index_of(stream.shard));
        let watch = self.watch(index_of(index), shard);
        watch.pending.retain(|other| *other != id);
        if let Some(streams) = watch.paths.get_mut(&path) {
            streams.retain(|other| *other != id);
            if streams.is_empty() {
                watch.paths.remove(&path);
                watch.is_changed = true;
            }
        }
    }

    /// Some streams subscribe to other paths at a replica, or disconnect.
    pub(super) fn churn(&mut self, index: usize) {
        // In the end, subscriptions no longer change.
        if !self.has_faults() {
            return;
        }
        let next = self.milliseconds(500, 20_000);
        self.after(next, index, Event::Churn);
        if !self.replicas[index].is_up {
            return;
        }
        let mut changed = BTreeSet::new();
        for _ in 0..(self.streams.len() / self.replicas.len() / 50).max(1) {
            let id = self.random.usize(..self.streams.len());
            let before = self.streams[id];
            if let Some(other) = before.replica {
                if self.replicas[index_of(other)].stopped_until > self.now {
                    continue;
                }
                self.unsubscribe(short(id));
                changed.insert((index_of(other), index_of(before.shard)));
            }
            if self.random.u32(..4) == 0 {
                continue;
            }
            let (shard, path) = (short(self.random.usize(..self.size.shards)), self.random.u32(..self.size.paths));
            (self.streams[id].shard, self.streams[id].path) = (shard, path);
            changed.extend(self.subscribe(index, short(id)).map(|shard| (index, shard)));
        }
        for (index, shard) in changed {
            if self.trace.is_some() {
                let paths: Vec<_> = self.watch(index, shard).paths.keys().copied().collect();
                self.note(index, || format!("shard {shard} watches {paths:?}"));
            }
            self.poll(index, shard);
        }
    }

    pub(super) fn change_rules(&mut self) {
        if !self.has_faults() {
            return;
        }
        let mut rules = Vec::clone(&self.rules[self.rules.len() - 1]);
        for _ in 0..(index_of(self.size.paths) / 20).max(1) {
            let (shard, path) = (self.random.usize(..self.size.shards), index_of(self.random.u32(..self.size.paths)));
            rules[shard][path] = self.random.u8(..) | self.random.u8(..);
        }
        self.rules.push(Arc::new(rules));
        for index in 0..self.replicas.len() {
            let (delay, life) = (self.milliseconds(0, 10_000), self.replicas[index].life);
            self.after(delay, index, Event::Reload { life });
        }
        let next = self.milliseconds(5000, 30_000);
        self.after(next, 0, Event::Rules);
    }

    pub(super) fn load_rules(&mut self, index: usize) {
        let rules = self.rules.len() - 1;
        let before = std::mem::replace(&mut self.replicas[index].rules, rules);
        for shard in 0..self.size.shards {
            let (old, new) = (self.rules[before].clone(), self.rules[rules].clone());
            for (path, (old, new)) in
                old[shard].iter().zip(&new[shard]).enumerate().filter(|(_, (old, new))| old != new)
            {
                let streams = self.watch(index, shard).paths.get(&short(path)).cloned().unwrap_or_default();
                for id in streams {
                    let stream = &mut self.streams[index_of(id)];
                    // A principal that gains access learns of the resource by other means.
                    if (old & new) & (1 << stream.principal) == 0 {
                        stream.untold = None;
                    }
                }
            }
        }
    }
}
