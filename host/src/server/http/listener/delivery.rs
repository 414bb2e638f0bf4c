//! An answer on its way to its client: whether any of it waits to be sent, and since when none of it has been.
//!
//! hyper takes the next piece of a body when there is room for it: over HTTP/2 one piece ahead of the client's window, over HTTP/1.1
//! a few while the system takes no more. Each piece is handed over as a [`TrackedChunk`], from which hyper takes the bytes that the client's
//! window or the system's send buffer has room for. So progress is seen to the byte, over both and through TLS, and whatever
//! stands in between (compression, streams of events). While hyper holds no piece there is nothing to be sent: a stream of events on
//! which nothing happens does not stall.
//!
//! What an answer is charged for ([`Charge`]) is released when its body and all of its pieces are gone.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use bytes::Buf;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::activity::RequestGuard;
use crate::server::budget::Charge;

/// An answer that is being sent.
#[derive(Debug)]
pub(super) struct Delivery {
    progress: Mutex<Progress>,
    /// Ends it.
    abort: OnceLock<CancellationToken>,
}

#[derive(Debug)]
struct Progress {
    /// The bytes that hyper holds.
    unsent: usize,
    /// When some of it was sent, or when there began to be something to send.
    last_progress: Instant,
}

/// What belongs to an answer until all of it is gone.
struct DeliveryGuard {
    delivery: Arc<Delivery>,
    _request_guard: RequestGuard,
    _charge: Option<Charge>,
}

/// The body of an answer.
pub(super) struct TrackedBody {
    body: Body,
    guard: Arc<DeliveryGuard>,
}

/// Some bytes of an answer that are to be sent.
pub(super) struct TrackedChunk {
    bytes: Bytes,
    guard: Arc<DeliveryGuard>,
}

impl Delivery {
    /// Nothing is to be sent yet.
    pub(super) fn new() -> Self {
        Self { progress: Mutex::new(Progress { unsent: 0, last_progress: Instant::now() }), abort: OnceLock::new() }
    }

    /// Says what ends it.
    pub(super) fn set_abort(&self, end: CancellationToken) {
        // It is said once.
        let _ = self.abort.set(end);
    }

    /// Whether something has been waiting to be sent for so long, and nothing was.
    pub(super) fn has_stalled(&self, limit: Duration) -> bool {
        let progress = self.progress();
        progress.unsent > 0 && progress.last_progress.elapsed() >= limit
    }

    /// Ends it.
    pub(super) fn abort(&self) {
        if let Some(end) = self.abort.get() {
            end.cancel();
        }
    }

    fn add_unsent(&self, bytes: usize) {
        let mut progress = self.progress();
        if progress.unsent == 0 {
            progress.last_progress = Instant::now();
        }
        progress.unsent = progress.unsent.saturating_add(bytes);
    }

    fn mark_sent(&self, bytes: usize) {
        let mut progress = self.progress();
        progress.unsent = progress.unsent.saturating_sub(bytes);
        progress.last_progress = Instant::now();
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrackedBody {
    /// That body, whose progress is followed. The others are dropped when all of it is gone.
    pub(super) fn new(body: Body, delivery: Arc<Delivery>, busy: RequestGuard, charge: Option<Charge>) -> Self {
        Self { body, guard: Arc::new(DeliveryGuard { delivery, _request_guard: busy, _charge: charge }) }
    }
}

impl std::fmt::Debug for TrackedChunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrackedChunk").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl HttpBody for TrackedBody {
    type Data = TrackedChunk;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let piece = |bytes: Bytes| {
            self.guard.delivery.add_unsent(bytes.len());
            TrackedChunk { bytes, guard: self.guard.clone() }
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for TrackedChunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.guard.delivery.mark_sent(count);
    }
}

impl Drop for TrackedChunk {
    fn drop(&mut self) {
        // What is given up is not sent, and does not wait any more.
        if !self.bytes.is_empty() {
            self.guard.delivery.mark_sent(self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::super::activity::Activity;
    use super::*;

    fn tracked(body: Body) -> (TrackedBody, Arc<Delivery>) {
        let delivery = Arc::new(Delivery::new());
        let busy = Activity::new().begin(delivery.clone());
        (TrackedBody::new(body, delivery.clone(), busy, None), delivery)
    }

    #[tokio::test]
    async fn only_what_is_to_be_sent_and_is_not_stalls() {
        let (mut body, delivery) = tracked(Body::from("four"));
        assert!(!delivery.has_stalled(Duration::ZERO), "nothing is to be sent yet");
        let mut piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(delivery.has_stalled(Duration::ZERO));
        piece.advance(3);
        assert!(delivery.has_stalled(Duration::ZERO));
        assert!(!delivery.has_stalled(Duration::from_secs(3600)), "some of it has just been sent");
        piece.advance(1);
        assert!(!delivery.has_stalled(Duration::ZERO), "everything is sent");
    }

    #[tokio::test]
    async fn what_is_given_up_does_not_wait() {
        let (mut body, delivery) = tracked(Body::from("four"));
        drop(body.frame().await);
        assert!(!delivery.has_stalled(Duration::ZERO));
    }
}
