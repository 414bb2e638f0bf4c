//! Admission control: a rate limit (`limits.rate`), a concurrency limit (`limits.concurrency`), and a bounded queue for
//! the latter.
//!
//! The concurrency limit is lowered to the number of instances whose initial memory fits into `limits.memory`. The
//! host's own calls count towards that number: a second, first-in-first-out semaphore has a permit for each instance
//! that fits, and every call acquires one, except probes and preparations, which have separate memory. Without this, a
//! client's only call could fail for lack of memory while the host polls.
//!
//! A call that exceeds the concurrency limit waits in a queue of at most `limits.queue` calls, for at most
//! `limits.queue-timeout`, which also bounds its subsequent wait for an instance slot ([`shares`](crate::shares)). Each
//! client has a share of the rate ([`fair_rate`](mcp_host_sandbox::fair_rate)), of the permits and of the queue
//! ([`fair_semaphore`](mcp_host_base::fair_semaphore)). Load shedding: calls beyond that are rejected immediately, at
//! little cost: no instance, no thread, no task.
//!
//! The host's own calls have no rate limit, and take no client's permit. They only wait for memory and an instance
//! slot, for at most [`HOST_WAIT`], independently of the clients' queue timeout. Their callers bound each kind: one
//! probe of a failing plugin, one `describe`, one `changes`, one `prepare`, one page of a walk for its fingerprint, and
//! five concurrent lookups for subscriptions. A third semaphore bounds all of them together. It is acquired before the
//! memory semaphore and has half as many permits, at least one: where only one instance fits, a client's call waits for
//! at most one of the host's.

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::fair_semaphore::NoPlace;
use mcp_host_config::limits::Limits;
use mcp_host_model::requester::{FairSemaphore, Permit, Requester};
use mcp_host_sandbox::fair_rate::FairRate;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::CallOrigin;
use crate::fault::Fault;

/// The timeout of the host's own calls, waiting for memory and an instance slot.
const HOST_WAIT: Duration = Duration::from_secs(10);

/// The admission control of one plugin.
pub(super) struct Admission {
    rate: FairRate,
    permits: FairSemaphore,
    /// One permit for each instance that fits into `limits.memory`.
    memory: Arc<Semaphore>,
    /// One permit for each of the host's own calls that holds, or waits for, a permit of `memory`.
    host_calls: Arc<Semaphore>,
    concurrency: usize,
    max_queued: usize,
    wait: Duration,
}

/// The permits of a call, released when it is dropped.
#[derive(Debug)]
pub(super) struct CallPermit {
    /// The concurrency permit; none for the host's own calls.
    _concurrency: Option<Permit>,
    /// The permit for the memory of an instance; none for probes and preparations.
    _memory: Option<OwnedSemaphorePermit>,
    /// The permit of one of the host's own calls; none for clients' calls, probes and preparations.
    _host_call: Option<OwnedSemaphorePermit>,
}

impl Admission {
    /// Creates the admission control of a plugin with these limits, whose instances initially take `initial_bytes`.
    /// `limits.concurrency` is lowered to the number of calls that fit into one client's share of `limits.memory`, but
    /// at least one: more calls would fail for lack of memory.
    pub(super) fn new(limits: &Limits, initial_bytes: u64) -> Self {
        let fitting = fitting(limits, initial_bytes);
        let concurrency = limits.concurrency.get().min(fitting);
        Self {
            rate: FairRate::new(limits.rate.quota()),
            permits: FairSemaphore::new(concurrency, limits.queue.get()),
            memory: Arc::new(Semaphore::new(fitting.min(Semaphore::MAX_PERMITS))),
            host_calls: Arc::new(Semaphore::new((fitting / 2).clamp(1, Semaphore::MAX_PERMITS))),
            concurrency,
            max_queued: limits.queue.get(),
            wait: limits.queue_timeout.duration(),
        }
    }

    /// Waits for a permit, and then for the other resources of this client's call, both within `limits.queue-timeout`.
    pub(super) async fn admit<T>(
        &self,
        origin: CallOrigin,
        requester: Option<&Requester>,
        acquire_instance: impl Future<Output = T>,
    ) -> Result<(CallPermit, T), Fault> {
        if !origin.is_host() {
            self.rate.take(requester).map_err(Fault::RateLimited)?;
        }
        let both = async {
            let concurrency = match origin {
                CallOrigin::Client | CallOrigin::Indexer => Some(self.acquire(requester).await?),
                CallOrigin::Host | CallOrigin::Probe | CallOrigin::Preparation => None,
            };
            let host_call = match origin {
                CallOrigin::Host => acquire(&self.host_calls).await,
                CallOrigin::Client | CallOrigin::Indexer | CallOrigin::Probe | CallOrigin::Preparation => None,
            };
            let memory = match origin {
                CallOrigin::Client | CallOrigin::Indexer | CallOrigin::Host => acquire(&self.memory).await,
                CallOrigin::Probe | CallOrigin::Preparation => None,
            };
            let permit = CallPermit { _concurrency: concurrency, _memory: memory, _host_call: host_call };
            Ok((permit, acquire_instance.await))
        };
        let wait = match origin {
            CallOrigin::Client | CallOrigin::Indexer => self.wait,
            CallOrigin::Host | CallOrigin::Probe | CallOrigin::Preparation => HOST_WAIT,
        };
        timeout(wait, both).await.unwrap_or(Err(Fault::QueueTimeout(wait)))
    }

    /// Returns the numbers of calls that hold a permit, and that wait for one.
    pub(super) fn calls(&self) -> (usize, usize) {
        self.permits.usage()
    }

