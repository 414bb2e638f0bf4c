//! Preparations: background work of a provider that takes longer than a call (`prepare` of the contract).
//!
//! A *preparation* is a sequence of calls of `prepare`, one at a time, each with the token of the previous answer. It
//! runs after the plugin was loaded, again after a change that its provider reports ([`Plugin::data_changed`]), after a
//! call that fails with `unavailable` although the last preparation is done, and after the time in its last answer.
//!
//! | resource | bound |
//! |---|---|
//! | one call | `limits.cpu`, `limits.deadline` and the other limits of calls, except `limits.memory` |
//! | memory | `limits.prepare.memory`, separate from all other calls |
//! | CPU time | `limits.prepare.cpu` for all calls of a preparation, including failed ones. A call counts at least [`MIN_CHARGE`], and at least a [`WAITING_FACTOR`]th of its elapsed time, which bounds the number of calls |
//! | threads | the indexers' threads, with a low priority; the preparations of all plugins take turns ([`Engine`](crate::Engine)) |
//! | the next preparation | not before [`MIN_PAUSE`], nor before [`PAUSE_FACTOR`] times the CPU time of the last one, up to [`MAX_PAUSE`]: a provider that reports a change after each, or a client whose calls fail with `unavailable` after each, takes a fifth of a processor |
//! | state | the last token (64 KiB), the last message |
//!
//! Clients' calls never wait for a preparation, which takes none of their permits and none of their memory. A failed
//! call is repeated with the same token after a back-off, and does not affect the health of the plugin. After
//! [`TOKEN_FAILURES`] failures without an answer, the preparation starts over. A preparation ends with the future of
//! [`Plugin::keep_prepared`]: at a reload that replaces the plugin, when the plugin is disabled, and at the shutdown.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use mcp_host_base::backoff::{Backoff, MAX_DELAY};
use mcp_host_base::{escape, log_target};
use mcp_host_config as config;
use mcp_host_config::limits::{Limits, PrepareLimits};
use mcp_host_sandbox::PreparedPercent;
use mcp_host_sandbox::memory::MemoryBudget;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Plugin;
use super::call::CallContext;
use super::metrics::CallTimer;
use super::needs::{NeededLimits, Needs, prepare_limits};
use crate::CallOrigin;
use crate::bindings::Progress;
use crate::cpu::CpuClock;
use crate::fault::Fault;
use crate::function::{Function as _, Prepare};

/// The minimum that a call counts towards `limits.prepare.cpu`.
const MIN_CHARGE: Duration = Duration::from_millis(1);
/// A waiting call occupies the turn of others, so its elapsed time counts, too: divided by this factor.
const WAITING_FACTOR: u32 = 20;
/// The minimum pause between two preparations: the next one covers all changes until its end.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a preparation, as a multiple of its CPU time.
const PAUSE_FACTOR: u32 = 4;
/// The maximum pause after a preparation before a change causes the next one.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// The bounds of a provider's hint for the next preparation.
const AGAIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_hours(24 * 7));
/// The burst of log lines about failures. The provider chooses their reasons.
const LOG_BURST: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// The number of consecutive failures after which a token is discarded.
const TOKEN_FAILURES: u32 = 5;

/// The preparation of a plugin's provider.
pub(super) struct Preparation {
    /// None if the config does not permit it.
    limits: Option<PrepareLimits>,
    /// The context of its calls.
    context: CallContext,
    percent: Arc<PreparedPercent>,
    progress: Mutex<CurrentProgress>,
    /// The log lines about its failures: [`LOG_BURST`], and one a minute.
    log: DefaultDirectRateLimiter,
    changed: Notify,
    /// Notified when an administrator requests it again, immediately.
    reset: Notify,
}

/// The current progress.
struct CurrentProgress {
    state: PreparationState,
    since: SystemTime,
    message: Option<String>,
    calls: u64,
    cpu: Duration,
    /// The end of the last preparation that is done.
    done_at: Option<Instant>,
}

impl CurrentProgress {
    /// Begins a state, unless it is in that one already, perhaps for another reason. Returns the state before.
    fn set_state(&mut self, state: PreparationState) -> PreparationState {
        if self.state.name() != state.name() {
            self.since = SystemTime::now();
        }
        std::mem::replace(&mut self.state, state)
    }
}

/// The state of a preparation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparationState {
    /// The provider exports `prepare`, which is not called: the config has no `limits.prepare`, or the host does not
    /// prepare.
    Off,
    /// It has not begun: the plugin has just been loaded, or its data has changed.
    Waiting,
    /// It is running.
    Running,
    /// Everything is prepared.
    Done,
    /// The last call failed, for this reason; it is repeated after a back-off.
    Failing(String),
    /// It was stopped, for this reason: it used up its CPU time. The next change begins another one.
    Stopped(String),
}

