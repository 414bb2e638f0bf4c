//! The token: the state of each page, and the time of its next check.
//!
//! Paths and states are stored as hashes. Up to [`MAX_WATCHED`] pages have a state each. More pages share one state,
//! and when it differs, all of them are reported as changed.

use siphasher::sip::SipHasher;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The maximum number of watched pages with separate states, which keeps a token below 65536 bytes.
pub(crate) const MAX_WATCHED: usize = 1400;

/// The version prefix of a token.
const VERSION: &str = "h1";

/// A decoded token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// The state of the listing.
    pub(crate) listing: u64,
    pub(crate) watched: Watched,
}

/// The states of the watched pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The state of each page, by the hash of its path.
    Each(BTreeMap<u64, Watch>),
    /// One state for all pages.
    Together(Watch),
}

/// The state of one page, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) state: u64,
    /// The time of the next check, in seconds since 1970.
    pub(crate) next_check: u64,
}

impl Token {
    /// Parses a token of this version.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        if parts.next()? != VERSION {
            return None;
        }
        let listing = number(parts.next()?)?;
        let watched = match (parts.next()?, parts.next()?) {
            ("each", "") => Watched::Each(BTreeMap::new()),
            ("each", pages) => {
                let page =
                    |page: &str| page.split_once(':').and_then(|(path, rest)| Some((number(path)?, watch(rest)?)));
                Watched::Each(pages.split(',').map(page).collect::<Option<_>>()?)
            }
            ("all", all) => Watched::Together(watch(all)?),
            _ => return None,
        };
        parts.next().is_none().then_some(Self { listing, watched })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{VERSION}.{:x}.", self.listing)?;
        match &self.watched {
            Watched::Each(each) => {
                let page = |(path, watch): (&u64, &Watch)| format!("{path:x}:{:x}:{:x}", watch.state, watch.next_check);
                write!(f, "each.{}", each.iter().map(page).collect::<Vec<_>>().join(","))
            }
            Watched::Together(watch) => write!(f, "all.{:x}:{:x}", watch.state, watch.next_check),
        }
    }
}

/// Returns a hash of texts, the same in every build.
pub(crate) fn hash(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> u64 {
    let mut hasher = SipHasher::new();
    for part in parts {
        hasher.write(part.as_ref());
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

fn watch(text: &str) -> Option<Watch> {
    let (state, next) = text.split_once(':')?;
    Some(Watch { state: number(state)?, next_check: number(next)? })
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: u64 = 253_370_764_800;

    #[test]
    fn a_token_comes_back_as_it_was() {
        let watch = Watch { state: u64::MAX, next_check: LAST };
        let each = [(1, watch), (u64::MAX, Watch { state: 0, next_check: 0 })].into_iter().collect();
        for watched in [Watched::Each(BTreeMap::new()), Watched::Each(each), Watched::Together(watch)] {
            let token = Token { listing: u64::MAX, watched };
            assert_eq!(Token::parse(&token.to_string()), Some(token));
        }
    }

    #[test]
    fn the_longest_token_is_one_that_the_host_keeps() {
        let count = u64::try_from(MAX_WATCHED).unwrap();
        let each = (0..count).map(|n| (u64::MAX - n, Watch { state: u64::MAX, next_check: LAST })).collect();
        let token = Token { listing: u64::MAX, watched: Watched::Each(each) }.to_string();
        assert!(token.len() <= 65536, "{}", token.len());
    }

    #[test]
    fn a_token_of_somebody_else_is_not_understood() {
        for token in
            ["", "h1", "h0.1.each.", "h1.x.each.", "h1.1.each.1:1", "h1.1.all.1", "h1.1.some.1:1", "h1.1.all.1:1.1"]
        {
            assert_eq!(Token::parse(token), None, "{token}");
        }
    }
}
