//! Change detection with tokens.
//!
//! A token contains a digest of all refs and, for each watched path, a digest of the object that the path resolves to.
//! A path has changed if it now resolves to another object or to no object. While the refs are unchanged, no name can
//! resolve to another object, so nothing is looked up. If the watched paths exceed the token's size limit, the token
//! contains one digest of all paths, and when it differs, all paths are reported as changed.

use crate::error::Result;
use crate::paths::Address;
use crate::repo::Repository;
use crate::rev::RevSpec;
use crate::settings::Settings;
use bstr::{BStr, BString};
use gix_hash::ObjectId;
use mcp_provider::Changes;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The version prefix of a token.
const VERSION: &str = "1";

/// The maximum number of paths with separate digests in a token. A token has at most 65536 bytes.
const MAX_PATHS: usize = 1900;

/// The maximum number of loose refs that are read to detect changes.
const MAX_LOOSE_REFS: usize = 2000;

/// A decoded token.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    refs: u64,
    listing: u64,
    paths: Paths,
}

/// The states of the watched paths.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Paths {
    /// A digest for each path, by the digest of the path.
    Each(HashMap<u64, u64>),
    /// One digest for all paths.
    All(u64),
}

/// The objects that a revision resolves to.
#[derive(Clone, Copy)]
struct Ids {
    /// The object itself, which may be a tag.
    id: ObjectId,
    /// The tree that it peels to.
    tree: ObjectId,
}

/// Returns which of the watched paths changed since a token, and whether the default listing changed.
pub(crate) fn changes(
    repository: &Repository,
    settings: &Settings,
    watched: &[String],
    since: Option<&str>,
) -> Result<Changes> {
    let before = since.map(Token::parse);
    let known = before.as_ref().and_then(Option::as_ref);
    let refs = repository.refs().digest()?;
    let same_refs = known.is_some_and(|known| known.refs == refs);
    let listing = match known {
        Some(known) if same_refs => known.listing,
        _ => digest(&listing_state(repository, settings)),
    };
    let mut revs = HashMap::new();
    let mut states = Vec::with_capacity(watched.len());
    for path in watched {
        let key = digest(path);
        let old = known.and_then(|known| known.paths.get(key));
        let state = match old {
            Some(old) if same_refs && depends_on_refs_only(path) => old,
            _ => digest(&state(repository, path, &mut revs)),
        };
        states.push((key, old, state));
    }
    let paths = match states.len() {
        0..=MAX_PATHS => Paths::Each(states.iter().map(|(key, _, state)| (*key, *state)).collect()),
        _ => Paths::All(digest(&states.iter().map(|(key, _, state)| (key, state)).collect::<Vec<_>>())),
    };
    let token = Token { refs, listing, paths };
    let text = token.to_string();
    Ok(match before {
        None => Changes::none(text),
        Some(None) => Changes::all(text, watched),
        Some(Some(known)) => {
            let changed = |old: &Option<u64>, state: &u64| match (&known.paths, old) {
                (Paths::All(_), _) => known.paths != token.paths,
                (_, Some(old)) => old != state,
                // Newly watched: its previous state is unknown, but it can have changed only if a ref did.
                (_, None) => !same_refs,
            };
            let changes =
                if known.listing == listing { Changes::none(text) } else { Changes::none(text).listing_changed() };
            let pairs = watched.iter().zip(&states);
            let changed = pairs.filter(|(_, (_, old, state))| changed(old, state)).map(|(path, _)| path);
            changed.fold(changes, |changes, path| changes.changed(path.as_str()))
        }
    })
}

/// Returns the state that the default listing depends on.
fn listing_state(repository: &Repository, settings: &Settings) -> String {
    match repository.default_tree(settings.default_rev().as_ref()) {
        Ok(tree) => tree.map(|tree| tree.to_string()).unwrap_or_default(),
        Err(error) => error.to_string(),
    }
}

