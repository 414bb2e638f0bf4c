//! The origin of a call: a client, an indexer, or the host itself.

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOrigin {
    /// A client.
    Client,
    /// An indexer of search, in the queue of the clients and with a lower priority.
    #[cfg_attr(not(feature = "search"), allow(dead_code, reason = "there are indexers with search only"))]
    Indexer,
    /// The host itself, which makes few calls at a time.
    Host,
}
