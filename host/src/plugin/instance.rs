//! One call: a place, an instance, the guest's code under its limits, and what became of it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wasmtime::{Store, UpdateDeadline};

use super::Plugin;
use super::bindings::ProviderPre;
use super::bindings::contract::{self, Guest};
use super::cpu::{CpuClock, OutOfCpu};
use super::engine::Engine;
use super::fault::Fault;
use super::sandbox::Sandbox;
use super::state::State;
use crate::config::Limits;

/// What a reply may carry beyond its limit in bytes: the metadata around the content.
const REPLY_SLACK: usize = 1 << 20;

/// What a call answers: the trap that ended it, or the provider's own word.
type Answer<T> = wasmtime::Result<Result<T, contract::Failure>>;
/// A call under way.
type Running<'a, T> = Pin<Box<dyn Future<Output = Answer<T>> + Send + 'a>>;

/// Whom a call is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// A client: it takes one of the plugin's places.
    Client,
    /// The plugin's watcher, which makes one call at a time: it takes no client's place.
    Watch,
}

/// All that a call needs, shared by the calls of one plugin.
pub(super) struct Caller {
    pub(super) engine: Arc<Engine>,
    pub(super) provider: ProviderPre<State>,
    pub(super) sandbox: Sandbox,
    pub(super) limits: Limits,
    /// Places for calls.
    pub(super) places: Arc<Semaphore>,
}

impl Plugin {
    /// Calls the provider in a fresh instance. Dropping the future ends the call.
    pub(super) async fn call<T, F>(&self, function: &'static str, turn: Turn, run: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T> + Send + 'static,
    {
        let answer = self.caller.clone().call(turn, run).await;
        if let Err(fault) = &answer {
            self.faults.note(function, fault);
        }
        answer
    }
}

impl Caller {
    async fn call<T, F>(self: Arc<Self>, turn: Turn, run: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T> + Send + 'static,
    {
        let engine = self.engine.clone();
        let places = self.places(turn).await?;
        let task = engine.spawn(async move {
            let answer = self.run(run).await;
            // The places are free again only now that the memory is.
            drop(places);
            answer
        });
        task.await.unwrap_or_else(|error| Err(Fault::Host(error.to_string())))
    }

    /// A place in the plugin and one in the pool.
    async fn places(&self, turn: Turn) -> Result<(Option<OwnedSemaphorePermit>, OwnedSemaphorePermit), Fault> {
        let wait = self.limits.wait.duration();
        let both = async {
            let own = match turn {
                Turn::Client => Some(place(&self.places).await?),
                Turn::Watch => None,
            };
            Ok((own, place(&self.engine.instances).await?))
        };
        timeout(wait, both).await.unwrap_or(Err(Fault::Busy(wait)))
    }

    async fn run<T, F>(&self, run: F) -> Result<T, Fault>
    where
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T>,
    {
        let state = self.sandbox.state().map_err(|error| Fault::Grant(error.to_string()))?;
        let _epoch_moves = self.engine.ticker.run();
        let mut store = Store::new(self.engine.wasmtime(), state);
        let clock = Arc::new(CpuClock::default());
        arm(&mut store, &self.limits, clock.clone());
        let deadline = self.limits.deadline.duration();
        let answer = timeout(deadline, clock.time(self.drive(&mut store, run))).await;
        answer
            .map_err(|_| Fault::Deadline(deadline))
            .and_then(|answer| answer.map_err(|error| self.classify(&error, store.data())))
            .and_then(|answer| answer.map_err(Fault::from))
    }

    async fn drive<T, F>(&self, store: &mut Store<State>, run: F) -> Answer<T>
    where
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T>,
    {
        let instance = self.provider.instantiate_async(&mut *store).await?;
        run(instance.mcp_host_provider_resource_provider(), store).await
    }

    /// What ended the guest.
    fn classify(&self, error: &wasmtime::Error, state: &State) -> Fault {
        if error.downcast_ref::<OutOfCpu>().is_some() {
            return Fault::Cpu(self.limits.cpu.duration());
        }
        if state.memory.refused() {
            return Fault::Memory(self.limits.memory.bytes());
        }
        let message = format!("{error:#}");
        // wasmtime has no type for this error.
        if message.contains("fuel allocated for hostcalls has been exhausted") {
            return Fault::Reply(self.limits.reply.bytes());
        }
        Fault::Trap(message)
    }
}

async fn place(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Fault> {
    // Only a closed semaphore refuses, and none of these is ever closed.
    semaphore.clone().acquire_owned().await.map_err(|_| Fault::Busy(Duration::ZERO))
}

/// Puts a store under the limits, for one call.
fn arm(store: &mut Store<State>, limits: &Limits, clock: Arc<CpuClock>) {
    store.limiter(|state| &mut state.memory);
    let reply = usize::try_from(limits.reply.bytes()).unwrap_or(usize::MAX);
    store.set_hostcall_fuel(reply.saturating_add(REPLY_SLACK));
    let most = limits.cpu.duration();
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| match clock.used() > most {
        true => Err(OutOfCpu.into()),
        false => Ok(UpdateDeadline::Yield(1)),
    });
}
