//! The bearer tokens of `[[principal]]`.
//!
//! Tokens are compared by their SHA-256 digests in constant time. The look-up uses a keyed hash with a random key of
//! this process.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use mcp_host_config::{Config, TokenDigest};
use mcp_resource_host::access::Principal;

/// The bearer tokens of one config.
pub(super) struct StaticTokens {
    /// The tokens by a keyed hash of the digest, so that the time of a look-up reveals nothing about the digests.
    by_hash: HashMap<u64, Vec<(TokenDigest, Principal)>>,
    hasher: RandomState,
}

impl StaticTokens {
    pub(super) fn new(config: &Config) -> Self {
        let hasher = RandomState::new();
        let mut by_hash: HashMap<u64, Vec<_>> = HashMap::new();
        for principal in &config.principals {
            let identity = Principal::new(principal.name.as_str());
            for digest in principal.token_sha256.iter() {
                by_hash.entry(hasher.hash_one(digest)).or_default().push((digest.clone(), identity.clone()));
            }
        }
        Self { by_hash, hasher }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// Returns the principal with that token.
    pub(super) fn authenticate(&self, token: &str) -> Option<Principal> {
        let digest = TokenDigest::of(token);
        let candidates = self.by_hash.get(&self.hasher.hash_one(&digest))?;
        candidates.iter().find(|(known, _)| known.matches(&digest)).map(|(_, principal)| principal.clone())
    }
}
