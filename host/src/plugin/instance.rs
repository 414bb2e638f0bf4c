//! One call: a place, an instance, the guest's code under its limits, and what became of it.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wasmtime::Store;

use super::Plugin;
use super::bindings::ProviderPre;
use super::bindings::contract::{self, Guest};
use super::fault::Fault;
use super::limits::{self, OutOfCpu};
use super::sandbox::State;
use crate::config::Limits;

/// What a call answers: the trap that ended it, or the provider's own word.
type Answer<T> = wasmtime::Result<Result<T, contract::Failure>>;
/// A call under way.
type Running<'a, T> = Pin<Box<dyn Future<Output = Answer<T>> + Send + 'a>>;

impl Plugin {
    /// Calls the provider in a fresh instance. Dropping the future ends the call.
    pub(super) async fn call<T, F>(&self, function: &'static str, run: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T> + Send + 'static,
    {
        let answer = self.attempt(run).await;
        if let Err(fault) = &answer {
            self.note(function, fault);
        }
        answer
    }

    async fn attempt<T, F>(&self, run: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T> + Send + 'static,
    {
        let places = self.places().await?;
        let state = self.sandbox.state().map_err(|error| Fault::Grant(error.to_string()))?;
        let mut store = Store::new(self.engine.wasmtime(), state);
        limits::arm(&mut store, &self.limits);
        let provider = self.provider.clone();
        let limits = self.limits.clone();
        let deadline = limits.deadline.duration();
        let running = self.engine.ticker.run();
        let task = self.engine.spawn(async move {
            let answer = timeout(deadline, drive(&provider, &mut store, run)).await;
            let answer = answer
                .map_err(|_| Fault::Deadline(deadline))
                .and_then(|answer| answer.map_err(|error| classify(&error, &store, &limits)))
                .and_then(|answer| answer.map_err(Fault::from));
            // The places are free again only when the memory is.
            drop(store);
            drop(running);
            drop(places);
            answer
        });
        task.await.unwrap_or_else(|error| Err(Fault::Host(error.to_string())))
    }

    /// A place in the plugin and one in the pool.
    async fn places(&self) -> Result<[OwnedSemaphorePermit; 2], Fault> {
        let wait = self.limits.wait.duration();
        let both = async {
            let own = place(&self.calls).await?;
            let pool = place(&self.engine.instances).await?;
            Ok([own, pool])
        };
        timeout(wait, both).await.unwrap_or(Err(Fault::Busy(wait)))
    }
}

async fn place(semaphore: &std::sync::Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Fault> {
    // Only a closed semaphore refuses, and none of these is ever closed.
    semaphore.clone().acquire_owned().await.map_err(|_| Fault::Busy(Duration::ZERO))
}

async fn drive<T, F>(provider: &ProviderPre<State>, store: &mut Store<State>, run: F) -> Answer<T>
where
    F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T>,
{
    let instance = provider.instantiate_async(&mut *store).await?;
    run(instance.mcp_host_provider_resource_provider(), store).await
}

/// What ended the guest.
fn classify(error: &wasmtime::Error, store: &Store<State>, limits: &Limits) -> Fault {
    if error.downcast_ref::<OutOfCpu>().is_some() {
        return Fault::Cpu(limits.cpu.duration());
    }
    if store.data().memory.refused() {
        return Fault::Memory(limits.memory.bytes());
    }
    let message = format!("{error:#}");
    // wasmtime has no type for this error.
    if message.contains("fuel allocated for hostcalls has been exhausted") {
        return Fault::Reply(limits.reply.bytes());
    }
    Fault::Trap(message)
}
