//! One call: leave, a place, an instance, the guest's code under its limits, what the host makes of its answer, and what became
//! of it.
//!
//! A call ends when its answer is lifted, checked and filtered: all of that runs where the guest does, within the call's
//! `limits.cpu` and `limits.deadline`, and its memory is charged to the plugin ([`Work`]).

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout;
use wasmtime::component::ResourceTableError;
use wasmtime::{Store, Trap};

use super::Plugin;
use super::admission::{Admission, CallPermit};
use super::breaker::{BreakerDecision, FAILURE_THRESHOLD, Transition, Verdict};
use super::fault::Fault;
use super::validation::{ValidationContext, Validator};
use super::work_budget::WorkBudget;
use crate::config::limits::Limits;
use crate::engine::CallOrigin;
use crate::engine::Engine;
use crate::engine::bindings::ProviderPre;
use crate::engine::bindings::contract::Guest;
use crate::engine::cpu::{CpuClock, CpuLimitExceeded};
use crate::engine::executor::PluginQueue;
use crate::engine::instance::{GuestFuture, Instance};
use crate::engine::instance_permits::InstancePermit;
use crate::engine::pool::Pool;
use crate::engine::shares::{Share, SlotPermit};
use crate::log_target;
use crate::sandbox::Sandbox;
use crate::sandbox::SandboxError;
use crate::sandbox::memory::OutOfMemory;
use crate::sandbox::state::GuestState;
use crate::text;

/// Bytes of what the engine says of a trap that are kept.
const MAX_TRAP_MESSAGE: usize = 2048;

/// All that a call needs, shared by the calls of one plugin.
pub(super) struct CallContext {
    pub(super) engine: Arc<Engine>,
    pub(super) provider: ProviderPre<GuestState>,
    pub(super) sandbox: Sandbox,
    pub(super) limits: Limits,
    /// What answers are checked against.
    pub(super) validation: Arc<ValidationContext>,
    pub(super) admission: Admission,
    pub(super) run_queue: Arc<PluginQueue>,
    /// What the plugin may use of the instance slots.
    pub(super) share: Arc<Share>,
    /// Where instances go that may serve another call, if the plugin wants that.
    pub(super) pool: Option<Arc<Pool>>,
}

/// Where a call runs.
enum InstanceSource {
    /// In an instance that has served others.
    Pooled(Instance),
    /// In a fresh one, on this seat.
    Fresh(Option<InstancePermit>),
}

/// What a call holds until its instance is idle or gone.
struct Permits {
    _call_permit: CallPermit,
    _slot_permit: Option<SlotPermit>,
}

/// What became of a call.
struct CallOutcome<T> {
    answer: Result<T, Fault>,
    /// The instance, if it may serve another call.
    instance: Option<Instance>,
    permits: Permits,
}

impl Plugin {
    /// Calls the provider, and has `check` make of its answer what is answered, as a part of the call. Dropping the future ends
    /// the call, and its instance with it.
    pub(super) async fn call<T, U, F, C, W>(
        &self,
        function: &'static str,
        origin: CallOrigin,
        run: F,
        check: C,
    ) -> Result<U, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<GuestState>) -> GuestFuture<'a, T> + Send + 'static,
        U: Send + 'static,
        C: FnOnce(Validator, T) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        self.check_breaker().await.inspect_err(|fault| self.faults.record(function, fault))?;
        let answer = self.dispatch(function, origin, run, check).await;
        if let Some(change) = self.breaker.record(Verdict::from(&answer)) {
            self.log_transition(change);
        }
        answer
    }

    /// Waits for the plugin's health to be known, if it is in doubt.
    async fn check_breaker(&self) -> Result<(), Fault> {
        let probe = match self.breaker.try_acquire(Instant::now()) {
            BreakerDecision::Granted => return Ok(()),
            BreakerDecision::Rejected(left) => return Err(Fault::Suspended(left)),
            BreakerDecision::Probe(probe) => probe,
        };
        let answer = self
            .dispatch(
                "list-entries",
                CallOrigin::Host,
                |guest, store| Box::pin(guest.call_list_entries(store, None, None, 1)),
                |check, page| check.page(page, None, |_| false),
            )
            .await;
        let (allowed, change) = probe.complete(Verdict::from(&answer), Instant::now());
        change.into_iter().for_each(|change| self.log_transition(change));
        allowed.map_err(Fault::Suspended)
    }

    async fn dispatch<T, U, F, C, W>(
        &self,
        function: &'static str,
        origin: CallOrigin,
        run: F,
        check: C,
    ) -> Result<U, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<GuestState>) -> GuestFuture<'a, T> + Send + 'static,
        U: Send + 'static,
        C: FnOnce(Validator, T) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let watches = self.info.watches;
        let called = self.call_context.clone().call(origin, watches, run, check).await;
        let answer = called.and_then(|outcome| {
            if let Some((pool, instance)) = self.call_context.pool.as_ref().zip(outcome.instance) {
                pool.release(instance);
            }
            drop(outcome.permits);
            outcome.answer
        });
        answer.inspect_err(|fault| self.faults.record(function, fault))
    }

    fn log_transition(&self, change: Transition) {
        let plugin = self.name();
        match change {
            Transition::Opened(pause) => tracing::warn!(
                target: log_target::PLUGIN, plugin, retry_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                "circuit opened: {FAILURE_THRESHOLD} consecutive failures and the probe failed"
            ),
            Transition::Closed => {
                tracing::info!(target: log_target::PLUGIN, plugin, "circuit closed: plugin recovered")
            }
        }
    }
}

