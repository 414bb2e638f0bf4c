//! Groups of watched paths, each small enough for one call of `changes`.
//!
//! Clients determine how many paths are watched, but one call must stay bounded: a provider receives all paths as its
//! argument, may inspect each, and returns one token of at most 64 KiB and at most `limits.response-items` changes. So
//! paths are partitioned into groups of about [`MAX_GROUP_PATHS`] paths, or half of `limits.response-items`, up to
//! [`MAX_GROUPS`] groups, and each group has its own token. A path's group is determined by its hash. When the groups
//! have grown too large, each is split in two, and both halves continue with its token: a token that covers more paths
//! than a call is about is nothing new to a provider. Groups are only reset when there are no more subscriptions, as
//! tokens cannot be merged.
//!
//! Where one replica polls for all (`super::replicas`), the hash is keyed by what all replicas know, and the tokens can be those of
//! another replica. Which paths these cover is not known here; a change of any path counts then.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use mcp_host_model::uri::{Path, Uri};
use sha2::{Digest, Sha256};

/// The approximate number of paths in a group before it is split.
const MAX_GROUP_PATHS: usize = 1000;
/// The maximum number of groups, and so of tokens, of one plugin.
const MAX_GROUPS: usize = 64;

/// All watched paths of one plugin. There is always at least one group.
pub(super) struct PathGroups {
    groups: Vec<PathGroup>,
    /// The approximate number of paths in a group before all groups are split.
    max_paths: usize,
    hasher: PathHasher,
}

/// How paths are assigned to groups.
enum PathHasher {
    /// Randomly keyed, so that no client can choose the group of a path.
    Random(RandomState),
    /// With a key that all replicas of a cluster have, and no client.
    Keyed(u64),
}

impl PathHasher {
    fn hash(&self, path: &Path) -> usize {
        match self {
            Self::Random(state) => state.hash_one(path) as usize,
            Self::Keyed(key) => {
                let digest = Sha256::new().chain_update(key.to_be_bytes()).chain_update(path.as_str()).finalize();
                digest.iter().take(size_of::<u32>()).fold(0, |hash: usize, byte| hash << 8 | usize::from(*byte))
            }
        }
    }
}

/// The paths of one call of `changes`.
#[derive(Clone, Default)]
pub(super) struct PathGroup {
    /// The state up to which changes are known; `None` before the first poll, and after a time without subscriptions.
    pub(super) token: Option<String>,
    /// The paths that the token covers. A change of any other path only means that the path is new.
    pub(super) token_paths: HashSet<Path>,
    /// Whether the token is another replica's, which may cover any path.
    pub(super) covers_others: bool,
    /// The paths of the next poll.
    pub(super) watched: Vec<(Uri, Path)>,
}

impl PathGroups {
    /// Creates one empty group for a plugin with `max_items` as its `limits.response-items`.
    pub(super) fn new(max_items: usize) -> Self {
        // Groups differ in size, but one of twice the average is not to be expected.
        let max_paths = (max_items / 2).clamp(1, MAX_GROUP_PATHS);
        Self { groups: vec![PathGroup::default()], max_paths, hasher: PathHasher::Random(RandomState::new()) }
    }

    /// Creates the groups of all replicas, with the tokens of the last poll, by another one.
    pub(super) fn shared(max_items: usize, key: u64, tokens: Vec<Option<String>>) -> Self {
        let mut groups = Self { hasher: PathHasher::Keyed(key), ..Self::new(max_items) };
        if tokens.len().is_power_of_two() && tokens.len() <= MAX_GROUPS {
            let group = |token| PathGroup { token, covers_others: true, ..PathGroup::default() };
            groups.groups = tokens.into_iter().map(group).collect();
        }
        groups
    }

    /// Returns the token of each group.
    pub(super) fn tokens(&self) -> Vec<Option<String>> {
        self.groups.iter().map(|group| group.token.clone()).collect()
    }

    /// Sets the paths of the next poll.
    pub(super) fn set_watched(&mut self, watched: Vec<(Uri, Path)>) {
        while watched.len() > self.groups.len().saturating_mul(self.max_paths) && self.groups.len() < MAX_GROUPS {
            self.groups.extend_from_within(..);
        }
        for group in &mut self.groups {
            group.watched.clear();
        }
        for (uri, path) in watched {
            // The number of groups is a power of two, and the halves of a group are half of that number apart.
            let index = self.hasher.hash(&path) & self.groups.len().saturating_sub(1);
            if let Some(group) = self.groups.get_mut(index) {
                group.watched.push((uri, path));
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut PathGroup> {
        self.groups.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::uri::Mount;

    fn watched(count: usize) -> Vec<(Uri, Path)> {
        let mount: Mount = "a://x/".parse().unwrap();
        let located = (0..count).map(|number| mount.compose(&number.to_string()).unwrap());
        located.map(|located| (located.uri, located.path)).collect()
    }

    #[test]
    fn few_paths_are_one_group_and_many_are_as_many_as_it_takes() {
        let mut groups = PathGroups::new(10_000);
        for (count, expected) in [(0, 1), (1000, 1), (1001, 2), (5000, 8), (10, 8), (1_000_000, 64)] {
            groups.set_watched(watched(count));
            assert_eq!(groups.len(), expected, "{count}");
            let sizes: Vec<_> = groups.groups.iter().map(|group| group.watched.len()).collect();
            assert_eq!(sizes.iter().sum::<usize>(), count);
            assert!(sizes.iter().all(|size| *size <= 2 * count.div_ceil(expected).max(100)), "{sizes:?}");
        }
    }

    #[test]
    fn replicas_divide_paths_alike_and_go_on_with_each_others_tokens() {
        let tokens = || (0..8).map(|number| Some(number.to_string())).collect::<Vec<_>>();
        let groups = || {
            let mut groups = PathGroups::shared(10_000, 7, tokens());
            groups.set_watched(watched(3000));
            groups
        };
        let (one, mut other) = (groups(), groups());
        assert_eq!(one.tokens(), tokens());
        for (index, group) in one.groups.iter().enumerate() {
            let same = other.get_mut(index).unwrap();
            assert_eq!(group.watched, same.watched);
            assert!(group.covers_others && !group.watched.is_empty());
        }
        assert_eq!(PathGroups::shared(10_000, 7, vec![None; 3]).tokens(), [None], "no host writes three");
    }

    #[test]
    fn a_path_goes_on_with_the_token_that_knows_of_it() {
        let mut groups = PathGroups::new(10_000);
        for count in [500, 3000, 20_000] {
            groups.set_watched(watched(count));
            for (place, group) in groups.groups.iter_mut().enumerate() {
                let old = group.watched.iter().filter(|(_, path)| path.as_str().parse::<usize>().unwrap() < 500);
                if count > 500 {
                    assert_eq!(group.token.as_deref(), Some("from the first round"));
                    for (_, path) in old {
                        assert!(group.token_paths.contains(path), "{path} is in group {place}");
                    }
                }
                group.token = Some("from the first round".to_owned());
                group.token_paths.extend(group.watched.iter().map(|(_, path)| path.clone()));
            }
        }
    }
}
