//! The division of a plugin's watched paths into shards, at one replica.
//!
//! A shard is a [`Member`](crate::member::Member) of its own, with its own lease, rounds and tokens. A hash of the path
//! determines its shard, and the number of shards is a power of two, up to [`MAX_SHARDS`]. So all replicas with the
//! same number compute the same shard. The key of the hash is the name of the plugin, which clients do not know.
//!
//! # The number of shards
//!
//! The holder of the first shard publishes it with each record that it writes
//! ([`Member::shards`](crate::member::Member::shards)): it doubles it, at most once in a lease, when the first shard
//! has more than three quarters of [`MAX_PATHS`] paths, and halves it when the shard has had less than an eighth for
//! long. Replicas announce how many shards their own paths need, and none uses fewer.
//!
//! Replicas need not agree: **each replica has each of its paths in a shard at any time**, and the holder of a shard
//! polls the paths that replicas want there, whatever their hash. While replicas have different numbers, some paths are
//! polled in two shards.
//!
//! # A path that moves
//!
//! A new path in a shard is compared with its state at the next poll, so a change between the last poll in the old
//! shard and the first one in the new shard must not be lost. Therefore these polls overlap:
//!
//! | step | shards of the path | it ends with |
//! |---|---|---|
//! | arriving | both | a poll in the new shard that has begun later, and has served the path |
//! | leaving | both | a poll in the *old* shard that has begun after the end of the first step, and has served the path |
//! | moved | the new one | |
//!
//! A change before the first poll in the new shard is found by the last one in the old shard, and each later change by
//! the new shard. A change may be notified twice. A path for which the provider fails moves when it is served again.
//!
//! The last poll in the old shard must compare the path with the last state that was known here. A replica that [relies
//! on rounds](crate::member::Member::relies_on_rounds) of the shard knows changes only by them, and its own polls do
//! not count; otherwise the rounds do not count.

use std::collections::{HashMap, HashSet};

use mcp_host_model::uri::{Path, Uri};
use sha2::{Digest, Sha256};

#[cfg(test)]
use crate::simulation::{Bug, is_planted, planted_max_paths};

/// The maximum number of paths of a shard.
pub(crate) const MAX_PATHS: usize = 20_000;
/// The maximum number of shards of a plugin. A power of two.
pub(crate) const MAX_SHARDS: u32 = 16;

/// Returns the maximum number of paths of a shard: [`MAX_PATHS`], unless a test sets another.
pub(crate) fn max_paths() -> usize {
    #[cfg(test)]
    if let Some(max) = planted_max_paths() {
        return max;
    }
    MAX_PATHS
}

/// Returns the number of paths of a shard above which there should be more shards. Hashes do not divide paths equally.
pub(crate) fn comfortable(max: usize) -> usize {
    (max / 4).saturating_mul(3).max(1)
}

/// Returns the least number of shards that is valid, and at least this.
pub(crate) fn shard_count(count: u32) -> u32 {
    count.clamp(1, MAX_SHARDS).next_power_of_two()
}

/// Returns the number of shards that this number of paths needs.
fn needed_shards(paths: usize) -> u32 {
    shard_count(u32::try_from(paths.div_ceil(comfortable(max_paths()))).unwrap_or(u32::MAX))
}

/// The shards of one plugin's watched paths.
#[derive(Debug)]
pub(crate) struct Division {
    /// The key of the hash.
    key: String,
    /// The place of each watched path. Empty while all are in the first shard.
    places: HashMap<Path, Place>,
    is_divided: bool,
    /// Whether nothing was watched until now.
    is_fresh: bool,
    /// The number of paths that move.
    moving: usize,
    /// The polls of each shard that has paths; of the first one always, for the listing.
    shards: Vec<Option<u64>>,
}

#[derive(Debug)]
struct Place {
    hash: u32,
    shard: u32,
    moving: Option<Moving>,
    is_watched: bool,
}

/// A path that is in two shards.
#[derive(Clone, Copy, Debug)]
struct Moving {
    /// The shard that it leaves.
    from: u32,
    step: Step,
}

/// A step of a path that moves. A poll ends the step if it has served the requests up to this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Arriving(u64),
    Arrived,
    Leaving(u64),
}

