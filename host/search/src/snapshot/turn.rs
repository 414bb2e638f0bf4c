//! The turn of a replica: it builds the index for all, fetches it, or indexes for itself.
//!
//! Nothing here decides correctness: two replicas that build at the same time publish one after another, and a replica
//! that hears nothing indexes for itself after the time of the lease.

use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::shared_snapshots::{Published, Snapshot};
use tokio::time::Instant;

use super::{SharedIndex, TransferError};

/// The time for which a replica waits for the first snapshot, or three leases if these are longer.
const FIRST_SNAPSHOT: Duration = Duration::from_secs(30);
/// The number of consecutive failures after which a replica does not try to fetch for a while.
const MAX_FAILURES: u32 = 3;

/// What a replica does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It holds the lease: it indexes, and publishes.
    Build,
    /// It indexes for itself, for this reason.
    Alone(String),
    /// It fetches this snapshot, with this revision.
    Fetch(u64, Snapshot),
    /// It has the published snapshot.
    Current,
    /// It is not known yet. What it does is continued.
    Wait,
}

/// What a replica knows of the others.
pub(super) struct TurnState {
    /// When the store last answered.
    heard: Instant,
    /// Since when there is no snapshot. None while there is one.
    missing_since: Option<Instant>,
    /// The revision of the snapshot that the index has.
    pub(super) has: Option<u64>,
    distrust: Option<Distrust>,
    failures: u32,
    backoff: Backoff,
    /// The number of failed requests.
    pub(super) failed: u64,
}

/// Why no snapshot is fetched at the moment.
struct Distrust {
    /// The revision that is not fetched again. None if it may be.
    revision: Option<u64>,
    /// Until when no other one is fetched either.
    until: Instant,
    reason: String,
}

impl TurnState {
    pub(super) fn new() -> Self {
        Self {
            heard: Instant::now(),
            missing_since: None,
            has: None,
            distrust: None,
            failures: 0,
            backoff: Backoff::default(),
            failed: 0,
        }
    }

    /// Renews or takes the lease, and looks at what is published.
    pub(super) async fn look(&mut self, shared: &SharedIndex) -> Turn {
        match shared.ask(shared.place.hold()).await {
            Ok(true) => {
                self.heard = Instant::now();
                return Turn::Build;
            }
            Ok(false) => {}
            Err(error) => return self.no_answer(shared, &error.to_string()),
        }
        match shared.ask(shared.place.published()).await {
            Ok(published) => {
                self.heard = Instant::now();
                self.decide(published, shared.lease)
            }
            Err(error) => self.no_answer(shared, &error.to_string()),
        }
    }

    fn no_answer(&mut self, shared: &SharedIndex, error: &str) -> Turn {
        self.failed = self.failed.saturating_add(1);
        match self.heard.elapsed() >= shared.lease {
            true => Turn::Alone(format!("the snapshots of the cluster cannot be reached: {error}")),
            false => Turn::Wait,
        }
    }

    fn decide(&mut self, published: Published, lease: Duration) -> Turn {
        let now = Instant::now();
        let (revision, snapshot) = match published {
            Published::Nothing => {
                let since = *self.missing_since.get_or_insert(now);
                let patience = FIRST_SNAPSHOT.max(lease.saturating_mul(3));
                return match now.saturating_duration_since(since) >= patience {
                    true => Turn::Alone("no replica has published a snapshot".to_owned()),
                    false => Turn::Wait,
                };
            }
            Published::Invalid { reason, .. } => {
                return Turn::Alone(format!("the published snapshot is invalid: {reason}"));
            }
            Published::Snapshot { revision, snapshot } => (revision, snapshot),
        };
        self.missing_since = None;
        match &self.distrust {
            Some(distrust) if distrust.revision == Some(revision) || now < distrust.until => {
                Turn::Alone(distrust.reason.clone())
            }
            _ if self.has == Some(revision) => Turn::Current,
            _ => Turn::Fetch(revision, snapshot),
        }
    }

