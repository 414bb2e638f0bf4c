//! The change set since a token.

use crate::Result;
use std::collections::HashSet;
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

    /// Compares the current state of the watched paths and of the listing with the state that the token identifies.
    ///
    /// `state` returns a text that identifies the state of a path, such as the size and modification time of its file;
    /// the text is empty if the resource does not exist. `listing` identifies the state of the listing. The token
    /// contains digests of both.
    ///
    /// # Errors
    ///
    /// The first error of `state`.
    pub fn compare(
        watched: &[String],
        since: Option<&str>,
        listing: &str,
        mut state: impl FnMut(&str) -> Result<String>,
    ) -> Result<Self> {
        let listing = digest(listing.as_bytes());
        let of = |path: &String| -> Result<String> { Ok(digest(path.as_bytes()) + &digest(state(path)?.as_bytes())) };
        let lines: Vec<_> = watched.iter().map(of).collect::<Result<_>>()?;
        let token = std::iter::once(&listing).chain(&lines).map(String::as_str).collect::<Vec<_>>().join("\n");
        let mut changes = Self::none(token);
        let Some(since) = since else { return Ok(changes) };
        let (then, known) = since.split_once('\n').unwrap_or((since, ""));
        let known: HashSet<_> = known.split('\n').collect();
        changes.listing_changed = then != listing;
        let changed = watched.iter().zip(&lines).filter(|(_, line)| !known.contains(line.as_str()));
        changes.changed = changed.map(|(path, _)| path.clone()).collect();
        Ok(changes)
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

/// A hash that is the same in every instance and every version: 64 bits of FNV-1a, in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_the_token_has_changed() {
        let watched = ["a", "b", "c"].map(str::to_owned);
        let state = |b: &'static str| move |path: &str| Ok(if path == "b" { b.to_owned() } else { String::new() });
        let start = Changes::compare(&watched, None, "1", state("1")).unwrap();
        assert_eq!((start.changed.len(), start.listing_changed), (0, false));
        let quiet = Changes::compare(&watched, Some(&start.token), "1", state("1")).unwrap();
        assert_eq!(quiet, start);
        let later = Changes::compare(&watched, Some(&start.token), "2", state("2")).unwrap();
        assert_eq!((later.changed.as_slice(), later.listing_changed), (["b".to_owned()].as_slice(), true));
        let foreign = Changes::compare(&watched, Some("?"), "1", state("1")).unwrap();
        assert_eq!((foreign.changed.len(), foreign.listing_changed), (3, true));
        assert!(Changes::compare(&watched, None, "", |_| Err(crate::Failure::NotFound)).is_err());
    }

    #[test]
    fn a_token_that_is_not_understood_is_answered_as_if_all_had_changed() {
        let watched = ["a".to_owned(), "b".to_owned()];
        let changes = Changes::all("t2", &watched);
        assert_eq!(changes.changed, watched);
        assert!(changes.listing_changed);
    }
}
