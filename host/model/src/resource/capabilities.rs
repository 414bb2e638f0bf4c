//! Operations that a resource supports.

/// The operations that a resource supports for a principal, in addition to reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceCapabilities {
    /// Listing its children.
    pub list: bool,
    /// Subscribing to it.
    pub subscribe: bool,
}