    /// Records that a snapshot was fetched. With an `error` of the replica that has published it, this replica indexes
    /// for itself until there is another one.
    pub(super) fn fetched(&mut self, revision: u64, error: Option<&str>) {
        (self.has, self.failures, self.backoff) = (Some(revision), 0, Backoff::default());
        self.heard = Instant::now();
        self.distrust = error.map(|error| Distrust {
            revision: Some(revision),
            until: Instant::now(),
            reason: format!("the replica that builds it fails: {error}"),
        });
    }

    /// Records that a snapshot could not be fetched. `is_replaced` says that another one is published meanwhile.
    /// Returns whether it was rejected.
    pub(super) fn not_fetched(&mut self, revision: u64, error: &TransferError, is_replaced: bool) -> bool {
        self.failures = self.failures.saturating_add(1);
        let is_rejected = matches!(error, TransferError::Rejected(_)) && !is_replaced;
        if is_rejected || self.failures >= MAX_FAILURES {
            let now = Instant::now();
            self.distrust = Some(Distrust {
                revision: is_rejected.then_some(revision),
                until: now.checked_add(self.backoff.next_delay()).unwrap_or(now),
                reason: error.to_string(),
            });
        }
        is_rejected
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_base::shared_snapshots::Slot;

    use super::*;

    const LEASE: Duration = Duration::from_secs(3);

    fn published(revision: u64) -> Published {
        let snapshot = Snapshot { slot: Slot::A, chunks: 0, bytes: 0, digest: [0; 32], seal: Vec::new() };
        Published::Snapshot { revision, snapshot }
    }

    fn is_fetched(turn: &Turn, revision: u64) -> bool {
        matches!(turn, Turn::Fetch(found, _) if *found == revision)
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_is_fetched_once_and_a_rejected_one_is_not_fetched_again() {
        let mut state = TurnState::new();
        assert_eq!(state.decide(Published::Nothing, LEASE), Turn::Wait);
        assert!(is_fetched(&state.decide(published(1), LEASE), 1));
        state.fetched(1, None);
        assert_eq!(state.decide(published(1), LEASE), Turn::Current);
        assert!(state.not_fetched(2, &TransferError::Rejected("forged".to_owned()), false));
        let Turn::Alone(reason) = state.decide(published(2), LEASE) else { panic!("it is not fetched") };
        assert!(reason.contains("forged"));
        assert!(matches!(state.decide(published(3), LEASE), Turn::Alone(_)), "another one only after a pause");
        state.distrust.as_mut().unwrap().until = Instant::now();
        assert!(matches!(state.decide(published(2), LEASE), Turn::Alone(_)), "the same one never");
        assert!(is_fetched(&state.decide(published(3), LEASE), 3));
        let invalid = Published::Invalid { revision: 4, reason: "garbage".to_owned() };
        assert!(matches!(state.decide(invalid, LEASE), Turn::Alone(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_that_is_replaced_while_it_is_fetched_is_not_rejected() {
        let mut state = TurnState::new();
        let missing = TransferError::Rejected("a chunk is missing".to_owned());
        for _ in 1..MAX_FAILURES {
            assert!(!state.not_fetched(1, &missing, true));
            assert!(is_fetched(&state.decide(published(2), LEASE), 2));
        }
        assert!(!state.not_fetched(1, &missing, true));
        assert!(matches!(state.decide(published(2), LEASE), Turn::Alone(_)), "it fails again and again");
    }

    #[test]
    fn a_replica_indexes_for_itself_while_the_one_that_builds_fails() {
        let mut state = TurnState::new();
        state.fetched(1, Some("the listing fails"));
        assert!(matches!(state.decide(published(1), LEASE), Turn::Alone(_)));
        assert!(is_fetched(&state.decide(published(2), LEASE), 2));
        state.fetched(2, None);
        assert_eq!(state.decide(published(2), LEASE), Turn::Current);
    }
}
