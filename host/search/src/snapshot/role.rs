//! The part of this replica in a shared index, and its counts, for status and metrics.

/// The part of this replica of a cluster in the index of a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexRole {
    /// The index is not shared.
    #[default]
    Unshared,
    /// It builds the index for all replicas.
    Building,
    /// It fetches the index from the replica that builds it.
    Following,
    /// It indexes for itself, because it cannot rely on another replica at the moment.
    Alone,
}

impl IndexRole {
    /// The names of the roles in a shared index.
    pub const SHARED: [&'static str; 3] = ["building", "following", "alone"];

    /// Returns the name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unshared => "unshared",
            Self::Building => "building",
            Self::Following => "following",
            Self::Alone => "alone",
        }
    }
}

/// The numbers of snapshots of a plugin's index since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotCounts {
    /// Snapshots that this replica has published.
    pub published: u64,
    /// Snapshots that this replica has fetched.
    pub fetched: u64,
    /// Snapshots that were rejected: they are forged, damaged or invalid.
    pub rejected: u64,
    /// Requests and transfers that have failed.
    pub failed: u64,
}
