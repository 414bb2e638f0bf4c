//! An instance of a component: its store, its handles, and one call at a time under the plugin's limits.

use std::sync::Arc;

use mcp_host_config::limits::Limits;
use mcp_host_sandbox::cpu::{HostCpuBudget, OutOfCpu};
use mcp_host_sandbox::memory::{CallOwner, Denial};
use mcp_host_sandbox::state::GuestState;
use wasmtime::{Engine, Store, UpdateDeadline};

use super::bindings::Provider;
use super::cpu::CpuClock;
use super::epoch::TICK;
use super::function::Guest;
use super::instance_permits::InstancePermit;
use super::loader::LinkedComponent;

/// The bytes of an answer beyond `limits.response-size` that are allowed for the metadata around the content.
pub(crate) const REPLY_SLACK: usize = 1 << 20;

/// An instance, instantiated by its first call.
pub(crate) struct Instance {
    store: Store<GuestState>,
    /// None before the first call, whose limits instantiation counts against.
    provider: Option<Provider>,
    calls: usize,
    /// The last field to be dropped: the slot is free only when the memory is.
    _permit: Option<InstancePermit>,
}

impl Instance {
    /// An instance of that component, which the first call will instantiate.
    ///
    /// # Errors
    ///
    /// The plugin does not have the memory that wasmtime will allocate for what the component declares.
    pub(crate) fn new(
        engine: &Engine,
        component: &LinkedComponent,
        mut state: GuestState,
        permit: Option<InstancePermit>,
    ) -> Result<Self, Denial> {
        state.memory.charge_static(component.instance_bytes())?;
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.memory);
        Ok(Self { store, provider: None, calls: 0, _permit: permit })
    }

    /// Begins one call: applies the limits, and instantiates the component if that has not been done. `clock` is the
    /// call's CPU clock.
    pub(crate) async fn begin_call(
        &mut self,
        component: &LinkedComponent,
        limits: &Limits,
        clock: &Arc<CpuClock>,
    ) -> wasmtime::Result<Guest<'_>> {
        self.calls = self.calls.saturating_add(1);
        self.apply_limits(limits, clock.clone());
        let provider = match self.provider.take() {
            Some(provider) => provider,
            None => component.pre.instantiate_async(&mut self.store).await?,
        };
        let provider = self.provider.insert(provider);
        Ok(Guest { exports: provider.mcp_host_provider_resource_provider(), store: &mut self.store })
    }

    /// Ends a call.
    pub(crate) fn end_call(&mut self) {
        self.store.data_mut().end_call();
    }

    /// The number of calls that it has served.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// The bytes of memory that it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.state().memory.held()
    }

    /// Charges the memory that it holds to the owner of its next call; to the host while it is idle.
    pub(crate) fn set_owner(&mut self, owner: CallOwner) {
        self.store.data_mut().memory.set_owner(owner);
    }

    /// The host's state of the instance.
    pub(crate) fn state(&self) -> &GuestState {
        self.store.data()
    }

    /// Applies the limits for one call.
    fn apply_limits(&mut self, limits: &Limits, clock: Arc<CpuClock>) {
        let cpu = HostCpuBudget::new(clock.host().clone(), limits.cpu.duration());
        self.store.data_mut().begin_call(cpu);
        let reply = usize::try_from(limits.response_size.bytes()).unwrap_or(usize::MAX);
        self.store.set_max_component_handles(limits.handles.get());
        self.store.set_hostcall_fuel(reply.saturating_add(REPLY_SLACK));
        let limit = limits.cpu.duration();
        self.store.set_epoch_deadline(1);
        self.store.epoch_deadline_callback(move |_| {
            if clock.exceeds(limit) {
                return Err(OutOfCpu.into());
            }
            // The epoch advances for all guests at once: without this, one that has just begun would yield, too.
            match clock.elapsed_in_poll() < TICK {
                true => Ok(UpdateDeadline::Continue(1)),
                false => Ok(UpdateDeadline::Yield(1)),
            }
        });
    }
}
