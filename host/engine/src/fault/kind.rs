//! Kinds of faults, for counting.

use std::fmt;

use super::Fault;

/// The kind of a fault. Negative answers (not found, invalid, denied) are not faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The provider reported that it was temporarily unavailable.
    Unavailable,
    /// The provider reported an internal failure.
    Internal,
    /// The guest trapped.
    Trap,
    /// A native provider panicked.
    Panic,
    /// Its answer broke the contract, as a whole or in a dropped part.
    Contract,
    /// A call exceeded its deadline (`limits.deadline`).
    Deadline,
    /// A call exceeded its CPU time (`limits.cpu`).
    Cpu,
    /// A call exceeded the memory budget (`limits.memory`).
    Memory,
    /// An answer was too large (`limits.response-size`).
    ResponseSize,
    /// An answer had too many items (`limits.response-items`).
    ResponseItems,
    /// A listing exceeded its bound (`limits.listing-items`), or had too many consecutive empty pages.
    ListingItems,
    /// A guest held too many handles (`limits.handles`).
    Handles,
    /// A guest requested too many random bytes at once (`limits.random-bytes`).
    RandomBytes,
    /// A call exceeded the rate limit (`limits.rate`).
    Rate,
    /// A call found the queue full (`limits.queue`).
    Queue,
    /// A call got no permit in time (`limits.queue-timeout`).
    QueueTimeout,
    /// A call was rejected because the circuit breaker had suspended the plugin.
    Suspended,
    /// A request was rejected because the provider had failed with it, or with many requests of the same
    /// client.
    FaultyInput,
    /// A granted directory could not be opened.
    Grant,
    /// The host itself failed.
    Host,
}

impl FaultKind {
    /// All kinds, in the order of their numbers.
    pub(crate) const ALL: [Self; 20] = [
        Self::Unavailable,
        Self::Internal,
        Self::Trap,
        Self::Panic,
        Self::Contract,
        Self::Deadline,
        Self::Cpu,
        Self::Memory,
        Self::ResponseSize,
        Self::ResponseItems,
        Self::ListingItems,
        Self::Handles,
        Self::RandomBytes,
        Self::Rate,
        Self::Queue,
        Self::QueueTimeout,
        Self::Suspended,
        Self::FaultyInput,
        Self::Grant,
        Self::Host,
    ];

    /// Its name in logs and JSON. For a limit, this is the limit's key in `[plugin.limits]`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
            Self::Trap => "trap",
            Self::Panic => "panic",
            Self::Contract => "contract",
            Self::Deadline => "deadline",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::ResponseSize => "response-size",
            Self::ResponseItems => "response-items",
            Self::ListingItems => "listing-items",
            Self::Handles => "handles",
            Self::RandomBytes => "random-bytes",
            Self::Rate => "rate",
            Self::Queue => "queue",
            Self::QueueTimeout => "queue-timeout",
            Self::Suspended => "suspended",
            Self::FaultyInput => "faulty-input",
            Self::Grant => "grant",
            Self::Host => "host",
        }
    }

    /// Returns whether consecutive faults of this kind usually have the same text, so that their warning is throttled.
    pub(crate) fn is_throttled(self) -> bool {
        !matches!(self, Self::Unavailable | Self::Internal | Self::Trap | Self::Panic | Self::Contract | Self::Host)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Fault {
    /// The kind of the fault; none for a negative answer.
    pub fn kind(&self) -> Option<FaultKind> {
        Some(match self {
            Self::NotFound | Self::InvalidRequest(_) | Self::Denied(_) => return None,
            Self::Unavailable { .. } => FaultKind::Unavailable,
            Self::Internal(_) => FaultKind::Internal,
            Self::Suspended(_) => FaultKind::Suspended,
            Self::RateLimited(_) => FaultKind::Rate,
            Self::QueueFull(_) | Self::QueueShare(_) => FaultKind::Queue,
            Self::FaultyInput(_) | Self::FaultyInputs(_) => FaultKind::FaultyInput,
            Self::QueueTimeout(_) => FaultKind::QueueTimeout,
            Self::Deadline(_) | Self::Delayed(_) => FaultKind::Deadline,
            Self::Cpu(_) => FaultKind::Cpu,
            Self::Memory(_) | Self::MemoryInUse(_) => FaultKind::Memory,
            Self::ResponseSize(_) => FaultKind::ResponseSize,
            Self::ResponseItems { .. } => FaultKind::ResponseItems,
            Self::ListingItems(_) | Self::EmptyPages(_) => FaultKind::ListingItems,
            Self::Handles(_) => FaultKind::Handles,
            Self::RandomBytes(_) => FaultKind::RandomBytes,
            Self::Trap(_) => FaultKind::Trap,
            Self::Panicked(_) => FaultKind::Panic,
            Self::Contract(_) => FaultKind::Contract,
            Self::Grant(_) => FaultKind::Grant,
            Self::Host(_) => FaultKind::Host,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_in_their_order() {
        assert!(FaultKind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
    }
}
