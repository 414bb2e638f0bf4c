//! Replicas that share the shards of one plugin over any engine.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Instant;

use mcp_host_model::uri::Mount;
use tokio::time::timeout;

use super::*;
use crate::engine::model::Model;
use crate::member::{Found, OwnPolled, OwnTokens, Plan, SharedPoll};
use crate::simulation::plant_max_paths;

const LEASE: Duration = Duration::from_secs(2);
/// Enough for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(5);
/// The maximum number of paths of a shard here.
const MAX_PATHS: usize = 40;

/// The number of the last edit of each path, as a provider's token has it.
type Edits = BTreeMap<String, u64>;

/// A replica that polls a provider, and the notifications that it must still get.
struct Replica<'a> {
    shards: Shards,
    provider: &'a RefCell<Edits>,
    watched: Vec<(Uri, Path)>,
    requested: u64,
    /// The state of the last poll of each shard: of its own paths, and of all.
    own: BTreeMap<u32, Edits>,
    all: BTreeMap<u32, Edits>,
    /// The shards that it has paths in.
    used: BTreeSet<u32>,
    /// The paths that it watches from the beginning.
    active: BTreeSet<String>,
    untold: BTreeSet<String>,
}

/// Compares paths with the state of an earlier poll. Returns those that have changed since then, and their state now.
fn compare<'a>(edits: &Edits, paths: impl Iterator<Item = &'a str>, before: &Edits) -> (Vec<String>, Edits) {
    let now: Edits = paths.map(|path| (path.to_owned(), edits.get(path).copied().unwrap_or(0))).collect();
    let has_changed = |(path, edit): &(&String, &u64)| before.get(*path).is_some_and(|before| before < *edit);
    (now.iter().filter(has_changed).map(|(path, _)| path.clone()).collect(), now)
}

fn located(numbers: std::ops::Range<u32>) -> Vec<(Uri, Path)> {
    let mount: Mount = "a://x/".parse().unwrap();
    let located = numbers.map(|number| mount.compose(&number.to_string()).unwrap());
    located.map(|located| (located.uri, located.path)).collect()
}

impl<'a> Replica<'a> {
    fn start<E: Engine>(engine: E, number: u128, provider: &'a RefCell<Edits>, paths: std::ops::Range<u32>) -> Self {
        let name = ShardName::new("test", [b"shards".as_slice()], LISTING_SHARD);
        Self {
            shards: Shards::start(engine, ReplicaId::new(number), name, LEASE, WantsMemory::default()),
            provider,
            active: paths.clone().map(|path| path.to_string()).collect(),
            watched: located(paths),
            requested: 1,
            own: BTreeMap::new(),
            all: BTreeMap::new(),
            used: BTreeSet::new(),
            untold: BTreeSet::new(),
        }
    }

    fn told(&mut self, changed: impl IntoIterator<Item = String>) {
        for path in changed {
            self.untold.remove(&path);
        }
    }

    /// Polls each shard once, and waits for news for a moment.
    async fn serve(&mut self) {
        let requested = self.requested;
        let Parts { parts, needs_poll } = self.shards.divide(self.watched.clone(), requested);
        self.requested += u64::from(needs_poll);
        self.used = parts.iter().map(|part| part.shard).collect();
        for Part { shard, polls, watched } in parts {
            let relied = polls.relies_on_rounds();
            match polls.begin_poll() {
                Plan::Own { tokens, tell_all, .. } => {
                    let before = match tokens {
                        OwnTokens::Kept => self.own.remove(&shard),
                        OwnTokens::None => None,
                        OwnTokens::Shared => self.all.remove(&shard),
                    };
                    let paths = watched.iter().map(|(_, path)| path.as_str());
                    let (changed, now) = compare(&self.provider.borrow(), paths, &before.unwrap_or_default());
                    self.own.insert(shard, now);
                    self.told(changed);
                    if tell_all {
                        self.untold.clear();
                    }
                    self.shards.own_polled(shard, requested, &HashSet::new(), relied);
                    polls.own_polled(OwnPolled::Complete);
                }
                Plan::Shared(SharedPoll { paths, tokens, .. }) => {
                    let of_token = |tokens: Vec<Option<String>>| {
                        let token = tokens.into_iter().next().flatten();
                        token.map(|token| serde_json::from_str(&token).unwrap()).unwrap_or_default()
                    };
                    let before = match tokens {
                        Some(tokens) => of_token(tokens),
                        None => self.all.remove(&shard).unwrap_or_default(),
                    };
                    let (changed, now) = compare(&self.provider.borrow(), paths.keys().map(|path| &**path), &before);
                    let tokens = vec![Some(serde_json::to_string(&now).unwrap())];
                    self.all.insert(shard, now);
                    self.told(changed.iter().cloned());
                    let changed = changed.into_iter().map(Arc::from).collect();
                    polls.shared_polled(Found { changed, tokens, ..Found::default() }, true);
                }
                Plan::Nothing => {}
            }
        }
        let _ = timeout(Duration::from_millis(20), self.shards.wait_for_news()).await;
        for (shard, news) in self.shards.take_news() {
            self.shards.heard(shard, &news);
            self.told(news.changed.iter().map(|path| path.to_string()));
            if news.all_changed {
                self.untold.clear();
            }
        }
    }
}

