//! The faults: of processes, of NATS, of the records in the bucket, and of the provider.

use super::super::replica::Watch;
use super::super::{Bug, is_planted};
use super::{AFTER_FAILURE, Event, LEASE, RECOVERY, SECOND, Weather, World, index_of, short};
use crate::engine::Entry;
use crate::member::{Member, RoleName};
use crate::poll::Polls;
use crate::record::{MAX_NUMBER, Record};
use crate::replica::ReplicaId;

impl World {
    pub(super) fn break_path(&mut self) {
        if !self.has_faults() {
            return;
        }
        let (shard, path) = (self.random.usize(..self.size.shards), self.random.u32(..self.size.paths));
        let mends = self.milliseconds(100, 8_000);
        let at = &mut self.shards[shard];
        if self.random.u32(..4) == 0 {
            at.provider.slow.insert(path);
        } else if !at.provider.bad.insert(path) {
            return self.after(SECOND, 0, Event::Break);
        } else if at.path_hindered[index_of(path)] < self.now {
            at.path_began[index_of(path)] = self.now;
        }
        self.note_world(|| format!("shard {shard} fails for p{path}, or is slow"));
        self.after(mends, 0, Event::Mend { shard: short(shard), path });
        let next = self.milliseconds(500, 15_000);
        self.after(next, 0, Event::Break);
    }

    pub(super) fn mend(&mut self, shard: usize, path: u32) {
        self.note_world(|| format!("shard {shard} is good again for p{path}"));
        let now = self.now;
        let shard = &mut self.shards[shard];
        if shard.provider.bad.remove(&path) {
            // The back-off of a group is at most as long as it has failed.
            let failed = now - shard.path_began[index_of(path)];
            shard.path_hindered[index_of(path)] = now + failed * 13 / 10 + AFTER_FAILURE / 2;
        }
        shard.provider.slow.remove(&path);
    }

    pub(super) fn fault(&mut self) {
        if !self.has_faults() {
            return;
        }
        let next = match self.weather {
            Weather::Storm => self.milliseconds(500, 15_000),
            _ => self.milliseconds(20_000, 30_000),
        };
        self.after(next, 0, Event::Fault);
        let victims = if self.weather == Weather::Storm { (self.replicas.len() / 50).max(1) } else { 1 };
        for _ in 0..victims {
            // Usually a holder, whose failure has the most effects.
            let shard = self.random.usize(..self.size.shards);
            let holder = self.shards[shard].holders.first().copied().filter(|_| self.random.u32(..3) > 0);
            let index = holder.unwrap_or_else(|| self.random.usize(..self.replicas.len()));
            let kind = if self.weather == Weather::Crashes { 0 } else { self.random.u32(..9) };
            self.fail(index, shard, kind);
        }
    }

    fn fail(&mut self, index: usize, shard: usize, kind: u32) {
        match kind {
            0 | 1 if self.may_crash() => self.crash(index),
            2 | 3 => self.stop(index),
            4 | 5 => {
                self.note(index, || "is cut off".to_owned());
                self.network.disconnect(index);
                let back = self.milliseconds(100, 20_000);
                self.at((self.now + back).min(self.faults_end + RECOVERY), index, Event::Reconnect);
            }
            6 => {
                self.note_world(|| "the server ends".to_owned());
                self.network.stop(self.random.bool());
                let back = self.milliseconds(100, 20_000);
                self.at((self.now + back).min(self.faults_end + RECOVERY), 0, Event::ServerBack);
            }
            7 => self.overwrite(shard),
            8 => {
                let until = self.now + self.milliseconds(100, 5000);
                self.note_world(|| format!("shard {shard} fails for everything until {until:?}"));
                self.shards[shard].provider.down_until = until;
            }
            _ => {}
        }
    }

