//! The task that finds out whether what is listed of one plugin is another for somebody.
//!
//! A provider says that its listing changed, not for whom: a principal who may not see what changed would learn that there
//! is something. So each principal that asked has a [`Print`] of what it would list of the plugin, and is told only when it
//! is another one. Prints are taken by walking the listing, once for all principals and however many subscribers they have,
//! beside the rounds and never two at a time: what changes while a walk is under way is seen by the next one. A listing
//! that is too long to walk has no print, and is told of whenever the provider says so.
//!
//! A provider may say that its listing changed as often as it likes, and clients may come and go: after each walk the next one
//! waits four times as long as the walk took, [`MIN_REST`] at least and [`MAX_REST`] at most. So walks take a fifth of the time
//! in the worst case, and what is listed is told to nobody more than ten times a second. The first walk after a while begins at
//! once. There is none when somebody comes whose print is known already.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::watcher::Shared;
use crate::access::{Access, Principal};
use crate::catalog::{self, Print};

/// How long the next walk waits at least, and at most.
const MIN_REST: Duration = Duration::from_millis(100);
const MAX_REST: Duration = Duration::from_secs(30);
/// How many times as long it waits as the last one took.
const REST_TIMES: u32 = 4;

/// What is known of the listing of one plugin.
pub(super) struct Listing {
    /// How often it may have changed: the provider said so, or a reload brought it about.
    version: AtomicU64,
    /// It is to be looked at.
    pub(super) dirty: Notify,
    /// What each principal that asked would have listed last.
    prints: Mutex<HashMap<Principal, Print>>,
    /// Changes when prints were taken.
    taken: watch::Sender<()>,
}

impl Listing {
    pub(super) fn new(prints: HashMap<Principal, Print>) -> Self {
        let is_inherited = !prints.is_empty();
        let listing = Self {
            version: AtomicU64::new(0),
            dirty: Notify::new(),
            prints: Mutex::new(prints),
            taken: watch::Sender::new(()),
        };
        if is_inherited {
            listing.may_have_changed();
        }
        listing
    }

    /// It is to be compared with what it was.
    pub(super) fn may_have_changed(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.dirty.notify_one();
    }

    /// Nobody is told of changes any more, so nobody knows what they would be changes to.
    pub(super) fn forget(&self) {
        self.prints().clear();
    }

    /// Returns when changes count for that principal.
    pub(super) async fn counts(&self, who: &Principal) {
        let mut taken = self.taken.subscribe();
        // It fails when there is no sender, and this is the sender.
        let _ = taken.wait_for(|()| self.prints().contains_key(who)).await;
    }

    pub(super) fn prints(&self) -> MutexGuard<'_, HashMap<Principal, Print>> {
        self.prints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Looks at the listing whenever it may have changed.
    pub(super) async fn compare_listings(self: Arc<Self>) {
        let mut is_first = true;
        // What the last walk saw, and before when there is no other.
        let (mut walked, mut rest) = (0, Instant::now());
        loop {
            self.listing.dirty.notified().await;
            sleep_until(rest).await;
            let asking = self.common.interests().listing_principals();
            let new = self.new_ones(&asking);
            let version = self.listing.version();
            if asking.is_empty() || (new.is_empty() && version == walked) {
                continue;
            }
            let began = Instant::now();
            if std::mem::take(&mut is_first) || !new.is_empty() {
                // What changes from here on, a round sees.
                self.one_round().await;
            }
            let version = self.listing.version();
            walked = version;
            let access = self.common.access.load_full();
            let mut told = self.walk(asking, &access).await;
            if !new.is_empty() {
                self.one_round().await;
                // It changed while it was walked, or shortly before: whether those who are new know is not known.
                if self.listing.version() != version {
                    told.extend(new);
                }
            }
            self.common.interests().tell_listing(&told);
            self.listing.taken.send_replace(());
            let pause = began.elapsed().saturating_mul(REST_TIMES).clamp(MIN_REST, MAX_REST);
            rest = Instant::now().checked_add(pause).unwrap_or(rest);
        }
    }

    /// Has a print under those rules for everyone who asked, without telling anyone.
    pub(super) async fn take_prints(&self, access: &Arc<Access>) {
        let asking = self.common.interests().listing_principals();
        let new = self.new_ones(&asking);
        if !new.is_empty() {
            self.walk(new, access).await;
        }
    }

    /// Those of whom there is no print yet. The prints of those who do not ask any more are forgotten.
    fn new_ones(&self, asking: &HashSet<Principal>) -> HashSet<Principal> {
        let mut prints = self.listing.prints();
        prints.retain(|who, _| asking.contains(who));
        asking.iter().filter(|who| !prints.contains_key(*who)).cloned().collect()
    }

    /// Takes new prints, and gives those principals for whom the listing is another now.
    async fn walk(&self, principals: HashSet<Principal>, access: &Arc<Access>) -> HashSet<Principal> {
        let principals: Vec<_> = principals.into_iter().collect();
        let taken = catalog::prints(&self.plugin, access, &principals).await;
        let mut prints = self.listing.prints();
        let mut changed = HashSet::new();
        for (who, now) in principals.into_iter().zip(taken) {
            if prints.insert(who.clone(), now).is_some_and(|before| before.differs(now)) {
                changed.insert(who);
            }
        }
        changed
    }

    /// Waits for a round, where there are any; whether it fails does not matter, as the next that does not tells.
    async fn one_round(&self) {
        if self.watches() {
            let _ = self.next_round().await;
        }
    }
}
