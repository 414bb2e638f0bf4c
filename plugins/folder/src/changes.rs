//! Change detection, with a token that contains hashes of the watched state.
//!
//! The token contains one hash for the default listing and one for each watched path: for a file its size, its time of
//! modification and its time of status change, which also tells an edit that keeps the other two; for a folder those of
//! its direct files and the names of its subfolders; for the listing those of all files. A folder or listing with more
//! than [`MAX_FINGERPRINTED`] files has only the hash of its names: creation and deletion are detected, and a modification
//! only for watchers of that file. No file is opened, and no list of names is held. Up to [`MAX_WATCHED`] watched paths
//! have a hash each; with more, there is one hash for all, and when it differs, all of them are reported as changed. A path
//! unknown to the token is reported as changed, too. The hash function is the standard library's, which may differ
//! between builds: then everything is reported as changed once.

use crate::disk::FileKind;
use crate::survey::survey;
use crate::{Folder, Item, ItemKind};
use mcp_provider::{Changes, Result};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The maximum number of watched paths with a hash each, which keeps a token below 65536 bytes.
const MAX_WATCHED: usize = 1900;

/// The maximum number of files whose metadata is read, which is much more expensive than reading names.
const MAX_FINGERPRINTED: usize = 10_000;

/// What a watched path stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// The item with these names.
    Item(String),
    /// Something that may change with any file.
    AllFiles,
    /// Something whose state the provider knows: a hash of it, from [`state_hash`].
    State(u64),
    /// Nothing that can ever exist.
    Nothing,
}

/// The version prefix of a token.
const VERSION: &str = "n2";

/// Returns what changed since a token. `parse` says what a path stands for.
///
/// # Errors
///
/// The failures of the file system.
pub fn changes(
    folder: &Folder,
    watched: &[String],
    since: Option<&str>,
    parse: impl Fn(&str) -> Watched,
) -> Result<Changes> {
    let listing = hash_all(folder, "", true)?;
    let state = |path: &str| match parse(path) {
        Watched::Item(names) => state_of(folder, &names),
        Watched::AllFiles => listing,
        Watched::State(state) => state,
        Watched::Nothing => 0,
    };
    Ok(changes_of_states(listing, watched, since, state))
}

/// Returns what changed since a token, for a provider that knows all states: that of the listing and, by `state`, those
/// of paths, as hashes from [`state_hash`].
pub fn changes_of_states(
    listing: u64,
    watched: &[String],
    since: Option<&str>,
    state: impl Fn(&str) -> u64,
) -> Changes {
    let now = Token::new(listing, watched, state);
    let Some(since) = since else { return Changes::none(now.to_string()) };
    let Some(then) = Token::parse(since) else { return Changes::all(now.to_string(), watched) };
    let mut changes = Changes::none(now.to_string());
    if then.listing != now.listing {
        changes = changes.listing_changed();
    }
    let same = |path: &String| match (&then.watched, &now.watched) {
        (States::Each(then), States::Each(now)) => {
            then.get(&hash(path)).is_some_and(|state| now.get(&hash(path)) == Some(state))
        }
        (States::Together(then), States::Together(now)) => then == now,
        _ => false,
    };
    changes.changed.extend(watched.iter().filter(|path| !same(path)).cloned());
    changes
}

/// A decoded token.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    listing: u64,
    watched: States,
}

/// The states of the watched paths.
#[derive(Debug, PartialEq, Eq)]
enum States {
    /// The state of each path, by the hash of the path.
    Each(BTreeMap<u64, u64>),
    /// One state for all paths.
    Together(u64),
}

impl Token {
    fn new(listing: u64, watched: &[String], state: impl Fn(&str) -> u64) -> Self {
        let each: BTreeMap<u64, u64> = watched.iter().map(|path| (hash(path), state(path))).collect();
        let watched = if each.len() <= MAX_WATCHED { States::Each(each) } else { States::Together(hash(&each)) };
        Self { listing, watched }
    }