/// The result of a division.
#[derive(Debug, Default)]
pub(crate) struct Divided {
    /// The paths of each shard, by its number.
    pub(crate) shards: Vec<Vec<(Uri, Path)>>,
    /// The number of shards that these paths need.
    pub(crate) need: u32,
    /// Whether another poll must be requested now: paths move.
    pub(crate) needs_poll: bool,
}

impl Division {
    /// Creates the division of a plugin without watched paths. `key` is the same at all replicas.
    pub(crate) fn new(key: String) -> Self {
        Self { key, places: HashMap::new(), is_divided: false, is_fresh: true, moving: 0, shards: vec![Some(0)] }
    }

    /// Divides the watched paths. `count` is the number of shards that the holder of the first one has published, and
    /// `requested` the number of polls that were requested before the paths were collected.
    pub(crate) fn divide(&mut self, watched: Vec<(Uri, Path)>, count: u32, requested: u64) -> Divided {
        let need = needed_shards(watched.len());
        let count = shard_count(count.max(need));
        let is_fresh = std::mem::take(&mut self.is_fresh);
        if count == 1 && !self.is_divided {
            self.shards.truncate(1);
            return Divided { shards: vec![watched], need, needs_poll: false };
        }
        let was_divided = std::mem::replace(&mut self.is_divided, true);
        let (mut shards, mut needs_poll) = (Vec::new(), false);
        shards.resize_with(usize::try_from(MAX_SHARDS).unwrap_or(usize::MAX), Vec::new);
        self.places.values_mut().for_each(|place| place.is_watched = false);
        self.moving = 0;
        let (mask, key) = (count.saturating_sub(1), &self.key);
        for (uri, path) in watched {
            let place = self.places.entry(path.clone()).or_insert_with(|| {
                let hash = hash(key, &path);
                // Until the first division, all paths were in the first shard.
                let shard = if was_divided || is_fresh { hash & mask } else { 0 };
                Place { hash, shard, moving: None, is_watched: true }
            });
            place.is_watched = true;
            needs_poll |= place.go_on(mask, requested);
            let from = place.moving.map(|moving| moving.from);
            #[cfg(test)]
            if is_planted(Bug::InNoShard)
                && matches!(place.moving, Some(Moving { step: Step::Arriving(after), .. }) if after > requested)
            {
                continue;
            }
            if let Some(old) = from.and_then(|from| shards.get_mut(index(from))) {
                self.moving = self.moving.saturating_add(1);
                old.push((uri.clone(), path.clone()));
            }
            if let Some(shard) = shards.get_mut(index(place.shard)) {
                shard.push((uri, path));
            }
        }
        self.places.retain(|_, place| place.is_watched);
        if count == 1 && self.moving == 0 {
            self.is_divided = false;
            self.places.clear();
        }
        let was = std::mem::take(&mut self.shards);
        let polls = |(number, paths): (usize, &Vec<_>)| {
            (number == 0 || !paths.is_empty()).then(|| was.get(number).copied().flatten().unwrap_or(0))
        };
        self.shards = shards.iter().enumerate().map(polls).collect();
        Divided { shards, need, needs_poll }
    }

    /// Records that polls of a shard, here or at another replica, have served all requests up to this number.
    pub(crate) fn served(&mut self, shard: u32, number: u64) {
        if let Some(Some(polls)) = self.shards.get_mut(index(shard)) {
            *polls = number.max(*polls);
        }
    }

    /// Records a poll of a shard that has served all requests up to this number, except of the `unanswered` paths.
    /// `is_compared` is whether it has compared paths with the last state that was known here. Returns whether paths
    /// can go on moving.
    pub(crate) fn polled(&mut self, shard: u32, number: u64, unanswered: &HashSet<Path>, is_compared: bool) -> bool {
        self.served(shard, number);
        #[cfg(test)]
        let is_compared = is_compared || is_planted(Bug::RelianceIgnored);
        let mut goes_on = false;
        if self.moving == 0 {
            return false;
        }
        for (path, place) in &mut self.places {
            let Some(moving) = &mut place.moving else { continue };
            let (of_shard, after) = match moving.step {
                Step::Arriving(after) => (place.shard, after),
                Step::Leaving(after) if is_compared => (moving.from, after),
                Step::Leaving(_) | Step::Arrived => continue,
            };
            let is_served = of_shard == shard && number >= after && !unanswered.contains(path);
            #[cfg(test)]
            let is_served = is_served || of_shard == shard && number >= after && is_planted(Bug::UnansweredHasMoved);
            if !is_served {
                continue;
            }
            goes_on = true;
            match moving.step {
                #[cfg(test)]
                Step::Arriving(_) if is_planted(Bug::MovedBeforeLastPoll) => place.moving = None,
                Step::Arriving(_) => moving.step = Step::Arrived,
                _ => place.moving = None,
            }
        }
        goes_on
    }

