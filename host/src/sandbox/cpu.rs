//! Processor time that the host uses for a call beside its guest: in tasks of their own, such as those that receive HTTP
//! responses.
//!
//! It is a part of the call's `limits.cpu`: the call's clock adds it to the time of the guest (`engine::cpu`), and the tasks end when it
//! alone exceeds the limit, also while the guest waits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::time::thread_cpu_time;

/// The processor time that tasks of a call have used.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskCpu(Arc<AtomicU64>);

impl TaskCpu {
    /// The time of all tasks together.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn add(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The processor time that tasks of a call may use.
#[derive(Clone, Debug)]
pub(crate) struct TaskCpuBudget {
    used: TaskCpu,
    limit: Duration,
}

impl TaskCpuBudget {
    /// A budget of `limit` for the tasks that add to `used`.
    pub(crate) fn new(used: TaskCpu, limit: Duration) -> Self {
        Self { used, limit }
    }

    fn is_used_up(&self) -> bool {
        self.used.total() > self.limit
    }
}

/// The tasks of a call have used up its processor time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutOfCpu;

/// A future of a task, whose processor time counts for its call.
pub(crate) struct CountedTask<F: ?Sized> {
    budget: TaskCpuBudget,
    future: Pin<Box<F>>,
}

impl<F: Future + ?Sized> CountedTask<F> {
    /// A future that ends with [`OutOfCpu`] when the budget is used up.
    pub(crate) fn new(budget: TaskCpuBudget, future: Pin<Box<F>>) -> Self {
        Self { budget, future }
    }
}

impl<F: Future + ?Sized> Future for CountedTask<F> {
    type Output = Result<F::Output, OutOfCpu>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.budget.is_used_up() {
            return Poll::Ready(Err(OutOfCpu));
        }
        let begun = thread_cpu_time();
        let polled = self.future.as_mut().poll(context);
        self.budget.used.add(thread_cpu_time().saturating_sub(begun));
        polled.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_computes_ends_with_its_budget_and_one_that_waits_does_not() {
        let (used, limit) = (TaskCpu::default(), Duration::from_millis(20));
        let computes = async {
            for _ in 0..1_000_000 {
                let begun = thread_cpu_time();
                while thread_cpu_time() - begun < Duration::from_millis(2) {
                    std::hint::spin_loop();
                }
                tokio::task::yield_now().await;
            }
        };
        let waits = CountedTask::new(TaskCpuBudget::new(used.clone(), limit), Box::pin(tokio::time::sleep(limit * 3)));
        assert_eq!(waits.await, Ok(()));
        assert!(used.total() < limit, "{used:?}");
        let task = CountedTask::new(TaskCpuBudget::new(used.clone(), limit), Box::pin(computes));
        let ended: Result<(), OutOfCpu> = task.await;
        assert_eq!(ended, Err(OutOfCpu));
        assert!(used.total() > limit && used.total() < limit * 5, "{used:?}");
    }
}