impl PreparationState {
    /// The names of all states.
    pub const NAMES: [&str; 6] = ["off", "waiting", "running", "done", "failing", "stopped"];

    /// Its name, for metrics and programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failing(_) => "failing",
            Self::Stopped(_) => "stopped",
        }
    }

    /// Returns why it failed or stopped.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failing(reason) | Self::Stopped(reason) => Some(reason),
            Self::Off | Self::Waiting | Self::Running | Self::Done => None,
        }
    }
}

/// The progress of a plugin's preparation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreparationStatus {
    /// Its state.
    pub state: PreparationState,
    /// When that began. A failure begins with the first of the calls that fail.
    pub since: SystemTime,
    /// The completed part in per cent, if the provider reports it.
    pub percent: Option<u8>,
    /// The provider's last message, unescaped.
    pub message: Option<String>,
    /// The number of calls of this preparation, or of the last one.
    pub calls: u64,
    /// The CPU time of these calls.
    pub cpu: Duration,
    /// `limits.prepare.cpu`; none if the config does not set it.
    pub cpu_limit: Option<Duration>,
}

impl Preparation {
    /// Creates the preparation of a plugin whose other calls have this context.
    pub(super) fn new(calls: &CallContext) -> Self {
        let limits = calls.limits.prepare.clone();
        let memory = limits.as_ref().map_or(calls.limits.memory, |limits| limits.memory);
        let context = CallContext {
            limits: Limits { memory, ..calls.limits.clone() },
            memory: MemoryBudget::new(memory.bytes(), None),
            run_queue: calls.engine.executor.plugin_queue(),
            ..calls.clone()
        };
        let percent = calls.backend.sandbox().map(|sandbox| sandbox.prepared().clone()).unwrap_or_default();
        let (state, since) = (PreparationState::Off, SystemTime::now());
        let progress = CurrentProgress { state, since, message: None, calls: 0, cpu: Duration::ZERO, done_at: None };
        let log = RateLimiter::direct(Quota::per_minute(NonZeroU32::MIN).allow_burst(LOG_BURST));
        let (progress, changed, reset) = (Mutex::new(progress), Notify::new(), Notify::new());
        Self { limits, context, percent, progress, log, changed, reset }
    }

    fn progress(&self) -> MutexGuard<'_, CurrentProgress> {
        self.progress.lock()
    }

    fn set_state(&self, state: PreparationState) -> PreparationState {
        self.progress().set_state(state)
    }

    fn status(&self) -> PreparationStatus {
        let CurrentProgress { state, since, message, calls, cpu, .. } = &*self.progress();
        PreparationStatus {
            state: state.clone(),
            since: *since,
            percent: self.percent.get(),
            message: message.clone(),
            calls: *calls,
            cpu: *cpu,
            cpu_limit: self.limits.as_ref().map(|limits| limits.cpu.duration()),
        }
    }

    /// Returns the context of a call that may use `left` of CPU time.
    fn context_for(&self, left: Duration) -> Arc<CallContext> {
        let mut context = self.context.clone();
        if let Ok(cpu) = left.min(context.limits.cpu.duration()).try_into() {
            context.limits.cpu = cpu;
        }
        Arc::new(context)
    }
}

/// What follows a call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterFailure {
    /// The call is repeated after a back-off.
    Retry,
    /// The preparation ends.
    End,
}

/// The end of a preparation.
struct End {
    cpu: Duration,
    /// The time after which the provider requests the next one.
    again_after: Option<Duration>,
}

impl Plugin {
    /// Returns the progress of its preparation; none if its provider does not export `prepare`.
    pub fn preparation(&self) -> Option<PreparationStatus> {
        self.preparation.as_ref().map(Preparation::status)
    }

    /// Reports that its data have changed, so that they are prepared again.
    pub fn data_changed(&self) {
        if let Some(preparation) = &self.preparation {
            preparation.changed.notify_one();
        }
    }

    /// Reports a call that began at this time and failed with `unavailable`. If everything was prepared by then, the
    /// data have changed since without a report, so they are prepared again. Clients cause such calls: the pause before
    /// the next preparation bounds them.
    pub(super) fn data_missing(&self, began: Instant) {
        let Some(preparation) = &self.preparation else { return };
        let was_done = {
            let progress = preparation.progress();
            progress.state == PreparationState::Done && progress.done_at.is_some_and(|done| done < began)
        };
        if was_done {
            preparation.changed.notify_one();
        }
    }

