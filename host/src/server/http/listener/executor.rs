//! The tasks of HTTP/2: one for each stream, which can be ended alone.
//!
//! hyper starts a task for each stream and keeps to itself how it is reset. Dropping the task resets the stream, so each task is
//! started here with a token that ends it. What answers the request of a stream runs in its task, and finds the token by
//! [`stream_abort`].

use hyper::rt::Executor;
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    static STREAM_ABORT: CancellationToken;
}

/// Starts the task of each stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor;

/// What ends the stream that is being answered; none where there is one answer at a time (HTTP/1.1).
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
