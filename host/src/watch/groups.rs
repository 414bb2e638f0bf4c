//! The paths that a provider is asked about, in groups that one call of `changes` can be about.
//!
//! How many paths are watched is for clients to decide, and what one call may take up is not: a provider gets all of them as its
//! argument, may look at each, and answers with one token of at most 64 KiB and at most `limits.response-items` changes. So there are as
//! many groups as it takes for [`MAX_GROUP_PATHS`] paths in each, or half of `limits.response-items`, up to [`MAX_GROUPS`], and each group has a
//! token of its own. A path is in a group by its hash. When the groups have grown too large, each is split in two, and both halves go on with its
//! token: a token that knows of more than it is asked about is nothing new to a provider. They are merged by nothing but an
//! end of all interest, as tokens cannot be merged.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::uri::{Path, Uri};

/// Paths that a group has, about, before it is split.
const MAX_GROUP_PATHS: usize = 1000;
/// Groups of one plugin, and so tokens that are kept for it.
const MAX_GROUPS: usize = 64;

/// All that is watched of one plugin. There is always at least one group.
pub(super) struct PathGroups {
    groups: Vec<PathGroup>,
    /// Paths that a group has, about, before all are split.
    max_paths: usize,
    /// Its keys are nobody's to guess, so that nobody chooses a group.
    hasher: RandomState,
}

/// Paths that the provider is asked about in one call.
#[derive(Clone, Default)]
pub(super) struct PathGroup {
    /// Up to when the changes are known; none before the first round, and when nobody was interested since.
    pub(super) token: Option<String>,
    /// The paths that the token knows of: what it says of others only tells that they are new.
    pub(super) token_paths: HashSet<Path>,
    /// Those that the next round is about.
    pub(super) watched: Vec<(Uri, Path)>,
}

impl PathGroups {
    /// One group without anything, of a plugin with that `limits.response-items`.
    pub(super) fn new(max_items: usize) -> Self {
        // They are not equally large: twice as much as on average is not to be seen.
        let max_paths = (max_items / 2).clamp(1, MAX_GROUP_PATHS);
        Self { groups: vec![PathGroup::default()], max_paths, hasher: RandomState::new() }
    }

    /// Makes the next round about these.
    pub(super) fn set_watched(&mut self, watched: Vec<(Uri, Path)>) {
        while watched.len() > self.groups.len().saturating_mul(self.max_paths) && self.groups.len() < MAX_GROUPS {
            self.groups.extend_from_within(..);
        }
        for group in &mut self.groups {
            group.watched.clear();
        }
        for (uri, path) in watched {
            // There are as many groups as a power of two, and halves of one are that many apart.
            let index = self.hasher.hash_one(&path) as usize & self.groups.len().saturating_sub(1);
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
    use crate::uri::Mount;

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
