//! The origin of a call: a client, or the host itself.

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOrigin {
    /// A client.
    Client,
    /// The host itself, which makes few calls at a time.
    Host,
}
