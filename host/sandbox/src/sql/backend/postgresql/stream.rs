//! The stream below the client library: counts received bytes and sent requests, and fails beyond their limits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::endpoint::ServerStream;
use crate::counted_stream::{CountedStream, StreamCounter};
use crate::cpu::HostCpuBudget;
use crate::memory::Reservation;

/// The maximum number of bytes that a server may send while no query is in progress: to connect, and notices.
const IDLE_BYTES: u64 = 256 << 10;

/// The maximum number of requests of a query. The client library sends one or two for each unknown type, and looks up a
/// nested type by a nested call, so this limit bounds its stack.
const MAX_REQUESTS: u32 = 200;

/// The remaining allowance of a connection.
pub(super) struct ByteMeter(Mutex<Allowance>);

struct Allowance {
    left: u64,
    /// The number of requests that may still be sent.
    requests: u32,
    /// Whether the last event was the receipt of bytes, so that the next send is another request.
    has_received: bool,
    /// The plugin's memory, to which received bytes are charged.
    memory: Option<Reservation>,
    /// The call to which the processor time of the connection is charged.
    cpu: Option<HostCpuBudget>,
    exceeded: Option<Exceeded>,
}

/// The bound that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// The bytes of a result.
    Bytes,
    /// The memory of the plugin.
    Memory,
    /// The requests for looking up types.
    Requests,
}

impl Allowance {
    fn new(left: u64, memory: Option<Reservation>, cpu: Option<HostCpuBudget>) -> Self {
        Self { left, requests: MAX_REQUESTS, has_received: false, memory, cpu, exceeded: None }
    }
}

impl ByteMeter {
    /// Creates a meter for a connection without a query.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Allowance::new(IDLE_BYTES, None, None))))
    }

    /// Allows a query to receive `bytes` bytes. They are charged to this memory, and the connection's time to this
    /// budget.
    pub(super) fn allow(&self, bytes: u64, memory: Reservation, cpu: HostCpuBudget) {
        *self.0.lock() = Allowance::new(bytes.saturating_add(IDLE_BYTES), Some(memory), Some(cpu));
    }

    /// Charges processor time of the connection to the query, if one is in progress.
    pub(super) fn charge_cpu(&self, time: Duration) {
        if let Some(cpu) = &self.0.lock().cpu {
            cpu.charge(time);
        }
    }

    /// Ends the query: releases its memory, and charges nothing more to its call.
    pub(super) fn settle(&self) {
        let mut allowance = self.0.lock();
        (allowance.left, allowance.requests) = (IDLE_BYTES, MAX_REQUESTS);
        (allowance.memory, allowance.cpu) = (None, None);
    }

    /// Returns the bound that was exceeded, if one was.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        self.0.lock().exceeded
    }
}

impl StreamCounter for ByteMeter {
    /// Counts a request: a send after a receipt.
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

    fn record_received(&self, bytes: usize) -> io::Result<()> {
        let mut allowance = self.0.lock();
        allowance.has_received = true;
        let left = allowance.left.checked_sub(bytes as u64);
        let is_charged = allowance.memory.as_mut().is_none_or(|memory| {
            let held = memory.bytes().saturating_add(bytes);
            memory.try_resize(held).is_ok()
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

/// A stream with a meter.
pub(super) type MeteredStream = CountedStream<ServerStream, ByteMeter>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::HostTimes;
    use crate::memory::{CallOwner, MemoryAccount, MemoryBudget};

    fn account(bytes: u64) -> Arc<MemoryAccount> {
        MemoryAccount::new(MemoryBudget::new(bytes, None), CallOwner::default())
    }

    #[test]
    fn a_query_receives_what_it_is_allowed_to_and_what_a_connection_needs() {
        let (meter, memory) = (ByteMeter::new(), account(1 << 30));
        meter.allow(1000, memory.reservation(), HostCpuBudget::unlimited());
        assert!(meter.record_received(1000 + (256 << 10)).is_ok() && meter.exceeded().is_none());
        assert!(meter.record_received(1).is_err());
        assert_eq!(meter.exceeded(), Some(Exceeded::Bytes));
    }

    #[test]
    fn a_query_has_a_maximum_of_requests_however_they_are_cut_up() {
        let (meter, memory) = (ByteMeter::new(), account(1 << 30));
        meter.allow(1 << 20, memory.reservation(), HostCpuBudget::unlimited());
        for _ in 0..MAX_REQUESTS {
            assert!(meter.record_received(1).is_ok() && meter.record_sent().is_ok() && meter.record_sent().is_ok());
        }
        assert!(meter.record_received(1).is_ok() && meter.exceeded().is_none());
        assert!(meter.record_sent().is_err() && meter.record_sent().is_err());
        assert_eq!(meter.exceeded(), Some(Exceeded::Requests));
        meter.allow(1 << 20, memory.reservation(), HostCpuBudget::unlimited());
        assert!(meter.record_received(1).is_ok() && meter.record_sent().is_ok());
    }

    #[test]
    fn what_is_received_is_charged_until_the_query_ends() {
        let (meter, memory) = (ByteMeter::new(), account(1000));
        meter.allow(1 << 20, memory.reservation(), HostCpuBudget::unlimited());
        assert!(meter.record_received(900).is_ok());
        assert!(memory.try_reserve(200).is_err());
        assert!(meter.record_received(200).is_err());
        assert_eq!(meter.exceeded(), Some(Exceeded::Memory));
        meter.settle();
        assert!(memory.try_reserve(1000).is_ok());
    }

    #[test]
    fn the_processor_time_of_a_connection_is_charged_to_the_query_in_progress() {
        let (meter, memory, times, time) =
            (ByteMeter::new(), account(1000), HostTimes::default(), Duration::from_millis(3));
        meter.charge_cpu(time);
        meter.allow(1 << 20, memory.reservation(), HostCpuBudget::new(times.clone(), Duration::MAX));
        meter.charge_cpu(time);
        meter.settle();
        meter.charge_cpu(time);
        assert_eq!(times.cpu(), time);
    }
}
