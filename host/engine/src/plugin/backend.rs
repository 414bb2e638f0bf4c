//! The backend of a plugin's calls: instances of a component in a sandbox, or a native provider.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use futures::FutureExt;
use futures::future::BoxFuture;
use mcp_host_config::limits::Limits;
use mcp_host_model::provider::Provider;
use mcp_host_sandbox::memory::{CallOwner, MemoryBudget, MemoryMeter};
use mcp_host_sandbox::state::GuestState;
use mcp_host_sandbox::{Sandbox, SandboxError};

use super::panics::ContainedFuture;
use crate::cpu::CpuClock;
use crate::diagnostics::{Backtrace, CallTrace};
use crate::fault::Fault;
use crate::function::{Function, FunctionName, GuestResult};
use crate::instance::{Instance, Linked};
use crate::instance_permits::InstancePermit;
use crate::loader::LinkedComponent;
use crate::pool::Pool;
use crate::recording::{self, OpenRecord, Outcome, RecordedPlugin, Recording, Redaction, Replays};
use crate::shares::{Share, SlotPermit};
use crate::{CallEnd, CallOrigin, Engine};

/// The end of a call.
pub(super) struct Ended<T> {
    pub(super) answer: Result<T, Fault>,
    /// The instance, if it has answered and the plugin reuses instances.
    pub(super) instance: Option<Instance>,
    /// The stack of the guest at a failure.
    pub(super) stack: Option<Box<Backtrace>>,
}

impl<T> From<Result<T, Fault>> for Ended<T> {
    fn from(answer: Result<T, Fault>) -> Self {
        Self { answer, instance: None, stack: None }
    }
}

/// The backend of a plugin's calls.
pub(super) enum Backend {
    Component(Box<ComponentBackend>),
    Native(Arc<dyn Provider>),
}

/// A component with its grants.
pub(super) struct ComponentBackend {
    pub(super) component: LinkedComponent,
    pub(super) sandbox: Sandbox,
    /// The plugin's share of the instance slots.
    pub(super) share: Arc<Share>,
    /// The idle instances, if the plugin opted into reuse.
    pub(super) pool: Option<Arc<Pool>>,
    /// The data of the plugin in a recording.
    pub(super) recorded_as: RecordedPlugin,
    pub(super) redaction: Arc<Redaction>,
    /// The recording of its calls, if there is one.
    pub(super) recording: ArcSwapOption<Recording>,
    /// Makes its calls replays of recorded ones.
    pub(super) replays: Option<Replays>,
}

/// Where a call runs.
pub(super) enum CallTarget {
    /// In an instance that has served other calls.
    Pooled(Instance),
    /// In a fresh instance, with this permit and memory.
    Fresh(Option<InstancePermit>, MemoryMeter),
    /// In a native provider.
    Native,
}

impl Backend {
    /// Acquires an idle instance, or a permit for a fresh one with this memory, as soon as the plugin's share
    /// allows it. A native provider needs neither.
    pub(super) async fn acquire(
        &self,
        engine: &Engine,
        origin: CallOrigin,
        memory: &Arc<MemoryBudget>,
        owner: CallOwner,
    ) -> (Option<SlotPermit>, CallTarget) {
        let Self::Component(component) = self else { return (None, CallTarget::Native) };
        let slot_permit = component.share.acquire(origin).await;
        let is_reusable = !matches!(origin, CallOrigin::Probe | CallOrigin::Preparation);
        let may_reuse = is_reusable && !component.is_intercepted();
        let pooled = component.pool.as_ref().filter(|_| may_reuse).and_then(|pool| pool.acquire());
        let target = match pooled {
            Some(mut instance) => {
                instance.set_owner(owner);
                CallTarget::Pooled(instance)
            }
            None => {
                let permit = engine.instance_permits.acquire().await;
                CallTarget::Fresh(permit, MemoryMeter::new(memory.clone(), owner))
            }
        };
        (slot_permit, target)
    }

    /// Calls the function.
    pub(super) async fn call<F: Function>(
        &self,
        engine: &Engine,
        target: CallTarget,
        limits: &Limits,
        record: CallRecord<'_>,
        function: F,
    ) -> Ended<F::Answer> {
        match self {
            Self::Component(component) => component.call(engine, target, limits, record, function).await,
            Self::Native(provider) => {
                record.trace.inspect(|trace| trace.guest_begins(None));
                let answer = call_native(&**provider, limits, record.clock, function).await;
                record.trace.inspect(|trace| trace.guest_ended(None));
                answer.into()
            }
        }
    }

    /// Keeps the instance of a call for the next one, or ends it.
    pub(super) fn release(&self, mut instance: Instance) {
        instance.set_owner(CallOwner::default());
        if let Self::Component(component) = self
            && let Some(pool) = &component.pool
        {
            pool.release(instance);
        }
    }