impl CallContext {
    async fn call<T, U, F, C, W>(
        self: Arc<Self>,
        origin: CallOrigin,
        watches: bool,
        run: F,
        check: C,
    ) -> Result<CallOutcome<U>, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<GuestState>) -> GuestFuture<'a, T> + Send + 'static,
        U: Send + 'static,
        C: FnOnce(Validator, T) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let (call_permit, (slot_permit, source)) = self.admission.admit(origin, self.acquire_instance(origin)).await?;
        let permits = Permits { _call_permit: call_permit, _slot_permit: slot_permit };
        let caller = self.clone();
        let clock = Arc::new(CpuClock::default());
        let call = self.engine.executor.call(&self.run_queue, origin, clock.clone(), async move {
            let (answer, instance) = caller.run(source, watches, clock, run, check).await;
            // An instance that serves no other call ends here, where the call ended, and before its place is free.
            let is_good = answer.as_ref().map_or_else(Fault::is_provider_response, |_| true);
            CallOutcome { answer, instance: instance.filter(|_| is_good), permits }
        });
        call.await.map_err(|error| Fault::Host(error.to_string()))
    }

    /// The plugin's share allows it: an instance that is idle, or a seat for a fresh one.
    async fn acquire_instance(&self, origin: CallOrigin) -> (Option<SlotPermit>, InstanceSource) {
        let slot_permit = self.share.acquire(origin).await;
        let source = match self.pool.as_ref().and_then(|pool| pool.acquire()) {
            Some(instance) => InstanceSource::Pooled(instance),
            None => InstanceSource::Fresh(self.engine.instance_permits.acquire().await),
        };
        (slot_permit, source)
    }

    /// Makes the call, and makes of the provider's answer what is answered: both within the call's limits. The instance comes
    /// back only if the provider had the last word and it may serve another call. `limits.deadline` counts from here: this
    /// runs with all permits, when it is the call's turn.
    async fn run<T, U, F, C, W>(
        &self,
        source: InstanceSource,
        watches: bool,
        clock: Arc<CpuClock>,
        run: F,
        check: C,
    ) -> (Result<U, Fault>, Option<Instance>)
    where
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<GuestState>) -> GuestFuture<'a, T>,
        C: FnOnce(Validator, T) -> W,
        W: Future<Output = Result<U, Fault>>,
    {
        let deadline = self.limits.deadline.duration();
        let call = async {
            let mut instance = match source {
                InstanceSource::Pooled(instance) => instance,
                InstanceSource::Fresh(permit) => match self.sandbox.new_store_data().await {
                    Ok(state) => Instance::new(self.engine.wasmtime(), state, permit),
                    Err(error) => return (Err(self.fault_from_sandbox(error)), None),
                },
            };
            let _epoch_guard = self.engine.ticker.keep_ticking();
            let given = match instance.call(&self.provider, &self.limits, &clock, run).await {
                Ok(given) => given.map_err(Fault::from),
                Err(error) => return (Err(self.fault_from_trap(&error, instance.state())), None),
            };
            // The guest's memory is free before that of its answer is charged.
            let instance = Some(instance).filter(|_| self.pool.is_some());
            let answer = match given {
                Ok(given) => check(self.validator(watches, clock.clone()), given).await,
                Err(fault) => Err(fault),
            };
            (answer, instance)
        };
        timeout(deadline, call).await.unwrap_or((Err(Fault::Deadline(deadline)), None))
    }

    /// What checks the answer to the call of that clock.
    fn validator(&self, watches: bool, clock: Arc<CpuClock>) -> Validator {
        let work = WorkBudget::new(clock, self.limits.cpu.duration(), self.sandbox.memory().clone());
        Validator::new(self.validation.clone(), watches, work)
    }

    fn fault_from_sandbox(&self, error: SandboxError) -> Fault {
        match error {
            SandboxError::OutOfMemory => Fault::Memory(self.limits.memory.bytes()),
            SandboxError::Directory(error) => Fault::Grant(error.to_string()),
        }
    }

    /// What ended the guest.
    fn fault_from_trap(&self, error: &wasmtime::Error, state: &GuestState) -> Fault {
        if error.downcast_ref::<CpuLimitExceeded>().is_some() {
            return Fault::Cpu(self.limits.cpu.duration());
        }
        if state.memory.refused() || error.downcast_ref::<OutOfMemory>().is_some() {
            return Fault::Memory(self.limits.memory.bytes());
        }
        if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
            return Fault::Handles(self.limits.handles.get());
        }
        let trap = || Fault::Trap(text::truncate(format!("{error:#}"), MAX_TRAP_MESSAGE).escape_debug().to_string());
        if error.downcast_ref::<Trap>().is_some() {
            return trap();
        }
        // wasmtime has no types for these errors. What is around the cause may be the guest's.
        let cause = error.root_cause().to_string();
        if cause.contains("fuel allocated for hostcalls has been exhausted") {
            return Fault::Reply(self.limits.response_size.bytes());
        }
        if cause.contains("store handle limit exceeded") {
            return Fault::Handles(self.limits.handles.get());
        }
        if cause.contains("requested len") {
            return Fault::Random(self.limits.random_bytes.bytes());
        }
        trap()
    }
}
