//! For whom a call is made.

/// Whom a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOrigin {
    /// A client.
    Client,
    /// The host itself, which makes few such calls at a time.
    Host,
}
