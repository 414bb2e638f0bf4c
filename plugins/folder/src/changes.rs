//! Change detection, with a token that contains hashes of the watched state.
//!
//! The token contains one hash for the default listing and one for each watched path. The hash of a file covers its
//! size, its modification time and its status change time, which detects an edit that preserves the other two. The hash
//! of a folder covers its direct files and the names of its subfolders; the hash of the listing covers all files. If a
//! folder or listing has more than [`MAX_FINGERPRINTED`] files, its hash covers only names: creations and deletions are
//! detected, and a modification only for watchers of that file. No file is opened, and no list of names is held. Up to
//! [`MAX_WATCHED`] watched paths have a hash each; more paths share [`BUCKETS`] hashes, and when one differs, all paths
//! in its bucket are reported as changed. A path that the token does not contain is reported as changed, too. The hash
//! function is the standard library's, which may differ between builds: in that case, everything is reported as changed
//! once.
//!
//! The hash of the listing requires a survey of all folders, whatever is watched. A survey of more than
//! [`LONG_LISTING`] files is repeated after [`PAUSE_FACTOR`] times its duration, [`MAX_PAUSE`] at most. Until then, the
//! token keeps its result and the time, and only the watched paths are compared. The host keeps no fingerprint of such
//! a long listing, so a change is reported late but never lost.

use crate::disk::FileKind;
use crate::survey::survey;
use crate::{Folder, Found, Item, ItemKind};
use mcp_provider::{Changes, Result};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The maximum number of watched paths with separate hashes, which keeps a token below 65536 bytes.
const MAX_WATCHED: usize = 1900;

/// The number of hashes that more paths share, which keeps a token below 65536 bytes, too.
const BUCKETS: usize = 3500;

/// The maximum number of files whose metadata is read, which is much more expensive than reading names.
const MAX_FINGERPRINTED: usize = 10_000;

/// The maximum number of files for which every call makes a survey. It exceeds the listings that the host walks, so a
/// change of a listing that the host compares is reported by the first call after it.
const LONG_LISTING: u64 = 50_000;

/// The time from a survey of a long listing to the next, as a multiple of the first one's duration: surveys take a
/// twentieth of the time.
const PAUSE_FACTOR: u32 = 20;

/// The maximum time between two surveys.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The requested poll interval while the next survey is not due.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The target of a watched path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// The item with these names.
    Item(String),
    /// A state that may change with any file.
    AllFiles,
    /// A state that the provider knows, as a hash from [`state_hash`].
    State(u64),
    /// Something that can never exist.
    Nothing,
}

/// The version prefix of a token.
const VERSION: &str = "n4";

/// Returns what changed since a token. `parse` returns the target of a path.
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
    let since = Since::parse(since);
    let known = if let Since::State(then) = &since { Some(then.listing) } else { None };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let pause = known.and_then(|listing| listing.pause(now));
    let listing = match known {
        Some(listing) if pause.is_some() => listing,
        _ => Listing::survey(folder, now)?,
    };
    let state = |path: &str| match parse(path) {
        Watched::Item(names) => state_of(folder, &names),
        Watched::AllFiles => listing.state,
        Watched::State(state) => state,
        Watched::Nothing => 0,
    };
    let mut changes = compare(listing, watched, since, state);
    changes.poll_after = pause.map(|pause| pause.min(POLL_INTERVAL));
    Ok(changes)
}

/// Returns what changed since a token, for a provider that knows all states, as hashes from [`state_hash`]: `listing`
/// for the listing, and `state` for each path.
pub fn changes_of_states(
    listing: u64,
    watched: &[String],
    since: Option<&str>,
    state: impl Fn(&str) -> u64,
) -> Changes {
    compare(Listing { state: listing, survey_at: 0 }, watched, Since::parse(since), state)
}

/// The point in time from which changes are requested.
enum Since {
    /// The current state: without a token, the call returns a starting point.
    Start,
    /// A token that cannot be parsed.
    Unknown,
    State(Token),
}

impl Since {
    fn parse(token: Option<&str>) -> Self {
        token.map_or(Self::Start, |token| Token::parse(token).map_or(Self::Unknown, Self::State))
    }
}

/// Compares the current states with the states in a token.
fn compare(listing: Listing, watched: &[String], since: Since, state: impl Fn(&str) -> u64) -> Changes {
    let now = Token::new(listing, watched, state);
    let then = match since {
        Since::Start => return Changes::none(now.to_string()),
        Since::Unknown => return Changes::all(now.to_string(), watched),
        Since::State(then) => then,
    };
    let mut changes = Changes::none(now.to_string());
    if then.listing.state != now.listing.state {
        changes = changes.listing_changed();
    }
    let same = |path: &String| match (&then.watched, &now.watched) {
        (States::Each(then), States::Each(now)) => {
            then.get(&hash(path)).is_some_and(|state| now.get(&hash(path)) == Some(state))
        }
        (States::Buckets(then), States::Buckets(now)) => {
            let bucket = bucket(hash(path));
            then.get(bucket).is_some_and(|state| now.get(bucket) == Some(state))
        }
        _ => false,
    };
    changes.changed.extend(watched.iter().filter(|path| !same(path)).cloned());
    changes
}

