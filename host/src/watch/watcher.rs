//! The task that asks one plugin what changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use super::directories::Directories;
use super::interests::Interests;
use crate::plugin::{Fault, Plugin};
use crate::uri::Path;

/// How long after one round the next begins, unless the provider hints otherwise.
const INTERVAL: Duration = Duration::from_secs(2);
/// What a provider's hint is kept within.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(300);
/// Events of the file system come in bursts: a round waits for so long after the first, and sees the burst as one.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Watches one plugin while anyone is interested in it.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

struct Shared {
    interests: Mutex<Interests>,
    /// Something happened that a round should not wait for the interval to see.
    wake: Notify,
    /// The last round: up to which subscription it counted, and how it went.
    rounds: watch::Sender<Round>,
}

#[derive(Clone, Debug, Default)]
struct Round {
    counted: u64,
    fault: Option<Fault>,
}

impl Watcher {
    /// Starts the task. It ends with the watcher.
    pub(super) fn start(plugin: &Arc<Plugin>) -> Arc<Self> {
        let shared = Arc::new(Shared {
            interests: Mutex::default(),
            wake: Notify::new(),
            rounds: watch::Sender::new(Round::default()),
        });
        let task =
            Task { plugin: plugin.clone(), shared: shared.clone(), token: None, known: BTreeSet::new(), failures: 0 };
        Arc::new(Self { shared, _task: AbortOnDropHandle::new(tokio::spawn(task.run())) })
    }

    pub(super) fn interests(&self) -> MutexGuard<'_, Interests> {
        self.shared.interests()
    }

    /// Has the next round begin now.
    pub(super) fn wake(&self) {
        self.shared.wake.notify_one();
    }

    /// Returns when a round that began from now on has ended.
    pub(super) async fn next_round(&self) -> Result<(), Fault> {
        let asked = {
            let mut interests = self.interests();
            interests.asked = interests.asked.saturating_add(1);
            interests.asked
        };
        let mut rounds = self.shared.rounds.subscribe();
        self.wake();
        let round = rounds.wait_for(|round| round.counted >= asked).await;
        match round.map(|round| round.fault.clone()) {
            Ok(None) => Ok(()),
            Ok(Some(fault)) => Err(fault),
            Err(_) => Err(Fault::Host("the host is ending".to_owned())),
        }
    }
}

impl Shared {
    fn interests(&self) -> MutexGuard<'_, Interests> {
        self.interests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Task {
    plugin: Arc<Plugin>,
    shared: Arc<Shared>,
    /// Up to when the changes are known; none before the first round, and when nobody was interested since.
    token: Option<String>,
    /// The paths that the token knows of: what it says of others only tells that they are new.
    known: BTreeSet<Path>,
    failures: u32,
}

impl Task {
    async fn run(mut self) {
        let mut directories: Option<Directories> = None;
        loop {
            let (paths, asked) = {
                let interests = self.shared.interests();
                (interests.paths(), (!interests.is_empty()).then_some(interests.asked))
            };
            let Some(asked) = asked else {
                self.token = None;
                self.known.clear();
                directories = None;
                self.shared.wake.notified().await;
                continue;
            };
            if directories.is_none() {
                directories = Some(Directories::watch(self.plugin.clone()).await);
            }
            let pause = self.round(&paths, asked).await;
            let Some(events) = &directories else { continue };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shared.wake.notified() => {}
                () = events.changed() => tokio::time::sleep(DEBOUNCE).await,
            }
        }
    }

    /// Asks once, tells what came of it, and says for how long to rest.
    async fn round(&mut self, paths: &[Path], asked: u64) -> Duration {
        let answer = self.plugin.changes(paths, self.token.as_deref()).await;
        let (fault, pause) = match answer {
            Ok(mut changes) => {
                changes.changed.retain(|path| self.known.contains(path));
                self.shared.interests().tell(&changes);
                self.known = paths.iter().cloned().collect();
                self.failures = 0;
                self.token = Some(changes.token);
                (None, changes.poll_after.unwrap_or(INTERVAL).clamp(SHORTEST, LONGEST))
            }
            // The token stays: what changes now is told when the plugin is back.
            Err(Fault::SetAside(left)) => (Some(Fault::SetAside(left)), left.clamp(SHORTEST, LONGEST)),
            Err(fault) => {
                self.failures = self.failures.saturating_add(1);
                (
                    Some(fault),
                    INTERVAL.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(LONGEST),
                )
            }
        };
        self.shared.rounds.send_replace(Round { counted: asked, fault });
        pause
    }
}
