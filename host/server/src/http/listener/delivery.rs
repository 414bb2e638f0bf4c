//! The delivery of a response: its pending bytes, the time of the last progress, and what aborts it.
//!
//! While hyper holds no chunk of the [body](super::tracked_body), nothing is pending: an event stream without events
//! does not stall.
//!
//! Over HTTP/2, each stream can be aborted separately. hyper spawns a task for each stream, and has no public way to
//! reset one. Dropping the task resets the stream, so each task is spawned by [`StreamExecutor`] with a token that ends
//! it. The handler of a stream's request runs in this task, and gets the token from [`stream_abort`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A response that is being sent.
#[derive(Debug)]
pub(super) struct Delivery {
    progress: Mutex<Progress>,
    /// Aborts the response.
    abort: OnceLock<CancellationToken>,
    /// Whether the client may wait for the response after it has half-closed the connection.
    outlives_input: AtomicBool,
}

#[derive(Debug)]
struct Progress {
    /// The number of bytes that hyper holds.
    unsent: usize,
    /// The time when bytes were last sent, or when the first byte became pending.
    last_progress: Instant,
}

impl Delivery {
    /// Creates the delivery of a response without pending bytes, which a half-closed client may wait for.
    pub(super) fn new() -> Self {
        let progress = Mutex::new(Progress { unsent: 0, last_progress: Instant::now() });
        Self { progress, abort: OnceLock::new(), outlives_input: AtomicBool::new(true) }
    }

    /// Ends the response when its client half-closes the connection.
    pub(super) fn end_with_input(&self) {
        self.outlives_input.store(false, Ordering::Relaxed);
    }

    /// Returns whether the client may wait for the response after it has half-closed the connection.
    pub(super) fn outlives_input(&self) -> bool {
        self.outlives_input.load(Ordering::Relaxed)
    }

    /// Sets the token that aborts the response.
    pub(super) fn set_abort(&self, end: CancellationToken) {
        // Only the first token counts.
        let _ = self.abort.set(end);
    }

    /// Returns whether bytes of the response are being sent.
    pub(super) fn is_being_sent(&self) -> bool {
        self.progress().unsent > 0
    }

    /// Returns whether bytes have been pending for `limit` without any progress.
    pub(super) fn has_stalled(&self, limit: Duration) -> bool {
        let progress = self.progress();
        progress.unsent > 0 && progress.last_progress.elapsed() >= limit
    }

    /// Aborts the response.
    pub(super) fn abort(&self) {
        if let Some(end) = self.abort.get() {
            end.cancel();
        }
    }

    pub(super) fn add_unsent(&self, bytes: usize) {
        let mut progress = self.progress();
        if progress.unsent == 0 {
            progress.last_progress = Instant::now();
        }
        progress.unsent = progress.unsent.saturating_add(bytes);
    }

    pub(super) fn mark_sent(&self, bytes: usize) {
        let mut progress = self.progress();
        progress.unsent = progress.unsent.saturating_sub(bytes);
        progress.last_progress = Instant::now();
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}

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
