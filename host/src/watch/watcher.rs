//! What watches one loaded plugin: a task that asks what changed ([`rounds`](super::rounds)), and one that finds out whether
//! what is listed is another for somebody ([`listing`](super::listing)).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::interests::Interests;
use super::listing::Listing;
use super::lookup::{Lookups, Refusal};
use super::memory::Memory;
use super::rounds::Rounds;
use crate::access::{Access, Principal};
use crate::catalog::Print;
use crate::plugin::{Fault, Plugin};
use crate::uri::{Path, Uri};

/// What all subscriptions of a host may take up, in bytes: about a million of them whose URIs have 50 bytes.
const MAX_BYTES: usize = 512 << 20;

/// What all watchers share.
#[derive(Debug)]
pub(super) struct Common {
    interests: Mutex<Interests>,
    /// The rules of now.
    pub(super) access: ArcSwap<Access>,
    /// Held by each subscriber.
    subscribers: Arc<()>,
    /// What all subscriptions may take up.
    pub(super) memory: Memory,
}

impl Common {
    pub(super) fn new(access: Arc<Access>) -> Arc<Self> {
        Arc::new(Self {
            interests: Mutex::default(),
            access: ArcSwap::new(access),
            subscribers: Arc::default(),
            memory: Memory::new(MAX_BYTES),
        })
    }

    /// How many subscribers there are.
    pub(super) fn subscribers(&self) -> usize {
        Arc::strong_count(&self.subscribers).saturating_sub(1)
    }

    /// What a subscriber holds to be counted.
    pub(super) fn count_subscriber(&self) -> Arc<()> {
        self.subscribers.clone()
    }

    pub(super) fn interests(&self) -> MutexGuard<'_, Interests> {
        self.interests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches one plugin while anyone is interested in it. It ends when it is retired, or dropped.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    lookups: Arc<Lookups>,
}

/// What a watcher and its tasks share.
pub(super) struct Shared {
    pub(super) plugin: Arc<Plugin>,
    pub(super) common: Arc<Common>,
    /// Something happened that a round should not wait for the interval to see.
    pub(super) wake: Notify,
    /// Nobody is interested any more.
    pub(super) deserted: Notify,
    /// How many rounds have been asked for: those that a round counts for are all up to the number at its beginning.
    pub(super) asked: AtomicU64,
    /// The last round: up to which of those asked for it counted, and how it went.
    pub(super) rounds: watch::Sender<Round>,
    pub(super) listing: Listing,
    /// Whether its plugin is being asked, round by round.
    pub(super) is_asking: AtomicBool,
    retired: CancellationToken,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) counted: u64,
    /// What was wrong, and in how long it makes sense to ask again.
    pub(super) fault: Option<(Fault, Duration)>,
}

/// Why no round was made.
pub(super) enum Missed {
    /// The provider failed. In so long it makes sense to ask again.
    Fault(Fault, Duration),
    /// The watcher was retired: another one may have taken its place.
    Retired,
}

/// What a watcher takes over from the one whose place it takes.
#[derive(Default)]
pub(super) struct Inheritance {
    /// What each principal who asked would have listed last.
    pub(super) prints: HashMap<Principal, Print>,
    /// Whether those who are interested are told once, as soon as what changes from then on is known.
    pub(super) announces: bool,
}

impl Watcher {
    /// Starts the tasks.
    pub(super) fn start(plugin: &Arc<Plugin>, common: &Arc<Common>, inheritance: Inheritance) -> Arc<Self> {
        let shared = Arc::new(Shared {
            plugin: plugin.clone(),
            common: common.clone(),
            wake: Notify::new(),
            deserted: Notify::new(),
            asked: AtomicU64::new(0),
            rounds: watch::Sender::new(Round::default()),
            listing: Listing::new(inheritance.prints),
            is_asking: AtomicBool::new(false),
            retired: CancellationToken::new(),
        });
        if plugin.info().watches {
            let rounds = Rounds::new(shared.clone(), inheritance.announces);
            tokio::spawn(shared.retired.clone().run_until_cancelled_owned(rounds.run()));
        }
        tokio::spawn(shared.retired.clone().run_until_cancelled_owned(shared.clone().compare_listings()));
        Arc::new(Self { lookups: Lookups::new(plugin.clone()), shared })
    }