/// Returns the state of a path. `revs` caches resolved revisions: most watched paths share a few.
fn state(repository: &Repository, path: &str, revs: &mut HashMap<BString, Result<Ids, String>>) -> String {
    let address = match Address::parse(path) {
        Ok(address) => address,
        Err(failure) => return failure.to_string(),
    };
    let mut ids_of = |rev: &BStr| {
        let known = revs.entry(rev.to_owned());
        known.or_insert_with(|| ids(repository, rev).map_err(|error| error.to_string())).clone()
    };
    let states = address.revs().map(|rev| match (&address, ids_of(rev)) {
        (_, Err(error)) => error,
        (
            Address::Blob { path, .. } | Address::Tree { path, .. } | Address::Diff { path: Some(path), .. },
            Ok(Ids { tree, .. }),
        ) => match repository.entry(tree, path.as_ref()) {
            Ok(entry) => entry.map(|entry| format!("{:o} {}", entry.mode, entry.id)).unwrap_or_default(),
            Err(error) => error.to_string(),
        },
        (Address::Diff { .. }, Ok(Ids { tree, .. })) => tree.to_string(),
        // The tag object, not only its commit: the tag's content is part of the resource.
        (_, Ok(Ids { id, .. })) => id.to_string(),
    });
    match address {
        Address::Refs { .. } => refs_state(repository),
        _ => states.collect::<Vec<_>>().join(" "),
    }
}

/// Returns the state of all refs: a digest of their resolved values, or, if there are very many refs, of their files.
fn refs_state(repository: &Repository) -> String {
    let refs = repository.refs();
    let state = refs.resolve("HEAD".into()).and_then(|head| {
        let mut hasher = DefaultHasher::new();
        head.map(|head| head.id).hash(&mut hasher);
        let is_whole = refs.with_refs_after("".into(), |all| {
            while let Some(found) = all.next() {
                (found.name, found.target).hash(&mut hasher);
                if all.loose_reads() > MAX_LOOSE_REFS {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if is_whole { Ok(hasher.finish()) } else { refs.digest() }
    });
    state.map_or_else(|error| error.to_string(), |state| state.to_string())
}

fn ids(repository: &Repository, rev: &BStr) -> Result<Ids> {
    let id = repository.rev(rev)?.id;
    Ok(Ids { id, tree: repository.tree_of(id)? })
}

/// Returns whether a path can change only when a ref does. An abbreviated id may become ambiguous, and a missing
/// object may appear.
fn depends_on_refs_only(path: &str) -> bool {
    let Ok(address) = Address::parse(path) else { return true };
    let is_hex = |rev: &BStr| RevSpec::parse(rev).is_ok_and(|spec| spec.name.iter().all(u8::is_ascii_hexdigit));
    !address.revs().any(is_hex)
}

impl Paths {
    fn get(&self, key: u64) -> Option<u64> {
        match self {
            Self::Each(states) => states.get(&key).copied(),
            Self::All(_) => None,
        }
    }
}

impl Token {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let number = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
        if parts.next() != Some(VERSION) {
            return None;
        }
        let (refs, listing) = (number(parts.next())?, number(parts.next())?);
        let states = parts.next()?;
        let paths = match states.strip_prefix('*') {
            Some(all) => Paths::All(number(Some(all))?),
            None => {
                let states = states.as_bytes().chunks(32).map(|pair| {
                    let (key, state) = std::str::from_utf8(pair).ok()?.split_at_checked(16)?;
                    Some((number(Some(key))?, number(Some(state))?))
                });
                Paths::Each(states.collect::<Option<_>>()?)
            }
        };
        Some(Self { refs, listing, paths })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{VERSION}.{:016x}.{:016x}.", self.refs, self.listing)?;
        match &self.paths {
            Paths::All(all) => write!(f, "*{all:016x}"),
            Paths::Each(states) => {
                let mut states: Vec<_> = states.iter().collect();
                states.sort_unstable();
                states.iter().try_for_each(|(key, state)| write!(f, "{key:016x}{state:016x}"))
            }
        }
    }
}

/// Returns a digest that is the same in every instance.
fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_went() {
        let each = Paths::Each(HashMap::from([(1, 2), (u64::MAX, 0)]));
        for paths in [each, Paths::Each(HashMap::new()), Paths::All(7)] {
            let token = Token { refs: 3, listing: u64::MAX, paths };
            assert_eq!(Token::parse(&token.to_string()), Some(token));
        }
    }

    #[test]
    fn what_is_no_token_of_ours_is_told_from_one() {
        for text in ["", "1", "2.0.0.", "1.x.0.", "1.0.0.123", "1.0.0.*", "1.0.0.\u{e9}", "1.0.0"] {
            assert_eq!(Token::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_largest_token_fits() {
        let states = (0..MAX_PATHS as u64).map(|n| (n, n)).collect();
        let token = Token { refs: 0, listing: 0, paths: Paths::Each(states) };
        assert!(token.to_string().len() <= 65536);
    }
}
