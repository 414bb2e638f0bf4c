//! The task that asks one plugin, round by round, what changed.
//!
//! A round asks about everything that is watched: one call of `changes` for each [group](super::groups) of it, one after the
//! other. It ends with the first that fails, and the next round begins with the group behind that one, so that a path which
//! makes the provider trap keeps only its own group from being told of.
//!
//! What an answer says is made a set of watched resources before anybody is notified, so a path that is named twice changed
//! once. What is made of it, for however many paths and subscribers, is made in [pieces](super::notify).
//!
//! Whoever subscribes has a round made, and could have one made all the time. So a round that took longer than [`QUICK`] is
//! followed by a pause as long as itself, up to [`MAX_REST`], whoever asks for the next; and while a provider fails,
//! subscribers have it asked once in [`MAX_REST`] at most.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::directories::Directories;
use super::groups::Groups;
use super::notify::PIECE;
use super::watcher::{Round, Shared};
use crate::plugin::{ChangeSet, Fault};
use crate::uri::{Path, Uri};

/// What a provider's hint is kept within, unless the interval of the config lies beyond.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_mins(5);
/// The longest that a provider which failed is left alone, unless the interval is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// For how long a plugin is kept watched, at most, that nobody is interested in any more.
const LONGEST_LINGER: Duration = Duration::from_secs(2);
/// Events of the file system come in bursts: a round waits for so long after the first, and sees the burst as one.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// A round that takes no longer may be followed by the next at once.
const QUICK: Duration = Duration::from_millis(5);
/// For how long a plugin is left alone after a round, at most, when somebody subscribes.
const MAX_REST: Duration = Duration::from_secs(1);

/// After a round that failed, those who subscribe try again after its pause, or after so long: they will have a round made.
const MAX_RETRY: Duration = Duration::from_secs(5);

/// Asks one plugin what changed, while anyone is interested in it.
pub(super) struct Rounds {
    shared: Arc<Shared>,
    interval: Duration,
    groups: Groups,
    /// The group that the next round begins with.
    first: usize,
    /// Rounds that failed since the last one that did not.
    failures: u32,
    /// Whether everyone is told once what is told to nobody else: nobody knows what changed before the first round.
    announces: bool,
}

impl Rounds {
    pub(super) fn new(shared: Arc<Shared>, announces: bool) -> Self {
        let interval = shared.plugin.watch_interval();
        let groups = Groups::new(shared.plugin.max_items());
        Self { shared, interval, groups, first: 0, failures: 0, announces }
    }

    pub(super) async fn run(mut self) {
        let mut directories: Option<Directories> = None;
        loop {
            let asked = self.shared.asked.load(Ordering::SeqCst);
            let Some(watched) = self.watched().await else {
                // What is watched ends before anyone can see that nobody asks.
                directories = None;
                self.rest(asked);
                self.shared.wake.notified().await;
                continue;
            };
            self.shared.is_asking.store(true, Ordering::Relaxed);
            let events = match directories.take() {
                Some(events) if !events.are_stale() => events,
                before => Directories::watch(&self.shared.plugin, before).await,
            };
            let began = Instant::now();
            self.groups.watch(watched);
            let pause = self.round(asked).await;
            let rest = match began.elapsed() {
                _ if self.failures > 0 => pause.min(MAX_REST),
                took if took > QUICK => took.min(MAX_REST),
                _ => Duration::ZERO,
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = async { tokio::join!(self.shared.wake.notified(), sleep(rest)); } => {}
                () = self.shared.deserted.notified() => self.linger().await,
                // A provider that fails is left alone, however much happens around it.
                () = events.changed(), if self.failures == 0 => sleep(DEBOUNCE.max(rest)).await,
            }
            directories = Some(events);
        }
    }

    /// Waits for a moment, as clients that go away often come back.
    async fn linger(&self) {
        // Whether somebody came or not, the next round finds out.
        let _ = tokio::time::timeout(self.interval.min(LONGEST_LINGER), self.shared.wake.notified()).await;
    }

