//! The body of a response, which tracks its [`Delivery`].
//!
//! hyper polls for the next chunk of a body when there is room for it: over HTTP/2 one chunk ahead of the client's
//! window, over HTTP/1.1 a few chunks while the socket accepts no more bytes. Each chunk is a [`TrackedChunk`], from
//! which hyper takes the bytes that fit into the client's window or the socket's send buffer. So progress is tracked
//! to the byte, for both versions and through TLS, independently of the layers in between (compression, event
//! streams).
//!
//! The [`Charge`] of a response is released when its body and all of its chunks have been dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use bytes::Buf;
use http_body::{Frame, SizeHint};

use super::activity::RequestGuard;
use super::delivery::Delivery;
use crate::budget::Charge;
use crate::server_metrics::{ServerMetrics, Transport};

/// The guards of a response, held until all of it has been dropped.
struct DeliveryGuard {
    delivery: Arc<Delivery>,
    /// Counts the sent bytes.
    metrics: Arc<ServerMetrics>,
    _request_guard: RequestGuard,
    _charge: Option<Charge>,
}

/// The body of a response.
pub(super) struct TrackedBody {
    body: Body,
    guard: Arc<DeliveryGuard>,
}

/// A chunk of a response.
pub(super) struct TrackedChunk {
    bytes: Bytes,
    guard: Arc<DeliveryGuard>,
}

impl TrackedBody {
    /// Wraps a body to track its progress. The guards are dropped with the last chunk.
    pub(super) fn new(
        body: Body,
        delivery: Arc<Delivery>,
        busy: RequestGuard,
        charge: Option<Charge>,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        Self { body, guard: Arc::new(DeliveryGuard { delivery, metrics, _request_guard: busy, _charge: charge }) }
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
        self.guard.metrics.record_sent(Transport::Http, count);
    }
}

impl Drop for TrackedChunk {
    fn drop(&mut self) {
        // Discarded bytes are no longer pending.
        if !self.bytes.is_empty() {
            self.guard.delivery.mark_sent(self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::super::activity::Activity;
    use super::*;

    fn tracked(body: Body) -> (TrackedBody, Arc<Delivery>) {
        let delivery = Arc::new(Delivery::new());
        let busy = Activity::new().begin(delivery.clone());
        (TrackedBody::new(body, delivery.clone(), busy, None, Arc::default()), delivery)
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
