//! The faults: of processes, of NATS, and of the provider.

use super::super::world::Weather;
use super::{Event, PATHS, Replica, SECOND, World, index_of};
use crate::replica::ReplicaId;

impl World {
    pub(super) fn break_path(&mut self) {
        if !self.has_faults() {
            return;
        }
        let (path, mends) = (self.random.u32(..PATHS), self.milliseconds(100, 8000));
        if self.provider.bad.insert(path) {
            if self.hindered[index_of(path)] < self.now {
                self.failing_since[index_of(path)] = self.now;
            }
            self.note(0, || format!("the provider fails for p{path}"));
            self.after(mends, 0, Event::Mend { path });
        }
        let next = self.milliseconds(300, 3000);
        self.after(next, 0, Event::Break);
    }

    pub(super) fn mend(&mut self, path: u32) {
        self.note(0, || format!("the provider is good again for p{path}"));
        self.provider.bad.remove(&path);
        // The back-off of a group is at most as long as it has failed.
        let failed = self.now - self.failing_since[index_of(path)];
        self.hindered[index_of(path)] = self.now + failed * 13 / 10 + 4 * SECOND;
    }

    pub(super) fn fault(&mut self) {
        if !self.has_faults() {
            return;
        }
        let next = self.milliseconds(3000, 20_000);
        self.after(next, 0, Event::Fault);
        let index = self.random.usize(..self.replicas.len());
        let back = self.milliseconds(100, 15_000);
        match self.random.u32(..4) {
            _ if self.weather == Weather::Crashes && self.may_crash() => self.crash(index),
            _ if self.weather == Weather::Crashes => {}
            0 if self.may_crash() => self.crash(index),
            1 => {
                self.note(index, || "the server ends".to_owned());
                self.network.stop(self.random.bool());
                self.after(back, 0, Event::ServerBack);
            }
            _ => {
                self.note(index, || "is cut off".to_owned());
                self.network.disconnect(index);
                self.after(back, index, Event::Reconnect);
            }
        }
    }

    pub(super) fn may_crash(&self) -> bool {
        matches!(self.weather, Weather::Crashes | Weather::Storm)
            && self.has_faults()
            && self.now >= self.last_crash + 5 * SECOND
            && self.replicas.iter().all(|replica| replica.is_up)
    }

    pub(super) fn crash(&mut self, index: usize) {
        self.note(index, || "crashes".to_owned());
        self.last_crash = self.now;
        self.network.disconnect(index);
        let life = self.replicas[index].life + 1;
        self.replicas[index] = Replica { life, ..Replica::new() };
        let back = self.milliseconds(500, 10_000);
        self.after(back, index, Event::Restart);
    }

    pub(super) fn restart(&mut self, index: usize) {
        let id = ReplicaId::new(self.random.u128(..));
        let replica = &mut self.replicas[index];
        (replica.is_up, replica.id) = (true, id);
        self.connect(index);
    }
}
