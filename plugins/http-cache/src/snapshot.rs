//! What the sitemaps named when a walk through the listing began, kept for as long as the walk goes on.
//!
//! | key | value |
//! |---|---|
//! | `s:ID` | when it was made, and which sitemaps are not in it |
//! | `t:ID` | the paths of the pages, sorted, one a line |
//!
//! The first page of a walk asks the origins for their sitemaps; its cursor names the snapshot that is made of them ([`WalkCursor`]),
//! and the pages behind it read that. So a walk asks for each sitemap once, whatever freshness it has. A snapshot of the
//! same pages is the same one, so walks that go on side by side share it; at most [`MAX_SNAPSHOTS`] are kept, none for longer than
//! [`MAX_AGE`]. One that is gone (too old, damaged, or thrown away to make room for pages) is made anew.

use crate::clock::{millis, time};
use crate::sitemap::{MissingSitemap, SitemapPages};
use crate::store::{Store, StoreError};
use mcp_provider::{Failure, Result, log};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher;
use std::hash::Hasher;
use std::time::{Duration, SystemTime};

/// For how long a snapshot is read.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// How many there are at once, but for those that calls make at the same moment.
const MAX_SNAPSHOTS: usize = 4;
/// The form that they are written in.
const VERSION: u32 = 1;

const META: &str = "s:";
const PAGES: &str = "t:";

/// Where a walk is: the part of a cursor that is in front of its position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WalkCursor {
    /// The snapshot that it reads; none where nothing could be kept.
    snapshot: Option<u64>,
    /// The sitemaps that could not be read when it began, by the hashes of their paths.
    missing: Vec<u32>,
}

impl WalkCursor {
    /// A walk over these pages, which reads a snapshot if there is one.
    pub(crate) fn new(snapshot: Option<u64>, found: &SitemapPages) -> Self {
        Self { snapshot, missing: found.missing.iter().map(|missing| short_hash(&missing.path)).collect() }
    }

    /// The walk that a cursor is of, and the rest of the cursor.
    pub(crate) fn parse(cursor: &str) -> Result<(Self, &str)> {
        let parsed = || {
            let (walk, rest) = cursor.split_once(':')?;
            let (snapshot, missing) = walk.split_once('.')?;
            let snapshot = if snapshot == "-" { None } else { Some(u64::from_str_radix(snapshot, 16).ok()?) };
            let missing =
                missing.split(',').filter(|hash| !hash.is_empty()).map(|hash| u32::from_str_radix(hash, 16).ok());
            Some((Self { snapshot, missing: missing.collect::<Option<_>>()? }, rest))
        };
        parsed().ok_or_else(|| Failure::invalid("expected a cursor that this provider returned"))
    }

    /// What the walk began with, if it is still kept.
    pub(crate) fn load(&self, store: &dyn Store, now: SystemTime) -> Option<SitemapPages> {
        let id = self.snapshot?;
        let [about, pages] = keys(id);
        let values = store.get(&[&about, &pages]).inspect_err(|error| log::debug!("the store fails: {error}")).ok()?;
        let [about, pages] = <[_; 2]>::try_from(values).ok()?;
        let about = SnapshotMeta::parse(&about?).filter(|about| about.is_recent(now))?;
        let pages = String::from_utf8(pages?).ok()?;
        let found = SitemapPages { pages, missing: about.missing, is_storable: true };
        (found.id() == id).then_some(found)
    }

    /// The first sitemap that is missing now and was not when the walk began: pages of it may have been listed, and others of
    /// it would not be.
    pub(crate) fn newly_missing<'f>(&self, found: &'f SitemapPages) -> Option<&'f MissingSitemap> {
        found.missing.iter().find(|missing| !self.missing.contains(&short_hash(&missing.path)))
    }
}

impl std::fmt::Display for WalkCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.snapshot {
            Some(id) => write!(f, "{id:x}.")?,
            None => f.write_str("-.")?,
        }
        let missing: Vec<String> = self.missing.iter().map(|hash| format!("{hash:x}")).collect();
        f.write_str(&missing.join(","))
    }
}

/// What is known of a snapshot beside its pages.
#[derive(Debug, Serialize, Deserialize)]
struct SnapshotMeta {
    version: u32,
    /// When it was made, in milliseconds since 1970.
    made: u64,
    missing: Vec<MissingSitemap>,
}

impl SnapshotMeta {
    fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|about| about.version == VERSION)
    }

    fn is_recent(&self, now: SystemTime) -> bool {
        now.duration_since(time(self.made)).is_ok_and(|age| age < MAX_AGE)
    }
}