    /// The number of permits.
    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    async fn acquire(&self, requester: Option<&Requester>) -> Result<Permit, Fault> {
        self.permits.acquire(requester.cloned()).await.map_err(|refused| match refused {
            NoPlace::Full => Fault::QueueFull(self.max_queued),
            NoPlace::Share(waiting) => Fault::QueueShare(waiting),
        })
    }
}

/// Waits for a permit. The semaphores of this module are never closed.
async fn acquire(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    semaphore.clone().acquire_owned().await.ok()
}

/// Returns how many instances fit into the share of one client, if they initially take `initial_bytes` each, and an
/// eighth more later.
fn fitting(limits: &Limits, initial_bytes: u64) -> usize {
    let needed = initial_bytes.saturating_add(initial_bytes / 8);
    let share = limits.memory.bytes().saturating_mul(7) / 8;
    let number = share.checked_div(needed).unwrap_or(u64::MAX);
    usize::try_from(number).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn admission(change: impl FnOnce(&mut Limits)) -> Admission {
        let mut limits = Limits::default();
        change(&mut limits);
        Admission::new(&limits, 0)
    }

    async fn admit(admission: &Admission) -> Result<CallPermit, Fault> {
        admission.admit(CallOrigin::Client, None, async {}).await.map(|(permit, ())| permit)
    }

    #[tokio::test]
    async fn calls_that_come_too_fast_are_told_when_to_come_again() {
        let slow = admission(|limits| limits.rate = "1/h".parse().unwrap());
        admit(&slow).await.unwrap();
        let Err(Fault::RateLimited(wait)) = admit(&slow).await else { panic!("refused for its rate") };
        assert!(wait > Duration::ZERO && wait <= Duration::from_hours(1), "{wait:?}");
        assert!(slow.admit(CallOrigin::Host, None, async {}).await.is_ok(), "the host's own calls have no rate");
    }

    #[tokio::test]
    async fn no_more_calls_run_at_once_than_fit_into_the_memory() {
        for (initial_mib, expected) in [(0, 8), (1, 8), (7, 7), (29, 1), (100, 1)] {
            let admission = Admission::new(&Limits::default(), initial_mib << 20);
            let mut permits = Vec::new();
            while let Some(Ok(permit)) = admit(&admission).now_or_never() {
                permits.push(permit);
            }
            assert_eq!(permits.len(), expected, "{initial_mib} MiB");
        }
    }

    #[tokio::test]
    async fn calls_of_clients_and_of_the_host_wait_for_the_memory_of_each_other() {
        let narrow = Admission::new(&Limits::default(), 30 << 20);
        for [first, second] in
            [[CallOrigin::Host, CallOrigin::Client], [CallOrigin::Client, CallOrigin::Host], [CallOrigin::Host; 2]]
        {
            let (running, ()) = narrow.admit(first, None, async {}).await.unwrap();
            let mut waiting = Box::pin(narrow.admit(second, None, async {}));
            assert!(futures::poll!(&mut waiting).is_pending(), "{first:?}, {second:?}: one instance fits");
            assert!(narrow.admit(CallOrigin::Probe, None, async {}).now_or_never().is_some(), "it has its own memory");
            drop(running);
            waiting.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_call_of_a_client_waits_for_one_call_of_the_host_at_most() {
        let narrow = Admission::new(&Limits::default(), 30 << 20);
        let (running, ()) = narrow.admit(CallOrigin::Host, None, async {}).await.unwrap();
        let mut host: Vec<_> = (0..6).map(|_| Box::pin(narrow.admit(CallOrigin::Host, None, async {}))).collect();
        for waiting in &mut host {
            assert!(futures::poll!(waiting).is_pending(), "one instance fits");
        }
        let mut client = Box::pin(narrow.admit(CallOrigin::Client, None, async {}));
        assert!(futures::poll!(&mut client).is_pending());
        drop(running);
        for waiting in &mut host {
            assert!(futures::poll!(waiting).is_pending(), "the client's call is first");
        }
        let running = client.await.unwrap();
        drop(running);
        for waiting in host {
            waiting.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_call_that_finds_the_queue_full_is_refused_at_once() {
        let narrow = Arc::new(admission(|limits| {
            limits.concurrency = 1.try_into().unwrap();
            limits.queue = 1.try_into().unwrap();
            limits.queue_timeout = "1m".parse().unwrap();
        }));
        let first = admit(&narrow).await.unwrap();
        let mut second = Box::pin(admit(&narrow));
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(admit(&narrow).await.unwrap_err(), Fault::QueueFull(1));
        assert!(narrow.admit(CallOrigin::Host, None, async {}).await.is_ok(), "the host's own calls stand in no queue");
        drop(first);
        let second = second.await.unwrap();
        assert!(second._concurrency.is_some());
        let third = Box::pin(admit(&narrow));
        drop(third);
        drop(second);
        admit(&narrow).await.unwrap();
    }

    #[tokio::test]
    async fn without_a_queue_a_call_needs_a_free_place() {
        let narrow = admission(|limits| {
            limits.concurrency = 1.try_into().unwrap();
            limits.queue = 0.try_into().unwrap();
        });
        let first = admit(&narrow).await.unwrap();
        assert_eq!(admit(&narrow).await.unwrap_err(), Fault::QueueFull(0));
        drop(first);
        admit(&narrow).await.unwrap();
    }

    #[tokio::test]
    async fn waiting_is_over_after_the_wait_whatever_is_waited_for() {
        let hurried = admission(|limits| limits.queue_timeout = "0s".parse().unwrap());
        let answer = hurried.admit(CallOrigin::Client, None, std::future::pending::<()>()).await;
        assert_eq!(answer.err(), Some(Fault::QueueTimeout(Duration::ZERO)));
        admit(&hurried).await.unwrap();
    }
}
