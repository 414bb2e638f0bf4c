//! All shards of one plugin, shared with other replicas: [`SharedPolls`] for each shard that has paths here.
//!
//! The watch of a plugin [divides](Shards::divide) its paths before each poll, and polls each part by the polls of its
//! shard. The first shard always has a part: changes of the listing belong to it alone. A part's [`SharedPolls`] decide
//! whether this replica polls its paths for itself, for all replicas, or not at all. Shards begin when they have paths,
//! and end with this value.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_host_model::uri::{Path, Uri};
use tokio::sync::Notify;

use crate::division::{Divided, Division};
use crate::engine::Engine;
use crate::member::RoleName;
use crate::memory::WantsMemory;
use crate::replica::ReplicaId;
use crate::share::{News, ShardName, ShareStats, SharedPolls};

/// The number of the shard that changes of the listing belong to.
pub const LISTING_SHARD: u32 = 0;

/// The polls of one plugin, divided into shards and shared with other replicas while this value exists.
pub struct Shards {
    /// Begins a shard.
    start: Box<dyn Fn(u32) -> SharedPolls + Send + Sync>,
    /// The shards that have begun. Never locked together with `division`, which is locked for as long as a division
    /// takes.
    begun: Mutex<BTreeMap<u32, Arc<SharedPolls>>>,
    division: Mutex<Division>,
    /// Notified when a shard has news.
    has_news: Arc<Notify>,
}

/// The parts of a plugin's watched paths.
#[derive(Debug)]
pub struct Parts {
    /// One for each shard that has paths, and for the first one.
    pub parts: Vec<Part>,
    /// Whether another poll must be requested now, because paths move to other shards.
    pub needs_poll: bool,
}

/// The paths of one shard.
#[derive(Debug)]
pub struct Part {
    /// The number of the shard.
    pub shard: u32,
    /// The polls of the shard.
    pub polls: Arc<SharedPolls>,
    /// The paths.
    pub watched: Vec<(Uri, Path)>,
}

/// The state of all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardsStats {
    /// The number of shards for each [role](RoleName::ALL). Only the first one counts as idle.
    pub roles: [u32; RoleName::ALL.len()],
    /// The sum of the counters.
    pub stats: ShareStats,
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").field("begun", &*self.begun()).finish_non_exhaustive()
    }
}

impl Shards {
    /// Starts sharing the polls of a plugin. `first` is the name of its first shard. The plugins of a host have one
    /// `memory` together. The tasks run on the current runtime until this value is dropped.
    pub fn start<E: Engine>(engine: E, me: ReplicaId, first: ShardName, lease: Duration, memory: WantsMemory) -> Self {
        let (has_news, key) = (Arc::<Notify>::default(), first.plugin().to_owned());
        let news = has_news.clone();
        let start = move |shard| {
            SharedPolls::start_with(engine.clone(), me, first.sibling(shard), lease, news.clone(), memory.clone())
        };
        let begun = BTreeMap::from([(LISTING_SHARD, Arc::new(start(LISTING_SHARD)))]);
        let (begun, division) = (Mutex::new(begun), Mutex::new(Division::new(key)));
        Self { start: Box::new(start), begun, division, has_news }
    }

    fn begun(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<SharedPolls>>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn division(&self) -> MutexGuard<'_, Division> {
        self.division.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Divides the paths that are watched here. `requested` is the number of polls that were requested before the paths
    /// were collected. Must be called on a runtime, on a thread that may block if there are many paths: each costs
    /// about a microsecond.
    pub fn divide(&self, watched: Vec<(Uri, Path)>, requested: u64) -> Parts {
        let (count, held) = {
            let begun = self.begun();
            let held = begun.values().filter(|polls| polls.role() == RoleName::Holding).count();
            (begun.get(&LISTING_SHARD).map_or(1, |first| first.shards()), held)
        };
        let Divided { shards, need, needs_poll } = self.division().divide(watched, count, requested);
        let mut divided: BTreeMap<_, _> = (0_u32..).zip(shards).collect();
        divided.retain(|shard, watched| *shard == LISTING_SHARD || !watched.is_empty());
        let parts: Vec<_> = {
            let mut begun = self.begun();
            for (shard, polls) in &*begun {
                if !divided.contains_key(shard) && polls.role() != RoleName::Idle {
                    polls.leave();
                }
            }
            let part = |(shard, watched)| {
                let polls = begun.entry(shard).or_insert_with(|| Arc::new((self.start)(shard))).clone();
                Part { shard, polls, watched }
            };
            divided.into_iter().map(part).collect()
        };
        for Part { polls, watched, .. } in &parts {
            polls.set_division(need, held);
            polls.watch(watched.iter().map(|(_, path)| path.as_str().into()).collect(), requested);
        }
        Parts { parts, needs_poll }
    }

    /// Records a poll of this replica's own paths in a shard: it has served all requests up to this number, except of
    /// the `unanswered` paths. `relied` is whether the replica [relied on rounds](SharedPolls::relies_on_rounds) before
    /// the poll [began](SharedPolls::begin_poll). Returns whether paths can go on moving, for which they must be
    /// divided again.
    pub fn own_polled(&self, shard: u32, number: u64, unanswered: &HashSet<Path>, relied: bool) -> bool {
        self.division().polled(shard, number, unanswered, !relied)
    }

    /// Records what the news of a shard report: rounds that have served requests. Returns whether paths can go on
    /// moving.
    pub fn heard(&self, shard: u32, news: &News) -> bool {
        let mut division = self.division();
        if let Some(completed) = news.completed {
            division.served(shard, completed);
        }
        news.relied.is_some_and(|relied| division.polled(shard, relied, &HashSet::new(), true))
    }

    /// Returns the number up to which all requests were served, in all shards.
    pub fn completed(&self) -> u64 {
        self.division().completed()
    }

    /// Ends watching here.
    pub fn leave(&self) {
        self.begun().values().for_each(|polls| polls.leave());
        self.division().clear();
    }

    /// Waits until a shard has news. Cancel-safe.
    pub async fn wait_for_news(&self) {
        while !self.begun().values().any(|polls| polls.has_news()) {
            self.has_news.notified().await;
        }
    }

    /// Takes the news of each shard.
    pub fn take_news(&self) -> Vec<(u32, News)> {
        self.begun()
            .iter()
            .filter(|(_, polls)| polls.has_news())
            .map(|(shard, polls)| (*shard, polls.take_news()))
            .collect()
    }

    /// Returns the state of all shards.
    pub fn stats(&self) -> ShardsStats {
        let mut sum = ShardsStats::default();
        for (shard, polls) in &*self.begun() {
            let (role, ShareStats { member, invalid, failed }) = (polls.role(), polls.stats());
            let counted = RoleName::ALL.iter().zip(&mut sum.roles).find(|(one, _)| **one == role);
            if let Some((_, count)) = counted.filter(|_| role != RoleName::Idle || *shard == LISTING_SHARD) {
                *count = count.saturating_add(1);
            }
            sum.stats.member.add(member);
            sum.stats.invalid = sum.stats.invalid.saturating_add(invalid);
            sum.stats.failed = sum.stats.failed.saturating_add(failed);
        }
        sum
    }
}

impl ShardsStats {
    /// Returns the number of shards with this role.
    pub fn count(&self, role: RoleName) -> u32 {
        RoleName::ALL.iter().zip(self.roles).find(|(one, _)| **one == role).map_or(0, |(_, count)| count)
    }
}

#[cfg(test)]
pub(crate) mod tests;
