//! One call: circuit breaker, admission, an instance or the native provider, the provider's code under its limits,
//! validation of the answer, and the record of the outcome.
//!
//! A call ends when its answer is lifted, validated and filtered. All of this runs on the threads of the guest, within
//! the call's `limits.cpu` and `limits.deadline`, and its memory is charged to the plugin ([`WorkBudget`]).
//!
//! **Circuit breaker.** A call *fails* if the provider is the cause that there is no answer: a trap, a limit on time,
//! memory or size, a broken contract. Every response of the provider, including failures of the contract, is a success.
//! Rejections by the host (rate limit, queue) are neutral.
//!
//! After [`FAILURE_THRESHOLD`] consecutive failures, the next call is preceded by a *probe*: the host itself requests
//! the first entry of the provider's listing, which every provider must answer. If the probe succeeds, the failures are
//! attributed to the requested resources, and the circuit stays closed. If the probe fails, the circuit opens
//! ([`circuit_breaker`](mcp_host_base::circuit_breaker)).
//!
//! Clients' calls can cause a probe, but not influence its result: it runs in a fresh instance, with a slot, threads
//! and memory that are separate from clients' calls ([`CallOrigin::Probe`](crate::CallOrigin)). After a successful
//! probe, the inputs that failed are refused to the clients that sent them ([`input_faults`](super::input_faults)). So
//! no client can get a plugin suspended for all by repeatedly requesting the one resource that makes it trap; this
//! costs one short listing per [`FAILURE_THRESHOLD`] calls. The price: a plugin that lists but answers no read is not
//! suspended, and its calls fail one by one, within their limits.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either};
use mcp_host_base::circuit_breaker::{BreakerDecision, Transition, Verdict};
use mcp_host_base::escape;
use mcp_host_base::log_target;
use mcp_host_base::time;
use mcp_host_base::trace::{self, CurrentSpans};
use mcp_host_config::limits::Limits;
use mcp_host_model::caller::Caller;
use mcp_host_model::provider;
use mcp_host_model::requester::Requester;
use mcp_host_model::resource::Resource;
use mcp_host_sandbox::memory::MemoryBudget;
use tokio::time::timeout;
use tracing::field::Empty;
use tracing::{Instrument as _, info_span};

use super::Plugin;
use super::admission::{Admission, CallPermit};
use super::backend::{Backend, CallRecord, CallTarget, Ended};
use super::health::{Failing, HealthChange};
use super::input_faults::InputKey;
use super::metrics::{CallMetrics, CallTimer, CpuRecord};
use super::validation::{FilteredPage, ValidationContext, Validator};
use super::work_budget::WorkBudget;
use crate::cpu::CpuClock;
use crate::diagnostics::{Backtrace, CallTrace, ObservedPlugin};
use crate::executor::{PluginQueue, Waits};
use crate::fault::Fault;
use crate::function::{Function, ListEntries};
use crate::instance::Instance;
use crate::shares::SlotPermit;
use crate::{CallOrigin, Engine};

/// The number of consecutive failures before a probe.
pub(super) const FAILURE_THRESHOLD: u32 = 5;
/// The fraction of `limits.deadline` that must be a call's own time for the timeout to be its own fault.
const OWN_PART: (u32, u32) = (3, 4);

/// Keeps a part of an entry, or nothing. It gets each entry with the size of its page.
pub(super) type Keep = Box<dyn FnMut(Resource, usize) -> Option<()> + Send>;

/// Returns the validation of a page. The function has one type for all pages, so that a listing is compiled once.
pub(super) fn check_page(
    cursor: Option<Arc<str>>,
    mut keep: Keep,
) -> impl FnOnce(Validator, provider::Page) -> BoxFuture<'static, Result<FilteredPage<()>, Fault>> + Send + 'static {
    move |check: Validator, page: provider::Page| {
        let size = page.entries.len();
        async move { check.page(page, cursor.as_deref(), |entry| keep(entry, size)).await }.boxed()
    }
}

/// The context of a call, shared by the calls of one plugin.
#[derive(Clone)]
pub(super) struct CallContext {
    pub(super) engine: Arc<Engine>,
    pub(super) backend: Arc<Backend>,
    pub(super) limits: Limits,
    /// The context that answers are validated in.
    pub(super) validation: Arc<ValidationContext>,
    pub(super) admission: Arc<Admission>,
    pub(super) run_queue: Arc<PluginQueue>,
    /// The memory that answers are charged to while they are validated.
    pub(super) memory: Arc<MemoryBudget>,
    /// The memory that the answer to the circuit breaker's probe is charged to.
    pub(super) probe_memory: Arc<MemoryBudget>,
    pub(super) metrics: Arc<CallMetrics>,
    /// The observer of calls.
    pub(super) observed: Option<Arc<ObservedPlugin>>,
    /// A temporary observer of calls, used if there is no other.
    pub(super) profiled: Arc<ArcSwapOption<ObservedPlugin>>,
}

