//! The queue for compilers: how many run concurrently, and which compilation is next.
//!
//! A compilation for which somebody waits takes its turn in the order of arrival. One in the background runs only while
//! no other one waits: when one begins to wait, the compiler in the background is ended, and starts again later.
//!
//! Bounds: one compiler for each permit, of which at most one is in the background.

use std::future::Future;

use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

/// The permits for compilers.
pub(crate) struct CompileQueue {
    permits: Semaphore,
    /// One permit, for the work in the background.
    background: Semaphore,
    /// The number of compilations that wait for a permit, without the one in the background.
    waiting: watch::Sender<usize>,
}

/// A compilation that waits for a permit.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting = waiting.saturating_add(1));
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

impl CompileQueue {
    /// Creates a queue for this many concurrent compilers.
    pub(crate) fn new(compilers: usize) -> Self {
        Self { permits: Semaphore::new(compilers), background: Semaphore::new(1), waiting: watch::Sender::new(0) }
    }

    /// Waits for a permit, for a compilation that is not in the background. The semaphore is never closed, so there is
    /// always a permit.
    pub(crate) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(permit);
        }
        let _waiting = Waiting::begin(&self.waiting);
        self.permits.acquire().await.ok()
    }

    /// Runs a compilation in the background, with a permit, after all earlier ones in the background. When another
    /// compilation waits for a permit, this one is cancelled and dropped, and `compile` is called again later. The
    /// token of a call is a child of `cancelled`.
    pub(crate) async fn run_in_background<F: Future>(
        &self,
        cancelled: &CancellationToken,
        mut compile: impl FnMut(CancellationToken) -> F,
    ) -> F::Output {
        let _only = self.background.acquire().await;
        loop {
            self.wait_until(|waiting| waiting == 0).await;
            let attempt = cancelled.child_token();
            let compiling = async {
                let _permit = self.permits.acquire().await;
                compile(attempt.clone()).await
            };
            let interrupted = async {
                self.wait_until(|waiting| waiting > 0).await;
                // Before the future is dropped, which ends the compiler only if its token is cancelled.
                attempt.cancel();
            };
            tokio::select! {
                biased;
                () = interrupted => {}
                compiled = compiling => return compiled,
            }
        }
    }

    /// Waits until the number of waiting compilations meets a condition.
    async fn wait_until(&self, condition: impl Fn(usize) -> bool) {
        let mut waiting = self.waiting.subscribe();
        // The sender is not dropped while `self` is borrowed, so this does not fail.
        drop(waiting.wait_for(|waiting| condition(*waiting)).await);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::pending;
    use std::pin::pin;

    use futures::poll;

    use super::*;

    /// Compilations that never end.
    #[derive(Default)]
    struct Endless(RefCell<Vec<CancellationToken>>);

    impl Endless {
        async fn run(&self, queue: &CompileQueue) {
            let compile = |attempt: CancellationToken| async move {
                self.0.borrow_mut().push(attempt);
                pending::<()>().await;
            };
            queue.run_in_background(&CancellationToken::new(), compile).await;
        }

        /// Returns for each that has begun whether it was cancelled.
        fn cancelled(&self) -> Vec<bool> {
            self.0.borrow().iter().map(CancellationToken::is_cancelled).collect()
        }
    }

    #[tokio::test]
    async fn a_compiler_in_the_background_ends_when_another_compilation_waits_and_starts_again_later() {
        let (queue, endless) = (CompileQueue::new(1), Endless::default());
        let mut background = pin!(endless.run(&queue));
        assert!(poll!(background.as_mut()).is_pending());
        assert_eq!((endless.cancelled(), queue.permits.available_permits()), (vec![false], 0));

        let mut foreground = pin!(queue.permit());
        assert!(poll!(foreground.as_mut()).is_pending());
        assert!(poll!(background.as_mut()).is_pending());
        let permit = foreground.await;
        assert!(poll!(background.as_mut()).is_pending());
        assert_eq!((endless.cancelled(), permit.is_some()), (vec![true], true));

        drop(permit);
        assert!(poll!(background.as_mut()).is_pending());
        assert_eq!((endless.cancelled(), queue.permits.available_permits()), (vec![true, false], 0));
    }

    #[tokio::test]
    async fn a_compilation_does_not_wait_for_one_in_the_background_that_waits_longer() {
        let (queue, endless) = (CompileQueue::new(1), Endless::default());
        let running = queue.permit().await;
        let mut background = pin!(endless.run(&queue));
        assert!(poll!(background.as_mut()).is_pending());
        let mut foreground = pin!(queue.permit());
        assert!(poll!(foreground.as_mut()).is_pending());
        // The permit goes to the one that waits longer, which passes it on.
        drop(running);
        assert!(poll!(background.as_mut()).is_pending());
        drop(foreground.await);
        assert!(endless.cancelled().is_empty());
        assert!(poll!(background.as_mut()).is_pending());
        assert_eq!(endless.cancelled(), [false]);
    }

    #[tokio::test]
    async fn a_compiler_in_the_background_is_the_only_one_and_does_not_end_without_need() {
        let (queue, endless) = (CompileQueue::new(3), Endless::default());
        let (mut first, mut second) = (pin!(endless.run(&queue)), pin!(endless.run(&queue)));
        assert!(poll!(first.as_mut()).is_pending() && poll!(second.as_mut()).is_pending());
        assert_eq!((endless.cancelled(), queue.permits.available_permits()), (vec![false], 2));
        let permits = (queue.permit().await, queue.permit().await);
        assert!(poll!(first.as_mut()).is_pending() && poll!(second.as_mut()).is_pending());
        assert_eq!((endless.cancelled(), queue.permits.available_permits()), (vec![false], 0));
        drop(permits);
    }

    #[tokio::test]
    async fn a_compilation_that_is_no_longer_wanted_is_cancelled() {
        let (queue, cancelled) = (CompileQueue::new(1), CancellationToken::new());
        cancelled.cancel();
        let compile = |attempt: CancellationToken| async move { attempt.is_cancelled() };
        assert!(queue.run_in_background(&cancelled, compile).await);
    }
}