    fn parse(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        if parts.next()? != VERSION {
            return None;
        }
        let listing = number(parts.next()?)?;
        let watched = match (parts.next()?, parts.next()?) {
            ("each", "") => States::Each(BTreeMap::new()),
            ("each", pairs) => {
                let pair =
                    |pair: &str| pair.split_once(':').and_then(|(path, state)| Some((number(path)?, number(state)?)));
                States::Each(pairs.split(',').map(pair).collect::<Option<_>>()?)
            }
            ("all", state) => States::Together(number(state)?),
            _ => return None,
        };
        parts.next().is_none().then_some(Self { listing, watched })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{VERSION}.{:x}.", self.listing)?;
        match &self.watched {
            States::Each(each) => {
                let pairs: Vec<String> = each.iter().map(|(path, state)| format!("{path:x}:{state:x}")).collect();
                write!(f, "each.{}", pairs.join(","))
            }
            States::Together(state) => write!(f, "all.{state:x}"),
        }
    }
}

/// Returns the state of the item with these names; one value for all that do not exist.
fn state_of(folder: &Folder, names: &str) -> u64 {
    let Ok(item) = folder.find(names) else { return 0 };
    match item.kind {
        ItemKind::File => hash(&fingerprint(&item)),
        ItemKind::Folder => hash_all(folder, names, false).unwrap_or_default(),
    }
}

/// Returns one hash for the items in a folder, whatever their order.
fn hash_all(folder: &Folder, names: &str, is_deep: bool) -> Result<u64> {
    let (mut sum, mut count) = (0_u64, 0_u64);
    let mut first: Vec<String> = Vec::new();
    survey(folder, folder.place(names)?, is_deep, |names, kind| {
        count = count.saturating_add(1);
        sum = sum.wrapping_add(hash(&(names, kind == FileKind::Folder)));
        if first.len() <= MAX_FINGERPRINTED {
            first.push(names.to_owned());
        }
    })?;
    if first.len() <= MAX_FINGERPRINTED {
        for names in &first {
            // A link is followed. What cannot be found does not show in listings, either.
            let state = folder.find(names).ok().map(|item| hash(&fingerprint(&item)));
            sum = sum.wrapping_add(hash(&(names, state)));
        }
    }
    Ok(hash(&(sum, count)))
}

/// Returns the state of an item as seen in its parent. A folder contributes only its name: its content is tracked
/// separately.
fn fingerprint(item: &Item) -> impl Hash {
    let state = (item.kind == ItemKind::File).then_some((item.size, item.modified, item.changed));
    (item.found.names.clone(), item.kind, state)
}

/// Returns the hash of a state, for [`Watched::State`] and [`changes_of_states`].
pub fn state_hash(state: &(impl Hash + ?Sized)) -> u64 {
    hash(state)
}

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_for_its_state() {
        let each = [(1, u64::MAX), (u64::MAX, 2)].into_iter().collect();
        for watched in [States::Each(BTreeMap::new()), States::Each(each), States::Together(7)] {
            let state = Token { listing: u64::MAX, watched };
            assert_eq!(Token::parse(&state.to_string()), Some(state));
        }
    }

    #[test]
    fn the_longest_token_is_one_that_the_host_keeps() {
        let count = u64::try_from(MAX_WATCHED).unwrap();
        let each = (0..count).map(|n| (u64::MAX - n, u64::MAX)).collect();
        let token = Token { listing: u64::MAX, watched: States::Each(each) }.to_string();
        assert!(token.len() <= 65536, "{}", token.len());
    }

    #[test]
    fn a_token_of_somebody_else_is_not_understood() {
        for token in ["", "n2", "n0.1.each.", "n2.x.each.", "n2.1.each.1", "n2.1.all.", "n2.1.some.1", "n2.1.all.1.1"] {
            assert_eq!(Token::parse(token), None, "{token}");
        }
    }
}
