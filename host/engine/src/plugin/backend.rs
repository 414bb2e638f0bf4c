//! What answers the calls of a plugin: instances of a component in a sandbox, or a native provider.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcp_host_config::limits::Limits;
use mcp_host_model::provider::Provider;
use mcp_host_sandbox::memory::{CallOwner, MemoryBudget, MemoryMeter};
use mcp_host_sandbox::{Sandbox, SandboxError};

use super::fault::Fault;
use super::panics::ContainedFuture;
use crate::cpu::CpuClock;
use crate::function::{Function, GuestResult};
use crate::instance::Instance;
use crate::instance_permits::InstancePermit;
use crate::loader::LinkedComponent;
use crate::pool::Pool;
use crate::shares::{Share, SlotPermit};
use crate::{CallEnd, CallOrigin, Engine};

/// What answers the calls of a plugin.
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
    /// Acquires an idle instance, or a permit for a fresh one with that memory, as soon as the plugin's share allows it. A native
    /// provider needs neither.
    pub(super) async fn acquire(
        &self,
        engine: &Engine,
        origin: CallOrigin,
        memory: &Arc<MemoryBudget>,
        owner: CallOwner,
    ) -> (Option<SlotPermit>, CallTarget) {
        let Self::Component(component) = self else { return (None, CallTarget::Native) };
        let slot_permit = component.share.acquire(origin).await;
        let may_reuse = origin != CallOrigin::Probe;
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

    /// Calls the function. The instance is returned only if it answered and the plugin reuses instances.
    pub(super) async fn call<F: Function>(
        &self,
        engine: &Engine,
        target: CallTarget,
        limits: &Limits,
        clock: &Arc<CpuClock>,
        function: F,
    ) -> (Result<F::Answer, Fault>, Option<Instance>) {
        match self {
            Self::Component(component) => component.call(engine, target, limits, clock, function).await,
            Self::Native(provider) => (call_native(&**provider, limits, clock, function).await, None),
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

    /// The bytes that an instance takes when it begins.
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

    /// The number of instances that are kept for later calls.
    pub(super) fn idle_instances(&self) -> usize {
        match self {
            Self::Component(component) => component.pool.as_ref().map_or(0, |pool| pool.idle_count()),
            Self::Native(_) => 0,
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

impl ComponentBackend {
    async fn call<F: Function>(
        &self,
        engine: &Engine,
        target: CallTarget,
        limits: &Limits,
        clock: &Arc<CpuClock>,
        function: F,
    ) -> (Result<F::Answer, Fault>, Option<Instance>) {
        let (permit, memory) = match target {
            CallTarget::Pooled(instance) => return self.call_instance(engine, instance, limits, clock, function).await,
            CallTarget::Fresh(permit, memory) => (permit, memory),
            CallTarget::Native => (None, MemoryMeter::new(self.sandbox.memory().clone(), CallOwner::default())),
        };
        let denied = |denial| (Err(Fault::out_of_memory(limits.memory.bytes(), denial)), None);
        match self.sandbox.new_store_data(memory).await {
            Ok(state) => match Instance::new(engine.wasmtime(), &self.component, state, permit) {
                Ok(instance) => self.call_instance(engine, instance, limits, clock, function).await,
                Err(denial) => denied(denial),
            },
            Err(SandboxError::OutOfMemory(denial)) => denied(denial),
            Err(SandboxError::Directory(error)) => (Err(Fault::Grant(error.to_string())), None),
        }
    }

    async fn call_instance<F: Function>(
        &self,
        engine: &Engine,
        mut instance: Instance,
        limits: &Limits,
        clock: &Arc<CpuClock>,
        function: F,
    ) -> (Result<F::Answer, Fault>, Option<Instance>) {
        let _epoch_guard = engine.ticker.keep_ticking();
        // Boxed and erased: wasmtime's futures are nested so deeply that the compiler would give up on those around them.
        let call: BoxFuture<'_, GuestResult<F::Answer>> = Box::pin(async {
            let guest = instance.begin_call(&self.component, limits, clock).await?;
            function.call_guest(guest).await
        });
        let ended = call.await;
        instance.end_call();
        match ended {
            // The guest's memory is released before its answer is charged.
            Ok(answer) => (answer.map_err(Fault::from), Some(instance).filter(|_| self.pool.is_some())),
            Err(error) => {
                let denial = instance.state().memory.denial();
                let end = CallEnd::from_error(&error, denial.is_some());
                (Err(Fault::from_call_end(end, limits, denial)), None)
            }
        }
    }
}

/// Calls a native provider. It ends at the next poll that returns pending once `limits.cpu` is used up, and when it panics.
/// Dropping the future drops the provider's future, and contains panics of its destructors.
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
