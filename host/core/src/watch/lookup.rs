//! Lookups: one `stat` for all concurrent subscribers finds out whether a resource is subscribable, and whether it is
//! listable.
//!
//! **Single-flight.** The first subscriber of a path starts a task that makes the call; further subscribers of the path
//! share its result while it is in flight. The task belongs to all of them: cancelling one subscriber does not affect
//! the others, and dropping the last one aborts the call. Rules are not evaluated here: the access of each subscriber
//! is checked before its lookup, and again after it. Each [view](super::views) has lookups of its own.
//!
//! **The host's own calls.** A lookup takes no permit of `limits.concurrency` or `limits.queue`, and does not count
//! towards `limits.rate`: a thousand clients that subscribe at the same time neither block readers nor cause each
//! other's rejection. In return, a plugin runs at most [`MAX_RUNNING`] lookups concurrently, and separately
//! [`MAX_RETRYING`] retries of failed ones, so a resource whose `stat` hangs delays a new lookup by at most a deadline.
//! Clients share these permits by max-min fairness ([`FairSemaphore`]): a lookup is in the queue of the client that
//! began it, so many lookups of one client delay a single lookup of another only by those that run.
//!
//! **Back-off.** A transient failure is stored for its path: for [`MIN_BACKOFF`] at first, doubled with each further
//! failure up to [`MAX_BACKOFF`], with jitter. Until then, lookups of the path are rejected without a call, and the
//! error has the time at which the next one is allowed. All subscribers wait for the same time and share that call.
//! Failures of up to [`MAX_FAILURES`] paths are stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::task;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::Caller;
use mcp_host_model::requester::{FairSemaphore, Requester};
use mcp_host_model::resource::Resource;
use mcp_host_model::uri::Path;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::response_cache::CachedPlugin;

/// The maximum number of concurrent lookups of one plugin. One client has two.
const MAX_RUNNING: usize = 4;
/// The maximum number of concurrent retries of failed lookups of one plugin.
const MAX_RETRYING: usize = 1;
/// The back-off after a path's first failure.
const MIN_BACKOFF: Duration = Duration::from_millis(250);
/// The maximum back-off.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// The maximum number of paths of one plugin whose failures are stored.
const MAX_FAILURES: usize = 1024;

/// The lookups of one plugin.
pub(super) struct Lookups {
    plugin: Arc<CachedPlugin>,
    running: FairSemaphore,
    retrying: FairSemaphore,
    state: Mutex<LookupState>,
}

#[derive(Default)]
struct LookupState {
    flights: BTreeMap<Path, Weak<Flight>>,
    failures: Failures,
}

/// A lookup in flight. Aborted when the last waiting subscriber is dropped.
struct Flight {
    lookups: Arc<Lookups>,
    path: Path,
    result: watch::Receiver<Option<LookupResult>>,
    _task: AbortOnDropHandle<()>,
}

/// The kind of a resource, as it matters for a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKind {
    /// It cannot be subscribed to.
    NotSubscribable,
    /// It has its own content.
    Content,
    /// It has children, or contents of other resources, so its visible content depends on the principal.
    Listable,
}

impl ResourceKind {
    fn of(entry: &Resource) -> Self {
        match (entry.subscribable, entry.listable) {
            (false, _) => Self::NotSubscribable,
            (true, false) => Self::Content,
            (true, true) => Self::Listable,
        }
    }
}

type LookupResult = Result<ResourceKind, LookupError>;

/// The reason why a lookup failed.
#[derive(Clone, Debug)]
pub(super) struct LookupError {
    pub(super) fault: Fault,
    /// The time after which to retry; `None` for a permanent failure.
    pub(super) retry_after: Option<Duration>,
}

impl Lookups {
    pub(super) fn new(plugin: Arc<CachedPlugin>) -> Arc<Self> {
        Arc::new(Self {
            plugin,
            running: FairSemaphore::new(MAX_RUNNING, usize::MAX),
            retrying: FairSemaphore::new(MAX_RETRYING, usize::MAX),
            state: Mutex::default(),
        })
    }

    /// Requests the kind of a resource from the provider; in a view, on behalf of this subscriber.
    pub(super) async fn look_up(self: &Arc<Self>, path: &Path, caller: Option<&Caller>) -> LookupResult {
        let flight = self.join_or_start(path, caller)?;
        let mut answer = flight.result.clone();
        let answer = answer.wait_for(Option::is_some).await.map_or(None, |answer| answer.clone());
        // If there is no result, the task was ended from outside: its runtime was shut down, or it panicked.
        answer.unwrap_or_else(|| {
            let fault = Fault::Host("a lookup ended without a result".to_owned());
            Err(LookupError { fault, retry_after: Some(MIN_BACKOFF) })
        })
    }

    /// Returns the flight of a path: the one in progress, or a new one.
    fn join_or_start(self: &Arc<Self>, path: &Path, caller: Option<&Caller>) -> Result<Arc<Flight>, LookupError> {
        let mut state = self.state();
        if let Some(flight) = state.flights.get(path).and_then(Weak::upgrade) {
            return Ok(flight);
        }
        let is_retry = state.failures.check(path, Instant::now())?;
        let (sender, result) = watch::channel(None);
        let running = self.clone().run(Requester::current(), path.clone(), is_retry, sender);
        let task = task::spawn(Caller::scope_view(caller.cloned(), running));
        let flight = Flight { lookups: self.clone(), path: path.clone(), result, _task: AbortOnDropHandle::new(task) };
        let flight = Arc::new(flight);
        state.flights.insert(path.clone(), Arc::downgrade(&flight));
        Ok(flight)
    }

