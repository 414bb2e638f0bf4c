//! The state of a plugin's skills: digests of their files, and a semaphore for walks of its listing.

use std::time::{Duration, SystemTime};

use mcp_host_model::requester::FairSemaphore;
use mcp_host_model::uri::Uri;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::walk::ListedFile;

/// The maximum number of requests that walk the listing of a plugin concurrently.
const MAX_WALKS: usize = 4;
/// The maximum number of requests that wait for a walk.
const MAX_WAITING: usize = 64;
/// The maximum size of a plugin's cached digests.
const MAX_DIGESTS: u64 = 1 << 20;
/// A file that was modified more recently than this may be modified again without a new modification time.
const CLOCK_RESOLUTION: Duration = Duration::from_secs(2);

/// The state of a plugin's skills.
pub(crate) struct SkillState {
    /// The digests of its files.
    pub(crate) digests: Digests,
    /// Bounds the concurrent walks of its listing, with a share for each client.
    pub(crate) walks: FairSemaphore,
}

impl Default for SkillState {
    fn default() -> Self {
        Self { digests: Digests::default(), walks: FairSemaphore::new(MAX_WALKS, MAX_WAITING) }
    }
}

/// Digests of files of one plugin, by the data of its listing.
#[derive(Debug)]
pub(crate) struct Digests(pub(super) Cache<DigestKey, DigestOf, DigestWeight>);

/// The URI, the modification time and the size of a file.
pub(super) type DigestKey = (Uri, Box<str>, u64);
/// The digest of a file, and the size of the digested content in bytes.
pub(super) type DigestOf = (Box<str>, u64);

#[derive(Clone, Debug)]
pub(super) struct DigestWeight;

impl Weighter<DigestKey, DigestOf> for DigestWeight {
    fn weight(&self, (uri, modified, _): &DigestKey, (digest, _): &DigestOf) -> u64 {
        const OVERHEAD: usize = 128;
        let bytes =
            [modified.len(), digest.len(), OVERHEAD].into_iter().fold(uri.as_str().len(), usize::saturating_add);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Default for Digests {
    fn default() -> Self {
        Self(Cache::with_weighter(1024, MAX_DIGESTS, DigestWeight))
    }
}

impl Digests {
    /// Returns the key of a file if a modification would change the key: its modification time is known, and
    /// past.
    pub(super) fn key(uri: &Uri, file: &ListedFile) -> Option<DigestKey> {
        let modified = file.modified.as_ref()?;
        let time: jiff::Timestamp = modified.parse().ok()?;
        let age = SystemTime::now().duration_since(SystemTime::from(time)).ok()?;
        (age > CLOCK_RESOLUTION).then(|| (uri.clone(), modified.clone(), file.size.unwrap_or(u64::MAX)))
    }
}
