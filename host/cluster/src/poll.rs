//! The polls of one plugin, without input and output: which paths are polled with which token, and what an answer
//! means.
//!
//! [`Polls`] is the state. A poll is a round of calls of `changes`, one for each group of paths, sequentially. A round
//! uses a [`Caller`]: the provider, a clock, and the subscribers. So the watch of plugins and the simulation run the
//! same code.
//!
//! | module | subject |
//! |---|---|
//! | `groups` | the groups of a replica that polls its own paths |
//! | `shared_groups` | the groups of the paths of all replicas |
//! | `own_round`, `shared_round` | a round of calls for either |
//!
//! The paths of an answer are reduced to a set of watched resources before any notification, so a path that is named
//! twice counts as one change.

mod groups;
mod own_round;
mod shared_groups;
mod shared_round;

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use mcp_host_model::resource::WatchedChanges;
use mcp_host_model::uri::{Mount, Path, Uri};
use tokio::time::Instant;

use self::shared_groups::SharedGroups;
use crate::member::{Found, OwnPolled, OwnTokens, SharedPoll};
#[cfg(test)]
use crate::simulation::{Bug, is_planted};

pub use self::groups::{GroupFailure, GroupId, PathGroups, Polled};
pub use self::own_round::Round;

/// The number of paths that are processed before a poll yields.
const BATCH_SIZE: usize = 1024;

/// The environment of a poll: the provider, a clock, and the subscribers.
///
/// For each call of [`call`](Self::call) that is answered, [`answered`](Self::answered) or
/// [`answered_listing`](Self::answered_listing) follows before the next one, and then [`notify`](Self::notify); except
/// for calls that only determine which paths fail.
pub trait Caller: Send {
    /// Why a call has failed.
    type Fault: Clone + Send + Sync;
    /// A client. Its failing paths are separated from the paths of other clients.
    type Client: Clone + Eq + Hash + Send + Sync;

    /// Returns the time.
    fn now(&self) -> Instant;

    /// Calls `changes` of the provider.
    fn call(
        &mut self,
        paths: &[Path],
        token: Option<&str>,
    ) -> impl Future<Output = Result<WatchedChanges, Self::Fault>> + Send;

    /// Handles an answer about these paths, before any notification.
    fn answered(&mut self, polled: &Polled<'_>, changes: &WatchedChanges) -> impl Future<Output = ()> + Send;

    /// Handles what an answer says about the listing. `is_first` is whether no state of the listing was known before.
    fn answered_listing(&mut self, is_first: bool, has_changed: bool);

    /// Notifies the subscribers of these resources.
    fn notify(&mut self, changed: Vec<(Uri, Path)>) -> impl Future<Output = ()> + Send;

    /// Notifies the subscribers of everything below the mount, and of the listing.
    fn notify_all(&mut self) -> impl Future<Output = ()> + Send;

    /// Handles that these paths were polled for this replica only.
    fn polled(&mut self, watched: &[(Uri, Path)]) -> impl Future<Output = ()> + Send;

    /// Returns the client of each of these paths, which have failed together.
    fn failed(&mut self, watched: &[(Uri, Path)]) -> impl Future<Output = Vec<Self::Client>> + Send;
}

/// The state of the polls of one plugin.
pub struct Polls<C, F> {
    /// The plugin's `limits.response-items`.
    max_items: usize,
    groups: PathGroups<C, F>,
    /// The groups of all replicas, while this replica polls for all.
    shared_groups: Option<SharedGroups<F>>,
    /// The times from which failed groups, and parts of the paths that shared groups leave out, may be polled again.
    /// They are independent: otherwise a replica that polls both could spend all time for retries on one of them.
    retries_from: Option<Instant>,
    shared_retries_from: Option<Instant>,
    /// Whether the next poll notifies all subscribers once, instead of the changes it returns, because changes before
    /// it are unknown.
    notify_all_once: bool,
    /// The handover that own polls complete, and when the first of them began.
    handover: Option<(u64, Instant)>,
}

impl<C: Clone + Eq + Hash + Send + Sync, F: Clone + Send + Sync> Polls<C, F> {
    /// Creates the state before the first poll, of a plugin with this `limits.response-items`. `notify_all_once` is
    /// whether the first poll notifies everything, because changes before it are unknown.
    pub fn new(max_items: usize, notify_all_once: bool) -> Self {
        let groups = PathGroups::new(max_items);
        let (shared_groups, handover) = (None, None);
        let (retries_from, shared_retries_from) = (None, None);
        Self { max_items, groups, shared_groups, retries_from, shared_retries_from, notify_all_once, handover }
    }

    /// Returns the groups of this replica's own paths.
    pub fn groups(&self) -> &PathGroups<C, F> {
        &self.groups
    }

    /// Returns the time from which groups that have failed may be polled again; none before the first failure.
    pub fn retries_from(&self) -> Option<Instant> {
        self.retries_from
    }

