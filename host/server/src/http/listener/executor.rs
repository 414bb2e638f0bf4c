//! The tasks of HTTP/2: one for each stream, which can be aborted separately.
//!
//! hyper spawns a task for each stream, and has no public way to reset one. Dropping the task resets the stream, so
//! each task is spawned here with a token that ends it. The handler of a stream's request runs in this task, and gets
//! the token from [`stream_abort`].

use hyper::rt::Executor;
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    static STREAM_ABORT: CancellationToken;
}

/// Spawns the task of each stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor;

/// Returns the token that aborts the current stream. None for HTTP/1.1, which has one response at a time.
pub(super) fn stream_abort() -> Option<CancellationToken> {
    STREAM_ABORT.try_with(CancellationToken::clone).ok()
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let end = CancellationToken::new();
        tokio::spawn(STREAM_ABORT.scope(end.clone(), async move { end.run_until_cancelled_owned(stream).await }));
    }
}