    /// Restarts its preparation immediately, even if it is failing or stopped.
    pub(super) fn reset_preparation(&self) {
        if let Some(preparation) = &self.preparation {
            preparation.reset.notify_waiters();
        }
    }

    /// Prepares its data now and after each change, if its provider exports `prepare` and the config permits it. If
    /// not, returns immediately. Dropping the future ends the call in progress. Must be called once only.
    pub async fn keep_prepared(&self) {
        let Some(preparation) = &self.preparation else { return };
        let plugin = self.name();
        let Some(limits) = &preparation.limits else {
            tracing::warn!(target: log_target::PLUGIN, plugin, "{}", not_prepared(None));
            return;
        };
        loop {
            let End { cpu, again_after } = self.prepare(preparation, limits, AfterFailure::Retry).await;
            let pause = sleep(cpu.saturating_mul(PAUSE_FACTOR).clamp(MIN_PAUSE, MAX_PAUSE));
            let again = async {
                match again_after {
                    Some(after) => sleep(after.clamp(AGAIN.0, AGAIN.1)).await,
                    None => std::future::pending().await,
                }
            };
            let is_reset = tokio::select! {
                () = preparation.changed.notified() => false,
                () = again => false,
                () = preparation.reset.notified() => true,
            };
            preparation.set_state(PreparationState::Waiting);
            preparation.percent.set(None);
            if !is_reset {
                // Debounce: a burst of changes causes one preparation.
                tokio::join!(sleep(MIN_PAUSE), pause);
            }
            let _ = preparation.changed.notified().now_or_never();
        }
    }

    /// Prepares its data once, within `limits.prepare`, for a test. Ends at the first call that fails. Returns the
    /// progress at the end: done, failing or stopped, or off without permission. None if its provider does not export
    /// `prepare`. Must not run beside [`keep_prepared`](Self::keep_prepared).
    pub async fn prepare_once(&self) -> Option<PreparationStatus> {
        let preparation = self.preparation.as_ref()?;
        if let Some(limits) = &preparation.limits {
            self.prepare(preparation, limits, AfterFailure::End).await;
        }
        Some(preparation.status())
    }

    /// Runs one preparation.
    async fn prepare(&self, preparation: &Preparation, limits: &PrepareLimits, after_failure: AfterFailure) -> End {
        let (plugin, limit) = (self.name(), limits.cpu.duration());
        let began = Instant::now();
        let before = {
            let mut progress = preparation.progress();
            (progress.message, progress.calls, progress.cpu) = (None, 0, Duration::ZERO);
            progress.set_state(PreparationState::Running)
        };
        preparation.percent.set(None);
        let is_first = before == PreparationState::Off;
        let (mut token, mut backoff, mut failures) = (None, Backoff::default(), 0_u32);
        let mut last_failure = None;
        let mut used = Duration::ZERO;
        loop {
            let left = limit.saturating_sub(used);
            if left < MIN_CHARGE {
                let limit = humantime::format_duration(limit);
                let because = last_failure.map(|failure| format!(", and the last call failed: {failure}"));
                let reason = format!("it used up `limits.prepare.cpu` ({limit}){}", because.unwrap_or_default());
                if preparation.log.check().is_ok() {
                    tracing::warn!(
                        target: log_target::PLUGIN, plugin, "the preparation has ended without being done: {}", escape::line(&reason)
                    );
                }
                preparation.set_state(PreparationState::Stopped(reason));
                return End { cpu: used, again_after: None };
            }
            let (answer, cpu, took) = self.call_prepare(preparation, token.clone(), left).await;
            used = used.saturating_add(cpu.max(MIN_CHARGE).max(took.checked_div(WAITING_FACTOR).unwrap_or_default()));
            {
                let mut progress = preparation.progress();
                progress.calls = progress.calls.saturating_add(1);
                progress.cpu = used;
            }
            let Progress { next_token, percent, message, again_after } = match answer {
                Ok(progress) => progress,
                // The call was limited by the remaining CPU time, not by `limits.cpu`.
                Err(Fault::Cpu(limit)) if limit < preparation.context.limits.cpu.duration() => continue,
                Err(fault) => {
                    let (reason, wait) = (reason(&fault, limits), retry_after(&fault));
                    if after_failure == AfterFailure::End {
                        preparation.set_state(PreparationState::Failing(reason));
                        return End { cpu: used, again_after: None };
                    }
                    if last_failure.as_ref() != Some(&reason) && preparation.log.check().is_ok() {
                        tracing::warn!(
                            target: log_target::PLUGIN, plugin, "the preparation fails, and is retried with back-off: {}", escape::line(&reason)
                        );
                    }
                    preparation.set_state(PreparationState::Failing(reason.clone()));
                    last_failure = Some(reason);
                    failures = if fault.is_provider_response() { 0 } else { failures.saturating_add(1) };
                    if failures >= TOKEN_FAILURES {
                        (token, failures) = (None, 0);
                    }
                    tokio::select! {
                        () = sleep(backoff.next_delay().max(wait)) => {}
                        () = preparation.reset.notified() => backoff = Backoff::default(),
                    }
                    continue;
                }
            };
            (backoff, failures, last_failure) = (Backoff::default(), 0, None);
            preparation.percent.set(percent);
            let is_done = next_token.is_none();
            {
                let mut progress = preparation.progress();
                progress.message = message.or_else(|| progress.message.take());
                if is_done {
                    progress.done_at = Some(Instant::now());
                }
                progress.set_state(if is_done { PreparationState::Done } else { PreparationState::Running });
            }
            if is_done {
                preparation.percent.set(Some(100));
                let (calls, seconds) = (preparation.progress().calls, began.elapsed().as_secs_f64());
                if is_first {
                    tracing::info!(target: log_target::PLUGIN, plugin, calls, seconds, "the preparation is done");
                } else {
                    tracing::debug!(target: log_target::PLUGIN, plugin, calls, seconds, "the preparation is done again");
                }
                return End { cpu: used, again_after };
            }
            token = next_token;
        }
    }

