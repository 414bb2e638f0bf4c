//! Snapshots of the sitemaps' pages, taken when a walk through the listing starts and stored while it continues.
//!
//! | key | value |
//! |---|---|
//! | `s:ID` | the creation time, and the missing sitemaps |
//! | `t:ID` | the paths of the pages, sorted, one per line |
//!
//! The first page of a walk requests the sitemaps from the origins and stores a snapshot; its cursor names the snapshot
//! ([`WalkCursor`]), which the following pages read. A walk therefore requests each sitemap once, whatever its
//! freshness. Snapshots are deduplicated by content, so concurrent walks share them. At most [`MAX_SNAPSHOTS`] are
//! stored, for [`MAX_AGE`] at most. A lost snapshot (expired, damaged, or evicted in favor of pages) is created again.

use crate::cache::entries::BATCH;
use crate::clock::{millis, time};
use crate::sitemap::{MissingSitemap, SitemapPages};
use mcp_provider::keyvalue::Store;
use mcp_provider::{Failure, Result, log};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher;
use std::hash::Hasher;
use std::time::{Duration, SystemTime};

/// The maximum age of a snapshot.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// The maximum number of snapshots, except for concurrent insertions.
const MAX_SNAPSHOTS: usize = 4;
/// The version of the stored format.
const VERSION: u32 = 1;

const META: &str = "s:";
const PAGES: &str = "t:";

/// The walk's part of a cursor, before the position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WalkCursor {
    /// The id of the snapshot; `None` if it could not be stored.
    snapshot: Option<u64>,
    /// The sitemaps that could not be read at the start, by the hashes of their paths.
    missing: Vec<u32>,
}

impl WalkCursor {
    /// Creates the cursor of a walk over these pages, with its snapshot, if any.
    pub(crate) fn new(snapshot: Option<u64>, found: &SitemapPages) -> Self {
        Self { snapshot, missing: found.missing.iter().map(|missing| short_hash(&missing.path)).collect() }
    }

    /// Parses a cursor into its walk and its position.
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

    /// Loads the walk's snapshot, if it still exists.
    pub(crate) fn load(&self, store: &dyn Store, now: SystemTime) -> Option<SitemapPages> {
        let id = self.snapshot?;
        let [about, pages] = keys(id);
        let values = store
            .get_many(&[&about, &pages])
            .inspect_err(|error| log::debug!("store operation failed: {error}"))
            .ok()?;
        let [about, pages] = <[_; 2]>::try_from(values).ok()?;
        let about = SnapshotMeta::parse(&about?).filter(|about| about.is_recent(now))?;
        let pages = String::from_utf8(pages?).ok()?;
        let found = SitemapPages { pages, missing: about.missing, is_storable: true };
        (found.id() == id).then_some(found)
    }

    /// Returns the first sitemap that is missing now but was not at the start of the walk: some of its pages may have
    /// been listed, and the others would be lost.
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

/// The metadata of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct SnapshotMeta {
    version: u32,
    /// The creation time, in milliseconds since 1970.
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

/// Stores a snapshot for a new walk, and returns its id; `None` if it may not be stored, or the store fails.
pub(crate) fn save(store: &dyn Store, found: &SitemapPages, now: SystemTime) -> Option<u64> {
    if !found.is_storable {
        return None;
    }
    let id = found.id();
    let [about_key, pages_key] = keys(id);
    let about = SnapshotMeta { version: VERSION, made: millis(now), missing: found.missing.clone() };
    let about = serde_json::to_vec(&about).ok()?;
    let stored = sweep(store, id, now).and_then(|has_pages| {
        let mut values: Vec<(&str, &[u8])> = vec![(&about_key, &about)];
        if !has_pages {
            values.push((&pages_key, found.pages.as_bytes()));
        }
        store.set_many(&values)
    });
    stored.inspect_err(|error| log::debug!("sitemap snapshot not stored: {error}")).ok().map(|()| id)
}

/// Deletes expired snapshots, and the oldest ones beyond the maximum. Returns whether the snapshot with this id exists.
fn sweep(store: &dyn Store, id: u64, now: SystemTime) -> Result<bool> {
    let keys = store.all_keys()?;
    let [own, own_pages] = self::keys(id);
    let others: Vec<&str> =
        keys.iter().filter(|key| key.starts_with(META) && **key != own).map(String::as_str).collect();
    let others = others.get(..others.len().min(BATCH)).unwrap_or_default();
    let mut recent: Vec<(u64, &str)> = Vec::new();
    let mut gone: Vec<&str> = Vec::new();
    for (key, about) in others.iter().zip(store.get_many(others)?) {
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
    // Pages without their metadata are deleted, too: they are unreachable.
    let pages = keys.iter().filter(|key| key.starts_with(PAGES) && **key != own_pages);
    let pages = pages.filter(|key| key.strip_prefix(PAGES).is_some_and(|id| !abouts.contains(id))).map(String::as_str);
    gone.extend(pages);
    gone.truncate(BATCH);
    if !gone.is_empty() {
        store.delete_many(&gone)?;
    }
    Ok(keys.binary_search(&own).is_ok() && keys.binary_search(&own_pages).is_ok())
}

impl SitemapPages {
    /// Returns the id of the content. Equal contents have the same id.
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
