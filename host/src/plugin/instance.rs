//! An instance of a provider: its memory, its handles, and one call at a time under the plugin's limits.

use std::pin::Pin;
use std::sync::Arc;

use wasmtime::{Engine, Store, UpdateDeadline};

use super::bindings::contract::{self, Guest};
use super::bindings::{Provider, ProviderPre};
use super::cpu::{CpuClock, OutOfCpu};
use super::seats::Seat;
use super::state::State;
use crate::config::Limits;

/// What a reply may carry beyond its limit in bytes: the metadata around the content.
const REPLY_SLACK: usize = 1 << 20;

/// What a call answers: the trap that ended it, or the provider's own word.
pub(super) type Answer<T> = wasmtime::Result<Result<T, contract::Failure>>;
/// A call under way.
pub(super) type Running<'a, T> = Pin<Box<dyn Future<Output = Answer<T>> + Send + 'a>>;

/// An instance, from before its first call on.
pub(super) struct Instance {
    store: Store<State>,
    /// None before the first call, which pays for it.
    provider: Option<Provider>,
    calls: usize,
    /// Free again only when the memory is: the last to be dropped.
    _seat: Option<Seat>,
}

impl Instance {
    /// An instance that will be made with its first call.
    pub(super) fn new(engine: &Engine, state: State, seat: Option<Seat>) -> Self {
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.memory);
        Self { store, provider: None, calls: 0, _seat: seat }
    }

    /// Makes one call. All limits are those of this call; `clock` is what its CPU time is taken from.
    pub(super) async fn call<T, F>(
        &mut self,
        pre: &ProviderPre<State>,
        limits: &Limits,
        clock: &Arc<CpuClock>,
        run: F,
    ) -> Answer<T>
    where
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T>,
    {
        self.calls = self.calls.saturating_add(1);
        self.arm(limits, clock.clone());
        let provider = match self.provider.take() {
            Some(provider) => provider,
            None => pre.instantiate_async(&mut self.store).await?,
        };
        let provider = self.provider.insert(provider);
        run(provider.mcp_host_provider_resource_provider(), &mut self.store).await
    }

    /// How many calls it has been asked for.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// How many bytes of memory it holds.
    pub(super) fn memory(&self) -> usize {
        self.state().memory.held()
    }

    /// What the host keeps for it.
    pub(super) fn state(&self) -> &State {
        self.store.data()
    }

    /// Puts it under the limits, for one call.
    fn arm(&mut self, limits: &Limits, clock: Arc<CpuClock>) {
        self.store.data_mut().memory.forgive();
        let reply = usize::try_from(limits.response_size.bytes()).unwrap_or(usize::MAX);
        self.store.set_max_component_handles(limits.handles.get());
        self.store.set_hostcall_fuel(reply.saturating_add(REPLY_SLACK));
        let most = limits.cpu.duration();
        self.store.set_epoch_deadline(1);
        self.store.epoch_deadline_callback(move |_| match clock.exceeds(most) {
            true => Err(OutOfCpu.into()),
            false => Ok(UpdateDeadline::Yield(1)),
        });
    }
}
