//! The record of one observed call.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcp_host_config::limits::Limits;
use mcp_host_model::digest::Digest;
use mcp_host_sandbox::host_calls::HostCalls;
use mcp_host_sandbox::memory::MemoryAccount;
use mcp_host_sandbox::state::GuestState;
use parking_lot::Mutex;
use wasmtime::StoreContextMut;

use super::{Backtrace, CallObserver, CallReport, Sample};
use crate::CallOrigin;
use crate::cpu::CpuClock;
use crate::fault::Fault;

/// A plugin whose calls are observed.
pub(crate) struct ObservedPlugin {
    pub(crate) name: Arc<str>,
    pub(crate) component: Option<(Arc<Path>, Digest)>,
    pub(crate) observer: Arc<dyn CallObserver>,
    /// The number of calls so far.
    pub(crate) calls: AtomicU64,
}

/// The record of one call.
pub(crate) struct CallTrace {
    plugin: Arc<ObservedPlugin>,
    number: u64,
    function: &'static str,
    path: Option<Arc<str>>,
    origin: CallOrigin,
    began: Instant,
    clock: Arc<CpuClock>,
    pub(crate) host_calls: Arc<HostCalls>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    admitted: Option<Duration>,
    instantiation: Option<Duration>,
    guest_began: Option<Instant>,
    guest: Option<Duration>,
    memory: Option<Arc<MemoryAccount>>,
    /// The processor time at the last sample.
    sampled_cpu: Duration,
    /// The last stack of the computing guest.
    last_stack: Option<Backtrace>,
    /// The stack at the failure.
    failed_at: Option<Backtrace>,
}

impl CallTrace {
    pub(crate) fn begin(
        plugin: Arc<ObservedPlugin>,
        function: &'static str,
        path: Option<Arc<str>>,
        origin: CallOrigin,
        clock: Arc<CpuClock>,
    ) -> Arc<Self> {
        Arc::new(Self {
            number: plugin.calls.fetch_add(1, Ordering::Relaxed),
            plugin,
            function,
            path,
            origin,
            began: Instant::now(),
            clock,
            host_calls: Arc::default(),
            state: Mutex::default(),
        })
    }

    /// Records that the call has its permits.
    pub(crate) fn admitted(&self) {
        self.state.lock().admitted = Some(self.began.elapsed());
    }

    /// Records that the guest is about to be called, in an instance that took this time to create, or in a
    /// reused one.
    pub(crate) fn guest_begins(&self, instantiation: Option<Duration>) {
        let mut state = self.state.lock();
        state.instantiation = instantiation;
        state.guest_began = Some(Instant::now());
    }

    /// Records the account that the instance's memory is charged to.
    pub(crate) fn has_memory(&self, account: &Arc<MemoryAccount>) {
        self.state.lock().memory = Some(account.clone());
    }

    /// Records that the guest has answered or failed.
    pub(crate) fn guest_ended(&self, failed_at: Option<&Backtrace>) {
        let mut state = self.state.lock();
        state.guest = state.guest_began.map(|began| began.elapsed());
        state.failed_at = failed_at.cloned();
    }

    /// Samples the computing guest at a tick of the epoch. Must be called on the thread that polls the call.
    pub(crate) fn tick(&self, store: &StoreContextMut<'_, GuestState>) {
        let stack = Backtrace::capture(store);
        let cpu = self.clock.cpu_time();
        let mut state = self.state.lock();
        let since = cpu.saturating_sub(state.sampled_cpu);
        state.sampled_cpu = cpu;
        if self.plugin.observer.wants_samples() {
            let (plugin, function) = (&*self.plugin.name, self.function);
            let (origin, call) = (self.origin, self.number);
            self.plugin.observer.sampled(Sample { plugin, function, origin, call, cpu: since, stack: &stack });
        }
        state.last_stack = Some(stack);
    }

    /// Reports the ended call to the observer.
    pub(crate) fn end(&self, fault: Option<&Fault>, limits: &Limits) {
        let mut state = self.state.lock();
        let total = self.began.elapsed();
        let wait = state.admitted.unwrap_or(total);
        let guest = state.guest.or_else(|| state.guest_began.map(|began| began.elapsed())).unwrap_or_default();
        let instantiation = state.instantiation;
        let before = wait.saturating_add(instantiation.unwrap_or_default()).saturating_add(guest);
        // The error of a call that ends while its guest waits has no stack.
        let is_interrupted = matches!(fault, Some(Fault::Deadline(_) | Fault::Delayed(_)));
        let last_stack = state.last_stack.take().filter(|_| is_interrupted);
        let report = CallReport {
            plugin: self.plugin.name.clone(),
            component: self.plugin.component.clone(),
            function: self.function,
            path: self.path.clone(),
            origin: self.origin,
            fault: fault.cloned(),
            total,
            wait,
            instantiation,
            guest,
            validation: if state.guest.is_some() { total.saturating_sub(before) } else { Duration::ZERO },
            cpu: (self.clock.cpu_time(), limits.cpu.duration()),
            deadline: limits.deadline.duration(),
            memory: state.memory.as_ref().map(|account| (account.peak(), limits.memory.bytes())),
            host_calls: self.host_calls.totals(),
            last_host_calls: self.host_calls.last(),
            error_lines: self.host_calls.error_lines(),
            stack: state.failed_at.take().or(last_stack),
        };
        drop(state);
        self.plugin.observer.called(report);
    }
}