/// The permits of a call, held until its instance is idle or gone.
struct Permits {
    _call_permit: CallPermit,
    _slot_permit: Option<SlotPermit>,
}

/// The start of a call.
struct CallStart {
    origin: CallOrigin,
    input: Option<InputKey>,
    watches: bool,
    spans: CurrentSpans,
    clock: Arc<CpuClock>,
}

/// The end of a call.
struct CallOutcome<T> {
    answer: Result<T, Fault>,
    /// The instance, if it may serve another call.
    instance: Option<Instance>,
    /// The stack of the guest at a failure.
    stack: Option<Box<Backtrace>>,
    permits: Permits,
}

impl Plugin {
    /// Calls a function of the provider and validates its answer with `check` as part of the call. Dropping the future
    /// ends the call and its instance.
    pub(super) async fn call<F, U, C, W>(&self, origin: CallOrigin, function: F, check: C) -> Result<U, Fault>
    where
        F: Function,
        U: Send + 'static,
        C: FnOnce(Validator, F::Answer) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let (timer, began) = (CallTimer::begin(&self.call_context.metrics, F::NAME), Instant::now());
        let answer = self.call_unmeasured(origin, function, check).await;
        timer.end(&answer);
        if let Err(Fault::Unavailable { .. }) = &answer {
            self.data_missing(began);
        }
        answer
    }

    async fn call_unmeasured<F, U, C, W>(&self, origin: CallOrigin, function: F, check: C) -> Result<U, Fault>
    where
        F: Function,
        U: Send + 'static,
        C: FnOnce(Validator, F::Answer) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        // The author repeats the calls that fail, with a debugger.
        let is_debugged = self.call_context.engine.debugger().is_some();
        if !is_debugged {
            self.check_breaker().await.inspect_err(|fault| self.faults.record(F::NAME.as_str(), None, fault))?;
        }
        let requester = Requester::current().filter(|_| origin == CallOrigin::Client);
        let input = requester.map(|requester| self.input_faults.key(&requester, &function));
        if let Some(input) = input.filter(|_| !is_debugged) {
            let checked = self.input_faults.check(input, Instant::now());
            checked.inspect_err(|fault| self.faults.record(F::NAME.as_str(), None, fault))?;
        }
        let answer =
            self.dispatch(origin, input, function, check).await.map_err(|fault| fault.with_mount(self.mount()));
        let verdict = verdict(&answer);
        match (&answer, input) {
            _ if verdict == Verdict::Success => self.input_faults.record_answer(input, Instant::now()),
            (Err(fault), Some(input)) if fault.is_of_input() => self.input_faults.record_failure(input, Instant::now()),
            _ => {}
        }
        if let Some(change) = self.breaker.record(verdict) {
            self.log_transition(change);
        }
        if let Some(change) = self.health.record(F::NAME, input, &answer, Instant::now()) {
            self.log_health(&change);
        }
        answer
    }

    /// Checks the circuit breaker, and makes a probe if one is due.
    async fn check_breaker(&self) -> Result<(), Fault> {
        let probe = match self.breaker.try_acquire(Instant::now()) {
            BreakerDecision::Granted => return Ok(()),
            BreakerDecision::Rejected(left) => return Err(Fault::Suspended(left)),
            BreakerDecision::Probe(probe) => probe,
        };
        let first_entry = ListEntries { parent: None, cursor: None, limit: 1 };
        let check = check_page(None, Box::new(|_, _| None));
        let answer = self.dispatch(CallOrigin::Probe, None, first_entry, check).await;
        let (verdict, now) = (verdict(&answer), Instant::now());
        if verdict == Verdict::Success {
            self.input_faults.record_answer(None, now);
        }
        let (allowed, change) = probe.complete(verdict, now);
        change.into_iter().for_each(|change| self.log_transition(change));
        allowed.map_err(Fault::Suspended)
    }

    /// Calls a function of the provider and returns its answer without validation, for tests of providers. The call
    /// runs under the plugin's limits and grants. The circuit breaker neither rejects nor counts it, because tests make
    /// calls that fail.
    pub async fn call_unvalidated<F: Function>(&self, function: F) -> Result<F::Answer, Fault> {
        self.dispatch(CallOrigin::Client, None, function, |_, answer| async move { Ok(answer) }).await
    }

    /// Makes the call without the circuit breaker. Not an `async fn`: its future would add a layer to a deeply nested
    /// type.
    fn dispatch<F, U, C, W>(
        &self,
        origin: CallOrigin,
        input: Option<InputKey>,
        function: F,
        check: C,
    ) -> impl Future<Output = Result<U, Fault>> + Send
    where
        F: Function,
        U: Send + 'static,
        C: FnOnce(Validator, F::Answer) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        self.dispatch_in(self.call_context.clone(), Arc::default(), origin, input, function, check)
    }

    /// Makes the call with this context and this clock, without the circuit breaker.
    pub(super) async fn dispatch_in<F, U, C, W>(
        &self,
        context: Arc<CallContext>,
        clock: Arc<CpuClock>,
        origin: CallOrigin,
        input: Option<InputKey>,
        function: F,
        check: C,
    ) -> Result<U, Fault>
    where
        F: Function,
        U: Send + 'static,
        C: FnOnce(Validator, F::Answer) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let span = trace::child(|| {
            info_span!(
                target: trace::TARGET,
                "call",
                "mcp_host.plugin" = self.name(),
                "mcp_host.function" = F::NAME.as_str(),
                "otel.status_code" = Empty,
                "error.type" = Empty,
            )
        });
        let spans = CurrentSpans::with(span.clone());
        let path = function.path().cloned();
        let call = CallStart { origin, input, watches: self.info.watches, spans, clock };
        // Boxed: otherwise its several KiB are moved into each future around it.
        let calling = context.clone().call(call, function, check).boxed();
        let called = calling.instrument(span.clone()).await;
        let mut failed_at = None;
        let answer = called.and_then(|CallOutcome { answer, instance, stack, permits }| {
            if let Some(instance) = instance {
                context.backend.release(instance);
            }
            drop(permits);
            failed_at = stack;
            answer
        });
        // An observer has the stack in more detail.
        let stack = failed_at.filter(|_| self.call_context.observed.is_none());
        answer.inspect_err(|fault| {
            self.faults.record_at(F::NAME.as_str(), path.as_deref(), fault, stack.as_deref());
            if let Some(kind) = fault.kind() {
                span.record("otel.status_code", "ERROR");
                span.record("error.type", kind.name());
            }
        })
    }

    pub(super) fn log_health(&self, change: &HealthChange) {
        let plugin = self.name();
        match change {
            HealthChange::Failing(Failing { failed, calls, reason, .. }) => tracing::warn!(
                target: log_target::PLUGIN, plugin, failed, calls, last = %escape::line(reason),
                "failing: it is loaded, and most of its calls fail"
            ),
            HealthChange::Recovered => {
                tracing::info!(target: log_target::PLUGIN, plugin, "working again: most of its calls succeed")
            }
        }
    }

    pub(super) fn log_transition(&self, change: Transition) {
        let plugin = self.name();
        match change {
            Transition::Opened(pause) => {
                self.call_context.metrics.breaker_openings.increment();
                tracing::warn!(
                    target: log_target::PLUGIN, plugin, retry_in_ms = time::saturating_millis(pause),
                    "circuit breaker opened: {FAILURE_THRESHOLD} consecutive failures and the probe failed"
                );
            }
            Transition::Closed => {
                tracing::info!(target: log_target::PLUGIN, plugin, "circuit breaker closed: plugin recovered")
            }
        }
    }
}

