//! What can be done with a resource.

/// What a principal can do with a resource beside reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceCapabilities {
    /// Listing what is directly below it.
    pub list: bool,
    /// Subscribing to it.
    pub subscribe: bool,
}