/// Keeps what was found for a walk that begins, and gives its number; none where it may not or cannot be kept.
pub(crate) fn save(store: &dyn Store, found: &SitemapPages, now: SystemTime) -> Option<u64> {
    if !found.is_storable {
        return None;
    }
    let id = found.id();
    let [about_key, pages_key] = keys(id);
    let about = SnapshotMeta { version: VERSION, made: millis(now), missing: found.missing.clone() };
    let about = serde_json::to_vec(&about).ok()?;
    let kept = sweep(store, id, now).and_then(|has_pages| {
        let mut values: Vec<(&str, &[u8])> = vec![(&about_key, &about)];
        if !has_pages {
            values.push((&pages_key, found.pages.as_bytes()));
        }
        store.put(&values)
    });
    kept.inspect_err(|error| log::debug!("what sitemaps name is not kept: {error}")).ok().map(|()| id)
}

/// Takes away snapshots that are too old, and the oldest where there are too many; and says whether that of this number is
/// there.
fn sweep(store: &dyn Store, id: u64, now: SystemTime) -> std::result::Result<bool, StoreError> {
    let keys = store.keys()?;
    let [own, own_pages] = self::keys(id);
    let others: Vec<&str> =
        keys.iter().filter(|key| key.starts_with(META) && **key != own).map(String::as_str).collect();
    let others = others.get(..others.len().min(crate::store::BATCH)).unwrap_or_default();
    let mut recent: Vec<(u64, &str)> = Vec::new();
    let mut gone: Vec<&str> = Vec::new();
    for (key, about) in others.iter().zip(store.get(others)?) {
        match about.and_then(|about| SnapshotMeta::parse(&about)).filter(|about| about.is_recent(now)) {
            Some(about) => recent.push((about.made, key)),
            None => gone.push(key),
        }
    }
    recent.sort_unstable();
    let too_many = recent.len().saturating_sub(MAX_SNAPSHOTS.saturating_sub(1));
    gone.extend(recent.iter().take(too_many).map(|(_, key)| *key));
    let abouts =
        keys.iter().filter_map(|key| key.strip_prefix(META)).filter(|id| !gone.iter().any(|key| key.ends_with(id)));
    let abouts: std::collections::BTreeSet<&str> = abouts.collect();
    // Pages without their other half, too: nothing will ever ask for them.
    let pages = keys.iter().filter(|key| key.starts_with(PAGES) && **key != own_pages);
    let pages = pages.filter(|key| key.strip_prefix(PAGES).is_some_and(|id| !abouts.contains(id))).map(String::as_str);
    gone.extend(pages);
    gone.truncate(crate::store::BATCH);
    if !gone.is_empty() {
        store.remove(&gone)?;
    }
    Ok(keys.binary_search(&own).is_ok() && keys.binary_search(&own_pages).is_ok())
}

impl SitemapPages {
    /// The number of what was found: the same for the same pages.
    fn id(&self) -> u64 {
        let mut hasher = SipHasher::new();
        for missing in &self.missing {
            hasher.write(missing.path.as_bytes());
            hasher.write_u8(0xff);
            hasher.write(missing.reason.as_bytes());
            hasher.write_u8(0xff);
        }
        hasher.write(self.pages.as_bytes());
        hasher.finish()
    }
}

fn keys(id: u64) -> [String; 2] {
    [META, PAGES].map(|prefix| format!("{prefix}{id:016x}"))
}

fn short_hash(path: &str) -> u32 {
    let mut hasher = SipHasher::new();
    hasher.write(path.as_bytes());
    u32::try_from(hasher.finish() & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_comes_back_from_its_cursor() {
        for walk in [
            WalkCursor::default(),
            WalkCursor { snapshot: Some(u64::MAX), missing: vec![0, u32::MAX] },
            WalkCursor { snapshot: None, missing: vec![7] },
        ] {
            let cursor = format!("{walk}::docs.rs/a:b");
            assert_eq!(WalkCursor::parse(&cursor), Ok((walk, ":docs.rs/a:b")));
        }
    }

    #[test]
    fn a_cursor_of_somebody_else_is_an_invalid_request() {
        for cursor in ["", ":docs.rs/", "x.:a", "1:a", "1.x:a", "-.1,2", "1.2,,z:a"] {
            assert!(matches!(WalkCursor::parse(cursor), Err(Failure::InvalidRequest(_))), "{cursor}");
        }
    }
}
