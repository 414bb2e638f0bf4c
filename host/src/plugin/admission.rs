//! Whether a call may begin: not faster than `limits.rate`, then a place of `limits.concurrency`, or one in the queue for it.
//!
//! A call that finds all places taken waits, in the order in which calls came, if fewer than `limits.queue` wait already, and
//! no longer than `limits.queue-timeout`, which also bounds the wait for an instance slot behind it ([`shares`](super::shares)).
//! What is refused costs next to nothing: no instance, no thread, no task. The host's own calls have no rate, and take no
//! client's place. They wait for an instance slot only, for [`HOST_WAIT`] at most: what clients are willing to wait is not for
//! them. Each kind of them is bounded where it is made: one trial of a plugin that keeps failing, one `describe`, one
//! `changes`, one page of a walk for its fingerprint, and three lookups for subscriptions at a time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::fault::Fault;
use crate::config::Limits;

/// How long a call of the host's own waits for an instance slot.
const HOST_WAIT: Duration = Duration::from_secs(10);

/// Whom a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A client.
    Client,
    /// The host itself, which makes few such calls at a time.
    Host,
}

/// Lets the calls of one plugin begin.
pub(super) struct Admission {
    rate: DefaultDirectRateLimiter,
    places: Arc<Semaphore>,
    queue: Semaphore,
    longest_queue: usize,
    wait: Duration,
}

/// A call's place, until it is dropped. The host's own calls have none.
pub(super) type Place = Option<OwnedSemaphorePermit>;

impl Admission {
    /// The admission to a plugin with those limits.
    pub(super) fn new(limits: &Limits) -> Self {
        let rate = u32::try_from(limits.rate.get()).unwrap_or(u32::MAX);
        Self {
            rate: RateLimiter::direct(Quota::per_second(NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN))),
            places: Arc::new(Semaphore::new(limits.concurrency.get())),
            queue: Semaphore::new(limits.queue.get()),
            longest_queue: limits.queue.get(),
            wait: limits.queue_timeout.duration(),
        }
    }

    /// Waits for a place, and then for what else the call needs, both within `limits.queue-timeout`.
    pub(super) async fn enter<T>(&self, turn: Turn, then: impl Future<Output = T>) -> Result<(Place, T), Fault> {
        if turn == Turn::Client {
            self.rate.check().map_err(|early| Fault::Rate(early.wait_time_from(DefaultClock::default().now())))?;
        }
        let both = async {
            let place = match turn {
                Turn::Client => Some(self.place().await?),
                Turn::Host => None,
            };
            Ok((place, then.await))
        };
        let wait = match turn {
            Turn::Client => self.wait,
            Turn::Host => HOST_WAIT,
        };
        timeout(wait, both).await.unwrap_or(Err(Fault::Busy(wait)))
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _in_queue = self.queue.try_acquire().map_err(|_| Fault::Queue(self.longest_queue))?;
        // Only a closed semaphore refuses, and this one is never closed.
        self.places.clone().acquire_owned().await.map_err(|_| Fault::Busy(Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(change: impl FnOnce(&mut Limits)) -> Admission {
        let mut limits = Limits::default();
        change(&mut limits);
        Admission::new(&limits)
    }

    async fn enter(admission: &Admission) -> Result<Place, Fault> {
        admission.enter(Turn::Client, async {}).await.map(|(place, ())| place)
    }

    #[tokio::test]
    async fn calls_that_come_too_fast_are_told_when_to_come_again() {
        let slow = admission(|limits| limits.rate = 1.try_into().unwrap());
        enter(&slow).await.unwrap();
        let Err(Fault::Rate(wait)) = enter(&slow).await else { panic!("refused for its rate") };
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1), "{wait:?}");
        assert!(slow.enter(Turn::Host, async {}).await.is_ok(), "the host's own calls have no rate");
    }

    #[tokio::test]
    async fn a_call_that_finds_the_queue_full_is_refused_at_once() {
        let narrow = Arc::new(admission(|limits| {
            limits.concurrency = 1.try_into().unwrap();
            limits.queue = 1.try_into().unwrap();
            limits.queue_timeout = "1m".parse().unwrap();
        }));
        let first = enter(&narrow).await.unwrap();
        let mut second = Box::pin(enter(&narrow));
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(enter(&narrow).await.unwrap_err(), Fault::Queue(1));
        assert!(narrow.enter(Turn::Host, async {}).await.is_ok(), "the host's own calls stand in no queue");
        drop(first);
        let second = second.await.unwrap();
        assert!(second.is_some());
        let third = Box::pin(enter(&narrow));
        drop(third);
        drop(second);
        enter(&narrow).await.unwrap();
    }

    #[tokio::test]
    async fn without_a_queue_a_call_needs_a_free_place() {
        let narrow = admission(|limits| {
            limits.concurrency = 1.try_into().unwrap();
            limits.queue = 0.try_into().unwrap();
        });
        let first = enter(&narrow).await.unwrap();
        assert_eq!(enter(&narrow).await.unwrap_err(), Fault::Queue(0));
        drop(first);
        enter(&narrow).await.unwrap();
    }

    #[tokio::test]
    async fn waiting_is_over_after_the_wait_whatever_is_waited_for() {
        let hurried = admission(|limits| limits.queue_timeout = "0s".parse().unwrap());
        let answer = hurried.enter(Turn::Client, std::future::pending::<()>()).await;
        assert_eq!(answer.err(), Some(Fault::Busy(Duration::ZERO)));
        enter(&hurried).await.unwrap();
    }
}
