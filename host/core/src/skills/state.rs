//! What is kept of a plugin for its skills: digests of their files, and who walks its listing.

use std::time::{Duration, SystemTime};

use mcp_host_model::uri::Uri;
use mcp_host_sandbox::fair_semaphore::FairSemaphore;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::walk::ListedFile;

/// The maximum number of requests that walk the listing of a plugin at a time.
const MAX_WALKS: usize = 4;
/// The maximum number of requests that wait for that.
const MAX_WAITING: usize = 64;
/// The size of the digests that are kept of a plugin.
const MAX_DIGESTS: u64 = 1 << 20;
/// A file that was modified less than this ago may be modified again without another modification time.
const CLOCK_RESOLUTION: Duration = Duration::from_secs(2);

/// What is kept of a plugin for its skills.
pub(crate) struct SkillState {
    /// The digests of its files.
    pub(crate) digests: Digests,
    /// Bounds the requests that walk its listing, with a share for each client.
    pub(crate) walks: FairSemaphore,
}

impl Default for SkillState {
    fn default() -> Self {
        Self { digests: Digests::default(), walks: FairSemaphore::new(MAX_WALKS, MAX_WAITING) }
    }
}

/// Digests of files of one plugin, by what its listing has of them.
#[derive(Debug)]
pub(crate) struct Digests(pub(super) Cache<DigestKey, DigestOf, DigestWeight>);

/// The URI, the modification time and the size of a file.
pub(super) type DigestKey = (Uri, Box<str>, u64);
/// Its digest, and the number of bytes that it is of.
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
    /// The key of a file whose modification would change it: its time is known, and past.
    pub(super) fn key(uri: &Uri, file: &ListedFile) -> Option<DigestKey> {
        let modified = file.modified.as_ref()?;
        let time: jiff::Timestamp = modified.parse().ok()?;
        let age = SystemTime::now().duration_since(SystemTime::from(time)).ok()?;
        (age > CLOCK_RESOLUTION).then(|| (uri.clone(), modified.clone(), file.size.unwrap_or(u64::MAX)))
    }
}