    /// What to ask about; none if nobody is interested.
    async fn watched(&self) -> Option<Vec<(Uri, Path)>> {
        let (common, mount) = (&self.shared.common, self.shared.plugin.mount());
        let mut watched = Vec::new();
        loop {
            let behind = watched.last().map(|(uri, _): &(Uri, Path)| uri);
            let more = {
                let interests = common.interests();
                if watched.is_empty() && !interests.any_below(mount) {
                    return None;
                }
                interests.paths(mount, behind, PIECE)
            };
            let is_all = more.len() < PIECE;
            watched.extend(more);
            if is_all {
                return Some(watched);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Nobody is interested any more: what is known gets old.
    fn rest(&mut self, asked: u64) {
        self.groups = Groups::new(self.shared.plugin.max_items());
        self.failures = 0;
        self.announces = false;
        self.shared.listing.forget();
        self.shared.is_asking.store(false, Ordering::Relaxed);
        let fault = Some((Fault::Host("nobody is interested any more".to_owned()), SHORTEST));
        self.shared.rounds.send_replace(Round { counted: asked, fault });
    }

    /// Asks once about everything, tells what came of it, and says for how long to rest.
    async fn round(&mut self, asked: u64) -> Duration {
        let (fault, pause) = match self.ask_all().await {
            Ok(hint) => {
                if std::mem::take(&mut self.announces) {
                    self.tell_all().await;
                }
                self.failures = 0;
                (None, self.pause(hint))
            }
            // The token stays: what changes now is told when the plugin is back.
            Err(fault) => {
                if self.announces && self.failures == 0 {
                    self.tell_all().await;
                }
                let pause = match fault {
                    // It was not asked: this is no further failure.
                    Fault::SetAside(left) => {
                        self.failures = self.failures.max(1);
                        left.clamp(SHORTEST, LONGEST)
                    }
                    _ => {
                        let pause = self.backoff();
                        self.failures = self.failures.saturating_add(1);
                        pause
                    }
                };
                (Some((fault, pause.min(MAX_RETRY))), pause)
            }
        };
        self.shared.rounds.send_replace(Round { counted: asked, fault });
        pause
    }

    /// Asks about each group, and gives in how long the provider would be asked again.
    async fn ask_all(&mut self) -> Result<Option<Duration>, Fault> {
        let (count, first) = (self.groups.len(), self.first);
        let mut hint: Option<Duration> = None;
        for place in (0..count).cycle().skip(first).take(count) {
            self.first = place.saturating_add(1).checked_rem(count).unwrap_or(0);
            let Some(group) = self.groups.get_mut(place) else { continue };
            let paths: Vec<_> = group.watched.iter().map(|(_, path)| path.clone()).collect();
            if paths.is_empty() && count > 1 && place > 0 {
                continue;
            }
            let changes = self.shared.plugin.changes(&paths, group.token.as_deref()).await?;
            let changed = self.changed(place, &changes).await;
            if !self.announces {
                self.shared.common.notify(changed, |_, _| true).await;
            }
            if changes.listing_changed {
                self.shared.listing.may_have_changed();
            }
            hint = hint.into_iter().chain(changes.poll_after).min();
            if let Some(group) = self.groups.get_mut(place) {
                group.token = Some(changes.token);
                group.known = paths.into_iter().collect();
            }
        }
        Ok(hint)
    }

    /// The resources that an answer about that group says changed, each once.
    async fn changed(&mut self, place: usize, changes: &ChangeSet) -> Vec<Uri> {
        let Some(group) = self.groups.get_mut(place) else { return Vec::new() };
        let mut changed = BTreeSet::new();
        for piece in changes.changed.chunks(PIECE) {
            changed.extend(piece.iter().filter(|path| group.known.contains(*path)));
            tokio::task::yield_now().await;
        }
        let watched = group.watched.iter().filter(|(_, path)| changed.contains(path));
        watched.map(|(uri, _)| uri.clone()).collect()
    }

    async fn tell_all(&self) {
        self.shared.common.notify_below(Some(self.shared.plugin.mount()), |_, _| true).await;
    }

    /// How long after a round the next begins: as the provider hints, within bounds, else as the config says.
    fn pause(&self, hint: Option<Duration>) -> Duration {
        hint.map_or(self.interval, |hint| hint.clamp(SHORTEST.min(self.interval), LONGEST.max(self.interval)))
    }

    /// How long a provider that fails is left alone: twice as long each time.
    fn backoff(&self) -> Duration {
        let longest = LONGEST_BACKOFF.max(self.interval);
        1_u32.checked_shl(self.failures).map_or(longest, |times| self.interval.saturating_mul(times).min(longest))
    }
}
