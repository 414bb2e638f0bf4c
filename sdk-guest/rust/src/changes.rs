//! What changed since a token.

use std::time::Duration;

/// What changed since a token.
///
/// The token is opaque to the host, which keeps it and hands it back as `since`: it stands for the state that the
/// provider's data are in now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// What to pass as `since` next time. At most 65536 bytes.
    pub token: String,
    /// Those of the watched paths whose content or metadata changed, appeared or went away.
    pub changed: Vec<String>,
    /// Whether the default listing or the templates are not what they were.
    pub listing_changed: bool,
    /// In how long it makes sense to ask again.
    pub poll_after: Option<Duration>,
}

impl Changes {
    /// Nothing changed, and `token` stands for now: the answer to the first question, and to most others.
    pub fn none(token: impl Into<String>) -> Self {
        Self { token: token.into(), changed: Vec::new(), listing_changed: false, poll_after: None }
    }

    /// All that is watched changed, and the listing too: the answer to a token that is not understood. A change too many
    /// costs a read; a change too few is never noticed.
    pub fn all(token: impl Into<String>, watched: &[String]) -> Self {
        Self { changed: watched.to_vec(), listing_changed: true, ..Self::none(token) }
    }

    /// One more watched path that changed.
    pub fn changed(mut self, path: impl Into<String>) -> Self {
        self.changed.push(path.into());
        self
    }

    /// The listing or the templates changed.
    pub fn listing_changed(mut self) -> Self {
        self.listing_changed = true;
        self
    }

    /// In how long it makes sense to ask again.
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