    /// Returns the initial size of an instance in bytes.
    pub(super) fn initial_bytes(&self) -> u64 {
        match self {
            Self::Component(component) => component.component.initial_bytes(),
            Self::Native(_) => 0,
        }
    }

    /// The number of calls that wait for an instance slot.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Self::Component(component) => component.share.waiting(),
            Self::Native(_) => 0,
        }
    }

    /// Returns the number of idle instances that are kept for later calls.
    pub(super) fn idle_instances(&self) -> usize {
        match self {
            Self::Component(component) => component.pool.as_ref().map_or(0, |pool| pool.idle_count()),
            Self::Native(_) => 0,
        }
    }

    /// The native provider.
    pub(super) fn native(&self) -> Option<&Arc<dyn Provider>> {
        match self {
            Self::Component(_) => None,
            Self::Native(provider) => Some(provider),
        }
    }

    /// The sandbox of a component.
    pub(super) fn sandbox(&self) -> Option<&Sandbox> {
        match self {
            Self::Component(component) => Some(&component.sandbox),
            Self::Native(_) => None,
        }
    }
}

/// The records of a call.
#[derive(Clone, Copy)]
pub(super) struct CallRecord<'a> {
    pub(super) clock: &'a Arc<CpuClock>,
    /// None unless the call is observed.
    pub(super) trace: Option<&'a Arc<CallTrace>>,
}

impl ComponentBackend {
    async fn call<F: Function>(
        &self,
        engine: &Engine,
        target: CallTarget,
        limits: &Limits,
        record: CallRecord<'_>,
        function: F,
    ) -> Ended<F::Answer> {
        let (permit, memory) = match target {
            CallTarget::Pooled(instance) => {
                let called = self.call_instance(engine, instance, limits, record, function, Start::default());
                return called.await.ended;
            }
            CallTarget::Fresh(permit, memory) => (permit, memory),
            CallTarget::Native => (None, MemoryMeter::new(self.sandbox.memory().clone(), CallOwner::default())),
        };
        let again = self.recording.load().is_some().then(|| (function.clone(), memory.another()));
        let fresh = Fresh { permit, memory, may_intercept: true };
        let Called { ended, short } = self.call_fresh(engine, fresh, limits, record, function).await;
        let (Some(short), Some((function, memory))) = (short, again) else { return ended };
        // The recording may be why it failed. The instance is gone, with its permit and its memory.
        let permit = engine.instance_permits.acquire().await;
        let fresh = Fresh { permit, memory, may_intercept: false };
        let repeated = Box::pin(self.call_fresh(engine, fresh, limits, record, function)).await.ended;
        match &repeated.answer {
            Err(fault) if fault.may_be_of_recording() => drop(short),
            _ => short.discard(),
        }
        repeated
    }

    /// Calls the function in a fresh instance.
    async fn call_fresh<F: Function>(
        &self,
        engine: &Engine,
        fresh: Fresh,
        limits: &Limits,
        record: CallRecord<'_>,
        function: F,
    ) -> Called<F::Answer> {
        let Fresh { permit, memory, may_intercept } = fresh;
        let began = record.trace.map(|_| Instant::now());
        let denied = |denial| Err(Fault::out_of_memory(limits.memory.bytes(), denial)).into();
        match self.sandbox.new_store_data(memory).await {
            Ok(mut state) => {
                let interception = may_intercept.then(|| self.intercept(&mut state, &function)).flatten();
                match Instance::new(engine, &self.component, state, permit) {
                    Ok(instance) => {
                        let start = Start { began, interception };
                        self.call_instance(engine, instance, limits, record, function, start).await
                    }
                    Err(denial) => Called { ended: denied(denial), short: interception.and_then(Interception::record) },
                }
            }
            Err(SandboxError::OutOfMemory(denial)) => Called { ended: denied(denial), short: None },
            Err(SandboxError::Directory(error)) => {
                Called { ended: Err(Fault::Grant(error.to_string())).into(), short: None }
            }
        }
    }