    /// Returns the number up to which all requests were served, in all shards.
    pub(crate) fn completed(&self) -> u64 {
        self.shards.iter().flatten().copied().min().unwrap_or(0)
    }

    /// Forgets all paths, because nothing is watched any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(std::mem::take(&mut self.key));
    }
}

impl Place {
    /// Begins the next step of the path, if there is one. Returns whether it begins, and needs a poll that is requested
    /// later.
    fn go_on(&mut self, mask: u32, requested: u64) -> bool {
        let (target, later) = (self.hash & mask, requested.saturating_add(1));
        match &mut self.moving {
            None if self.shard == target => false,
            None => {
                self.moving = Some(Moving { from: self.shard, step: Step::Arriving(later) });
                self.shard = target;
                #[cfg(test)]
                if is_planted(Bug::MovedAtOnce) {
                    self.moving = None;
                }
                true
            }
            Some(moving) if moving.step == Step::Arrived => {
                moving.step = Step::Leaving(later);
                true
            }
            Some(_) => false,
        }
    }
}

fn index(shard: u32) -> usize {
    usize::try_from(shard).unwrap_or(usize::MAX)
}

fn hash(key: &str, path: &Path) -> u32 {
    let digest = Sha256::new().chain_update(key).chain_update([0]).chain_update(path.as_str()).finalize();
    digest.iter().take(size_of::<u32>()).fold(0, |hash: u32, byte| hash << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mcp_host_model::uri::Mount;

    use super::*;

    fn watched(numbers: std::ops::Range<usize>) -> Vec<(Uri, Path)> {
        let mount: Mount = "a://x/".parse().unwrap();
        let located = numbers.map(|number| mount.compose(&number.to_string()).unwrap());
        located.map(|located| (located.uri, located.path)).collect()
    }

    fn division() -> Division {
        Division::new("plugin".to_owned())
    }

    /// Returns the numbers of the shards of each path.
    fn places(divided: &Divided) -> HashMap<Path, BTreeSet<usize>> {
        let mut places = HashMap::<Path, BTreeSet<usize>>::new();
        for (number, paths) in divided.shards.iter().enumerate() {
            for (_, path) in paths {
                assert!(places.entry(path.clone()).or_default().insert(number), "{path} is twice in a shard");
            }
        }
        places
    }

    fn none() -> HashSet<Path> {
        HashSet::new()
    }

    #[test]
    fn few_paths_are_one_shard_and_many_as_many_as_they_need() {
        for (paths, need) in [(0, 1), (15_000, 1), (15_001, 2), (30_001, 4), (240_000, 16), (1_000_000, 16)] {
            assert_eq!(needed_shards(paths), need, "{paths}");
        }
        assert_eq!([0, 1, 3, 16, 17, u32::MAX].map(shard_count), [1, 1, 4, 16, 16, 16]);
        let divided = division().divide(watched(0..100), 1, 1);
        assert_eq!((divided.shards.len(), divided.need, divided.needs_poll), (1, 1, false));
        let divided = division().divide(watched(0..40_000), 1, 1);
        assert_eq!(divided.need, 4);
        assert!(!divided.needs_poll, "what is watched from the beginning does not move");
        let sizes: Vec<_> = divided.shards.iter().map(Vec::len).collect();
        assert!(sizes[..4].iter().all(|size| (9000..11_000).contains(size)), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 40_000);
    }

    #[test]
    fn replicas_with_the_same_number_of_shards_compute_the_same_one_for_a_path() {
        let (mut one, mut other) = (division(), division());
        let ours = places(&one.divide(watched(0..100), 4, 1));
        let theirs = places(&other.divide(watched(50..150), 4, 9));
        assert!(watched(50..100).iter().all(|(_, path)| ours[path] == theirs[path] && ours[path].len() == 1));
    }

    #[test]
    fn a_path_that_moves_is_in_both_shards_until_the_old_one_was_polled_after_the_new_one() {
        let (mut division, all) = (division(), || watched(0..100));
        division.divide(all(), 1, 5);
        assert!(!division.polled(0, 5, &none(), true));
        let divided = division.divide(all(), 2, 5);
        assert!(divided.needs_poll);
        let moving = places(&divided);
        let moving: Vec<_> =
            moving.iter().filter(|(_, shards)| shards.len() == 2).map(|(path, _)| path.clone()).collect();
        assert!((30..70).contains(&moving.len()), "{}", moving.len());
        assert_eq!(division.completed(), 0, "the new shard was not polled");
        let both = |division: &mut Division, requested| {
            let divided = division.divide(all(), 2, requested);
            (places(&divided).values().filter(|shards| shards.len() == 2).count(), divided.needs_poll)
        };
        // A poll that was requested earlier, of either shard, and a later one of the old shard.
        assert!(!division.polled(1, 5, &none(), true) && !division.polled(0, 6, &none(), true));
        assert_eq!(both(&mut division, 6), (moving.len(), false));
        // One path is not served.
        let failing = HashSet::from([moving[0].clone()]);
        assert!(division.polled(1, 6, &failing, true));
        assert_eq!(division.completed(), 6);
        assert_eq!(both(&mut division, 7), (moving.len(), true));
        assert!(!division.polled(0, 7, &none(), true), "it may have begun before the poll of the new shard");
        assert!(division.polled(0, 8, &none(), true));
        assert_eq!(both(&mut division, 8), (1, false));
        assert!(division.polled(1, 8, &none(), true));
        assert_eq!(both(&mut division, 8), (1, true));
        assert!(!division.polled(0, 9, &failing, true), "the old shard must serve it once more, too");
        assert!(division.polled(0, 9, &none(), true));
        assert_eq!(both(&mut division, 9), (0, false));
    }

    #[test]
    fn a_poll_that_does_not_compare_with_the_known_state_is_not_the_last_one_in_the_old_shard() {
        let (mut division, all) = (division(), || watched(0..20));
        division.divide(all(), 1, 1);
        division.divide(all(), 2, 1);
        assert!(division.polled(1, 2, &none(), false), "a new shard knows no state");
        assert!(division.divide(all(), 2, 2).needs_poll);
        assert!(!division.polled(0, 3, &none(), false));
        assert!(division.polled(0, 3, &none(), true));
        assert!(places(&division.divide(all(), 2, 3)).values().all(|shards| shards.len() == 1));
    }

    #[test]
    fn whatever_happens_each_path_is_in_a_shard_and_one_that_moves_stays_where_it_was() {
        let mut random = fastrand::Rng::with_seed(33);
        for _ in 0..50 {
            let (mut division, mut before) = (division(), HashMap::<Path, BTreeSet<usize>>::new());
            for requested in 0..100 {
                let count = 1 << random.u32(..5);
                let (from, length) = (random.usize(..10), random.usize(0..60));
                let all = watched(from..from + length);
                let divided = division.divide(all.clone(), count, requested);
                let now = places(&divided);
                assert_eq!(now.len(), all.len());
                for (path, shards) in &now {
                    assert!(shards.len() <= 2);
                    if let Some(before) = before.get(path) {
                        assert!(
                            before.intersection(shards).count() > 0,
                            "{path} was in {before:?} and is in {shards:?}"
                        );
                    }
                }
                before = now;
                for _ in 0..random.usize(..20) {
                    let left: HashSet<_> =
                        all.iter().map(|(_, path)| path.clone()).filter(|_| random.u8(..5) == 0).collect();
                    division.polled(random.u32(..16), requested, &left, true);
                }
                if random.u32(..20) == 0 {
                    division.clear();
                    before.clear();
                }
            }
        }
    }

    #[test]
    fn when_all_paths_are_back_in_the_first_shard_they_are_not_hashed_any_more() {
        let (mut division, all) = (division(), || watched(0..50));
        assert!(!division.divide(all(), 4, 1).needs_poll);
        assert!(division.divide(all(), 1, 1).needs_poll);
        for requested in 2..4 {
            for shard in 0..4 {
                division.polled(shard, requested, &none(), true);
            }
            if requested == 2 {
                division.divide(all(), 1, requested);
            }
        }
        let divided = division.divide(all(), 1, 3);
        assert!(divided.shards[1..].iter().all(Vec::is_empty) && !division.is_divided && division.places.is_empty());
        assert_eq!(division.divide(all(), 1, 3).shards.len(), 1);
    }
}
