//! Bodies with an end: so many bytes, and until then.
//!
//! One that is larger or later ends with an error, so that nobody takes a part of it for the whole.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

use super::failure::Failure;
use super::{Http, Place, headers};
use crate::config::Origin;

/// The body of a request, of so many bytes at most.
pub(super) struct Sent {
    body: WasiBody,
    left: u64,
    most: u64,
}

impl Sent {
    pub(super) fn new(body: WasiBody, most: u64) -> Self {
        Self { body, left: most, most }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            self.left = self.left.checked_sub(length(&frame)).ok_or(Failure::RequestBody(self.most).code())?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What the body of a response is held to.
pub(super) struct Bounds {
    pub(super) http: Arc<Http>,
    pub(super) origin: Origin,
    /// When the exchange ends.
    pub(super) until: Instant,
    /// How long the guest waits for more.
    pub(super) pause: Option<Duration>,
    /// Kept for as long as more may come.
    pub(super) _place: Place,
}

/// The body of a response. Its place is free again after the last byte, or an error.
pub(super) struct Received(Option<Open>);

struct Open {
    incoming: Incoming,
    left: u64,
    end: Pin<Box<Sleep>>,
    /// Goes on while nothing comes.
    pause: Option<Pin<Box<Sleep>>>,
    bounds: Bounds,
}

impl Received {
    pub(super) fn new(incoming: Incoming, bounds: Bounds) -> Self {
        let left = bounds.http.limits.body.bytes();
        Self(Some(Open { incoming, left, end: Box::pin(sleep_until(bounds.until)), pause: None, bounds }))
    }
}

impl Open {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let limits = &self.bounds.http.limits;
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Failure::Time(limits.timeout.duration()))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) else {
            return self.poll_pause(context).map(|()| Some(Err(Failure::Pause)));
        };
        self.pause = None;
        Poll::Ready(frame.map(|frame| match frame {
            Ok(frame) => {
                let most = limits.body.bytes();
                self.left = self.left.checked_sub(length(&frame)).ok_or(Failure::ResponseBody(most))?;
                match frame.trailers_ref() {
                    Some(trailers) if headers::size(trailers) > limits.headers.bytes() => Err(Failure::ResponseHeaders),
                    _ => Ok(frame),
                }
            }
            // The connection is closed at the end of the time, which may be seen before the end of the time is.
            Err(_) if Instant::now() >= self.bounds.until => Err(Failure::Time(limits.timeout.duration())),
            Err(error) => Err(Failure::of(error)),
        }))
    }

    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(most) = self.bounds.pause else { return Poll::Pending };
        self.pause.get_or_insert_with(|| Box::pin(sleep(most))).as_mut().poll(context)
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(open) = &mut self.0 else { return Poll::Ready(None) };
        let frame = ready!(open.poll(context))
            .map(|frame| frame.map_err(|failure| open.bounds.http.refusals.note(Some(&open.bounds.origin), &failure)));
        if !matches!(frame, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|open| open.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), |open| open.incoming.size_hint())
    }
}

fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX))
}
