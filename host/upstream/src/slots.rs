//! How many of the host's own requests are under way at an upstream: to subscribe, to read what is watched, and to read pages ahead.
//!
//! They are in no call of a client. A request that failed before has slots of its own, so that resources that never answer delay neither the
//! others nor reads: the transport has room for all slots beside `limits.concurrency` ([`TOTAL`]).

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The first requests to subscribe.
const SUBSCRIBING: usize = 16;
/// The first readings.
const READING: usize = 4;
/// Requests of either kind for what failed before.
const AGAIN: usize = 2;
/// The pages that are read ahead.
pub(crate) const READING_AHEAD: usize = 16;
/// The maximum number of the host's own requests to one upstream: of all kinds, and one for a stream.
pub(crate) const TOTAL: usize = SUBSCRIBING + READING + 2 * AGAIN + READING_AHEAD + 1;

/// The slots of one kind of requests.
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

    /// Waits for a slot, which is for what failed before or not.
    pub(crate) async fn take(&self, is_again: bool) -> Option<OwnedSemaphorePermit> {
        let slots = if is_again { &self.again } else { &self.first };
        // Nothing closes it.
        slots.clone().acquire_owned().await.ok()
    }
}