/// Returns what the outcome of a call means for the health of the plugin.
fn verdict<T>(answer: &Result<T, Fault>) -> Verdict {
    match answer {
        Err(fault) if fault.trips_breaker() => Verdict::Failure,
        Err(fault) if !fault.is_provider_response() => Verdict::Neutral,
        _ => Verdict::Success,
    }
}

impl CallContext {
    async fn call<F, U, C, W>(self: Arc<Self>, call: CallStart, function: F, check: C) -> Result<CallOutcome<U>, Fault>
    where
        F: Function,
        U: Send + 'static,
        C: FnOnce(Validator, F::Answer) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let observer = self.observed.clone().or_else(|| self.profiled.load_full());
        let (origin, clock) = (call.origin, call.clock.clone());
        let trace =
            observer.map(|plugin| CallTrace::begin(plugin, F::NAME.as_str(), function.path().cloned(), origin, clock));
        let ended = self.clone().admit(call, trace.clone(), function, check).await;
        if let Some(trace) = trace {
            trace.end(ended.as_ref().map_or_else(Some, |ended| ended.answer.as_ref().err()), &self.limits);
        }
        ended
    }

    async fn admit<F, U, C, W>(
        self: Arc<Self>,
        call: CallStart,
        trace: Option<Arc<CallTrace>>,
        function: F,
        check: C,
    ) -> Result<CallOutcome<U>, Fault>
    where
        F: Function,
        U: Send + 'static,
        C: FnOnce(Validator, F::Answer) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let CallStart { origin, input, watches, spans, clock } = call;
        let requester = Requester::current();
        let memory = if origin == CallOrigin::Probe { &self.probe_memory } else { &self.memory };
        let of_call = if origin.is_host() { Some(Requester::Host) } else { requester.clone() };
        let owner = memory.owner(of_call, input.map(InputKey::input));
        let acquire = self.backend.acquire(&self.engine, origin, memory, owner.clone());
        let admitting = self.admission.admit(origin, requester.as_ref(), acquire);
        let admitting = admitting.instrument(spans.child(|| info_span!(target: trace::TARGET, "admission")));
        let (call_permit, (slot_permit, target)) = admitting.await?;
        let permits = Permits { _call_permit: call_permit, _slot_permit: slot_permit };
        trace.as_ref().inspect(|trace| trace.admitted());
        let context = self.clone();
        let cpu_record = CpuRecord { metrics: self.metrics.clone(), clock: clock.clone() };
        let work = WorkBudget::new(clock.clone(), self.limits.cpu.duration(), memory.clone(), owner);
        let validator = Validator::new(self.validation.clone(), watches, work);
        let of_executor = clock.clone();
        let of_run = spans.clone();
        let running = spans.instrument(async move {
            let _cpu_record = cpu_record;
            context.count_instance(&target);
            let record = CallRecord { clock: &clock, trace: trace.as_ref() };
            let running = context.run(target, validator, record, &of_run, function, check);
            let Ended { answer, instance, stack } = match &trace {
                Some(trace) => Box::pin(trace.host_calls.clone().scope(running)).await,
                None => running.await,
            };
            // An instance that serves no other call is dropped here: after its call, and before its permits.
            let is_good = answer.as_ref().map_or_else(Fault::is_provider_response, |_| true);
            // The instances of a probe and of a preparation have separate memory.
            let has_own_memory = matches!(origin, CallOrigin::Probe | CallOrigin::Preparation);
            let instance = instance.filter(|_| is_good && !has_own_memory);
            CallOutcome { answer, instance, stack, permits }
        });
        // For a provider whose answers depend on the caller. Components cannot see the caller.
        let caller = match origin {
            CallOrigin::Client => Caller::current(),
            CallOrigin::Host => Caller::of_view(),
            CallOrigin::Indexer | CallOrigin::Probe | CallOrigin::Preparation => None,
        };
        let (waits, running) = match &*self.backend {
            Backend::Native(_) => (Waits::OnCallersThread, Either::Left(Caller::scope(caller, running))),
            Backend::Component(_) => (Waits::OnWorker, Either::Right(running)),
        };
        let call = self.engine.executor.call(&self.run_queue, origin, waits, of_executor, running);
        call.await.map_err(|error| Fault::Host(error.to_string()))
    }

    fn count_instance(&self, target: &CallTarget) {
        match target {
            CallTarget::Pooled(_) => self.metrics.instances_reused.increment(),
            CallTarget::Fresh(..) => self.metrics.instances_created.increment(),
            CallTarget::Native => {}
        }
    }

    /// Makes the call and validates its answer, both within the call's limits. The instance is returned only if the
    /// provider answered and the instance may serve another call. `limits.deadline` counts from here, because this runs
    /// once the call has all permits and its turn.
    async fn run<F, U, C, W>(
        &self,
        target: CallTarget,
        validator: Validator,
        record: CallRecord<'_>,
        spans: &CurrentSpans,
        function: F,
        check: C,
    ) -> Ended<U>
    where
        F: Function,
        C: FnOnce(Validator, F::Answer) -> W,
        W: Future<Output = Result<U, Fault>>,
    {
        // A guest that a debugger has stopped is not late.
        let deadline = self.engine.debugger().map_or(self.limits.deadline.duration(), |_| Duration::MAX);
        let call = pin!(async {
            let running = self.backend.call(&self.engine, target, &self.limits, record, function);
            let Ended { answer, instance, stack } =
                running.instrument(spans.child(|| info_span!(target: trace::TARGET, "guest"))).await;
            let answer = match answer {
                Ok(answer) => {
                    let span = spans.child(|| info_span!(target: trace::TARGET, "validation"));
                    check(validator, answer).instrument(span).await
                }
                Err(fault) => Err(fault),
            };
            Ended { answer, instance, stack }
        });
        // Not dropped before it is known what the call waits for.
        let mut call = pin!(timeout(deadline, call));
        call.as_mut().await.unwrap_or_else(|_| {
            record.trace.inspect(|trace| trace.host_calls.interrupt());
            let own_part = deadline.saturating_mul(OWN_PART.0).checked_div(OWN_PART.1).unwrap_or(deadline);
            let is_own = record.clock.own_time() >= own_part;
            Err(if is_own { Fault::Deadline(deadline) } else { Fault::Delayed(deadline) }).into()
        })
    }
}
