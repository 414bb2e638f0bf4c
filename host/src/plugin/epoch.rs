//! The clock behind CPU limits: while guests run, a thread of its own moves the engine's epoch on once a millisecond.
//!
//! A guest checks the epoch at every function entry and loop turn. When it has moved, the guest yields to its neighbours, or
//! is ended if it has used up its CPU time. The thread sleeps while nothing runs: an idle host wakes up for
//! nothing.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::EngineError;

/// How long a guest runs before it yields.
const TICK: Duration = Duration::from_millis(1);

/// Drives the epoch of one engine.
pub(super) struct Ticker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticker {
    /// Starts the thread.
    pub(super) fn start(engine: wasmtime::Engine) -> Result<Self, EngineError> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name("epoch".to_owned())
            .spawn(move || tick(&engine, &theirs))
            .map_err(|error| EngineError::Start(format!("cannot start the epoch thread: {error}")))?;
        Ok(Self { shared })
    }

    /// Keeps the epoch moving for as long as the result lives.
    pub(super) fn run(&self) -> Running {
        let mut state = self.shared.lock();
        state.running = state.running.saturating_add(1);
        if state.running == 1 {
            self.shared.wake.notify_one();
        }
        drop(state);
        Running { shared: self.shared.clone() }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.wake.notify_one();
    }
}

/// A guest that is running, or waits for the host to do something for it.
pub(super) struct Running {
    shared: Arc<Shared>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.running = state.running.saturating_sub(1);
    }
}

fn tick(engine: &wasmtime::Engine, shared: &Shared) {
    loop {
        let mut state = shared.lock();
        while state.running == 0 && !state.stopped {
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return;
        }
        drop(state);
        std::thread::sleep(TICK);
        engine.increment_epoch();
    }
}
