//! A body with a guard, which is dropped with it.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// A body and its guard.
pub(super) struct GuardedBody<G> {
    body: Body,
    guard: Option<G>,
    /// Whether the guard is dropped with the last frame, before the body is.
    until_last_frame: bool,
}

impl<G: Send + Unpin + 'static> GuardedBody<G> {
    /// Wraps a body with a guard that is dropped as soon as the last frame is taken: before the client can know that it
    /// was the last.
    pub(super) fn wrap(body: Body, guard: G) -> Body {
        Body::new(Self { body, guard: Some(guard), until_last_frame: true })
    }

    /// Wraps a body with a guard that is dropped when the body is.
    pub(super) fn until_dropped(body: Body, guard: G) -> Body {
        Body::new(Self { body, guard: Some(guard), until_last_frame: false })
    }
}

impl<G: Unpin> HttpBody for GuardedBody<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if self.until_last_frame && (matches!(frame, Poll::Ready(None)) || self.body.is_end_stream()) {
            self.guard = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
