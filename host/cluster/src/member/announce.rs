//! Announcements of the paths that a replica wants.

use std::sync::Arc;

use crate::message::{Message, Want, parts};

use super::{Member, Output, Time, part};

/// The maximum number of responses per lease with all wanted paths.
const ANSWERS: u32 = 20;

impl Member {
    /// Publishes the wanted paths: all of them, or, with a `base`, the difference to that version.
    pub(super) fn announce(
        &mut self,
        now: Time,
        base: Option<u64>,
        waits: bool,
        add: Vec<Arc<str>>,
        remove: Vec<Arc<str>>,
    ) {
        self.last_announced = now;
        // There are few removed paths, or everything is announced.
        let mut add = parts(add);
        if add.is_empty() {
            add.push(Vec::new());
        }
        let (version, replica, last) = (self.version, self.me, add.len().saturating_sub(1));
        let shards = self.need;
        let mut remove = Some(remove);
        for (part, add) in add.into_iter().enumerate() {
            let is_last = part == last;
            let part = u32::try_from(part).unwrap_or(u32::MAX);
            let remove = remove.take().unwrap_or_default();
            let want = Want { replica, base, version, waits, part, is_last, add, remove, shards };
            self.outputs.push_back(Output::Publish(Message::Want(want)));
        }
    }

    /// Publishes all wanted paths in response to a message. Rate limit: the response is immediate, or delayed until
    /// 1/[`ANSWERS`] of a lease after the last response. So the number of messages does not matter, and a new holder
    /// receives the response while it still collects.
    pub(super) fn answer(&mut self, now: Time) {
        let next = self.answered.map(|answered| answered.saturating_add(part(self.lease, ANSWERS)));
        match next.filter(|next| now < *next) {
            Some(next) => self.answer_at = Some(next),
            None => self.answer_now(now),
        }
    }

    pub(super) fn answer_now(&mut self, now: Time) {
        self.answered = Some(now);
        if std::mem::take(&mut self.withdraws) {
            self.outputs.push_back(Output::Publish(Message::Leave { replica: self.me }));
        }
        self.announce_all(now);
    }

    /// Publishes all wanted paths.
    pub(super) fn announce_all(&mut self, now: Time) {
        if !self.withdraws {
            self.answer_at = None;
        }
        let waits = self.waiting_since.is_some();
        let all = self.wanted.iter().cloned().collect();
        self.announce(now, None, waits, all, Vec::new());
    }
}