    /// Makes one call, when it is the plugin's turn. Also returns its CPU time and its elapsed time.
    async fn call_prepare(
        &self,
        preparation: &Preparation,
        token: Option<String>,
        left: Duration,
    ) -> (Result<Progress, Fault>, Duration, Duration) {
        // The semaphore is never closed.
        let _turn = preparation.context.engine.preparations.acquire().await.ok();
        let began = Instant::now();
        let (context, clock) = (preparation.context_for(left), Arc::new(CpuClock::default()));
        let timer = CallTimer::begin(&context.metrics, Prepare::NAME);
        let answer = self.dispatch_prepare(context.clone(), clock.clone(), token).await;
        timer.end(&answer);
        (answer, clock.cpu_time(), began.elapsed())
    }

    fn dispatch_prepare(
        &self,
        context: Arc<CallContext>,
        clock: Arc<CpuClock>,
        token: Option<String>,
    ) -> BoxFuture<'_, Result<Progress, Fault>> {
        let function = Prepare { token: token.clone() };
        let check = |check: super::validation::Validator, progress| async move {
            check.progress(progress, token.as_deref()).await
        };
        Box::pin(self.dispatch_in(context, clock, CallOrigin::Preparation, None, function, check))
    }
}

/// Returns a note about the preparation of a plugin: the config lacks the setting that the provider needs, with the
/// line to add, or has one without effect. The line has the limits that the provider needs.
pub fn preparation_note(prepares: bool, config: &config::Plugin, needs: Option<&Needs>) -> Option<String> {
    match (prepares, config.limits.prepare.is_some()) {
        (true, false) => Some(not_prepared(needs)),
        (false, true) if config.upstream.is_none() => {
            Some("`limits.prepare` has no effect: its provider does not export `prepare`".to_owned())
        }
        _ => None,
    }
}

/// Returns the note about a provider that exports `prepare` if the config has no `limits.prepare`, with the line to
/// add.
fn not_prepared(needs: Option<&Needs>) -> String {
    let none = NeededLimits::new();
    let [cpu, memory] = prepare_limits(needs.map_or(&none, |needs| &needs.limits));
    format!(
        "its provider wants to prepare its data in the background, which it may not: add `limits.prepare = {{ cpu = \"{cpu}\", memory = \
         \"{memory}\" }}` to the plugin"
    )
}

/// Returns why a call failed. The memory limit differs from other calls'.
fn reason(fault: &Fault, limits: &PrepareLimits) -> String {
    match fault {
        Fault::Memory(_) | Fault::MemoryInUse(_) => {
            let memory = limits.memory.bytes();
            format!(
                "out of memory: it requested more than `limits.prepare.memory` ({}) leaves",
                bytesize::ByteSize(memory)
            )
        }
        Fault::Unavailable { reason, .. } => reason.clone(),
        fault => fault.to_string(),
    }
}

/// Returns the time for which the provider requests no retry.
fn retry_after(fault: &Fault) -> Duration {
    match fault {
        Fault::Unavailable { retry_after, .. } => retry_after.unwrap_or_default().min(MAX_DELAY),
        _ => Duration::ZERO,
    }
}