    async fn call_instance<F: Function>(
        &self,
        engine: &Engine,
        mut instance: Instance,
        limits: &Limits,
        record: CallRecord<'_>,
        function: F,
        start: Start<'_>,
    ) -> Called<F::Answer> {
        let _epoch_guard = engine.ticker.keep_ticking();
        let CallRecord { clock, trace } = record;
        let Start { began, interception } = start;
        trace.inspect(|trace| trace.has_memory(instance.state().memory.account()));
        // Boxed and type-erased: wasmtime's futures are nested so deeply that the compiler would give up on the
        // enclosing ones.
        let call: BoxFuture<'_, GuestResult<F::Answer>> = Box::pin(async {
            let linked = interception.as_ref().map_or(Linked::Host(&self.component), Interception::linked);
            let is_preparation = F::NAME == FunctionName::Prepare;
            let guest = instance.begin_call(linked, is_preparation, limits, clock, trace).await?;
            trace.inspect(|trace| trace.guest_begins(began.map(|began| began.elapsed())));
            function.call_guest(guest).await
        });
        let ended = call.await;
        instance.end_call();
        let stack = ended.as_ref().err().and_then(Backtrace::of_error).map(Box::new);
        trace.inspect(|trace| trace.guest_ended(stack.as_deref()));
        let short = interception.and_then(|interception| {
            let fault = |error: &wasmtime::Error| fault(error, &instance, limits);
            let is_short = match &ended {
                Ok(Ok(_)) => false,
                // A guest can handle a denial of memory.
                Ok(Err(_)) => instance.state().memory.denial().is_some(),
                Err(error) => fault(error).may_be_of_recording(),
            };
            let record = interception.end(&instance, recording::outcome(&ended, fault, F::answer_to_json));
            // A call that may have changed something is not made twice.
            let has_effects = instance.state().recording.as_ref().is_some_and(|recording| recording.has_effects());
            record.filter(|_| is_short && !has_effects)
        });
        let ended = match ended {
            // The guest's memory is released before its answer is charged.
            Ok(answer) => {
                let may_reuse = self.pool.is_some() && F::NAME != FunctionName::Prepare;
                let instance = Some(instance).filter(|instance| may_reuse && instance.state().recording.is_none());
                Ended { answer: answer.map_err(Fault::from), instance, stack }
            }
            Err(error) => Ended { answer: Err(fault(&error, &instance, limits)), instance: None, stack },
        };
        Called { ended, short }
    }

    /// Returns whether calls are recorded or replayed.
    fn is_intercepted(&self) -> bool {
        self.replays.is_some() || self.recording.load().is_some()
    }

    /// If enabled, records a call in an instance with this state, or answers its host calls from a recording.
    fn intercept<F: Function>(&self, state: &mut GuestState, function: &F) -> Option<Interception<'_>> {
        if let Some(replays) = &self.replays {
            replays.begin(state);
            return Some(Interception::Replay(replays));
        }
        let recording = self.recording.load_full()?;
        let permit = recording.try_permit()?;
        Some(Interception::Record(OpenRecord::begin(recording, permit, state, F::NAME.as_str(), function.arguments())))
    }
}

/// Returns why a call in an instance has no answer.
fn fault(error: &wasmtime::Error, instance: &Instance, limits: &Limits) -> Fault {
    let denial = instance.state().memory.denial();
    let end = CallEnd::from_error(error, denial.is_some());
    Fault::from_call_end(end, limits, denial)
}

/// What a fresh instance is made with.
struct Fresh {
    permit: Option<InstancePermit>,
    memory: MemoryMeter,
    /// Whether the call may be recorded, or be a replay.
    may_intercept: bool,
}

/// The end of a call in an instance.
struct Called<T> {
    ended: Ended<T>,
    /// The record of a call that failed at a limit which its recording may have exhausted.
    short: Option<OpenRecord>,
}

/// How a call in an instance begins.
#[derive(Default)]
struct Start<'a> {
    /// When the creation of the instance began, if it is for this call and the call is observed.
    began: Option<Instant>,
    interception: Option<Interception<'a>>,
}

/// The interception between a call and the functions of the host.
enum Interception<'a> {
    Record(OpenRecord),
    Replay(&'a Replays),
}

impl Interception<'_> {
    fn linked(&self) -> Linked<'_> {
        match self {
            Self::Record(record) => Linked::Recorder(record.recording()),
            Self::Replay(replays) => Linked::Record(replays),
        }
    }

    /// Ends it. Returns the record, which is written when it is dropped.
    fn end(self, instance: &Instance, outcome: Outcome) -> Option<OpenRecord> {
        match self {
            Self::Record(mut record) => {
                record.end(outcome);
                Some(record)
            }
            Self::Replay(replays) => {
                replays.end(instance.state(), outcome);
                None
            }
        }
    }

    /// Returns the record of a call that did not begin.
    fn record(self) -> Option<OpenRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::Replay(_) => None,
        }
    }
}

/// Calls a native provider. The call ends at the first pending poll after `limits.cpu` is used up, and when it
/// panics. Dropping the future drops the provider's future, and contains panics of its destructors.
async fn call_native<F: Function>(
    provider: &dyn Provider,
    limits: &Limits,
    clock: &CpuClock,
    function: F,
) -> Result<F::Answer, Fault> {
    let cpu = limits.cpu.duration();
    let mut call = ContainedFuture::new(function.call_native(provider).boxed());
    poll_fn(|context| match call.poll_unpin(context) {
        Poll::Ready(Ok(answer)) => Poll::Ready(answer.map_err(Fault::from)),
        Poll::Ready(Err(message)) => Poll::Ready(Err(Fault::Panicked(message))),
        Poll::Pending if clock.exceeds(cpu) => Poll::Ready(Err(Fault::Cpu(cpu))),
        Poll::Pending => Poll::Pending,
    })
    .await
}
