//! A provider with paths that are edited, and for which it fails or is slow.
//!
//! Its tokens are strict: a token covers only the paths of its call. A change of any other path is not reported, as the
//! contract allows.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::member::Time;

/// One shard's part of the provider.
#[derive(Debug, Default)]
pub(super) struct Provider {
    /// The number of the last edit of each path.
    edited: Vec<u64>,
    edits: u64,
    /// The number of changes of the listing.
    listing: u64,
    tokens: Vec<Token>,
    /// The paths for which it fails.
    pub(super) bad: BTreeSet<u32>,
    /// The paths for which it takes longer.
    pub(super) slow: BTreeSet<u32>,
    /// Until when it fails for everything.
    pub(super) down_until: Time,
    /// The number of paths above which a call fails.
    pub(super) max_call: usize,
}

#[derive(Debug)]
struct Token {
    edits: u64,
    listing: u64,
    paths: Arc<[u32]>,
}

/// An answer: the positions of the changed paths in the call, whether the listing has changed, and the token.
pub(super) type Answer = (Vec<usize>, bool, String);

impl Provider {
    pub(super) fn new(paths: u32, max_call: usize) -> Self {
        Self { edited: vec![0; usize::try_from(paths).unwrap()], max_call, ..Self::default() }
    }

    pub(super) fn edit(&mut self, path: u32) {
        self.edits += 1;
        self.edited[usize::try_from(path).unwrap()] = self.edits;
    }

    pub(super) fn edit_listing(&mut self) {
        self.listing += 1;
    }

    pub(super) fn is_slow(&self, paths: &[u32]) -> bool {
        !self.slow.is_empty() && paths.iter().any(|path| self.slow.contains(path))
    }

    /// Answers `changes`; none if it fails.
    pub(super) fn changes(&mut self, now: Time, paths: &[u32], since: Option<&str>) -> Option<Answer> {
        let has_bad = !self.bad.is_empty() && paths.iter().any(|path| self.bad.contains(path));
        if now < self.down_until || paths.len() > self.max_call || has_bad {
            return None;
        }
        // An unknown token is no state.
        let since = since.and_then(|token| self.tokens.get(token.parse::<usize>().unwrap()));
        let edited = |path: &u32| self.edited[usize::try_from(*path).unwrap()];
        let (mut changed, mut has_listing_changed) = (Vec::new(), false);
        if let Some(since) = since {
            let is_changed = |path: &u32| edited(path) > since.edits && since.paths.contains(path);
            changed.extend(paths.iter().enumerate().filter(|(_, path)| is_changed(path)).map(|(place, _)| place));
            has_listing_changed = since.listing != self.listing;
        }
        let known = since.filter(|since| *since.paths == *paths).map(|since| since.paths.clone());
        let paths = known.unwrap_or_else(|| paths.into());
        let token = self.tokens.len().to_string();
        self.tokens.push(Token { edits: self.edits, listing: self.listing, paths });
        Some((changed, has_listing_changed, token))
    }
}
