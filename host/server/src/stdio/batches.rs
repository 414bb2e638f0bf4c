//! The lines that answer requests: one for each request, or one for each batch.
//!
//! A semaphore limits the requests in flight. The answers to the requests of a batch are collected, and written as one
//! line after the last one; until then they keep their permits, because they are in memory, and their budget charges.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedSemaphorePermit;

use crate::budget::Charge;
use crate::json::Encoder;

/// The id of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BatchId(u64);

/// An unanswered request: its permit and its batch.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) permit: OwnedSemaphorePermit,
    /// The batch that the request belongs to.
    pub(super) batch: Option<BatchId>,
}

/// A line to write, with the permits and charges that are released afterwards.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) line: Option<Encoder>,
    pub(super) permits: Vec<OwnedSemaphorePermit>,
    pub(super) charges: Vec<Charge>,
}

/// An answer and its budget charge.
pub(super) struct ChargedReply {
    pub(super) json: Encoder,
    pub(super) charge: Option<Charge>,
}

impl ChargedReply {
    /// A small answer without a charge. There is at most one for each request in flight.
    pub(super) fn uncharged(json: Vec<u8>) -> Self {
        Self { json: Encoder::from_json(json), charge: None }
    }
}

/// The batches of a connection that have not been answered. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Batches(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    open: HashMap<BatchId, Batch>,
    last_id: u64,
}

/// A batch with answers outstanding.
#[derive(Default)]
struct Batch {
    pending: usize,
    answers: Vec<Encoder>,
    permits: Vec<OwnedSemaphorePermit>,
    charges: Vec<Charge>,
}

impl Batches {
    /// Opens a batch with this number of answers. None if no message of the batch has an answer.
    pub(super) fn begin(&self, answers: usize) -> Option<BatchId> {
        if answers == 0 {
            return None;
        }
        let mut all = self.lock();
        all.last_id = all.last_id.wrapping_add(1);
        let id = BatchId(all.last_id);
        all.open.insert(id, Batch { pending: answers, ..Batch::default() });
        Some(id)
    }

    /// Completes a request, with its answer or without one, and returns the line to write, which is empty while the
    /// batch has answers outstanding.
    pub(super) fn finish(&self, request: Pending, answer: Option<ChargedReply>) -> Outgoing {
        let Pending { permit, batch } = request;
        let (json, charge) = answer.map(|ChargedReply { json, charge }| (json, charge)).unzip();
        let charge = charge.flatten();
        let mut all = self.lock();
        let Some((id, open)) = batch.and_then(|id| all.open.get_mut(&id).map(|open| (id, open))) else {
            return Outgoing { line: json, permits: vec![permit], charges: charge.into_iter().collect() };
        };
        open.pending = open.pending.saturating_sub(1);
        open.answers.extend(json);
        open.permits.push(permit);
        open.charges.extend(charge);
        if open.pending > 0 {
            return Outgoing::default();
        }
        let Batch { answers, permits, charges, .. } = all.open.remove(&id).unwrap_or_default();
        Outgoing { line: (!answers.is_empty()).then(|| Encoder::array(answers)), permits, charges }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    fn answer(json: &str) -> Option<ChargedReply> {
        Some(ChargedReply::uncharged(json.as_bytes().to_vec()))
    }

    #[test]
    fn the_answers_of_a_batch_go_out_with_the_last_of_them() {
        let permits = Arc::new(Semaphore::new(4));
        let pending = |batch| Pending { permit: permits.clone().try_acquire_owned().unwrap(), batch };
        let batches = Batches::default();
        assert_eq!(batches.begin(0), None, "notifications alone have no answer");
        let batch = batches.begin(3);
        let (first, second, other) = (pending(batch), pending(batch), pending(None));
        assert!(batches.finish(pending(batch), answer("refused")).line.is_none());
        assert_eq!(batches.finish(other, answer("nine")).line.unwrap().into_vec(), b"nine");
        assert!(batches.finish(first, answer("one")).line.is_none());
        assert_eq!(permits.available_permits(), 1, "what is kept in memory counts");
        let due = batches.finish(second, None);
        assert_eq!(due.line.unwrap().into_vec(), b"[refused,one]");
        drop(due.permits);
        assert_eq!(permits.available_permits(), 4);
    }

    #[test]
    fn a_batch_whose_requests_are_all_cancelled_has_no_answer() {
        let permits = Arc::new(Semaphore::new(1));
        let batches = Batches::default();
        let batch = batches.begin(1);
        let due = batches.finish(Pending { permit: permits.clone().try_acquire_owned().unwrap(), batch }, None);
        assert!(due.line.is_none());
        drop(due);
        assert_eq!(permits.available_permits(), 1);
    }
}
