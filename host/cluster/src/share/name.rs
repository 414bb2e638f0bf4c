//! The identity of a plugin shard.

use sha2::{Digest, Sha256};

#[cfg(test)]
use crate::simulation::{Bug, is_planted};

/// The identity of a plugin shard: all replicas with the same identity share their polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardName(String);

impl ShardName {
    /// The shard of a plugin in the cluster with this name. `parts` is everything that determines the answers of
    /// the provider: the digest of the component, its config, its mount.
    pub fn new<'a>(cluster: &str, parts: impl IntoIterator<Item = &'a [u8]>, shard: u32) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            // With lengths, so that different lists of parts have different hashes.
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
        let digest = hasher.finalize();
        let hexadecimal: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        #[cfg(test)]
        let shard = if is_planted(Bug::ShardNotNamed) { 0 } else { shard };
        Self(format!("{cluster}.{hexadecimal}.{shard}"))
    }

    /// Returns the name of another shard of the same plugin.
    pub(crate) fn sibling(&self, shard: u32) -> Self {
        Self(format!("{}.{shard}", self.plugin()))
    }

    /// Returns the part of the name that all shards of the plugin have in common.
    pub(crate) fn plugin(&self) -> &str {
        self.0.rsplit_once('.').map_or(self.0.as_str(), |(plugin, _)| plugin)
    }

    /// The subject of its messages.
    pub fn subject(&self) -> String {
        format!("mcp-host.1.{}", self.0)
    }

    /// The key of its record.
    pub fn key(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_what_answers_differently_differ_and_names_are_subjects() {
        let name = |cluster, parts: &[&[u8]], shard| ShardName::new(cluster, parts.iter().copied(), shard);
        let first = name("a", &[b"x", b"y"], 0);
        assert_eq!(first, name("a", &[b"x", b"y"], 0));
        for other in [name("b", &[b"x", b"y"], 0), name("a", &[b"xy", b""], 0), name("a", &[b"x", b"y"], 1)] {
            assert_ne!(first, other);
        }
        assert!(first.subject().starts_with("mcp-host.1.a.") && first.subject().ends_with(".0"), "{first:?}");
        assert_eq!(first.sibling(1), name("a", &[b"x", b"y"], 1));
    }
}