    /// Returns the new paths that a poll did not serve, each with the failure of its group; none for paths that the
    /// next poll serves.
    pub fn unserved(&self, round: &Round, now: Instant) -> Vec<(Path, Option<&GroupFailure<F>>)> {
        let of_group = |id| self.groups.uncovered(id).into_iter().map(|(_, path)| path);
        let mut unserved: Vec<_> = round.left.iter().flat_map(|id| of_group(*id)).map(|path| (path, None)).collect();
        for (id, failure) in self.groups.failing() {
            // A group whose back-off has ended is a half of a group that was split.
            let waits = Some(failure).filter(|failure| failure.until > now);
            unserved.extend(of_group(id).map(|path| (path, waits)));
        }
        unserved
    }

    /// Returns the watched paths of this replica about which no call was answered since a time.
    pub fn unanswered_since(&self, since: Instant) -> HashSet<Path> {
        self.groups.unanswered_since(since).cloned().collect()
    }

    /// Marks each watched path that its group's token does not cover, so that it is notified once its group has an
    /// answer. For a caller that has notified subscribers by itself.
    pub fn owe_uncovered(&mut self) {
        self.groups.owe_uncovered();
    }

    /// Removes all paths, because nothing is watched any more. The token of the listing is kept.
    pub fn go_idle(&mut self) {
        self.shared_groups = None;
        self.groups.forget_paths();
        self.notify_all_once = false;
    }

    /// Begins a poll of this replica's own paths as the [`Member`](crate::member::Member) has planned it.
    pub fn begin_own(&mut self, now: Instant, tokens: OwnTokens, tell_all: bool, handover: Option<u64>) {
        match tokens {
            OwnTokens::Kept => {}
            OwnTokens::None => self.groups.forget_tokens(),
            OwnTokens::Shared => match self.shared_groups.take() {
                Some(groups) => self.groups = groups.into_own(self.max_items),
                None => self.groups.forget_tokens(),
            },
        }
        self.notify_all_once |= tell_all;
        self.handover = handover.map(|number| match self.handover {
            Some(same) if same.0 == number => same,
            _ => (number, now),
        });
    }

    /// Returns the result of an own poll in which the provider has answered.
    pub fn own_polled(&self) -> OwnPolled {
        match self.handover {
            Some((_, began)) if self.groups.is_polled_since(began) => OwnPolled::Complete,
            _ => OwnPolled::Partial,
        }
    }

    /// Polls this replica's own paths. `is_failing` is whether the last poll has failed as a whole.
    ///
    /// # Errors
    ///
    /// The provider does not answer. The tokens are kept, so changes from now on are reported after its recovery.
    pub async fn poll_own<A>(&mut self, caller: &mut A, watched: Vec<(Uri, Path)>, is_failing: bool) -> Result<Round, F>
    where
        A: Caller<Fault = F, Client = C>,
    {
        self.set_watched(watched, caller.now()).await;
        match self.poll_groups(caller).await {
            Ok(round) => {
                if std::mem::take(&mut self.notify_all_once) {
                    caller.notify_all().await;
                    #[cfg(test)]
                    if is_planted(Bug::OwedForgotten) {
                        return Ok(round);
                    }
                    self.groups.owe_uncovered();
                }
                Ok(round)
            }
            Err(fault) => {
                if self.notify_all_once && !is_failing {
                    caller.notify_all().await;
                }
                Err(fault)
            }
        }
    }

    /// Sets the paths of the next poll of this replica's own paths; many of them in batches, between which other tasks
    /// run.
    async fn set_watched(&mut self, watched: Vec<(Uri, Path)>, now: Instant) {
        if watched.len() <= BATCH_SIZE {
            self.groups.set_watched(watched, now);
            return;
        }
        self.groups.begin_watched();
        let (mut watched, mut new) = (watched.into_iter(), Vec::new());
        while !watched.as_slice().is_empty() {
            new.extend(self.groups.watch_known(watched.by_ref().take(BATCH_SIZE)));
            tokio::task::yield_now().await;
        }
        let mut new = new.into_iter();
        while !new.as_slice().is_empty() {
            self.groups.watch_new(new.by_ref().take(BATCH_SIZE));
            tokio::task::yield_now().await;
        }
        self.groups.forget_unwatched(now);
    }

    /// Polls the paths of all replicas, below this mount. Returns what was found, also before a failure; and the
    /// provider's hint for the next poll, or that the provider does not answer.
    pub async fn poll_shared<A>(
        &mut self,
        caller: &mut A,
        poll: SharedPoll,
        mount: &Mount,
    ) -> (Found, Result<Option<Duration>, F>)
    where
        A: Caller<Fault = F, Client = C>,
    {
        let SharedPoll { paths, tokens, key } = poll;
        let before = match tokens {
            Some(tokens) => Some(SharedGroups::new(self.max_items, key, tokens)),
            None => self.shared_groups.take(),
        };
        let mut groups = before.unwrap_or_else(|| SharedGroups::new(self.max_items, key, Vec::new()));
        let mut watched = Vec::with_capacity(paths.len());
        for (path, replica) in &*paths {
            // The path comes from another replica, so it may be invalid.
            watched.extend(mount.compose(path).ok().map(|located| (located.uri, located.path, *replica)));
            if watched.len().is_multiple_of(BATCH_SIZE) {
                tokio::task::yield_now().await;
            }
        }
        groups.set_watched(watched, caller.now());
        let (mut unanswered, mut found) = (BTreeSet::new(), Found::default());
        let result = self.poll_shared_groups(caller, &mut groups, &mut unanswered, &mut found).await;
        let unserved = groups.unserved(result.is_ok(), &unanswered, caller.now());
        let found = Found { tokens: groups.tokens(), lost: unserved.lost, left: unserved.left, ..found };
        self.shared_groups = Some(groups);
        (found, result)
    }