    /// Pauses a process, or the machine with its clock.
    fn stop(&mut self, index: usize) {
        let until = (self.now + self.milliseconds(100, 25_000)).min(self.faults_end + RECOVERY);
        if until <= self.replicas[index].stopped_until {
            return;
        }
        self.note(index, || format!("is stopped until {until:?}"));
        if self.random.bool() {
            // The clock of a machine that is suspended stands still. It does not go back.
            let (offset, speed) = self.replicas[index].clock;
            let lost = (until - self.now) * speed / 1000;
            self.replicas[index].clock.0 = offset.checked_sub(lost).unwrap_or(offset);
        }
        let replica = &mut self.replicas[index];
        (replica.stopped_until, replica.hindered) = (until, until);
        // Its leases, and those that it is about to take, are not used meanwhile.
        for (shard, watch) in self.shards.iter_mut().zip(&replica.watches) {
            let is_holding = watch.member.as_ref().is_some_and(|member| member.role() == RoleName::Holding);
            if is_holding || watch.requests.is_waiting() {
                shard.hindered = shard.hindered.max(until);
            }
        }
        self.at(until, index, Event::Resume);
    }

    /// Another program overwrites a record, once.
    fn overwrite(&mut self, shard: usize) {
        let key = self.shards[shard].key.clone();
        let Some(Entry { revision, value }) = self.network.server.get(&key) else { return };
        let Ok(mut record) = serde_json::from_slice::<Record>(&value) else { return };
        let number = [u64::MAX, u64::MAX - 1, MAX_NUMBER][self.random.usize(..3)];
        record.holder = record.holder.filter(|_| self.random.bool());
        match self.random.u32(..5) {
            0 => record.round.seq = number,
            1 => record.epoch = number,
            2 => record.covers.values_mut().for_each(|version| *version = number),
            3 => (record.round.seq, record.epoch, record.renewals) = (number, number, number),
            _ => {}
        }
        let is_record = is_planted(Bug::NumbersNotBounded) || self.random.u32(..5) > 0;
        let bytes = if is_record { serde_json::to_vec(&record).unwrap() } else { b"{}".to_vec() };
        self.note_world(|| format!("the record of shard {shard} is overwritten: {}", String::from_utf8_lossy(&bytes)));
        self.network.server.write(&key, &bytes, Some(revision)).unwrap();
    }

    pub(super) fn restart(&mut self, index: usize) {
        if self.replicas[index].is_up {
            return;
        }
        let (id, newest) = (ReplicaId::new(self.random.u128(..)), self.rules.len() - 1);
        for shard in 0..self.size.shards {
            let member = Some(Box::new(Member::new(id, LEASE, self.random.u64(..))));
            let polls = Some(Box::new(Polls::new(self.size.max_items, false)));
            *self.watch(index, shard) = Watch { member, polls, ..Watch::default() };
        }
        let replica = &mut self.replicas[index];
        (replica.is_up, replica.life, replica.rules) = (true, replica.life + 1, newest);
        self.connect(index);
        self.note(index, || "starts".to_owned());
    }

    pub(super) fn crash(&mut self, index: usize) {
        self.note(index, || "crashes".to_owned());
        self.last_crash = self.now;
        self.network.disconnect(index);
        let mut streams = Vec::new();
        for shard in 0..self.size.shards {
            let watch = std::mem::take(self.watch(index, shard));
            self.outcome.gaps += watch.member.map_or(0, |member| member.stats().gaps);
            streams.extend(watch.paths.into_values().flatten());
            self.shards[shard].holders.remove(&index);
        }
        self.replicas[index].is_up = false;
        for stream in &streams {
            let stream = &mut self.streams[index_of(*stream)];
            (stream.replica, stream.active_since, stream.untold) = (None, None, None);
        }
        let (back, again) = (self.milliseconds(500, 15_000), self.milliseconds(100, 2000));
        self.at((self.now + back).min(self.faults_end + RECOVERY), index, Event::Restart);
        self.after(again, 0, Event::Connect { streams });
    }

    /// Few replicas are down at a time, because others must continue. In worlds where no replica may notify everything,
    /// it is one at a time, and the next holder has time to make a round.
    pub(super) fn may_crash(&self) -> bool {
        let (is_storm, down) = (self.weather == Weather::Storm, self.replicas.iter().filter(|replica| !replica.is_up));
        let is_settled = is_storm || self.now >= self.last_crash + LEASE * 2;
        is_settled && down.count() <= if is_storm { self.replicas.len() / 20 } else { 0 }
    }
}
