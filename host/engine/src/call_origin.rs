//! The origin of a call: a client, an indexer, or the host itself.

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrigin {
    /// A client.
    Client,
    /// An indexer of search, in the queue of the clients and with a lower priority.
    Indexer,
    /// The host itself, which makes few calls at a time.
    Host,
    /// The host itself: the probe of the circuit breaker, in a fresh instance with memory that clients' calls have no part in.
    Probe,
}

impl CallOrigin {
    /// Whether the host makes the call for itself.
    pub(crate) fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::Probe)
    }
}
