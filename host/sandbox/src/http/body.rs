//! Bodies of requests and responses, bounded in size and time.
//!
//! A body that exceeds its limit or deadline ends with an error, so a truncated body is never mistaken for a complete
//! one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use mcp_host_model::net::Origin;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

use super::error::ExchangeError;
use super::record::ExchangeRecord;
use super::{ExchangePermit, OutboundHttp, headers};
use crate::host_calls;

/// A request's body, bounded by `limit` bytes.
pub(super) struct RequestBody {
    body: WasiBody,
    remaining: u64,
    limit: u64,
}

impl RequestBody {
    pub(super) fn new(body: WasiBody, limit: u64) -> Self {
        Self { body, remaining: limit, limit }
    }

    /// An empty request body.
    pub(super) fn empty() -> Self {
        Self::new(Empty::new().map_err(|never| match never {}).boxed_unsync(), 0)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            self.remaining = self
                .remaining
                .checked_sub(length(&frame))
                .ok_or(ExchangeError::RequestBodyTooLarge(self.limit).to_wasi())?;
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

/// The bounds of a response's body, and its guards.
pub(super) struct ExchangeContext {
    pub(super) http: Arc<OutboundHttp>,
    pub(super) origin: Origin,
    /// The deadline of the exchange.
    pub(super) deadline: Instant,
    /// The maximum pause between two chunks, as set by the guest.
    pub(super) between_bytes_timeout: Option<Duration>,
    /// Counts the exchange when the body ends.
    pub(super) record: ExchangeRecord,
    /// Held until the body ends.
    pub(super) _permit: ExchangePermit,
}

/// A response's body. Its permit is released after the last byte, or after an error.
pub(super) struct ResponseBody(Option<OpenBody>);

struct OpenBody {
    incoming: Incoming,
    remaining: u64,
    deadline: Pin<Box<Sleep>>,
    /// Runs while no data arrives.
    between_bytes_timer: Option<Pin<Box<Sleep>>>,
    exchange: ExchangeContext,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, exchange: ExchangeContext) -> Self {
        let remaining = exchange.http.limits.body.bytes();
        Self(Some(OpenBody {
            incoming,
            remaining,
            deadline: Box::pin(sleep_until(exchange.deadline)),
            between_bytes_timer: None,
            exchange,
        }))
    }
}

impl OpenBody {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let limits = &self.exchange.http.limits;
        if self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(ExchangeError::Timeout(limits.timeout.duration()))));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) else {
            return self.poll_between_bytes_timeout(context).map(|()| Some(Err(ExchangeError::BetweenBytesTimeout)));
        };
        self.between_bytes_timer = None;
        Poll::Ready(frame.map(|frame| match frame {
            Ok(frame) => {
                let most = limits.body.bytes();
                self.remaining =
                    self.remaining.checked_sub(length(&frame)).ok_or(ExchangeError::ResponseBodyTooLarge(most))?;
                match frame.trailers_ref() {
                    Some(trailers) if headers::size(trailers) > limits.headers.bytes() => {
                        Err(ExchangeError::ResponseHeadersTooLarge)
                    }
                    _ => Ok(frame),
                }
            }
            // The connection is closed at the deadline, which can be observed before the timer fires.
            Err(_) if Instant::now() >= self.exchange.deadline => {
                Err(ExchangeError::Timeout(limits.timeout.duration()))
            }
            Err(error) => Err(ExchangeError::from_hyper(error)),
        }))
    }

    fn poll_between_bytes_timeout(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(timeout) = self.exchange.between_bytes_timeout else { return Poll::Pending };
        self.between_bytes_timer.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(context)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(open) = &mut self.0 else { return Poll::Ready(None) };
        let frame = ready!(open.poll(context)).map(|frame| {
            frame.map_err(|failure| {
                open.exchange.record.failed(&failure);
                failure.log(Some(&open.exchange.origin), &open.exchange.http.warnings)
            })
        });
        match &frame {
            Some(Ok(frame)) => host_calls::transferred(frame.data_ref().map_or(0, Bytes::len)),
            _ => self.0 = None,
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
