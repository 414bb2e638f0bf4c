//! The epoch thread: while guests run, it increments the engine's epoch every half millisecond. This preempts guests
//! and enforces CPU limits.
//!
//! A guest checks the epoch at every function entry and loop iteration. When the epoch has changed, the guest is ended
//! if it has used up its CPU time, and yields if it has run for a [`TICK`], so it runs for one to two ticks. Waking
//! this thread costs a call more time than a tick costs the machine, so the thread stays awake for [`IDLE_TICKS`] ticks
//! after the last call. Then it sleeps, and an idle host has no wake-ups.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use mcp_host_base::threads;

/// The interval of the epoch, and the minimum time slice of a guest.
pub(crate) const TICK: Duration = Duration::from_micros(500);
/// The number of idle ticks after which the thread sleeps.
const IDLE_TICKS: usize = 200;

/// The epoch thread of an engine, or of several that share it.
pub(crate) struct Ticker {
    shared: Arc<TickerState>,
    thread: Thread,
}

#[derive(Default)]
struct TickerState {
    running: AtomicUsize,
    /// Whether the thread sleeps, or is about to.
    is_asleep: AtomicBool,
    is_stopped: AtomicBool,
}

impl Ticker {
    /// Starts the thread.
    pub(crate) fn start(engines: Vec<wasmtime::Engine>) -> io::Result<Self> {
        let shared = Arc::new(TickerState::default());
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("epoch".to_owned()).spawn(move || {
            // Without this, the thread would wake up late on a busy machine, and guests would yield late.
            threads::set_short_time_slice();
            tick(&engines, &theirs);
        })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Keeps the epoch advancing while the guard lives.
    pub(crate) fn keep_ticking(&self) -> EpochGuard {
        // The thread does this in the reverse order: it stores that it sleeps, and then checks whether anything runs.
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

/// Held while a guest runs, or waits for a host function.
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

fn tick(engines: &[wasmtime::Engine], shared: &TickerState) {
    let mut idle: usize = 0;
    while !shared.is_stopped() {
        idle = if shared.is_idle() { idle.saturating_add(1) } else { 0 };
        if idle > IDLE_TICKS {
            shared.sleep();
            idle = 0;
        }
        thread::sleep(TICK);
        engines.iter().for_each(wasmtime::Engine::increment_epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::codegen_config;

    #[test]
    fn the_thread_sleeps_while_nothing_runs() {
        let ticker = Ticker::start(vec![wasmtime::Engine::new(&codegen_config()).unwrap()]).unwrap();
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
