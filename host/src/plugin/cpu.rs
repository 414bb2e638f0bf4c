//! How long a guest has been computing: the time that its call was being polled.
//!
//! A call that waits, for a file or for its turn, is not polled, so waiting costs it nothing; what the host does for it
//! without waiting does. The guest itself is stopped by the engine's epoch, which has it look at this clock once a tick.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The guest has run for longer than its plugin's `limits.cpu`.
#[derive(Debug, thiserror::Error)]
#[error("out of CPU time")]
pub(super) struct OutOfCpu;

/// The clock of one call.
#[derive(Debug, Default)]
pub(super) struct CpuClock(Mutex<Reading>);

#[derive(Debug, Default)]
struct Reading {
    /// What earlier polls took.
    before: Duration,
    /// When the current poll began, while there is one.
    running: Option<Instant>,
}

impl CpuClock {
    /// How long the call has been computing so far.
    pub(super) fn used(&self) -> Duration {
        let reading = self.reading();
        let current = reading.running.map_or(Duration::ZERO, |began| began.elapsed());
        reading.before.saturating_add(current)
    }

    /// Whether the call has used more than that so far.
    pub(super) fn exceeds(&self, limit: Duration) -> bool {
        self.used() > limit
    }

    /// Runs a call on this clock.
    pub(super) async fn time<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        std::future::poll_fn(|context| {
            self.reading().running = Some(Instant::now());
            let polled = call.as_mut().poll(context);
            let used = self.used();
            *self.reading() = Reading { before: used, running: None };
            polled
        })
        .await
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn computing_counts_and_waiting_does_not() {
        let clock = CpuClock::default();
        let (computed, waited) = (Duration::from_millis(20), Duration::from_millis(500));
        let began = Instant::now();
        clock
            .time(async {
                compute(computed);
                tokio::time::sleep(waited).await;
                compute(computed);
            })
            .await;
        assert!(clock.used() >= computed * 2);
        assert!(clock.used() <= began.elapsed() - waited);
    }
}
