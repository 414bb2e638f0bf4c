//! The change set since a token.

use std::time::Duration;

/// The change set since a token.
///
/// The token is opaque to the host, which stores it and passes it back as `since`. It identifies the current state of
/// the provider's data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// The token to pass as `since` in the next call. At most 65536 bytes.
    pub token: String,
    /// The watched paths whose content or metadata changed, or that appeared or disappeared.
    pub changed: Vec<String>,
    /// Whether the default listing or the templates changed.
    pub listing_changed: bool,
    /// The recommended delay before the next poll.
    pub poll_after: Option<Duration>,
}

impl Changes {
    /// Returns a change set without changes, with `token` for the current state: the answer to the first call and to
    /// most later ones.
    pub fn none(token: impl Into<String>) -> Self {
        Self { token: token.into(), changed: Vec::new(), listing_changed: false, poll_after: None }
    }

    /// Reports every watched path and the listing as changed: the answer to an unknown token. A false positive costs
    /// one read; a false negative is never noticed.
    pub fn all(token: impl Into<String>, watched: &[String]) -> Self {
        Self { changed: watched.to_vec(), listing_changed: true, ..Self::none(token) }
    }

    /// Adds a changed path.
    pub fn changed(mut self, path: impl Into<String>) -> Self {
        self.changed.push(path.into());
        self
    }

    /// Marks the listing or the templates as changed.
    pub fn listing_changed(mut self) -> Self {
        self.listing_changed = true;
        self
    }

    /// Sets the recommended delay before the next poll.
    pub fn poll_after(mut self, after: Duration) -> Self {
        self.poll_after = Some(after);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_not_understood_is_answered_as_if_all_had_changed() {
        let watched = ["a".to_owned(), "b".to_owned()];
        let changes = Changes::all("t2", &watched);
        assert_eq!(changes.changed, watched);
        assert!(changes.listing_changed);
    }
}
