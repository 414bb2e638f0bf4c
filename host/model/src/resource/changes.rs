//! The changes that a provider reports.

use std::time::Duration;

use crate::uri::Path;

/// The changes of watched paths since a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedChanges {
    /// The token for the next call.
    pub token: String,
    /// The watched paths that changed, each once.
    pub changed: Vec<Path>,
    /// Whether the listing changed.
    pub listing_changed: bool,
    /// The provider's hint for the time of the next poll.
    pub poll_after: Option<Duration>,
}
