//! Snapshots of the index of one plugin, by which the replicas of a cluster share it (`[search] shared = true`).
//!
//! One replica, the holder of a lease, indexes the plugin and publishes what it has. The others fetch a new snapshot,
//! and put its documents into their own index. They neither list nor read the plugin. A replica indexes for itself if
//! it has no snapshot to rely on.
//!
//! | module | subject |
//! |---|---|
//! | `seal` | encryption and authentication |
//! | `frames` | the encoded documents |
//! | `stored` | documents from an index, and into another one |
//! | `publisher` | publishing of a snapshot |
//! | `importer` | fetching of a snapshot |
//! | `role` | the part of a replica, for status and metrics |
//! | `turn` | whether this replica builds the index, fetches it, or indexes for itself |
//! | `shared_indexer` | the task of a plugin whose index is shared |
//!
//! # Guarantees
//!
//! - Only replicas with the same key (`server.cursor-key`) can read a snapshot or make one. A forged or damaged chunk
//!   is rejected before it is parsed.
//! - Snapshots are found under a name that depends on the format, the version of this program, the component, mount,
//!   config, grants and secrets of the plugin, what is searched of it, and the model of embeddings. So replicas with
//!   different versions or settings do not exchange snapshots.
//! - A snapshot is not a permission: each search decides by the rules of its own replica which of the documents a
//!   principal may find. A path is accepted only in the normal form by which these rules decide.
//! - A snapshot that is rejected, or ends early, removes nothing from the index. Each of its documents so far is
//!   complete.
//!
//! # Bounds
//!
//! | resource | bound |
//! |---|---|
//! | a snapshot | [`MAX_SNAPSHOT`](mcp_host_base::shared_snapshots::MAX_SNAPSHOT), compressed |
//! | memory | a chunk, its text in parts, and a batch of documents; eight bytes for each document |
//! | texts and documents | `search.max-document`, `search.max-bytes`, `search.max-size` and `limits.listing-items`, as for an own index |
//! | uploads | a tenth of the time; at most one per lease |

mod frames;
mod importer;
mod publisher;
pub(super) mod role;
mod seal;
mod shared_indexer;
mod stored;
#[cfg(test)]
mod tests;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::shared_snapshots::{Answer, SharedSnapshots, SnapshotError, SnapshotPlace};
use mcp_host_config::search::Search;
use mcp_host_engine::plugin::Plugin;
use tokio::time::timeout;

pub use self::role::{IndexRole, SnapshotCounts};
use self::seal::SnapshotKey;
use super::embeddings::vector_store::VectorSpace;
use super::error::IndexError;

/// The version of the format.
const FORMAT: u32 = 1;

/// What the vectors in a snapshot have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorForm {
    pub(crate) space: VectorSpace,
    pub(crate) dimensions: usize,
    pub(crate) max_passages: usize,
}

/// The shared index of one plugin.
pub(super) struct SharedIndex {
    place: Arc<dyn SnapshotPlace>,
    /// The time of the lease.
    lease: Duration,
    key: SnapshotKey,
    /// None if the plugin's text is not sent to an endpoint of embeddings.
    vectors: Option<VectorForm>,
}

/// The reason why a snapshot was not published or not fetched.
#[derive(Debug, thiserror::Error)]
enum TransferError {
    /// The snapshot is not valid.
    #[error("the snapshot is rejected: {0}")]
    Rejected(String),
    /// The store has failed.
    #[error("the snapshots of the cluster cannot be used: {0}")]
    Store(#[from] SnapshotError),
    /// The snapshot is too large to be published.
    #[error("a snapshot of it is too large: more than {0} bytes")]
    TooLarge(u64),
    /// Another replica has taken the lease.
    #[error("another replica has taken the lease")]
    LeaseLost,
    /// The index of this replica has failed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl TransferError {
    /// Whether publishing the same index again fails in the same way, as far as this replica can tell.
    fn is_lasting(&self) -> bool {
        matches!(self, Self::TooLarge(_) | Self::Store(SnapshotError::Refused(_)))
    }
}

impl SharedIndex {
    /// The shared index of a plugin. None if its index is not shared: the config does not share indexes, or the polls
    /// of this plugin are not shared, because its content may differ between replicas.
    pub(super) fn of(shared: &SharedSnapshots, search: Option<&Search>, plugin: &Plugin) -> Option<Self> {
        let search = search.filter(|search| search.shared)?;
        let (source, identity) = (plugin.search_source()?, plugin.poll_identity()?);
        let vectors = search.embeddings.as_ref().filter(|_| source.settings().embeddings);
        let vectors = vectors.map(|settings| VectorForm {
            space: VectorSpace::of(settings),
            dimensions: settings.dimensions.get(),
            max_passages: settings.passages.get(),
        });
        // The hashes of entries depend on the version of the program.
        let form = format!("{FORMAT} {} {vectors:?}", env!("CARGO_PKG_VERSION"));
        let name: String = source
            .shared_key(&shared.secret, identity, &form)
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let place = shared.store.place(&name);
        Some(Self { place, lease: shared.store.lease(), key: SnapshotKey::new(shared.secret, name), vectors })
    }

    /// The name under which replicas find its snapshots.
    pub(super) fn name(&self) -> &str {
        self.key.name()
    }

    /// The pause between two requests for the lease.
    fn interval(&self) -> Duration {
        self.lease.checked_div(6).unwrap_or_default()
    }

    /// Waits for the answer to a request, for half of the lease.
    async fn ask<T>(&self, answer: Answer<'_, T>) -> Result<T, SnapshotError> {
        let limit = self.lease.checked_div(2).unwrap_or_default();
        timeout(limit, answer).await.unwrap_or_else(|_| Err(SnapshotError::NoAnswer("the time is over".to_owned())))
    }
}
