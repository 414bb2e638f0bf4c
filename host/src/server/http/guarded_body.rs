//! A body with something that goes away with the last of it, or when it is given up.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// A body and what is dropped with it.
pub(super) struct GuardedBody<G> {
    body: Body,
    guard: Option<G>,
}

impl<G: Send + Unpin + 'static> GuardedBody<G> {
    /// That body, with that to be dropped when it is.
    pub(super) fn wrap(body: Body, guard: G) -> Body {
        Body::new(Self { body, guard: Some(guard) })
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
        // Before the client can know that it was the last.
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
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
