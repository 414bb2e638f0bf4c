//! Changes since a token.

use std::time::Duration;

/// The changes since a token.
///
/// The token is opaque to the host, which stores it and passes it back as `since`: it stands for the present state of the
/// provider's data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeSet {
    /// The value of `since` for the next call. At most 65536 bytes.
    pub token: String,
    /// Those of the watched paths whose content or metadata changed, appeared or disappeared.
    pub changed: Vec<String>,
    /// Whether the default listing or the templates changed.
    pub listing_changed: bool,
    /// A hint when to poll next, which the host follows within bounds.
    pub poll_after: Option<Duration>,
}

impl ChangeSet {
    /// No changes, with the token of the present state.
    pub fn none(token: impl Into<String>) -> Self {
        Self { token: token.into(), changed: Vec::new(), listing_changed: false, poll_after: None }
    }

    /// All watched paths and the listing changed: the answer to an unknown token. A change too many costs a read; a change too
    /// few is never noticed.
    pub fn all(token: impl Into<String>, watched: &[String]) -> Self {
        Self { changed: watched.to_vec(), listing_changed: true, ..Self::none(token) }
    }

    /// Adds a watched path that changed.
    #[must_use]
    pub fn changed(mut self, path: impl Into<String>) -> Self {
        self.changed.push(path.into());
        self
    }

    /// Marks the listing or the templates as changed.
    #[must_use]
    pub fn listing_changed(mut self) -> Self {
        self.listing_changed = true;
        self
    }

    /// Sets the hint when to poll next.
    #[must_use]
    pub fn poll_after(mut self, after: Duration) -> Self {
        self.poll_after = Some(after);
        self
    }
}