    async fn run(
        self: Arc<Self>,
        client: Option<Requester>,
        path: Path,
        is_retry: bool,
        sender: watch::Sender<Option<LookupResult>>,
    ) {
        let permits = if is_retry { &self.retrying } else { &self.running };
        // The queue is not bounded here: each lookup in it belongs to a pending subscription.
        let Ok(_permit) = permits.acquire(client).await else { return };
        let answer = self.plugin.stat_as(CallOrigin::Host, &path).await.map(|entry| ResourceKind::of(&entry));
        // Later lookups start a new flight.
        let answer = {
            let mut state = self.state();
            state.flights.remove(&path);
            state.failures.record(path, answer, Instant::now())
        };
        sender.send_replace(Some(answer));
    }

    fn state(&self) -> MutexGuard<'_, LookupState> {
        self.state.lock()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = self.lookups.state();
        // A newer flight may be stored under the path.
        if state.flights.get(&self.path).is_some_and(|flight| flight.strong_count() == 0) {
            state.flights.remove(&self.path);
        }
    }
}

/// The failed lookups, by path.
#[derive(Default)]
struct Failures(BTreeMap<Path, Failure>);

struct Failure {
    backoff: Backoff,
    /// The end of the back-off.
    until: Instant,
    fault: Fault,
}

impl Failures {
    /// Returns whether a lookup of the path is a retry. Fails during the back-off.
    fn check(&self, path: &Path, now: Instant) -> Result<bool, LookupError> {
        match self.0.get(path) {
            Some(failure) if failure.until > now => {
                let retry_after = Some(failure.until.saturating_duration_since(now));
                Err(LookupError { fault: failure.fault.clone(), retry_after })
            }
            failed => Ok(failed.is_some()),
        }
    }

    /// Records the result of a lookup.
    fn record(&mut self, path: Path, answer: Result<ResourceKind, Fault>, now: Instant) -> LookupResult {
        let fault = match answer {
            Err(fault) if fault.is_transient() => fault,
            answer => {
                self.0.remove(&path);
                return answer.map_err(|fault| LookupError { fault, retry_after: None });
            }
        };
        let before = self.0.remove(&path).map(|failure| failure.backoff);
        let mut backoff = before.unwrap_or_else(|| Backoff::new(MIN_BACKOFF, MAX_BACKOFF));
        let pause = backoff.next_delay();
        if self.0.len() >= MAX_FAILURES {
            self.evict(now);
        }
        let until = now.checked_add(pause).unwrap_or(now);
        self.0.insert(path, Failure { backoff, until, fault: fault.clone() });
        Err(LookupError { fault, retry_after: Some(pause) })
    }

    /// Evicts failures of paths that are no longer looked up, or else the failure whose back-off ends first.
    fn evict(&mut self, now: Instant) {
        self.0.retain(|_, failure| failure.until.checked_add(MAX_BACKOFF).is_none_or(|end| end > now));
        if self.0.len() >= MAX_FAILURES {
            let first = self.0.iter().min_by_key(|(_, failure)| failure.until).map(|(path, _)| path.clone());
            first.map(|path| self.0.remove(&path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::uri::Mount;

    fn path(text: &str) -> Path {
        "a://x/".parse::<Mount>().unwrap().compose(text).unwrap().path
    }

    fn trap() -> Result<ResourceKind, Fault> {
        Err(Fault::Trap("unreachable".to_owned()))
    }

    #[test]
    fn a_path_that_failed_is_not_asked_about_until_its_back_off_is_over() {
        let (mut failures, mut now) = (Failures::default(), Instant::now());
        let mut longest = Duration::ZERO;
        for _ in 0..12 {
            let pause = failures.record(path("f"), trap(), now).unwrap_err().retry_after.unwrap();
            assert!(pause <= MAX_BACKOFF.mul_f64(1.2) && pause >= MIN_BACKOFF.mul_f64(0.8), "{pause:?}");
            assert_eq!(failures.check(&path("f"), now).unwrap_err().retry_after, Some(pause));
            assert!(!failures.check(&path("g"), now).unwrap(), "another path is another matter");
            now += pause;
            assert!(failures.check(&path("f"), now).unwrap(), "it is a retry");
            longest = longest.max(pause);
        }
        assert!(longest > MAX_BACKOFF / 2, "it becomes longer: {longest:?}");
        failures.record(path("f"), Ok(ResourceKind::Content), now).unwrap();
        assert!(!failures.check(&path("f"), now).unwrap());
    }

    #[test]
    fn what_will_not_change_is_not_remembered() {
        let mut failures = Failures::default();
        for fault in [Fault::NotFound, Fault::Denied(String::new()), Fault::InvalidRequest(String::new())] {
            let refusal = failures.record(path("f"), Err(fault), Instant::now()).unwrap_err();
            assert_eq!(refusal.retry_after, None);
        }
        assert!(failures.0.is_empty());
    }

    #[test]
    fn so_many_failures_are_remembered_and_no_more() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        for number in 0..MAX_FAILURES + 100 {
            failures.record(path(&number.to_string()), trap(), now).unwrap_err();
        }
        assert_eq!(failures.0.len(), MAX_FAILURES);
        let later = now + MAX_BACKOFF * 3;
        failures.record(path("later"), trap(), later).unwrap_err();
        assert_eq!(failures.0.len(), 1, "those that are over make room");
    }
}
