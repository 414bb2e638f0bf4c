//! Bulkheads for the host's own requests to an upstream: semaphores for subscriptions, and for reads of watched
//! resources.
//!
//! These requests belong to no client call. Requests that failed before have their own slots, so that resources that
//! never answer delay neither other requests nor reads. The transport has capacity for all slots besides
//! `limits.concurrency` ([`TOTAL`]).

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of concurrent first requests to subscribe.
const SUBSCRIBING: usize = 16;
/// The number of concurrent first reads.
const READING: usize = 4;
/// The number of concurrent requests of each kind that failed before.
const AGAIN: usize = 2;
/// The maximum number of concurrent requests of pages that are read ahead.
pub(crate) const READING_AHEAD: usize = 16;
/// The maximum number of the host's own concurrent requests to one upstream: of all kinds, and one for a stream.
pub(crate) const TOTAL: usize = SUBSCRIBING + READING + 2 * AGAIN + READING_AHEAD + 1;

/// The slots for one kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    first: Arc<Semaphore>,
    again: Arc<Semaphore>,
}

impl Slots {
    pub(crate) fn for_subscriptions() -> Self {
        Self::new(SUBSCRIBING)
    }

    pub(crate) fn for_readings() -> Self {
        Self::new(READING)
    }

    fn new(first: usize) -> Self {
        Self { first: Arc::new(Semaphore::new(first)), again: Arc::new(Semaphore::new(AGAIN)) }
    }

    /// Waits for a slot. `is_again` is whether the request failed before.
    pub(crate) async fn take(&self, is_again: bool) -> Option<OwnedSemaphorePermit> {
        let slots = if is_again { &self.again } else { &self.first };
        // The semaphore is never closed, so this never fails.
        slots.clone().acquire_owned().await.ok()
    }
}
