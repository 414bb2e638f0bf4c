//! An instance of a provider: its memory, its handles, and one call at a time under the plugin's limits.

use std::pin::Pin;
use std::sync::Arc;

use wasmtime::{Engine, Store, UpdateDeadline};

use super::bindings::contract::{self, Guest};
use super::bindings::{Provider, ProviderPre};
use super::cpu::{CpuClock, CpuLimitExceeded};
use super::instance_permits::InstancePermit;
use crate::config::limits::Limits;
use crate::sandbox::state::GuestState;

/// What a reply may carry beyond its limit in bytes: the metadata around the content.
const REPLY_SLACK: usize = 1 << 20;

/// What a call answers: the trap that ended it, or the provider's own word.
pub(crate) type GuestResult<T> = wasmtime::Result<Result<T, contract::Failure>>;
/// A call under way.
pub(crate) type GuestFuture<'a, T> = Pin<Box<dyn Future<Output = GuestResult<T>> + Send + 'a>>;

/// An instance, from before its first call on.
pub(crate) struct Instance {
    store: Store<GuestState>,
    /// None before the first call, which pays for it.
    provider: Option<Provider>,
    calls: usize,
    /// Free again only when the memory is: the last to be dropped.
    _permit: Option<InstancePermit>,
}

impl Instance {
    /// An instance that will be made with its first call.
    pub(crate) fn new(engine: &Engine, state: GuestState, seat: Option<InstancePermit>) -> Self {
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.memory);
        Self { store, provider: None, calls: 0, _permit: seat }
    }

    /// Makes one call. All limits are those of this call; `clock` is what its CPU time is taken from.
    pub(crate) async fn call<T, F>(
        &mut self,
        pre: &ProviderPre<GuestState>,
        limits: &Limits,
        clock: &Arc<CpuClock>,
        run: F,
    ) -> GuestResult<T>
    where
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<GuestState>) -> GuestFuture<'a, T>,
    {
        self.calls = self.calls.saturating_add(1);
        self.apply_limits(limits, clock.clone());
        let provider = match self.provider.take() {
            Some(provider) => provider,
            None => pre.instantiate_async(&mut self.store).await?,
        };
        let provider = self.provider.insert(provider);
        run(provider.mcp_host_provider_resource_provider(), &mut self.store).await
    }

    /// How many calls it has been asked for.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// How many bytes of memory it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.state().memory.held()
    }

    /// What the host keeps for it.
    pub(crate) fn state(&self) -> &GuestState {
        self.store.data()
    }

    /// Puts it under the limits, for one call.
    fn apply_limits(&mut self, limits: &Limits, clock: Arc<CpuClock>) {
        self.store.data_mut().memory.reset();
        let reply = usize::try_from(limits.response_size.bytes()).unwrap_or(usize::MAX);
        self.store.set_max_component_handles(limits.handles.get());
        self.store.set_hostcall_fuel(reply.saturating_add(REPLY_SLACK));
        let limit = limits.cpu.duration();
        self.store.set_epoch_deadline(1);
        self.store.epoch_deadline_callback(move |_| match clock.exceeds(limit) {
            true => Err(CpuLimitExceeded.into()),
            false => Ok(UpdateDeadline::Yield(1)),
        });
    }
}
