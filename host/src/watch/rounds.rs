//! The task that asks one plugin, round by round, what changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::directories::Directories;
use super::watcher::{Round, Shared};
use crate::plugin::{ChangeSet, Fault};
use crate::uri::Path;

/// What a provider's hint is kept within, unless the interval of the config lies beyond.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_mins(5);
/// The longest that a provider which failed is left alone, unless the interval is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// For how long a plugin is kept watched, at most, that nobody is interested in any more.
const LONGEST_LINGER: Duration = Duration::from_secs(2);
/// Events of the file system come in bursts: a round waits for so long after the first, and sees the burst as one.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Asks one plugin what changed, while anyone is interested in it.
pub(super) struct Rounds {
    shared: Arc<Shared>,
    interval: Duration,
    /// Up to when the changes are known; none before the first round, and when nobody was interested since.
    token: Option<String>,
    /// The paths that the token knows of, in order: what it says of others only tells that they are new.
    known: Vec<Path>,
    /// Rounds that failed since the last one that did not.
    failures: u32,
    /// Whether everyone is told once what is told to nobody else: nobody knows what changed before the first round.
    announces: bool,
}

impl Rounds {
    pub(super) fn new(shared: Arc<Shared>, announces: bool) -> Self {
        let interval = shared.plugin.watch_interval();
        Self { shared, interval, token: None, known: Vec::new(), failures: 0, announces }
    }

    pub(super) async fn run(mut self) {
        let mut directories: Option<Directories> = None;
        loop {
            let asked = self.shared.asked.load(Ordering::SeqCst);
            let Some(paths) = self.paths() else {
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
            let pause = self.round(paths, asked).await;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shared.wake.notified() => {}
                () = self.shared.deserted.notified() => self.linger().await,
                // A provider that fails is left alone, however much happens around it.
                () = events.changed(), if self.failures == 0 => tokio::time::sleep(DEBOUNCE).await,
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
    fn paths(&self) -> Option<Vec<Path>> {
        let (interests, mount) = (self.shared.common.interests(), self.shared.plugin.mount());
        interests.any_below(mount).then(|| interests.paths(mount))
    }

    /// Nobody is interested any more: what is known gets old.
    fn rest(&mut self, asked: u64) {
        self.token = None;
        self.known.clear();
        self.failures = 0;
        self.announces = false;
        self.shared.listing.forget();
        self.shared.is_asking.store(false, Ordering::Relaxed);
        let fault = Some(Fault::Host("nobody is interested any more".to_owned()));
        self.shared.rounds.send_replace(Round { counted: asked, fault });
    }

    /// Asks once, tells what came of it, and says for how long to rest.
    async fn round(&mut self, paths: Vec<Path>, asked: u64) -> Duration {
        let answer = self.shared.plugin.changes(&paths, self.token.as_deref()).await;
        let (fault, pause) = match answer {
            Ok(changes) => {
                self.tell(&changes);
                self.announces = false;
                self.failures = 0;
                self.known = paths;
                self.known.sort_unstable();
                self.token = Some(changes.token);
                (None, self.pause(changes.poll_after))
            }
            // The token stays: what changes now is told when the plugin is back.
            Err(fault) => {
                if self.announces && self.failures == 0 {
                    self.tell_all();
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
                (Some(fault), pause)
            }
        };
        self.shared.rounds.send_replace(Round { counted: asked, fault });
        pause
    }

    fn tell(&self, changes: &ChangeSet) {
        if self.announces {
            self.tell_all();
        } else {
            let interests = self.shared.common.interests();
            for path in changes.changed.iter().filter(|path| self.known.binary_search(path).is_ok()) {
                if let Ok(located) = self.shared.plugin.mount().compose(path.as_str()) {
                    interests.tell(&located.uri);
                }
            }
        }
        if changes.listing_changed {
            self.shared.listing.may_have_changed();
        }
    }

    fn tell_all(&self) {
        self.shared.common.interests().tell_all_below(self.shared.plugin.mount());
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
