//! The clock behind CPU limits: while guests run, a thread of its own moves the engine's epoch on every half millisecond.
//!
//! A guest checks the epoch at every function entry and loop turn. When it has moved, the guest yields to its neighbours, or
//! is ended if it has used up its CPU time. Waking the thread up costs a call more than a tick costs the machine, so it goes
//! on for [`LINGER`] ticks after the last call; then it sleeps, and an idle host wakes up for nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::thread_priority;

/// How long a guest runs before it yields.
pub(crate) const TICK: Duration = Duration::from_micros(500);
/// For how many ticks in which nothing ran the thread stays awake.
const IDLE_TICKS: usize = 200;

/// Drives the epoch of one engine.
pub(crate) struct Ticker {
    shared: Arc<TickerState>,
    thread: Thread,
}

#[derive(Default)]
struct TickerState {
    running: AtomicUsize,
    /// The thread sleeps, or is about to.
    is_asleep: AtomicBool,
    is_stopped: AtomicBool,
}

impl Ticker {
    /// Starts the thread.
    pub(crate) fn start(engine: wasmtime::Engine) -> io::Result<Self> {
        let shared = Arc::new(TickerState::default());
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("epoch".to_owned()).spawn(move || {
            // On a busy machine it would otherwise wake up late, and guests would yield late.
            thread_priority::set_short_time_slice();
            tick(&engine, &theirs);
        })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Keeps the epoch moving for as long as the result lives.
    pub(crate) fn keep_ticking(&self) -> EpochGuard {
        // The thread looks the other way round: it says that it goes to sleep, and then whether anything runs.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.is_asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        EpochGuard { shared: self.shared.clone() }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// A guest that is running, or waits for the host to do something for it.
pub(crate) struct EpochGuard {
    shared: Arc<TickerState>,
}

impl Drop for EpochGuard {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TickerState {
    fn is_idle(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Sleeps until a guest runs.
    fn sleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
        while self.is_idle() && !self.is_stopped() {
            thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

fn tick(engine: &wasmtime::Engine, shared: &TickerState) {
    let mut idle: usize = 0;
    while !shared.is_stopped() {
        idle = if shared.is_idle() { idle.saturating_add(1) } else { 0 };
        if idle > IDLE_TICKS {
            shared.sleep();
            idle = 0;
        }
        thread::sleep(TICK);
        engine.increment_epoch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::config::codegen_config;

    #[test]
    fn the_thread_sleeps_while_nothing_runs() {
        let ticker = Ticker::start(wasmtime::Engine::new(&codegen_config()).unwrap()).unwrap();
        let becomes = |asleep: bool| {
            while ticker.shared.is_asleep.load(Ordering::SeqCst) != asleep {
                thread::yield_now();
            }
        };
        becomes(true);
        let running = ticker.keep_ticking();
        becomes(false);
        drop(running);
        becomes(true);
    }
}