    pub(super) fn plugin(&self) -> &Arc<Plugin> {
        &self.shared.plugin
    }

    /// Whether its provider tells what changes.
    pub(super) fn watches(&self) -> bool {
        self.shared.watches()
    }

    /// Whether its plugin is being asked what changed.
    pub(super) fn is_asking(&self) -> bool {
        self.shared.is_asking.load(Ordering::Relaxed)
    }

    /// Has it find out that nobody is interested any more, if so.
    pub(super) fn may_be_deserted(&self, interests: &Interests) {
        if self.watches() && !interests.any_below(self.plugin().mount()) {
            self.shared.deserted.notify_one();
        }
    }

    /// Ends its tasks; whoever waits for a round goes on without.
    pub(super) fn retire(&self) {
        self.shared.retired.cancel();
    }

    /// See [`Shared::next_round`].
    pub(super) async fn next_round(&self) -> Result<(), Missed> {
        self.shared.next_round().await
    }

    /// What its provider calls that resource; none if it does not own it.
    pub(super) fn path(&self, uri: &Uri) -> Option<Path> {
        let mount = self.plugin().mount();
        Some(mount.compose(uri.as_str().strip_prefix(mount.as_str())?).ok()?.path)
    }

    /// Whether its provider says of that resource that it can be subscribed to; see [`Lookups`]. None if it was retired.
    pub(super) async fn is_subscribable(&self, path: &Path) -> Option<Result<bool, Refusal>> {
        self.shared.retired.run_until_cancelled(self.lookups.is_subscribable(path)).await
    }

    /// Somebody new is interested in what is listed.
    pub(super) fn watch_listing(&self) {
        if self.watches() {
            self.shared.listing.dirty.notify_one();
            self.shared.wake.notify_one();
        }
    }

    /// Returns when changes of what that principal would list count.
    pub(super) async fn listing_counts(&self, who: &Principal) {
        if self.watches() {
            self.shared.retired.run_until_cancelled(self.shared.listing.counts(who)).await;
        }
    }

    /// What principals who asked would have listed last, as far as it is known. A provider that does not tell what changes is
    /// asked now.
    pub(super) async fn prints(&self) -> HashMap<Principal, Print> {
        if !self.watches() {
            let access = self.shared.common.access.load_full();
            self.shared.take_prints(&access).await;
        }
        self.shared.listing.prints().clone()
    }

    /// Has what is listed compared with what it was under the rules of before.
    pub(super) fn compare_listing_with(&self, old: Arc<Access>) {
        let shared = self.shared.clone();
        tokio::spawn(shared.retired.clone().run_until_cancelled_owned(async move {
            if !shared.watches() {
                shared.take_prints(&old).await;
            }
            shared.listing.may_have_changed();
        }));
    }

    /// Has what is listed compared with what it was.
    pub(super) fn compare_listing(&self) {
        self.shared.listing.may_have_changed();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.retire();
    }
}

impl Shared {
    pub(super) fn watches(&self) -> bool {
        self.plugin.info().watches
    }

    /// Returns when a round that began from now on has ended.
    pub(super) async fn next_round(&self) -> Result<(), Missed> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        let mut rounds = self.rounds.subscribe();
        self.wake.notify_one();
        let round = self.retired.run_until_cancelled(rounds.wait_for(|round| round.counted >= asked)).await;
        match round {
            Some(Ok(round)) => round.fault.clone().map_or(Ok(()), |(fault, after)| Err(Missed::Fault(fault, after))),
            Some(Err(_)) | None => Err(Missed::Retired),
        }
    }
}