    /// Notifies the changes of an answer about these paths. Returns the changed resources.
    async fn tell<A: Caller>(&self, caller: &mut A, polled: Polled<'_>, changes: &WatchedChanges) -> Vec<(Uri, Path)> {
        caller.answered(&polled, changes).await;
        caller.answered_listing(polled.is_first, changes.listing_changed);
        let changed = changed_resources(polled, changes).await;
        if !self.notify_all_once {
            caller.notify(changed.clone()).await;
        }
        changed
    }

    /// Calls `changes` for changes of the listing since a token, and returns the next token.
    async fn ask_about_listing<A>(caller: &mut A, token: Option<&str>, round: &mut Round) -> Result<String, F>
    where
        A: Caller<Fault = F>,
    {
        let changes = caller.call(&[], token).await?;
        round.answer(&changes);
        caller.answered_listing(token.is_none(), changes.listing_changed);
        Ok(changes.token)
    }
}

/// Calls `changes`, and returns the answer and the duration.
async fn timed_call<A: Caller>(
    caller: &mut A,
    paths: &[Path],
    token: Option<&str>,
) -> (Result<WatchedChanges, A::Fault>, Duration) {
    let began = caller.now();
    let answer = caller.call(paths, token).await;
    (answer, caller.now().saturating_duration_since(began))
}

/// Returns the changed resources of a group according to the provider, each once.
async fn changed_resources(polled: Polled<'_>, changes: &WatchedChanges) -> Vec<(Uri, Path)> {
    let Polled { watched, new, owed, covers_others, .. } = polled;
    let new: HashSet<_> = new.iter().map(|(_, path)| path).filter(|_| !covers_others).collect();
    let mut changed: BTreeSet<_> = owed.iter().collect();
    for batch in changes.changed.chunks(BATCH_SIZE) {
        changed.extend(batch.iter().filter(|path| !new.contains(path)));
        tokio::task::yield_now().await;
    }
    watched.iter().filter(|(_, path)| changed.contains(path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fault = String;

    fn watched(numbers: std::ops::Range<usize>) -> Vec<(Uri, Path)> {
        let mount: Mount = "a://x/".parse().unwrap();
        let located = numbers.map(|number| mount.compose(&number.to_string()).unwrap());
        located.map(|located| (located.uri, located.path)).collect()
    }

    #[tokio::test]
    async fn paths_that_are_set_in_batches_have_the_same_groups() {
        let (mut batched, mut whole) = (Polls::<u8, Fault>::new(10_000, false), Polls::<u8, Fault>::new(10_000, false));
        for numbers in [0..500, 0..5000, 2000..7000, 6000..6500, 0..3 * BATCH_SIZE] {
            let now = Instant::now();
            batched.set_watched(watched(numbers.clone()), now).await;
            whole.groups.set_watched(watched(numbers), now);
            let groups = |polls: &Polls<u8, Fault>| {
                let ids = polls.groups.working(|_| false);
                ids.into_iter().map(|id| (id, polls.groups.get(id).unwrap().watched.clone())).collect::<Vec<_>>()
            };
            assert_eq!(groups(&batched), groups(&whole));
        }
    }

    #[test]
    fn own_polls_are_complete_when_each_group_was_answered_since_their_handover_began() {
        let (mut polls, now) = (Polls::<u8, Fault>::new(4, false), Instant::now());
        let second = |number| now + Duration::from_secs(number);
        polls.groups.set_watched(watched(0..4), now);
        let answer = |polls: &mut Polls<u8, Fault>, group, at| {
            polls.groups.record_answer(group, "t".to_owned(), Duration::ZERO, at);
        };
        answer(&mut polls, 0, second(1));
        answer(&mut polls, 1, second(1));
        polls.begin_own(second(2), OwnTokens::Kept, false, None);
        assert_eq!(polls.own_polled(), OwnPolled::Partial, "no handover");
        polls.begin_own(second(3), OwnTokens::Kept, false, Some(1));
        answer(&mut polls, 0, second(4));
        polls.groups.record_failure(1, "bad".to_owned(), Duration::ZERO, second(4));
        assert_eq!(polls.own_polled(), OwnPolled::Partial);
        // A poll of the same handover counts the answers of earlier ones.
        polls.begin_own(second(5), OwnTokens::Kept, false, Some(1));
        answer(&mut polls, 1, second(6));
        assert_eq!(polls.own_polled(), OwnPolled::Complete);
        polls.begin_own(second(7), OwnTokens::Kept, false, Some(2));
        answer(&mut polls, 1, second(8));
        assert_eq!(polls.own_polled(), OwnPolled::Partial);
    }
}