/// The state of the default listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listing {
    state: u64,
    /// The time of the next survey, in milliseconds since 1970; 0 if each call makes a survey.
    survey_at: u64,
}

impl Listing {
    fn survey(folder: &Folder, now: Duration) -> Result<Self> {
        let began = Instant::now();
        let (state, count) = hash_all(folder, "", true)?;
        let pause = began.elapsed().saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE);
        let survey_at = if count > LONG_LISTING { millis(now.saturating_add(pause)) } else { 0 };
        Ok(Self { state, survey_at })
    }

    /// Returns the time until the next survey; `None` if it is due.
    fn pause(self, now: Duration) -> Option<Duration> {
        let left = Duration::from_millis(self.survey_at.saturating_sub(millis(now)));
        // If the clock was set back, more than the maximum is left.
        (!left.is_zero() && left <= MAX_PAUSE).then_some(left)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A decoded token.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    listing: Listing,
    watched: States,
}

/// The states of the watched paths.
#[derive(Debug, PartialEq, Eq)]
enum States {
    /// The state of each path, by the hash of the path.
    Each(BTreeMap<u64, u64>),
    /// One state per bucket. The hash of a path determines its bucket.
    Buckets(Vec<u64>),
}

impl Token {
    fn new(listing: Listing, watched: &[String], state: impl Fn(&str) -> u64) -> Self {
        let each: BTreeMap<u64, u64> = watched.iter().map(|path| (hash(path), state(path))).collect();
        let watched = if each.len() <= MAX_WATCHED { States::Each(each) } else { States::Buckets(buckets(&each)) };
        Self { listing, watched }
    }

    fn parse(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        if parts.next()? != VERSION {
            return None;
        }
        let listing = Listing { state: number(parts.next()?)?, survey_at: number(parts.next()?)? };
        let watched = match (parts.next()?, parts.next()?) {
            ("each", "") => States::Each(BTreeMap::new()),
            ("each", pairs) => {
                let pair =
                    |pair: &str| pair.split_once(':').and_then(|(path, state)| Some((number(path)?, number(state)?)));
                States::Each(pairs.split(',').map(pair).collect::<Option<_>>()?)
            }
            ("buckets", states) => States::Buckets(states.split(',').map(number).collect::<Option<_>>()?),
            _ => return None,
        };
        parts.next().is_none().then_some(Self { listing, watched })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{VERSION}.{:x}.{:x}.", self.listing.state, self.listing.survey_at)?;
        match &self.watched {
            States::Each(each) => {
                let pairs: Vec<String> = each.iter().map(|(path, state)| format!("{path:x}:{state:x}")).collect();
                write!(f, "each.{}", pairs.join(","))
            }
            States::Buckets(states) => {
                let states: Vec<String> = states.iter().map(|state| format!("{state:x}")).collect();
                write!(f, "buckets.{}", states.join(","))
            }
        }
    }
}

/// Returns one hash per bucket, from the states of paths by their hashes.
fn buckets(each: &BTreeMap<u64, u64>) -> Vec<u64> {
    let mut buckets = vec![0_u64; BUCKETS];
    for (path, state) in each {
        if let Some(sum) = buckets.get_mut(bucket(*path)) {
            // The sum does not depend on the order.
            *sum = sum.wrapping_add(hash(&(path, state)));
        }
    }
    buckets
}

/// Returns the bucket of the path with this hash.
fn bucket(path: u64) -> usize {
    usize::try_from(path.checked_rem(BUCKETS as u64).unwrap_or_default()).unwrap_or_default()
}

/// Returns the state of the item with these names. All missing items have the same state.
fn state_of(folder: &Folder, names: &str) -> u64 {
    let Ok(item) = folder.find(names) else { return 0 };
    match item.kind {
        ItemKind::File => hash(&fingerprint(&item)),
        ItemKind::Folder => hash_all(folder, names, false).map_or(0, |(state, _)| state),
    }
}

/// Returns one hash of the items in a folder, independent of their order, and their number.
fn hash_all(folder: &Folder, names: &str, is_deep: bool) -> Result<(u64, u64)> {
    let (mut sum, mut count) = (0_u64, 0_u64);
    let mut first: Vec<(String, FileKind)> = Vec::new();
    survey(folder, folder.place(names)?, is_deep, |names, kind| {
        count = count.saturating_add(1);
        sum = sum.wrapping_add(hash(&(names, kind == FileKind::Folder)));
        if first.len() <= MAX_FINGERPRINTED {
            first.push((names.to_owned(), kind));
        }
    })?;
    if first.len() <= MAX_FINGERPRINTED {
        for (names, kind) in &first {
            // An item that cannot be found is not listed, either.
            let state = surveyed_item(folder, names, *kind).ok().map(|item| hash(&fingerprint(&item)));
            sum = sum.wrapping_add(hash(&(names, state)));
        }
    }
    Ok((hash(&(sum, count)), count))
}

