//! Times of a call outside of its own polls: processor time that the host uses for the call in addition to its guest,
//! and waits for resources that other calls hold.
//!
//! Tasks that receive HTTP responses and processes that run SQLite use processor time for a call. This time is a part
//! of the call's `limits.cpu`: the call's clock adds it to the guest's time (`engine::cpu`), and the tasks end when
//! their time alone exceeds the limit, even while the guest waits. The time for suspending the call is estimated
//! (`HAND_OFF`).
//!
//! A call that reaches its deadline because other calls held a connection or a database is not at fault. Therefore
//! these waits are counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mcp_host_base::time::thread_cpu_time;

/// The processor time for suspending a call and continuing it: waking a thread, parking one, the queue between them. No
/// clock of the call sees it, because it is outside of all polls, and most of it is the kernel's. Measured with guests
/// that repeat one operation of files or buckets: 20 to 25 µs on a loaded machine. The constant is lower, so that no
/// call pays more than it costs on a faster machine.
const HAND_OFF: Duration = Duration::from_micros(10);

/// The times of one call, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct HostTimes(Arc<Times>);

#[derive(Debug, Default)]
struct Times {
    cpu: AtomicU64,
    contention: AtomicU64,
}

impl HostTimes {
    /// The processor time of all tasks and processes together.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.0.cpu.load(Ordering::Relaxed))
    }

    /// Charges the processor time for suspending the call.
    pub fn charge_hand_off(&self) {
        add(&self.0.cpu, HAND_OFF);
    }

    /// The time for which the call waited for resources that other calls held.
    pub fn contention(&self) -> Duration {
        Duration::from_nanos(self.0.contention.load(Ordering::Relaxed))
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The processor time that the host may use for a call.
#[derive(Clone, Debug)]
pub struct HostCpuBudget {
    times: HostTimes,
    limit: Duration,
}

impl HostCpuBudget {
    /// A budget of `limit` for work whose time is added to `times`.
    pub fn new(times: HostTimes, limit: Duration) -> Self {
        Self { times, limit }
    }

    /// A budget for work that no call is charged for.
    pub(crate) fn unlimited() -> Self {
        Self::new(HostTimes::default(), Duration::MAX)
    }

    /// Charges used processor time.
    pub(crate) fn charge(&self, time: Duration) {
        add(&self.times.0.cpu, time);
    }

    /// Charges the processor time of this thread until the result is dropped.
    pub(crate) fn charge_thread(self) -> ChargedThread {
        ChargedThread { budget: self, before: thread_cpu_time() }
    }

    /// The remaining time. None if the budget is exhausted.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.limit.checked_sub(self.times.cpu())
    }

    /// Waits for a resource that other calls hold. A cancelled wait counts, too.
    pub(crate) async fn contend<F: Future>(&self, wait: F) -> F::Output {
        let _counted = ContentionGuard { times: &self.times, begun: Instant::now() };
        wait.await
    }
}

/// A thread whose processor time is charged to a call when this is dropped.
pub struct ChargedThread {
    budget: HostCpuBudget,
    before: Duration,
}

impl ChargedThread {
    /// The time that the thread has used so far.
    fn used(&self) -> Duration {
        thread_cpu_time().saturating_sub(self.before)
    }

    /// Whether the thread has used more than the remaining budget. The elapsed time is an upper bound of the used time,
    /// and is compared first because it needs no system call.
    pub fn is_used_up(&self, begun: Instant) -> bool {
        let left = self.budget.remaining().unwrap_or_default();
        begun.elapsed() > left && self.used() > left
    }
}

impl Drop for ChargedThread {
    fn drop(&mut self) {
        self.budget.charge(self.used());
    }
}

/// Counts a wait when it is dropped.
struct ContentionGuard<'a> {
    times: &'a HostTimes,
    begun: Instant,
}

impl Drop for ContentionGuard<'_> {
    fn drop(&mut self) {
        add(&self.times.0.contention, self.begun.elapsed());
    }
}

/// The call has exhausted its processor time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of CPU time")]
pub struct OutOfCpu;

/// The future of a task, whose processor time is charged to its call.
pub(crate) struct CountedTask<F: ?Sized> {
    budget: HostCpuBudget,
    future: Pin<Box<F>>,
}

impl<F: Future + ?Sized> CountedTask<F> {
    /// Wraps a future, which ends with [`OutOfCpu`] when the budget is exhausted.
    pub(crate) fn new(budget: HostCpuBudget, future: Pin<Box<F>>) -> Self {
        Self { budget, future }
    }
}

impl<F: Future + ?Sized> Future for CountedTask<F> {
    type Output = Result<F::Output, OutOfCpu>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.budget.remaining().is_none() {
            return Poll::Ready(Err(OutOfCpu));
        }
        let begun = thread_cpu_time();
        let polled = self.future.as_mut().poll(context);
        self.budget.charge(thread_cpu_time().saturating_sub(begun));
        polled.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_computes_ends_with_its_budget_and_one_that_waits_does_not() {
        let (used, limit) = (HostTimes::default(), Duration::from_millis(20));
        let computes = async {
            for _ in 0..1_000_000 {
                let begun = thread_cpu_time();
                while thread_cpu_time() - begun < Duration::from_millis(2) {
                    std::hint::spin_loop();
                }
                tokio::task::yield_now().await;
            }
        };
        let waits = CountedTask::new(HostCpuBudget::new(used.clone(), limit), Box::pin(tokio::time::sleep(limit * 3)));
        assert_eq!(waits.await, Ok(()));
        assert!(used.cpu() < limit, "{used:?}");
        let task = CountedTask::new(HostCpuBudget::new(used.clone(), limit), Box::pin(computes));
        let ended: Result<(), OutOfCpu> = task.await;
        assert_eq!(ended, Err(OutOfCpu));
        assert!(used.cpu() > limit && used.cpu() < limit * 5, "{used:?}");
    }

    #[tokio::test]
    async fn a_wait_for_others_is_counted_also_if_it_is_given_up() {
        let budget = HostCpuBudget::unlimited();
        let wait = budget.contend(std::future::pending::<()>());
        assert!(tokio::time::timeout(Duration::from_millis(30), wait).await.is_err());
        budget.contend(tokio::time::sleep(Duration::from_millis(30))).await;
        assert!(budget.times.contention() >= Duration::from_millis(60), "{budget:?}");
        assert_eq!(budget.times.cpu(), Duration::ZERO);
    }
}
