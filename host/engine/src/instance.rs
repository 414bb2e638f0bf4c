//! An instance of a component: its store, its handles, and one call at a time under the plugin's limits.

use std::sync::Arc;

use mcp_host_config::limits::Limits;
use mcp_host_sandbox::cpu::{HostCpuBudget, OutOfCpu};
use mcp_host_sandbox::memory::{CallOwner, Denial};
use mcp_host_sandbox::state::GuestState;
use wasmtime::{Store, UpdateDeadline};

use super::Engine;
use super::bindings::Exports;
use super::cpu::CpuClock;
use super::debugger::Debugger;
use super::diagnostics::CallTrace;
use super::epoch::TICK;
use super::function::Guest;
use super::instance_permits::InstancePermit;
use super::loader::LinkedComponent;
use super::recording::{Recording, Replays};

/// The number of bytes by which an answer may exceed `limits.response-size`, for the metadata of the content.
pub(crate) const REPLY_SLACK: usize = 1 << 20;

/// The maximum size of the values in one host call of a recorded instance, in bytes: about 1.6 MB of contents.
const RECORDED_BYTES: usize = 64 << 20;
/// The additional bytes of a recorded instance, besides the memory of its passthrough.
const PASSTHROUGH_BYTES: usize = 64 << 10;

/// A component, and the functions that its imports are linked to.
#[derive(Clone, Copy)]
pub(crate) enum Linked<'a> {
    /// The functions of the host.
    Host(&'a LinkedComponent),
    /// Functions that record the results of the host's functions.
    Recorder(&'a Recording),
    /// Functions that return recorded results.
    Record(&'a Replays),
}

impl Linked<'_> {
    async fn instantiate(
        self,
        store: &mut Store<GuestState>,
        is_for_preparation: bool,
        debugger: Option<&Debugger>,
    ) -> wasmtime::Result<Exports> {
        match self {
            Self::Host(component) => {
                if let Some(debugger) = debugger {
                    debugger.enter(store, component.pre.instance_pre().component()).await?;
                }
                Exports::instantiate(&component.pre, store, is_for_preparation).await
            }
            Self::Recorder(recording) => recording.instantiate(store, is_for_preparation).await,
            Self::Record(replays) => replays.instantiate(store, is_for_preparation).await,
        }
    }
}

/// An instance, instantiated by its first call.
pub(crate) struct Instance {
    store: Store<GuestState>,
    /// None before the first call, because instantiation counts against this call's limits.
    exports: Option<Exports>,
    debugger: Option<Debugger>,
    calls: usize,
    /// The last field to be dropped: the slot must not be free before the memory is.
    _permit: Option<InstancePermit>,
}

impl Instance {
    /// Creates an instance of this component, which the first call will instantiate.
    ///
    /// # Errors
    ///
    /// The plugin's memory does not suffice for the component's declarations, which wasmtime will allocate.
    pub(crate) fn new(
        engine: &Engine,
        component: &LinkedComponent,
        mut state: GuestState,
        permit: Option<InstancePermit>,
    ) -> Result<Self, Denial> {
        let passthrough = if state.recording.is_some() { PASSTHROUGH_BYTES } else { 0 };
        state.memory.charge_static(component.instance_bytes().saturating_add(passthrough))?;
        let mut store = Store::new(component.pre.instance_pre().engine(), state);
        store.limiter(|state| &mut state.memory);
        let debugger = engine.debugger().cloned();
        if let Some(debugger) = &debugger {
            debugger.observe(&mut store);
        }
        Ok(Self { store, exports: None, debugger, calls: 0, _permit: permit })
    }

    /// Begins one call: applies the limits, and instantiates the component if needed. `clock` is the call's CPU
    /// clock, `trace` its record if it is observed. An instance that is made for a preparation serves no other
    /// call.
    pub(crate) async fn begin_call(
        &mut self,
        linked: Linked<'_>,
        is_for_preparation: bool,
        limits: &Limits,
        clock: &Arc<CpuClock>,
        trace: Option<&Arc<CallTrace>>,
    ) -> wasmtime::Result<Guest<'_>> {
        self.calls = self.calls.saturating_add(1);
        self.apply_limits(limits, clock.clone(), trace.cloned());
        let exports = match self.exports.take() {
            Some(exports) => exports,
            None => linked.instantiate(&mut self.store, is_for_preparation, self.debugger.as_ref()).await?,
        };
        let Exports { provider, preparing } = self.exports.insert(exports);
        Ok(Guest {
            exports: provider.mcp_host_provider_resource_provider(),
            prepare: preparing.as_ref().map(|preparing| preparing.mcp_host_provider_prepare()),
            store: &mut self.store,
        })
    }

    /// Ends a call.
    pub(crate) fn end_call(&mut self) {
        self.store.data_mut().end_call();
    }

    /// Returns the number of calls that it has served.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Returns the memory that it holds, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.state().memory.held()
    }

    /// Charges its memory to the owner of its next call, or to the host while it is idle.
    pub(crate) fn set_owner(&mut self, owner: CallOwner) {
        self.store.data_mut().memory.set_owner(owner);
    }

    /// Returns the host's state of the instance.
    pub(crate) fn state(&self) -> &GuestState {
        self.store.data()
    }

    /// Applies the limits for one call.
    fn apply_limits(&mut self, limits: &Limits, clock: Arc<CpuClock>, trace: Option<Arc<CallTrace>>) {
        let cpu = HostCpuBudget::new(clock.host().clone(), limits.cpu.duration());
        self.store.data_mut().begin_call(cpu);
        let reply = usize::try_from(limits.response_size.bytes()).unwrap_or(usize::MAX);
        self.store.set_max_component_handles(limits.handles.get());
        let bytes = reply.saturating_add(REPLY_SLACK);
        // Arguments and results of recorded imports are copied as values, and each byte of them is a value.
        let is_recorded = self.store.data().recording.is_some();
        let fuel = if is_recorded { bytes.max(RECORDED_BYTES) } else { bytes };
        self.store.set_hostcall_fuel(fuel);
        let limit = limits.cpu.duration();
        self.store.set_epoch_deadline(1);
        self.store.epoch_deadline_callback(move |store| {
            if let Some(trace) = &trace {
                trace.tick(&store);
            }
            if clock.exceeds(limit) {
                return Err(OutOfCpu.into());
            }
            // The epoch advances for all guests together. Without this check, a guest that has just begun would
            // yield, too.
            match clock.elapsed_in_poll() < TICK {
                true => Ok(UpdateDeadline::Continue(1)),
                false => Ok(UpdateDeadline::Yield(1)),
            }
        });
    }
}