/// Returns an item found by the survey. Only a link must be looked up name by name, with the rules of each folder.
fn surveyed_item(folder: &Folder, names: &str, kind: FileKind) -> Result<Item> {
    match kind {
        FileKind::Link => folder.find(names),
        _ => folder.item(&Found { names: names.to_owned(), real: names.to_owned() }),
    }
}

/// Returns the state of an item as part of its parent. A folder contributes only its name: its content is tracked
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
    use crate::DotNames;
    use std::rc::Rc;

    const LISTING: Listing = Listing { state: u64::MAX, survey_at: u64::MAX };

    #[test]
    fn a_token_stands_for_its_state() {
        let each = [(1, u64::MAX), (u64::MAX, 2)].into_iter().collect();
        for watched in [States::Each(BTreeMap::new()), States::Each(each), States::Buckets(vec![7, u64::MAX])] {
            let state = Token { listing: LISTING, watched };
            assert_eq!(Token::parse(&state.to_string()), Some(state));
        }
    }

    #[test]
    fn the_longest_token_is_one_that_the_host_keeps() {
        let count = u64::try_from(MAX_WATCHED).unwrap();
        let each = (0..count).map(|n| (u64::MAX - n, u64::MAX)).collect();
        let token = Token { listing: LISTING, watched: States::Each(each) }.to_string();
        assert!(token.len() <= 65536, "{}", token.len());
    }

    #[test]
    fn a_token_of_somebody_else_is_not_understood() {
        for token in [
            "",
            "n4",
            "n3.1.0.each.",
            "n4.x.0.each.",
            "n4.1.x.each.",
            "n4.1.each.",
            "n4.1.0.each.1",
            "n4.1.0.buckets.",
            "n4.1.0.buckets.1,x",
            "n4.1.0.some.1",
            "n4.1.0.buckets.1.1",
        ] {
            assert_eq!(Token::parse(token), None, "{token}");
        }
    }

    #[test]
    fn while_a_long_listing_is_not_surveyed_again_a_watched_file_is_compared_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.md"), "a").unwrap();
        let folder = Folder::open(dir.path(), Rc::new(DotNames)).unwrap();
        let watched = ["a.md".to_owned()];
        let changes =
            |since: &str| changes(&folder, &watched, Some(since), |path| Watched::Item(path.to_owned())).unwrap();
        // The state after a survey of a different long listing.
        let in_a_minute = millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap()) + 50_000;
        let listing = Listing { state: 1, survey_at: in_a_minute };
        let then = Token::new(listing, &watched, |names| state_of(&folder, names)).to_string();
        let paused = changes(&then);
        assert!(paused.changed.is_empty() && !paused.listing_changed && paused.token == then, "{paused:?}");
        assert_eq!(paused.poll_after, Some(POLL_INTERVAL));
        std::fs::write(dir.path().join("a.md"), "edited").unwrap();
        let edited = changes(&then);
        assert!(edited.changed == watched && !edited.listing_changed, "{edited:?}");
        let due = Token { listing: Listing { survey_at: 1, ..listing }, ..Token::parse(&edited.token).unwrap() };
        let surveyed = changes(&due.to_string());
        assert!(surveyed.changed.is_empty() && surveyed.listing_changed, "{surveyed:?}");
        assert_eq!((surveyed.poll_after, Token::parse(&surveyed.token).unwrap().listing.survey_at), (None, 0));
    }

    #[test]
    fn a_change_of_one_of_very_many_paths_is_one_of_hardly_any_others() {
        let watched: Vec<_> = (0..10_000).map(|number| format!("{number}.md")).collect();
        let changes = |since: Option<&str>, edited: &str| {
            changes_of_states(1, &watched, since, |path| state_hash(&(path, path == edited)))
        };
        let before = changes(None, "");
        assert!(before.token.len() < 65_536, "{}", before.token.len());
        assert!(changes(Some(&before.token), "").changed.is_empty());
        let edited = changes(Some(&before.token), "17.md").changed;
        assert!(edited.contains(&"17.md".to_owned()) && edited.len() < 20, "{edited:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_postpones_no_survey() {
        let listing = Listing { state: 1, survey_at: 100_000 };
        for (now, left) in [(99, Some(1)), (100, None), (101, None), (40, Some(60)), (39, None), (0, None)] {
            let (now, left) = (Duration::from_secs(now), left.map(Duration::from_secs));
            assert_eq!(listing.pause(now), left, "{now:?}");
        }
    }

    #[test]
    fn only_a_long_listing_is_surveyed_less_often() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), Rc::new(DotNames)).unwrap();
        for n in 0..LONG_LISTING {
            std::fs::File::create(dir.path().join(n.to_string())).unwrap();
        }
        assert_eq!(Listing::survey(&folder, Duration::ZERO).unwrap().survey_at, 0);
        std::fs::File::create(dir.path().join("one more")).unwrap();
        assert_ne!(Listing::survey(&folder, Duration::ZERO).unwrap().survey_at, 0);
    }
}