/// Serves until a condition holds.
async fn serve_until(replicas: &mut [Replica<'_>], what: &str, is_met: impl Fn(&[Replica<'_>]) -> bool) {
    let began = Instant::now();
    while !is_met(&*replicas) {
        for replica in &mut *replicas {
            replica.serve().await;
        }
        let stats: Vec<_> = replicas.iter().map(|replica| (replica.shards.stats(), replica.untold.len())).collect();
        assert!(began.elapsed() < TIMEOUT, "{what}: {stats:?}");
    }
}

/// Returns whether each shard has one holder, which the other replicas follow, and there are at least this many shards.
fn are_shared(replicas: &[Replica<'_>], shards: usize) -> bool {
    let used: BTreeSet<_> = replicas.iter().flat_map(|replica| &replica.used).collect();
    let count = |role| replicas.iter().map(move |replica| replica.shards.stats().count(role)).sum::<u32>();
    used.len() >= shards && count(RoleName::Alone) == 0 && usize::try_from(count(RoleName::Holding)) == Ok(used.len())
}

fn all_told(replicas: &[Replica<'_>]) -> bool {
    replicas.iter().all(|replica| replica.untold.is_empty())
}

/// Edits paths. Each replica that watches them from the beginning must be notified.
fn edit(provider: &RefCell<Edits>, replicas: &mut [Replica<'_>], paths: impl Iterator<Item = u32>) {
    for path in paths.map(|path| path.to_string()) {
        *provider.borrow_mut().entry(path.clone()).or_default() += 1;
        for replica in replicas.iter_mut().filter(|replica| replica.active.contains(&path)) {
            replica.untold.insert(path.clone());
        }
    }
}

/// Checks that different replicas hold the shards of a plugin, and that no change is lost while there become more
/// shards, and when a replica leaves. Each call of `engine` returns the connection of another replica. Must run on one
/// thread.
pub(crate) async fn check<E: Engine>(engine: impl Fn() -> E) {
    plant_max_paths(Some(MAX_PATHS));
    let provider = RefCell::new(Edits::new());
    let ranges = [0..50, 25..75, 50..100];
    let start = |(number, paths)| Replica::start(engine(), number, &provider, paths);
    let mut replicas: Vec<_> = (1..).zip(ranges).map(start).collect();
    serve_until(&mut replicas, "all paths are shared", |replicas| are_shared(replicas, 4)).await;
    let holders = replicas.iter().filter(|replica| replica.shards.stats().count(RoleName::Holding) > 0).count();
    assert!(holders > 1, "one replica holds all shards");
    edit(&provider, &mut replicas, 0..100);
    serve_until(&mut replicas, "all are told", all_told).await;

    // There are edits while paths move to other shards.
    replicas[0].watched = located(0..180);
    replicas[0].requested += 1;
    for round in 0..50 {
        for replica in 0..replicas.len() {
            edit(&provider, &mut replicas, std::iter::once(round * 7 % 100));
            replicas[replica].serve().await;
        }
    }
    serve_until(&mut replicas, "all are told while paths move", all_told).await;
    serve_until(&mut replicas, "all paths are shared again", |replicas| are_shared(replicas, 8)).await;

    // A replica leaves, and gives its leases back.
    let holds = |replica: &Replica<'_>| replica.shards.stats().count(RoleName::Holding);
    let index = (0..replicas.len()).max_by_key(|index| holds(&replicas[*index])).unwrap();
    drop(replicas.remove(index));
    edit(&provider, &mut replicas, 0..100);
    serve_until(&mut replicas, "all are told after a replica has left", all_told).await;
    serve_until(&mut replicas, "all leases are taken", |replicas| are_shared(replicas, 2)).await;
    plant_max_paths(None);
}

#[tokio::test(start_paused = true)]
async fn different_replicas_poll_the_shards_and_no_change_is_lost_while_their_number_grows() {
    let engine = Model::default();
    check(|| engine.clone()).await;
}

#[tokio::test]
async fn paths_can_be_divided_on_a_thread_that_blocks() {
    let name = ShardName::new("test", [b"shards".as_slice()], LISTING_SHARD);
    let shards = Shards::start(Model::default(), ReplicaId::new(1), name, LEASE, WantsMemory::default());
    let shards = Arc::new(shards);
    let dividing = shards.clone();
    let divided = tokio::task::spawn_blocking(move || dividing.divide(located(0..40_000), 1)).await;
    let Parts { parts, needs_poll } = divided.unwrap();
    assert_eq!((parts.len(), needs_poll), (4, false));
    assert_eq!(parts.iter().map(|part| part.watched.len()).sum::<usize>(), 40_000);
    assert!(parts.iter().all(|part| part.polls.role() != RoleName::Idle), "each shard has begun");
}
