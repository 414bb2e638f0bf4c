//! Change detection, with a token that contains hashes of the watched state.
//!
//! The token contains one hash for the default listing (the names, sizes and times of all files) and one for each
//! watched path: for a file its size and time, for a folder those of its direct files and the names of its subfolders;
//! a collection changes with any file. In a folder or listing with more than [`MAX_FINGERPRINTED`] files, the rest
//! contribute only their names: their creation and deletion is detected, and a modification only for watchers of that
//! file. So no file is opened. Up to [`MAX_WATCHED`] watched paths have a hash each; with more, there is one hash for
//! all, and when it differs, all of them are reported as changed. A path unknown to the token is reported as changed,
//! too. The hash function is the standard library's, which may differ between builds: then everything is reported as
//! changed once.

use crate::folder::{Folder, Item, ItemKind, Walk, WalkBudget};
use crate::route::Route;
use mcp_provider::{Changes, Result};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The maximum number of watched paths with a hash each, which keeps a token below 65536 bytes.
const MAX_WATCHED: usize = 1900;

/// The maximum number of files per folder whose metadata is read, which is much more expensive than reading names.
const MAX_FINGERPRINTED: usize = 10_000;

/// The version prefix of a token.
const VERSION: &str = "n1";

/// Returns what changed since a token.
pub(crate) fn changes(folder: &Folder, watched: &[String], since: Option<&str>) -> Result<Changes> {
    let now = Token::capture(folder, watched)?;
    let Some(since) = since else { return Ok(Changes::none(now.to_string())) };
    let Some(then) = Token::parse(since) else { return Ok(Changes::all(now.to_string(), watched)) };
    let mut changes = Changes::none(now.to_string());
    if then.listing != now.listing {
        changes = changes.listing_changed();
    }
    let same = |path: &String| match (&then.watched, &now.watched) {
        (Watched::Each(then), Watched::Each(now)) => {
            then.get(&hash(path)).is_some_and(|state| now.get(&hash(path)) == Some(state))
        }
        (Watched::Together(then), Watched::Together(now)) => then == now,
        _ => false,
    };
    changes.changed.extend(watched.iter().filter(|path| !same(path)).cloned());
    Ok(changes)
}

/// A decoded token.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    listing: u64,
    watched: Watched,
}

#[derive(Debug, PartialEq, Eq)]
enum Watched {
    /// The state of each path, by the hash of the path.
    Each(BTreeMap<u64, u64>),
    /// One state for all paths.
    Together(u64),
}

impl Token {
    fn capture(folder: &Folder, watched: &[String]) -> Result<Self> {
        let listing = hash_all(folder, folder.files("", "", WalkBudget::UNLIMITED)?)?;
        let state = |path: &String| state_of(folder, path, listing);
        let each: BTreeMap<u64, u64> = watched.iter().map(|path| (hash(path), state(path))).collect();
        let watched = if each.len() <= MAX_WATCHED { Watched::Each(each) } else { Watched::Together(hash(&each)) };
        Ok(Self { listing, watched })
    }

    fn parse(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        if parts.next()? != VERSION {
            return None;
        }
        let listing = number(parts.next()?)?;
        let watched = match (parts.next()?, parts.next()?) {
            ("each", "") => Watched::Each(BTreeMap::new()),
            ("each", pairs) => {
                let pair =
                    |pair: &str| pair.split_once(':').and_then(|(path, state)| Some((number(path)?, number(state)?)));
                Watched::Each(pairs.split(',').map(pair).collect::<Option<_>>()?)
            }
            ("all", state) => Watched::Together(number(state)?),
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
                let pairs: Vec<String> = each.iter().map(|(path, state)| format!("{path:x}:{state:x}")).collect();
                write!(f, "each.{}", pairs.join(","))
            }
            Watched::Together(state) => write!(f, "all.{state:x}"),
        }
    }
}

/// Returns the state of the resource at a path; one value for all that do not exist.
fn state_of(folder: &Folder, path: &str, listing: u64) -> u64 {
    let names = match Route::parse(path) {
        Ok(Route::Item(names)) => names,
        Ok(Route::Tags | Route::Tag(_) | Route::Languages | Route::Language(_)) => return listing,
        Err(_) => return 0,
    };
    let Ok(item) = folder.stat(&names) else { return 0 };
    match item.kind {
        ItemKind::File => hash(&fingerprint(item)),
        ItemKind::Folder => {
            let children = folder.children(&names, "", WalkBudget::UNLIMITED);
            children.and_then(|children| hash_all(folder, children)).unwrap_or_default()
        }
    }
}

/// Returns one hash for all items of a walk. The first [`MAX_FINGERPRINTED`] contribute sizes and times, the others
/// only names.
fn hash_all(folder: &Folder, mut walk: Walk<'_>) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut count = 0_usize;
    while let Some(names) = walk.next_path()? {
        count = count.saturating_add(1);
        if count <= MAX_FINGERPRINTED {
            folder.stat(&names).ok().map(fingerprint).hash(&mut hasher);
        } else {
            names.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// Returns the state of an item as seen in its parent. A folder contributes only its name: its content is tracked
/// separately.
fn fingerprint(item: Item) -> impl Hash {
    let state = (item.kind == ItemKind::File).then_some((item.size, item.modified));
    (item.names, item.kind, state)
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
        for watched in [Watched::Each(BTreeMap::new()), Watched::Each(each), Watched::Together(7)] {
            let state = Token { listing: u64::MAX, watched };
            assert_eq!(Token::parse(&state.to_string()), Some(state));
        }
    }

    #[test]
    fn the_longest_token_is_one_that_the_host_keeps() {
        let count = u64::try_from(MAX_WATCHED).unwrap();
        let each = (0..count).map(|n| (u64::MAX - n, u64::MAX)).collect();
        let token = Token { listing: u64::MAX, watched: Watched::Each(each) }.to_string();
        assert!(token.len() <= 65536, "{}", token.len());
    }

    #[test]
    fn a_token_of_somebody_else_is_not_understood() {
        for token in ["", "n1", "n0.1.each.", "n1.x.each.", "n1.1.each.1", "n1.1.all.", "n1.1.some.1", "n1.1.all.1.1"] {
            assert_eq!(Token::parse(token), None, "{token}");
        }
    }
}
