//! The requests that have been taken from a client and not been answered yet.
//!
//! Each has a permit of those that bound how many there are. The answers to the requests of a batch are gathered, and go
//! out as one line when the last of them is there; until then they keep their permits, as they are kept in memory, and what they
//! are charged for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::server::budget::Charge;
use crate::server::json::Encoder;

/// Names a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BatchId(u64);

/// A line that is to be written, and what is given back when it is.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) line: Option<Encoder>,
    pub(super) permits: Vec<OwnedSemaphorePermit>,
    pub(super) charges: Vec<Charge>,
}

impl Outgoing {
    /// A line that answers no request.
    pub(super) fn new(line: Vec<u8>) -> Self {
        Self { line: Some(Encoder::from_json(line)), ..Self::default() }
    }
}

/// An answer, and what it is charged for.
pub(super) struct ChargedReply {
    pub(super) json: Encoder,
    pub(super) charge: Option<Charge>,
}

impl ChargedReply {
    /// An answer so small that it is charged for nothing.
    pub(super) fn uncharged(json: Vec<u8>) -> Self {
        Self { json: Encoder::from_json(json), charge: None }
    }
}

/// Requests without an answer, shared by all that answer them.
#[derive(Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    requests: HashMap<RequestId, Request>,
    batches: HashMap<BatchId, Batch>,
    last_batch: u64,
}

#[derive(Debug)]
struct Request {
    permit: OwnedSemaphorePermit,
    batch: Option<BatchId>,
    cancelled: CancellationToken,
}

/// A batch some of whose answers are not there yet.
#[derive(Default)]
struct Batch {
    pending: usize,
    answers: Vec<Encoder>,
    permits: Vec<OwnedSemaphorePermit>,
    charges: Vec<Charge>,
}

impl InFlight {
    /// Begins a batch that will have so many answers, if any.
    pub(super) fn begin_batch(&self, answers: usize) -> Option<BatchId> {
        let mut all = self.lock();
        all.last_batch = all.last_batch.wrapping_add(1);
        let id = BatchId(all.last_batch);
        (answers > 0).then(|| all.batches.insert(id, Batch { pending: answers, ..Batch::default() })).map(|_| id)
    }

    /// Whether a request of that id waits for its answer.
    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.lock().requests.contains_key(id)
    }

    /// Takes a request. What comes back fires when it is cancelled.
    pub(super) fn insert(
        &self,
        id: RequestId,
        permit: OwnedSemaphorePermit,
        batch: Option<BatchId>,
    ) -> CancellationToken {
        let cancelled = CancellationToken::new();
        self.lock().requests.insert(id, Request { permit, batch, cancelled: cancelled.clone() });
        cancelled
    }

    /// What is due when that answer is there: nothing, if the request was cancelled meanwhile.
    pub(super) fn complete(&self, id: &RequestId, answer: ChargedReply) -> Outgoing {
        let mut all = self.lock();
        match all.requests.remove(id) {
            Some(Request { permit, batch, .. }) => all.finish(batch, Some(answer), permit),
            None => Outgoing::default(),
        }
    }

    /// What is due when a request is cancelled: it is not answered.
    pub(super) fn cancel(&self, id: &RequestId) -> Outgoing {
        let mut all = self.lock();
        match all.requests.remove(id) {
            Some(Request { permit, batch, cancelled }) => {
                cancelled.cancel();
                all.finish(batch, None, permit)
            }
            None => Outgoing::default(),
        }
    }

    /// What is due when what was not taken has its answer.
    pub(super) fn reject(&self, batch: Option<BatchId>, answer: Vec<u8>, permit: OwnedSemaphorePermit) -> Outgoing {
        self.lock().finish(batch, Some(ChargedReply::uncharged(answer)), permit)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What is due when an answer is there, or when it is known that there will be none.
    fn finish(
        &mut self,
        batch: Option<BatchId>,
        answer: Option<ChargedReply>,
        permit: OwnedSemaphorePermit,
    ) -> Outgoing {
        let (json, charge) = answer.map(|ChargedReply { json, charge }| (json, charge)).unzip();
        let charge = charge.flatten();
        let Some((id, open)) = batch.and_then(|id| self.batches.get_mut(&id).map(|open| (id, open))) else {
            return Outgoing { line: json, permits: vec![permit], charges: charge.into_iter().collect() };
        };
        open.pending = open.pending.saturating_sub(1);
        open.answers.extend(json);
        open.permits.push(permit);
        open.charges.extend(charge);
        if open.pending > 0 {
            return Outgoing::default();
        }
        let Batch { answers, permits, charges, .. } = self.batches.remove(&id).unwrap_or_default();
        Outgoing { line: (!answers.is_empty()).then(|| Encoder::array(answers)), permits, charges }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    fn id(id: i64) -> RequestId {
        RequestId::Number(id)
    }

    fn answer(json: &str) -> ChargedReply {
        ChargedReply::uncharged(json.as_bytes().to_vec())
    }

    #[test]
    fn the_answers_of_a_batch_go_out_with_the_last_of_them() {
        let permits = Arc::new(Semaphore::new(4));
        let permit = || permits.clone().try_acquire_owned().unwrap();
        let taken = InFlight::default();
        assert_eq!(taken.begin_batch(0), None, "notifications alone have no answer");
        let batch = taken.begin_batch(3);
        taken.insert(id(1), permit(), batch);
        taken.insert(id(2), permit(), batch);
        taken.insert(id(9), permit(), None);
        assert!(taken.reject(batch, b"refused".to_vec(), permit()).line.is_none());
        assert_eq!(taken.complete(&id(9), answer("nine")).line.unwrap().into_vec(), b"nine");
        assert!(taken.complete(&id(1), answer("one")).line.is_none());
        assert_eq!(permits.available_permits(), 1, "what is kept in memory counts");
        let due = taken.cancel(&id(2));
        assert_eq!(due.line.unwrap().into_vec(), b"[refused,one]");
        drop(due.permits);
        assert_eq!(permits.available_permits(), 4);
    }

    #[test]
    fn a_batch_whose_requests_are_all_cancelled_has_no_answer() {
        let permits = Arc::new(Semaphore::new(1));
        let taken = InFlight::default();
        let batch = taken.begin_batch(1);
        let cancelled = taken.insert(id(1), permits.clone().try_acquire_owned().unwrap(), batch);
        assert!(taken.contains(&id(1)) && !cancelled.is_cancelled());
        let due = taken.cancel(&id(1));
        assert!(due.line.is_none() && !taken.contains(&id(1)) && cancelled.is_cancelled());
        assert!(taken.complete(&id(1), answer("late")).line.is_none());
        assert!(taken.cancel(&id(1)).permits.is_empty());
    }
}
