//! The stream below the client library: counts what is received and how often something is sent, and fails when that is
//! too much.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::endpoint::BoxedStream;
use crate::sandbox::memory::Reservation;

/// Bytes that a server may send while no query is under way: to connect, and notices.
const IDLE_BYTES: u64 = 256 << 10;

/// Requests of a query, of which the client library sends one or two for each type that it does not know yet. It looks
/// up a nested type by a nested call, so this bounds its stack.
const MAX_REQUESTS: u32 = 200;

/// What a connection may still receive.
pub(super) struct ByteMeter(Mutex<Allowance>);

struct Allowance {
    left: u64,
    /// The requests that may still be sent.
    requests: u32,
    /// Whether the last that happened was that bytes were received: what is sent next is another request.
    has_received: bool,
    /// The plugin's memory, to which received bytes are charged.
    memory: Option<Reservation>,
    exceeded: Option<Exceeded>,
}

/// The bound that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// The bytes of a result.
    Bytes,
    /// The memory of the plugin.
    Memory,
    /// The requests that types take.
    Requests,
}

impl Allowance {
    fn new(left: u64, memory: Option<Reservation>) -> Self {
        Self { left, requests: MAX_REQUESTS, has_received: false, memory, exceeded: None }
    }
}

impl ByteMeter {
    /// A meter for a connection without a query.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Allowance::new(IDLE_BYTES, None))))
    }

    /// Allows a query to receive that many bytes.
    pub(super) fn allow(&self, bytes: u64, memory: Reservation) {
        *self.0.lock() = Allowance::new(bytes.saturating_add(IDLE_BYTES), Some(memory));
    }

    /// Ends the query, and releases its memory.
    pub(super) fn settle(&self) {
        let mut allowance = self.0.lock();
        (allowance.left, allowance.requests, allowance.memory) = (IDLE_BYTES, MAX_REQUESTS, None);
    }

    /// Returns the bound that was exceeded, if one was.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        self.0.lock().exceeded
    }

    /// Counts a request: what is sent after something was received.
    fn record_sent(&self) -> io::Result<()> {
        let mut allowance = self.0.lock();
        if !std::mem::take(&mut allowance.has_received) {
            return Ok(());
        }
        match allowance.requests.checked_sub(1) {
            Some(left) => {
                allowance.requests = left;
                Ok(())
            }
            None => {
                allowance.has_received = true;
                allowance.exceeded = Some(Exceeded::Requests);
                Err(io::Error::other("the types of a result take more requests than are allowed"))
            }
        }
    }

    fn record(&self, bytes: usize) -> io::Result<()> {
        let mut allowance = self.0.lock();
        allowance.has_received = true;
        let left = allowance.left.checked_sub(bytes as u64);
        let is_charged = allowance.memory.as_mut().is_none_or(|memory| {
            let held = memory.bytes().saturating_add(bytes);
            memory.try_resize(held)
        });
        allowance.left = left.unwrap_or(0);
        allowance.exceeded = match (left, is_charged) {
            (Some(_), true) => return Ok(()),
            (None, _) => Some(Exceeded::Bytes),
            (Some(_), false) => Some(Exceeded::Memory),
        };
        Err(io::Error::other("the server sent more than a result can have"))
    }
}

/// A stream that a meter counts.
pub(super) struct MeteredStream {
    stream: BoxedStream,
    meter: Arc<ByteMeter>,
}

impl MeteredStream {
    pub(super) fn new(stream: BoxedStream, meter: Arc<ByteMeter>) -> Self {
        Self { stream, meter }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.meter.record(buffer.filled().len().saturating_sub(before)))
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.meter.record_sent()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::memory::MemoryBudget;

    #[test]
    fn a_query_receives_what_it_is_allowed_to_and_what_a_connection_needs() {
        let (meter, budget) = (ByteMeter::new(), MemoryBudget::new(1 << 30, None));
        meter.allow(1000, budget.try_reserve(0).unwrap());
        assert!(meter.record(1000 + (256 << 10)).is_ok() && meter.exceeded().is_none());
        assert!(meter.record(1).is_err());
        assert_eq!(meter.exceeded(), Some(Exceeded::Bytes));
    }

    #[test]
    fn a_query_has_a_maximum_of_requests_however_they_are_cut_up() {
        let (meter, budget) = (ByteMeter::new(), MemoryBudget::new(1 << 30, None));
        meter.allow(1 << 20, budget.try_reserve(0).unwrap());
        for _ in 0..MAX_REQUESTS {
            assert!(meter.record(1).is_ok() && meter.record_sent().is_ok() && meter.record_sent().is_ok());
        }
        assert!(meter.record(1).is_ok() && meter.exceeded().is_none());
        assert!(meter.record_sent().is_err() && meter.record_sent().is_err());
        assert_eq!(meter.exceeded(), Some(Exceeded::Requests));
        meter.allow(1 << 20, budget.try_reserve(0).unwrap());
        assert!(meter.record(1).is_ok() && meter.record_sent().is_ok());
    }

    #[test]
    fn what_is_received_is_charged_until_the_query_ends() {
        let (meter, budget) = (ByteMeter::new(), MemoryBudget::new(1000, None));
        meter.allow(1 << 20, budget.try_reserve(0).unwrap());
        assert!(meter.record(900).is_ok());
        assert!(budget.try_reserve(200).is_none());
        assert!(meter.record(200).is_err());
        assert_eq!(meter.exceeded(), Some(Exceeded::Memory));
        meter.settle();
        assert!(budget.try_reserve(1000).is_some());
    }
}
